"""A layer group as a pipeline of whole layers: when the last unit of a batch has left.

Between a closed formula and the simulator: one task a layer and unit, cores serve first-come
first-served, reads and writes queue at DRAM ports, credits hold producers back. Queues on links
are left out; their busiest one bounds the estimate from below (slowpoke_mapping.cost).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.compiled import compiled
from slowpoke_mapping.ragged import Ints

Floats = NDArray[np.float64]


class Stages(NamedTuple):
    """A group, layer by layer.

    Attributes:
        cycles: (L,) largest piece of each layer.
        server: (L,) core that stands for the layer's core group.
        edge_from, edge_to: (E,) layers; edge_gap: (E,) cycles of delivery; edge_lag: (E,) credit.
        read_port: (L, P) port cycles of a unit's reads; read_pass: (L,) their way to the cores.
        once_port, once_pass: The same for weights that stay.
        write_port, write_pass: The same for a unit's output.
        reads, writes: (L,) whether there are any.
        depth: Credits; units: Of a batch.
    """

    cycles: Floats
    server: Ints
    edge_from: Ints
    edge_to: Ints
    edge_gap: Floats
    edge_lag: Ints
    read_port: Floats
    read_pass: Floats
    once_port: Floats
    once_pass: Floats
    write_port: Floats
    write_pass: Floats
    reads: NDArray[np.bool_]
    writes: NDArray[np.bool_]
    depth: int
    units: int


class _Room(NamedTuple):
    """Memory of one run: tasks are (kind, layer, unit); kinds compute, read, write."""

    waiting: Ints
    ready: Floats
    heap: Ints
    size: Ints
    core_free: Floats
    port_free: Floats


def pipeline_run(stages: Stages, n_cores: int) -> tuple[float, float]:
    """(cycles until the first unit has left, cycles until all have).

    Cost grows with layers x units x log; a group of 20 layers and 16 units takes about 0.1 ms.
    """
    n = len(stages.cycles) * stages.units * 3
    room = _Room(
        np.zeros(n, np.int64), np.zeros(n), np.zeros(n + 1, np.int64), np.zeros(1, np.int64),
        np.zeros(n_cores), np.zeros(stages.read_port.shape[1]),
    )  # fmt: skip
    times = np.zeros(2)
    _run(stages, room, times)
    return float(times[0]), float(times[1])


@compiled
def _push(room: _Room, task: int) -> None:
    at = room.size[0]
    room.size[0] += 1
    key = room.ready[task]
    while at > 0:
        up = (at - 1) // 2
        other = room.heap[up]
        if room.ready[other] < key or (room.ready[other] == key and other < task):
            break
        room.heap[at] = other
        at = up
    room.heap[at] = task


@compiled
def _pop(room: _Room) -> int:
    top = room.heap[0]
    room.size[0] -= 1
    n = room.size[0]
    task = room.heap[n]
    key = room.ready[task]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        a = room.heap[child]
        if child + 1 < n:
            b = room.heap[child + 1]
            if room.ready[b] < room.ready[a] or (room.ready[b] == room.ready[a] and b < a):
                child += 1
                a = b
        if room.ready[a] > key or (room.ready[a] == key and a > task):
            break
        room.heap[at] = a
        at = child
    room.heap[at] = task
    return int(top)


@compiled
def _release(room: _Room, task: int, time: float) -> None:
    """One thing that a task waits for is there."""
    room.ready[task] = max(room.ready[task], time)
    room.waiting[task] -= 1
    if room.waiting[task] == 0:
        _push(room, task)


@compiled
def _through_ports(
    room: _Room, port_cycles: Floats, layer: int, begin: float, passing: float
) -> float:
    """When the ports have served a layer's reads or writes and they have passed the network."""
    done = begin + passing
    for p in range(len(room.port_free)):
        if port_cycles[layer, p] > 0:
            start = max(room.port_free[p], begin)
            room.port_free[p] = start + port_cycles[layer, p]
            done = max(done, max(room.port_free[p], start + passing))
    return done


@compiled
def _run(stages: Stages, room: _Room, times: Floats) -> None:
    n_layers, units, depth = len(stages.cycles), stages.units, stages.depth
    n = n_layers * units
    for layer in range(n_layers):
        for u in range(units):
            task = layer * units + u
            if stages.reads[layer]:
                room.waiting[task] += 1
                if u >= depth:
                    room.waiting[n + task] += 1
            if stages.writes[layer]:
                room.waiting[2 * n + task] += 1
                if u >= depth:
                    room.waiting[task] += 1
    for e in range(len(stages.edge_from)):
        for u in range(units):
            room.waiting[stages.edge_to[e] * units + u] += 1
            if u >= stages.edge_lag[e]:
                room.waiting[stages.edge_from[e] * units + u] += 1
    # all reads that wait for nothing stand at the ports at once, in the order of their layers
    for layer in range(n_layers):
        fetched = _through_ports(room, stages.once_port, layer, 0.0, stages.once_pass[layer])
        done = fetched
        if stages.reads[layer]:
            # messages of the first units queue side by side: the first is complete with the last
            for _ in range(min(depth, units)):
                done = _through_ports(room, stages.read_port, layer, 0.0, stages.read_pass[layer])
        for u in range(units):
            task = layer * units + u
            room.ready[task] = max(room.ready[task], fetched)
            if stages.reads[layer] and u < depth:
                room.ready[task] = max(room.ready[task], done)
                room.waiting[task] -= 1
    for task in range(n):
        if room.waiting[task] == 0:
            _push(room, task)
    while room.size[0] > 0:
        task = _pop(room)
        kind, layer, u = task // n, task % n // units, task % units
        if kind == 1:
            done = _through_ports(
                room, stages.read_port, layer, room.ready[task], stages.read_pass[layer]
            )
            _release(room, layer * units + u, done)
            continue
        if kind == 2:
            done = _through_ports(
                room, stages.write_port, layer, room.ready[task], stages.write_pass[layer]
            )
            if u + depth < units:
                _release(room, layer * units + u + depth, done)
            if u == 0:
                times[0] = max(times[0], done)
            times[1] = max(times[1], done)
            continue
        server = stages.server[layer]
        end = max(room.ready[task], room.core_free[server]) + stages.cycles[layer]
        room.core_free[server] = end
        if u == 0:
            times[0] = max(times[0], end)
        times[1] = max(times[1], end)
        if stages.reads[layer] and u + depth < units:
            _release(room, n + task + depth, end)
        if stages.writes[layer]:
            _release(room, 2 * n + task, end)
        for e in range(len(stages.edge_from)):
            if stages.edge_from[e] == layer:
                _release(room, stages.edge_to[e] * units + u, end + stages.edge_gap[e])
            if stages.edge_to[e] == layer and u + stages.edge_lag[e] < units:
                _release(room, stages.edge_from[e] * units + u + stages.edge_lag[e], end)
