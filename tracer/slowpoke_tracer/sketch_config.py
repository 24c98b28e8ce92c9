"""The recorder's parameters, and their choice for a budget of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_tracer import layout


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
    epoch_in_key: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.mode not in ("static", "hash"):
            raise SlowpokeError(f"sketch mode {self.mode!r}: static or hash")
        if self.eviction not in ("fifo", "healthiest", "oldest_update"):
            raise SlowpokeError(f"eviction {self.eviction!r}: fifo, healthiest or oldest_update")
        for name in ("n_epochs", "n_tables", "n_buckets", "threshold", "max_length"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise SlowpokeError(f"sketch {name} = {value!r}: a whole number >= 1")
        if self.threshold > layout.COUNT_MAX:
            raise SlowpokeError(
                f"sketch threshold = {self.threshold}: counters saturate at {layout.COUNT_MAX}, "
                "choose one up to that"
            )

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
