"""`slowpoke efficiency machine`: the share of a machine's node-hours that is left for science."""

from typing import Annotated, Any

import typer

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency import inputs, plots
from torch_slowpoke.efficiency.band import EfficiencyBand, efficiency_band
from torch_slowpoke.efficiency.cli import options as o
from torch_slowpoke.efficiency.cli import show
from torch_slowpoke.efficiency.losses import CheckpointPlan
from torch_slowpoke.efficiency.machine import (
    DEFINITIONS,
    SEGMENTS,
    MachineEfficiency,
    machine_efficiency,
)

_MEANING = {
    "paper": "as printed: the last segment is charged in full, so jobs use more than scheduled",
    "exact": "the same cadence; the last segment is what remains of the job",
    "equal": "equal segments, as many as lose least: the best",
}
_DEFINITION_MEANING = {
    "paper": "restarts are charged but are not usage: can fall below 0",
    "renewal": "a share of all usage, restarts included: between 0 and 1",
}


def _band_line(name: str, band: EfficiencyBand) -> str:
    return (
        f"{name} {band.low[0]:.6f} .. {band.high[0]:.6f} "
        f"({100 * band.confidence:g} %, from the uncertainty of the failure rate)"
    )


def machine(
    jobs: o.JobsFile,
    bandwidth: o.Bandwidth,
    checkpoint: o.Checkpoint,
    rate: o.RateText = None,
    failures: o.Failures = None,
    segments: o.SegmentsText = "equal",
    definition: o.DefinitionText = "renewal",
    model: o.Model = "shared",
    read_ratio: o.ReadRatio = 1.0,
    setup: o.Setup = "2s",
    durations: o.Durations = "scaled",
    ratio: o.Ratio = "usage",
    factor: o.Factor = 1.0,
    never: o.Never = False,
    rounding: Annotated[
        str, typer.Option(help="With --segments paper: up, none or plus-one (the authors' code).")
    ] = "up",
    application: Annotated[
        list[str] | None,
        typer.Option(help="NAME:rate=..,checkpoint=..,bandwidth=..: an application of its own."),
    ] = None,
    application_column: Annotated[
        str, typer.Option(help="sacct column that names the application.")
    ] = "",
    format: o.LogFormat = None,
    columns: o.Columns = "",
    confidence: o.Confidence = 0.95,
    seed: o.Seed = 0,
    json: o.JsonPath = None,
    plot: o.PlotPath = None,
) -> None:
    """Computational efficiency of a machine that runs these jobs."""
    cost = inputs.cost_of(checkpoint, bandwidth, model, read_ratio, setup)
    plan = inputs.plan_of(segments, factor, never, False, rounding)
    chosen = inputs.definition_of(definition)
    own = inputs.applications_of(application or (), cost)
    read = inputs.jobs_of(jobs, durations, ratio, format, columns, application_column)
    r, interval = inputs.interval_of(rate, failures, read.log, confidence)
    result = machine_efficiency(read.schedule, r, cost, plan, definition=chosen, applications=own)
    band = None
    if interval is not None:
        band = efficiency_band(
            read.schedule, interval, cost, plan, definition=chosen, applications=own, seed=seed
        )
    variants = _variants(read.schedule, r, cost, factor, never, own)
    payload = {
        **result.to_dict(),
        "rate": r,
        "rate_interval": None if interval is None else interval.to_dict(),
        "band": None if band is None else band.to_dict(),
        "variants": [v for v, _ in variants],
        "log": read.log.report.to_dict(),
    }
    lines = [
        str(result),
        *([_band_line("efficiency", band)] if band is not None else []),
        f"R0 = {r:.4g} per node-hour; allocations need {100 * result.overprovision:.2f} % more",
        f"{result.n_jobs:,.10g} jobs of {read.schedule.n_nodes.size:,} kinds, "
        f"{result.scheduled_node_hours:,.0f} node-hours scheduled",
        *show.log_lines(read.log),
        "",
        "segments  definition  efficiency    l_F       l_chk     l_R",
        *(line for _, line in variants),
        *(f"  {name}: {meaning}" for name, meaning in _MEANING.items()),
        *(f"  {name}: {meaning}" for name, meaning in _DEFINITION_MEANING.items()),
        *(f"note: {n}" for n in result.notes),
    ]
    show.report(payload, lines, json)
    if plot is not None:
        names, values = ["l_F", "l_chk", "l_R"], _losses(result)
        plots.save(plots.draw_bars(names, values, "share lost"), plot)


def _losses(m: MachineEfficiency) -> list[float]:
    return [m.failure_loss, m.checkpoint_loss, m.restart_loss]


def _variants(
    schedule: Any, rate: float, cost: Any, factor: float, never: bool, own: Any
) -> list[tuple[dict[str, Any], str]]:
    """Every way of cutting and defining, side by side, for a reader who compares."""
    rows: list[tuple[dict[str, Any], str]] = []
    for segments in SEGMENTS:
        plan = CheckpointPlan(segments, factor, checkpoints=not never)
        for definition in DEFINITIONS:
            name = {"segments": segments, "definition": definition}
            try:
                m = machine_efficiency(
                    schedule, rate, cost, plan, definition=definition, applications=own
                )
            except SlowpokeError as error:  # the paper's efficiency is minus infinity
                rows.append(({**name, "efficiency": None}, f"{segments:9} {definition:11} {error}"))
                continue
            parts = dict(zip(("l_F", "l_chk", "l_R"), _losses(m), strict=True))
            shares = "  ".join(f"{p:.6f}" for p in parts.values())
            rows.append(
                (
                    {**name, "efficiency": m.efficiency, **parts},
                    f"{segments:9} {definition:11} {m.efficiency:.6f}    {shares}",
                )
            )
    return rows
