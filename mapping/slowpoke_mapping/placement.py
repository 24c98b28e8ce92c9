"""Placing a layer group: how many cores each bundle of layers gets, which, and how they are cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.mapping import LayerGroup, LayerMapping, Part
from slowpoke_mapping.partition import Choices
from slowpoke_mapping.ragged import Ints
from slowpoke_mapping.segment import SegmentProblem, allocate, bundle_roots


def usable_order(chip: ChipConfig, core_speed: NDArray[np.float64]) -> Ints:
    """Cores in the topology's snake order, without those that would hold the others back.

    Equal pieces run at the slowest core's speed, so the m fastest cores are worth m times the
    m-th speed; the m that is worth most is used.
    """
    order = np.array(chip.network.order(), dtype=np.int64)
    fastest_first = np.sort(core_speed)[::-1]
    worth = fastest_first * np.arange(1, len(order) + 1)
    bound = fastest_first[int(worth.argmax())]
    chosen: Ints = order[core_speed[order] >= bound]
    return chosen


def check_speeds(speeds: Sequence[float] | None, n: int, what: str) -> NDArray[np.float64]:
    """Speed factors as an array; ones where nothing is given.

    Raises:
        SlowpokeError: Not n finite numbers >= 0 with one above 0.
    """
    if speeds is None:
        return np.ones(n)
    result = np.asarray(speeds, dtype=np.float64)
    if result.shape != (n,) or not np.all(np.isfinite(result)) or result.min() < 0:
        raise SlowpokeError(
            f"{what}: {n} finite factors >= 0 are needed, one each (1 is nominal, 0.1 ten times "
            f"slower); got {result.size} of shape {result.shape}"
        )
    if n and result.max() <= 0:
        raise SlowpokeError(f"{what}: every factor is 0; at least one must be above 0")
    return result


def bundles(problem: SegmentProblem, first: int, last: int) -> list[list[int]]:
    """Operators first..last in bundles that share cores, each with its head first."""
    root = np.empty(last - first + 1, dtype=np.int64)
    n = bundle_roots(problem.leader, first, last, root)
    return [[first + int(i) for i in np.flatnonzero(root == b)] for b in range(n)]


def place_group(
    problem: SegmentProblem,
    first: int,
    last: int,
    order: Ints,
    choices_of: Callable[[tuple[int, ...]], Choices],
) -> LayerGroup:
    """Operators first..last on cores, in proportion to their work, neighbours close together.

    Args:
        problem: The graph, as arrays.
        first: First operator of the group.
        last: Its last.
        order: Cores that may be used, in the order they are given out.
        choices_of: Partitions of a bundle.
    """
    members = bundles(problem, first, last)
    work = np.array([problem.work_macs[ops].sum() for ops in members])
    if len(members) > len(order):
        return _shared(members, work, order)
    cores = np.ones(len(members), dtype=np.int64)
    heads = np.array([ops[0] for ops in members], dtype=np.int64)
    allocate(work, problem.work_macs[heads], problem.score, heads, len(order), cores)
    layers: list[LayerMapping] = []
    at = 0
    for ops, n in zip(members, cores, strict=True):
        part = choices_of(tuple(ops)).best_up_to(int(n))
        chosen = tuple(int(c) for c in order[at : at + part.n_pieces])
        at += part.n_pieces
        layers += [LayerMapping(op, part, chosen) for op in ops]
    return LayerGroup(tuple(sorted(layers, key=lambda layer: layer.operator)))


def _shared(members: list[list[int]], work: NDArray[np.float64], order: Ints) -> LayerGroup:
    """More bundles than cores: neighbours share a core, about the same work on each."""
    middle = np.cumsum(work) - work / 2
    core = np.minimum((middle / work.sum() * len(order)).astype(np.int64), len(order) - 1)
    layers = [
        LayerMapping(op, Part(), (int(order[c]),))
        for ops, c in zip(members, core, strict=True)
        for op in ops
    ]
    return LayerGroup(tuple(sorted(layers, key=lambda layer: layer.operator)))
