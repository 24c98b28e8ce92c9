"""How slow each server is at each time: piecewise-constant slowdowns of its faults, multiplied.

Between two changes a service makes (time / slowdown) progress; the rest of it proceeds at the new
speed (design.md section 5). Both engines use the same two functions, in the same order of
floating-point operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Core, DramPort
from slowpoke_sim.jit import hot


@dataclass(frozen=True, eq=False)
class Speeds:
    """Changes of slowdown between a start and a horizon.

    Attributes:
        offsets: (n_servers + 1,) changes of server s are [offsets[s], offsets[s + 1]).
        times: Time of each change in cycles, ascending; before the first the slowdown is 1.
        slowdowns: Product of the server's active faults from then on.
        fault_offsets: (n_faults + 1,) the same for each fault alone.
        fault_times: Cycles.
        fault_slowdowns: Slowdown of the fault from then on.
        server_fault_offsets: (n_servers + 1,) faults of server s are server_faults[...].
        server_faults: Fault indices.
        horizon_cycles: Changes at or after this time are missing; infinity if none is.
    """

    offsets: NDArray[np.int64]
    times: NDArray[np.float64]
    slowdowns: NDArray[np.float64]
    fault_offsets: NDArray[np.int64]
    fault_times: NDArray[np.float64]
    fault_slowdowns: NDArray[np.float64]
    server_fault_offsets: NDArray[np.int64]
    server_faults: NDArray[np.int64]
    horizon_cycles: float

    @staticmethod
    def of_faults(chip: ChipConfig, faults: Sequence[Fault], horizon_cycles: float) -> Speeds:
        """The tables of several faults; endless intermittent ones are cut at the horizon."""
        n_servers = chip.n_channels + len(chip.dram_ports) + chip.n_cores
        endless = any(f.period_cycles > 0 and f.duty < 1 for f in faults)
        until = horizon_cycles if endless else math.inf
        alone = [list(fault.changes(until)) for fault in faults]
        of_server: dict[int, list[int]] = {}
        for index, fault in enumerate(faults):
            for server in servers_of(chip, fault):
                of_server.setdefault(int(server), []).append(index)
        offsets, server_offsets = (
            np.zeros(n_servers + 1, np.int64),
            np.zeros(n_servers + 1, np.int64),
        )
        times: list[float] = []
        slowdowns: list[float] = []
        for server, own in sorted(of_server.items()):
            merged = _product([alone[index] for index in own])
            times += [time for time, _ in merged]
            slowdowns += [slowdown for _, slowdown in merged]
            offsets[server + 1] = len(merged)
            server_offsets[server + 1] = len(own)
        return Speeds(
            offsets=np.cumsum(offsets),
            times=np.array(times, dtype=np.float64),
            slowdowns=np.array(slowdowns, dtype=np.float64),
            fault_offsets=np.cumsum([0] + [len(changes) for changes in alone]).astype(np.int64),
            fault_times=np.array([t for changes in alone for t, _ in changes], dtype=np.float64),
            fault_slowdowns=np.array([s for changes in alone for _, s in changes], np.float64),
            server_fault_offsets=np.cumsum(server_offsets),
            server_faults=np.array([i for _, own in sorted(of_server.items()) for i in own], int),
            horizon_cycles=until,
        )


def servers_of(chip: ChipConfig, fault: Fault) -> NDArray[np.int64]:
    """Servers that a fault slows: channels, or n_channels + port, or behind the ports a core."""
    if isinstance(fault.place, DramPort):
        return np.array([chip.n_channels + fault.place.id], dtype=np.int64)
    if isinstance(fault.place, Core):
        return np.array([chip.n_channels + len(chip.dram_ports) + fault.place.id], dtype=np.int64)
    return chip.channels_of(fault.place)


def _product(changes: list[list[tuple[float, float]]]) -> list[tuple[float, float]]:
    times = sorted({time for own in changes for time, _ in own})
    cursor = [0] * len(changes)
    current = [1.0] * len(changes)
    merged = []
    for time in times:
        for i, own in enumerate(changes):
            while cursor[i] < len(own) and own[cursor[i]][0] <= time:
                current[i] = own[cursor[i]][1]
                cursor[i] += 1
        merged.append((time, math.prod(current)))
    return merged


@hot
def left_over(work_cycles: float, elapsed_cycles: float, slowdown: float) -> float:
    """Work that is left after a time at a slowdown, never below 0."""
    return max(work_cycles - elapsed_cycles / slowdown, 0.0)


@hot
def finish_time(
    start_cycles: float,
    work_cycles: float,
    times: NDArray[np.float64],
    slowdowns: NDArray[np.float64],
    first: int,
    cursor: int,
    last: int,
) -> float:
    """When work that starts now is done; `cursor` is the first change after the start."""
    now, work = start_cycles, work_cycles
    slowdown = 1.0 if cursor == first else slowdowns[cursor - 1]
    end = now + work * slowdown
    while cursor < last and end > times[cursor]:
        work = left_over(work, times[cursor] - now, slowdown)
        now = times[cursor]
        slowdown = slowdowns[cursor]
        cursor += 1
        end = now + work * slowdown
    return end


@hot
def overlaps(
    start_cycles: float,
    end_cycles: float,
    times: NDArray[np.float64],
    slowdowns: NDArray[np.float64],
    first: int,
    last: int,
) -> bool:
    """Whether a service shares more than 0 cycles with the slow time of one fault."""
    begin = first - 1 + int(np.searchsorted(times[first:last], start_cycles, side="right"))
    for i in range(max(begin, first), last):
        if times[i] >= end_cycles:
            return False
        until = times[i + 1] if i + 1 < last else np.inf
        if slowdowns[i] > 1.0 and max(times[i], start_cycles) < min(until, end_cycles):
            return True
    return False
