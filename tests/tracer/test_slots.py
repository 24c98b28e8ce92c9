from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slowpoke_mapping.program import Program
from slowpoke_tracer.patterns import COMPUTE, ORDER, PATTERN_DTYPE, TRANSFER, Patterns, grouped
from slowpoke_tracer.slots import shared


def patterns_of(rows: list[dict[str, Any]]) -> Patterns:
    table = np.zeros(len(rows), PATTERN_DTYPE)
    for i, row in enumerate(rows):
        for name, value in {"n_per_unit": 1, "dst": row.get("recorder", 0), **row}.items():
            table[name][i] = value
    table, number = grouped(table, ORDER)
    return Patterns(table, number)


def message(group: int, op: int, work: float, src: int = 1, recorder: int = 0) -> dict[str, Any]:
    return {
        "recorder": recorder, "kind": TRANSFER, "group": group, "op": op, "work": work, "src": src,
    }  # fmt: skip


def test_where_all_fit_nothing_changes(small_program: Program) -> None:
    patterns = Patterns.of_program(small_program)
    assert shared(patterns, 4) is patterns


def test_sizes_are_joined_first_then_operators_then_neighbouring_groups() -> None:
    rows = [message(g, op, work) for g in range(4) for op in (0, 1) for work in (10.0, 30.0)]
    fine = patterns_of(rows)
    assert len(fine) == 16
    by_tensor = shared(fine, 15)
    assert len(by_tensor) == 8
    assert by_tensor.table["work"].tolist() == [20.0] * 8  # the mean over the records
    by_group = shared(fine, 7)
    assert by_group.table["group"].tolist() == [0, 1, 2, 3]
    assert shared(fine, 3).table["group"].tolist() == [0, 2]
    assert shared(fine, 1).table["n_per_unit"].tolist() == [16]


def test_the_largest_class_is_coarsened_and_the_others_stay() -> None:
    compute = [{"kind": COMPUTE, "op": op, "work": 1.0 + op} for op in range(5)]
    rows = compute + [message(g, 0, work) for g in range(6) for work in (1.0, 2.0, 3.0)]
    coarse = shared(patterns_of(rows), 11)
    kinds = coarse.table["kind"].tolist()
    assert (kinds.count(COMPUTE), kinds.count(TRANSFER)) == (5, 6)


def test_a_core_within_its_limit_keeps_its_patterns() -> None:
    rows = [message(0, 0, float(w), recorder=0) for w in range(1, 9)]
    rows += [message(0, 0, float(w), recorder=1) for w in range(1, 3)]
    coarse = shared(patterns_of(rows), 4)
    assert np.bincount(coarse.table["recorder"]).tolist() == [1, 2]


def test_places_are_never_joined() -> None:
    rows = [message(g, 0, 1.0, src=s) for g in range(3) for s in range(1, 9)]
    coarse = shared(patterns_of(rows), 2)
    assert coarse.table["src"].tolist() == list(range(1, 9))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.integers(0, 1), st.integers(0, 5), st.integers(0, 3),
            st.integers(-2, 3), st.integers(1, 4),
        ),
        min_size=1, max_size=60,
    ),
    st.integers(1, 30),
)  # fmt: skip
def test_no_event_and_no_record_is_lost(rows: list[tuple[int, ...]], limit: int) -> None:
    names = ("recorder", "kind", "group", "op", "src", "work")
    fine = patterns_of([dict(zip(names, row, strict=True)) for row in rows])
    coarse = shared(fine, limit)
    assert coarse.table["n_per_unit"].sum() == len(rows)
    assert len(coarse) <= len(fine)
    mine, theirs = coarse.table[coarse.of_event], fine.table[fine.of_event]
    for name in ("recorder", "kind", "src", "dst"):
        assert np.array_equal(mine[name], theirs[name])
    assert _sorted(coarse.table)
    n_places = len(np.unique(fine.table[["recorder", "kind", "src", "dst"]]))
    assert np.bincount(coarse.table["recorder"]).max() <= max(limit, n_places)


def _sorted(table: NDArray[np.void]) -> bool:
    order = np.lexsort([table[name] for name in reversed(ORDER)])
    return bool(np.array_equal(order, np.arange(len(table))))


def test_a_real_event_keeps_its_recorder_and_route(
    small_program: Program, trace_of: Callable[..., Any]
) -> None:
    coarse = shared(Patterns.of_program(small_program), 2)
    row = coarse.table[coarse.of_event]
    assert np.array_equal(row["recorder"], small_program.event_recorder)
    assert np.array_equal(row["src"], small_program.event_src)
