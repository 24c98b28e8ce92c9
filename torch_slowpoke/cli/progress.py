"""A progress bar on standard error, for people: nothing is printed where nobody watches."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

Report = Callable[[str, int, int], None]
"""Called with (stage, done, total)."""


@contextlib.contextmanager
def progress_bar() -> Iterator[Report]:
    """A bar that names the stage at work; gone when the work is done.

    Yields:
        A function of (stage, done, total); does nothing where standard error is no terminal.
    """
    if not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("start", total=None)

        def report(stage: str, done: int, total: int) -> None:
            progress.update(bar, description=stage, completed=done, total=total or None)

        yield report
