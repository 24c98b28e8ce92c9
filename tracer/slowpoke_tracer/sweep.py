"""The sweep: of all intervals of whole phases, the one in which a fault explains a run best.

Moving one edge at a time stops at the first hill: an interval that is an epoch too long with a
slowdown that is too mild explains nearly as much as the truth, and everything between them less.
Epochs do not share cells, so that what an interval leaves unexplained is a sum over epochs. Where
each epoch's share is known for all intervals inside it, the best one of the run follows without a
search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.compiled import compiled_untyped
from slowpoke_tracer.phase_bank import Fold, PhaseFault
from slowpoke_tracer.synthesis import LEAST_MOVE, REACH, Synthesis, huber

MOST_STARTS = 96
"""In a longer epoch not every phase is tried as the first one."""

TURNS = 3
"""Times that interval and slowdown are fitted by turns."""


def polished(
    synthesis: Synthesis, fault: PhaseFault, accepted: Sequence[PhaseFault], factor: float
) -> PhaseFault:
    """Interval and slowdown by turns, on the whole run, for as long as that explains more.

    Each of the two hides an error of the other.

    Args:
        synthesis: Of the run.
        fault: Where to start.
        accepted: Faults that are there besides it.
        factor: Step of the slowdown.
    """
    value = synthesis.misfit((*accepted, fault))
    for _ in range(TURNS):
        moved = edged(synthesis, fault, accepted)
        turned, _ = synthesis.fit_slowdown(moved, accepted, factor, 2)  # interpolated: tried first
        score, moved = min(
            ((synthesis.misfit((*accepted, f)), f) for f in (turned, moved)), key=lambda x: x[0]
        )
        if score >= value - LEAST_MOVE:
            break
        fault, value = moved, score
    return fault


def edged(synthesis: Synthesis, fault: PhaseFault, accepted: Sequence[PhaseFault]) -> PhaseFault:
    """A fault of known slowdown in the interval in which it explains most."""
    whole, _ = best_whole_interval(synthesis, fault, accepted)
    before, after = (synthesis.misfit((*accepted, one)) for one in (fault, whole))
    better = after < before - LEAST_MOVE
    return synthesis.fit_interval(whole if better else fault, accepted, 1.0)


def best_whole_interval(
    synthesis: Synthesis, fault: PhaseFault, accepted: Sequence[PhaseFault]
) -> tuple[PhaseFault, float]:
    """The fault in the whole phases in which it explains most.

    Args:
        synthesis: Of the run.
        fault: Place and slowdown; of its interval counts but which epochs are near it.
        accepted: Faults that are there besides it.

    Returns:
        The fault, and its misfit in the epochs near it, in nats.

    Cost: every replayed phase of the epochs near it once under the fault, and O(phases of an epoch
    x patterns' records in these epochs) sums.
    """
    bank, known = synthesis.bank(0), synthesis.known(0)
    n_phases, n_groups = bank.n_phases, bank.program.n_groups
    epoch_of_phase = np.repeat(bank.epoch_of_batch, n_groups)
    offsets = np.searchsorted(epoch_of_phase, np.arange(bank.n_epochs + 1)).tolist()
    phases = [
        range(begin, end)
        for begin, end in pairwise(offsets)
        if begin < end and begin < fault.last + REACH and end > fault.first - REACH
    ]
    always = replace(fault, first=0.0, last=float(n_phases))
    healthy: dict[int, Fold] = {}
    slow: dict[int, Fold] = {}
    for index in range(phases[0][0], phases[-1][-1] + 1):
        active = [f for f in accepted if f.first < index + 1 and f.last > index]
        healthy[index] = bank.under(index, active, known)
        slow[index] = bank.under(index, [*active, always], known)
    tables = [
        _epoch_table(synthesis, int(epoch_of_phase[own[0]]), own, healthy, slow) for own in phases
    ]
    free = np.array([costs[0, 0] for _, costs in tables])  # of each epoch if it is healthy
    full = np.array([costs[0, -1] for _, costs in tables])  # and if all of it is slow
    best, at = np.inf, (phases[0][0], phases[-1][-1] + 1)
    open_best, opened_at = np.inf, phases[0][0]  # slow from somewhere before the epoch at hand
    for number, (starts, costs) in enumerate(tables):
        begin, before, after = phases[number][0], free[:number].sum(), free[number + 1 :].sum()
        inside = costs[:, 1:].copy()
        inside[starts[:, None] >= np.arange(1, costs.shape[1])[None, :]] = np.inf
        row, column = divmod(int(np.argmin(inside)), inside.shape[1])
        within = float(before + inside[row, column] + after)
        if within < best:
            best, at = within, (begin + int(starts[row]), begin + column + 1)
        closing = int(np.argmin(costs[0, 1:])) + 1
        through = float(open_best + costs[0, closing] + after)
        if through < best:
            best, at = through, (opened_at, begin + closing)
        row = int(np.argmin(costs[:, -1]))
        opened = float(before + costs[row, -1])
        open_best += float(full[number])
        if opened < open_best:
            open_best, opened_at = opened, begin + int(starts[row])
    return replace(fault, first=float(at[0]), last=float(at[1])), best


def _epoch_table(
    synthesis: Synthesis, epoch: int, own: range, healthy: dict[int, Fold], slow: dict[int, Fold]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(n_starts,) phases, and (n_starts, n + 1) nats of an epoch that is slow from each on up to
    the phase at each place; up to the start itself it is healthy.
    """
    bank = synthesis.bank(0)
    n = len(bank.patterns)
    count, total = np.zeros(n), np.zeros(n)
    for index in own:
        rows = bank.rows(index)
        count[rows] += healthy[index].n_records
        total[rows] += healthy[index].log_sum
    starts = np.arange(0, len(own), -(-len(own) // MOST_STARTS))
    change = [slow[index].log_sum - healthy[index].log_sum for index in own]
    costs = np.empty((len(starts), len(own) + 1))
    _costs(
        np.ascontiguousarray(synthesis.residual[:, epoch]),
        np.ascontiguousarray(synthesis.baseline.means.variance[:, epoch]),
        bank.healthy_cells_of(epoch)[0],
        count,
        total,
        np.cumsum([0, *map(len, change)]),
        np.concatenate([bank.rows(index) for index in own]),
        np.concatenate(change),
        starts,
        costs,
        *np.empty((3, n)),
    )
    return starts, costs


@compiled_untyped
def _nats(residual, supposed, variance):  # type: ignore[no-untyped-def]
    """Cells in which nothing was observed cost nothing."""
    if residual != residual:
        return 0.0
    return huber(residual, supposed if supposed == supposed else 0.0, variance)


@compiled_untyped
def _costs(  # type: ignore[no-untyped-def]
    residual, variance, base, count, total, offsets, rows, change, starts, result, cost, now, at
):
    n_phases = len(offsets) - 1
    healthy = 0.0
    for row in range(len(residual)):
        effect = total[row] / count[row] - base[row] if count[row] > 0 else 0.0
        cost[row] = _nats(residual[row], effect, variance[row])
        healthy += cost[row]
    for number in range(len(starts)):
        for row in range(len(residual)):
            now[row], at[row] = total[row], cost[row]
        value = healthy
        for phase in range(starts[number] + 1):
            result[number, phase] = value
        for phase in range(starts[number], n_phases):
            for entry in range(offsets[phase], offsets[phase + 1]):
                row = rows[entry]
                if count[row] > 0:
                    now[row] += change[entry]
                    after = _nats(residual[row], now[row] / count[row] - base[row], variance[row])
                    value += after - at[row]
                    at[row] = after
            result[number, phase + 1] = value
