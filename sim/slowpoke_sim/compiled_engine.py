"""The compiled engine: phases of a plan as one compiled loop over flat arrays, the default."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_sim.ahead import run_ahead
from slowpoke_sim.phase import Components, Phase
from slowpoke_sim.plan import Plan
from slowpoke_sim.queues import FREE, FULL, HEAD, LAST, LEFT, WAITING, State
from slowpoke_sim.service import Out, Slow, Where, run_loop
from slowpoke_sim.speeds import Speeds


class CompiledEngine:
    """Runs phases of a plan; keeps scratch capacities from one phase to the next."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._n_entries = 1 << 15
        self._n_heap = 1 << 15
        self._make_scratch()

    def _make_scratch(self) -> None:
        """Arrays that every phase uses anew: to allocate them costs as much as a small phase."""
        n, n_servers = self._n_entries, self._plan.n_servers
        self._all_free = np.arange(n - 1, -1, -1, dtype=np.int64)
        self._idle = np.zeros((n_servers, 8), dtype=np.int64)
        self._idle[:, [HEAD, LAST, WAITING]] = -1
        self._heap_time, self._heap_item = np.empty(self._n_heap), np.empty(self._n_heap, np.int64)
        self._at_once = np.empty(n, np.int64)
        self._line_time, self._line_entry = np.empty(2 * n), np.empty(2 * n, np.int64)
        self._free, self._servers = self._all_free.copy(), self._idle.copy()
        self._entry, self._entry_time = np.empty((n, 8), dtype=np.int64), np.empty((n, 2))
        self._free_at = np.empty(n_servers)

    def run_phase(
        self,
        batch: int,
        group: int,
        start_cycles: float,
        speeds: Speeds,
        components: Components,
        hop_cycles: bool = False,
    ) -> Phase:
        """One phase; `components` is brought up to date in place.

        Raises:
            SlowpokeError: A task waits for itself, directly or not.
        """
        while True:
            trial = components.copy()
            phase, is_full = self._try(batch, group, start_cycles, speeds, trial, hop_cycles)
            if not is_full:
                vars(components).update(vars(trial))
                return phase
            self._n_entries *= 2
            self._n_heap *= 2
            self._make_scratch()

    def _try(
        self,
        batch: int,
        group: int,
        start_cycles: float,
        speeds: Speeds,
        trial: Components,
        hop_cycles: bool,
    ) -> tuple[Phase, bool]:
        a, program = self._plan.arrays, self._plan.program
        n_units = program.units_in_batch(batch)
        task0, task1 = (int(t) for t in program.group_offsets[group : group + 2])
        event0, event1 = int(a.event_offsets[task0]), int(a.event_offsets[task1])
        hop0, hop1 = int(a.hop_offsets[task0]), int(a.hop_offsets[task1])
        where = Where(task0, task1, event0, event1, hop0, batch, n_units, float(start_cycles))
        n_events, n_hops = (event1 - event0) * n_units, (hop1 - hop0) * n_units
        n_faults = len(trial.exposure)
        state = self._state((task1 - task0) * n_units, n_events, n_hops * n_faults, start_cycles)
        out = Out(
            first=np.full(n_events, np.nan),
            eject=np.full(n_events, np.nan),
            consume=np.full(n_events, np.nan),
            hop_cycles=np.zeros(n_hops if hop_cycles else 0),
            windows=trial.windows,
            levels=trial.levels,
            sums=trial.sums,
            exposure=trial.exposure,
        )
        slow = Slow(
            speeds.offsets, speeds.times, speeds.slowdowns, speeds.fault_offsets,
            speeds.fault_times, speeds.fault_slowdowns, speeds.server_fault_offsets,
            speeds.server_faults,
        )  # fmt: skip
        loop = run_ahead if self._plan.constants.ahead else run_loop
        end = loop(a, self._plan.constants, state, slow, out, where)
        is_full = bool(state.counts[FULL])
        if not is_full and state.counts[LEFT] > 0:
            raise stuck(self._plan, group, state.remaining.reshape(-1, n_units))
        shape = (event1 - event0, n_units)
        phase = Phase(
            batch, group, start_cycles, end, out.first.reshape(shape), out.eject.reshape(shape),
            out.consume.reshape(shape),
            out.hop_cycles.reshape((hop1 - hop0) if hop_cycles else 0, n_units),
        )  # fmt: skip
        return phase, is_full

    def _state(self, n_instances: int, n_events: int, n_seen: int, start_cycles: float) -> State:
        counts = np.zeros(8, dtype=np.int64)
        counts[FREE] = self._n_entries
        self._free[:] = self._all_free
        self._servers[:] = self._idle
        self._free_at[:] = start_cycles
        return State(
            counts=counts,
            heap_time=self._heap_time,
            heap_item=self._heap_item,
            at_once=self._at_once,
            line_time=self._line_time,
            line_entry=self._line_entry,
            free=self._free,
            entry=self._entry,
            entry_time=self._entry_time,
            server=self._servers,
            free_at=self._free_at,
            remaining=np.zeros(n_instances, dtype=np.int64),
            packets_left=np.zeros(n_events, dtype=np.int64),
            seen=np.zeros(n_seen, dtype=np.uint8),
        )


def stuck(plan: Plan, group: int, remaining: NDArray[np.int64]) -> SlowpokeError:
    """The error for a phase that ends with tasks that never became ready."""
    local = int(np.argmax(remaining.max(axis=1) > 0))
    task = int(plan.program.group_offsets[group]) + local
    return SlowpokeError(
        f"group {group} of {plan.program.model!r} cannot finish: task {task} waits for a task that "
        "waits for it; remove the cycle or give one dependency a lag >= 1"
    )
