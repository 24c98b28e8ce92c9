"""How fast a year of a machine is evaluated, against the straightforward way; and how logs read.

    python benchmarks/bench_efficiency.py            prints a table
    pytest benchmarks/bench_efficiency.py            the same as ratios, for pytest-benchmark

The jobs are Frontier's of 2024 where the reference material is beside the repository, and otherwise
as many made-up jobs of as many kinds.
"""

import math
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from torch_slowpoke.efficiency.cadence import CheckpointCost, checkpoint_cost
from torch_slowpoke.efficiency.logs import read_log, schedule_of_log
from torch_slowpoke.efficiency.losses import CheckpointPlan, Segments
from torch_slowpoke.efficiency.machine import machine_efficiency
from torch_slowpoke.efficiency.rate import failure_rate
from torch_slowpoke.efficiency.schedule import Schedule, schedule_of_jobs

RATE = 2e-5
PAPER = CheckpointPlan("paper")
FRONTIER = Path(__file__).parents[1] / ".." / "shared" / "reference" / "frontier_jobs_2024.csv"

Floats = npt.NDArray[np.float64]


def jobs_file(folder: Path) -> Path:
    """Frontier's jobs, or a table of the same size with 3,537 kinds of jobs."""
    if FRONTIER.exists():
        return FRONTIER
    generator = np.random.default_rng(0)
    kinds = np.stack(
        [generator.integers(2, 9409, 3537), 60 * generator.integers(5, 1441, 3537)], axis=1
    )
    rows = kinds[generator.integers(0, 3537, 331_640)]
    actual = (rows[:, 1] * generator.random(331_640)).astype(np.int64)
    path = folder / "jobs.csv"
    header = "Node Count,Requested Duration,Actual Duration"
    np.savetxt(
        path, np.column_stack([rows, actual]), fmt="%d", delimiter=",", header=header, comments=""
    )
    return path


def row_by_row(nodes: Floats, hours: Floats, cost: CheckpointCost, segments: str) -> float:
    """The paper's efficiency, one row after another, each row's cadence by bisection to 1e-9.

    Each row of the log is a job of its own: nothing is grouped, nothing is kept between rows.
    """
    written = lost = restarted = used = 0.0
    for n_nodes, t in zip(nodes.tolist(), hours.tolist(), strict=True):
        u_chk = n_nodes * n_nodes * cost.write_hours
        z_chk = RATE * u_chk
        low, high = 0.0, 1.0
        while high - low > 1e-9:
            middle = (low + high) / 2
            if math.exp(-middle - z_chk) < 1 - middle:
                low = middle
            else:
                high = middle
        s = (low + high) / 2 / RATE + u_chk
        failing, l_failure, l_written = CUT[segments](n_nodes * t, s, u_chk)
        u_r = cost.read_ratio * u_chk + cost.setup_hours * n_nodes
        used += failing / RATE
        lost += l_failure
        written += l_written
        restarted += failing * math.expm1(RATE * u_r) / RATE
    return 1 - (written + lost + restarted) / used


def _whole_segments(n: float, s: float, u_chk: float) -> tuple[float, float, float]:
    """Probability of failing, L_F and L_chk of n segments of s node-hours (papers/002, 4.2-4.4)."""
    z = RATE * s
    p = math.exp(-z)
    p_n = p**n
    loss = (1 - z * p / (1 - p)) / RATE
    return 1 - p_n, (1 - p_n) * loss, u_chk * (p - p_n) / (1 - p)


def _as_printed(usage: float, s: float, u_chk: float) -> tuple[float, float, float]:
    return _whole_segments(math.ceil(usage / s), s, u_chk)


def _with_a_rest(usage: float, s: float, u_chk: float) -> tuple[float, float, float]:
    before = math.ceil(usage / s) - 1
    failing, failure, _ = _whole_segments(before, s, u_chk)
    last, last_failure, _ = _whole_segments(1, usage - before * s, u_chk)
    reached, p = 1 - failing, math.exp(-RATE * s)
    return failing + reached * last, failure + reached * last_failure, u_chk * p * failing / (1 - p)


def _equal_segments(usage: float, s: float, u_chk: float) -> tuple[float, float, float]:
    n = max(1, math.floor(usage / s))
    both = (_whole_segments(k, usage / k, u_chk) for k in (n, n + 1))
    return min(both, key=lambda losses: losses[1] + losses[2])


CUT = {"paper": _as_printed, "exact": _with_a_rest, "equal": _equal_segments}


def straightforward(nodes: Floats, hours: Floats, cost: CheckpointCost) -> float:
    """The same with all rows at once in numpy, the cadence by bisection to 1e-8: no grouping."""
    u_chk = nodes * nodes * cost.write_hours
    z_chk = RATE * u_chk
    low, high = np.zeros_like(z_chk), np.ones_like(z_chk)
    while float((high - low).max()) > 1e-8:
        middle = (low + high) / 2
        above = np.exp(-middle - z_chk) < 1 - middle
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    u_c = (low + high) / 2 / RATE
    s = u_c + u_chk
    u_r = cost.read_ratio * u_chk + cost.setup_hours * nodes
    n = np.ceil(nodes * hours / s)
    p = np.exp(-RATE * s)
    failing = 1 - p**n
    lost = (1 - RATE * s * p / (1 - p)) / RATE
    written = u_chk * (p - p**n) / (1 - p)
    restart = np.expm1(RATE * u_r) / RATE
    used = failing * (p * s / (1 - p) + lost)
    return float(1 - (written + failing * (lost + restart)).sum() / used.sum())


def best_of(n: int, call: Callable[[], Any]) -> float:
    """Shortest of n times in seconds."""
    times = []
    for _ in range(n):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def sacct_file(folder: Path, n: int) -> Path:
    """A made-up year of n jobs in the columns of our own sacct command."""
    generator = np.random.default_rng(1)
    start = np.datetime64("2024-01-01T00:00:00") + generator.integers(0, 365 * 86400, n).astype(
        "timedelta64[s]"
    )
    elapsed = generator.integers(60, 86400, n)
    end = (start + elapsed.astype("timedelta64[s]")).astype(str)
    nodes = generator.choice([1, 2, 8, 64, 512, 2048], n)
    failed = generator.random(n) < nodes * elapsed / 3600 * RATE
    other = generator.choice(["COMPLETED", "COMPLETED", "FAILED", "CANCELLED by 7", "TIMEOUT"], n)
    state = np.where(failed, "NODE_FAIL", other)
    path = folder / "sacct.txt"
    with path.open("w") as file:
        file.write(
            "JobIDRaw|JobID|Cluster|Partition|Account|Submit|Start|End|ElapsedRaw|Elapsed|"
            "TimelimitRaw|Timelimit|NNodes|AllocNodes|State|ExitCode|Restarts|FailedNode|"
            "NodeList|JobName\n"
        )
        for i, (s, e, t, k, word) in enumerate(
            zip(start.astype(str), end, elapsed.tolist(), nodes.tolist(), state, strict=True)
        ):
            clock = f"{t // 3600:02d}:{t // 60 % 60:02d}:{t % 60:02d}"
            dead = f"n{i % 9408:05d}" if word == "NODE_FAIL" else ""
            file.write(
                f"{i}|{i}|c|batch|a{i % 99}|{s}|{s}|{e}|{t}|{clock}|1440|1-00:00:00|{k}|{k}|"
                f"{word}|0:0|0|{dead}|n[{i % 9408:05d}-{i % 9408 + k:05d}]|job|{i}\n"
            )
    return path


def first_evaluation(path: Path) -> float:
    """From the file to the first efficiency."""
    cost = checkpoint_cost(200e9, 6e12)
    return machine_efficiency(schedule_of_log(read_log(path)), RATE, cost).efficiency


def _setting(folder: Path) -> tuple[Schedule, Floats, Floats, CheckpointCost]:
    path = jobs_file(folder)
    log = read_log(path)
    ratio = float((log.n_nodes @ log.elapsed_seconds) / (log.n_nodes @ log.limit_seconds))
    hours = log.limit_seconds / 3600 * ratio
    return (
        schedule_of_jobs(log.n_nodes, hours),
        log.n_nodes,
        hours,
        checkpoint_cost(200e9, 6e12),
    )


@pytest.mark.parametrize("segments", CUT)
def test_grouped_against_bisection(segments: Segments, benchmark: Any, tmp_path: Path) -> None:
    schedule, nodes, hours, cost = _setting(tmp_path)
    plan = CheckpointPlan(segments)
    fast = benchmark(lambda: machine_efficiency(schedule, RATE, cost, plan, definition="paper"))
    start = time.perf_counter()
    slowly = row_by_row(nodes, hours, cost, segments)
    by_row = time.perf_counter() - start
    assert abs(fast.efficiency - slowly) < 1e-8
    if segments == "paper":
        assert abs(fast.efficiency - straightforward(nodes, hours, cost)) < 1e-8
    if benchmark.stats is not None:  # none with --benchmark-disable
        quick = benchmark.stats.stats.min
        at_once = best_of(3, lambda: straightforward(nodes, hours, cost))
        benchmark.extra_info["times_faster_than_row_by_row"] = by_row / quick
        benchmark.extra_info["times_faster_than_all_rows_in_numpy"] = at_once / quick


def test_first_evaluation_with_the_file(benchmark: Any, tmp_path: Path) -> None:
    path = jobs_file(tmp_path)
    assert 0 < benchmark.pedantic(first_evaluation, args=(path,), rounds=3) < 1


def test_reading_sacct(benchmark: Any, tmp_path: Path) -> None:
    path = sacct_file(tmp_path, 100_000)
    log = benchmark.pedantic(read_log, args=(path,), rounds=2)
    assert log.report.n_jobs == 100_000


def main() -> None:
    """Print one table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = jobs_file(folder)
        first = best_of(3, lambda: first_evaluation(path))
        schedule, nodes, hours, cost = _setting(folder)
        slow = best_of(5, lambda: straightforward(nodes, hours, cost))
        print(f"{nodes.size:,} jobs of {schedule.n_nodes.size:,} kinds")
        print(f"first evaluation, reading the file   {first:8.3f} s")
        by_row = best_of(2, lambda: row_by_row(nodes, hours, cost, "paper"))
        print(f"bisection, row by row                {by_row:8.3f} s")
        print(f"bisection, all rows in numpy         {slow:8.3f} s")
        for plan in (PAPER, CheckpointPlan("exact"), CheckpointPlan()):
            fast = best_of(
                300,
                lambda plan=plan: machine_efficiency(  # type: ignore[misc]
                    schedule, RATE, cost, plan, definition="paper"
                ),
            )
            start = time.perf_counter()
            slowly = row_by_row(nodes, hours, cost, plan.segments)
            by_row = time.perf_counter() - start
            grouped = machine_efficiency(schedule, RATE, cost, plan, definition="paper").efficiency
            print(
                f"{plan.segments}: grouped {1e3 * fast:.3f} ms, {grouped:.9f}; row by row "
                f"{by_row:.3f} s, {slowly:.9f} ({abs(slowly - grouped):.1e} apart): "
                f"{by_row / fast:,.0f} x as fast; {slow / fast:,.0f} x as fast as in numpy"
            )
        n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
        log_path = sacct_file(folder, n)
        start = time.perf_counter()
        log = read_log(log_path)
        read = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"sacct, {log.report.n_jobs:,} rows              {read:8.3f} s, {peak:.2f} GiB at most"
        )
        start = time.perf_counter()
        found = failure_rate(log).estimate
        print(f"its failure rate                     {time.perf_counter() - start:8.3f} s: {found}")


if __name__ == "__main__":
    main()
