from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slowpoke_mapping.chip import chip
from slowpoke_mapping.program import Program, TaskKind
from slowpoke_tracer.algorithm1 import FailSlowSketch
from slowpoke_tracer.hash_sketch import HashSketch, fingerprints_differ, key_tags
from slowpoke_tracer.layout import COUNT_MAX
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.recorder import Recorder, record
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.trace import COMPUTE_DTYPE, TRANSFER_DTYPE, Trace, TraceMeta

EVICTIONS = ("fifo", "healthiest", "oldest_update")


def sketch_of(
    core_of_key: Any, n_cells: int = 1, n_cores: int | None = None, **sizes: Any
) -> HashSketch:
    core = np.asarray(core_of_key, dtype=np.int64)
    config = SketchConfig(mode="hash", **sizes)
    tags = key_tags([np.arange(len(core), dtype=np.uint64)], config.seed)
    return HashSketch(core, tags, config, n_cores or int(core.max()) + 1, n_cells)


def offer(sketch: HashSketch, keys: Any, durations: Any = 8.0, cells: Any = 0) -> None:
    keys = np.asarray(keys, dtype=np.int64)
    n = len(keys)
    starts = np.arange(n, dtype=np.float64)
    ends = starts + np.broadcast_to(np.asarray(durations, dtype=np.float64), n)
    sketch.insert(keys, np.broadcast_to(np.asarray(cells, np.int64), n).copy(), starts, ends, n)


def kept(sketch: HashSketch) -> dict[int, tuple[int, int]]:
    """(missed, counted) of each retained key."""
    return {
        int(key): (int(sketch.missed[entry]), int(sketch.cells.count[entry].sum()))
        for key, entry in enumerate(sketch.entry_of_key)
        if entry >= 0
    }


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    n_keys=st.integers(1, 12),
    n_tables=st.integers(1, 3),
    n_buckets=st.integers(1, 6),
    threshold=st.integers(1, 5),
    max_length=st.integers(1, 4),
    eviction=st.sampled_from(EVICTIONS),
    seed=st.integers(0, 2**32),
)
def test_the_compiled_sketch_is_algorithm_1(
    data: st.DataObject,
    n_keys: int,
    n_tables: int,
    n_buckets: int,
    threshold: int,
    max_length: int,
    eviction: Literal["fifo", "healthiest", "oldest_update"],
    seed: int,
) -> None:
    """Same buckets, same list in the same order of insertion, same statistics, record by record."""
    stream = data.draw(
        st.lists(st.tuples(st.integers(0, n_keys - 1), st.integers(1, 5000)), max_size=120)
    )
    fast = sketch_of(
        np.zeros(n_keys), seed=seed, n_tables=n_tables, n_buckets=n_buckets, threshold=threshold,
        max_length=max_length, eviction=eviction,
    )  # fmt: skip

    def hash_number(table: int) -> Callable[[Any], int]:
        return lambda key: int(fast.bucket_of_key[key, table])

    slow = FailSlowSketch(
        [hash_number(i) for i in range(n_tables)], n_buckets, threshold, max_length, eviction
    )
    for key, duration in stream:
        slow.insert(key, duration)
    offer(fast, [key for key, _ in stream], [float(d) for _, d in stream])
    for i, table in enumerate(slow.tables):
        assert fast.frequency[0, i].tolist() == [bucket.frequency for bucket in table]
        for b, bucket in enumerate(table):
            assert not bucket.frequency or fast.bucket_key[0, i, b] == bucket.key
    assert kept(fast) == {k: (e.missed, len(e.codes)) for k, e in slow.stage_2.items()}
    for name, entry in slow.stage_2.items():
        at = int(fast.entry_of_key[name])  # type: ignore[call-overload]
        assert fast.cells.log_sum[at].sum() == sum(entry.codes)
        assert fast.cells.log_max[at].max() == max(entry.codes)
        assert fast.cells.log_min[at].min() == min(entry.codes)
    assert fast.n_evicted.sum() == slow.n_evicted


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 19), max_size=300), st.integers(1, 6), st.integers(1, 4))
def test_a_sketch_never_counts_more_than_there_was(
    stream: list[int], n_buckets: int, threshold: int
) -> None:
    sketch = sketch_of(
        np.zeros(20), n_tables=2, n_buckets=n_buckets, threshold=threshold, max_length=5
    )
    offer(sketch, stream)
    for key, (missed, counted) in kept(sketch).items():
        assert missed + counted <= stream.count(key)


def test_blocks_of_any_size_give_the_same_sketch() -> None:
    rng = np.random.default_rng(0)
    stream = rng.zipf(1.3, 3000) % 40
    whole, parts = (
        sketch_of(np.zeros(40), n_buckets=8, threshold=4, max_length=9) for _ in range(2)
    )
    offer(whole, stream)
    for part in np.array_split(stream, 77):
        offer(parts, part)
    assert kept(whole) == kept(parts)


FIG_6 = SketchConfig(mode="hash", n_tables=1, n_buckets=64, threshold=10, max_length=3, n_epochs=1)


def fig_6_program(program_of: Callable[..., Program], tasks: list[Any]) -> Program:
    return program_of([tasks], on=chip("default", topology="mesh:3x2"), n_inferences=64)


def test_the_running_example_of_fig_6(
    tasks_of_two_groups: list[list[Any]], program_of: Callable[..., Program]
) -> None:
    """Comp4 is counted, Comm2 is promoted as (cm2, 10, 128, 5), cm1 is updated, cp3 is evicted."""
    make = type(tasks_of_two_groups[0][0])
    program = fig_6_program(
        program_of,
        [
            make(TaskKind.COMPUTE, op=3, core=5, work=3000),
            make(TaskKind.COMPUTE, op=4, core=5, work=4000),
            make(TaskKind.TRANSFER, op=1, core=1, dsts=(5,), size=64),
            make(TaskKind.TRANSFER, op=2, core=2, dsts=(5,), size=128),
            make(TaskKind.COMPUTE, op=5, core=5, work=5000),
        ],
    )
    cp3, cp4, cm1, cm2, cp5 = range(5)
    patterns = Patterns.of_program(program)
    config = FIG_6
    while len(set(_buckets(patterns, program, config).tolist())) < 5:
        config = dataclasses.replace(config, seed=config.seed + 1)  # the figure has no collisions
    recorder = Recorder(program, config)
    now = 0.0

    def see(event: int, times: int) -> None:
        nonlocal now
        for _ in range(times):
            recorder.add(one_record(program, event, now))
            now += 100.0

    see(cp3, 10)  # the earliest pattern of Stage-2
    see(cm1, 11)
    see(cp4, 6)
    see(cm2, 9)
    before = recorder.result()
    assert sorted(before.patterns["op"].tolist()) == [1, 3]

    see(cp4, 1)
    assert sorted(recorder.result().patterns["op"].tolist()) == [1, 3]  # counted, no more
    see(cm2, 1)  # reaches H = 10, and there is space
    after = recorder.result()
    (row,) = np.flatnonzero(after.patterns["op"] == 2)
    frequency = int(after.missed[row] + after.count[row].sum())
    entry = after.patterns[row]
    assert (frequency, entry["work"], entry["dst"]) == (10, 128.0, 5)
    see(cm1, 1)
    (row,) = np.flatnonzero(recorder.result().patterns["op"] == 1)
    assert recorder.result().missed[row] + recorder.result().count[row].sum() == 12
    see(cp5, 10)  # the list is full: the earliest pattern goes
    last = recorder.result()
    assert sorted(last.patterns["op"].tolist()) == [1, 2, 5]
    assert last.n_evicted == 1


def _buckets(patterns: Patterns, program: Program, config: SketchConfig) -> NDArray[np.int32]:
    sketch = Recorder(program, config, patterns)._sketch
    assert isinstance(sketch, HashSketch)
    return sketch.bucket_of_key[:, 0]


def one_record(program: Program, event: int, now: float) -> Trace:
    task = program.event_task[event]
    meta = TraceMeta("", program.chip.topology, 1e9, "", program.chip.n_cores, program.n_batches)
    compute = np.zeros(0, COMPUTE_DTYPE)
    transfers = np.zeros(0, TRANSFER_DTYPE)
    if program.kind[task] == TaskKind.COMPUTE:
        compute = np.zeros(1, COMPUTE_DTYPE)
        compute["event"], compute["start_cycles"], compute["end_cycles"] = event, now, now + 50
    else:
        transfers = np.zeros(1, TRANSFER_DTYPE)
        transfers["event"], transfers["inject_cycles"] = event, now
        transfers["eject_cycles"] = transfers["consume_cycles"] = now + 50
    return Trace(compute, transfers, meta)


# Adversarial streams.


def test_an_empty_stream_keeps_nothing() -> None:
    sketch = sketch_of(np.zeros(3))
    offer(sketch, [])
    assert not kept(sketch) and not sketch.frequency.any()


def test_one_key_is_counted_to_the_last_record() -> None:
    sketch = sketch_of(np.zeros(1), threshold=10)
    offer(sketch, np.zeros(5000))
    assert kept(sketch) == {0: (9, 4991)}


def test_distinct_keys_are_never_promoted() -> None:
    sketch = sketch_of(np.zeros(5000), n_buckets=64, threshold=2)
    offer(sketch, np.arange(5000))
    assert not kept(sketch)
    assert sketch.frequency.max() <= 1


def test_two_keys_of_one_bucket_that_take_turns_starve_each_other() -> None:
    sketch = sketch_of(np.zeros(2), n_tables=1, n_buckets=1, threshold=2)
    offer(sketch, np.tile([0, 1], 500))
    assert not kept(sketch) and sketch.frequency.sum() == 0


def test_a_frequency_saturates_and_counts_down_from_there() -> None:
    sketch = sketch_of(np.zeros(2), n_tables=1, n_buckets=1, threshold=10, max_length=2)
    offer(sketch, np.zeros(70_000))
    assert sketch.frequency.max() == COUNT_MAX
    offer(sketch, np.ones(5))
    assert sketch.frequency.max() == COUNT_MAX - 5


def test_a_full_cell_keeps_its_mean_and_says_so(small_program: Program, trace_of: Any) -> None:
    trace = trace_of(small_program)
    event = 1  # a COMPUTE on core 0
    row = trace.compute[trace.compute["event"] == event][:1]
    row["batch"], row["start_cycles"], row["end_cycles"] = 0, 0.0, 1024.0
    many = Trace(np.repeat(row, 70_000), trace.transfers[:0], trace.meta)
    sketch = record(many, small_program, SketchConfig(mode="hash", n_epochs=1))
    assert sketch.count.max() == COUNT_MAX and sketch.n_saturated == 1
    assert sketch.log_sum[0, 0] / sketch.count[0, 0] == pytest.approx(np.log(1024), abs=1 / 2048)
    static = record(many, small_program, SketchConfig(n_epochs=1))
    assert static.count.max() == 70_000 and static.n_saturated == 0


# Eviction.


@pytest.mark.parametrize(
    ("eviction", "victim"), [("fifo", 0), ("healthiest", 1), ("oldest_update", 2)]
)
def test_each_policy_drops_its_own(
    eviction: Literal["fifo", "healthiest", "oldest_update"], victim: int
) -> None:
    """0 came first, 1 is the steadiest, 2 was silent for longest when 3 comes."""
    sketch = sketch_of(
        np.zeros(4), n_tables=1, n_buckets=4096, threshold=2, max_length=3, eviction=eviction
    )
    keys = [0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 1, 3, 3]
    durations = [9.0, 9, 30, 9, 9, 10, 9, 9, 90, 9, 10, 9, 9]
    offer(sketch, keys, durations)
    assert set(kept(sketch)) == {0, 1, 2, 3} - {victim}


def test_a_pattern_that_comes_back_brings_the_count_of_stage_1() -> None:
    sketch = sketch_of(np.zeros(2), n_tables=1, n_buckets=4096, threshold=2, max_length=1)
    offer(sketch, [0, 0, 0, 1, 1, 0])
    # 0 was promoted at its second record, evicted by 1, and is promoted again at its fourth.
    assert kept(sketch) == {0: (3, 1)}
    assert sketch.n_evicted.tolist() == [2]


def test_cores_do_not_share_buckets_or_lists() -> None:
    sketch = sketch_of([0, 1], n_tables=1, n_buckets=1, threshold=3, max_length=1)
    offer(sketch, np.tile([0, 1], 10))
    assert kept(sketch) == {0: (2, 8), 1: (2, 8)}


# Through the recorder.


def test_hash_mode_without_collisions_differs_from_static_by_what_it_missed(
    small_program: Program, trace_of: Any
) -> None:
    trace = trace_of(dataclasses.replace(small_program, n_inferences=200))
    program = dataclasses.replace(small_program, n_inferences=200)
    static = record(trace, program)
    for in_key in (False, True):
        config = SketchConfig(
            mode="hash", n_buckets=4096, threshold=3, max_length=99, epoch_in_key=in_key
        )
        sketch = record(trace, program, config)
        assert len(sketch.patterns) == len(static.patterns) == 9
        total = sketch.count.sum(axis=1) + sketch.missed
        assert np.array_equal(total, static.count.sum(axis=1))
        promotions = 8 if in_key else 1
        assert (sketch.missed == 2 * promotions).all()
        assert sketch.n_records_kept == sketch.n_records == static.n_records
        assert (sketch.log_max <= static.log_max).all()
        assert (sketch.log_min >= static.log_min).all()


def test_both_stages_are_counted(small_program: Program, trace_of: Any) -> None:
    program = dataclasses.replace(small_program, n_inferences=200)
    config = SketchConfig(mode="hash", n_tables=2, n_buckets=16, n_epochs=4, max_length=8192)
    sketch = record(trace_of(program), program, config)
    n_entries = np.bincount(sketch.patterns["recorder"], minlength=4)
    # Epoch times 4 x 8, Stage-1 2 x 16 x 6, an entry 32 + 4 x 10.
    assert sketch.nbytes_per_core.tolist() == (32 + 192 + 72 * n_entries).tolist()
    assert (sketch.reserved_nbytes_per_core >= sketch.nbytes_per_core).all()


def test_fingerprints_that_collide_are_found() -> None:
    core = np.array([0, 0, 1], dtype=np.int64)
    assert fingerprints_differ(np.array([1, 2, 1], dtype=np.uint64), core)
    assert not fingerprints_differ(np.array([1, 1 + 2**32, 1], dtype=np.uint64), core)
