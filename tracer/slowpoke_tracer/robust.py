"""The robust detector: scan against a healthy baseline, confirm by synthesis, report above a
threshold.

What the paper's steps lose and this one repairs is in docs/decisions/0003. In short: the
baseline is the digital twin (or recorded profiles), so congestion is no evidence; windows over
(epoch, layer group) find short faults; a core is judged by its busy time and explains away what
its slowness does to links; the best few hypotheses are simulated and the one that leaves the
least unexplained is kept; and there is a healthy class with a threshold for a stated false-
positive rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.places import Link, Place, Router
from slowpoke_mapping.scale import Scale
from slowpoke_tracer.calibration import excess, healthy_excesses, p_value
from slowpoke_tracer.cells import Cells, cells_of
from slowpoke_tracer.detect.candidates import CORE, NETWORK
from slowpoke_tracer.detect.scan import Window
from slowpoke_tracer.detector import Context
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.foreign import without_foreign
from slowpoke_tracer.phase_bank import PhaseFault
from slowpoke_tracer.posterior import Claim, margins, not_covered, physical, suspects
from slowpoke_tracer.prepare import Prepared, prepare
from slowpoke_tracer.recorder import record
from slowpoke_tracer.residuals import medians, residuals_of
from slowpoke_tracer.rivals import Rivals
from slowpoke_tracer.robust_config import RobustConfig
from slowpoke_tracer.run_clock import RunClock
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.sweep import edged, polished
from slowpoke_tracer.synthesis import Effect, Synthesis
from slowpoke_tracer.trace import Trace

TEMPLATE_ERROR = 0.25
"""Relative error granted to an effect that was subtracted (feasibility campaign, section 6)."""

BRIEF_SEGMENTS = 2
"""Windows of so few segments are all burst, or all fault."""

CORE_FACTOR = 1.25
"""Slowdowns of cores are fitted in steps of this: busy time shows them."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A candidate above its threshold, before it is confirmed."""

    index: int
    window: Window
    threshold: float
    statistic: str

    @property
    def excess(self) -> float:
        """Score in units of its threshold, so that statistics and families compare."""
        return self.window.score / self.threshold


@dataclass(frozen=True, slots=True)
class RobustDetector:
    """Finds slow cores, links, routers and DRAM ports from a sketch and a healthy baseline."""

    config: RobustConfig = field(default_factory=RobustConfig)
    name: str = "robust"

    def detect(self, evidence: Sketch | Trace, context: Context) -> Diagnosis:
        """The diagnosis of a run.

        Args:
            evidence: The run's sketch, or its trace (which is sketched first).
            context: Program, twin or profile.

        Raises:
            SlowpokeError: Neither a twin nor a profile, or the sketch is another program's.
        """
        sketch = record(evidence, context.program) if isinstance(evidence, Trace) else evidence
        prepared = prepare(context, sketch.config, self.config)
        cells = cells_of(sketch, prepared.baseline.patterns)
        prepared, refitted = self._refit(prepared, cells, context, sketch.config)
        healthy = None
        if self.config.calibrate and context.twin is not None:
            healthy = healthy_excesses(prepared, context.twin, self.config.calibrate)
        return _Run(self.config, prepared, cells, sketch, context, refitted, healthy).diagnosis()

    def _refit(
        self, prepared: Prepared, cells: Cells, context: Context, config: SketchConfig
    ) -> tuple[Prepared, bool]:
        """The baseline at the speeds that the run's own median residual shows."""
        refitted = False
        if context.twin is None:
            return prepared, refitted
        for _ in range(3):
            network, cores = medians(prepared.baseline, cells)
            if max(abs(network), abs(cores)) < self.config.refit_above:
                break
            old = prepared.baseline.scale
            scale = Scale(
                link_speed=round(old.link_speed * math.exp(-network), 2),
                core_speed=round(old.core_speed * math.exp(-cores), 2),
                dram_speed=old.dram_speed,
            )
            if scale == old:
                break
            prepared = prepare(context, config, self.config, scale)
            refitted = True
        return prepared, refitted


@dataclass(eq=False)
class _Run:
    """One run under diagnosis."""

    config: RobustConfig
    prepared: Prepared
    cells: Cells
    sketch: Sketch
    context: Context
    refitted: bool
    healthy_excesses: NDArray[np.float64] | None = None
    crowded: list[Place] = field(default_factory=list)

    @cached_property
    def clock(self) -> RunClock:
        """The clock of the run."""
        return RunClock(self.context.program, self.prepared, self.sketch)

    def diagnosis(self) -> Diagnosis:
        """Accept faults one by one, each explained away before the next is looked for."""
        residuals = residuals_of(self.prepared.baseline, self.cells)
        synthesis = self._synthesis(residuals["mean"])
        nothing = np.zeros_like(self.cells.log_mean)
        scans = self._scan(residuals, Effect(nothing, nothing))
        unlikely = math.nan
        if self.healthy_excesses is not None:
            unlikely = p_value(excess(scans, self.prepared), self.healthy_excesses)
        claims: list[Claim] = []
        accepted: list[PhaseFault] = []
        while len(claims) < self.config.max_faults:
            alarm = self._alarm(scans, {fault.place for fault in accepted})
            if alarm is None:
                break
            # A core is seen directly; a network's fault has victims that look like lesser faults.
            seen_directly = self.prepared.candidates.family[alarm.index] == CORE
            alike = [c for c in claims if self.prepared.candidates.family[c.index] == NETWORK]
            share = self.config.least_gain
            least = share * max((c.window.score for c in alike), default=0.0)
            if not seen_directly and alarm.window.score < least:
                break
            fault, gain = self._confirm(alarm, scans, residuals, accepted, synthesis)
            # What a fault explains is counted on cell means, whatever raised the alarm.
            needed = max(share * max((c.gain for c in alike), default=0.0), self.config.least_score)
            if alarm.window.last - alarm.window.first < BRIEF_SEGMENTS:
                needed = max(needed, self.config.least_brief)
            if claims:
                needed = max(needed, self.config.least_further)
            if fault.slowdown < self.config.least_slowdown or (gain < needed and not seen_directly):
                break
            accepted.append(fault)
            index = self._index_of(fault, alarm)
            claims.append(
                Claim(
                    self.clock.dated(fault, alarm.window, synthesis, accepted),
                    index,
                    alarm.window,
                    alarm.threshold,
                    gain,
                )
            )
            if synthesis is None:
                break
            scans = self._scan(residuals, synthesis.effect(accepted))
            if self._alarm(scans, {fault.place for fault in accepted}) is not None:
                scans = self._scan(residuals, synthesis.steady_effect(accepted))
        if synthesis is not None:
            candidates = self.prepared.candidates
            claims, self.crowded = without_foreign(claims, accepted, candidates, synthesis)
        left = margins(scans, self.prepared)
        times = {window: self.clock.shown_times(window) for _, window in left.values()}
        horizon = self.clock.horizon_cycles
        ranked, reported, healthy = suspects(left, claims, self.prepared, times, horizon)
        return Diagnosis(
            ranked=tuple(ranked),
            reported=tuple(reported),
            not_covered=not_covered(self.prepared.candidates),
            healthy_probability=healthy,
            method=f"robust against {self.prepared.baseline.source}",
            clock_hz=self.context.program.chip.clock_hz,
            notes=self._notes(),
            p_value=unlikely,
        )

    def _scan(
        self, residuals: dict[str, NDArray[np.float64]], effect: Effect
    ) -> dict[str, list[Window]]:
        result = {}
        for name, change in (("mean", effect.mean), ("max", effect.maximum)):
            extra = (TEMPLATE_ERROR * change) ** 2
            result[name] = self.prepared.scanners[name].scan(residuals[name] - change, extra)
        return result

    def _alarm(self, scans: dict[str, list[Window]], accused: set[Place]) -> Alarm | None:
        """The place furthest above its threshold; a core before any link (it is seen directly).

        Where what an accepted fault leaves of itself stands out most, its family is not looked at.
        """
        best: dict[int, Alarm] = {}
        candidates = self.prepared.candidates
        for statistic, windows in scans.items():
            for family in (CORE, NETWORK):
                members = np.flatnonzero(candidates.family == family)
                top = max(members.tolist(), key=lambda i: windows[i].score)
                threshold = self.prepared.thresholds[statistic, family]
                alarm = Alarm(top, windows[top], threshold, statistic)
                if alarm.excess > 1 and (family not in best or alarm.excess > best[family].excess):
                    best[family] = alarm
        for family in (CORE, NETWORK):
            found = best.get(family)
            if found is not None and not touches(candidates.places[found.index], accused):
                return found
        return None

    def _confirm(
        self,
        alarm: Alarm,
        scans: dict[str, list[Window]],
        residuals: dict[str, NDArray[np.float64]],
        accepted: list[PhaseFault],
        synthesis: Synthesis | None,
    ) -> tuple[PhaseFault, float]:
        """The fault that explains the run best, among the alarm's place and its rivals.

        Returns:
            The fault, and the nats of misfit that it explains (its score if nothing is replayed).
        """
        is_core = self.prepared.candidates.family[alarm.index] == CORE
        fault = self.clock.fault(alarm.index, alarm.window)
        if is_core:
            fault = replace(fault, slowdown=self._core_slowdown(alarm, residuals))
        if synthesis is None:
            return fault, alarm.window.score
        rivals = Rivals(self.config, self.prepared, self.clock, synthesis)
        if not is_core:
            return rivals.best(scans[alarm.statistic], accepted)
        fault = synthesis.fit_interval(fault, accepted, self.clock.step(alarm.index, alarm.window))
        if self._whole_cells(alarm, residuals).size or alarm.statistic == "mean":
            if self.clock.is_diluted:
                fault = edged(synthesis, fault, accepted)  # busy time says the rest
        else:
            only = rivals.telling([alarm.index], scans[alarm.statistic])
            fault, _ = synthesis.fit_slowdown(fault, accepted, CORE_FACTOR, 2, only)
            if self.clock.is_diluted:
                fault = polished(synthesis, fault, accepted, CORE_FACTOR)
        return fault, synthesis.misfit(accepted) - synthesis.misfit((*accepted, fault))

    def _index_of(self, fault: PhaseFault, alarm: Alarm) -> int:
        """The candidate of a fault."""
        places = self.prepared.candidates.places
        return places.index(fault.place) if fault.place in places else alarm.index

    def _core_slowdown(self, alarm: Alarm, residuals: dict[str, NDArray[np.float64]]) -> float:
        """What busy time says directly: of whole cells the mean, of short faults the longest."""
        whole = self._whole_cells(alarm, residuals)
        if whole.size:
            return float(np.exp(np.median(whole)))
        n_groups = self.context.program.n_groups
        patterns = self.prepared.candidates.share[:, alarm.index].indices
        group = self.prepared.baseline.patterns.table["group"][patterns]
        segment = np.arange(self.sketch.n_epochs)[None, :] * n_groups + group[:, None]
        inside = (segment >= alarm.window.first) & (segment <= alarm.window.last)
        mean = residuals["mean"][patterns][inside]
        if alarm.statistic == "mean" and np.isfinite(mean).sum() > 1:
            return float(np.exp(np.nanquantile(mean, 0.75)))
        longest = residuals["max"][patterns][inside]
        return float(np.exp(np.nanmax(longest))) if np.isfinite(longest).any() else 1.0

    def _whole_cells(
        self, alarm: Alarm, residuals: dict[str, NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """(n_cells,) mean residuals of a core in the epochs between those that its window cuts."""
        n_groups = self.context.program.n_groups
        patterns = self.prepared.candidates.share[:, alarm.index].indices
        epochs = slice(alarm.window.first // n_groups + 1, alarm.window.last // n_groups)
        inside = residuals["mean"][patterns, epochs]
        return np.asarray(inside[np.isfinite(inside)])

    def _synthesis(self, residual: NDArray[np.float64]) -> Synthesis | None:
        replayer = self.prepared.replayer
        if replayer is None or not self.config.confirm:
            return None
        return Synthesis(self.prepared.bank, self.prepared.baseline, residual)

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if self.refitted:
            scale = self.prepared.baseline.scale
            notes.append(
                f"the twin was refitted to the run: links {scale.link_speed:.2f}x, cores "
                f"{scale.core_speed:.2f}x the configured speed"
            )
        notes += [
            f"messages over {place} wait longer, but not as they would if it were slow: rather "
            "traffic that the program does not know"
            for place in self.crowded
        ]
        lost = self.sketch.n_records - self.sketch.n_records_kept
        if lost:
            notes.append(f"{lost} of {self.sketch.n_records} records are not in the sketch")
        return tuple(notes)


def touches(place: Place, accused: set[Place]) -> bool:
    """Whether a place is, or shares hardware with, one that is accused already."""
    for other in accused:
        if physical(place) == physical(other):
            return True
        routers = {place.id} if isinstance(place, Router) else set()
        routers |= {other.id} if isinstance(other, Router) else set()
        links = [p for p in (place, other) if isinstance(p, Link)]
        if routers and any({link.src, link.dst} & routers for link in links):
            return True
    return False
