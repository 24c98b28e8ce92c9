"""The hash mode of the sketch: Algorithm 1 of SlowPoke for every core, compiled.

`slowpoke_tracer.algorithm1` is the same in plain Python. A record costs n_tables buckets; an
eviction by FIFO is constant, by health or age it looks at each of max_length entries (and adds up
the cells of those that have changed since the last one). Memory grows
with the buckets and with the number of keys that the program can leave, never with the stream.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.compiled import compiled_untyped
from slowpoke_tracer.layout import COUNT_MAX
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.static_sketch import EMPTY_MIN, Cells, update_cell

_POLICIES = ("fifo", "healthiest", "oldest_update")


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A 64-bit finaliser (splitmix64): every output bit depends on every input bit."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def key_tags(columns: list[NDArray[np.uint64]], seed: int) -> NDArray[np.uint64]:
    """(n,) 64-bit hash of keys given as columns of numbers."""
    tags = np.full(len(columns[0]), seed, np.uint64)
    for column in columns:
        tags = mixed(tags ^ column)
    return tags


def fingerprints_differ(tags: NDArray[np.uint64], core_of_key: NDArray[np.int64]) -> bool:
    """Whether the 32-bit fingerprints of all keys of each core differ.

    The compiler knows the keys of a static mapping, so it can choose hash functions for which a
    bucket's fingerprint stands for one key.
    """
    pairs = (core_of_key.astype(np.uint64) << np.uint64(32)) | (tags & np.uint64(0xFFFFFFFF))
    return len(np.unique(pairs)) == len(pairs)


class HashSketch:
    """Stage-1 and Stage-2 of every core.

    Args:
        core_of_key: (n_keys,) core that records each key.
        tags: (n_keys,) 64-bit hash of each key.
        config: Sizes, threshold, eviction.
        n_cells: Epoch cells of an entry.

    Attributes:
        bucket_of_key: (n_keys, n_tables) bucket of each key in each table.
        bucket_key: (n_cores, n_tables, n_buckets) key that a bucket holds.
        frequency: (n_cores, n_tables, n_buckets) its frequency; 0 for empty.
        entry_offsets: (n_cores + 1,) entries of core c are [entry_offsets[c], ...).
        entry_of_key: (n_keys,) entry of each retained key, else -1.
        entry_key: (n_entries,) key of each entry, -1 where none ever was.
        missed: (n_entries,) records that Stage-1 counted before promotion.
        length: (n_cores,) entries in use; a list never shrinks.
        n_evicted: (n_cores,) entries that were dropped.
        cells: Statistics of each entry.
    """

    def __init__(
        self,
        core_of_key: NDArray[np.int64],
        tags: NDArray[np.uint64],
        config: SketchConfig,
        n_cores: int,
        n_cells: int,
    ):
        self.config = config
        self.core_of_key = core_of_key
        salts = mixed(np.arange(1, config.n_tables + 1, dtype=np.uint64))
        hashed = mixed(tags[:, None] ^ salts[None, :]) % np.uint64(config.n_buckets)
        self.bucket_of_key = hashed.astype(np.int32)
        self.bucket_key = np.full((n_cores, config.n_tables, config.n_buckets), -1, np.int64)
        self.frequency = np.zeros(self.bucket_key.shape, np.int32)
        capacity = np.minimum(np.bincount(core_of_key, minlength=n_cores), config.length)
        self.entry_offsets = np.concatenate([[0], np.cumsum(capacity)]).astype(np.int64)
        n_entries = int(self.entry_offsets[-1])
        self.entry_of_key = np.full(len(core_of_key), -1, np.int64)
        self.entry_key = np.full(n_entries, -1, np.int64)
        self.missed = np.zeros(n_entries, np.int64)
        self.length = np.zeros(n_cores, np.int64)
        self.n_evicted = np.zeros(n_cores, np.int64)
        self.cells = Cells(n_entries, n_cells)
        # When each entry was inserted and last updated, in records seen by the whole sketch.
        stamps = np.zeros((n_entries, 2), np.int64)
        clock = np.zeros(1, np.int64)
        health = np.full(n_entries, np.nan)  # what evictions compare; NaN after a change
        self._stage_1 = (self.bucket_of_key, self.bucket_key, self.frequency)
        self._stage_2 = (
            self.entry_offsets, self.entry_of_key, self.entry_key, self.missed, self.length,
            self.n_evicted, stamps, clock, health,
        )  # fmt: skip

    def insert(
        self,
        keys: NDArray[np.int64],
        cells: NDArray[np.int64],
        starts: NDArray[np.float64],
        ends: NDArray[np.float64],
        n: int,
    ) -> None:
        """Offer the first n records."""
        policy = _POLICIES.index(self.config.eviction)
        _insert(
            keys, cells, starts, ends, n, self.core_of_key, self._stage_1, self.config.threshold,
            self._stage_2, policy, self.cells.arrays,
        )  # fmt: skip


@compiled_untyped
def _insert(  # type: ignore[no-untyped-def]
    keys, cells, starts, ends, n, core_of_key, stage_1, threshold, stage_2, policy, arrays
):  # fmt: skip
    bucket_of_key, bucket_key, frequency = stage_1
    entry_offsets, entry_of_key, entry_key, missed, length, n_evicted = stage_2[:6]
    stamps, clock, health = stage_2[6:]
    n_tables = bucket_of_key.shape[1]
    for i in range(n):
        key = keys[i]
        core = core_of_key[key]
        clock[0] += 1
        highest = 0
        for table in range(n_tables):
            bucket = bucket_of_key[key, table]
            now = frequency[core, table, bucket]
            if now == 0:
                bucket_key[core, table, bucket] = key
                frequency[core, table, bucket] = 1
            elif bucket_key[core, table, bucket] == key:
                now = min(now + 1, COUNT_MAX)
                frequency[core, table, bucket] = now
                highest = max(highest, now)
            else:
                frequency[core, table, bucket] = now - 1
        if highest < threshold:
            continue
        entry = entry_of_key[key]
        if entry < 0:
            low, high = entry_offsets[core], entry_offsets[core + 1]
            if length[core] < high - low:
                entry = low + length[core]
                length[core] += 1
            else:
                if policy == 0:  # entries were filled in order and are replaced in that order
                    entry = low + n_evicted[core] % (high - low)
                else:
                    entry = _victim(low, high, stamps, health, policy, arrays)
                entry_of_key[entry_key[entry]] = -1
                n_evicted[core] += 1
                _clear(entry, arrays)
            entry_key[entry] = key
            entry_of_key[key] = entry
            missed[entry] = highest - 1
            stamps[entry, 0] = clock[0]
        update_cell(arrays, entry, cells[i], starts[i], ends[i], COUNT_MAX)
        stamps[entry, 1] = clock[0]
        health[entry] = np.nan


@compiled_untyped
def _victim(low, high, stamps, health, policy, arrays):  # type: ignore[no-untyped-def]
    """The healthiest, or the longest not updated; among equals the earliest."""
    count, log_sum, _, log_max, _, _ = arrays
    best, best_score = low, np.inf
    for entry in range(low, high):
        if policy == 2:
            score = float(stamps[entry, 1])
        else:
            score = health[entry]
            if score != score:
                total, code_sum, highest = 0, 0, 0
                for cell in range(count.shape[1]):
                    total += count[entry, cell]
                    code_sum += log_sum[entry, cell]
                    highest = max(highest, log_max[entry, cell])
                score = highest - code_sum / total if total > 1 else np.inf
                health[entry] = score
        if score < best_score or (score == best_score and stamps[entry, 0] < stamps[best, 0]):
            best, best_score = entry, score
    return best


@compiled_untyped
def _clear(entry, arrays):  # type: ignore[no-untyped-def]
    count, log_sum, log_min, log_max, sums, times = arrays
    for cell in range(count.shape[1]):
        count[entry, cell] = 0
        log_sum[entry, cell] = 0
        log_min[entry, cell] = EMPTY_MIN
        log_max[entry, cell] = -1
    sums[entry, 0], sums[entry, 1] = 0, 0
    times[entry, 0], times[entry, 1] = np.inf, -np.inf
