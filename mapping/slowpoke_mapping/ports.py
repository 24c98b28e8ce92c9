"""Which DRAM port each tensor of a layer group uses, so that ports share the work.

A port serves a message in its access latency plus its bytes over its rate. Small tensors are
better read from one port each, large ones in equal parts from all: the longest are spread, the
others go one after the other, longest first, to the port that has least to do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.capacity import weight_share
from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.graph import GRAPH_INPUT, OperatorGraph
from slowpoke_mapping.mapping import INTERLEAVED, FlowOfData, LayerGroup, LayerMapping
from slowpoke_mapping.ragged import unique_rows
from slowpoke_mapping.traffic import sized


def with_ports(
    graph: OperatorGraph, chip: ChipConfig, group: LayerGroup, units: int, scale_b: int
) -> LayerGroup:
    """The same group with a port, or all of them, for each layer's inputs, weights and outputs.

    Args:
        graph: The operator graph.
        chip: Ports, their latency and rate.
        group: Layers on their cores.
        units: Units of a batch: what is read or written in each.
        scale_b: Samples of a unit.
    """
    inside = {layer.operator for layer in group.layers}
    tensors: list[tuple[float, float, int, int]] = []
    for i, layer in enumerate(group.layers):
        operator = graph[layer.operator]
        box = (operator.box[0] * scale_b, *operator.box[1:])
        pieces = layer.part.pieces(box)
        if operator.weight_elements:
            dims = list(operator.weight_dims)
            first, _ = unique_rows(np.concatenate([pieces[:, dims, 0], pieces[:, dims, 1]], axis=1))
            share = weight_share(operator, pieces[first], box)
            sizes = (operator.weight_elements * chip.bytes_per_element * share).astype(np.float64)
            tensors.append(_tensor(chip, i, 1, sizes, 1))
        entering = [edge for edge in operator.inputs if edge.producer == GRAPH_INPUT]
        for edge in entering:
            needs = edge.needed(pieces, scale_b)
            first, _ = unique_rows(needs.reshape(len(needs), 8))
            tensors.append(_tensor(chip, i, 0, sized(chip.bytes_per_element, needs[first]), units))
        if layer.operator in graph.outputs or not inside.issuperset(
            graph.consumers(layer.operator)
        ):
            tensors.append(_tensor(chip, i, 2, sized(chip.bytes_per_element, pieces), units))
    ports = _assign(sorted(tensors, reverse=True), len(group.layers), len(chip.dram_ports))
    layers = tuple(
        LayerMapping(x.operator, x.part, x.cores, FlowOfData(*(int(p) for p in ports[i])))
        for i, x in enumerate(group.layers)
    )
    return LayerGroup(layers)


def _assign(
    tensors: list[tuple[float, float, int, int]], n_layers: int, n_ports: int
) -> NDArray[np.int64]:
    """(n_layers, 3) ports; the n longest tensors are spread, for the n that is best."""
    best, chosen = np.inf, np.full((n_layers, 3), INTERLEAVED)
    for n_spread in range(len(tensors) + 1):
        busy = np.full(n_ports, sum(spread for _, spread, _, _ in tensors[:n_spread]))
        ports = np.full((n_layers, 3), INTERLEAVED)
        for alone, _, layer, kind in tensors[n_spread:]:
            least = int(busy.argmin())
            ports[layer, kind] = least
            busy[least] += alone
        if busy.max() < best * (1 - 1e-9):
            best, chosen = float(busy.max()), ports
    return chosen


def _tensor(
    chip: ChipConfig, layer: int, kind: int, sizes: NDArray[np.float64], times: int
) -> tuple[float, float, int, int]:
    """(cycles at one port, cycles at every port if spread, layer, kind)."""
    n_ports = len(chip.dram_ports)

    def cycles(parts: NDArray[np.float64]) -> float:
        messages = np.maximum(np.ceil(parts / chip.message_bytes), 1)
        return float(
            times * (messages * chip.dram_latency_cycles + parts / chip.dram_bytes_per_cycle).sum()
        )

    return cycles(sizes), cycles(sizes / n_ports), layer, kind
