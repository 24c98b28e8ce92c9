"""The scan: for every place, slowdown and time window, how much better a fault explains the cells.

A one-sided generalised likelihood ratio over contiguous (epoch, layer group) segments that begin
and end with evidence. With w = 1 / variance and template d = ln(1 + (k - 1) share), a window has
N = sum w r d and D = sum w d^2; healthy, N has mean 0 and variance V = sum o D + (t sum D)^2: o
is the overdispersion that queueing causes (one burst moves many patterns at once), t the spread
of a place's own speed between runs (process variation, drift). The score is ln p(N | fault) /
p(N | healthy) = (N D - D^2 / 2) / V.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from slowpoke_tracer.baseline import Baseline, Moments
from slowpoke_tracer.detect.candidates import Candidates

SLOWDOWNS = np.array([1.2, 1.5, 2.0, 3.0, 5.0, 10.0])
"""Slowdowns that are tried; between them the score changes little."""

SLACK = 3.0
"""Nats that a window may lose when its edges are trimmed."""

SLIGHT = 1e-6
"""Nats by which a bound on a window's score may be off, at most, through rounding."""

PRIOR_SEGMENTS = 4
"""Weight of 'no overdispersion' beside what the replays show."""


@dataclass(frozen=True, slots=True)
class Window:
    """The best window of a place.

    Attributes:
        score: Log-likelihood ratio in nats.
        slowdown: Of SLOWDOWNS, the one that scored best.
        first: First segment, epoch * n_groups + group.
        last: Last segment, inclusive.
    """

    score: float
    slowdown: float
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Scanner:
    """Scans runs of one program against one healthy baseline.

    Attributes:
        candidates: What can be accused.
        moments: Of the scanned statistic (cell means or cell maxima).
        groups: (n_patterns,) layer group of each pattern.
        n_groups: Number of layer groups.
        overdispersion: (n, n_slowdowns, n_groups) >= 1.
        spread: (n, n_slowdowns) standard deviation of the place's own effect between healthy runs.
        healthy: (n_runs, n) best score of every place in each healthy run, itself left out.
    """

    candidates: Candidates
    moments: Moments
    groups: NDArray[np.int64]
    n_groups: int
    overdispersion: NDArray[np.float64]
    spread: NDArray[np.float64]
    healthy: NDArray[np.float64]

    @staticmethod
    def of(baseline: Baseline, moments: Moments, candidates: Candidates, n_groups: int) -> Scanner:
        """A scanner whose variances come from the baseline's runs, each left out in turn.

        Cost: n_runs x (non-zeros of the templates x n_epochs + n x n_segments^2) x n_slowdowns.
        """
        groups = baseline.patterns.table["group"].astype(np.int64)
        n, n_epochs = len(candidates.places), moments.mean.shape[1]
        square = np.zeros((n, len(SLOWDOWNS), n_groups))
        expected = np.zeros_like(square)
        effects = []
        sums = []
        for run in range(baseline.n_runs):
            num, den = segment_sums(
                candidates, groups, n_groups, moments.left_out(run), moments.variance
            )
            square += (num**2).sum(axis=2)
            expected += den.sum(axis=2)
            total = den.sum(axis=(2, 3))
            effects.append(num.sum(axis=(2, 3)) / np.where(total > 0, total, 1))
            sums.append((num, den))
        typical = expected / max(baseline.n_runs, 1) / n_epochs
        weight = baseline.n_runs * n_epochs
        with np.errstate(invalid="ignore", divide="ignore"):
            over = (square / np.where(typical > 0, typical, 1) + PRIOR_SEGMENTS) / (
                weight + PRIOR_SEGMENTS
            )
        overdispersion = np.maximum(np.nan_to_num(over, nan=1.0), 1.0)
        within = np.zeros((n, len(SLOWDOWNS)))
        if sums:
            den = sums[0][1]
            total = den.sum(axis=(2, 3))
            within = (overdispersion[:, :, None, :] * den).sum(axis=(2, 3)) / np.where(
                total > 0, total, 1
            ) ** 2
        between = np.var(effects, axis=0, ddof=1) if len(effects) > 1 else within
        spread = np.sqrt(np.maximum(between - within, 0.0))
        scores = [best_windows(num, den, overdispersion, spread)[0] for num, den in sums]
        healthy = np.array(scores) if scores else np.zeros((0, n))
        return Scanner(candidates, moments, groups, n_groups, overdispersion, spread, healthy)

    def scan(
        self, residual: NDArray[np.float64], extra_variance: NDArray[np.float64] | float = 0.0
    ) -> list[Window]:
        """The best window of every candidate.

        Args:
            residual: (n_patterns, n_epochs) observed minus expected; NaN where nothing was seen.
            extra_variance: Added to the cells' variance (of effects that were subtracted).
        """
        num, den = segment_sums(
            self.candidates,
            self.groups,
            self.n_groups,
            residual,
            self.moments.variance + extra_variance,
        )
        score, slowdown, first, last = best_windows(num, den, self.overdispersion, self.spread)
        return [
            Window(float(s), float(SLOWDOWNS[k]), int(a), int(b))
            for s, k, a, b in zip(score, slowdown, first, last, strict=True)
        ]


def segment_sums(
    candidates: Candidates,
    groups: NDArray[np.int64],
    n_groups: int,
    residual: NDArray[np.float64],
    variance: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """N and D of every (candidate, slowdown, epoch, group)."""
    share = candidates.share
    return _segment_sums(  # type: ignore[no-any-return]
        share.indptr.astype(np.int64),
        share.indices.astype(np.int64),
        share.data.astype(np.float64),
        groups,
        n_groups,
        np.ascontiguousarray(residual, dtype=np.float64),
        np.ascontiguousarray(np.broadcast_to(variance, residual.shape), dtype=np.float64),
        SLOWDOWNS,
    )


def best_windows(
    num: NDArray[np.float64],
    den: NDArray[np.float64],
    overdispersion: NDArray[np.float64],
    spread: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Score, slowdown index, first and last segment of each candidate's best window."""
    n, n_slow, n_epochs, n_groups = num.shape
    variance = den * overdispersion[:, :, None, :]
    shape = (n, n_slow, n_epochs * n_groups)
    return _best_windows(  # type: ignore[no-any-return]
        num.reshape(shape), den.reshape(shape), variance.reshape(shape), spread
    )


@numba.njit(cache=True)
def _segment_sums(indptr, indices, data, groups, n_groups, residual, variance, slowdowns):  # type: ignore[no-untyped-def]
    n = len(indptr) - 1
    n_epochs = residual.shape[1]
    num = np.zeros((n, len(slowdowns), n_epochs, n_groups))
    den = np.zeros((n, len(slowdowns), n_epochs, n_groups))
    for c in range(n):
        for i in range(indptr[c], indptr[c + 1]):
            p = indices[i]
            g = groups[p]
            for k in range(len(slowdowns)):
                d = np.log(1.0 + (slowdowns[k] - 1.0) * data[i])
                for e in range(n_epochs):
                    r = residual[p, e]
                    if r == r:
                        w = d / variance[p, e]
                        num[c, k, e, g] += w * r
                        den[c, k, e, g] += w * d
    return num, den


@numba.njit(cache=True, error_model="numpy")
def _best_windows(num, den, variance, spread):  # type: ignore[no-untyped-def]
    n, n_slow, n_segments = num.shape
    score = np.zeros(n)
    slowdown = np.zeros(n, dtype=np.int64)
    first = np.zeros(n, dtype=np.int64)
    last = np.full(n, n_segments - 1, dtype=np.int64)
    # V >= rho D, so that a window scores at most the sum of its (N - D / 2) / rho. `most` is the
    # largest such sum of the windows that begin at a segment: what cannot win is not looked at.
    most = np.zeros(n_segments + 1)
    for c in range(n):
        for k in range(n_slow):
            s2 = spread[c, k] * spread[c, k]
            rho = np.inf
            for a in range(n_segments):
                if den[c, k, a] > 0.0:
                    rho = min(rho, variance[c, k, a] / den[c, k, a])
            if not rho < np.inf:
                rho = 1.0
            rho *= 1.0 - 1e-6  # beyond the rounding of sums
            for a in range(n_segments - 1, -1, -1):
                gain = num[c, k, a] - 0.5 * den[c, k, a]
                most[a] = gain + max(most[a + 1], 0.0)
            for a in range(n_segments):
                if num[c, k, a] <= 0.0 or most[a] <= rho * score[c] - SLIGHT:
                    continue
                total = 0.0
                effect = 0.0
                noise = 0.0
                for b in range(a, n_segments):
                    total += num[c, k, b]
                    effect += den[c, k, b]
                    noise += variance[c, k, b]
                    bound = total - 0.5 * effect + max(most[b + 1], 0.0)
                    if bound <= rho * score[c] - SLIGHT:
                        break
                    if num[c, k, b] <= 0.0:
                        continue
                    v = noise + s2 * effect * effect
                    value = (total * effect - 0.5 * effect * effect) / v
                    if value > score[c]:
                        score[c] = value
                        slowdown[c] = k
                        first[c] = a
                        last[c] = b
        # Segments at the edges that say next to nothing (the place was idle) are left out.
        k = slowdown[c]
        s2 = spread[c, k] * spread[c, k]
        for side in range(2):
            while first[c] < last[c]:
                a = first[c] + (1 if side == 0 else 0)
                b = last[c] - (1 if side == 1 else 0)
                total = num[c, k, a : b + 1].sum()
                effect = den[c, k, a : b + 1].sum()
                v = variance[c, k, a : b + 1].sum() + s2 * effect * effect
                if v <= 0.0 or (total * effect - 0.5 * effect * effect) / v < score[c] - SLACK:
                    break
                first[c], last[c] = a, b
    return score, slowdown, first, last
