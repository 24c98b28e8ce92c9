"""The mapper: an operator graph and a chip in, a mapping out (Gemini; Cai et al., HPCA 2024)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import OperatorGraph
from slowpoke_mapping.mapping import Mapping
from slowpoke_mapping.partition import Choices, choices, signature
from slowpoke_mapping.placement import check_speeds, place_group, usable_order
from slowpoke_mapping.segment import Weights, cut_into_groups, dram_pj_per_cycle, segment_problem

Objective = str | Callable[[float, float], float]

HIDDEN_DRAM = 1.0
"""A cycle of DRAM traffic is worth this many cycles to the cutting of groups even when computing
hides it: less DRAM traffic leaves slack on ports and saves energy, for a few per cent of latency.
"""


def map_graph(
    graph: OperatorGraph,
    chip: ChipConfig,
    *,
    objective: Objective = "latency",
    batch: int | None = None,
    evaluations: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    core_speed: Sequence[float] | None = None,
    link_speed: Sequence[float] | None = None,
    residency: str = "streamed",
    search: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Mapping:
    """A mapping of a graph on a chip: layer groups, partitions, core groups, DRAM ports.

    Args:
        graph: What to map.
        chip: Where.
        objective: `latency`, `energy`, `edp`, or a function of (cycles, picojoules) of a batch
            that is to be small.
        batch: Samples of a batch; None takes the chip's own batch and unit.
        evaluations: Candidates that the search may try; None for a default that grows with the
            graph and the chip.
        seconds: Time that the search may take; the result then depends on the machine's speed.
        seed: Of the search; the same seed gives the same mapping.
        core_speed: (n_cores,) speed factors, 1 is nominal; slow cores get less or nothing.
        link_speed: (n_links,) speed factors of the directed links.
        residency: `streamed` or `resident` (weights of a layer group must stay on the chip).
        search: Whether to improve the first mapping by simulated annealing.
        progress: Called with (done, total) evaluations now and then.

    Raises:
        SlowpokeError: A value that does not fit.
        CapacityError: A piece that does not fit its core's buffer.
    """
    units, scale_b = batch_units(chip, batch)
    speed = check_speeds(core_speed, chip.n_cores, "core_speed")
    order = usable_order(chip, speed)

    cache: dict[object, Choices] = {}

    def choices_of(operators: tuple[int, ...]) -> Choices:
        key = tuple(signature(graph[op]) for op in operators)
        if key not in cache:
            cache[key] = choices([graph[op] for op in operators], chip, units, scale_b)
        return cache[key]

    tables: dict[object, NDArray[np.float64]] = {}
    rows = []
    for op in range(len(graph)):
        key = signature(graph[op])
        if key not in tables:
            tables[key] = choices_of((op,)).table(chip.n_cores)
        rows.append(tables[key])
    problem = segment_problem(graph, chip, np.array(rows), scale_b)
    value = Weights(1.0, HIDDEN_DRAM / dram_pj_per_cycle(chip))
    cuts = cut_into_groups(
        problem, chip, units, len(order), value, must_fit=residency == "resident"
    )
    groups = tuple(place_group(problem, first, last, order, choices_of) for first, last in cuts)
    return Mapping(graph, chip, groups, units, scale_b)


def batch_units(chip: ChipConfig, batch: int | None) -> tuple[int, int]:
    """Units of a batch, and samples of a unit, for a batch of so many samples.

    Raises:
        SlowpokeError: A batch below 1.

    >>> from slowpoke_mapping.chip import chip
    >>> batch_units(chip("default"), 16)
    (16, 1)
    """
    if batch is None:
        return chip.units_per_batch, chip.samples_per_unit
    if batch < 1 or batch != int(batch):
        raise SlowpokeError(f"batch {batch}: a whole number of samples >= 1 is needed")
    scale_b = chip.samples_per_unit
    while batch % scale_b:
        scale_b -= 1
    return int(batch) // scale_b, scale_b
