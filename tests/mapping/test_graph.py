"""The operator graph's own rules, with numbers had by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import (
    GRAPH_INPUT,
    IDENTITY,
    Box,
    DimWindow,
    Edge,
    Operator,
    OperatorGraph,
    OpKind,
)


def operator(name: str, *inputs: Edge, box: Box = (1, 4, 8, 8), macs: int = 10) -> Operator:
    return Operator(name=name, kind=OpKind.CONV, box=box, inputs=inputs, macs=macs)


def region(*ranges: tuple[int, int]) -> np.ndarray:
    return np.array(ranges, dtype=np.int64)


IMAGE = Edge(GRAPH_INPUT, (1, 3, 16, 16))
HALO = (DimWindow(0), DimWindow(), DimWindow(2, mult=2, low=-1, high=2),
        DimWindow(3, mult=2, low=-1, high=2))  # fmt: skip


def test_a_strided_convolution_needs_its_halo() -> None:
    edge = Edge(GRAPH_INPUT, (1, 3, 16, 16), HALO)
    needed = edge.needed(region((0, 1), (0, 4), (2, 4), (0, 8)))
    # rows 2 and 3 with stride 2, padding 1, kernel 3: rows 3..7; columns are clipped at 0
    assert needed.tolist() == [[0, 1], [0, 3], [3, 8], [0, 16]]


def test_a_part_of_a_concatenation_needs_only_its_own_channels() -> None:
    window = (DimWindow(0), DimWindow(1, low=-4, high=-3), DimWindow(2), DimWindow(3))
    edge = Edge(GRAPH_INPUT, (1, 2, 8, 8), window)
    assert edge.needed(region((0, 1), (3, 5), (0, 8), (0, 8)))[1].tolist() == [0, 1]
    outside = edge.needed(region((0, 1), (0, 4), (0, 8), (0, 8)))[1]
    assert outside[0] == outside[1]


def test_a_group_needs_its_own_inputs() -> None:
    window = (DimWindow(0), DimWindow(1, den=4, mult=2, high=2), DimWindow(2), DimWindow(3))
    edge = Edge(GRAPH_INPUT, (1, 4, 8, 8), window)
    assert edge.needed(region((0, 1), (0, 4), (0, 8), (0, 8)))[1].tolist() == [0, 2]
    assert edge.needed(region((0, 1), (3, 5), (0, 8), (0, 8)))[1].tolist() == [0, 4]


def test_samples_scale_the_batch_and_nothing_else() -> None:
    edge = Edge(GRAPH_INPUT, (2, 3, 4, 4), (DimWindow(0), DimWindow(), DimWindow(2), DimWindow()))
    needed = edge.needed(region((4, 6), (0, 4), (1, 2), (0, 4)), scale_b=3)
    assert needed.tolist() == [[4, 6], [0, 3], [1, 2], [0, 4]]


def test_nothing_is_needed_for_nothing() -> None:
    edge = Edge(GRAPH_INPUT, (1, 3, 16, 16), HALO)
    needed = edge.needed(region((0, 1), (0, 4), (3, 3), (0, 8)))
    assert needed[2, 0] == needed[2, 1]


@given(
    low=st.integers(0, 15), size=st.integers(1, 16), stride=st.integers(1, 3),
    pad=st.integers(0, 3), reach=st.integers(1, 5),
)  # fmt: skip
def test_a_region_needs_what_its_elements_need(
    low: int, size: int, stride: int, pad: int, reach: int
) -> None:
    window = DimWindow(2, mult=stride, low=-pad, high=reach - pad)
    edge = Edge(GRAPH_INPUT, (1, 1, 20, 1), (DimWindow(0), DimWindow(), window, DimWindow()))
    whole = edge.needed(region((0, 1), (0, 1), (low, low + size), (0, 1)))[2]
    parts = np.stack([region((0, 1), (0, 1), (i, i + 1), (0, 1)) for i in range(low, low + size)])
    each = edge.needed(parts)[:, 2]
    filled = each[each[:, 0] < each[:, 1]]
    if len(filled) == size:
        assert whole.tolist() == [filled[:, 0].min(), filled[:, 1].max()]
    elif len(filled):  # an end that reads only padding may reach up to the edge of the input
        assert whole[0] <= filled[:, 0].min()
        assert filled[:, 1].max() <= whole[1]


def test_tied_weights_count_once() -> None:
    first = replace(operator("a", IMAGE), weight_elements=100, weights_key="w")
    second = replace(operator("b", Edge(0, (1, 4, 8, 8))), weight_elements=100, weights_key="w")
    third = replace(operator("c", Edge(1, (1, 4, 8, 8))), weight_elements=7)
    graph = OperatorGraph("tied", (first, second, third))
    assert graph.weight_elements == 107
    assert graph.weight_bytes == 428
    assert graph.macs == 30
    assert graph.flops == 60


def test_operators_without_readers_leave_the_graph() -> None:
    graph = OperatorGraph(
        "fork", (operator("a", IMAGE), operator("b", Edge(0, (1, 4, 8, 8))),
                 operator("c", Edge(0, (1, 4, 8, 8)))),
    )  # fmt: skip
    assert graph.outputs == (1, 2)
    assert graph.consumers(0) == (1, 2)
    assert graph.consumers(2) == ()


def test_the_fingerprint_changes_with_a_size_and_with_nothing_else() -> None:
    graph = OperatorGraph("one", (operator("a", IMAGE),))
    assert graph.fingerprint == OperatorGraph("two", (operator("a", IMAGE),)).fingerprint
    assert graph.fingerprint != OperatorGraph("one", (operator("a", IMAGE, macs=11),)).fingerprint


@pytest.mark.parametrize(
    ("operators", "words"),
    [
        ((), "has no operator"),
        ((operator("a", IMAGE), operator("a", IMAGE)), "names are unique"),
        ((operator("a", Edge(1, (1, 4, 8, 8))),), "topological order"),
        ((operator("a", IMAGE), operator("b", Edge(0, (1, 4, 8, 9)))), "reads a tensor of box"),
    ],
)
def test_a_wrong_graph_is_told_in_a_sentence(operators: tuple[Operator, ...], words: str) -> None:
    with pytest.raises(SlowpokeError, match=words):
        OperatorGraph("wrong", operators)


def test_wrong_sizes_are_told_in_a_sentence() -> None:
    with pytest.raises(SlowpokeError, match="at least 1"):
        operator("a", box=(1, 0, 8, 8))
    with pytest.raises(SlowpokeError, match="negative"):
        operator("a", macs=-1)
    with pytest.raises(SlowpokeError, match=r"dim is -1\.\.3"):
        DimWindow(4)


def test_identity_windows_need_the_same_region() -> None:
    wanted = region((0, 1), (1, 3), (2, 7), (0, 8))
    assert Edge(GRAPH_INPUT, (1, 4, 8, 8), IDENTITY).needed(wanted).tolist() == wanted.tolist()
