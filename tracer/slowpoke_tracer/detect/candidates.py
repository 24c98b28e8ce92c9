"""Candidates: every place that can be accused, and what share of each pattern's time it serves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.places import Core, DramPort, Link, Place, Router
from slowpoke_tracer.baseline import Baseline
from slowpoke_tracer.patterns import COMPUTE

CORE, NETWORK = 0, 1
"""Families: cores are seen directly, in busy time; the network by latency. Tails differ."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Places with the template of their effect.

    Attributes:
        places: What can be accused; every physical link comes three times: both directions, one,
            the other.
        family: (n,) CORE or NETWORK.
        share: (n_patterns, n) share of the pattern's latency that the place itself serves; a fault
            of slowdown k moves the pattern's ln(duration) by ln(1 + (k - 1) share).
    """

    places: tuple[Place, ...]
    family: NDArray[np.int8]
    share: sp.csc_matrix

    @property
    def covered(self) -> NDArray[np.bool_]:
        """(n,) whether any pattern sees the place."""
        return np.asarray(np.diff(self.share.indptr) > 0)

    @staticmethod
    def of(chip: ChipConfig, baseline: Baseline) -> Candidates:
        """Cores, links in three directions, routers and DRAM ports of a chip."""
        table = baseline.patterns.table
        computing = np.flatnonzero(table["kind"] == COMPUTE)
        cores = sp.csr_matrix(
            (np.ones(len(computing)), (computing, table["recorder"][computing])),
            shape=(len(table), chip.n_cores),
        )
        network: list[Place] = []
        for link in chip.physical_links:
            network += [link, Link(link.src, link.dst), Link(link.dst, link.src)]
        network += [Router(r) for r in range(chip.n_cores)]
        rows: list[NDArray[np.int64]] = []
        for place in network:
            rows.append(chip.channels_of(place))
        ports = [DramPort(p) for p in range(len(chip.dram_ports))]
        rows += [np.array([chip.n_channels + p], dtype=np.int64) for p in range(len(ports))]
        member = sp.csr_matrix(
            (
                np.ones(sum(map(len, rows))),
                (np.concatenate(rows), np.repeat(np.arange(len(rows)), [len(r) for r in rows])),
            ),
            shape=(baseline.shares.shape[1], len(rows)),
        )
        share = sp.hstack([cores, baseline.shares @ member]).tocsc()
        share.data = np.minimum(share.data, 1.0)
        share.eliminate_zeros()
        places = (*(Core(c) for c in range(chip.n_cores)), *network, *ports)
        family = np.repeat(
            np.array([CORE, NETWORK], dtype=np.int8), [chip.n_cores, len(network) + len(ports)]
        )
        return Candidates(places, family, share)
