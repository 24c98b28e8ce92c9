"""`slowpoke efficiency`: what failures and slow chips cost a machine, on the command line.

Each command reads text with units, computes, prints a few lines, and writes the same as JSON and as
a picture if asked. Errors of the user are SlowpokeError; the main program turns them into one line.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency import inputs, output, plots
from torch_slowpoke.efficiency.band import EfficiencyBand, efficiency_band
from torch_slowpoke.efficiency.cadence import Cadence, cadence
from torch_slowpoke.efficiency.failslow import Detector, FailSlow, fleet_loss, read_detector
from torch_slowpoke.efficiency.figures import N_FIGURES, Study, all_figures
from torch_slowpoke.efficiency.figures import SCHEMA as FIGURES_SCHEMA
from torch_slowpoke.efficiency.logs import JobLog
from torch_slowpoke.efficiency.losses import CheckpointPlan, job_losses
from torch_slowpoke.efficiency.machine import (
    DEFINITIONS,
    NOT_MODELLED,
    SEGMENTS,
    MachineEfficiency,
    machine_efficiency,
)
from torch_slowpoke.efficiency.montecarlo import simulate_machine
from torch_slowpoke.efficiency.rate import failure_rate
from torch_slowpoke.efficiency.settings import settings
from torch_slowpoke.efficiency.units import parse_hours, parse_rate

app = typer.Typer(
    help="What failures and undetected slow chips cost a machine.", no_args_is_help=True
)

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

_MEANING = {
    "paper": "as printed: the last segment is charged in full, so jobs use more than scheduled",
    "exact": "the same cadence; the last segment is what remains of the job",
    "equal": "equal segments, as many as lose least: the best",
}
_DEFINITION_MEANING = {
    "paper": "restarts are charged but are not usage: can fall below 0",
    "renewal": "a share of all usage, restarts included: between 0 and 1",
}


def _say(lines: Iterable[str], json_path: str | None) -> None:
    """Print, unless standard output belongs to the JSON."""
    if json_path != output.STANDARD_OUTPUT:
        for line in lines:
            typer.echo(line)


def _report(payload: dict[str, Any], lines: Iterable[str], json_path: str | None) -> None:
    _say(lines, json_path)
    if json_path is not None:
        output.write_json(payload, json_path)


def _watch(what: str) -> Any:
    """A progress bar on standard error, if somebody watches."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)

    def watch(items: Iterable[Any], total: int | None = None) -> Iterable[Any]:
        return track(
            items,
            what,
            total=total,
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    return watch


def _log_lines(log: JobLog) -> list[str]:
    report = log.report
    lines = [
        f"{report.n_jobs:,} records of jobs ({report.format}), "
        f"{log.exposure_node_hours:,.1f} node-hours run"
    ]
    for word, reasons in (("rejected", report.rejected), ("skipped", report.skipped)):
        for reason, r in sorted(reasons.items(), key=lambda item: -item[1].count):
            where = ", ".join(str(n) for n in r.lines)
            lines.append(f"  {word} {r.count:,}: {reason} (line {where})")
    return lines


def _band_line(name: str, band: EfficiencyBand) -> str:
    return (
        f"{name} {band.low[0]:.6f} .. {band.high[0]:.6f} "
        f"({100 * band.confidence:g} %, from the uncertainty of the failure rate)"
    )


@app.command()
def machine(
    jobs: JobsFile,
    bandwidth: Bandwidth,
    checkpoint: Checkpoint,
    rate: RateText = None,
    failures: Failures = None,
    segments: SegmentsText = "equal",
    definition: DefinitionText = "renewal",
    model: Model = "shared",
    read_ratio: ReadRatio = 1.0,
    setup: Setup = "2s",
    durations: Durations = "scaled",
    ratio: Ratio = "usage",
    factor: Factor = 1.0,
    never: Never = False,
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
    format: LogFormat = None,
    columns: Columns = "",
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    json: JsonPath = None,
    plot: PlotPath = None,
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
        *_log_lines(read.log),
        "",
        "segments  definition  efficiency    l_F       l_chk     l_R",
        *(line for _, line in variants),
        *(f"  {name}: {meaning}" for name, meaning in _MEANING.items()),
        *(f"  {name}: {meaning}" for name, meaning in _DEFINITION_MEANING.items()),
        *(f"note: {n}" for n in result.notes),
    ]
    _report(payload, lines, json)
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


@app.command()
def rate(
    log: JobsFile,
    failures: Failures = None,
    confidence: Confidence = 0.95,
    format: LogFormat = None,
    columns: Columns = "",
    json: JsonPath = None,
    plot: PlotPath = None,
) -> None:
    """Failure rate per node-hour from an accounting log, with its interval and its tests."""
    read = inputs.log_of(log, format, columns)
    found = failure_rate(read, confidence=confidence, n_failures=failures)
    lines = [
        str(found.estimate),
        f"upper bound, with failed boots and programs that died with a node: {found.upper}",
        "states: " + ", ".join(f"{s} {n:,}" for s, n in found.states.items()),
    ]
    if found.n_records != found.estimate.n_failures:
        lines.append(f"{found.n_records:,} records are {found.estimate.n_failures:,} events")
    if found.dispersion is not None:
        d = found.dispersion
        lines.append(
            f"by month: variance over mean {d.index:.2f} in {d.n_months} months (p {d.p_value:.3g})"
        )
    for name, slope in (
        ("trend of log rate per month", found.trend),
        ("power of the job's size", found.size),
    ):
        if slope is not None:
            value = (
                "beyond all bounds"
                if slope.slope is None
                else f"{slope.slope:+.3f} +- {slope.standard_error:.3f}"
            )
            lines.append(f"{name}: {value} (p {slope.p_value:.3g})")
    lines += [f"node {n}: {k} failures" for n, k in found.worst_nodes if k > 1]
    lines += [*_log_lines(read), *(f"note: {n}" for n in found.notes)]
    _report({**found.to_dict(), "log": read.report.to_dict()}, lines, json)
    if plot is not None:
        both = (found.estimate, found.upper)
        figure = plots.draw_intervals(
            ["node failures", "upper bound"],
            [i.rate for i in both],
            [i.low for i in both],
            [i.high for i in both],
        )
        plots.save(figure, plot)


CADENCE_SCHEMA = "slowpoke.efficiency.cadence/1"


@app.command("cadence")
def cadence_command(
    nodes: Annotated[int, typer.Option(help="Nodes of the job.")],
    rate: Annotated[str, typer.Option(help="Failures per node-hour.")],
    bandwidth: Bandwidth,
    checkpoint: Checkpoint,
    model: Model = "shared",
    read_ratio: ReadRatio = 1.0,
    setup: Setup = "2s",
    time: Annotated[str | None, typer.Option(help="Duration of the job, like 12h.")] = None,
    step_time: Annotated[str | None, typer.Option(help="Time of a training step, like 3s.")] = None,
    json: JsonPath = None,
    plot: PlotPath = None,
) -> None:
    """How often a job should write a checkpoint, and the settings for the tools that do."""
    cost = inputs.cost_of(checkpoint, bandwidth, model, read_ratio, setup)
    job = cadence(nodes, inputs.rate_of(rate), cost)
    steps = None
    if step_time is not None:
        steps = job.steps(parse_hours(step_time, "step time") * 3600.0)
    segments = None if time is None else _segments(job, parse_hours(time, "time"))
    lines_of = settings(job)
    failure, written, restart = job.losses
    payload = {
        "schema": CADENCE_SCHEMA,
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
    _report(payload, lines, json)
    if plot is not None:
        plots.save(_draw_cadence(job), plot)


def _segments(job: Cadence, hours: float) -> dict[str, float]:
    """Equal segments of a job of that duration."""
    import numpy as np

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
    import numpy as np

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


@app.command()
def failslow(
    jobs: JobsFile,
    bandwidth: Bandwidth,
    checkpoint: Checkpoint,
    onset: Annotated[str, typer.Option(help="Chips turning slow per node-hour, like 1e-5.")],
    rate: RateText = None,
    failures: Failures = None,
    slowdown: Annotated[
        float, typer.Option(help="Of the job while one chip is slow; 1.26 link, 2.48 core.")
    ] = 1.67,
    recall: Annotated[float | None, typer.Option(help="Of one diagnosis.")] = None,
    false_alarm: Annotated[float, typer.Option(help="Probability per diagnosis.")] = 0.0,
    campaign: Annotated[
        Path | None, typer.Option(help="Result file of a campaign: recall and false alarms.")
    ] = None,
    detector: Annotated[str, typer.Option(help="Which detector of the campaign.")] = "",
    probe: Annotated[str, typer.Option(help="Time that one diagnosis takes from the job.")] = "2s",
    confirm: Annotated[int, typer.Option(help="Diagnoses in a row that must agree.")] = 1,
    period: Annotated[
        str | None, typer.Option(help="Time between diagnoses, like 1h; else the best one.")
    ] = None,
    drain: Annotated[str, typer.Option(help="Time of swapping a node.")] = "10min",
    segments: SegmentsText = "equal",
    definition: DefinitionText = "renewal",
    model: Model = "shared",
    read_ratio: ReadRatio = 1.0,
    setup: Setup = "2s",
    durations: Durations = "scaled",
    ratio: Ratio = "usage",
    format: LogFormat = None,
    columns: Columns = "",
    json: JsonPath = None,
    plot: PlotPath = None,
) -> None:
    """What undetected slow chips cost the machine, and what a detector saves, in node-hours."""
    cost = inputs.cost_of(checkpoint, bandwidth, model, read_ratio, setup)
    plan = inputs.plan_of(segments, 1.0, False, False, "up")
    chosen = inputs.definition_of(definition)
    found = _detector(recall, false_alarm, campaign, detector, probe).confirmed(confirm)
    slow = FailSlow(parse_rate(onset, "onset rate"), slowdown, parse_hours(drain, "drain time"))
    period_hours = None if period is None else parse_hours(period, "period")
    if period_hours is not None and period_hours <= 0:
        raise SlowpokeError(f"period {period!r} must be above zero: write it like 1h")
    read = inputs.jobs_of(jobs, durations, ratio, format, columns)
    r, _ = inputs.interval_of(rate, failures, read.log)
    failstop = machine_efficiency(read.schedule, r, cost, plan, definition=chosen)
    loss = fleet_loss(read.schedule, failstop, slow, found, period_hours=period_hours)
    cases = (loss.none, loss.detector, loss.perfect)
    lines = [
        f"{'without slowness':24} efficiency {failstop.efficiency:.6f}",
        *(
            f"{label:24} efficiency {c.efficiency:.6f}, {100 * c.slow_share:.3f} % of usage slow, "
            f"{c.lost_node_hours:,.0f} node-hours lost"
            for label, c in zip(
                ("nobody looks", loss.detector_name[:24], "perfect"), cases, strict=True
            )
        ),
        f"the detector saves {loss.saved_node_hours:,.0f} node-hours and drains "
        f"{loss.detector.false_alarms:,.1f} healthy jobs",
        *(f"note: {n}" for n in loss.to_dict()["notes"]),
    ]
    payload = {
        **loss.to_dict(),
        "recall": found.recall,
        "false_alarm": found.false_alarm,
        "onset_rate": slow.onset_rate,
        "slowdown": slow.slowdown,
    }
    _report(payload, lines, json)
    if plot is not None:
        names = ["no slowness", *(c.name for c in cases)]
        values = [failstop.efficiency, *(c.efficiency for c in cases)]
        plots.save(plots.draw_bars(names, values, "efficiency"), plot)


def _detector(
    recall: float | None, false_alarm: float, campaign: Path | None, name: str, probe: str
) -> Detector:
    seconds = parse_hours(probe, "probe time") * 3600.0
    if (recall is None) == (campaign is None):
        raise SlowpokeError(
            "how good is the detector? give --recall (and --false-alarm), or a --campaign file, "
            "not both"
        )
    if campaign is not None:
        read = read_detector(campaign, name)
        return Detector(read.recall, read.false_alarm, seconds, read.name)
    return Detector(float(recall or 0.0), false_alarm, seconds)


@app.command()
def simulate(
    jobs: JobsFile,
    bandwidth: Bandwidth,
    checkpoint: Checkpoint,
    rate: RateText = None,
    failures: Failures = None,
    years: Annotated[int, typer.Option(help="How often the schedule is played.")] = 20,
    segments: SegmentsText = "equal",
    definition: DefinitionText = "renewal",
    model: Model = "shared",
    read_ratio: ReadRatio = 1.0,
    setup: Setup = "2s",
    durations: Durations = "scaled",
    ratio: Ratio = "usage",
    factor: Factor = 1.0,
    never: Never = False,
    format: LogFormat = None,
    columns: Columns = "",
    seed: Seed = 0,
    json: JsonPath = None,
    plot: PlotPath = None,
) -> None:
    """Play the jobs by Monte Carlo, and compare with the closed form."""
    cost = inputs.cost_of(checkpoint, bandwidth, model, read_ratio, setup)
    plan = inputs.plan_of(segments, factor, never, False, "up")
    chosen = inputs.definition_of(definition)
    read = inputs.jobs_of(jobs, durations, ratio, format, columns)
    r, _ = inputs.interval_of(rate, failures, read.log)
    theory = machine_efficiency(read.schedule, r, cost, plan, definition=chosen)
    played = simulate_machine(
        read.schedule,
        r,
        cost,
        plan,
        definition=chosen,
        n_years=years,
        seed=seed,
        watch=_watch("playing"),
    )
    off = played.efficiency.errors_from(theory.efficiency)
    lines = [
        f"played   efficiency {played.efficiency}",
        f"formula  efficiency {theory.efficiency:.7g}, {off:.1f} standard errors away",
        *(
            [f"one year scatters by {played.one_year_sd:.2g} although the rate is known"]
            if played.one_year_sd is not None
            else ["a single year tells no error: play more with --years"]
        ),
        *(f"note: {n}" for n in theory.notes),
    ]
    payload = {
        **played.to_dict(),
        "seed": seed,
        "formula": {k: theory.to_dict()[k] for k in ("efficiency", "l_F", "l_chk", "l_R")},
        "standard_errors_away": off,
        "notes": list(theory.notes),
    }
    _report(payload, lines, json)
    if plot is not None:
        estimates = [played.failure_loss, played.checkpoint_loss, played.restart_loss]
        figure = plots.draw_bars(
            ["l_F", "l_chk", "l_R"],
            [e.mean for e in estimates],
            "share lost",
            [e.standard_error if years > 1 else 0.0 for e in estimates],
        )
        plots.save(figure, plot)


@app.command()
def figures(
    jobs: JobsFile,
    bandwidth: Bandwidth = "6TB/s",
    checkpoint: Checkpoint = "200GB",
    rate: RateText = None,
    failures: Failures = None,
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("figures"),
    kind: Annotated[str, typer.Option(help="png, svg or pdf.")] = "png",
    segments: SegmentsText = "equal",
    definition: DefinitionText = "renewal",
    model: Model = "shared",
    read_ratio: ReadRatio = 1.0,
    setup: Setup = "2s",
    durations: Durations = "scaled",
    ratio: Ratio = "usage",
    format: LogFormat = None,
    columns: Columns = "",
    confidence: Confidence = 0.95,
    json: JsonPath = None,
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
    for number, data in _watch("drawing")(all_figures(study), total=N_FIGURES):
        drawn[number] = data
        if plot:
            path = out / f"figure_{number.replace('.', '_')}.{kind}"
            plots.save(plots.DRAW[number](data), path)
            files.append(str(path))
    fields = base.to_dict()
    payload = {
        **fields,
        "schema": FIGURES_SCHEMA,
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
    _report(payload, lines, json)


def _counts(jobs: inputs.Jobs) -> bool:
    """Whether the log tells node failures."""
    return jobs.log.report.format in ("slurm", "pbs")
