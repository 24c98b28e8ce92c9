"""Lemma 3.1 of SlowPoke, measured: P(retained) >= 1 - ((N - f) / (m (f - H)))^d."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from slowpoke_tracer.hash_sketch import HashSketch, key_tags
from slowpoke_tracer.sketch_config import SketchConfig

N_TRIALS = 600


def retention(
    frequencies: list[int], n_tables: int, n_buckets: int, threshold: int, seed: int = 0
) -> float:
    """Share of trials in which key 0 is in Stage-2 at the end. Every core is a trial with hashes
    and an order of its own."""
    n_keys = len(frequencies)
    core = np.repeat(np.arange(N_TRIALS), n_keys)
    config = SketchConfig(
        mode="hash", n_tables=n_tables, n_buckets=n_buckets, threshold=threshold, seed=seed
    )
    tags = key_tags([np.arange(N_TRIALS * n_keys, dtype=np.uint64)], seed)
    sketch = HashSketch(core, tags, config, N_TRIALS, 1)
    stream = np.repeat(np.arange(n_keys), frequencies)
    rng = np.random.default_rng(seed)
    keys = np.concatenate([rng.permutation(stream) + t * n_keys for t in range(N_TRIALS)])
    zeros = np.zeros(len(keys))
    sketch.insert(keys, zeros.astype(np.int64), zeros, zeros + 8.0, len(keys))
    return float((sketch.entry_of_key[::n_keys] >= 0).mean())


def bound(frequencies: list[int], n_tables: int, n_buckets: int, threshold: int) -> float:
    f, n = frequencies[0], sum(frequencies)
    return 1 - ((n - f) / (n_buckets * (f - threshold))) ** n_tables


STREAMS = {
    "many rare": [40] + [4] * 100,
    "few frequent": [60] + [60] * 12,
    "skewed": [30] + [int(600 / (i + 1)) for i in range(40)],
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("threshold", [1, 5, 20])
def test_retention_is_above_the_bound(name: str, threshold: int) -> None:
    """A true retention 5 % below the bound would be seen: the standard error is at most 2 %."""
    frequencies = STREAMS[name]
    informative = 0
    for d, m in itertools.product((1, 2, 3), (8, 32, 128, 512)):
        least = bound(frequencies, d, m, threshold)
        if least <= 0:
            continue
        informative += 1
        margin = 3 * math.sqrt(max(least * (1 - least), 1 / N_TRIALS) / N_TRIALS)
        assert retention(frequencies, d, m, threshold) >= least - margin, (d, m)
    assert informative >= 3


def test_retention_grows_with_tables_and_with_buckets() -> None:
    """As the paper says of d and m; within the noise of the trials."""
    measured = np.array(
        [[retention(STREAMS["skewed"], d, m, threshold=15) for m in (4, 16, 64)] for d in (1, 2, 4)]
    )
    noise = 2 / math.sqrt(N_TRIALS)
    assert (np.diff(measured, axis=0) > -noise).all()
    assert (np.diff(measured, axis=1) > -noise).all()
    assert measured[0, 0] < 0.5 < 0.95 < measured[-1, -1]
