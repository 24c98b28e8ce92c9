"""Synthesis: does a simulated fault leave the same marks as the observed one?

A hypothesis (places, slowdowns, intervals) is replayed in the twin with the noise of a healthy
replay (common random numbers), so that the difference of their cells is the fault's effect,
almost free of noise. The hypothesis that leaves the least unexplained is kept.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.faults import Fault
from slowpoke_tracer.baseline import Baseline, Replayer, replay_seeds
from slowpoke_tracer.cells import cells_of

MODEL_ERROR = 0.15
"""Relative error granted to a predicted effect: edges and slowdown are never quite right."""

CLIP = 4.0
"""Standard deviations beyond which one cell's misfit counts linearly (Huber)."""


@dataclass(frozen=True, eq=False)
class Synthesis:
    """Replays hypotheses against one observed run.

    Attributes:
        replayer: Sketches replays of the program.
        baseline: Healthy cells; its first run's seed is replayed.
        residual: (n_patterns, n_epochs) observed minus healthy.
        seed: The baseline's seed.
    """

    replayer: Replayer
    baseline: Baseline
    residual: NDArray[np.float64]
    seed: int
    _known: dict[tuple[Fault, ...], NDArray[np.float64]] = field(default_factory=dict)

    @property
    def n_replays(self) -> int:
        """How many hypotheses were simulated."""
        return len(self._known)

    def effect(self, faults: Sequence[Fault]) -> NDArray[np.float64]:
        """(n_patterns, n_epochs) change of the cells' mean log that the faults cause."""
        key = tuple(faults)
        if not key:
            return np.zeros_like(self.residual)
        if key not in self._known:
            seed = replay_seeds(self.seed, 1)[0]
            sketch = self.replayer.sketch(seed, self.baseline.scale, key)
            slow = cells_of(sketch, self.baseline.patterns).log_mean
            change = slow - self.baseline.log_means[0]
            self._known[key] = np.nan_to_num(change, nan=0.0)
        return self._known[key]

    def misfit(self, faults: Sequence[Fault]) -> float:
        """What the faults leave unexplained, in nats; smaller is better.

        A Huber loss of the standardised residual, plus the logarithm of the variance, so that a
        larger effect (and its larger tolerance) is no cheap explanation.
        """
        effect = self.effect(faults)
        base = self.baseline.means.variance
        variance = base + (MODEL_ERROR * effect) ** 2
        z = np.abs(self.residual - effect) / np.sqrt(variance)
        loss = np.where(z < CLIP, 0.5 * z**2, CLIP * (z - 0.5 * CLIP))
        return float(np.nansum(loss + 0.5 * np.log(variance / base)))

    def refine(
        self, fault: Fault, accepted: Sequence[Fault], horizon_cycles: float, step_cycles: float
    ) -> tuple[Fault, float]:
        """The fault with slowdown and interval fitted, and its misfit; about 10 replays.

        Args:
            fault: Where to start.
            accepted: Faults that are there besides it.
            horizon_cycles: End of the run.
            step_cycles: First step of the interval's edges; halved once.
        """
        best, value = fault, self.misfit((*accepted, fault))
        for factor in (2.0, math.sqrt(2.0), 1.15):
            for direction in (factor, 1 / factor):
                slowdown = min(max(best.slowdown * direction, 1.05), 64.0)
                trial = dataclasses.replace(best, slowdown=slowdown)
                if (score := self.misfit((*accepted, trial))) < value:
                    best, value = trial, score
                    break
        for step in (step_cycles, step_cycles / 2):
            for edge in ("start_cycles", "end_cycles"):
                for shift in (-step, step):
                    moved = getattr(best, edge) + shift
                    start = moved if edge == "start_cycles" else best.start_cycles
                    end = moved if edge == "end_cycles" else best.end_cycles
                    start, end = max(start, 0.0), min(end, horizon_cycles)
                    if not start < end or (start, end) == (best.start_cycles, best.end_cycles):
                        continue
                    trial = dataclasses.replace(best, start_cycles=start, end_cycles=end)
                    if (score := self.misfit((*accepted, trial))) < value:
                        best, value = trial, score
                        break
        return best, value
