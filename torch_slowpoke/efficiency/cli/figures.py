"""`slowpoke efficiency figures`: the paper's figures for these jobs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency import inputs, plots
from torch_slowpoke.efficiency.cli import options as o
from torch_slowpoke.efficiency.cli import show
from torch_slowpoke.efficiency.figures import N_FIGURES, SCHEMA, Study, all_figures


def figures(
    jobs: o.JobsFile,
    bandwidth: o.Bandwidth = "6TB/s",
    checkpoint: o.Checkpoint = "200GB",
    rate: o.RateText = None,
    failures: o.Failures = None,
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("figures"),
    kind: Annotated[str, typer.Option(help="png, svg or pdf.")] = "png",
    segments: o.SegmentsText = "equal",
    definition: o.DefinitionText = "renewal",
    model: o.Model = "shared",
    read_ratio: o.ReadRatio = 1.0,
    setup: o.Setup = "2s",
    durations: o.Durations = "scaled",
    ratio: o.Ratio = "usage",
    format: o.LogFormat = None,
    columns: o.Columns = "",
    confidence: o.Confidence = 0.95,
    json: o.JsonPath = None,
    plot: Annotated[
        bool, typer.Option("--plot/--no-plot", help="Draw the pictures, or only write the data.")
    ] = True,
) -> None:
    """The paper's figures 3.1 and 7.1 to 7.5 for these jobs; Frontier's storage unless told."""
    cost = inputs.cost_of(checkpoint, bandwidth, model, read_ratio, setup)
    plan = inputs.plan_of(segments, 1.0, False, False, "up")
    chosen = inputs.definition_of(definition)
    if kind not in ("png", "svg", "pdf"):
        raise SlowpokeError(f"pictures of kind {kind!r}: use png, svg or pdf")
    read = inputs.jobs_of(jobs, durations, ratio, format, columns)
    r, interval = inputs.interval_of(
        "frontier-2024" if rate is None and failures is None and not _counts(read) else rate,
        failures,
        read.log,
        confidence,
    )
    study = Study(
        read.log,
        read.schedule,
        interval or inputs.assumed_interval(r, read.log, confidence),
        r,
        cost,
        plan,
        chosen,
    )
    if r == 0.0:
        raise SlowpokeError("failure rate 0: nothing fails, there is nothing to draw; give --rate")
    base = study.machine()
    drawn: dict[str, Any] = {}
    files: list[str] = []
    if plot:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SlowpokeError(f"folder {out} cannot be made: {error.strerror}") from None
    for number, data in show.watched("drawing")(all_figures(study), total=N_FIGURES):
        drawn[number] = data
        if plot:
            path = out / f"figure_{number.replace('.', '_')}.{kind}"
            plots.save(plots.DRAW[number](data), path)
            files.append(str(path))
    fields = base.to_dict()
    payload = {
        **fields,
        "schema": SCHEMA,
        "rate": r,
        "rate_interval": study.interval.to_dict(),
        "interval_counted": interval is not None,
        "figures": drawn,
        "files": files,
    }
    lines = [
        str(base),
        f"R0 = {r:.4g} [{study.interval.low:.4g}, {study.interval.high:.4g}] per node-hour"
        + ("" if interval is not None else ", as if counted over this log's node-hours"),
        *files,
    ]
    show.report(payload, lines, json)


def _counts(jobs: inputs.Jobs) -> bool:
    """Whether the log tells node failures."""
    return jobs.log.report.format in ("slurm", "pbs")
