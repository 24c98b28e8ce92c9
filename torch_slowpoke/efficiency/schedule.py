"""A schedule: how many jobs of which size and duration a machine runs, equal jobs counted once.

A year of a machine is some 10^5 jobs of some 10^3 different types (N, T) (papers/002, section 7.3),
and every loss depends on the type alone: grouping makes an evaluation a thousand times cheaper.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.stable import FloatArray

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Schedule:
    """Types of jobs and how often each runs; made by `schedule_of_jobs` or `schedule_of_bins`.

    Attributes:
        n_nodes: float64 (n_types,), >= 1.
        hours: float64 (n_types,), scheduled duration, > 0.
        n_jobs: float64 (n_types,), jobs of the type; fractions are expected numbers.
        application: int64 (n_types,), index into `applications`.
        applications: Names of the applications; one empty name if they are not told apart.
        notes: What was left out or approximated when the schedule was made.
    """

    n_nodes: FloatArray
    hours: FloatArray
    n_jobs: FloatArray
    application: IntArray
    applications: tuple[str, ...] = ("",)
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if self.n_nodes.size == 0:
            raise SlowpokeError(
                "the schedule is empty: no job has at least one node and a duration above zero"
            )

    @property
    def scheduled_node_hours(self) -> float:
        """Usage if no job failed."""
        return float(self.n_jobs @ (self.n_nodes * self.hours))

    @property
    def total_jobs(self) -> float:
        """Number of jobs of all types."""
        return float(self.n_jobs.sum())

    def scaled(self, factor: float) -> "Schedule":
        """The same jobs with every duration multiplied by `factor` (papers/002, section 7.3)."""
        if not (np.isfinite(factor) and factor > 0):
            raise SlowpokeError(f"durations cannot be scaled by {factor}: give a factor above zero")
        return Schedule(
            self.n_nodes,
            self.hours * factor,
            self.n_jobs,
            self.application,
            self.applications,
            self.notes,
        )


def _bad_value(name: str, rule: str, values: FloatArray, bad: npt.NDArray[np.bool_]) -> None:
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise SlowpokeError(f"{name} of job {at} is {values[at]}: {rule}")


def schedule_of_jobs(
    n_nodes: npt.ArrayLike,
    hours: npt.ArrayLike,
    n_jobs: npt.ArrayLike | None = None,
    application: npt.ArrayLike | None = None,
    applications: Sequence[str] = ("",),
    notes: Sequence[str] = (),
    keep_empty: bool = False,
) -> Schedule:
    """Group jobs of the same size, duration and application. O(n log n).

    Args:
        n_nodes: (n_jobs,), whole numbers >= 1.
        hours: (n_jobs,), finite, >= 0; jobs of no duration are left out and noted.
        n_jobs: (n_jobs,), how many such jobs; 1 each if not given.
        application: (n_jobs,), index into `applications`; 0 if not given.
        applications: Names.
        notes: Carried along.
        keep_empty: Keep jobs of no duration; with `segments="paper"` each is then charged a whole
            segment, as in the authors' code.

    Raises:
        SlowpokeError: Lengths that differ, missing (NaN), negative or infinite values, a job
            without nodes, or no job at all.
    """
    n = np.atleast_1d(np.asarray(n_nodes, dtype=np.float64))
    t = np.atleast_1d(np.asarray(hours, dtype=np.float64))
    w = np.ones_like(n) if n_jobs is None else np.atleast_1d(np.asarray(n_jobs, dtype=np.float64))
    a = np.zeros(n.shape, dtype=np.int64)
    if application is not None:
        a = np.atleast_1d(np.asarray(application, dtype=np.int64))
    if n.ndim != 1 or not n.shape == t.shape == w.shape == a.shape:
        raise SlowpokeError(
            f"nodes {n.shape}, hours {t.shape}, jobs {w.shape} and applications {a.shape} of a "
            "schedule must be lists of one length"
        )
    _bad_value("nodes", "give a whole number from 1 to 1e12", n, ~((n >= 1) & (n <= 1e12)))
    _bad_value("nodes", "give a whole number", n, n != np.floor(n))
    _bad_value("duration in hours", "give a value from 0 to 1e9", t, ~((t >= 0) & (t <= 1e9)))
    _bad_value("number of jobs", "give a value from 0 to 1e15", w, ~((w >= 0) & (w <= 1e15)))
    keep = ((t > 0) | keep_empty) & (w > 0)
    all_notes = list(notes)
    n_without = float(w[t == 0].sum())
    if n_without and not keep_empty:
        all_notes.append(f"{n_without:g} jobs of no duration are left out")
    if not keep.all():
        n, t, w, a = n[keep], t[keep], w[keep], a[keep]
    # One integer key per type: sorting integers is 20 times faster than sorting rows.
    t_values, t_index = np.unique(t, return_inverse=True)
    n_values, n_index = np.unique(n, return_inverse=True)
    shape = (len(applications), max(1, n_values.size), max(1, t_values.size))
    key, index = np.unique(np.ravel_multi_index((a, n_index, t_index), shape), return_inverse=True)
    a_of, n_of, t_of = np.unravel_index(key, shape)
    return Schedule(
        n_values[n_of],
        t_values[t_of],
        np.bincount(index, weights=w, minlength=key.size).astype(np.float64),
        np.asarray(a_of, dtype=np.int64),
        tuple(applications),
        tuple(all_notes),
    )


def schedule_of_bins(
    n_nodes: npt.ArrayLike, hours: npt.ArrayLike, expected_jobs: npt.ArrayLike
) -> Schedule:
    """A schedule from a binned distribution rho(N, T) of expected jobs (papers/002, section 5).

    Args:
        n_nodes: (A,), centres of the bins of size, rounded to whole nodes.
        hours: (B,), centres of the bins of duration.
        expected_jobs: (A, B), jobs expected in each bin; fractions are usual.

    Raises:
        SlowpokeError: Shapes that do not fit, or values that `schedule_of_jobs` refuses.
    """
    n = np.rint(np.asarray(n_nodes, dtype=np.float64))
    t = np.asarray(hours, dtype=np.float64)
    rho = np.asarray(expected_jobs, dtype=np.float64)
    if n.ndim != 1 or t.ndim != 1 or rho.shape != (n.size, t.size):
        raise SlowpokeError(
            f"a distribution over {n.shape} sizes and {t.shape} durations needs expected jobs of "
            f"shape ({n.size}, {t.size}), not {rho.shape}"
        )
    grid_n, grid_t = np.meshgrid(n, t, indexing="ij")
    return schedule_of_jobs(grid_n.ravel(), grid_t.ravel(), rho.ravel())
