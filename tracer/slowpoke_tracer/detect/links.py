"""Link bandwidths from end-to-end times: theta = 1 / bandwidth with A theta = T, four ways.

Row m of A holds, in the columns of the links that message m crosses, its bytes; T is its time
(SlowPoke section 3.4.2). The paper names EM and prints no likelihood. `em` takes each hop's time as
Normal(S theta, phi (S theta)^2) (in the manner of Cao et al., JASA 2000), `mlem` as Poisson (Vardi,
JASA 1996; Richardson-Lucy), `nnls` is least squares with theta >= 0, `gd` gradient descent on the
same squares (both occur in the authors' public code).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import nnls

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_tracer.detect.observations import Observations
from slowpoke_tracer.detect.routes import numbered, path_matrix

Method = Literal["em", "mlem", "nnls", "gd"]


@dataclass(frozen=True, eq=False)
class PathSystem:
    """A theta = T of a set of messages.

    Attributes:
        a_bytes: (n_rows, n_columns) CSR; bytes that each row's message moves over each column.
        time_cycles: (n_rows,) what it took.
        weight: (n_rows,) messages that the row stands for.
        n_links: The first columns are the chip's directed links; more may follow.
    """

    a_bytes: sp.csr_matrix
    time_cycles: NDArray[np.float64]
    weight: NDArray[np.float64]
    n_links: int

    def __post_init__(self) -> None:
        n = self.a_bytes.shape[0]
        if len(self.time_cycles) != n or len(self.weight) != n:
            raise SlowpokeError(
                f"{n} paths with {len(self.time_cycles)} times and {len(self.weight)} weights: "
                "give one of each for every path"
            )
        if np.any(self.time_cycles < 0) or not np.all(np.isfinite(self.time_cycles)):
            raise SlowpokeError("transmission times are finite and >= 0 cycles; drop other rows")

    @property
    def traffic_bytes(self) -> NDArray[np.float64]:
        """(n_columns,) bytes that crossed each column; 0 where nothing can be said."""
        result: NDArray[np.float64] = np.asarray(self.a_bytes.T @ self.weight).ravel()
        return result

    def rows(self, keep: NDArray[np.integer] | NDArray[np.bool_]) -> PathSystem:
        """The system of some rows."""
        return PathSystem(
            sp.csr_matrix(self.a_bytes[keep]), self.time_cycles[keep], self.weight[keep],
            self.n_links,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class LinkEstimate:
    """Inverse bandwidths.

    Attributes:
        theta: (n_columns,) cycles a byte; NaN in columns without traffic.
        n_iterations: Until it stood still or the limit was reached.
        converged: Whether it stood still.
    """

    theta: NDArray[np.float64]
    n_iterations: int
    converged: bool


def path_system(
    seen: Observations, chip: ChipConfig, endpoints: bool = True, merge: bool = False
) -> PathSystem:
    """The equations of observed messages, one row each, or one for each path.

    Known constants (router delays, the DRAM latency of a read) are taken off the times.

    Args:
        seen: `Observations.transfers`; a message that crosses no link has a row without links.
        chip: With its topology and constants.
        endpoints: Whether one more column stands for the injection and ejection channels, which
            every message crosses, and one for each DRAM port, whose service is part of a read's
            time. The paper's A holds links only.
        merge: Messages of one source and destination become one row of mean bytes and mean time.
            `em` and `mlem` take the same steps either way: they weigh by bytes, and the shares of
            a path's links are the same for all of its messages. The squares of `nnls` and `gd`
            weigh by bytes squared: there it is an approximation.
    """
    src = seen.column("src").astype(np.int64)
    dst = seen.column("dst").astype(np.int64)
    size = seen.column("work").astype(np.float64)
    # constants first: the rest of the time is proportional to the bytes
    n_ports = len(chip.dram_ports)
    n_ends = n_ports + chip.n_cores
    ends, number = numbered((src + n_ports) * n_ends + dst + n_ports, n_ends**2)
    pairs = np.stack([ends // n_ends - n_ports, ends % n_ends - n_ports])
    paths = path_matrix(pairs[0], pairs[1], chip)
    hops = np.diff(paths.indptr)
    known = chip.router_delay_cycles * (hops + 1) + chip.dram_latency_cycles * (pairs[0] < 0)
    if endpoints:
        reads = np.flatnonzero(pairs[0] < 0)
        ports = sp.csr_matrix(
            (np.ones(len(reads)), (reads, -1 - pairs[0][reads])),
            shape=(pairs.shape[1], len(chip.dram_ports)),
        )
        ones = np.ones((pairs.shape[1], 1))
        paths = sp.hstack([paths, ones, ports], format="csr")
    time = np.maximum(seen.mean_cycles - known[number], 0.0)
    weight = seen.count.astype(np.float64)
    if not merge:
        a = sp.csr_matrix(sp.diags_array(size) @ paths[number])
        return PathSystem(a, time, weight, chip.n_links)
    n = pairs.shape[1]
    total = np.bincount(number, weight, n).astype(np.float64)
    mean_size = np.bincount(number, weight * size, n) / total
    mean_time = np.bincount(number, weight * time, n) / total
    a = sp.csr_matrix(sp.diags_array(mean_size) @ paths)
    return PathSystem(a, mean_time, total, chip.n_links)


def estimate(
    system: PathSystem,
    initial: float,
    method: Method = "em",
    n_iterations: int = 500,
    tolerance: float = 1e-6,
) -> LinkEstimate:
    """The inverse bandwidth of every column that carried traffic.

    Args:
        system: Equations.
        initial: Where every column starts, cycles a byte (the nominal 1 / bandwidth). What the
            traffic cannot tell apart keeps the proportions of the start.
        method: `em`, `mlem`, `nnls` or `gd`; `nnls` needs no start.
        n_iterations: At most so many; the authors' code does 100 of `gd`.
        tolerance: Largest relative change of a theta that counts as standing still.

    Raises:
        SlowpokeError: Unknown method, or a start or tolerance that is not positive.

    Cost: n_iterations passes over the entries of A; `nnls` n_columns^2 x n_rows.
    """
    if method not in get_args(Method):
        raise SlowpokeError(
            f"link estimator {method!r}: choose one of {', '.join(get_args(Method))}"
        )
    if not (initial > 0 and tolerance > 0 and n_iterations >= 1):
        raise SlowpokeError(
            f"link estimator: start {initial}, tolerance {tolerance} and {n_iterations} iterations "
            "must all be positive"
        )
    used = system.traffic_bytes > 0
    n_columns = len(used)
    theta = np.full(n_columns, float(initial))
    iterations, converged = 0, True
    if used.any() and method == "nnls":
        root = np.sqrt(system.weight)
        dense = system.a_bytes[:, used].toarray() * root[:, None]
        scale = dense.max()
        theta[used] = nnls(dense / scale, system.time_cycles * root)[0] / scale
    elif used.any():
        a = system.a_bytes
        arrays = (a.indptr.astype(np.int64), a.indices.astype(np.int64), a.data)
        kernel = {"em": _em, "mlem": _mlem, "gd": _descend}[method]
        iterations, converged = kernel(
            *arrays, system.time_cycles, system.weight, theta, n_iterations, tolerance
        )
    return LinkEstimate(np.where(used, theta, np.nan), int(iterations), bool(converged))


FLOOR = 1e-6
"""Smallest share of its start that a theta may fall to: a bandwidth is positive and finite."""


@njit(cache=True)
def _em(indptr, indices, data, time, weight, theta, n_iterations, tolerance):  # type: ignore[no-untyped-def]
    # E: the hops of a path share its surprise T - sum(mu) in proportion to their variances mu^2.
    # M: theta = sum n E[X] / sum n S. phi cancels in both.
    floor = FLOOR * theta.min()
    size = np.zeros(len(theta))
    for row in range(len(time)):
        for k in range(indptr[row], indptr[row + 1]):
            size[indices[k]] += weight[row] * data[k]
    mus = np.empty(len(theta))
    expected = np.empty(len(theta))
    for iteration in range(n_iterations):
        expected[:] = 0.0
        for row in range(len(time)):
            first, n = indptr[row], indptr[row + 1] - indptr[row]
            total, variance = 0.0, 0.0
            for k in range(n):
                mu = data[first + k] * theta[indices[first + k]]
                mus[k] = mu
                total += mu
                variance += mu * mu
            if variance <= 0.0:
                continue
            surprise = (time[row] - total) / variance
            for k in range(n):
                mu = mus[k]
                expected[indices[first + k]] += weight[row] * (mu + mu * mu * surprise)
        change = 0.0
        for j in range(len(theta)):
            if size[j] > 0.0:
                new = max(expected[j] / size[j], floor)
                change = max(change, abs(new - theta[j]) / theta[j])
                theta[j] = new
        if change <= tolerance:
            return iteration + 1, True
    return n_iterations, False


@njit(cache=True)
def _mlem(indptr, indices, data, time, weight, theta, n_iterations, tolerance):  # type: ignore[no-untyped-def]
    floor = FLOOR * theta.min()
    for iteration in range(n_iterations):
        ratio = np.zeros(len(theta))
        size = np.zeros(len(theta))
        for row in range(len(time)):
            total = 0.0
            for k in range(indptr[row], indptr[row + 1]):
                total += data[k] * theta[indices[k]]
            if total <= 0.0:
                continue
            for k in range(indptr[row], indptr[row + 1]):
                ratio[indices[k]] += weight[row] * data[k] * (time[row] / total)
                size[indices[k]] += weight[row] * data[k]
        change = 0.0
        for j in range(len(theta)):
            if size[j] > 0.0:
                new = max(theta[j] * ratio[j] / size[j], floor)
                change = max(change, abs(new - theta[j]) / theta[j])
                theta[j] = new
        if change <= tolerance:
            return iteration + 1, True
    return n_iterations, False


@njit(cache=True)
def _descend(indptr, indices, data, time, weight, theta, n_iterations, tolerance):  # type: ignore[no-untyped-def]
    # The step of column j is 1 / sum_m w a_mj sum_k a_mk: the squares then never grow (it bounds
    # the Hessian's diagonal dominance), whatever the units. The authors' 1e-5 fits theirs only.
    floor = FLOOR * theta.min()
    bound = np.zeros(len(theta))
    for row in range(len(time)):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k]
        for k in range(indptr[row], indptr[row + 1]):
            bound[indices[k]] += weight[row] * data[k] * total
    for iteration in range(n_iterations):
        gradient = np.zeros(len(theta))
        for row in range(len(time)):
            error = -time[row]
            for k in range(indptr[row], indptr[row + 1]):
                error += data[k] * theta[indices[k]]
            for k in range(indptr[row], indptr[row + 1]):
                gradient[indices[k]] += weight[row] * data[k] * error
        change = 0.0
        for j in range(len(theta)):
            if bound[j] > 0.0:
                new = max(theta[j] - gradient[j] / bound[j], floor)
                change = max(change, abs(new - theta[j]) / theta[j])
                theta[j] = new
        if change <= tolerance:
            return iteration + 1, True
    return n_iterations, False
