"""What failures cost a machine: checkpoint cadence, losses, computational efficiency."""

from torch_slowpoke.efficiency.band import EfficiencyBand, efficiency_band
from torch_slowpoke.efficiency.cadence import CheckpointCost, checkpoint_cost, optimal_z
from torch_slowpoke.efficiency.logs import JobLog, read_log, schedule_of_log
from torch_slowpoke.efficiency.losses import CheckpointPlan
from torch_slowpoke.efficiency.machine import Application, MachineEfficiency, machine_efficiency
from torch_slowpoke.efficiency.rate import RateInterval, failure_rate, rate_interval
from torch_slowpoke.efficiency.schedule import Schedule, schedule_of_bins, schedule_of_jobs

__all__ = [
    "Application",
    "CheckpointCost",
    "CheckpointPlan",
    "EfficiencyBand",
    "JobLog",
    "MachineEfficiency",
    "RateInterval",
    "Schedule",
    "checkpoint_cost",
    "efficiency_band",
    "failure_rate",
    "machine_efficiency",
    "optimal_z",
    "rate_interval",
    "read_log",
    "schedule_of_bins",
    "schedule_of_jobs",
    "schedule_of_log",
]
