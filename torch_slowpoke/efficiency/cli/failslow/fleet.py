"""`slowpoke efficiency failslow fleet`: what slow chips cost a machine that runs these jobs."""

from typing import Annotated

import typer

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency import inputs, plots
from torch_slowpoke.efficiency.cli import options as o
from torch_slowpoke.efficiency.cli import show
from torch_slowpoke.efficiency.cli.failslow.detector import detector_of
from torch_slowpoke.efficiency.failslow import FailSlow, fleet_loss
from torch_slowpoke.efficiency.machine import machine_efficiency
from torch_slowpoke.efficiency.units import parse_hours, parse_rate


def fleet(
    jobs: o.JobsFile,
    bandwidth: o.Bandwidth,
    checkpoint: o.Checkpoint,
    onset: o.Onset,
    rate: o.RateText = None,
    failures: o.Failures = None,
    slowdown: o.Slowdown = 1.67,
    recall: o.Recall = None,
    false_alarm: o.FalseAlarm = 0.0,
    campaign: o.CampaignFile = None,
    detector: o.DetectorName = "",
    probe: o.Probe = "2s",
    confirm: o.Confirm = 1,
    period: Annotated[
        str | None, typer.Option(help="Time between diagnoses, like 1h; else the best one.")
    ] = None,
    drain: o.Drain = "10min",
    segments: o.SegmentsText = "equal",
    definition: o.DefinitionText = "renewal",
    model: o.Model = "shared",
    read_ratio: o.ReadRatio = 1.0,
    setup: o.Setup = "2s",
    durations: o.Durations = "scaled",
    ratio: o.Ratio = "usage",
    format: o.LogFormat = None,
    columns: o.Columns = "",
    json: o.JsonPath = None,
    plot: o.PlotPath = None,
) -> None:
    """What undetected slow chips cost the machine, and what a detector saves, in node-hours.

    Examples:

        slowpoke efficiency failslow fleet jobs.csv --rate 2e-5 --bandwidth 6TB/s
        --checkpoint 200GB --onset 1e-5 --recall 0.8677 --false-alarm 0.1211 --confirm 2

        slowpoke efficiency failslow fleet jobs.csv --rate 2e-5 --bandwidth 6TB/s
        --checkpoint 200GB --onset 1e-5 --campaign runs/x --detector robust
    """
    cost = inputs.cost_of(checkpoint, bandwidth, model, read_ratio, setup)
    plan = inputs.plan_of(segments, 1.0, False, False, "up")
    chosen = inputs.definition_of(definition)
    found = detector_of(recall, false_alarm, campaign, detector, probe).confirmed(confirm)
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
    show.report(payload, lines, json)
    if plot is not None:
        names = ["no slowness", *(c.name for c in cases)]
        values = [failstop.efficiency, *(c.efficiency for c in cases)]
        plots.save(plots.draw_bars(names, values, "efficiency"), plot)
