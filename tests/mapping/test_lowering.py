"""The task graph of small mappings, counted by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import CapacityError, SlowpokeError
from slowpoke_mapping.graph import GRAPH_INPUT, Operator
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapping import FlowOfData, LayerGroup, LayerMapping, Mapping, Part
from slowpoke_mapping.program import Program, Role, TaskKind

Build = Any


def tasks(program: Program, kind: TaskKind, role: Role | None = None) -> list[int]:
    chosen = program.kind == kind
    if role is not None:
        chosen &= program.role == role
    return [int(t) for t in np.flatnonzero(chosen)]


def destinations(program: Program, task: int) -> list[int]:
    span = slice(program.dst_offsets[task], program.dst_offsets[task + 1])
    return [int(core) for core in program.dst_cores[span]]


def waits(program: Program, task: int) -> set[tuple[int, int]]:
    """(task waited for, lag)."""
    span = slice(program.dep_offsets[task], program.dep_offsets[task + 1])
    events = program.event_task[program.dep_events[span]].tolist()
    return set(zip(events, program.dep_lags[span].tolist(), strict=True))


def two_layers(
    build: Build, parts: Sequence[Part], cores: Sequence[tuple[int, ...]], **changes: object
) -> Mapping:
    box = (1, 4, 4, 4)
    graph = build.graph(build.conv("a", GRAPH_INPUT, box, 4), build.conv("b", 0, box, 4))
    settings: dict[str, Any] = {"topology": "mesh:2x2", "dram_routers": (0,), **changes}
    layers = tuple(
        LayerMapping(i, part, where, FlowOfData(0, 0, 0))
        for i, (part, where) in enumerate(zip(parts, cores, strict=True))
    )
    return Mapping(graph, ChipConfig(**settings), (LayerGroup(layers),), 4)


def test_pieces_that_need_the_same_rows_share_one_multicast(build: Build) -> None:
    # a: rows 0-1 on core 0, rows 2-3 on core 1; b: two halves of the channels on cores 2 and 3:
    # each half needs all of a, so each piece of a goes once, to both
    program = lower(two_layers(build, [Part(h=2), Part(k=2)], [(0, 1), (2, 3)]))
    sent = tasks(program, TaskKind.TRANSFER)
    assert [program.core[t] for t in sent] == [0, 1]
    assert [destinations(program, t) for t in sent] == [[2, 3], [2, 3]]
    assert program.message_bytes[sent].tolist() == [32.0, 32.0]  # 4 channels x 2 rows x 4 columns


def test_without_multicast_every_destination_has_its_own_message(build: Build) -> None:
    program = lower(two_layers(build, [Part(h=2), Part(k=2)], [(0, 1), (2, 3)], multicast=False))
    sent = tasks(program, TaskKind.TRANSFER)
    pairs = sorted((int(program.core[t]), *destinations(program, t)) for t in sent)
    assert pairs == [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert np.all(np.diff(program.dst_offsets) <= 1)


def test_pieces_that_need_different_rows_get_different_messages(build: Build) -> None:
    program = lower(two_layers(build, [Part(), Part(h=2)], [(0,), (2, 3)]))
    sent = tasks(program, TaskKind.TRANSFER)
    assert [destinations(program, t) for t in sent] == [[2], [3]]


def test_data_that_stays_in_its_core_is_a_dependency_and_no_message(build: Build) -> None:
    program = lower(two_layers(build, [Part(h=2), Part(h=2)], [(0, 1), (0, 1)]))
    assert tasks(program, TaskKind.TRANSFER) == []
    computes = tasks(program, TaskKind.COMPUTE)
    assert (computes[0], 0) in waits(program, computes[2])
    assert (computes[1], 0) not in waits(program, computes[2])


def test_weights_are_read_once_by_all_pieces_that_share_them(build: Build) -> None:
    program = lower(two_layers(build, [Part(h=2), Part(k=2)], [(0, 1), (2, 3)]))
    reads = tasks(program, TaskKind.DRAM_READ, Role.WEIGHT)
    assert sorted((tuple(destinations(program, t)), program.message_bytes[t]) for t in reads) == [
        ((0, 1), 16.0),  # a: both pieces need all 4 x 4 weights
        ((2,), 8.0),
        ((3,), 8.0),
    ]
    assert program.once[reads].all()


def test_inputs_come_from_and_outputs_go_to_the_port_of_the_flow(build: Build) -> None:
    program = lower(two_layers(build, [Part(h=2), Part(k=2)], [(0, 1), (2, 3)]))
    reads = tasks(program, TaskKind.DRAM_READ, Role.INPUT)
    assert [destinations(program, t) for t in reads] == [[0], [1]]
    writes = tasks(program, TaskKind.DRAM_WRITE)
    assert [int(program.core[t]) for t in writes] == [2, 3]
    assert set(program.port[reads + writes].tolist()) == {0}
    assert set(program.role[writes].tolist()) == {int(Role.OUTPUT)}


def test_interleaved_data_comes_in_equal_parts_from_every_port(build: Build) -> None:
    mapping = two_layers(
        build, [Part(), Part()], [(0,), (1,)], dram_routers=(0, 3), message_bytes=8.0
    )
    layers = tuple(LayerMapping(i, Part(), (i,)) for i in range(2))
    mapping = Mapping(mapping.graph, mapping.chip, (LayerGroup(layers),), 4)
    program = lower(mapping)
    reads = tasks(program, TaskKind.DRAM_READ, Role.INPUT)
    # 64 bytes: 32 from each of two ports, in 4 messages of 8
    assert sorted(program.port[reads].tolist()) == [0] * 4 + [1] * 4
    assert set(program.message_bytes[reads].tolist()) == {8.0}


def test_long_tensors_are_cut_into_equal_messages(build: Build) -> None:
    program = lower(two_layers(build, [Part(), Part()], [(0,), (1,)], message_bytes=30.0))
    sent = tasks(program, TaskKind.TRANSFER)
    assert program.message_bytes[sent].tolist() == [64 / 3] * 3


def test_a_producer_waits_for_its_consumers_of_two_units_before(build: Build) -> None:
    program = lower(two_layers(build, [Part(), Part()], [(0,), (1,)]))
    first, second = tasks(program, TaskKind.COMPUTE)
    assert (second, 2) in waits(program, first)
    (read,) = tasks(program, TaskKind.DRAM_READ, Role.INPUT)
    assert waits(program, read) == {(first, 2)}
    (write,) = tasks(program, TaskKind.DRAM_WRITE)
    assert (write, 2) in waits(program, second)
    assert waits(program, write) == {(second, 0)}


def test_a_skip_holds_as_many_units_more_as_it_skips_layers(build: Build) -> None:
    graph = build.residual()
    chip = ChipConfig(topology="mesh:3x2", dram_routers=(0,))
    layers = tuple(LayerMapping(i, Part(), (i,)) for i in range(5))
    program = lower(Mapping(graph, chip, (LayerGroup(layers),), 8))
    stem, a, b, total, _ = tasks(program, TaskKind.COMPUTE)
    assert {(a, 2), (total, 4)} <= waits(program, stem)  # stem > a > b > sum: two layers more
    assert (b, 2) in waits(program, a)


def test_work_is_shared_by_size_and_vector_work_takes_its_own_rate(build: Build) -> None:
    box = (1, 4, 5, 4)
    graph = build.graph(build.conv("a", GRAPH_INPUT, box, 4), build.add("s", 0, 0, box))
    chip = ChipConfig(topology="mesh:2x2", macs_per_cycle=100.0, vector_ops_per_cycle=10.0)
    layers = (LayerMapping(0, Part(h=2), (0, 1)), LayerMapping(1, Part(), (2,)))
    program = lower(Mapping(graph, chip, (LayerGroup(layers),)))
    # 320 MACs over 2 and 3 of 5 rows; 80 additions at ten MACs each
    assert program.work_macs[tasks(program, TaskKind.COMPUTE)].tolist() == [128.0, 192.0, 800.0]


def test_a_tensor_of_an_earlier_group_is_read_where_it_was_written(build: Build) -> None:
    graph = build.chain(layers=2)
    chip = ChipConfig(topology="mesh:2x2", dram_routers=(0, 3))
    groups = (
        LayerGroup((LayerMapping(0, Part(), (0,), FlowOfData(0, 0, 1)),)),
        LayerGroup((LayerMapping(1, Part(), (1,), FlowOfData(0, 0, 0)),)),
    )
    program = lower(Mapping(graph, chip, groups))
    second = range(program.group_offsets[1], program.group_offsets[2])
    (read,) = (t for t in tasks(program, TaskKind.DRAM_READ, Role.INPUT) if t in second)
    assert program.port[read] == 1


def test_weights_that_do_not_fit_are_read_again_for_every_unit(build: Build) -> None:
    graph = build.graph(build.linear("fc", GRAPH_INPUT, (1, 64, 1, 1), 64))
    chip = ChipConfig(topology="mesh:1x1", sram_bytes=1024.0)
    mapping = Mapping(graph, chip, (LayerGroup((LayerMapping(0, Part(), (0,)),)),), 4)
    program = lower(mapping)
    reads = tasks(program, TaskKind.DRAM_READ, Role.WEIGHT)
    assert program.message_bytes[reads].sum() == 4096.0
    assert not program.once[reads].any()
    (compute,) = tasks(program, TaskKind.COMPUTE)
    assert all((compute, 2) in waits(program, t) for t in reads)
    with pytest.raises(CapacityError, match="residency") as caught:
        lower(mapping, residency="resident")
    assert caught.value.tensor == "fc"
    assert caught.value.bound_bytes == 1024.0
    assert caught.value.demand_bytes == 4096 + 2 * 64 + 64


def test_a_row_that_does_not_fit_is_refused_with_the_buffer_that_would_do(build: Build) -> None:
    graph = build.graph(build.linear("fc", GRAPH_INPUT, (1, 64, 1, 1), 64))
    layer = LayerGroup((LayerMapping(0, Part(), (0,)),))
    # one output needs 64 inputs, 64 weights and itself
    with pytest.raises(CapacityError, match="at least 129"):
        lower(Mapping(graph, ChipConfig(topology="mesh:1x1", sram_bytes=128.0), (layer,)))
    lower(Mapping(graph, ChipConfig(topology="mesh:1x1", sram_bytes=129.0), (layer,)))


def test_no_inference_is_refused(build: Build) -> None:
    with pytest.raises(SlowpokeError, match="0 inferences"):
        lower(two_layers(build, [Part(), Part()], [(0,), (1,)]), inferences=0)


def _needed_elements(operator: Operator, region: np.ndarray[Any, Any]) -> int:
    """Input elements that a region of a convolution's output reads, one by one."""
    (edge,) = operator.inputs
    seen: set[tuple[int, ...]] = set()
    spatial = edge.windows[2]
    kernel = spatial.high - spatial.low
    for y in range(*region[2]):
        for x in range(*region[3]):
            for dy in range(kernel):
                for dx in range(kernel):
                    at = (y * spatial.mult + spatial.low + dy, x * spatial.mult + spatial.low + dx)
                    if 0 <= at[0] < edge.box[2] and 0 <= at[1] < edge.box[3]:
                        seen.add(at)
    return len(seen) * edge.box[1] * int(region[0, 1] - region[0, 0])


SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@SETTINGS
@given(data=st.data())
def test_every_byte_that_a_piece_needs_arrives_and_none_twice(
    build: Build, data: st.DataObject
) -> None:
    kernel = data.draw(st.sampled_from([1, 2, 3]))
    stride = data.draw(st.integers(1, kernel))
    pad = data.draw(st.integers(0, kernel - 1))
    size = data.draw(st.integers(3, 7))
    box = (1, 3, size, size)
    first = build.conv("a", GRAPH_INPUT, box, 3)
    second = build.conv("b", 0, box, 4, kernel, stride, pad)
    graph = build.graph(first, second)
    samples = data.draw(st.integers(1, 2))

    def part(operator: Operator) -> Part:
        _, k, h, w = operator.box
        return Part(
            k=data.draw(st.integers(1, min(k, 2))), b=data.draw(st.integers(1, samples)),
            h=data.draw(st.integers(1, min(h, 3))), w=data.draw(st.integers(1, min(w, 2))),
        )  # fmt: skip

    parts = [part(first), part(second)]
    cores = list(range(24))
    data.draw(st.randoms(use_true_random=False)).shuffle(cores)
    chip = ChipConfig(topology="mesh:6x4", message_bytes=16.0)
    layers = (
        LayerMapping(0, parts[0], tuple(cores[: parts[0].n_pieces])),
        LayerMapping(1, parts[1], tuple(cores[-parts[1].n_pieces :])),
    )
    mapping = Mapping(graph, chip, (LayerGroup(layers),), 2, samples)
    program = lower(mapping)
    local = _local_bytes(mapping, layers)
    for piece, (core, region) in enumerate(
        zip(layers[1].cores, mapping.pieces(layers[1]), strict=True)
    ):
        compute = parts[0].n_pieces + piece
        span = slice(program.dep_offsets[compute], program.dep_offsets[compute + 1])
        events = program.dep_events[span][program.dep_lags[span] == 0]
        sources = program.event_task[events]
        chosen = (program.role[sources] == Role.ACTIVATION) & (
            program.kind[sources] == TaskKind.TRANSFER
        )
        assert np.all(program.event_dst[events[chosen]] == core)
        arrived = float(program.message_bytes[sources[chosen]].sum())
        assert arrived + local[piece] == pytest.approx(_needed_elements(second, region))


def _local_bytes(mapping: Mapping, layers: tuple[LayerMapping, LayerMapping]) -> list[float]:
    """Bytes that each piece of the second layer finds in its own core, one by one."""
    (edge,) = mapping.graph[1].inputs
    produced = mapping.pieces(layers[0])
    result = []
    for core, region in zip(layers[1].cores, mapping.pieces(layers[1]), strict=True):
        total = 0.0
        for other, made in zip(layers[0].cores, produced, strict=True):
            if other == core:
                need = edge.needed(region, mapping.samples_per_unit)
                sides = np.minimum(need[:, 1], made[:, 1]) - np.maximum(need[:, 0], made[:, 0])
                total += float(np.prod(np.maximum(sides, 0)))
        result.append(total)
    return result
