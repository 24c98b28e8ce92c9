"""What one phase leaves behind: one layer group of one batch, the same from either engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BUSY, HELD, BLOCKED, BYTES, SERVICES = range(5)
"""Columns of Components.sums."""


@dataclass(eq=False)
class Components:
    """What servers remember from phase to phase, and what they have done.

    Attributes:
        windows, levels: (n_servers,) state of the drift (`draws.drift_factor`).
        sums: (n_servers, 8) BUSY: own service time in cycles. HELD: from grant to release. BLOCKED:
            part of it spent waiting for room in the next input buffer. BYTES: bytes served (MAC
            equivalents for cores). SERVICES: packets, port messages or tasks served.
        exposure: (n_faults,) services that overlap the fault: messages on a channel or port, tasks
            on a core.
    """

    windows: NDArray[np.int64]
    levels: NDArray[np.float64]
    sums: NDArray[np.float64]
    exposure: NDArray[np.int64]

    @staticmethod
    def new(n_servers: int, n_faults: int) -> Components:
        """Components that have done nothing yet."""
        return Components(
            windows=np.full(n_servers, -1, dtype=np.int64),
            levels=np.zeros(n_servers),
            sums=np.zeros((n_servers, 8)),
            exposure=np.zeros(n_faults, dtype=np.int64),
        )

    def copy(self) -> Components:
        """Independent arrays of the same values."""
        return Components(*(array.copy() for array in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Phase:
    """Times of every event instance of a phase; NaN where a task did not run in that unit.

    Attributes:
        batch, group: Which phase.
        start_cycles: When it started.
        end_cycles: Latest end of any task; the next phase starts then.
        first: (n_events, n_units) start of a task on a core, injection of a message.
        eject: (n_events, n_units) end of a task on a core, ejection of a message.
        consume: (n_events, n_units) when a compute task took a message (its ejection if none did);
            for a write, when the port had stored it; end of a task on a core.
        hop_cycles: (n_hops, n_units) own service time of each hop, all packets; empty if not asked.
    """

    batch: int
    group: int
    start_cycles: float
    end_cycles: float
    first: NDArray[np.float64]
    eject: NDArray[np.float64]
    consume: NDArray[np.float64]
    hop_cycles: NDArray[np.float64]
