"""Where spatial defects strike: probability maps over a grid of cores (SLOTH section IV-A).

SLOTH projects four wafer-map failure patterns onto the core array and prints no formulas. These
follow the classes of public wafer-map collections (Center, Edge-Ring, Scratch, Random). The disc
of the wafer is laid onto the array by concentric squares: radius 0 is the centre, 1 the edge.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.topology import Topology

CENTER_WIDTH = 0.4
"""Standard deviation of Center, in radii."""
RING_WIDTH = 0.2
"""Standard deviation of Edge-Ring around radius 1."""
SCRATCH_WIDTH = 0.5
"""Half width of a scratch, in cores."""
BACKGROUND = 0.01
"""Of the peak: defects outside the pattern are rare, not impossible; 0 for Scratch."""

Map = NDArray[np.float64]


def coordinates(topology: Topology) -> tuple[Map, Map]:
    """(n_cores,) column and row of each core.

    Raises:
        SlowpokeError: The network is no grid.
    """
    if topology.columns is None:
        raise SlowpokeError(
            f"{topology} has no columns and rows: spatial patterns need a mesh or torus"
        )
    cores = np.arange(topology.n_routers)
    return (cores % topology.columns).astype(float), (cores // topology.columns).astype(float)


def radius(topology: Topology) -> Map:
    """(n_cores,) distance from the centre by concentric squares: 1 at the edge."""
    x, y = coordinates(topology)
    half_x, half_y = x.max() / 2, y.max() / 2
    parts = [
        abs(at - half) / half if half else np.zeros_like(at)
        for at, half in ((x, half_x), (y, half_y))
    ]
    distance: Map = np.maximum(*parts)
    return distance


def center(topology: Topology, rng: np.random.Generator) -> Map:
    """Falls off from the centre."""
    return _normal(np.exp(-0.5 * (radius(topology) / CENTER_WIDTH) ** 2) + BACKGROUND)


def edge_ring(topology: Topology, rng: np.random.Generator) -> Map:
    """Falls off from the edge inwards."""
    return _normal(np.exp(-0.5 * ((1 - radius(topology)) / RING_WIDTH) ** 2) + BACKGROUND)


def scratch(topology: Topology, rng: np.random.Generator) -> Map:
    """Cores within SCRATCH_WIDTH of a random straight line through a random core."""
    x, y = coordinates(topology)
    through, angle = rng.integers(topology.n_routers), rng.uniform(0, np.pi)
    across = abs((x - x[through]) * np.sin(angle) - (y - y[through]) * np.cos(angle))
    return _normal((across <= SCRATCH_WIDTH).astype(float))


def random(topology: Topology, rng: np.random.Generator) -> Map:
    """The same everywhere."""
    coordinates(topology)
    return _normal(np.ones(topology.n_routers))


PATTERNS: dict[str, Callable[[Topology, np.random.Generator], Map]] = {
    "center": center,
    "edge-ring": edge_ring,
    "scratch": scratch,
    "random": random,
}
"""Name -> (n_cores,) probabilities that sum to 1; a scratch is drawn anew for each case."""


def _normal(weight: Map) -> Map:
    total: Map = weight / weight.sum()
    return total
