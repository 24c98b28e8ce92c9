import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.band import efficiency_band
from torch_slowpoke.efficiency.cadence import CheckpointCost, cadence
from torch_slowpoke.efficiency.logs import JobLog, read_log
from torch_slowpoke.efficiency.losses import CheckpointPlan
from torch_slowpoke.efficiency.machine import machine_efficiency
from torch_slowpoke.efficiency.published import PUBLISHED, ettr_kokolis, published_rate
from torch_slowpoke.efficiency.rate import expand_hosts, failure_rate, rate_interval
from torch_slowpoke.efficiency.schedule import Schedule

HEADER = "JobIDRaw|Submit|Start|End|Elapsed|AllocNodes|State|FailedNode|NodeList"


def log_of(tmp_path: Path, rows: list[str]) -> JobLog:
    path = tmp_path / "log.txt"
    path.write_text("\n".join([HEADER, *rows, ""]))
    return read_log(path)


def test_the_exact_interval(oracle: dict[str, Any]) -> None:
    for row in oracle["variants_ours"]["poisson_ci95"]:
        ours = rate_interval(row["k"], row["U"])
        assert ours.low == pytest.approx(row["lo"], rel=1e-9, abs=0)
        assert ours.high == pytest.approx(row["hi"], rel=1e-9)


def test_the_exact_interval_is_scipys() -> None:
    for k in (0, 1, 3, 50, 2000):
        for confidence in (0.5, 0.9, 0.999):
            ours = rate_interval(k, 1e6, confidence)
            tail = (1 - confidence) / 2
            assert ours.high == pytest.approx(stats.chi2.ppf(1 - tail, 2 * k + 2) / 2e6, rel=1e-9)
            if k:
                assert ours.low == pytest.approx(stats.chi2.ppf(tail, 2 * k) / 2e6, rel=1e-9)


def test_the_interval_covers_what_it_promises() -> None:
    generator = np.random.default_rng(0)
    for mean in (0.5, 3.0, 20.0):
        covered = [
            (i := rate_interval(int(k), 1.0)).low <= mean <= i.high
            for k in generator.poisson(mean, 2000)
        ]
        assert np.mean(covered) >= 0.94


@pytest.mark.parametrize(
    ("k", "u", "c"), [(-1, 1.0, 0.95), (1, 0.0, 0.95), (1, math.nan, 0.95), (1, 1.0, 1.0)]
)
def test_no_exposure_is_one_sentence(k: int, u: float, c: float) -> None:
    with pytest.raises(SlowpokeError):
        rate_interval(k, u, c)


def test_host_lists() -> None:
    assert expand_hosts("n[1-3]") == ["n1", "n2", "n3"]
    assert expand_hosts("a[08-11]x,b") == ["a08x", "a09x", "a10x", "a11x", "b"]
    assert expand_hosts("r[1-2]n[1-2]") == ["r1n1", "r1n2", "r2n1", "r2n2"]
    assert expand_hosts("None assigned") == []
    assert expand_hosts("") == []
    assert len(expand_hosts("n[1-999999999999]")) == 200_000
    assert expand_hosts("n[3-1]") == []


def test_one_dead_node_is_one_event(tmp_path: Path) -> None:
    """Node n2 kills jobs 1 and 2 within a minute, and job 4 a day later; job 3 loses n9."""
    log = log_of(
        tmp_path,
        [
            "1|a|2024-03-01T00:00:00|2024-03-01T01:00:00|01:00:00|2|NODE_FAIL|n2|n[1-2]",
            "2|a|2024-03-01T00:00:00|2024-03-01T01:00:30|01:00:30|2|NODE_FAIL|n2|n[2-3]",
            "3|a|2024-03-01T00:00:00|2024-03-01T01:00:40|01:00:40|2|NODE_FAIL|n9|n[8-9]",
            "4|a|2024-03-02T00:00:00|2024-03-02T01:00:00|01:00:00|2|NODE_FAIL|n2|n[1-2]",
            "5|a|2024-03-02T00:00:00|2024-03-02T01:05:00|01:05:00|9|FAILED||n[02,2-9]",
            "6|a|2024-03-02T00:00:00|2024-03-02T09:00:00|09:00:00|9|FAILED||n[2-9]",
            "7|a|2024-03-02T00:00:00|2024-03-02T00:00:00|00:00:00|4|BOOT_FAIL||n[2-5]",
        ],
    )
    found = failure_rate(log)
    assert found.n_records == 4
    assert found.estimate.n_failures == 3
    assert found.upper.n_failures == 3 + 1 + 1  # BOOT_FAIL, and job 5 that died with n2
    assert found.worst_nodes[0] == ("n2", 2)
    seconds = 2 * 3600 + 2 * 3630 + 2 * 3640 + 2 * 3600 + 9 * 3900 + 9 * 32400
    assert found.estimate.exposure_node_hours == pytest.approx(seconds / 3600, rel=1e-14)


def made_up_year(tmp_path: Path, rate_of: Any, seed: int = 0) -> JobLog:
    """20,000 jobs in 2024 that fail at rate_of(nodes, month) per node-hour."""
    generator = np.random.default_rng(seed)
    rows = []
    origin = np.datetime64("2024-01-01T00:00:00")
    for i in range(20_000):
        start = origin + np.timedelta64(int(generator.integers(366 * 86400 - 90000)), "s")
        n = int(generator.choice([16, 64, 256, 1024]))
        month = int((start - origin) / np.timedelta64(1, "D") // 30.5)
        until = generator.exponential() / (n * rate_of(n, month)) * 3600
        seconds = int(min(until, generator.integers(600, 86400))) + 1
        state = "NODE_FAIL" if until < seconds else "COMPLETED"
        end = start + np.timedelta64(seconds, "s")
        rows.append(f"{i}|{start}|{start}|{end}|{seconds}|{n}|{state}|n{i}|")
    return log_of(tmp_path, rows)


def test_a_true_rate_is_found_and_nothing_else(tmp_path: Path) -> None:
    found = failure_rate(made_up_year(tmp_path, lambda n, m: 2e-5))
    assert found.estimate.low < 2e-5 < found.estimate.high
    assert found.size is not None and found.trend is not None and found.dispersion is not None
    assert found.size.p_value > 0.01
    assert found.trend.p_value > 0.01
    assert found.dispersion.p_value > 0.01
    assert found.dispersion.n_months == 12


def test_a_rate_that_depends_on_size_or_time_is_seen(tmp_path: Path) -> None:
    by_size = failure_rate(made_up_year(tmp_path, lambda n, m: 1e-6 * math.sqrt(n)))
    assert by_size.size is not None and by_size.size.slope is not None
    assert by_size.size.standard_error is not None
    assert abs(by_size.size.slope - 0.5) < 4 * by_size.size.standard_error
    assert by_size.size.p_value < 1e-6
    assert any("one R0 is not enough" in n for n in by_size.notes)
    by_month = failure_rate(made_up_year(tmp_path, lambda n, m: 4e-5 * math.exp(-0.2 * m)))
    assert by_month.trend is not None and by_month.trend.slope is not None
    assert by_month.trend.standard_error is not None
    assert abs(by_month.trend.slope + 0.2) < 4 * by_month.trend.standard_error
    assert by_month.dispersion is not None and by_month.dispersion.p_value < 1e-6


def test_a_machine_that_never_failed_has_an_upper_limit(tmp_path: Path) -> None:
    log = log_of(
        tmp_path, ["1|a|2024-03-01T00:00:00|2024-03-01T10:00:00|10:00:00|100|COMPLETED||n"]
    )
    found = failure_rate(log)
    assert found.estimate.rate == 0.0
    assert found.estimate.high == pytest.approx(3.6889 / 1000, rel=1e-4)
    assert (found.size, found.trend, found.dispersion) == (None, None, None)


def test_failures_on_the_biggest_jobs_only_have_no_finite_power(tmp_path: Path) -> None:
    day = "2024-03-0{0}T00:00:00|2024-03-0{0}T10:00:00|10:00:00"
    log = log_of(
        tmp_path,
        [
            f"1|a|{day.format(1)}|10|COMPLETED||",
            f"2|a|{day.format(2)}|100|COMPLETED||",
            f"3|a|{day.format(3)}|1000|NODE_FAIL|n1|",
        ],
    )
    found = failure_rate(log)
    assert found.size is not None
    assert found.size.slope is None
    assert 0 < found.size.p_value < 1


def test_logs_that_do_not_tell_node_failures_say_so(frontier_csv: Path) -> None:
    log = read_log(frontier_csv)
    with pytest.raises(SlowpokeError, match="--failures"):
        failure_rate(log)
    found = failure_rate(log, n_failures=1202)
    assert found.estimate.rate == pytest.approx(2.0007e-5, rel=1e-4)
    assert found.estimate.low == pytest.approx(1.889e-5, rel=1e-3)


def test_the_band_of_the_efficiency(frontier: Schedule, frontier_cost: CheckpointCost) -> None:
    """The reference: k = 1202 gives .95405 .. .95617 and k = 20 .9412 .. .9636 (exact, renewal)."""
    plan = CheckpointPlan("exact")
    year = rate_interval(1202, 60_078_790.64)
    band = efficiency_band(frontier, year, frontier_cost, plan, n_draws=200, seed=1)
    assert band.low[0] == pytest.approx(0.95405, abs=3e-4)
    assert band.high[0] == pytest.approx(0.95617, abs=3e-4)
    few = efficiency_band(
        frontier, rate_interval(20, 1e6), frontier_cost, plan, n_draws=200, seed=1
    )
    assert few.low[0] == pytest.approx(0.9412, abs=2e-3)
    assert few.high[0] == pytest.approx(0.9636, abs=2e-3)
    middle = machine_efficiency(frontier, year.rate, frontier_cost, plan).efficiency
    assert band.low[0] < middle < band.high[0]
    again = efficiency_band(frontier, year, frontier_cost, plan, n_draws=200, seed=1)
    assert again == band


def test_published_rates_are_what_their_counts_say() -> None:
    llama = published_rate("llama3-405b")
    assert llama.rate == pytest.approx(1.5786e-4, rel=1e-4)
    assert published_rate("meta-rsc1").rate == pytest.approx(2.708e-4, rel=1e-3)
    assert published_rate("lablup-b200").rate == pytest.approx(1.2e-4, rel=1e-2)
    for row in PUBLISHED:
        if row.n_failures is not None and row.exposure_node_hours is not None:
            assert row.rate == pytest.approx(row.n_failures / row.exposure_node_hours)
    with pytest.raises(SlowpokeError, match="frontier-2024"):
        published_rate("aurora")


def test_metas_ratio_is_ours_to_first_order() -> None:
    for n, w, u0, dt, theirs, ours in (
        (2048, 2.5 / 3600, 1 / 12, 0.5, 0.81398, 0.82722),
        (128, 60 / 3600, 1 / 12, 1.0, 0.963716, 0.963587),
    ):
        rate = 6.5e-3 / 24
        ettr = ettr_kokolis(n, 6.5e-3, write_hours=w, restart_hours=u0, interval_hours=dt)
        assert ettr == pytest.approx(theirs, abs=2e-4)
        z_c, z_chk, z_r = rate * n * dt, rate * n * w, rate * n * u0
        e_ren = z_c / math.expm1(z_c + z_chk) * math.exp(-z_r)
        assert e_ren == pytest.approx(ours, abs=2e-4)


def test_llama_by_our_formula() -> None:
    """The reference: a fixed state in 2.5 s, restarts of 0, 5, 10, 15 minutes."""
    for minutes, e in ((0, 0.979), (5, 0.953), (10, 0.928), (15, 0.903)):
        cost = CheckpointCost("fixed", 2.5 / 3600, 0.0, minutes / 60)
        job = cadence(2048, published_rate("llama3-405b").rate, cost)
        assert job.efficiency == pytest.approx(e, abs=6e-4)
        assert job.seconds / 60 == pytest.approx(3.9, abs=0.05)
