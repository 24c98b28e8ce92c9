"""Better cuts between layer groups: merge two, split one, move a border, as long as it helps.

The dynamic programme that made the cuts knows no placement; here every group in question is placed
and judged with its real traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from slowpoke_mapping.mapping import LayerGroup
from slowpoke_mapping.search import Surroundings, fits, value_of_group
from slowpoke_mapping.segment import MAX_GROUP_LAYERS, Weights

Cut = tuple[int, int]

MAX_ROUNDS = 4


def better_cuts(
    cuts: Sequence[Cut],
    around: Surroundings,
    worth: Weights,
    place: Callable[[int, int], LayerGroup],
    must_fit: bool = False,
) -> list[Cut]:
    """Cuts that are at least as good.

    Args:
        cuts: (first, last) operators of each group, in order.
        around: The rest of the mapping.
        worth: Of cycles and energy.
        place: Makes a group of operators first..last.
        must_fit: Refuse new groups whose weights do not stay on the chip.

    Cost: a few placements for each group and round.
    """
    known: dict[Cut, float] = {}
    longest = min(2 * len(around.usable), MAX_GROUP_LAYERS)

    def value(first: int, last: int) -> float:
        if (first, last) not in known:
            if last - first + 1 > longest:
                return float("inf")
            group = place(first, last)
            if must_fit and last > first and not fits(around, group):
                known[first, last] = float("inf")
            else:
                known[first, last] = value_of_group(around, group, worth)
        return known[first, last]

    borders = [first for first, _ in cuts] + [cuts[-1][1] + 1]
    for _ in range(MAX_ROUNDS):
        changed = False
        i = 1
        while i < len(borders) - 1:
            left, here, right = borders[i - 1], borders[i], borders[i + 1]
            now = value(left, here - 1) + value(here, right - 1)
            best, move = now * (1 - 1e-9), here
            for to in (here - 1, here + 1, here - 2, here + 2):
                if left < to < right:
                    cost = value(left, to - 1) + value(to, right - 1)
                    if cost < best:
                        best, move = cost, to
            if value(left, right - 1) < best:
                borders.pop(i)
                changed = True
                continue
            if move != here:
                borders[i] = move
                changed = True
            i += 1
        i = 0
        while i < len(borders) - 1:
            left, right = borders[i], borders[i + 1]
            middle, best = 0, value(left, right - 1) * (1 - 1e-9)
            for to in range(left + 1, right):
                cost = value(left, to - 1) + value(to, right - 1)
                if cost < best:
                    middle, best = to, cost
            if middle:
                borders.insert(i + 1, middle)
                changed = True
            else:
                i += 1
        if not changed:
            break
    return [(a, b - 1) for a, b in pairwise(borders)]
