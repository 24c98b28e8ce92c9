"""Partitions: into which pieces an operator's output is cut, and what each choice costs its cores.

All factorisations of the number of cores over (b, k, h, w) are tried (Gemini, HPCA 2024). A choice
is judged by its largest piece: the cycles to compute it, and the cycles in which its input and its
share of weights pass the core's way in. The utilisation of a partition is the mean piece over the
largest; work is charged by each piece's own size, so the slowest piece takes work / (n x
utilisation).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.graph import FULL, Box, Edge, Operator
from slowpoke_mapping.mapping import Part
from slowpoke_mapping.ragged import Ints, offsets_of
from slowpoke_mapping.traffic import operator_work_macs

TRAFFIC_WEIGHT = 0.25
"""Cycles of delivery count this much even when computing hides them: they load the network."""


@lru_cache(maxsize=64)
def core_counts(n_cores: int) -> tuple[int, ...]:
    """Sizes of core groups that are tried: every one up to 64, then coarser.

    >>> core_counts(4)
    (1, 2, 3, 4)
    """
    steps = ((64, 1), (256, 8), (1024, 32), (65_536, 256))
    sizes, low = [], 1
    for high, step in steps:
        sizes += [n for n in range(low, min(high, n_cores) + 1) if n % step == 0]
        low = high + 1
    return tuple(sorted({*sizes, n_cores}))


@lru_cache(maxsize=64)
def _factorisations(counts: tuple[int, ...]) -> tuple[Ints, Ints]:
    """(m, 4) cuts (b, k, h, w), in order of their product, and offsets by position in `counts`."""
    rows: list[list[tuple[int, int, int, int]]] = []
    for n in counts:
        divisors = [d for d in range(1, n + 1) if n % d == 0]
        here = []
        for b in divisors:
            for k in divisors:
                if (n // b) % k:
                    continue
                rest = n // b // k
                here += [(b, k, h, rest // h) for h in divisors if rest % h == 0]
        rows.append(here)
    return (
        np.array([row for here in rows for row in here], dtype=np.int64),
        offsets_of(np.array([len(here) for here in rows])),
    )


@dataclass(frozen=True, slots=True)
class Choices:
    """Every partition of a bundle of operators, judged.

    Attributes:
        counts: Sizes of core groups.
        cuts: (m, 4) cuts (b, k, h, w), grouped by size.
        offsets: (len(counts) + 1,) choices for counts[i] are cuts[offsets[i]:offsets[i + 1]].
        cycles: (m,) largest of computing and delivery for one unit; infinite where not allowed.
        score: (m,) cycles and what the traffic adds.
    """

    counts: tuple[int, ...]
    cuts: Ints
    offsets: Ints
    cycles: NDArray[np.float64]
    score: NDArray[np.float64]

    def best(self, n: int) -> Part | None:
        """The best partition into exactly n pieces; None where there is none."""
        if n not in self.counts:
            return None
        i = self.counts.index(n)
        scores = self.score[self.offsets[i] : self.offsets[i + 1]]
        if len(scores) == 0 or not np.isfinite(scores.min()):
            return None
        return part_of(self.cuts[self.offsets[i] + int(scores.argmin())])

    def best_up_to(self, n: int) -> Part:
        """The best partition into at most n pieces."""
        table = self.table(n)
        size = int(np.flatnonzero(table == table[-1])[0]) + 1
        part = self.best(size)
        assert part is not None  # one piece is always allowed
        return part

    def table(self, n_cores: int) -> NDArray[np.float64]:
        """(n_cores,) score with at most 1, 2, ... cores."""
        result = np.full(n_cores, np.inf)
        for i, n in enumerate(self.counts):
            if n <= n_cores and self.offsets[i] < self.offsets[i + 1]:
                result[n - 1] = self.score[self.offsets[i] : self.offsets[i + 1]].min()
        return np.minimum.accumulate(result)


def part_of(cuts: Sequence[int] | Ints) -> Part:
    """The Part of cuts in the order (b, k, h, w)."""
    b, k, h, w = (int(c) for c in cuts)
    return Part(k=k, b=b, h=h, w=w)


def choices(
    operators: Iterable[Operator], chip: ChipConfig, units_per_batch: int, scale_b: int
) -> Choices:
    """Every partition that a bundle of operators on the same cores allows, judged.

    Args:
        operators: The bundle: they share cores and cuts.
        chip: Speeds and buffer.
        units_per_batch: Over how many units a weight read is spread.
        scale_b: Samples of a unit.
    """
    counts = core_counts(chip.n_cores)
    cuts, offsets = _factorisations(counts)
    compute = np.zeros(len(cuts))
    arrive = np.zeros(len(cuts))
    held = np.zeros(len(cuts))
    weights = np.zeros(len(cuts))
    allowed = np.ones(len(cuts), dtype=bool)
    vector_cost = chip.macs_per_cycle / chip.vector_ops_per_cycle
    for operator in operators:
        box = _scaled(operator.box, scale_b)
        fixed = [d for d in range(4) if d not in operator.partitionable]
        allowed &= (cuts <= box).all(axis=1) & (cuts[:, fixed] == 1).all(axis=1)
        length = -(-np.array(box) // cuts)
        share = length.prod(axis=1) / float(np.prod(box, dtype=np.float64))
        compute += operator_work_macs(operator, scale_b, vector_cost) * share
        inputs = sum(
            (_needed_length(edge, length, scale_b) for edge in operator.inputs),
            start=np.zeros(len(cuts)),
        )
        weight = operator.weight_elements * np.ones(len(cuts))
        for dim in operator.weight_dims:
            weight *= length[:, dim] / box[dim]
        arrive += inputs * chip.bytes_per_element
        weights += weight * chip.bytes_per_element
        held += (2 * inputs + weight + length.prod(axis=1)) * chip.bytes_per_element
    compute /= chip.macs_per_cycle
    refetched = held > chip.sram_bytes
    arrive += np.where(refetched, weights, weights / units_per_batch)
    arrive /= chip.link_bytes_per_cycle
    cycles = np.where(allowed, np.maximum(compute, arrive), np.inf)
    return Choices(counts, cuts, offsets, cycles, cycles + TRAFFIC_WEIGHT * arrive)


def _scaled(box: Box, scale_b: int) -> Box:
    return (box[0] * scale_b, *box[1:])


def _needed_length(edge: Edge, length: Ints, scale_b: int) -> NDArray[np.float64]:
    """(m,) elements of an input that a piece of the given extents needs, away from borders."""
    result = np.ones(len(length))
    for extent, window in zip(_scaled(edge.box, scale_b), edge.windows, strict=True):
        if window.dim == FULL:
            result *= extent
            continue
        steps = (length[:, window.dim] - 1) * window.num // window.den
        result *= np.clip(window.mult * steps + window.high - window.low, 0, extent)
    return result


def signature(operator: Operator) -> tuple[object, ...]:
    """Operators of one signature have the same choices."""
    return (
        operator.box, operator.macs, operator.vector_ops, operator.weight_elements,
        operator.weight_dims, operator.partitionable,
        tuple((edge.box, edge.windows) for edge in operator.inputs),
    )  # fmt: skip
