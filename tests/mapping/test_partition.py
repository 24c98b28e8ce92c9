"""Partitions, core shares, DRAM ports and concatenations, by hand and against brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowpoke_mapping.bypass import without_concatenations
from slowpoke_mapping.capacity import volume
from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.graph import (
    GRAPH_INPUT,
    DimWindow,
    Edge,
    Operator,
    OperatorGraph,
    OpKind,
)
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.mapping import LayerGroup, LayerMapping, Part
from slowpoke_mapping.partition import choices
from slowpoke_mapping.placement import usable_order
from slowpoke_mapping.ports import with_ports
from slowpoke_mapping.segment import allocate

Build = Any


@settings(max_examples=80, deadline=None)
@given(
    box=st.tuples(*[st.integers(1, 9)] * 4),
    cuts=st.tuples(*[st.integers(1, 4)] * 4),
)
def test_pieces_tile_the_output_exactly_once(
    box: tuple[int, int, int, int], cuts: tuple[int, int, int, int]
) -> None:
    b, k, h, w = (min(c, e) for c, e in zip(cuts, box, strict=True))
    pieces = Part(k=k, b=b, h=h, w=w).pieces(box)
    seen = np.zeros(box, dtype=np.int64)
    for piece in pieces:
        seen[tuple(slice(low, high) for low, high in piece)] += 1
    assert np.all(seen == 1)
    assert volume(pieces).sum() == seen.size


def test_every_factorisation_of_the_core_count_is_tried(build: Build) -> None:
    judged = choices([build.conv("a", GRAPH_INPUT, (1, 16, 32, 32), 64)], ChipConfig(), 4, 1)
    i = judged.counts.index(12)
    found = {tuple(row) for row in judged.cuts[judged.offsets[i] : judged.offsets[i + 1]].tolist()}
    expected = {c for c in itertools.product(range(1, 13), repeat=4) if np.prod(c) == 12}
    assert found == expected


def test_a_batch_of_one_is_not_cut_along_the_batch(build: Build) -> None:
    judged = choices([build.conv("a", GRAPH_INPUT, (1, 16, 8, 8), 64)], ChipConfig(), 4, 1)
    assert np.all(np.isinf(judged.score[judged.cuts[:, 0] > 1]))
    best = judged.best(16)
    assert best is not None
    assert best.n_pieces == 16


@settings(max_examples=60, deadline=None)
@given(work=st.lists(st.integers(1, 50), min_size=1, max_size=4), spare=st.integers(0, 6))
def test_cores_are_shared_out_so_that_the_slowest_is_as_fast_as_can_be(
    work: list[int], spare: int
) -> None:
    n, n_cores = len(work), len(work) + spare
    amounts = np.array(work, dtype=np.float64)
    score = amounts[:, None] / np.arange(1, n_cores + 1)
    cores = np.zeros(n, dtype=np.int64)
    allocate(amounts, amounts, score, np.arange(n), n_cores, cores)
    assert cores.min() >= 1
    assert cores.sum() <= n_cores
    best = min(
        max(a / c for a, c in zip(work, split, strict=True))
        for split in itertools.product(range(1, n_cores + 1), repeat=n)
        if sum(split) <= n_cores
    )
    assert (amounts / cores).max() == pytest.approx(best)


def test_slow_cores_are_left_out_where_the_rest_is_faster() -> None:
    chip = ChipConfig(topology="mesh:2x2")
    assert set(usable_order(chip, np.array([1.0, 1.0, 0.5, 1.0])).tolist()) == {0, 1, 3}
    # four cores at 0.9 are worth more than three at 1
    assert len(usable_order(chip, np.array([1.0, 1.0, 0.9, 1.0]))) == 4


def test_small_tensors_get_a_port_each_and_a_large_one_all(build: Build) -> None:
    chip = ChipConfig(topology="mesh:4x4")
    box = (1, 4, 8, 8)
    layers = [build.conv("0", GRAPH_INPUT, (1, 4, 8, 8), 4)]
    layers += [build.conv(str(i), i - 1, box, 4) for i in range(1, 8)]
    graph = build.graph(*layers)
    group = LayerGroup(tuple(LayerMapping(i, Part(), (i,)) for i in range(8)))
    placed = with_ports(graph, chip, group, 1, 1)
    weights = [x.flow.weights for x in placed.layers]
    assert -2 not in weights
    assert max(weights.count(p) for p in range(4)) <= 3
    large = build.graph(build.linear("fc", GRAPH_INPUT, (1, 4096, 1, 1), 4096))
    (alone,) = with_ports(large, chip, LayerGroup((LayerMapping(0, Part(), (0,)),)), 1, 1).layers
    assert alone.flow.weights == -2


def concatenation(name: str, parts: list[tuple[int, int]], size: int) -> Operator:
    """Channels side by side."""
    edges, offset = [], 0
    for producer, channels in parts:
        edges.append(
            Edge(producer, (1, channels, size, size),
                 (DimWindow(0), DimWindow(1, low=-offset, high=1 - offset), DimWindow(2),
                  DimWindow(3)))
        )  # fmt: skip
        offset += channels
    return Operator(name, OpKind.CONCAT, (1, offset, size, size), tuple(edges))


def branches(build: Build) -> OperatorGraph:
    box = (1, 3, 8, 8)
    pool = Operator(
        "pool", OpKind.POOL, (1, 10, 4, 4),
        (Edge(2, (1, 10, 8, 8), (DimWindow(0), DimWindow(1), DimWindow(2, mult=2, high=2),
                                 DimWindow(3, mult=2, high=2))),),
        vector_ops=640,
    )  # fmt: skip
    graph: OperatorGraph = build.graph(
        build.conv("a", GRAPH_INPUT, box, 4), build.conv("b", GRAPH_INPUT, box, 6),
        concatenation("cat", [(0, 4), (1, 6)], 8), pool,
        build.conv("c", 2, (1, 10, 8, 8), 5),
    )  # fmt: skip
    return graph


def test_readers_of_a_concatenation_read_its_parts(build: Build) -> None:
    graph = branches(build)
    direct = without_concatenations(graph)
    assert [operator.name for operator in direct] == ["a", "b", "pool", "c"]
    assert direct.macs == graph.macs
    # channels 3 to 6 of the pool: the last of a's four, and the first three of b's six
    region = np.array([[0, 1], [3, 7], [1, 3], [0, 4]])
    needs = [edge.needed(region) for edge in direct[2].inputs]
    assert needs[0].tolist() == [[0, 1], [3, 4], [2, 6], [0, 8]]
    assert needs[1].tolist() == [[0, 1], [0, 3], [2, 6], [0, 8]]
    assert [edge.needed(region)[1].tolist() for edge in direct[3].inputs] == [[0, 4], [0, 6]]
    assert "cat" in direct.notes[-1]


def test_a_concatenation_that_leaves_the_graph_stays(build: Build) -> None:
    box = (1, 3, 8, 8)
    graph = build.graph(
        build.conv("a", GRAPH_INPUT, box, 4), build.conv("b", GRAPH_INPUT, box, 6),
        concatenation("cat", [(0, 4), (1, 6)], 8),
    )  # fmt: skip
    assert without_concatenations(graph) is graph


def test_a_mapping_without_concatenations_is_read_back_with_the_model_s_graph(build: Build) -> None:
    from slowpoke_mapping.mapping import Mapping

    graph = branches(build)
    mapping = map_graph(graph, ChipConfig(topology="mesh:3x2"))
    assert Mapping.from_json(mapping.to_json(), graph) == mapping
