"""Options that several commands share, with their units and their words."""

from pathlib import Path
from typing import Annotated

import typer

JobsFile = Annotated[
    Path, typer.Argument(help="sacct -P, PBS, LSF or SWF log, or a CSV table of jobs.")
]
RateText = Annotated[
    str | None,
    typer.Option("--rate", help="Failures per node-hour: 2e-5, 6.5e-3/node-day, frontier-2024."),
]
Failures = Annotated[
    int | None, typer.Option(help="Node failures counted elsewhere, over the log's node-hours.")
]
Bandwidth = Annotated[str, typer.Option(help="Write bandwidth of the store, like 6TB/s.")]
Checkpoint = Annotated[
    str, typer.Option(help="State of a node, like 200GB; of the whole job with --model fixed.")
]
Model = Annotated[
    str, typer.Option("--model", help="shared: one store; local: one per node; fixed total state.")
]
ReadRatio = Annotated[float, typer.Option(help="Write bandwidth over read bandwidth, alpha.")]
Setup = Annotated[str, typer.Option(help="Fixed time of a restart, tau_0.")]
SegmentsText = Annotated[str, typer.Option("--segments", help="equal, exact or paper.")]
DefinitionText = Annotated[str, typer.Option("--definition", help="renewal or paper.")]
Durations = Annotated[str, typer.Option(help="scaled, requested or actual durations.")]
Ratio = Annotated[str, typer.Option(help="Scale by usage (as computed) or time (as printed).")]
Factor = Annotated[float, typer.Option(help="Cadence in units of the best one.")]
Never = Annotated[bool, typer.Option("--never", help="No checkpoint but the last.")]
LogFormat = Annotated[
    str | None, typer.Option("--format", help="slurm, pbs, lsf, swf or table; else found out.")
]
Columns = Annotated[str, typer.Option(help="sacct's --format, for a log without header.")]
Confidence = Annotated[float, typer.Option(help="Of the intervals.")]
Seed = Annotated[int, typer.Option(min=0, help="Of all chance.")]
JsonPath = Annotated[str | None, typer.Option("--json", help="Write JSON here; - is standard out.")]
PlotPath = Annotated[Path | None, typer.Option("--plot", help="Draw a picture here.")]
Nodes = Annotated[int, typer.Option(help="Nodes of the job.")]
JobTime = Annotated[str, typer.Option(help="Duration of the job, like 12h.")]
RequiredRate = Annotated[str, typer.Option("--rate", help="Failures per node-hour.")]
Onset = Annotated[str, typer.Option(help="Chips turning slow per node-hour, like 1e-5.")]
Slowdown = Annotated[
    float, typer.Option(help="Of the job while one chip is slow; 1.26 link, 2.48 core.")
]
Recall = Annotated[float | None, typer.Option(help="Of one diagnosis.")]
FalseAlarm = Annotated[float, typer.Option(help="Probability per diagnosis.")]
CampaignFile = Annotated[
    Path | None,
    typer.Option(
        help="A campaign's folder, its table2-strict.csv, or JSON: recall and false alarms."
    ),
]
DetectorName = Annotated[
    str,
    typer.Option(help="Which of the campaign's, like robust; without --campaign, such a result."),
]
Probe = Annotated[str, typer.Option(help="Time that one diagnosis takes from the job.")]
Confirm = Annotated[int, typer.Option(help="Diagnoses in a row that must agree.")]
Drain = Annotated[str, typer.Option(help="Time of swapping a node.")]
