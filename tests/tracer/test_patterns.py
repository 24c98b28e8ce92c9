from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from slowpoke_mapping.program import Program, TaskKind
from slowpoke_tracer.patterns import COMPUTE, PORT, TRANSFER, Patterns


def test_the_small_program_has_eight_patterns_and_one_port(small_program: Program) -> None:
    patterns = Patterns.of_program(small_program)
    kinds = patterns.table["kind"].tolist()
    assert (kinds.count(COMPUTE), kinds.count(TRANSFER), kinds.count(PORT)) == (4, 4, 1)
    assert (patterns.of_event >= 0).all()
    port = patterns.table[patterns.port_of_event.max()]
    assert (port["kind"], port["src"], port["dst"], port["work"]) == (PORT, -1, -1, 128.0)
    assert np.flatnonzero(patterns.port_of_event >= 0).tolist() == [7]


def test_every_event_has_the_key_of_its_pattern(small_program: Program) -> None:
    patterns = Patterns.of_program(small_program)
    row = patterns.table[patterns.of_event]
    assert np.array_equal(row["recorder"], small_program.event_recorder)
    assert np.array_equal(row["src"], small_program.event_src)
    assert np.array_equal(row["dst"], small_program.event_dst)
    assert np.array_equal(row["op"], small_program.op[small_program.event_task])


def test_equal_messages_are_one_pattern_that_leaves_two_records_a_unit(
    tasks_of_two_groups: list[list[Any]], program_of: Callable[..., Program]
) -> None:
    first, _ = tasks_of_two_groups
    program = program_of([[*first, dataclasses.replace(first[2])]])
    patterns = Patterns.of_program(program)
    table = patterns.table
    twice = table[(table["kind"] == TRANSFER) & (table["src"] == 0)]
    assert twice["n_per_unit"].tolist() == [2, 2]
    assert table[table["n_once"] > 0]["src"].tolist() == [-1]


def test_an_event_without_a_record_has_no_pattern(small_program: Program) -> None:
    recorded = small_program.kind[small_program.event_task] == TaskKind.COMPUTE
    patterns = Patterns.of_program(dataclasses.replace(small_program, recorded=recorded))
    assert np.array_equal(patterns.of_event >= 0, recorded)
    assert (patterns.port_of_event == -1).all()
    nothing = Patterns.of_program(dataclasses.replace(small_program, recorded=recorded & False))
    assert len(nothing) == 0
