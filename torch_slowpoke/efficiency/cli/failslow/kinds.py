"""`slowpoke efficiency failslow kinds`: several kinds of slowness at once, the worst one rules."""

import math
from typing import Annotated

import typer

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency import plots
from torch_slowpoke.efficiency.cli import options as o
from torch_slowpoke.efficiency.cli import show
from torch_slowpoke.efficiency.cli.failslow.inputs import check_nodes
from torch_slowpoke.efficiency.failslow import class_loss
from torch_slowpoke.efficiency.units import parse_hours, parse_rate

SCHEMA = "slowpoke.efficiency.failslow.kinds/1"
_EXAMPLE = "write it like core:onset=1e-6,slowdown=2.48,stay=2h"
_FIELDS = {"onset", "slowdown", "stay"}


def kinds(
    nodes: o.Nodes,
    kind: Annotated[
        list[str], typer.Option(help="NAME:onset=..,slowdown=..,stay=..; once for each kind.")
    ],
    json: o.JsonPath = None,
    plot: o.PlotPath = None,
) -> None:
    """Share of usage lost to kinds of slowness that differ, each for the time that it stays.

    Examples:

        slowpoke efficiency failslow kinds --nodes 1024
        --kind link:onset=5e-6,slowdown=1.26,stay=5h --kind core:onset=2e-6,slowdown=2.48,stay=1h
    """
    n = check_nodes(nodes)
    read = dict(_kind(text) for text in kind)
    if len(read) < len(kind):
        raise SlowpokeError("two kinds of slowness have one name: give each its own")
    onsets, slowdowns, stays = zip(*read.values(), strict=True)
    loss = class_loss(onsets, slowdowns, [n * hours for hours in stays])
    alone = {
        name: class_loss([onset], [slowdown], [n * hours])
        for name, (onset, slowdown, hours) in read.items()
    }
    lines = [
        *(f"{name:16} alone {share:.6f} of usage" for name, share in alone.items()),
        f"{'together':16} {loss:.6f} of usage lost, the worst that is present rules",
    ]
    payload = {"schema": SCHEMA, "n_nodes": n, "loss": loss, "alone": alone}
    show.report(payload, lines, json)
    if plot is not None:
        names, shares = [*alone, "together"], [*alone.values(), loss]
        plots.save(plots.draw_bars(names, shares, "share lost"), plot)


def _kind(text: str) -> tuple[str, tuple[float, float, float]]:
    """Name; onsets per node-hour, slowdown, hours until it is found."""
    name, colon, rest = text.rpartition(":")
    fields = dict(part.partition("=")[::2] for part in rest.split(","))
    if not (name and colon and set(fields) == _FIELDS):
        raise SlowpokeError(f"kind {text!r}: {_EXAMPLE}")
    try:
        slowdown = float(fields["slowdown"])
    except ValueError:
        slowdown = math.nan
    if not (math.isfinite(slowdown) and slowdown >= 1.0):
        raise SlowpokeError(
            f"slowdown {fields['slowdown']!r} of {name!r} must be a number from 1 on: {_EXAMPLE}"
        )
    onset = parse_rate(fields["onset"], f"onset rate of {name!r}")
    return name, (onset, slowdown, parse_hours(fields["stay"], f"stay of {name!r}"))
