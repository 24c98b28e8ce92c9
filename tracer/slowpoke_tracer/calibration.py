"""Calibration: how suspicious healthy runs look, for conformal p-values.

Whole healthy replays, other ones than those that the thresholds come from, are scanned like an
observed run. A new healthy run is exchangeable with them, so that the share of them that look at
least as suspicious is a valid p-value whatever the scores' distribution is (design.md section 8;
Vovk, Gammerman, Shafer: Algorithmic Learning in a Random World, 2005, chapter 2).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slowpoke_tracer.baseline import replay_seeds
from slowpoke_tracer.cells import cells_of
from slowpoke_tracer.detect.scan import Window
from slowpoke_tracer.prepare import Prepared, cache_folder
from slowpoke_tracer.residuals import residuals_of
from slowpoke_tracer.twin import Twin

SEED_OFFSET = 1
"""Of the calibration's replays against the thresholds' own."""


def p_value(score: float, healthy: NDArray[np.float64]) -> float:
    """(1 + number of healthy runs at least as suspicious) / (1 + number of them).

    >>> p_value(3.0, np.array([1.0, 2.0, 4.0]))
    0.5
    """
    return float((1 + np.count_nonzero(healthy >= score)) / (1 + len(healthy)))


def excess(scans: Mapping[str, Sequence[Window]], prepared: Prepared) -> float:
    """The largest score of a run in units of its threshold; above 1 is an alarm."""
    family = prepared.candidates.family
    largest = 0.0
    for statistic, windows in scans.items():
        for kind in sorted(set(family.tolist())):
            top = max(windows[i].score for i in np.flatnonzero(family == kind).tolist())
            largest = max(largest, top / prepared.thresholds[statistic, kind])
    return largest


def healthy_excesses(prepared: Prepared, twin: Twin, n_runs: int) -> NDArray[np.float64]:
    """(n_runs,) `excess` of healthy replays, from disk or from n_runs simulations.

    Args:
        prepared: What runs are judged against.
        twin: Replays the program.
        n_runs: 499 give p-values down to 0.002.
    """
    assert prepared.replayer is not None
    baseline = prepared.baseline
    levels = sorted((name, int(kind), x) for (name, kind), x in prepared.thresholds.items())
    key = (twin.fingerprint, prepared.replayer.n_epochs, prepared.seed, baseline.scale, n_runs,
           len(baseline.patterns), baseline.n_runs, levels)  # fmt: skip
    name = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
    path = cache_folder() / f"calibration-{name}.npy"
    kept = _load(path, n_runs)
    if kept is not None:
        return kept
    result = np.empty(n_runs)
    for number, seed in enumerate(replay_seeds(prepared.seed + SEED_OFFSET, n_runs)):
        cells = cells_of(prepared.replayer.sketch(seed, baseline.scale), baseline.patterns)
        residuals = residuals_of(baseline, cells)
        scans = {
            statistic: scanner.scan(residuals[statistic])
            for statistic, scanner in prepared.scanners.items()
        }
        result[number] = excess(scans, prepared)
    _save(path, result)
    return result


def _load(path: Path, n_runs: int) -> NDArray[np.float64] | None:
    try:
        kept: NDArray[np.float64] = np.load(path)
    except (OSError, ValueError, EOFError):
        return None
    return kept if kept.shape == (n_runs,) else None


def _save(path: Path, values: NDArray[np.float64]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".npy", delete=False) as file:
            np.save(file, values)
        os.replace(file.name, path)
    except OSError:
        return  # a cache that cannot be written costs time, not correctness
