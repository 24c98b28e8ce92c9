"""The same processes, played instead of solved: an independent check of every closed form.

Nothing here uses the formulas of `losses`, `stable` or `failslow`: usage until a failure is drawn
from an exponential law, restarts are tried until one succeeds, intervals of slowness are laid over
each other, and what was lost is counted. Vectorised over jobs; the cost grows with what is played.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.cadence import (
    CheckpointCost,
    check_rate,
    optimal_cadence_node_hours,
)
from torch_slowpoke.efficiency.failslow.joint import SlowProcess
from torch_slowpoke.efficiency.losses import CheckpointPlan, job_losses
from torch_slowpoke.efficiency.machine import Definition
from torch_slowpoke.efficiency.schedule import Schedule
from torch_slowpoke.efficiency.stable import FloatArray

SCHEMA = "slowpoke.efficiency.simulate/1"

_MOST_RESTART_FAILURES = 15.0  # rate x restart; e^15 attempts for one success is no simulation
_MOST_JOBS = 20_000_000


@dataclass(frozen=True)
class Estimate:
    """A mean and how far chance may have moved it.

    Attributes:
        mean: The estimate.
        standard_error: Its standard deviation.
    """

    mean: float
    standard_error: float

    def errors_from(self, value: float) -> float:
        """Distance of `value` in standard errors."""
        if self.standard_error == 0.0:
            return 0.0 if math.isclose(value, self.mean, rel_tol=1e-9, abs_tol=1e-12) else math.inf
        return abs(value - self.mean) / self.standard_error

    def __str__(self) -> str:
        return f"{self.mean:.7g} +- {self.standard_error:.2g}"


def ratio(numerator: FloatArray, denominator: FloatArray) -> Estimate:
    """Ratio of two means over independent repetitions, (n,), with its delta-method error."""
    mean = float(numerator.sum() / denominator.sum())
    n = numerator.size
    if n < 2:
        return Estimate(mean, math.inf)
    rest = numerator - mean * denominator
    return Estimate(mean, float(rest.std(ddof=1) / math.sqrt(n) / denominator.mean()))


def _restarts(generator: np.random.Generator, rate: FloatArray, u_r: FloatArray) -> FloatArray:
    """Usage of restarts that are tried until one does not fail, (n,)."""
    if u_r.size and float((rate * u_r).max()) > _MOST_RESTART_FAILURES:
        raise SlowpokeError(
            "a restart practically never succeeds at this failure rate: it cannot be simulated"
        )
    used = np.zeros_like(u_r)
    trying = np.arange(u_r.size)
    while trying.size:
        until = generator.exponential(size=trying.size) / rate[trying]
        fails = until < u_r[trying]
        used[trying] += np.where(fails, until, u_r[trying])
        trying = trying[fails]
    return used


@dataclass(frozen=True)
class PlayedJobs:
    """What each played job used and lost in node-hours; all float64 (n_jobs,)."""

    usage_node_hours: FloatArray
    failure_node_hours: FloatArray
    checkpoint_node_hours: FloatArray
    restart_node_hours: FloatArray


def play_jobs(
    generator: np.random.Generator,
    rate: FloatArray,
    n_segments: FloatArray,
    segment: FloatArray,
    last: FloatArray,
    u_chk: FloatArray,
    u_r: FloatArray,
) -> PlayedJobs:
    """Play jobs of n - 1 segments of one length and a last one (papers/002, section 4).

    Args:
        generator: Of chance.
        rate: Failures per node-hour, > 0; this and all others (n_jobs,).
        n_segments: Segments per job.
        segment: Node-hours of a segment, its checkpoint included.
        last: Node-hours of the last one.
        u_chk: Node-hours of a checkpoint.
        u_r: Node-hours of a restart.
    """
    until = generator.exponential(size=rate.size) / rate
    total = (n_segments - 1.0) * segment + last
    fails = until < total
    used = np.where(fails, until, total)
    whole = np.where(fails, np.minimum(np.floor(used / segment), n_segments - 1.0), n_segments)
    lost = np.where(fails, used - whole * segment, 0.0)
    written = np.minimum(whole, n_segments - 1.0) * u_chk
    restart = np.zeros_like(used)
    restart[fails] = _restarts(generator, rate[fails], u_r[fails])
    return PlayedJobs(used, lost, written, restart)


@dataclass(frozen=True)
class PlayedMachine:
    """A machine played for some years.

    Attributes:
        efficiency: By `definition`.
        failure_loss: l_F.
        checkpoint_loss: l_chk.
        restart_loss: l_R.
        one_year_sd: Standard deviation of the efficiency of one year: chance alone, with the rate
            known; None with a single year.
        n_years: Times that the schedule was played.
        definition: `paper` or `renewal`.
    """

    efficiency: Estimate
    failure_loss: Estimate
    checkpoint_loss: Estimate
    restart_loss: Estimate
    one_year_sd: float | None
    n_years: int
    definition: Definition

    def to_dict(self) -> dict[str, Any]:
        """JSON fields."""
        parts = {
            "efficiency": self.efficiency,
            "l_F": self.failure_loss,
            "l_chk": self.checkpoint_loss,
            "l_R": self.restart_loss,
        }
        return {
            "schema": SCHEMA,
            **{k: e.mean for k, e in parts.items()},
            "standard_errors": {
                k: e.standard_error if math.isfinite(e.standard_error) else None
                for k, e in parts.items()
            },
            "one_year_sd": self.one_year_sd,
            "n_years": self.n_years,
            "definition": self.definition,
        }


def simulate_machine(
    schedule: Schedule,
    rate: float,
    cost: CheckpointCost,
    plan: CheckpointPlan,
    *,
    definition: Definition = "renewal",
    n_years: int = 20,
    seed: int = 0,
    watch: Callable[[range], Iterable[int]] = iter,
) -> PlayedMachine:
    """Play every job of the schedule `n_years` times. O(n_jobs x n_years), 0.1 s a Frontier year.

    Args:
        schedule: The jobs; a fractional number of jobs is rounded up or down by chance.
        rate: Failures per node-hour, > 0.
        cost: What a checkpoint costs.
        plan: Where the checkpoints lie; only whole segments can be played.
        definition: `renewal` or `paper`.
        n_years: How often.
        seed: Of chance.
        watch: Passes the years on, one by one; for a progress bar.

    Raises:
        SlowpokeError: A rate of zero, a fractional number of segments, or too many jobs.
    """
    if float(check_rate(rate)) == 0.0:
        raise SlowpokeError("failure rate 0: nothing fails, there is nothing to simulate")
    if plan.rounding != "up":
        raise SlowpokeError(f"rounding {plan.rounding!r}: only whole segments can be played")
    if not 1 <= n_years <= 1_000_000:
        raise SlowpokeError(f"{n_years} years: give a number from 1 to 1,000,000")
    if schedule.total_jobs > _MOST_JOBS:
        raise SlowpokeError(
            f"{schedule.total_jobs:.3g} jobs are too many to play one by one: at most {_MOST_JOBS}"
        )
    usage = schedule.n_nodes * schedule.hours
    u_chk = cost.checkpoint_node_hours(schedule.n_nodes)
    u_r = cost.restart_node_hours(schedule.n_nodes)
    # From the plan only its geometry is taken: how many segments, and of which length.
    n = job_losses(usage, np.array(rate), u_chk, u_r, plan).n_segments
    segment, last = segment_lengths(usage, rate, u_chk, n, plan)
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    sums = np.empty((n_years, 4))
    for year in watch(range(n_years)):
        whole = np.floor(schedule.n_jobs)
        extra = generator.random(whole.size) < schedule.n_jobs - whole
        of = np.repeat(np.arange(whole.size), (whole + extra).astype(np.int64))
        played = play_jobs(
            generator, np.full(of.size, rate), n[of], segment[of], last[of], u_chk[of], u_r[of]
        )
        sums[year] = (
            played.usage_node_hours.sum(),
            played.failure_node_hours.sum(),
            played.checkpoint_node_hours.sum(),
            played.restart_node_hours.sum(),
        )
    used, failure, written, restart = sums.T
    whole_usage = used + restart if definition == "renewal" else used
    left = used - failure - written - (restart if definition == "paper" else 0.0)
    years = left / np.where(whole_usage > 0, whole_usage, 1.0)
    return PlayedMachine(
        ratio(left, whole_usage),
        ratio(failure, whole_usage),
        ratio(written, whole_usage),
        ratio(restart, whole_usage),
        float(years.std(ddof=1)) if n_years > 1 else None,
        n_years,
        definition,
    )


def segment_lengths(
    usage: FloatArray, rate: float, u_chk: FloatArray, n: FloatArray, plan: CheckpointPlan
) -> tuple[FloatArray, FloatArray]:
    """Lengths of a plan's full segments and of the last one in node-hours, each (n_types,)."""
    if plan.segments == "equal":
        return usage / n, usage / n
    u_c = plan.factor * optimal_cadence_node_hours(rate, u_chk) if plan.checkpoints else usage
    if plan.capped:
        u_c = np.minimum(u_c, usage)
    segment = np.asarray(u_c + u_chk)
    last = segment if plan.segments == "paper" else usage - (n - 1.0) * segment
    return segment, last


def simulate_project(
    rate: float,
    u_c: float,
    u_chk: float,
    u_r: float,
    *,
    n_segments: int = 100,
    n_runs: int = 20_000,
    seed: int = 0,
) -> Estimate:
    """Mean loss of a project that repeats each segment until it succeeds (papers/002, section 3).

    Args:
        rate: Failures per node-hour, > 0.
        u_c: Node-hours of computing per segment.
        u_chk: Node-hours per checkpoint.
        u_r: Node-hours per restart.
        n_segments: Segments of the project.
        n_runs: Times that it is played.
        seed: Of chance.
    """
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    s = u_c + u_chk
    lost = np.full(n_runs, n_segments * u_chk)
    for _ in range(n_segments):
        trying = np.arange(n_runs)
        while trying.size:
            until = generator.exponential(1.0 / rate, trying.size)
            failed = until < s
            trying = trying[failed]
            r = _restarts(generator, np.full(trying.size, rate), np.full(trying.size, u_r))
            lost[trying] += until[failed] + r
    return Estimate(float(lost.mean()), float(lost.std(ddof=1) / math.sqrt(n_runs)))


def simulate_slow_share(
    usage: float,
    onset_rate: float,
    *,
    recall: float = 0.0,
    mean_usage_to_detect: float | None = None,
    period: float | None = None,
    n_jobs: int = 100_000,
    seed: int = 0,
) -> Estimate:
    """Slow share of jobs whose chips turn slow and are found at random or by diagnoses.

    Args:
        usage: Node-hours of each job.
        onset_rate: Chips turning slow per node-hour.
        recall: Probability of being found at all (at random) or by one diagnosis.
        mean_usage_to_detect: Found after an exponential usage of this mean.
        period: Found by diagnoses each `period` node-hours.
        n_jobs: Jobs played.
        seed: Of chance.
    """
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    job = np.repeat(np.arange(n_jobs), generator.poisson(onset_rate * usage, n_jobs))
    onset = generator.random(job.size) * usage
    end = np.full(job.size, usage)
    if mean_usage_to_detect is not None:
        found = generator.random(job.size) < recall
        stay = generator.exponential(mean_usage_to_detect, job.size)
        end = np.where(found, np.minimum(onset + stay, usage), usage)
    elif period is not None and recall > 0:
        missed = generator.geometric(recall, job.size) - 1
        end = np.minimum((np.floor(onset / period) + 1.0 + missed) * period, usage)
    share = _covered(job, onset, end, n_jobs, usage) / usage
    return Estimate(float(share.mean()), float(share.std(ddof=1) / math.sqrt(n_jobs)))


def _covered(
    job: npt.NDArray[np.int64], start: FloatArray, end: FloatArray, n_jobs: int, usage: float
) -> FloatArray:
    """Length of the union of each job's intervals, (n_jobs,)."""
    order = np.lexsort((start, job))
    job, start, end = job[order], start[order], end[order]
    shift = job * (2.0 * usage)  # jobs one after another on one line
    reach = np.maximum.accumulate(end + shift)
    before = np.concatenate([[0.0], reach[:-1]])
    new = np.maximum(0.0, end + shift - np.maximum(start + shift, before))
    return np.bincount(job, weights=new, minlength=n_jobs).astype(np.float64)


def simulate_joint(
    rate: float,
    u_c: float,
    u_chk: float,
    u_r: float,
    slow: SlowProcess,
    *,
    n_cycles: int = 20_000,
    seed: int = 0,
) -> Estimate:
    """Efficiency of a job that fails and turns slow, played from one restart to the next.

    Args:
        rate: Failures per node-hour, > 0.
        u_c: Node-hours of computing per segment.
        u_chk: Node-hours per checkpoint.
        u_r: Node-hours per restart.
        slow: Onset, slowdown, detection (at a finite rate), policy.
        n_cycles: Lives that are played: from a restart to the next.
        seed: Of chance.
    """
    if rate <= 0 or math.isinf(slow.detection_rate):
        raise SlowpokeError(
            "only a failure rate above zero and a finite detection rate can be played"
        )
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    work = u_c + u_chk
    used, done = np.zeros(n_cycles), np.zeros(n_cycles)
    left = np.full(n_cycles, work)
    state = np.zeros(n_cycles, dtype=np.int64)  # 0 healthy, 1 slow and detectable, 2 missed
    alive = np.arange(n_cycles)
    alarm_rate = np.array([slow.false_alarm_rate, slow.detection_rate, 0.0])
    change_rate = np.array([slow.onset_rate, slow.recovery_rate, slow.recovery_rate])

    def wait(rates: FloatArray) -> FloatArray:
        draws = generator.exponential(size=rates.size)
        return np.where(rates > 0, draws / np.where(rates > 0, rates, 1.0), np.inf)

    while alive.size:
        s = state[alive]
        stretch = np.where(s == 0, 1.0, slow.slowdown)
        events = np.stack(
            [
                left[alive] * stretch,
                generator.exponential(1.0 / rate, alive.size),
                wait(alarm_rate[s]),
                wait(change_rate[s]),
            ]
        )
        what = events.argmin(axis=0)
        passed = events.min(axis=0)
        used[alive] += passed
        left[alive] -= passed / stretch
        finished = alive[what == 0]
        done[finished] += 1
        left[finished] = work
        changed = alive[what == 3]
        detectable = generator.random(changed.size) < slow.recall
        state[changed] = np.where(state[changed] == 0, np.where(detectable, 1, 2), 0)
        ended = what == 1
        accused = alive[what == 2]
        if slow.policy == "kill":
            ended |= what == 2
        elif accused.size:
            until = generator.exponential(1.0 / rate, accused.size)
            dies = until < slow.drain_node_hours
            used[accused] += np.where(dies, until, slow.drain_node_hours)
            state[accused] = 0
            ended[np.flatnonzero(what == 2)[dies]] = True
        alive = alive[~ended]
    used += _restarts(generator, np.full(n_cycles, rate), np.full(n_cycles, u_r))
    return ratio(done * u_c, used)
