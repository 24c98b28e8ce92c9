"""The robust detector end to end, on a small pipeline of convolutions on a 3x3 mesh."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from slowpoke_mapping.chip import chip
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault, parse_fault
from slowpoke_mapping.graph import DimWindow, Edge, Operator, OperatorGraph, OpKind
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.places import Core, Link
from slowpoke_mapping.program import Program
from slowpoke_mapping.scale import Scale
from slowpoke_sim.machine import run
from slowpoke_sim.twin import DigitalTwin
from slowpoke_tracer import prepare as prepare_module
from slowpoke_tracer.detector import Context
from slowpoke_tracer.diagnosis import Diagnosis, Verdict
from slowpoke_tracer.posterior import physical
from slowpoke_tracer.recorder import record
from slowpoke_tracer.robust import RobustDetector
from slowpoke_tracer.robust_config import RobustConfig
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.tracer import diagnose
from torch_slowpoke.evaluation.background import with_background, without_background

CONV = (
    DimWindow(0),
    DimWindow(),
    DimWindow(2, low=-1, high=2),
    DimWindow(3, low=-1, high=2),
)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    patch = pytest.MonkeyPatch()
    patch.setenv("SLOWPOKE_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def program() -> Program:
    box = (1, 32, 24, 24)
    operators = tuple(
        Operator(
            f"conv{i}",
            OpKind.CONV,
            box,
            (Edge(i - 1, box, CONV),),
            macs=32 * 32 * 9 * 24 * 24,
            weight_elements=32 * 32 * 9,
        )
        for i in range(6)
    )
    graph = OperatorGraph("six convolutions", operators)
    config = chip("default", topology="mesh:3x3", message_bytes=1024, packet_bytes=1024)
    return lower(map_graph(graph, config), inferences=32)


def sketch_of(program: Program, faults: Sequence[Fault] = (), seed: int = 1) -> Sketch:
    trace = run(program, faults=faults, seed=seed).trace
    assert trace is not None
    return record(trace, program)


def diagnosis_of(program: Program, *faults: str, seed: int = 1) -> Diagnosis:
    parsed = [parse_fault(text) for text in faults]
    sketch = sketch_of(program, parsed, seed)
    return diagnose(sketch, program, twin=DigitalTwin(program))


def busy_link(program: Program) -> Link:
    """The link that carries most messages."""
    timing = run(program, seed=1).timing
    channel = int(np.argmax(timing.channel_busy_cycles[: program.chip.n_links]))
    src, dst = program.chip.network.links[channel]
    return Link(int(src), int(dst), both=True)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_healthy_run_is_called_healthy(program: Program, seed: int) -> None:
    diagnosis = diagnosis_of(program, seed=seed)
    assert diagnosis.verdict is Verdict.HEALTHY
    assert diagnosis.healthy_probability > 0.5


@pytest.mark.parametrize("slowdown", [2, 10])
def test_a_slow_core_is_named_with_its_slowdown_and_interval(
    program: Program, slowdown: int
) -> None:
    diagnosis = diagnosis_of(program, f"core:4@{slowdown}x")
    (suspect,) = diagnosis.reported
    assert suspect.place == Core(4)
    assert suspect.slowdown == pytest.approx(slowdown, rel=0.15)
    assert suspect.start_cycles == 0
    assert suspect.probability > 0.9


def test_a_slow_link_is_named(program: Program) -> None:
    link = busy_link(program)
    diagnosis = diagnosis_of(program, f"{link}@10x")
    (suspect,) = diagnosis.reported
    assert link in (physical(suspect.place), *suspect.ambiguous_with)


def test_a_fault_that_ends_is_dated(program: Program) -> None:
    makespan = run(program, seed=1).timing.makespan_cycles
    start, end = 0.25 * makespan, 0.75 * makespan
    diagnosis = diagnosis_of(program, f"core:4@5x[{start},{end}]")
    (suspect,) = diagnosis.reported
    assert suspect.place == Core(4)
    both = max(suspect.end_cycles, end) - min(suspect.start_cycles, start)
    common = min(suspect.end_cycles, end) - max(suspect.start_cycles, start)
    assert common / both > 0.6


def test_two_slow_cores_are_both_named_and_nothing_else(program: Program) -> None:
    diagnosis = diagnosis_of(program, "core:1@10x", "core:7@10x")
    assert {suspect.place for suspect in diagnosis.reported} == {Core(1), Core(7)}


def test_probabilities_add_up_to_one_and_every_covered_place_is_ranked(program: Program) -> None:
    for faults in ((), ("core:4@10x",)):
        diagnosis = diagnosis_of(program, *faults)
        total = diagnosis.healthy_probability + sum(s.probability for s in diagnosis.ranked)
        assert total == pytest.approx(1.0)
        places = [suspect.place for suspect in diagnosis.ranked]
        assert len(places) == len(set(places))
        cores = {Core(c) for c in range(9)} - set(diagnosis.not_covered)
        assert cores <= set(places)


def test_the_same_sketch_gives_the_same_diagnosis(program: Program) -> None:
    sketch = sketch_of(program, [parse_fault("core:4@3x")])
    twin = DigitalTwin(program)
    first = diagnose(sketch, program, twin=twin)
    prepare_module._MEMORY.clear()  # so that the second reads the baseline from disk
    assert diagnose(sketch, program, twin=twin) == first


def test_a_broken_cache_file_is_replaced(program: Program) -> None:
    sketch = sketch_of(program)
    twin = DigitalTwin(program)
    first = diagnose(sketch, program, twin=twin)
    files = list(Path(prepare_module.cache_folder()).glob("baseline-*.npz"))
    assert files
    for file in files:
        file.write_bytes(b"not a zip file")
    prepare_module._MEMORY.clear()
    assert diagnose(sketch, program, twin=twin) == first


def test_a_twin_with_wrong_speeds_is_refitted(program: Program) -> None:
    class Wrong(DigitalTwin):
        """Believes that links are a quarter faster than they are."""

        @property
        def fingerprint(self) -> str:
            return "wrong-" + super().fingerprint

        def replay(self, faults=(), seed=0, scale=Scale()):  # type: ignore[no-untyped-def]
            off = Scale(scale.link_speed * 1.25, scale.core_speed, scale.dram_speed)
            return super().replay(faults, seed, off)

        def shares(self, seed=0, scale=Scale()):  # type: ignore[no-untyped-def]
            off = Scale(scale.link_speed * 1.25, scale.core_speed, scale.dram_speed)
            return super().shares(seed, off)

        def phases(self, seed=0, scale=Scale(), batches=None):  # type: ignore[no-untyped-def]
            off = Scale(scale.link_speed * 1.25, scale.core_speed, scale.dram_speed)
            return super().phases(seed, off, batches)

    diagnosis = diagnose(sketch_of(program), program, twin=Wrong(program))
    assert diagnosis.verdict is Verdict.HEALTHY
    assert any("refitted" in note for note in diagnosis.notes)
    diagnosis = diagnose(
        sketch_of(program, [parse_fault("core:4@5x")]), program, twin=Wrong(program)
    )
    assert [suspect.place for suspect in diagnosis.reported] == [Core(4)]


def test_without_a_twin_a_profile_serves(program: Program) -> None:
    profile = sketch_of(program, seed=100)
    slow = sketch_of(program, [parse_fault("core:4@10x")])
    diagnosis = diagnose(slow, program, profile=profile)
    assert diagnosis.reported[0].place == Core(4)
    assert "profile" in diagnosis.method


def test_without_twin_or_profile_the_way_out_is_named(program: Program) -> None:
    with pytest.raises(SlowpokeError, match="profile"):
        diagnose(sketch_of(program), program)


def test_evidence_of_another_program_is_refused(program: Program) -> None:
    other = program.with_inferences(16)
    with pytest.raises(SlowpokeError, match="program"):
        diagnose(sketch_of(program), other, twin=DigitalTwin(other))


def test_an_unknown_detector_is_named_with_its_neighbours(program: Program) -> None:
    with pytest.raises(SlowpokeError, match="robust"):
        diagnose(sketch_of(program), program, detector="robst")


def test_a_full_trace_serves_as_well_as_its_sketch(program: Program) -> None:
    trace = run(program, faults=[parse_fault("core:4@10x")], seed=1).trace
    assert trace is not None
    diagnosis = diagnose(trace, program, twin=DigitalTwin(program))
    assert [suspect.place for suspect in diagnosis.reported] == [Core(4)]


def test_a_hash_sketch_serves_too(program: Program) -> None:
    config = SketchConfig(mode="hash", threshold=2, n_buckets=1024)
    trace = run(program, faults=[parse_fault("core:4@10x")], seed=1).trace
    assert trace is not None
    diagnosis = diagnose(record(trace, program, config), program, twin=DigitalTwin(program))
    assert [suspect.place for suspect in diagnosis.reported] == [Core(4)]


def test_a_detector_is_never_handed_a_fault() -> None:
    names = {name for name in Context.__dataclass_fields__}
    assert not {name for name in names if "fault" in name}
    assert list(inspect.signature(RobustDetector.detect).parameters) == [
        "self",
        "evidence",
        "context",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"false_positive_rate": 0.0},
        {"n_replays": 1},
        {"max_faults": 0},
        {"n_batches": 0},
        {"n_instances": 0},
    ],
)
def test_parameters_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(SlowpokeError):
        RobustConfig(**wrong)  # type: ignore[arg-type]


def test_traffic_that_the_program_does_not_know_is_no_slow_link(program: Program) -> None:
    work = np.bincount(program.task_group, program.work_macs, program.n_groups)
    makespan = run(program, seed=1, trace=False).timing.makespan_cycles
    group_cycles = work / work.sum() * makespan / program.n_batches
    crowded = with_background(program, 0, 2, 0.2, group_cycles)
    trace = run(crowded, seed=2).trace
    assert trace is not None
    sketch = record(without_background(trace, program, crowded), program)
    diagnosis = diagnose(sketch, program, twin=DigitalTwin(program))
    assert diagnosis.verdict is Verdict.HEALTHY
    assert any("traffic that the program does not know" in note for note in diagnosis.notes)
