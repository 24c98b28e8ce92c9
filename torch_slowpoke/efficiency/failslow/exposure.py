"""Which share of a job's usage is spent with a slow chip, for a given way of finding slow chips.

Onsets come at a rate per node-hour. The chips that are slow at usage u are the customers of a queue
with infinitely many servers: Poisson, with mean rate x integral of the sojourn's survival function,
whatever the sojourn's law. While one chip is slow the whole job runs `slowdown` times slower, and
the share 1 - 1/slowdown of that usage is lost. Ours, joined to papers/002; usage in node-hours.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.stable import FloatArray, survived_share

_MOST_DIAGNOSES = 20_000_000
_LARGEST = 1e100
_NEVER_FOUND = 1e-300  # a recall below it finds nothing in any job
_N_PANELS = 64
_N_POINTS = 16


def kappa(slowdown: npt.ArrayLike) -> FloatArray:
    """Share of slow usage that is lost, 1 - 1/slowdown.

    Raises:
        SlowpokeError: A slowdown below 1.
    """
    s = np.asarray(slowdown, dtype=np.float64)
    if not np.all(s >= 1.0):
        raise SlowpokeError(f"slowdown {s}: a slow chip is at least 1 times slower")
    return 1.0 - 1.0 / s


def check_share(value: float, what: str) -> float:
    """A probability, or a sentence."""
    if not 0.0 <= value <= 1.0:
        raise SlowpokeError(f"{what} {value} must lie between 0 and 1")
    return float(value)


def check_amount(value: float, what: str) -> float:
    """An amount that is not negative and whose products stay finite, or a sentence."""
    if not (np.isfinite(value) and value >= 0):
        raise SlowpokeError(f"{what} {value} must be finite and not negative")
    if value > _LARGEST:
        raise SlowpokeError(f"{what} {value} must not exceed {_LARGEST:g}")
    return float(value)


def slow_without_detection(usage: npt.ArrayLike, onset_rate: float) -> FloatArray:
    """Slow share of a job that starts healthy, if nobody looks: 1 - (1 - e^-x)/x, x = rate usage.

    Args:
        usage: Node-hours of the job, >= 0, any shape.
        onset_rate: Chips turning slow per node-hour, >= 0.

    Returns:
        Same shape, in [0, 1); x/2 for small x.

    >>> slow_without_detection(100000, 2e-5).round(6)
    np.float64(0.567668)
    """
    x = check_amount(onset_rate, "onset rate") * np.asarray(usage, dtype=np.float64)
    y = np.minimum(x, 0.05)
    series = np.zeros_like(y)
    for k in range(9, 1, -1):  # sum (-1)^k x^(k-1)/k!, without the cancellation of 1 - 1
        series = (1.0 - series) * y / k
    return np.where(x < 0.05, series, 1.0 - survived_share(x))[()]


def slow_share(
    usage: npt.ArrayLike, onset_rate: float, dwell: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Slow share of a job that starts healthy, for any law of how long a chip stays slow.

    Gauss-Legendre on panels that double in length, so that a law with a scale of its own, however
    short or long, is met by panels of that scale. O(usage.size x 1000).

    Args:
        usage: Node-hours of the job, > 0, any shape.
        onset_rate: Chips turning slow per node-hour.
        dwell: u -> integral from 0 to u of the sojourn's survival function, vectorised.

    Returns:
        Same shape, in [0, 1).
    """
    nodes, weights = np.polynomial.legendre.leggauss(_N_POINTS)
    right = 2.0 ** -np.arange(_N_PANELS, dtype=np.float64)
    left = np.append(right[1:], 0.0)
    half = (right - left) / 2.0
    at = ((left + right) / 2.0)[:, None] + half[:, None] * nodes
    w = (half[:, None] * weights).ravel()
    u = np.asarray(usage, dtype=np.float64)
    slow = -np.expm1(-onset_rate * dwell(u[..., None] * at.ravel()))
    return np.asarray(slow @ w)[()]


def slow_with_random_detection(
    usage: npt.ArrayLike, onset_rate: float, recall: float, mean_usage_to_detect: npt.ArrayLike
) -> FloatArray:
    """Slow share if a slow chip is found after an exponential usage, or never.

    Args:
        usage: Node-hours of the job, > 0, any shape.
        onset_rate: Chips turning slow per node-hour.
        recall: Probability that it is ever found.
        mean_usage_to_detect: Node-hours of the job until then, in the mean, scalar or the shape of
            usage; 0 is at once.
    """
    check_amount(onset_rate, "onset rate")
    check_share(recall, "recall")
    mean = np.asarray(mean_usage_to_detect, dtype=np.float64)
    check_amount(float(mean.min()), "mean usage to detection")
    check_amount(float(mean.max()), "mean usage to detection")
    safe = np.where(mean > 0, mean, 1.0)[..., None]

    def dwell(u: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            found_after = safe * -np.expm1(-u / safe)
        return (1.0 - recall) * u + recall * np.where(mean[..., None] > 0, found_after, 0.0)

    return slow_share(usage, onset_rate, dwell)


def slow_with_periodic_diagnosis(
    usage: float, onset_rate: float, recall: float, period: float
) -> float:
    """Slow share of a job that is diagnosed each `period` node-hours, each time with `recall`.

    Exact: before the diagnosis n + 1 the chips that n diagnoses missed are geometric. O(periods
    until (1 - recall)^n vanishes).

    Args:
        usage: Node-hours of the job, > 0.
        onset_rate: Chips turning slow per node-hour.
        recall: Probability that one diagnosis finds a slow chip.
        period: Node-hours between diagnoses, > 0.

    Raises:
        SlowpokeError: No period, or more than 20 million diagnoses that differ.
    """
    check_amount(onset_rate, "onset rate")
    q = check_share(recall, "recall")
    if not period > 0:
        raise SlowpokeError(f"a diagnosis every {period} node-hours: give a period above zero")
    if q < _NEVER_FOUND or period >= usage or onset_rate == 0.0:
        return float(slow_without_detection(usage, onset_rate))
    n_whole = np.floor(usage / period)
    settled = np.ceil(-40.0 / np.log1p(-q)) if q < 1.0 else 1.0
    n = min(n_whole, settled)
    if n > _MOST_DIAGNOSES:
        raise SlowpokeError(
            f"{n:.3g} diagnoses of recall {q} in one job: use random detection, or a longer period"
        )

    # Chips missed by earlier diagnoses, in units of those that turn slow within one period.
    def missed(n_before: npt.ArrayLike) -> FloatArray:
        if q == 1.0:
            return np.zeros(np.shape(n_before))
        return np.asarray((1.0 - q) * -np.expm1(np.asarray(n_before) * np.log1p(-q)) / q)

    x = onset_rate * period
    last = max(0.0, usage - n_whole * period)

    def slow_usage(already: FloatArray, length: float) -> FloatArray:
        """Slow usage in a stretch that begins with `already` chips slow in the mean."""
        healthy = np.exp(-already)
        fresh = slow_without_detection(length, onset_rate)
        return length * (-np.expm1(-already) + healthy * fresh)

    total = float(slow_usage(x * missed(np.arange(n)), period).sum())
    total += (n_whole - n) * float(slow_usage(np.array(x * (1.0 - q) / q), period))
    total += float(slow_usage(x * missed(n_whole), last)) if last > 0 else 0.0
    return float(total / usage)


def slow_in_steady_state(onset_rate: float, recall: float, period: float) -> float:
    """Slow share of usage in the long run with a diagnosis each `period` node-hours; q > 0."""
    x = onset_rate * period
    already = x * (1.0 - recall) / recall
    return float(
        -np.expm1(-already) + np.exp(-already) * slow_without_detection(period, onset_rate)
    )


def class_loss(
    onset_rates: npt.ArrayLike, slowdowns: npt.ArrayLike, dwell_node_hours: npt.ArrayLike
) -> float:
    """Share of usage lost to several kinds of slowness, of which the worst present one rules.

    Args:
        onset_rates: Per kind, per node-hour, (n,).
        slowdowns: Per kind, >= 1, (n,).
        dwell_node_hours: Mean usage that a chip of the kind stays slow, (n,) or scalar.
    """
    rates, slow = (np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (onset_rates, slowdowns))
    present = rates * np.asarray(dwell_node_hours, dtype=np.float64)
    if rates.shape != slow.shape or not np.all(present >= 0):
        raise SlowpokeError(
            "each kind of slowness needs a rate, a slowdown and a stay, none below 0"
        )
    order = np.argsort(-slow, kind="stable")
    present = present[order]
    no_worse = np.exp(-(np.cumsum(present) - present))
    return float((no_worse * -np.expm1(-present)) @ kappa(slow[order]))


def slow_start_probability(
    n_nodes: npt.ArrayLike, onset_rate: float, stay_hours: float
) -> FloatArray:
    """Probability that a job starts with a slow node, if nodes are not checked between jobs.

    A node stays slow for `stay_hours` until somebody notices: a share rate stay/(1 + rate stay) of
    the pool is slow. The difference to a healthy start is what a burn-in check is worth.

    >>> slow_start_probability(1024, 1e-5, 100.0).round(4)
    np.float64(0.6407)
    """
    x = check_amount(onset_rate, "onset rate") * check_amount(stay_hours, "stay in hours")
    n = np.asarray(n_nodes, dtype=np.float64)
    return np.asarray(-np.expm1(-n * np.log1p(x)))[()]  # 1 - rho = 1/(1 + x)
