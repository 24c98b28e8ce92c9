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

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Link, Place, Router
from slowpoke_mapping.scale import Scale
from slowpoke_tracer.calibration import excess, healthy_excesses, p_value
from slowpoke_tracer.cells import Cells, cells_of
from slowpoke_tracer.detect.candidates import CORE, NETWORK
from slowpoke_tracer.detect.scan import Window
from slowpoke_tracer.detector import Context
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.phase_bank import PhaseFault
from slowpoke_tracer.posterior import Claim, margins, not_covered, physical, suspects
from slowpoke_tracer.prepare import Prepared, prepare
from slowpoke_tracer.recorder import record
from slowpoke_tracer.residuals import medians, residuals_of
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.synthesis import Effect, Synthesis
from slowpoke_tracer.trace import Trace

TEMPLATE_ERROR = 0.25
"""Relative error granted to an effect that was subtracted (feasibility campaign, section 6)."""


NEAR = 0.6
"""Hypotheses that explain more than this share of what the best one does are compared again."""

BEGUN = 0.5
"""Short faults that roughly explain more than this share are fitted to the end."""

TURNED = 0.3
"""Links that explain more than this share are tried in their other directions."""

RIVAL = 0.2
"""Places below this share of the best score are no rivals."""

SHORT, MOST_SHORT = 3.0, 12.0
"""Windows of at most so many steps, and phases, have no middle: slowdown and edges are fitted
together."""

LEAST_SHARE, LEAST_CELLS = 0.03, 40
"""A message crosses a place that has so large a share in it; fewer cells cannot look strange."""

HEALTHY_NATS, STRANGE_NATS, STRANGE_SHARE = 0.55, 1.2, 0.2
"""Misfit of a healthy cell; what a real fault leaves at most in a cell that crosses it, and as a
share of the further misfit (measured on development seeds: of 335 faults 4 leave more of both, of
57 alarms from foreign traffic 41)."""

FOREIGN_SLOWDOWN = 2.0
"""Traffic of up to half a link makes it look no slower than this."""

TURN = 3.0
"""Nats by which a link's other directions must explain a run better."""

SCAN_SHARE = 0.05
"""Weight of a place's own score beside what its synthesis explains, which one cell cannot lift."""

COARSE_FACTOR, LINK_FACTOR, CORE_FACTOR = 2.0, 1.4, 1.25
"""Slowdowns are fitted in steps of these: the scan overstates links, busy time shows cores."""

ROUTER_NATS, ROUTER_SHARE = 3.0, 0.01
"""A router explains everything that one of its links does: it must explain so much more; and two
links that are to stand in its place, with their greater freedom, so much more than it."""


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
        n_segments: Parts of a run (layer groups in an epoch) on which rivals are compared.
        n_batches: Batches on which hypotheses are simulated; they stand for the others.
        max_faults: Simultaneous faults that are looked for.
        least_gain: Share of the greatest network fault's gain in misfit that a further one must
            bring: below it, a victim of the first is more likely than a second fault.
        confirm: Whether hypotheses are simulated (needs a twin).
        calibrate: Healthy replays that a run's scores are compared with for a p-value, beside the
            `n_replays` that the thresholds come from; 0 for none (needs a twin, kept on disk).
    """

    false_positive_rate: float = 0.002
    n_replays: int = 24
    least_score: float = 24.0
    least_max_score: float = 70.0
    least_slowdown: float = 1.1
    refit_above: float = 0.03
    n_hypotheses: int = 4
    n_segments: int = 16
    n_batches: int = 4
    max_faults: int = 4
    least_gain: float = 0.05
    confirm: bool = True
    calibrate: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.false_positive_rate < 1:
            raise SlowpokeError(
                f"false_positive_rate {self.false_positive_rate:g}: a probability between 0 and 1"
            )
        counts = (self.n_hypotheses, self.n_segments, self.n_batches, self.max_faults)
        if self.n_replays < 4 or min(counts) < 1:
            raise SlowpokeError(
                f"{self}: at least 4 replays, one hypothesis, one segment, one batch and one fault "
                "are needed"
            )
        if self.calibrate < 0:
            raise SlowpokeError(f"calibrate {self.calibrate}: a number of replays, 0 for none")


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
            needed = max(share * max((c.gain for c in alike), default=0.0), alarm.threshold)
            if fault.slowdown < self.config.least_slowdown or (gain < needed and not seen_directly):
                break
            accepted.append(fault)
            index = self._index_of(fault, alarm)
            claims.append(
                Claim(
                    self._dated(fault, alarm, synthesis, accepted),
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
        claims = self._without_foreign(claims, accepted, synthesis, residuals["mean"])
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
        fault = self._fault(alarm.index, alarm.window)
        if is_core:
            fault = replace(fault, slowdown=self._core_slowdown(alarm, residuals))
        if synthesis is None:
            return fault, alarm.window.score
        if not is_core:
            return self._best_rival(scans[alarm.statistic], accepted, synthesis)
        fault = synthesis.fit_interval(fault, accepted, self._step(alarm.index, alarm.window))
        if alarm.statistic != "mean":  # whole cells of busy time say it better than any replay
            only = self._telling([alarm.index], scans[alarm.statistic])
            fault, _ = synthesis.fit_slowdown(fault, accepted, CORE_FACTOR, 2, only)
        return fault, synthesis.misfit(accepted) - synthesis.misfit((*accepted, fault))

    def _best_rival(
        self, windows: list[Window], accepted: list[PhaseFault], synthesis: Synthesis
    ) -> tuple[PhaseFault, float]:
        """Of several hypotheses the one that explains most, and the nats that it explains.

        Each place competes with its best direction. The interval is fitted for the first of them;
        those that come near are then compared with the same interval, because a better edge can
        hide a worse place.
        """
        rivals = self._rivals(windows)
        steps = {index: self._step(index, windows[index]) for index in rivals}
        begun = {index: self._fault(index, windows[index]) for index in rivals}
        first = begun[rivals[0]]
        most = SHORT * steps[rivals[0]]
        if self.context.program.n_batches <= self.sketch.n_epochs:  # no batch hides in its epoch
            most = min(most, MOST_SHORT)
        is_short = first.last - first.first <= most
        if is_short:
            only = np.logical_or.reduce([synthesis.around(begun[i], steps[i]) for i in rivals])
        else:
            only = self._telling(rivals, windows)
        before = synthesis.misfit(accepted, only)
        fitted = []
        for index, fault in begun.items():
            if is_short:
                fault, misfit = synthesis.begin_short(fault, accepted, steps[index], only)
            else:
                fault, misfit = synthesis.fit_slowdown(fault, accepted, COARSE_FACTOR, 4, only)
            fitted.append((fault, before - misfit, index))
        if is_short:
            begun_best = max(gain for _, gain, _ in fitted)
            for number, (fault, gain, index) in enumerate(fitted):
                if gain >= BEGUN * begun_best:
                    fault, misfit = synthesis.fit_short(fault, accepted, steps[index], only)
                    fitted[number] = (fault, before - misfit, index)
        hopeful = TURNED * max(gain for _, gain, _ in fitted)
        near = [
            (*self._turned(fault, gain, before, accepted, synthesis, only), index)
            for fault, gain, index in fitted
            if gain >= hopeful
        ] or fitted
        near.sort(key=lambda item: -item[1])
        first, best, index = near[0]
        first = synthesis.fit_interval(first, accepted, steps[index])
        final: list[tuple[PhaseFault, float]] = []
        for fault, gain, _ in near:
            if final and gain < NEAR * best:
                break
            fault = replace(fault, first=first.first, last=first.last)
            fault, misfit = synthesis.fit_slowdown(fault, accepted, LINK_FACTOR, 3, only)
            seen = SCAN_SHARE * windows[self.prepared.candidates.places.index(fault.place)].score
            final.append((fault, preferred(fault.place, before - misfit) + seen))
        fault, _ = max(final, key=lambda pair: pair[1])
        if isinstance(fault.place, Router):
            fault = self._link_of_two(fault, fault.place.id, windows, accepted, synthesis, only)
        return fault, synthesis.misfit(accepted) - synthesis.misfit((*accepted, fault))

    def _link_of_two(
        self,
        fault: PhaseFault,
        router: int,
        windows: list[Window],
        accepted: list[PhaseFault],
        synthesis: Synthesis,
        only: NDArray[np.bool_],
    ) -> PhaseFault:
        """A router's fault, or that of one of two links if both together explain more.

        The other of the two is left for the next search.
        """
        links = {
            place: windows[index].score
            for index, place in enumerate(self.prepared.candidates.places)
            if isinstance(place, Link) and place.both and router in (place.src, place.dst)
        }
        two = sorted(links, key=lambda link: -links[link])[:2]
        pair = [replace(fault, place=link) for link in two]
        if len(pair) < 2:
            return fault
        before, alone, together = (
            synthesis.misfit((*accepted, *faults), only) for faults in ([], [fault], pair)
        )
        return (
            pair[0] if alone - together > ROUTER_NATS + ROUTER_SHARE * (before - alone) else fault
        )

    def _telling(self, rivals: list[int], windows: list[Window]) -> NDArray[np.bool_]:
        """(n_epochs, n_groups) the segments of the rivals' windows that tell them apart best."""
        candidates, baseline = self.prepared.candidates, self.prepared.baseline
        n_groups, n_epochs = self.context.program.n_groups, self.sketch.n_epochs
        bank = self.prepared.bank(0)
        worth = np.zeros_like(self.cells.log_mean)
        for index in rivals:
            window, share = windows[index], candidates.share[:, index]
            effect = np.log1p((window.slowdown - 1) * share.data)
            segment = np.arange(n_epochs) * n_groups
            segment = segment + baseline.patterns.table["group"][share.indices, None]
            inside = (segment >= window.first) & (segment <= window.last)
            inside &= np.isfinite(self.cells.log_mean[share.indices])
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
        synthesis: Synthesis,
        only: NDArray[np.bool_],
    ) -> tuple[PhaseFault, float]:
        """A link's fault in the direction that explains most, and how much it explains."""
        best = fault
        for place in directions(fault.place):
            turned = replace(fault, place=place)
            value = before - synthesis.misfit((*accepted, turned), only)
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

    def _without_foreign(
        self,
        claims: list[Claim],
        accepted: list[PhaseFault],
        synthesis: Synthesis | None,
        residual: NDArray[np.float64],
    ) -> list[Claim]:
        """The claims whose simulated fault looks like what was observed on its own messages.

        Traffic that the program does not know delays messages over a link, but not as a slow link
        would: short and long ones, first and last ones alike. It crosses several links: once it is
        there, whatever is found behind it, and links that look but mildly slow, are more of it.
        """
        if synthesis is None:
            return claims
        kept = []
        for number, claim in enumerate(claims):
            others = accepted[:number] + accepted[number + 1 :]
            carries = isinstance(claim.fault.place, Link | Router)
            if carries and (
                self.crowded or self._strange(claim.index, accepted, others, synthesis, residual)
            ):
                self.crowded.append(claim.fault.place)
            else:
                kept.append(claim)
        if not self.crowded:
            return kept
        mild = [
            claim
            for claim in kept
            if isinstance(claim.fault.place, Link | Router)
            and claim.fault.slowdown < FOREIGN_SLOWDOWN
        ]
        self.crowded += [claim.fault.place for claim in mild]
        return [claim for claim in kept if claim not in mild]

    def _strange(
        self,
        index: int,
        accepted: list[PhaseFault],
        others: list[PhaseFault],
        synthesis: Synthesis,
        residual: NDArray[np.float64],
    ) -> bool:
        """Whether a fault leaves too much unexplained of what crosses its place."""
        share = self.prepared.candidates.share[:, index]
        crossing = np.zeros((len(residual), 1), dtype=bool)
        crossing[share.indices[share.data > LEAST_SHARE]] = True
        with_it, without = synthesis.effect(accepted).mean, synthesis.effect(others).mean
        cells = crossing & np.isfinite(residual) & (with_it != without)
        if cells.sum() < LEAST_CELLS:
            return False
        after = float(synthesis.nats(with_it)[cells].mean())
        before = max(float(synthesis.nats(without)[cells].mean()), HEALTHY_NATS)
        share = STRANGE_SHARE * (before - HEALTHY_NATS)
        return after > STRANGE_NATS and after - HEALTHY_NATS > share

    def _index_of(self, fault: PhaseFault, alarm: Alarm) -> int:
        """The candidate of a fault."""
        places = self.prepared.candidates.places
        return places.index(fault.place) if fault.place in places else alarm.index

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
        return Synthesis(self.prepared.bank, self.prepared.baseline, residual)

    @property
    def _horizon(self) -> float:
        return float(np.nanmax(self.sketch.epoch_end_cycles))

    def _batches(self, epoch: int) -> tuple[int, int]:
        """First batch of an epoch, and the first after it."""
        n_batches, n_epochs = self.context.program.n_batches, self.sketch.n_epochs
        return -(-epoch * n_batches // n_epochs), -(-(epoch + 1) * n_batches // n_epochs)

    def _step(self, index: int, window: Window) -> float:
        """Phases by which an edge of a window may be off."""
        n_groups = self.context.program.n_groups
        first, after = self._batches(window.first // n_groups)
        if after - first > 1:
            return float((after - first) * n_groups)
        ends = [segment % n_groups for segment in (window.first, window.last)]
        return float(max(self._last_group(index, group) - group + 1 for group in ends))

    def _last_group(self, index: int, group: int) -> int:
        """The last layer group of what a candidate's patterns that begin in a group show."""
        patterns = self.prepared.baseline.patterns
        rows = self.prepared.candidates.share[:, index].indices
        rows = rows[patterns.table["group"][rows] == group]
        last = self.prepared.last_group[rows]
        return int(last.max(initial=group))

    def _fault(self, index: int, window: Window) -> PhaseFault:
        """A window on the clock of phases: of epochs with one batch exact, else whole epochs."""
        n_groups = self.context.program.n_groups
        (opens, g), (closes, h) = divmod(window.first, n_groups), divmod(window.last, n_groups)
        first, after = self._batches(opens)
        begin = first * n_groups + (g if after - first == 1 else 0)
        first, after = self._batches(closes)
        last = self._last_group(index, h) if after - first == 1 else n_groups - 1
        place = self.prepared.candidates.places[index]
        return PhaseFault(
            place, max(window.slowdown, 1.0), float(begin), float((after - 1) * n_groups + last + 1)
        )

    def _dated(
        self,
        fault: PhaseFault,
        alarm: Alarm,
        synthesis: Synthesis | None,
        accepted: list[PhaseFault],
    ) -> Fault:
        """A fault on the clock of the observed run."""
        if synthesis is None:
            start, end = self._times(alarm.window)
            return Fault(fault.place, fault.slowdown, start, max(end, start + 1.0))
        cycles = synthesis.phase_cycles(accepted)
        clock = np.concatenate([[0.0], np.cumsum(cycles)])
        n_groups = self.context.program.n_groups
        known, seen = [0.0], [0.0]
        for epoch in np.flatnonzero(np.isfinite(self.sketch.epoch_end_cycles)).tolist():
            known.append(float(clock[self._batches(epoch)[1] * n_groups]))
            seen.append(float(self.sketch.epoch_end_cycles[epoch]))
        at = np.interp([fault.first, fault.last], np.arange(len(clock)), clock)
        start, end = np.interp(at, known, seen).tolist()
        if fault.last >= len(cycles):
            end = math.inf
        return Fault(fault.place, fault.slowdown, start, max(end, start + 1.0))

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
