"""What an accounting log tells about jobs: nodes, time, limit, end state; and what was refused.

Nothing is dropped in silence: a record that is not a job's (a step, a queue event) is counted as
skipped, one that contradicts itself or is cut off is counted as rejected, each by reason and with
the numbers of its first lines.
"""

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from torch_slowpoke.efficiency.stable import FloatArray

# Slurm's words; the other formats are translated into them.
STATES = (
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "NODE_FAIL",
    "BOOT_FAIL",
    "OUT_OF_MEMORY",
    "DEADLINE",
    "PREEMPTED",
    "REQUEUED",
    "REVOKED",
    "RUNNING",
    "UNKNOWN",
)
STATE_CODE = {state: code for code, state in enumerate(STATES)}
_NO_RUN_IS_FINE = (STATE_CODE["NODE_FAIL"], STATE_CODE["BOOT_FAIL"])

_N_EXAMPLES = 3


class RowError(Exception):
    """This line cannot be used; the message is the reason under which it is counted."""


@dataclass
class Reason:
    """Why lines were left out, how many, and the first of them.

    Attributes:
        count: Number of lines.
        lines: Line numbers of the first three, from 1.
    """

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        """Count one more line."""
        self.count += 1
        if len(self.lines) < _N_EXAMPLES:
            self.lines.append(line)


@dataclass
class ReadReport:
    """How the lines of a log were used.

    Attributes:
        format: `slurm`, `pbs`, `lsf`, `swf` or `table`.
        n_lines: Lines that are not blank, headers and comments included.
        n_jobs: Records that are used.
        skipped: Lines that are no finished or running allocation, by reason.
        rejected: Lines that are cut off, contradictory or unreadable, by reason.
        repaired: Lines that are used in spite of a fault, by fault.
        notes: What a reader of the result should know.
    """

    format: str
    n_lines: int = 0
    n_jobs: int = 0
    skipped: dict[str, Reason] = field(default_factory=dict)
    rejected: dict[str, Reason] = field(default_factory=dict)
    repaired: dict[str, Reason] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def n_skipped(self) -> int:
        """Lines left out because they are not a job's."""
        return sum(r.count for r in self.skipped.values())

    @property
    def n_rejected(self) -> int:
        """Lines left out because they cannot be believed."""
        return sum(r.count for r in self.rejected.values())

    def skip(self, reason: str, line: int) -> None:
        """Count a line that is not a job's."""
        self.skipped.setdefault(reason, Reason()).add(line)

    def reject(self, reason: str, line: int) -> None:
        """Count a line that cannot be believed."""
        self.rejected.setdefault(reason, Reason()).add(line)

    def repair(self, fault: str, line: int) -> None:
        """Count a line that is used in spite of a fault."""
        self.repaired.setdefault(fault, Reason()).add(line)

    def to_dict(self) -> dict[str, Any]:
        """JSON fields."""

        def reasons(of: dict[str, Reason]) -> dict[str, Any]:
            return {k: {"count": r.count, "first_lines": r.lines} for k, r in sorted(of.items())}

        return {
            "format": self.format,
            "n_lines": self.n_lines,
            "n_jobs": self.n_jobs,
            "n_skipped": self.n_skipped,
            "n_rejected": self.n_rejected,
            "skipped": reasons(self.skipped),
            "rejected": reasons(self.rejected),
            "repaired": reasons(self.repaired),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class JobLog:
    """The runs of a log's jobs, one row per allocation (a requeued job has several).

    Attributes:
        n_nodes: float64 (n,), nodes held.
        elapsed_seconds: float64 (n,), time held, without suspension.
        limit_seconds: float64 (n,), requested time; NaN unknown, infinite unlimited.
        start_seconds: float64 (n,), seconds since 1970 in the log's own clock; NaN unknown.
        end_seconds: float64 (n,), likewise; NaN unknown or still running.
        state: uint8 (n,), index into `STATES`.
        hosts: Text of the node list of rows that failed, by row; only where the log has it.
        failed_hosts: Text of the failed node of rows that lost one, by row, where the log has it.
        application: int64 (n,), index into `applications`.
        applications: Names.
        weight: float64 (n,), jobs that a row stands for: 1 but in tables of counts.
        report: How the lines were used.
    """

    n_nodes: FloatArray
    elapsed_seconds: FloatArray
    limit_seconds: FloatArray
    start_seconds: FloatArray
    end_seconds: FloatArray
    state: npt.NDArray[np.uint8]
    hosts: dict[int, str]
    failed_hosts: dict[int, str]
    application: npt.NDArray[np.int64]
    applications: tuple[str, ...]
    weight: FloatArray
    report: ReadReport

    @property
    def node_hours(self) -> FloatArray:
        """Exposure of each row in node-hours, (n,)."""
        return self.weight * self.n_nodes * self.elapsed_seconds / 3600.0

    @property
    def exposure_node_hours(self) -> float:
        """Node-hours of all rows, whatever their end."""
        return float(self.node_hours.sum())

    def count(self, state: str) -> int:
        """Rows that ended in this state."""
        return int(np.count_nonzero(self.state == STATE_CODE[state]))

    @property
    def by_state(self) -> dict[str, int]:
        """Rows by end state, for states that occur."""
        return {s: n for s in STATES if (n := self.count(s))}

    @property
    def overran(self) -> npt.NDArray[np.bool_]:
        """Rows that ran past their limit, (n,): killed with a grace period, never clipped."""
        return self.elapsed_seconds > self.limit_seconds


class JobLogBuilder:
    """Collects rows; refuses what contradicts itself, counts what never ran, drops duplicates."""

    def __init__(self, format: str, keep_unused: bool = False) -> None:
        self._keep_unused = keep_unused
        self.report = ReadReport(format)
        self._columns = tuple(array("d") for _ in range(6))
        self._state = array("B")
        self._application = array("q")
        self._applications: dict[str, int] = {}
        self._hosts: dict[int, str] = {}
        self._failed_hosts: dict[int, str] = {}
        self._seen: set[int] = set()
        self._finished: set[int] = set()
        self._running: dict[int, tuple[int, int]] = {}
        self._superseded: list[tuple[int, int]] = []

    def add(
        self,
        line: int,
        n_nodes: float,
        elapsed_seconds: float,
        limit_seconds: float,
        start_seconds: float,
        end_seconds: float,
        state: int,
        *,
        identity: tuple[str, ...] = (),
        hosts: str = "",
        failed_hosts: str = "",
        application: str = "",
        weight: float = 1.0,
    ) -> None:
        """Add one run of a job.

        Args:
            line: Its line number.
            n_nodes: Nodes held.
            elapsed_seconds: Time held.
            limit_seconds: NaN unknown, infinite unlimited.
            start_seconds: NaN unknown.
            end_seconds: NaN unknown or still running.
            state: Index into `STATES`.
            identity: What tells this run from all others; empty if the log has no job numbers.
            hosts: Node list as text.
            failed_hosts: Failed node as text.
            application: Name.
            weight: Jobs that the row stands for.
        """
        if elapsed_seconds == 0 and state not in _NO_RUN_IS_FINE and not self._keep_unused:
            self.report.skip("no time used: the job never ran", line)
            return
        if elapsed_seconds < 0:
            self.report.reject("the job ends before it starts", line)
            return
        if elapsed_seconds > 0 and n_nodes < 1:
            self.report.reject("time used on no node", line)
            return
        row = len(self._state)
        if identity:
            run = hash((*identity, 0.0 if math.isnan(start_seconds) else start_seconds))
            # NaN is not equal to itself, nor is its hash
            this = hash((run, 0.0 if math.isnan(end_seconds) else end_seconds, state))
            if state == STATE_CODE["RUNNING"]:
                this = hash((this, elapsed_seconds))
            if this in self._seen:
                self.report.skip("duplicate of an earlier record", line)
                return
            self._seen.add(this)
            if state == STATE_CODE["RUNNING"]:
                before = self._running.get(run)
                if before is not None:  # dumps of two days: the later one has run longer
                    self._superseded.append(before)
                self._running[run] = (row, line)
            else:
                self._finished.add(run)
        values = (n_nodes, elapsed_seconds, limit_seconds, start_seconds, end_seconds, weight)
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)
        self._state.append(state)
        self._application.append(
            self._applications.setdefault(application, len(self._applications))
        )
        if hosts:
            self._hosts[row] = hosts
        if failed_hosts:
            self._failed_hosts[row] = failed_hosts

    def add_sound(
        self,
        columns: Sequence[FloatArray],
        state: npt.NDArray[np.uint8],
        identities: Sequence[Sequence[str]],
        failed: Iterable[tuple[int, str, str]],
        applications: Iterable[str] | None = None,
    ) -> bool:
        """Add many finished runs at once, as `add` would; False, and nothing added, if it cannot.

        Args:
            columns: Nodes, elapsed, limit, start, end, weight, each float64 (n,), all known and
                without fault.
            state: uint8 (n,), none still running.
            identities: What tells runs apart, by column, n each.
            failed: Row, node list and failed node of the rows that failed.
            applications: n names.
        """
        runs = list(map(hash, zip(*identities, columns[3].tolist(), strict=True)))
        these = list(map(hash, zip(runs, columns[4].tolist(), state.tolist(), strict=True)))
        fresh = set(these)
        if len(fresh) != len(these) or not self._seen.isdisjoint(fresh):
            return False
        self._seen |= fresh
        self._finished.update(runs)
        row = len(self._state)
        for column, values in zip(self._columns, columns, strict=True):
            column.frombytes(values.tobytes())
        self._state.frombytes(state.tobytes())
        known = self._applications
        if applications is None:
            code = known.setdefault("", len(known))
            self._application.frombytes(np.full(state.size, code, dtype=np.int64).tobytes())
        else:
            self._application.extend(known.setdefault(a, len(known)) for a in applications)
        for i, hosts, failed_hosts in failed:
            if hosts:
                self._hosts[row + i] = hosts
            if failed_hosts:
                self._failed_hosts[row + i] = failed_hosts
        return True

    def build(self) -> JobLog:
        """The rows as arrays; a running record gives way to a finished one of the same run."""
        keep = np.ones(len(self._state), dtype=np.bool_)
        for run, (row, line) in self._running.items():
            if run in self._finished:
                keep[row] = False
                self.report.skip("still running, and finished in another record", line)
        for row, line in self._superseded:
            keep[row] = False
            self.report.skip("still running, and in another record for longer", line)
        new_row = np.cumsum(keep) - 1
        columns = [np.frombuffer(c, dtype=np.float64)[keep] for c in self._columns]
        self.report.n_jobs = int(keep.sum())
        return JobLog(
            n_nodes=columns[0],
            elapsed_seconds=columns[1],
            limit_seconds=columns[2],
            start_seconds=columns[3],
            end_seconds=columns[4],
            state=np.frombuffer(self._state, dtype=np.uint8)[keep],
            hosts={int(new_row[r]): h for r, h in self._hosts.items() if keep[r]},
            failed_hosts={int(new_row[r]): h for r, h in self._failed_hosts.items() if keep[r]},
            application=np.frombuffer(self._application, dtype=np.int64)[keep],
            applications=tuple(self._applications) or ("",),
            weight=columns[5],
            report=self.report,
        )
