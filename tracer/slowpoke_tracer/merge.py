"""Merging of sketches: of cores, of parts of a run, and of epochs, where that is defined.

Cells hold counts, sums, minima and maxima, so two sketches of the same program with the same epochs
merge cell by cell. In static mode that is exactly the sketch of both streams together (sums of
durations, kept in float, to their rounding). In hash mode it is a lower bound: what one of the two
had not promoted is in neither, and Stage-1 is not merged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_tracer.patterns import ORDER
from slowpoke_tracer.sketch import Sketch


def merge(sketches: Sequence[Sketch]) -> Sketch:
    """One sketch of several of the same program: of different cores, or of parts of a run.

    Raises:
        SlowpokeError: None is given, or they differ in program, mode, epochs or layout.
    """
    if not sketches:
        raise SlowpokeError("no sketch was given to merge; give at least one")
    first = sketches[0]
    for other in sketches[1:]:
        for what, mine, theirs in (
            ("program", first.meta.program_fingerprint, other.meta.program_fingerprint),
            ("mode", first.mode, other.mode),
            ("number of epochs", first.n_epochs, other.n_epochs),
            ("bytes of a pattern", first.slot_nbytes, other.slot_nbytes),
        ):
            if mine != theirs:
                raise SlowpokeError(
                    f"sketches of different {what} ({mine} and {theirs}) do not merge; record them "
                    "with the same program and configuration"
                )
    rows = np.concatenate([sketch.patterns for sketch in sketches])
    patterns, row = np.unique(rows[list(ORDER)], return_inverse=True)
    where = np.zeros(len(patterns), np.int64)
    where[row[::-1]] = np.arange(len(rows))[::-1]
    n, n_epochs = len(patterns), first.n_epochs

    def folded(name: str, how: np.ufunc, start: float) -> NDArray[Any]:
        parts = np.concatenate([getattr(sketch, name) for sketch in sketches])
        result = np.full((n, *parts.shape[1:]), start, parts.dtype)
        how.at(result, row, parts)
        return result

    def over_sketches(name: str, how: np.ufunc) -> NDArray[Any]:
        return np.asarray(how.reduce([getattr(sketch, name) for sketch in sketches]))

    n_slots = [_slots(sketch) for sketch in sketches]
    fixed = np.max(
        [
            sketch.nbytes_per_core - slots * sketch.slot_nbytes
            for sketch, slots in zip(sketches, n_slots, strict=True)
        ],
        axis=0,
    )
    merged = dataclasses.replace(
        first,
        patterns=rows[where],
        count=folded("count", np.add, 0),
        missed=folded("missed", np.add, 0),
        log_sum=folded("log_sum", np.add, 0),
        log_min=folded("log_min", np.minimum, np.inf),
        log_max=folded("log_max", np.maximum, -np.inf),
        duration_sum=folded("duration_sum", np.add, 0),
        duration_sum_squares=folded("duration_sum_squares", np.add, 0),
        first_cycles=folded("first_cycles", np.fmin, np.nan),
        last_cycles=folded("last_cycles", np.fmax, np.nan),
        epoch_start_cycles=over_sketches("epoch_start_cycles", np.fmin),
        epoch_end_cycles=over_sketches("epoch_end_cycles", np.fmax),
        n_records=sum(sketch.n_records for sketch in sketches),
        n_records_kept=sum(sketch.n_records_kept for sketch in sketches),
        raw_records=over_sketches("raw_records", np.add),
        n_evicted=sum(sketch.n_evicted for sketch in sketches),
        n_saturated=sum(sketch.n_saturated for sketch in sketches),
        n_clamped=sum(sketch.n_clamped for sketch in sketches),
        reserved_nbytes_per_core=over_sketches("reserved_nbytes_per_core", np.maximum),
    )
    assert merged.count.shape == (n, n_epochs)
    return dataclasses.replace(merged, nbytes_per_core=fixed + _slots(merged) * first.slot_nbytes)


def _slots(sketch: Sketch) -> NDArray[np.int64]:
    return np.bincount(sketch.patterns["recorder"], minlength=len(sketch.nbytes_per_core))


def merge_epochs(sketch: Sketch, n_epochs: int) -> Sketch:
    """The same sketch with fewer epochs: what recording with n_epochs would have given.

    Its bytes stay those of the sketch that was recorded: the cores held them.

    Raises:
        SlowpokeError: n_epochs does not divide the sketch's number of epochs, so that epochs would
            be cut in two.
    """
    if n_epochs < 1 or sketch.n_epochs % n_epochs:
        raise SlowpokeError(
            f"{sketch.n_epochs} epochs merge into a divisor of {sketch.n_epochs}, not {n_epochs}"
        )

    def cells(values: NDArray[Any]) -> NDArray[Any]:
        return values.reshape(*values.shape[:-1], n_epochs, -1)

    return dataclasses.replace(
        sketch,
        count=cells(sketch.count).sum(axis=-1),
        log_sum=cells(sketch.log_sum).sum(axis=-1),
        log_min=cells(sketch.log_min).min(axis=-1),
        log_max=cells(sketch.log_max).max(axis=-1),
        epoch_start_cycles=np.fmin.reduce(cells(sketch.epoch_start_cycles), axis=-1),
        epoch_end_cycles=np.fmax.reduce(cells(sketch.epoch_end_cycles), axis=-1),
    )
