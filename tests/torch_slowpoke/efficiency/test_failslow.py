import json
import math
from pathlib import Path
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.cadence import CheckpointCost, cadence
from torch_slowpoke.efficiency.failslow import (
    Detector,
    FailSlow,
    act_or_wait,
    best_period,
    class_loss,
    diagnosis_cadence,
    diagnosis_efficiency,
    fleet_loss,
    joint_cadence,
    joint_efficiency,
    product_efficiency,
    read_detector,
    slow_start_probability,
    slow_with_periodic_diagnosis,
    slow_with_random_detection,
    slow_without_detection,
)
from torch_slowpoke.efficiency.failslow.exposure import kappa, slow_in_steady_state
from torch_slowpoke.efficiency.failslow.joint import SlowProcess, effective_rate
from torch_slowpoke.efficiency.machine import machine_efficiency
from torch_slowpoke.efficiency.schedule import Schedule, schedule_of_jobs

R0 = 2e-5


@pytest.fixture(scope="module")
def table(oracle: dict[str, Any]) -> dict[str, Any]:
    rows: dict[str, Any] = oracle["variants_ours"]["fail_slow"]
    return rows


# ---- F1 - F3: which share of the usage is slow -------------------------------------------------


def test_without_detection(table: dict[str, Any]) -> None:
    for row in table["no_detection_slow_fraction"]:
        assert slow_without_detection(row["U"], row["lam"]) == pytest.approx(row["A"], rel=1e-9)


@given(st.floats(1e-300, 1e3))
def test_without_detection_to_fifty_digits(x: float) -> None:
    with mpmath.workdps(350):
        exact = float(1 + mpmath.expm1(-mpmath.mpf(x)) / mpmath.mpf(x))
    assert slow_without_detection(x, 1.0) == pytest.approx(exact, rel=1e-14, abs=0)


def test_random_detection(table: dict[str, Any]) -> None:
    for row in table["exp_detection"]:
        ours = slow_with_random_detection(
            row["U"], row["lam"], row["q"], row["mean_detection_usage"]
        )
        assert ours == pytest.approx(row["slow_fraction"], rel=1e-10)


def test_periodic_diagnosis(table: dict[str, Any]) -> None:
    for row in table["periodic"]:
        ours = slow_with_periodic_diagnosis(row["U"], row["lam"], row["q"], row["P"])
        assert ours == pytest.approx(row["slow_fraction"], rel=1e-12)
        steady = slow_in_steady_state(row["lam"], row["q"], row["P"])
        assert steady == pytest.approx(row["steady"], rel=1e-12)


def test_detection_that_never_or_always_works_has_the_known_limits() -> None:
    usage, rate = 24576.0, 1e-5
    none = slow_without_detection(usage, rate)
    assert slow_with_random_detection(usage, rate, 0.0, 50.0) == pytest.approx(none, rel=1e-12)
    assert slow_with_random_detection(usage, rate, 1.0, 1e12) == pytest.approx(none, rel=1e-7)
    assert slow_with_random_detection(usage, rate, 1.0, 0.0) == 0.0
    assert slow_with_periodic_diagnosis(usage, rate, 0.0, 100.0) == pytest.approx(none, rel=1e-12)
    assert slow_with_periodic_diagnosis(usage, rate, 1.0, 1e9) == pytest.approx(none, rel=1e-12)
    assert slow_with_periodic_diagnosis(usage, rate, 1.0, 1e-3) < 1e-8


@settings(deadline=None)
@given(st.floats(1.0, 1e6), st.floats(1e-8, 1e-2), st.floats(0.01, 1.0), st.floats(10.0, 1e6))
def test_periodic_diagnosis_summed_by_hand(
    usage: float, rate: float, recall: float, period: float
) -> None:
    """The printed sum: 1 - 1/U sum_n e^(-rate c_n) (1 - e^(-rate P_n))/rate."""
    healthy, n, left = 0.0, 0, usage
    while left > 0 and n < 5000:
        length = min(period, left)
        c = period * (1 - recall) * (1 - (1 - recall) ** n) / recall
        healthy += math.exp(-rate * c) * -math.expm1(-rate * length) / rate
        n, left = n + 1, usage - (n + 1) * period
    if n < 5000:
        ours = slow_with_periodic_diagnosis(usage, rate, recall, period)
        assert ours == pytest.approx(1 - healthy / usage, rel=1e-6, abs=1e-11)


@given(st.floats(1e2, 1e6), st.floats(1e-9, 1e-3), st.floats(0.0, 1.0), st.floats(0.0, 1e5))
@settings(deadline=None)
def test_better_detection_leaves_less_slow_usage(
    usage: float, rate: float, recall: float, mean: float
) -> None:
    none = float(slow_without_detection(usage, rate))
    ours = float(slow_with_random_detection(usage, rate, recall, mean))
    better = float(slow_with_random_detection(usage, rate, recall, mean / 2))
    assert 0 <= better <= ours * (1 + 1e-12) <= none * (1 + 1e-9)


# ---- F4, F5, F8: diagnosing and acting ---------------------------------------------------------


def test_the_cadence_of_diagnosis(table: dict[str, Any]) -> None:
    row = table["diagnosis_cadence"]
    arguments = (row["lam"], row["sigma"], row["q"], row["f"])
    costs = {"probe_node_hours": row["c_p"], "drain_node_hours": row["u_d"]}
    best = diagnosis_cadence(*arguments, **costs)
    assert best.period_node_hours == pytest.approx(row["P_star"], rel=1e-12)
    for factor, e in row["e"].items():
        period = float(factor) * best.period_node_hours
        assert diagnosis_efficiency(period, *arguments, **costs) == pytest.approx(e, rel=1e-12)
    # The reference found 2856.1 on a grid.
    assert best_period(*arguments, **costs) == pytest.approx(2856.1, abs=1.0)


def test_diagnosis_without_recall_or_onset_is_not_worth_it() -> None:
    costs = {"probe_node_hours": 1.0, "drain_node_hours": 100.0}
    assert diagnosis_cadence(0.0, 2.0, 0.9, 0.1, **costs).period_node_hours == math.inf
    assert diagnosis_cadence(1e-5, 1.0, 0.9, 0.1, **costs).loss == 0.0
    useless = diagnosis_cadence(1e-5, 2.0, 0.0, 0.1, **costs)
    assert useless.period_node_hours == math.inf
    assert useless.loss == 0.5
    assert diagnosis_efficiency(1e3, 1e-5, 2.0, 0.0, 0.1, **costs) == pytest.approx(0.5 / 1.001)
    assert best_period(0.0, 2.0, 0.9, 0.1, **costs) == math.inf


def test_confirmations_trade_recall_for_false_alarms() -> None:
    thrice = Detector(0.8677, 0.1211, 2.0).confirmed(3)
    assert thrice.recall == pytest.approx(0.8677**3)
    assert thrice.false_alarm == pytest.approx(0.1211**3)
    assert thrice.cost_seconds == pytest.approx(2.0 * (1 + 0.1211 + 0.1211**2))
    with pytest.raises(SlowpokeError, match="confirmations"):
        thrice.confirmed(0)


def test_the_odds_of_slowness_decide() -> None:
    """By hand: prior 0.01, one alarm with q/f = 7.17, kappa 0.4, remaining 2000, drain 50."""
    advice = act_or_wait(
        1,
        onset_rate=-math.log(0.99) / 1000,
        slowdown=1 / 0.6,
        recall=0.8677,
        false_alarm=0.1211,
        usage_since_clean=1000,
        remaining_usage=2000,
        drain_node_hours=50,
    )
    p = 0.01 * 0.8677 / (0.01 * 0.8677 + 0.99 * 0.1211)
    assert advice.probability == pytest.approx(p, rel=1e-12)
    assert advice.expected_gain_node_hours == pytest.approx(p * 0.4 * 2000 - 50, rel=1e-12)
    assert advice.action == ("drain" if p * 800 > 50 else "wait")


# ---- F6, F7 ------------------------------------------------------------------------------------


def test_the_worst_kind_rules() -> None:
    """Two kinds by hand: the worse one present, or only the milder one."""
    p_worse, p_mild = 1 - math.exp(-0.02), 1 - math.exp(-0.05)
    by_hand = p_worse * (1 - 1 / 4) + (1 - p_worse) * p_mild * (1 - 1 / 2)
    ours = class_loss([5e-5, 2e-5], [2.0, 4.0], [1000.0, 1000.0])
    assert ours == pytest.approx(by_hand, rel=1e-13)
    assert class_loss([1e-5], [1.67], [100.0]) == pytest.approx(
        (1 - math.exp(-1e-3)) * (1 - 1 / 1.67), rel=1e-12
    )


def test_an_unchecked_pool_starts_most_big_jobs_slow() -> None:
    assert slow_start_probability(1024, 1e-5, 100.0) == pytest.approx(0.6407, abs=5e-5)
    assert slow_without_detection(1024 * 12, 1e-5) == pytest.approx(0.059, abs=1e-3)


# ---- F9 - F11: failures and slowness together --------------------------------------------------


def test_the_joint_model(table: dict[str, Any]) -> None:
    for row in table["markov_drain"]:
        slow = SlowProcess(
            row["lam"],
            row["sigma"],
            row["q"],
            row["delta"],
            row["phi"],
            row["u_d"],
            row["gamma"],
        )
        ours = joint_efficiency(row["R0"], row["u_c"], row["u_chk"], row["u_r"], slow)
        # The table was made with an exponential that loses digits for very fast detection.
        tolerance = 3e-6 if row["delta"] * row["u_c"] > 1e6 else 1e-11
        assert ours.efficiency == pytest.approx(row["e"], rel=tolerance)
        assert ours.attempt_failure == pytest.approx(
            row["F"], rel=5e-5 if tolerance > 1e-9 else 1e-9
        )


def by_mpmath(rate: float, u_c: float, u_chk: float, u_r: float, s: SlowProcess) -> float:
    """The printed formulas, with an exponential of 60 digits."""
    with mpmath.workdps(60):
        lam, q, delta, phi, ud, gamma = (
            mpmath.mpf(v)
            for v in (
                s.onset_rate,
                s.recall,
                s.detection_rate,
                s.false_alarm_rate,
                s.drain_node_hours,
                s.recovery_rate,
            )
        )
        r = mpmath.mpf(rate)
        survive = mpmath.exp(-r * ud)
        back = delta * survive + gamma
        q_matrix = mpmath.matrix(
            [
                [-lam - phi * (1 - survive), lam * q, lam * (1 - q)],
                [back, -delta - gamma, 0],
                [gamma, 0, -gamma],
            ]
        )
        generator = mpmath.diag([1, s.slowdown, s.slowdown]) * (q_matrix - r * mpmath.eye(3))
        stays = mpmath.expm(generator * (mpmath.mpf(u_c) + u_chk))
        fails = [1 - sum(stays[i, j] for j in range(3)) for i in range(3)]
        chain = stays.copy()
        for i in range(3):
            chain[i, 0] += fails[i]
        system = (chain - mpmath.eye(3)).T
        for j in range(3):
            system[2, j] = 1
        start = mpmath.lu_solve(system, mpmath.matrix([0, 0, 1]))
        failure = sum(start[i] * fails[i] for i in range(3))
        restart = mpmath.expm1(r * u_r) / r
        return float(u_c * (1 - failure) / (failure * (1 / r + restart)))


@settings(deadline=None, max_examples=60)
@given(
    onset=st.floats(1e-8, 1e-3),
    sigma=st.floats(1.0, 50.0),
    recall=st.floats(0.0, 1.0),
    detection=st.floats(1e-6, 1e9),
    alarms=st.floats(0.0, 1e-3),
    drain=st.floats(0.0, 2000.0),
    recovery=st.floats(0.0, 1e-3),
    n=st.integers(16, 8192),
)
def test_the_joint_model_to_twelve_digits(
    onset: float,
    sigma: float,
    recall: float,
    detection: float,
    alarms: float,
    drain: float,
    recovery: float,
    n: int,
) -> None:
    job = cadence(n, R0, CheckpointCost("shared", 200 / 21.6e6))
    slow = SlowProcess(onset, sigma, recall, detection, alarms, drain, recovery)
    arguments = (R0, job.cadence_node_hours, job.checkpoint_node_hours, job.restart_node_hours)
    ours = joint_efficiency(*arguments, slow)
    assert ours.efficiency == pytest.approx(by_mpmath(*arguments, slow), rel=1e-11)
    # Wald: a segment's usage times the failure rate is its failure probability.
    assert ours.attempt_node_hours * R0 == pytest.approx(ours.attempt_failure, rel=1e-11)


def test_without_slowness_the_joint_model_is_the_papers() -> None:
    for n in (512, 4096, 9856):
        job = cadence(n, R0, CheckpointCost("shared", 200 / 21.6e6))
        arguments = (R0, job.cadence_node_hours, job.checkpoint_node_hours, job.restart_node_hours)
        for slow in (
            SlowProcess(0.0, 1.67, 0.87, 5e-4),
            SlowProcess(1e-4, 1.0, 0.87, 5e-4),
            SlowProcess(1e-4, 1.67, 1.0, math.inf),
        ):
            ours = joint_efficiency(*arguments, slow)
            assert ours.efficiency == pytest.approx(job.efficiency, rel=1e-12)
        nearly = joint_efficiency(*arguments, SlowProcess(1e-4, 1.67, 1.0, 1e15))
        assert nearly.efficiency == pytest.approx(job.efficiency, rel=1e-11)


def test_instant_detection_is_the_limit_of_fast_detection() -> None:
    arguments = (R0, 978.9, 9.7, 10.3)
    fast = joint_efficiency(*arguments, SlowProcess(1e-5, 2.48, 0.9, 1e14, 2e-5, 170.0))
    instant = joint_efficiency(*arguments, SlowProcess(1e-5, 2.48, 0.9, math.inf, 2e-5, 170.0))
    assert fast.efficiency == pytest.approx(instant.efficiency, rel=1e-11)
    kill = {"policy": "kill"}
    fast = joint_efficiency(*arguments, SlowProcess(1e-5, 2.48, 0.9, 1e14, 2e-5, **kill))  # type: ignore[arg-type]
    instant = joint_efficiency(*arguments, SlowProcess(1e-5, 2.48, 0.9, math.inf, 2e-5, **kill))  # type: ignore[arg-type]
    assert fast.efficiency == pytest.approx(instant.efficiency, rel=1e-11)


def test_any_finite_rates_have_an_efficiency() -> None:
    for onset in (0.0, 1e-300, 1e3):
        for found in (0.0, 1e-300, 1e20, 1e300, math.inf):
            for rate in (0.0, 1e-300, 1e3):
                for policy in ("drain", "kill"):
                    slow = SlowProcess(onset, 1e9, 0.5, found, 1e-9, 1.0, 0.0, policy)
                    e = joint_efficiency(rate, 10.0, 1.0, 1.0, slow).efficiency
                    assert 0 <= e <= 1


def test_a_crash_cures_slowness() -> None:
    """Undetected, the slow share of usage tends to onset/(onset + R0) for long jobs."""
    slow = SlowProcess(3e-5, 1e6)
    # Nothing to checkpoint: one long segment after another; efficiency is the healthy share.
    e = joint_efficiency(R0, 1.0, 0.0, 0.0, slow).efficiency
    assert e == pytest.approx(R0 / (R0 + 3e-5), rel=1e-3)


def test_a_machine_that_never_fails_and_stays_slow_runs_at_its_slow_speed() -> None:
    e = joint_efficiency(0.0, 100.0, 0.0, 0.0, SlowProcess(1e-3, 4.0)).efficiency
    assert e == pytest.approx(0.25, rel=1e-12)
    assert joint_efficiency(0.0, 90.0, 10.0, 5.0, SlowProcess(0.0, 2.0)).efficiency == (
        pytest.approx(0.9, rel=1e-14)
    )


def test_killing_and_its_cadence() -> None:
    """The reference's figures for N = 1024 and 4096, onset 1e-5, 1.67 times slower."""
    for n, at_r0, best, drained in (
        (1024, 0.940844, 0.943684, 0.953533),
        (4096, 0.839213, 0.849652, 0.883281),
    ):
        job = cadence(n, R0, CheckpointCost("shared", 200 / 21.6e6))
        u_chk, u_r = job.checkpoint_node_hours, job.restart_node_hours
        per_hour = 2.0 / n  # found after 30 minutes
        kill = SlowProcess(1e-5, 1.67, 0.8677, per_hour, 2e-5, policy="kill")
        ours = joint_efficiency(R0, job.cadence_node_hours, u_chk, u_r, kill).efficiency
        assert ours == pytest.approx(at_r0, abs=2e-6)
        u = joint_cadence(R0, u_chk, u_r, kill)
        assert joint_efficiency(R0, u, u_chk, u_r, kill).efficiency == pytest.approx(best, abs=2e-6)
        closed = joint_cadence(R0, u_chk, u_r, kill, numeric=False)
        near = joint_efficiency(R0, closed, u_chk, u_r, kill).efficiency
        assert near == pytest.approx(best, abs=1e-5)
        # To drain is to write a checkpoint and to restart from it.
        drain = SlowProcess(1e-5, 1.67, 0.8677, per_hour, 2e-5, u_chk + u_r)
        ours = joint_efficiency(R0, job.cadence_node_hours, u_chk, u_r, drain).efficiency
        assert ours == pytest.approx(drained, abs=1e-6)
        u = joint_cadence(R0, u_chk, u_r, drain)
        assert joint_efficiency(R0, u, u_chk, u_r, drain).efficiency >= ours


def test_the_effective_rate_counts_what_kills() -> None:
    slow = SlowProcess(1e-5, 2.0, 0.9, 1e-3, 3e-5, policy="kill")
    assert effective_rate(R0, slow) == pytest.approx(R0 + 3e-5 + 9e-6 * 1e-3 / (1e-3 + R0))
    assert effective_rate(0.0, SlowProcess(1e-5, 2.0, 0.9, policy="kill")) == 0.0


# ---- the whole machine -------------------------------------------------------------------------


def test_the_frontier_mix_without_detection(
    frontier: Schedule, frontier_cost: CheckpointCost
) -> None:
    usage = frontier.n_nodes * frontier.hours
    weight = frontier.n_jobs * usage
    for rate, share in ((1e-6, 0.005060), (1e-5, 0.047021), (2e-5, 0.087199), (1e-4, 0.278765)):
        mean = float(weight @ slow_without_detection(usage, rate) / weight.sum())
        assert mean == pytest.approx(share, abs=6e-7)
    failstop = machine_efficiency(frontier, R0, frontier_cost)
    found = fleet_loss(
        frontier, failstop, FailSlow(2e-5, 1.67), Detector(0.8677, 0.0), period_hours=1.0
    )
    assert found.none.slow_share == pytest.approx(0.087199, abs=6e-7)
    lost = found.none.lost_node_hours / frontier.scheduled_node_hours
    assert lost == pytest.approx(0.03498, abs=6e-6)  # 3.5 points, nearly all fail-stop losses
    assert 0 < found.perfect.lost_node_hours < found.detector.lost_node_hours
    assert found.saved_node_hours > 0
    assert found.perfect.efficiency > found.detector.efficiency > found.none.efficiency


def test_random_detection_on_the_frontier_mix(frontier: Schedule) -> None:
    usage = frontier.n_nodes * frontier.hours
    weight = frontier.n_jobs * usage
    for hours, recall, expected in (
        (1.0, 0.8677, 0.023181),
        (1 / 6, 0.8677, 0.010772),
        (1 / 6, 1.0, 0.004784),
    ):
        share = slow_with_random_detection(usage, 1e-5, recall, hours * frontier.n_nodes)
        assert float(weight @ share / weight.sum()) == pytest.approx(expected, abs=2e-6)


def test_nothing_slow_and_nobody_looking_cost_nothing() -> None:
    schedule = schedule_of_jobs([512, 2048], [12.0, 24.0])
    failstop = machine_efficiency(schedule, R0, CheckpointCost("shared", 1e-5))
    healthy = fleet_loss(schedule, failstop, FailSlow(0.0, 1.67), Detector(0.9))
    assert healthy.none.lost_node_hours == healthy.perfect.lost_node_hours == 0.0
    assert healthy.detector.efficiency == failstop.efficiency
    blind = fleet_loss(schedule, failstop, FailSlow(1e-5, 1.67), Detector(0.0), period_hours=1.0)
    assert blind.detector.lost_node_hours == pytest.approx(blind.none.lost_node_hours, rel=1e-12)


def test_a_detector_that_only_cries_wolf_costs_node_hours() -> None:
    schedule = schedule_of_jobs([512], [24.0], [100])
    failstop = machine_efficiency(schedule, R0, CheckpointCost("shared", 1e-5))
    wolf = fleet_loss(
        schedule, failstop, FailSlow(1e-7, 1.2), Detector(0.1, 0.9, 60.0), period_hours=1.0
    )
    assert wolf.saved_node_hours < 0
    assert wolf.detector.false_alarms == pytest.approx(100 * 23 * 0.9, rel=1e-2)


def test_the_product_rule_is_a_little_optimistic(table: dict[str, Any]) -> None:
    for row in table["markov_drain"]:
        slow = SlowProcess(
            row["lam"], row["sigma"], row["q"], row["delta"], row["phi"], row["u_d"], row["gamma"]
        )  # fmt: skip
        costs = (row["R0"], row["u_c"], row["u_chk"], row["u_r"])
        above = product_efficiency(*costs, slow) - joint_efficiency(*costs, slow).efficiency
        assert -3e-6 < above < 1.5e-2


def test_the_product_rule_by_hand() -> None:
    """Onset at 1e-5 and crashes at 2e-5: a third of all usage is slow if nobody looks."""
    costs = (2e-5, 1000.0, 10.0, 11.0)
    alone = joint_efficiency(*costs, SlowProcess(0.0, 1.0)).efficiency
    nobody = product_efficiency(*costs, SlowProcess(1e-5, 2.0))
    assert nobody == pytest.approx(alone * (1 - 0.5 / 3), rel=1e-14)
    at_once = product_efficiency(*costs, SlowProcess(1e-5, 2.0, 1.0, math.inf, 0.0, 100.0))
    assert at_once == pytest.approx(alone / (1 + 1e-5 * 100), rel=1e-14)
    for_ever = product_efficiency(0.0, 90.0, 10.0, 5.0, SlowProcess(1e-5, 2.0))
    assert for_ever == pytest.approx(0.45, rel=1e-14)
    with pytest.raises(SlowpokeError, match="drain alone"):
        product_efficiency(*costs, SlowProcess(1e-5, 2.0, policy="kill"))


# ---- campaign files ----------------------------------------------------------------------------


def test_a_campaigns_result_is_found_wherever_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "campaign.json"
    path.write_text(
        json.dumps(
            {
                "schema": "x/1",
                "detectors": [
                    {"detector": "robust", "recall": 0.99, "run_false_positive_rate": 0.002},
                    {"detector": "slowpoke", "metrics": {"recall": 0.87, "fpr": 0.12}},
                ],
            }
        )
    )
    assert read_detector(path, "robust") == Detector(0.99, 0.002, 0.0, "robust")
    assert read_detector(path, "metrics").recall == 0.87
    with pytest.raises(SlowpokeError, match="several detectors"):
        read_detector(path)
    with pytest.raises(SlowpokeError, match="'adr'"):
        read_detector(path, "adr")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"recall": 0.9}',
        '{"recall": 1.2, "fpr": 0.1}',
        '{"recall": NaN, "fpr": 0.1}',
        f'{{"recall": {"9" * 400}, "fpr": 0.1}}',
        f'{{"recall": {"9" * 5000}, "fpr": 0.1}}',
        '{"recall": true, "fpr": false}',
        "[" * 100000,
        "[" * 900 + "]" * 900,
    ],
)
def test_a_file_that_is_no_result_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "campaign.json"
    path.write_text(text)
    with pytest.raises(SlowpokeError):
        read_detector(path)


def test_impossible_slowness_is_one_sentence() -> None:
    for bad in (
        lambda: kappa(0.5),
        lambda: kappa(math.nan),
        lambda: SlowProcess(-1.0, 2.0),
        lambda: SlowProcess(1e-5, math.inf),
        lambda: SlowProcess(1e-5, 2.0, 1.5),
        lambda: SlowProcess(1e-5, 2.0, 0.5, -1.0),
        lambda: SlowProcess(1e-5, 2.0, policy="wait"),  # type: ignore[arg-type]
        lambda: joint_efficiency(R0, 0.0, 1.0, 1.0, SlowProcess(1e-5, 2.0)),
        lambda: joint_efficiency(R0, 1.0, 1.0, 1.0, SlowProcess(1e300, 2.0)),
        lambda: joint_efficiency(1e13, 1.0, 1.0, 1.0, SlowProcess(1e-5, 2.0)),
        lambda: joint_cadence(0.0, 1.0, 1.0, SlowProcess(1e-5, 2.0)),
        lambda: slow_with_periodic_diagnosis(100.0, 1e-5, 0.9, 0.0),
        lambda: slow_with_periodic_diagnosis(1e12, 1e-5, 1e-9, 1.0),
        lambda: diagnosis_efficiency(
            0.0, 1e-5, 2.0, 0.9, 0.1, probe_node_hours=1, drain_node_hours=1
        ),
        lambda: class_loss([1e-5], [2.0, 3.0], 10.0),
        lambda: Detector(0.9, -0.1),
        lambda: Detector(0.9, 0.1, math.nan),
        lambda: FailSlow(1e-5, 0.9),
    ):
        with pytest.raises(SlowpokeError) as error:
            bad()
        assert "\n" not in str(error.value)


def test_the_mean_of_a_huge_number_of_nodes_is_still_a_probability() -> None:
    assert np.all(np.asarray(slow_start_probability([1, 10**9], 1.0, 1e3)) <= 1.0)
