"""Conformance checks that ship, so that a user's own detector can be tried too."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache

import numpy as np

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import parse_fault
from slowpoke_mapping.program import Program
from slowpoke_tracer.detector import Context, Detector, Evidence
from slowpoke_tracer.diagnosis import Diagnosis, Verdict
from slowpoke_tracer.recorder import record
from slowpoke_tracer.sample import sample_program, sample_trace
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.trace import Trace

RUNS: tuple[tuple[str, ...], ...] = ((), ("core:5@10x",), ("link:5-6@10x",), ("core:0@2x",))
"""Faults of the runs that a detector is tried on."""


def check_detector(detector: Detector, program: Program | None = None) -> None:
    """Try a detector on small healthy and faulty runs, as traces and as sketches.

    It must return a Diagnosis, the same one for the same evidence and context, and change neither;
    rank every place at most once and none that it calls not covered, most probable first, all of
    them on the chip; report only ranked places; give probabilities between 0 and 1. Whether it is
    right is not asked: a campaign measures that.

    Args:
        detector: What to try.
        program: A program without lags, multicast or `once` tasks; `sample_program()` if None.

    Raises:
        SlowpokeError: It breaks a rule; the message says which one and on what run.

    >>> from slowpoke_tracer.baselines.silent import SilentDetector
    >>> check_detector(SilentDetector())
    """
    if not (isinstance(getattr(detector, "name", None), str) and detector.name):
        raise SlowpokeError(f"{type(detector).__name__}: a detector has a name that is not empty")
    program = program or _default_program()
    profile, runs = _runs(program)
    context = Context(program, program.chip, profile=profile, seed=7)
    for texts, trace, sketch in runs:
        for kind, evidence in (("trace", trace), ("sketch", sketch)):
            where = f"{detector.name}, on the {kind} of a run with {', '.join(texts) or 'no fault'}"
            before = _bytes_of(evidence), _bytes_of(profile)
            first = detector.detect(evidence, context)
            second = detector.detect(evidence, context)
            if (_bytes_of(evidence), _bytes_of(profile)) != before:
                _runs.cache_clear()
                raise SlowpokeError(f"{where}: it changed what it was given; copy before writing")
            _check_diagnosis(first, program, where)
            # NaN is not equal to itself, its text is
            if repr(first) != repr(second):
                raise SlowpokeError(
                    f"{where}: two calls gave two diagnoses; draw from context.seed only"
                )


@lru_cache(maxsize=1)
def _default_program() -> Program:
    return sample_program()


@lru_cache(maxsize=2)
def _runs(program: Program) -> tuple[Sketch, list[tuple[tuple[str, ...], Trace, Sketch]]]:
    """A healthy profile, and each of RUNS as a trace and as a sketch."""
    runs = []
    for texts in RUNS:
        trace = sample_trace(program, [parse_fault(text) for text in texts], seed=1)
        runs.append((texts, trace, record(trace, program)))
    return record(sample_trace(program, seed=101), program), runs


def _check_diagnosis(found: Diagnosis, program: Program, where: str) -> None:
    if not isinstance(found, Diagnosis):
        raise SlowpokeError(f"{where}: it returned {type(found).__name__}, not a Diagnosis")
    places = [suspect.place for suspect in found.ranked]
    for place in places:
        program.chip.check_place(place)
    if len(set(places)) != len(places):
        twice = next(place for place in places if places.count(place) > 1)
        raise SlowpokeError(f"{where}: {twice} is ranked twice; rank every place once")
    if shared := set(places) & set(found.not_covered):
        raise SlowpokeError(f"{where}: {min(map(str, shared))} is both ranked and not covered")
    probabilities = np.array([suspect.probability for suspect in found.ranked])
    if not np.all((probabilities >= 0) & (probabilities <= 1)):
        raise SlowpokeError(f"{where}: a probability lies outside [0, 1]")
    if np.any(np.diff(probabilities) > 0):
        raise SlowpokeError(f"{where}: `ranked` is not in order of probability, highest first")
    if stray := [suspect for suspect in found.reported if suspect not in found.ranked]:
        raise SlowpokeError(f"{where}: {stray[0].place} is reported but not ranked")
    if (found.verdict is Verdict.HEALTHY) != (not found.reported):
        raise SlowpokeError(f"{where}: the verdict is healthy exactly if nothing is reported")


def _bytes_of(evidence: Evidence) -> list[bytes]:
    values = (getattr(evidence, field.name) for field in fields(evidence))
    return [value.tobytes() for value in values if isinstance(value, np.ndarray)]
