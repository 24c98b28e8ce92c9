"""Congestion without a fault: traffic between two routers that the program does not have.

The flow is spread over the run: a share of a link's bandwidth, sent in messages that computations
of the program trigger, one message each. It is not recorded, so the trace is that of the program
itself, only later in places.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.program import Program, TaskKind
from slowpoke_tracer.trace import Trace

MAX_MESSAGES = 64
"""Triggers of a layer group and unit; more would not be smoother."""


def with_background(
    program: Program, src: int, dst: int, share: float, group_cycles: NDArray[np.float64]
) -> Program:
    """The program with an unknown flow from one router to another.

    Args:
        program: Instrumented.
        src: Router that sends.
        dst: Another router.
        share: Of a link's bandwidth, in (0, 1).
        group_cycles: (n_groups,) duration of each layer group, per batch.

    Returns:
        A program whose tasks are those of `program`, and behind each group's the flow's.
    """
    bandwidth = program.chip.link_bytes_per_cycle
    parts: list[NDArray[np.int64]] = []
    sizes: list[float] = []
    for group in range(program.n_groups):
        first, last = program.group_offsets[group : group + 2]
        tasks = np.arange(first, last)
        triggers = tasks[(program.kind[tasks] == TaskKind.COMPUTE) & ~program.once[tasks]]
        if len(triggers) > MAX_MESSAGES:
            triggers = triggers[np.linspace(0, len(triggers) - 1, MAX_MESSAGES).astype(int)]
        parts.append(triggers)
        per_unit = share * bandwidth * group_cycles[group] / program.units_per_batch
        sizes.append(per_unit / max(len(triggers), 1))
    added = np.array([len(part) for part in parts])
    at = np.repeat(program.group_offsets[1:], added)  # behind the group's own tasks
    n_new = int(added.sum())
    # events of a group shift by what earlier groups were given
    shift = np.concatenate([[0], np.cumsum(added)])
    trigger = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    trigger_event = program.event_offsets[trigger] + shift[program.task_group[trigger]]
    owner_group = program.task_group[program.event_task[program.dep_events]]
    dep_events = program.dep_events + shift[owner_group]

    def column(old: NDArray[Any], value: Any) -> NDArray[Any]:
        return np.insert(old, at, value)

    n_dst = np.insert(np.diff(program.dst_offsets), at, 1)
    n_dep = np.insert(np.diff(program.dep_offsets), at, 1)
    return replace(
        program,
        group_offsets=program.group_offsets + shift,
        kind=column(program.kind, int(TaskKind.TRANSFER)),
        op=column(program.op, program.op[trigger]),
        core=column(program.core, src),
        port=column(program.port, -1),
        work_macs=column(program.work_macs, 0.0),
        message_bytes=column(program.message_bytes, np.repeat(sizes, added)),
        role=column(program.role, 0),
        once=column(program.once, False),
        dst_offsets=_offsets(n_dst),
        dst_cores=np.insert(program.dst_cores, program.dst_offsets[at], np.full(n_new, dst)),
        dep_offsets=_offsets(n_dep),
        dep_events=np.insert(dep_events, program.dep_offsets[at], trigger_event),
        dep_lags=np.insert(program.dep_lags, program.dep_offsets[at], 0),
        recorded=np.insert(program.recorded, program.event_offsets[at], False),
    )


def without_background(trace: Trace, program: Program, crowded: Program) -> Trace:
    """The trace of a crowded run in the words of the program itself.

    Args:
        trace: Of `crowded`.
        program: The program.
        crowded: What `with_background` made of it.
    """
    shift = np.cumsum(np.diff(crowded.group_offsets) - np.diff(program.group_offsets))
    shift = np.concatenate([[0], shift[:-1]])
    compute, transfers = trace.compute.copy(), trace.transfers.copy()
    for table in (compute, transfers):
        table["event"] -= shift[table["group"]].astype(np.int32)
    meta = replace(trace.meta, program_fingerprint=program.fingerprint)
    return Trace(compute, transfers, meta)


def _offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
