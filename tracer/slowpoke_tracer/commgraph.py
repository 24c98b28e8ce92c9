"""The multi-level communication graph (MCG): cores by level, physical links, DRAM between levels.

A level is one layer group in one time window; levels follow each other in the order in which they
run. Built once for each group by a depth-first search over the program's task graph, then repeated
for each window (SlowPoke section 3.4.3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from slowpoke_mapping.program import Program, Role, TaskKind
from slowpoke_tracer.detect.routes import path_matrix
from slowpoke_tracer.remembered import remembered


@dataclass(frozen=True, eq=False)
class CommGraph:
    """Nodes and weighted edges of the MCG.

    Node level * n_cores + core is a core in a level; the node after all of those, plus j, is the
    virtual DRAM node between level j and level j + 1.

    Attributes:
        n_levels: Number of levels.
        n_cores: Cores in each.
        src: (n_edges,) node that the edge leaves.
        dst: (n_edges,) node that it enters.
        link: (n_edges,) directed link of the chip; -1 for an edge to or from DRAM.
        level: (n_edges,) level of a link; of an edge with DRAM, that of its core.
        traffic_bytes: (n_edges,) bytes in one batch unit.
        weight: (n_edges,) share of the traffic that leaves `src`.
    """

    n_levels: int
    n_cores: int
    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    link: NDArray[np.int64]
    level: NDArray[np.int64]
    traffic_bytes: NDArray[np.float64]
    weight: NDArray[np.float64]

    @property
    def n_nodes(self) -> int:
        """Cores of every level, and the DRAM nodes between levels."""
        return self.n_levels * self.n_cores + max(self.n_levels - 1, 0)

    @property
    def node_level(self) -> NDArray[np.int64]:
        """(n_nodes,) level of a core's node; -1 for DRAM."""
        cores = np.repeat(np.arange(self.n_levels), self.n_cores)
        return np.concatenate([cores, np.full(self.n_nodes - len(cores), -1)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class GroupTraffic:
    """What one batch unit of each layer group moves.

    Attributes:
        link_bytes: (n_groups, n_links) over each directed link.
        write_bytes: (n_groups, n_cores) from each core to DRAM, for later groups.
        read_bytes: (n_groups, n_cores) from DRAM to each core, of what earlier groups wrote.
        n_visited: Tasks that the search reached.
    """

    link_bytes: NDArray[np.float64]
    write_bytes: NDArray[np.float64]
    read_bytes: NDArray[np.float64]
    n_visited: int


@remembered
def group_traffic(program: Program, dram_routes: bool = True) -> GroupTraffic:
    """Follow every dependency of the task graph and add its bytes to the links of its path.

    Args:
        program: Credits (dependencies with a lag) are no flow of data and are not followed.
        dram_routes: Whether messages to and from DRAM count on the links they cross. The paper
            looks at core-to-core dependencies only; on this chip DRAM traffic shares the links.

    Cost: one visit to each task and dependency.
    """
    forward = program.dep_lags == 0
    owner = np.repeat(np.arange(program.n_tasks), np.diff(program.dep_offsets))[forward]
    before = program.event_task[program.dep_events[forward]]
    order = np.argsort(before, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(before, minlength=program.n_tasks))])
    roots = np.setdiff1d(np.arange(program.n_tasks), owner)
    visited = _depth_first(offsets.astype(np.int64), owner[order].astype(np.int64), roots)

    task = program.event_task
    kind, role = program.kind[task], program.role[task]
    moved = np.isin(kind, (TaskKind.TRANSFER, TaskKind.DRAM_READ, TaskKind.DRAM_WRITE))
    moved &= (role != Role.TRACE) & visited[task]
    on_links = moved if dram_routes else moved & (kind == TaskKind.TRANSFER)
    group = program.task_group[task].astype(np.int64)
    size = program.message_bytes[task]
    chip = program.chip
    paths = path_matrix(program.event_src[on_links], program.event_dst[on_links], chip)
    row = np.repeat(np.flatnonzero(on_links), np.diff(paths.indptr))

    def table(where: NDArray[np.int64], what: NDArray[np.integer], width: int):  # type: ignore[no-untyped-def]
        flat = np.bincount(
            group[where] * width + what, size[where], minlength=program.n_groups * width
        )
        return flat.reshape(program.n_groups, width)

    # weights come from DRAM too, but no earlier level wrote them
    writes = np.flatnonzero(moved & (kind == TaskKind.DRAM_WRITE) & (role == Role.OUTPUT))
    reads = np.flatnonzero(moved & (kind == TaskKind.DRAM_READ) & (role == Role.INPUT))
    return GroupTraffic(
        table(row, paths.indices, chip.n_links),
        table(writes, program.event_src[writes], chip.n_cores),
        table(reads, program.event_dst[reads], chip.n_cores),
        int(visited.sum()),
    )


@njit(cache=True)
def _depth_first(offsets, successors, roots):  # type: ignore[no-untyped-def]
    visited = np.zeros(len(offsets) - 1, np.bool_)
    stack = np.empty(len(offsets) - 1, np.int64)
    for root in roots:
        if visited[root]:
            continue
        visited[root] = True
        stack[0] = root
        depth = 1
        while depth:
            depth -= 1
            here = stack[depth]
            for k in range(offsets[here], offsets[here + 1]):
                if not visited[successors[k]]:
                    visited[successors[k]] = True
                    stack[depth] = successors[k]
                    depth += 1
    return visited


def communication_graph(
    program: Program, n_windows: int = 1, dram_routes: bool = True, symmetric: bool = False
) -> CommGraph:
    """The MCG of a run: every layer group once for each time window.

    Args:
        program: The task graph.
        n_windows: Time windows; level = window * n_groups + group.
        dram_routes: As for `group_traffic`.
        symmetric: Whether traffic counts in both directions of a link (the authors' code).

    The weights out of a core sum to 1 over its links and its edge to DRAM, those out of a DRAM node
    over the cores that read in the next level; a node without traffic has no edges.
    """
    traffic = group_traffic(program, dram_routes)
    ends = program.chip.network.links.astype(np.int64)
    link_bytes = traffic.link_bytes
    if symmetric:
        chip = program.chip
        reverse = np.array([chip.link_index(int(b), int(a)) for a, b in ends], dtype=np.int64)
        link_bytes = link_bytes + link_bytes[:, reverse]
    n_groups, n_cores = program.n_groups, program.chip.n_cores
    n_levels = n_groups * n_windows
    of_level = np.tile(np.arange(n_groups), n_windows)

    level, link = np.nonzero(link_bytes[of_level] > 0)
    write_level, write_core = np.nonzero(traffic.write_bytes[of_level[:-1]] > 0)
    read_level, read_core = np.nonzero(traffic.read_bytes[of_level[1:]] > 0)
    dram = n_levels * n_cores
    src = np.concatenate(
        [level * n_cores + ends[link, 0], write_level * n_cores + write_core, dram + read_level]
    )
    dst = np.concatenate(
        [
            level * n_cores + ends[link, 1],
            dram + write_level,
            (read_level + 1) * n_cores + read_core,
        ]
    )
    amount = np.concatenate(
        [
            link_bytes[of_level[level], link],
            traffic.write_bytes[of_level[write_level], write_core],
            traffic.read_bytes[of_level[read_level + 1], read_core],
        ]
    )
    n_nodes = dram + max(n_levels - 1, 0)
    out = np.bincount(src, amount, minlength=n_nodes)
    none = np.full(len(write_level) + len(read_level), -1)
    return CommGraph(
        n_levels, n_cores, src, dst, np.concatenate([link, none]),
        np.concatenate([level, write_level, read_level + 1]), amount, amount / out[src],
    )  # fmt: skip
