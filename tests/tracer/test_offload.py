from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from slowpoke_mapping.chip import chip
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program, Role, TaskKind
from slowpoke_tracer.offload import nearest_port, offloaded_bytes
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.probes import instrument
from slowpoke_tracer.sketch_config import SketchConfig

LISTED = "exec comp surround inst list"


def writes(program: Program) -> np.ndarray:
    return np.flatnonzero(program.role == Role.TRACE)


def test_lists_that_fit_stay_on_the_core(small_program: Program) -> None:
    # Core 0 makes the most: 8 units of a compute record = 256 B.
    probed = instrument(
        small_program, "exec comp surround inst list", SketchConfig(budget_bytes=256)
    )
    assert not len(writes(probed)) and offloaded_bytes(probed) == 0


def test_a_list_that_does_not_fit_is_written_out_when_it_is_full(small_program: Program) -> None:
    probed = instrument(
        small_program, "exec comp surround inst list", SketchConfig(budget_bytes=64)
    )
    tasks = writes(probed)
    # One record of 32 B a unit on each of four cores, sent as soon as its probe is done.
    assert probed.core[tasks].tolist() == [0, 1, 2, 3]
    assert probed.message_bytes[tasks].tolist() == [32.0] * 4
    assert (probed.kind[tasks] == TaskKind.DRAM_WRITE).all()
    for task in tasks:
        (event,) = probed.dep_events[slice(*probed.dep_offsets[task : task + 2])]
        owner = probed.event_task[event]
        assert probed.kind[owner] == TaskKind.PROBE and probed.core[owner] == probed.core[task]
    assert offloaded_bytes(probed) == 4 * 32 * small_program.total_units


def test_pieces_are_no_larger_than_the_budget(
    tasks_of_two_groups: list[list[Any]], program_of: Callable[..., Program]
) -> None:
    first, second = tasks_of_two_groups
    computes = [dataclasses.replace(second[0], op=i) for i in range(7)]
    program = program_of([first, computes])
    probed = instrument(program, "exec comp surround inst list", SketchConfig(budget_bytes=100))
    of_core_3 = writes(probed)[probed.core[writes(probed)] == 3]
    assert probed.message_bytes[of_core_3].tolist() == [96.0, 96.0, 32.0]
    n_deps = np.diff(probed.dep_offsets)[of_core_3]
    assert n_deps.tolist() == [3, 3, 1]


def test_every_byte_of_the_lists_is_counted_once(small_program: Program) -> None:
    text = "exec comp surround inst list; route comm surround inst list; mem io surround inst list"
    probed = instrument(small_program, text, SketchConfig(budget_bytes=32))
    # 7 records a unit, and the weights' read once a batch.
    assert offloaded_bytes(probed) == 32 * (7 * 8 + 1 * 4)


def test_a_sketch_that_does_not_fit_is_written_out_group_by_group(small_program: Program) -> None:
    config = SketchConfig(budget_bytes=300)  # core 0 needs 384 bytes, the others 224 at most
    probed = instrument(small_program, "full", config)
    tasks = writes(probed)
    # Core 0 has two slots in group 0 (24 B each), and two in group 1 (the write, its port).
    assert probed.core[tasks].tolist() == [0, 0]
    assert probed.message_bytes[tasks].tolist() == [48.0, 48.0]
    assert probed.once[tasks].all()
    assert offloaded_bytes(probed) == 96 * small_program.n_batches


def test_the_recorders_own_traffic_is_not_traced(small_program: Program) -> None:
    probed = instrument(small_program, "full", SketchConfig(budget_bytes=300))
    assert not probed.recorded[probed.event_offsets[writes(probed)]].any()
    own = Patterns.of_program(dataclasses.replace(probed, recorded=probed.recorded | True))
    assert len(own) == len(Patterns.of_program(probed)) == 9


def test_traces_go_to_the_nearest_port(program_of: Callable[..., Program]) -> None:
    on = chip("default", topology="mesh:4x4", dram_routers=(0, 15))
    program = program_of([[]], on=on)
    # Cores with x + y < 3 are nearer to router 0; on the diagonal both are 3 hops away.
    expected = [0 if x + y <= 3 else 1 for y in range(4) for x in range(4)]
    assert nearest_port(program).tolist() == expected


def test_hash_mode_evicts_instead(small_program: Program) -> None:
    probed = instrument(small_program, "full", SketchConfig(mode="hash", budget_bytes=300))
    assert not len(writes(probed))


def test_a_budget_below_one_record_is_refused(small_program: Program) -> None:
    with pytest.raises(SlowpokeError, match="holds no record of 32"):
        instrument(small_program, "exec comp surround inst list", SketchConfig(budget_bytes=31))
