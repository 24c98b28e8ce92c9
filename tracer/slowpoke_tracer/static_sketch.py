"""The static mode of the sketch: one slot for each pattern, without hashing or threshold.

The compiler of a static mapping knows every key, so a record's slot is part of its probe. What a
slot holds is in `slowpoke_tracer.layout`.

The compiled loops allocate nothing, so `_nrt=False` keeps numba from counting references to the
arrays at every record (measured: 160 ns a record with the counting, 34 ns without).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.compiled import compiled_untyped
from slowpoke_tracer.layout import LOG_CODE_MAX, LOG_STEPS, MIN_DURATION_CYCLES

EMPTY_MIN = LOG_CODE_MAX + 1
"""Code of the minimum of an empty cell while recording."""
NO_LIMIT = 2**62
"""Records of a cell whose count the compiler knows: nothing is stored that could overflow."""


class Cells:
    """Slots with their epoch cells, as the recorder fills them.

    Attributes:
        count: (n, n_cells) records.
        log_sum: (n, n_cells) sum of codes of ln(duration).
        log_min: (n, n_cells) smallest code; EMPTY_MIN in empty cells.
        log_max: (n, n_cells) largest code; -1 in empty cells.
        sums: (n, 2) float32: sum of durations, sum of squared durations.
        times: (n, 2) first start, last end; inf, -inf while empty.
        arrays: All of them, in the order in which the compiled functions take them.
    """

    def __init__(self, n_slots: int, n_cells: int):
        shape = (n_slots, n_cells)
        self.count = np.zeros(shape, np.int64)
        self.log_sum = np.zeros(shape, np.int64)
        self.log_min = np.full(shape, EMPTY_MIN, np.int32)
        self.log_max = np.full(shape, -1, np.int32)
        self.sums = np.zeros((n_slots, 2), np.float32)
        self.times = np.empty((n_slots, 2))
        self.times[:] = np.inf, -np.inf
        self.arrays: tuple[NDArray[Any], ...] = (
            self.count, self.log_sum, self.log_min, self.log_max, self.sums, self.times,
        )  # fmt: skip


@compiled_untyped
def log_code(duration_cycles: float) -> int:
    """round(2048 ln(duration)), of a duration of at least one cycle."""
    code = math.floor(LOG_STEPS * math.log(duration_cycles) + 0.5)
    return min(code, LOG_CODE_MAX)


@compiled_untyped
def update_cell(arrays, slot, cell, start, end, most):  # type: ignore[no-untyped-def]
    """Fold one record into its slot; constant cost. A cell takes `most` records into its sum."""
    count, log_sum, log_min, log_max, sums, times = arrays
    duration = max(end - start, MIN_DURATION_CYCLES)
    code = log_code(duration)
    if count[slot, cell] < most:
        # Count and sum stop together, so that the mean of a full cell stays right.
        count[slot, cell] += 1
        log_sum[slot, cell] += code
    if code < log_min[slot, cell]:
        log_min[slot, cell] = code
    if code > log_max[slot, cell]:
        log_max[slot, cell] = code
    # float32 as on the chip: every addition rounds.
    sums[slot, 0] = sums[slot, 0] + np.float32(duration)
    sums[slot, 1] = sums[slot, 1] + np.float32(duration * duration)
    if start < times[slot, 0]:
        times[slot, 0] = start
    if end > times[slot, 1]:
        times[slot, 1] = end


@compiled_untyped
def insert_static(arrays, slot_of_key, keys, epochs, starts, ends, n):  # type: ignore[no-untyped-def]
    """Fold n records into the slots of their keys; those without a slot (-1) are left out."""
    for i in range(n):
        slot = slot_of_key[keys[i]]
        if slot >= 0:
            update_cell(arrays, slot, epochs[i], starts[i], ends[i], NO_LIMIT)


class StaticSketch:
    """A slot table; cost of a record is constant, memory n_slots x n_epochs.

    Args:
        slot_of_key: (n_keys,) slot of each key, -1 for keys without one.
        n_epochs: Cells of a slot.
    """

    def __init__(self, slot_of_key: NDArray[np.int64], n_epochs: int):
        self.slot_of_key = slot_of_key
        self.cells = Cells(int(slot_of_key.max(initial=-1)) + 1, n_epochs)

    def insert(
        self,
        keys: NDArray[np.int64],
        epochs: NDArray[np.int64],
        starts: NDArray[np.float64],
        ends: NDArray[np.float64],
        n: int,
    ) -> None:
        """Fold the first n records in."""
        insert_static(self.cells.arrays, self.slot_of_key, keys, epochs, starts, ends, n)
