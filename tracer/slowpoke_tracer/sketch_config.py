"""The recorder's parameters, and their choice for a budget of bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program
from slowpoke_tracer import layout
from slowpoke_tracer.patterns import PORT, Patterns, run_records
from slowpoke_tracer.slots import MAX_SLOTS, shared

HASH_LENGTH = 512
"""Patterns of a core's Stage-2 by default."""


@dataclass(frozen=True, slots=True)
class SketchConfig:
    """How a core stores what its probes saw (SlowPoke section 3.3; design.md section 7).

    Every size is that of one core: a core has only its own memory.

    Attributes:
        mode: `static`: the compiler knows every key, each pattern has a slot. `hash`: Algorithm 1.
        n_epochs: Cells of each pattern over the run, >= 1.
        n_tables: Hash tables d of Stage-1, >= 1.
        n_buckets: Buckets m of each table, >= 1.
        threshold: Frequency H at which a pattern is promoted to Stage-2, 1 to 65535.
        max_length: Most patterns of one core's Stage-2 list (MAX_LENGTH), or slots of one core;
            None for 512 (the papers' 8192 over 16 cores) or `slots.MAX_SLOTS`.
        eviction: What a full Stage-2 drops: the earliest pattern (`fifo`, SlowPoke), the one whose
            worst record stands out least (`healthiest`, SLOTH), or the one not updated for longest.
        key: `operator`: location, footprint, kind and the operator's tag. `footprint`: without the
            tag, as in the papers: equal pieces of several operators are one pattern.
        epoch_in_key: hash mode: each epoch of a pattern is a key of its own, with one cell.
        budget_bytes: Memory of one core for lists and slots; what does not fit is offloaded to
            DRAM. None for a quarter of the chip's scratchpad.
        seed: Of the hash functions.
    """

    mode: Literal["static", "hash"] = "static"
    n_epochs: int = 8
    n_tables: int = 3
    n_buckets: int = 512
    threshold: int = 10
    max_length: int | None = None
    eviction: Literal["fifo", "healthiest", "oldest_update"] = "fifo"
    key: Literal["operator", "footprint"] = "operator"
    epoch_in_key: bool = False
    budget_bytes: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.mode not in ("static", "hash"):
            raise SlowpokeError(f"sketch mode {self.mode!r}: static or hash")
        if self.eviction not in ("fifo", "healthiest", "oldest_update"):
            raise SlowpokeError(f"eviction {self.eviction!r}: fifo, healthiest or oldest_update")
        if self.key not in ("operator", "footprint"):
            raise SlowpokeError(f"sketch key {self.key!r}: operator or footprint")
        for name in ("n_epochs", "n_tables", "n_buckets", "threshold", "max_length"):
            value = getattr(self, name)
            if name == "max_length" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise SlowpokeError(f"sketch {name} = {value!r}: a whole number >= 1")
        if self.threshold > layout.COUNT_MAX:
            raise SlowpokeError(
                f"sketch threshold = {self.threshold}: counters saturate at {layout.COUNT_MAX}, "
                "choose one up to that"
            )

    @property
    def length(self) -> int:
        """Patterns that one core can hold."""
        if self.max_length is not None:
            return self.max_length
        return MAX_SLOTS if self.mode == "static" else HASH_LENGTH

    def patterns(self, program: Program) -> Patterns:
        """The program's patterns, with this key; in static mode some share a slot."""
        max_slots = self.length if self.mode == "static" else None
        return _patterns(program, self.key == "footprint", max_slots)

    def budget_of(self, program: Program) -> float:
        """Bytes of one core for lists and slots."""
        if self.budget_bytes is not None:
            return self.budget_bytes
        return program.chip.scratchpad_bytes / 4

    @property
    def slot_nbytes(self) -> int:
        """Bytes of one pattern: a slot of static mode, an entry of Stage-2 of hash mode."""
        if self.mode == "static":
            return layout.nbytes(layout.HEADER) + self.n_epochs * layout.nbytes(layout.CELL)
        n_cells = 1 if self.epoch_in_key else self.n_epochs
        return layout.nbytes(layout.HASH_HEADER) + n_cells * layout.nbytes(layout.HASH_CELL)

    @property
    def fixed_nbytes(self) -> int:
        """Bytes of one core's sketch before the first pattern: epoch times, and Stage-1."""
        times = self.n_epochs * layout.nbytes(layout.EPOCH_TIMES)
        stage_1 = self.n_tables * self.n_buckets * layout.nbytes(layout.BUCKET)
        return times + (stage_1 if self.mode == "hash" else 0)

    def nbytes_per_core(self, patterns: Patterns, n_cores: int) -> NDArray[np.int64]:
        """(n_cores,) bytes that each core's sketch can grow to."""
        n_keys = np.bincount(patterns.table["recorder"], minlength=n_cores)
        if self.mode == "hash" and self.epoch_in_key:
            n_keys = n_keys * self.n_epochs
        return self.fixed_nbytes + np.minimum(n_keys, self.length) * self.slot_nbytes

    def fit(self, budget_bytes: float, program: Program) -> SketchConfig:
        """The finest configuration of this kind whose every core's sketch fits the budget.

        Static mode lets patterns share slots (`slowpoke_tracer.slots`), then halves the epochs;
        hash mode halves Stage-1, down to as many buckets as the busiest core has keys, then the
        epochs. Only what is still too much loses patterns: `max_length` is cut, and `loss`, and the
        sketch's own `n_patterns` and `n_records_kept`, say how many.

        Raises:
            SlowpokeError: Not even one pattern fits.
        """
        n_keys = self._most_keys(program)
        epochs = [self.n_epochs]
        while epochs[-1] > 1:
            epochs.append(epochs[-1] // 2)
        for n_epochs in epochs:
            tried = replace(self, n_epochs=n_epochs)
            if self.mode == "hash":
                n = n_keys * (n_epochs if self.epoch_in_key else 1)
                while tried.room(budget_bytes) < min(n, self.length) and tried.n_buckets // 2 >= n:
                    tried = replace(tried, n_buckets=tried.n_buckets // 2)
                if tried.room(budget_bytes) >= min(n, self.length):
                    return tried
            elif tried.room(budget_bytes) >= self.length:
                return tried
            elif tried.room(budget_bytes) >= 1:
                tried = replace(tried, max_length=tried.room(budget_bytes))
                if not tried.loss(program).n_patterns:
                    return tried
        while (
            tried.mode == "hash" and tried.n_buckets > 1 and (tried.fixed_nbytes > budget_bytes / 2)
        ):
            tried = replace(tried, n_buckets=tried.n_buckets // 2)
        room = tried.room(budget_bytes)
        if room < 1:
            raise SlowpokeError(
                f"a budget of {budget_bytes:g} bytes a core holds no pattern; one needs "
                f"{tried.fixed_nbytes + tried.slot_nbytes} bytes"
            )
        return replace(tried, max_length=min(room, self.length))

    def room(self, budget_bytes: float) -> int:
        """Patterns that a core's budget holds, however many the program has."""
        return max(int((budget_bytes - self.fixed_nbytes) // self.slot_nbytes), 0)

    def _most_keys(self, program: Program) -> int:
        patterns = self.patterns(program).table["recorder"]
        return int(np.bincount(patterns, minlength=1).max())

    def loss(self, program: Program) -> Loss:
        """What this configuration cannot keep of a whole run, known before it starts.

        In hash mode only what MAX_LENGTH costs at least: collisions come on top and are counted in
        the sketch.
        """
        patterns = self.patterns(program)
        lost = slots_within(patterns, program, self.length) < 0
        lost_records = run_records(patterns, program)[lost & (patterns.table["kind"] != PORT)]
        return Loss(int(lost.sum()), len(patterns), int(lost_records.sum()))


@dataclass(frozen=True, slots=True)
class Loss:
    """What a budget costs.

    Attributes:
        n_patterns: Patterns without a place.
        n_patterns_total: Patterns of the program.
        n_records: Records of a run that belong to the patterns without a place.
    """

    n_patterns: int
    n_patterns_total: int
    n_records: int

    def __str__(self) -> str:
        if not self.n_patterns:
            return f"all {self.n_patterns_total} patterns fit"
        return (
            f"{self.n_patterns} of {self.n_patterns_total} patterns do not fit; "
            f"their {self.n_records} records are lost"
        )


def slots_within(patterns: Patterns, program: Program, max_length: int) -> NDArray[np.int64]:
    """(n_patterns,) slot of each pattern; -1 for those beyond max_length slots of their core.

    Where not all fit, the patterns that leave most records over the run keep theirs.
    """
    table = patterns.table
    order = np.lexsort([-run_records(patterns, program), table["recorder"]])
    core = table["recorder"][order]
    rank = np.empty(len(table), np.int64)
    rank[order] = np.arange(len(table)) - np.searchsorted(core, core)
    kept = rank < max_length
    return np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int64)


@lru_cache(maxsize=8)
def _patterns(program: Program, by_footprint: bool, max_slots: int | None) -> Patterns:
    """Every detector of a campaign asks for the patterns of the same program."""
    patterns = Patterns.of_program(program)
    if by_footprint:
        patterns = patterns.by_footprint()
    return patterns if max_slots is None else shared(patterns, max_slots)
