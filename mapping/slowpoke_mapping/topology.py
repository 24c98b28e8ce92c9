"""The on-chip network: routers, directed links, and one deterministic route for each pair.

Core i sits at router i. A topology knows only routers and the links between them; the injection and
ejection channels of the cores belong to the chip (`slowpoke_mapping.chip`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError

MAX_ROUTERS = 65_536


@runtime_checkable
class Topology(Protocol):
    """Routers and directed links with one deterministic route for each pair of routers."""

    @property
    def n_routers(self) -> int:
        """Number of routers, and of cores."""

    @property
    def columns(self) -> int | None:
        """Columns of a grid, so that (x, y) has a meaning; None where there is no grid."""

    @property
    def links(self) -> NDArray[np.int32]:
        """(n_links, 2): source and destination router of each directed link."""

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        """Indices into `links` from router src to router dst; empty if they are the same."""

    def order(self) -> tuple[int, ...]:
        """Every router once, neighbours close together: where a mapper starts."""

    def positions(self) -> NDArray[np.float64]:
        """(n_routers, 2): where to draw each router."""

    def spec(self) -> str:
        """Text that `parse_topology` reads back, `mesh:4x4`."""


class _Grid:
    """What mesh and torus share: an index of links by their ends."""

    width: int
    height: int

    @property
    def n_routers(self) -> int:
        return self.width * self.height

    @property
    def columns(self) -> int | None:
        return self.width

    def _check(self, name: str) -> None:
        if self.width < 1 or self.height < 1:
            raise SlowpokeError(
                f"{name} {self.width}x{self.height}: at least one column and one row are needed; "
                "write columns x rows, such as 4x4"
            )
        if self.width * self.height > MAX_ROUTERS:
            raise SlowpokeError(
                f"{name} {self.width}x{self.height} has {self.width * self.height} routers: "
                f"at most {MAX_ROUTERS} are simulated; choose a smaller grid"
            )

    def order(self) -> tuple[int, ...]:
        """Row by row, every other row backwards (Gemini's snake; HPCA 2024)."""
        ids = np.arange(self.n_routers).reshape(self.height, self.width)
        ids[1::2] = ids[1::2, ::-1]
        return tuple(int(i) for i in ids.ravel())

    def positions(self) -> NDArray[np.float64]:
        y, x = np.divmod(np.arange(self.n_routers), self.width)
        return np.stack([x, y], axis=1).astype(np.float64)


@dataclass(frozen=True)
class Mesh(_Grid):
    """A mesh of width x height routers with XY routing: along the row first, then the column."""

    width: int
    height: int

    def __post_init__(self) -> None:
        self._check("mesh")

    @cached_property
    def links(self) -> NDArray[np.int32]:
        """(n_links, 2) directed links: per router its east, west, south and north neighbour."""
        pairs = [
            (y * self.width + x, v * self.width + u)
            for y in range(self.height)
            for x in range(self.width)
            for u, v in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1))
            if 0 <= u < self.width and 0 <= v < self.height
        ]
        return np.array(pairs, dtype=np.int32).reshape(-1, 2)

    @cached_property
    def _index(self) -> dict[tuple[int, int], int]:
        return _link_index(self.links)

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        """Link indices of the XY route, |dx| + |dy| of them."""
        path, here = [], src
        step = 1 if dst % self.width > src % self.width else -1
        while here % self.width != dst % self.width:
            path.append(self._index[here, here + step])
            here += step
        step = self.width if dst > here else -self.width
        while here != dst:
            path.append(self._index[here, here + step])
            here += step
        return tuple(path)

    def spec(self) -> str:
        """`mesh:WxH`."""
        return f"mesh:{self.width}x{self.height}"

    def __str__(self) -> str:
        return f"mesh {self.width}x{self.height}"


@dataclass(frozen=True)
class Torus(_Grid):
    """A mesh whose rows and columns are closed; XY, each the shorter way round.

    Half-way round, the way is east or south.

    >>> torus = Torus(4, 4)
    >>> torus.links[list(torus.route(0, 3))].tolist()
    [[0, 3]]
    """

    width: int
    height: int

    def __post_init__(self) -> None:
        self._check("torus")

    @cached_property
    def links(self) -> NDArray[np.int32]:
        """(n_links, 2) directed links: per router east, west, south, north, each pair once."""
        pairs = dict.fromkeys(
            (y * self.width + x, v % self.height * self.width + u % self.width)
            for y in range(self.height)
            for x in range(self.width)
            for u, v in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1))
        )
        own = [(a, b) for a, b in pairs if a != b]
        return np.array(own, dtype=np.int32).reshape(-1, 2)

    @cached_property
    def _index(self) -> dict[tuple[int, int], int]:
        return _link_index(self.links)

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        """Link indices of the route: along the row, then the column, each the shorter way."""
        (sy, sx), (dy, dx) = divmod(src, self.width), divmod(dst, self.width)
        columns = _way_round(sx, dx, self.width)
        rows = _way_round(sy, dy, self.height)
        stops = [sy * self.width + x for x in columns] + [y * self.width + dx for y in rows[1:]]
        return tuple(self._index[pair] for pair in itertools.pairwise(stops))

    def spec(self) -> str:
        """`torus:WxH`."""
        return f"torus:{self.width}x{self.height}"

    def __str__(self) -> str:
        return f"torus {self.width}x{self.height}"


@dataclass(frozen=True)
class Ring:
    """Routers in a circle; messages take the shorter way, clockwise (upward) from half-way on."""

    n_routers: int

    def __post_init__(self) -> None:
        if not 1 <= self.n_routers <= MAX_ROUTERS:
            raise SlowpokeError(
                f"ring of {self.n_routers} routers: between 1 and {MAX_ROUTERS} are simulated, "
                "such as ring:8"
            )

    @property
    def columns(self) -> int | None:
        """None: a ring is no grid."""
        return None

    @cached_property
    def links(self) -> NDArray[np.int32]:
        """(n_links, 2) directed links: per router the next and the previous, each pair once."""
        n = self.n_routers
        pairs = dict.fromkeys((i, (i + step) % n) for i in range(n) for step in (1, -1))
        return np.array([(a, b) for a, b in pairs if a != b], dtype=np.int32).reshape(-1, 2)

    @cached_property
    def _index(self) -> dict[tuple[int, int], int]:
        return _link_index(self.links)

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        """Link indices of the shorter way."""
        stops = _way_round(src, dst, self.n_routers)
        return tuple(self._index[pair] for pair in itertools.pairwise(stops))

    def order(self) -> tuple[int, ...]:
        """Once round."""
        return tuple(range(self.n_routers))

    def positions(self) -> NDArray[np.float64]:
        """(n_routers, 2) on a circle, neighbours about 1 apart."""
        return _circle(self.n_routers, self.n_routers / (2 * np.pi))

    def spec(self) -> str:
        """`ring:N`."""
        return f"ring:{self.n_routers}"

    def __str__(self) -> str:
        return f"ring of {self.n_routers}"


@dataclass(frozen=True)
class Dragonfly:
    """Groups of fully connected routers, one global link between every two groups.

    Minimal routing (Kim et al., ISCA 2008): to the router with the global link, across, to the
    destination; at most three links. Group i reaches group j by its global port
    (j - i - 1) mod n_groups, and router r of a group has the ports [r h, (r + 1) h).

    Attributes:
        n_groups: Groups; at most routers_per_group * global_links + 1.
        routers_per_group: Routers of each.
        global_links: Global ports of a router; 0 for the fewest that connect all groups.
    """

    n_groups: int
    routers_per_group: int
    global_links: int = 0

    def __post_init__(self) -> None:
        g, a, h = self.n_groups, self.routers_per_group, self.global_links
        if g < 1 or a < 1 or h < 0 or g * a > MAX_ROUTERS:
            raise SlowpokeError(
                f"dragonfly {g}x{a}x{h}: it has at least one group of one router and at most "
                f"{MAX_ROUTERS} routers; write groups x routers a group x global links a router, "
                "such as dragonfly:9x4x2"
            )
        fewest = -(-(g - 1) // a)
        if h == 0:
            object.__setattr__(self, "global_links", max(fewest, 1))
        elif h < fewest:
            raise SlowpokeError(
                f"dragonfly {g}x{a}x{h}: {a} routers with {h} global links reach {a * h} other "
                f"groups, not {g - 1}; use {fewest} global links or at most {a * h + 1} groups"
            )

    @property
    def n_routers(self) -> int:
        """Routers of all groups; router r of group g is g * routers_per_group + r."""
        return self.n_groups * self.routers_per_group

    @property
    def columns(self) -> int | None:
        """None: a dragonfly is no grid."""
        return None

    def _gateway(self, group: int, other: int) -> int:
        """Router of a group that has the global link to another group."""
        port = (other - group - 1) % self.n_groups
        return group * self.routers_per_group + port // self.global_links

    @cached_property
    def links(self) -> NDArray[np.int32]:
        """(n_links, 2) directed links: inside the groups, then between them."""
        groups, a = range(self.n_groups), self.routers_per_group
        local = [(g * a + i, g * a + j) for g in groups for i in range(a) for j in range(a)]
        remote = [(self._gateway(i, j), self._gateway(j, i)) for i in groups for j in groups]
        pairs = [(s, d) for s, d in local if s != d]
        pairs += [pair for (i, j), pair in zip(itertools.product(groups, groups), remote,
                                               strict=True) if i != j]  # fmt: skip
        return np.array(pairs, dtype=np.int32).reshape(-1, 2)

    @cached_property
    def _index(self) -> dict[tuple[int, int], int]:
        return _link_index(self.links)

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        """Link indices: local, global, local, as far as they are needed."""
        i, j = src // self.routers_per_group, dst // self.routers_per_group
        stops = [src] if i == j else [src, self._gateway(i, j), self._gateway(j, i)]
        stops.append(dst)
        return tuple(self._index[pair] for pair in itertools.pairwise(stops) if pair[0] != pair[1])

    def order(self) -> tuple[int, ...]:
        """Group by group."""
        return tuple(range(self.n_routers))

    def positions(self) -> NDArray[np.float64]:
        """(n_routers, 2): each group a small circle, the groups on a large one."""
        inner = _circle(self.routers_per_group, self.routers_per_group / (2 * np.pi))
        outer = _circle(self.n_groups, self.n_groups * (self.routers_per_group + 2) / 8)
        return (outer[:, None, :] + inner[None, :, :]).reshape(-1, 2)

    def spec(self) -> str:
        """`dragonfly:GROUPSxROUTERSxGLOBAL`."""
        return f"dragonfly:{self.n_groups}x{self.routers_per_group}x{self.global_links}"

    def __str__(self) -> str:
        return f"dragonfly of {self.n_groups} groups of {self.routers_per_group}"


def _link_index(links: NDArray[np.int32]) -> dict[tuple[int, int], int]:
    return {(int(a), int(b)): i for i, (a, b) in enumerate(links)}


def _way_round(src: int, dst: int, n: int) -> list[int]:
    """Stops of the shorter way round a circle of n, both ends included; upward from half-way."""
    ahead = (dst - src) % n
    step, count = (1, ahead) if 2 * ahead <= n else (-1, n - ahead)
    return [(src + step * k) % n for k in range(count + 1)]


def _circle(n: int, radius: float) -> NDArray[np.float64]:
    angle = 2 * np.pi * np.arange(n) / n
    return radius * np.stack([np.sin(angle), -np.cos(angle)], axis=1) * (n > 1)


def distances(topology: Topology) -> NDArray[np.int32]:
    """(n_routers, n_routers) number of links of every route.

    >>> distances(Ring(5))[0].tolist()
    [0, 1, 2, 2, 1]
    """
    n = range(topology.n_routers)
    return np.array([[len(topology.route(a, b)) for b in n] for a in n], dtype=np.int32)


def check_topology(topology: Topology) -> Topology:
    """The topology itself, if everything that the chip and the simulator rely on holds.

    Physical links have two directions; a route is a chain of links without a repeated router; and
    the routes from one source form a tree (where two have met a router, they came the same way), so
    that a multicast carries its bytes once a link. Cost: n_routers^2 routes.

    Raises:
        SlowpokeError: It does not hold; says where.

    >>> print(check_topology(Ring(5)))
    ring of 5
    """
    name, n = str(topology), topology.n_routers
    if not isinstance(topology, Topology):
        raise SlowpokeError(f"{name}: a topology has the members of slowpoke_mapping's Topology")
    links = np.asarray(topology.links)
    if n < 1 or links.ndim != 2 or links.shape[1] != 2:
        raise SlowpokeError(f"{name}: links is (n_links, 2) and there is at least one router")
    pairs = [(int(a), int(b)) for a, b in links]
    known = set(pairs)
    if len(known) < len(pairs):
        raise SlowpokeError(f"{name}: a directed link is listed twice; list each pair once")
    for a, b in pairs:
        if not (0 <= a < n and 0 <= b < n) or a == b:
            raise SlowpokeError(f"{name}: link {a}->{b} must join two of the routers 0 to {n - 1}")
        if (b, a) not in known:
            raise SlowpokeError(f"{name}: link {a}->{b} has no way back; list {b}->{a} too")
    for src in range(n):
        came_from: dict[int, int] = {}
        for dst in range(n):
            _check_route(topology, pairs, src, dst, came_from)
    if sorted(topology.order()) != list(range(n)):
        raise SlowpokeError(f"{name}: order() lists every router once")
    if np.shape(topology.positions()) != (n, 2):
        raise SlowpokeError(f"{name}: positions() is ({n}, 2)")
    return topology


def _check_route(
    topology: Topology,
    pairs: list[tuple[int, int]],
    src: int,
    dst: int,
    came_from: dict[int, int],
) -> None:
    here, seen = src, {src}
    for link in topology.route(src, dst):
        if not 0 <= link < len(pairs) or pairs[link][0] != here:
            raise SlowpokeError(f"{topology}: the route {src}->{dst} breaks off at router {here}")
        here = pairs[link][1]
        if here in seen:
            raise SlowpokeError(f"{topology}: the route {src}->{dst} passes router {here} twice")
        seen.add(here)
        if came_from.setdefault(here, link) != link:
            raise SlowpokeError(
                f"{topology}: routes from router {src} reach router {here} in two ways; they must "
                "form a tree"
            )
    if here != dst:
        raise SlowpokeError(f"{topology}: the route {src}->{dst} ends at router {here}")


TOPOLOGIES: dict[str, Callable[..., Topology]] = {
    "mesh": Mesh,
    "torus": Torus,
    "ring": Ring,
    "dragonfly": Dragonfly,
}
"""Names for command lines and files; each takes the integers of its spec."""


_EXAMPLES = {
    "mesh": "mesh:4x4",
    "torus": "torus:4x4",
    "ring": "ring:8",
    "dragonfly": "dragonfly:9x4x2",
}


def parse_topology(spec: str) -> Topology:
    """The topology of a text such as `mesh:4x4`.

    Raises:
        SlowpokeError: Unknown name, or sizes that do not fit it.

    >>> parse_topology("mesh:4x2")
    Mesh(width=4, height=2)
    """
    name, _, sizes = spec.strip().lower().partition(":")
    maker = TOPOLOGIES.get(name)
    if maker is None:
        raise SlowpokeError(f"{spec!r}: unknown topology; choose one of {', '.join(TOPOLOGIES)}")
    try:
        numbers = [int(part) for part in sizes.split("x")]
        return maker(*numbers)
    except SlowpokeError:
        raise
    except (ValueError, TypeError):
        raise SlowpokeError(
            f"{spec!r}: the sizes of a {name} are whole numbers joined by x, such as "
            f"{_EXAMPLES[name]}"
        ) from None
