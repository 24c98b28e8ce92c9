"""The mapper: an operator graph and a chip in, a mapping out (Gemini; Cai et al., HPCA 2024).

First layer groups by dynamic programming, cores in proportion to work along the network's order;
then groups are merged, split and shifted where that helps; then every group is annealed. Groups
that are alike (the blocks of a residual network) are searched once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.bypass import without_concatenations
from slowpoke_mapping.capacity import RESIDENCIES, Residency
from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.cost import Estimate, Speeds, estimate, estimate_group, speeds_of
from slowpoke_mapping.errors import CapacityError, SlowpokeError
from slowpoke_mapping.graph import OperatorGraph
from slowpoke_mapping.mapping import LayerGroup, Mapping
from slowpoke_mapping.objective import Objective, objective_function, worth
from slowpoke_mapping.partition import Choices, choices, signature
from slowpoke_mapping.placement import check_speeds, place_group, usable_order
from slowpoke_mapping.ports import with_ports
from slowpoke_mapping.ragged import Ints
from slowpoke_mapping.regroup import better_cuts
from slowpoke_mapping.routes import Routes, routes_of
from slowpoke_mapping.search import Surroundings, alike, improve_group, transplant
from slowpoke_mapping.segment import (
    SegmentProblem,
    Weights,
    cut_into_groups,
    segment_problem,
)
from slowpoke_mapping.traffic import group_plan

Progress = Callable[[int, int], None]

EVALUATIONS_PER_LAYER = 100
"""Default candidates for each layer and row of the chip, as Gemini's (2 x 50 rounds)."""
MAX_EVALUATIONS = 200_000


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
    residency: Residency = "streamed",
    search: bool = True,
    progress: Progress | None = None,
) -> Mapping:
    """A mapping of a graph on a chip: layer groups, partitions, core groups, DRAM ports.

    Args:
        graph: What to map. Concatenations get no cores: `Mapping.graph` is without them.
        chip: Where.
        objective: `latency`, `energy`, `edp`, or a function of (cycles, picojoules) of a batch
            that is to be small.
        batch: Samples of a batch; the samples of a unit are then chosen too. None takes the
            chip's own batch and unit.
        evaluations: Candidates that the search may try; None for 100 a layer and row of cores.
        seconds: Time that the search may take; the result then depends on the machine's speed.
        seed: Of the search; the same seed gives the same mapping.
        core_speed: (n_cores,) speed factors, 1 is nominal; slow cores get less or nothing.
        link_speed: (n_links,) speed factors of the directed links.
        residency: `streamed`: weights that do not fit are fetched again for every unit;
            `resident`: the weights of a layer group must stay on the chip.
        search: Whether to improve the first mapping by simulated annealing.
        progress: Called with (done, total) evaluations now and then.

    Raises:
        SlowpokeError: A value that does not fit.
        CapacityError: A piece that does not fit its core's buffer.
    """
    _check(evaluations, seconds, residency, seed)
    objective_function(objective)
    graph = without_concatenations(graph)
    order = usable_order(chip, check_speeds(core_speed, chip.n_cores, "core_speed"))
    task = _Task(
        graph, chip, objective, order,
        speeds_of(chip, core_speed, link_speed), routes_of(chip.network), residency,
        core_speed, link_speed,
    )  # fmt: skip
    mapping = _best_start(task, batch_units(chip, batch))
    if not search:
        return mapping
    budget = evaluations
    if budget is None:
        side = max(int(chip.n_cores**0.5), 1)
        budget = min(EVALUATIONS_PER_LAYER * len(graph) * side, MAX_EVALUATIONS)
    deadline = None if seconds is None else time.monotonic() + seconds
    return _searched(task, mapping, budget, deadline, seed, progress)


def _check(
    evaluations: int | None, seconds: float | None, residency: str, seed: int
) -> None:  # fmt: skip
    if residency not in RESIDENCIES:
        raise SlowpokeError(f"residency {residency!r}: choose {' or '.join(RESIDENCIES)}")
    if evaluations is not None and evaluations < 0:
        raise SlowpokeError(f"{evaluations} evaluations: a whole number >= 0 is needed")
    if seconds is not None and not seconds > 0:
        raise SlowpokeError(f"{seconds} seconds: a time > 0 is needed, or None for no limit")
    if seed < 0:
        raise SlowpokeError(f"seed {seed}: a whole number >= 0 is needed")


def batch_units(chip: ChipConfig, batch: int | None) -> list[tuple[int, int]]:
    """(units of a batch, samples of a unit) to try for a batch of so many samples.

    Raises:
        SlowpokeError: A batch below 1.

    >>> from slowpoke_mapping.chip import chip
    >>> batch_units(chip("default"), 6)
    [(6, 1), (3, 2), (2, 3), (1, 6)]
    """
    if batch is None:
        return [(chip.units_per_batch, chip.samples_per_unit)]
    if batch < 1 or batch != int(batch):
        raise SlowpokeError(f"batch {batch}: a whole number of samples >= 1 is needed")
    return [(batch // n, n) for n in range(1, int(batch) + 1) if batch % n == 0]


@dataclass(frozen=True, slots=True)
class _Task:
    """What is mapped, and how it is judged."""

    graph: OperatorGraph
    chip: ChipConfig
    objective: Objective
    order: Ints
    speeds: Speeds
    routes: Routes
    residency: Residency
    core_speed: Sequence[float] | None
    link_speed: Sequence[float] | None

    def estimate(self, mapping: Mapping) -> Estimate:
        return estimate(
            mapping, residency=self.residency, core_speed=self.core_speed,
            link_speed=self.link_speed,
        )  # fmt: skip

    def judge(self, cost: Estimate) -> float:
        value = self.worth(cost)
        if isinstance(self.objective, str) and self.objective == "latency":
            return value.per_cycle * cost.cycles + value.per_pj * cost.energy_pj
        return float(objective_function(self.objective)(cost.cycles, cost.energy_pj))

    def worth(self, cost: Estimate) -> Weights:
        return worth(self.objective, cost.cycles, cost.energy_pj, self.chip)


@dataclass(frozen=True, slots=True)
class _Stage:
    """A graph for one size of unit: its tables and its partitions."""

    task: _Task
    units: int
    scale_b: int
    cache: dict[object, Choices]

    def choices_of(self, operators: tuple[int, ...]) -> Choices:
        members = [self.task.graph[op] for op in operators]
        key = tuple(signature(operator) for operator in members)
        if key not in self.cache:
            self.cache[key] = choices(members, self.task.chip, self.units, self.scale_b)
        return self.cache[key]

    def problem(self) -> SegmentProblem:
        n_cores = self.task.chip.n_cores
        tables: dict[object, NDArray[np.float64]] = {}
        rows = []
        for op in range(len(self.task.graph)):
            key = signature(self.task.graph[op])
            if key not in tables:
                tables[key] = self.choices_of((op,)).table(n_cores)
            rows.append(tables[key])
        return segment_problem(self.task.graph, self.task.chip, np.array(rows), self.scale_b)

    def around(self, output_ports: dict[int, int]) -> Surroundings:
        task = self.task
        return Surroundings(
            task.graph, task.chip, self.units, self.scale_b, task.speeds, task.routes, task.order,
            self.choices_of, output_ports,
        )  # fmt: skip


def _best_start(task: _Task, sizes: Sequence[tuple[int, int]]) -> Mapping:
    """The best first mapping of the given (units, samples of a unit).

    Raises:
        CapacityError: None fits.
    """
    best: tuple[float, Mapping] | None = None
    refusal: CapacityError | None = None
    for units, scale_b in sizes:
        try:
            mapping = _first_mapping(task, units, scale_b)
            cost = task.judge(task.estimate(mapping))
        except CapacityError as error:
            refusal = refusal or error
            continue
        if best is None or cost < best[0]:
            best = (cost, mapping)
    if best is None:
        assert refusal is not None
        raise refusal
    return best[1]


def _first_mapping(task: _Task, units: int, scale_b: int) -> Mapping:
    """Groups by dynamic programming, refined; pieces along the network's order."""
    stage = _Stage(task, units, scale_b, {})
    problem = stage.problem()
    around = stage.around(dict.fromkeys(range(len(task.graph)), -2))
    fit = task.residency == "resident"

    def place(first: int, last: int) -> LayerGroup:
        group = place_group(problem, first, last, task.order, stage.choices_of)
        return with_ports(task.graph, task.chip, group, units, scale_b)

    def placed(cuts: Sequence[tuple[int, int]]) -> Mapping:
        return Mapping(
            task.graph,
            task.chip,
            tuple(place(a, b) for a, b in cuts),
            units,
            scale_b,
        )

    value = Weights(1.0, 0.0)
    for _ in range(1 if task.objective == "latency" else 2):
        cuts = cut_into_groups(problem, task.chip, units, len(task.order), value, must_fit=fit)
        value = task.worth(task.estimate(placed(cuts)))
    cuts = cut_into_groups(problem, task.chip, units, len(task.order), value, must_fit=fit)
    cuts = better_cuts(cuts, around, value, place, must_fit=fit)
    return placed(cuts)


def _searched(
    task: _Task, mapping: Mapping, budget: int, deadline: float | None, seed: int,
    progress: Progress | None,
) -> Mapping:  # fmt: skip
    """Every group annealed, groups that are alike once; never worse by the estimate."""
    stage = _Stage(task, mapping.units_per_batch, mapping.samples_per_unit, {})
    before = task.estimate(mapping)
    value = task.worth(before)
    ports = {op: mapping.flow(op).outputs for op in range(len(task.graph))}
    n_layers = len(task.graph)
    done = 0
    groups: list[LayerGroup] = []
    known: dict[object, LayerGroup] = {}
    seeds = np.random.SeedSequence(seed).generate_state(len(mapping.groups), np.uint64)
    for g, group in enumerate(mapping.groups):
        share = budget * len(group.layers) // n_layers
        around = stage.around(ports)
        key = alike(around, group)
        if key in known:
            better = transplant(known[key], group)
        elif share == 0 or (deadline is not None and time.monotonic() > deadline):
            better = group
        else:
            judge = _GroupJudge(task, mapping, g, ports, value)
            better = _within(around, group, judge, share, int(seeds[g]), deadline)
            known[key] = better
        groups.append(better)
        ports.update((layer.operator, layer.flow.outputs) for layer in better.layers)
        done += share
        if progress is not None:
            progress(min(done, budget), budget)
    result = replace(mapping, groups=tuple(groups))
    kept = _never_worse(task, mapping, result, before, value)
    if progress is not None:
        progress(budget, budget)
    return kept


@dataclass(frozen=True, slots=True)
class _GroupJudge:
    """What a candidate for group g is worth by the estimate, the earlier groups as found."""

    task: _Task
    mapping: Mapping
    g: int
    ports: dict[int, int]
    value: Weights

    def __call__(self, group: LayerGroup) -> float:
        groups = list(self.mapping.groups)
        groups[self.g] = group
        for other in range(self.g):
            groups[other] = LayerGroup(
                tuple(
                    replace(x, flow=replace(x.flow, outputs=self.ports[x.operator]))
                    for x in groups[other].layers
                )
            )
        mapping = replace(self.mapping, groups=tuple(groups))
        plan = group_plan(mapping, self.g, self.task.residency)
        cost = estimate_group(mapping, plan, self.task.routes, self.task.speeds)
        return self.value.per_cycle * cost.cycles + self.value.per_pj * cost.energy_pj


def _within(
    around: Surroundings, group: LayerGroup, judge: _GroupJudge, evaluations: int, seed: int,
    deadline: float | None,
) -> LayerGroup:  # fmt: skip
    """One group annealed: all moves first, then swaps and ports from the better of the two.

    Every result is judged by the estimate, whose pipeline is finer than the search's.
    """
    best, lowest = group, judge(group)
    for calm, share in ((False, 0.6), (True, 0.4)):
        left = int(evaluations * share)
        found = best
        while left > 0 and (deadline is None or time.monotonic() < deadline):
            run = left if deadline is None else min(left, 2000)
            found, done = improve_group(
                around, found, judge.value, run, seed + left + calm, calm=calm
            )
            left -= max(done, 1)
            if deadline is None:
                break
        try:
            cost = judge(found)
        except CapacityError:
            continue
        if cost < lowest:
            best, lowest = found, cost
    return best


def _never_worse(
    task: _Task, start: Mapping, found: Mapping, before: Estimate, value: Weights
) -> Mapping:
    """The found groups where they are better by the estimate, else the start's."""
    after = task.estimate(found)
    groups = [
        new
        if value.per_cycle * b.cycles + value.per_pj * b.energy_pj
        <= value.per_cycle * a.cycles + value.per_pj * a.energy_pj
        else old
        for old, new, a, b in zip(
            start.groups, found.groups, before.groups, after.groups, strict=True
        )
    ]
    mixed = replace(start, groups=tuple(groups))
    ranked = [(task.judge(before), start), (task.judge(after), found)]
    if groups != list(found.groups) and groups != list(start.groups):
        ranked.append((task.judge(task.estimate(mixed)), mixed))
    return min(ranked, key=lambda pair: pair[0])[1]
