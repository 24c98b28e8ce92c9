"""Phases one by one are the phases of a whole run."""

from __future__ import annotations

import numpy as np
import pytest

from slowpoke_mapping.chip import chip
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.graph import Operator, OperatorGraph, OpKind
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.places import Core
from slowpoke_mapping.program import Program
from slowpoke_sim.twin import DigitalTwin


def program_of(skew_cycles: float = 0.0) -> Program:
    box = (1, 8, 8, 8)
    operators = tuple(
        Operator(f"conv{i}", OpKind.CONV, box, (), macs=8 * 9 * 512, weight_elements=8 * 9 * 8)
        for i in range(3)
    )
    config = chip("default", topology="mesh:2x2", clock_skew_cycles=skew_cycles)
    return lower(map_graph(OperatorGraph("three", operators), config), inferences=8)


@pytest.mark.parametrize("noise", ["released", "harsh"])
def test_a_phase_without_a_fault_is_the_healthy_one_bit_for_bit(noise: str) -> None:
    replays = DigitalTwin(program_of(), noise).phases(seed=3)
    for index, healthy in enumerate(replays.healthy()):
        again = replays.faulty(index, ())
        assert again.cycles == healthy.cycles
        np.testing.assert_array_equal(again.duration, healthy.duration)
        np.testing.assert_array_equal(again.port_duration, healthy.port_duration)


def test_a_fault_after_a_phase_leaves_it_alone_and_one_before_it_slows_it() -> None:
    replays = DigitalTwin(program_of()).phases(seed=3)
    healthy = replays.healthy()[0]
    late = Fault(Core(0), 10.0, healthy.cycles + 1, np.inf)
    assert replays.faulty(0, [late]).cycles == healthy.cycles
    assert replays.faulty(0, [Fault(Core(0), 10.0)]).cycles > healthy.cycles


@pytest.mark.parametrize("skew_cycles", [0.0, 50.0])
def test_durations_are_those_that_the_trace_of_a_replay_shows(skew_cycles: float) -> None:
    program = program_of(skew_cycles)
    twin = DigitalTwin(program)
    phases = twin.phases(seed=5).healthy()
    blocks = list(twin.replay(seed=5))
    assert len(phases) == len(blocks) > 0
    for times, block in zip(phases, blocks, strict=True):
        seen = times.duration[~np.isnan(times.duration)]
        shown = np.concatenate(
            [
                block.compute["end_cycles"] - block.compute["start_cycles"],
                block.transfers["eject_cycles"] - block.transfers["inject_cycles"],
            ]
        )
        np.testing.assert_allclose(np.sort(seen), np.sort(shown), rtol=1e-9, atol=1e-6)


def test_batches_of_choice_run_one_after_another() -> None:
    program = program_of()
    n_batches = program.n_batches
    assert n_batches > 1
    twin = DigitalTwin(program, "none")
    every = twin.phases().healthy()
    chosen = twin.phases(batches=[n_batches - 1, 0]).healthy()
    expected = every[-program.n_groups :] + every[: program.n_groups]
    assert len(chosen) == len(expected)
    for ours, theirs in zip(chosen, expected, strict=True):
        assert ours.cycles == pytest.approx(theirs.cycles, rel=1e-9)
        np.testing.assert_allclose(ours.duration, theirs.duration, rtol=1e-9, atol=1e-6)
