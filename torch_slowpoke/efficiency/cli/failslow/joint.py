"""`slowpoke efficiency failslow joint`: one job that both fails and turns slow, exactly."""

import math
from dataclasses import replace
from typing import Annotated, Any

import typer

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency import inputs, plots
from torch_slowpoke.efficiency.cli import options as o
from torch_slowpoke.efficiency.cli import show
from torch_slowpoke.efficiency.cli.failslow.detector import detector_of, is_given
from torch_slowpoke.efficiency.cli.failslow.inputs import check_nodes, clock
from torch_slowpoke.efficiency.cli.failslow.job import positive_usage_of, usage_of
from torch_slowpoke.efficiency.failslow import joint_cadence, joint_efficiency, product_efficiency
from torch_slowpoke.efficiency.failslow.joint import SlowProcess
from torch_slowpoke.efficiency.units import parse_rate

SCHEMA = "slowpoke.efficiency.failslow.joint/1"


def joint(
    nodes: o.Nodes,
    rate: o.RequiredRate,
    bandwidth: o.Bandwidth,
    checkpoint: o.Checkpoint,
    onset: o.Onset,
    slowdown: o.Slowdown = 1.67,
    recall: o.Recall = None,
    false_alarm: o.FalseAlarm = 0.0,
    campaign: o.CampaignFile = None,
    detector: o.DetectorName = "",
    period: Annotated[
        str, typer.Option(help="Time between diagnoses: false alarms come once in so many.")
    ] = "1h",
    found_after: Annotated[
        str | None,
        typer.Option(help="Mean time until a slow chip is found, if ever; else half the period."),
    ] = None,
    recovery: Annotated[
        str | None, typer.Option(help="Mean time after which a slow chip recovers by itself.")
    ] = None,
    drain: o.Drain = "10min",
    cadence: Annotated[
        str | None, typer.Option(help="Computing between checkpoints, like 1h; else the best.")
    ] = None,
    model: o.Model = "shared",
    read_ratio: o.ReadRatio = 1.0,
    setup: o.Setup = "2s",
    json: o.JsonPath = None,
    plot: o.PlotPath = None,
) -> None:
    """Efficiency of a job that fails and turns slow, and whether to drain or to kill slow jobs.

    The share that the recall leaves is never found, and slow until a failure or a recovery.

    Examples:

        slowpoke efficiency failslow joint --nodes 1024 --rate 2e-5 --bandwidth 6TB/s
        --checkpoint 200GB --onset 1e-5 --recall 0.8677 --period 1h
    """
    cost = inputs.cost_of(checkpoint, bandwidth, model, read_ratio, setup)
    r0 = inputs.rate_of(rate)
    n = check_nodes(nodes)
    between = positive_usage_of(n, period, "period")
    never = SlowProcess(
        parse_rate(onset, "onset rate"),
        slowdown,
        drain_node_hours=usage_of(n, drain, "drain time"),
        recovery_rate=0.0
        if recovery is None
        else 1.0 / positive_usage_of(n, recovery, "time to recover"),
    )
    cases = {"not slow": replace(never, onset_rate=0.0), "nobody looks": never}
    found = None
    if is_given(recall, campaign, detector):
        found = detector_of(recall, false_alarm, campaign, detector, "0s")
        mean = (
            between / 2.0
            if found_after is None
            else usage_of(n, found_after, "mean time to detection")
        )
        drained = replace(
            never,
            recall=found.recall,
            detection_rate=1.0 / mean if mean > 0 else math.inf,
            false_alarm_rate=found.false_alarm / between,
        )
        cases |= {"drain": drained, "kill": replace(drained, policy="kill")}
    elif found_after is not None:
        raise SlowpokeError("--found-after needs a detector: give --recall or --detector")
    u_chk = float(cost.checkpoint_node_hours(n))
    u_r = float(cost.restart_node_hours(n))
    fixed = None if cadence is None else positive_usage_of(n, cadence, "cadence")
    rows = {name: _row(r0, u_chk, u_r, slow, n, fixed) for name, slow in cases.items()}
    lines = [
        f"{name:14} efficiency {row['efficiency']:.6f}, checkpoints "
        f"{clock(3600 * row['cadence_hours'])} apart"
        for name, row in rows.items()
    ]
    best = max((name for name in rows if name != "not slow"), key=lambda m: rows[m]["efficiency"])
    lines.append(f"best: {best}")
    payload = {
        "schema": SCHEMA,
        "n_nodes": n,
        "rate": r0,
        "onset_rate": never.onset_rate,
        "slowdown": slowdown,
        "checkpoint_node_hours": u_chk,
        "efficiency": rows[best]["efficiency"],
        "best": best,
        "recall": None if found is None else found.recall,
        "cases": rows,
        "notes": [
            "in the long run; a restart clears slow nodes; what a diagnosis costs is not in it",
            "product_rule: efficiency with failures alone times that with slowness alone, a plan",
        ],
    }
    show.report(payload, lines, json)
    if plot is not None:
        values = [row["efficiency"] for row in rows.values()]
        plots.save(plots.draw_bars(list(rows), values, "efficiency"), plot)


def _row(
    rate: float, u_chk: float, u_r: float, slow: SlowProcess, nodes: int, fixed: float | None
) -> dict[str, Any]:
    u_c = joint_cadence(rate, u_chk, u_r, slow) if fixed is None else fixed
    both = joint_efficiency(rate, u_c, u_chk, u_r, slow)
    return {
        "efficiency": both.efficiency,
        "cadence_node_hours": u_c,
        "cadence_hours": u_c / nodes,
        "product_rule": None
        if slow.policy == "kill"
        else product_efficiency(rate, u_c, u_chk, u_r, slow),
        "attempt_failure": both.attempt_failure,
        "attempt_node_hours": both.attempt_node_hours,
    }
