"""Closed forms against the played processes: four standard errors, fixed seeds."""

import math

import numpy as np
import pytest

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.cadence import CheckpointCost, cadence
from torch_slowpoke.efficiency.failslow import (
    joint_efficiency,
    slow_with_periodic_diagnosis,
    slow_with_random_detection,
    slow_without_detection,
)
from torch_slowpoke.efficiency.failslow.joint import SlowProcess
from torch_slowpoke.efficiency.losses import CheckpointPlan
from torch_slowpoke.efficiency.machine import machine_efficiency, schedule_losses
from torch_slowpoke.efficiency.montecarlo import (
    Estimate,
    play_jobs,
    ratio,
    segment_lengths,
    simulate_joint,
    simulate_machine,
    simulate_project,
    simulate_slow_share,
)
from torch_slowpoke.efficiency.schedule import Schedule, schedule_of_jobs

R0 = 2e-5
MOST = 4.0
COST = CheckpointCost("shared", 200 / 21.6e6)


@pytest.mark.parametrize("segments", ["paper", "exact", "equal"])
@pytest.mark.parametrize(("n", "hours"), [(512, 2.0), (2048, 6.0), (4096, 24.0), (9408, 12.0)])
def test_one_jobs_losses(segments: str, n: int, hours: float) -> None:
    plan = CheckpointPlan(segments)  # type: ignore[arg-type]
    one = schedule_of_jobs([n], [hours])
    theory = schedule_losses(one, R0, COST, plan)
    usage, u_chk = np.array([n * hours]), COST.checkpoint_node_hours([n])
    segment, last = segment_lengths(usage, R0, u_chk, theory.n_segments, plan)
    n_jobs = 200_000
    played = play_jobs(
        np.random.default_rng(11),
        *(
            np.full(n_jobs, float(v))
            for v in (
                R0,
                theory.n_segments[0],
                segment[0],
                last[0],
                u_chk[0],
                COST.restart_node_hours([n])[0],
            )
        ),
    )
    for name in ("usage", "failure", "checkpoint", "restart"):
        values = getattr(played, f"{name}_node_hours")
        error = values.std(ddof=1) / math.sqrt(n_jobs)
        expected = getattr(theory, f"{name}_node_hours")[0]
        assert abs(values.mean() - expected) <= MOST * error + 1e-9


@pytest.mark.parametrize("n", [2000, 8192])
@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_a_project_that_restarts_until_done(n: int, factor: float) -> None:
    job = cadence(n, R0, COST)
    u_c, u_chk, u_r = (
        factor * job.cadence_node_hours,
        job.checkpoint_node_hours,
        job.restart_node_hours,
    )
    played = simulate_project(R0, u_c, u_chk, u_r, n_runs=4000, seed=3)
    # Equation (3.2).
    usage = 100 * u_c
    loss = usage * (math.expm1(R0 * (u_c + u_chk)) * math.exp(R0 * u_r) / (R0 * u_c) - 1)
    assert played.errors_from(loss) <= MOST


def test_the_frontier_machine(frontier: Schedule, frontier_cost: CheckpointCost) -> None:
    for segments, definition in (("paper", "paper"), ("exact", "renewal"), ("equal", "renewal")):
        plan = CheckpointPlan(segments)  # type: ignore[arg-type]
        theory = machine_efficiency(frontier, R0, frontier_cost, plan, definition=definition)  # type: ignore[arg-type]
        played = simulate_machine(
            frontier,
            R0,
            frontier_cost,
            plan,
            definition=definition,  # type: ignore[arg-type]
            n_years=10,
            seed=5,
        )
        assert played.efficiency.errors_from(theory.efficiency) <= MOST
        assert played.failure_loss.errors_from(theory.failure_loss) <= MOST
        assert played.checkpoint_loss.errors_from(theory.checkpoint_loss) <= MOST
        assert played.restart_loss.errors_from(theory.restart_loss) <= MOST
        assert played.efficiency.standard_error < 1e-3
        assert played.one_year_sd is not None
        assert 5e-4 < played.one_year_sd < 3e-3  # the reference found 0.0011 .. 0.0013


@pytest.mark.parametrize(("usage", "rate"), [(24576.0, 1e-5), (100000.0, 2e-5), (240000.0, 1e-4)])
def test_the_slow_share(usage: float, rate: float) -> None:
    n_jobs = 30_000
    none = simulate_slow_share(usage, rate, n_jobs=n_jobs, seed=1)
    assert none.errors_from(float(slow_without_detection(usage, rate))) <= MOST
    found = simulate_slow_share(
        usage, rate, recall=0.87, mean_usage_to_detect=2000.0, n_jobs=n_jobs, seed=2
    )
    theory = float(slow_with_random_detection(usage, rate, 0.87, 2000.0))
    assert found.errors_from(theory) <= MOST
    for recall, period in ((0.8677, 1024.0), (0.5, 4096.0)):
        looked = simulate_slow_share(
            usage, rate, recall=recall, period=period, n_jobs=n_jobs, seed=3
        )
        theory = slow_with_periodic_diagnosis(usage, rate, recall, period)
        assert looked.errors_from(theory) <= MOST


@pytest.mark.parametrize("n", [1024, 4096])
@pytest.mark.parametrize(
    "slow",
    [
        SlowProcess(0.0, 1.67),
        SlowProcess(1e-5, 1.67),
        SlowProcess(1e-5, 1.67, 0.8677, 5e-4, 2e-5, 170.0),
        SlowProcess(1e-4, 2.48, 0.6968, 5e-4, 1e-4, 500.0, 2e-4),
        SlowProcess(1e-5, 1.67, 0.8677, 5e-4, 2e-5, policy="kill"),
        SlowProcess(1e-4, 2.48, 0.6968, 5e-4, 1e-4, 0.0, 2e-4, policy="kill"),
    ],
)
def test_failures_and_slowness_together(n: int, slow: SlowProcess) -> None:
    job = cadence(n, R0, COST)
    arguments = (R0, job.cadence_node_hours, job.checkpoint_node_hours, job.restart_node_hours)
    played = simulate_joint(*arguments, slow, n_cycles=10_000, seed=7)
    assert played.errors_from(joint_efficiency(*arguments, slow).efficiency) <= MOST
    assert played.standard_error < 0.01


def test_the_same_seed_plays_the_same() -> None:
    schedule = schedule_of_jobs([512, 1024], [6.0, 12.0], [1000.5, 200])
    plan = CheckpointPlan()
    a = simulate_machine(schedule, R0, COST, plan, n_years=3, seed=1)
    b = simulate_machine(schedule, R0, COST, plan, n_years=3, seed=1)
    c = simulate_machine(schedule, R0, COST, plan, n_years=3, seed=2)
    assert a == b
    assert a != c


def test_a_ratio_knows_its_error() -> None:
    generator = np.random.default_rng(0)
    runs = [
        ratio(x, 2.0 * np.ones(400)).errors_from(0.5)
        for x in generator.normal(1.0, 0.1, (200, 400))
    ]
    assert 0.9 < float(np.mean(np.square(runs))) < 1.3
    assert ratio(np.ones(1), np.ones(1)) == Estimate(1.0, math.inf)


def test_what_cannot_be_played_is_one_sentence(frontier_cost: CheckpointCost) -> None:
    one = schedule_of_jobs([512], [6.0])
    with pytest.raises(SlowpokeError, match="nothing fails"):
        simulate_machine(one, 0.0, COST, CheckpointPlan())
    with pytest.raises(SlowpokeError, match="never succeeds"):
        simulate_machine(one, 100.0, COST, CheckpointPlan())
    with pytest.raises(SlowpokeError, match="whole segments"):
        simulate_machine(one, R0, COST, CheckpointPlan("paper", rounding="none"))
    with pytest.raises(SlowpokeError, match="years"):
        simulate_machine(one, R0, COST, CheckpointPlan(), n_years=0)
    with pytest.raises(SlowpokeError, match="too many"):
        simulate_machine(schedule_of_jobs([2], [1.0], [1e12]), R0, COST, CheckpointPlan())
    with pytest.raises(SlowpokeError, match="finite detection"):
        simulate_joint(R0, 1.0, 1.0, 1.0, SlowProcess(1e-5, 2.0, 1.0, math.inf))
