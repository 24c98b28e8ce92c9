"""The phase bank: cells of a run in which some phases are under a fault and all others healthy.

A run is a row of phases (the layer groups of batch 0, of batch 1, ...) with barriers between them.
A hypothesis therefore needs the phases that its fault covers, and no others; the rest is kept.
Batches of one size do the same work and differ by noise alone, so a few of them may stand for all
in a long run, whose hypotheses then cost no more than those of a short one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.compiled import compiled_untyped
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Place
from slowpoke_mapping.program import Program
from slowpoke_tracer.layout import MIN_DURATION_CYCLES
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.trace import PhaseTimes
from slowpoke_tracer.twin import PhaseReplays


@dataclass(frozen=True, slots=True)
class PhaseFault:
    """A fault on the clock of phases: 3.5 is the middle of the fourth layer group of batch 0.

    Attributes:
        place: What is slow.
        slowdown: Time multiplier, >= 1.
        first: When it starts.
        last: When it ends, > first; the number of phases for never.
    """

    place: Place
    slowdown: float
    first: float
    last: float

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.last:
            raise SlowpokeError(
                f"{self.place}: phases {self.first:g} to {self.last:g} are empty; a fault starts "
                "at 0 or later and ends after it starts"
            )


class Fold(NamedTuple):
    """What a phase leaves in the patterns that it touches.

    Attributes:
        cycles: How long it lasted.
        n_records: (n_rows,) records.
        log_sum: (n_rows,) sum of ln(duration).
        log_max: (n_rows,) largest ln(duration); -inf without records.
    """

    cycles: float
    n_records: NDArray[np.int64]
    log_sum: NDArray[np.float64]
    log_max: NDArray[np.float64]


class _Group(NamedTuple):
    """Which patterns a layer group touches; positions are among `rows`, -1 for none."""

    rows: NDArray[np.int64]
    of_event: NDArray[np.int64]
    port_of_event: NDArray[np.int64]


def replayed_batches(program: Program, most: int) -> tuple[list[int], NDArray[np.int64]]:
    """Which batches are replayed, and for each batch of the run the place of its stand-in there.

    The first `most` full batches take turns; a last batch with fewer samples stands for itself.
    """
    units = np.array([program.units_in_batch(batch) for batch in range(program.n_batches)])
    full = np.flatnonzero(units == units.max())
    batches = [*full[:most].tolist(), *np.flatnonzero(units < units.max()).tolist()]
    stand_in = np.empty(program.n_batches, dtype=np.int64)
    stand_in[full] = np.arange(len(full)) % most
    stand_in[units < units.max()] = np.arange(min(most, len(full)), len(batches))
    return batches, stand_in


@dataclass(eq=False)
class PhaseBank:
    """Phases of one noisy run of the twin, healthy and under hypotheses.

    Args:
        program: What runs.
        patterns: Patterns of the observed run's sketch.
        n_epochs: Epochs of that sketch.
        replays: Simulates single phases of some batches.
        stand_in: (n_batches,) which of those batches stands for a batch; by default each its own.
    """

    program: Program
    patterns: Patterns
    n_epochs: int
    replays: PhaseReplays
    stand_in: NDArray[np.int64] | None = None
    _groups: list[_Group] = field(default_factory=list)
    _healthy: list[Fold] = field(default_factory=list)
    _healthy_cells: dict[int, tuple[NDArray[np.float64], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        program = self.program
        for group in range(program.n_groups):
            events = slice(
                *(int(e) for e in program.event_offsets[program.group_offsets[group : group + 2]])
            )
            own, port = self.patterns.of_event[events], self.patterns.port_of_event[events]
            rows, at = np.unique(np.concatenate([own, port]), return_inverse=True)
            lost = int(np.searchsorted(rows, 0))  # -1, where nothing is recorded
            at = at.astype(np.int64) - lost
            self._groups.append(_Group(rows[lost:], at[: len(own)], at[len(own) :]))
        self._healthy = [self._folded(i, times) for i, times in enumerate(self.replays.healthy())]

    @cached_property
    def spans(self) -> NDArray[np.bool_]:
        """(n_patterns, n_groups) where a pattern happens; shared slots have several groups."""
        result = np.zeros((len(self.patterns), len(self._groups)), dtype=bool)
        for number, group in enumerate(self._groups):
            result[group.rows, number] = True
        return result

    def cells_within(self, only: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(n_patterns, n_epochs) cells to which only the (n_epochs, n_groups) segments add."""
        outside = self.spans.astype(np.float32) @ (~only).T.astype(np.float32)
        n_spans = self.spans.sum(axis=1)
        return np.asarray((outside == 0) & (n_spans > 0)[:, None], dtype=np.bool_)

    @property
    def n_phases(self) -> int:
        """Layer groups of all batches."""
        return self.program.n_batches * self.program.n_groups

    @property
    def healthy_cycles(self) -> NDArray[np.float64]:
        """(n_phases,) how long each phase lasts without a fault."""
        return np.array([self.healthy_fold(index).cycles for index in range(self.n_phases)])

    def run(
        self,
        faults: Sequence[PhaseFault],
        known: dict[object, Fold],
        only: NDArray[np.bool_] | None = None,
    ) -> PhaseRun:
        """The run under faults; cost of the phases that are not in `known`, which is added to.

        Args:
            faults: All of them.
            known: Phases that were replayed before.
            only: (n_epochs, n_groups) segments that matter; in others nothing is replayed.
        """
        folds: dict[int, Fold] = {}
        epochs, n_groups = self.epoch_of_batch, self.program.n_groups
        for index in covered(faults, self.n_phases):
            batch, group = divmod(index, n_groups)
            if only is not None and not only[epochs[batch], group]:
                continue
            active = [f for f in faults if f.first < index + 1 and f.last > index]
            folds[index] = self.under(index, active, known)
        return PhaseRun(self, folds)

    def rows(self, index: int) -> NDArray[np.int64]:
        """Patterns that a phase touches, in the order of its fold."""
        return self._groups[index % self.program.n_groups].rows

    def under(self, index: int, active: list[PhaseFault], known: dict[object, Fold]) -> Fold:
        """One phase under faults, whose edges may lie inside it."""
        if not active:
            return self.healthy_fold(index)
        inside = [(max(f.first - index, 0.0), min(f.last - index, 1.0)) for f in active]
        replayed = self._replayed_as(index)
        key = (replayed, *((f.place, f.slowdown, *x) for f, x in zip(active, inside, strict=True)))
        if key in known:
            return known[key]
        whole = self._healthy[replayed].cycles
        real = []
        for fault, (opens, closes) in zip(active, inside, strict=True):
            start, end = opens * whole, np.inf
            if closes < 1:
                # The rest of a phase is as long as the fault makes it, not as when healthy.
                lasting = [replace(f, last=max(f.last, index + 1.0)) for f in active]
                rest = self.under(index, lasting, known).cycles - start
                end = start + max(rest * (closes - opens) / (1 - opens), 1.0)
            real.append(Fault(fault.place, fault.slowdown, start, end))
        known[key] = self._folded(replayed, self.replays.faulty(replayed, real))
        return known[key]

    def _replayed_as(self, index: int) -> int:
        """Which of the replayed phases stands for a phase of the run."""
        if self.stand_in is None:
            return index
        batch, group = divmod(index, self.program.n_groups)
        return int(self.stand_in[batch]) * self.program.n_groups + group

    def _folded(self, index: int, times: PhaseTimes) -> Fold:
        group = self._groups[index % self.program.n_groups]
        n = len(group.rows)
        fold = Fold(times.cycles, np.zeros(n, np.int64), np.zeros(n), np.full(n, -np.inf))
        for durations, rows in (
            (times.duration, group.of_event),
            (times.port_duration, group.port_of_event),
        ):
            _fold(np.ascontiguousarray(durations), rows, *fold[1:])
        return fold

    def cells_of(self, epoch: int, folds: dict[int, Fold]) -> tuple[NDArray[np.float64], ...]:
        """(n_patterns,) mean and largest ln(duration) in an epoch; NaN where nothing happens."""
        n, n_groups = len(self.patterns), self.program.n_groups
        count, log_sum, log_max = np.zeros(n), np.zeros(n), np.full(n, -np.inf)
        for batch in np.flatnonzero(self.epoch_of_batch == epoch).tolist():
            for group in range(n_groups):
                index = batch * n_groups + group
                fold = folds.get(index) or self.healthy_fold(index)
                rows = self._groups[group].rows
                count[rows] += fold.n_records
                log_sum[rows] += fold.log_sum
                log_max[rows] = np.maximum(log_max[rows], fold.log_max)
        with np.errstate(invalid="ignore"):
            return log_sum / np.where(count > 0, count, np.nan), np.where(
                count > 0, log_max, np.nan
            )

    def healthy_cells_of(self, epoch: int) -> tuple[NDArray[np.float64], ...]:
        """As `cells_of`, without a fault; kept."""
        if epoch not in self._healthy_cells:
            self._healthy_cells[epoch] = self.cells_of(epoch, {})
        return self._healthy_cells[epoch]

    @property
    def epoch_of_batch(self) -> NDArray[np.int64]:
        """(n_batches,) epoch of each batch (design.md section 5)."""
        n_batches = self.program.n_batches
        return np.arange(n_batches) * self.n_epochs // n_batches

    def healthy_fold(self, index: int) -> Fold:
        """A phase without a fault."""
        return self._healthy[self._replayed_as(index)]


@dataclass(frozen=True, eq=False)
class PhaseRun:
    """A run of which some phases are not healthy."""

    bank: PhaseBank
    folds: dict[int, Fold]

    @property
    def cycles(self) -> NDArray[np.float64]:
        """(n_phases,) how long each phase lasts."""
        cycles = self.bank.healthy_cycles
        for index, fold in self.folds.items():
            cycles[index] = fold.cycles
        return cycles

    def change(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(n_patterns, n_epochs) change of mean and largest ln(duration); 0 where nothing is."""
        bank = self.bank
        shape = (len(bank.patterns), bank.n_epochs)
        mean, largest = np.zeros(shape), np.zeros(shape)
        n_groups, epochs = bank.program.n_groups, bank.epoch_of_batch
        for epoch in {int(epochs[index // n_groups]) for index in self.folds}:
            for into, now, before in zip(
                (mean, largest), bank.cells_of(epoch, self.folds), bank.healthy_cells_of(epoch),
                strict=True,
            ):  # fmt: skip
                into[:, epoch] = np.nan_to_num(now - before, nan=0.0)
        return mean, largest


def covered(faults: Sequence[PhaseFault], n_phases: int) -> list[int]:
    """Phases in which at least one fault is active."""
    phases: set[int] = set()
    for fault in faults:
        phases.update(range(int(fault.first), min(int(np.ceil(fault.last)), n_phases)))
    return sorted(phases)


@compiled_untyped
def _fold(durations, rows, count, log_sum, log_max):  # type: ignore[no-untyped-def]
    for event in range(durations.shape[0]):
        row = rows[event]
        if row < 0:
            continue
        for unit in range(durations.shape[1]):
            duration = durations[event, unit]
            if duration == duration:
                code = np.log(max(duration, MIN_DURATION_CYCLES))
                count[row] += 1
                log_sum[row] += code
                if code > log_max[row]:
                    log_max[row] = code
