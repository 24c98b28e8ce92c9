"""A bar for a campaign: done, rate, time left; plain lines where nobody watches a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from torch_slowpoke.evaluation.campaign import Progress

LINE_SECONDS = 60.0
"""Between two lines in a log file."""


@contextlib.contextmanager
def campaign_progress() -> Iterator[Progress]:
    """Yields a function of (tasks done, tasks in all)."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("cases", total=None, rate="")
        first: list[tuple[float, int]] = []

        def report(done: int, total: int) -> None:
            now = time.monotonic()
            first.append((now, done)) if not first else None
            spent, made = now - first[0][0], done - first[0][1]
            rate = f"{made / spent:.2f} cases/s" if spent > 0 and made else "preparing"
            bar.update(task, completed=done, total=total, rate=rate)

        yield report


class _Lines:
    """A line now and then."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self._last > LINE_SECONDS or done == total:
            self._last = time.monotonic()
            print(f"{done}/{total} cases", file=sys.stderr, flush=True)
