"""Cells: a sketch laid out over the program's patterns and epochs, gaps included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.compiled import compiled_untyped
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_tracer.layout import LOG_STEPS, LOG_SUM_MAX, MIN_DURATION_CYCLES
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.static_sketch import EMPTY_MIN, log_code

KEY = ("recorder", "kind", "op", "group", "src", "dst", "role", "work")
"""Fields that identify a pattern (SlowPoke section 3.3: location and resource footprint)."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Statistics of ln(duration) per (pattern, epoch); NaN where nothing was recorded.

    Attributes:
        count: (n_patterns, n_epochs) records.
        log_mean: (n_patterns, n_epochs) mean of ln(duration).
        log_max: (n_patterns, n_epochs) ln of the longest duration.
        log_min: (n_patterns, n_epochs) ln of the shortest duration.
    """

    count: NDArray[np.int64]
    log_mean: NDArray[np.float64]
    log_max: NDArray[np.float64]
    log_min: NDArray[np.float64]


def cells_of(sketch: Sketch, patterns: Patterns) -> Cells:
    """The cells of a sketch in the order of a program's patterns; cost n_patterns log n_patterns.

    Raises:
        SlowpokeError: The sketch holds a pattern that the program does not have.
    """
    rows = _rows(sketch, patterns)
    shape = (len(patterns), sketch.n_epochs)
    count = np.zeros(shape, dtype=np.int64)
    count[rows] = sketch.count
    seen = count > 0
    result = []
    for values in (sketch.log_sum, sketch.log_max, sketch.log_min):
        full = np.full(shape, np.nan)
        full[rows] = values
        full[~seen] = np.nan
        result.append(full)
    log_sum, log_max, log_min = result
    return Cells(count, log_sum / np.maximum(count, 1), log_max, log_min)


Codes = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
"""(n_patterns, n_epochs) records, and of the codes of their ln(duration) sum, largest, smallest."""


def empty_cells(n_patterns: int, n_epochs: int) -> Codes:
    """Cells to be filled by `fold_durations`."""
    shape = (n_patterns, n_epochs)
    return (
        np.zeros(shape, np.int64), np.zeros(shape, np.int64),
        np.full(shape, -1, np.int32), np.full(shape, EMPTY_MIN, np.int32),
    )  # fmt: skip


@compiled_untyped
def fold_durations(durations, rows, epoch, count, log_sum, log_max, log_min):  # type: ignore[no-untyped-def]
    """Add (n_events, n_units) durations, NaN for none, to the patterns of the events, -1 for none.

    In the steps in which a sketch holds them, so that the cells are those of a sketch.
    """
    for event in range(durations.shape[0]):
        row = rows[event]
        if row < 0:
            continue
        for unit in range(durations.shape[1]):
            duration = durations[event, unit]
            if duration == duration:
                code = log_code(max(duration, MIN_DURATION_CYCLES))
                count[row, epoch] += 1
                log_sum[row, epoch] += code
                log_max[row, epoch] = max(log_max[row, epoch], code)
                log_min[row, epoch] = min(log_min[row, epoch], code)


def cells_of_codes(
    count: NDArray[np.int64],
    log_sum: NDArray[np.int64],
    log_max: NDArray[np.int32],
    log_min: NDArray[np.int32],
) -> Cells:
    """The cells of what `fold_durations` added up."""
    seen = count > 0
    mean, largest, smallest = (
        np.where(seen, values / LOG_STEPS, np.nan)
        for values in (np.minimum(log_sum, LOG_SUM_MAX), log_max, log_min)
    )
    return Cells(count, mean / np.maximum(count, 1), largest, smallest)


def _rows(sketch: Sketch, patterns: Patterns) -> NDArray[np.int64]:
    if len(sketch.patterns) == len(patterns) and all(
        np.array_equal(sketch.patterns[name], patterns.table[name]) for name in KEY
    ):
        return np.arange(len(patterns))
    index = {tuple(row): i for i, row in enumerate(patterns.table[list(KEY)].tolist())}
    try:
        return np.array([index[tuple(row)] for row in sketch.patterns[list(KEY)].tolist()], int)
    except KeyError:
        raise SlowpokeError(
            f"the sketch of {sketch.meta.model!r} holds patterns that the program does not have; "
            "give the program (model, mapping, chip, batch) that the sketch was recorded from"
        ) from None
