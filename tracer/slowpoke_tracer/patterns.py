"""Patterns: what recurs, as the compiler knows it before the program runs.

A pattern is what a core sees again and again: the same operator's piece with the same work, or a
message of the same tensor and size from the same place. Its key is location plus resource footprint
plus kind (SlowPoke section 3.3); the recording core stores one slot of the sketch for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.program import Program, TaskKind

COMPUTE, TRANSFER = 0, 1

PATTERN_DTYPE = np.dtype(
    [
        ("recorder", "i4"), ("kind", "u1"), ("op", "i4"), ("group", "i4"), ("src", "i4"),
        ("dst", "i4"), ("role", "u1"), ("work", "f8"), ("n_once", "i4"), ("n_per_unit", "i4"),
    ]
)  # fmt: skip
"""`recorder`: core that stores it; `kind`: COMPUTE or TRANSFER; `src`, `dst`: cores, or -1 - port
(both the core itself for COMPUTE); `work`: MAC equivalents or bytes; `n_once`, `n_per_unit`: how many
records it leaves in each batch and in each unit."""


@dataclass(frozen=True, eq=False)
class Patterns:
    """Every pattern of a program, and which event belongs to which.

    Attributes:
        table: (n_patterns,) PATTERN_DTYPE, sorted by recorder, kind, group, op, src, dst, work.
        of_event: (n_events,) pattern of each event of the program; -1 where nothing is recorded.
    """

    table: NDArray[np.void]
    of_event: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.table)

    @staticmethod
    def of_program(program: Program) -> Patterns:
        """The patterns of a program; cost n_events log n_events."""
        task = program.event_task
        kind = program.kind[task]
        is_compute = kind == TaskKind.COMPUTE
        keep = program.recorded & (kind != TaskKind.PROBE)
        keys = np.zeros(program.n_events, PATTERN_DTYPE)
        keys["recorder"] = program.event_recorder
        keys["kind"] = np.where(is_compute, COMPUTE, TRANSFER)
        keys["op"] = program.op[task]
        keys["group"] = program.task_group[task]
        keys["src"] = program.event_src
        keys["dst"] = program.event_dst
        keys["role"] = program.role[task]
        keys["work"] = np.where(is_compute, program.work_macs[task], program.message_bytes[task])
        order = ["recorder", "kind", "group", "op", "src", "dst", "role", "work"]
        events = np.flatnonzero(keep)
        columns = [keys[name][events] for name in reversed(order)]
        events = events[np.lexsort(columns)]
        of_event = np.full(program.n_events, -1, dtype=np.int64)
        if not len(events):
            return Patterns(np.zeros(0, PATTERN_DTYPE), of_event)
        new = np.ones(len(events), dtype=bool)
        new[1:] = np.logical_or.reduce(
            [keys[name][events][1:] != keys[name][events][:-1] for name in order]
        )
        number = np.cumsum(new) - 1
        of_event[events] = number
        table = keys[events[new]].copy()
        once = program.once[task[events]]
        table["n_once"] = np.bincount(number, weights=once, minlength=len(table))
        table["n_per_unit"] = np.bincount(number, weights=~once, minlength=len(table))
        return Patterns(table, of_event)
