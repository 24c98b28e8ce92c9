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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Link, Place, Router
from slowpoke_mapping.scale import Scale
from slowpoke_tracer.baseline import Baseline
from slowpoke_tracer.cells import Cells, cells_of
from slowpoke_tracer.detect.candidates import CORE, NETWORK
from slowpoke_tracer.detect.scan import Window
from slowpoke_tracer.detector import Context
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.patterns import COMPUTE, TRANSFER
from slowpoke_tracer.posterior import Claim, margins, not_covered, physical, suspects
from slowpoke_tracer.prepare import Prepared, prepare
from slowpoke_tracer.recorder import record
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.synthesis import Effect, Synthesis
from slowpoke_tracer.trace import Trace

TEMPLATE_ERROR = 0.25
"""Relative error granted to an effect that was subtracted (feasibility campaign, section 6)."""


NEAR = 1.5
"""Hypotheses whose misfit is below this multiple of the best one's are compared again."""


@dataclass(frozen=True, slots=True)
class RobustConfig:
    """Parameters of the robust detector.

    Attributes:
        false_positive_rate: Of a run, for which the thresholds are set.
        n_replays: Healthy replays of the twin.
        least_score: Floor of the thresholds, in nats: 24 replays show too little of the tail
            (measured: of 350 healthy runs none had a mean above 23.0).
        least_max_score: Floor for the longest latencies of links: one burst in a queue makes a
            long tail (measured: 3 of 150 healthy runs of DarkNet-19 above 30, the largest 61.7).
        least_slowdown: A place is reported only from this estimate on.
        refit_above: The twin's speeds are refitted when the run's median residual exceeds this.
        n_hypotheses: Places whose fault is simulated before one is reported.
        max_faults: Simultaneous faults that are looked for.
        least_gain: Share of the first fault's gain in misfit that a further fault must bring:
            below it, a victim of the first is more likely than a second fault.
        confirm: Whether hypotheses are simulated (needs a twin).
    """

    false_positive_rate: float = 0.002
    n_replays: int = 24
    least_score: float = 24.0
    least_max_score: float = 70.0
    least_slowdown: float = 1.1
    refit_above: float = 0.03
    n_hypotheses: int = 4
    max_faults: int = 4
    least_gain: float = 0.02
    confirm: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.false_positive_rate < 1:
            raise SlowpokeError(
                f"false_positive_rate {self.false_positive_rate:g}: a probability between 0 and 1"
            )
        if self.n_replays < 4 or self.n_hypotheses < 1 or self.max_faults < 1:
            raise SlowpokeError(
                f"{self}: at least 4 replays, one hypothesis and one fault are needed"
            )


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

    config: RobustConfig = RobustConfig()
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
        return _Run(self.config, prepared, cells, sketch, context, refitted).diagnosis()

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
                link_speed=round(old.link_speed * math.exp(-network), 3),
                core_speed=round(old.core_speed * math.exp(-cores), 3),
                dram_speed=old.dram_speed,
            )
            if scale == old:
                break
            prepared = prepare(context, config, self.config, scale)
            refitted = True
        return prepared, refitted


def medians(baseline: Baseline, cells: Cells) -> tuple[float, float]:
    """Median residual of transfer and of compute cells: how far the whole chip is off."""
    residual = baseline.means.residual(cells.log_mean)
    kind = baseline.patterns.table["kind"]
    result = []
    for code in (TRANSFER, COMPUTE):
        values = residual[kind == code]
        values = values[np.isfinite(values)]
        n_places = len(set(baseline.patterns.table["recorder"][kind == code].tolist()))
        # With one or two cores, a slow core cannot be told from a chip that is slow throughout.
        result.append(float(np.median(values)) if len(values) and n_places > 2 else 0.0)
    return result[0], result[1]


@dataclass(eq=False)
class _Run:
    """One run under diagnosis."""

    config: RobustConfig
    prepared: Prepared
    cells: Cells
    sketch: Sketch
    context: Context
    refitted: bool

    def diagnosis(self) -> Diagnosis:
        """Accept faults one by one, each explained away before the next is looked for."""
        residuals = self._residuals()
        synthesis = self._synthesis(residuals["mean"])
        nothing = np.zeros_like(self.cells.log_mean)
        scans = self._scan(residuals, Effect(nothing, nothing))
        claims: list[Claim] = []
        while len(claims) < self.config.max_faults:
            accepted = [claim.fault for claim in claims]
            alarm = self._alarm(scans, {fault.place for fault in accepted})
            share = self.config.least_gain
            if alarm is None or (claims and alarm.window.score < share * claims[0].window.score):
                break
            fault, gain = self._confirm(alarm, scans, residuals, accepted, synthesis)
            needed = max(share * claims[0].gain if claims else 0.0, alarm.threshold)
            seen_directly = self.prepared.candidates.family[alarm.index] == CORE
            if fault.slowdown < self.config.least_slowdown or (gain < needed and not seen_directly):
                break
            claims.append(Claim(fault, alarm.index, alarm.window, alarm.threshold, gain))
            if synthesis is None:
                break
            scans = self._scan(residuals, synthesis.steady_effect([*accepted, fault]))
        left = margins(scans, self.prepared)
        times = {window: self._shown_times(window) for _, window in left.values()}
        ranked, reported, healthy = suspects(left, claims, self.prepared, times, self._horizon)
        return Diagnosis(
            ranked=tuple(ranked),
            reported=tuple(reported),
            not_covered=not_covered(self.prepared.candidates),
            healthy_probability=healthy,
            method=f"robust against {self.prepared.baseline.source}",
            clock_hz=self.context.program.chip.clock_hz,
            notes=self._notes(),
        )

    def _residuals(self) -> dict[str, NDArray[np.float64]]:
        """Observed minus expected, the whole chip's offset removed."""
        baseline = self.prepared.baseline
        kind = baseline.patterns.table["kind"]
        network, cores = medians(baseline, self.cells)
        offset = np.where(kind == COMPUTE, cores, network)[:, None]
        return {
            "mean": baseline.means.residual(self.cells.log_mean) - offset,
            "max": baseline.maxima.residual(self.cells.log_max) - offset,
        }

    def _scan(
        self, residuals: dict[str, NDArray[np.float64]], effect: Effect
    ) -> dict[str, list[Window]]:
        result = {}
        for name, change in (("mean", effect.mean), ("max", effect.maximum)):
            extra = (TEMPLATE_ERROR * change) ** 2
            result[name] = self.prepared.scanners[name].scan(residuals[name] - change, extra)
        return result

    def _alarm(self, scans: dict[str, list[Window]], accused: set[Place]) -> Alarm | None:
        """The place furthest above its threshold; a core before any link (it is seen directly)."""
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
        chosen = best.get(CORE, best.get(NETWORK))
        if chosen is None or touches(candidates.places[chosen.index], accused):
            return None
        return chosen

    def _confirm(
        self,
        alarm: Alarm,
        scans: dict[str, list[Window]],
        residuals: dict[str, NDArray[np.float64]],
        accepted: list[Fault],
        synthesis: Synthesis | None,
    ) -> tuple[Fault, float]:
        """The fault that explains the run best, among the alarm's place and its rivals.

        Returns:
            The fault, and the nats of misfit that it explains (its score if nothing is replayed).
        """
        places = self.prepared.candidates.places
        family = self.prepared.candidates.family
        windows = scans[alarm.statistic]
        if family[alarm.index] == CORE:
            slowdown = self._core_slowdown(alarm, residuals)
            fault = replace(self._fault(places[alarm.index], alarm.window), slowdown=slowdown)
            if synthesis is None:
                return fault, alarm.window.score
        else:
            order = np.argsort([-window.score for window in windows], kind="stable")
            rivals = [int(i) for i in order if family[i] == NETWORK][: self.config.n_hypotheses]
            faults = [self._fault(places[i], windows[i]) for i in rivals]
            if synthesis is None:
                return faults[0], alarm.window.score
            return self._best_rival(
                [(f, windows[i]) for f, i in zip(faults, rivals, strict=True)], accepted, synthesis
            )
        fault, _ = synthesis.fit_interval(fault, accepted, self._steps(alarm.window))
        fault, after = synthesis.fit_slowdown(fault, accepted, 1.15, 3)
        return fault, synthesis.misfit(accepted) - after

    def _best_rival(
        self,
        faults: list[tuple[Fault, Window]],
        accepted: list[Fault],
        synthesis: Synthesis,
    ) -> tuple[Fault, float]:
        """Of several hypotheses the one that explains most, and the nats that it explains.

        The interval is fitted for the first of them; those that come near are then compared with
        the same interval, because a better edge can hide a worse place.
        """
        fitted = [(*synthesis.fit_slowdown(f, accepted, 1.5, 2), window) for f, window in faults]
        fitted.sort(key=lambda item: item[1])
        first, misfit, window = fitted[0]
        first, _ = synthesis.fit_interval(first, accepted, self._steps(window))
        near = [fault for fault, value, _ in fitted[1:] if value < NEAR * misfit]
        rivals = [first] + [
            replace(fault, start_cycles=first.start_cycles, end_cycles=first.end_cycles)
            for fault in near
        ]
        final = [synthesis.fit_slowdown(fault, accepted, 1.15, 3) for fault in rivals[:3]]
        fault, after = min(final, key=lambda pair: pair[1])
        return fault, synthesis.misfit(accepted) - after

    def _core_slowdown(self, alarm: Alarm, residuals: dict[str, NDArray[np.float64]]) -> float:
        """What busy time says directly: of whole cells the mean, of short faults the longest."""
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

    def _synthesis(self, residual: NDArray[np.float64]) -> Synthesis | None:
        replayer = self.prepared.replayer
        if replayer is None or not self.config.confirm:
            return None
        return Synthesis(replayer, self.prepared.baseline, residual, self.prepared.seed)

    @property
    def _horizon(self) -> float:
        return float(np.nanmax(self.sketch.epoch_end_cycles))

    def _steps(self, window: Window) -> tuple[float, float]:
        """How far each edge of a window may be off: a layer group, or half an epoch of batches."""
        program, cycles = self.context.program, self.prepared.baseline.group_cycles
        batches = program.n_batches / self.sketch.n_epochs
        if batches >= 2:
            half = float(cycles.sum()) * batches / 2
            return half, half
        n_groups = program.n_groups
        return float(cycles[window.first % n_groups]), float(cycles[window.last % n_groups])

    def _times(self, window: Window) -> tuple[float, float]:
        """(start, end) cycles of a window of segments, on the observed run's own clock."""
        n_groups = self.context.program.n_groups
        cycles = self.prepared.baseline.group_cycles
        before = np.concatenate([[0.0], np.cumsum(cycles)])
        (first, g), (last, h) = divmod(window.first, n_groups), divmod(window.last, n_groups)
        # What came before the fault and what came after it took as long as in a healthy run.
        batches = max(self.context.program.n_batches / self.sketch.n_epochs, 1.0)
        opens = float(self.sketch.epoch_start_cycles[first])
        closes = float(self.sketch.epoch_end_cycles[last])
        result = [opens, closes]
        if batches < 2:
            result[0] = min(opens + float(before[g]), closes)
            result[1] = max(closes - float(before[-1] - before[h + 1]), result[0])
        seen = np.flatnonzero(np.isfinite(self.sketch.epoch_start_cycles))
        if window.first == seen[0] * n_groups:
            result[0] = 0.0
        if window.last == (seen[-1] + 1) * n_groups - 1:
            result[1] = math.inf
        return result[0], result[1]

    def _shown_times(self, window: Window) -> tuple[float, float]:
        start, end = self._times(window)
        return start, min(end, self._horizon)

    def _fault(self, place: Place, window: Window) -> Fault:
        start, end = self._times(window)
        if not start < end:
            start, end = 0.0, math.inf
        return Fault(place, max(window.slowdown, 1.0), start, end)

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if self.refitted:
            scale = self.prepared.baseline.scale
            notes.append(
                f"the twin was refitted to the run: links {scale.link_speed:.3f}x, cores "
                f"{scale.core_speed:.3f}x the configured speed"
            )
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
