"""How outcomes are counted: strictly, and the two ways that the papers' tables can be read.

The papers print accuracy and FPR without saying what a true negative is. `paper-A` is what their
public evaluation script does: it looks at the faulty runs alone, takes the number of injected
faults as the number of true negatives, and a false positive is a reported item that matches no
fault. `paper-B` counts clean negatives as true negatives, and flagged negatives and unmatched items
as false positives. A detector that never reports anything scores 54 to 57 % under paper-A with
the papers' numbers of faults: read no such figure without the silent detector's beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.evaluation.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of a confusion table."""

    tp: int
    fn: int
    fp: int
    tn: int

    def __post_init__(self) -> None:
        if min(self.tp, self.fn, self.fp, self.tn) < 0:
            raise SlowpokeError(f"{self}: counts are 0 or more")

    @property
    def accuracy(self) -> float:
        """(TP + TN) / all; NaN of an empty table."""
        return _ratio(self.tp + self.tn, self.tp + self.tn + self.fp + self.fn)

    @property
    def false_positive_rate(self) -> float:
        """FP / (FP + TN); NaN of an empty table."""
        return _ratio(self.fp, self.fp + self.tn)

    @property
    def recall(self) -> float:
        """TP / (TP + FN); NaN of an empty table."""
        return _ratio(self.tp, self.tp + self.fn)

    @property
    def precision(self) -> float:
        """TP / (TP + FP); NaN if nothing was claimed."""
        return _ratio(self.tp, self.tp + self.fp)

    @staticmethod
    def from_published(accuracy: tuple[int, int], fpr: tuple[int, int]) -> Confusion:
        """The table behind an accuracy c/t and a false-positive rate f/n.

        TN = n - f, TP = c - TN, FN = t - n - TP.

        >>> Confusion.from_published((242, 301), (22, 174))
        Confusion(tp=90, fn=37, fp=22, tn=152)
        """
        (correct, total), (false, negatives) = accuracy, fpr
        tn = negatives - false
        tp = correct - tn
        return Confusion(tp, total - negatives - tp, false, tn)


def strict(outcomes: Iterable[Outcome], n_excluded: int = 0) -> Confusion:
    """Runs are counted: a positive is right if exactly the truth is reported, a negative if
    nothing is. Accuracy is strict accuracy, FPR the share of negatives that are flagged.

    Args:
        outcomes: One a run.
        n_excluded: Not used: what touched nothing is no run.
    """
    tp = fn = fp = tn = 0
    for outcome in outcomes:
        if outcome.positive:
            tp, fn = tp + outcome.exact, fn + (not outcome.exact)
        else:
            fp, tn = fp + (not outcome.exact), tn + outcome.exact
    return Confusion(tp, fn, fp, tn)


def paper_a(outcomes: Iterable[Outcome], n_excluded: int = 0) -> Confusion:
    """Faults and reported items are counted, on faulty runs alone; TN is the number injected.

    Args:
        outcomes: One a run; negatives are not looked at, as in the papers' public script.
        n_excluded: Injected faults that touched nothing: they are no positives, but they were
            injected, so they are "true negatives" too.
    """
    positives = [outcome for outcome in outcomes if outcome.positive]
    tp, fn, wrong = _items(positives)
    return Confusion(tp, fn, wrong, tp + fn + n_excluded)


def paper_b(outcomes: Iterable[Outcome], n_excluded: int = 0) -> Confusion:
    """TN: clean negatives; FP: flagged negatives, and items on faulty runs that match no fault.

    Args:
        outcomes: One a run.
        n_excluded: Not used.
    """
    outcomes = list(outcomes)
    tp, fn, wrong = _items([outcome for outcome in outcomes if outcome.positive])
    flagged = sum(outcome.false_alarm for outcome in outcomes)
    n_negatives = sum(not outcome.positive for outcome in outcomes)
    return Confusion(tp, fn, wrong + flagged, n_negatives - flagged)


ACCOUNTINGS: dict[str, Callable[[Iterable[Outcome], int], Confusion]] = {
    "strict": strict,
    "paper-A": paper_a,
    "paper-B": paper_b,
}
"""Every way to count, by its label in tables."""


def _items(positives: list[Outcome]) -> tuple[int, int, int]:
    """(faults found, faults not found, items that match no fault) of faulty runs."""
    found = sum(outcome.n_found for outcome in positives)
    return (
        found,
        sum(len(set(outcome.truth)) for outcome in positives) - found,
        sum(outcome.n_wrong for outcome in positives),
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
