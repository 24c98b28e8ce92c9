"""What slow chips cost a whole machine in node-hours, and what a detector saves.

Each job starts healthy (nodes are checked between jobs). Its slow usage follows from its size and
duration, exactly; it is joined with the fail-stop losses by the product rule, efficiency =
fail-stop x fail-slow, which is up to 3e-4 optimistic for mild slowness and 1e-2 for extreme.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from torch_slowpoke.efficiency.failslow.detector import Detector
from torch_slowpoke.efficiency.failslow.diagnosis import diagnosis_cadence
from torch_slowpoke.efficiency.failslow.exposure import (
    check_amount,
    kappa,
    slow_with_periodic_diagnosis,
    slow_without_detection,
)
from torch_slowpoke.efficiency.machine import MachineEfficiency
from torch_slowpoke.efficiency.schedule import Schedule

SCHEMA = "slowpoke.efficiency.failslow/1"


@dataclass(frozen=True)
class FailSlow:
    """How chips turn slow on a machine.

    Attributes:
        onset_rate: Chips turning slow per node-hour.
        slowdown: Of the whole job while one of its chips is slow.
        drain_hours: Wall time of swapping a node, all of the job's nodes waiting.
    """

    onset_rate: float
    slowdown: float
    drain_hours: float = 1.0 / 6.0

    def __post_init__(self) -> None:
        check_amount(self.onset_rate, "onset rate")
        kappa(self.slowdown)
        check_amount(self.drain_hours, "hours of a drain")


@dataclass(frozen=True)
class Case:
    """The machine under one way of looking for slow chips.

    Attributes:
        name: `none`, `detector` or `perfect`.
        efficiency: Failures and slowness together.
        slow_share: Of the scheduled usage, with a slow chip.
        lost_node_hours: To slowness, diagnoses, drains and false alarms, of the scheduled usage.
        false_alarms: Expected drains of healthy jobs.
    """

    name: Literal["none", "detector", "perfect"]
    efficiency: float
    slow_share: float
    lost_node_hours: float
    false_alarms: float


@dataclass(frozen=True)
class FleetLoss:
    """A machine without detection, with a detector, and with a perfect one.

    Attributes:
        failstop: The machine if nothing ever turned slow.
        none: Nobody looks.
        detector: The detector looks.
        perfect: Every slow chip is found at once, without a false alarm; drains are still paid.
        detector_name: What looked.
        period_hours: Hours between diagnoses; None: each job size at its own best period.
    """

    failstop: MachineEfficiency
    none: Case
    detector: Case
    perfect: Case
    detector_name: str
    period_hours: float | None

    @property
    def saved_node_hours(self) -> float:
        """What the detector is worth; negative if it costs more than it finds."""
        return self.none.lost_node_hours - self.detector.lost_node_hours

    def to_dict(self) -> dict[str, Any]:
        """JSON fields; `efficiency` is that with the detector."""
        failstop = self.failstop.to_dict()
        keys = ("l_F", "l_chk", "l_R", "definition", "segments")
        return {
            "schema": SCHEMA,
            "efficiency": self.detector.efficiency,
            **{key: failstop[key] for key in keys},
            "failstop_efficiency": failstop["efficiency"],
            "cases": {c.name: vars(c) for c in (self.none, self.detector, self.perfect)},
            "saved_node_hours": self.saved_node_hours,
            "detector": self.detector_name,
            "period_hours": self.period_hours,
            "scheduled_node_hours": self.failstop.scheduled_node_hours,
            "notes": [
                *self.failstop.notes,
                "slowness: jobs start healthy, onsets are independent, one slow chip slows the job",
                "l_F, l_chk and l_R are those of the machine without slowness",
            ],
        }


def fleet_loss(
    schedule: Schedule,
    failstop: MachineEfficiency,
    slow: FailSlow,
    detector: Detector,
    *,
    period_hours: float | None = None,
) -> FleetLoss:
    """Node-hours lost to slow chips over a schedule, with and without a detector. O(n_types).

    Args:
        schedule: The jobs.
        failstop: Its efficiency without slowness, from `machine_efficiency`.
        slow: How chips turn slow.
        detector: Recall, false alarms and cost of one diagnosis.
        period_hours: Wall time between diagnoses; each job size at its best period if not given.

    Raises:
        SlowpokeError: A period that is not above zero.
    """
    usage = schedule.n_nodes * schedule.hours
    weight = schedule.n_jobs * usage
    share_none = np.asarray(slow_without_detection(usage, slow.onset_rate))
    lost_share = float(kappa(slow.slowdown))
    drain = slow.drain_hours * schedule.n_nodes
    probe = detector.cost_seconds / 3600.0 * schedule.n_nodes
    share = np.empty_like(usage)
    paid = np.empty_like(usage)
    alarms = np.empty_like(usage)
    for i, n in enumerate(schedule.n_nodes.tolist()):
        period = math.inf if period_hours is None else period_hours * n
        if period_hours is None:
            period = diagnosis_cadence(
                slow.onset_rate,
                slow.slowdown,
                detector.recall,
                detector.false_alarm,
                probe_node_hours=float(probe[i]),
                drain_node_hours=float(drain[i]),
            ).period_node_hours
            # A detector that costs nothing is asked each second.
            period = max(period, n / 3600.0)
        share[i], paid[i], alarms[i] = _job(
            float(usage[i]), period, slow, detector, float(probe[i]), float(drain[i])
        )
    drained = slow.onset_rate * drain  # per usage: each onset is met by a drain
    whole = float(weight.sum())

    def case(
        name: Literal["none", "detector", "perfect"],
        slow_of: np.ndarray[tuple[int], np.dtype[np.float64]],
        cost_of: np.ndarray[tuple[int], np.dtype[np.float64]],
        n_alarms: float,
    ) -> Case:
        left = (1.0 - lost_share * slow_of) / (1.0 + cost_of)
        kept = float(weight @ left) / whole
        return Case(
            name,
            failstop.efficiency * kept,
            float(weight @ slow_of) / whole,
            whole * (1.0 - kept),
            n_alarms,
        )

    zero = np.zeros_like(usage)
    return FleetLoss(
        failstop,
        case("none", share_none, zero, 0.0),
        case("detector", share, paid, float(schedule.n_jobs @ alarms)),
        case("perfect", zero, drained if lost_share > 0 else zero, 0.0),
        detector.name,
        period_hours,
    )


def _job(
    usage: float,
    period: float,
    slow: FailSlow,
    detector: Detector,
    probe: float,
    drain: float,
) -> tuple[float, float, float]:
    """Slow share, cost per usage and false alarms of one job that is diagnosed each `period`."""
    n_diagnoses = math.ceil(usage / period) - 1 if period < usage else 0
    if n_diagnoses == 0 or (detector.recall == 0.0 and detector.false_alarm == 0.0):
        share = float(slow_without_detection(usage, slow.onset_rate))
        return share, n_diagnoses * probe / usage, 0.0
    share = slow_with_periodic_diagnosis(usage, slow.onset_rate, detector.recall, period)
    healthy = 1.0 - share
    alarms = n_diagnoses * detector.false_alarm * healthy
    found = slow.onset_rate * usage if detector.recall > 0 else 0.0
    return share, (n_diagnoses * probe + (alarms + found) * drain) / usage, alarms
