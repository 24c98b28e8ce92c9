"""SL-Recorder: folds a stream of trace blocks into a Fail-Slow Sketch.

Its memory depends on the program and the configuration, never on the length of the stream: blocks
pass through buffers of fixed size. Records of a block's two tables are taken in order of time, as
the cores would see them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.compiled import compiled_untyped
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program
from slowpoke_tracer.hash_sketch import HashSketch, fingerprints_differ, key_tags, mixed
from slowpoke_tracer.layout import MIN_DURATION_CYCLES
from slowpoke_tracer.patterns import PORT, Patterns
from slowpoke_tracer.readout import hash_slots, static_slots, stored_time
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sketch_config import SketchConfig as SketchConfig
from slowpoke_tracer.sketch_config import slots_within
from slowpoke_tracer.static_sketch import StaticSketch
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
        self.patterns = config.patterns(program) if patterns is None else patterns
        self._recorder = np.ascontiguousarray(self.patterns.table["recorder"])
        self._sketch = _sketch_of(self.patterns, program, config)
        self._epoch_times = np.empty((config.n_epochs, 2))
        self._epoch_times[:] = np.inf, -np.inf
        self._raw = np.zeros((program.chip.n_cores, 2), np.int64)
        self._odd = np.zeros(2, np.int64)  # durations below a cycle, records with one time only
        self._meta: TraceMeta | None = None
        self._keys, self._epochs, self._no_cell = np.zeros((3, _BUFFER), np.int64)
        self._starts, self._ends = np.zeros((2, _BUFFER))

    def add(self, block: Trace) -> None:
        """Fold a block in; its records must be in order of time. Cost grows with the records.

        A record whose start or end is NaN (a probe before or after the instruction only) has no
        duration: it is counted as raw and as untimed, and is in no cell.

        Raises:
            SlowpokeError: A record names an event that leaves none, a batch outside the run, a time
                that is not finite, or an end before its start by more than the counters' skew.
        """
        self._meta = block.meta
        at = np.zeros(2, np.int64)
        n_compute, n_transfers = len(block.compute), len(block.transfers)
        while at[0] < n_compute or at[1] < n_transfers:
            n, state = _next_records(
                block.compute, block.transfers, at, self.patterns.of_event,
                self.patterns.port_of_event, self._recorder, self.program.n_batches,
                2.0 * self.program.chip.clock_skew_cycles, self._epoch_times, self._raw,
                self._odd, self._keys, self._epochs, self._starts, self._ends,
            )  # fmt: skip
            if state != _OK:
                _refuse(state, block, at, self.program)
            cells = self._epochs
            if self.config.mode == "hash" and self.config.epoch_in_key:
                self._keys[:n] = self._keys[:n] * self.config.n_epochs + self._epochs[:n]
                cells = self._no_cell
            self._sketch.insert(self._keys, cells, self._starts, self._ends, n)

    def result(self) -> Sketch:
        """The sketch of what was added so far, with the values that its bytes can hold.

        Raises:
            SlowpokeError: Nothing was added.
        """
        if self._meta is None:
            raise SlowpokeError("the recorder was given no block of a trace; add one before result")
        n_cores = self.program.chip.n_cores
        reserved = self.config.nbytes_per_core(self.patterns, n_cores)
        sketch = self._sketch
        if isinstance(sketch, StaticSketch):
            slots, nbytes, n_evicted = static_slots(sketch), reserved, 0
        else:
            slots = hash_slots(sketch, self.config)
            nbytes = self.config.fixed_nbytes + sketch.length * self.config.slot_nbytes
            n_evicted = int(sketch.n_evicted.sum())
        return Sketch(
            patterns=self.patterns.table[slots.pattern],
            **slots.statistics(),
            epoch_start_cycles=stored_time(self._epoch_times[:, 0], np.floor),
            epoch_end_cycles=stored_time(self._epoch_times[:, 1], np.ceil),
            nbytes_per_core=nbytes,
            n_records=int(self._raw.sum()),
            n_records_kept=slots.n_records(self.patterns.table["kind"] != PORT),
            meta=self._meta,
            mode=self.config.mode,
            n_patterns=len(self.patterns),
            raw_records=self._raw.copy(),
            n_evicted=n_evicted,
            n_saturated=slots.n_saturated,
            n_clamped=int(self._odd[0]),
            n_untimed=int(self._odd[1]),
            reserved_nbytes_per_core=reserved,
            slot_nbytes=self.config.slot_nbytes,
            config=self.config,
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


def _sketch_of(
    patterns: Patterns, program: Program, config: SketchConfig
) -> StaticSketch | HashSketch:
    if config.mode == "static":
        return StaticSketch(slots_within(patterns, program, config.length), config.n_epochs)
    core = patterns.table["recorder"].astype(np.int64)
    names = ("kind", "src", "dst", "op", "group", "role")
    columns = [patterns.table[name].astype(np.int64).view(np.uint64) for name in names]
    columns.append(np.ascontiguousarray(patterns.table["work"]).view(np.uint64))
    if config.epoch_in_key:
        core = np.repeat(core, config.n_epochs)
        columns = [np.repeat(column, config.n_epochs) for column in columns]
        columns.append(np.tile(np.arange(config.n_epochs, dtype=np.uint64), len(patterns)))
    tags = key_tags(columns, config.seed)
    while not fingerprints_differ(tags, core):
        tags = mixed(tags)
    n_cells = 1 if config.epoch_in_key else config.n_epochs
    return HashSketch(core, tags, config, program.chip.n_cores, n_cells)


@compiled_untyped
def _known(start, end):  # type: ignore[no-untyped-def]
    """When a record is made: its end, or its start where a probe read the clock before only."""
    return start if np.isnan(end) else end


@compiled_untyped
def _next_records(  # type: ignore[no-untyped-def]
    compute, transfers, at, of_event, port_of_event, recorder_of_key, n_batches, skew,
    epoch_times, raw, odd, keys, epochs, starts, ends,
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
            j >= len(transfers)
            or _known(compute[i].start_cycles, compute[i].end_cycles)
            <= _known(transfers[j].inject_cycles, transfers[j].eject_cycles)
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
        timed = not (np.isnan(start) or np.isnan(end))
        known = _known(start, end)
        if event < 0 or event >= len(of_event) or of_event[event] < 0:
            state = _UNKNOWN
        elif batch < 0 or batch >= n_batches:
            state = _BATCH
        elif not np.isfinite(known) or (timed and not (np.isfinite(start) and np.isfinite(done))):
            state = _NOT_FINITE
        elif end < start - allowed or done < end:
            state = _BACKWARDS
        if state != _OK:
            break
        key = of_event[event]
        epoch = n_epochs * batch // n_batches
        raw[recorder_of_key[key], 0 if take_compute else 1] += 1
        if timed:
            keys[n], epochs[n], starts[n], ends[n] = key, epoch, start, end
            n += 1
            odd[0] += end - start < MIN_DURATION_CYCLES
        else:
            odd[1] += 1
        if not take_compute and port_of_event[event] >= 0 and np.isfinite(done - end):
            keys[n], epochs[n], starts[n], ends[n] = port_of_event[event], epoch, end, done
            n += 1
            odd[0] += done - end < MIN_DURATION_CYCLES
        epoch_times[epoch, 0] = min(epoch_times[epoch, 0], known if np.isnan(start) else start)
        epoch_times[epoch, 1] = max(epoch_times[epoch, 1], known if np.isnan(done) else done)
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
    use_compute = i < len(block.compute)
    if use_compute and j < len(block.transfers):
        ours, theirs = block.compute[i], block.transfers[j]
        use_compute = bool(
            _known.py_func(ours["start_cycles"], ours["end_cycles"])
            <= _known.py_func(theirs["inject_cycles"], theirs["eject_cycles"])
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
        raise SlowpokeError(
            f"{name} has {times}: times are finite, but for a start or end that no probe read"
        )
    raise SlowpokeError(
        f"{name} runs backwards ({times}); order its times, or set clock_skew_cycles of the chip "
        "to the largest offset of its counters"
    )
