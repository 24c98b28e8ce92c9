"""Which links a message crosses, from the chip's deterministic routes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.topology import Topology
from slowpoke_tracer.remembered import remembered


def routers_of(ends: NDArray[np.integer], chip: ChipConfig) -> NDArray[np.int64]:
    """(n,) router of each message end: a core's own, or that of DRAM port p for -1 - p."""
    ports = np.array(chip.dram_ports, dtype=np.int64)
    ends = np.asarray(ends, dtype=np.int64)
    return np.where(ends >= 0, ends, ports[np.clip(-1 - ends, 0, len(ports) - 1)])


def path_matrix(
    src: NDArray[np.integer], dst: NDArray[np.integer], chip: ChipConfig
) -> sp.csr_matrix:
    """(n, n_links) 1 where the route from src to dst crosses a directed link.

    Args:
        src: (n,) cores, or -1 - p for DRAM port p.
        dst: (n,) likewise.
        chip: With its topology.

    Cost: one route for each different pair that was not asked for before.
    """
    a, b = routers_of(src, chip), routers_of(dst, chip)
    network = chip.network
    n, known = network.n_routers, _known_routes(network)
    pairs, number = numbered(a * n + b, n * n)
    routes = []
    for pair in pairs.tolist():
        if pair not in known:
            known[pair] = np.array(network.route(pair // n, pair % n), dtype=np.int64)
        routes.append(known[pair])
    length = np.array([len(route) for route in routes], dtype=np.int64)
    indptr = np.concatenate([[0], np.cumsum(length)])
    indices = np.concatenate([*routes, np.empty(0, np.int64)])
    unique = sp.csr_matrix(
        (np.ones(len(indices)), indices, indptr), shape=(len(pairs), chip.n_links)
    )
    return sp.csr_matrix(unique[number])


def numbered(values: NDArray[np.integer], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different values in ascending order, and the number of each value among them.

    Args:
        values: (n,) 0 <= value < size.
        size: Where it is no more than a few times n, nothing is sorted.

    >>> numbered(np.array([5, 2, 5]), 6)
    (array([2, 5]), array([1, 0, 1]))
    """
    if size > 8 * len(values) + 4096:
        found, number = np.unique(values, return_inverse=True)
        return found, number.ravel()
    there = np.zeros(size, dtype=bool)
    there[values] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[values]


@remembered
def _known_routes(network: Topology) -> dict[int, NDArray[np.int64]]:
    """Routes by source * n_routers + destination, filled as they are asked for."""
    return {}
