"""SWF: the Standard Workload Format 2.2 of the Parallel Workloads Archive.

18 numbers a line, -1 where something is not known, comments after `;`. Sizes are processors; the
header's MaxNodes and MaxProcs tell how many make a node. Status 0 is any failure, the program's
own included: good for the mix of jobs, not for a failure rate.
"""

import math
import re
from collections.abc import Iterable

from torch_slowpoke.efficiency.logs.joblog import STATE_CODE, JobLogBuilder, RowError

_HEADER = re.compile(r";\s*(MaxNodes|MaxProcs|UnixStartTime)\s*:\s*(\d{1,15})\b", re.ASCII)
N_FIELDS = 18
_STATES = {0: "FAILED", 1: "COMPLETED", 5: "CANCELLED", -1: "UNKNOWN"}


def read_swf(lines: Iterable[tuple[int, str]]) -> JobLogBuilder:
    """Read an SWF trace.

    Args:
        lines: Line number and line, blank lines left out.
    """
    builder = JobLogBuilder("swf")
    header: dict[str, int] = {}
    for number, line in lines:
        builder.report.n_lines += 1
        if line.startswith(";"):
            match = _HEADER.match(line)
            if match:
                header[match.group(1)] = int(match.group(2))
            builder.report.skip("comment", number)
            continue
        try:
            _read_row(builder, number, line, header)
        except RowError as error:
            builder.report.reject(str(error), number)
    per_node = _processors_per_node(header)
    builder.report.notes.append(
        f"SWF: {per_node:g} processors make a node (MaxProcs/MaxNodes)"
        if per_node > 1
        else "SWF: sizes are processors, taken for nodes"
    )
    return builder


def _processors_per_node(header: dict[str, int]) -> float:
    nodes, processors = header.get("MaxNodes", 0), header.get("MaxProcs", 0)
    return processors / nodes if nodes > 0 and processors > nodes else 1.0


def _read_row(builder: JobLogBuilder, number: int, line: str, header: dict[str, int]) -> None:
    fields = line.split()
    if len(fields) != N_FIELDS:
        raise RowError(
            "fewer than 18 fields: the line is cut off"
            if len(fields) < N_FIELDS
            else "more than 18 fields"
        )
    try:
        values = [float(f) for f in fields]
    except ValueError:
        raise RowError("a field is not a number") from None
    if not all(math.isfinite(v) for v in values):
        raise RowError("a field is not a number")
    job, submit, wait, run, allocated = values[:5]
    status = int(values[10])
    if status in (2, 3, 4):
        builder.report.skip("part of a job that has a line of its own", number)
        return
    if status not in _STATES:
        raise RowError("status is none of -1 .. 5")
    if run < 0:
        raise RowError("run time is not known" if run == -1 else "run time is negative")
    processors = allocated if allocated > 0 else values[7]
    if processors <= 0 or processors != int(processors):
        raise RowError("number of processors is not known")
    start = header.get("UnixStartTime", 0) + submit + max(wait, 0.0) if submit >= 0 else math.nan
    builder.add(
        number,
        math.ceil(processors / _processors_per_node(header)),
        run,
        values[8] if values[8] >= 0 else math.nan,
        start if "UnixStartTime" in header else math.nan,
        start + run if "UnixStartTime" in header else math.nan,
        STATE_CODE[_STATES[status]],
        identity=(f"{job:.0f}", f"{submit}"),
    )
