"""`slowpoke efficiency failslow period`: how often a job should be diagnosed."""

import math
from typing import Annotated, Any

import typer

from torch_slowpoke.efficiency import plots
from torch_slowpoke.efficiency.cli import options as o
from torch_slowpoke.efficiency.cli import show
from torch_slowpoke.efficiency.cli.failslow.detector import detector_of
from torch_slowpoke.efficiency.cli.failslow.inputs import check_nodes, clock
from torch_slowpoke.efficiency.cli.failslow.job import usage_of
from torch_slowpoke.efficiency.failslow import (
    Detector,
    best_period,
    diagnosis_cadence,
    diagnosis_efficiency,
)
from torch_slowpoke.efficiency.units import parse_rate

SCHEMA = "slowpoke.efficiency.failslow.period/1"


def period(
    nodes: o.Nodes,
    onset: o.Onset,
    slowdown: o.Slowdown = 1.67,
    recall: o.Recall = None,
    false_alarm: o.FalseAlarm = 0.0,
    campaign: o.CampaignFile = None,
    detector: o.DetectorName = "",
    probe: o.Probe = "2s",
    drain: o.Drain = "10min",
    confirm: Annotated[
        int, typer.Option(min=1, max=100, help="Up to how many diagnoses in a row must agree.")
    ] = 4,
    json: o.JsonPath = None,
    plot: o.PlotPath = None,
) -> None:
    """How often a job should be diagnosed, and how many diagnoses in a row should agree.

    Examples:

        slowpoke efficiency failslow period --nodes 1024 --onset 1e-5 --recall 0.8677
        --false-alarm 0.1211

        slowpoke efficiency failslow period --nodes 1024 --onset 1e-5
        --campaign runs/x --detector robust
    """
    found = detector_of(recall, false_alarm, campaign, detector, probe)
    rate = parse_rate(onset, "onset rate")
    swap = usage_of(nodes, drain, "drain time")
    rows = [_row(k, found.confirmed(k), nodes, rate, slowdown, swap) for k in range(1, confirm + 1)]
    best = max(rows, key=lambda row: row["efficiency"])
    lines = [f"{found.name}: recall {found.recall:g}, false alarms {found.false_alarm:g}"]
    lines += [_line(row, row is best) for row in rows]
    payload = {
        **best,
        "schema": SCHEMA,
        "n_nodes": check_nodes(nodes),
        "onset_rate": rate,
        "slowdown": slowdown,
        "detector": found.name,
        "confirmations": rows,
        "notes": [
            "diagnoses in a row are taken for independent; measured figures of k in a row are "
            "better",
            "the efficiency is of slowness, diagnoses and drains alone, in the long run",
        ],
    }
    show.report(payload, lines, json)
    if plot is not None:
        names = [f"{row['n_agreeing']} in a row" for row in rows]
        plots.save(plots.draw_bars(names, [row["efficiency"] for row in rows], "efficiency"), plot)


def _row(
    k: int, found: Detector, nodes: int, rate: float, slowdown: float, drain: float
) -> dict[str, Any]:
    costs = {
        "probe_node_hours": found.cost_seconds / 3600.0 * nodes,
        "drain_node_hours": drain,
    }
    law = diagnosis_cadence(rate, slowdown, found.recall, found.false_alarm, **costs)
    best = best_period(rate, slowdown, found.recall, found.false_alarm, **costs)
    if best == 0.0:  # looking costs nothing, so each chip is found at once; its drain is paid
        left = 1.0 / (1.0 + rate * drain)
    else:
        left = diagnosis_efficiency(best, rate, slowdown, found.recall, found.false_alarm, **costs)
    return {
        "n_agreeing": k,
        "recall": found.recall,
        "false_alarm": found.false_alarm,
        "period_node_hours": best,
        "period_hours": best / nodes,
        "young_type_period_node_hours": law.period_node_hours,
        "young_type_period_hours": law.period_node_hours / nodes,
        "young_type_loss": law.loss,
        "efficiency": left,
    }


def _line(row: dict[str, Any], best: bool) -> str:
    seconds = 3600.0 * row["period_hours"]
    if math.isinf(seconds):
        when = "never: looking is not worth it"
    elif seconds == 0.0:
        when = "always: looking costs nothing"
    else:
        first_order = 3600.0 * row["young_type_period_hours"]
        when = f"each {clock(seconds)} (to first order {clock(first_order)})"
    mark = "   <- best" if best else ""
    return f"{row['n_agreeing']} in a row: {when}, efficiency {row['efficiency']:.6f}{mark}"
