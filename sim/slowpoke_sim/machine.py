"""The machine: runs a program on the simulated chip, phase after phase, and hands out its trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault, parse_faults
from slowpoke_mapping.program import Program, TaskKind
from slowpoke_mapping.scale import Scale
from slowpoke_sim.compiled_engine import CompiledEngine
from slowpoke_sim.noise import Noise, noise_of
from slowpoke_sim.phase import Components, Phase
from slowpoke_sim.plan import Plan
from slowpoke_sim.simpy_engine import SimpyEngine
from slowpoke_sim.speeds import Speeds
from slowpoke_sim.timing import Clock, Timing
from slowpoke_tracer.trace import COMPUTE_DTYPE, TRANSFER_DTYPE, Trace, TraceMeta

_FIRST_HORIZON_CYCLES = 1e4
"""Endless intermittent faults are tabulated up to here, then four times as far as is needed."""


class Engine(Protocol):
    """Runs one phase of a plan."""

    def run_phase(
        self,
        batch: int,
        group: int,
        start_cycles: float,
        speeds: Speeds,
        components: Components,
        hop_cycles: bool = False,
    ) -> Phase:
        """Times of every event of a layer group in a batch; `components` is updated in place."""


ENGINES: dict[str, Callable[[Plan], Engine]] = {"compiled": CompiledEngine, "simpy": SimpyEngine}
"""`compiled` is the default; `simpy` is the readable reference with the same times, bit for bit."""


class Sink(Protocol):
    """Takes the blocks of a trace as they are made, such as a recorder."""

    def add(self, block: Trace) -> object:
        """One block: a layer group of a batch."""


@dataclass(frozen=True, eq=False)
class Run:
    """What a run leaves.

    Attributes:
        trace: Every record, or None if blocks were streamed or not wanted.
        timing: Where the time went.
        faults: The faults that were injected.
        exposure: For each fault, services on its component that overlap it by more than 0 cycles:
            messages on a channel or port, tasks on a core.
        skew_cycles: (n_cores,) offset of each core's counter that the trace contains.
    """

    trace: Trace | None
    timing: Timing
    faults: tuple[Fault, ...]
    exposure: tuple[int, ...]
    skew_cycles: NDArray[np.float64]


class Machine:
    """A program on the simulated chip with noise, a seed and faults; iterate its phases once.

    Args:
        program: What runs.
        faults: Fault objects or texts.
        noise: Name of a preset, or a Noise.
        seed: Of every draw, >= 0.
        engine: `compiled` or `simpy`.
        scale: How the real speeds differ from the chip's configuration.

    Raises:
        SlowpokeError: A fault outside the chip, or an unknown noise or engine.
    """

    def __init__(
        self,
        program: Program,
        faults: str | Fault | Iterable[str | Fault] = (),
        noise: str | Noise = "released",
        seed: int = 0,
        engine: str = "compiled",
        scale: Scale = Scale(),
    ) -> None:
        chip = program.chip
        if engine not in ENGINES:
            raise SlowpokeError(f"engine {engine!r} is unknown; choose one of {', '.join(ENGINES)}")
        self.faults = parse_faults(faults, chip.network, chip.clock_hz)
        for fault in self.faults:
            chip.check_place(fault.place)
        self.plan = Plan.of(program, noise_of(noise), seed, scale)
        self.components = Components.new(self.plan.n_servers, len(self.faults))
        self.clock = Clock(self.plan)
        self._engine = ENGINES[engine](self.plan)
        self._columns = [_Columns(self.plan, group) for group in range(program.n_groups)]

    def phases(self, hop_cycles: bool = False) -> Iterator[Phase]:
        """Every phase in order: the groups of batch 0, of batch 1, ..."""
        program, now = self.plan.program, 0.0
        speeds = Speeds.of_faults(program.chip, self.faults, _FIRST_HORIZON_CYCLES)
        for batch in range(program.n_batches):
            for group in range(program.n_groups):
                while True:
                    is_endless = speeds.horizon_cycles < np.inf
                    before = self.components.copy() if is_endless else self.components
                    phase = self._engine.run_phase(
                        batch, group, now, speeds, self.components, hop_cycles
                    )
                    if phase.end_cycles < speeds.horizon_cycles:
                        break
                    # an endless intermittent fault goes on beyond the table: extend it, run again
                    self.components = before
                    horizon = 4 * phase.end_cycles
                    speeds = Speeds.of_faults(program.chip, self.faults, horizon)
                now = phase.end_cycles
                yield phase

    @cached_property
    def meta(self) -> TraceMeta:
        """Metadata of the run's blocks; the makespan is not known yet."""
        program = self.plan.program
        return TraceMeta(
            program.model, program.chip.topology, program.chip.clock_hz, program.fingerprint,
            program.chip.n_cores, program.n_batches, operator_names=program.operator_names,
        )  # fmt: skip

    def block(self, phase: Phase) -> Trace:
        """The records of a phase, on the counters of the cores that store them."""
        return self._columns[phase.group].block(phase, self.plan.skew_cycles, self.meta)


class _Columns:
    """The columns of a group's records that are the same in every batch."""

    def __init__(self, plan: Plan, group: int) -> None:
        program = plan.program
        self._program = program
        tasks = program.group_offsets[group : group + 2]
        self._event0 = int(program.event_offsets[tasks[0]])
        events = np.arange(self._event0, int(program.event_offsets[tasks[1]]))
        kind = program.kind[program.event_task[events]]
        recorded = program.recorded[events]
        self._compute = events[recorded & (kind == TaskKind.COMPUTE)]
        self._transfers = events[recorded & (kind != TaskKind.COMPUTE) & (kind != TaskKind.PROBE)]

    def block(self, phase: Phase, skew: NDArray[np.float64], meta: TraceMeta) -> Trace:
        compute = self._table(phase, self._compute, COMPUTE_DTYPE, "eject")
        transfers = self._table(phase, self._transfers, TRANSFER_DTYPE, "eject")
        if skew.any():
            shift = np.append(skew, np.zeros(1))  # ports read the chip's own counter
            for name in ("start_cycles", "end_cycles"):
                compute[name] += skew[compute["core"]]
            source = np.where(transfers["src"] >= 0, transfers["src"], len(skew))
            target = np.where(transfers["dst"] >= 0, transfers["dst"], len(skew))
            transfers["inject_cycles"] += shift[source]
            transfers["eject_cycles"] += shift[target]
            transfers["consume_cycles"] += shift[target]
        return Trace(_in_order(compute, "end_cycles"), _in_order(transfers, "eject_cycles"), meta)

    def _table(
        self, phase: Phase, events: NDArray[np.int64], dtype: np.dtype[Any], last: str
    ) -> NDArray[np.void]:
        program = self._program
        n_units = phase.first.shape[1]
        rows = events - self._event0
        row, unit = np.nonzero(~np.isnan(phase.first[rows]))
        table = np.empty(len(row), dtype)
        event = events[row]
        task = program.event_task[event]
        at = rows[row] * n_units + unit
        table["op"], table["event"], table["unit"] = program.op[task], event, unit
        table["group"], table["batch"] = phase.group, phase.batch
        if dtype is COMPUTE_DTYPE:
            table["core"] = program.core[task]
            table["macs"] = program.work_macs[task]
            table["start_cycles"] = phase.first.ravel()[at]
            table["end_cycles"] = phase.eject.ravel()[at]
        else:
            table["src"] = program.event_src[event]
            table["dst"] = program.event_dst[event]
            table["bytes"] = program.message_bytes[task]
            table["inject_cycles"] = phase.first.ravel()[at]
            table["eject_cycles"] = phase.eject.ravel()[at]
            table["consume_cycles"] = phase.consume.ravel()[at]
        return table


def _in_order(table: NDArray[np.void], time: str) -> NDArray[np.void]:
    # rows come by event, then unit: a stable sort by time leaves ties in that order
    return table[np.argsort(table[time], kind="stable")]


def run(
    program: Program,
    faults: str | Fault | Iterable[str | Fault] = (),
    noise: str | Noise = "released",
    seed: int = 0,
    engine: str = "compiled",
    scale: Scale = Scale(),
    *,
    sink: Sink | None = None,
    on_block: Callable[[Trace], object] | None = None,
    trace: bool = True,
) -> Run:
    """Run a program on the simulated chip (design.md section 5).

    Args:
        program: What runs.
        faults: Fault objects or texts such as `core:5@10x[2ms,5ms]`.
        noise: Name of a preset (`slowpoke_sim.noise.NOISES`), or a Noise.
        seed: Of every draw, >= 0; equal seeds give equal runs.
        engine: `compiled` or `simpy`; both give the same times.
        scale: How the real speeds differ from the chip's configuration.
        sink: Takes every block of the trace; none is kept then.
        on_block: Called with every block; none is kept then.
        trace: False to keep no trace: memory does not grow with the inferences.

    Raises:
        SlowpokeError: A fault outside the chip, an unknown noise or engine, or a program that
            cannot finish.
    """
    machine = Machine(program, faults, noise, seed, engine, scale)
    wanted = sink is not None or on_block is not None
    blocks: list[Trace] = []
    for phase in machine.phases():
        machine.clock.add(phase)
        if not (wanted or trace):
            continue
        block = machine.block(phase)
        if sink is not None:
            sink.add(block)
        if on_block is not None:
            on_block(block)
        if not wanted:
            blocks.append(block)
    timing = machine.clock.timing(machine.components)
    whole = None
    if trace and not wanted:
        whole = Trace.concatenate(blocks, finished(machine.meta, timing.makespan_cycles))
    return Run(
        whole, timing, machine.faults, tuple(int(n) for n in machine.components.exposure),
        machine.plan.skew_cycles,
    )  # fmt: skip


def simulate(
    program: Program,
    faults: str | Fault | Iterable[str | Fault] = (),
    noise: str | Noise = "released",
    seed: int = 0,
    engine: str = "compiled",
    scale: Scale = Scale(),
    sink: Sink | None = None,
) -> Any:
    """The trace of a run, or what the sink makes of it.

    Args: As of `run`.

    Returns:
        A Trace; with a sink that has a `result()` what that returns (a recorder's sketch), with
        another sink None.

    Raises:
        SlowpokeError: As `run`.
    """
    outcome = run(program, faults, noise, seed, engine, scale, sink=sink)
    if sink is None:
        return outcome.trace
    result = getattr(sink, "result", None)
    return result() if callable(result) else None


def finished(meta: TraceMeta, makespan_cycles: float) -> TraceMeta:
    """The metadata of a run that is over."""
    return TraceMeta(
        meta.model, meta.topology, meta.clock_hz, meta.program_fingerprint, meta.n_cores,
        meta.n_batches, makespan_cycles, meta.operator_names,
    )  # fmt: skip
