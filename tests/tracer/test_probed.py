from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from slowpoke_mapping.program import Program
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.probed import as_probed, observed_program
from slowpoke_tracer.probes import instrument
from slowpoke_tracer.recorder import record
from slowpoke_tracer.trace import Trace

TraceOf = Callable[..., Trace]


def same_records(a: Trace, b: Trace) -> bool:
    return np.array_equal(a.compute, b.compute) and np.array_equal(a.transfers, b.transfers)


@pytest.mark.parametrize("preset", ["full", "comm", "comp", "io"])
def test_the_presets_leave_every_record_of_theirs_whole(
    small_program: Program, trace_of: TraceOf, preset: str
) -> None:
    program = instrument(small_program, preset)
    trace = trace_of(program)
    assert same_records(as_probed(trace, program, preset), trace)


def test_a_probe_before_reads_the_start_and_one_after_the_end(
    small_program: Program, trace_of: TraceOf
) -> None:
    program = instrument(small_program, "exec comp pre")
    trace = trace_of(program)
    before = as_probed(trace, program, "exec comp pre")
    assert np.array_equal(before.compute["start_cycles"], trace.compute["start_cycles"])
    assert np.isnan(before.compute["end_cycles"]).all()
    after = as_probed(trace, program, "exec comp post")
    assert np.isnan(after.compute["start_cycles"]).all()
    assert np.array_equal(after.compute["end_cycles"], trace.compute["end_cycles"])
    both = as_probed(trace, program, "exec comp pre; exec comp post")
    assert same_records(both, trace)


def test_records_with_one_time_are_counted_and_not_timed(
    small_program: Program, trace_of: TraceOf
) -> None:
    program = instrument(small_program, "exec comp post")
    sketch = record(as_probed(trace_of(program), program, "exec comp post"), program)
    assert (sketch.n_records, sketch.n_untimed, sketch.count.sum()) == (32, 32, 0)
    assert np.isfinite(sketch.epoch_end_cycles).any()


def test_a_write_that_is_probed_after_still_times_its_port(
    small_program: Program, trace_of: TraceOf
) -> None:
    program = instrument(small_program, "mem io post")
    sketch = record(as_probed(trace_of(program), program, "mem io post"), program)
    assert sketch.n_untimed == sketch.n_records == 12
    assert sketch.count.sum() == 8  # 8 units write once each


def test_every_stage_record_has_a_pattern(small_program: Program, trace_of: TraceOf) -> None:
    probes = "mem io surround stage; exec comp surround stage; route comm surround stage"
    program = instrument(small_program, probes)
    trace = trace_of(program)
    stage = as_probed(trace, program, probes)
    patterns = Patterns.of_program(observed_program(program, probes))
    assert (patterns.of_event[stage.compute["event"]] >= 0).all()
    assert (patterns.of_event[stage.transfers["event"]] >= 0).all()
    # No core computes twice in a group, and none receives twice: nothing is joined here.
    assert len(stage.compute) == len(trace.compute)
    assert stage.compute["macs"].sum() == trace.compute["macs"].sum()


def test_a_stage_spans_all_of_a_cores_instructions(
    tasks_of_two_groups: list[list[object]],
    program_of: Callable[..., Program],
    trace_of: TraceOf,
) -> None:
    first, second = tasks_of_two_groups
    program = instrument(program_of([first, [second[0]] * 3]), "exec comp surround stage")
    trace = trace_of(program)
    stage = as_probed(trace, program, "exec comp surround stage")
    mine = stage.compute[(stage.compute["core"] == 3) & (stage.compute["batch"] == 0)]
    whole = trace.compute[(trace.compute["core"] == 3) & (trace.compute["batch"] == 0)]
    assert len(whole) == 6 and len(mine) == 2
    assert mine["macs"].tolist() == [2400.0, 2400.0]
    for row in mine:
        unit = whole[whole["unit"] == row["unit"]]
        assert row["start_cycles"] == unit["start_cycles"].min()
        assert row["end_cycles"] == unit["end_cycles"].max()
    patterns = Patterns.of_program(observed_program(program, "exec comp surround stage"))
    sketch = record(stage, program, patterns=patterns)
    assert sketch.n_records == len(stage.compute) == sketch.count.sum()
