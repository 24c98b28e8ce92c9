"""Events: what happened on each core and link in order of time, as the baselines read it.

From a trace an event is a record and a window is a batch unit. From a sketch an event is a
(pattern, epoch) cell with its mean duration and a window is an epoch: far fewer and smoother ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.compiled import compiled_untyped
from slowpoke_mapping.places import Core, Place
from slowpoke_mapping.program import Program
from slowpoke_tracer.detect.observations import Observations, observe, record_patterns
from slowpoke_tracer.detect.routes import path_matrix
from slowpoke_tracer.detector import Evidence
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.remembered import remembered
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.trace import RAW_RECORD_BYTES


class Used(NamedTuple):
    """Places by pattern: pattern p uses places[offsets[p] : offsets[p + 1]]."""

    offsets: NDArray[np.int64]
    places: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Events:
    """The events of a run.

    Attributes:
        program: That ran.
        compute: Computations in order of end time.
        transfers: Messages in order of ejection time.
    """

    program: Program
    compute: Observations
    transfers: Observations

    @property
    def n_windows(self) -> int:
        """Number of time windows."""
        return self.compute.n_windows

    @property
    def source(self) -> str:
        """`trace` or `sketch`."""
        return self.compute.source

    @cached_property
    def core(self) -> NDArray[np.int64]:
        """(n_compute,) core of each computation."""
        return self.compute.column("recorder").astype(np.int64)

    @cached_property
    def core_ratio(self) -> NDArray[np.float64]:
        """(n_compute,) duration over what the nominal rate needs for the same work."""
        work = self.compute.column("work").astype(np.float64)
        nominal = np.maximum(work / self.program.chip.macs_per_cycle, 1.0)
        ratio: NDArray[np.float64] = self.compute.mean_cycles / nominal
        return ratio

    @cached_property
    def message_ratio(self) -> NDArray[np.float64]:
        """(n_transfers,) latency over that of the same message in an idle, nominal network."""
        chip, seen = self.program.chip, self.transfers
        size = seen.column("work").astype(np.float64)
        services = np.diff(self.links_used.offsets)[seen.pattern] + 2.0  # injection and ejection
        read = seen.column("src").astype(np.int64) < 0
        held = size / chip.link_bytes_per_cycle
        nominal = held * (services if chip.switching == "store_and_forward" else 1.0)
        nominal = nominal + (services - 1.0) * chip.router_delay_cycles
        nominal = nominal + read * (chip.dram_latency_cycles + size / chip.dram_bytes_per_cycle)
        ratio: NDArray[np.float64] = seen.mean_cycles / np.maximum(nominal, 1.0)
        return ratio

    @cached_property
    def physical_of(self) -> NDArray[np.int64]:
        """(n_links,) physical link, by its place in `chip.physical_links`, of each direction."""
        chip = self.program.chip
        number = {(link.src, link.dst): i for i, link in enumerate(chip.physical_links)}
        ends = np.sort(chip.network.links, axis=1)
        return np.array([number[int(a), int(b)] for a, b in ends], dtype=np.int64)

    @cached_property
    def cores_used(self) -> Used:
        """The core of each pattern of computations."""
        core = self.compute.table["recorder"].astype(np.int64)
        return Used(np.arange(len(core) + 1), core)

    @cached_property
    def links_used(self) -> Used:
        """The physical links that each pattern of messages crosses."""
        src, dst = (self.transfers.table[name].astype(np.int64) for name in ("src", "dst"))
        paths = path_matrix(src, dst, self.program.chip)
        return Used(paths.indptr.astype(np.int64), self.physical_of[paths.indices])

    def series(
        self, core: NDArray[np.float64], message: NDArray[np.float64]
    ) -> dict[Place, NDArray[np.float64]]:
        """A metric of every covered core's computations, and of every physical link's crossings,
        each in order of time.

        Args:
            core: (n_compute,) metric of computations.
            message: (n_transfers,) metric of messages.
        """
        chip = self.program.chip
        result = {}
        for value, seen, used, first, n in (
            (core, self.compute, self.cores_used, 0, chip.n_cores),
            (message, self.transfers, self.links_used, chip.n_cores, len(chip.physical_links)),
        ):
            ends = np.zeros(n + 1, dtype=np.int64)
            _count(seen.pattern, used.offsets, used.places, ends)
            ends = np.cumsum(ends)
            flat, cuts = np.empty(int(ends[-1])), ends.copy()
            _part(seen.pattern, value, used.offsets, used.places, cuts, flat)
            for i in np.flatnonzero(np.diff(ends)).tolist():
                result[self.places[first + i]] = flat[ends[i] : ends[i + 1]]
        return result

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Every core, then every physical link: the columns of window metrics."""
        chip = self.program.chip
        return (*map(Core, range(chip.n_cores)), *chip.physical_links)

    def window_metrics(
        self, core: NDArray[np.float64] | None = None, message: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """(n_windows, n_places) mean of a metric of the events of each place; NaN without any.

        Args:
            core: (n_compute,) metric of computations; `core_ratio` if None.
            message: (n_transfers,) metric of messages; `message_ratio` if None.
        """
        if core is None and message is None:
            return self._window_ratios
        return self._window_means(core, message)

    @cached_property
    def _window_ratios(self) -> NDArray[np.float64]:
        return self._window_means(None, None)

    def _window_means(
        self, core: NDArray[np.float64] | None, message: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        core = self.core_ratio if core is None else core
        message = self.message_ratio if message is None else message
        chip = self.program.chip
        parts = []
        for value, seen, used, n in (
            (core, self.compute, self.cores_used, chip.n_cores),
            (message, self.transfers, self.links_used, len(chip.physical_links)),
        ):
            total, count = (
                cell_sums(seen.pattern, seen.window, weight, used, self.n_windows, n)
                for weight in (value * seen.count, seen.count)
            )
            mean = np.full(total.shape, np.nan)
            np.divide(total, count, out=mean, where=count > 0)
            parts.append(mean)
        return np.concatenate(parts, axis=1)

    def window_latency(self) -> NDArray[np.float64]:
        """(n_windows,) from the first start to the last end: the service level that users see."""
        start, end = np.full(self.n_windows, np.inf), np.full(self.n_windows, -np.inf)
        for seen in (self.compute, self.transfers):
            np.minimum.at(start, seen.window, seen.start_cycles)
            np.maximum.at(end, seen.window, seen.end_cycles)
        return np.where(end > start, end - start, np.nan)


def cell_sums(
    pattern: NDArray[np.int64],
    window: NDArray[np.integer],
    weight: NDArray[np.float64],
    used: Used,
    n_windows: int,
    n_places: int,
) -> NDArray[np.float64]:
    """(n_windows, n_places) sums of the weights of the events that use a place.

    Args:
        pattern: (n_events,) of each event.
        window: (n_events,) where it counts.
        weight: (n_events,) what it adds.
        used: Places of each pattern.
        n_windows: Number of windows.
        n_places: Number of places.
    """
    sums = np.zeros((n_windows, n_places))
    weight = np.asarray(weight, dtype=np.float64)
    _add_up(pattern, window, weight, used.offsets, used.places, sums)
    return sums


@compiled_untyped
def _add_up(pattern, window, weight, offsets, places, sums):  # type: ignore[no-untyped-def]
    for event in range(len(pattern)):
        for k in range(offsets[pattern[event]], offsets[pattern[event] + 1]):
            sums[window[event], places[k]] += weight[event]


@compiled_untyped
def _count(pattern, offsets, places, after):  # type: ignore[no-untyped-def]
    for event in range(len(pattern)):
        for k in range(offsets[pattern[event]], offsets[pattern[event] + 1]):
            after[places[k] + 1] += 1


@compiled_untyped
def _part(pattern, value, offsets, places, at, flat):  # type: ignore[no-untyped-def]
    for event in range(len(pattern)):
        for k in range(offsets[pattern[event]], offsets[pattern[event] + 1]):
            flat[at[places[k]]] = value[event]
            at[places[k]] += 1


@remembered
def events_of(evidence: Evidence, program: Program) -> Events:
    """The events of a run's evidence; a sort by time, then linear."""
    if isinstance(evidence, Sketch):
        seen = observe(evidence, program)
        group = seen.column("group").astype(np.int64)
        seen = seen.take(np.lexsort((group, seen.window)))
    else:
        patterns = Patterns.of_program(program)
        pattern, batch, start, end = record_patterns(evidence, patterns)
        unit = np.concatenate([evidence.compute["unit"], evidence.transfers["unit"]])
        window = batch * program.units_per_batch + unit
        keep = np.flatnonzero(pattern >= 0)
        keep = keep[np.argsort(end[keep], kind="stable")]
        seen = Observations(
            patterns.table, pattern[keep], window[keep], np.ones(len(keep)),
            (end - start)[keep], start[keep], end[keep],
            max(program.total_units, int(window.max(initial=0)) + 1), "trace",
        )  # fmt: skip
    return Events(program, seen.compute, seen.transfers)


def raw_trace_bytes(program: Program, compute: bool = True, transfers: bool = True) -> float:
    """Bytes of the raw records of a run on the core that stores most, 32 B each (design.md 7)."""
    table = Patterns.of_program(program).table
    number = table["n_once"] * program.n_batches + table["n_per_unit"] * program.total_units
    wanted = ((table["kind"] == 0) & compute) | ((table["kind"] == 1) & transfers)
    per_core = np.bincount(
        table["recorder"], np.where(wanted, number, 0), minlength=program.chip.n_cores
    )
    return float(per_core.max(initial=0.0)) * RAW_RECORD_BYTES
