"""A picture of a mapping: one panel a layer group, cores coloured by layer, links by load.

matplotlib is imported when a picture is asked for, and without pyplot: nothing is global and no
display is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.load import group_load
from slowpoke_mapping.mapping import Mapping
from slowpoke_mapping.routes import routes_of
from slowpoke_mapping.search import bundles_of
from slowpoke_mapping.traffic import group_plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PANELS = 12
CORE_HALF = 0.3
LANE = 0.08
NAME_LENGTH = 22


def mapping_figure(mapping: Mapping, groups: Sequence[int] | None = None) -> Figure:
    """The chip, a panel a layer group: cores coloured by layer, links by bytes of a batch.

    Args:
        mapping: What to draw.
        groups: Numbers of the groups to draw; None for the first twelve.

    Raises:
        SlowpokeError: A group that does not exist, or more than forty.
    """
    from matplotlib.figure import Figure

    n_groups = len(mapping.groups)
    chosen = list(range(min(n_groups, MAX_PANELS))) if groups is None else list(groups)
    if not chosen or len(chosen) > 40 or not all(0 <= g < n_groups for g in chosen):
        raise SlowpokeError(f"groups {chosen}: draw 1 to 40 of the groups 0 to {n_groups - 1}")
    columns = min(len(chosen), 4)
    rows = -(-len(chosen) // columns)
    figure = Figure(figsize=(3.6 * columns, 4.2 * rows + 0.6), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.ravel()[len(chosen) :]:
        axes.set_axis_off()
    coloured: Any = None
    for axes, g in zip(panels.ravel(), chosen, strict=False):
        coloured = _panel(axes, mapping, g)
    bar = figure.colorbar(coloured, ax=panels, shrink=0.6, pad=0.01)
    bar.set_label("link load, share of the group's busiest link")
    more = "" if len(chosen) == n_groups else f" (groups {chosen[0]} to {chosen[-1]} of {n_groups})"
    figure.suptitle(f"{mapping}{more}")
    return figure


def _panel(axes: Axes, mapping: Mapping, g: int) -> Any:
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    chip = mapping.chip
    plan = group_plan(mapping, g)
    load = group_load(plan, chip, routes_of(chip.network))
    units = mapping.units_per_batch
    n_bytes = load.channel_bytes(~load.once) * units + load.channel_bytes(load.once)
    places = np.asarray(chip.network.positions(), dtype=np.float64)
    ends = places[np.asarray(chip.network.links).reshape(-1, 2)]
    along = ends[:, 1] - ends[:, 0]
    side = np.stack([-along[:, 1], along[:, 0]], axis=1)
    side /= np.maximum(np.hypot(side[:, 0], side[:, 1]), 1e-9)[:, None]
    links = LineCollection(
        list(ends + LANE * side[:, None, :]),
        cmap="YlOrBr",
        norm=Normalize(0, 1),
        linewidths=2.5,
        zorder=0.5,
    )
    links.set_array(n_bytes[: chip.n_links] / max(float(n_bytes[: chip.n_links].max(initial=0)), 1))
    axes.add_collection(links)
    for x, y in places:
        axes.add_patch(
            Rectangle((x - CORE_HALF, y - CORE_HALF), 2 * CORE_HALF, 2 * CORE_HALF,
                      facecolor="#eeeeee", edgecolor="#999999", linewidth=0.5)
        )  # fmt: skip
    for b, layers in enumerate(bundles_of(mapping.groups[g])):
        colour = colormaps["tab20"](b % 20)
        for i, core in enumerate(layers[0].cores):
            x, y = places[core]
            axes.add_patch(
                Rectangle((x - CORE_HALF, y - CORE_HALF), 2 * CORE_HALF, 2 * CORE_HALF,
                          facecolor=colour, edgecolor="black", linewidth=0.5)
            )  # fmt: skip
            if chip.n_cores <= 64:
                axes.text(x, y, str(b), ha="center", va="center", fontsize=7)
            if i == 0:
                name = mapping.graph[layers[0].operator].name
                name = name if len(name) <= NAME_LENGTH else "..." + name[3 - NAME_LENGTH :]
                extra = f" +{len(layers) - 1}" if len(layers) > 1 else ""
                axes.plot([], [], "s", color=colour, label=f"{b} {name}{extra}")
    for p, router in enumerate(chip.dram_ports):
        x, y = places[router]
        axes.text(x, y - CORE_HALF - 0.02, f"D{p}", ha="center", va="bottom", fontsize=6)
    low, high = places.min(axis=0) - 0.6, places.max(axis=0) + 0.6
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(high[1], low[1])
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(f"group {g}", fontsize=9)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0.0), fontsize=6, ncols=2, frameon=False,
        handlelength=1.0, columnspacing=0.8,
    )  # fmt: skip
    return links
