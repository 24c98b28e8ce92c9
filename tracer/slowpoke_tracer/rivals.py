"""Rivals: of the places of the network that may explain an alarm, the one that does best.

Each is simulated in the twin, with slowdown and interval fitted to the run, and the one that leaves
the least unexplained is kept (design.md section 8: confirmation by synthesis).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.places import Link, Place, Router
from slowpoke_tracer.detect.candidates import NETWORK
from slowpoke_tracer.detect.scan import Window
from slowpoke_tracer.phase_bank import PhaseFault
from slowpoke_tracer.posterior import physical
from slowpoke_tracer.prepare import Prepared
from slowpoke_tracer.robust_config import RobustConfig
from slowpoke_tracer.run_clock import RunClock
from slowpoke_tracer.sweep import polished
from slowpoke_tracer.synthesis import Synthesis

NEAR = 0.6
"""Hypotheses that explain more than this share of what the best one does are compared again."""

BEGUN = 0.5
"""Short faults that roughly explain more than this share are fitted to the end."""

TURNED = 0.3
"""Links that explain more than this share are tried in their other directions."""

RIVAL = 0.2
"""Places below this share of the best score are no rivals."""

SHORT, LEAST_SHORT, MOST_SHORT = 3.0, 1.5, 12.0
"""Windows of at most so many steps have no middle: slowdown and edges are fitted together. Beyond
so many phases that holds up to the lesser number of steps only."""

TURN = 3.0
"""Nats by which a link's other directions must explain a run better."""

SCAN_SHARE = 0.05
"""Weight of a place's own score beside what its synthesis explains, which one cell cannot lift."""

COARSE_FACTOR, LINK_FACTOR = 2.0, 1.4
"""Slowdowns are fitted in steps of these: the scan overstates links."""

ROUTER_NATS, ROUTER_SHARE = 8.0, 0.02
"""A router explains everything that one of its links does: it must explain so much more; and two
links that are to stand in its place, with their greater freedom, so much more than it."""


@dataclass(frozen=True, eq=False)
class Rivals:
    """Compares hypotheses about one run.

    Attributes:
        config: How many hypotheses, on how many segments.
        prepared: Candidates and baseline.
        clock: Of the run.
        synthesis: Simulates them.
    """

    config: RobustConfig
    prepared: Prepared
    clock: RunClock
    synthesis: Synthesis

    def best(self, windows: list[Window], accepted: list[PhaseFault]) -> tuple[PhaseFault, float]:
        """Of several hypotheses the one that explains most, and the nats that it explains.

        Each place competes with its best direction. The interval is fitted for the first of them;
        those that come near are then compared with the same interval, because a better edge can
        hide a worse place.
        """
        rivals = self._rivals(windows)
        steps = {index: self.clock.step(index, windows[index]) for index in rivals}
        begun = {index: self.clock.fault(index, windows[index]) for index in rivals}
        is_short = self._is_short(begun[rivals[0]], steps[rivals[0]])
        if is_short:
            only = np.logical_or.reduce([self.synthesis.around(begun[i], steps[i]) for i in rivals])
        else:
            only = self.telling(rivals, windows)
        before = self.synthesis.misfit(accepted, only)
        fit = self._fit_short if is_short else self._fit_long
        fitted = [
            (fault, before - misfit, index)
            for index, (fault, misfit) in fit(begun, steps, before, accepted, only).items()
        ]
        hopeful = TURNED * max(gain for _, gain, _ in fitted)
        near = [
            (*self._turned(fault, gain, before, accepted, only), index)
            for fault, gain, index in fitted
            if gain >= hopeful
        ] or fitted
        near.sort(key=lambda item: -item[1])
        first, best, index = near[0]
        first = self.synthesis.fit_interval(first, accepted, steps[index])
        if is_short or self.clock.is_diluted:
            first = polished(self.synthesis, first, accepted, LINK_FACTOR)
        others = [fault.place for fault, gain, _ in near[1:] if gain >= NEAR * best]
        fault = self._best_of(first, others, windows, accepted)
        if isinstance(fault.place, Router):
            fault = self._link_of_two(fault, fault.place, windows, accepted, only)
        return fault, self.synthesis.misfit(accepted) - self.synthesis.misfit((*accepted, fault))

    def _best_of(
        self,
        first: PhaseFault,
        others: list[Place],
        windows: list[Window],
        accepted: list[PhaseFault],
    ) -> PhaseFault:
        """Of a fault and the same one at other places the one that explains the whole run best.

        The best link of a router is always among them.
        """
        for place in (first.place, *others):
            if isinstance(place, Router):
                links = [link for link, _ in self._links_at(place, windows)[:1]]
                others = others + [link for link in links if link not in (first.place, *others)]
        before = self.synthesis.misfit(accepted)
        rivals = []
        for place in (first.place, *others):
            fault = first
            if place != first.place:
                fault = replace(first, place=place)
                fault, _ = self.synthesis.fit_slowdown(fault, accepted, LINK_FACTOR, 3)
            gain = before - self.synthesis.misfit((*accepted, fault))
            seen = SCAN_SHARE * self._seen(place, windows)
            rivals.append((preferred(place, gain) + seen, fault))
        return max(rivals, key=lambda rival: rival[0])[1]

    def _links_at(self, router: Router, windows: list[Window]) -> list[tuple[Link, float]]:
        """Links of a router, both directions together, and their scores, best first."""
        links = [
            (place, window.score)
            for place, window in zip(self.prepared.candidates.places, windows, strict=True)
            if isinstance(place, Link) and place.both and router.id in (place.src, place.dst)
        ]
        return sorted(links, key=lambda item: -item[1])

    def _seen(self, place: Place, windows: list[Window]) -> float:
        """A place's own score; of a router, which has more freedom, that of its best link."""
        places = self.prepared.candidates.places
        if not isinstance(place, Router):
            return windows[places.index(place)].score
        links = [
            window.score
            for other, window in zip(places, windows, strict=True)
            if isinstance(other, Link) and place.id in (other.src, other.dst)
        ]
        return max(links, default=windows[places.index(place)].score)

    def _is_short(self, fault: PhaseFault, step: float) -> bool:
        """Whether a window is all edge."""
        most = SHORT * step
        if not self.clock.is_diluted:
            # else a short fault hides in an epoch of many batches
            most = min(most, max(MOST_SHORT, LEAST_SHORT * step))
        return fault.last - fault.first <= most

    def _fit_long(
        self,
        begun: dict[int, PhaseFault],
        steps: dict[int, float],
        before: float,
        accepted: list[PhaseFault],
        only: NDArray[np.bool_],
    ) -> dict[int, tuple[PhaseFault, float]]:
        """By candidate, its fault with the slowdown that explains most, and the misfit."""
        return {
            index: self.synthesis.fit_slowdown(fault, accepted, COARSE_FACTOR, 4, only)
            for index, fault in begun.items()
        }

    def _fit_short(
        self,
        begun: dict[int, PhaseFault],
        steps: dict[int, float],
        before: float,
        accepted: list[PhaseFault],
        only: NDArray[np.bool_],
    ) -> dict[int, tuple[PhaseFault, float]]:
        """As `_fit_long`, the interval too; to the end for those that do well from the start."""
        fitted = {
            index: self.synthesis.begin_short(fault, accepted, steps[index], only)
            for index, fault in begun.items()
        }
        least = BEGUN * max(before - misfit for _, misfit in fitted.values())
        for index, (fault, misfit) in fitted.items():
            if before - misfit >= least:
                fitted[index] = self.synthesis.fit_short(fault, accepted, steps[index], only)
        return fitted

    def _link_of_two(
        self,
        fault: PhaseFault,
        router: Router,
        windows: list[Window],
        accepted: list[PhaseFault],
        only: NDArray[np.bool_],
    ) -> PhaseFault:
        """A router's fault, or that of one of two links if both together explain more.

        The other of the two is left for the next search.
        """
        two = [link for link, _ in self._links_at(router, windows)[:2]]
        pair = [replace(fault, place=link) for link in two]
        if len(pair) < 2:
            return fault
        before, alone, together = (
            self.synthesis.misfit((*accepted, *faults), only) for faults in ([], [fault], pair)
        )
        return (
            pair[0] if alone - together > ROUTER_NATS + ROUTER_SHARE * (before - alone) else fault
        )

    def telling(self, rivals: list[int], windows: list[Window]) -> NDArray[np.bool_]:
        """(n_epochs, n_groups) the segments of the rivals' windows that tell them apart best."""
        candidates, baseline = self.prepared.candidates, self.prepared.baseline
        residual = self.synthesis.residual
        n_groups, n_epochs = self.clock.program.n_groups, self.clock.sketch.n_epochs
        bank = self.prepared.bank(0)
        worth = np.zeros_like(residual)
        for index in rivals:
            window, share = windows[index], candidates.share[:, index]
            effect = np.log1p((window.slowdown - 1) * share.data)
            segment = np.arange(n_epochs) * n_groups
            segment = segment + baseline.patterns.table["group"][share.indices, None]
            inside = (segment >= window.first) & (segment <= window.last)
            inside &= np.isfinite(residual[share.indices])
            own = (effect**2)[:, None] / baseline.means.variance[share.indices]
            own = np.where(inside, own, 0.0)
            worth[share.indices] += own / max(float(own.sum()), 1e-12)  # each rival is heard
        result = np.zeros((n_epochs, n_groups), dtype=bool)
        dear = np.maximum(bank.spans.sum(axis=1), 1)[:, None]  # groups that a cell needs replayed
        for cell in np.argsort(-worth / dear, axis=None, kind="stable").tolist():
            pattern, epoch = divmod(cell, n_epochs)
            if worth[pattern, epoch] <= 0 or result.sum() >= self.config.n_segments:
                break
            result[epoch] |= bank.spans[pattern]
        return result

    def _turned(
        self,
        fault: PhaseFault,
        gain: float,
        before: float,
        accepted: list[PhaseFault],
        only: NDArray[np.bool_],
    ) -> tuple[PhaseFault, float]:
        """A link's fault in the direction that explains most, and how much it explains."""
        best = fault
        for place in directions(fault.place):
            turned = replace(fault, place=place)
            value = before - self.synthesis.misfit((*accepted, turned), only)
            if value > gain + TURN:
                best, gain = turned, value
        return best, gain

    def _rivals(self, windows: list[Window]) -> list[int]:
        """Candidates of the network that may be the cause: of each place the best, best first."""
        candidates = self.prepared.candidates
        order = np.argsort([-window.score for window in windows], kind="stable")
        rivals: dict[Place, int] = {}
        for i in order.tolist():
            if candidates.family[i] == NETWORK:
                rivals.setdefault(physical(candidates.places[i]), i)
            if len(rivals) == self.config.n_hypotheses:
                break
        best = windows[next(iter(rivals.values()))].score
        return [i for i in rivals.values() if windows[i].score > RIVAL * best]


def preferred(place: Place, gain: float) -> float:
    """What a hypothesis explains, less what its greater freedom explains anyway."""
    return gain - ROUTER_NATS - ROUTER_SHARE * gain if isinstance(place, Router) else gain


def directions(place: Place) -> tuple[Place, ...]:
    """The other directions of a link: both, one, the other; of anything else none."""
    if not isinstance(place, Link):
        return ()
    link = place.physical
    every = (link, Link(link.src, link.dst), Link(link.dst, link.src))
    return tuple(other for other in every if other != place)
