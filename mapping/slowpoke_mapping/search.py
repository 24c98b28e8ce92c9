"""Between mappings and the compiled search: a layer group in, a better one out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slowpoke_mapping.anneal import (
    Choice,
    State,
    Value,
    anneal_group,
    evaluate,
    make_work,
)
from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.cost import Speeds
from slowpoke_mapping.graph import GRAPH_INPUT, OperatorGraph
from slowpoke_mapping.kernel import Layers, Net
from slowpoke_mapping.mapping import FlowOfData, LayerGroup, LayerMapping
from slowpoke_mapping.partition import Choices, part_of
from slowpoke_mapping.ragged import Ints, offsets_of
from slowpoke_mapping.routes import Routes
from slowpoke_mapping.segment import Weights
from slowpoke_mapping.traffic import levels_of, operator_work_macs

NEARLY_BEST = 1.6
"""Partitions whose score is beyond this many times the best of their size are not drawn."""

ChoicesOf = Callable[[tuple[int, ...]], Choices]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a group's search must know of the rest of the mapping.

    Attributes:
        graph: The operator graph; chip: The chip.
        units: Units of a batch; scale_b: Samples of a unit.
        speeds: Of cores, channels, ports; routes: Of the network.
        usable: Cores that may be used.
        choices_of: Partitions of a bundle.
        output_ports: Port that each operator of earlier groups writes to.
    """

    graph: OperatorGraph
    chip: ChipConfig
    units: int
    scale_b: int
    speeds: Speeds
    routes: Routes
    usable: Ints
    choices_of: ChoicesOf
    output_ports: dict[int, int]


def net_of(chip: ChipConfig, speeds: Speeds, routes: Routes) -> Net:
    """The chip as the kernels read it."""
    hop = chip.router_delay_cycles * max(1.0, chip.n_cores**0.5 / 2)
    return Net(
        chip.n_cores, chip.n_links, routes.width, routes.link_of, routes.offsets, routes.links,
        np.array(chip.dram_ports, dtype=np.int64), 1.0 / speeds.channel, 1.0 / speeds.core,
        1.0 / float(speeds.port[0]), bool(chip.multicast), float(chip.sram_bytes),
        float(chip.dram_latency_cycles), float(chip.message_bytes), hop,
    )  # fmt: skip


def bundles_of(group: LayerGroup) -> list[list[LayerMapping]]:
    """Layers that share both cores and cuts, in order of their first layer."""
    found: dict[object, list[LayerMapping]] = {}
    for layer in sorted(group.layers, key=lambda layer: layer.operator):
        found.setdefault((layer.cores, layer.part), []).append(layer)
    return list(found.values())


def layers_of(around: Surroundings, group: LayerGroup) -> Layers:
    """A group as the kernels read it."""
    graph, chip = around.graph, around.chip
    operators = sorted(layer.operator for layer in group.layers)
    index = {op: i for i, op in enumerate(operators)}
    bundle = np.zeros(len(operators), dtype=np.int64)
    for b, members in enumerate(bundles_of(group)):
        for layer in members:
            bundle[index[layer.operator]] = b
    level = levels_of(graph, operators)
    vector_cost = chip.macs_per_cycle / chip.vector_ops_per_cycle
    producer, tensor, port, boxes, windows, buffers = [], [], [], [], [], []
    numbers: dict[object, int] = {}
    for i, op in enumerate(operators):
        for edge in graph[op].inputs:
            inside = edge.producer in index
            producer.append(index[edge.producer] if inside else -1)
            outside = edge.producer == GRAPH_INPUT
            key = (edge.producer, edge.name if outside else "", edge.box)
            tensor.append(numbers.setdefault(key, len(numbers)))
            port.append(-3 if outside or inside else around.output_ports[edge.producer])
            boxes.append((edge.box[0] * around.scale_b, *edge.box[1:]))
            windows.append([(w.dim, w.num, w.den, w.mult, w.low, w.high) for w in edge.windows])
            skip = int(level[i] - level[index[edge.producer]]) - 1 if inside else 0
            buffers.append(min(chip.credit_depth + skip, around.units))
    leaving = set(graph.outputs)
    return Layers(
        bundle=bundle,
        box=np.array(
            [(graph[op].box[0] * around.scale_b, *graph[op].box[1:]) for op in operators],
            dtype=np.int64,
        ),
        work=np.array(
            [operator_work_macs(graph[op], around.scale_b, vector_cost) for op in operators]
        ),
        weight_bytes=np.array(
            [graph[op].weight_elements * chip.bytes_per_element for op in operators],
            dtype=np.float64,
        ),
        weight_dim=np.array(
            [[d in graph[op].weight_dims for d in range(4)] for op in operators], dtype=np.bool_
        ),
        level=level,
        leaves=np.array(
            [op in leaving or any(c not in index for c in graph.consumers(op)) for op in operators],
            dtype=np.bool_,
        ),
        edge_offsets=offsets_of(np.array([len(graph[op].inputs) for op in operators])),
        edge_producer=np.array(producer, dtype=np.int64),
        edge_tensor=np.array(tensor, dtype=np.int64),
        edge_port=np.array(port, dtype=np.int64),
        edge_box=np.array(boxes, dtype=np.int64).reshape(-1, 4),
        edge_window=np.array(windows, dtype=np.int64).reshape(-1, 4, 6),
        edge_buffer=np.array(buffers, dtype=np.int64),
        element=float(chip.bytes_per_element),
        units=around.units,
        depth=chip.credit_depth,
    )


def state_of(group: LayerGroup, n_slots: int) -> State:
    """A group's placement as the kernels read it, with room for n_slots slots."""
    members = bundles_of(group)
    slot_at = offsets_of(np.array([len(layers[0].cores) for layers in members]))
    core = np.zeros(max(n_slots, int(slot_at[-1])), dtype=np.int64)
    core[: slot_at[-1]] = [c for layers in members for c in layers[0].cores]
    ordered = sorted(group.layers, key=lambda layer: layer.operator)
    return State(
        np.array([layers[0].part.cuts for layers in members], dtype=np.int64),
        slot_at,
        core,
        np.array(
            [(x.flow.inputs, x.flow.weights, x.flow.outputs) for x in ordered], dtype=np.int64
        ),
    )


def _choice(around: Surroundings, group: LayerGroup) -> Choice:
    """Cuts that each bundle may draw."""
    cuts: list[Ints] = []
    members = bundles_of(group)
    n_cores = around.chip.n_cores
    offsets = np.zeros((len(members), n_cores + 2), dtype=np.int64)
    total = 0
    for b, layers in enumerate(members):
        judged = around.choices_of(tuple(layer.operator for layer in layers))
        sizes = dict(zip(judged.counts, range(len(judged.counts)), strict=True))
        for n in range(n_cores + 1):
            offsets[b, n] = total
            if n in sizes:
                span = slice(judged.offsets[sizes[n]], judged.offsets[sizes[n] + 1])
                score = judged.score[span]
                if len(score) and np.isfinite(score.min()):
                    chosen = judged.cuts[span][score <= NEARLY_BEST * score.min()]
                    cuts.append(chosen)
                    total += len(chosen)
        offsets[b, n_cores + 1] = total
    return Choice(np.concatenate(cuts), offsets)


def value_of(chip: ChipConfig, worth: Weights) -> Value:
    """What is minimised, with the chip's energies."""
    costs = chip.energy
    return Value(
        worth.per_cycle, worth.per_pj, costs.byte_hop_pj, costs.dram_byte_pj, costs.sram_byte_pj
    )


def improve_group(
    around: Surroundings, group: LayerGroup, worth: Weights, evaluations: int, seed: int,
    heat: float = 0.02, calm: bool = False,
) -> tuple[LayerGroup, int]:  # fmt: skip
    """A group that is at least as good by the search's own value, and the candidates tried.

    Args:
        around: The rest of the mapping.
        group: The start.
        worth: Of cycles and energy.
        evaluations: Candidates to try.
        seed: Of the search.
        heat: First temperature, as a share of the start's value.
        calm: Only swap cores and change ports; layers keep their cuts.
    """
    layers = layers_of(around, group)
    net = net_of(around.chip, around.speeds, around.routes)
    members = bundles_of(group)
    n_slots = max(len(around.usable), sum(len(m[0].cores) for m in members))
    start = state_of(group, n_slots)
    spare, best = (State(*(a.copy() for a in start)) for _ in range(2))
    used = start.core[: start.slot_at[-1]]
    usable = np.unique(np.concatenate([around.usable, used]))
    shared = len(np.unique(used)) < len(used)
    _, _, done = anneal_group(
        layers, net, value_of(around.chip, worth), _choice(around, group), usable, start, spare,
        best, make_work(layers, net, n_slots), make_work(layers, net, n_slots), evaluations,
        np.array([seed], dtype=np.uint64), heat, shared,
        bool(np.all(around.speeds.core == around.speeds.core[0])), calm or shared,
    )  # fmt: skip
    return _group_of(group, layers, best), int(done)


def value_of_group(around: Surroundings, group: LayerGroup, worth: Weights) -> float:
    """A group by the search's own value, evaluated from scratch."""
    layers = layers_of(around, group)
    net = net_of(around.chip, around.speeds, around.routes)
    n_slots = sum(len(m[0].cores) for m in bundles_of(group))
    state = state_of(group, n_slots)
    work = make_work(layers, net, n_slots)
    return float(evaluate(layers, net, value_of(around.chip, worth), state, work))


def _group_of(group: LayerGroup, layers: Layers, state: State) -> LayerGroup:
    ordered = sorted(group.layers, key=lambda layer: layer.operator)
    result = []
    for i, layer in enumerate(ordered):
        b = layers.bundle[i]
        cores = state.core[state.slot_at[b] : state.slot_at[b + 1]]
        result.append(
            LayerMapping(
                layer.operator,
                part_of(state.cuts[b]),
                tuple(int(c) for c in cores),
                FlowOfData(*(int(p) for p in state.ports[i])),
            )
        )
    return LayerGroup(tuple(result))


def fits(around: Surroundings, group: LayerGroup) -> bool:
    """Whether every weight of a group can stay on its core."""
    layers = layers_of(around, group)
    net = net_of(around.chip, around.speeds, around.routes)
    n_slots = sum(len(m[0].cores) for m in bundles_of(group))
    state = state_of(group, n_slots)
    work = make_work(layers, net, n_slots)
    evaluate(layers, net, value_of(around.chip, Weights()), state, work)
    return bool(work.timing.held.max() <= net.sram)


def alike(around: Surroundings, group: LayerGroup) -> object:
    """What a search depends on: groups with equal keys have equal results."""
    layers = layers_of(around, group)
    state = state_of(group, 0)
    arrays = [
        layers.bundle, layers.box, layers.work, layers.weight_bytes, layers.weight_dim,
        layers.level, layers.leaves, layers.edge_offsets, layers.edge_producer, layers.edge_tensor,
        layers.edge_port, layers.edge_box, layers.edge_window, state.cuts, state.slot_at,
        state.core, state.ports,
    ]  # fmt: skip
    partitionable = tuple(
        around.graph[layer.operator].partitionable
        for layer in sorted(group.layers, key=lambda layer: layer.operator)
    )
    return (partitionable, *(np.ascontiguousarray(a).tobytes() for a in arrays))


def transplant(found: LayerGroup, group: LayerGroup) -> LayerGroup:
    """The result of one group's search for another group that is alike."""
    ordered = sorted(group.layers, key=lambda layer: layer.operator)
    model = sorted(found.layers, key=lambda layer: layer.operator)
    return LayerGroup(
        tuple(
            LayerMapping(mine.operator, theirs.part, theirs.cores, theirs.flow)
            for mine, theirs in zip(ordered, model, strict=True)
        )
    )
