"""Observations: what a sketch and a trace both boil down to, a row for each pattern and window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.program import Program
from slowpoke_tracer.patterns import COMPUTE, TRANSFER, Patterns
from slowpoke_tracer.sketch import Sketch
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
            which is what its cells hold (it lies below the arithmetic mean where durations spread).
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

    @property
    def compute(self) -> Observations:
        """The rows of computations."""
        return self.select(self.column("kind") == COMPUTE)

    @property
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
    if isinstance(evidence, Sketch):
        return _of_sketch(evidence, program, n_windows)
    return _of_trace(evidence, program, n_windows or DEFAULT_WINDOWS)


def _of_sketch(sketch: Sketch, program: Program, n_windows: int | None) -> Observations:
    n = min(n_windows or sketch.n_epochs, sketch.n_epochs)
    of_epoch = np.arange(sketch.n_epochs) * n // sketch.n_epochs
    first = np.searchsorted(of_epoch, np.arange(n))
    count = np.add.reduceat(sketch.count, first, axis=1)
    log_sum = np.add.reduceat(sketch.log_sum, first, axis=1)
    # fmin and fmax: an epoch in which nothing was seen has no time
    start = np.fmin.reduceat(sketch.epoch_start_cycles, first)
    end = np.fmax.reduceat(sketch.epoch_end_cycles, first)
    table, origin, share = _told_apart(sketch.patterns, program)
    pattern, window = np.nonzero(count[origin] > 0)
    slot = origin[pattern]
    number = count[slot, window]
    return Observations(
        table, pattern, window, number / share[pattern],
        np.exp(log_sum[slot, window] / number),
        np.maximum(start[window], sketch.first_cycles[slot]),
        np.minimum(end[window], sketch.last_cycles[slot]),
        n, "sketch",
    )  # fmt: skip


def _told_apart(
    patterns: NDArray[np.void], program: Program
) -> tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.int64]]:
    """(table, slot of each row, rows of that slot): slots shared by several operators or groups,
    which a key of location and footprint cannot tell apart, become one row for each of them."""
    shared = (patterns["op"] < 0) | (patterns["group"] < 0)
    if not shared.any():
        return patterns, np.arange(len(patterns)), np.ones(len(patterns), dtype=np.int64)
    key = ["recorder", "kind", "src", "dst", "work"]
    known = Patterns.of_program(program).table
    rows: dict[tuple[object, ...], list[int]] = {}
    for i, values in enumerate(known[key].tolist()):
        rows.setdefault(tuple(values), []).append(i)
    parts, origin = [patterns[~shared]], [np.flatnonzero(~shared)]
    for slot in np.flatnonzero(shared):
        match = rows.get(tuple(patterns[key][slot].tolist()), [])
        parts.append(known[match])
        origin.append(np.full(len(match), slot))
    where = np.concatenate(origin).astype(np.int64)
    share = np.bincount(where, minlength=len(patterns))[where]
    return np.concatenate(parts), where, share.astype(np.int64)


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


def _of_trace(trace: Trace, program: Program, n_windows: int) -> Observations:
    patterns = Patterns.of_program(program)
    n = min(n_windows, max(trace.meta.n_batches, 1))
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
