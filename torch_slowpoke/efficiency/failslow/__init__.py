"""What chips that are slow but do not fail cost a machine, and what finding them saves."""

from torch_slowpoke.efficiency.failslow.campaign import read_detector
from torch_slowpoke.efficiency.failslow.detector import Detector
from torch_slowpoke.efficiency.failslow.diagnosis import (
    act_or_wait,
    best_period,
    diagnosis_cadence,
    diagnosis_efficiency,
)
from torch_slowpoke.efficiency.failslow.exposure import (
    class_loss,
    slow_start_probability,
    slow_with_periodic_diagnosis,
    slow_with_random_detection,
    slow_without_detection,
)
from torch_slowpoke.efficiency.failslow.fleet import FailSlow, FleetLoss, fleet_loss
from torch_slowpoke.efficiency.failslow.joint import (
    JointEfficiency,
    SlowProcess,
    effective_rate,
    joint_cadence,
    joint_efficiency,
    product_efficiency,
)

__all__ = [
    "Detector",
    "FailSlow",
    "FleetLoss",
    "JointEfficiency",
    "SlowProcess",
    "act_or_wait",
    "best_period",
    "class_loss",
    "diagnosis_cadence",
    "diagnosis_efficiency",
    "effective_rate",
    "fleet_loss",
    "joint_cadence",
    "joint_efficiency",
    "product_efficiency",
    "read_detector",
    "slow_start_probability",
    "slow_with_periodic_diagnosis",
    "slow_with_random_detection",
    "slow_without_detection",
]
