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
from slowpoke_tracer.trace import Trace


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
