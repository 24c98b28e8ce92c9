"""The recorder's parameters, and their choice for a budget of bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program
from slowpoke_tracer import layout
from slowpoke_tracer.patterns import PORT, Patterns, run_records


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
        max_length: Most patterns of one core's Stage-2 list (MAX_LENGTH), or slots of one core.
        eviction: What a full Stage-2 drops: the earliest pattern (`fifo`, SlowPoke), the one whose
            worst record stands out least (`healthiest`, SLOTH), or the one not updated for longest.
        key: `operator`: location, footprint, kind and the operator's tag. `footprint`: without the
            tag, as in the papers: equal pieces of several operators are one pattern.
        epoch_in_key: hash mode: each epoch of a pattern is a key of its own, with one cell.
        seed: Of the hash functions.
    """

    mode: Literal["static", "hash"] = "static"
    n_epochs: int = 8
    n_tables: int = 3
    n_buckets: int = 512
    threshold: int = 10
    max_length: int = 8192
    eviction: Literal["fifo", "healthiest", "oldest_update"] = "fifo"
    key: Literal["operator", "footprint"] = "operator"
    epoch_in_key: bool = False
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
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise SlowpokeError(f"sketch {name} = {value!r}: a whole number >= 1")
        if self.threshold > layout.COUNT_MAX:
            raise SlowpokeError(
                f"sketch threshold = {self.threshold}: counters saturate at {layout.COUNT_MAX}, "
                "choose one up to that"
            )

    def patterns(self, program: Program) -> Patterns:
        """The program's patterns, with this key."""
        patterns = Patterns.of_program(program)
        return patterns.by_footprint() if self.key == "footprint" else patterns

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
        return self.fixed_nbytes + np.minimum(n_keys, self.max_length) * self.slot_nbytes

    def fit(self, budget_bytes: float, program: Program) -> SketchConfig:
        """The finest configuration of this kind whose every core's sketch fits the budget.

        Epochs are halved first, down to one, because fewer epochs only blunt the sketch; hash mode
        also halves Stage-1, down to as many buckets as the busiest core has keys. What is still too
        much loses patterns: `max_length` is cut, and `loss` and the sketch's own `n_patterns` and
        `n_records_kept` say how many.

        Raises:
            SlowpokeError: Not even one pattern fits.
        """
        patterns, n_cores = self.patterns(program), program.chip.n_cores
        busiest = int(np.bincount(patterns.table["recorder"], minlength=n_cores).max())
        epochs = [self.n_epochs]
        while epochs[-1] > 1:
            epochs.append(epochs[-1] // 2)
        for n_epochs in epochs:
            n_keys = busiest * (n_epochs if self.mode == "hash" and self.epoch_in_key else 1)
            n_buckets = self.n_buckets
            while True:
                tried = replace(self, n_epochs=n_epochs, n_buckets=n_buckets)
                if tried.nbytes_per_core(patterns, n_cores).max() <= budget_bytes:
                    return tried
                if self.mode == "static" or n_buckets // 2 < max(n_keys, 1):
                    break
                n_buckets //= 2
        while (
            tried.mode == "hash" and tried.n_buckets > 1 and (tried.fixed_nbytes > budget_bytes / 2)
        ):
            tried = replace(tried, n_buckets=tried.n_buckets // 2)
        room = int((budget_bytes - tried.fixed_nbytes) // tried.slot_nbytes)
        if room < 1:
            raise SlowpokeError(
                f"a budget of {budget_bytes:g} bytes a core holds no pattern; one needs "
                f"{tried.fixed_nbytes + tried.slot_nbytes} bytes"
            )
        return replace(tried, max_length=min(room, self.max_length))

    def loss(self, program: Program) -> Loss:
        """What this configuration cannot keep of a whole run, known before it starts.

        In hash mode only what MAX_LENGTH costs at least: collisions come on top and are counted in
        the sketch.
        """
        patterns = self.patterns(program)
        lost = slots_within(patterns, program, self.max_length) < 0
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
