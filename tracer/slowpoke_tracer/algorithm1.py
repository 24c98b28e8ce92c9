"""Algorithm 1 of SlowPoke as printed, to be read: the Fail-Slow Sketch of one core.

The streaming version (`slowpoke_tracer.hash_sketch`) gives the same tables and the same list; a
test compares them on random streams. What the text leaves open is settled so: an event is promoted
once, not once a table, with the highest frequency that a table counted; records that were counted
before the promotion are kept as `missed`; counters saturate.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from slowpoke_tracer.layout import COUNT_MAX
from slowpoke_tracer.static_sketch import log_code


@dataclass
class Bucket:
    """A pattern and its frequency; frequency 0 is an empty bucket."""

    key: Hashable = None
    frequency: int = 0


@dataclass
class Entry:
    """A pattern of Stage-2: records before its promotion, and the codes of ln(duration) since."""

    missed: int
    codes: list[int] = field(default_factory=list)

    @property
    def frequency(self) -> int:
        """Records that it accounts for."""
        return self.missed + len(self.codes)

    @property
    def unhealthiness(self) -> float:
        """How far the worst record stands out; a single record proves nothing."""
        if len(self.codes) < 2:
            return float("inf")
        return max(self.codes) - sum(self.codes) / len(self.codes)


class FailSlowSketch:
    """Two stages: buckets that find what recurs, and a list of the patterns found.

    >>> sketch = FailSlowSketch([lambda key: 0], n_buckets=1, threshold=3, max_length=8)
    >>> for _ in range(4):
    ...     sketch.insert("cm2", duration_cycles=128.0)
    >>> sketch.stage_2["cm2"].frequency, sketch.stage_2["cm2"].missed
    (4, 2)
    """

    def __init__(
        self,
        hashes: Sequence[Callable[[Hashable], int]],
        n_buckets: int,
        threshold: int,
        max_length: int,
        eviction: str = "fifo",
    ):
        self.hashes = hashes
        self.tables = [[Bucket() for _ in range(n_buckets)] for _ in hashes]
        self.threshold = threshold
        self.max_length = max_length
        self.eviction = eviction
        self.stage_2: dict[Hashable, Entry] = {}
        self.updated: dict[Hashable, int] = {}
        self.n_evicted = 0
        self.n_inserted = 0

    def insert(self, key: Hashable, duration_cycles: float) -> None:
        """Offer one record."""
        self.n_inserted += 1
        frequency = 0
        for table, hashed in zip(self.tables, self.hashes, strict=True):
            bucket = table[hashed(key) % len(table)]
            if bucket.frequency and bucket.key == key:  # case 3
                bucket.frequency = min(bucket.frequency + 1, COUNT_MAX)
                frequency = max(frequency, bucket.frequency)
            elif not bucket.frequency:  # case 1
                bucket.key, bucket.frequency = key, 1
            else:  # case 2
                bucket.frequency -= 1
        if frequency >= self.threshold:
            self._insert_stage_2(key, frequency, duration_cycles)

    def _insert_stage_2(self, key: Hashable, frequency: int, duration_cycles: float) -> None:
        if key not in self.stage_2:
            if len(self.stage_2) >= self.max_length:
                self._evict()
            self.stage_2[key] = Entry(missed=frequency - 1)
        self.stage_2[key].codes.append(log_code(max(duration_cycles, 1.0)))
        self.updated[key] = self.n_inserted

    def _evict(self) -> None:
        """Drop one pattern; among equals the earliest. A dict keeps the order of insertion."""
        if self.eviction == "fifo":
            victim = next(iter(self.stage_2))
        elif self.eviction == "oldest_update":
            victim = min(self.stage_2, key=lambda key: self.updated[key])
        else:
            victim = min(self.stage_2, key=lambda key: self.stage_2[key].unhealthiness)
        del self.stage_2[victim]
        self.n_evicted += 1
