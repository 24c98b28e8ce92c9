"""The commands about slow chips as one application; a file of jobs stands for `fleet`."""

from typing import Any

import typer
from typer.core import TyperGroup

from torch_slowpoke.efficiency.cli.failslow.act import act
from torch_slowpoke.efficiency.cli.failslow.fleet import fleet
from torch_slowpoke.efficiency.cli.failslow.joint import joint
from torch_slowpoke.efficiency.cli.failslow.kinds import kinds
from torch_slowpoke.efficiency.cli.failslow.period import period
from torch_slowpoke.efficiency.cli.failslow.pool import pool
from torch_slowpoke.efficiency.cli.failslow.share import share


class _FleetUnlessNamed(TyperGroup):
    """`failslow jobs.csv ...` is `failslow fleet jobs.csv ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["fleet", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_FleetUnlessNamed,
    help="What chips that are slow and do not fail cost, and what finding them saves. "
    "`failslow jobs.csv ...` is `failslow fleet jobs.csv ...`.",
    no_args_is_help=True,
)
for command in (fleet, share, period, act, kinds, pool, joint):
    app.command()(command)
