"""Cells: a sketch laid out over the program's patterns and epochs, gaps included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.sketch import Sketch

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
