"""The mapper on small graphs: what it must always do, and what it does around slow places."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.cost import estimate
from slowpoke_mapping.errors import CapacityError, SlowpokeError
from slowpoke_mapping.graph import GRAPH_INPUT, OperatorGraph
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import batch_units, map_graph
from slowpoke_mapping.mapping import Mapping

Build = Any
SETTINGS = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SMALL = ChipConfig(topology="mesh:3x2")


@pytest.fixture
def network(build: Build) -> OperatorGraph:
    graph: OperatorGraph = build.residual(32, 16)
    return graph


def test_every_operator_is_mapped_once_and_lowers(network: OperatorGraph) -> None:
    mapping = map_graph(network, SMALL)
    operators = [layer.operator for group in mapping.groups for layer in group.layers]
    assert sorted(operators) == list(range(len(network)))
    assert lower(mapping, inferences=4).n_groups == len(mapping.groups)


def test_an_addition_shares_its_producers_cores_and_cuts(network: OperatorGraph) -> None:
    mapping = map_graph(network, SMALL, search=False)
    by_operator = {x.operator: (g, x) for g, grp in enumerate(mapping.groups) for x in grp.layers}
    (group_b, b), (group_sum, total) = by_operator[2], by_operator[3]
    assert group_b == group_sum
    assert (b.cores, b.part) == (total.cores, total.part)


def test_the_same_seed_gives_the_same_mapping(network: OperatorGraph) -> None:
    one, two = (map_graph(network, SMALL, seed=3, evaluations=3000) for _ in range(2))
    assert one.groups == two.groups


@SETTINGS
@given(
    seed=st.integers(0, 1000),
    objective=st.sampled_from(["energy", "edp"]),
    shape=st.sampled_from(["mesh:1x1", "mesh:3x2", "mesh:4x1"]),
    batch=st.integers(1, 6),
)
def test_the_search_is_never_worse_than_its_start(
    build: Build, seed: int, objective: str, shape: str, batch: int
) -> None:
    graph, chip = build.residual(16, 8), ChipConfig(topology=shape)
    costs = [
        estimate(
            map_graph(graph, chip, objective=objective, batch=batch, seed=seed, search=search,
                      evaluations=400)
        )
        for search in (False, True)
    ]  # fmt: skip
    start, found = (c.edp if objective == "edp" else c.energy_pj for c in costs)
    assert found <= start * (1 + 1e-9)


def test_a_search_finds_what_the_start_leaves_on_the_table(build: Build) -> None:
    graph, chip = build.residual(64, 16), ChipConfig(topology="mesh:4x4")
    start, found = (
        estimate(map_graph(graph, chip, objective="energy", search=search)).byte_hops
        for search in (False, True)
    )
    assert found < start


def test_a_core_at_a_tenth_of_its_speed_is_left_alone(network: OperatorGraph) -> None:
    speed = [1.0, 1.0, 0.1, 1.0, 1.0, 1.0]
    mapping = map_graph(network, SMALL, core_speed=speed)
    used = {core for group in mapping.groups for layer in group.layers for core in layer.cores}
    assert 2 not in used
    assert len(used) > 1
    healthy = map_graph(network, SMALL)
    assert estimate(mapping, core_speed=speed).cycles < estimate(healthy, core_speed=speed).cycles


def test_traffic_goes_around_a_slow_link(build: Build) -> None:
    graph, chip = build.residual(64, 16), ChipConfig(topology="mesh:4x4")
    healthy = map_graph(graph, chip)
    from slowpoke_mapping.load import group_load
    from slowpoke_mapping.routes import routes_of
    from slowpoke_mapping.traffic import group_plan

    def carried(mapping: Mapping) -> np.ndarray[Any, Any]:
        total = np.zeros(chip.n_links)
        for g in range(len(mapping.groups)):
            load = group_load(group_plan(mapping, g), chip, routes_of(chip.network))
            total += load.channel_bytes(np.ones(len(load.once), dtype=bool))[: chip.n_links]
        return total

    busiest = int(carried(healthy).argmax())
    speed = np.ones(chip.n_links)
    speed[busiest] = 0.02
    around = map_graph(graph, chip, link_speed=speed.tolist(), evaluations=20_000)
    assert carried(around)[busiest] < carried(healthy)[busiest]


def test_a_mapping_is_read_back_from_its_json(network: OperatorGraph) -> None:
    mapping = map_graph(network, SMALL)
    assert Mapping.from_json(mapping.to_json(), network) == mapping
    other = json.loads(mapping.to_json()) | {"graph": "0" * 16}
    with pytest.raises(SlowpokeError, match="another graph"):
        Mapping.from_json(json.dumps(other), network)


def test_progress_is_told_and_ends_at_the_total(network: OperatorGraph) -> None:
    told: list[tuple[int, int]] = []
    map_graph(network, SMALL, evaluations=500, progress=lambda a, b: told.append((a, b)))
    assert told[-1] == (500, 500)
    assert told == sorted(told)


def test_a_function_can_be_the_objective(network: OperatorGraph) -> None:
    by_function = map_graph(network, SMALL, objective=lambda cycles, pj: cycles * pj, seed=1)
    by_name = map_graph(network, SMALL, objective="edp", seed=1)
    assert by_function.groups == by_name.groups


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": "speed"}, "choose latency, energy, edp"),
        ({"objective": lambda cycles, pj: 7.0}, "grows with neither"),
        ({"batch": 0}, "batch 0"),
        ({"core_speed": [1.0]}, "6 finite factors"),
        ({"core_speed": [0.0] * 6}, "at least one must be above 0"),
        ({"link_speed": [float("nan")] * 14}, "14 finite factors"),
        ({"residency": "cached"}, "streamed or resident"),
        ({"evaluations": -1}, "-1 evaluations"),
        ({"seconds": 0.0}, "0.0 seconds"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_bad_values_are_refused_in_one_sentence(
    network: OperatorGraph, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(SlowpokeError, match=words):
        map_graph(network, SMALL, **options)


def test_a_model_that_cannot_stay_on_the_chip_is_refused_only_when_it_must_stay(
    build: Build,
) -> None:
    graph = build.graph(build.linear("fc", GRAPH_INPUT, (1, 256, 1, 1), 512))
    chip = ChipConfig(topology="mesh:2x2", sram_bytes=16 * 1024.0)
    # 131,072 weights over four cores of 16 KiB
    with pytest.raises(CapacityError) as caught:
        map_graph(graph, chip, residency="resident")
    assert caught.value.tensor == "fc"
    assert caught.value.demand_bytes > 16 * 1024
    assert lower(map_graph(graph, chip)).n_tasks > 0
    fits = chip.replace(sram_bytes=caught.value.demand_bytes)
    assert lower(map_graph(graph, fits, residency="resident"), residency="resident").once.any()


def test_a_batch_is_divided_in_every_way() -> None:
    assert batch_units(SMALL, 4) == [(4, 1), (2, 2), (1, 4)]
    assert batch_units(SMALL, None) == [(SMALL.units_per_batch, SMALL.samples_per_unit)]


def test_more_cores_than_a_layer_can_use_stay_idle(build: Build) -> None:
    graph = build.graph(build.linear("fc", GRAPH_INPUT, (1, 4, 1, 1), 3))
    mapping = map_graph(graph, ChipConfig(topology="mesh:8x8"))
    assert 1 <= len(mapping.groups[0].layers[0].cores) <= 3
