"""Where to draw what: routers, links and DRAM ports of a chip, whatever its topology."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.places import DramPort, Link, Place

LANE = 0.07
"""The two directions of a link are drawn this far from its axis, in spacings of routers."""
CORE_HALF = 0.28
PORT_DISTANCE = 0.75
MARGIN = 0.6
BENT_FROM = 1.5
"""Longer links (wrap-around, global) are drawn as arcs, in spacings of routers."""


@dataclass(frozen=True, eq=False)
class Geometry:
    """Positions with the closest two routers one apart; y grows downward, as rows do.

    Attributes:
        routers: (n_routers, 2) centres.
        segments: (n_links, 2, 2) start and end of each directed link, beside the axis.
        bent: (n_links,) links that are drawn as arcs.
        ports: (n_ports, 2) centres of the DRAM ports, outward of their routers.
        port_routers: (n_ports,) router of each port.
    """

    routers: NDArray[np.float64]
    segments: NDArray[np.float64]
    bent: NDArray[np.bool_]
    ports: NDArray[np.float64]
    port_routers: NDArray[np.int64]
    links: NDArray[np.int32]
    core_half: float = CORE_HALF

    @staticmethod
    def of(chip: ChipConfig) -> Geometry:
        """The geometry of a chip; cost n_links, and n_routers squared where there is no grid."""
        network = chip.network
        routers = np.asarray(network.positions(), float)
        links = np.asarray(network.links).reshape(-1, 2)
        routers = routers / _spacing(routers, links, network.columns is not None)
        ends = routers[links]
        along = ends[:, 1] - ends[:, 0]
        length = np.hypot(along[:, 0], along[:, 1])
        unit = along / np.maximum(length, 1e-12)[:, None]
        beside = np.stack([-unit[:, 1], unit[:, 0]], axis=1) * LANE
        port_routers = np.array(chip.dram_ports, dtype=np.int64)
        return Geometry(
            routers=routers,
            segments=ends + beside[:, None, :],
            bent=length > BENT_FROM,
            ports=_outward(routers, port_routers, network.columns is not None),
            port_routers=port_routers,
            links=links,
        )

    @property
    def bounds(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """((left, right), (top, bottom)) with a margin."""
        points = np.concatenate([self.routers, self.ports])
        low, high = points.min(axis=0) - MARGIN, points.max(axis=0) + MARGIN
        return (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))

    @property
    def size(self) -> tuple[float, float]:
        """(width, height) in spacings of routers."""
        (left, right), (top, bottom) = self.bounds
        return right - left, bottom - top

    def centre(self, place: Place) -> tuple[float, float]:
        """Where a place is: a router's centre, a port's, or the middle of a link."""
        match place:
            case Link():
                point = self.routers[[place.src, place.dst]].mean(axis=0)
            case DramPort():
                point = self.ports[place.id]
            case _:
                point = self.routers[place.id]
        return float(point[0]), float(point[1])

    def port_rotation(self, port: int) -> float:
        """Angle of a port's name: upright beside the chip, level above and below it."""
        dx, dy = np.abs(self.ports[port] - self.routers[self.port_routers[port]])
        return 90.0 if dx > dy else 0.0


def _spacing(routers: NDArray[np.float64], links: NDArray[np.int32], is_grid: bool) -> float:
    if is_grid or len(routers) < 2:
        return 1.0
    ends = routers[links]
    lengths = np.hypot(*(ends[:, 1] - ends[:, 0]).T)
    apart = np.hypot(*(routers[:, None] - routers[None]).transpose(2, 0, 1))
    closest = float(apart[apart > 0].min(initial=np.inf))
    return min(closest, float(lengths[lengths > 0].min(initial=np.inf)), 1e12)


def _outward(
    routers: NDArray[np.float64], port_routers: NDArray[np.int64], is_grid: bool
) -> NDArray[np.float64]:
    """Beside each port's router, away from the middle of the chip."""
    low, high = routers.min(axis=0), routers.max(axis=0)
    result = np.empty((len(port_routers), 2))
    for i, router in enumerate(port_routers):
        here = routers[router]
        away = here - (low + high) / 2
        if is_grid:  # leave by the nearest edge: west and east before north and south
            gaps = np.array([here[0] - low[0], high[0] - here[0], here[1] - low[1],
                             high[1] - here[1]])  # fmt: skip
            away = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]], float)[int(np.argmin(gaps))]
        norm = float(np.hypot(*away))
        result[i] = here + PORT_DISTANCE * (away / norm if norm > 0 else np.array([-1.0, 0.0]))
    return result
