"""The figures of the evaluation protocol (design.md section 9), from outcomes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from torch_slowpoke.evaluation.outcome import Outcome
from torch_slowpoke.evaluation.statistics import (
    Proportion,
    auroc,
    cluster_bootstrap,
    partial_auroc,
    recall_at,
)

N_BINS = 10
"""Of the calibration error, equally wide."""

STRATA = ((0.0, 0.01), (0.01, 0.1), (0.1, math.inf))
"""Increase of the makespan: negligible, noticeable, heavy (detectors.md section 8)."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a detector is worth on a set of runs; shares of positives and negatives are apart.

    Attributes:
        strict_accuracy: Positive: exactly the truth is reported; negative: nothing is.
        hit: Positives whose report is exactly the truth.
        partial: Positives whose report holds a true place, but is not exactly the truth.
        misidentified: Positives whose report names other places only.
        miss: Positives without a report.
        false_alarm: Negatives with a report (the run false-positive rate).
        lenient: Positives with the whole truth among at most three reported places.
        component_fpr: False items over healthy components, all runs.
        precision: True items over reported items; NaN if none was reported.
        recall: True items over faults.
        top: Share of positives whose first true place ranks within 1, 3, 5 (ties at their mean).
        mrr: Mean reciprocal rank over positives.
        mrr_interval: 95 % cluster bootstrap by fault.
        auroc: Of the run's score, positives against negatives.
        auroc_interval: 95 % cluster bootstrap by fault.
        pauroc: Mean recall at false-positive rates up to 5 %.
        recall_at_1: Recall at a false-positive rate of 1 %, threshold from these negatives.
        recall_at_5: At 5 %.
        slowdown_error: Median |ln(estimate / truth)| of correct reports that estimate one.
        interval_iou: Median intersection over union of correct reports with an interval.
        latency: Median time from onset to a right alarm, as a share of the run, over positives;
            those without a right alarm count as later than any other. NaN of detectors that look
            at the end only, infinity if most positives have none.
        brier: Mean squared error of the probability that something is slow.
        calibration_error: Expected calibration error of that probability (ten bins).
        refused: Runs of which the detector gave no diagnosis.
        seconds: Mean time of a diagnosis.
    """

    strict_accuracy: Proportion
    hit: Proportion
    partial: Proportion
    misidentified: Proportion
    miss: Proportion
    false_alarm: Proportion
    lenient: Proportion
    component_fpr: float
    precision: float
    recall: float
    top: dict[int, Proportion]
    mrr: float
    mrr_interval: tuple[float, float]
    auroc: float
    auroc_interval: tuple[float, float]
    pauroc: float
    recall_at_1: float
    recall_at_5: float
    slowdown_error: float
    interval_iou: float
    latency: float
    brier: float
    calibration_error: float
    refused: int
    seconds: float

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall of items."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total > 0 else math.nan


def metrics(outcomes: Sequence[Outcome], n_draws: int = 200) -> Metrics:
    """The figures of one detector on a set of runs.

    Args:
        outcomes: One a run.
        n_draws: Resamples of each bootstrap interval; 0 for NaN intervals.

    Cost: n_draws sorts of the scores.
    """
    positives = [outcome for outcome in outcomes if outcome.positive]
    negatives = [outcome for outcome in outcomes if not outcome.positive]
    n, n_wrong = len(positives), sum(outcome.n_wrong for outcome in outcomes)
    n_found = sum(outcome.n_found for outcome in positives)
    n_faults = sum(len(outcome.truth) for outcome in positives)
    healthy = sum(outcome.n_components - len(outcome.truth) for outcome in outcomes)
    scores = np.array([outcome.score for outcome in outcomes])
    faulty = np.array([outcome.positive for outcome in outcomes], dtype=bool)
    inverse = np.array([1 / outcome.rank for outcome in positives])
    correct = [outcome for outcome in positives if outcome.exact]

    def share(name: str) -> Proportion:
        return Proportion(sum(bool(getattr(outcome, name)) for outcome in positives), n)

    def area(rows: NDArray[np.int64]) -> float:
        chosen = scores[rows]
        return auroc(chosen[faulty[rows]], chosen[~faulty[rows]])

    return Metrics(
        strict_accuracy=Proportion(sum(outcome.exact for outcome in outcomes), len(outcomes)),
        hit=share("exact"),
        partial=Proportion(sum(o.n_found > 0 and not o.exact for o in positives), n),
        misidentified=share("misidentified"),
        miss=share("missed"),
        false_alarm=Proportion(sum(o.false_alarm for o in negatives), len(negatives)),
        lenient=Proportion(
            sum(o.n_found == len(o.truth) and len(o.reported) <= 3 for o in positives), n
        ),
        component_fpr=n_wrong / healthy if healthy else math.nan,
        precision=n_found / (n_found + n_wrong) if n_found + n_wrong else math.nan,
        recall=n_found / n_faults if n_faults else math.nan,
        top={k: Proportion(sum(o.rank <= k for o in positives), n) for k in (1, 3, 5)},
        mrr=float(inverse.mean()) if n else math.nan,
        mrr_interval=cluster_bootstrap(
            [o.cluster for o in positives], lambda rows: float(inverse[rows].mean()), n_draws
        ),
        auroc=auroc(scores[faulty], scores[~faulty]),
        auroc_interval=cluster_bootstrap([o.cluster for o in outcomes], area, n_draws),
        pauroc=partial_auroc(scores[faulty], scores[~faulty]),
        recall_at_1=recall_at(scores[faulty], scores[~faulty], 0.01),
        recall_at_5=recall_at(scores[faulty], scores[~faulty], 0.05),
        slowdown_error=_median([outcome.slowdown_error for outcome in correct]),
        interval_iou=_median([outcome.interval_iou for outcome in correct]),
        latency=median_latency(positives),
        brier=brier(outcomes),
        calibration_error=calibration_error(outcomes),
        refused=sum(outcome.refused for outcome in outcomes),
        seconds=float(np.mean([o.seconds for o in outcomes])) if outcomes else math.nan,
    )


def median_latency(positives: Sequence[Outcome]) -> float:
    """Median latency, where a positive without a right alarm is later than any other."""
    if all(math.isnan(outcome.alarm_cycles) for outcome in positives):
        return math.nan
    waits = [math.inf if math.isnan(o.latency) else o.latency for o in positives]
    return float(sorted(waits)[(len(waits) - 1) // 2])


def brier(outcomes: Sequence[Outcome]) -> float:
    """Mean squared error of the probability that something is slow; NaN if none is given."""
    probability, slow = _probabilities(outcomes)
    return float(np.mean((probability - slow) ** 2)) if len(slow) else math.nan


def calibration_error(outcomes: Sequence[Outcome]) -> float:
    """Expected calibration error: |mean probability - share of positives|, weighted by bin.

    NaN if no probability is given.
    """
    probability, slow = _probabilities(outcomes)
    if not len(slow):
        return math.nan
    bins = np.minimum((probability * N_BINS).astype(np.int64), N_BINS - 1)
    gap = np.bincount(bins, weights=probability - slow, minlength=N_BINS)
    return float(np.abs(gap).sum() / len(slow))


def _probabilities(outcomes: Sequence[Outcome]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Probabilities that something is slow, and whether it was, where one is given."""
    known = [o for o in outcomes if not math.isnan(o.healthy_probability)]
    probability = np.array([1 - o.healthy_probability for o in known])
    return probability, np.array([o.positive for o in known], dtype=bool)


def kind_confusion(outcomes: Sequence[Outcome]) -> Counter[tuple[str, str]]:
    """How often a kind of place was taken for another: (true kind, reported kind) -> runs.

    The kind of a healthy run or an empty report is `none`; of several places of different kinds
    it is `mixed`.
    """
    return Counter((_kind(outcome.truth), _kind(outcome.reported)) for outcome in outcomes)


def by_impact(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """Positives by the increase of the makespan, one list for each of STRATA."""
    return [
        [o for o in outcomes if o.positive and (low <= max(o.makespan_ratio - 1, 0.0) < high)]
        for low, high in STRATA
    ]


def expected_rank(scores: Sequence[tuple[float, float]], index: int) -> float:
    """Mean rank, from 1, of an entry among entries tied with it.

    Args:
        scores: (n,) sort keys, larger first.
        index: The entry.

    >>> expected_rank([(0.9, 0), (0.5, 0), (0.5, 0)], 2)
    2.5
    """
    own = scores[index]
    above = sum(score > own for score in scores)
    tied = sum(score == own for score in scores)
    return above + (tied + 1) / 2


def _kind(places: Sequence[str]) -> str:
    kinds = {place.partition(":")[0] for place in places}
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "none"


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.median(known)) if known else math.nan
