"""Conformal p-values from healthy replays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowpoke_mapping.chip import chip
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import parse_fault
from slowpoke_mapping.graph import Operator, OperatorGraph, OpKind
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.program import Program
from slowpoke_sim.machine import run
from slowpoke_sim.twin import DigitalTwin
from slowpoke_tracer import calibration
from slowpoke_tracer.calibration import healthy_excesses, p_value
from slowpoke_tracer.detector import Context
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.prepare import prepare
from slowpoke_tracer.recorder import record
from slowpoke_tracer.robust import RobustDetector as Robust
from slowpoke_tracer.robust_config import RobustConfig
from slowpoke_tracer.sketch_config import SketchConfig

N_RUNS = 39


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLOWPOKE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def program() -> Program:
    box = (1, 8, 8, 8)
    operators = tuple(
        Operator(f"conv{i}", OpKind.CONV, box, (), macs=8 * 9 * 4096, weight_elements=8 * 9)
        for i in range(3)
    )
    config = chip("default", topology="mesh:2x2", message_bytes=512, packet_bytes=512)
    return lower(map_graph(OperatorGraph("three", operators), config), inferences=32)


def diagnosed(program: Program, fault: str, seed: int, n_runs: int = N_RUNS) -> Diagnosis:
    faults = [parse_fault(fault)] if fault else []
    trace = run(program, faults, seed=seed).trace
    assert trace is not None
    context = Context(program, program.chip, DigitalTwin(program))
    return Robust(RobustConfig(calibrate=n_runs)).detect(record(trace, program), context)


@given(
    healthy=st.lists(st.floats(0, 100), min_size=1, max_size=40),
    scores=st.tuples(st.floats(0, 100), st.floats(0, 100)),
)
def test_more_suspicious_is_never_more_probable(
    healthy: list[float], scores: tuple[float, float]
) -> None:
    values = [p_value(score, np.array(healthy)) for score in sorted(scores)]
    assert 1 / (1 + len(healthy)) <= values[1] <= values[0] <= 1


def test_p_values_of_exchangeable_runs_are_uniform() -> None:
    scores = np.random.default_rng(0).gumbel(size=(4000, 20))
    values = np.array([p_value(row[0], row[1:]) for row in scores])
    for level in (0.05, 0.25, 0.5, 0.75):
        assert np.mean(values <= level) == pytest.approx(level, abs=0.03)


def test_a_slow_core_gets_the_least_p_value_and_healthy_runs_do_not(program: Program) -> None:
    assert diagnosed(program, "core:1@5x", seed=1).p_value == 1 / (1 + N_RUNS)
    healthy = [diagnosed(program, "", seed=seed).p_value for seed in range(2, 14)]
    assert np.mean(healthy) > 0.2
    assert min(healthy) >= 1 / (1 + N_RUNS)


def test_without_calibration_there_is_no_p_value(program: Program) -> None:
    assert math.isnan(diagnosed(program, "", seed=1, n_runs=0).p_value)


def test_replays_are_made_once(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    twin = DigitalTwin(program)
    context = Context(program, program.chip, twin)
    prepared = prepare(context, SketchConfig(), RobustConfig())
    first = healthy_excesses(prepared, twin, 5)

    def never(*_: object) -> None:
        raise AssertionError("replayed again")

    monkeypatch.setattr(calibration, "cells_of", never)
    np.testing.assert_array_equal(healthy_excesses(prepared, twin, 5), first)
    with pytest.raises(AssertionError):
        healthy_excesses(prepared, twin, 6)


def test_a_negative_number_of_replays_is_refused() -> None:
    with pytest.raises(SlowpokeError, match="0 for none"):
        RobustConfig(calibrate=-1)
