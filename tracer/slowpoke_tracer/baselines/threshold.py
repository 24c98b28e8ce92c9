"""Threshold filtering: a metric above a fixed multiple of nominal (SlowPoke section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slowpoke_mapping.places import Core
from slowpoke_mapping.program import Program
from slowpoke_tracer.baselines.events import events_of, raw_trace_bytes
from slowpoke_tracer.detector import Context, Evidence
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.suspects import scored_diagnosis


@dataclass(frozen=True, slots=True)
class ThresholdDetector:
    """Flags each core by its time per work, each link by the latency of what crosses it.

    Attributes:
        core_threshold: Multiple of the nominal time per work beyond which a window's mean flags a
            core; the paper gives no constant.
        link_threshold: Multiple of an idle network's latency beyond which it flags a link; the
            paper gives no constant. Congestion alone makes 15 in healthy runs of ResNet-50.
    """

    core_threshold: float = 1.5
    link_threshold: float = 20.0
    name: str = "threshold"

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """Score of a place: its worst window's mean over its threshold; linear in the events."""
        events = events_of(evidence, context.program)
        metric = events.window_metrics()
        seen = ~np.all(np.isnan(metric), axis=0)
        worst = np.nanmax(np.where(np.isnan(metric), -np.inf, metric), axis=0)
        limits = [
            self.core_threshold if isinstance(place, Core) else self.link_threshold
            for place in events.places
        ]
        scores = {p: float(worst[i]) / limits[i] for i, p in enumerate(events.places) if seen[i]}
        return scored_diagnosis(
            scores, 1.0, scores, context.chip,
            f"threshold: {self.core_threshold:g} x nominal, {self.link_threshold:g} x idle, "
            f"from the {events.source}",
        )  # fmt: skip

    def storage_bytes(self, program: Program) -> float:
        """Bytes on the core that keeps most: it "directly analyzes the raw trace"."""
        return raw_trace_bytes(program)
