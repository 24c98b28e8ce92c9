"""Spectrum-based localisation: which place is crossed by what fails and spared by what passes, in
the manner of MicroRank (Yu et al., WWW 2021), with the coefficients of Ochiai and D*."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.program import Program
from slowpoke_tracer.baselines.events import Events, cell_sums, events_of, raw_trace_bytes
from slowpoke_tracer.detector import Context, Evidence
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.remembered import remembered
from slowpoke_tracer.suspects import scored_diagnosis


@dataclass(frozen=True, slots=True)
class SpectrumDetector:
    """Every event is a test that fails if it is slow for its pattern, and covers what it used.

    Attributes:
        slow: Multiple of the pattern's expected duration beyond which an event fails; ours
            (MicroRank uses three standard deviations of services that this chip does not have).
        coefficient: `ochiai` ef / sqrt((ef + nf)(ef + ep)), or `dstar` ef^2 / (ep + nf).
        threshold: A place is reported if its coefficient exceeds it; ours.
        min_failed: Fewer failed events in a window than this are chance; ours.
        n_windows: Windows that are judged apart, the worst counts; ours.
        top: Places reported at most; ours.
    """

    slow: float = 1.75
    coefficient: Literal["ochiai", "dstar"] = "ochiai"
    threshold: float = 0.5
    min_failed: int = 3
    n_windows: int = 8
    top: int = 1
    name: str = "spectrum"

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """Score of a place: its coefficient in its worst window.

        The expected duration of a pattern is its mean in the profile, else its median in the run.
        """
        events = events_of(evidence, context.program)
        profile = None
        if context.profile is not None:
            profile = events_of(context.profile, context.program)
        core_fails, message_fails = (
            _ratio_to_expected(events, profile, part) > self.slow for part in ("compute", "message")
        )
        n_windows = min(self.n_windows, events.n_windows)
        n_cores, n_places = context.chip.n_cores, len(events.places)
        n_links = n_places - n_cores
        of_window = np.arange(events.n_windows) * n_windows // events.n_windows
        value, covered = np.zeros(n_places), np.zeros(n_places, dtype=bool)
        # computations and messages are two suites of tests: no computation covers a link
        for seen, fails, used, n, own in (
            (events.compute, core_fails, events.cores_used, n_cores, slice(0, n_cores)),
            (events.transfers, message_fails, events.links_used, n_links, slice(n_cores, None)),
        ):
            window = of_window[seen.window]
            total = np.bincount(window, seen.count * fails, n_windows)
            ef, ep = (
                cell_sums(seen.pattern, window, seen.count * these, used, n_windows, n)
                for these in (fails, ~fails)
            )
            covered[own] |= (ef + ep).any(axis=0)
            for this in np.flatnonzero(total >= self.min_failed):
                found = coefficient(self.coefficient, ef[this], ep[this], float(total[this]))
                value[own] = np.maximum(value[own], found)
        scores = {events.places[i]: float(value[i]) for i in np.flatnonzero(covered)}
        return scored_diagnosis(
            scores, self.threshold, scores, context.chip,
            f"spectrum: {self.coefficient}, against "
            f"{'the profile' if profile else 'own medians'}, from the {events.source}",
            top=self.top,
        )  # fmt: skip

    def storage_bytes(self, program: Program) -> float:
        """Bytes on the core that keeps most: the full trace."""
        return raw_trace_bytes(program)


def coefficient(
    name: Literal["ochiai", "dstar"],
    ef: NDArray[np.float64],
    ep: NDArray[np.float64],
    failed: float,
) -> NDArray[np.float64]:
    """Suspiciousness of places that ef failed and ep passed events covered, of `failed` in all.

    >>> coefficient("ochiai", np.array([4.0, 1.0]), np.array([0.0, 3.0]), 4.0).tolist()
    [1.0, 0.25]
    >>> coefficient("dstar", np.array([3.0]), np.array([1.0]), 5.0).tolist()
    [3.0]
    """
    nf = np.maximum(failed - ef, 0.0)
    if name == "ochiai":
        below = np.sqrt((ef + nf) * (ef + ep))
        return np.where(below > 0, ef / np.where(below > 0, below, 1.0), 0.0)
    below = ep + nf
    return np.where(
        below > 0, ef**2 / np.where(below > 0, below, 1.0), np.where(ef > 0, np.inf, 0.0)
    )


@remembered
def _numbers(events: Events) -> NDArray[np.int64]:
    """(n_rows,) number of each row of the events' table among the program's patterns, or -1."""
    table, known = events.compute.table, Patterns.of_program(events.program).table
    if table is known:
        return np.arange(len(known))
    key = ["recorder", "kind", "op", "group", "src", "dst", "role", "work"]
    index = {row: i for i, row in enumerate(known[key].tolist())}
    return np.array([index.get(row, -1) for row in table[key].tolist()], dtype=np.int64)


def _ratio_to_expected(events: Events, profile: Events | None, part: str) -> NDArray[np.float64]:
    """(n,) duration over the expected duration of the same pattern."""
    n_known = len(Patterns.of_program(events.program))
    expected = np.full(n_known + 1, np.nan)
    if profile is not None:
        other = profile.compute if part == "compute" else profile.transfers
        rows = _numbers(profile)[other.pattern]
        total = np.bincount(rows, other.mean_cycles * other.count, n_known)
        count = np.bincount(rows, other.count, n_known)
        np.divide(total, count, out=expected[:-1], where=count > 0)
    seen = events.compute if part == "compute" else events.transfers
    mine = _numbers(events)[seen.pattern]
    unknown = np.flatnonzero(np.isnan(expected[mine]))
    order = unknown[np.lexsort((seen.mean_cycles[unknown], mine[unknown]))]
    new, first, size = np.unique(mine[order], return_index=True, return_counts=True)
    expected[new] = seen.mean_cycles[order][first + (size - 1) // 2]
    ratio: NDArray[np.float64] = seen.mean_cycles / np.maximum(expected[mine], 1e-12)
    return ratio
