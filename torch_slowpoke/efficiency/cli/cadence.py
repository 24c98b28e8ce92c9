"""`slowpoke efficiency cadence`: how often one job should write a checkpoint."""

from typing import Annotated, Any

import numpy as np
import typer

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency import inputs, plots
from torch_slowpoke.efficiency.cadence import Cadence
from torch_slowpoke.efficiency.cadence import cadence as best_cadence
from torch_slowpoke.efficiency.cli import options as o
from torch_slowpoke.efficiency.cli import show
from torch_slowpoke.efficiency.losses import job_losses
from torch_slowpoke.efficiency.machine import NOT_MODELLED
from torch_slowpoke.efficiency.settings import settings
from torch_slowpoke.efficiency.units import parse_hours

SCHEMA = "slowpoke.efficiency.cadence/1"


def cadence(
    nodes: Annotated[int, typer.Option(help="Nodes of the job.")],
    rate: Annotated[str, typer.Option(help="Failures per node-hour.")],
    bandwidth: o.Bandwidth,
    checkpoint: o.Checkpoint,
    model: o.Model = "shared",
    read_ratio: o.ReadRatio = 1.0,
    setup: o.Setup = "2s",
    time: Annotated[str | None, typer.Option(help="Duration of the job, like 12h.")] = None,
    step_time: Annotated[str | None, typer.Option(help="Time of a training step, like 3s.")] = None,
    json: o.JsonPath = None,
    plot: o.PlotPath = None,
) -> None:
    """How often a job should write a checkpoint, and the settings for the tools that do."""
    cost = inputs.cost_of(checkpoint, bandwidth, model, read_ratio, setup)
    job = best_cadence(nodes, inputs.rate_of(rate), cost)
    steps = None
    if step_time is not None:
        steps = job.steps(parse_hours(step_time, "step time") * 3600.0)
    segments = None if time is None else _segments(job, parse_hours(time, "time"))
    lines_of = settings(job)
    failure, written, restart = job.losses
    payload = {
        "schema": SCHEMA,
        "n_nodes": job.n_nodes,
        "rate": job.rate,
        "cadence_node_hours": job.cadence_node_hours,
        "cadence_seconds": job.seconds,
        "cadence_steps": steps,
        "checkpoint_node_hours": job.checkpoint_node_hours,
        "checkpoint_seconds": job.write_seconds,
        "restart_node_hours": job.restart_node_hours,
        "young_seconds": job.young_seconds,
        "daly_seconds": job.daly_seconds,
        "efficiency": job.efficiency,
        "l_F": failure,
        "l_chk": written,
        "l_R": restart,
        "job": segments,
        "settings": lines_of,
        "notes": [*NOT_MODELLED, "efficiency and losses are those of a job that runs for long"],
    }
    lines = [
        f"compute {job.seconds:,.1f} s ({job.cadence_node_hours:,.1f} node-hours) between "
        f"checkpoints of {job.write_seconds:,.1f} s",
        f"Young {job.young_seconds:,.1f} s, Daly {job.daly_seconds:,.1f} s",
        *([] if steps is None else [f"every {steps:,.0f} steps"]),
        f"efficiency {job.efficiency:.6f}  (lost: failures {failure:.6f}, checkpoints "
        f"{written:.6f}, restarts {restart:.6f})",
        *([] if segments is None else [_segments_line(segments)]),
        *(f"  {tool:7}{line}" for tool, line in lines_of.items()),
        *(f"note: {n}" for n in NOT_MODELLED),
    ]
    show.report(payload, lines, json)
    if plot is not None:
        plots.save(_draw_cadence(job), plot)


def _segments(job: Cadence, hours: float) -> dict[str, float]:
    """Equal segments of a job of that duration."""
    if hours <= 0:
        raise SlowpokeError(f"a job of {hours} hours: give a time above zero, like 12h")
    usage = np.array([job.n_nodes * hours])
    rate, u_chk, u_r = (
        np.array(v) for v in (job.rate, job.checkpoint_node_hours, job.restart_node_hours)
    )
    n = int(job_losses(usage, rate, u_chk, u_r).n_segments[0])
    wall = hours * 3600.0 / n
    return {
        "hours": hours,
        "n_checkpoints_before_the_last": n - 1,
        "compute_seconds": max(0.0, wall - job.write_seconds),
    }


def _segments_line(segments: dict[str, float]) -> str:
    n = int(segments["n_checkpoints_before_the_last"])
    if n == 0:
        return f"a job of {segments['hours']:g} h: only the checkpoint at its end is worth it"
    return (
        f"a job of {segments['hours']:g} h: {n} checkpoints before the last, each after "
        f"{segments['compute_seconds']:,.1f} s of computing"
    )


def _draw_cadence(job: Cadence) -> Any:
    if not 0.0 < job.cadence_node_hours < np.inf:
        raise SlowpokeError(
            "nothing to draw: where checkpoints cost nothing or nothing fails, no cadence is best"
        )

    def at(factor: float) -> float:
        return Cadence(
            job.n_nodes,
            job.rate,
            job.checkpoint_node_hours,
            job.restart_node_hours,
            job.cadence_node_hours * factor,
        ).efficiency

    factors = np.logspace(-1, 1, 101).tolist()
    marks = {"best": 1.0, "Young": job.young_seconds / job.seconds}
    marks["Daly"] = job.daly_seconds / job.seconds
    return plots.draw_cadence(
        factors, [at(f) for f in factors], {name: (f, at(f)) for name, f in marks.items()}
    )
