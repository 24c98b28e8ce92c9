"""Loads, estimates and Gemini's formulas, by pencil, by an independent count and by symmetry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.cost import estimate, speeds_of
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.gemini import gemini_cost
from slowpoke_mapping.graph import GRAPH_INPUT
from slowpoke_mapping.load import group_load
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.mapping import FlowOfData, LayerGroup, LayerMapping, Mapping, Part
from slowpoke_mapping.pipeline import Stages, pipeline_run
from slowpoke_mapping.program import Program, TaskKind
from slowpoke_mapping.routes import routes_of
from slowpoke_mapping.search import Surroundings, improve_group, layers_of, net_of, state_of
from slowpoke_mapping.segment import Weights
from slowpoke_mapping.topology import Mesh
from slowpoke_mapping.traffic import group_plan

Build = Any
SETTINGS = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def placements(draw: st.DrawFn, n_layers: int, width: int, height: int) -> list[LayerMapping]:
    """Layers cut along k and h, on random cores, with random ports."""
    cores = draw(st.permutations(range(width * height)))
    layers, at = [], 0
    for op in range(n_layers):
        room = max(1, (len(cores) - at) // (n_layers - op))
        part = Part(k=draw(st.integers(1, min(2, room))), h=1)
        rows = 1 if op == n_layers - 1 else min(3, room // part.k)  # the last is a linear layer
        part = replace(part, h=draw(st.integers(1, rows)))
        port = st.sampled_from([-2, 0, 1, 2, 3])
        flow = FlowOfData(draw(port), draw(port), draw(port))
        layers.append(LayerMapping(op, part, tuple(cores[at : at + part.n_pieces]), flow))
        at += part.n_pieces
    return layers


def brute_load(program: Program) -> np.ndarray[Any, Any]:
    """Bytes on every link for one unit with the weights: each route walked, each tree once."""
    chip = program.chip
    total = np.zeros(chip.n_links)
    for t in range(program.n_tasks):
        kind = program.kind[t]
        if kind == TaskKind.COMPUTE:
            continue
        port = chip.dram_ports[program.port[t]] if program.port[t] >= 0 else -1
        source = port if kind == TaskKind.DRAM_READ else int(program.core[t])
        ends = program.dst_cores[program.dst_offsets[t] : program.dst_offsets[t + 1]].tolist()
        ends = [port] if kind == TaskKind.DRAM_WRITE else ends
        links = {link for end in ends for link in chip.network.route(source, end)}
        for link in links:
            total[link] += program.message_bytes[t]
    return total


@SETTINGS
@given(data=st.data())
def test_byte_hops_are_the_sum_of_link_loads_and_loads_those_of_the_program(
    build: Build, data: st.DataObject
) -> None:
    graph = build.residual(6, 6)
    layers = data.draw(placements(len(graph), 4, 3))
    chip = ChipConfig(topology="mesh:4x3", message_bytes=100.0)
    mapping = Mapping(graph, chip, (LayerGroup(tuple(layers)),), 1)
    load = group_load(group_plan(mapping, 0), chip, routes_of(chip.network))
    every = np.ones(len(load.once), dtype=bool)
    links = load.channel_bytes(every)[: chip.n_links]
    np.testing.assert_allclose(links, brute_load(lower(mapping, inferences=1)), atol=1e-6)
    assert load.byte_hops(1) == pytest.approx(links.sum())


@SETTINGS
@given(data=st.data())
def test_the_search_sees_the_load_that_the_estimate_sees(build: Build, data: st.DataObject) -> None:
    from slowpoke_mapping.anneal import evaluate, make_work
    from slowpoke_mapping.search import value_of

    graph = build.residual(6, 6)
    layers = data.draw(placements(len(graph), 4, 3))
    multicast = data.draw(st.booleans())
    chip = ChipConfig(topology="mesh:4x3", multicast=multicast)
    units = data.draw(st.integers(1, 5))
    group = LayerGroup(tuple(layers))
    mapping = Mapping(graph, chip, (group,), units)
    load = group_load(group_plan(mapping, 0), chip, routes_of(chip.network))
    expected = units * load.channel_bytes(~load.once) + load.channel_bytes(load.once)
    speeds = speeds_of(chip)
    around = Surroundings(
        graph, chip, units, 1, speeds, routes_of(chip.network), np.arange(12), None, {},  # type: ignore[arg-type]
    )  # fmt: skip
    arrays, net = layers_of(around, group), net_of(chip, speeds, around.routes)
    state = state_of(group, 12)
    work = make_work(arrays, net, 12)
    evaluate(arrays, net, value_of(chip, Weights()), state, work)
    np.testing.assert_allclose(work.load, expected, atol=1e-6)
    assert work.totals[0] == pytest.approx(load.byte_hops(units))
    assert work.timing.dram[1] == pytest.approx(load.dram_bytes(units))


def mirrored(mapping: Mapping) -> Mapping:
    """The same mapping on a chip turned left to right, its DRAM ports with it."""
    width = mapping.chip.network.columns or 1

    def flip(router: int) -> int:
        return router - router % width + width - 1 - router % width

    chip = mapping.chip.replace(dram_routers=tuple(flip(p) for p in mapping.chip.dram_ports))
    groups = tuple(
        LayerGroup(tuple(replace(x, cores=tuple(flip(c) for c in x.cores)) for x in g.layers))
        for g in mapping.groups
    )
    return replace(mapping, chip=chip, groups=groups)


@SETTINGS
@given(data=st.data())
def test_a_mirrored_chip_costs_the_same(build: Build, data: st.DataObject) -> None:
    graph = build.residual(6, 6)
    layers = data.draw(placements(len(graph), 4, 3))
    mapping = Mapping(graph, ChipConfig(topology="mesh:4x3"), (LayerGroup(tuple(layers)),), 3)
    ours, theirs = estimate(mapping), estimate(mirrored(mapping))
    assert theirs.cycles == pytest.approx(ours.cycles)
    assert theirs.byte_hops == pytest.approx(ours.byte_hops)
    assert theirs.energy_pj == pytest.approx(ours.energy_pj)
    one, two = gemini_cost(mapping), gemini_cost(mirrored(mapping))
    assert two.byte_hops == pytest.approx(one.byte_hops)
    assert two.cycles == one.cycles


def test_a_single_convolution_takes_read_compute_and_write_one_after_the_other(
    build: Build,
) -> None:
    graph = build.graph(build.conv("a", GRAPH_INPUT, (1, 4, 8, 8), 4))
    chip = ChipConfig(
        topology="mesh:1x1", macs_per_cycle=1.0, link_bytes_per_cycle=16.0,
        dram_bytes_per_cycle=8.0, dram_latency_cycles=10.0,
    )  # fmt: skip
    mapping = Mapping(graph, chip, (LayerGroup((LayerMapping(0, Part(), (0,)),)),), 1)
    # weights 10 + 16/8, input 10 + 256/8 after them, 1,024 MACs, output 10 + 256/8
    assert estimate(mapping).cycles == 12 + 42 + 1024 + 42
    # 16 + 256 in, 256 out
    assert estimate(mapping).dram_bytes == 528
    assert estimate(mapping).byte_hops == 0


def test_a_pipeline_fills_and_then_takes_its_slowest_stage() -> None:
    none = np.zeros((3, 1))
    stages = Stages(
        cycles=np.array([5.0, 9.0, 2.0]), server=np.array([0, 1, 2]),
        edge_from=np.array([0, 1]), edge_to=np.array([1, 2]), edge_gap=np.array([1.0, 1.0]),
        edge_lag=np.array([2, 2]), read_port=none, read_pass=np.zeros(3), once_port=none,
        once_pass=np.zeros(3), write_port=none, write_pass=np.zeros(3),
        reads=np.zeros(3, dtype=bool), writes=np.zeros(3, dtype=bool), depth=2, units=4,
    )  # fmt: skip
    assert pipeline_run(stages, 3) == (5 + 1 + 9 + 1 + 2, 18 + 3 * 9)
    # with one buffer, a stage and its successor take turns: 5 + 1 + 9 a unit
    taking_turns = stages._replace(edge_lag=np.array([1, 1]))
    assert pipeline_run(taking_turns, 3) == (18, 18 + 3 * 15)


def test_gemini_counts_the_edge_links_and_spreads_over_the_rows_of_a_controller(
    build: Build,
) -> None:
    # one core of a 2x2 mesh reads everything from controller 0, west of row 0: one link a byte
    graph = build.graph(build.conv("a", GRAPH_INPUT, (1, 4, 8, 8), 4))
    chip = ChipConfig(topology="mesh:2x2")
    layer = LayerMapping(0, Part(), (0,), FlowOfData(0, 0, 0))
    cost = gemini_cost(Mapping(graph, chip, (LayerGroup((layer,)),), 1))
    assert cost.byte_hops == 528
    assert cost.dram_bytes == 528
    assert cost.core_byte_hops == 0
    assert cost.segments[0].noc_cycles == -(-272 // 32)
    assert cost.segments[0].dram_cycles == -(-528 // 32)
    # on a 2x4 mesh the controller has rows 0 and 1: half of every byte takes one link more
    tall = ChipConfig(topology="mesh:2x4")
    assert gemini_cost(Mapping(graph, tall, (LayerGroup((layer,)),), 1)).byte_hops == 528 * 1.5


def test_gemini_needs_a_mesh(build: Build) -> None:
    chip = ChipConfig(topology="ring:4")
    mapping = map_graph(build.chain(layers=1), chip, search=False)
    with pytest.raises(SlowpokeError, match="those of a mesh"):
        gemini_cost(mapping)


@pytest.mark.parametrize("spec", ["mesh:5x3", "ring:7"])
def test_many_routes_at_once_are_the_topologys_routes(spec: str) -> None:
    chip = ChipConfig(topology=spec)
    n = chip.n_cores
    src, dst = np.divmod(np.arange(n * n), n)
    links, counts = routes_of(chip.network).paths(src, dst)
    expected = [chip.network.route(int(a), int(b)) for a, b in zip(src, dst, strict=True)]
    assert counts.tolist() == [len(route) for route in expected]
    assert links.tolist() == [link for route in expected for link in route]
    assert isinstance(chip.network, Mesh) == (spec == "mesh:5x3")


def test_annealing_returns_a_group_of_the_same_layers(build: Build) -> None:
    graph, chip = build.residual(32, 16), ChipConfig(topology="mesh:4x4")
    mapping = map_graph(graph, chip, search=False)
    from slowpoke_mapping.partition import choices

    around = Surroundings(
        graph, chip, 4, 1, speeds_of(chip), routes_of(chip.network), np.arange(16),
        lambda ops: choices([graph[op] for op in ops], chip, 4, 1), dict.fromkeys(range(5), -2),
    )  # fmt: skip
    for group in mapping.groups:
        found, done = improve_group(around, group, Weights(1.0, 0.01), 2000, seed=5)
        assert done == 2000
        assert [x.operator for x in found.layers] == [x.operator for x in group.layers]
