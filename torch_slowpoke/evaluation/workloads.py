"""Workloads: a model on a chip, and what is computed for it once: program, twin, healthy runs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.chip import chip as chip_named
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import OperatorGraph
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.program import Program
from slowpoke_sim.machine import run
from slowpoke_sim.twin import DigitalTwin
from slowpoke_tracer.prepare import cache_folder
from slowpoke_tracer.probes import instrument
from slowpoke_tracer.recorder import SketchConfig, record
from slowpoke_tracer.sketch import Sketch
from torch_slowpoke.evaluation.code_version import MAPPING_PACKAGES, PACKAGES, code_hash

T = TypeVar("T")

VARIANT_SHARES = (1.0, 0.6, 0.7, 0.8, 0.9)
"""Share of the operators, from the first, that a variant keeps; variant 0 is the model itself."""

N_VARIANTS = len(VARIANT_SHARES) - 1
HEALTHY_SEEDS = (3_000_000_019, 3_000_000_077)
"""Of the healthy runs: the first is recorded as the profile. Cases draw below 2^31."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A model on a chip, and how it is run.

    Attributes:
        model: A model's name, or a graph.
        topology: Of the chip; None for the chip's own.
        chip: Preset or TOML file.
        inferences: Samples to run.
        batch: Samples of a batch; None for the chip's own.
        noise: Name of the natural noise.
        variant: 0, or 1 to N_VARIANTS for a shallower network: the first 60, 70, 80 or 90 % of
            its operators.
        seed: Of the mapper.
    """

    model: str | OperatorGraph
    topology: str | None = "mesh:4x4"
    chip: str = "default"
    inferences: int = 16
    batch: int | None = None
    noise: str = "released"
    variant: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.variant <= N_VARIANTS:
            raise SlowpokeError(
                f"variant {self.variant}: 0 is the model, 1 to {N_VARIANTS} are shallower ones"
            )

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model if isinstance(self.model, str) else self.model.name

    @property
    def label(self) -> str:
        """Model and network, as tables name the workload.

        >>> Workload("resnet50").label
        'resnet50 mesh:4x4'
        """
        return f"{self.name} {self.topology or self.chip}"

    def key(self) -> tuple[Any, ...]:
        """What determines its program, as values that print the same in every process."""
        model = self.model if isinstance(self.model, str) else self.model.fingerprint
        hardware = self.hardware().model_dump_json()
        return (model, hardware, self.inferences, self.batch, self.noise, self.variant, self.seed)

    def hardware(self) -> ChipConfig:
        """Its chip.

        Raises:
            SlowpokeError: No such chip or topology.
        """
        changes = {} if self.topology is None else {"topology": self.topology}
        return chip_named(self.chip, **changes)


@dataclass(frozen=True, eq=False)
class World:
    """A workload, ready to run.

    Attributes:
        workload: Which.
        program: The instrumented program.
        sketch: Configuration of the recorder.
        profile: Sketch of a healthy run.
        healthy_cycles: Makespan of healthy runs, mean.
        utilisation: (n_cores,) share of the healthy run that each core computes.
        probe_overhead: Healthy makespan with probes over without, minus 1.
    """

    workload: Workload
    program: Program
    sketch: SketchConfig
    profile: Sketch
    healthy_cycles: float
    utilisation: NDArray[np.float64]
    probe_overhead: float

    @property
    def chip(self) -> ChipConfig:
        """The chip."""
        return self.program.chip

    @property
    def twin(self) -> DigitalTwin:
        """Replays the program with the workload's noise."""
        return DigitalTwin(self.program, self.workload.noise)


@lru_cache(maxsize=12)
def world(workload: Workload) -> World:
    """The world of a workload, from memory, from disk, or made: once in a process.

    Cost: import and mapping of the model, and three simulations; nothing where another process
    has made it ($SLOWPOKE_CACHE).

    Raises:
        SlowpokeError: Unknown model, chip or noise.
    """
    return _kept("world", (*workload.key(), code_hash(PACKAGES)), lambda: _made(workload))


@lru_cache(maxsize=12)
def plain_program(workload: Workload) -> Program:
    """The program before probes.

    Raises:
        SlowpokeError: As `world`.
    """
    key = (*replace(workload, noise="none").key(), code_hash(MAPPING_PACKAGES))
    return _kept("program", key, lambda: _lowered(workload))


def _made(workload: Workload) -> World:
    plain, sketch = plain_program(workload), SketchConfig()
    program = instrument(plain, "full", sketch)
    unprobed = run(plain, noise=workload.noise, seed=HEALTHY_SEEDS[0], trace=False).timing
    first, second = (
        run(program, noise=workload.noise, seed=seed, trace=seed == HEALTHY_SEEDS[0])
        for seed in HEALTHY_SEEDS
    )
    assert first.trace is not None
    timing = first.timing
    return World(
        workload=workload,
        program=program,
        sketch=sketch,
        profile=record(first.trace, program, sketch),
        healthy_cycles=(timing.makespan_cycles + second.timing.makespan_cycles) / 2,
        utilisation=timing.core_busy_cycles / timing.makespan_cycles,
        probe_overhead=timing.makespan_cycles / unprobed.makespan_cycles - 1,
    )


def _lowered(workload: Workload) -> Program:
    graph = shallower(_graph(workload.model), VARIANT_SHARES[workload.variant])
    mapping = map_graph(graph, workload.hardware(), batch=workload.batch, seed=workload.seed)
    return lower(mapping, inferences=workload.inferences)


@lru_cache(maxsize=2)
def _graph(model: str | OperatorGraph) -> OperatorGraph:
    if isinstance(model, OperatorGraph):
        return model
    key = (model, code_hash(("torch_slowpoke.frontend",)))

    def imported() -> OperatorGraph:
        from torch_slowpoke.api import operator_graph  # only who makes a graph pays for torch

        return operator_graph(model)

    return _kept("graph", key, imported)


def shallower(graph: OperatorGraph, share: float) -> OperatorGraph:
    """The first operators of a graph, as a network of its own: a modified DNN structure.

    Args:
        graph: In topological order, so that whatever an operator reads is kept with it.
        share: Of the operators, in (0, 1]; at least one is kept.
    """
    if share == 1.0:
        return graph
    n_kept = max(1, round(share * len(graph)))
    return OperatorGraph(
        f"{graph.name}:{n_kept}",
        graph.operators[:n_kept],
        (*graph.notes, f"only the first {n_kept} of {len(graph)} operators are kept"),
    )


def _kept(what: str, key: tuple[Any, ...], make: Callable[[], T]) -> T:
    """What an earlier process left in the cache, else made and left there for the next one."""
    name = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
    path = cache_folder() / f"{what}-{name}.pickle"
    with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError, AttributeError):
        kept: T = pickle.loads(path.read_bytes())  # our own cache, written below
        return kept
    made = make()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            pickle.dump(made, file, protocol=pickle.HIGHEST_PROTOCOL)
        os.replace(file.name, path)
    return made
