"""From scores to a diagnosis: a posterior over places with an explicit healthy class.

A place weighs exp(score - threshold), the healthy class weighs 1: a place is more probable than
health exactly when its score passes the threshold that keeps the stated false-positive rate (in
place of the paper's softmax, which always accuses somebody).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Core, Link, Place
from slowpoke_tracer.detect.candidates import Candidates
from slowpoke_tracer.detect.scan import Window
from slowpoke_tracer.diagnosis import Suspect
from slowpoke_tracer.prepare import Prepared

MOST_NATS = 500.0
"""Larger margins are all the same certainty, and exp() must not overflow."""

PARALLEL = 0.999
"""Cosine of two templates from which on traffic cannot tell their places apart."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A fault that was accepted.

    Attributes:
        fault: Place, slowdown and interval, as fitted.
        index: The candidate that raised the alarm.
        window: Its window.
        threshold: What its score had to pass.
        gain: Nats of misfit that it explains.
    """

    fault: Fault
    index: int
    window: Window
    threshold: float
    gain: float


def physical(place: Place) -> Place:
    """A link's physical link; any other place itself."""
    return place.physical if isinstance(place, Link) else place


def margins(
    scans: Mapping[str, Sequence[Window]], prepared: Prepared
) -> dict[Place, tuple[float, Window]]:
    """Every covered place's best score above its threshold, links by physical link."""
    result: dict[Place, tuple[float, Window]] = {}
    for statistic, windows in scans.items():
        for place, covered, family, window in zip(
            prepared.candidates.places,
            prepared.candidates.covered,
            prepared.candidates.family,
            windows,
            strict=True,
        ):
            if not covered:
                continue
            margin = window.score - prepared.thresholds[statistic, int(family)]
            name = physical(place)
            if name not in result or margin > result[name][0]:
                result[name] = (margin, window)
    return result


def suspects(
    left: Mapping[Place, tuple[float, Window]],
    claims: Sequence[Claim],
    prepared: Prepared,
    times: Mapping[Window, tuple[float, float]],
    horizon_cycles: float,
) -> tuple[list[Suspect], list[Suspect], float]:
    """Ranked and reported suspects, and the probability that nothing is slow.

    Args:
        left: Margins of what the accepted faults leave unexplained.
        claims: Accepted faults, in the order they were found.
        prepared: What the run was judged against.
        times: (start, end) cycles of every window that appears.
        horizon_cycles: End of the run.
    """
    claimed = {physical(claim.fault.place): claim for claim in claims}
    weight = {place: math.exp(min(margin, MOST_NATS)) for place, (margin, _) in left.items()}
    surest = max((claim.window.score - claim.threshold for claim in claims), default=0.0)
    for place in claimed:  # each accepted fault explains its own part: equal shares
        weight[place] = math.exp(min(max(surest, 0.0), MOST_NATS))
    total = 1.0 + sum(weight.values())
    reported = [
        Suspect(
            place=claim.fault.place,
            probability=weight[place] / total,
            score=claim.window.score - claim.threshold,
            slowdown=claim.fault.slowdown,
            start_cycles=claim.fault.start_cycles,
            end_cycles=min(claim.fault.end_cycles, horizon_cycles),
            ambiguous_with=ambiguous(prepared, claim.index, claim.window),
            evidence=(
                f"{claim.window.score:.0f} nats against healthy, {claim.threshold:.0f} are needed"
            ),
        )
        for place, claim in claimed.items()
    ]
    others = [
        Suspect(
            place=place,
            probability=weight[place] / total,
            score=margin,
            slowdown=window.slowdown,
            start_cycles=times[window][0],
            end_cycles=times[window][1],
            evidence=f"{window.score:.1f} nats against healthy",
        )
        for place, (margin, window) in left.items()
        if place not in claimed
    ]
    others.sort(key=lambda suspect: -suspect.score)
    ranked = [replace(s, place=physical(s.place)) for s in reported] + others
    return ranked, reported, 1.0 / total


def ambiguous(prepared: Prepared, index: int, window: Window) -> tuple[Place, ...]:
    """Places whose template over a window's patterns is proportional to a candidate's."""
    n_groups = prepared.baseline.n_groups
    groups = {segment % n_groups for segment in range(window.first, window.last + 1)}
    rows = np.isin(prepared.baseline.patterns.table["group"], list(groups))
    share = prepared.candidates.share[np.flatnonzero(rows)].tocsc()
    own: NDArray[np.float64] = share[:, index].toarray().ravel()
    length = float(np.linalg.norm(own))
    if length == 0:
        return ()
    norms = np.sqrt(np.asarray(share.multiply(share).sum(axis=0)).ravel())
    cosine = (share.T @ own) / np.where(norms > 0, norms * length, np.inf)
    accused = physical(prepared.candidates.places[index])
    same = (prepared.candidates.places[i] for i in np.flatnonzero(cosine > PARALLEL))
    return tuple(dict.fromkeys(physical(p) for p in same if physical(p) != accused))


def not_covered(candidates: Candidates) -> tuple[Place, ...]:
    """Cores and links that no pattern touches: unknown, not healthy."""
    seen: dict[Place, bool] = {}
    for place, covered in zip(candidates.places, candidates.covered, strict=True):
        name = physical(place)
        if isinstance(name, Core | Link):
            seen[name] = seen.get(name, False) or bool(covered)
    return tuple(place for place, covered in seen.items() if not covered)
