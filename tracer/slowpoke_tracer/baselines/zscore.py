"""Z-score filtering: each component against its own running mean, the 3 sigma rule (SLOTH IV-A)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import rank_filter

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.places import Core, Place
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
        if len(z) < self.of:
            return 0.0
        kth = rank_filter(z, self.of - self.exceed, size=self.of)
        whole = slice(self.of // 2, len(z) - (self.of - 1) // 2)  # windows inside the series
        return float(kth[whole].max(initial=0.0))

    def storage_bytes(self, program: Program) -> float:
        """Bytes a core keeps: running moments of itself and of its four links."""
        return 5 * _RUNNING_BYTES


def component_series(
    events: Events, metric: Literal["raw", "normalised"]
) -> dict[Place, NDArray[np.float64]]:
    """The metric of every covered core and physical link, in order of time."""
    core = events.compute.mean_cycles if metric == "raw" else events.core_ratio
    message = events.transfers.mean_cycles if metric == "raw" else events.message_ratio
    crossing = message[events.crossings[0]]
    return {
        place: (core if isinstance(place, Core) else crossing)[part]
        for place, part in events.series
    }


def running_z(values: NDArray[np.float64], min_history: int) -> NDArray[np.float64]:
    """(n,) each value's distance from the mean of those before it, in their standard deviations.

    0 before `min_history` values, or where those before were all the same.

    >>> running_z(np.array([1.0, 3.0, 5.0]), 2).tolist()
    [0.0, 0.0, 3.0]
    """
    n = np.arange(len(values), dtype=np.float64)
    # sums of deviations from the first value: no cancellation where the mean is large
    shift = values - values[0] if len(values) else values
    total = np.concatenate([[0.0], np.cumsum(shift)[:-1]])[: len(values)]
    square = np.concatenate([[0.0], np.cumsum(shift**2)[:-1]])[: len(values)]
    mean = total / np.maximum(n, 1)
    sd = np.sqrt(np.maximum(square / np.maximum(n, 1) - mean**2, 0.0))
    ready = (n >= min_history) & (sd > 1e-9 * np.abs(values[0] if len(values) else 1.0))
    return np.where(ready, (shift - mean) / np.where(ready, sd, 1.0), 0.0)
