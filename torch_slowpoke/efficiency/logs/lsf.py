"""LSF: JOB_FINISH records of lsb.acct.

Fields are separated by blanks, texts are quoted, a quote within is doubled. The numbers of hosts
asked for and used stand before their lists, so that a cut line shows. LSF has no exit reason for a
lost node: a failure rate needs a join with the hosts' own log.
"""

import math
import re
from collections.abc import Iterable

from torch_slowpoke.efficiency.logs.fields import check_times
from torch_slowpoke.efficiency.logs.joblog import STATE_CODE, JobLogBuilder, RowError

_TOKEN = re.compile(r'"((?:[^"]|"")*)"|([^\s"]+)|(")')
_N_RUSAGE = 19

# exitInfo (lsbatch.h, TERM_*): what LSF itself says about the end.
_TERMINATED = {
    5: "TIMEOUT",
    6: "DEADLINE",
    12: "TIMEOUT",
    14: "CANCELLED",
    15: "CANCELLED",
    16: "OUT_OF_MEMORY",
    21: "REQUEUED",
    22: "REQUEUED",
}


class _Tokens:
    """The fields of a record, one after another; quoted and bare ones are told apart."""

    def __init__(self, line: str) -> None:
        self._fields: list[tuple[bool, str]] = []
        for match in _TOKEN.finditer(line):
            quoted, bare, stray = match.groups()
            if stray:
                raise RowError("a quoted text does not end: the line is cut off")
            self._fields.append((True, quoted) if bare is None else (False, bare))
        self._next = 0

    def _take(self, quoted: bool) -> str:
        if self._next >= len(self._fields):
            raise RowError("fewer fields than a JOB_FINISH record: the line is cut off")
        is_quoted, text = self._fields[self._next]
        self._next += 1
        if is_quoted != quoted:
            raise RowError("a text stands where a number should, or a number where a text should")
        return text

    def text(self) -> str:
        return self._take(True)

    def number(self) -> float:
        try:
            value = float(self._take(False))
        except ValueError:
            raise RowError("a number is not one") from None
        if not math.isfinite(value):
            raise RowError("a number is not one")
        return value

    def texts(self, n: float) -> list[str]:
        if not 0 <= n <= len(self._fields):
            raise RowError("fewer fields than a JOB_FINISH record: the line is cut off")
        return [self.text() for _ in range(int(n))]


def read_lsf(lines: Iterable[tuple[int, str]]) -> JobLogBuilder:
    """Read lsb.acct.

    Args:
        lines: Line number and line, blank lines left out.
    """
    builder = JobLogBuilder("lsf")
    for number, line in lines:
        builder.report.n_lines += 1
        if not line.startswith('"JOB_FINISH"'):
            if line.startswith('"') and '"' in line[1:]:
                builder.report.skip("event other than JOB_FINISH", number)
            else:
                builder.report.reject("not an LSF event", number)
            continue
        try:
            _read_row(builder, number, line)
        except RowError as error:
            builder.report.reject(str(error), number)
    builder.report.notes.append(
        "LSF does not say that a node failed: its log gives node-hours and jobs, not a failure rate"
    )
    return builder


def _read_row(builder: JobLogBuilder, number: int, line: str) -> None:
    tokens = _Tokens(line)
    tokens.texts(2)  # event, version
    end = tokens.number()
    job = tokens.number()
    for _ in range(6):  # user, options, processors, submitted, begin, deadline
        tokens.number()
    start = tokens.number()
    tokens.texts(11)  # user name .. job file
    tokens.texts(tokens.number())  # hosts asked for
    hosts = {h.rpartition("*")[2] for h in tokens.texts(tokens.number())}
    status = tokens.number()
    tokens.number()  # host factor
    tokens.texts(2)  # job name, command
    for _ in range(_N_RUSAGE):
        tokens.number()
    tokens.texts(2)  # mail user, project
    tokens.number()  # exit status
    tokens.number()  # processors
    tokens.texts(2)  # login shell, time event
    index = tokens.number()
    if start == 0:
        builder.report.skip("no time used: the job never ran", number)
        return
    check_times(start, end, max(0.0, end - start))
    builder.add(
        number,
        float(len(hosts)),
        end - start,
        math.nan,
        start,
        end,
        _state(status, _exit_info(tokens)),
        identity=(str(int(job)), str(int(index))),
    )


def _exit_info(tokens: _Tokens) -> int:
    """The termination reason; 0 in versions that do not write it."""
    try:
        tokens.number()  # memory
        tokens.number()  # swap
        tokens.texts(4)  # spool files, reservation, service class
        tokens.number()  # exception mask
        tokens.text()
        return int(tokens.number())
    except RowError:
        return 0


def _state(status: float, exit_info: int) -> int:
    if status == 64:
        return STATE_CODE["COMPLETED"]
    if status != 32:
        raise RowError("job status is neither DONE (64) nor EXIT (32)")
    return STATE_CODE[_TERMINATED.get(exit_info, "FAILED")]
