"""Tables of jobs: the authors' CSV of Frontier, and tables with counts and applications.

Columns by name, in any order: nodes, requested and/or actual duration (seconds, or hours where the
name says so), and optionally a number of jobs (a binned distribution) and an application.
"""

import csv
import io
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.logs.joblog import (
    STATE_CODE,
    JobLog,
    JobLogBuilder,
    ReadReport,
    RowError,
)

_NAMES = {
    "nodes": ("node count", "n_nodes", "nodes", "nnodes"),
    "requested": ("requested duration", "requested_seconds", "requested_hours", "hours"),
    "actual": ("actual duration", "actual_seconds", "actual_hours"),
    "jobs": ("n_jobs", "jobs", "count"),
    "application": ("application", "app"),
}


class TableColumns:
    """Where the columns of a table stand; `None` from `of` if a line is no such header."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.at = {
            key: next((names.index(a) for a in aliases if a in names), -1)
            for key, aliases in _NAMES.items()
        }
        self.unit = {
            key: 3600.0 if self.at[key] >= 0 and "hours" in names[self.at[key]] else 1.0
            for key in ("requested", "actual")
        }

    @staticmethod
    def of(line: str) -> "TableColumns | None":
        """The columns that a header line names, if it is one of a table of jobs."""
        try:
            names = [n.strip().lower() for n in next(csv.reader([line.lstrip("\ufeff")]), [])]
        except csv.Error:
            return None
        columns = TableColumns(names)
        has_time = columns.at["requested"] >= 0 or columns.at["actual"] >= 0
        return columns if columns.at["nodes"] >= 0 and has_time else None


# What a schedule takes: 1e9 hours, 1e15 jobs. A sum over a year of less stays finite.
_MOST = {"requested": 3.6e12, "actual": 3.6e12, "jobs": 1e15}


def read_table_fast(path: Path, columns: TableColumns) -> JobLog | None:
    """Read a table of plain numbers without any fault; None if it is anything else.

    0.05 s for 331,640 rows; the other way, row by row, tells what is wrong with which line.
    """
    if columns.at["application"] >= 0:
        return None
    try:
        cells = np.loadtxt(
            path, delimiter=",", skiprows=1, dtype=np.float64, ndmin=2, comments=None
        )
    except (ValueError, UserWarning):
        return None
    if cells.shape[0] == 0 or cells.shape[1] != len(columns.names):
        return None
    nodes = np.ascontiguousarray(cells[:, columns.at["nodes"]])

    def column(key: str, default: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        at = columns.at[key]
        if at < 0:
            return np.full(nodes.shape, default)
        with np.errstate(over="ignore"):  # what overflows is refused below
            return np.ascontiguousarray(cells[:, at]) * columns.unit.get(key, 1.0)

    requested, actual, jobs = (
        column("requested", np.nan),
        column("actual", np.nan),
        column("jobs", 1.0),
    )
    if columns.at["actual"] < 0:
        actual = requested.copy()
    sound = (nodes >= 1) & (nodes == np.floor(nodes)) & (nodes <= 1e12)
    sound &= (actual >= 0) & (actual <= _MOST["actual"]) & (jobs >= 0) & (jobs <= _MOST["jobs"])
    if columns.at["requested"] >= 0:
        sound &= (requested >= 0) & (requested <= _MOST["requested"])
    if not sound.all():
        return None
    n = nodes.size
    unknown = np.full(n, np.nan)
    return JobLog(
        n_nodes=nodes,
        elapsed_seconds=actual,
        limit_seconds=requested,
        start_seconds=unknown,
        end_seconds=unknown,
        state=np.full(n, STATE_CODE["UNKNOWN"], dtype=np.uint8),
        hosts={},
        failed_hosts={},
        application=np.zeros(n, dtype=np.int64),
        applications=("",),
        weight=jobs,
        report=ReadReport("table", n_lines=n + 1, n_jobs=n),
    )


def read_table(lines: Iterable[tuple[int, str]]) -> JobLogBuilder:
    """Read a table of jobs row by row.

    Args:
        lines: Line number and line, the header first.

    Raises:
        SlowpokeError: The header names no nodes or no duration.
    """
    builder = JobLogBuilder("table", keep_unused=True)
    columns: TableColumns | None = None
    for number, line in lines:
        builder.report.n_lines += 1
        if columns is None:
            columns = TableColumns.of(line)
            if columns is None:
                raise SlowpokeError(
                    f"the table begins with {line[:60]!r}: its header must name the nodes "
                    "(n_nodes) and a duration (requested_seconds, actual_seconds or hours)"
                )
            continue
        try:
            _read_row(builder, columns, number, line)
        except RowError as error:
            builder.report.reject(str(error), number)
    return builder


def _read_row(builder: JobLogBuilder, columns: TableColumns, number: int, line: str) -> None:
    try:
        cells = next(csv.reader(io.StringIO(line)))
    except csv.Error:
        raise RowError("not a line of a CSV table") from None
    if len(cells) != len(columns.names):
        raise RowError(
            "fewer fields than columns: the line is cut off"
            if len(cells) < len(columns.names)
            else "more fields than columns"
        )

    def number_of(key: str, default: float, what: str) -> float:
        at = columns.at[key]
        if at < 0:
            return default
        text = cells[at].strip()
        if text == "":
            raise RowError(f"{what} is missing")
        try:
            value = float(text) * columns.unit.get(key, 1.0)
        except ValueError:
            raise RowError(f"{what} is not a number") from None
        if not math.isfinite(value):
            raise RowError(f"{what} is not a finite number")
        if value < 0:
            raise RowError(f"{what} is negative")
        if value > _MOST.get(key, math.inf):
            raise RowError(f"{what} is beyond any machine's")
        return value

    nodes = number_of("nodes", 0.0, "number of nodes")
    if nodes < 1 or nodes != math.floor(nodes) or nodes > 1e12:
        raise RowError("number of nodes is not a whole number from 1 on")
    requested = number_of("requested", math.nan, "requested duration")
    actual = number_of("actual", requested, "actual duration")
    at = columns.at["application"]
    builder.add(
        number,
        nodes,
        actual,
        requested,
        math.nan,
        math.nan,
        STATE_CODE["UNKNOWN"],
        application=cells[at].strip() if at >= 0 else "",
        weight=number_of("jobs", 1.0, "number of jobs"),
    )
