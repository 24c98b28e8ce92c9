"""The plan: a program, noise, seed and scale as the flat arrays that both engines read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program, TaskKind
from slowpoke_mapping.scale import Scale
from slowpoke_sim.draws import normals
from slowpoke_sim.hops import Hops
from slowpoke_sim.noise import MIN_SPEED, Noise


class Arrays(NamedTuple):
    """What does not change during a run. Tasks, events and hops have ids of the whole program.

    Attributes:
        kind, once, work, core, n_packets, last_bytes: Per task; last_bytes is the size of the last
            packet.
        noise_id: Per task: its number among the tasks that are no PROBE, so that probes leave the
            draws of the others alone.
        event_offsets, event_task: Events of a task, task of an event.
        dep_offsets, dep_events, dep_lags: What a task waits for.
        rev_offsets, rev_tasks, rev_lags: Who waits for an event.
        hop_offsets, n_roots, hops, hop_events: See Hops.
        server_speed: Bytes per cycle of a channel or port, MACs per cycle of a core (its own
            lasting speed included).
        core_table, link_table: Factors of noise (`draws.draw`), empty for none.
    """

    kind: NDArray[np.uint8]
    once: NDArray[np.bool_]
    work: NDArray[np.float64]
    core: NDArray[np.int32]
    message_bytes: NDArray[np.float64]
    n_packets: NDArray[np.int64]
    last_bytes: NDArray[np.float64]
    noise_id: NDArray[np.int64]
    event_offsets: NDArray[np.int64]
    event_task: NDArray[np.int64]
    dep_offsets: NDArray[np.int64]
    dep_events: NDArray[np.int64]
    dep_lags: NDArray[np.int32]
    rev_offsets: NDArray[np.int64]
    rev_tasks: NDArray[np.int64]
    rev_lags: NDArray[np.int32]
    hop_offsets: NDArray[np.int64]
    n_roots: NDArray[np.int32]
    hops: NDArray[np.int64]
    hop_events: NDArray[np.int64]
    server_speed: NDArray[np.float64]
    core_table: NDArray[np.float64]
    link_table: NDArray[np.float64]


class Constants(NamedTuple):
    """Numbers of the chip and the run.

    Attributes:
        n_channels: Servers below this are channels.
        n_ports: Then come the DRAM ports, then the cores.
        packet_bytes: Size of every packet but the last.
        router_delay, port_latency: Cycles.
        cut_through: Whether the head moves on before the tail has arrived.
        ahead: Whether servers decide as soon as somebody arrives (`slowpoke_sim.ahead`).
        buffer_packets: Input buffer behind each channel; 0 for unbounded.
        task_key, drift_key: Keys of the draws.
        drift, drift_correlation, drift_window: See Noise.
    """

    n_channels: int
    n_ports: int
    packet_bytes: float
    router_delay: float
    port_latency: float
    cut_through: bool
    ahead: bool
    buffer_packets: int
    task_key: np.uint64
    drift_key: np.uint64
    drift: float
    drift_correlation: float
    drift_window: float


@dataclass(frozen=True, eq=False)
class Plan:
    """A program ready to run.

    Attributes:
        program: What runs.
        arrays: Flat arrays over tasks, events, hops and servers.
        constants: Numbers of the chip and the run.
        skew_cycles: (n_cores,) offset of each core's counter from the chip's.
    """

    program: Program
    arrays: Arrays
    constants: Constants
    skew_cycles: NDArray[np.float64]

    @property
    def n_servers(self) -> int:
        """Channels, ports and cores."""
        return len(self.arrays.server_speed)

    @staticmethod
    def of(program: Program, noise: Noise, seed: int, scale: Scale) -> Plan:
        """The plan of a run; cost linear in the program's period, not in the inferences."""
        chip = program.chip
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise SlowpokeError(f"seed {seed!r}: a seed is a whole number >= 0")
        task_key, drift_key, spread_key, skew_key = np.random.SeedSequence(seed).generate_state(
            4, np.uint64
        )
        hops = hops_of(program)
        n_packets = np.maximum(np.ceil(program.message_bytes / chip.packet_bytes), 1)
        spread = np.maximum(1.0 + noise.core_spread * normals(spread_key, chip.n_cores), MIN_SPEED)
        speed = np.concatenate(
            [
                np.full(chip.n_channels, chip.link_bytes_per_cycle * scale.link_speed),
                np.full(len(chip.dram_ports), chip.dram_bytes_per_cycle * scale.dram_speed),
                chip.macs_per_cycle * scale.core_speed * spread,
            ]
        )
        owner = np.repeat(np.arange(program.n_tasks), np.diff(program.dep_offsets))
        by_event = np.argsort(program.dep_events, kind="stable")
        counts = np.bincount(program.dep_events, minlength=program.n_events)
        busy = (program.kind == TaskKind.COMPUTE) | (program.kind == TaskKind.PROBE)
        if np.any(busy & ((program.core < 0) | (program.core >= chip.n_cores))):
            raise SlowpokeError(
                f"a task computes on a core outside the chip; cores are 0 to {chip.n_cores - 1}"
            )
        arrays = Arrays(
            kind=program.kind,
            once=program.once,
            work=program.work_macs,
            core=program.core,
            message_bytes=program.message_bytes,
            n_packets=n_packets.astype(np.int64),
            last_bytes=program.message_bytes - (n_packets - 1) * chip.packet_bytes,
            noise_id=np.cumsum(program.kind != TaskKind.PROBE) - 1,
            event_offsets=program.event_offsets,
            event_task=program.event_task,
            dep_offsets=program.dep_offsets,
            dep_events=program.dep_events,
            dep_lags=program.dep_lags,
            rev_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            rev_tasks=owner[by_event],
            rev_lags=program.dep_lags[by_event],
            hop_offsets=hops.offsets,
            n_roots=hops.n_roots,
            hops=hops.table,
            hop_events=hops.events,
            server_speed=speed,
            core_table=noise.core_table(),
            link_table=noise.link_table(),
        )
        constants = Constants(
            n_channels=chip.n_channels,
            n_ports=len(chip.dram_ports),
            packet_bytes=float(chip.packet_bytes),
            router_delay=float(chip.router_delay_cycles),
            port_latency=float(chip.dram_latency_cycles),
            cut_through=chip.switching == "cut_through",
            ahead=_may_decide_ahead(program),
            buffer_packets=chip.buffer_packets,
            task_key=np.uint64(task_key),
            drift_key=np.uint64(drift_key),
            drift=float(noise.drift),
            drift_correlation=float(noise.drift_correlation),
            drift_window=float(noise.drift_window_cycles),
        )
        uniform = np.random.default_rng(skew_key).uniform(-1.0, 1.0, chip.n_cores)
        return Plan(program, arrays, constants, chip.clock_skew_cycles * uniform)


def _may_decide_ahead(program: Program) -> bool:
    """Whether nothing that a server does ever comes back to a server at the same time.

    Then who arrives first is served first, and when is known on arrival.
    """
    chip = program.chip
    busy = (program.kind == TaskKind.COMPUTE) | (program.kind == TaskKind.PROBE)
    return bool(
        chip.switching == "cut_through"
        and chip.buffer_packets == 0
        and chip.router_delay_cycles > 0
        and np.all(np.where(busy, program.work_macs, program.message_bytes) > 0)
    )


def hops_of(program: Program) -> Hops:
    """The hops of a program, made once and kept with it."""
    cached: Hops | None = program.__dict__.get("_hops")
    if cached is None:
        cached = Hops.of_program(program)
        # beside the program's own cached properties: it is frozen data, and so are its hops
        program.__dict__["_hops"] = cached
    return cached
