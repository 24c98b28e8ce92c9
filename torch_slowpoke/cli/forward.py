"""Commands that live elsewhere: listed at once, imported when they are called."""

from __future__ import annotations

import importlib

import typer


def forward(app: typer.Typer, name: str, target: str, summary: str) -> None:
    """Mount another application under a name without importing it.

    Args:
        app: Where it is listed.
        name: Of the command, such as `efficiency`.
        target: `module:attribute` of a typer application.
        summary: Its line in the list of commands.
    """

    def command(context: typer.Context) -> int:
        module, _, attribute = target.partition(":")
        inner: typer.Typer = getattr(importlib.import_module(module), attribute)
        code = inner(args=list(context.args), prog_name=f"slowpoke {name}", standalone_mode=False)
        return code if isinstance(code, int) else 0

    app.command(
        name,
        help=summary,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(command)
