"""The on-chip network: routers, directed links, and one deterministic route for each pair.

Core i sits at router i. A topology knows only routers and the links between them; the injection and
ejection channels of the cores belong to the chip (`slowpoke_mapping.chip`).
"""

from __future__ import annotations

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
        return {(int(a), int(b)): i for i, (a, b) in enumerate(self.links)}

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


TOPOLOGIES: dict[str, Callable[..., Topology]] = {"mesh": Mesh}
"""Names for command lines and files; each takes the integers of its spec."""


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
            f"{spec!r}: the sizes of a {name} are whole numbers joined by x, such as mesh:4x4"
        ) from None
