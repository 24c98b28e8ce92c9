"""The computational efficiency of a machine: which share of its node-hours is left for science.

Graziani, Lusch and Messer (papers/002), section 5, over a schedule of jobs. Two definitions:

- `paper`: 1 - (L_F + L_chk + L_R)/U as printed (5.1). Restarts are charged but not counted as
  usage, so that it falls below zero for fragile machines.
- `renewal`: (U - L_F - L_chk)/(U + L_R), a true share in [0, 1], and U/(U + L) of section 3 for
  long jobs. The two differ by 1e-4 on Frontier.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.cadence import CheckpointCost, check_rate
from torch_slowpoke.efficiency.losses import (
    BEST_PLAN,
    CheckpointPlan,
    JobLosses,
    Segments,
    job_losses,
)
from torch_slowpoke.efficiency.schedule import Schedule
from torch_slowpoke.efficiency.stable import FloatArray

Definition = Literal["paper", "renewal"]

SCHEMA = "slowpoke.efficiency.machine/1"

NOT_MODELLED = (
    "not modelled: hangs (a job that neither fails nor advances), failures that strike several "
    "nodes at once, waits in the queue, several levels of checkpoints",
    "assumed: failures independent, at a constant rate per node-hour; checkpoints that block",
)


@dataclass(frozen=True)
class Application:
    """What is known of one application: its own failure rate and checkpoint (papers/002, sec. 8).

    Attributes:
        rate: Failures per node-hour; None: the machine's.
        cost: What its checkpoint costs; None: the machine's.
    """

    rate: float | None = None
    cost: CheckpointCost | None = None


@dataclass(frozen=True)
class MachineEfficiency:
    """A machine's efficiency and where the rest goes.

    Attributes:
        efficiency: e, by `definition`.
        failure_loss: l_F, share lost with failures.
        checkpoint_loss: l_chk, share spent on checkpoints.
        restart_loss: l_R, share spent on restarts.
        losses: Sums over the schedule in node-hours: usage, failure, checkpoint, restart.
        scheduled_node_hours: Usage if nothing failed.
        n_jobs: Jobs in the schedule.
        plan: Where the checkpoints lie.
        definition: `paper` or `renewal`.
        notes: What the model leaves out.
    """

    efficiency: float
    failure_loss: float
    checkpoint_loss: float
    restart_loss: float
    losses: tuple[float, float, float, float]
    scheduled_node_hours: float
    n_jobs: float
    plan: CheckpointPlan
    definition: Definition
    notes: tuple[str, ...] = field(default=NOT_MODELLED)

    @property
    def overprovision(self) -> float:
        """1/e - 1: what to add to an allocation for it to be worth its face value (5.1)."""
        return 1.0 / self.efficiency - 1.0 if self.efficiency > 0 else float("inf")

    def by(self, definition: Definition) -> "MachineEfficiency":
        """The same losses by another definition."""
        return _of_sums(self, definition)

    def to_dict(self) -> dict[str, Any]:
        """JSON fields; `efficiency` = 1 - `l_F` - `l_chk` - `l_R`."""
        usage, failure, checkpoint, restart = self.losses
        return {
            "schema": SCHEMA,
            "efficiency": self.efficiency,
            "l_F": self.failure_loss,
            "l_chk": self.checkpoint_loss,
            "l_R": self.restart_loss,
            "overprovision": self.overprovision if self.efficiency > 0 else None,
            "definition": self.definition,
            "segments": self.plan.segments,
            "cadence_factor": self.plan.factor,
            "checkpoints": self.plan.checkpoints,
            "n_jobs": self.n_jobs,
            "scheduled_node_hours": self.scheduled_node_hours,
            "usage_node_hours": usage,
            "failure_node_hours": failure,
            "checkpoint_node_hours": checkpoint,
            "restart_node_hours": restart if np.isfinite(restart) else None,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return (
            f"efficiency {self.efficiency:.6f}  (lost: failures {self.failure_loss:.6f}, "
            f"checkpoints {self.checkpoint_loss:.6f}, restarts {self.restart_loss:.6f})"
        )


def _of_sums(result: MachineEfficiency, definition: Definition) -> MachineEfficiency:
    usage, failure, checkpoint, restart = result.losses
    if definition == "renewal":
        if np.isinf(restart):
            shares, efficiency = (0.0, 0.0, 1.0), 0.0
        else:
            whole = usage + restart
            shares = (failure / whole, checkpoint / whole, restart / whole)
            efficiency = max(0.0, (usage - failure - checkpoint) / whole)
    else:
        if np.isinf(restart):
            raise SlowpokeError(
                "a restart takes so long that it practically never succeeds, and the paper's "
                "efficiency is minus infinity: lower the rate, or use definition='renewal'"
            )
        shares = (failure / usage, checkpoint / usage, restart / usage)
        efficiency = 1.0 - shares[1] - shares[0] - shares[2]
    return replace(
        result,
        efficiency=efficiency,
        failure_loss=shares[0],
        checkpoint_loss=shares[1],
        restart_loss=shares[2],
        definition=definition,
    )


def schedule_losses(
    schedule: Schedule,
    rate: float,
    cost: CheckpointCost,
    plan: CheckpointPlan = BEST_PLAN,
    *,
    applications: Mapping[str, Application] | None = None,
    planned_rate: float | None = None,
) -> JobLosses:
    """Expected losses per job of every type of the schedule. O(n_types).

    Args:
        schedule: The jobs.
        rate: Failures per node-hour of the machine.
        cost: What a checkpoint costs.
        plan: Where the checkpoints lie.
        applications: Applications with a rate or a checkpoint of their own, by name.
        planned_rate: The rate that users believe in when they choose a cadence.

    Raises:
        SlowpokeError: A rate that is negative or not finite, an application not in the schedule.
    """
    rates, u_chk, u_r = _per_type(schedule, check_rate(rate), cost, applications or {})
    planned = None if planned_rate is None else check_rate(planned_rate, "planned rate")
    return job_losses(schedule.n_nodes * schedule.hours, rates, u_chk, u_r, plan, planned)


def _per_type(
    schedule: Schedule,
    rate: FloatArray,
    cost: CheckpointCost,
    applications: Mapping[str, Application],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rate, u_chk and u_r of every type."""
    u_chk = cost.checkpoint_node_hours(schedule.n_nodes)
    u_r = cost.restart_node_hours(schedule.n_nodes)
    if not applications:
        return rate, u_chk, u_r
    rates = np.full(schedule.n_nodes.shape, float(rate))
    for name, application in applications.items():
        if name not in schedule.applications:
            known = ", ".join(repr(a) for a in schedule.applications[:8])
            raise SlowpokeError(
                f"application {name!r} runs no job of this schedule: it has {known}"
            )
        mine = schedule.application == schedule.applications.index(name)
        if application.rate is not None:
            rates[mine] = check_rate(application.rate, f"failure rate of {name!r}")
        if application.cost is not None:
            u_chk[mine] = application.cost.checkpoint_node_hours(schedule.n_nodes[mine])
            u_r[mine] = application.cost.restart_node_hours(schedule.n_nodes[mine])
    return rates, u_chk, u_r


def machine_efficiency(
    schedule: Schedule,
    rate: float,
    cost: CheckpointCost,
    plan: CheckpointPlan = BEST_PLAN,
    *,
    definition: Definition = "renewal",
    applications: Mapping[str, Application] | None = None,
    planned_rate: float | None = None,
) -> MachineEfficiency:
    """Expected computational efficiency of a machine that runs `schedule` (papers/002, section 5).

    Args:
        schedule: The jobs.
        rate: R0, failures per node-hour, >= 0.
        cost: What a checkpoint and a restart cost.
        plan: Where the checkpoints lie; `CheckpointPlan("paper")` with `definition="paper"` is the
            paper's own figure.
        definition: `renewal` or `paper` (see the module).
        applications: Applications with a rate or a checkpoint of their own.
        planned_rate: The rate that users believe in when they choose a cadence; `rate` if None.

    Raises:
        SlowpokeError: See `schedule_losses`; an unknown definition; the paper's definition where
            it is minus infinity.
    """
    if definition not in get_args(Definition):
        raise SlowpokeError(f"definition {definition!r}: use paper or renewal")
    per_job = schedule_losses(
        schedule, rate, cost, plan, applications=applications, planned_rate=planned_rate
    )
    w = schedule.n_jobs
    sums = (
        float(w @ per_job.usage_node_hours),
        float(w @ per_job.failure_node_hours),
        float(w @ per_job.checkpoint_node_hours),
        float(w @ per_job.restart_node_hours),
    )
    bare = MachineEfficiency(
        efficiency=np.nan,
        failure_loss=np.nan,
        checkpoint_loss=np.nan,
        restart_loss=np.nan,
        losses=sums,
        scheduled_node_hours=schedule.scheduled_node_hours,
        n_jobs=schedule.total_jobs,
        plan=plan,
        definition=definition,
        notes=(*schedule.notes, *NOT_MODELLED),
    )
    return _of_sums(bare, definition)


SEGMENTS: tuple[Segments, ...] = get_args(Segments)
DEFINITIONS: tuple[Definition, ...] = get_args(Definition)
