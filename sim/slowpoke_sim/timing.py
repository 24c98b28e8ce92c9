"""Where the time of a run went: phases, operators, servers, and why cores stood still."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from slowpoke_mapping.program import Program, TaskKind
from slowpoke_sim.phase import BLOCKED, BUSY, BYTES, HELD, SERVICES, Components, Phase
from slowpoke_sim.plan import Plan

_COMPUTE, _WRITE = int(TaskKind.COMPUTE), int(TaskKind.DRAM_WRITE)


@dataclass(frozen=True, eq=False)
class Timing:
    """Sums over a whole run; all times in cycles.

    Attributes:
        makespan_cycles: End of the last task.
        phase_start_cycles, phase_end_cycles: (n_batches, n_groups).
        operator_names: Names of the rows of the operator arrays.
        operator_busy_cycles: (n_operators,) compute time on all cores.
        operator_latency_cycles: (n_operators,) from the first start to the last end of its compute
            tasks in a batch, mean over batches; NaN for operators that compute nothing.
        core_busy_cycles: (n_cores,) computing or recording.
        core_input_cycles: (n_cores,) standing still until an input arrived.
        core_backpressure_cycles: (n_cores,) standing still until a consumer returned a credit.
        core_idle_cycles: (n_cores,) the rest: nothing left to do before the group's barrier.
        channel_busy_cycles: (n_channels,) own service time.
        channel_held_cycles: (n_channels,) from grant to release: busy time, waiting for a slower
            upstream tail, waiting for room in the next buffer.
        channel_blocked_cycles: (n_channels,) the last of these (0 with unbounded buffers).
        channel_bytes: (n_channels,) bytes carried.
        port_busy_cycles: (n_ports,) latency included.
        port_bytes: (n_ports,) bytes read and written.
        n_services: Packets on channels, messages at ports and tasks on cores that were served.
        n_hops: Packets on channels alone.
    """

    makespan_cycles: float
    phase_start_cycles: NDArray[np.float64]
    phase_end_cycles: NDArray[np.float64]
    operator_names: tuple[str, ...]
    operator_busy_cycles: NDArray[np.float64]
    operator_latency_cycles: NDArray[np.float64]
    core_busy_cycles: NDArray[np.float64]
    core_input_cycles: NDArray[np.float64]
    core_backpressure_cycles: NDArray[np.float64]
    core_idle_cycles: NDArray[np.float64]
    channel_busy_cycles: NDArray[np.float64]
    channel_held_cycles: NDArray[np.float64]
    channel_blocked_cycles: NDArray[np.float64]
    channel_bytes: NDArray[np.float64]
    port_busy_cycles: NDArray[np.float64]
    port_bytes: NDArray[np.float64]
    n_services: int
    n_hops: int

    @property
    def core_utilization(self) -> NDArray[np.float64]:
        """(n_cores,) share of the makespan that each core was busy."""
        return self.core_busy_cycles / max(self.makespan_cycles, 1e-300)

    @property
    def channel_utilization(self) -> NDArray[np.float64]:
        """(n_channels,) share of the makespan that each channel was busy."""
        return self.channel_busy_cycles / max(self.makespan_cycles, 1e-300)

    def __str__(self) -> str:
        return (
            f"{self.makespan_cycles:,.0f} cycles; cores {self.core_utilization.mean():.0%} busy, "
            f"links up to {self.channel_utilization.max(initial=0.0):.0%}"
        )


class Clock:
    """Adds up the timing of a run, phase by phase."""

    def __init__(self, plan: Plan) -> None:
        program = plan.program
        self._plan = plan
        shape = (program.n_batches, program.n_groups)
        self._start, self._end = np.zeros(shape), np.zeros(shape)
        n_operators = max(len(program.operator_names), int(program.op.max(initial=-1)) + 1)
        self._busy, self._latency = np.zeros(n_operators), np.zeros(n_operators)
        self._n_batches = np.zeros(n_operators)
        self._stall = np.zeros((program.chip.n_cores, 2))
        self._tasks = [_core_tasks(program, group) for group in range(program.n_groups)]

    def add(self, phase: Phase) -> None:
        """Count one phase; cost linear in its task instances."""
        self._start[phase.batch, phase.group] = phase.start_cycles
        self._end[phase.batch, phase.group] = phase.end_cycles
        program, a = self._plan.program, self._plan.arrays
        event0 = int(a.event_offsets[program.group_offsets[phase.group]])
        tasks = self._tasks[phase.group]
        if not len(tasks):
            return
        start = phase.first[a.event_offsets[tasks] - event0]
        order = np.argsort(start, axis=None)
        span = np.full((len(self._busy), 2), np.nan)
        _account(
            order, tasks, phase.first, phase.eject, phase.consume, phase.start_cycles,
            program.core, program.op, program.kind, program.once, a.event_offsets, a.event_task,
            a.dep_offsets, a.dep_events, a.dep_lags, event0, self._stall, self._busy, span,
        )  # fmt: skip
        ran = ~np.isnan(span[:, 0])
        self._latency[ran] += span[ran, 1] - span[ran, 0]
        self._n_batches[ran] += 1

    def timing(self, components: Components) -> Timing:
        """The sums over all phases so far."""
        plan, n = self._plan, self._plan.constants.n_channels
        ports = slice(n, n + plan.constants.n_ports)
        cores = slice(n + plan.constants.n_ports, None)
        makespan = float(self._end.max(initial=0.0))
        sums = components.sums
        busy = sums[:, BUSY]
        with np.errstate(invalid="ignore"):
            latency = np.where(self._n_batches > 0, self._latency, np.nan) / np.maximum(
                self._n_batches, 1
            )
        idle = makespan - busy[cores] - self._stall.sum(axis=1)
        return Timing(
            makespan_cycles=makespan,
            phase_start_cycles=self._start,
            phase_end_cycles=self._end,
            operator_names=plan.program.operator_names,
            operator_busy_cycles=self._busy,
            operator_latency_cycles=latency,
            core_busy_cycles=busy[cores],
            core_input_cycles=self._stall[:, 0],
            core_backpressure_cycles=self._stall[:, 1],
            core_idle_cycles=np.maximum(idle, 0.0),
            channel_busy_cycles=busy[:n],
            channel_held_cycles=sums[:n, HELD],
            channel_blocked_cycles=sums[:n, BLOCKED],
            channel_bytes=sums[:n, BYTES],
            port_busy_cycles=busy[ports],
            port_bytes=sums[ports, BYTES],
            n_services=int(sums[:, SERVICES].sum()),
            n_hops=int(sums[:n, SERVICES].sum()),
        )


def _core_tasks(program: Program, group: int) -> NDArray[np.int64]:
    first, last = program.group_offsets[group : group + 2]
    kind = program.kind[first:last]
    busy = np.flatnonzero((kind == TaskKind.COMPUTE) | (kind == TaskKind.PROBE))
    return busy + int(first)


@njit(cache=True)
def _account(
    order: NDArray[np.int64],
    tasks: NDArray[np.int64],
    first: NDArray[np.float64],
    eject: NDArray[np.float64],
    consume: NDArray[np.float64],
    phase_start: float,
    core: NDArray[np.int32],
    op: NDArray[np.int32],
    kind: NDArray[np.uint8],
    once: NDArray[np.bool_],
    event_offsets: NDArray[np.int64],
    event_task: NDArray[np.int64],
    dep_offsets: NDArray[np.int64],
    dep_events: NDArray[np.int64],
    dep_lags: NDArray[np.int32],
    event0: int,
    stall: NDArray[np.float64],
    busy: NDArray[np.float64],
    span: NDArray[np.float64],
) -> None:
    """Charge each gap before a task to what its core waited for last: an input or a credit.

    Task instances come in order of start. `busy` gets the compute time of each operator, `span` the
    first start and the last end of each.
    """
    n_units = first.shape[1]
    free = np.full(len(stall), phase_start)
    for k in range(len(order)):
        i, unit = order[k] // n_units, order[k] % n_units
        task = tasks[i]
        here = core[task]
        row = event_offsets[task] - event0
        start, end = first[row, unit], eject[row, unit]
        if np.isnan(start):
            break  # argsort puts what did not run last
        if kind[task] == _COMPUTE and op[task] >= 0:
            busy[op[task]] += end - start
            if np.isnan(span[op[task], 0]):
                span[op[task], 0] = start
                span[op[task], 1] = end
            span[op[task], 1] = max(span[op[task], 1], end)
        gap = start - free[here]
        if gap > 0.0:
            inputs, credits = -np.inf, -np.inf
            for d in range(dep_offsets[task], dep_offsets[task + 1]):
                of = event_task[dep_events[d]]
                source = 0 if once[of] else unit - dep_lags[d]
                if source >= 0:
                    at = dep_events[d] - event0
                    time = consume[at, source] if kind[of] == _WRITE else eject[at, source]
                    if dep_lags[d] > 0 and not once[of] and kind[of] == _COMPUTE:
                        credits = max(credits, time)
                    else:
                        inputs = max(inputs, time)
            stall[here, 1 if credits > inputs else 0] += gap
        free[here] = end
