"""What a fault costs and what to do: replay without it, map the model around it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.graph import OperatorGraph
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.mapping import Mapping
from slowpoke_mapping.places import Core, DramPort, Place
from slowpoke_mapping.program import Program
from slowpoke_sim.machine import run
from slowpoke_sim.noise import Noise
from slowpoke_tracer.diagnosis import Diagnosis, Suspect

LEAST_SLOWDOWN = 1.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one reported place costs, by replay of the run with and without it.

    Attributes:
        place: The reported place.
        with_cycles: Makespan with every reported fault as it was estimated.
        without_cycles: The same without this one (SlowPoke's counterfactual, same noise).
    """

    place: Place
    with_cycles: float
    without_cycles: float

    @property
    def ratio(self) -> float:
        """How many times longer the run took because of it."""
        return self.with_cycles / self.without_cycles


@dataclass(frozen=True, eq=False)
class Remap:
    """The model mapped again, around what is slow.

    Attributes:
        mapping: The new mapping.
        healthy_cycles: Makespan of the old mapping on the healthy chip.
        slow_cycles: Of the old mapping, the reported faults lasting for the whole run.
        remapped_cycles: Of the new mapping under the same faults.
    """

    mapping: Mapping
    healthy_cycles: float
    slow_cycles: float
    remapped_cycles: float

    @property
    def throughput(self) -> float:
        """Throughput of the new mapping on the slow chip, as a share of the healthy one's."""
        return self.healthy_cycles / self.remapped_cycles

    @property
    def regained(self) -> float:
        """Share of the lost time that the new mapping brings back; negative if it is worse."""
        lost = self.slow_cycles - self.healthy_cycles
        return (self.slow_cycles - self.remapped_cycles) / lost if lost > 0 else math.nan

    def __str__(self) -> str:
        return (
            f"remapped around it: {100 * self.throughput:.0f}% of the healthy throughput, "
            f"{100 * self.healthy_cycles / self.slow_cycles:.0f}% without remapping"
        )


def estimated_faults(diagnosis: Diagnosis) -> tuple[Fault, ...]:
    """The reported suspects as faults, with their estimated slowdown and interval."""
    return tuple(_fault(suspect) for suspect in diagnosis.reported)


def _fault(suspect: Suspect) -> Fault:
    slowdown = suspect.slowdown if math.isfinite(suspect.slowdown) else LEAST_SLOWDOWN
    start, end = suspect.interval
    start = start if math.isfinite(start) else 0.0
    return Fault(
        suspect.place, max(slowdown, LEAST_SLOWDOWN), start, end if end > start else math.inf
    )


def costs(
    program: Program, diagnosis: Diagnosis, noise: str | Noise, seed: int
) -> tuple[Cost, ...]:
    """What each reported place costs; one replay for each, and one with all of them.

    Args:
        program: What ran.
        diagnosis: Of that run.
        noise: Of the replays.
        seed: Of the replays' noise.
    """
    faults = estimated_faults(diagnosis)
    if not faults:
        return ()
    whole = run(program, faults, noise=noise, seed=seed, trace=False).timing.makespan_cycles
    result = []
    for i, fault in enumerate(faults):
        others = faults[:i] + faults[i + 1 :]
        without = run(program, others, noise=noise, seed=seed, trace=False).timing
        result.append(Cost(fault.place, whole, without.makespan_cycles))
    return tuple(result)


def remap(
    graph: OperatorGraph,
    mapping: Mapping,
    diagnosis: Diagnosis,
    *,
    inferences: int,
    noise: str | Noise,
    seed: int,
) -> Remap:
    """Map the model around the reported places, and simulate what that brings.

    The reported slowdowns are taken to last. Cores and links become slow in the mapper's eyes; a
    router slows all of its links; a DRAM port cannot be avoided by placement alone and is left.

    Args:
        graph: The model.
        mapping: What ran.
        diagnosis: What is slow.
        inferences: Samples of the simulated runs.
        noise: Of the simulated runs.
        seed: Of search and noise.
    """
    chip = mapping.chip
    core_speed, link_speed = speeds(chip, diagnosis)
    new = map_graph(
        graph,
        chip,
        batch=mapping.samples_per_batch,
        seed=seed,
        core_speed=core_speed.tolist(),
        link_speed=link_speed.tolist(),
    )
    lasting = [
        replace(fault, start_cycles=0.0, end_cycles=math.inf)
        for fault in estimated_faults(diagnosis)
    ]
    old_program, new_program = (lower(m, inferences=inferences) for m in (mapping, new))

    def makespan(program: Program, faults: list[Fault]) -> float:
        return run(program, faults, noise=noise, seed=seed, trace=False).timing.makespan_cycles

    return Remap(
        mapping=new,
        healthy_cycles=makespan(old_program, []),
        slow_cycles=makespan(old_program, lasting),
        remapped_cycles=makespan(new_program, lasting),
    )


def speeds(
    chip: ChipConfig, diagnosis: Diagnosis
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(n_cores,) and (n_links,) speed factors of the chip that a diagnosis describes."""
    core_speed, link_speed = np.ones(chip.n_cores), np.ones(chip.n_links)
    for fault in estimated_faults(diagnosis):
        if isinstance(fault.place, Core):
            core_speed[fault.place.id] /= fault.slowdown
        elif not isinstance(fault.place, DramPort):
            channels = chip.channels_of(fault.place)
            link_speed[channels[channels < chip.n_links]] /= fault.slowdown
    return core_speed, link_speed
