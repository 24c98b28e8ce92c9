"""When to write a checkpoint: the cadence that costs least, and what a checkpoint costs.

Graziani, Lusch and Messer (papers/002), section 2.1 (costs) and section 3 (optimum). Everything is
counted in usage (node-hours): the failure rate per node-hour is the same for jobs of every size.
The optimum has a closed form, u_c = (1 + W0(-exp(-1 - R0 u_chk)))/R0, evaluated here by a series
and by Newton steps on the logarithm; a library's Lambert W loses all digits near its branch point,
which is where real machines are.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.stable import FloatArray, lost_share, repeated_share

CheckpointModel = Literal["shared", "local", "fixed"]

SETUP_HOURS = 2.0 / 3600.0  # tau_0 on Frontier, papers/002, section 7.2.3

# Far beyond any machine, and far from where products of them would leave the floating numbers.
_LARGEST = 1e9
_LARGEST_RATE = 1e12
_SMALLEST_RATE = 1e-200  # a failure in 1e200 node-hours; products of less lose their digits

_SERIES_BELOW = 0.125
_N_TERMS = 20


def _series_coefficients() -> tuple[float, ...]:
    """Coefficients a_n of z_c = sum a_n s^n with s = sqrt(2 z_chk), from z_c dz_c/ds = s (1 - z_c).

    The first three are Young's and Daly's terms; the series converges for z_chk < 2 pi.
    """
    a = [Fraction(0), Fraction(1)]
    for n in range(2, _N_TERMS + 1):
        convolution = sum((a[i] * a[n + 1 - i] for i in range(2, n)), Fraction(0))
        a.append(-(2 * a[n - 1] / (n + 1) + convolution) / 2)
    return tuple(float(c) for c in a[1:])


_A = _series_coefficients()
_CONVERGES_BELOW = 2.0 * math.sqrt(math.pi)


def _terms_needed(s: float) -> int:
    """Terms after which the series, geometric with ratio s/3.545, is below rounding at s."""
    if s < 1e-30:
        return 2
    ratio = s / _CONVERGES_BELOW
    return min(_N_TERMS, 3 + math.ceil(math.log(1e-17) / math.log(ratio)))


def optimal_z(z_chk: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Solve 1 - z_c = exp(-z_c - z_chk) for z_c: the cadence in units of 1/R0.

    papers/002, equation (3.3). O(n), no iteration that depends on the data.

    Args:
        z_chk: Failure rate times the cost of a checkpoint, >= 0, any shape.

    Returns:
        z_c and 1 - z_c, each of that shape; the second keeps its digits where z_c rounds to 1.
        Relative error of z_c at most a few 1e-16 from 1e-300 to infinity.

    Raises:
        SlowpokeError: A negative or missing value.

    >>> z_c, _ = optimal_z(0.01)
    >>> f"{z_c:.15f}"
    '0.134834751066835'
    """
    z = np.asarray(z_chk, dtype=np.float64)
    if not (z >= 0).all():
        raise SlowpokeError("rate times checkpoint cost must be a number that is not negative")
    flat = z.ravel()
    s = np.sqrt(2.0 * np.minimum(flat, _SERIES_BELOW))
    a_n = _A[: _terms_needed(float(s.max(initial=0.0)))]
    z_c = np.full_like(s, a_n[-1])
    for a in reversed(a_n[:-1]):
        z_c *= s
        z_c += a
    z_c *= s
    rest = 1.0 - z_c
    large = np.flatnonzero(flat >= _SERIES_BELOW)
    if large.size:
        rest[large] = _log_newton(flat[large])
        z_c[large] = 1.0 - rest[large]
    return z_c.reshape(z.shape), rest.reshape(z.shape)


def _log_newton(z: FloatArray) -> FloatArray:
    """Solve ln t - t + 1 + z = 0 for t = 1 - z_c in (0, 1), for z >= 0.125."""
    bounded = np.minimum(z, 700.0)
    s = np.sqrt(2.0 * np.minimum(bounded, 1.0))
    c = np.exp(-1.0 - bounded)
    small = 1.0 - s * (1.0 - s * (1.0 / 3.0 - s * (1.0 / 36.0 + s / 270.0)))
    t = np.where(bounded < 1.0, small, c * (1.0 + c * (1.0 + 1.5 * c)))
    for _ in range(4):
        t = t * (1.0 - (np.log(t) - t + 1.0 + bounded) / (1.0 - t))
    # Beyond 700 the solution is exp(-1 - z) to the last digit, down to where it underflows.
    return np.where(z > 700.0, np.exp(-1.0 - z), t)


@dataclass(frozen=True)
class CheckpointCost:
    """What a checkpoint and a restart cost a job of N nodes, in node-hours.

    Attributes:
        model: `shared`: all nodes write to one store of fixed bandwidth, O(N^2) node-hours;
            `local`: each node writes to its own store, O(N); `fixed`: the state of the whole job
            has one size however many nodes hold it (data-parallel training), O(N).
        write_hours: Time to write one node's state (`shared`, `local`) or the whole state
            (`fixed`), alone on the store.
        read_ratio: alpha, write bandwidth over read bandwidth.
        setup_hours: tau_0, time of a restart apart from reading the checkpoint.

    Source: papers/002, section 2.1 and equation (2.5); `fixed` is ours.
    """

    model: CheckpointModel
    write_hours: float
    read_ratio: float = 1.0
    setup_hours: float = SETUP_HOURS

    def __post_init__(self) -> None:
        if self.model not in get_args(CheckpointModel):
            raise SlowpokeError(
                f"checkpoint model {self.model!r} is unknown: use shared, local or fixed"
            )
        for name in ("write_hours", "read_ratio", "setup_hours"):
            value = getattr(self, name)
            if not 0 <= value <= _LARGEST:
                raise SlowpokeError(
                    f"{name}={value} of a checkpoint must lie between 0 and {_LARGEST:g}"
                )

    def checkpoint_node_hours(self, n_nodes: npt.ArrayLike) -> FloatArray:
        """Cost u_chk of one checkpoint in node-hours, for each number of nodes."""
        n = np.asarray(n_nodes, dtype=np.float64)
        return n * n * self.write_hours if self.model == "shared" else n * self.write_hours

    def restart_node_hours(self, n_nodes: npt.ArrayLike) -> FloatArray:
        """Cost u_r of one restart that does not fail itself, in node-hours (equation 2.5)."""
        n = np.asarray(n_nodes, dtype=np.float64)
        return self.read_ratio * self.checkpoint_node_hours(n) + self.setup_hours * n


def checkpoint_cost(
    size_bytes: float,
    bandwidth_bytes_per_second: float,
    *,
    model: CheckpointModel = "shared",
    read_ratio: float = 1.0,
    setup_hours: float = SETUP_HOURS,
) -> CheckpointCost:
    """Cost of a checkpoint of a given size.

    Args:
        size_bytes: State of one node (`shared`, `local`) or of the whole job (`fixed`).
        bandwidth_bytes_per_second: Of the store: the machine's (`shared`, `fixed`) or one node's
            (`local`).
        model: See `CheckpointCost`.
        read_ratio: Write bandwidth over read bandwidth.
        setup_hours: Fixed time of a restart.

    Raises:
        SlowpokeError: A size or bandwidth that is not finite, negative, or a bandwidth of zero.

    >>> float(checkpoint_cost(200e9, 6e12).checkpoint_node_hours(2000).round(6))
    37.037037
    """
    if not (math.isfinite(size_bytes) and size_bytes >= 0):
        raise SlowpokeError(f"checkpoint size {size_bytes} B must be finite and not negative")
    if not (math.isfinite(bandwidth_bytes_per_second) and bandwidth_bytes_per_second > 0):
        raise SlowpokeError(
            f"bandwidth {bandwidth_bytes_per_second} B/s must be finite and greater than zero"
        )
    hours = size_bytes / (3600.0 * bandwidth_bytes_per_second)
    return CheckpointCost(model, hours, read_ratio, setup_hours)


def check_rate(rate: npt.ArrayLike, what: str = "failure rate") -> FloatArray:
    """The rate as an array, if every value is finite and not negative; below 1e-200 it is 0.

    Raises:
        SlowpokeError: Names the value and the rule.
    """
    values = np.asarray(rate, dtype=np.float64)
    bad = ~((values >= 0) & (values <= _LARGEST_RATE))
    if bad.any():
        raise SlowpokeError(
            f"{what} {values[bad].flat[0]} per node-hour must be at least 0 and at most "
            f"{_LARGEST_RATE:g}: "
            "2e-5 is Frontier's in 2024, 0 is a machine that never fails"
        )
    return np.where(values < _SMALLEST_RATE, 0.0, values)


def optimal_cadence_node_hours(
    rate: npt.ArrayLike, checkpoint_node_hours: npt.ArrayLike
) -> FloatArray:
    """Usage u_c of computing between two checkpoints that loses least (equation 3.3).

    Args:
        rate: Failures per node-hour, >= 0; broadcasts with the second.
        checkpoint_node_hours: Cost of a checkpoint, >= 0.

    Returns:
        Node-hours; infinite where nothing fails, 0 where a checkpoint is free.
    """
    r, u_chk = np.broadcast_arrays(
        np.asarray(rate, dtype=np.float64), np.asarray(checkpoint_node_hours, dtype=np.float64)
    )
    z_c, _ = optimal_z(r * u_chk)
    safe = np.where(r > 0, r, 1.0)
    return np.where(r > 0, z_c / safe, np.where(u_chk > 0, np.inf, 0.0))


def young_node_hours(rate: float, checkpoint_node_hours: float) -> float:
    """Young's first-order cadence sqrt(2 u_chk/R0) (CACM 17, 1974); the first term of the series.

    >>> round(young_node_hours(2e-5, 37.037037037037), 3)
    1924.501
    """
    return math.sqrt(2.0 * checkpoint_node_hours / rate) if rate > 0 else math.inf


def daly_node_hours(rate: float, checkpoint_node_hours: float) -> float:
    """Daly's higher-order cadence (FGCS 22, 2006, equation 37): the first three terms.

    For a checkpoint that costs more than twice the mean usage between failures Daly sets the
    cadence to that mean.

    >>> round(daly_node_hours(2e-5, 37.037037037037), 5)
    1899.88874
    """
    if rate == 0:
        return math.inf
    half = rate * checkpoint_node_hours / 2.0
    if half >= 1.0:
        return 1.0 / rate
    young = math.sqrt(2.0 * checkpoint_node_hours / rate)
    return young * (1.0 + math.sqrt(half) / 3.0 + half / 9.0) - checkpoint_node_hours


@dataclass(frozen=True)
class Cadence:
    """The best checkpoint interval of a job of N nodes, in the units that people set.

    Attributes:
        n_nodes: Nodes of the job.
        rate: Failures per node-hour.
        checkpoint_node_hours: u_chk.
        restart_node_hours: u_r.
        cadence_node_hours: u_c, the usage of computing between two checkpoints; infinite if
            nothing ever fails.
    """

    n_nodes: int
    rate: float
    checkpoint_node_hours: float
    restart_node_hours: float
    cadence_node_hours: float

    @property
    def seconds(self) -> float:
        """Wall time of computing between two checkpoints."""
        return self.cadence_node_hours / self.n_nodes * 3600.0

    @property
    def write_seconds(self) -> float:
        """Wall time of one checkpoint."""
        return self.checkpoint_node_hours / self.n_nodes * 3600.0

    @property
    def young_seconds(self) -> float:
        """Young's interval, for comparison."""
        u = young_node_hours(self.rate, self.checkpoint_node_hours)
        return u / self.n_nodes * 3600.0

    @property
    def daly_seconds(self) -> float:
        """Daly's interval, for comparison."""
        return daly_node_hours(self.rate, self.checkpoint_node_hours) / self.n_nodes * 3600.0

    @property
    def losses(self) -> tuple[float, float, float]:
        """Shares lost to failures, checkpoints and restarts by a job that runs for ever.

        Of all usage, restarts included (definition `renewal`); the rest is the efficiency.
        """
        if self.rate == 0:
            return 0.0, 0.0, 0.0
        z_chk = self.rate * self.checkpoint_node_hours
        z = self.rate * self.cadence_node_hours + z_chk
        restart = float(repeated_share(self.rate * self.restart_node_hours))
        usage = 1.0 + self.rate * self.restart_node_hours * restart  # U + L_R per failure, x R0
        if math.isinf(usage):
            return 0.0, 0.0, 1.0
        failure = float(lost_share(z))
        # Checkpoints per failure 1/(e^z - 1), each z_chk; 1 - lost_share is z/(e^z - 1).
        checkpoint = z_chk / z * (1.0 - failure) if z > 0 else 0.0
        return failure / usage, checkpoint / usage, 1.0 - 1.0 / usage

    @property
    def efficiency(self) -> float:
        """Share of all usage that is left for computing, for a job that runs for ever."""
        return 1.0 - sum(self.losses)

    def steps(self, step_seconds: float) -> float:
        """Training steps between two checkpoints, at least one; infinite if nothing fails.

        Raises:
            SlowpokeError: A step time that is not finite and greater than zero.
        """
        if not (math.isfinite(step_seconds) and step_seconds > 0):
            raise SlowpokeError(f"step time {step_seconds} s must be finite and greater than zero")
        return max(1.0, float(np.floor(self.seconds / step_seconds)))


def cadence(n_nodes: int, rate: float, cost: CheckpointCost) -> Cadence:
    """The best checkpoint interval of a job of `n_nodes` nodes (papers/002, section 3).

    The cost of a restart does not move it (equation 3.3).

    Args:
        n_nodes: Nodes of the job, >= 1.
        rate: Failures per node-hour, >= 0.
        cost: What a checkpoint costs.

    Raises:
        SlowpokeError: No node, or a rate that is negative or not finite.

    >>> c = cadence(2000, 2e-5, checkpoint_cost(200e9, 6e12))
    >>> round(c.cadence_node_hours, 6), round(c.seconds / 3600, 6)
    (1899.889144, 0.949945)
    """
    if not 1 <= n_nodes <= 1e12:
        raise SlowpokeError(f"a job of {n_nodes} nodes: give at least 1 and at most 1e12")
    check_rate(rate)
    u_chk = float(cost.checkpoint_node_hours(n_nodes))
    u_c = float(optimal_cadence_node_hours(rate, u_chk))
    return Cadence(int(n_nodes), float(rate), u_chk, float(cost.restart_node_hours(n_nodes)), u_c)
