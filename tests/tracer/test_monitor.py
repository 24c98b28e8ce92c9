"""Watching a run while it goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slowpoke_mapping.chip import chip
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import parse_fault
from slowpoke_mapping.graph import DimWindow, Edge, Operator, OperatorGraph, OpKind
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.places import Core
from slowpoke_mapping.program import Program
from slowpoke_sim.machine import run
from slowpoke_sim.twin import DigitalTwin
from slowpoke_tracer.detector import Context
from slowpoke_tracer.monitor import Monitor, OnlineDetector, until
from slowpoke_tracer.recorder import Recorder, record
from slowpoke_tracer.sketch import Sketch


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLOWPOKE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def program() -> Program:
    box = (1, 16, 16, 16)
    window = (DimWindow(0), DimWindow(), DimWindow(2), DimWindow(3))
    operators = tuple(
        Operator(f"op{i}", OpKind.CONV, box, (Edge(i - 1, box, window),), 1 << 22) for i in range(4)
    )
    config = chip("default", topology="mesh:2x2")
    return lower(map_graph(OperatorGraph("four", operators), config), inferences=64)


def watched(program: Program, fault: str) -> Monitor:
    """A monitor that has seen every epoch, in order."""
    monitor = Monitor(Context(program, program.chip, DigitalTwin(program)))
    recorder = Recorder(program)
    blocks: list[Any] = []
    run(program, [parse_fault(fault)] if fault else [], seed=1, on_block=blocks.append)
    per_epoch = len(blocks) // 8
    for epoch in range(8):
        for block in blocks[epoch * per_epoch : (epoch + 1) * per_epoch]:
            recorder.add(block)
        monitor.update(recorder.result(), epoch + 1)
    return monitor


def test_a_fault_that_begins_in_the_middle_is_told_when_it_begins(program: Program) -> None:
    makespan = run(program, seed=1).timing.makespan_cycles
    ((epoch, suspect),) = watched(program, f"core:2@10x[{0.55 * makespan},{makespan}]").alarms
    assert suspect.place == Core(2)
    assert epoch in (4, 5)  # 0.55 of eight epochs is in the fifth


def test_a_healthy_run_raises_no_alarm_however_often_one_looks(program: Program) -> None:
    assert watched(program, "").alarms == []


def test_epochs_are_given_once_and_in_order(program: Program) -> None:
    trace = run(program, seed=1).trace
    assert trace is not None
    sketch: Sketch = record(trace, program)
    monitor = Monitor(Context(program, program.chip, DigitalTwin(program)))
    monitor.update(sketch, 2)
    for wrong in (2, 1, 9):
        with pytest.raises(SlowpokeError, match="in order"):
            monitor.update(sketch, wrong)


def test_what_has_not_ended_is_not_looked_at(program: Program) -> None:
    trace = run(program, seed=1).trace
    assert trace is not None
    part = until(record(trace, program), 3)
    assert part.count[:, 3:].sum() == 0
    assert part.count[:, :3].sum() > 0
    assert np.isnan(part.epoch_end_cycles[3:]).all()


def test_the_online_detector_stops_at_the_alarm(program: Program) -> None:
    makespan = run(program, seed=1).timing.makespan_cycles
    onset = 0.55 * makespan
    fault = parse_fault(f"core:2@10x[{onset},inf]")
    trace = run(program, [fault], seed=1).trace
    assert trace is not None
    sketch = record(trace, program)
    context = Context(program, program.chip, DigitalTwin(program))
    found = OnlineDetector().detect(sketch, context)
    assert [suspect.place for suspect in found.reported] == [Core(2)]
    assert onset < found.alarm_cycles < 0.9 * sketch.epoch_end_cycles[-1]
    assert found.alarm_cycles in sketch.epoch_end_cycles
    assert OnlineDetector().detect(trace, context).alarm_cycles == found.alarm_cycles


def test_without_a_fault_the_online_detector_sees_the_run_to_its_end(program: Program) -> None:
    trace = run(program, seed=5).trace
    assert trace is not None
    context = Context(program, program.chip, DigitalTwin(program))
    found = OnlineDetector().detect(record(trace, program), context)
    assert not found.reported
    assert np.isnan(found.alarm_cycles)
