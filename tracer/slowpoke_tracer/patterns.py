"""Patterns: what recurs, as the compiler knows it before the program runs.

A pattern is what a core sees again and again: the same operator's piece with the same work, or a
message of the same tensor and size from the same place. Its key is location plus resource footprint
plus kind (SlowPoke section 3.3); the recording core stores one slot of the sketch for each.

A DRAM write leaves two statistics: the transfer's (inject to eject) and the port's (eject to
consume: queue and service of the DRAM port), so that a slow port is told from a slow link. The
port's pattern has kind PORT, and both its ends are the port: who wrote does not matter there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.program import Program, Role, TaskKind

COMPUTE, TRANSFER, PORT = 0, 1, 2

PATTERN_DTYPE = np.dtype(
    [
        ("recorder", "i4"), ("kind", "u1"), ("op", "i4"), ("group", "i4"), ("src", "i4"),
        ("dst", "i4"), ("role", "u1"), ("work", "f8"), ("n_once", "i4"), ("n_per_unit", "i4"),
    ]
)  # fmt: skip
"""`recorder`: core that stores it; `kind`: COMPUTE, TRANSFER or PORT; `src`, `dst`: cores, or
-1 - port (both the core itself for COMPUTE, both the port for PORT); `work`: MAC equivalents or
bytes; `n_once`, `n_per_unit`: how many records it leaves in each batch and in each unit. Where
patterns of several operators, groups or roles are one key, those columns are -1 (role 255)."""

ORDER = ("recorder", "kind", "group", "op", "src", "dst", "role", "work")
"""Sort order of the table, and the columns that make a key."""


@dataclass(frozen=True, eq=False)
class Patterns:
    """Every pattern of a program, and which event belongs to which.

    Attributes:
        table: (n_patterns,) PATTERN_DTYPE, sorted by ORDER.
        of_event: (n_events,) pattern of each event's duration (inject to eject of a message); -1
            where nothing is recorded.
        port_of_event: (n_events,) PORT pattern of a recorded DRAM_WRITE, else -1.
    """

    table: NDArray[np.void]
    of_event: NDArray[np.int64]
    port_of_event: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        if len(self.port_of_event) != len(self.of_event):
            object.__setattr__(self, "port_of_event", np.full(len(self.of_event), -1, np.int64))

    def __len__(self) -> int:
        return len(self.table)

    @staticmethod
    @lru_cache(maxsize=8)
    def of_program(program: Program) -> Patterns:
        """The patterns of a program's recorded events; cost n_events log n_events, once."""
        task = program.event_task
        kind = program.kind[task]
        is_compute = kind == TaskKind.COMPUTE
        events = np.flatnonzero(
            program.recorded & (kind != TaskKind.PROBE) & (program.role[task] != Role.TRACE)
        )
        keys = np.zeros(program.n_events, PATTERN_DTYPE)
        keys["recorder"] = program.event_recorder
        keys["kind"] = np.where(is_compute, COMPUTE, TRANSFER)
        keys["op"] = program.op[task]
        keys["group"] = program.task_group[task]
        keys["src"] = program.event_src
        keys["dst"] = program.event_dst
        keys["role"] = program.role[task]
        keys["work"] = np.where(is_compute, program.work_macs[task], program.message_bytes[task])
        writes = events[kind[events] == TaskKind.DRAM_WRITE]
        ports = keys[writes]
        ports["kind"] = PORT
        ports["src"] = ports["dst"]
        both = np.concatenate([keys[events], ports])
        once = program.once[task[np.concatenate([events, writes])]]
        both["n_once"], both["n_per_unit"] = once, ~once
        table, number = grouped(both, ORDER)
        of_event = np.full(program.n_events, -1, dtype=np.int64)
        port_of_event = of_event.copy()
        of_event[events] = number[: len(events)]
        port_of_event[writes] = number[len(events) :]
        return Patterns(table, of_event, port_of_event)

    def by_footprint(self) -> Patterns:
        """Patterns with the papers' key: location, resource footprint and kind, no operator tag.

        Columns in which the patterns that became one differ are -1 (role 255).
        """
        table, number = grouped(self.table, ("recorder", "kind", "src", "dst", "work"))
        for name, mixed in (("op", -1), ("group", -1), ("role", 255)):
            differs = np.zeros(len(table), dtype=bool)
            np.logical_or.at(differs, number, self.table[name] != table[name][number])
            table[name][differs] = mixed
        number = np.append(number, -1)  # so that -1 stays -1
        return Patterns(table, number[self.of_event], number[self.port_of_event])


def grouped(
    rows: NDArray[np.void], by: tuple[str, ...]
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Rows that agree in `by` become one, their counts added; and the number of each row's group.

    The table is sorted by `by`; other columns are those of each group's first row.
    """
    number = np.zeros(len(rows), dtype=np.int64)
    if not len(rows):
        return rows.copy(), number
    order = np.lexsort([rows[name] for name in reversed(by)])
    ordered = rows[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = np.logical_or.reduce([ordered[name][1:] != ordered[name][:-1] for name in by])
    number[order] = np.cumsum(new) - 1
    table = ordered[new]
    for name in ("n_once", "n_per_unit"):
        table[name] = np.bincount(number, weights=rows[name], minlength=len(table))
    return table, number


def run_records(patterns: Patterns, program: Program) -> NDArray[np.int64]:
    """(n_patterns,) records that each pattern leaves over the whole run."""
    table = patterns.table
    result: NDArray[np.int64] = table["n_once"].astype(np.int64) * program.n_batches
    return result + table["n_per_unit"].astype(np.int64) * program.total_units
