"""How often to look for slow chips, and whether to act on what is found.

A Young-type law: diagnosing costs usage like a checkpoint does, and a slow chip that is not found
costs the share kappa of all usage until it is. Ours; usage in node-hours.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.failslow.exposure import (
    check_amount,
    check_share,
    kappa,
    slow_in_steady_state,
)


@dataclass(frozen=True)
class DiagnosisCadence:
    """The period that loses least, to first order.

    Attributes:
        period_node_hours: P*, usage between diagnoses; infinite if looking is not worth it.
        loss: Share of usage lost at that period, repairs included.
    """

    period_node_hours: float
    loss: float


def diagnosis_cadence(
    onset_rate: float,
    slowdown: float,
    recall: float,
    false_alarm: float,
    *,
    probe_node_hours: float,
    drain_node_hours: float,
) -> DiagnosisCadence:
    """P* = sqrt(2 q c / ((2 - q) rate kappa)), c = probe + false_alarm x drain.

    Args:
        onset_rate: Chips turning slow per node-hour.
        slowdown: Of the job while one is slow, >= 1.
        recall: q, per diagnosis.
        false_alarm: f, per diagnosis of a healthy job.
        probe_node_hours: Cost of a diagnosis.
        drain_node_hours: Cost of swapping a node out, also after a false alarm.

    Raises:
        SlowpokeError: Values out of range.

    >>> d = diagnosis_cadence(1e-5, 1.67, .8677, .1211, probe_node_hours=2 * 1024 / 3600,
    ...                       drain_node_hours=1024 / 6)
    >>> round(d.period_node_hours, 1), round(d.loss, 4)
    (2848.3, 0.0166)
    """
    _check(onset_rate, recall, false_alarm, probe_node_hours, drain_node_hours)
    lost = onset_rate * float(kappa(slowdown))
    cost = probe_node_hours + false_alarm * drain_node_hours
    if lost == 0.0 or recall == 0.0:
        return DiagnosisCadence(math.inf, float(kappa(slowdown)) if lost > 0 else 0.0)
    period = math.sqrt(2.0 * recall * cost / ((2.0 - recall) * lost))
    loss = math.sqrt(2.0 * lost * cost * (2.0 - recall) / recall) + onset_rate * drain_node_hours
    return DiagnosisCadence(period, loss)


def diagnosis_efficiency(
    period_node_hours: float,
    onset_rate: float,
    slowdown: float,
    recall: float,
    false_alarm: float,
    *,
    probe_node_hours: float,
    drain_node_hours: float,
) -> float:
    """Long-run share of usage that is left, slow usage, diagnoses and repairs paid.

    Args: as `diagnosis_cadence`, and the period, > 0.
    """
    _check(onset_rate, recall, false_alarm, probe_node_hours, drain_node_hours)
    if not period_node_hours > 0:
        raise SlowpokeError(
            f"a diagnosis every {period_node_hours} node-hours: give more than zero"
        )
    if recall == 0.0 or math.isinf(period_node_hours):
        # In the long run all usage is slow, and each diagnosis is in vain.
        lost = float(kappa(slowdown)) if onset_rate > 0 else 0.0
        return (1.0 - lost) / (1.0 + probe_node_hours / period_node_hours)
    slow = slow_in_steady_state(onset_rate, recall, period_node_hours)
    healthy = math.exp(-onset_rate * period_node_hours / recall)
    per_period = probe_node_hours + false_alarm * healthy * drain_node_hours
    paid = per_period / period_node_hours + onset_rate * drain_node_hours
    return (1.0 - float(kappa(slowdown)) * slow) / (1.0 + paid)


def best_period(
    onset_rate: float,
    slowdown: float,
    recall: float,
    false_alarm: float,
    *,
    probe_node_hours: float,
    drain_node_hours: float,
) -> float:
    """The period with the highest `diagnosis_efficiency`, by golden section about P*."""
    costs = {"probe_node_hours": probe_node_hours, "drain_node_hours": drain_node_hours}
    start = diagnosis_cadence(onset_rate, slowdown, recall, false_alarm, **costs)
    if not 0.0 < start.period_node_hours < math.inf:
        return start.period_node_hours
    low, high = math.log(start.period_node_hours) - 4.0, math.log(start.period_node_hours) + 4.0

    def e(x: float) -> float:
        return diagnosis_efficiency(math.exp(x), onset_rate, slowdown, recall, false_alarm, **costs)

    return math.exp(golden_maximum(e, low, high))


def golden_maximum(f: Callable[[float], float], low: float, high: float) -> float:
    """Where f, with one maximum between low and high, is largest; to 1e-6 of the bracket."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    fa, fb = f(a), f(b)
    for _ in range(30):
        if fa >= fb:
            high, b, fb = b, a, fa
            a = high - ratio * (high - low)
            fa = f(a)
        else:
            low, a, fa = a, b, fb
            b = low + ratio * (high - low)
            fb = f(b)
    return (low + high) / 2.0


@dataclass(frozen=True)
class Advice:
    """Whether to swap an accused node out.

    Attributes:
        action: `drain` or `wait`.
        probability: That the job is really slow, given the accusations.
        expected_gain_node_hours: Usage saved by draining, less its cost.
    """

    action: Literal["drain", "wait"]
    probability: float
    expected_gain_node_hours: float


def act_or_wait(
    n_alarms: int,
    *,
    onset_rate: float,
    slowdown: float,
    recall: float,
    false_alarm: float,
    usage_since_clean: float,
    remaining_usage: float,
    drain_node_hours: float,
) -> Advice:
    """Drain if the usage that slowness would still cost exceeds the cost of the drain.

    Prior: a chip turned slow since the last clean diagnosis; each of `n_alarms` diagnoses in a row
    multiplies its odds by recall/false_alarm.

    Args:
        n_alarms: Diagnoses in a row that accuse, >= 0.
        onset_rate: Chips turning slow per node-hour.
        slowdown: Of the job while one is slow.
        recall: Per diagnosis.
        false_alarm: Per diagnosis.
        usage_since_clean: Node-hours since the last clean diagnosis.
        remaining_usage: Node-hours that the job will still run.
        drain_node_hours: Cost of a drain.

    >>> act_or_wait(2, onset_rate=1e-5, slowdown=1.67, recall=.87, false_alarm=.12,
    ...             usage_since_clean=1000, remaining_usage=5000, drain_node_hours=170).action
    'drain'
    """
    _check(onset_rate, recall, false_alarm, 0.0, drain_node_hours)
    check_amount(usage_since_clean, "usage since the last clean diagnosis")
    check_amount(remaining_usage, "remaining usage")
    if n_alarms < 0:
        raise SlowpokeError(f"{n_alarms} alarms: give a number from 0 on")
    prior = -math.expm1(-onset_rate * usage_since_clean)
    slow = prior * recall**n_alarms
    healthy = (1.0 - prior) * false_alarm**n_alarms
    # Neither could have raised these alarms: the prior stands.
    p = slow / (slow + healthy) if slow + healthy > 0 else prior
    gain = p * float(kappa(slowdown)) * remaining_usage - drain_node_hours
    return Advice("drain" if gain > 0 else "wait", p, gain)


def _check(rate: float, recall: float, false_alarm: float, probe: float, drain: float) -> None:
    check_amount(rate, "onset rate")
    check_share(recall, "recall")
    check_share(false_alarm, "false-alarm probability")
    check_amount(probe, "cost of a diagnosis")
    check_amount(drain, "cost of a drain")
