"""Z-score filtering: each component against its own running mean, the 3 sigma rule (SLOTH IV-A)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.compiled import compiled_untyped
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.places import Place
from slowpoke_mapping.program import Program
from slowpoke_tracer.baselines.events import Events, events_of
from slowpoke_tracer.detector import Context, Evidence
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.suspects import scored_diagnosis

_RUNNING_BYTES = 12.0
"""Count, mean and sum of squared deviations (Welford), 4 bytes each."""


@dataclass(frozen=True, slots=True)
class ZScoreDetector:
    """Flags a component whose metric leaves its own history.

    A fault that is there from the start is part of that history: nothing stands out.

    Attributes:
        threshold: Standard deviations above the running mean; 3 (SLOTH IV-A).
        metric: `raw` durations, as a component without knowledge of its work would keep them, or
            `normalised` by work (time per MAC; latency over that of an idle network). The paper
            does not say which.
        exceed: So many of the last `of` events must exceed the threshold. Not printed; with fewer,
            the bursts of ordinary congestion flag links in every healthy run (1 of 1: cores too).
        of: See `exceed`.
        min_history: Events before a component trusts its mean; not printed.
    """

    threshold: float = 3.0
    metric: Literal["raw", "normalised"] = "normalised"
    exceed: int = 40
    of: int = 50
    min_history: int = 10
    name: str = "zscore"

    def __post_init__(self) -> None:
        if not 1 <= self.exceed <= self.of or self.min_history < 2 or not self.threshold > 0:
            raise SlowpokeError(
                f"zscore: {self.exceed} of {self.of} events after {self.min_history}: 1 <= exceed "
                "<= of, a history of at least 2 and a threshold > 0"
            )

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """Score of a place: the highest z that enough events in a row of `of` reach."""
        events = events_of(evidence, context.program)
        scores = {
            place: float(max(0.0, self._score(values)))
            for place, values in component_series(events, self.metric).items()
        }
        return scored_diagnosis(
            scores, self.threshold, scores, context.chip,
            f"zscore: {self.metric}, {self.exceed} of {self.of} events, from the {events.source}",
        )  # fmt: skip

    def _score(self, values: NDArray[np.float64]) -> float:
        z = running_z(values, self.min_history)
        return float(highest_rank(z, self.of - self.exceed, self.of))

    def storage_bytes(self, program: Program) -> float:
        """Bytes a core keeps: running moments of itself and of its four links."""
        return 5 * _RUNNING_BYTES


def component_series(
    events: Events, metric: Literal["raw", "normalised"]
) -> dict[Place, NDArray[np.float64]]:
    """The metric of every covered core and physical link, in order of time."""
    core = events.compute.mean_cycles if metric == "raw" else events.core_ratio
    message = events.transfers.mean_cycles if metric == "raw" else events.message_ratio
    return events.series(core, message)


def running_z(values: NDArray[np.float64], min_history: int) -> NDArray[np.float64]:
    """(n,) each value's distance from the mean of those before it, in their standard deviations.

    0 before `min_history` values, or where those before were all the same.

    >>> running_z(np.array([1.0, 3.0, 5.0]), 2).tolist()
    [0.0, 0.0, 3.0]
    """
    z = np.empty(len(values))
    _running_z(np.asarray(values, dtype=np.float64), min_history, z)
    return z


@compiled_untyped
def _running_z(values, min_history, z):  # type: ignore[no-untyped-def]
    # sums of deviations from the first value: no cancellation where the mean is large
    total, square = 0.0, 0.0
    for i in range(len(values)):
        shift = values[i] - values[0]
        mean = total / max(i, 1)
        sd = np.sqrt(max(square / max(i, 1) - mean * mean, 0.0))
        z[i] = 0.0
        if i >= min_history and sd > 1e-9 * abs(values[0]):
            z[i] = (shift - mean) / sd
        total += shift
        square += shift * shift


def highest_rank(values: NDArray[np.float64], rank: int, size: int) -> float:
    """The highest that the value of a rank (0 the smallest) gets in a window; at least 0.

    Args:
        values: Of a series.
        rank: In a window.
        size: Of the windows, which lie inside the series.

    >>> highest_rank(np.array([1.0, 5.0, 4.0, 2.0]), 1, 2)
    5.0
    >>> highest_rank(np.array([1.0, 5.0, 4.0, 2.0]), 0, 2)
    4.0
    """
    return float(_highest_rank(values, rank, size, np.empty(size)))


@compiled_untyped
def _highest_rank(values, rank, size, window):  # type: ignore[no-untyped-def]
    # only a window with enough values above the best so far has a better one
    best, above = 0.0, 0
    for i in range(len(values)):
        above += values[i] > best
        if i >= size:
            above -= values[i - size] > best
        if i + 1 < size or above < size - rank:
            continue
        for k in range(size):
            value = values[i - k]
            at = k
            while at > 0 and window[at - 1] > value:
                window[at] = window[at - 1]
                at -= 1
            window[at] = value
        best = window[rank]
        above = 0
        for k in range(size):
            above += values[i - k] > best
    return best
