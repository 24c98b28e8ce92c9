"""`slowpoke efficiency failslow share`: the slow share of one job, however slow chips are found."""

from typing import Annotated, Any

import typer

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency import plots
from torch_slowpoke.efficiency.cli import options as o
from torch_slowpoke.efficiency.cli import show
from torch_slowpoke.efficiency.cli.failslow.detector import detector_of, is_given
from torch_slowpoke.efficiency.cli.failslow.job import positive_usage_of, usage_of
from torch_slowpoke.efficiency.failslow import (
    slow_with_periodic_diagnosis,
    slow_with_random_detection,
    slow_without_detection,
)
from torch_slowpoke.efficiency.failslow.exposure import kappa
from torch_slowpoke.efficiency.units import parse_rate

SCHEMA = "slowpoke.efficiency.failslow.share/1"


def share(
    nodes: o.Nodes,
    time: o.JobTime,
    onset: o.Onset,
    slowdown: o.Slowdown = 1.67,
    recall: o.Recall = None,
    false_alarm: o.FalseAlarm = 0.0,
    campaign: o.CampaignFile = None,
    detector: o.DetectorName = "",
    period: Annotated[
        str | None, typer.Option(help="Time between diagnoses, each with the recall.")
    ] = None,
    found_after: Annotated[
        str | None, typer.Option(help="Mean time until it is found, if it ever is (the recall).")
    ] = None,
    json: o.JsonPath = None,
    plot: o.PlotPath = None,
) -> None:
    """Which share of a job's usage is slow, if it starts healthy, and what that loses.

    Examples:

        slowpoke efficiency failslow share --nodes 1024 --time 12h --onset 1e-5

        slowpoke efficiency failslow share --nodes 1024 --time 12h --onset 1e-5
        --recall 0.87 --period 1h --found-after 30min
    """
    usage = positive_usage_of(nodes, time, "time")
    rate = parse_rate(onset, "onset rate")
    looks = period is not None or found_after is not None
    if looks != is_given(recall, campaign, detector):
        raise SlowpokeError(
            "a detector and how it looks go together: give --period or --found-after, and --recall "
            "or --detector, or none of them"
        )
    shares = {"none": float(slow_without_detection(usage, rate))}
    found = detector_of(recall, false_alarm, campaign, detector, "0s") if looks else None
    if found is not None and period is not None:
        length = positive_usage_of(nodes, period, "period")
        shares["periodic"] = slow_with_periodic_diagnosis(usage, rate, found.recall, length)
    if found is not None and found_after is not None:
        mean = usage_of(nodes, found_after, "mean time to detection")
        shares["random"] = float(slow_with_random_detection(usage, rate, found.recall, mean))
    lost = float(kappa(slowdown))
    cases: dict[str, dict[str, Any]] = {
        name: {"slow_share": s, "loss": lost * s, "lost_node_hours": lost * s * usage}
        for name, s in shares.items()
    }
    words = {"none": "nobody looks", "periodic": f"a diagnosis each {period}"}
    words["random"] = f"found after {found_after}"
    lines = [
        f"{words[name]:28} {100 * c['slow_share']:.4f} % of {usage:,.1f} node-hours slow, "
        f"{c['lost_node_hours']:,.2f} lost"
        for name, c in cases.items()
    ]
    payload = {
        "schema": SCHEMA,
        "n_nodes": nodes,
        "usage_node_hours": usage,
        "onset_rate": rate,
        "slowdown": slowdown,
        "recall": None if found is None else found.recall,
        "cases": cases,
        "notes": ["the job starts healthy; what looking and repairing costs is not in it"],
    }
    show.report(payload, lines, json)
    if plot is not None:
        plots.save(plots.draw_bars(list(shares), list(shares.values()), "slow share"), plot)
