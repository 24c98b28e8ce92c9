"""Events: what happened on each core and link in order of time, as the baselines read it.

From a trace an event is a record and a window is a batch unit. From a sketch an event is a
(pattern, epoch) cell with its mean duration and a window is an epoch: far fewer and smoother ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
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
        services = np.diff(self.paths.indptr) + 2.0  # with injection and ejection
        read = seen.column("src").astype(np.int64) < 0
        held = size / chip.link_bytes_per_cycle
        nominal = held * (services if chip.switching == "store_and_forward" else 1.0)
        nominal = nominal + (services - 1.0) * chip.router_delay_cycles
        nominal = nominal + read * (chip.dram_latency_cycles + size / chip.dram_bytes_per_cycle)
        ratio: NDArray[np.float64] = seen.mean_cycles / np.maximum(nominal, 1.0)
        return ratio

    @cached_property
    def paths(self) -> sp.csr_matrix:
        """(n_transfers, n_links) directed links that each message crosses."""
        seen = self.transfers
        return path_matrix(
            seen.column("src").astype(np.int64),
            seen.column("dst").astype(np.int64),
            self.program.chip,
        )

    @cached_property
    def physical_of(self) -> NDArray[np.int64]:
        """(n_links,) physical link, by its place in `chip.physical_links`, of each direction."""
        chip = self.program.chip
        number = {(link.src, link.dst): i for i, link in enumerate(chip.physical_links)}
        ends = np.sort(chip.network.links, axis=1)
        return np.array([number[int(a), int(b)] for a, b in ends], dtype=np.int64)

    @property
    def cores_used(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(offsets, cores) that each computation uses: its own, in the manner of `links_used`."""
        return np.arange(len(self.compute) + 1), self.core

    @cached_property
    def links_used(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(offsets, physical links): message m crosses links[offsets[m] : offsets[m + 1]]."""
        return self.paths.indptr.astype(np.int64), self.physical_of[self.paths.indices]

    @cached_property
    def crossings(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(message, physical link) of every crossing, in order of the messages."""
        offsets, links = self.links_used
        return np.repeat(np.arange(len(self.transfers)), np.diff(offsets)), links

    @cached_property
    def series(self) -> tuple[tuple[Place, NDArray[np.int64]], ...]:
        """Every covered core with its computations, and every physical link with its crossings,
        each in order of time."""
        _, link = self.crossings
        chip = self.program.chip
        result = []
        for offset, column, n in (
            (0, self.core, chip.n_cores),
            (chip.n_cores, link, len(chip.physical_links)),
        ):
            # short integers: numpy sorts them by counting
            order = np.argsort(column.astype(np.min_scalar_type(n)), kind="stable")
            parts = np.split(order, np.cumsum(np.bincount(column, minlength=n))[:-1])
            result += [(self.places[offset + i], part) for i, part in enumerate(parts) if len(part)]
        return tuple(result)

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
        for value, seen, (offsets, place), n in (
            (core, self.compute, self.cores_used, chip.n_cores),
            (message, self.transfers, self.links_used, len(chip.physical_links)),
        ):
            total, count = (
                cell_sums(seen.window, weight, offsets, place, self.n_windows, n)
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
    window: NDArray[np.integer],
    weight: NDArray[np.float64],
    offsets: NDArray[np.int64],
    place: NDArray[np.int64],
    n_windows: int,
    n_places: int,
) -> NDArray[np.float64]:
    """(n_windows, n_places) sums of the weights of the events that use a place.

    Args:
        window: (n_events,) where each counts.
        weight: (n_events,) what it adds.
        offsets: (n_events + 1,) event e uses place[offsets[e] : offsets[e + 1]].
        place: Numbers of places.
        n_windows: Number of windows.
        n_places: Number of places.
    """
    sums = np.zeros((n_windows, n_places))
    _add_up(window, np.asarray(weight, dtype=np.float64), offsets, place, sums)
    return sums


@compiled_untyped
def _add_up(window, weight, offsets, place, sums):  # type: ignore[no-untyped-def]
    for event in range(len(window)):
        for k in range(offsets[event], offsets[event + 1]):
            sums[window[event], place[k]] += weight[event]


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
