"""The digital twin, as the tracer needs it: something that replays the known program.

The caller hands one in (`slowpoke_sim.twin` provides one); without it the tracer uses a recorded
profile or compares peers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import scipy.sparse as sp

from slowpoke_mapping.faults import Fault
from slowpoke_mapping.program import Program
from slowpoke_mapping.scale import Scale
from slowpoke_tracer.trace import PhaseTimes, Trace


class PhaseReplays(Protocol):
    """The phases of some batches, batch by batch and group by group, replayed one at a time."""

    def healthy(self) -> list[PhaseTimes]:
        """(n_batches * n_groups) phases without a fault; may be asked once."""

    def faulty(self, index: int, faults: Sequence[Fault]) -> PhaseTimes:
        """Phase `index` with the same noise, under faults whose times count from its start."""


class Twin(Protocol):
    """Replays the program on a simulated chip, with natural noise."""

    @property
    def program(self) -> Program:
        """The program it replays."""

    @property
    def fingerprint(self) -> str:
        """A cache key: changes with whatever changes its replays (program, noise)."""

    def replay(
        self, faults: Sequence[Fault] = (), seed: int = 0, scale: Scale = Scale()
    ) -> Iterable[Trace]:
        """Blocks of the trace of one noisy run; a seed repeats."""

    def shares(self, seed: int = 0, scale: Scale = Scale()) -> sp.csr_matrix:
        """(n_events, n_channels + n_dram_ports): mean share of each channel's, then each port's own
        service time in a record's latency (inject to eject), over one healthy run."""

    def phases(
        self, seed: int = 0, scale: Scale = Scale(), batches: Sequence[int] | None = None
    ) -> PhaseReplays:
        """The phases of some batches (of all), to be replayed one at a time; costs their run."""
