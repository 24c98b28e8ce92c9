"""The Fail-Slow Sketch: what is left of a run, per pattern and epoch, in counted bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_tracer.trace import TraceMeta


@dataclass(frozen=True, eq=False)
class Sketch:
    """Statistics of every retained pattern, per epoch.

    Cells hold the statistics of ln(duration in cycles): the logarithm is what both detection and
    the packed layout use. Epoch e = floor(n_epochs * batch / n_batches) (design.md section 5).

    Attributes:
        patterns: (n,) PATTERN_DTYPE of `slowpoke_tracer.patterns`: the retained patterns.
        count: (n, n_epochs) records in each cell.
        log_sum: (n, n_epochs) sum of ln(duration); 0 in empty cells.
        log_min: (n, n_epochs) ln of the shortest duration; +inf in empty cells.
        log_max: (n, n_epochs) ln of the longest duration; -inf in empty cells.
        duration_sum: (n,) sum of durations in cycles over the whole run.
        duration_sum_squares: (n,) sum of squared durations.
        first_cycles: (n,) start of the first record.
        last_cycles: (n,) end of the last record.
        epoch_start_cycles: (n_epochs,) earliest start seen in each epoch; NaN if nothing was.
        epoch_end_cycles: (n_epochs,) latest end.
        nbytes_per_core: (n_cores,) bytes of the packed layout, both stages.
        n_records: Records that were offered.
        n_records_kept: Records that the retained patterns account for.
        meta: Of the trace it was made from.
        mode: `static` or `hash`.
    """

    patterns: NDArray[np.void]
    count: NDArray[np.int64]
    log_sum: NDArray[np.float64]
    log_min: NDArray[np.float64]
    log_max: NDArray[np.float64]
    duration_sum: NDArray[np.float64]
    duration_sum_squares: NDArray[np.float64]
    first_cycles: NDArray[np.float64]
    last_cycles: NDArray[np.float64]
    epoch_start_cycles: NDArray[np.float64]
    epoch_end_cycles: NDArray[np.float64]
    nbytes_per_core: NDArray[np.int64]
    n_records: int
    n_records_kept: int
    meta: TraceMeta
    mode: str = "static"

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return int(self.count.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of all cores' sketches, both stages, in the packed layout."""
        return int(self.nbytes_per_core.sum())
