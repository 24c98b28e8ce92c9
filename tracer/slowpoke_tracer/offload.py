"""Offloading: full maps go to DRAM, as messages that share the network with everything else.

Which records a core makes is known before the run, so the compiler knows when a list is full. Lists
that do not fit the budget over the whole run are written out in pieces of at most the budget, as
soon as the records of a piece are there (SlowPoke section 3.2). A sketch of static mode that does
not fit keeps one layer group's slots on the core; those of the batch before are written out when
the group starts again, one epoch cell each. Hash mode evicts instead.

The messages have Role.TRACE, leave no record themselves, and `offloaded_bytes` counts them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program, Role, TaskKind
from slowpoke_tracer import layout
from slowpoke_tracer.insertion import Added
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.trace import RAW_RECORD_BYTES

SLOT_BYTES = layout.nbytes(layout.HEADER) + layout.nbytes(layout.CELL)
"""A slot that holds one batch."""


def list_writes(
    program: Program, listed: NDArray[np.int64], probe: NDArray[np.int64], budget_bytes: float
) -> Added:
    """Writes of the lists that do not fit.

    Args:
        program: Without what is added.
        listed: (n,) events whose records go to a list, one record each.
        probe: (n,) event that ends the storing of the record.
        budget_bytes: Memory of one core for its list.

    Raises:
        SlowpokeError: The budget does not hold one record.
    """
    if budget_bytes < RAW_RECORD_BYTES:
        raise SlowpokeError(
            f"a budget of {budget_bytes:g} bytes holds no record of {RAW_RECORD_BYTES}; give more"
        )
    task = program.event_task[listed]
    core, once = program.event_recorder[listed].astype(np.int64), program.once[task]
    runs = np.where(once, program.n_batches, program.total_units)
    total = np.bincount(core, runs, program.chip.n_cores) * RAW_RECORD_BYTES
    rows = np.flatnonzero(total[core] > budget_bytes)
    n_fit = int(min(budget_bytes, program.chip.message_bytes) // RAW_RECORD_BYTES)
    group = program.task_group[task].astype(np.int64)
    rows = rows[np.lexsort([rows, once[rows], core[rows], group[rows]])]
    part = np.stack([group[rows], core[rows], once[rows]])
    new_part = np.ones(len(rows), dtype=bool)
    new_part[1:] = (part[:, 1:] != part[:, :-1]).any(axis=0)
    start = np.flatnonzero(new_part)
    rank = np.arange(len(rows)) - start[np.cumsum(new_part) - 1] if len(rows) else rows
    new_piece = rank % n_fit == 0
    piece = np.cumsum(new_piece) - 1
    first = rows[new_piece]
    n_bytes = np.bincount(piece, minlength=len(first)) * RAW_RECORD_BYTES
    return _writes(
        program, group[first], core[first], program.op[task[first]], once[first], n_bytes, piece,
        probe[rows],
    )  # fmt: skip


def slot_writes(program: Program, patterns: Patterns, crowded: NDArray[np.bool_]) -> Added:
    """Writes of the slots of each group on the cores whose sketch does not fit.

    Args:
        program: Without what is added.
        patterns: Of the events whose records go to a sketch.
        crowded: (n_cores,) which cores those are.
    """
    table = patterns.table[crowded[patterns.table["recorder"]]]
    n_cores = program.chip.n_cores
    place, n_slots = np.unique(
        table["group"].astype(np.int64) * n_cores + table["recorder"], return_counts=True
    )
    group = place // n_cores
    nothing = np.zeros(0, np.int64)
    op = program.op[program.group_offsets[group]]
    once = np.ones(len(place), dtype=bool)
    return _writes(
        program, group, place % n_cores, op, once, n_slots * SLOT_BYTES, nothing, nothing
    )


def _writes(
    program: Program,
    group: NDArray[np.int64],
    core: NDArray[np.int64],
    op: NDArray[np.int32],
    once: NDArray[np.bool_],
    n_bytes: NDArray[np.int64],
    waiting: NDArray[np.int64],
    event: NDArray[np.int64],
) -> Added:
    n = len(group)
    return Added(
        np.full(n, TaskKind.DRAM_WRITE), group, op.astype(np.int64), core,
        nearest_port(program)[core], np.zeros(n), n_bytes.astype(np.float64),
        np.full(n, Role.TRACE), once, waiting, event,
    )  # fmt: skip


def nearest_port(program: Program) -> NDArray[np.int64]:
    """(n_cores,) the DRAM port with the shortest route from each core; the first of equals."""
    chip = program.chip
    hops = [
        [len(chip.network.route(core, router)) for router in chip.dram_ports]
        for core in range(chip.n_cores)
    ]
    return np.asarray(np.argmin(hops, axis=1), dtype=np.int64)


def offloaded_bytes(program: Program) -> float:
    """Bytes of trace data that a whole run of the program sends to DRAM."""
    own = program.role == Role.TRACE
    runs = np.where(program.once, program.n_batches, program.total_units)
    return float((program.message_bytes * runs)[own].sum())
