"""`slowpoke efficiency failslow act`: whether to swap an accused node out."""

from typing import Annotated

import typer

from torch_slowpoke.efficiency import plots
from torch_slowpoke.efficiency.cli import options as o
from torch_slowpoke.efficiency.cli import show
from torch_slowpoke.efficiency.cli.failslow.detector import detector_of
from torch_slowpoke.efficiency.cli.failslow.job import usage_of
from torch_slowpoke.efficiency.failslow import act_or_wait
from torch_slowpoke.efficiency.units import parse_rate

SCHEMA = "slowpoke.efficiency.failslow.act/1"


def act(
    nodes: o.Nodes,
    alarms: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Diagnoses in a row that accuse.")
    ],
    since_clean: Annotated[str, typer.Option(help="Time since the last clean diagnosis.")],
    remaining: Annotated[str, typer.Option(help="Time that the job will still run.")],
    onset: o.Onset,
    slowdown: o.Slowdown = 1.67,
    recall: o.Recall = None,
    false_alarm: o.FalseAlarm = 0.0,
    campaign: o.CampaignFile = None,
    detector: o.DetectorName = "",
    drain: o.Drain = "10min",
    json: o.JsonPath = None,
    plot: o.PlotPath = None,
) -> None:
    """Whether to swap an accused node out now, or to wait for another diagnosis.

    Examples:

        slowpoke efficiency failslow act --nodes 1024 --alarms 2 --since-clean 1h --remaining 5h
        --onset 1e-5 --recall 0.87 --false-alarm 0.12
    """
    found = detector_of(recall, false_alarm, campaign, detector, "0s")
    since = usage_of(nodes, since_clean, "time since the last clean diagnosis")
    left = usage_of(nodes, remaining, "remaining time")
    swap = usage_of(nodes, drain, "drain time")
    rate = parse_rate(onset, "onset rate")

    def after(n_alarms: int) -> tuple[str, float, float]:
        advice = act_or_wait(
            n_alarms,
            onset_rate=rate,
            slowdown=slowdown,
            recall=found.recall,
            false_alarm=found.false_alarm,
            usage_since_clean=since,
            remaining_usage=left,
            drain_node_hours=swap,
        )
        return advice.action, advice.probability, advice.expected_gain_node_hours

    action, probability, gain = after(alarms)
    lines = [
        f"{action}: slow with probability {probability:.4f}; draining gains {gain:,.1f} node-hours",
    ]
    payload = {
        "schema": SCHEMA,
        "n_nodes": nodes,
        "n_alarms": alarms,
        "action": action,
        "probability": probability,
        "expected_gain_node_hours": gain,
        "detector": found.name,
        "recall": found.recall,
        "false_alarm": found.false_alarm,
        "usage_since_clean_node_hours": since,
        "remaining_node_hours": left,
        "drain_node_hours": swap,
        "notes": ["diagnoses in a row are taken for independent"],
    }
    show.report(payload, lines, json)
    if plot is not None:
        counts = range(max(0, alarms - 2), alarms + 3)
        gains = [after(n)[2] for n in counts]
        figure = plots.draw_bars(
            [str(n) for n in counts], gains, "node-hours gained by draining, by alarms in a row"
        )
        plots.save(figure, plot)
