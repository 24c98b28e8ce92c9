"""ADR, Adaptive Detection at Runtime: a value's percentile and its update frequency (Lu et al.,
NSDI 2025), with windows scaled from seconds to events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.places import Core, Place
from slowpoke_mapping.program import Program
from slowpoke_tracer.baselines.events import events_of, raw_trace_bytes
from slowpoke_tracer.detector import Context, Evidence
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.suspects import scored_diagnosis


@dataclass(frozen=True, slots=True)
class AdrDetector:
    """Watches cores only: the value is time per work, an update the end of a computation.

    Attributes:
        value_window: Values whose percentile is the threshold; 1000 in the authors' code, scaled
            since a run of 16 inferences has hundreds of events a core.
        percentile: 0.99 (authors' code).
        frequency_window: Updates whose duration is the frequency, and durations kept; 100 in the
            authors' code, scaled likewise.
        state_window: Recent flags that must agree; 100 in the authors' code, scaled likewise.
        slow_share: Share of them that must be slow; 10 of 100 in the Go version, more than half in
            the Java version.
        lighter_share: Share that must also be updates less frequent than the band (`java`); half.
        min_variation: Coefficient of variation below which the frequency says nothing; 0.5 (code).
        refresh: Events between two computations of the threshold; 300 ms in the code.
        first_threshold: Multiple of nominal until the window is full; the code leaves it to the
            developer.
        variant: `go`: slow values alone suffice; `java`: updates must have become rare as well.
    """

    value_window: int = 200
    percentile: float = 0.99
    frequency_window: int = 50
    state_window: int = 50
    slow_share: float = 0.5
    lighter_share: float = 0.5
    min_variation: float = 0.5
    refresh: int = 50
    first_threshold: float = 3.0
    variant: Literal["go", "java"] = "go"
    name: str = "adr"

    def __post_init__(self) -> None:
        sizes = (self.value_window, self.frequency_window, self.state_window, self.refresh)
        if min(sizes) < 1 or not 0 < self.percentile < 1 or not 0 < self.slow_share < 1:
            raise SlowpokeError(
                f"adr: windows {sizes} must be >= 1, percentile {self.percentile:g} and share "
                f"{self.slow_share:g} in (0, 1)"
            )

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """Score of a core: the largest share of slow flags in its state window."""
        events = events_of(evidence, context.program)
        scores: dict[Place, float] = {}
        for core in np.unique(events.core):
            mine = events.core == core
            scores[Core(int(core))] = float(
                _slow_share(
                    events.core_ratio[mine],
                    events.compute.end_cycles[mine],
                    self.value_window,
                    self.percentile,
                    self.frequency_window,
                    self.state_window,
                    self.min_variation,
                    self.refresh,
                    self.first_threshold,
                    self.lighter_share if self.variant == "java" else -1.0,
                )
            )
        return scored_diagnosis(
            scores, self.slow_share, scores, context.chip,
            f"adr: {self.variant}, from the {events.source}", links=False,
        )  # fmt: skip

    def storage_bytes(self, program: Program) -> float:
        """Bytes on the core that keeps most: SLOTH's ADR retains a record an instruction."""
        return raw_trace_bytes(program, transfers=False)


@njit(cache=True)
def _slow_share(  # type: ignore[no-untyped-def]
    value, time, value_window, percentile, frequency_window, state_window, min_variation,
    refresh, first_threshold, lighter_share,
):  # fmt: skip
    """The largest share of slow flags in a full state window (where lighter ones suffice too)."""
    n = len(value)
    kept = np.empty(value_window)
    n_kept, threshold, since = 0, first_threshold, 0
    slow = np.zeros(n, np.bool_)
    lighter = np.zeros(n, np.bool_)
    spans = np.empty(frequency_window)
    n_spans = 0
    best, n_slow, n_lighter = 0.0, 0, 0
    fatal = False
    for i in range(n):
        slow[i] = value[i] > threshold
        # slow values must not become normal: Go keeps them out, Java only while it is fatal
        if not (slow[i] if lighter_share < 0 else fatal):
            kept[n_kept % value_window] = value[i]
            n_kept += 1
        since += 1
        if n_kept >= value_window and since >= refresh:
            ordered = np.sort(kept)
            threshold = ordered[int(np.ceil(percentile * value_window)) - 1]
            since = 0
        if i >= frequency_window:
            span = time[i] - time[i - frequency_window]
            if n_spans >= frequency_window:
                mean = spans.mean()
                sd = spans.std()
                lighter[i] = mean > 0 and sd / mean > min_variation and span > mean + sd
            spans[n_spans % frequency_window] = span
            n_spans += 1
        n_slow += slow[i]
        n_lighter += lighter[i]
        if i >= state_window:
            n_slow -= slow[i - state_window]
            n_lighter -= lighter[i - state_window]
        length = min(i + 1, state_window)
        share = n_slow / state_window
        agreed = lighter_share < 0 or n_lighter > lighter_share * length
        fatal = agreed and share > 0.5
        if agreed:
            best = max(best, share)
    return best
