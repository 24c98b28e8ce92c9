"""PBS: accounting files of OpenPBS and Torque (`MM/DD/YYYY HH:MM:SS;TYPE;job;key=value ...`).

Records of type E (end) and R (rerun: no E follows) carry usage; the others are queue events.
Exit codes below zero are the server's own: openpbs src/include/job.h.
"""

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime

from torch_slowpoke.efficiency.logs.fields import check_times, duration_seconds
from torch_slowpoke.efficiency.logs.joblog import STATE_CODE, JobLogBuilder, RowError

# A file name and a colon before the date is what grep puts there.
RECORD = re.compile(r"(?:[^;\s]+:)?(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d);(\w);([^;]*);(.*)")
_PAIR = re.compile(r"(?:^|\s)([A-Za-z_][\w.]*)=(\S*)")
_HOST = re.compile(r"[(+]*([^/:()+]+)[^+]*")

_NODE_EVENTS = (-4, -5, -6, -20)  # MOM restarted, three ways; mother superior lost
_RERUN = (-3, -11, -14)
_KILLED = (256 + 9, 256 + 15)


def _state(kind: str, exit_status: str) -> int:
    try:
        code = int(exit_status)
    except ValueError:
        if kind == "R":
            return STATE_CODE["REQUEUED"]
        raise RowError("exit status is missing or not a number") from None
    if code in _NODE_EVENTS:
        return STATE_CODE["NODE_FAIL"]
    if kind == "R" or code in _RERUN:
        return STATE_CODE["REQUEUED"]
    if code == -29:
        return STATE_CODE["TIMEOUT"]
    if code == -27:
        return STATE_CODE["OUT_OF_MEMORY"]
    if code in _KILLED:
        return STATE_CODE["CANCELLED"]
    return STATE_CODE["COMPLETED" if code == 0 else "FAILED"]


def _hosts(text: str) -> set[str]:
    return {m.group(1) for part in text.split("+") if (m := _HOST.match(part))}


def _nodes(values: dict[str, str]) -> float:
    for key in ("Resource_List.nodect", "unique_node_count"):
        text = values.get(key, "")
        if text.isascii() and text.isdigit() and len(text) < 10:
            return float(text)
    n = len(_hosts(values.get("exec_host", "")))
    if n == 0:
        raise RowError("no number of nodes: neither nodect nor exec_host")
    return float(n)


def _epoch(values: dict[str, str], key: str) -> float:
    text = values.get(key, "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else math.nan


def read_pbs(lines: Iterable[tuple[int, str]]) -> JobLogBuilder:
    """Read PBS accounting records.

    Args:
        lines: Line number and line, blank lines left out.
    """
    builder = JobLogBuilder("pbs")
    for number, line in lines:
        builder.report.n_lines += 1
        try:
            _read_row(builder, number, line)
        except RowError as error:
            builder.report.reject(str(error), number)
    builder.report.notes.append(
        "PBS: exit codes of a MOM that restarted (-4, -5, -6) or was lost (-20) are node failures"
    )
    return builder


def _read_row(builder: JobLogBuilder, number: int, line: str) -> None:
    match = RECORD.fullmatch(line)
    if match is None:
        raise RowError("not a PBS accounting record")
    stamp, kind, job, text = match.groups()
    if kind not in "ER":
        builder.report.skip("queue event without usage", number)
        return
    values = dict(_PAIR.findall(text))
    state = _state(kind, values.get("Exit_status", ""))
    start, end = _epoch(values, "start"), _epoch(values, "end")
    walltime = values.get("resources_used.walltime", "")
    if walltime:
        elapsed = duration_seconds(walltime, "walltime")
    elif kind == "R" and not math.isnan(start):
        elapsed = _record_seconds(stamp) - start
        end = _record_seconds(stamp)
    else:
        elapsed = end - start
    if math.isnan(elapsed):
        raise RowError("neither walltime nor start and end")
    check_times(start, end, elapsed)
    limit = values.get("Resource_List.walltime", "")
    builder.add(
        number,
        _nodes(values),
        elapsed,
        duration_seconds(limit, "walltime limit") if limit else math.nan,
        start,
        end,
        state,
        # Duplicate R records of one run differ by seconds in the end (openpbs issue 1566).
        identity=(job, kind) if kind == "R" else (job,),
        hosts=values.get("exec_host", "") if state == STATE_CODE["NODE_FAIL"] else "",
    )


def _record_seconds(stamp: str) -> float:
    try:
        return datetime.strptime(stamp, "%m/%d/%Y %H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise RowError("not a PBS accounting record") from None
