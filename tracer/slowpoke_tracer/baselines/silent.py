"""Two yardsticks: a detector that never reports anything, and one that guesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slowpoke_mapping.program import Program
from slowpoke_tracer.detect.observations import observe
from slowpoke_tracer.detector import Context, Evidence
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.suspects import covered_places, scored_diagnosis


@dataclass(frozen=True, slots=True)
class SilentDetector:
    """Calls every run healthy: what it scores is what an accounting gives away."""

    name: str = "silent"

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """Nothing is reported; every covered place is ranked alike."""
        seen = observe(evidence, context.program)
        return scored_diagnosis(
            {}, 1.0, covered_places(seen, context.chip), context.chip, "silent: reports nothing"
        )

    def storage_bytes(self, program: Program) -> float:
        """Bytes a core must keep: none."""
        return 0.0


@dataclass(frozen=True, slots=True)
class RandomDetector:
    """Guesses a place in a share of the runs, from the context's seed and the evidence's length.

    Attributes:
        report_probability: Share of runs with a report; ours, half of a balanced set is faulty.
    """

    report_probability: float = 0.5
    name: str = "random"

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """A seeded shuffle of the covered places, and its first one as a report, or none."""
        seen = observe(evidence, context.program)
        places = covered_places(seen, context.chip)
        # the run's own last bits vary the guess between runs of one seed
        salt = int(np.float64(seen.mean_cycles.sum()).view(np.uint64)) if len(seen) else 0
        rng = np.random.default_rng([context.seed, salt])
        scores = dict(zip(places, rng.permutation(len(places)) / max(len(places), 1), strict=True))
        speaks = rng.random() < self.report_probability
        return scored_diagnosis(
            scores, 1e-9 if speaks else 1.0, places, context.chip, "random guess", top=1
        )

    def storage_bytes(self, program: Program) -> float:
        """Bytes a core must keep: none."""
        return 0.0
