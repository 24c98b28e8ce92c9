from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowpoke_mapping.chip import chip
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program, TaskKind
from slowpoke_tracer import layout
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.recorder import record
from slowpoke_tracer.sketch_config import SketchConfig, slots_within
from slowpoke_tracer.trace import Trace


@pytest.mark.parametrize(
    ("config", "slot", "fixed"),
    [
        (SketchConfig(), 16 + 8 * 8, 8 * 8),
        (SketchConfig(n_epochs=1), 16 + 8, 8),
        (SketchConfig(mode="hash"), 32 + 8 * 10, 64 + 3 * 512 * 6),
        (SketchConfig(mode="hash", epoch_in_key=True), 32 + 10, 64 + 3 * 512 * 6),
    ],
)
def test_the_bytes_are_those_of_the_layout(config: SketchConfig, slot: int, fixed: int) -> None:
    assert (config.slot_nbytes, config.fixed_nbytes) == (slot, fixed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "tree"}, "static or hash"),
        ({"eviction": "random"}, "fifo, healthiest or oldest_update"),
        ({"key": "name"}, "operator or footprint"),
        ({"n_epochs": 0}, "n_epochs = 0: a whole number >= 1"),
        ({"n_buckets": 2.5}, "n_buckets = 2.5"),
        ({"max_length": True}, "max_length = True"),
        ({"threshold": 70_000}, "saturate at 65535"),
    ],
)
def test_a_size_that_cannot_be_says_what_would_do(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SlowpokeError, match=message):
        SketchConfig(**changes)


def test_a_generous_budget_changes_nothing(small_program: Program) -> None:
    assert SketchConfig().fit(16_384, small_program) == SketchConfig()
    assert str(SketchConfig().loss(small_program)) == "all 9 patterns fit"


def test_a_smaller_budget_costs_epochs_before_it_costs_patterns(small_program: Program) -> None:
    # Core 0 has 4 patterns: 8 E + 4 (16 + 8 E) = 64 + 40 E bytes.
    assert SketchConfig().fit(384, small_program).n_epochs == 8
    assert SketchConfig().fit(383, small_program).n_epochs == 4
    assert SketchConfig().fit(104, small_program).n_epochs == 1
    assert SketchConfig().fit(104, small_program).loss(small_program).n_patterns == 0


def test_what_does_not_fit_is_told_in_patterns_and_records(
    small_program: Program, trace_of: Callable[..., Trace]
) -> None:
    config = SketchConfig().fit(8 + 2 * 24, small_program)
    assert (config.n_epochs, config.max_length) == (1, 2)
    loss = config.loss(small_program)
    # Core 0 loses the read (4 records, the fewest) and one of its three patterns of 8.
    assert (loss.n_patterns, loss.n_patterns_total) == (2, 9)
    sketch = record(trace_of(small_program), small_program, config)
    assert sketch.n_records - sketch.n_records_kept == loss.n_records
    assert sketch.nbytes_per_core.max() <= 8 + 2 * 24
    assert "2 of 9 patterns do not fit" in str(loss)


def test_a_budget_without_room_for_one_pattern_is_refused(small_program: Program) -> None:
    with pytest.raises(SlowpokeError, match="holds no pattern; one needs 32 bytes"):
        SketchConfig().fit(31, small_program)


def test_patterns_share_slots_before_epochs_are_given_up() -> None:
    # 30 sizes of one operator a core: 152 slots become what the budget holds, and one slot is
    # enough for all of them.
    config = SketchConfig().fit(64 + 10 * 80, _wide_program())
    assert (config.n_epochs, config.length) == (8, 10)
    assert config.loss(_wide_program()).n_patterns == 0
    assert len(config.patterns(_wide_program())) == 2


@settings(max_examples=40, deadline=None)
@given(
    st.integers(200, 20_000),
    st.sampled_from(["static", "hash"]),
    st.booleans(),
    st.integers(1, 16),
)
def test_a_fitted_sketch_fits(budget: int, mode: Any, in_key: bool, n_epochs: int) -> None:
    program = _wide_program()
    config = SketchConfig(mode=mode, epoch_in_key=in_key, n_epochs=n_epochs)
    fitted = config.fit(budget, program)
    patterns = fitted.patterns(program)
    assert fitted.nbytes_per_core(patterns, program.chip.n_cores).max() <= budget
    assert fitted.n_epochs <= n_epochs and fitted.n_buckets <= config.n_buckets


def _wide_program() -> Program:
    n = 60
    return Program(
        chip=chip("default", topology="mesh:2x2"), model="wide", operator_names=("op",),
        graph_fingerprint="", n_inferences=8, units_per_batch=2, samples_per_unit=1,
        group_offsets=np.array([0, n]), kind=np.full(n, TaskKind.COMPUTE, np.uint8),
        op=np.zeros(n, np.int32), core=(np.arange(n) % 4 // 2).astype(np.int32),
        port=np.full(n, -1, np.int32), work_macs=np.arange(1.0, n + 1),
        message_bytes=np.zeros(n), role=np.zeros(n, np.uint8), once=np.zeros(n, bool),
        dst_offsets=np.zeros(n + 1, np.int64), dst_cores=np.zeros(0, np.int32),
        dep_offsets=np.zeros(n + 1, np.int64), dep_events=np.zeros(0, np.int64),
        dep_lags=np.zeros(0, np.int32), recorded=np.ones(n, bool),
    )  # fmt: skip


def test_the_papers_key_joins_equal_pieces_of_several_operators(
    tasks_of_two_groups: list[list[Any]], program_of: Callable[..., Program]
) -> None:
    first, second = tasks_of_two_groups
    twin = dataclasses.replace(second[0], op=3)
    program = program_of([first, [*second, twin]])
    tagged = Patterns.of_program(program)
    merged = SketchConfig(key="footprint").patterns(program)
    assert (len(tagged), len(merged)) == (10, 9)
    (row,) = merged.table[(merged.table["recorder"] == 3)]
    assert (row["op"], row["group"], row["work"], row["n_per_unit"]) == (-1, 1, 800.0, 2)
    kept = merged.of_event >= 0
    assert np.array_equal(kept, tagged.of_event >= 0)
    assert np.array_equal(
        merged.table["work"][merged.of_event[kept]], tagged.table["work"][tagged.of_event[kept]]
    )


def test_slots_go_to_the_busiest_patterns_of_each_core() -> None:
    program = _wide_program()
    patterns = Patterns.of_program(program)
    slots = slots_within(patterns, program, 7)
    assert np.bincount(patterns.table["recorder"][slots >= 0]).tolist() == [7, 7]
    assert sorted(slots[slots >= 0].tolist()) == list(range(14))


def test_the_c_structs_have_the_sizes_that_are_counted() -> None:
    sizes = {"uint8_t": 1, "int16_t": 2, "uint16_t": 2, "uint32_t": 4, "float": 4}
    for fields in (layout.CELL, layout.HASH_CELL, layout.HEADER, layout.HASH_HEADER,
                   layout.BUCKET, layout.EPOCH_TIMES):  # fmt: skip
        assert all(field.nbytes == sizes[field.c_type] for field in fields)
    assert layout.c_source().count("struct") == 6
