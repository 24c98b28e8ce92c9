"""Synthesis: does a simulated fault leave the same marks as the observed one?

A hypothesis (places, slowdowns, intervals) is replayed in the twin with the noise of a healthy
replay (common random numbers), so that the difference of their cells is the fault's effect, almost
free of noise. The hypothesis that leaves the least unexplained is kept.
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

MOST_MOVES = 4
"""Steps that an edge of an interval may go in one direction."""

LEAST_SLOWDOWN, MOST_SLOWDOWN = 1.05, 64.0


@dataclass(frozen=True, eq=False)
class Effect:
    """What a fault changes in the cells.

    Attributes:
        mean: (n_patterns, n_epochs) change of the mean ln(duration).
        maximum: (n_patterns, n_epochs) change of the longest ln(duration).
    """

    mean: NDArray[np.float64]
    maximum: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Synthesis:
    """Replays hypotheses against one observed run.

    Attributes:
        replayer: Sketches replays of the program.
        baseline: Healthy cells; the seeds of its first runs are replayed.
        residual: (n_patterns, n_epochs) observed minus healthy mean ln(duration).
        seed: The baseline's seed.
    """

    replayer: Replayer
    baseline: Baseline
    residual: NDArray[np.float64]
    seed: int
    _known: dict[tuple[Fault, ...], Effect] = field(default_factory=dict)

    @property
    def n_replays(self) -> int:
        """How many hypotheses were simulated."""
        return len(self._known)

    def effect(self, faults: Sequence[Fault]) -> Effect:
        """What the faults change, from one replay."""
        key = tuple(faults)
        if key not in self._known:
            self._known[key] = self._replayed(key, 0)
        return self._known[key]

    def steady_effect(self, faults: Sequence[Fault], n_runs: int = 3) -> Effect:
        """What the faults change, averaged over several replays.

        Under a fault queues grow and take a course of their own; a second fault must not be seen
        in one replay's accidents.
        """
        key = tuple(faults)
        n_runs = min(n_runs, self.baseline.n_runs)
        effects = [self.effect(key)] + [self._replayed(key, run) for run in range(1, n_runs)]
        return Effect(
            np.mean([effect.mean for effect in effects], axis=0),
            np.mean([effect.maximum for effect in effects], axis=0),
        )

    def _replayed(self, faults: tuple[Fault, ...], run: int) -> Effect:
        if not faults:
            zero = np.zeros_like(self.residual)
            return Effect(zero, zero)
        seed = replay_seeds(self.seed, run + 1)[run]
        sketch = self.replayer.sketch(seed, self.baseline.scale, faults)
        cells = cells_of(sketch, self.baseline.patterns)
        return Effect(
            np.nan_to_num(cells.log_mean - self.baseline.log_means[run], nan=0.0),
            np.nan_to_num(cells.log_max - self.baseline.log_maxima[run], nan=0.0),
        )

    def misfit(self, faults: Sequence[Fault]) -> float:
        """What the faults leave unexplained, in nats; smaller is better.

        A Huber loss of the standardised residual, plus the logarithm of the variance, so that a
        larger effect (and its larger tolerance) is no cheap explanation.
        """
        effect = self.effect(faults).mean
        base = self.baseline.means.variance
        variance = base + (MODEL_ERROR * effect) ** 2
        z = np.abs(self.residual - effect) / np.sqrt(variance)
        loss = np.where(z < CLIP, 0.5 * z**2, CLIP * (z - 0.5 * CLIP))
        return float(np.nansum(loss + 0.5 * np.log(variance / base)))

    def fit_slowdown(
        self, fault: Fault, accepted: Sequence[Fault], factor: float, most_steps: int
    ) -> tuple[Fault, float]:
        """The fault with the slowdown that explains most, and its misfit.

        Steps of `factor`, at most `most_steps` each way; lower slowdowns first, because the scan
        reads them too high where queues grow. Two to most_steps + 2 replays.
        """
        best, value = fault, self.misfit((*accepted, fault))
        for direction in (1 / factor, factor):
            for _ in range(most_steps):
                slowdown = min(max(best.slowdown * direction, LEAST_SLOWDOWN), MOST_SLOWDOWN)
                trial = dataclasses.replace(best, slowdown=slowdown)
                score = self.misfit((*accepted, trial))
                if score >= value:
                    break
                best, value = trial, score
            if best is not fault:
                break
        return best, value

    def fit_interval(
        self, fault: Fault, accepted: Sequence[Fault], steps_cycles: tuple[float, float]
    ) -> tuple[Fault, float]:
        """The fault with the interval that explains most, and its misfit; 4 to 20 replays.

        Edges move by halves of a step, then by quarters; an edge at the border of the run stays.

        Args:
            fault: Where to start.
            accepted: Faults that are there besides it.
            steps_cycles: Length of the segment at each edge, to which the scan quantises it.
        """
        best, value = fault, self.misfit((*accepted, fault))
        for edge, step_cycles in zip(("start_cycles", "end_cycles"), steps_cycles, strict=True):
            if getattr(fault, edge) in (0.0, math.inf):
                continue
            for step in (step_cycles / 2, step_cycles / 4):
                for shift in (-step, step):
                    moved = self._moved(best, value, accepted, edge, shift)
                    if moved[0] is not best:
                        best, value = moved
                        break
        return best, value

    def _moved(
        self, fault: Fault, value: float, accepted: Sequence[Fault], edge: str, shift: float
    ) -> tuple[Fault, float]:
        """The fault with one edge moved for as long as that explains more."""
        best = fault
        for _ in range(MOST_MOVES):
            changed = {edge: max(getattr(best, edge) + shift, 0.0)}
            start = changed.get("start_cycles", best.start_cycles)
            if not start < changed.get("end_cycles", best.end_cycles):
                break
            trial = dataclasses.replace(best, **changed)
            score = self.misfit((*accepted, trial))
            if score >= value:
                break
            best, value = trial, score
        return best, value
