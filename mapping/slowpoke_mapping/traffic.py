"""Which bytes go where in one batch unit of a layer group, from exact overlaps of regions.

A flow is one rectangle of one tensor on its way from a piece (or DRAM) to every piece that needs
exactly that rectangle (Gemini, HPCA 2024: output ranges of the producer's pieces intersected with
input ranges of the consumer's pieces; the halo of a convolution is counted).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.capacity import Footprint, Residency, footprint, residence, volume
from slowpoke_mapping.graph import GRAPH_INPUT, Edge, Operator, OperatorGraph, Regions
from slowpoke_mapping.mapping import LayerGroup, Mapping
from slowpoke_mapping.program import Role
from slowpoke_mapping.ragged import Ints, offsets_of, take_rows, unique_rows


@dataclass(frozen=True, slots=True)
class Flows:
    """Flows of one batch unit of a layer group, as arrays.

    Attributes:
        role: (n,) slowpoke_mapping.program.Role.
        op: (n,) operator whose tensor it is: the producer of activations and outputs, the reader
            of weights and inputs.
        src: (n,) producing piece, by its number in the group; -1 for what DRAM sends.
        port: (n,) DRAM port, INTERLEAVED, or -1 for activations.
        n_bytes: (n,) bytes of the rectangle.
        once: (n,) True for weights that stay: read in a batch's first unit only.
        dst_offsets: (n + 1,) the pieces that need flow f are dst[dst_offsets[f]:...].
        dst: Consuming pieces, by their number in the group.
    """

    role: NDArray[np.uint8]
    op: Ints
    src: Ints
    port: Ints
    n_bytes: NDArray[np.float64]
    once: NDArray[np.bool_]
    dst_offsets: Ints
    dst: Ints

    def __len__(self) -> int:
        return len(self.role)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A layer group taken apart: its pieces, their work, and the flows between them.

    Attributes:
        group: Number of the group in the mapping.
        operators: (n_layers,) operator of each layer, producers first.
        level: (n_layers,) longest chain of layers of the group that leads to the layer.
        layer: (n_pieces,) layer of each piece, as an index into `operators`.
        core: (n_pieces,) core of each piece.
        work_macs: (n_pieces,) work of each piece in MAC equivalents, for one batch unit.
        flows: What is sent.
        demand_bytes: (n_cores,) buffer needed on each core if every weight stayed.
        passes: (n_pieces,) how often a unit re-reads the piece's weights; 0: they stay.
    """

    group: int
    operators: Ints
    level: Ints
    layer: Ints
    core: Ints
    work_macs: NDArray[np.float64]
    flows: Flows
    demand_bytes: NDArray[np.float64]
    passes: Ints

    @property
    def n_pieces(self) -> int:
        """Number of pieces."""
        return len(self.core)


def operator_work_macs(operator: Operator, scale_b: int, vector_cost_macs: float) -> float:
    """MAC equivalents of an operator for one unit; data that is only moved costs a little too.

    Args:
        operator: The operator.
        scale_b: Samples of a unit.
        vector_cost_macs: MACs a core could do in the time of one vector operation.
    """
    work = operator.macs + operator.vector_ops * vector_cost_macs
    # what only moves is at least touched: a sixteenth of a vector operation an element
    return scale_b * max(float(work), operator.elements * vector_cost_macs / 16)


def levels_of(graph: OperatorGraph, operators: Sequence[int]) -> Ints:
    """(n_layers,) longest chain of edges among the given operators that ends at each."""
    index = {op: i for i, op in enumerate(operators)}
    level = np.zeros(len(operators), dtype=np.int64)
    for i, op in enumerate(operators):
        before = [index[e.producer] for e in graph[op].inputs if e.producer in index]
        level[i] = max((level[p] + 1 for p in before), default=0)
    return level


def sized(bytes_per_element: float, regions: Regions) -> NDArray[np.float64]:
    """(...,) bytes of each region."""
    return (bytes_per_element * volume(regions)).astype(np.float64)


class _Collector:
    """Gathers flows tensor by tensor."""

    def __init__(self) -> None:
        self.columns: list[tuple[Ints, ...]] = []
        self.n_bytes: list[NDArray[np.float64]] = []
        self.dst_counts: list[Ints] = []
        self.dst: list[Ints] = []

    def add(
        self, role: Role, op: int, src: Ints, port: int, n_bytes: NDArray[np.float64],
        once: NDArray[np.bool_], dst_counts: Ints, dst: Ints,
    ) -> None:  # fmt: skip
        n = len(n_bytes)
        if n:
            self.columns.append(
                (np.full(n, int(role)), np.full(n, op), src, np.full(n, port), once.astype(int))
            )
            self.n_bytes.append(n_bytes)
            self.dst_counts.append(dst_counts)
            self.dst.append(dst)

    def flows(self) -> Flows:
        if not self.columns:
            none = np.zeros(0, dtype=np.int64)
            return Flows(
                none.astype(np.uint8), none, none, none, none.astype(float), none.astype(bool),
                np.zeros(1, dtype=np.int64), none,
            )  # fmt: skip
        role, op, src, port, once = (np.concatenate(c) for c in zip(*self.columns, strict=True))
        return Flows(
            role.astype(np.uint8), op, src, port, np.concatenate(self.n_bytes), once.astype(bool),
            offsets_of(np.concatenate(self.dst_counts)), np.concatenate(self.dst),
        )  # fmt: skip


def _classes(regions: Regions, pieces: Ints) -> tuple[Regions, Ints, Ints]:
    """Distinct regions, and for each the pieces that need it (offsets, pieces); empty ones out."""
    filled = volume(regions) > 0
    regions, pieces = regions[filled], pieces[filled]
    first, number = unique_rows(regions.reshape(len(regions), 8))
    pairs = np.unique(number * (1 << 32) + pieces)
    counts = np.bincount(pairs >> 32, minlength=len(first)).astype(np.int64)
    return regions[first], offsets_of(counts), pairs & ((1 << 32) - 1)


def _overlaps(
    producer: Regions, needs: Regions, need_offsets: Ints, need_pieces: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Distinct non-empty intersections of each producer piece with what consumers need.

    Returns:
        src: (n,) producer piece; size: (n,) elements; counts: (n,) consumers; dst: their pieces.
    """
    low = np.maximum(producer[:, None, :, 0], needs[None, :, :, 0])
    high = np.minimum(producer[:, None, :, 1], needs[None, :, :, 1])
    src, need = np.nonzero((high > low).all(axis=-1))
    low, high = low[src, need], high[src, need]
    first, flow = unique_rows(np.concatenate([src[:, None], low, high], axis=1))
    at, counts = take_rows(need_offsets, need)
    pairs = np.unique(np.repeat(flow, counts) * (1 << 32) + need_pieces[at])
    return (
        src[first],
        (high[first] - low[first]).prod(axis=-1),
        np.bincount(pairs >> 32, minlength=len(first)).astype(np.int64),
        pairs & ((1 << 32) - 1),
    )


def group_operators(group: LayerGroup) -> list[int]:
    """Operators of a group, in topological order."""
    return sorted(layer.operator for layer in group.layers)


def group_plan(mapping: Mapping, g: int, residency: Residency = "streamed") -> GroupPlan:
    """Pieces, work and flows of layer group g for one batch unit.

    Cost grows with the pieces of a producer times the distinct regions its consumers need.

    Raises:
        CapacityError: A piece does not fit (see slowpoke_mapping.capacity).
    """
    graph, chip, scale_b = mapping.graph, mapping.chip, mapping.samples_per_unit
    layers = sorted(mapping.groups[g].layers, key=lambda layer: layer.operator)
    operators = [layer.operator for layer in layers]
    index = {op: i for i, op in enumerate(operators)}
    level = levels_of(graph, operators)
    regions = [mapping.pieces(layer) for layer in layers]
    offsets = offsets_of(np.array([len(r) for r in regions]))
    cores = np.concatenate([np.array(layer.cores, dtype=np.int64) for layer in layers])
    vector_cost = chip.macs_per_cycle / chip.vector_ops_per_cycle

    work = [
        operator_work_macs(graph[op], scale_b, vector_cost)
        * volume(pieces)
        / np.prod(mapping.box(op), dtype=np.float64)
        for op, pieces in zip(operators, regions, strict=True)
    ]
    footprints = [
        footprint(
            graph[op], regions[i], mapping.box(op), scale_b, chip.bytes_per_element,
            [_buffered(mapping, level, index, i, edge) for edge in graph[op].inputs],
        )
        for i, op in enumerate(operators)
    ]  # fmt: skip
    home = residence(mapping, operators, footprints, cores, residency)

    collector = _Collector()
    _activations_and_inputs(mapping, g, index, regions, offsets, collector)
    for i, op in enumerate(operators):
        passes = home.passes[offsets[i] : offsets[i + 1]]
        _weights(mapping, g, op, regions[i], offsets[i], footprints[i], passes, collector)
        if mapping.leaves_group(op):
            n = len(regions[i])
            collector.add(
                Role.OUTPUT, op, offsets[i] + np.arange(n), mapping.flow(op).outputs,
                sized(chip.bytes_per_element, regions[i]), np.zeros(n, dtype=bool),
                np.zeros(n, dtype=np.int64), np.zeros(0, dtype=np.int64),
            )  # fmt: skip
    return GroupPlan(
        g, np.array(operators), level, np.repeat(np.arange(len(layers)), np.diff(offsets)), cores,
        np.concatenate(work), collector.flows(), home.demand_bytes, home.passes,
    )  # fmt: skip


def _buffered(
    mapping: Mapping, level: Ints, index: dict[int, int], consumer: int, edge: Edge
) -> int:
    """Units of an input that its consumer may hold: the credit's lag, at most the batch."""
    lag = mapping.chip.credit_depth
    if edge.producer in index:
        lag += int(level[consumer] - level[index[edge.producer]]) - 1
    return min(lag, mapping.units_per_batch)


def _activations_and_inputs(
    mapping: Mapping, g: int, index: dict[int, int], regions: Sequence[Regions], offsets: Ints,
    collector: _Collector,
) -> None:  # fmt: skip
    graph = mapping.graph
    readers: dict[tuple[int, str, tuple[int, ...], int], list[tuple[int, Edge]]] = {}
    for op in index:
        for edge in graph[op].inputs:
            if edge.producer == GRAPH_INPUT:
                key = (GRAPH_INPUT, edge.name, edge.box, mapping.flow(op).inputs)
            else:
                key = (edge.producer, "", edge.box, mapping.flow(edge.producer).outputs)
            readers.setdefault(key, []).append((op, edge))
    for (producer, _, _, port), edges in readers.items():
        needed = [edge.needed(regions[index[op]], mapping.samples_per_unit) for op, edge in edges]
        pieces = [np.arange(offsets[index[op]], offsets[index[op] + 1]) for op, _ in edges]
        needs, need_offsets, need_pieces = _classes(np.concatenate(needed), np.concatenate(pieces))
        per_element = mapping.chip.bytes_per_element
        if producer in index:
            p = index[producer]
            src, size, counts, dst = _overlaps(regions[p], needs, need_offsets, need_pieces)
            collector.add(
                Role.ACTIVATION, producer, offsets[p] + src, -1,
                (per_element * size).astype(np.float64), np.zeros(len(src), dtype=bool),
                counts, dst,
            )  # fmt: skip
        else:
            n = len(needs)
            collector.add(
                Role.INPUT, edges[0][0], np.full(n, -1), port, sized(per_element, needs),
                np.zeros(n, dtype=bool), np.diff(need_offsets), need_pieces,
            )  # fmt: skip


def _weights(
    mapping: Mapping, g: int, op: int, regions: Regions, first_piece: int, sizes: Footprint,
    passes: Ints, collector: _Collector,
) -> None:  # fmt: skip
    operator = mapping.graph[op]
    if operator.weight_elements == 0:
        return
    dims = list(operator.weight_dims)
    keys = np.concatenate([regions[:, dims, 0], regions[:, dims, 1], passes[:, None]], axis=1)
    first, number = unique_rows(keys)
    order = np.argsort(number, kind="stable")
    stays = passes[first] == 0
    collector.add(
        Role.WEIGHT, op, np.full(len(first), -1), mapping.flow(op).weights,
        sizes.weight_bytes[first] * np.maximum(passes[first], 1), stays,
        np.bincount(number, minlength=len(first)).astype(np.int64), first_piece + order,
    )  # fmt: skip
