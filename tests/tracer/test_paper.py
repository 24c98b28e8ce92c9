from functools import lru_cache

import numpy as np
import pytest
from scipy.special import erf

from slowpoke_mapping.faults import parse_fault
from slowpoke_mapping.places import Core, parse_place
from slowpoke_tracer.detector import Context
from slowpoke_tracer.diagnosis import Diagnosis, Verdict
from slowpoke_tracer.failrank import FailRankSettings
from slowpoke_tracer.paper import SlowpokeDetector, SlowpokeSettings, slowpoke_diagnosis
from slowpoke_tracer.recorder import record
from slowpoke_tracer.sample import sample_program, sample_trace
from slowpoke_tracer.trace import Trace

PROGRAM = sample_program()
CONTEXT = Context(PROGRAM, PROGRAM.chip)


@lru_cache
def traced(faults: tuple[str, ...], seed: int) -> Trace:
    return sample_trace(PROGRAM, [parse_fault(text) for text in faults], seed=seed)


def diagnose(
    *faults: str, seed: int = 1, sketch: bool = True, settings: SlowpokeSettings | None = None
) -> Diagnosis:
    trace = traced(faults, seed)
    evidence = record(trace, PROGRAM) if sketch else trace
    return slowpoke_diagnosis(evidence, CONTEXT, settings or SlowpokeSettings())


@pytest.mark.parametrize("sketch", [False, True])
def test_a_healthy_run_is_called_healthy(sketch: bool) -> None:
    for seed in range(5):
        found = diagnose(seed=seed, sketch=sketch)
        assert found.verdict is Verdict.HEALTHY
        assert len(found.ranked) + len(found.not_covered) == 16 + 24


@pytest.mark.parametrize("sketch", [False, True])
@pytest.mark.parametrize("fault", ["core:5@10x", "core:12@2x"])
def test_a_slow_core_is_the_only_report(fault: str, sketch: bool) -> None:
    found = diagnose(fault, sketch=sketch)
    truth = parse_fault(fault)
    assert [s.place for s in found.reported] == [truth.place]
    assert found.ranked[0].place == truth.place
    assert found.reported[0].slowdown == pytest.approx(truth.slowdown, rel=0.05)


@pytest.mark.parametrize("sketch", [False, True])
def test_a_slow_link_is_the_only_report(sketch: bool) -> None:
    found = diagnose("link:5-6@10x", sketch=sketch)
    assert [str(s.place) for s in found.reported] == ["link:5-6"]


def test_a_short_fault_is_placed_in_time() -> None:
    healthy = sample_trace(PROGRAM).meta.makespan_cycles
    start, end = 0.4 * healthy, 0.55 * healthy
    found = diagnose(f"core:3@10x[{start:.0f},{end:.0f}]")
    (suspect,) = found.reported
    assert suspect.place == Core(3)
    # to within the epochs it touches
    assert start - healthy / 8 <= suspect.start_cycles <= start + healthy / 16
    assert suspect.end_cycles >= end


def test_the_bytes_of_a_core_are_those_of_its_sketch() -> None:
    sketch = record(traced((), 1), PROGRAM)
    assert SlowpokeDetector().storage_bytes(PROGRAM) == sketch.nbytes_per_core.max()


def test_without_failrank_the_scores_are_what_detection_measured() -> None:
    none = SlowpokeSettings(failrank=FailRankSettings(damping=0.0, link_updates=0))
    core = diagnose("core:5@10x", settings=none).ranked[0]
    # 8 peers, one of them slow: z = sqrt(7)
    assert core.score == pytest.approx(erf(np.sqrt(3.5)), abs=1e-3)
    assert core.place == Core(5)


def test_over_the_whole_level_the_busiest_link_hides_what_was_measured() -> None:
    found = diagnose("link:5-6@10x", settings=SlowpokeSettings(softmax_over="level"))
    assert found.verdict is Verdict.HEALTHY
    # the evidence was there: the link is a candidate, but the converged rule forgot it
    link = next(s for s in found.ranked if s.place == parse_place("link:5-6"))
    assert "0 of" not in link.evidence
    assert link.score < max(s.score for s in found.ranked if s.place != link.place)
