"""What a command shows: its lines, its JSON, how far it is."""

from collections.abc import Iterable
from typing import Any

import typer

from torch_slowpoke.efficiency import output
from torch_slowpoke.efficiency.logs import JobLog


def say(lines: Iterable[str], json_path: str | None) -> None:
    """Print, unless standard output belongs to the JSON."""
    if json_path != output.STANDARD_OUTPUT:
        for line in lines:
            typer.echo(line)


def report(payload: dict[str, Any], lines: Iterable[str], json_path: str | None) -> None:
    """Print the lines, and write the JSON if asked."""
    say(lines, json_path)
    if json_path is not None:
        output.write_json(payload, json_path)


def watched(what: str) -> Any:
    """A progress bar on standard error, if somebody watches."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)

    def watch(items: Iterable[Any], total: int | None = None) -> Iterable[Any]:
        return track(
            items,
            what,
            total=total,
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    return watch


def log_lines(log: JobLog) -> list[str]:
    """How many records there are, and what became of the others."""
    report = log.report
    lines = [
        f"{report.n_jobs:,} records of jobs ({report.format}), "
        f"{log.exposure_node_hours:,.1f} node-hours run"
    ]
    for word, reasons in (("rejected", report.rejected), ("skipped", report.skipped)):
        for reason, r in sorted(reasons.items(), key=lambda item: -item[1].count):
            where = ", ".join(str(n) for n in r.lines)
            lines.append(f"  {word} {r.count:,}: {reason} (line {where})")
    return lines
