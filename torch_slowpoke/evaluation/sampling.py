"""Where and when faults strike: samplers that data sets are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from slowpoke_mapping.places import Core, DramPort, Link, Place, Router
from torch_slowpoke.evaluation.spatial import PATTERNS
from torch_slowpoke.evaluation.workloads import World

Rng = np.random.Generator


class Places(Protocol):
    """Draws where the faults of a case strike; prints the same in every process."""

    def draw(self, rng: Rng, world: World, index: int) -> tuple[Place, ...]:
        """Places of case `index`, distinct pieces of hardware."""


class Times(Protocol):
    """Draws when a fault strikes; prints the same in every process."""

    def draw(self, rng: Rng) -> tuple[float, float]:
        """(start, end) as shares of the healthy run, 0 <= start < end <= 1."""


def core_turn(index: int, share: float) -> bool:
    """Whether case `index` is a core's: of the first n cases, floor(n x share) are.

    >>> sum(core_turn(i, 0.7) for i in range(10))
    7
    """
    # the small addend keeps 10 x 0.7 at 7
    return math.floor((index + 1) * share + 1e-9) > math.floor(index * share + 1e-9)


@dataclass(frozen=True, slots=True)
class CoresAndLinks:
    """One core or physical link, each alike, in a fixed ratio."""

    core_share: float

    def draw(self, rng: Rng, world: World, index: int) -> tuple[Place, ...]:
        """A core or a link, by the index."""
        chip = world.chip
        if core_turn(index, self.core_share):
            return (Core(int(rng.integers(chip.n_cores))),)
        return (chip.physical_links[rng.integers(len(chip.physical_links))],)


@dataclass(frozen=True, slots=True)
class SpatialPatterns:
    """One core or link by a pattern's map; a link has the mean probability of its ends.

    Attributes:
        patterns: Names of PATTERNS.
        per_pattern: Cases of each, one pattern after another.
        core_share: Share of cores; as in slowpoke-152 (SLOTH prints none).
    """

    patterns: tuple[str, ...]
    per_pattern: int
    core_share: float = 0.7

    def pattern(self, index: int) -> str:
        """The pattern of a case."""
        return self.patterns[index // self.per_pattern % len(self.patterns)]

    def draw(self, rng: Rng, world: World, index: int) -> tuple[Place, ...]:
        """A place by the map of the case's pattern."""
        chip = world.chip
        p = PATTERNS[self.pattern(index)](chip.network, rng)
        if core_turn(index, self.core_share):
            return (Core(int(rng.choice(chip.n_cores, p=p))),)
        links = chip.physical_links
        weight = np.array([p[link.src] + p[link.dst] for link in links])
        return (links[rng.choice(len(links), p=weight / weight.sum())],)


@dataclass(frozen=True, slots=True)
class HotCores:
    """A core with probability in proportion to its utilisation in the healthy run (SLOTH IV-A)."""

    def draw(self, rng: Rng, world: World, index: int) -> tuple[Place, ...]:
        """A core; idle ones never."""
        p = world.utilisation / world.utilisation.sum()
        return (Core(int(rng.choice(len(p), p=p))),)


@dataclass(frozen=True, slots=True)
class OneWayLinks:
    """One direction of a link; the other is healthy."""

    def draw(self, rng: Rng, world: World, index: int) -> tuple[Place, ...]:
        """A directed link, each alike."""
        links = world.chip.network.links
        src, dst = links[rng.integers(len(links))]
        return (Link(int(src), int(dst)),)


@dataclass(frozen=True, slots=True)
class Routers:
    """One router: all of its links at once."""

    def draw(self, rng: Rng, world: World, index: int) -> tuple[Place, ...]:
        """A router, each alike."""
        return (Router(int(rng.integers(world.chip.network.n_routers))),)


@dataclass(frozen=True, slots=True)
class DramPorts:
    """One DRAM port."""

    def draw(self, rng: Rng, world: World, index: int) -> tuple[Place, ...]:
        """A port, each alike."""
        return (DramPort(int(rng.integers(len(world.chip.dram_ports)))),)


@dataclass(frozen=True, slots=True)
class Several:
    """Several distinct cores and links at once, their number by turns."""

    counts: tuple[int, ...] = (2, 3)

    def draw(self, rng: Rng, world: World, index: int) -> tuple[Place, ...]:
        """Distinct places, cores and links with equal chance."""
        chip = world.chip
        wanted, chosen = self.counts[index % len(self.counts)], dict[Place, None]()
        while len(chosen) < min(wanted, chip.n_cores):
            place: Core | Link = Core(int(rng.integers(chip.n_cores)))
            if chip.physical_links and rng.random() < 0.5:
                place = chip.physical_links[rng.integers(len(chip.physical_links))]
            chosen[place] = None
        return tuple(chosen)


@dataclass(frozen=True, slots=True)
class UniformTimes:
    """Onset and duration uniform up to the whole run, cut at its end (SlowPoke section 4.1)."""

    def draw(self, rng: Rng) -> tuple[float, float]:
        """(start, end) as shares of the run."""
        start, length = rng.random(), 1.0 - rng.random()
        return start, min(start + length, 1.0)


@dataclass(frozen=True, slots=True)
class LogUniformTimes:
    """Onset uniform, duration log-uniform from `shortest` to the whole run, cut at its end."""

    shortest: float = 1e-3

    def draw(self, rng: Rng) -> tuple[float, float]:
        """(start, end) as shares of the run."""
        start = rng.random()
        length = math.exp(rng.uniform(math.log(self.shortest), 0.0))
        return start, min(start + length, 1.0)
