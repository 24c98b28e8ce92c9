from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program
from slowpoke_tracer.patterns import COMPUTE, PORT, TRANSFER, Patterns, run_records
from slowpoke_tracer.recorder import Recorder, record
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.trace import Trace

TraceOf = Callable[..., Trace]


def oracle(trace: Trace, program: Program, n_epochs: int) -> dict[tuple[int, int], list[float]]:
    """Durations of each (pattern, epoch), gathered record by record in Python."""
    patterns = Patterns.of_program(program)
    cells: dict[tuple[int, int], list[float]] = {}
    for row in trace.compute:
        key = int(patterns.of_event[row["event"]])
        epoch = n_epochs * int(row["batch"]) // program.n_batches
        cells.setdefault((key, epoch), []).append(row["end_cycles"] - row["start_cycles"])
    for row in trace.transfers:
        epoch = n_epochs * int(row["batch"]) // program.n_batches
        for key, begin, end in (
            (int(patterns.of_event[row["event"]]), "inject_cycles", "eject_cycles"),
            (int(patterns.port_of_event[row["event"]]), "eject_cycles", "consume_cycles"),
        ):
            if key >= 0:
                cells.setdefault((key, epoch), []).append(row[end] - row[begin])
    return cells


def same(a: Sketch, b: Sketch) -> bool:
    names = ("count", "log_sum", "log_min", "log_max", "duration_sum", "duration_sum_squares",
             "first_cycles", "last_cycles", "epoch_start_cycles", "epoch_end_cycles")  # fmt: skip
    return all(np.array_equal(getattr(a, n), getattr(b, n), equal_nan=True) for n in names)


def test_every_cell_holds_its_records_within_the_resolution(
    small_program: Program, trace_of: TraceOf
) -> None:
    trace = trace_of(small_program)
    sketch = record(trace, small_program, SketchConfig(n_epochs=3))
    cells = oracle(trace, small_program, 3)
    assert sketch.count.sum() == sum(map(len, cells.values()))
    step = 1 / 2048
    for (key, epoch), durations in cells.items():
        logs = [math.log(d) for d in durations]
        assert sketch.count[key, epoch] == len(logs)
        assert sketch.log_sum[key, epoch] == pytest.approx(sum(logs), abs=len(logs) * step)
        assert sketch.log_min[key, epoch] == pytest.approx(min(logs), abs=step)
        assert sketch.log_max[key, epoch] == pytest.approx(max(logs), abs=step)
    for key in range(len(sketch.patterns)):
        durations = [d for (k, _), part in cells.items() if k == key for d in part]
        assert sketch.duration_sum[key] == pytest.approx(sum(durations), rel=1e-5)
        assert sketch.duration_sum_squares[key] == pytest.approx(
            sum(d * d for d in durations), rel=1e-5
        )


def test_the_compiler_knows_the_counts_of_a_whole_run(
    small_program: Program, trace_of: TraceOf
) -> None:
    sketch = record(trace_of(small_program), small_program)
    patterns = Patterns.of_program(small_program)
    assert np.array_equal(sketch.count.sum(axis=1), run_records(patterns, small_program))
    assert sketch.n_records_kept == sketch.n_records == len(patterns.of_event) * 8 - 4
    assert sketch.raw_nbytes == sketch.n_records * 32


def test_blocks_give_the_same_sketch_as_the_whole(
    small_program: Program, trace_of: TraceOf
) -> None:
    trace = trace_of(small_program)
    recorder = Recorder(small_program)
    for batch in range(small_program.n_batches):
        recorder.add(
            Trace(
                trace.compute[trace.compute["batch"] == batch],
                trace.transfers[trace.transfers["batch"] == batch],
                trace.meta,
            )
        )
    assert same(recorder.result(), record(trace, small_program))


def test_a_stream_longer_than_the_buffers_is_counted_whole(
    small_program: Program, trace_of: TraceOf
) -> None:
    trace = trace_of(small_program)
    many = Trace(np.tile(trace.compute, 2000), np.tile(trace.transfers, 2000), trace.meta)
    sketch = record(many, small_program)
    assert sketch.n_records == 2000 * trace.n_records
    assert np.array_equal(sketch.count, 2000 * record(trace, small_program).count)
    assert sketch.nbytes == record(trace, small_program).nbytes


def test_the_bytes_of_a_core_are_its_slots_and_its_epoch_times(
    small_program: Program, trace_of: TraceOf
) -> None:
    sketch = record(trace_of(small_program), small_program, SketchConfig(n_epochs=8))
    # Slot: 16 + 8 x 8 = 80 B. Epoch times: 8 x 8 = 64 B a core. Core 0: read, compute, and the
    # write and its port (port 0 is at router 0).
    assert sketch.slot_nbytes == 80
    assert sketch.nbytes_per_core.tolist() == [64 + 4 * 80, 64 + 2 * 80, 64 + 2 * 80, 64 + 80]
    assert sketch.nbytes == 4 * 64 + 9 * 80


def test_without_room_the_busiest_patterns_keep_their_slots_and_the_loss_is_told(
    small_program: Program, trace_of: TraceOf
) -> None:
    sketch = record(trace_of(small_program), small_program, SketchConfig(max_length=1))
    assert len(sketch.patterns) == 4 and sketch.n_patterns == 9
    assert (sketch.n_records, sketch.n_records_kept) == (60, 32)
    assert (sketch.count.sum(axis=1) == 8).all()


def test_a_port_is_timed_from_ejection_to_storage(
    small_program: Program, trace_of: TraceOf
) -> None:
    sketch = record(trace_of(small_program), small_program, SketchConfig(n_epochs=1))
    port = sketch.patterns["kind"] == PORT
    assert sketch.log_max[port, 0] == pytest.approx(math.log(5), abs=1 / 2048)
    assert sketch.log_min[port, 0] == sketch.log_max[port, 0]
    kinds = sketch.patterns["kind"]
    assert [(kinds == k).sum() for k in (COMPUTE, TRANSFER, PORT)] == [4, 4, 1]


def test_nothing_recorded_gives_a_clear_error(small_program: Program) -> None:
    with pytest.raises(SlowpokeError, match="given no block"):
        Recorder(small_program).result()


def test_an_empty_block_gives_an_empty_sketch(small_program: Program, trace_of: TraceOf) -> None:
    trace = trace_of(small_program)
    sketch = record(Trace(trace.compute[:0], trace.transfers[:0], trace.meta), small_program)
    assert sketch.n_records == 0 and sketch.count.sum() == 0
    assert np.isinf(sketch.log_min).all() and np.isnan(sketch.first_cycles).all()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("end_cycles", -1.0, "runs backwards"),
        ("end_cycles", math.inf, "times are finite"),
        ("event", 99, "leaves no record"),
        ("event", -1, "leaves no record"),
        ("batch", 4, "outside the run's 4 batches"),
        ("batch", -1, "outside the run's 4 batches"),
    ],
)
def test_a_record_that_cannot_be_is_named(
    small_program: Program, trace_of: TraceOf, column: str, value: float, message: str
) -> None:
    trace = trace_of(small_program)
    trace.compute[column][3] = value
    with pytest.raises(SlowpokeError, match=rf"compute record 3 .*{message}"):
        record(trace, small_program)


def test_equal_timestamps_count_as_one_cycle(small_program: Program, trace_of: TraceOf) -> None:
    trace = trace_of(small_program)
    trace.compute["end_cycles"] = trace.compute["start_cycles"]
    sketch = record(trace, small_program)
    compute = sketch.patterns["kind"] == COMPUTE
    assert sketch.n_clamped == len(trace.compute)
    assert (sketch.log_max[compute][sketch.count[compute] > 0] == 0).all()
    assert np.array_equal(sketch.duration_sum[compute], sketch.count[compute].sum(axis=1))


def test_counters_that_are_skewed_may_let_a_message_arrive_before_it_left(
    small_program: Program, trace_of: TraceOf
) -> None:
    trace = trace_of(small_program)
    trace.transfers["eject_cycles"][0] = trace.transfers["inject_cycles"][0] - 3.0
    with pytest.raises(SlowpokeError, match="clock_skew_cycles"):
        record(trace, small_program)
    skewed = dataclasses.replace(
        small_program, chip=small_program.chip.replace(clock_skew_cycles=2.0)
    )
    assert record(trace, skewed).n_clamped == 1


def test_a_duration_beyond_the_range_saturates(small_program: Program, trace_of: TraceOf) -> None:
    trace = trace_of(small_program)
    trace.compute["end_cycles"][-1] = 1e300
    sketch = record(trace, small_program)
    assert sketch.log_max.max() == 65535 / 2048
    assert sketch.n_records_kept == sketch.n_records
