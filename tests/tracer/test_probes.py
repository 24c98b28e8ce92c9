from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program, TaskKind
from slowpoke_tracer.probes import PROBES, Probe, instrument, probe_set
from slowpoke_tracer.sketch_config import SketchConfig


def old_tasks(program: Program) -> np.ndarray:
    return np.flatnonzero(program.kind != TaskKind.PROBE)


def test_full_probes_record_every_event_of_the_small_program(small_program: Program) -> None:
    probed = instrument(small_program, "full")
    own = probed.kind[probed.event_task] != TaskKind.PROBE
    assert probed.recorded[own].all() and not probed.recorded[~own].any()
    assert (probed.kind == TaskKind.PROBE).sum() == small_program.n_events == 8


def test_a_record_costs_two_clock_reads_and_a_slot_update_on_the_core_that_records(
    small_program: Program,
) -> None:
    probed = instrument(small_program, "full")
    probes = np.flatnonzero(probed.kind == TaskKind.PROBE)
    # 2 x 10 + 30; the DRAM write (last event) adds a third read and a second slot: + 10 + 30.
    assert probed.work_macs[probes].tolist() == [50.0] * 7 + [90.0]
    port_core = small_program.chip.dram_ports[0]
    assert probed.core[probes].tolist() == [0, 0, 1, 2, 1, 2, 3, port_core]
    assert probed.once[probes].tolist() == [True] + [False] * 7


@pytest.mark.parametrize(
    ("text", "config", "cycles"),
    [
        ("exec comp pre", SketchConfig(), 10 + 30),
        ("exec comp post", SketchConfig(), 10 + 30),
        ("exec comp surround inst list", SketchConfig(), 20 + 16),
        ("exec comp", SketchConfig(mode="hash", n_tables=3), 20 + 3 * 15 + 30),
        ("exec comp; exec comp surround inst list", SketchConfig(), 50 + 36),
    ],
)
def test_the_cost_follows_location_structure_and_mode(
    small_program: Program, text: str, config: SketchConfig, cycles: float
) -> None:
    probed = instrument(small_program, text, config)
    probes = probed.kind == TaskKind.PROBE
    assert probed.work_macs[probes].tolist() == [cycles] * 4
    assert (probed.kind[probed.event_task[probed.recorded]] == TaskKind.COMPUTE).all()


@pytest.mark.parametrize("name", [*PROBES, "exec comp surround stage"])
def test_probes_never_change_the_data_flow(small_program: Program, name: str) -> None:
    """Without its probes, the probed program is the program, number for number."""
    probed = instrument(small_program, name)
    kept = old_tasks(probed)
    for column in ("op", "core", "port", "work_macs", "message_bytes", "role", "once", "kind"):
        assert np.array_equal(getattr(probed, column)[kept], getattr(small_program, column))
    assert np.array_equal(probed.dst_cores, small_program.dst_cores)
    old_event = np.full(probed.n_events, -1)
    own = probed.kind[probed.event_task] != TaskKind.PROBE
    old_event[own] = np.arange(small_program.n_events)
    for old, new in enumerate(kept):
        before = slice(*small_program.dep_offsets[old : old + 2])
        after = slice(*probed.dep_offsets[new : new + 2])
        assert np.array_equal(old_event[probed.dep_events[after]], small_program.dep_events[before])
        assert np.array_equal(probed.dep_lags[after], small_program.dep_lags[before])


def test_each_probe_waits_for_its_event_and_nothing_waits_for_a_probe(
    small_program: Program,
) -> None:
    probed = instrument(small_program, "full")
    assert not np.isin(
        np.flatnonzero(probed.kind[probed.event_task] == TaskKind.PROBE), probed.dep_events
    ).any()
    for task in np.flatnonzero(probed.kind == TaskKind.PROBE):
        (event,) = probed.dep_events[slice(*probed.dep_offsets[task : task + 2])]
        assert probed.event_recorder[event] == probed.core[task]
        assert probed.task_group[probed.event_task[event]] == probed.task_group[task]


def test_no_probes_leave_the_program_without_records(small_program: Program) -> None:
    probed = instrument(small_program, "none")
    assert probed.n_tasks == small_program.n_tasks and not probed.recorded.any()
    assert dataclasses.replace(probed, recorded=small_program.recorded).fingerprint == (
        small_program.fingerprint
    )


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("comm", {TaskKind.TRANSFER}),
        ("io", {TaskKind.DRAM_READ, TaskKind.DRAM_WRITE}),
        ("comp", {TaskKind.COMPUTE}),
    ],
)
def test_a_preset_records_the_instructions_of_its_type(
    small_program: Program, name: str, kinds: set[TaskKind]
) -> None:
    probed = instrument(small_program, name)
    assert set(probed.kind[probed.event_task[probed.recorded]].tolist()) == kinds


def test_a_stage_probe_records_once_a_core_and_group(small_program: Program) -> None:
    probed = instrument(small_program, "route comm surround stage; exec comp surround stage")
    probes = np.flatnonzero(probed.kind == TaskKind.PROBE)
    # Group 0: cores 0, 1, 2 compute, 1 and 2 receive; group 1: core 3 computes.
    assert sorted(probed.core[probes].tolist()) == [0, 1, 1, 2, 2, 3]


def test_probing_twice_is_refused(small_program: Program) -> None:
    with pytest.raises(SlowpokeError, match="has probes already"):
        instrument(instrument(small_program), "comm")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("all", "one of comm, io, comp, full, none"),
        ("exec comm", "comm goes with route"),
        ("exec comp before", "pre, post, surround"),
        ("exec comp pre inst list more", "two to five words"),
    ],
)
def test_a_wrong_probe_says_what_would_do(text: str, message: str) -> None:
    with pytest.raises(SlowpokeError, match=message):
        probe_set(text)


@given(
    st.sampled_from(["exec comp", "route comm", "mem io"]),
    st.sampled_from(["pre", "post", "surround"]),
    st.sampled_from(["inst", "stage"]),
    st.sampled_from(["list", "sketch"]),
)
def test_every_five_tuple_reads_back_from_its_words(a: str, b: str, c: str, d: str) -> None:
    probe = Probe.parse(f"{a} {b} {c} {d}")
    assert Probe.parse(" ".join(probe)) == probe == Probe(*probe)
