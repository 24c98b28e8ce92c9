"""The Fail-Slow Sketch: what is left of a run, per pattern and epoch, in counted bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.trace import RAW_RECORD_BYTES, TraceMeta


@dataclass(frozen=True, eq=False)
class Sketch:
    """Statistics of every retained pattern, per epoch.

    Cells hold the statistics of ln(duration in cycles): the logarithm is what both detection and
    the packed layout use. Duration is end - start of a compute record, eject - inject of a message,
    and consume - eject of a PORT pattern (the second statistic of a DRAM write). Values are those
    that the packed layout can hold (`slowpoke_tracer.layout`): ln in steps of 1/2048, timestamps in
    steps of 16 cycles, durations below 1 cycle as 1 cycle. Epoch e = floor(n_epochs * batch /
    n_batches) (design.md section 5).

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
        missed: (n,) records of each pattern that Stage-1 counted before its promotion: they
            happened but are in no cell (hash mode).
        n_patterns: Patterns that the program has, retained or not.
        raw_records: (n_cores, 2) records that each core offered: compute, transfers.
        n_evicted: Entries that Stage-2 dropped.
        n_saturated: Cells and counters that reached the end of their range.
        n_clamped: Durations below one cycle that were taken as one.
        n_untimed: Records without a duration, because a probe read the clock once only.
        reserved_nbytes_per_core: (n_cores,) bytes with every place of Stage-2 reserved; as
            `nbytes_per_core` in static mode.
        slot_nbytes: Bytes of one pattern.
        config: How it was recorded; `config.patterns(program)` are the patterns that it may hold.
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
    missed: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    n_patterns: int = 0
    raw_records: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    n_evicted: int = 0
    n_saturated: int = 0
    n_clamped: int = 0
    n_untimed: int = 0
    reserved_nbytes_per_core: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(0, np.int64)
    )
    slot_nbytes: int = 0
    config: SketchConfig = SketchConfig()

    def __post_init__(self) -> None:
        if len(self.missed) != len(self.patterns):
            object.__setattr__(self, "missed", np.zeros(len(self.patterns), np.int64))

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return int(self.count.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of all cores' sketches, both stages, in the packed layout."""
        return int(self.nbytes_per_core.sum())

    @property
    def raw_nbytes(self) -> int:
        """Bytes of the records it was made of, at 32 B each (design.md section 7)."""
        return self.n_records * RAW_RECORD_BYTES

    @property
    def ratio(self) -> float:
        """Raw bytes over bytes of the sketch, both stages counted."""
        return self.raw_nbytes / self.nbytes if self.nbytes else float("nan")
