"""Pictures: the chip as a heat map, with the suspects marked.

Cores are coloured by how busy they were and links by their load; suspects stand out by outline,
width and label, not by colour alone. Figures are made without pyplot, so nothing is global and no
display is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike, NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Core, DramPort, Link, Place, Router
from slowpoke_tracer.diagnosis import Suspect
from torch_slowpoke.report.geometry import Geometry

if TYPE_CHECKING:
    from slowpoke_sim.timing import Timing
    from torch_slowpoke.analysis import Analysis

MAX_INCHES = 24
FORMATS = (".png", ".svg", ".pdf")
SUSPECT, INJECTED = "#d62728", "#1f77b4"
CORE_COLOURS, LINK_COLOURS = "cividis", "YlOrBr"
REPEATABLE: Any = {"svg.hashsalt": "slowpoke", "svg.fonttype": "none"}
"""Settings under which the same figure gives the same file: no random ids, text left as text."""
_NO_DATE: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}


def chip_figure(
    chip: ChipConfig,
    core_share: ArrayLike,
    link_share: ArrayLike,
    *,
    suspects: Sequence[Suspect] = (),
    faults: Sequence[Fault] = (),
    title: str = "",
    core_label: str = "core utilisation",
    link_label: str = "link utilisation",
) -> Figure:
    """Draw a chip: cores and links coloured by a share, suspects and injected faults marked.

    Args:
        chip: Any topology; routers are drawn where its `positions()` puts them.
        core_share: (n_cores,) 0 to 1.
        link_share: (n_links,) 0 to 1, in the order of `chip.network.links`; the colour scale ends
            at the largest, because links are seldom busy throughout.
        suspects: Marked in red with their number and slowdown.
        faults: Marked by a dashed blue outline.
        title: Above the picture.
        core_label: Meaning of the cores' colour.
        link_label: Meaning of the links' colour.

    Raises:
        SlowpokeError: As many values as there are cores and links are needed.
    """
    cores, links = np.asarray(core_share, float), np.asarray(link_share, float)
    if cores.shape != (chip.n_cores,) or links.shape != (chip.n_links,):
        raise SlowpokeError(
            f"{cores.shape} core and {links.shape} link values for a chip of {chip.n_cores} cores "
            f"and {chip.n_links} links; give one a core and one a link"
        )
    geometry = Geometry.of(chip)
    width, height = geometry.size
    size = (min(3.2 + 1.1 * width, MAX_INCHES), min(1.8 + 1.1 * height, MAX_INCHES))
    figure = Figure(figsize=size, dpi=110, layout="constrained")
    axes = figure.add_subplot()
    busiest = float(links.max(initial=0.0)) or 1.0
    core_colours, link_colours = (
        ScalarMappable(Normalize(0, top), matplotlib.colormaps[name])
        for top, name in ((1.0, CORE_COLOURS), (busiest, LINK_COLOURS))
    )
    _draw_links(axes, geometry, links / busiest, link_colours.get_cmap())
    _draw_cores(axes, geometry, cores, core_colours.get_cmap())
    _draw_ports(axes, geometry)
    for fault in faults:
        _mark(axes, geometry, chip, fault.place, INJECTED, dashed=True)
    for number, suspect in enumerate(suspects, 1):
        _mark(axes, geometry, chip, suspect.place, SUSPECT)
        text = f"{number}. {suspect.place}"
        if suspect.slowdown == suspect.slowdown:
            text += f" {suspect.slowdown:.1f}x"
        x, y = geometry.centre(suspect.place)
        axes.annotate(
            text, (x, y), (x, y - 0.52), ha="center", va="center", fontsize=8, zorder=9,
            color="white", bbox={"boxstyle": "round,pad=0.2", "fc": SUSPECT, "ec": "white"},
        )  # fmt: skip
    axes.set_aspect("equal")
    (left, right), (top, bottom) = geometry.bounds
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)  # row 0 on top
    axes.axis("off")
    axes.set_title(title, fontsize=11, wrap=True)
    for mappable, label in ((core_colours, core_label), (link_colours, link_label)):
        bar = figure.colorbar(
            mappable, ax=axes, fraction=0.05, pad=0.02, shrink=0.8, format=PercentFormatter(1.0)
        )
        bar.set_label(label, fontsize=8)
        bar.ax.tick_params(labelsize=7)
    return figure


def analysis_figure(analysis: Analysis, n_suspects: int = 3) -> Figure:
    """Draw an analysis: utilisation, what is reported and what was injected.

    Args:
        analysis: Of `torch_slowpoke.analyze`.
        n_suspects: At most this many of the reported places are marked.
    """
    title = str(analysis.diagnosis).splitlines()[0].removeprefix("1. ")
    return run_figure(
        analysis.chip,
        analysis.timing,
        suspects=analysis.diagnosis.reported[:n_suspects],
        faults=analysis.faults,
        title=f"{analysis.graph.name} on {analysis.chip.network}: {title}",
    )


def run_figure(
    chip: ChipConfig,
    timing: Timing,
    *,
    suspects: Sequence[Suspect] = (),
    faults: Sequence[Fault] = (),
    title: str = "",
) -> Figure:
    """Draw a run's utilisation on its chip."""
    return chip_figure(
        chip,
        timing.core_utilization,
        timing.channel_utilization[: chip.n_links],
        suspects=suspects,
        faults=faults,
        title=title,
    )


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as .png, .svg or .pdf; the same figure gives the same bytes.

    Raises:
        SlowpokeError: Another ending.
    """
    suffix = check_format(path)
    with matplotlib.rc_context(REPEATABLE):
        figure.savefig(str(path), bbox_inches="tight", metadata=_NO_DATE[suffix])


def check_format(path: str | Path) -> str:
    """The ending of a picture's file name, if it is one of FORMATS.

    Raises:
        SlowpokeError: It is not.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise SlowpokeError(f"picture {path}: the name must end in {', '.join(FORMATS)}")
    return suffix


def _draw_links(
    axes: Axes, geometry: Geometry, share: NDArray[np.float64], colours: Colormap
) -> None:
    straight = ~geometry.bent
    axes.add_collection(
        LineCollection(
            list(geometry.segments[straight]),
            colors=colours(0.15 + 0.85 * share[straight]),
            linewidths=1.0 + 4.0 * share[straight],
            zorder=1,
        )
    )
    for i in np.flatnonzero(geometry.bent):
        axes.add_patch(_arc(geometry.segments[i], colours(0.15 + 0.85 * share[i]),
                            1.0 + 4.0 * float(share[i]), zorder=0))  # fmt: skip


def _arc(segment: NDArray[np.float64], colour: Any, width: float, zorder: int) -> FancyArrowPatch:
    """A wrap-around link, bent so that it does not run through the routers between."""
    (x, y), (u, v) = segment.tolist()
    return FancyArrowPatch(
        (x, y), (u, v), connectionstyle="arc3,rad=0.18", arrowstyle="-", color=colour, lw=width,
        zorder=zorder,
    )  # fmt: skip


def _draw_cores(
    axes: Axes, geometry: Geometry, share: NDArray[np.float64], colours: Colormap
) -> None:
    half = geometry.core_half
    for core, (x, y) in enumerate(geometry.routers):
        face = colours(float(np.clip(share[core], 0, 1)))
        axes.add_patch(
            Rectangle((x - half, y - half), 2 * half, 2 * half, fc=face, ec="#444444", lw=0.8,
                      zorder=3)
        )  # fmt: skip
        ink = "black" if 0.299 * face[0] + 0.587 * face[1] + 0.114 * face[2] > 0.5 else "white"
        axes.text(x, y - 0.1 * half, str(core), ha="center", va="bottom", fontsize=8, color=ink,
                  zorder=4)  # fmt: skip
        axes.text(x, y + 0.1 * half, f"{100 * share[core]:.0f}%", ha="center", va="top",
                  fontsize=6, color=ink, zorder=4)  # fmt: skip


def _draw_ports(axes: Axes, geometry: Geometry) -> None:
    for port, (x, y) in enumerate(geometry.ports):
        router = geometry.routers[geometry.port_routers[port]]
        axes.plot([x, router[0]], [y, router[1]], color="#888888", lw=1, ls=":", zorder=0)
        axes.text(
            x, y, f"DRAM {port}", ha="center", va="center", fontsize=7, zorder=4,
            rotation=geometry.port_rotation(port),
            bbox={"boxstyle": "square,pad=0.25", "fc": "#eeeeee", "ec": "#888888"},
        )  # fmt: skip


def _mark(
    axes: Axes,
    geometry: Geometry,
    chip: ChipConfig,
    place: Place,
    colour: str,
    dashed: bool = False,
) -> None:
    style: dict[str, Any] = {"ec": colour, "lw": 2.5, "ls": "--" if dashed else "-"}
    half = geometry.core_half * (1.25 if dashed else 1.1)
    x, y = geometry.centre(place)
    match place:
        case Core() | DramPort():
            axes.add_patch(
                Rectangle((x - half, y - half), 2 * half, 2 * half, fc="none", zorder=6, **style)
            )
        case Router():
            axes.add_patch(Circle((x, y), 1.6 * half, fc="none", zorder=6, **style))
        case Link():
            for channel in chip.channels_of(place):
                segment = geometry.segments[channel]
                if geometry.bent[channel]:
                    axes.add_patch(_arc(segment, colour, 4.0, zorder=2))
                else:
                    axes.plot(*segment.T, color=colour, lw=4, ls=style["ls"], zorder=2)
