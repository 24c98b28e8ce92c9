"""SL-Recorder: folds a stream of trace blocks into a Fail-Slow Sketch.

Its memory depends on the program and the configuration, never on the length of the stream: blocks
pass through buffers of fixed size. Records of a block's two tables are taken in order of time, as
the cores would see them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program
from slowpoke_tracer.layout import (
    LOG_STEPS,
    LOG_SUM_MAX,
    MIN_DURATION_CYCLES,
    TIME_CODE_MAX,
    TIME_STEP_CYCLES,
)
from slowpoke_tracer.patterns import PORT, Patterns
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sketch_config import SketchConfig as SketchConfig
from slowpoke_tracer.static_sketch import Cells, StaticSketch
from slowpoke_tracer.trace import Trace, TraceMeta

_BUFFER = 32768
"""Records that are handed on at a time."""
_OK, _UNKNOWN, _BATCH, _NOT_FINITE, _BACKWARDS = range(5)


class Recorder:
    """The on-chip recorder of one run: add blocks in order of time, then take the sketch.

    Args:
        program: The instrumented program that runs.
        config: Mode and sizes.
        patterns: The program's patterns, if they are at hand.
    """

    def __init__(
        self,
        program: Program,
        config: SketchConfig = SketchConfig(),
        patterns: Patterns | None = None,
    ):
        self.program = program
        self.config = config
        self.patterns = Patterns.of_program(program) if patterns is None else patterns
        self._slots = slots_within(self.patterns, program, config.max_length)
        self._sketch = StaticSketch(self._slots, config.n_epochs)
        self._epoch_times = np.empty((config.n_epochs, 2))
        self._epoch_times[:] = np.inf, -np.inf
        self._raw = np.zeros((program.chip.n_cores, 2), np.int64)
        self._n_clamped = np.zeros(1, np.int64)
        self._meta: TraceMeta | None = None
        self._keys, self._epochs = np.zeros((2, _BUFFER), np.int64)
        self._starts, self._ends = np.zeros((2, _BUFFER))

    def add(self, block: Trace) -> None:
        """Fold a block in; its records must be in order of time. Cost grows with the records.

        Raises:
            SlowpokeError: A record names an event that leaves none, a batch outside the run, a time
                that is not finite, or an end before its start by more than the counters' skew.
        """
        self._meta = block.meta
        at = np.zeros(2, np.int64)
        n_compute, n_transfers = len(block.compute), len(block.transfers)
        buffers = self._keys, self._epochs, self._starts, self._ends
        while at[0] < n_compute or at[1] < n_transfers:
            n, state = _next_records(
                block.compute, block.transfers, at, self.patterns.of_event,
                self.patterns.port_of_event, self._recorder_of_key, self.program.n_batches,
                2.0 * self.program.chip.clock_skew_cycles, self._epoch_times, self._raw,
                self._n_clamped, *buffers,
            )  # fmt: skip
            if state != _OK:
                _refuse(state, block, at, self.program)
            self._sketch.insert(*buffers, n)

    @property
    def _recorder_of_key(self) -> NDArray[np.int32]:
        return np.ascontiguousarray(self.patterns.table["recorder"])

    def result(self) -> Sketch:
        """The sketch of what was added so far, with the values that its bytes can hold.

        Raises:
            SlowpokeError: Nothing was added.
        """
        if self._meta is None:
            raise SlowpokeError("the recorder was given no block of a trace; add one before result")
        keys = np.flatnonzero(self._slots >= 0)
        keys = keys[np.argsort(self._slots[keys])]
        n_cores = self.program.chip.n_cores
        table = self.patterns.table[keys]
        n_slots = np.bincount(table["recorder"], minlength=n_cores)
        nbytes = self.config.fixed_nbytes + n_slots * self.config.slot_nbytes
        count = self._sketch.cells.count
        kept = int(count[table["kind"] != PORT].sum())
        return Sketch(
            patterns=table,
            **decoded(self._sketch.cells),
            epoch_start_cycles=_time(self._epoch_times[:, 0], np.floor),
            epoch_end_cycles=_time(self._epoch_times[:, 1], np.ceil),
            nbytes_per_core=nbytes,
            n_records=int(self._raw.sum()),
            n_records_kept=kept,
            meta=self._meta,
            mode=self.config.mode,
            n_patterns=len(self.patterns),
            raw_records=self._raw.copy(),
            n_saturated=int((self._sketch.cells.log_sum > LOG_SUM_MAX).sum()),
            n_clamped=int(self._n_clamped[0]),
            reserved_nbytes_per_core=nbytes,
            slot_nbytes=self.config.slot_nbytes,
        )


def record(
    trace: Trace,
    program: Program,
    config: SketchConfig = SketchConfig(),
    patterns: Patterns | None = None,
) -> Sketch:
    """The sketch of a whole trace.

    Raises:
        SlowpokeError: As `Recorder.add`.
    """
    recorder = Recorder(program, config, patterns)
    recorder.add(trace)
    return recorder.result()


def slots_within(patterns: Patterns, program: Program, max_length: int) -> NDArray[np.int64]:
    """(n_patterns,) slot of each pattern; -1 for those beyond max_length slots of their core.

    Where not all fit, the patterns that leave most records over the run keep theirs.
    """
    table = patterns.table
    records = run_records(patterns, program)
    order = np.lexsort([-records, table["recorder"]])
    core = table["recorder"][order]
    rank = np.empty(len(table), np.int64)
    rank[order] = np.arange(len(table)) - np.searchsorted(core, core)
    kept = rank < max_length
    return np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int64)


def run_records(patterns: Patterns, program: Program) -> NDArray[np.int64]:
    """(n_patterns,) records that each pattern leaves over the whole run."""
    table = patterns.table
    result = table["n_once"].astype(np.int64) * program.n_batches
    return result + table["n_per_unit"].astype(np.int64) * program.total_units


def decoded(cells: Cells) -> dict[str, Any]:
    """The cells as fields of a Sketch: codes back to ln(duration), timestamps as stored."""
    empty = cells.count == 0
    return {
        "count": cells.count.copy(),
        "log_sum": np.minimum(cells.log_sum, LOG_SUM_MAX) / LOG_STEPS,
        "log_min": np.where(empty, np.inf, cells.log_min / LOG_STEPS),
        "log_max": np.where(empty, -np.inf, cells.log_max / LOG_STEPS),
        "duration_sum": cells.sums[:, 0].astype(np.float64),
        "duration_sum_squares": cells.sums[:, 1].astype(np.float64),
        "first_cycles": _time(cells.times[:, 0], np.floor),
        "last_cycles": _time(cells.times[:, 1], np.ceil),
    }


def _time(cycles: NDArray[np.float64], rounding: np.ufunc) -> NDArray[np.float64]:
    """Timestamps in the steps and range of the layout; NaN where nothing was seen."""
    seen = np.isfinite(cycles)
    steps = rounding(np.where(seen, cycles, 0.0) / TIME_STEP_CYCLES)
    return np.where(seen, np.clip(steps, 0, TIME_CODE_MAX) * TIME_STEP_CYCLES, np.nan)


@njit(cache=True)
def _next_records(  # type: ignore[no-untyped-def]
    compute, transfers, at, of_event, port_of_event, recorder_of_key, n_batches, skew,
    epoch_times, raw, n_clamped, keys, epochs, starts, ends,
):  # fmt: skip
    """Move records from the two tables, merged by time, into the buffers until these are full.

    `at` is where each table stands; on an error it stays at the record in question. Returns how
    many records the buffers hold, and a state.
    """
    i, j, n = at[0], at[1], 0
    n_epochs = len(epoch_times)
    state = _OK
    while n + 2 <= len(keys) and (i < len(compute) or j < len(transfers)):
        take_compute = i < len(compute) and (
            j >= len(transfers) or compute[i].end_cycles <= transfers[j].eject_cycles
        )
        if take_compute:
            row = compute[i]
            event, batch = row.event, row.batch
            start, end, done, allowed = row.start_cycles, row.end_cycles, row.end_cycles, 0.0
        else:
            message = transfers[j]
            event, batch = message.event, message.batch
            start, end, allowed = message.inject_cycles, message.eject_cycles, skew
            done = message.consume_cycles
        if event < 0 or event >= len(of_event) or of_event[event] < 0:
            state = _UNKNOWN
        elif batch < 0 or batch >= n_batches:
            state = _BATCH
        elif not (np.isfinite(start) and np.isfinite(end) and np.isfinite(done)):
            state = _NOT_FINITE
        elif end < start - allowed or done < end:
            state = _BACKWARDS
        if state != _OK:
            break
        key = of_event[event]
        epoch = n_epochs * batch // n_batches
        keys[n], epochs[n], starts[n], ends[n] = key, epoch, start, end
        n += 1
        n_clamped[0] += end - start < MIN_DURATION_CYCLES
        raw[recorder_of_key[key], 0 if take_compute else 1] += 1
        if not take_compute and port_of_event[event] >= 0:
            keys[n], epochs[n], starts[n], ends[n] = port_of_event[event], epoch, end, done
            n += 1
            n_clamped[0] += done - end < MIN_DURATION_CYCLES
        epoch_times[epoch, 0] = min(epoch_times[epoch, 0], start)
        epoch_times[epoch, 1] = max(epoch_times[epoch, 1], done)
        if take_compute:
            i += 1
        else:
            j += 1
    at[0], at[1] = i, j
    return n, state


def _refuse(state: int, block: Trace, at: NDArray[np.int64], program: Program) -> None:
    """Say which record cannot be used, and why."""
    i, j = int(at[0]), int(at[1])
    # The compiled loop takes the earlier of the two; the same choice finds the record again.
    use_compute = i < len(block.compute) and (
        j >= len(block.transfers)
        or block.compute["end_cycles"][i] <= block.transfers["eject_cycles"][j]
    )
    row = block.compute[i] if use_compute else block.transfers[j]
    name = f"{'compute' if use_compute else 'transfer'} record {i if use_compute else j}"
    if state == _UNKNOWN:
        raise SlowpokeError(
            f"{name} is of event {row['event']}, which leaves no record in this program; use the "
            "instrumented program that made the trace"
        )
    if state == _BATCH:
        raise SlowpokeError(
            f"{name} is of batch {row['batch']}, outside the run's {program.n_batches} batches"
        )
    times = ", ".join(f"{n} = {row[n]:g}" for n in row.dtype.names or () if n.endswith("_cycles"))
    if state == _NOT_FINITE:
        raise SlowpokeError(f"{name} has {times}: times are finite; drop unfinished records")
    raise SlowpokeError(
        f"{name} runs backwards ({times}); order its times, or set clock_skew_cycles of the chip "
        "to the largest offset of its counters"
    )
