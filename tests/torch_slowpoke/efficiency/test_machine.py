"""The paper's own results, the exact ones, and the identities that hold between them."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.cadence import CheckpointCost, cadence, checkpoint_cost
from torch_slowpoke.efficiency.losses import CheckpointPlan, JobLosses, job_losses
from torch_slowpoke.efficiency.machine import (
    Application,
    MachineEfficiency,
    machine_efficiency,
    schedule_losses,
)
from torch_slowpoke.efficiency.schedule import Schedule, schedule_of_bins, schedule_of_jobs

RATE = 2e-5
PAPER = CheckpointPlan("paper")
EXACT = CheckpointPlan("exact")

# The authors' bisection stops at 1e-8 in z_c, which leaves 1e-10 in the losses.
TOLERANCE = 1e-8


def assert_same(ours: MachineEfficiency, theirs: dict[str, float]) -> None:
    assert ours.efficiency == pytest.approx(theirs["e"], rel=TOLERANCE)
    assert ours.failure_loss == pytest.approx(theirs["l_F"], rel=TOLERANCE)
    assert ours.checkpoint_loss == pytest.approx(theirs["l_chk"], rel=TOLERANCE)
    assert ours.restart_loss == pytest.approx(theirs["l_R"], rel=TOLERANCE)
    assert ours.losses[0] == pytest.approx(theirs["U_tot"], rel=TOLERANCE)
    if "e_renewal" in theirs:
        renewal = ours.by("renewal")
        assert renewal.efficiency == pytest.approx(theirs["e_renewal"], rel=TOLERANCE)


@pytest.mark.parametrize(
    ("case", "plan"),
    [
        ("base", PAPER),
        ("base_continuous", CheckpointPlan("paper", rounding="plus-one")),
        ("base_capped", CheckpointPlan("paper", capped=True)),
        ("no_checkpoint", CheckpointPlan("paper", checkpoints=False)),
        (
            "no_checkpoint_continuous",
            CheckpointPlan("paper", checkpoints=False, rounding="plus-one"),
        ),
    ],
)
def test_the_papers_machine(
    case: str,
    plan: CheckpointPlan,
    oracle: dict[str, Any],
    frontier: Schedule,
    frontier_cost: CheckpointCost,
) -> None:
    ours = machine_efficiency(frontier, RATE, frontier_cost, plan, definition="paper")
    assert_same(ours, oracle[case])


def test_the_printed_figures(frontier: Schedule, frontier_cost: CheckpointCost) -> None:
    ours = machine_efficiency(frontier, RATE, frontier_cost, PAPER, definition="paper")
    assert round(ours.efficiency, 3) == 0.957
    assert round(ours.checkpoint_loss, 3) == 0.012
    assert round(ours.failure_loss, 3) == 0.028
    assert round(ours.restart_loss, 3) == 0.003
    assert round(100 * ours.overprovision, 1) == 4.5
    never = CheckpointPlan("paper", checkpoints=False)
    without = machine_efficiency(frontier, RATE, frontier_cost, never, definition="paper")
    assert round(without.efficiency, 3) == 0.914


@pytest.mark.parametrize(
    ("case", "plan"),
    [
        ("base_paper_model_closed_form", PAPER),
        ("base_exact_last_segment", EXACT),
        ("no_checkpoint_exact_last", CheckpointPlan("exact", checkpoints=False)),
        ("continuous_without_plus1", CheckpointPlan("paper", rounding="none")),
    ],
)
def test_the_variants(
    case: str,
    plan: CheckpointPlan,
    oracle: dict[str, Any],
    frontier: Schedule,
    frontier_cost: CheckpointCost,
) -> None:
    ours = machine_efficiency(frontier, RATE, frontier_cost, plan, definition="paper")
    assert_same(ours, oracle["variants_ours"][case])


def test_the_variants_of_durations(
    oracle: dict[str, Any],
    frontier_columns: npt.NDArray[np.int64],
    frontier_cost: CheckpointCost,
) -> None:
    variants = oracle["variants_ours"]
    nodes, requested, actual = frontier_columns
    ratio = actual.sum() / requested.sum()
    assert ratio == pytest.approx(variants["r_from_mean_time"]["r"], rel=1e-14)
    by_time = schedule_of_jobs(nodes, requested / 3600.0 * ratio)
    as_requested = schedule_of_jobs(nodes, requested / 3600.0)
    as_run = schedule_of_jobs(nodes, actual / 3600.0, keep_empty=True)
    for case, schedule, plan in (
        ("r_from_mean_time", by_time, PAPER),
        ("requested_r1", as_requested, PAPER),
        ("actual_durations", as_run, PAPER),
        ("actual_durations_exact_last", as_run, EXACT),
    ):
        ours = machine_efficiency(schedule, RATE, frontier_cost, plan, definition="paper")
        assert_same(ours, variants[case])
    assert "45 jobs" in schedule_of_jobs(nodes, actual / 3600.0).notes[0]


def test_node_local_checkpoints(oracle: dict[str, Any], frontier: Schedule) -> None:
    variants = oracle["variants_ours"]
    same_tau = CheckpointCost("local", checkpoint_cost(200e9, 6e12).write_hours)
    ours = machine_efficiency(frontier, RATE, same_tau, PAPER, definition="paper")
    assert_same(ours, variants["node_local_same_tau"])
    slow = checkpoint_cost(200e9, 4e9, model="local")
    ours = machine_efficiency(frontier, RATE, slow, PAPER, definition="paper")
    assert_same(ours, variants["node_local_4GBps_per_node"])


def test_equal_segments_are_the_best_and_the_default(
    oracle: dict[str, Any], frontier: Schedule, frontier_cost: CheckpointCost
) -> None:
    best = machine_efficiency(frontier, RATE, frontier_cost)
    expected = oracle["variants_ours"]["integer_optimal_equal_segments_exact_last"]["e_renewal"]
    assert best.efficiency == pytest.approx(expected, rel=1e-13)
    exact = machine_efficiency(frontier, RATE, frontier_cost, EXACT)
    assert best.efficiency > exact.efficiency


def test_figure_7_2_on_its_grid(
    oracle: dict[str, Any], frontier: Schedule, frontier_cost: CheckpointCost
) -> None:
    grid = oracle["fig7_2_grid"]
    for i, factor in enumerate(grid["cadence"]):
        plan = CheckpointPlan("paper", factor=factor, capped=True)
        ours = machine_efficiency(frontier, RATE, frontier_cost, plan, definition="paper")
        assert ours.efficiency == pytest.approx(grid["e"][i], rel=TOLERANCE)
        assert ours.failure_loss == pytest.approx(grid["l_F"][i], rel=TOLERANCE)
        assert ours.checkpoint_loss == pytest.approx(grid["l_chk"][i], rel=TOLERANCE, abs=1e-15)
        assert ours.restart_loss == pytest.approx(grid["l_R"][i], rel=TOLERANCE)
    for text, theirs in oracle["variants_ours"]["fig7_2_exact_last"].items():
        plan = CheckpointPlan("exact", factor=float(text))
        assert_same(
            machine_efficiency(frontier, RATE, frontier_cost, plan, definition="paper"), theirs
        )


def test_figure_7_3(oracle: dict[str, Any], frontier_cost: CheckpointCost) -> None:
    exact = oracle["variants_ours"]["fig7_3_exact_last"]
    for key, theirs in oracle["fig7_3"].items():
        n, t = (float(part.split("=")[1]) for part in key.split(","))
        one = schedule_of_jobs([n], [t])
        paper = machine_efficiency(one, RATE, frontier_cost, PAPER, definition="paper")
        assert_same(paper, theirs)
        ours = machine_efficiency(one, RATE, frontier_cost, EXACT, definition="paper")
        assert_same(ours, exact[key])
    for n_text, row in oracle["fig7_3_grid"].items():
        hours = np.arange(1, len(row) + 1)
        jobs = schedule_of_jobs(np.full(len(row), int(n_text)), hours)
        per_job = schedule_losses(jobs, RATE, frontier_cost, PAPER)
        lost = (
            per_job.failure_node_hours + per_job.checkpoint_node_hours + per_job.restart_node_hours
        )
        np.testing.assert_allclose(1 - lost / per_job.usage_node_hours, row, rtol=TOLERANCE)
    for n_text, theirs in oracle["cell10_sizes"].items():
        one = schedule_of_jobs([int(n_text)], [24.0])
        assert_same(machine_efficiency(one, RATE, frontier_cost, PAPER, definition="paper"), theirs)


def test_figures_7_4_and_7_5(
    oracle: dict[str, Any], frontier: Schedule, frontier_cost: CheckpointCost
) -> None:
    variants = oracle["variants_ours"]
    for theirs, both in zip(oracle["fig7_4"], variants["fig7_4"], strict=True):
        for plan, row in ((PAPER, theirs), (PAPER, both["paper"]), (EXACT, both["exact_last"])):
            ours = machine_efficiency(
                frontier, theirs["R0"], frontier_cost, plan, definition="paper"
            )
            assert_same(ours, row)
    grid = oracle["fig7_4_grid"]
    for rate, e in zip(grid["R0"], grid["e"], strict=True):
        ours = machine_efficiency(frontier, rate, frontier_cost, PAPER, definition="paper")
        assert ours.efficiency == pytest.approx(e, rel=TOLERANCE)
    for theirs, both in zip(oracle["fig7_5"], variants["fig7_5"], strict=True):
        cost = checkpoint_cost(200e9, theirs["B"] * 1e9)
        for plan, row in ((PAPER, theirs), (PAPER, both["paper"]), (EXACT, both["exact_last"])):
            ours = machine_efficiency(frontier, theirs["R0"], cost, plan, definition="paper")
            assert_same(ours, row)


def test_with_equal_segments_more_failures_are_never_better(
    frontier: Schedule, frontier_cost: CheckpointCost
) -> None:
    rates = np.geomspace(1e-5, 3.16e-4, 200)
    e = [machine_efficiency(frontier, r, frontier_cost).efficiency for r in rates]
    assert np.all(np.diff(e) < 0)


def test_a_wrong_rate_in_planning_costs_little(
    frontier: Schedule, frontier_cost: CheckpointCost
) -> None:
    """True rate 2e-5, planned at a quarter, half, twice, four times of it."""
    for factor, e in ((0.25, 0.94885), (0.5, 0.95295), (1, 0.95517), (2, 0.95020), (4, 0.94127)):
        ours = machine_efficiency(frontier, RATE, frontier_cost, EXACT, planned_rate=RATE * factor)
        assert ours.efficiency == pytest.approx(e, abs=6e-6)


def test_equal_segments_obey_a_wrong_cadence_too(
    frontier: Schedule, frontier_cost: CheckpointCost
) -> None:
    """A factor of ten is to never checkpoint for nearly all jobs, and best at one."""
    e = {
        f: machine_efficiency(frontier, RATE, frontier_cost, CheckpointPlan(factor=f)).efficiency
        for f in (0.1, 0.3, 0.8, 1.0, 1.25, 3.0, 10.0)
    }
    never = machine_efficiency(
        frontier, RATE, frontier_cost, CheckpointPlan(checkpoints=False)
    ).efficiency
    assert max(e, key=lambda f: e[f]) == 1.0
    assert e[0.1] < e[0.3] < e[0.8]
    assert e[1.25] > e[3.0] > e[10.0]
    assert e[10.0] == pytest.approx(never, abs=1e-6)
    planned = [
        machine_efficiency(frontier, RATE, frontier_cost, planned_rate=RATE * f).efficiency
        for f in (0.01, 0.25, 1.0, 4.0, 100.0)
    ]
    assert planned[0] < planned[1] < planned[2] > planned[3] > planned[4]


JOBS = st.lists(
    st.tuples(st.integers(1, 20000), st.floats(1e-3, 1e3), st.integers(1, 50)),
    min_size=1,
    max_size=8,
)


@settings(deadline=None)
@given(JOBS, st.floats(0, 1e-1), st.floats(0, 1e-2), st.sampled_from(["paper", "exact", "equal"]))
def test_identities_of_every_schedule(
    jobs: list[tuple[int, float, int]], rate: float, write_hours: float, segments: Any
) -> None:
    n, t, w = (np.array(column, dtype=float) for column in zip(*jobs, strict=True))
    schedule = schedule_of_jobs(n, t, w)
    cost = CheckpointCost("shared", write_hours)
    per_job = schedule_losses(schedule, rate, cost, CheckpointPlan(segments))
    useful = per_job.usage_node_hours - per_job.failure_node_hours - per_job.checkpoint_node_hours
    assert np.all(useful >= -1e-9 * per_job.usage_node_hours)
    renewal = machine_efficiency(schedule, rate, cost, CheckpointPlan(segments))
    assert 0 <= renewal.efficiency <= 1
    if segments != "paper" and rate > 0:
        # Wald: usage is the probability to fail over the rate.
        failing = -np.expm1(-rate * schedule.n_nodes * schedule.hours)
        np.testing.assert_allclose(per_job.usage_node_hours * rate, failing, rtol=1e-12)
    if rate == 0:
        assert renewal.efficiency == 1.0
    if rate == 0 and segments != "paper":
        assert renewal.losses[0] == pytest.approx(schedule.scheduled_node_hours, rel=1e-12)


def brute_force(n: int, hours: float, rate: float, cost: CheckpointCost) -> float:
    """Least L_F + L_chk over 1..59 equal segments, summed segment by segment (section 4)."""
    usage, u_chk = n * hours, float(cost.checkpoint_node_hours(n))
    best = math.inf
    for k in range(1, 60):
        s = usage / k
        p = math.exp(-rate * s)
        mean_loss = (1 - (1 + rate * s) * p) / rate
        total = sum(p**j * mean_loss for j in range(k))
        total += u_chk * (sum(j * (1 - p) * p**j for j in range(k)) + (k - 1) * p**k)
        best = min(best, total)
    return best


@settings(deadline=None, max_examples=60)
@given(st.integers(100, 10000), st.floats(1.0, 24.0), st.floats(1e-5, 2e-4))
def test_equal_segments_are_the_best_of_all_whole_numbers(n: int, t: float, rate: float) -> None:
    cost = checkpoint_cost(200e9, 6e12)
    losses = schedule_losses(schedule_of_jobs([n], [t]), rate, cost)
    if losses.n_segments[0] < 50:
        ours = losses.failure_node_hours[0] + losses.checkpoint_node_hours[0]
        assert ours == pytest.approx(brute_force(n, t, rate, cost), rel=1e-5)


def test_the_loss_to_failures_does_not_depend_on_the_duration_in_the_papers_model(
    frontier_cost: CheckpointCost,
) -> None:
    jobs = schedule_of_jobs(np.full(50, 4096), np.linspace(0.1, 100, 50))
    per_job = schedule_losses(jobs, RATE, frontier_cost, PAPER)
    share = per_job.failure_node_hours / per_job.usage_node_hours
    np.testing.assert_allclose(share, share[0], rtol=1e-13)


def test_very_long_jobs_reach_the_limit_of_section_3(frontier_cost: CheckpointCost) -> None:
    job = cadence(4096, RATE, frontier_cost)
    for plan in (PAPER, EXACT, CheckpointPlan()):
        long = machine_efficiency(schedule_of_jobs([4096], [1e9]), RATE, frontier_cost, plan)
        assert long.efficiency == pytest.approx(job.efficiency, rel=1e-12)


def test_a_whole_number_of_segments_is_not_rounded_up_twice() -> None:
    cost = CheckpointCost("local", 0.25, setup_hours=0.0)
    s = 4 * (cadence(4, 0.1, cost).seconds / 3600 + 0.25)
    for k in range(1, 40):
        losses = schedule_losses(schedule_of_jobs([4], [k * s / 4]), 0.1, cost, PAPER)
        assert losses.n_segments[0] == k


def test_grouping_changes_nothing(
    frontier_columns: npt.NDArray[np.int64], frontier_cost: CheckpointCost
) -> None:
    nodes, requested, _ = frontier_columns[:, :20000]
    grouped = machine_efficiency(
        schedule_of_jobs(nodes, requested / 3600.0), RATE, frontier_cost, PAPER
    )
    u = nodes * (requested / 3600.0)
    row: JobLosses = job_losses(
        u,
        np.array(RATE),
        frontier_cost.checkpoint_node_hours(nodes),
        frontier_cost.restart_node_hours(nodes),
        PAPER,
    )
    sums = (
        row.usage_node_hours.sum(),
        row.failure_node_hours.sum(),
        row.checkpoint_node_hours.sum(),
        row.restart_node_hours.sum(),
    )
    np.testing.assert_allclose(grouped.losses, sums, rtol=1e-12)


def test_a_binned_distribution_is_a_schedule(frontier_cost: CheckpointCost) -> None:
    binned = schedule_of_bins([512.2, 4096], [1.0, 12.0, 24.0], np.array([[3, 0, 1.5], [0, 2, 0]]))
    listed = schedule_of_jobs([512, 512, 4096], [1.0, 24.0, 12.0], [3, 1.5, 2])
    a = machine_efficiency(binned, RATE, frontier_cost)
    b = machine_efficiency(listed, RATE, frontier_cost)
    assert a.losses == b.losses
    with pytest.raises(SlowpokeError, match="shape"):
        schedule_of_bins([1, 2], [1.0], [[1.0], [2.0], [3.0]])


def test_applications_have_their_own_rate_and_checkpoint(frontier_cost: CheckpointCost) -> None:
    both = schedule_of_jobs([512, 512], [12.0, 12.0], None, [0, 1], ["cfd", "llm"])
    small = checkpoint_cost(2e12, 6e12, model="fixed")
    mixed = machine_efficiency(
        both,
        RATE,
        frontier_cost,
        applications={"llm": Application(rate=1e-4, cost=small)},
    )
    one = schedule_of_jobs([512], [12.0])
    parts = [
        machine_efficiency(one, RATE, frontier_cost),
        machine_efficiency(one, 1e-4, small),
    ]
    np.testing.assert_allclose(mixed.losses, np.sum([p.losses for p in parts], axis=0), rtol=1e-13)
    with pytest.raises(SlowpokeError, match="'md'"):
        machine_efficiency(both, RATE, frontier_cost, applications={"md": Application(1e-5)})


def test_one_node_and_jobs_shorter_than_a_checkpoint_are_defined() -> None:
    cost = CheckpointCost("local", 10.0)  # ten hours for a checkpoint
    tiny = schedule_of_jobs([1, 3], [0.5, 1.0])
    for segments in ("paper", "exact", "equal"):
        result = machine_efficiency(tiny, 1e-3, cost, CheckpointPlan(segments))
        assert 0 < result.efficiency < 1
        assert result.checkpoint_loss == 0.0


def test_hopeless_machines_are_worth_nothing_or_one_sentence(frontier: Schedule) -> None:
    cost = checkpoint_cost(200e9, 6e12)
    hopeless = machine_efficiency(frontier, 1e6, cost)
    assert hopeless.efficiency == 0.0
    assert hopeless.restart_loss == 1.0
    with pytest.raises(SlowpokeError, match="minus infinity"):
        machine_efficiency(frontier, 1e6, cost, PAPER, definition="paper")


def test_restarts_that_all_but_never_succeed_are_infinite_without_a_warning() -> None:
    """At the edge of the floating numbers, e^709, and on both sides of it."""
    cost = CheckpointCost("shared", 1e-5)
    u_r = float(cost.restart_node_hours(2000))
    for exponent in (400.0, 470.0, 600.0, 705.0, 708.0, 709.5, 710.0, 1e4):
        schedule = schedule_of_jobs([2000, 2], [5.0, 5.0], [1e6, 1])
        result = machine_efficiency(schedule, exponent / u_r, cost)
        assert result.efficiency == pytest.approx(0.0, abs=1e-100)
        assert result.restart_loss == 1.0


def test_free_checkpoints_lose_nothing_but_restarts() -> None:
    free = CheckpointCost("shared", 0.0)
    result = machine_efficiency(schedule_of_jobs([1000], [24.0]), 1e-4, free)
    assert result.failure_loss < 1e-12
    assert result.checkpoint_loss == 0.0
    assert result.restart_loss > 0


@pytest.mark.parametrize(
    ("nodes", "hours", "match"),
    [
        ([], [], "empty"),
        ([2], [0.0], "empty"),
        ([0], [1.0], "nodes of job 0"),
        ([2, 2.5], [1.0, 1.0], "nodes of job 1"),
        ([2], [-1.0], "duration"),
        ([2], [math.nan], "duration"),
        ([math.nan], [1.0], "nodes"),
        ([2], [math.inf], "duration"),
        ([2, 3], [1.0], "one length"),
    ],
)
def test_impossible_schedules_are_one_sentence(
    nodes: list[float], hours: list[float], match: str
) -> None:
    with pytest.raises(SlowpokeError, match=match):
        schedule_of_jobs(nodes, hours)


def test_impossible_plans_are_one_sentence(frontier_cost: CheckpointCost) -> None:
    with pytest.raises(SlowpokeError, match="segments"):
        CheckpointPlan("whole")  # type: ignore[arg-type]
    with pytest.raises(SlowpokeError, match="rounding"):
        CheckpointPlan("exact", rounding="none")
    with pytest.raises(SlowpokeError, match="factor"):
        CheckpointPlan(factor=0.0)
    with pytest.raises(SlowpokeError, match="definition"):
        machine_efficiency(
            schedule_of_jobs([2], [1.0]),
            RATE,
            frontier_cost,
            definition="ours",  # type: ignore[arg-type]
        )
    with pytest.raises(SlowpokeError, match="scaled"):
        schedule_of_jobs([2], [1.0]).scaled(math.nan)
