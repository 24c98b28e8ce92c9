"""Perseus: latency above a regression's upper bound, weighed by how far and how long (Lu et al.,
FAST 2023; "core-level model, 99.9th percentile as threshold", SLOTH IV-A).

The skeleton was read in the papers, the constants come from no readable source.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from slowpoke_mapping.compiled import compiled_untyped
from slowpoke_mapping.places import Core, Place
from slowpoke_mapping.program import Program
from slowpoke_tracer.baselines.events import Events, events_of, raw_trace_bytes
from slowpoke_tracer.baselines.learn import sklearn_module
from slowpoke_tracer.detector import Context, Evidence
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.suspects import scored_diagnosis


@dataclass(frozen=True, slots=True)
class PerseusDetector:
    """Watches cores only; peers are all cores of a layer group, a point is one computation.

    Attributes:
        degree: Of the polynomial of latency over work; from no readable source.
        eps: DBSCAN's radius on whitened points; from no readable source.
        min_samples: DBSCAN's; from no readable source.
        percentile: One-sided upper bound of a predicted latency; 0.999 (SLOTH IV-A).
        window: Events of a core in a sliding window; from no readable source.
        share: of which so many must lie above the bound; from no readable source.
        bounds: Slowdown ratios from which an event counts as minor, low, moderate, high, extreme;
            from no readable source.
        weights: What each is worth; from no readable source.
        min_score: A core is reported above it; from no readable source.
        max_points: Points that a group's regression uses at most, drawn by the context's seed.
    """

    degree: int = 2
    eps: float = 0.3
    min_samples: int = 10
    percentile: float = 0.999
    window: int = 20
    share: float = 0.5
    bounds: tuple[float, ...] = (1.0, 1.2, 1.5, 2.0, 5.0)
    weights: tuple[float, ...] = (1.0, 5.0, 10.0, 25.0, 100.0)
    min_score: float = 5.0
    max_points: int = 2000
    name: str = "perseus"

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """Score of a core: the weights of its slow windows, as a mean over all of its windows."""
        events = events_of(evidence, context.program)
        ratio = self._slowdown_ratios(events, context.seed)
        scores: dict[Place, float] = {}
        for core in np.unique(events.core):
            scores[Core(int(core))] = self._risk(ratio[events.core == core])
        return scored_diagnosis(
            scores, self.min_score, scores, context.chip,
            f"perseus: degree {self.degree}, bound {self.percentile:g}, from the {events.source}",
            links=False,
        )  # fmt: skip

    def _slowdown_ratios(self, events: Events, seed: int) -> NDArray[np.float64]:
        """(n_compute,) latency over the upper bound for its work, group by group."""
        rng = np.random.default_rng(seed)
        group = events.compute.column("group").astype(np.int64)
        work = events.compute.column("work").astype(np.float64)
        latency = events.compute.mean_cycles
        ratio = np.zeros(len(latency))
        for this in np.unique(group):
            rows = np.flatnonzero(group == this)
            some = rows
            if len(rows) > self.max_points:
                some = np.sort(rng.choice(rows, self.max_points, replace=False))
            kept = some[self._inliers(work[some], latency[some])]
            bound = upper_bound(work[kept], latency[kept], work[rows], self.degree, self.percentile)
            ratio[rows] = latency[rows] / bound
        return ratio

    def _inliers(
        self, work: NDArray[np.float64], latency: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Points of the main clusters that DBSCAN finds after a whitening PCA."""
        points = np.stack([work, latency], axis=1)
        points = points[:, points.std(axis=0) > 0]
        everything = np.ones(len(work), dtype=bool)
        if len(work) < self.min_samples or points.shape[1] == 0:
            return everything
        n = min(points.shape[1], int(np.linalg.matrix_rank(points - points.mean(axis=0))))
        if n == 0:
            return everything
        scaled = (points - points.mean(axis=0)) / points.std(axis=0)
        turned = (
            sklearn_module("decomposition").PCA(n_components=n, whiten=True).fit_transform(scaled)
        )
        label = (
            sklearn_module("cluster")
            .DBSCAN(eps=self.eps, min_samples=self.min_samples)
            .fit_predict(turned)
        )
        kept = main_clusters(label, work)
        return kept if kept.any() else everything

    def _risk(self, ratio: NDArray[np.float64]) -> float:
        window = min(self.window, len(ratio))
        n_windows = len(ratio) - window + 1
        levels = np.empty(n_windows)
        # the level of a slow window: the median of what lies above the bound in it
        n_slow = _slow_levels(ratio, self.bounds[0], self.share, levels, np.empty(window))
        level = levels[:n_slow]
        worth = np.array(self.weights)[np.searchsorted(self.bounds, level, side="right") - 1]
        return float(worth.sum() / n_windows)

    def storage_bytes(self, program: Program) -> float:
        """Bytes on the core that keeps most: a record for each computation."""
        return raw_trace_bytes(program, transfers=False)


@compiled_untyped
def _slow_levels(ratio, bound, share, levels, above):  # type: ignore[no-untyped-def]
    """Median of what lies above the bound, of each window with such a share of it; how many."""
    size, found, n_above = len(above), 0, 0
    for i in range(len(ratio)):
        n_above += ratio[i] > bound
        if i >= size:
            n_above -= ratio[i - size] > bound
        if i + 1 < size or n_above == 0 or n_above / size < share:
            continue
        n = 0
        for k in range(i + 1 - size, i + 1):
            if ratio[k] > bound:
                at = n
                while at > 0 and above[at - 1] > ratio[k]:
                    above[at] = above[at - 1]
                    at -= 1
                above[at] = ratio[k]
                n += 1
        levels[found] = 0.5 * (above[(n - 1) // 2] + above[n // 2])
        found += 1
    return found


def main_clusters(label: NDArray[np.int64], work: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(n,) points of clusters (labels >= 0) that no larger cluster shares a range of work with.

    A core that is slow all the time makes a cluster of its own, beside the one of its peers; it
    must not bend the regression (ours: how the original drops such points could not be read).

    >>> main_clusters(np.array([0, 0, 0, 1, 2, -1]), np.array([5.0, 5, 5, 5, 9, 5])).tolist()
    [True, True, True, False, True, False]
    """
    kept = np.zeros(len(label), dtype=bool)
    taken: list[tuple[float, float]] = []
    numbers, sizes = np.unique(label[label >= 0], return_counts=True)
    for number in numbers[np.argsort(-sizes, kind="stable")]:
        mine = label == number
        low, high = float(work[mine].min()), float(work[mine].max())
        if all(high < a or low > b for a, b in taken):
            kept |= mine
            taken.append((low, high))
    return kept


def upper_bound(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    at: NDArray[np.float64],
    degree: int,
    percentile: float,
) -> NDArray[np.float64]:
    """Upper prediction bound of ordinary least squares on a polynomial, at least a tiny latency.

    Args:
        x: (n,) work of the points.
        y: (n,) latency.
        at: (m,) work to predict for.
        degree: Lowered where x has too few different values.
        percentile: One-sided coverage of a single new observation (Student's t).
    """
    degree = min(degree, max(len(np.unique(x)) - 1, 0))
    scale = float(np.max(np.abs(x), initial=0.0)) or 1.0
    design = np.vander(x / scale, degree + 1)
    target = np.vander(at / scale, degree + 1)
    inverse = np.linalg.pinv(design.T @ design)
    coefficients = inverse @ design.T @ y
    freedom = max(len(x) - degree - 1, 1)
    variance = float(np.sum((y - design @ coefficients) ** 2)) / freedom
    spread = np.sqrt(variance * (1.0 + np.einsum("ij,jk,ik->i", target, inverse, target)))
    bound = target @ coefficients + stats.t.ppf(percentile, freedom) * spread
    result: NDArray[np.float64] = np.maximum(bound, 1e-9)
    return result
