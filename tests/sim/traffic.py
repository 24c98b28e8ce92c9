"""Open traffic as a program: every core sends at times of its own, as queueing theory has it.

A chain of probes on each core is its clock: a probe of g cycles, then a message that leaves when
the probe has ended, at the same time as the next probe starts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.program import Program, TaskKind
from slowpoke_sim.machine import Machine

INTERFACE_CYCLES = 1.0
"""BookSim's wire from a node into its router takes a cycle, which the chip does not have."""


def open_traffic(
    chip: ChipConfig,
    gaps_cycles: NDArray[np.float64],
    destinations: NDArray[np.int64],
    sizes_bytes: NDArray[np.float64],
) -> Program:
    """(n_sources, n_messages) gaps, destinations and sizes of the messages of cores 0, 1, ..."""
    n_sources, n_messages = gaps_cycles.shape
    n = n_sources * n_messages
    core = np.repeat(np.arange(n_sources), n_messages)
    kind = np.tile([TaskKind.PROBE, TaskKind.TRANSFER], n)
    ones = np.arange(1, n + 1)
    return Program(
        chip=chip,
        model="open traffic",
        operator_names=("traffic",),
        graph_fingerprint="0" * 16,
        n_inferences=1,
        units_per_batch=1,
        samples_per_unit=1,
        group_offsets=np.array([0, 2 * n]),
        kind=kind.astype(np.uint8),
        op=np.zeros(2 * n, np.int32),
        core=np.repeat(core, 2).astype(np.int32),
        port=np.full(2 * n, -1, np.int32),
        work_macs=np.stack([gaps_cycles.ravel(), np.zeros(n)], axis=1).ravel(),
        message_bytes=np.stack([np.zeros(n), sizes_bytes.ravel()], axis=1).ravel(),
        role=np.zeros(2 * n, np.uint8),
        once=np.zeros(2 * n, np.bool_),
        dst_offsets=np.concatenate([[0], np.stack([ones - 1, ones], axis=1).ravel()]),
        dst_cores=destinations.ravel().astype(np.int32),
        dep_offsets=np.concatenate([[0], np.stack([ones - 1, ones], axis=1).ravel()]),
        dep_events=2 * (ones - 1),
        dep_lags=np.zeros(n, np.int32),
        recorded=np.zeros(2 * n, np.bool_),
    )


def times(program: Program) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """When each message was ready, injected and ejected, in the order of the tasks."""
    (phase,) = Machine(program, (), "none").phases()
    ends, first = phase.eject[:, 0], phase.first[:, 0]
    return ends[0::2], first[1::2], ends[1::2]


def uniform_latency(
    load: float, flits: int, n_cycles: int, seed: int = 0, side: int = 8, buffers: int = 0
) -> NDArray[np.float64]:
    """Latencies, source queueing included, of uniform random traffic on a mesh after a warm-up.

    One flit is one byte, a link carries one a cycle, a hop takes 5 cycles (BookSim's router A), and
    every core starts a packet of `flits` in each cycle with probability load / flits.
    """
    chip = ChipConfig(
        topology=f"mesh:{side}x{side}", link_bytes_per_cycle=1, router_delay_cycles=5,
        packet_bytes=flits, buffer_packets=buffers,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    n = int(n_cycles * load / flits)
    shape = (side * side, n)
    gaps = rng.geometric(load / flits, shape).astype(float)
    program = open_traffic(
        chip, gaps, rng.integers(0, side * side, shape), np.full(shape, float(flits))
    )
    ready, _, ejected = times(program)
    counted = (ready > 0.25 * n_cycles) & (ready < 0.9 * n_cycles)
    return np.asarray((ejected - ready)[counted]) + INTERFACE_CYCLES
