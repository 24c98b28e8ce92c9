"""The sweep over intervals of whole phases, against every interval tried one by one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowpoke_mapping.places import Core, Link
from slowpoke_sim.twin import DigitalTwin
from slowpoke_tracer.phase_bank import PhaseBank, PhaseFault
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.sweep import best_whole_interval, polished
from slowpoke_tracer.synthesis import Synthesis
from tests.tracer.convolutions import five_convolutions

N_EPOCHS = 3
SLOW_LINK, SLOW_CORE = Link(0, 1, both=True), Core(2)


@pytest.fixture(scope="module")
def bank() -> PhaseBank:
    program = five_convolutions(inferences=80)
    return PhaseBank(
        program, SketchConfig().patterns(program), N_EPOCHS, DigitalTwin(program).phases(11)
    )


def observed(bank: PhaseBank, fault: PhaseFault, seed: int) -> Synthesis:
    """A run under a fault, with Gaussian noise of a tenth on every cell that happens."""
    residual = bank.run([fault], {}).change()[0]
    residual = residual + 0.1 * np.random.default_rng(seed).standard_normal(residual.shape)
    for epoch in range(bank.n_epochs):
        residual[np.isnan(bank.healthy_cells_of(epoch)[0]), epoch] = np.nan
    baseline = SimpleNamespace(means=SimpleNamespace(variance=np.full(residual.shape, 0.01)))
    return Synthesis(lambda run: bank, cast("Any", baseline), residual)


@settings(max_examples=20, deadline=None)
@given(
    place=st.sampled_from([SLOW_LINK, SLOW_CORE]),
    guess=st.sampled_from([2.0, 4.0]),
    edges=st.tuples(st.floats(0, 0.9), st.floats(0.05, 1)),
    seed=st.integers(0, 99),
    with_other=st.booleans(),
)
def test_no_interval_of_whole_phases_explains_more(
    bank: PhaseBank,
    place: Link | Core,
    guess: float,
    edges: tuple[float, float],
    seed: int,
    with_other: bool,
) -> None:
    n = bank.n_phases
    first = edges[0] * n
    last = min(first + edges[1] * n, float(n))
    synthesis = observed(bank, PhaseFault(place, 3.0, first, last), seed)
    accepted = [PhaseFault(Core(1), 2.0, 1.0, n / 2)] if with_other else []
    anywhere = PhaseFault(place, guess, 0.0, float(n))
    best, misfit = best_whole_interval(synthesis, anywhere, accepted)
    least = min(
        synthesis.misfit((*accepted, PhaseFault(place, guess, float(i), float(j))))
        for i in range(n)
        for j in range(i + 1, n + 1)
    )
    assert misfit == pytest.approx(least, abs=1e-6)
    assert synthesis.misfit((*accepted, best)) == pytest.approx(least, abs=1e-6)


def test_epochs_far_from_the_fault_are_left_alone(bank: PhaseBank) -> None:
    n = bank.n_phases
    fault = PhaseFault(SLOW_CORE, 9.0, 0.0, 3.0)
    synthesis = observed(bank, fault, 0)
    found, _ = best_whole_interval(synthesis, fault, [])
    # Batches of an epoch share cells, so the fault may as well be in another one of the epoch.
    assert found.last - found.first == 3
    assert found.last <= np.count_nonzero(bank.epoch_of_batch == 0) * bank.program.n_groups
    assert synthesis.n_phases_replayed < n


@pytest.mark.parametrize("place", [SLOW_LINK, SLOW_CORE])
def test_interval_and_slowdown_by_turns_end_at_the_truth(
    bank: PhaseBank, place: Link | Core
) -> None:
    n = float(bank.n_phases)
    truth = PhaseFault(place, 6.0, round(0.2 * n), round(0.7 * n))
    synthesis = observed(bank, truth, 1)
    found = polished(synthesis, PhaseFault(place, 3.0, 0.0, n), [], 1.4)
    assert found.slowdown == pytest.approx(6.0, rel=0.1)
    assert found.first == pytest.approx(truth.first, abs=0.5)
    assert found.last == pytest.approx(truth.last, abs=0.5)
