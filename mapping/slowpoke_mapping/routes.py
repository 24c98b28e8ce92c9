"""Routes of many pairs at once, as flat arrays, for the cost model and its compiled kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from slowpoke_mapping.ragged import Ints, offsets_of, positions_within, take_rows
from slowpoke_mapping.topology import Mesh, Topology, parse_topology


@dataclass(frozen=True, eq=False)
class Routes:
    """Links of the route between any two routers.

    A mesh's XY routes are computed where they are needed; other topologies have a table of all
    pairs, made once (n_routers^2 calls of `route`).

    Attributes:
        n_routers: Routers.
        n_links: Directed links.
        width: Columns of a mesh; 0 where the table is used.
        link_of: (n_routers, 4) link to the east, west, south and north of a mesh's router, or -1.
        offsets: (n_routers^2 + 1,) row src * n_routers + dst of the table; (1,) on a mesh.
        links: Link indices of the table.
    """

    n_routers: int
    n_links: int
    width: int
    link_of: Ints
    offsets: Ints
    links: Ints

    def paths(self, src: Ints, dst: Ints) -> tuple[Ints, Ints]:
        """Links of the routes src[i] to dst[i], one after the other, and how many each has."""
        if self.width == 0:
            at, counts = take_rows(self.offsets, src * self.n_routers + dst)
            return self.links[at], counts
        sy, sx = np.divmod(src, self.width)
        dy, dx = np.divmod(dst, self.width)
        across, down = np.abs(dx - sx), np.abs(dy - sy)
        starts = offsets_of(across + down)
        links = np.empty(int(starts[-1]), dtype=np.int64)
        step = positions_within(across)
        x = np.repeat(sx, across) + np.repeat(np.sign(dx - sx), across) * step
        links[np.repeat(starts[:-1], across) + step] = self.link_of[
            np.repeat(sy, across) * self.width + x, np.repeat((dx < sx).astype(np.int64), across)
        ]
        step = positions_within(down)
        y = np.repeat(sy, down) + np.repeat(np.sign(dy - sy), down) * step
        links[np.repeat(starts[:-1] + across, down) + step] = self.link_of[
            y * self.width + np.repeat(dx, down), np.repeat(2 + (dy < sy).astype(np.int64), down)
        ]
        return links, across + down


def routes_of(network: Topology) -> Routes:
    """The routes of a topology."""
    if isinstance(network, Mesh):
        return _mesh_routes(network.spec())
    return _table(network)


@lru_cache(maxsize=8)
def _mesh_routes(spec: str) -> Routes:
    network = parse_topology(spec)
    width = network.columns or 1
    link_of = np.full((network.n_routers, 4), -1, dtype=np.int64)
    for i, (a, b) in enumerate(network.links):
        if b // width == a // width:
            link_of[a, 0 if b > a else 1] = i
        else:
            link_of[a, 2 if b > a else 3] = i
    return Routes(
        network.n_routers, len(network.links), width, link_of,
        np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64),
    )  # fmt: skip


_TABLES: dict[str, Routes] = {}


def _table(network: Topology) -> Routes:
    spec = network.spec()
    if spec not in _TABLES:
        n = network.n_routers
        rows = [network.route(src, dst) for src in range(n) for dst in range(n)]
        _TABLES.clear()  # one at a time: the table of a large chip is large
        _TABLES[spec] = Routes(
            n, len(network.links), 0, np.zeros((0, 4), dtype=np.int64),
            offsets_of(np.array([len(row) for row in rows], dtype=np.int64)),
            np.array([link for row in rows for link in row], dtype=np.int64),
        )  # fmt: skip
    return _TABLES[spec]
