"""Tasks added to a program: each layer group's own tasks first, then what was added to it.

The program's own tasks keep their order, their dependencies and their place within the group, so
that its data flow and the draws of its noise stay what they were.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.program import Program, TaskKind


@dataclass(frozen=True, eq=False)
class Added:
    """Tasks to add; each ends in one event and leaves no record.

    Attributes:
        kind: (n,) PROBE or DRAM_WRITE.
        group: (n,) layer group.
        op: (n,) operator that the task belongs to.
        core: (n,) core of a PROBE, source of a DRAM_WRITE.
        port: (n,) port of a DRAM_WRITE, else -1.
        work_macs: (n,) cycles of a PROBE, else 0.
        message_bytes: (n,) bytes of a DRAM_WRITE, else 0.
        role: (n,) Role of a message.
        once: (n,) whether it runs in the first unit of each batch only.
        waiting: (m,) which of the added tasks waits, in any order ...
        event: (m,) ... for which event of the program; n_events + i is the i-th added task's.
    """

    kind: NDArray[np.int64]
    group: NDArray[np.int64]
    op: NDArray[np.int64]
    core: NDArray[np.int64]
    port: NDArray[np.int64]
    work_macs: NDArray[np.float64]
    message_bytes: NDArray[np.float64]
    role: NDArray[np.int64]
    once: NDArray[np.bool_]
    waiting: NDArray[np.int64]
    event: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.kind)

    @staticmethod
    def probes(program: Program, events: NDArray[np.int64], cycles: NDArray[np.float64]) -> Added:
        """A PROBE of so many cycles after each of the events, on the core that records it."""
        n, task = len(events), program.event_task[events]
        return Added(
            np.full(n, TaskKind.PROBE), program.task_group[task].astype(np.int64),
            program.op[task].astype(np.int64), program.event_recorder[events].astype(np.int64),
            np.full(n, -1), cycles, np.zeros(n), np.zeros(n, np.int64), program.once[task],
            np.arange(n), events,
        )  # fmt: skip

    def __add__(self, other: Added) -> Added:
        """Both; `other` counts its `waiting` from its own first task, its events are absolute."""
        columns = {
            field.name: np.concatenate([getattr(self, field.name), getattr(other, field.name)])
            for field in dataclasses.fields(Added)
        }
        columns["waiting"] = np.concatenate([self.waiting, other.waiting + len(self)])
        return Added(**columns)

    def also_waiting(self, waiting: NDArray[np.int64], event: NDArray[np.int64]) -> Added:
        """The same tasks with more dependencies."""
        return dataclasses.replace(
            self,
            waiting=np.concatenate([self.waiting, waiting]),
            event=np.concatenate([self.event, event]),
        )


def inserted(program: Program, added: Added, recorded: NDArray[np.bool_]) -> Program:
    """The program with the added tasks, and which of its own events are recorded.

    Args:
        program: Any program.
        added: What to add.
        recorded: (n_events,) for the program's own events.
    """
    n_old, n_new = program.n_tasks, len(added)
    group = np.concatenate([program.task_group, added.group])
    order = np.argsort(group, kind="stable")  # a group's own tasks come before what is added
    place = np.empty(n_old + n_new, dtype=np.int64)
    place[order] = np.arange(n_old + n_new)

    def tasks(old: NDArray[Any], new: Any) -> NDArray[Any]:
        """A per-task array of the new program."""
        return np.concatenate([old, np.broadcast_to(new, n_new).astype(old.dtype)])[order]

    n_dst = tasks(np.diff(program.dst_offsets), 0)
    event_offsets = np.concatenate([[0], np.cumsum(np.maximum(n_dst, 1))]).astype(np.int64)
    within = np.arange(program.n_events) - program.event_offsets[program.event_task]
    new_event = np.concatenate(
        [event_offsets[place[program.event_task]] + within, event_offsets[place[n_old:]]]
    )
    old_waiting = np.repeat(np.arange(n_old), np.diff(program.dep_offsets))
    waiting = place[np.concatenate([old_waiting, n_old + added.waiting])]
    dep_events = new_event[np.concatenate([program.dep_events, added.event])]
    dep_lags = np.concatenate([program.dep_lags, np.zeros(len(added.event), np.int32)])
    by_task = np.argsort(waiting, kind="stable")
    n_deps = np.bincount(waiting, minlength=n_old + n_new)
    all_recorded = np.zeros(int(event_offsets[-1]), dtype=bool)
    all_recorded[new_event[: program.n_events]] = recorded
    n_group = np.bincount(group, minlength=program.n_groups)
    return dataclasses.replace(
        program,
        group_offsets=np.concatenate([[0], np.cumsum(n_group)]).astype(np.int64),
        kind=tasks(program.kind, added.kind),
        op=tasks(program.op, added.op),
        core=tasks(program.core, added.core),
        port=tasks(program.port, added.port),
        work_macs=tasks(program.work_macs, added.work_macs),
        message_bytes=tasks(program.message_bytes, added.message_bytes),
        role=tasks(program.role, added.role),
        once=tasks(program.once, added.once),
        dst_offsets=np.concatenate([[0], np.cumsum(n_dst)]).astype(np.int64),
        dep_offsets=np.concatenate([[0], np.cumsum(n_deps)]).astype(np.int64),
        dep_events=dep_events[by_task],
        dep_lags=dep_lags[by_task].astype(np.int32),
        recorded=all_recorded,
    )
