"""Cutting the graph into layer groups: dynamic programming over every possible cut.

A group costs what its pipeline takes (slowest bundle of layers, fill, weights that must come first)
or what its DRAM traffic takes, whichever is longer (Gemini, HPCA 2024, section on segmentation).
A bundle is a layer with followers that read it index by index (an addition, a pooling): they share
its cores and its cuts, so that what flows between them stays in the core.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.graph import GRAPH_INPUT, Edge, Operator, OperatorGraph
from slowpoke_mapping.ragged import Ints, offsets_of
from slowpoke_mapping.traffic import operator_work_macs

MAX_GROUP_LAYERS = 96


@dataclass(frozen=True, slots=True)
class Weights:
    """What a cycle and a picojoule are worth to the search."""

    per_cycle: float = 1.0
    per_pj: float = 0.0


def follows(edge: Edge, producer: Operator, consumer: Operator) -> bool:
    """Whether a consumer can share its producer's cuts and then needs (almost) only its own core.

    Every dimension is read index by index (with a stride or a small halo), and no cuttable
    dimension shrinks by more than four.
    """
    if edge.producer == GRAPH_INPUT:
        return False
    if not set(producer.partitionable) <= set(consumer.partitionable):
        return False
    for dim, window in enumerate(edge.windows):
        extent, ours = producer.box[dim], consumer.box[dim]
        if extent == 1 and ours == 1:
            continue
        if window.dim != dim or window.num != 1 or window.den != 1 or ours * 4 < extent:
            return False
        if window.high - window.low > window.mult + 2:
            return False
    return True


def leaders(graph: OperatorGraph, work_macs: NDArray[np.float64]) -> Ints:
    """(n,) operator whose cores each operator may share, or -1."""
    result = np.full(len(graph), -1, dtype=np.int64)
    for i, operator in enumerate(graph):
        found = [
            edge.producer
            for edge in operator.inputs
            if edge.producer != GRAPH_INPUT
            and operator.weight_elements == 0
            and work_macs[i] <= work_macs[edge.producer]
            and follows(edge, graph[edge.producer], operator)
        ]
        if found:
            result[i] = max(found, key=lambda p: (work_macs[p], p))
    return result


@dataclass(frozen=True, slots=True)
class SegmentProblem:
    """Everything the dynamic programme needs, as arrays over operators.

    Attributes:
        work_macs: (n,) MAC equivalents of one unit.
        score: (n, n_cores) cycles with at most 1, 2, ... cores.
        leader: (n,) see `leaders`.
        out_bytes: (n,) output of one unit.
        weight_bytes: (n,) weights.
        last_use: (n,) last operator that reads the output; n for what leaves the graph.
        in_offsets, in_producer, in_bytes: The inputs of each operator, in CSR form.
    """

    work_macs: NDArray[np.float64]
    score: NDArray[np.float64]
    leader: Ints
    out_bytes: NDArray[np.float64]
    weight_bytes: NDArray[np.float64]
    last_use: Ints
    in_offsets: Ints
    in_producer: Ints
    in_bytes: NDArray[np.float64]


def segment_problem(
    graph: OperatorGraph, chip: ChipConfig, score: NDArray[np.float64], scale_b: int
) -> SegmentProblem:
    """The arrays of a graph on a chip; `score` is (n, n_cores) as of partition.Choices.table."""
    vector_cost = chip.macs_per_cycle / chip.vector_ops_per_cycle
    work = np.array([operator_work_macs(o, scale_b, vector_cost) for o in graph])
    per_element = chip.bytes_per_element
    n = len(graph)
    last_use = np.array([max(graph.consumers(i), default=n) for i in range(n)], dtype=np.int64)
    last_use[list(graph.outputs)] = n
    edges = [edge for operator in graph for edge in operator.inputs]
    return SegmentProblem(
        work,
        score,
        leaders(graph, work),
        np.array([o.elements * scale_b * per_element for o in graph], dtype=np.float64),
        np.array([o.weight_elements * per_element for o in graph], dtype=np.float64),
        last_use,
        offsets_of(np.array([len(o.inputs) for o in graph], dtype=np.int64)),
        np.array([edge.producer for edge in edges], dtype=np.int64),
        np.array([edge.elements * scale_b * per_element for edge in edges], dtype=np.float64),
    )


@njit(cache=True)
def allocate(
    work: NDArray[np.float64], head_work: NDArray[np.float64], score: NDArray[np.float64],
    heads: Ints, n_cores: int, cores: Ints,
) -> None:  # fmt: skip
    """Give each bundle cores so that the slowest is as fast as can be; at most n_cores in all.

    Starts in proportion to work (largest remainders follow from what comes next), then gives the
    slowest bundle as many cores as make it faster, as long as there are any.

    Args:
        work: (n,) work of each bundle; head_work: of its head alone.
        score: (n_operators, n_cores) cycles of an operator with at most so many cores.
        heads: (n,) head of each bundle.
        n_cores: Cores to give; at least n.
        cores: (n,) result.
    """
    n = len(work)
    total = work.sum()
    left = n_cores
    for b in range(n):
        cores[b] = max(1, int(0.7 * n_cores * work[b] / total))
        left -= cores[b]
    while left < 0:
        most = 0
        for b in range(n):
            if cores[b] > cores[most]:
                most = b
        cores[most] -= 1
        left += 1
    done = np.zeros(n, dtype=np.bool_)
    while left > 0:
        slowest, longest = -1, 0.0
        for b in range(n):
            time = score[heads[b], cores[b] - 1] * work[b] / head_work[b]
            if not done[b] and time > longest:
                slowest, longest = b, time
        if slowest < 0:
            break
        now = score[heads[slowest], cores[slowest] - 1]
        more = 0
        for extra in range(1, left + 1):
            if score[heads[slowest], cores[slowest] - 1 + extra] < now * 0.999:
                more = extra
                break
        if more == 0:
            done[slowest] = True
        cores[slowest] += more
        left -= more
    for b in range(n):  # cores that bring nothing stay idle
        while cores[b] > 1 and score[heads[b], cores[b] - 2] <= score[heads[b], cores[b] - 1]:
            cores[b] -= 1


@njit(cache=True)
def bundle_roots(leader: Ints, first: int, last: int, root: Ints) -> int:
    """Number the bundles of operators first..last; root[i - first] is each one's bundle."""
    n = 0
    for i in range(first, last + 1):
        if leader[i] >= first:
            root[i - first] = root[leader[i] - first]
        else:
            root[i - first] = n
            n += 1
    return n


@njit(cache=True)
def _group_cost(
    first: int, last: int, work: NDArray[np.float64], score: NDArray[np.float64], leader: Ints,
    out_bytes: NDArray[np.float64], weight_bytes: NDArray[np.float64], last_use: Ints,
    in_offsets: Ints, in_producer: Ints, in_bytes: NDArray[np.float64], n_cores: int, units: int,
    sram: float, link_rate: float, dram_rate: float, access: float, message: float,
    overhead: float, depth: int,
    cycle_value: float, dram_value: float, hop_value: float, must_fit: bool,
) -> float:  # fmt: skip
    """Value of one group: worth of its cycles, its DRAM bytes and its byte-hops."""
    size = last - first + 1
    root = np.empty(size, dtype=np.int64)
    n = bundle_roots(leader, first, last, root)
    heads = np.empty(n, dtype=np.int64)
    bundle_work = np.zeros(n)
    head_work = np.zeros(n)
    for i in range(size):
        b = root[i]
        if leader[first + i] < first:
            heads[b] = first + i
            head_work[b] = work[first + i]
        bundle_work[b] += work[first + i]
    cores = np.ones(n, dtype=np.int64)
    slowdown = 1.0
    if n > n_cores:
        slowdown = n / n_cores
    else:
        allocate(bundle_work, head_work, score, heads, n_cores, cores)
    period = 0.0
    for b in range(n):
        time = score[heads[b], cores[b] - 1] * bundle_work[b] / head_work[b]
        period = max(period, time)
    period *= slowdown
    weights = 0.0
    held = 0.0
    read = 0.0
    written = 0.0
    moved = 0.0
    messages = 0.0
    end = np.zeros(size)
    path = 0.0
    for i in range(size):
        op = first + i
        weights += weight_bytes[op]
        if weight_bytes[op] > 0:
            messages += cores[root[i]] ** 0.5 + weight_bytes[op] / message
        ready = weights / dram_rate + messages * access
        for e in range(in_offsets[op], in_offsets[op + 1]):
            p = in_producer[e]
            held += 2 * in_bytes[e]
            if p < first:
                repeated = False
                for other in range(in_offsets[first], e):
                    if in_producer[other] == p and p >= 0:
                        repeated = True
                        break
                if not repeated:
                    read += in_bytes[e]
                    messages += units * (cores[root[i]] + in_bytes[e] / message)
                ready = max(ready, in_bytes[e] / dram_rate)
            else:
                gap = 0.0
                if root[p - first] != root[i]:
                    moved += in_bytes[e]
                    gap = out_bytes[p] / cores[root[p - first]] / link_rate + 20.0
                ready = max(ready, end[p - first] + gap)
        b = root[i]
        time = score[heads[b], cores[b] - 1] * work[op] / head_work[b]
        for e in range(in_offsets[op], in_offsets[op + 1]):
            p = in_producer[e]
            if p >= first and root[p - first] != b:
                # two buffers: a producer waits for its consumer of `depth` units before
                r = root[p - first]
                gap = out_bytes[p] / cores[r] / link_rate + 20.0
                before = score[heads[r], cores[r] - 1] * work[p] / head_work[r]
                period = max(period, (before + gap + time) / depth)
        end[i] = ready + time
        path = max(path, end[i])
        if last_use[op] > last:
            written += out_bytes[op]
            messages += units * (cores[b] + out_bytes[op] / message)
            held += out_bytes[op]
    refetch = 1.0
    if weights + held > 0.85 * sram * n_cores:
        if must_fit and size > 1:
            return np.inf
        refetch = units
    dram = weights * refetch + units * (read + written)
    cycles = max(path + (units - 1) * period, dram / dram_rate + messages * access) + overhead
    return float(cycle_value * cycles + dram_value * dram + hop_value * units * moved)


@njit(cache=True)
def _cut(
    work: NDArray[np.float64], score: NDArray[np.float64], leader: Ints,
    out_bytes: NDArray[np.float64], weight_bytes: NDArray[np.float64], last_use: Ints,
    in_offsets: Ints, in_producer: Ints, in_bytes: NDArray[np.float64], n_cores: int, units: int,
    sram: float, link_rate: float, dram_rate: float, access: float, message: float,
    overhead: float, depth: int,
    cycle_value: float, dram_value: float, hop_value: float, must_fit: bool, longest: int,
) -> Ints:  # fmt: skip
    n = len(work)
    best = np.full(n + 1, np.inf)
    best[0] = 0.0
    cut = np.zeros(n + 1, dtype=np.int64)
    for last in range(n):
        for first in range(last, max(-1, last - longest), -1):
            cost = best[first] + _group_cost(
                first, last, work, score, leader, out_bytes, weight_bytes, last_use, in_offsets,
                in_producer, in_bytes, n_cores, units, sram, link_rate, dram_rate, access, message,
                overhead, depth,
                cycle_value, dram_value, hop_value, must_fit,
            )  # fmt: skip
            if cost < best[last + 1]:
                best[last + 1] = cost
                cut[last + 1] = first
    return cut


def dram_pj_per_cycle(chip: ChipConfig) -> float:
    """Picojoules of a cycle in which every DRAM port is busy, the way across the chip included."""
    per_byte = chip.energy.dram_byte_pj + chip.energy.byte_hop_pj * 0.75 * chip.n_cores**0.5
    return float(per_byte * chip.dram_bytes_per_cycle * len(chip.dram_ports))


def cut_into_groups(
    problem: SegmentProblem,
    chip: ChipConfig,
    units_per_batch: int,
    n_cores: int,
    value: Weights | None = None,
    must_fit: bool = False,
) -> list[tuple[int, int]]:
    """Layer groups as (first, last) operators, both included, in order.

    Tries every cut into groups of up to 2 x n_cores (at most 96) layers: n x that many evaluations.

    Args:
        problem: The graph, as arrays.
        chip: Speeds and buffers.
        units_per_batch: Units that pipeline through a group.
        n_cores: Cores that are used.
        value: What time and energy are worth.
        must_fit: Refuse groups whose weights and buffers exceed the cores' (single layers pass).
    """
    value = value or Weights()
    ports = len(chip.dram_ports)
    side = chip.n_cores**0.5
    hop_pj = chip.energy.byte_hop_pj
    cut = _cut(
        problem.work_macs, problem.score, problem.leader, problem.out_bytes, problem.weight_bytes,
        problem.last_use, problem.in_offsets, problem.in_producer, problem.in_bytes, n_cores,
        units_per_batch, chip.sram_bytes, chip.link_bytes_per_cycle,
        chip.dram_bytes_per_cycle * ports, chip.dram_latency_cycles / ports,
        float(chip.message_bytes), 2 * chip.dram_latency_cycles + 4 * side,
        chip.credit_depth, value.per_cycle,
        value.per_pj * (chip.energy.dram_byte_pj + hop_pj * 0.75 * side),
        value.per_pj * hop_pj * max(0.3 * side, 1.0), must_fit,
        max(1, min(2 * n_cores, MAX_GROUP_LAYERS)),
    )  # fmt: skip
    groups: list[tuple[int, int]] = []
    end = len(problem.work_macs)
    while end > 0:
        groups.append((int(cut[end]), end - 1))
        end = int(cut[end])
    return groups[::-1]
