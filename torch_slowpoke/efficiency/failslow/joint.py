"""Efficiency of a job that both fails and turns slow: the exact joint model.

Between two checkpoints the job is healthy (H), slow and detectable (D) or slow and missed for good
(M); it fails at the rate R0 per node-hour throughout. A segment, u_c + u_chk node-hours of healthy
work, is a piece of a Markov chain with killing; restarts clear slow nodes. Without slowness it is
U/(U + L) of papers/002, section 3. Two policies for a job that is found slow: `drain` writes a
checkpoint and swaps the node, `kill` stops the job at once and loses the work since the last one.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.cadence import check_rate, optimal_cadence_node_hours
from torch_slowpoke.efficiency.failslow.diagnosis import golden_maximum
from torch_slowpoke.efficiency.failslow.exposure import check_amount, check_share, kappa
from torch_slowpoke.efficiency.stable import FloatArray, repeated_share, survived_share

Policy = Literal["drain", "kill"]

_AT_ONCE = 1e30
_N_TERMS = 14
_MOST_DOUBLINGS = 1000


@dataclass(frozen=True)
class SlowProcess:
    """How a job turns slow and how it is found out; all rates per node-hour of the job's usage.

    Attributes:
        onset_rate: lambda, chips turning slow.
        slowdown: sigma, of the job while one is slow.
        recall: q, probability that a slow chip is detectable at all.
        detection_rate: delta, rate at which a detectable one is found; infinite is at once.
        false_alarm_rate: phi, rate at which a healthy job is accused.
        drain_node_hours: u_d, usage of swapping a node (policy `drain`).
        recovery_rate: gamma, rate at which a slow chip recovers by itself.
        policy: `drain` or `kill`.
    """

    onset_rate: float
    slowdown: float
    recall: float = 0.0
    detection_rate: float = 0.0
    false_alarm_rate: float = 0.0
    drain_node_hours: float = 0.0
    recovery_rate: float = 0.0
    policy: Policy = "drain"

    def __post_init__(self) -> None:
        check_amount(self.onset_rate, "onset rate")
        kappa(self.slowdown)
        check_amount(self.slowdown, "slowdown")
        check_share(self.recall, "recall")
        if not self.detection_rate >= 0:
            raise SlowpokeError(f"detection rate {self.detection_rate} must not be negative")
        check_amount(self.false_alarm_rate, "false-alarm rate")
        check_amount(self.drain_node_hours, "cost of a drain")
        check_amount(self.recovery_rate, "recovery rate")
        if self.policy not in get_args(Policy):
            raise SlowpokeError(f"policy {self.policy!r}: use drain or kill")


@dataclass(frozen=True)
class JointEfficiency:
    """Long-run figures of a job that fails and turns slow.

    Attributes:
        efficiency: Share of all usage that is left for computing.
        attempt_failure: Probability that a segment does not reach its checkpoint.
        attempt_node_hours: Usage of a segment, successful or not.
    """

    efficiency: float
    attempt_failure: float
    attempt_node_hours: float


def joint_efficiency(
    rate: float, u_c: float, u_chk: float, u_r: float, slow: SlowProcess
) -> JointEfficiency:
    """Long-run efficiency with both failures and slowness, by a matrix exponential.

    Accurate to about 1e-13 for detection however fast: probabilities are doubled up from a short
    step, with killing kept apart, so that no difference of nearly equal numbers is ever taken.

    Args:
        rate: R0, failures per node-hour.
        u_c: Node-hours of computing between checkpoints, > 0 and finite.
        u_chk: Node-hours of a checkpoint.
        u_r: Node-hours of a restart.
        slow: Onset, slowdown, detection, policy.

    Raises:
        SlowpokeError: Values out of range.
    """
    check_rate(rate)
    check_amount(u_chk, "cost of a checkpoint")
    check_amount(u_r, "cost of a restart")
    if not (math.isfinite(u_c) and u_c > 0):
        raise SlowpokeError(f"cadence {u_c} node-hours: give a finite value above zero")
    moves, killed, used = _rates(rate, slow)
    stays, fails, usage = _segment(moves, killed, used, u_c + u_chk)
    start = _stationary(stays, fails, slow.onset_rate > 0)
    failure = float(start @ fails)
    per_attempt = float(start @ usage)
    restart = u_r * float(repeated_share(rate * u_r))
    if math.isinf(restart):
        return JointEfficiency(0.0, failure, per_attempt)
    e = u_c * float(start @ stays.sum(axis=1)) / (per_attempt + failure * restart)
    return JointEfficiency(e, failure, per_attempt)


def _rates(rate: float, slow: SlowProcess) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Moves between H, D, M, killing, and usage, each per unit of healthy work."""
    found, alarms = slow.detection_rate, slow.false_alarm_rate
    to_d, to_m = slow.onset_rate * slow.recall, slow.onset_rate * (1.0 - slow.recall)
    if found > _AT_ONCE * (
        rate + slow.onset_rate + alarms + slow.recovery_rate
    ):  # found at once: an onset that is detectable is an alarm
        alarms, to_d, found = alarms + to_d, 0.0, 0.0
    moves = np.zeros((3, 3))
    moves[0, 1], moves[0, 2] = to_d, to_m
    moves[1, 0] = moves[2, 0] = slow.recovery_rate
    killed = np.full(3, rate)
    used = np.ones(3)
    if slow.policy == "drain":
        fails_in_drain = -math.expm1(-rate * slow.drain_node_hours)
        moves[1, 0] += found * (1.0 - fails_in_drain)
        killed[:2] += np.array([alarms, found]) * fails_in_drain
        mean_drain = slow.drain_node_hours * float(survived_share(rate * slow.drain_node_hours))
        used[:2] += np.array([alarms, found]) * mean_drain
    else:
        killed[:2] += np.array([alarms, found])
    stretch = np.array([1.0, slow.slowdown, slow.slowdown])  # usage per unit of work
    return moves * stretch[:, None], killed * stretch, used * stretch


def _segment(
    moves: FloatArray, killed: FloatArray, used: FloatArray, work: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """State at the end of a segment (3, 3), probability of failing (3,) and usage (3,) in it.

    Scaling and squaring on the substochastic matrix; after each doubling the rows are brought back
    to 1 - failure, which keeps small probabilities to their last digits (after Grassmann, Taksar
    and Heyman).
    """
    exits = moves.sum(axis=1) + killed
    steepness = float(exits.max()) * work
    if not steepness < 1e290:
        raise SlowpokeError("a rate times the length of a segment is too large to be computed with")
    n_doublings = max(0, math.ceil(math.log2(steepness / 0.25))) if steepness > 0.25 else 0
    h = work / 2.0**n_doublings
    a = (moves - np.diag(exits)) * h
    stays, fails, usage = np.eye(3), np.zeros(3), np.zeros(3)
    power = np.eye(3)
    for j in range(1, _N_TERMS):
        # The integral of a power of the generator has one more factor h/j than the power.
        fails = fails + power @ killed * (h / j)
        usage = usage + power @ used * (h / j)
        power = power @ a / j
        stays = stays + power
    for _ in range(min(n_doublings, _MOST_DOUBLINGS)):
        fails, usage = fails + stays @ fails, usage + stays @ usage
        stays = stays @ stays
        rows = stays.sum(axis=1)
        safe = np.where(rows > 0, rows, 1.0)
        stays = stays * (np.maximum(1.0 - fails, 0.0) / safe)[:, None]
    return stays, fails, usage


def _stationary(stays: FloatArray, fails: FloatArray, turns_slow: bool) -> FloatArray:
    """Law of the state in which segments start, (3,): failures restart in H. By spanning trees."""
    p: npt.NDArray[np.float64] = stays.copy()
    p[:, 0] += fails
    (_, hd, hm), (dh, _, dm), (mh, md, _) = p
    weights = np.array(
        [
            dh * mh + dm * mh + md * dh,
            hd * mh + hm * md + hd * md,
            hm * dh + hd * dm + hm * dm,
        ]
    )
    total = weights.sum()
    if total > 0:
        return np.asarray(weights / total)
    # Slow for ever, or no move at all: the end of the chain is where it stays.
    return np.array([0.0, 0.0, 1.0]) if turns_slow else np.array([1.0, 0.0, 0.0])


def effective_rate(rate: float, slow: SlowProcess) -> float:
    """The rate at which work is lost under policy `kill`: R0 + phi + lambda q delta/(delta + R0).

    The cadence of papers/002 for this rate is within 6e-4 in efficiency of the numeric optimum.
    """
    found = 1.0
    if math.isfinite(slow.detection_rate):
        total = slow.detection_rate + rate
        found = slow.detection_rate / total if total > 0 else 0.0
    return rate + slow.false_alarm_rate + slow.onset_rate * slow.recall * found


def product_efficiency(
    rate: float, u_c: float, u_chk: float, u_r: float, slow: SlowProcess
) -> float:
    """The rule of thumb: efficiency with failures alone times efficiency with slowness alone.

    For plans, policy `drain`: optimistic by 3e-4 for mild slowness of a job of 1,024 nodes and 1e-2
    for heavy slowness of 4,096. The slow share is that of the long run, in which crashes clear
    slow nodes too.

    Args: as `joint_efficiency`.

    >>> round(product_efficiency(2e-5, 978.9, 9.7, 10.3, SlowProcess(1e-5, 1.67)), 3)
    0.849
    """
    if slow.policy != "drain":
        raise SlowpokeError(f"policy {slow.policy!r}: the product rule knows drain alone")
    alone = joint_efficiency(rate, u_c, u_chk, u_r, SlowProcess(0.0, 1.0)).efficiency
    cleared = rate + slow.recovery_rate
    missed, found = slow.onset_rate * (1.0 - slow.recall), slow.onset_rate * slow.recall
    if cleared == 0.0 and (missed > 0.0 or (found > 0.0 and slow.detection_rate == 0.0)):
        return alone * (1.0 - float(kappa(slow.slowdown)))  # slow for ever
    # In units of the healthy share.
    in_m = missed / cleared if missed > 0.0 else 0.0
    in_d = found / (cleared + slow.detection_rate) if found > 0.0 else 0.0
    drained = found if math.isinf(slow.detection_rate) else in_d * slow.detection_rate
    healthy = 1.0 / (1.0 + in_m + in_d)
    paid = (drained + slow.false_alarm_rate) * healthy * slow.drain_node_hours
    return alone * (1.0 - float(kappa(slow.slowdown)) * (1.0 - healthy)) / (1.0 + paid)


def joint_cadence(
    rate: float, u_chk: float, u_r: float, slow: SlowProcess, *, numeric: bool = True
) -> float:
    """Node-hours of computing between checkpoints that leave most, with failures and slowness.

    Args:
        rate: R0.
        u_chk: Node-hours of a checkpoint, > 0.
        u_r: Node-hours of a restart.
        slow: Onset, slowdown, detection, policy.
        numeric: Maximise the exact efficiency; else the closed form for the effective rate.

    Raises:
        SlowpokeError: Nothing ever fails or is killed, so that no checkpoint is the best cadence.
    """
    lost_at = effective_rate(rate, slow) if slow.policy == "kill" else rate
    start = float(optimal_cadence_node_hours(lost_at, u_chk))
    if not 0.0 < start < math.inf:
        raise SlowpokeError(
            f"failure rate {rate} and checkpoint cost {u_chk} node-hours have no finite best "
            "cadence: never checkpoint, or always"
        )
    if not numeric:
        return start
    middle = math.log(start)
    best = golden_maximum(
        lambda x: joint_efficiency(rate, math.exp(x), u_chk, u_r, slow).efficiency,
        middle - 4.0,
        middle + 4.0,
    )
    return math.exp(best)
