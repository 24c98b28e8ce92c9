"""`slowpoke efficiency failslow pool`: what a check of the nodes before each job is worth."""

from typing import Annotated

import typer

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency import plots
from torch_slowpoke.efficiency.cli import options as o
from torch_slowpoke.efficiency.cli import show
from torch_slowpoke.efficiency.cli.failslow.inputs import check_nodes
from torch_slowpoke.efficiency.failslow import slow_start_probability, slow_without_detection
from torch_slowpoke.efficiency.failslow.exposure import kappa
from torch_slowpoke.efficiency.units import parse_hours, parse_rate

SCHEMA = "slowpoke.efficiency.failslow.pool/1"


def pool(
    nodes: o.Nodes,
    onset: o.Onset,
    stay: Annotated[str, typer.Option(help="Time until somebody notices a slow node, like 100h.")],
    time: Annotated[str, typer.Option(help="Duration of the job, like 12h.")],
    slowdown: o.Slowdown = 1.67,
    json: o.JsonPath = None,
    plot: o.PlotPath = None,
) -> None:
    """How often a job starts with a slow node if nobody checks, and what a check before it saves.

    Nobody looks while the job runs.

    Examples:

        slowpoke efficiency failslow pool --nodes 1024 --time 12h --onset 1e-5 --stay 100h
    """
    n = check_nodes(nodes)
    rate, stays = parse_rate(onset, "onset rate"), parse_hours(stay, "stay")
    hours = parse_hours(time, "time")
    if hours <= 0:
        raise SlowpokeError(f"time {time!r} must be above zero: write it like 12h")
    starts_slow = float(slow_start_probability(n, rate, stays))
    checked = float(slow_without_detection(n * hours, rate))
    # A job that starts slow stays slow; one that starts healthy is as if it had been checked.
    unchecked = starts_slow + (1.0 - starts_slow) * checked
    saved = float(kappa(slowdown)) * (unchecked - checked) * n * hours
    lines = [
        f"{100 * starts_slow:.3g} % of such jobs start with a slow node if nodes are not checked",
        f"slow share of usage: {unchecked:.4g} without a check, {checked:.4g} with one",
        f"a check before the job saves {saved:,.1f} of its {n * hours:,.0f} node-hours in the mean",
        "note: a slow node that a job starts with is taken to stay slow while the job runs",
    ]
    payload = {
        "schema": SCHEMA,
        "n_nodes": n,
        "slow_start_probability": starts_slow,
        "slow_node_share": rate * stays / (1.0 + rate * stays),
        "slow_share_unchecked": unchecked,
        "slow_share_checked": checked,
        "saved_node_hours": saved,
    }
    show.report(payload, lines, json)
    if plot is not None:
        shares = [unchecked, checked]
        plots.save(plots.draw_bars(["unchecked", "checked"], shares, "slow share"), plot)
