"""A small program and runs of it without a simulator, for checks and tests of detectors.

Nothing queues in the network here: a message takes bytes / bandwidth on every channel of its route,
one after another (the papers' additive model), so that times can be had with pencil and paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig, chip
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Core, DramPort, Place
from slowpoke_mapping.program import Program, Role, TaskKind
from slowpoke_tracer.detect.routes import routers_of
from slowpoke_tracer.trace import COMPUTE_DTYPE, TRANSFER_DTYPE, Trace, TraceMeta

WORK_MACS = 2.0**20
MESSAGE_BYTES = 8192.0


def sample_chip() -> ChipConfig:
    """A 4x4 mesh without router delay or DRAM latency, so that the additive model is exact."""
    return chip(
        "paper-4x4",
        name="sample",
        macs_per_cycle=1024,
        link_bytes_per_cycle=32,
        router_delay_cycles=0,
        dram_latency_cycles=0,
    )


def sample_program(hardware: ChipConfig | None = None, n_batches: int = 8) -> Program:
    """Two layer groups, each of two operators on half of the cores, joined by DRAM.

    Every core of the first operator reads its input from a port, computes, and sends to every core
    of the second, which computes and writes to a port; in the second group the halves change roles.
    """
    hardware = hardware or sample_chip()
    cores = np.arange(hardware.n_cores)
    halves = (cores[: len(cores) // 2], cores[len(cores) // 2 :])
    n_ports = len(hardware.dram_ports)
    rows: list[tuple[int, int, int, int, float, float, int, list[int], list[int]]] = []
    groups = [0]
    for group, (first, second) in enumerate((halves, halves[::-1])):
        made: dict[int, list[int]] = {int(core): [] for core in second}
        for core in map(int, first):
            read, compute = len(rows), len(rows) + 1
            rows.append((TaskKind.DRAM_READ, 2 * group, -1, core % n_ports, 0.0, MESSAGE_BYTES,
                         Role.INPUT, [core], []))  # fmt: skip
            rows.append((TaskKind.COMPUTE, 2 * group, core, -1, WORK_MACS, 0.0, 0, [], [read]))
            for other in map(int, second):
                made[other].append(len(rows))
                rows.append((TaskKind.TRANSFER, 2 * group, core, -1, 0.0, MESSAGE_BYTES,
                             Role.ACTIVATION, [other], [compute]))  # fmt: skip
        for core in map(int, second):
            compute = len(rows)
            rows.append((TaskKind.COMPUTE, 2 * group + 1, core, -1, WORK_MACS, 0.0, 0, [],
                         made[core]))  # fmt: skip
            rows.append((TaskKind.DRAM_WRITE, 2 * group + 1, core, core % n_ports, 0.0,
                         MESSAGE_BYTES, Role.OUTPUT, [], [compute]))  # fmt: skip
        groups.append(len(rows))
    kind, op, core_of, port, work, size, role, dsts, deps = zip(*rows, strict=True)

    def offsets(lists: Sequence[list[int]]) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum([len(part) for part in lists])]).astype(np.int64)

    flat = [event for part in deps for event in part]
    return Program(
        chip=hardware, model="sample", operator_names=("a0", "b0", "a1", "b1"),
        graph_fingerprint="sample", n_inferences=4 * n_batches, units_per_batch=4,
        samples_per_unit=1, group_offsets=np.array(groups), kind=np.array(kind, np.uint8),
        op=np.array(op, np.int32), core=np.array(core_of, np.int32),
        port=np.array(port, np.int32), work_macs=np.array(work),
        message_bytes=np.array(size), role=np.array(role, np.uint8),
        once=np.zeros(len(rows), bool), dst_offsets=offsets(dsts),
        dst_cores=np.array([d for part in dsts for d in part], np.int32),
        dep_offsets=offsets(deps), dep_events=np.array(flat, np.int64),
        dep_lags=np.zeros(len(flat), np.int32), recorded=np.ones(len(rows), bool),
    )  # fmt: skip


def sample_trace(
    program: Program, faults: Sequence[Fault] = (), seed: int = 0, noise: float = 0.02
) -> Trace:
    """A run of a program whose dependencies point backwards, without queues in the network.

    Args:
        program: Lags, multicast and `once` tasks are not understood here.
        faults: A task that starts inside a fault is slow as a whole.
        seed: Of the noise.
        noise: Standard deviation of the logarithm of every duration.
    """
    hardware = program.chip
    rng = np.random.default_rng(seed)
    crossed = _crossed(program)
    places = [(f, frozenset(hardware.channels_of(f.place).tolist())) for f in faults]
    compute, transfers, clock = [], [], 0.0
    for batch in range(program.n_batches):
        for group in range(program.n_groups):
            free = np.full(hardware.n_cores, clock)
            tasks = range(program.group_offsets[group], program.group_offsets[group + 1])
            last = clock
            for unit in range(program.units_in_batch(batch)):
                done = dict.fromkeys(tasks, clock)
                for task in tasks:
                    deps = program.dep_events[
                        program.dep_offsets[task] : program.dep_offsets[task + 1]
                    ]
                    start = max([clock] + [done[int(event)] for event in deps])
                    core = int(program.core[task])
                    if program.kind[task] == TaskKind.COMPUTE:
                        start = max(start, float(free[core]))
                    slow = [
                        (fault.place, channels, fault.slowdown)
                        for fault, channels in places
                        if fault.start_cycles <= start < fault.end_cycles
                    ]
                    length = _length(program, task, crossed[task], slow)
                    end = start + length * float(np.exp(noise * rng.standard_normal()))
                    done[task] = end
                    last = max(last, end)
                    place = (program.op[task], group, batch, unit, task)
                    if program.kind[task] == TaskKind.COMPUTE:
                        free[core] = end
                        compute.append((core, *place, program.work_macs[task], start, end))
                    else:
                        ends = (int(program.event_src[task]), int(program.event_dst[task]))
                        transfers.append(
                            (*ends, *place, program.message_bytes[task], start, end, end)
                        )
            clock = last
    meta = TraceMeta(
        program.model, hardware.topology, hardware.clock_hz, program.fingerprint,
        hardware.n_cores, program.n_batches, clock, program.operator_names,
    )  # fmt: skip
    return Trace(
        np.sort(np.array(compute, COMPUTE_DTYPE), order=["end_cycles", "event", "unit"]),
        np.sort(np.array(transfers, TRANSFER_DTYPE), order=["eject_cycles", "event", "unit"]),
        meta,
    )


def _crossed(program: Program) -> list[list[int]]:
    """Channels that each task's message crosses, injection and ejection included."""
    hardware = program.chip
    ends = np.stack([program.event_src, program.event_dst])
    (a, b) = routers_of(ends, hardware)
    return [
        [hardware.injection_channel(int(x)), *hardware.network.route(int(x), int(y)),
         hardware.ejection_channel(int(y))]
        for x, y in zip(a, b, strict=True)
    ]  # fmt: skip


def _length(
    program: Program,
    task: int,
    channels: list[int],
    slow: Sequence[tuple[Place, frozenset[int], float]],
) -> float:
    """Cycles of a task while the given (place, its channels, slowdown) are slow."""
    hardware = program.chip
    if program.kind[task] == TaskKind.COMPUTE:
        here: Place = Core(int(program.core[task]))
        factor = float(np.prod([k for place, _, k in slow if place == here]))
        return float(program.work_macs[task]) / hardware.macs_per_cycle * factor
    total = 0.0
    for channel in channels:
        hit = [k for _, covers, k in slow if channel in covers]
        total += float(np.prod(hit)) if hit else 1.0
    cycles = total / hardware.link_bytes_per_cycle
    if program.kind[task] == TaskKind.DRAM_READ:
        port = DramPort(int(program.port[task]))
        factor = float(np.prod([k for place, _, k in slow if place == port]))
        cycles += factor / hardware.dram_bytes_per_cycle
    return float(program.message_bytes[task]) * cycles
