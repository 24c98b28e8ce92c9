import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault, parse_fault
from slowpoke_mapping.places import Core, Link
from slowpoke_sim.machine import run
from slowpoke_tracer.baselines.silent import RandomDetector, SilentDetector
from slowpoke_tracer.baselines.threshold import ThresholdDetector
from slowpoke_tracer.detector import Context, Evidence
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.robust import RobustDetector
from slowpoke_tracer.suspects import scored_diagnosis
from torch_slowpoke.evaluation.background import with_background, without_background
from torch_slowpoke.evaluation.datasets import DATASETS, FAULT, Case
from torch_slowpoke.evaluation.task import Task, execute, home_workload, observe_case
from torch_slowpoke.evaluation.workloads import Workload, World, shallower, world

SILENT = (SilentDetector(),)
BALANCED = DATASETS["balanced"]


@dataclass(frozen=True)
class Oracle:
    """Says what it is told to say; remembers nothing of the run."""

    says: tuple[str, ...]
    name: str = "oracle"

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        places = [parse_fault(f"{place}@2x").place for place in self.says]
        scores = {place: 2.0 for place in places}
        return scored_diagnosis(scores, 1.0, [Core(0), Core(3)], context.chip, "oracle")


@dataclass(frozen=True)
class Broken:
    error: type[Exception]
    name: str = "broken"

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        raise self.error("no baseline")


def task(tiny: Workload, kind: str = FAULT, index: int = 0, detectors: tuple = SILENT) -> Task:  # type: ignore[type-arg]
    return Task(tiny, BALANCED, Case(kind, index), detectors, code="c")


def test_an_id_changes_with_everything_that_determines_the_result(tiny: Workload) -> None:
    base = task(tiny)
    others = [
        replace(base, code="d"),
        replace(base, seed=1),
        replace(base, split="tuning"),
        replace(base, case=Case(FAULT, 1)),
        replace(base, case=Case("seed", 0)),
        replace(base, dataset=DATASETS["thermal"]),
        replace(base, dataset=replace(BALANCED, slowdowns=(3.0,))),
        replace(base, detectors=(ThresholdDetector(),)),
        replace(base, detectors=(RandomDetector(report_probability=0.4),)),
        replace(base, detectors=(RandomDetector(),)),
        replace(base, evidence=("trace",)),
        replace(base, workload=replace(tiny, inferences=8)),
        replace(base, workload=replace(tiny, noise="harsh")),
        replace(base, workload=replace(tiny, topology="mesh:2x1")),
        replace(base, workload=replace(tiny, variant=1)),
    ]
    assert len({base.id, *(other.id for other in others)}) == 1 + len(others)
    assert task(tiny).id == base.id


def test_the_exposure_of_a_case_is_that_of_its_own_trace(tiny: Workload) -> None:
    for index in range(10):
        observed = observe_case(task(tiny, index=index))
        (fault,), (n_exposed,) = observed.run.faults, observed.run.exposure
        assert n_exposed > 0
        if isinstance(fault.place, Core):
            seen = observed.trace.compute
            seen = seen[seen["core"] == fault.place.id]
            overlaps = (seen["end_cycles"] > fault.start_cycles) & (
                seen["start_cycles"] < fault.end_cycles
            )
            # the trace holds computations; probes on the core are services too
            assert overlaps.sum() <= n_exposed


def test_a_fault_that_touches_nothing_is_drawn_again_and_counted(tiny: Workload) -> None:
    short = replace(BALANCED, times=replace(BALANCED.times, shortest=1e-7), name="short")  # type: ignore[type-var]
    excluded = 0
    for index in range(1, 24, 2):
        job = replace(task(tiny, index=index), dataset=short)
        observed = observe_case(job)
        excluded += observed.n_excluded
        (row,) = execute(job)
        assert row["n_excluded"] == observed.n_excluded
        assert min(row["exposure"]) > 0
    assert excluded > 0


def test_a_data_set_that_can_touch_nothing_is_refused(tiny: Workload) -> None:
    @dataclass(frozen=True)
    class Never:
        def draw(self, rng: np.random.Generator) -> tuple[float, float]:
            return 5.0, 6.0

    job = replace(task(tiny), dataset=replace(BALANCED, times=Never()))
    with pytest.raises(SlowpokeError, match="touched nothing"):
        execute(job)


def test_a_row_says_whether_the_truth_is_reported(tiny: Workload) -> None:
    truth = execute(task(tiny))[0]["truth"]
    (right,) = execute(task(tiny, detectors=(Oracle(tuple(truth)),)))
    assert right["reported"] == truth
    assert right["rank"] == 1.0
    assert right["verdict"] == "fail_slow"
    (wrong,) = execute(task(tiny, detectors=(Oracle(("core:3", "core:1")),)))
    assert set(wrong["reported"]) == {"core:3", "core:1"}
    assert wrong["rank"] in (1.5, math.inf) or wrong["rank"] > 2
    (negative,) = execute(task(tiny, kind="seed"))
    assert negative["truth"] == [] and math.isnan(negative["rank"])


def test_a_detector_that_fails_or_refuses_costs_its_own_row_only(tiny: Workload) -> None:
    detectors = (Broken(SlowpokeError), Broken(KeyError, "bug"), *SILENT)
    rows = execute(task(tiny, detectors=detectors))
    assert [row["detector"] for row in rows] == ["broken", "bug", "silent"]
    assert rows[0]["refused"] == "refused: no baseline"
    assert rows[1]["refused"].startswith("failed: KeyError")
    assert rows[2]["refused"] == ""
    assert all(row["verdict"] == "healthy" for row in rows)


def test_the_robust_detector_reads_no_more_from_a_trace_than_from_its_sketch(
    tiny: Workload,
) -> None:
    job = task(tiny, index=8, detectors=(RobustDetector(), *SILENT))
    both = execute(replace(job, evidence=("sketch", "trace")))
    assert [(r["detector"], r["evidence"]) for r in both] == [
        ("robust", "sketch"), ("silent", "sketch"), ("silent", "trace")]  # fmt: skip
    (from_trace, _) = execute(replace(job, evidence=("trace",)))
    same = ("reported", "ranked", "ranked_scores", "slowdown_estimate", "healthy_probability")
    assert repr([from_trace[name] for name in same]) == repr([both[0][name] for name in same])


def test_workloads_share_the_faults_of_a_case(tiny: Workload) -> None:
    other = replace(tiny, inferences=8)
    # index 9: a core at 10x, whose exposure is nearly certain on both
    rows = [execute(task(w, index=4))[0] for w in (tiny, other)]
    cycles = [world(w).healthy_cycles for w in (tiny, other)]
    assert rows[0]["truth"] == rows[1]["truth"]
    shares = [row["start_cycles"] / c for row, c in zip(rows, cycles, strict=True)]
    assert shares[0] == pytest.approx(shares[1])
    assert rows[0]["cluster"] == rows[1]["cluster"]


def test_detectors_are_not_told_the_runs_seed(tiny: Workload) -> None:
    observed = observe_case(task(tiny, index=3))
    assert observed.context.seed == 3
    assert observed.noise_seed != 3


def test_modified_negatives_take_turns_over_four_variants(tiny: Workload) -> None:
    n = len(BALANCED.negatives)
    variants = [home_workload(task(tiny, "modified", 1 + n * i)).variant for i in range(8)]
    assert variants == [1, 2, 3, 4, 1, 2, 3, 4]
    assert home_workload(task(tiny, "harsh", 4)).noise == "harsh"
    assert home_workload(task(tiny)) == tiny


def test_a_shallower_network_keeps_the_first_operators(tiny_world: World) -> None:
    graph = tiny_world.workload.model
    assert not isinstance(graph, str)
    assert [o.name for o in shallower(graph, 0.6)] == ["layer0", "layer1"]
    assert shallower(graph, 0.6).outputs == (1,)
    assert shallower(graph, 1.0) is graph


def test_a_stale_chip_has_slower_links_than_its_twin(tiny: Workload) -> None:
    # 0.9 of the bandwidth: messages take about a ninth longer, computations as long as ever
    stale, fresh = (observe_case(task(tiny, kind, 3)).trace for kind in ("stale", "seed"))

    def total(table: np.ndarray, start: str, end: str) -> float:
        return float((table[end] - table[start]).sum())

    assert total(stale.transfers, "inject_cycles", "eject_cycles") > 1.05 * total(
        fresh.transfers, "inject_cycles", "eject_cycles"
    )
    assert total(stale.compute, "start_cycles", "end_cycles") == pytest.approx(
        total(fresh.compute, "start_cycles", "end_cycles"), rel=0.01
    )


def test_background_traffic_leaves_the_programs_own_records_and_makes_them_later(
    tiny_world: World,
) -> None:
    program = tiny_world.program
    cycles = np.full(program.n_groups, tiny_world.healthy_cycles / program.n_batches)
    crowded = with_background(program, 0, 3, 0.8, cycles / program.n_groups)
    alone, together = (run(p, noise="none", seed=1) for p in (program, crowded))
    assert alone.trace is not None and together.trace is not None
    seen = without_background(together.trace, program, crowded)
    key = ["event", "batch", "unit"]
    for name in ("compute", "transfers"):
        a, b = getattr(alone.trace, name), getattr(seen, name)
        assert sorted(a[key].tolist()) == sorted(b[key].tolist())
        same = ["op", "group", "core"] if name == "compute" else ["op", "group", "src", "dst"]
        order_a, order_b = np.argsort(a[key], order=key), np.argsort(b[key], order=key)
        assert a[order_a][same].tolist() == b[order_b][same].tolist()
    assert seen.meta.program_fingerprint == program.fingerprint
    assert together.timing.channel_bytes.sum() > alone.timing.channel_bytes.sum()
    assert together.timing.makespan_cycles >= alone.timing.makespan_cycles


def test_background_traffic_is_the_share_of_a_link_that_was_asked_for(tiny_world: World) -> None:
    program = tiny_world.program
    cycles = np.full(program.n_groups, 1000.0)
    crowded = with_background(program, 0, 1, 0.25, cycles)
    timing = [run(p, noise="none", trace=False).timing for p in (program, crowded)]
    link = next(i for i, ends in enumerate(program.chip.network.links) if tuple(ends) == (0, 1))
    added = timing[1].channel_bytes[link] - timing[0].channel_bytes[link]
    # 0.25 x 32 bytes a cycle x 1000 cycles, every group of every batch
    assert added == pytest.approx(8000 * program.n_groups * program.n_batches)


def test_what_prints_its_address_names_no_result(tiny: Workload) -> None:
    class Anonymous:
        name = "mine"

        def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
            raise NotImplementedError

    with pytest.raises(SlowpokeError, match="prints its address"):
        task(tiny, detectors=(Anonymous(),))
    with pytest.raises(SlowpokeError, match="a name of its own"):
        task(tiny, detectors=(SilentDetector(), SilentDetector()))


def test_a_link_fault_is_matched_in_either_direction(tiny: Workload) -> None:
    fault = Fault(Link(0, 1, both=True), 2.0)
    (row,) = [
        r
        for r in execute(task(tiny, detectors=(Oracle(("link:1->0",)),)))
        if r["detector"] == "oracle"
    ]
    assert row["reported"] == [str(fault.place)]
