"""The clock of a run: windows of a scan, phases of the program, and cycles of the observed run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slowpoke_mapping.faults import Fault
from slowpoke_mapping.program import Program
from slowpoke_tracer.detect.scan import Window
from slowpoke_tracer.phase_bank import PhaseFault
from slowpoke_tracer.prepare import Prepared
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.synthesis import Synthesis


@dataclass(frozen=True, eq=False)
class RunClock:
    """Turns windows into phases and phases into cycles.

    Attributes:
        program: What ran.
        prepared: Healthy phases, candidates and patterns.
        sketch: The observed run's, with the times of its epochs.
    """

    program: Program
    prepared: Prepared
    sketch: Sketch

    @property
    def horizon_cycles(self) -> float:
        """When the last epoch ended."""
        return float(np.nanmax(self.sketch.epoch_end_cycles))

    @property
    def is_diluted(self) -> bool:
        """Whether an epoch has several batches, of which a fault may cover a part."""
        return self.program.n_batches > self.sketch.n_epochs

    def batches(self, epoch: int) -> tuple[int, int]:
        """First batch of an epoch, and the first after it."""
        n_batches, n_epochs = self.program.n_batches, self.sketch.n_epochs
        return -(-epoch * n_batches // n_epochs), -(-(epoch + 1) * n_batches // n_epochs)

    def step(self, index: int, window: Window) -> float:
        """Phases by which an edge of a window may be off."""
        n_groups = self.program.n_groups
        first, after = self.batches(window.first // n_groups)
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

    def fault(self, index: int, window: Window) -> PhaseFault:
        """A window on the clock of phases: of epochs with one batch exact, else whole epochs."""
        n_groups = self.program.n_groups
        (opens, g), (closes, h) = divmod(window.first, n_groups), divmod(window.last, n_groups)
        first, after = self.batches(opens)
        begin = first * n_groups + (g if after - first == 1 else 0)
        first, after = self.batches(closes)
        last = self._last_group(index, h) if after - first == 1 else n_groups - 1
        place = self.prepared.candidates.places[index]
        return PhaseFault(
            place, max(window.slowdown, 1.0), float(begin), float((after - 1) * n_groups + last + 1)
        )

    def dated(
        self,
        fault: PhaseFault,
        window: Window,
        synthesis: Synthesis | None,
        accepted: list[PhaseFault],
    ) -> Fault:
        """A fault on the clock of the observed run."""
        if synthesis is None:
            start, end = self.times(window)
            return Fault(fault.place, fault.slowdown, start, max(end, start + 1.0))
        cycles = synthesis.phase_cycles(accepted)
        clock = np.concatenate([[0.0], np.cumsum(cycles)])
        n_groups = self.program.n_groups
        known, seen = [0.0], [0.0]
        for epoch in np.flatnonzero(np.isfinite(self.sketch.epoch_end_cycles)).tolist():
            known.append(float(clock[self.batches(epoch)[1] * n_groups]))
            seen.append(float(self.sketch.epoch_end_cycles[epoch]))
        at = np.interp([fault.first, fault.last], np.arange(len(clock)), clock)
        start, end = np.interp(at, known, seen).tolist()
        if fault.last >= len(cycles):
            end = math.inf
        return Fault(fault.place, fault.slowdown, start, max(end, start + 1.0))

    def times(self, window: Window) -> tuple[float, float]:
        """(start, end) cycles of a window of segments, on the observed run's own clock."""
        n_groups = self.program.n_groups
        cycles = self.prepared.baseline.group_cycles
        before = np.concatenate([[0.0], np.cumsum(cycles)])
        (first, g), (last, h) = divmod(window.first, n_groups), divmod(window.last, n_groups)
        # What came before the fault and what came after it took as long as in a healthy run.
        batches = max(self.program.n_batches / self.sketch.n_epochs, 1.0)
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

    def shown_times(self, window: Window) -> tuple[float, float]:
        """As `times`, cut at the end of the run."""
        start, end = self.times(window)
        return start, min(end, self.horizon_cycles)
