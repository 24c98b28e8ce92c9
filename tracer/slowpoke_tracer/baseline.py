"""The healthy baseline: what each pattern's latency should be, congestion and noise included.

Made from noisy replays of the digital twin, or from recorded healthy runs (golden profiles). One
noise-free replay would not do: the mean of a logarithm depends on the noise of every hop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from slowpoke_mapping.faults import Fault
from slowpoke_mapping.program import Program
from slowpoke_mapping.scale import Scale
from slowpoke_tracer.cells import Cells, cells_of, cells_of_codes, empty_cells, fold_durations
from slowpoke_tracer.patterns import COMPUTE, PORT, TRANSFER, Patterns
from slowpoke_tracer.recorder import Recorder, SketchConfig
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.twin import Twin

VARIANCE_FLOOR = 0.002**2
"""Of a cell's mean log: below it the packed layout's rounding would look like evidence."""

PRIOR_SAMPLES = 8
"""Weight of the pooled variance when few replays give a cell's own."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """Healthy replays, cell by cell.

    Attributes:
        patterns: Patterns of the program.
        log_means: (n_runs, n_patterns, n_epochs) mean ln(duration) of each healthy run's cells.
        log_maxima: Likewise, of the longest duration.
        log_minima: Likewise, of the shortest.
        shares: (n_patterns, n_channels + n_ports) mean share of each channel's and port's own
            service time in the pattern's latency.
        steady: True if all epochs have the same composition, so that they can be pooled.
        group_cycles: (n_groups,) mean duration of a layer group in one batch, healthy.
        scale: Speeds of the chip that was replayed.
        source: What it was made from, for the diagnosis.
    """

    patterns: Patterns
    log_means: NDArray[np.float32]
    log_maxima: NDArray[np.float32]
    log_minima: NDArray[np.float32]
    shares: sp.csr_matrix
    steady: bool
    group_cycles: NDArray[np.float64]
    scale: Scale
    source: str

    @property
    def n_runs(self) -> int:
        """Number of healthy runs it was made from."""
        return len(self.log_means)

    @property
    def n_groups(self) -> int:
        """Number of layer groups."""
        return len(self.group_cycles)

    @cached_property
    def means(self) -> Moments:
        """Expected cell means and their variance."""
        return Moments.of(self.log_means, self.steady)

    @cached_property
    def maxima(self) -> Moments:
        """Expected cell maxima and their variance."""
        return Moments.of(self.log_maxima, self.steady)

    @cached_property
    def minima(self) -> Moments:
        """Expected cell minima and their variance."""
        return Moments.of(self.log_minima, self.steady)


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and variance of a cell statistic over healthy runs.

    Attributes:
        samples: (n_runs, n_patterns, n_epochs) the statistic in each run.
        mean: (n_patterns, n_epochs); pooled over epochs where they are alike.
        variance: (n_patterns, n_epochs) of a single new run's deviation from `mean`.
        steady: Whether epochs are pooled.
    """

    samples: NDArray[np.float32]
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    steady: bool

    @staticmethod
    def of(samples: NDArray[np.float32], steady: bool) -> Moments:
        """Moments of samples with NaN gaps; a variance is shrunk towards its kind's typical one."""
        axes = (0, 2) if steady else (0,)
        with np.errstate(invalid="ignore", divide="ignore"):
            seen = np.isfinite(samples)
            n = seen.sum(axis=axes, keepdims=True)
            filled = np.where(seen, samples, 0.0).astype(np.float64)
            mean = filled.sum(axis=axes, keepdims=True) / n
            square = np.where(seen, (samples - mean) ** 2, 0.0).sum(axis=axes, keepdims=True)
            own = square / np.maximum(n - 1, 1)
            typical = float(np.nanmedian(np.where(n > 1, own, np.nan))) if np.any(n > 1) else 1.0
            variance = (own * n + typical * PRIOR_SAMPLES) / (n + PRIOR_SAMPLES)
            variance = np.maximum(variance, VARIANCE_FLOOR) * (1 + 1 / np.maximum(n, 1))
        shape = samples.shape[1:]
        return Moments(
            samples,
            np.broadcast_to(mean[0], shape).copy(),
            np.broadcast_to(variance[0], shape).copy(),
            steady,
        )

    def residual(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n_patterns, n_epochs) deviation of a new run; NaN where nothing was recorded."""
        return values - self.mean

    def left_out(self, run: int) -> NDArray[np.float64]:
        """(n_patterns, n_epochs) deviation of healthy run `run` from the mean of the others."""
        n = len(self.samples)
        if n < 2:
            return np.zeros_like(self.mean)
        sample = self.samples[run].astype(np.float64)
        if self.steady:
            with np.errstate(invalid="ignore"):
                own = np.nanmean(np.where(np.isfinite(sample), sample, np.nan), axis=1)[:, None]
        else:
            own = sample
        others = (n * self.mean - own) / (n - 1)
        # A run in the mean deviates less than a new one: sqrt(n^2 - 1) / n repairs the variance.
        return np.asarray((sample - others) * np.sqrt((n - 1) * (n + 1)) / n, dtype=np.float64)


def twin_baseline(
    twin: Twin,
    replayer: Replayer,
    *,
    n_runs: int = 24,
    seed: int = 0,
    scale: Scale = Scale(),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Baseline:
    """The baseline of healthy replays; cost n_runs simulations.

    Args:
        twin: Replays the program.
        replayer: Sketches replays with the patterns of the observed run's sketch.
        n_runs: Replays; 16 to 24 give variances and an overdispersion factor.
        seed: Of the replays' noise.
        scale: Speeds to replay with.
        progress: Called with (done, total) replays.
    """
    seeds = replay_seeds(seed, n_runs)
    sketch, cycles = replayer.sketch_and_cycles(seeds[0], scale)
    cells = [cells_of(sketch, replayer.patterns)]
    progress(1, n_runs)
    for number, replay_seed in enumerate(seeds[1:], 2):
        cells.append(replayer.healthy_cells(replay_seed, scale))
        progress(number, n_runs)
    shares = sum(twin.shares(s, scale) for s in seeds[:3]) / min(3, n_runs)
    source = f"{n_runs} replays of the digital twin"
    return _baseline(twin.program, replayer.patterns, cells, shares, cycles, scale, source)


def profile_baseline(
    program: Program,
    patterns: Patterns,
    profiles: Sequence[Sketch],
    shares: sp.csr_matrix | None = None,
) -> Baseline:
    """The baseline of recorded healthy runs.

    Args:
        program: The program that both the profiles and the run executed.
        patterns: Patterns of the observed run's sketch.
        profiles: Sketches of healthy runs.
        shares: As `Twin.shares`; None takes equal shares for the hops of the route.
    """
    if shares is None:
        shares = route_shares(program)
    source = f"{len(profiles)} recorded profiles"
    cycles = _compute_cycles(program, profiles)
    cells = [cells_of(profile, patterns) for profile in profiles]
    return _baseline(program, patterns, cells, shares, cycles, Scale(), source)


def replay_seeds(seed: int, n: int) -> list[int]:
    """Seeds of a twin's replays, far from those a user would give a run."""
    state = np.random.SeedSequence([seed, 0x7417]).generate_state(n, np.uint32)
    return [int(s) for s in state]


@dataclass(frozen=True, eq=False)
class Replayer:
    """Sketches replays with the patterns and epochs of the observed run's sketch.

    Whatever the mode of that sketch, replays are recorded in slots, so that nothing is lost.
    """

    twin: Twin
    patterns: Patterns
    n_epochs: int

    def sketch(self, seed: int, scale: Scale = Scale(), faults: Sequence[Fault] = ()) -> Sketch:
        """The sketch of one replay."""
        return self.sketch_and_cycles(seed, scale, faults)[0]

    def healthy_cells(self, seed: int, scale: Scale = Scale()) -> Cells:
        """The cells of one healthy replay, as of its sketch, without a record of its events."""
        program, patterns = self.twin.program, self.patterns
        if program.chip.clock_skew_cycles > 0:
            # durations between two counters are rounded as differences of what these show
            return cells_of(self.sketch(seed, scale), patterns)
        cells = empty_cells(len(patterns), self.n_epochs)
        for index, times in enumerate(self.twin.phases(seed, scale).healthy()):
            batch, group = divmod(index, program.n_groups)
            tasks = program.group_offsets[group : group + 2]
            events = slice(*(int(event) for event in program.event_offsets[tasks]))
            epoch = self.n_epochs * batch // program.n_batches
            for durations, rows in (
                (times.duration, patterns.of_event[events]),
                (times.port_duration, patterns.port_of_event[events]),
            ):
                fold_durations(np.ascontiguousarray(durations), rows, epoch, *cells)
        return cells_of_codes(*cells)

    def sketch_and_cycles(
        self, seed: int, scale: Scale = Scale(), faults: Sequence[Fault] = ()
    ) -> tuple[Sketch, NDArray[np.float64]]:
        """The sketch of one replay, and (n_groups,) the mean duration of each group in a batch."""
        program = self.twin.program
        config = SketchConfig(n_epochs=self.n_epochs, max_length=max(len(self.patterns), 1))
        recorder = Recorder(program, config, self.patterns)
        cycles, before = np.zeros(program.n_groups), 0.0
        for block in self.twin.replay(faults, seed, scale):
            recorder.add(block)
            ends = [np.max(block.compute["end_cycles"], initial=before)]
            for name in ("eject_cycles", "consume_cycles"):
                ends.append(np.max(block.transfers[name], initial=before))
            group = block.compute["group"] if len(block.compute) else block.transfers["group"]
            if len(group):
                cycles[group[0]] += (max(ends) - before) / program.n_batches
                before = max(ends)
        return recorder.result(), cycles


def route_shares(program: Program) -> sp.csr_matrix:
    """(n_events, n_channels + n_ports) equal shares of the hops of each message's route."""
    chip = program.chip
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    src, dst = program.event_src, program.event_dst
    routes: dict[tuple[int, int], list[int]] = {}
    messages = np.flatnonzero(np.diff(program.dst_offsets)[program.event_task] > 0)
    writes = np.flatnonzero((dst < 0) & (src >= 0))
    for event in np.concatenate([messages, writes]):
        pair = (int(src[event]), int(dst[event]))
        if pair not in routes:
            a = pair[0] if pair[0] >= 0 else chip.dram_ports[-1 - pair[0]]
            b = pair[1] if pair[1] >= 0 else chip.dram_ports[-1 - pair[1]]
            hops = list(chip.network.route(a, b))
            if pair[0] >= 0:
                hops.append(chip.injection_channel(a))
            else:
                hops.append(chip.n_channels - 1 - pair[0])
            if pair[1] >= 0:
                hops.append(chip.ejection_channel(b))
            routes[pair] = hops
        hops = routes[pair]
        rows += [int(event)] * len(hops)
        columns += hops
        values += [1 / len(hops)] * len(hops)
    shape = (program.n_events, chip.n_channels + len(chip.dram_ports))
    return sp.csr_matrix((values, (rows, columns)), shape=shape)


def _baseline(
    program: Program,
    patterns: Patterns,
    cells: list[Cells],
    event_shares: sp.csr_matrix,
    group_cycles: NDArray[np.float64],
    scale: Scale,
    source: str,
) -> Baseline:
    log_means = np.stack([c.log_mean for c in cells]).astype(np.float32)
    return Baseline(
        patterns=patterns,
        log_means=log_means,
        log_maxima=np.stack([c.log_max for c in cells]).astype(np.float32),
        log_minima=np.stack([c.log_min for c in cells]).astype(np.float32),
        shares=_pattern_shares(program, patterns, event_shares, log_means),
        steady=_steady(program, log_means.shape[2]),
        group_cycles=group_cycles,
        scale=scale,
        source=source,
    )


def _steady(program: Program, n_epochs: int) -> bool:
    """Whether every epoch has the same number of full batches."""
    return (
        program.n_batches % n_epochs == 0 or program.n_batches < n_epochs
    ) and program.total_units % program.units_per_batch == 0


def _compute_cycles(program: Program, sketches: Sequence[Sketch]) -> NDArray[np.float64]:
    """(n_groups,) at least how long a group lasts: its busiest computation, per batch."""
    spans = np.zeros(program.n_groups)
    for sketch in sketches:
        lasting = np.zeros(program.n_groups)
        mean = sketch.duration_sum / np.maximum(sketch.count.sum(axis=1), 1)
        computing = sketch.patterns["kind"] == COMPUTE
        per_batch = sketch.count.sum(axis=1) / program.n_batches
        np.maximum.at(lasting, sketch.patterns["group"][computing], (mean * per_batch)[computing])
        spans += lasting / len(sketches)
    return spans


def _pattern_shares(
    program: Program,
    patterns: Patterns,
    event_shares: sp.csr_matrix,
    log_means: NDArray[np.float32],
) -> sp.csr_matrix:
    """(n_patterns, n_channels + n_ports): the events' shares, averaged over each pattern."""
    events = np.flatnonzero(patterns.of_event >= 0)
    transfer = patterns.table["kind"][patterns.of_event[events]] == TRANSFER
    events = events[transfer]
    owner = patterns.of_event[events]
    n_events = np.bincount(owner, minlength=len(patterns))
    mean = sp.csr_matrix(
        (1.0 / n_events[owner], (owner, events)), shape=(len(patterns), program.n_events)
    )
    shares = (mean @ event_shares).tocsr()
    ports = np.flatnonzero(patterns.table["kind"] == PORT)
    if len(ports):
        chip = program.chip
        service = (
            chip.dram_latency_cycles + patterns.table["work"][ports] / chip.dram_bytes_per_cycle
        )
        with np.errstate(invalid="ignore"):
            latency = np.exp(np.nanmean(log_means[:, ports, :], axis=(0, 2)))
        own = np.clip(np.nan_to_num(service / latency, nan=1.0), 0, 1)
        column = chip.n_channels - 1 - patterns.table["dst"][ports]
        shares = shares + sp.csr_matrix((own, (ports, column)), shape=shares.shape)
    return shares.tocsr()
