"""The hops of every message: the tree of servers it passes, one row a hop, made once a program.

Servers are numbered channels first (links, injection, ejection; `ChipConfig`), then DRAM ports,
then cores. Hops are sorted by task, then distance from the root, so a task's hops are contiguous,
its roots come first and a hop's index within its task never depends on another task.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program, TaskKind

SERVER, CHILD, N_CHILDREN, EVENT, TRAIN, INDEX, FIRST_EVENT, LAST_EVENT = range(8)
"""Columns of a hop: its server; first next hop and how many (they follow each other); the event it
completes, or -1; ROOT, AFTER_PORT or 0; its index within the task."""
ROOT, AFTER_PORT = 2, 1
"""Where all packets of a message arrive at once: at its first channel, behind a read's port."""


@dataclass(frozen=True, eq=False)
class Hops:
    """Trees of hops of all messages of a program.

    Attributes:
        offsets: (n_tasks + 1,) hops of task t are [offsets[t], offsets[t + 1]).
        n_roots: (n_tasks,) how many of them have no parent: 1, or one a destination without
            multicast.
        table: (n_hops, 8) one cache line a hop; columns SERVER to LAST_EVENT below.
        parent: (n_hops,) hop before it, or -1.
        events: Event ids; those that hop h lies on the way to are
            events[table[h, FIRST_EVENT] : table[h, LAST_EVENT]].
    """

    offsets: NDArray[np.int64]
    n_roots: NDArray[np.int32]
    table: NDArray[np.int64]
    parent: NDArray[np.int64]
    events: NDArray[np.int64]

    @property
    def server(self) -> NDArray[np.int64]:
        """(n_hops,) channel, or n_channels + port."""
        return self.table[:, SERVER]

    @property
    def event_offsets(self) -> NDArray[np.int64]:
        """(n_hops + 1,) the events that hop h lies on the way to are events[offsets[h]:...]."""
        return np.append(self.table[:, FIRST_EVENT], len(self.events))

    @staticmethod
    def of_program(program: Program) -> Hops:
        """The hops of every message; cost n_events x route length x log n_hops, in numpy.

        Raises:
            SlowpokeError: A message names a core or port outside the chip, or one core twice.
        """
        chip = program.chip
        path_event, path_offsets, path_server = _paths(program)
        path_task = program.event_task[path_event]
        lengths = np.diff(path_offsets)
        n_servers = chip.n_channels + len(chip.dram_ports)
        # a copy of its own for each destination is a tree of its own
        node = path_task if chip.multicast else np.arange(len(path_event), dtype=np.int64)
        last = np.full(len(path_event), -1, dtype=np.int64)
        visits: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        hop_task, hop_server, hop_parent, hop_level = [], [], [], []
        n_hops = 0
        for level in range(int(lengths.max(initial=0))):
            active = np.flatnonzero(lengths > level)
            keys = node[active] * n_servers + path_server[path_offsets[active] + level]
            _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
            hop_task.append(path_task[active][first])
            hop_server.append(path_server[path_offsets[active] + level][first])
            hop_parent.append(last[active][first])
            hop_level.append(np.full(len(first), level))
            last[active] = n_hops + inverse
            node = last.copy()
            visits.append((last[active].copy(), path_event[active]))
            n_hops += len(first)
        return _sorted(program, n_hops, hop_task, hop_server, hop_parent, hop_level, last,
                       path_event, visits)  # fmt: skip


def _concatenate(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64)


def _csr(owner: NDArray[np.int64], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(offsets, order) that group the positions of `owner` by its value."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n))]).astype(np.int64)
    return offsets, np.argsort(owner, kind="stable")


def _sorted(
    program: Program,
    n_hops: int,
    hop_task: list[NDArray[np.int64]],
    hop_server: list[NDArray[np.int64]],
    hop_parent: list[NDArray[np.int64]],
    hop_level: list[NDArray[np.int64]],
    last: NDArray[np.int64],
    path_event: NDArray[np.int64],
    visits: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> Hops:
    task, server = _concatenate(hop_task), _concatenate(hop_server)
    parent, level = _concatenate(hop_parent), _concatenate(hop_level)
    order = np.lexsort((np.arange(n_hops), level, task))
    rank = np.empty(n_hops, dtype=np.int64)
    rank[order] = np.arange(n_hops)
    task, server, parent, level = task[order], server[order], parent[order], level[order]
    parent = np.where(parent >= 0, rank[parent], -1) if n_hops else parent
    event = np.full(n_hops, -1, dtype=np.int64)
    event[rank[last]] = path_event
    visited = rank[_concatenate([hop for hop, _ in visits])] if n_hops else np.zeros(0, np.int64)
    event_offsets, by_hop = _csr(visited, n_hops)
    offsets = np.searchsorted(task, np.arange(program.n_tasks + 1)).astype(np.int64)
    inner = parent >= 0
    table = np.zeros((n_hops, 8), dtype=np.int64)
    table[:, SERVER] = server
    # within a level hops are sorted by parent, so the next hops of one follow each other
    of_parent = np.flatnonzero(inner)
    table[parent[of_parent[::-1]], CHILD] = of_parent[::-1]
    table[:, N_CHILDREN] = np.bincount(parent[inner], minlength=n_hops)
    table[:, EVENT] = event
    table[~inner, TRAIN] = ROOT
    table[inner, TRAIN] = np.where(server[parent[inner]] >= program.chip.n_channels, AFTER_PORT, 0)
    table[:, INDEX] = np.arange(n_hops) - offsets[task]
    table[:, FIRST_EVENT], table[:, LAST_EVENT] = event_offsets[:-1], event_offsets[1:]
    return Hops(
        offsets=offsets,
        n_roots=np.bincount(task[~inner], minlength=program.n_tasks).astype(np.int32),
        table=table,
        parent=parent,
        events=_concatenate([events for _, events in visits])[by_hop],
    )


def _paths(
    program: Program,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(event, offsets, server): what each message event passes, from its source to its end."""
    chip = program.chip
    kind = program.kind[program.event_task]
    events = np.flatnonzero((kind != TaskKind.COMPUTE) & (kind != TaskKind.PROBE))
    src, dst = (
        program.event_src[events].astype(np.int64),
        program.event_dst[events].astype(np.int64),
    )
    _check_ends(program, events, src, dst)
    ports = np.array(chip.dram_ports, dtype=np.int64)
    src_router = np.where(src >= 0, src, ports[np.maximum(-1 - src, 0)])
    dst_router = np.where(dst >= 0, dst, ports[np.maximum(-1 - dst, 0)])
    pairs, which = np.unique(src_router * chip.n_cores + dst_router, return_inverse=True)
    routes = [chip.network.route(int(p // chip.n_cores), int(p % chip.n_cores)) for p in pairs]
    lengths = np.array([len(route) for route in routes], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = np.array([link for route in routes for link in route], dtype=np.int64)
    n_links = lengths[which] if len(events) else np.zeros(0, dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(n_links + 2)]).astype(np.int64)
    server = np.empty(int(offsets[-1]), dtype=np.int64)
    first = np.where(src >= 0, chip.n_links + src, chip.n_channels - 1 - src)
    final = np.where(dst >= 0, chip.n_links + chip.n_cores + dst, chip.n_channels - 1 - dst)
    server[offsets[:-1]] = first
    server[offsets[1:] - 1] = final
    within = np.arange(int(n_links.sum())) - np.repeat(np.cumsum(n_links) - n_links, n_links)
    if len(within):
        server[np.repeat(offsets[:-1] + 1, n_links) + within] = flat[
            np.repeat(starts[which], n_links) + within
        ]
    return events.astype(np.int64), offsets, server


def _check_ends(
    program: Program, events: NDArray[np.int64], src: NDArray[np.int64], dst: NDArray[np.int64]
) -> None:
    chip: ChipConfig = program.chip
    for name, end in (("source", src), ("destination", dst)):
        bad = np.flatnonzero((end >= chip.n_cores) | (end < -len(chip.dram_ports)))
        if len(bad):
            raise SlowpokeError(
                f"task {program.event_task[events[bad[0]]]}: its {name} lies outside the chip; "
                f"cores are 0 to {chip.n_cores - 1}, DRAM ports 0 to {len(chip.dram_ports) - 1}"
            )
    key = program.event_task[events] * (chip.n_cores + len(chip.dram_ports)) + dst
    values, counts = np.unique(key, return_counts=True)
    if np.any(counts > 1):
        task = int(values[np.argmax(counts > 1)]) // (chip.n_cores + len(chip.dram_ports))
        raise SlowpokeError(f"task {task} sends to one core twice; name each destination once")
