"""Synthesis: does a simulated fault leave the same marks as the observed one?

A hypothesis (place, slowdown, interval) is replayed in the twin with the noise of a healthy replay
(common random numbers), so that the difference of their cells is the fault's effect, almost free of
noise. The hypothesis that leaves the least unexplained is kept. Only the phases that a fault covers
are replayed, and none twice.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.compiled import inlined
from slowpoke_tracer.baseline import Baseline
from slowpoke_tracer.phase_bank import Fold, PhaseBank, PhaseFault

MODEL_ERROR = 0.15
"""Relative error granted to an observed effect: edges and slowdown are never quite right."""

CLIP = 4.0
"""Standard deviations beyond which one cell's misfit counts linearly (Huber)."""

MOST_MOVES = 8
"""Steps of one width that the edges of an interval may go."""

FINEST_STEP = 0.25
"""Of a phase: finer edges change less than the noise of a phase."""

REACH = 10
"""Phases beyond the moves of an edge whose cells are compared: slots may span several groups."""

LEAST_MOVE, BORDER_MOVE = 0.5, 3.0
"""Nats that a move of an edge must bring; away from the border of the run more."""

LEAST_SLOWDOWN, MOST_SLOWDOWN = 1.05, 64.0

Segments = NDArray[np.bool_]
"""(n_epochs, n_groups) parts of a run."""

SHORT_FACTORS = (1.0, 2.0, 4.0)
"""The scan overstates slowdowns by up to so much, where queues grow."""

DILUTED = 0.4
"""Where an epoch has several batches, a fault in one of them looks milder than it is."""

BETWEEN = np.linspace(-0.25, 1.25, 25)
"""Points between two slowdowns (and a little beyond) at which their effects are interpolated."""


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
        bank: The phases of replay number n of the baseline.
        baseline: Healthy cells.
        residual: (n_patterns, n_epochs) observed minus healthy mean ln(duration).
    """

    bank: Callable[[int], PhaseBank]
    baseline: Baseline
    residual: NDArray[np.float64]
    _effects: dict[object, Effect] = field(default_factory=dict)
    _masks: dict[bytes, NDArray[np.bool_]] = field(default_factory=dict)
    _folds: dict[int, dict[object, Fold]] = field(default_factory=dict)

    def known(self, run: int) -> dict[object, Fold]:
        """Phases of a replay that were simulated before."""
        return self._folds.setdefault(run, {})

    @property
    def n_phases_replayed(self) -> int:
        """How many single phases were simulated."""
        return sum(map(len, self._folds.values()))

    def effect(self, faults: Sequence[PhaseFault], only: Segments | None = None) -> Effect:
        """What the faults change, from one replay.

        Args:
            faults: All of them.
            only: (n_epochs, n_groups) segments that are looked at; the effect elsewhere is 0.
        """
        key = (tuple(faults), b"" if only is None else only.tobytes())
        if key not in self._effects:
            self._effects[key] = self._replayed(tuple(faults), 0, only)
        return self._effects[key]

    def steady_effect(self, faults: Sequence[PhaseFault], n_runs: int = 3) -> Effect:
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

    def phase_cycles(self, faults: Sequence[PhaseFault]) -> NDArray[np.float64]:
        """(n_phases,) how long each phase lasts under the faults."""
        return self.bank(0).run(faults, self.known(0)).cycles

    def _replayed(
        self, faults: tuple[PhaseFault, ...], run: int, only: Segments | None = None
    ) -> Effect:
        if not faults:
            zero = np.zeros_like(self.residual)
            return Effect(zero, zero)
        known = self.known(run)
        return Effect(*self.bank(run).run(faults, known, only).change())

    def misfit(self, faults: Sequence[PhaseFault], only: Segments | None = None) -> float:
        """What the faults leave unexplained in some segments, in nats; smaller is better.

        A Huber loss of the standardised residual. The error that is granted grows with the larger
        of what was observed and what is supposed, so that a cell costs the same whether its effect
        was overlooked or invented.
        """
        return self._misfit(self.effect(faults, only).mean, only)

    def _misfit(self, effect: NDArray[np.float64], only: Segments | None) -> float:
        return float(np.nansum(self.nats(effect, self._cells(only))))

    def nats(
        self, effect: NDArray[np.float64], cells: NDArray[np.bool_] | EllipsisType = ...
    ) -> NDArray[np.float64]:
        """Misfit of each of some cells (of all: (n_patterns, n_epochs)) if this is the effect."""
        variance = self.baseline.means.variance[cells]
        return np.asarray(huber(self.residual[cells], effect[cells], variance))

    def _cells(self, only: Segments | None) -> NDArray[np.bool_]:
        """(n_patterns, n_epochs) cells to which nothing else adds."""
        key = b"" if only is None else only.tobytes()
        if key not in self._masks:
            everywhere = np.ones_like(self.residual, dtype=bool)
            self._masks[key] = everywhere if only is None else self.bank(0).cells_within(only)
        return self._masks[key]

    def fit_slowdown(
        self,
        fault: PhaseFault,
        accepted: Sequence[PhaseFault],
        factor: float,
        most_steps: int,
        only: Segments | None = None,
    ) -> tuple[PhaseFault, float]:
        """The fault with the slowdown that explains most, and its misfit.

        Effects at a slowdown and at `factor` times less or more are interpolated (linear in
        ln(slowdown)); where the best lies beyond, the next pair is compared, at most `most_steps`.
        Cost: two to most_steps + 1 replays of the phases in the interval.
        """
        high = fault
        slowdown, value = fault.slowdown, math.inf
        for _ in range(most_steps):
            low = dataclasses.replace(high, slowdown=_limited(high.slowdown / factor))
            at, value = self._between((*accepted, high), (*accepted, low), only)
            slowdown = high.slowdown * (low.slowdown / high.slowdown) ** at
            if 0 <= at <= 1:
                break
            faster = dataclasses.replace(high, slowdown=_limited(high.slowdown * factor))
            high = low if at > 1 else faster
        return dataclasses.replace(fault, slowdown=_limited(slowdown)), value

    def _between(
        self, high: tuple[PhaseFault, ...], low: tuple[PhaseFault, ...], only: Segments | None
    ) -> tuple[float, float]:
        """Where between two hypotheses the least is unexplained (0 at the first), and how much."""
        a, b = self.effect(high, only).mean, self.effect(low, only).mean
        values = [self._misfit(a + t * (b - a), only) for t in BETWEEN]
        best = int(np.argmin(values))
        return float(BETWEEN[best]), values[best]

    def begin_short(
        self, fault: PhaseFault, accepted: Sequence[PhaseFault], step: float, only: Segments
    ) -> tuple[PhaseFault, float]:
        """A fault that may be all edge: interval and slowdown together, roughly, and its misfit.

        With wrong edges the true slowdown explains less than none at all.
        """
        trials = []
        is_diluted = step >= self.bank(0).program.n_groups
        for factor in (*SHORT_FACTORS, *((DILUTED,) if is_diluted else ())):
            trial = dataclasses.replace(fault, slowdown=_limited(fault.slowdown / factor))
            trial = self.fit_interval(trial, accepted, step, 1.0 if step >= 2 else 0.5)
            trials.append((trial, self.misfit((*accepted, trial), only)))
        return min(trials, key=lambda pair: pair[1])

    def fit_short(
        self, fault: PhaseFault, accepted: Sequence[PhaseFault], step: float, only: Segments
    ) -> tuple[PhaseFault, float]:
        """What `begin_short` found, fitted to the end."""
        fault = self.fit_interval(fault, accepted, min(step, 1.0))
        return self.fit_slowdown(fault, accepted, 1.5, 2, only)

    def fit_interval(
        self,
        fault: PhaseFault,
        accepted: Sequence[PhaseFault],
        step: float,
        finest: float = FINEST_STEP,
    ) -> PhaseFault:
        """The fault with the interval that explains most.

        The edge and direction that explain most move, by half a step and then by ever less (one
        edge after the other would run away from a short fault); an edge at the border of the run
        must gain more (a fault that outlasts a healthy run often ends before a slowed one does).
        Only what happens near the edges is compared. Cost: the phases there, and those that an
        edge cuts, once for each position.

        Args:
            fault: Where to start.
            accepted: Faults that are there besides it.
            step: Phases to which the scan quantises edges.
            finest: Smallest move.
        """
        only = self.around(fault, step)
        best, value = fault, self.misfit((*accepted, fault), only)
        width = max(step / 2, 0.5)
        while width >= finest:
            for _ in range(MOST_MOVES):
                tried = [
                    (self.misfit((*accepted, moved), only) + least, least, moved)
                    for moved, least in self._moves(best, fault, width)
                ]
                score, least, moved = min(tried, key=lambda one: one[0], default=(value, 0.0, best))
                if score >= value:
                    break
                best, value = moved, score - least
            width = width / 2 if width <= 1 else max(math.floor(width / 2), 1)
        return best

    def _moves(
        self, fault: PhaseFault, begun: PhaseFault, width: float
    ) -> list[tuple[PhaseFault, float]]:
        """The fault with either edge moved either way, and the nats that each move must bring."""
        n_phases = float(self.bank(0).n_phases)
        result = []
        for edge in ("first", "last"):
            least = BORDER_MOVE if getattr(begun, edge) in (0, n_phases) else LEAST_MOVE
            for shift in (-width, width):
                place = min(max(getattr(fault, edge) + shift, 0.0), n_phases)
                first, last = (place, fault.last) if edge == "first" else (fault.first, place)
                if place != getattr(fault, edge) and last - first >= FINEST_STEP:
                    result.append((dataclasses.replace(fault, first=first, last=last), least))
        return result

    def around(self, fault: PhaseFault, step: float) -> Segments:
        """(n_epochs, n_groups) segments in reach of the edges of a fault."""
        bank, radius = self.bank(0), 2 * step + REACH
        result = np.zeros((bank.n_epochs, bank.program.n_groups), dtype=bool)
        for edge in (fault.first, fault.last):
            first, last = max(int(edge - radius), 0), min(int(edge + radius) + 1, bank.n_phases)
            batch, group = np.divmod(np.arange(first, last), bank.program.n_groups)
            result[bank.epoch_of_batch[batch], group] = True
        return result


@inlined
def huber(residual: Any, supposed: Any, variance: Any) -> Any:
    """Misfit, in nats, where an effect is supposed and a residual observed: of arrays of cells, or
    of one cell in compiled code.
    """
    granted = MODEL_ERROR * np.maximum(np.abs(residual), np.abs(supposed))
    z = np.abs(residual - supposed) / np.sqrt(variance + granted * granted)
    squared = np.minimum(z, CLIP)
    return squared * (z - 0.5 * squared)


def _limited(slowdown: float) -> float:
    return min(max(slowdown, LEAST_SLOWDOWN), MOST_SLOWDOWN)
