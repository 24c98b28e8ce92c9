"""Foreign traffic: delays that a slow link would not cause.

Traffic that the program does not know delays messages over a link, but not as a slow link would:
short and long ones, first and last ones alike. So after a fault has been simulated, too much of
what crosses its place is left unexplained.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slowpoke_mapping.places import Link, Place, Router
from slowpoke_tracer.detect.candidates import Candidates
from slowpoke_tracer.phase_bank import PhaseFault
from slowpoke_tracer.posterior import Claim
from slowpoke_tracer.synthesis import Synthesis

LEAST_SHARE, LEAST_CELLS, LEAST_LASTING_CELLS = 0.03, 40, 20
"""A message crosses a place that has so large a share in it; fewer cells cannot look strange, nor
fewer than the last number in one direction for most of a run."""

HEALTHY_NATS, STRANGE_NATS, STRANGE_SHARE = 0.55, 1.2, 0.2
"""Misfit of a healthy cell; what a real fault leaves at most in a cell that crosses it, and as a
share of the further misfit (measured on development seeds: of 335 faults 4 leave more of both, of
57 alarms from foreign traffic 41)."""

LASTING, LASTING_NATS = 0.8, 0.9
"""Traffic in one direction for most of a run is suspected sooner: programs that share a chip last,
and slow links seldom have one slow direction only (on development seeds 5 of 80 runs with foreign
traffic are flagged, 18 without this)."""

MOST_SLOWDOWN = 5.0
"""Foreign traffic that leaves a link usable never looks slower (measured: up to 4.4 at a fifth of a
link)."""

FOREIGN_SLOWDOWN = 2.0
"""Traffic of up to half a link makes it look no slower than this."""


def without_foreign(
    claims: Sequence[Claim],
    accepted: Sequence[PhaseFault],
    candidates: Candidates,
    synthesis: Synthesis,
) -> tuple[list[Claim], list[Place]]:
    """Claims that look like what was observed on their own messages, and places of the others.

    Foreign traffic crosses several links: once it is there, whatever is found behind it, and links
    that look but mildly slow, are more of it.

    Args:
        claims: In the order they were found.
        accepted: Their faults on the clock of phases.
        candidates: What crosses what.
        synthesis: Of the run.
    """
    kept: list[Claim] = []
    crowded: list[Place] = []
    for number, claim in enumerate(claims):
        if carries(claim) and (
            crowded or is_strange(number, claim.index, accepted, candidates, synthesis)
        ):
            crowded.append(claim.fault.place)
        else:
            kept.append(claim)
    if crowded:
        mild = [c for c in kept if carries(c) and c.fault.slowdown < FOREIGN_SLOWDOWN]
        crowded += [claim.fault.place for claim in mild]
        kept = [claim for claim in kept if claim not in mild]
    return kept, crowded


def carries(claim: Claim) -> bool:
    """Whether messages cross the place."""
    return isinstance(claim.fault.place, Link | Router)


def is_strange(
    number: int,
    index: int,
    accepted: Sequence[PhaseFault],
    candidates: Candidates,
    synthesis: Synthesis,
) -> bool:
    """Whether a fault leaves too much unexplained of what crosses its place.

    Args:
        number: Which of the accepted faults.
        index: Its candidate.
        accepted: All faults.
        candidates: What crosses what.
        synthesis: Of the run.
    """
    fault, others = accepted[number], [*accepted[:number], *accepted[number + 1 :]]
    if fault.slowdown > MOST_SLOWDOWN:
        return False
    residual = synthesis.residual
    share = candidates.share[:, index]
    crossing = np.zeros((len(residual), 1), dtype=bool)
    crossing[share.indices[share.data > LEAST_SHARE]] = True
    with_it, without = synthesis.effect(accepted).mean, synthesis.effect(others).mean
    cells = crossing & np.isfinite(residual) & (with_it != without)
    n_cells = int(cells.sum())
    if n_cells < LEAST_LASTING_CELLS:
        return False
    after = float(synthesis.nats(with_it)[cells].mean())
    before = max(float(synthesis.nats(without)[cells].mean()), HEALTHY_NATS)
    if is_lasting(fault, synthesis.bank(0).n_phases) and after > LASTING_NATS:
        return True
    most = HEALTHY_NATS + STRANGE_SHARE * (before - HEALTHY_NATS)
    return n_cells >= LEAST_CELLS and after > STRANGE_NATS and after > most


def is_lasting(fault: PhaseFault, n_phases: int) -> bool:
    """Whether one direction of a link is slow for most of the run."""
    one_way = isinstance(fault.place, Link) and not fault.place.both
    return one_way and min(fault.last, n_phases) - fault.first >= LASTING * n_phases
