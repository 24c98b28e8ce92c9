from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program
from slowpoke_tracer.merge import merge, merge_epochs
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.recorder import record
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.trace import Trace

TraceOf = Callable[..., Trace]


def assert_same(a: Sketch, b: Sketch) -> None:
    for name in ("patterns", "count", "missed", "log_sum", "log_min", "log_max", "nbytes_per_core",
                 "first_cycles", "last_cycles", "epoch_start_cycles", "epoch_end_cycles",
                 "raw_records"):  # fmt: skip
        assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=name != "patterns"), (
            name
        )
    np.testing.assert_allclose(a.duration_sum, b.duration_sum, rtol=1e-6)
    np.testing.assert_allclose(a.duration_sum_squares, b.duration_sum_squares, rtol=1e-6)
    assert (a.n_records, a.n_records_kept) == (b.n_records, b.n_records_kept)


def part(trace: Trace, compute: NDArray[np.bool_], transfers: NDArray[np.bool_]) -> Trace:
    return Trace(trace.compute[compute], trace.transfers[transfers], trace.meta)


@pytest.mark.parametrize("n_parts", [1, 2, 4])
def test_sketches_of_parts_of_a_run_merge_into_that_of_the_run(
    small_program: Program, trace_of: TraceOf, n_parts: int
) -> None:
    trace = trace_of(small_program)
    parts = [
        part(trace, trace.compute["batch"] % n_parts == i, trace.transfers["batch"] % n_parts == i)
        for i in range(n_parts)
    ]
    merged = merge([record(p, small_program) for p in parts])
    assert_same(merged, record(trace, small_program))


def test_sketches_of_each_core_merge_into_that_of_the_chip(
    small_program: Program, trace_of: TraceOf
) -> None:
    trace = trace_of(small_program)
    core = Patterns.of_program(small_program).table["recorder"][
        Patterns.of_program(small_program).of_event
    ]
    parts = [
        part(trace, core[trace.compute["event"]] == c, core[trace.transfers["event"]] == c)
        for c in range(4)
    ]
    assert_same(merge([record(p, small_program) for p in parts]), record(trace, small_program))


def test_merged_epochs_are_those_of_a_coarser_recorder(
    small_program: Program, trace_of: TraceOf
) -> None:
    program = dataclasses.replace(small_program, n_inferences=37)
    trace = trace_of(program)
    fine = record(trace, program, SketchConfig(n_epochs=8))
    for n_epochs in (1, 2, 4, 8):
        coarse = record(trace, program, SketchConfig(n_epochs=n_epochs))
        merged = merge_epochs(fine, n_epochs)
        assert merged.nbytes == fine.nbytes
        assert_same(dataclasses.replace(merged, nbytes_per_core=coarse.nbytes_per_core), coarse)


def test_hash_sketches_of_two_halves_account_for_no_more_than_the_run_had(
    small_program: Program, trace_of: TraceOf
) -> None:
    program = dataclasses.replace(small_program, n_inferences=100)
    trace = trace_of(program)
    config = SketchConfig(mode="hash", threshold=5)
    early, late = (trace.compute["batch"] < 25, trace.transfers["batch"] < 25)
    halves = [part(trace, early, late), part(trace, ~early, ~late)]
    merged = merge([record(half, program, config) for half in halves])
    static = record(trace, program)
    assert 0 < merged.n_records_kept <= static.n_records
    assert np.array_equal(merged.missed + merged.count.sum(axis=1), static.count[
        np.isin(static.patterns, merged.patterns)].sum(axis=1))  # fmt: skip


def test_what_does_not_merge_is_refused(small_program: Program, trace_of: TraceOf) -> None:
    trace = trace_of(small_program)
    a = record(trace, small_program)
    with pytest.raises(SlowpokeError, match=r"number of epochs \(8 and 4\)"):
        merge([a, record(trace, small_program, SketchConfig(n_epochs=4))])
    with pytest.raises(SlowpokeError, match="different mode"):
        merge([a, record(trace, small_program, SketchConfig(mode="hash"))])
    with pytest.raises(SlowpokeError, match="no sketch"):
        merge([])
    with pytest.raises(SlowpokeError, match="divisor of 8, not 3"):
        merge_epochs(a, 3)
