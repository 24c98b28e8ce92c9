"""Reading a log of any kind, and making a schedule of it."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, get_args

import numpy as np

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.logs.joblog import JobLog, JobLogBuilder
from torch_slowpoke.efficiency.logs.lsf import read_lsf
from torch_slowpoke.efficiency.logs.pbs import RECORD, read_pbs
from torch_slowpoke.efficiency.logs.slurm import read_slurm
from torch_slowpoke.efficiency.logs.swf import N_FIELDS, read_swf
from torch_slowpoke.efficiency.logs.table import TableColumns, read_table, read_table_fast
from torch_slowpoke.efficiency.schedule import Schedule, schedule_of_jobs

Format = Literal["slurm", "pbs", "lsf", "swf", "table"]
Durations = Literal["scaled", "requested", "actual"]
Ratio = Literal["usage", "time"]

FORMATS: tuple[Format, ...] = get_args(Format)

_BLOCK = 1 << 20
_LONGEST_LINE = 1 << 24


def _lines(path: Path, ends_whole: list[bool]) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not blank; bytes that are no UTF-8 do not stop it.

    Sets `ends_whole[0]` to whether the last line has an end.
    """
    try:
        # Opened once, and not sought in: a pipe will do.
        with path.open("rb") as file:
            packed = file.peek(2)[:2] == b"\x1f\x8b"
            number = 0
            for lines in _blocks(gzip.GzipFile(fileobj=file) if packed else file, ends_whole):
                for line in lines:
                    number += 1
                    if line and not line.isspace():
                        yield number, line.lstrip("\ufeff") if number == 1 else line
    except FileNotFoundError:
        raise SlowpokeError(
            f"{path} does not exist: give an accounting log or a table of jobs"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise SlowpokeError(f"{path} cannot be read: {error}") from None


def _blocks(file: BinaryIO | gzip.GzipFile, ends_whole: list[bool]) -> Iterator[list[str]]:
    """Whole lines of a file, a megabyte at a time; a longer line comes in pieces."""
    rest = b""
    while block := file.read(_BLOCK):
        ends_whole[0] = block.endswith(b"\n")
        block = rest + block
        cut = block.rfind(b"\n") + 1
        if cut == 0 and len(block) < _LONGEST_LINE:
            rest = block
            continue
        cut = cut or len(block)
        rest = block[cut:]
        yield _decoded(block[:cut])
    if rest:
        yield _decoded(rest)


def _decoded(block: bytes) -> list[str]:
    text = block.decode("utf-8", "replace")
    if "\r" in text or "\x00" in text:
        text = text.replace("\r\n", "\n").replace("\x00", "")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _format_of(path: Path, first: str) -> Format:
    """The format that a log's first line shows."""
    low = first.lower()
    if (first.startswith('"') and '"JOB_' in first) or first.startswith('"EVENT'):
        return "lsf"
    if RECORD.match(first):
        return "pbs"
    if ("jobid" in low and "state" in low) or first.count("|") >= 3:
        return "slurm"
    if TableColumns.of(first) is not None:
        return "table"
    fields = first.split()
    if first.startswith(";") or (len(fields) == N_FIELDS and fields[0].lstrip("-").isdigit()):
        return "swf"
    raise SlowpokeError(
        f"{path} begins with {first[:60]!r}, which is no Slurm, PBS, LSF or SWF log and no table "
        "of jobs: name its kind with --format"
    )


def read_log(
    path: str | Path,
    *,
    format: Format | None = None,
    columns: str = "",
    delimiter: str = "",
    application: str = "",
) -> JobLog:
    """Read an accounting log or a table of jobs; packed with gzip if it is.

    Time and memory grow with the number of records; 1,000,000 of sacct's take a few seconds.

    Args:
        path: The file.
        format: Its kind; found out from the first line if not given.
        columns: `--format` of a sacct log without header.
        delimiter: Of a sacct log, if it is unusual.
        application: sacct column that tells applications apart.

    Raises:
        SlowpokeError: No such file, an unknown kind, or not one usable record.
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise SlowpokeError(f"log format {format!r} is unknown: use one of {', '.join(FORMATS)}")
    ends_whole = [True]
    lines = _lines(path, ends_whole)
    first = next(lines, None)
    if first is None:
        raise SlowpokeError(f"{path} is empty: give an accounting log or a table of jobs")
    kind = format or _format_of(path, first[1])
    if kind != "slurm" and (columns or delimiter or application):
        raise SlowpokeError(
            f"columns, delimiter and application column are for sacct logs; this one is {kind}"
        )
    if kind == "table":
        header = TableColumns.of(first[1])
        again = header is not None and first[0] == 1 and path.is_file()
        fast = read_table_fast(path, header) if header is not None and again else None
        if fast is not None:
            return fast
    builder = _read(kind, _again(first, lines), columns, delimiter, application)
    log = builder.build()
    if not ends_whole[0]:
        log.report.notes.append("the last line does not end: the file may be cut off")
    if log.report.n_jobs == 0:
        left_out = {**log.report.rejected, **log.report.skipped}
        why = "; ".join(f"{r.count} x {reason}" for reason, r in left_out.items())
        raise SlowpokeError(f"{path} has no usable record of a job ({why or 'only a header'})")
    return log


def _again(first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest


def _read(
    kind: Format,
    lines: Iterator[tuple[int, str]],
    columns: str,
    delimiter: str,
    application: str,
) -> JobLogBuilder:
    if kind == "slurm":
        return read_slurm(lines, columns=columns, delimiter=delimiter, application=application)
    if kind == "pbs":
        return read_pbs(lines)
    if kind == "lsf":
        return read_lsf(lines)
    return read_swf(lines) if kind == "swf" else read_table(lines)


def schedule_of_log(
    log: JobLog,
    *,
    durations: Durations = "scaled",
    ratio: Ratio = "usage",
    keep_empty: bool = False,
) -> Schedule:
    """The schedule (N, T) of a log's jobs (papers/002, section 7.3). O(n log n).

    Args:
        log: The jobs.
        durations: `scaled`: requested time by the ratio of actual to requested, the paper's way;
            `requested`; `actual`. A job without a limit counts with its actual time.
        ratio: `usage`: of node-hours, as in the authors' code; `time`: of mean times, as in the
            text.
        keep_empty: Keep jobs of no duration (see `schedule_of_jobs`).

    Raises:
        SlowpokeError: An unknown word, or no job with a duration.
    """
    if durations not in get_args(Durations):
        raise SlowpokeError(f"durations {durations!r}: use scaled, requested or actual")
    if ratio not in get_args(Ratio):
        raise SlowpokeError(f"ratio {ratio!r}: use usage or time")
    limited = np.isfinite(log.limit_seconds) & (log.limit_seconds > 0)
    seconds = log.elapsed_seconds
    notes = list(log.report.notes)
    if durations != "actual":
        factor = 1.0
        if durations == "scaled" and limited.any():
            w = log.weight * (log.n_nodes if ratio == "usage" else 1.0)
            actual = float((w * log.elapsed_seconds)[limited].sum())
            requested = float((w * log.limit_seconds)[limited].sum())
            factor = actual / requested if requested > 0 else 0.0  # 0: a table of 0 jobs a row
            notes.append(
                f"requested times are scaled by {factor:.6g}, actual over requested {ratio}"
            )
        if factor > 0:
            seconds = np.where(limited, log.limit_seconds * factor, log.elapsed_seconds)
        n_unlimited = int(np.count_nonzero(~limited))
        if n_unlimited:
            notes.append(f"{n_unlimited} jobs without a limit count with their actual time")
    n_over = int(np.count_nonzero(log.overran & limited))
    if n_over:
        by = np.median((log.elapsed_seconds - log.limit_seconds)[log.overran & limited])
        notes.append(f"{n_over} jobs ran past their limit, by {by:g} s in the median")
    return schedule_of_jobs(
        log.n_nodes,
        seconds / 3600.0,
        log.weight,
        log.application,
        log.applications,
        notes,
        keep_empty,
    )
