"""What the host reads from the cores' memory when a run is over: codes back to numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowpoke_tracer.hash_sketch import HashSketch
from slowpoke_tracer.layout import (
    COUNT_MAX,
    LOG_STEPS,
    LOG_SUM_MAX,
    TIME_CODE_MAX,
    TIME_STEP_CYCLES,
)
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.static_sketch import EMPTY_MIN, StaticSketch


@dataclass(frozen=True, eq=False)
class Slots:
    """Every retained pattern's statistics as stored.

    Attributes:
        pattern: (n,) the pattern of each slot.
        missed: (n,) records counted before promotion.
        count, log_sum, log_min, log_max: (n, n_epochs) cells, as codes.
        sums: (n, 2) sums of durations and of their squares.
        times: (n, 2) first start and last end.
        n_saturated: Cells and counters at the end of their range.
    """

    pattern: NDArray[np.int64]
    missed: NDArray[np.int64]
    count: NDArray[np.int64]
    log_sum: NDArray[np.int64]
    log_min: NDArray[np.int32]
    log_max: NDArray[np.int32]
    sums: NDArray[np.float64]
    times: NDArray[np.float64]
    n_saturated: int

    def n_records(self, counted: NDArray[np.bool_]) -> int:
        """Records that the slots of counted patterns account for."""
        own = counted[self.pattern]
        return int(self.count[own].sum() + self.missed[own].sum())

    def statistics(self) -> dict[str, Any]:
        """The fields of a Sketch that hold statistics."""
        empty = self.count == 0
        return {
            "count": self.count.copy(),
            "missed": self.missed.copy(),
            "log_sum": np.minimum(self.log_sum, LOG_SUM_MAX) / LOG_STEPS,
            "log_min": np.where(empty, np.inf, self.log_min / LOG_STEPS),
            "log_max": np.where(empty, -np.inf, self.log_max / LOG_STEPS),
            "duration_sum": self.sums[:, 0].astype(np.float64),
            "duration_sum_squares": self.sums[:, 1].astype(np.float64),
            "first_cycles": stored_time(self.times[:, 0], np.floor),
            "last_cycles": stored_time(self.times[:, 1], np.ceil),
        }


def stored_time(cycles: NDArray[np.float64], rounding: np.ufunc) -> NDArray[np.float64]:
    """Timestamps in the steps and range of the layout; NaN where nothing was seen."""
    seen = np.isfinite(cycles)
    steps = rounding(np.where(seen, cycles, 0.0) / TIME_STEP_CYCLES)
    return np.where(seen, np.clip(steps, 0, TIME_CODE_MAX) * TIME_STEP_CYCLES, np.nan)


def static_slots(sketch: StaticSketch) -> Slots:
    """The slots of static mode, in order of their patterns."""
    cells = sketch.cells
    pattern = np.flatnonzero(sketch.slot_of_key >= 0)
    return Slots(
        pattern, np.zeros(len(pattern), np.int64), cells.count, cells.log_sum, cells.log_min,
        cells.log_max, cells.sums.astype(np.float64), cells.times,
        int((cells.log_sum > LOG_SUM_MAX).sum()),
    )  # fmt: skip


def hash_slots(sketch: HashSketch, config: SketchConfig) -> Slots:
    """The entries of Stage-2 as slots; entries of a pattern's several epochs become one slot."""
    cells = sketch.cells
    keys = np.flatnonzero(sketch.entry_of_key >= 0)
    entries = sketch.entry_of_key[keys]
    parts = config.n_epochs if config.epoch_in_key else 1
    pattern, row = np.unique(keys // parts, return_inverse=True)
    shape = (len(pattern), config.n_epochs)
    # One entry fills one cell of its row, or all of them.
    where = (row, keys % parts) if config.epoch_in_key else (row,)

    def spread(values: NDArray[Any], empty: int) -> NDArray[Any]:
        result = np.full(shape, empty, values.dtype)
        result[where] = values[entries][:, 0] if config.epoch_in_key else values[entries]
        return result

    missed = np.bincount(row, sketch.missed[entries], len(pattern)).astype(np.int64)
    sums = np.zeros((len(pattern), 2))
    np.add.at(sums, row, cells.sums[entries].astype(np.float64))
    times = np.empty((len(pattern), 2))
    times[:] = np.inf, -np.inf
    np.minimum.at(times[:, 0], row, cells.times[entries, 0])
    np.maximum.at(times[:, 1], row, cells.times[entries, 1])
    full = (cells.count[entries] == COUNT_MAX) | (cells.log_sum[entries] > LOG_SUM_MAX)
    return Slots(
        pattern, missed, spread(cells.count, 0), spread(cells.log_sum, 0),
        spread(cells.log_min, EMPTY_MIN), spread(cells.log_max, -1), sums, times,
        int(full.sum() + (sketch.missed[entries] >= COUNT_MAX - 1).sum()),
    )  # fmt: skip
