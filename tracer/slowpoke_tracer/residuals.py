"""Residuals: observed minus expected cells, what the whole chip is off removed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slowpoke_tracer.baseline import Baseline
from slowpoke_tracer.cells import Cells
from slowpoke_tracer.patterns import COMPUTE, TRANSFER


def residuals_of(baseline: Baseline, cells: Cells) -> dict[str, NDArray[np.float64]]:
    """(n_patterns, n_epochs) residual ln(duration) of cell means (`mean`) and maxima (`max`)."""
    kind = baseline.patterns.table["kind"]
    network, cores = medians(baseline, cells)
    offset = np.where(kind == COMPUTE, cores, network)[:, None]
    return {
        "mean": baseline.means.residual(cells.log_mean) - offset,
        "max": baseline.maxima.residual(cells.log_max) - offset,
    }


def medians(baseline: Baseline, cells: Cells) -> tuple[float, float]:
    """Median residual of transfer and of compute cells: how far the whole chip is off.

    Of the epoch in which it is least: a chip that is off is so in every epoch, a fault that moves
    the median (by congestion) seldom lasts for all of them.
    """
    residual = baseline.means.residual(cells.log_mean)
    kind = baseline.patterns.table["kind"]
    result = []
    for code in (TRANSFER, COMPUTE):
        own = residual[kind == code]
        seen = np.isfinite(own).any(axis=0)
        values = np.nanmedian(own[:, seen], axis=0)
        n_places = len(set(baseline.patterns.table["recorder"][kind == code].tolist()))
        # With one or two cores, a slow core cannot be told from a chip that is slow throughout.
        known = len(values) > 0 and n_places > 2
        result.append(float(values[np.argmin(np.abs(values))]) if known else 0.0)
    return result[0], result[1]
