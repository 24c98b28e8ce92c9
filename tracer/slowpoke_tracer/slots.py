"""Which patterns share a slot where a core has more patterns than slots.

The compiler knows all patterns of a program, so it can decide before the run. Patterns of a core
are coarsened step by step until they fit: first messages of one tensor between the same two places
share a slot whatever their size, then all messages between the two places in one layer group
(SlowPoke's stage level, section 3.2), then those of 2, 4, 8, ... neighbouring groups. Each class of
patterns has its own step, and the class with most slots is coarsened first, so that computations
and quiet classes stay as fine as they are. The messages of a slot keep one route throughout: link
detection lives on that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slowpoke_tracer.patterns import COMPUTE, PORT, Patterns, grouped

MAX_SLOTS = 152
"""Slots of one core that the compiler gives out by default: with 8 epochs 12,224 bytes."""

_KEY = np.dtype(
    [("recorder", "i4"), ("kind", "u1"), ("group", "i4"), ("op", "i4"), ("src", "i4"),
     ("dst", "i4"), ("role", "i4"), ("work", "f8"), ("n_once", "i4"), ("n_per_unit", "i4")]
)  # fmt: skip
_ORDER = ("recorder", "kind", "group", "op", "src", "dst", "role", "work")
_N_CLASSES = 5


def shared(patterns: Patterns, max_slots: int) -> Patterns:
    """The patterns of a program with at most max_slots a core, as far as coarsening goes.

    A row that stands for several patterns has the group, operator and role of the first of them,
    and the mean of their work over their records. Cost: n_patterns log n_patterns a step, and
    log2(n_groups) steps. A core whose patterns have more sources than slots stays above the limit.
    """
    table = patterns.table
    if not len(table) or np.bincount(table["recorder"]).max() <= max_slots:
        return patterns
    which = _classes(table)
    n_cores = int(table["recorder"].max()) + 1
    n_levels = 3 + int(table["group"].max()).bit_length()
    counts = np.zeros((n_levels, n_cores, _N_CLASSES), np.int64)
    for level in range(n_levels):
        keys, number = grouped(_keys(table, np.full(len(table), level)), _ORDER)
        first = np.zeros(len(keys), np.int64)
        first[number[::-1]] = np.arange(len(table))[::-1]
        np.add.at(counts[level], (keys["recorder"], which[first]), 1)
    level_of = np.zeros((n_cores, _N_CLASSES), np.int64)
    for core in range(n_cores):
        level_of[core] = _levels(counts[:, core], max_slots)
    level = level_of[table["recorder"], which]
    _, number = grouped(_keys(table, level), _ORDER)
    return _joined(patterns, number)


def _classes(table: NDArray[np.void]) -> NDArray[np.int64]:
    """(n,) computations, messages between cores, reads, writes, port times."""
    read, write = table["src"] < 0, table["dst"] < 0
    return np.select(
        [table["kind"] == COMPUTE, table["kind"] == PORT, read, write], [0, 4, 2, 3], 1
    )


def _keys(table: NDArray[np.void], level: NDArray[np.int64]) -> NDArray[np.void]:
    """What rows that share a slot at their level agree in."""
    keys = np.zeros(len(table), _KEY)
    for name in ("recorder", "kind", "src", "dst", "n_once", "n_per_unit"):
        keys[name] = table[name]
    keys["group"] = table["group"] >> np.maximum(level - 2, 0)
    keys["op"] = np.where(level < 2, table["op"], -1)
    keys["role"] = np.where(level < 1, table["role"].astype(np.int32), -1)
    keys["work"] = np.where(level < 1, table["work"], 0.0)
    return keys


def _levels(counts: NDArray[np.int64], max_slots: int) -> NDArray[np.int64]:
    """Step of each class, from (n_levels, n_classes) slots that it needs at each."""
    level = np.zeros(counts.shape[1], np.int64)
    classes = np.arange(counts.shape[1])
    while counts[level, classes].sum() > max_slots:
        open_ = level < len(counts) - 1
        if not open_.any():
            break
        level[np.argmax(np.where(open_, counts[level, classes], -1))] += 1
    return level


def _joined(patterns: Patterns, number: NDArray[np.int64]) -> Patterns:
    """Patterns that bear the same number become one."""
    table = patterns.table
    n = int(number.max()) + 1
    first = np.zeros(n, np.int64)
    first[number[::-1]] = np.arange(len(table))[::-1]
    rows = table[first]
    records = table["n_once"] + table["n_per_unit"].astype(np.float64)
    total = np.bincount(number, records, n)
    several = np.bincount(number, minlength=n) > 1
    mean = np.bincount(number, records * table["work"], n) / total
    rows["work"][several] = mean[several]
    for name in ("n_once", "n_per_unit"):
        rows[name] = np.bincount(number, table[name], n)
    order = np.lexsort([rows[name] for name in reversed(_ORDER)])
    place = np.empty(n + 1, np.int64)
    place[order], place[n] = np.arange(n), -1  # the last: -1 stays -1
    number = place[np.append(number, n)]
    return Patterns(rows[order], number[patterns.of_event], number[patterns.port_of_event])
