"""How sure a measured figure is: Wilson intervals, paired tests, cluster bootstrap."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest, rankdata

from slowpoke_mapping.errors import SlowpokeError


@dataclass(frozen=True, slots=True)
class Proportion:
    """k of n with its Wilson interval; prints as `0.92 [0.89, 0.94]`."""

    k: int
    n: int
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not 0 <= self.k <= self.n:
            raise SlowpokeError(f"{self.k} of {self.n}: a share needs 0 <= k <= n")

    @property
    def value(self) -> float:
        """k / n; NaN of nothing."""
        return self.k / self.n if self.n else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval (E. B. Wilson, 1927); NaN of nothing.

        >>> [round(edge, 3) for edge in Proportion(242, 301).interval]
        [0.755, 0.845]
        """
        if not self.n:
            return math.nan, math.nan
        found = binomtest(self.k, self.n).proportion_ci(self.confidence, method="wilson")
        return float(found.low), float(found.high)

    def __str__(self) -> str:
        if not self.n:
            return "-"
        low, high = self.interval
        return f"{self.value:.3f} [{low:.3f}, {high:.3f}]"


def mcnemar(only_first: int, only_second: int) -> float:
    """Two-sided exact p-value that two methods are right equally often on the same runs.

    Args:
        only_first: Runs that only the first method has right.
        only_second: Runs that only the second has right.

    >>> mcnemar(0, 5)
    0.0625
    """
    n = only_first + only_second
    return float(binomtest(only_first, n, 0.5).pvalue) if n else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given (S. Holm, 1979).

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, running = [0.0] * len(p_values), 0.0
    for position, i in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - position) * p_values[i]))
        adjusted[i] = running
    return adjusted


def cluster_bootstrap(
    clusters: Sequence[Hashable],
    statistic: Callable[[NDArray[np.int64]], float],
    n_draws: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile interval of a statistic, resampling whole clusters; NaN without data.

    Args:
        clusters: (n,) cluster of each row.
        statistic: Of (m,) row indices; draws that give NaN are left out.
        n_draws: Resamples.
        confidence: Coverage.
        seed: Of the draws.
    """
    names = list(dict.fromkeys(clusters))
    if not names:
        return math.nan, math.nan
    number = {name: i for i, name in enumerate(names)}
    label = np.array([number[name] for name in clusters])
    order = np.argsort(label, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(label, minlength=len(names)))[:-1])
    rng = np.random.default_rng(seed)
    values = []
    for _ in range(n_draws):
        chosen = rng.integers(len(names), size=len(names))
        values.append(statistic(np.concatenate([members[i] for i in chosen])))
    kept = np.array([value for value in values if not math.isnan(value)])
    if not len(kept):
        return math.nan, math.nan
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(kept, [tail, 100 - tail])
    return float(low), float(high)


def auroc(positive: ArrayLike, negative: ArrayLike) -> float:
    """Probability that a positive's score exceeds a negative's, ties half (Mann-Whitney).

    >>> auroc([1, 2], [1, 0])
    0.875
    """
    a, b = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    if not len(a) or not len(b):
        return math.nan
    ranks = rankdata(np.concatenate([a, b]))
    return float((ranks[: len(a)].sum() - len(a) * (len(a) + 1) / 2) / (len(a) * len(b)))


def partial_auroc(positive: ArrayLike, negative: ArrayLike, max_fpr: float = 0.05) -> float:
    """Mean true-positive rate over false-positive rates up to `max_fpr`: 1 is perfect, max_fpr / 2
    is chance.
    """
    a, b = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    if not len(a) or not len(b):
        return math.nan
    cuts = np.concatenate([[np.inf], np.unique(np.concatenate([a, b]))[::-1]])
    tpr = np.array([(a >= cut).mean() for cut in cuts])
    fpr = np.array([(b >= cut).mean() for cut in cuts])
    edge = float(np.interp(max_fpr, fpr, tpr))
    inside = fpr <= max_fpr
    x, y = np.append(fpr[inside], max_fpr), np.append(tpr[inside], edge)
    return float(np.trapezoid(y, x)) / max_fpr


def recall_at(positive: ArrayLike, negative: ArrayLike, fpr: float) -> float:
    """Share of positives above the lowest threshold that at most a share `fpr` of negatives
    exceeds.
    """
    a, b = np.asarray(positive, dtype=np.float64), np.sort(np.asarray(negative, dtype=np.float64))
    if not len(a) or not len(b):
        return math.nan
    allowed = math.floor(fpr * len(b) + 1e-9)
    return float((a > b[len(b) - 1 - allowed]).mean()) if allowed < len(b) else 1.0
