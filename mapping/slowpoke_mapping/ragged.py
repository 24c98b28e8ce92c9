"""Ragged arrays: rows of different length, kept as offsets and values (CSR)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def offsets_of(counts: Ints) -> Ints:
    """(n + 1,) offsets of rows with the given lengths.

    >>> offsets_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    result = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=result[1:])
    return result


def positions_within(counts: Ints) -> Ints:
    """0, 1, ... within each row, for rows of the given lengths.

    >>> positions_within(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(offsets_of(counts)[:-1], counts)


def take_rows(offsets: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Where the values of the given rows lie, and how many each row has.

    Returns:
        indices: Into the values, row after row; rows may repeat.
        counts: (len(rows),) length of each.
    """
    counts = offsets[rows + 1] - offsets[rows]
    return np.repeat(offsets[rows], counts) + positions_within(counts), counts


def rows_by_key(keys: Ints, n_rows: int) -> tuple[Ints, Ints]:
    """A stable order that sorts `keys`, and the offsets of each key's row."""
    order = np.argsort(keys, kind="stable")
    return order, offsets_of(np.bincount(keys, minlength=n_rows).astype(np.int64))


def unique_rows(rows: Ints) -> tuple[Ints, Ints]:
    """Index of the first of each distinct row of an (n, m) array, and each row's distinct number.

    Distinct rows are numbered in lexicographic order. Cost grows as n log n.
    """
    n = len(rows)
    if n == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.ones(n, dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    inverse = np.empty(n, dtype=np.int64)
    inverse[order] = np.cumsum(new) - 1
    return order[new], inverse
