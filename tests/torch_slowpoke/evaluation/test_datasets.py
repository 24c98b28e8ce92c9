import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy import stats

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Core, DramPort, Link, Router
from slowpoke_mapping.topology import parse_topology
from torch_slowpoke.evaluation.datasets import (
    DATASETS,
    FAULT,
    SPLITS,
    Case,
    Dataset,
    dataset_named,
    streams,
)
from torch_slowpoke.evaluation.sampling import HotCores, SpatialPatterns, core_turn
from torch_slowpoke.evaluation.spatial import PATTERNS, SCRATCH_WIDTH, coordinates, radius
from torch_slowpoke.evaluation.workloads import World

RUN_CYCLES = 1e6


def on_mesh(mesh: str = "mesh:4x4", utilisation: Any = None) -> World:
    """What a generator reads of a world, without running anything."""
    chip = ChipConfig(topology=mesh)
    busy = np.ones(chip.n_cores) if utilisation is None else utilisation
    return cast(World, SimpleNamespace(chip=chip, healthy_cycles=RUN_CYCLES, utilisation=busy))


def drawn(dataset: Dataset, n: int, mesh: str = "mesh:4x4") -> list[tuple[Fault, ...]]:
    home = on_mesh(mesh)
    return [
        dataset.faults(streams(dataset.name, "test", Case(FAULT, i), 0, 0)[0], home, i)
        for i in range(n)
    ]


@pytest.mark.parametrize("name", DATASETS)
def test_every_fault_lies_on_the_chip_and_inside_the_run(name: str) -> None:
    chip = ChipConfig(topology="mesh:4x4")
    for faults in drawn(DATASETS[name], 60):
        for fault in faults:
            assert chip.check_place(fault.place) == fault.place
            assert 0 <= fault.start_cycles < fault.end_cycles <= RUN_CYCLES


@pytest.mark.parametrize("name", DATASETS)
def test_no_case_appears_twice(name: str) -> None:
    texts = [" ".join(map(str, faults)) for faults in drawn(DATASETS[name], 400)]
    assert len(set(texts)) == 400


@pytest.mark.parametrize("name", DATASETS)
def test_a_case_is_drawn_again_alike(name: str) -> None:
    assert drawn(DATASETS[name], 5) == drawn(DATASETS[name], 5)


def test_the_papers_set_has_seven_cores_for_three_links_at_ten_times() -> None:
    cases = [faults[0] for faults in drawn(DATASETS["slowpoke-152"], 152)]
    kinds = Counter(type(fault.place) for fault in cases)
    assert kinds == {Core: 106, Link: 46}  # floor(152 x 0.7) and the rest
    assert {fault.slowdown for fault in cases} == {10.0}
    dataset = DATASETS["slowpoke-152"]
    assert (dataset.n_positives, dataset.n_negatives) == (152, 152)


def test_the_balanced_set_crosses_kinds_with_slowdowns() -> None:
    cases = [faults[0] for faults in drawn(DATASETS["balanced"], 150)]
    cells = Counter((type(fault.place), fault.slowdown) for fault in cases)
    assert cells == {(kind, k): 15 for kind in (Core, Link) for k in (1.2, 1.5, 2.0, 5.0, 10.0)}


def test_uniform_onsets_and_durations_are_cut_at_the_end_of_the_run() -> None:
    cases = [faults[0] for faults in drawn(DATASETS["slowpoke-152"], 1500)]
    start = np.array([fault.start_cycles for fault in cases]) / RUN_CYCLES
    end = np.array([fault.end_cycles for fault in cases]) / RUN_CYCLES
    assert stats.kstest(start, "uniform").pvalue > 0.01
    # P(start + duration >= 1) = 1/2 for two uniforms
    assert stats.binomtest(int((end == 1).sum()), len(end), 0.5).pvalue > 0.01
    # given that it is not cut, a duration has density 2 (1 - d): its distribution is 1 - (1 - d)^2
    whole = (end - start)[end < 1]
    assert stats.kstest(whole, lambda d: 1 - (1 - d) ** 2).pvalue > 0.01


def test_log_uniform_durations_are_even_in_the_logarithm() -> None:
    cases = [faults[0] for faults in drawn(DATASETS["balanced"], 4000)]
    early = [f for f in cases if f.start_cycles < 0.05 * RUN_CYCLES and f.end_cycles < RUN_CYCLES]
    decades = np.log10([(f.end_cycles - f.start_cycles) / RUN_CYCLES for f in early])
    assert len(early) > 100
    assert stats.kstest(decades, stats.uniform(-3, 3).cdf).pvalue > 0.01


def test_cores_and_links_are_drawn_alike() -> None:
    cases = [faults[0].place for faults in drawn(DATASETS["slowpoke-152"], 3000)]
    cores = Counter(place for place in cases if isinstance(place, Core))
    links = Counter(place for place in cases if isinstance(place, Link))
    assert len(cores) == 16 and len(links) == 24
    assert all(link.both for link in links)
    assert stats.chisquare(list(cores.values())).pvalue > 0.01
    assert stats.chisquare(list(links.values())).pvalue > 0.01


def test_other_kinds_of_places_have_sets_of_their_own() -> None:
    assert {type(faults[0].place) for faults in drawn(DATASETS["router"], 30)} == {Router}
    assert {type(faults[0].place) for faults in drawn(DATASETS["dram"], 30)} == {DramPort}
    several = drawn(DATASETS["multi"], 40)
    assert Counter(map(len, several)) == {2: 20, 3: 20}
    assert all(len({fault.place for fault in faults}) == len(faults) for faults in several)


def test_splits_attempts_and_negatives_have_streams_of_their_own() -> None:
    seeds = {
        streams("balanced", split, Case(kind, index), attempt, seed)[1]
        for split in SPLITS
        for kind in (FAULT, "seed")
        for index in range(20)
        for attempt in range(3)
        for seed in range(2)
    }
    assert len(seeds) == 3 * 2 * 20 * 3 * 2
    with pytest.raises(SlowpokeError, match="split 'train' is unknown"):
        streams("balanced", "train", Case(FAULT, 0), 0, 0)


def test_center_falls_off_outwards_and_edge_ring_inwards() -> None:
    network, rng = parse_topology("mesh:8x8"), np.random.default_rng(0)
    rings = radius(network)
    assert sorted(set(rings.round(6))) == [pytest.approx(x / 7, abs=1e-6) for x in (1, 3, 5, 7)]
    assert Counter(rings.round(6)) == {round(x / 7, 6): n for x, n in zip(
        (1, 3, 5, 7), (4, 12, 20, 28), strict=True)}  # fmt: skip
    for name, sign in (("center", -1), ("edge-ring", 1)):
        p = PATTERNS[name](network, rng)
        profile = [p[np.isclose(rings, r)] for r in sorted(set(rings))]
        assert p.sum() == pytest.approx(1)
        assert all(np.ptp(ring) < 1e-12 for ring in profile)
        assert all(sign * d > 0 for d in np.diff([ring[0] for ring in profile]))


def test_a_scratch_lies_along_a_straight_line() -> None:
    network = parse_topology("mesh:8x8")
    x, y = coordinates(network)
    lengths = []
    for seed in range(40):
        on = PATTERNS["scratch"](network, np.random.default_rng(seed)) > 0
        points = np.stack([x[on], y[on]], axis=1)
        if len(points) < 3:
            continue  # a corner that is cut
        centred = points - points.mean(axis=0)
        along, across = np.linalg.svd(centred, compute_uv=False) / math.sqrt(len(points))
        # within half a core of the line, the spread across it is at most that half width
        assert across <= SCRATCH_WIDTH
        lengths.append(along / max(across, 1e-9))
    assert np.median(lengths) > 4


def test_random_is_flat_and_all_maps_sum_to_one() -> None:
    network = parse_topology("mesh:4x4")
    flat = PATTERNS["random"](network, np.random.default_rng(0))
    assert np.allclose(flat, 1 / 16)
    for name in PATTERNS:
        assert PATTERNS[name](network, np.random.default_rng(1)).sum() == pytest.approx(1)


def test_spatial_faults_follow_their_map() -> None:
    home = on_mesh("mesh:8x8")
    sampler, rng = SpatialPatterns(("edge-ring",), 100, core_share=1.0), np.random.default_rng(5)
    cores = [cast(Core, sampler.draw(rng, home, i)[0]).id for i in range(4000)]
    expected = PATTERNS["edge-ring"](home.chip.network, rng) * len(cores)
    assert stats.chisquare(np.bincount(cores, minlength=64), expected).pvalue > 0.01
    assert [SpatialPatterns(("a", "b"), 2).pattern(i) for i in range(4)] == ["a", "a", "b", "b"]


def test_spatial_patterns_need_a_grid() -> None:
    with pytest.raises(SlowpokeError, match="need a mesh or torus"):
        radius(parse_topology("ring:8"))


def test_hot_cores_fail_in_proportion_to_their_utilisation() -> None:
    busy = np.array([0.0, 0.1, 0.3, 0.6])
    home, rng = on_mesh("mesh:2x2", busy), np.random.default_rng(2)
    cores = [cast(Core, HotCores().draw(rng, home, i)[0]).id for i in range(3000)]
    counts = np.bincount(cores, minlength=4)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:], 3000 * busy[1:]).pvalue > 0.01


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.7, 1.0])
def test_turns_keep_the_ratio_at_every_length(share: float) -> None:
    turns = [core_turn(i, share) for i in range(1000)]
    for n in range(1, 1001):
        assert sum(turns[:n]) == math.floor(n * share + 1e-9)


def test_kinds_of_negatives_take_turns() -> None:
    cases = list(DATASETS["balanced"].cases(2, 7))
    assert [case.kind for case in cases] == ["fault", "fault", "seed", "modified", "congestion",
                                             "stale", "harsh", "seed", "modified"]  # fmt: skip
    assert len(list(DATASETS["slowpoke-152"].cases())) == 304


def test_unknown_sets_and_kinds_are_refused() -> None:
    with pytest.raises(SlowpokeError, match=r"unknown; choose of slowpoke-152, balanced"):
        dataset_named("slowpoke")
    with pytest.raises(SlowpokeError, match="no kind of negative"):
        replace(DATASETS["balanced"], negatives=("sunny",))


def test_one_way_faults_strike_one_direction_of_a_link() -> None:
    places = [faults[0].place for faults in drawn(DATASETS["one-way"], 60)]
    assert all(isinstance(place, Link) and not place.both for place in places)
    assert len(set(places)) > 20


def test_uniform_crosses_kinds_of_places_with_slowdowns() -> None:
    cells = [
        (type(faults[0].place), faults[0].slowdown) for faults in drawn(DATASETS["uniform"], 60)
    ]
    assert {cell: cells.count(cell) for cell in cells} == {
        (kind, slowdown): 10 for kind in (Core, Link) for slowdown in (10.0, 5.0, 2.0)
    }
