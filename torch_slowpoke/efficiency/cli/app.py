"""The commands about a machine's efficiency as one application."""

import typer

from torch_slowpoke.efficiency.cli import failslow
from torch_slowpoke.efficiency.cli.cadence import cadence
from torch_slowpoke.efficiency.cli.figures import figures
from torch_slowpoke.efficiency.cli.machine import machine
from torch_slowpoke.efficiency.cli.rate import rate
from torch_slowpoke.efficiency.cli.simulate import simulate

app = typer.Typer(
    help="What failures and undetected slow chips cost a machine.", no_args_is_help=True
)
app.command()(machine)
app.command()(rate)
app.command()(cadence)
app.add_typer(failslow.app, name="failslow")
app.command()(simulate)
app.command()(figures)
