"""What failures cost one job, in node-hours: usage, work lost, checkpoints written, restarts.

Graziani, Lusch and Messer (papers/002), section 4, in closed form: the expected usage (4.6) is the
failure probability divided by the failure rate (Wald's identity), and all else follows from it.

Three ways to cut a job into segments, each ending with a checkpoint:

- `paper`: as printed, N_chk = ceil(NT/(u_c + u_chk)) segments of full length, so that a job may use
  more than it was scheduled for;
- `exact`: the same cadence, and the last segment as long as what remains of the job;
- `equal`: n equal segments, n the better of the two whole numbers next to NT/(u_c + u_chk).
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.cadence import optimal_cadence_node_hours
from torch_slowpoke.efficiency.stable import FloatArray, lost_share, repeated_share, survived_share

Segments = Literal["paper", "exact", "equal"]
Rounding = Literal["up", "none", "plus-one"]

# A quotient this close to a whole number is that number: NT, u_c and u_chk each carry a rounding.
_WHOLE = 1.0 - 8.0 * np.finfo(np.float64).eps
_MOST_SEGMENTS = 2.0**50
_PRACTICALLY_INFINITE = 1e200  # node-hours; sums of less do not leave the floating numbers
_LARGEST_FACTOR = 1e12
_SHORTEST = 1e-300  # node-hours: keeps a job of no duration and no checkpoint out of 0/0


@dataclass(frozen=True)
class CheckpointPlan:
    """How jobs place their checkpoints; the default is the best.

    Attributes:
        segments: `equal`, `exact` or `paper` (see the module).
        factor: Cadence in units of the best one (papers/002, figure 7.2); `equal` rounds to the
            nearest whole number of segments.
        capped: Cut the cadence off at the job's scheduled usage, as the authors' figure 7.2 does
            and their base case does not; changes nothing unless `segments` is `paper`.
        checkpoints: False: none but the one at the end.
        rounding: Only with `paper`. `up`: N_chk is the ceiling; `none`: not rounded, as the text
            says (section 6); `plus-one`: not rounded, plus one, as the authors' code does.
    """

    segments: Segments = "equal"
    factor: float = 1.0
    capped: bool = False
    checkpoints: bool = True
    rounding: Rounding = "up"

    def __post_init__(self) -> None:
        if self.segments not in get_args(Segments):
            raise SlowpokeError(f"segments {self.segments!r}: use paper, exact or equal")
        if self.rounding not in get_args(Rounding):
            raise SlowpokeError(f"rounding {self.rounding!r}: use up, none or plus-one")
        if self.rounding != "up" and self.segments != "paper":
            raise SlowpokeError(
                f"rounding {self.rounding!r} only has a meaning with segments='paper': "
                "exact and equal segments are whole"
            )
        if not 0 < self.factor <= _LARGEST_FACTOR:
            raise SlowpokeError(
                f"cadence factor {self.factor}: give a finite value above zero, at most "
                f"{_LARGEST_FACTOR:g}"
            )


BEST_PLAN = CheckpointPlan()


@dataclass(frozen=True)
class JobLosses:
    """Expected node-hours per job of each type; all float64 (n_types,).

    Attributes:
        usage_node_hours: U, what the job uses until it ends or fails.
        failure_node_hours: L_F, computing and writing lost with a failure.
        checkpoint_node_hours: L_chk, checkpoints written, but for the last.
        restart_node_hours: L_R, restarts after a failure; comes on top of U. Infinite where the
            restart is so long that it practically never succeeds.
        n_segments: Segments per job.
    """

    usage_node_hours: FloatArray
    failure_node_hours: FloatArray
    checkpoint_node_hours: FloatArray
    restart_node_hours: FloatArray
    n_segments: FloatArray


def job_losses(
    usage: FloatArray,
    rate: FloatArray,
    u_chk: FloatArray,
    u_r: FloatArray,
    plan: CheckpointPlan = BEST_PLAN,
    planned_rate: FloatArray | None = None,
) -> JobLosses:
    """Expected usage and losses of jobs (papers/002, equations 4.1-4.6). O(n_types).

    Args:
        usage: Scheduled usage NT in node-hours, > 0, (n_types,).
        rate: Failures per node-hour, >= 0, (n_types,) or scalar array.
        u_chk: Node-hours per checkpoint, >= 0, (n_types,).
        u_r: Node-hours per restart, >= 0, (n_types,).
        plan: Where the checkpoints lie.
        planned_rate: The rate that the cadence was chosen for, if it is not the true one.
    """
    cadence_rate = rate if planned_rate is None else planned_rate
    if plan.checkpoints:
        factor = 1.0 if plan.segments == "equal" else plan.factor
        u_c = factor * optimal_cadence_node_hours(cadence_rate, u_chk)
    else:
        u_c = np.array(np.inf)
    # With no failure to fear, or never checkpointing, the job is its own and only segment.
    u_c = np.where(np.isinf(u_c) | plan.capped, np.minimum(u_c, usage), u_c)
    segment = np.maximum(np.maximum(u_c + u_chk, usage / _MOST_SEGMENTS), _SHORTEST)
    quotient = usage / segment
    if plan.segments == "paper":
        if plan.rounding == "up":
            n = np.maximum(1.0, np.ceil(quotient * _WHOLE))
        else:
            n = quotient + (1.0 if plan.rounding == "plus-one" else 0.0)
        total = n * segment
        used = total * survived_share(rate * total)
        lost = _losses_of_equal(n, rate * segment, used, u_chk)
        return JobLosses(used, *lost, _restarts(rate, used, u_r), n)
    if plan.segments == "exact":
        n = np.maximum(1.0, np.ceil(quotient * _WHOLE))
        last = np.clip(usage - (n - 1.0) * segment, 0.0, segment)
        return _losses_with_a_last(n, segment, last, usage, rate, u_chk, u_r)
    used = usage * survived_share(rate * usage)
    restart = _restarts(rate, used, u_r)
    if not plan.checkpoints:
        alone = np.ones_like(usage)
        return JobLosses(used, *_losses_of_equal(alone, rate * usage, used, u_chk), restart, alone)
    planned_used = used if planned_rate is None else usage * survived_share(cadence_rate * usage)
    # The best whole number of segments is the one below or above the best cadence's.
    fewer = np.maximum(1.0, np.floor(quotient))
    more = fewer + 1.0
    few = _losses_of_equal(fewer, cadence_rate * usage / fewer, planned_used, u_chk)
    many = _losses_of_equal(more, cadence_rate * usage / more, planned_used, u_chk)
    better = many[0] + many[1] < few[0] + few[1]
    best = np.where(better, more, fewer)
    if planned_rate is None and plan.factor == 1.0:
        failure, written = (np.where(better, m, f) for m, f in zip(many, few, strict=True))
        return JobLosses(used, failure, written, restart, best)
    if plan.factor != 1.0:
        stretched = plan.factor * np.maximum(0.0, usage / best - u_chk) + u_chk
        best = np.maximum(1.0, np.rint(usage / np.maximum(stretched, usage / _MOST_SEGMENTS)))
    lost = _losses_of_equal(best, rate * usage / best, used, u_chk)
    return JobLosses(used, *lost, restart, best)


def _losses_of_equal(
    n: FloatArray, z: FloatArray, used: FloatArray, u_chk: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """L_F and L_chk of n segments of one length z/R0: each failure loses the same share."""
    return used * lost_share(z), u_chk * _n_written(n - 1.0, z)


def _restarts(rate: FloatArray, used: FloatArray, u_r: FloatArray) -> FloatArray:
    """L_R: failures times the usage of a restart that is repeated until it succeeds (4.5)."""
    failures = rate * used
    # 0 x infinite where a job of no duration cannot fail; infinite where e^(R0 u_r) is, or nearly.
    with np.errstate(invalid="ignore", over="ignore"):
        cost = failures * u_r * repeated_share(rate * u_r)
    return np.where(failures > 0, np.where(cost > _PRACTICALLY_INFINITE, np.inf, cost), 0.0)


def _n_written(before: FloatArray, z: FloatArray) -> FloatArray:
    """Expected number of checkpoints before the last (4.3), (p - p^n)/(1 - p)."""
    bounded = np.clip(z, 1e-300, 700.0)
    return np.asarray(-np.expm1(-before * bounded) / np.expm1(bounded))


def _losses_with_a_last(
    n: FloatArray,
    segment: FloatArray,
    last: FloatArray,
    total: FloatArray,
    rate: FloatArray,
    u_chk: FloatArray,
    u_r: FloatArray,
) -> JobLosses:
    """Losses of n - 1 segments of one length and a last one, `total` node-hours together."""
    before = n - 1.0
    z = rate * segment
    reach = before * z
    # (1 - p^m)/R0 and e^-mz (1 - e^-R0 v)/R0: usage in the full segments and in the last one.
    full = before * segment * survived_share(reach)
    rest = np.exp(-reach) * last * survived_share(rate * last)
    used = total * survived_share(rate * total)
    failure = full * lost_share(z) + rest * lost_share(rate * last)
    written = u_chk * _n_written(before, z)
    restart = _restarts(rate, used, u_r)
    return JobLosses(used, failure, written, restart, n)
