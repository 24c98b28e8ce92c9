"""An analysis as one HTML page that needs nothing else: no network, no scripts, no fonts.

Verdict first (what, where, how sure, what else it could be), then the picture, the evidence, the
quality of the data, and where it came from. Whatever comes from a model or a trace is escaped. A
`<script type="application/json" id="diagnosis">` holds the same result for programs.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import matplotlib
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from slowpoke_tracer.diagnosis import suspect_text
from torch_slowpoke import __version__
from torch_slowpoke.report.jsonable import finite
from torch_slowpoke.report.plots import REPEATABLE, analysis_figure
from torch_slowpoke.report.text import busiest_text, stalls_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from torch_slowpoke.analysis import Analysis

N_RANKED = 10


def analysis_html(analysis: Analysis, command: str = "") -> str:
    """The page, as text; the same analysis gives the same page.

    Args:
        analysis: Of `torch_slowpoke.analyze`.
        command: The command line that made it, for the page's last section.
    """
    environment = Environment(
        loader=PackageLoader("torch_slowpoke.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "sort_keys": False}
    data: dict[str, Any] = finite(analysis.to_dict())
    clock_hz = analysis.chip.clock_hz
    return environment.get_template("analysis.html").render(
        a=analysis,
        d=analysis.diagnosis,
        data=data,
        claims=[suspect_text(s, clock_hz) for s in analysis.diagnosis.reported],
        ranked=analysis.diagnosis.ranked[:N_RANKED],
        groups=_groups(analysis),
        stalls=stalls_text(analysis.timing),
        busiest=busiest_text(analysis.timing, analysis.chip),
        ms=lambda cycles: f"{1e3 * cycles / clock_hz:.3f}",
        picture=figure_svg(analysis_figure(analysis)),
        command=command,
        version=__version__,
    )


def figure_svg(figure: Figure) -> Markup:
    """A figure as an `<svg>` element that fills its container's width."""
    buffer = io.StringIO()
    with matplotlib.rc_context(REPEATABLE):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r'\1 width="100%"', svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return Markup(svg)  # matplotlib escapes the text it is given


def _groups(analysis: Analysis) -> list[dict[str, Any]]:
    """A row for each layer group: its operators, and how long it took over all batches."""
    timing = analysis.timing
    cycles = (timing.phase_end_cycles - timing.phase_start_cycles).sum(axis=0)
    rows = []
    for group, took in zip(analysis.mapping.groups, cycles, strict=True):
        names = [analysis.graph[layer.operator].name for layer in group.layers]
        rows.append(
            {
                "first": names[0],
                "last": names[-1],
                "n": len(names),
                "cores": len({core for layer in group.layers for core in layer.cores}),
                "cycles": float(took),
                "share": float(took) / (timing.makespan_cycles or 1.0),
            }
        )
    return rows
