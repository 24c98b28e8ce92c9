"""Phases replayed alone, against whole replays of the same faults."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowpoke_mapping.chip import chip
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.graph import Operator, OperatorGraph, OpKind
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.places import Core, Link
from slowpoke_mapping.program import Program
from slowpoke_sim.machine import run
from slowpoke_sim.twin import DigitalTwin
from slowpoke_tracer.baseline import Replayer
from slowpoke_tracer.cells import cells_of
from slowpoke_tracer.phase_bank import PhaseBank, PhaseFault, covered, replayed_batches
from slowpoke_tracer.sketch_config import SketchConfig
from tests.tracer.convolutions import five_convolutions

SEED = 11
N_EPOCHS = 4
ROUNDING = 1 / 2048
"""Of ln(duration) in a sketch's slots."""


@pytest.fixture(scope="module")
def program() -> Program:
    return five_convolutions(inferences=24)


@pytest.fixture(scope="module")
def bank(program: Program) -> PhaseBank:
    patterns = SketchConfig().patterns(program)
    return PhaseBank(program, patterns, N_EPOCHS, DigitalTwin(program).phases(SEED))


def whole(program: Program, bank: PhaseBank, faults: list[Fault]) -> np.ndarray:
    """(2, n_patterns, n_epochs) change of cells between two whole replays."""
    replayer = Replayer(DigitalTwin(program), bank.patterns, N_EPOCHS)
    slow, healthy = (cells_of(replayer.sketch(SEED, faults=f), bank.patterns) for f in (faults, []))
    mean, largest = slow.log_mean - healthy.log_mean, slow.log_max - healthy.log_max
    return np.nan_to_num(np.stack([mean, largest]))


@pytest.mark.parametrize("place", [Core(1), Link(0, 1, both=True), Link(1, 0)])
def test_a_fault_of_the_whole_run_is_the_sum_of_its_phases(
    program: Program, bank: PhaseBank, place: Core | Link
) -> None:
    phases = bank.run([PhaseFault(place, 4.0, 0, bank.n_phases)], {})
    expected = whole(program, bank, [Fault(place, 4.0)])
    np.testing.assert_allclose(np.stack(phases.change()), expected, atol=2 * ROUNDING)
    makespan = run(program, [Fault(place, 4.0)], seed=SEED, trace=False).timing.makespan_cycles
    assert phases.cycles.sum() == pytest.approx(makespan, rel=1e-9)


@settings(max_examples=15, deadline=None)
@given(first=st.integers(0, 8), lasting=st.integers(1, 6), share=st.sampled_from([0.0, 0.25, 0.5]))
def test_edges_on_the_clock_of_phases_are_edges_on_the_clock_of_cycles(
    program: Program, bank: PhaseBank, first: int, lasting: int, share: float
) -> None:
    last = min(first + lasting, bank.n_phases)
    fault = PhaseFault(Core(2), 5.0, first + share, last)
    phases = bank.run([fault], {})
    clock = np.concatenate([[0.0], np.cumsum(phases.cycles)])
    start = clock[first] + share * bank.healthy_cycles[first]
    end = clock[last] if last < bank.n_phases else np.inf
    expected = whole(program, bank, [Fault(Core(2), 5.0, start, end)])
    np.testing.assert_allclose(np.stack(phases.change()), expected, atol=2 * ROUNDING)


def test_a_fault_that_ends_inside_a_phase_shortens_it(bank: PhaseBank) -> None:
    cycles = [
        bank.run([PhaseFault(Core(0), 8.0, 3.0, last)], {}).cycles[3]
        for last in (3.25, 3.5, 3.75, 4.0)
    ]
    assert bank.healthy_cycles[3] <= cycles[0] <= cycles[1] <= cycles[2] <= cycles[3]
    assert cycles[0] < cycles[3]


def test_without_a_fault_nothing_changes_and_nothing_is_replayed(bank: PhaseBank) -> None:
    known: dict[object, object] = {}
    healthy = bank.run([], known)  # type: ignore[arg-type]
    assert not known
    assert not any(array.any() for array in healthy.change())
    np.testing.assert_array_equal(healthy.cycles, bank.healthy_cycles)


def test_no_phase_is_replayed_twice(bank: PhaseBank) -> None:
    known: dict[object, object] = {}
    bank.run([PhaseFault(Core(0), 3.0, 2, 6)], known)  # type: ignore[arg-type]
    assert len(known) == 4
    bank.run([PhaseFault(Core(0), 3.0, 1, 6)], known)  # type: ignore[arg-type]
    assert len(known) == 5


def test_only_the_segments_asked_for_are_replayed_and_their_cells_are_whole(
    bank: PhaseBank,
) -> None:
    only = np.zeros((N_EPOCHS, bank.program.n_groups), dtype=bool)
    only[1] = True
    known: dict[object, object] = {}
    fault = PhaseFault(Core(0), 3.0, 0, bank.n_phases)
    part = bank.run([fault], known, only).change()  # type: ignore[arg-type]
    complete = bank.run([fault], {}).change()
    cells = bank.cells_within(only)
    assert cells.any() and not cells[:, [0, 2, 3]].any()
    for some, every in zip(part, complete, strict=True):
        np.testing.assert_array_equal(some[cells], every[cells])
    in_epoch = int((bank.epoch_of_batch == 1).sum()) * bank.program.n_groups
    assert len(known) == in_epoch


def test_a_cell_with_a_phase_outside_is_not_within(bank: PhaseBank) -> None:
    spans = bank.spans
    assert spans.any(axis=1).all()
    for group in range(bank.program.n_groups):
        only = np.ones((N_EPOCHS, bank.program.n_groups), dtype=bool)
        only[:, group] = False
        np.testing.assert_array_equal(bank.cells_within(only)[:, 0], ~spans[:, group])


def long_program(inferences: int) -> Program:
    box = (1, 16, 8, 8)
    operators = tuple(
        Operator(f"conv{i}", OpKind.CONV, box, (), macs=16 * 9 * 1024, weight_elements=16 * 9)
        for i in range(2)
    )
    config = chip("default", topology="mesh:2x2", message_bytes=512, packet_bytes=512)
    return lower(map_graph(OperatorGraph("two", operators), config), inferences=inferences)


@settings(max_examples=20, deadline=None)
@given(inferences=st.integers(1, 90), most=st.integers(1, 6))
def test_every_batch_has_a_stand_in_of_its_own_size(inferences: int, most: int) -> None:
    program = long_program(inferences)
    batches, stand_in = replayed_batches(program, most)
    assert len(stand_in) == program.n_batches
    for batch in range(program.n_batches):
        stands = batches[stand_in[batch]]
        assert program.units_in_batch(stands) == program.units_in_batch(batch)
    assert len(batches) <= most + 1
    assert set(stand_in.tolist()) == set(range(len(batches)))
    if program.n_batches <= most:
        assert [batches[i] for i in stand_in] == list(range(program.n_batches))


@pytest.mark.parametrize("n_epochs", [1, 3])
def test_without_noise_a_few_batches_say_what_all_say(n_epochs: int) -> None:
    program = long_program(77)
    twin, patterns = DigitalTwin(program, "none"), SketchConfig().patterns(program)
    batches, stand_in = replayed_batches(program, 2)
    assert len(batches) == 3 < program.n_batches
    every = PhaseBank(program, patterns, n_epochs, twin.phases())
    few = PhaseBank(program, patterns, n_epochs, twin.phases(batches=batches), stand_in)
    assert few.n_phases == every.n_phases
    np.testing.assert_allclose(few.healthy_cycles, every.healthy_cycles, rtol=1e-9)
    faults = [PhaseFault(Link(0, 1, both=True), 6.0, 2.5, every.n_phases - 0.25)]
    known: dict[object, object] = {}
    run = few.run(faults, known)  # type: ignore[arg-type]
    expected = every.run(faults, {})
    assert len(known) < every.n_phases / 2
    np.testing.assert_allclose(run.cycles, expected.cycles, rtol=1e-9)
    np.testing.assert_allclose(np.stack(run.change()), np.stack(expected.change()), atol=1e-9)


def test_an_empty_interval_is_refused() -> None:
    with pytest.raises(SlowpokeError, match="empty"):
        PhaseFault(Core(0), 2.0, 3.0, 3.0)


def test_covered_phases() -> None:
    faults = [PhaseFault(Core(0), 2.0, 1.5, 3.25), PhaseFault(Core(1), 2.0, 3.0, 9.0)]
    assert covered(faults, 5) == [1, 2, 3, 4]
