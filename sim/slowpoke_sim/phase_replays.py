"""Phases replayed one by one: what one layer group of one batch does under a fault.

Phases are separated by a barrier and share nothing but the clock and the drift of components, so
that a phase under a fault can be simulated alone, from the state in which a healthy run enters it.
A fault that lasts for a tenth of a run then costs a tenth of a replay, and moving one of its ends
costs the phases at that end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.faults import Fault
from slowpoke_mapping.program import Program
from slowpoke_mapping.scale import Scale
from slowpoke_sim.compiled_engine import CompiledEngine
from slowpoke_sim.noise import Noise
from slowpoke_sim.phase import Components, Phase
from slowpoke_sim.plan import Plan
from slowpoke_sim.speeds import Speeds
from slowpoke_tracer.trace import PhaseTimes


class PhaseReplays:
    """The phases of one noisy run; implements `slowpoke_tracer.twin.PhaseReplays`.

    Making it costs a healthy run of these batches; it keeps each phase's start and the components'
    drift, 16 B a server and phase, and no record.

    Args:
        program: What is replayed.
        noise: Natural noise.
        seed: Of the run.
        scale: How the real speeds differ from the chip's configuration.
        batches: Which batches run, one after another; by default every one.
    """

    def __init__(
        self,
        program: Program,
        noise: Noise,
        seed: int,
        scale: Scale,
        batches: Sequence[int] | None = None,
    ) -> None:
        self._program = program
        self._batches = range(program.n_batches) if batches is None else batches
        self._plan = Plan.of(program, noise, seed, scale)
        self._engine = CompiledEngine(self._plan)
        self._entered: list[tuple[float, NDArray[np.int64], NDArray[np.float64]]] = []
        self._healthy: list[PhaseTimes] = []
        components = Components.new(self._plan.n_servers, 0)
        speeds, now = Speeds.of_faults(program.chip, (), np.inf), 0.0
        for index in range(len(self._batches) * program.n_groups):
            self._entered.append((now, components.windows.copy(), components.levels.copy()))
            phase = self._engine.run_phase(*self._at(index), now, speeds, components)
            self._healthy.append(self._times(phase))
            now = phase.end_cycles

    def healthy(self) -> list[PhaseTimes]:
        """Every phase of the healthy run, handed over once: they are the bulk of the memory."""
        phases, self._healthy = self._healthy, []
        return phases

    def faulty(self, index: int, faults: Sequence[Fault]) -> PhaseTimes:
        """Phase `index` of those that run, under faults whose times count from its start."""
        start, windows, levels = self._entered[index]
        components = Components.new(self._plan.n_servers, len(faults))
        components.windows, components.levels = windows.copy(), levels.copy()
        moved = [
            Fault(f.place, f.slowdown, start + f.start_cycles, start + f.end_cycles) for f in faults
        ]
        speeds = Speeds.of_faults(self._program.chip, moved, np.inf)
        phase = self._engine.run_phase(*self._at(index), start, speeds, components)
        return self._times(phase)

    def _at(self, index: int) -> tuple[int, int]:
        """Batch and group of a phase."""
        batch, group = divmod(index, self._program.n_groups)
        return self._batches[batch], group

    def _times(self, phase: Phase) -> PhaseTimes:
        eject, consume = phase.eject - phase.first, phase.consume - phase.eject
        skew = self._plan.skew_cycles
        if skew.any():
            program = self._program
            tasks = program.group_offsets[phase.group : phase.group + 2]
            events = slice(*(int(e) for e in program.event_offsets[tasks]))
            shift = np.append(skew, 0.0)  # ports read the chip's own counter
            src, dst = program.event_src[events], program.event_dst[events]
            eject += (shift[np.where(dst >= 0, dst, -1)] - shift[np.where(src >= 0, src, -1)])[
                :, None
            ]
        return PhaseTimes(phase.end_cycles - phase.start_cycles, eject, consume)
