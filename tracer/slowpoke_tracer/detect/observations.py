"""Observations: what a sketch and a trace both boil down to, a row for each pattern and window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program
from slowpoke_tracer.patterns import COMPUTE, ORDER, TRANSFER, Patterns
from slowpoke_tracer.recorder import record
from slowpoke_tracer.remembered import remembered
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.trace import Trace

DEFAULT_WINDOWS = 8
"""Time windows of a full trace: as many as a sketch has epochs (design.md section 7)."""


@dataclass(frozen=True, eq=False)
class Observations:
    """Mean durations per (pattern, time window), non-empty ones only.

    Attributes:
        table: (n_patterns,) PATTERN_DTYPE.
        pattern: (n,) row of `table`.
        window: (n,) time window.
        count: (n,) records that the row stands for; a fraction where operators share a slot.
        mean_cycles: (n,) mean duration: arithmetic from a trace; from a sketch the geometric one,
            which is what its cells hold (it lies below the arithmetic mean where durations spread);
            patterns that share a slot share it in proportion to their work.
        start_cycles: (n,) start of the first record; from a sketch, of the epoch or the pattern.
        end_cycles: (n,) end of the last record, likewise.
        n_windows: Number of windows.
        source: `trace` or `sketch`.
    """

    table: NDArray[np.void]
    pattern: NDArray[np.int64]
    window: NDArray[np.int64]
    count: NDArray[np.float64]
    mean_cycles: NDArray[np.float64]
    start_cycles: NDArray[np.float64]
    end_cycles: NDArray[np.float64]
    n_windows: int
    source: str

    def __len__(self) -> int:
        return len(self.pattern)

    def column(self, name: str) -> NDArray[np.generic]:
        """(n,) a column of the pattern table, for each row."""
        values: NDArray[np.generic] = self.table[name][self.pattern]
        return values

    def select(self, keep: NDArray[np.bool_]) -> Observations:
        """The rows where `keep` holds."""
        return self.take(np.flatnonzero(keep))

    def take(self, keep: NDArray[np.integer]) -> Observations:
        """The rows of these numbers, in their order."""
        return Observations(
            self.table, self.pattern[keep], self.window[keep], self.count[keep],
            self.mean_cycles[keep], self.start_cycles[keep], self.end_cycles[keep],
            self.n_windows, self.source,
        )  # fmt: skip

    @cached_property
    def compute(self) -> Observations:
        """The rows of computations."""
        return self.select(self.column("kind") == COMPUTE)

    @cached_property
    def transfers(self) -> Observations:
        """The rows of messages."""
        return self.select(self.column("kind") == TRANSFER)


def observe(
    evidence: Sketch | Trace, program: Program, n_windows: int | None = None
) -> Observations:
    """The observations of a run's evidence.

    Args:
        evidence: A sketch, whose epochs become windows, or a trace.
        program: The program that ran; it says which pattern an event of a trace belongs to.
        n_windows: Windows of a trace, DEFAULT_WINDOWS if None. A sketch's epochs are merged evenly
            where fewer windows are asked for; more than it has cannot be had.

    Cost: a few passes over the cells or records.
    """
    # one key for one answer: None and the number that it stands for are the same
    if isinstance(evidence, Sketch):
        n = min(n_windows or evidence.n_epochs, evidence.n_epochs)
    else:
        n = min(n_windows or DEFAULT_WINDOWS, max(evidence.meta.n_batches, 1))
    return _observed(evidence, program, n)


@remembered
def _observed(evidence: Sketch | Trace, program: Program, n_windows: int) -> Observations:
    if isinstance(evidence, Sketch):
        return _of_sketch(evidence, program, n_windows)
    return _of_trace(evidence, program, n_windows)


def recorded_alike(evidence: Sketch | Trace, other: Sketch, program: Program) -> Sketch:
    """The evidence as a sketch of the other one's kind, so that the two can be compared.

    A trace is recorded: means of a trace are arithmetic, those of a sketch geometric, and the
    difference would pass for slowness.
    """
    if isinstance(evidence, Sketch):
        return evidence
    return recorded(evidence, program, other.config)


@remembered
def recorded(trace: Trace, program: Program, config: SketchConfig) -> Sketch:
    """The sketch of a trace, the same one for everybody who asks."""
    return record(trace, program, config)


def _of_sketch(sketch: Sketch, program: Program, n: int) -> Observations:
    of_epoch = np.arange(sketch.n_epochs) * n // sketch.n_epochs
    first = np.searchsorted(of_epoch, np.arange(n))
    count = np.add.reduceat(sketch.count, first, axis=1)
    log_sum = np.add.reduceat(sketch.log_sum, first, axis=1)
    # fmin and fmax: an epoch in which nothing was seen has no time
    start = np.fmin.reduceat(sketch.epoch_start_cycles, first)
    end = np.fmax.reduceat(sketch.epoch_end_cycles, first)
    members = _members(sketch, program)
    row, window = np.nonzero(count[members.slot] > 0)
    slot = members.slot[row]
    number = count[slot, window]
    return Observations(
        members.table, row, window, number * members.share[row],
        np.exp(log_sum[slot, window] / number) * members.scale[row],
        np.maximum(start[window], sketch.first_cycles[slot]),
        np.minimum(end[window], sketch.last_cycles[slot]),
        n, "sketch",
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Members:
    """The program's patterns that share the slots of a sketch.

    Attributes:
        table: (n,) PATTERN_DTYPE, one row for each pattern.
        slot: (n,) row of the sketch that holds it.
        share: (n,) its share of the slot's records.
        scale: (n,) its work over the geometric mean of the slot's, which is to its duration what
            the slot's duration, a geometric mean too, is to the slot's work.
    """

    table: NDArray[np.void]
    slot: NDArray[np.int64]
    share: NDArray[np.float64]
    scale: NDArray[np.float64]


def _members(sketch: Sketch, program: Program) -> _Members:
    slots, patterns = sketch.config.patterns(program), Patterns.of_program(program)
    both = np.flatnonzero((slots.of_event >= 0) & (patterns.of_event >= 0))
    pair = np.unique(slots.of_event[both] * len(patterns) + patterns.of_event[both])
    slot, member = pair // max(len(patterns), 1), pair % max(len(patterns), 1)
    table = patterns.table[member]
    records = table["n_once"] * program.n_batches + table["n_per_unit"] * program.total_units
    work = np.log(np.maximum(table["work"], 1.0))
    total = np.bincount(slot, records, len(slots))
    mean = np.bincount(slot, records * work, len(slots)) / np.maximum(total, 1)
    at = _rows_of(slots, sketch)[slot]
    kept = at >= 0
    return _Members(
        table[kept],
        at[kept],
        (records / np.maximum(total[slot], 1))[kept],
        np.exp(work - mean[slot])[kept],
    )


def _rows_of(slots: Patterns, sketch: Sketch) -> NDArray[np.int64]:
    """(n_slots,) row of the sketch that holds each slot; -1 where it was dropped."""
    columns = list(ORDER)
    if np.array_equal(slots.table[columns], sketch.patterns[columns]):
        return np.arange(len(slots))
    rows = {tuple(key): row for row, key in enumerate(sketch.patterns[columns].tolist())}
    found = [rows.pop(tuple(key), -1) for key in slots.table[columns].tolist()]
    if rows:
        raise SlowpokeError(
            f"the sketch of {sketch.meta.model!r} holds patterns that the program does not have; "
            "give the program (model, mapping, chip, batch) that the sketch was recorded from"
        )
    return np.array(found, dtype=np.int64)


def record_patterns(
    trace: Trace, patterns: Patterns
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """(pattern, batch, start, end) of every record: computations first, then messages.

    The pattern is -1 where the program records nothing. A message lasts from injection to ejection:
    what its receiver does with it afterwards is not the network's time (design.md section 4).
    """
    event = np.concatenate([trace.compute["event"], trace.transfers["event"]])
    batch = np.concatenate([trace.compute["batch"], trace.transfers["batch"]])
    start = np.concatenate([trace.compute["start_cycles"], trace.transfers["inject_cycles"]])
    end = np.concatenate([trace.compute["end_cycles"], trace.transfers["eject_cycles"]])
    return patterns.of_event[event], batch.astype(np.int64), start, end


def _of_trace(trace: Trace, program: Program, n: int) -> Observations:
    patterns = Patterns.of_program(program)
    pattern, batch, start, end = record_patterns(trace, patterns)
    keep = pattern >= 0
    pattern, batch, start, end = pattern[keep], batch[keep], start[keep], end[keep]
    cell = pattern * n + batch * n // max(trace.meta.n_batches, 1)
    size = len(patterns) * n
    count = np.bincount(cell, minlength=size)
    total = np.bincount(cell, weights=end - start, minlength=size)
    first = np.full(size, np.inf)
    np.minimum.at(first, cell, start)
    last = np.full(size, -np.inf)
    np.maximum.at(last, cell, end)
    full = np.flatnonzero(count)
    return Observations(
        patterns.table, full // n, full % n, count[full].astype(np.float64),
        total[full] / count[full], first[full], last[full], n, "trace",
    )  # fmt: skip
