"""The commands, as one application."""

from __future__ import annotations

from typing import Annotated

import typer

from torch_slowpoke import __version__
from torch_slowpoke.cli import analyze, catalogue, mapping, stages
from torch_slowpoke.cli.forward import forward

app = typer.Typer(
    name="slowpoke",
    help="Find the slow core or link of a many-core accelerator that runs a PyTorch model.",
    add_completion=False,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of bad input.")] = False,
) -> None:
    """Find the slow core or link of a many-core accelerator that runs a PyTorch model."""
    if version:
        print(f"slowpoke {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command("analyze")(analyze.analyze)
app.command("models")(catalogue.models)
app.command("chips")(catalogue.chips)
app.command("graph")(stages.graph)
app.command("map")(mapping.map_)
app.command("simulate")(stages.simulate)
app.command("record")(stages.record)
forward(
    app,
    "efficiency",
    "torch_slowpoke.efficiency.cli:app",
    "What failures cost a whole machine: checkpoint cadence and computational efficiency.",
)
forward(
    app,
    "campaign",
    "torch_slowpoke.evaluation.cli:campaign_app",
    "Run every detector over a set of faulty and healthy runs.",
)
forward(
    app,
    "report",
    "torch_slowpoke.evaluation.cli:report_app",
    "Show and write the tables of a campaign.",
)
forward(
    app,
    "diff",
    "torch_slowpoke.evaluation.cli:diff_app",
    "Compare two campaigns on the cases that both have.",
)
