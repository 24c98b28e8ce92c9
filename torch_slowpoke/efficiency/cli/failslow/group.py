"""The commands about slow chips as one application; a file of jobs stands for `fleet`."""

from typing import Any

import typer
from typer.core import TyperGroup

from torch_slowpoke.efficiency.cli.failslow.fleet import fleet


class _FleetUnlessNamed(TyperGroup):
    """`failslow jobs.csv ...` is `failslow fleet jobs.csv ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["fleet", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_FleetUnlessNamed,
    help="What chips that are slow and do not fail cost, and what finding them saves.",
    no_args_is_help=True,
)
app.command()(fleet)
