"""The digital twin: replays the known program with natural noise, as the tracer's baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp

from slowpoke_mapping.faults import Fault
from slowpoke_mapping.program import Program
from slowpoke_mapping.scale import Scale
from slowpoke_sim.machine import Machine
from slowpoke_sim.noise import Noise, noise_of
from slowpoke_sim.phase_replays import PhaseReplays
from slowpoke_sim.plan import hops_of
from slowpoke_tracer.trace import Trace


class DigitalTwin:
    """The program on the compiled engine, as `slowpoke_tracer.twin.Twin` asks for it.

    Args:
        program: What it replays; of an instrumented run the instrumented program.
        noise: Natural noise of the replays (a noise-free twin is no fair baseline).
    """

    def __init__(self, program: Program, noise: str | Noise = "released") -> None:
        self._program = program
        self._noise = noise_of(noise)

    @property
    def program(self) -> Program:
        """The program it replays."""
        return self._program

    @property
    def fingerprint(self) -> str:
        """Changes with whatever changes its replays: program and noise."""
        return f"{self._program.fingerprint}-{self._noise!r}"

    @property
    def noise(self) -> Noise:
        """The noise of its replays."""
        return self._noise

    def replay(
        self, faults: Sequence[Fault] = (), seed: int = 0, scale: Scale = Scale()
    ) -> Iterator[Trace]:
        """Blocks of the trace of one noisy run; a seed repeats."""
        machine = Machine(self._program, faults, self._noise, seed, "compiled", scale)
        for phase in machine.phases():
            yield machine.block(phase)

    def phases(
        self, seed: int = 0, scale: Scale = Scale(), batches: Sequence[int] | None = None
    ) -> PhaseReplays:
        """The phases of some batches (of all), to be replayed one at a time; costs their run."""
        return PhaseReplays(self._program, self._noise, seed, scale, batches)

    def shares(self, seed: int = 0, scale: Scale = Scale()) -> sp.csr_matrix:
        """Mean share of each server's own service in a record's latency, over one healthy run.

        Args:
            seed: Of the run's noise.
            scale: As of `replay`.

        Returns:
            (n_events, n_channels + n_ports): for message events the mean over instances of (own
            service time of the message's packets there) / (eject - inject), cut at 1; zero rows for
            tasks on cores. A write's port serves it after ejection, so its share is 0.
        """
        program = self._program
        machine = Machine(program, (), self._noise, seed, "compiled", scale)
        hops = hops_of(program)
        event_offsets = hops.event_offsets
        pair_hop = np.repeat(np.arange(len(hops.server)), np.diff(event_offsets))
        pair_event = hops.events
        pair_server = hops.server[pair_hop]
        n_channels = program.chip.n_channels
        sums, counts = np.zeros(len(pair_hop)), np.zeros(len(pair_hop))
        # a port that is not a root stores a write: its service is behind the ejection
        inside = (pair_server < n_channels) | (hops.parent[pair_hop] < 0)
        for phase in machine.phases(hop_cycles=True):
            tasks = program.group_offsets[phase.group : phase.group + 2]
            hop0, hop1 = hops.offsets[tasks]
            event0 = program.event_offsets[tasks[0]]
            pairs = slice(int(event_offsets[hop0]), int(event_offsets[hop1]))
            rows = pair_event[pairs] - event0
            latency = (phase.eject - phase.first)[rows]
            service = phase.hop_cycles[pair_hop[pairs] - hop0]
            with np.errstate(invalid="ignore", divide="ignore"):
                share = np.minimum(service / latency, 1.0)
            known = latency > 0
            sums[pairs] += np.where(known, share, 0.0).sum(axis=1)
            counts[pairs] += known.sum(axis=1)
        mean = np.where(inside, sums / np.maximum(counts, 1), 0.0)
        shape = (program.n_events, n_channels + len(program.chip.dram_ports))
        matrix = sp.csr_matrix((mean, (pair_event, pair_server)), shape=shape)
        matrix.eliminate_zeros()
        return matrix
