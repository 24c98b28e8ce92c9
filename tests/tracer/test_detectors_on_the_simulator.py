"""The presets and baselines on runs with queues and noise, of a program made by hand."""

from functools import lru_cache

import pytest

from slowpoke_mapping.chip import chip
from slowpoke_mapping.faults import parse_fault
from slowpoke_sim.machine import simulate
from slowpoke_sim.twin import DigitalTwin
from slowpoke_tracer.baselines.catalogue import BASELINES
from slowpoke_tracer.detector import Context, Detector
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.paper import SlowpokeDetector
from slowpoke_tracer.recorder import record
from slowpoke_tracer.sample import sample_program
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.sloth import SlothDetector
from slowpoke_tracer.trace import Trace

PROGRAM = sample_program(chip("default"), n_batches=16)


@lru_cache
def traced(fault: str, seed: int = 3) -> Trace:
    faults = [parse_fault(fault)] if fault else []
    trace: Trace = simulate(PROGRAM, faults, noise="released", seed=seed)
    return trace


def reported(
    detector: Detector, fault: str, *, sketch: bool = True, profile: Sketch | None = None
) -> list[str]:
    evidence = record(traced(fault), PROGRAM) if sketch else traced(fault)
    return [str(s.place) for s in _diagnosis(detector, evidence, profile).reported]


def _diagnosis(detector: Detector, evidence: Trace | Sketch, profile: Sketch | None) -> Diagnosis:
    twin = None if profile else DigitalTwin(PROGRAM, "released")
    return detector.detect(evidence, Context(PROGRAM, PROGRAM.chip, twin, profile, seed=11))


@pytest.mark.parametrize("sketch", [False, True])
@pytest.mark.parametrize("fault", ["", "core:5@10x", "core:10@2x", "link:5-6@10x"])
def test_the_paper_s_method_names_the_slow_place_and_no_other(fault: str, sketch: bool) -> None:
    expected = [fault.split("@")[0]] if fault else []
    assert reported(SlowpokeDetector(), fault, sketch=sketch) == expected


@pytest.mark.parametrize("fault", ["", "core:5@10x", "core:10@2x", "link:5-6@10x"])
def test_sloth_does_so_against_the_twin_s_healthy_replay_or_a_profile(fault: str) -> None:
    expected = [fault.split("@")[0]] if fault else []
    profile = record(traced("", seed=77), PROGRAM)
    assert reported(SlothDetector(), fault) == expected
    assert reported(SlothDetector(), fault, profile=profile) == expected


def test_the_paper_s_method_works_from_the_hashed_sketch_of_the_paper() -> None:
    hashed = SketchConfig(mode="hash", key="footprint", threshold=10)
    for fault in ("core:5@10x", "link:5-6@10x"):
        sketch = record(traced(fault), PROGRAM, hashed)
        assert sketch.mode == "hash"
        found = _diagnosis(SlowpokeDetector(), sketch, None)
        assert fault.split("@")[0] in [str(s.place) for s in found.reported]


def test_core_methods_find_the_core_and_miss_the_link() -> None:
    for name in ("iaso", "perseus", "adr"):
        assert reported(BASELINES[name](), "core:5@10x", sketch=False) == ["core:5"]
        assert reported(BASELINES[name](), "link:5-6@10x", sketch=False) == []


def test_a_core_s_slowdown_and_span_are_those_of_the_fault() -> None:
    end = traced("").meta.makespan_cycles
    fault = f"core:5@4x[{0.25 * end:.0f},{0.75 * end:.0f}]"
    found = _diagnosis(SlowpokeDetector(), record(traced(fault), PROGRAM), None)
    (suspect,) = found.reported
    truth = parse_fault(fault)
    assert suspect.slowdown == pytest.approx(4, rel=0.3)
    # an epoch is an eighth of a healthy run, longer while the fault lasts
    assert abs(suspect.start_cycles - truth.start_cycles) < end / 4
    assert abs(suspect.end_cycles - truth.end_cycles) < end / 2
