"""Slurm: the output of `sacct --parsable2`, with or without its header.

Ask for it with SACCT_COMMAND. `--duplicates` is a must: without it a run that a node failure ended
and that was requeued disappears from the log (sacct shows the newest record of a job only).
Fields and their odd values: sacct(1), slurm 26.11.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.logs.fields import (
    SLACK_SECONDS,
    Memo,
    check_times,
    date_seconds,
    dates_seconds,
    elapsed_seconds,
    limit_minutes,
    limit_seconds,
    node_count,
)
from torch_slowpoke.efficiency.logs.joblog import STATE_CODE, JobLogBuilder, RowError

SACCT_FORMAT = (
    "JobIDRaw,JobID,Cluster,Partition,Account,Submit,Start,End,ElapsedRaw,Elapsed,TimelimitRaw,"
    "Timelimit,NNodes,AllocNodes,State,ExitCode,Restarts,FailedNode,NodeList,JobName"
)
SACCT_COMMAND = (
    "sacct --allusers --allocations --duplicates --parsable2 --starttime S --endtime E "
    f"--format={SACCT_FORMAT}"
)
# Headerless logs are recognised by their number of columns: ours, and that of APEL's parsers.
KNOWN_FORMATS = (
    SACCT_FORMAT,
    "JobID,JobName,User,Group,Start,End,Elapsed,TotalCPU,Partition,NCPUS,NNodes,NodeList,MaxRSS,"
    "MaxVMSize,State",
)
# Columns of free text, in which the delimiter may occur.
_FREE_TEXT = ("jobname", "comment", "admincomment", "systemcomment", "workdir", "submitline")

_STATES = {
    **{s: STATE_CODE[s] for s in STATE_CODE if s != "UNKNOWN"},
    "SUSPENDED": STATE_CODE["RUNNING"],
    "COMPLETING": STATE_CODE["RUNNING"],
    "RESIZING": STATE_CODE["RUNNING"],
    "STOPPED": STATE_CODE["RUNNING"],
    "SIGNALING": STATE_CODE["RUNNING"],
    "STAGE_OUT": STATE_CODE["RUNNING"],
    "SPECIAL_EXIT": STATE_CODE["REQUEUED"],
    "LAUNCH_FAILED": STATE_CODE["BOOT_FAIL"],
    "RECONFIG_FAIL": STATE_CODE["BOOT_FAIL"],
}
_SHORT = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "DL": "DEADLINE", "F": "FAILED",
    "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PR": "PREEMPTED", "R": "RUNNING",
    "RQ": "REQUEUED", "RV": "REVOKED", "TO": "TIMEOUT", "S": "SUSPENDED", "CG": "COMPLETING",
    "PD": "PENDING", "CF": "CONFIGURING",
}  # fmt: skip
_NOT_STARTED = ("PENDING", "CONFIGURING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD")
_WAITING = -1.0
_BATCH = 2000  # small, so that one odd line sends few to the slow way
_FAILED = tuple(STATE_CODE[s] for s in ("NODE_FAIL", "BOOT_FAIL", "FAILED"))


def state_code(text: str) -> float:
    """Index into STATES of `CANCELLED by 1000`, `NODE_FAIL,REQUEUED`, `CANCELLED+`; -1: waiting."""
    words = [w.split(" by ")[0].strip().rstrip("+") for w in text.split(",")]
    words = [_SHORT.get(w, w) for w in words]
    if "NODE_FAIL" in words:  # with flags: what ended the run, before what followed
        return STATE_CODE["NODE_FAIL"]
    word = words[0]
    if word in _NOT_STARTED:
        return _WAITING
    if word not in _STATES:
        raise RowError("state is missing" if word == "" else "state is not one of Slurm's")
    return _STATES[word]


class Columns:
    """Where sacct's fields stand in a line."""

    def __init__(self, names: Sequence[str], application: str = "") -> None:
        self.names = [n.split("(")[0].split("%")[0].strip().lower() for n in names]
        self.n = len(self.names)
        self.identity = [i for n in ("cluster", "submit") if (i := self._find(n)) >= 0]
        self.job = self._find("jobidraw", "jobid")
        self.nodes = self._find("allocnodes", "nnodes")
        self.elapsed = self._find("elapsedraw", "elapsed")
        self.limit = self._find("timelimitraw", "timelimit")
        self.raw_limit = "timelimitraw" in self.names
        self.state = self._find("state")
        self.start, self.end = self._find("start"), self._find("end")
        self.hosts, self.failed = self._find("nodelist"), self._find("failednode")
        self.application = self._find(application.lower()) if application else -1
        if application and self.application < 0:
            raise SlowpokeError(f"the log has no column {application!r}: it has {', '.join(names)}")
        self.last_used = max(
            self.job, self.nodes, self.elapsed, self.limit, self.state, self.start, self.end,
            self.hosts, self.failed, self.application, *self.identity,
        )  # fmt: skip
        free = [i for i, n in enumerate(self.names) if n in _FREE_TEXT]
        self.free_text = free[0] if len(free) == 1 else -1
        # Free text at the end swallows the delimiters in it.
        self.most_splits = self.n - 1 if self.free_text == self.n - 1 else -1

    def _find(self, *names: str) -> int:
        return next((self.names.index(n) for n in names if n in self.names), -1)

    def check(self) -> None:
        """Refuse a log that cannot tell node-hours or how jobs ended."""
        missing = [
            name
            for name, at in (
                ("JobID", self.job),
                ("State", self.state),
                ("NNodes", self.nodes),
                ("Elapsed", self.elapsed),
            )
            if at < 0
        ]
        if missing:
            raise SlowpokeError(
                f"the sacct log has no column {', '.join(missing)}: ask for it with {SACCT_COMMAND}"
            )

    def split(self, line: str, delimiter: str) -> list[str]:
        """Fields of a line; surplus delimiters belong to the one column of free text."""
        fields = line.split(delimiter)
        surplus = len(fields) - self.n
        if surplus == 0:
            return fields
        if surplus == 1 and fields[-1] == "":  # sacct --parsable ends each line with a delimiter
            return fields[:-1]
        if surplus < 0:
            # The last field may be cut off within; all that are used must stand before it.
            if self.last_used >= len(fields) - 1:
                raise RowError("fewer fields than columns: the line is cut off")
            return fields
        if self.free_text < 0:
            raise RowError("more fields than columns")
        at = self.free_text
        return [
            *fields[:at],
            delimiter.join(fields[at : at + surplus + 1]),
            *fields[at + surplus + 1 :],
        ]


def _is_header(line: str) -> bool:
    low = line.lower()
    return "jobid" in low and "state" in low


def _columns_of_header(line: str, delimiter: str, application: str) -> tuple[Columns, str]:
    delimiter = delimiter or max("|;,\t", key=line.count)
    names = line.lstrip("# ").split(delimiter)
    return Columns(names[:-1] if names[-1] == "" else names, application), delimiter


def _columns_by_number(
    lines: Sequence[str], delimiter: str, given: str, application: str
) -> Columns:
    """The columns of a log without header, by what most of its lines have."""
    if given:
        return Columns(given.replace(delimiter, ",").split(","), application)
    counts = Counter(len(line.split(delimiter)) for line in lines)
    n = counts.most_common(1)[0][0]
    all_end_so = all(line.endswith(delimiter) for line in lines)
    for known in KNOWN_FORMATS:
        columns = Columns(known.split(","), application)
        swallows = columns.most_splits > 0 and n > columns.n
        if n == columns.n or (n == columns.n + 1 and all_end_so) or swallows:
            return columns
    raise SlowpokeError(
        f"the log has {n} columns and no header: name them with --columns, or print it again "
        f"with {SACCT_COMMAND}"
    )


def read_slurm(
    lines: Iterable[tuple[int, str]],
    *,
    columns: str = "",
    delimiter: str = "",
    application: str = "",
) -> JobLogBuilder:
    """Read sacct's output. O(n) time; memory for numbers only.

    Args:
        lines: Line number and line, blank lines left out.
        columns: `--format` of a log without header, comma-separated.
        delimiter: If it is not `|` and the header does not show it.
        application: Column that tells applications apart, like Account or JobName.

    Raises:
        SlowpokeError: No header and an unknown number of columns, fixed-width output, or no
            column for the job, the state, the nodes or the elapsed time.
    """
    builder = JobLogBuilder("slurm")
    lines = iter(lines)
    batch = list(islice(lines, _BATCH))
    if not batch:
        return builder
    header = ""
    if _is_header(batch[0][1]):
        header = batch.pop(0)[1]
        where, delimiter = _columns_of_header(header, delimiter, application)
        builder.report.n_lines += 1
    else:
        delimiter = delimiter or "|"
        first = [line for _, line in batch]
        where = _columns_by_number(first, delimiter, columns, application)
    reader = _RowReader(where, delimiter, header, builder)
    while batch:
        builder.report.n_lines += len(batch)
        reader.read_many(batch)
        batch = list(islice(lines, _BATCH))
    return builder


class _RowReader:
    """Reads records into the builder: many at a time where all is well, one by one where not."""

    def __init__(self, where: Columns, delimiter: str, header: str, builder: JobLogBuilder) -> None:
        where.check()
        self.where, self.delimiter, self.header = where, delimiter, header
        self.builder = builder
        self.elapsed = Memo(elapsed_seconds)
        self.limit = Memo(limit_minutes if where.raw_limit else limit_seconds)
        self.nodes = Memo(node_count)
        self.state = Memo(state_code)
        if "submit" not in where.names:
            builder.report.notes.append(
                "no Submit column: runs of a requeued job are told apart by their start alone"
            )

    def read_many(self, batch: list[tuple[int, str]]) -> None:
        """Read a batch of lines, by columns if they have no oddity and row by row if they do."""
        odd = batch if not self._can_read_columns() else self._read_columns(batch)
        for number, line in odd:
            if line == self.header:
                self.builder.report.skip("header", number)
                continue
            try:
                self.read(number, line)
            except RowError as error:
                self.builder.report.reject(str(error), number)

    def _can_read_columns(self) -> bool:
        return self.where.start >= 0 and self.where.end >= 0

    def _read_columns(self, batch: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Add the plain rows of a batch; returns the lines that are left for `read`.

        Plain: an allocation that ran and ended, with as many fields as there are columns. It
        must come to the same as `read` on every line; a test holds the two together.
        """
        w = self.where
        rows = [line.split(self.delimiter, w.most_splits) for _, line in batch]
        plain = [len(f) == w.n and f[w.end][10:11] == "T" and "." not in f[w.job] for f in rows]
        odd: list[tuple[int, str]] = []
        if not all(plain):
            odd = [
                numbered for numbered, is_plain in zip(batch, plain, strict=True) if not is_plain
            ]
            rows = [fields for fields, is_plain in zip(rows, plain, strict=True) if is_plain]
        if not rows:
            return odd
        cells = list(zip(*rows, strict=True))
        try:
            state = np.array(list(map(self.state.__getitem__, cells[w.state])))
            columns = [
                np.array(list(map(self.nodes.__getitem__, cells[w.nodes]))),
                np.array(list(map(self.elapsed.__getitem__, cells[w.elapsed]))),
                np.array(list(map(self.limit.__getitem__, cells[w.limit])))
                if w.limit >= 0
                else np.full(len(rows), np.nan),
                dates_seconds(cells[w.start]),
                dates_seconds(cells[w.end]),
                np.ones(len(rows)),
            ]
        except RowError:
            return batch
        nodes, elapsed, _, start, end, _ = columns
        sound = (
            (state >= 0).all()
            and (state != STATE_CODE["RUNNING"]).all()
            and (nodes >= 1).all()
            and (elapsed > 0).all()
            and (elapsed <= end - start + SLACK_SECONDS).all()
            and (start <= end).all()
            and all(job[:1].isdigit() for job in cells[w.job])
        )
        if not sound:
            return batch
        codes = state.astype(np.uint8)
        failed = [
            (
                int(i),
                cells[w.hosts][i] if w.hosts >= 0 else "",
                cells[w.failed][i] if w.failed >= 0 else "",
            )
            for i in np.flatnonzero(np.isin(codes, _FAILED))
        ]
        added = self.builder.add_sound(
            columns,
            codes,
            [cells[i] for i in (w.job, *w.identity)],
            failed,
            cells[w.application] if w.application >= 0 else None,
        )
        return odd if added else batch

    def read(self, number: int, line: str) -> None:
        w = self.where
        fields = w.split(line, self.delimiter)
        if len(fields) < w.n:
            self.builder.report.repair("the last columns are missing, none that is used", number)
        job = fields[w.job]
        if "." in job:
            self.builder.report.skip("step of a job", number)
            return
        if not job[:1].isdigit():
            raise RowError("job id is not a number")
        state = int(self.state[fields[w.state]])
        if state < 0:
            self.builder.report.skip("waiting: not started yet", number)
            return
        elapsed = self.elapsed[fields[w.elapsed]]
        start = date_seconds(fields[w.start]) if w.start >= 0 else math.nan
        end = date_seconds(fields[w.end]) if w.end >= 0 else math.nan
        check_times(start, end, elapsed)
        failed = state in _FAILED
        self.builder.add(
            number,
            self.nodes[fields[w.nodes]],
            elapsed,
            self.limit[fields[w.limit]] if w.limit >= 0 else math.nan,
            start,
            end,
            state,
            identity=(job, *(fields[i] for i in w.identity)),
            hosts=fields[w.hosts] if failed and w.hosts >= 0 else "",
            failed_hosts=fields[w.failed] if failed and w.failed >= 0 else "",
            application=fields[w.application] if w.application >= 0 else "",
        )
