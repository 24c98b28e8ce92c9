"""The failure rate R0 of a machine, from its log: an estimate, its interval, and its assumptions.

Failures per node-hour are k/U whatever ended the other runs: successes, time limits and
cancellations are right-censored observations of an exponential law (papers/002, section 7.2.1 and
the appeal of section 8 to measure it). k counts node failures: NODE_FAIL is the lower bound; the
upper one adds nodes that did not boot and programs that failed on a node while it failed.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.logs.joblog import STATE_CODE, JobLog
from torch_slowpoke.efficiency.stable import FloatArray

SCHEMA = "slowpoke.efficiency.rate/1"

MERGE_SECONDS = 600.0
_MOST_FAILURES = 10**12
_MOST_MONTHS = 1200
_MOST_HOSTS = 200_000  # more than any machine has
_RANGE = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)


@dataclass(frozen=True)
class RateInterval:
    """A rate with its exact (Garwood) confidence interval.

    Attributes:
        n_failures: k.
        exposure_node_hours: U.
        low: Lower end in failures per node-hour; 0 if nothing failed.
        high: Upper end.
        confidence: Of the two-sided interval, such as 0.95.
    """

    n_failures: int
    exposure_node_hours: float
    low: float
    high: float
    confidence: float

    @property
    def rate(self) -> float:
        """k/U in failures per node-hour."""
        return self.n_failures / self.exposure_node_hours

    def draws(self, n: int, seed: int) -> FloatArray:
        """n rates from Jeffreys' posterior, Gamma(k + 1/2, U)."""
        generator = np.random.default_rng(np.random.SeedSequence(seed))
        return generator.gamma(self.n_failures + 0.5, 1.0 / self.exposure_node_hours, n)

    def to_dict(self) -> dict[str, Any]:
        """JSON fields."""
        return {
            "rate": self.rate,
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "n_failures": self.n_failures,
            "exposure_node_hours": self.exposure_node_hours,
        }

    def __str__(self) -> str:
        return (
            f"R0 = {self.rate:.4g} per node-hour [{self.low:.4g}, {self.high:.4g}], "
            f"{self.n_failures} failures in {self.exposure_node_hours:,.1f} node-hours"
        )


def rate_interval(
    n_failures: int, exposure_node_hours: float, confidence: float = 0.95
) -> RateInterval:
    """Exact two-sided interval of a Poisson rate (Garwood 1936).

    Args:
        n_failures: k >= 0.
        exposure_node_hours: U > 0.
        confidence: Between 0 and 1.

    Raises:
        SlowpokeError: No exposure, a negative count, or a confidence outside (0, 1).

    >>> print(rate_interval(20, 1e6))
    R0 = 2e-05 per node-hour [1.222e-05, 3.089e-05], 20 failures in 1,000,000.0 node-hours
    """
    from scipy.special import gammaincinv

    if n_failures < 0 or n_failures != int(n_failures):
        raise SlowpokeError(f"{n_failures} failures: give a whole number, not negative")
    if n_failures > _MOST_FAILURES:
        raise SlowpokeError(f"{n_failures} failures: give at most {_MOST_FAILURES:g}")
    if not (math.isfinite(exposure_node_hours) and exposure_node_hours > 0):
        raise SlowpokeError(
            f"{exposure_node_hours} node-hours of exposure tell no rate: give more than zero"
        )
    if not 0 < confidence < 1:
        raise SlowpokeError(f"confidence {confidence}: give a value between 0 and 1, such as 0.95")
    tail = (1.0 - confidence) / 2.0
    # chi2 with 2k degrees of freedom is twice a Gamma(k) variable.
    low = float(gammaincinv(n_failures, tail)) if n_failures else 0.0
    high = float(gammaincinv(n_failures + 1.0, 1.0 - tail))
    u = float(exposure_node_hours)
    return RateInterval(int(n_failures), u, low / u, high / u, confidence)


@dataclass(frozen=True)
class Dispersion:
    """Whether failures come as a Poisson process: variance over mean by month.

    Attributes:
        index: 1 for a Poisson process; a confidence interval is too narrow by its root.
        n_months: Months compared.
        p_value: Chance of at least this index if they do.
    """

    index: float
    n_months: int
    p_value: float


@dataclass(frozen=True)
class Slope:
    """A power by which the rate changes with something, and whether that could be chance.

    Attributes:
        slope: Of log rate; None if the data push it beyond all bounds.
        standard_error: Of it; None likewise.
        p_value: Of no change at all, by the likelihood ratio.
    """

    slope: float | None
    standard_error: float | None
    p_value: float


@dataclass(frozen=True)
class RateReport:
    """The failure rate that a log shows, its bounds, and the tests of what the model assumes.

    Attributes:
        estimate: Node failures, records of one event counted once.
        upper: The same with BOOT_FAIL and programs that failed together with a node of theirs.
        n_records: NODE_FAIL records before events were merged.
        dispersion: By month; None without dates or with fewer than two months.
        trend: Change of log rate per month; None likewise.
        size: Power of the number of nodes by which the rate per node-hour changes: 0 is the
            model's assumption. None without failures or with one job size only.
        worst_nodes: Nodes with the most failures, (name, failures), where the log names them.
        states: Records by end state.
        notes: What to keep in mind.
    """

    estimate: RateInterval
    upper: RateInterval
    n_records: int
    dispersion: Dispersion | None
    trend: Slope | None
    size: Slope | None
    worst_nodes: tuple[tuple[str, int], ...]
    states: dict[str, int]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON fields."""

        def slope(s: Slope | None) -> dict[str, Any] | None:
            return None if s is None else vars(s)

        return {
            "schema": SCHEMA,
            **self.estimate.to_dict(),
            "upper": self.upper.to_dict(),
            "n_records": self.n_records,
            "dispersion": None if self.dispersion is None else vars(self.dispersion),
            "trend_per_month": slope(self.trend),
            "size_exponent": slope(self.size),
            "worst_nodes": [{"node": n, "failures": k} for n, k in self.worst_nodes],
            "states": self.states,
            "notes": list(self.notes),
        }


def expand_hosts(text: str) -> list[str]:
    """Names in a Slurm node list: `a[01-03,7],b` is a01 a02 a03 a7 b.

    What does not follow the form is taken as one name; at most 200,000 names are made.

    >>> expand_hosts("a[01-03,7],b")
    ['a01', 'a02', 'a03', 'a7', 'b']
    """
    names: list[str] = []
    for part in re.findall(r"[^,\[\]]*(?:\[[^\]]*\][^,\[\]]*)*", text):
        if part.strip():
            names.extend(_expand(part.strip(), _MOST_HOSTS - len(names)))
    return [n for n in names if n not in ("None assigned", "None", "(null)")]


def _expand(part: str, most: int) -> list[str]:
    at = part.find("[")
    close = part.find("]", at)
    if at < 0 or close < 0:
        return [part]
    heads: list[str] = []
    for piece in part[at + 1 : close].split(","):
        match = _RANGE.fullmatch(piece)
        if match is None:
            heads.append(part[:at] + piece)
            continue
        first, last = match.groups()
        n = min(int(last) - int(first) + 1, most)
        heads.extend(f"{part[:at]}{int(first) + i:0{len(first)}d}" for i in range(n))
    return [name for head in heads for name in _expand(head + part[close + 1 :], most)][:most]


def failure_rate(
    log: JobLog, *, confidence: float = 0.95, n_failures: int | None = None
) -> RateReport:
    """R0 with its interval from a log (see the module). O(n log n).

    Args:
        log: Runs of jobs.
        confidence: Of the intervals.
        n_failures: Node failures from elsewhere, for logs that do not tell them.

    Raises:
        SlowpokeError: No exposure; a log that cannot tell node failures, and none given.
    """
    exposure = log.exposure_node_hours
    notes = list(log.report.notes)
    if n_failures is None:
        _needs_failures(log)
        rows = np.flatnonzero(log.state == STATE_CODE["NODE_FAIL"])
        events, named = _merge_events(log, rows)
        n_failures, n_records = len(events), rows.size
        n_upper = n_failures + log.count("BOOT_FAIL") + _failed_with_a_node(log, rows)
        if rows.size and not named:
            notes.append("no node names: failures of several jobs by one event are not merged")
        notes.append(
            "requeued runs count as exposure; ask sacct for --duplicates, or failures are missing"
            if log.report.format == "slurm"
            else "every finished run counts as exposure"
        )
    else:
        events, named = np.zeros(0, dtype=np.int64), {}
        n_records = n_upper = n_failures
        notes.append("the number of failures was given, not counted")
    estimate = rate_interval(n_failures, exposure, confidence)
    months = _months(log, events)
    dispersion = None if months is None else _dispersion(*months, estimate.rate)
    if dispersion is not None and dispersion.p_value < 0.01:
        notes.append(
            f"failures are clustered: widen the interval by {math.sqrt(dispersion.index):.2f}"
        )
    size = _slope(*_by_size(log, events))
    if size is not None and size.p_value < 0.01:
        notes.append("the rate per node-hour changes with the job's size: one R0 is not enough")
    worst = Counter(h for hosts in named.values() for h in hosts)
    return RateReport(
        estimate,
        rate_interval(n_upper, exposure, confidence),
        n_records,
        dispersion,
        None
        if months is None
        else _slope(np.arange(months[0].size, dtype=np.float64), months[0], months[1]),
        size,
        tuple(worst.most_common(3)),
        log.by_state,
        tuple(notes),
    )


def _needs_failures(log: JobLog) -> None:
    if log.report.format in ("swf", "table", "lsf"):
        raise SlowpokeError(
            f"a log of kind {log.report.format} does not tell node failures from others: count "
            "them elsewhere and give them with --failures, or use a sacct or PBS log"
        )


def _merge_events(
    log: JobLog, rows: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.int64], dict[int, list[str]]]:
    """First row of every event, and the failed nodes of those rows where the log names them.

    Records belong to one event if they share a node and end within ten minutes.
    """
    last: dict[str, tuple[float, int]] = {}
    first_rows: list[int] = []
    named: dict[int, list[str]] = {}
    for row in rows[np.argsort(log.end_seconds[rows], kind="stable")].tolist():
        failed = expand_hosts(log.failed_hosts.get(row, ""))
        hosts = failed or expand_hosts(log.hosts.get(row, ""))
        end = float(log.end_seconds[row])
        event = next(
            (last[h][1] for h in hosts if h in last and end - last[h][0] <= MERGE_SECONDS), None
        )
        if event is None:
            event = row
            first_rows.append(row)
            if failed:
                named[row] = failed
        for h in hosts:
            last[h] = (end, event)
    return np.array(first_rows, dtype=np.int64), named


def _failed_with_a_node(log: JobLog, rows: npt.NDArray[np.intp]) -> int:
    """Runs that FAILED within ten minutes of a failure of one of their nodes."""
    lost = sorted(
        (float(log.end_seconds[row]), host)
        for row in rows.tolist()
        for host in expand_hosts(log.failed_hosts.get(row, ""))
    )
    times = [time for time, _ in lost]
    n = 0
    for row in np.flatnonzero(log.state == STATE_CODE["FAILED"]).tolist():
        end = float(log.end_seconds[row])
        first = bisect_left(times, end - MERGE_SECONDS)
        near = {host for _, host in lost[first : bisect_right(times, end + MERGE_SECONDS)]}
        n += any(_lists(log.hosts.get(row, ""), host) for host in near)
    return n


def _lists(text: str, host: str) -> bool:
    """Whether a node list has a host in it, without spelling the list out where it is simple."""
    if text.count("[") > 1 or not text.endswith("]"):
        return host in expand_hosts(text)
    head, _, inside = text[:-1].partition("[")
    number = host[len(head) :]
    if not host.startswith(head) or not number.isdigit():
        return False
    for piece in inside.split(","):
        match = _RANGE.fullmatch(piece)
        first, last = match.groups() if match else (piece, piece)
        if len(first) == len(number) and first <= number <= last:
            return True
    return False


def _by_size(
    log: JobLog, events: npt.NDArray[np.int64]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log of the number of nodes, failures and exposure of each job size."""
    sizes, index = np.unique(log.n_nodes, return_inverse=True)
    exposure = np.bincount(index, weights=log.node_hours, minlength=sizes.size).astype(np.float64)
    failures = np.bincount(index[events], minlength=sizes.size).astype(np.float64)
    return np.log(np.maximum(sizes, 1.0)), failures, exposure


def _months(log: JobLog, events: npt.NDArray[np.int64]) -> tuple[FloatArray, FloatArray] | None:
    """Failures and exposure by calendar month; None without dates or with one month only."""
    dated = np.flatnonzero(np.isfinite(log.start_seconds) & np.isfinite(log.end_seconds))
    if dated.size == 0:
        return None
    start, end = log.start_seconds[dated], log.end_seconds[dated]
    first_month, last_month = _month_of(start), _month_of(end)
    origin = int(first_month.min())
    n = int(last_month.max()) - origin + 1
    if not 2 <= n <= _MOST_MONTHS:
        return None
    usage = log.node_hours[dated]
    exposure = np.zeros(n)
    inside = first_month == last_month
    np.add.at(exposure, last_month[inside] - origin, usage[inside])
    across = ~inside
    wall = np.maximum((end - start)[across], 1.0)
    edges = (np.arange(n + 1) + origin).astype("datetime64[M]").astype("datetime64[s]")
    edge_seconds = edges.astype(np.int64).astype(np.float64)
    for m in range(n):
        overlap = np.minimum(end[across], edge_seconds[m + 1]) - np.maximum(
            start[across], edge_seconds[m]
        )
        exposure[m] += float((usage[across] * np.maximum(overlap, 0.0) / wall).sum())
    ended = log.end_seconds[events]
    ended = ended[np.isfinite(ended)]
    failures = np.bincount(_month_of(ended) - origin, minlength=n).astype(np.float64)
    return failures, exposure


def _month_of(seconds: FloatArray) -> npt.NDArray[np.int64]:
    stamps = np.floor(seconds).astype(np.int64).astype("datetime64[s]")
    return stamps.astype("datetime64[M]").astype(np.int64)


def _dispersion(failures: FloatArray, exposure: FloatArray, rate: float) -> Dispersion | None:
    from scipy.special import gammaincc

    expected = rate * exposure
    used = expected > 0
    n = int(used.sum())
    if n < 2:
        return None
    chi2 = float(((failures - expected)[used] ** 2 / expected[used]).sum())
    return Dispersion(chi2 / (n - 1), n, float(gammaincc((n - 1) / 2.0, chi2 / 2.0)))


def _slope(x: FloatArray, failures: FloatArray, exposure: FloatArray) -> Slope | None:
    """Poisson regression log rate = a + b x with the exposure as offset; the test of b = 0."""
    used = exposure > 0
    x, failures, exposure = x[used], failures[used], exposure[used]
    k = float(failures.sum())
    if k == 0 or np.unique(x).size < 2:
        return None
    # Profile likelihood in b alone: concave, with mean and variance of x under tilted exposure.
    x = x - float((exposure * x).sum() / exposure.sum())
    target = float((failures * x).sum()) / k
    bound = 700.0 / max(float(np.abs(x).max()), 1e-12)

    def moments(b: float) -> tuple[float, float, float]:
        w = exposure * np.exp(b * x - (b * x).max())
        mean = float((w * x).sum() / w.sum())
        variance = float((w * (x - mean) ** 2).sum() / w.sum())
        return math.log(w.sum()) + float((b * x).max()), mean, variance

    low, high = -bound, bound
    for _ in range(200):  # the mean grows with b: halve the bracket
        b = (low + high) / 2.0
        if moments(b)[1] < target:
            low = b
        else:
            high = b
    log_sum, _, variance = moments(b)
    gain = max(0.0, 2.0 * k * (b * target - log_sum + math.log(exposure.sum())))
    p_value = math.erfc(math.sqrt(gain / 2.0))
    if abs(b) > 0.99 * bound or variance * k < 1e-9:
        return Slope(None, None, p_value)
    return Slope(b, 1.0 / math.sqrt(k * variance), p_value)
