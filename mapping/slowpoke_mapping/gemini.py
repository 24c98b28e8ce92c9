"""A mapping under Gemini's own formulas, so that it can stand beside Gemini's own figures.

Gemini (Cai et al., HPCA 2024), as its public implementation counts: DRAM controllers sit beside the
west and east edge, one column outside the mesh; each spreads every transfer evenly over its edge
routers. Byte-hops count every link of a multicast's XY tree once, the edge links included. A
segment takes max(slowest layer x (depth + batch groups), busiest link, busiest controller). The
compute time is our own: Gemini searches loop nests of an NVDLA-like core, we take MACs over rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slowpoke_mapping.capacity import Residency
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.lowering import deliveries
from slowpoke_mapping.mapping import INTERLEAVED, Mapping
from slowpoke_mapping.program import Role
from slowpoke_mapping.ragged import Ints, offsets_of, positions_within, take_rows
from slowpoke_mapping.routes import Routes, routes_of
from slowpoke_mapping.topology import Mesh
from slowpoke_mapping.traffic import GroupPlan, group_plan


@dataclass(frozen=True, slots=True)
class GeminiSegment:
    """One layer group under Gemini's formulas, for a whole batch."""

    cycles: int
    compute_cycles: float
    noc_cycles: int
    dram_cycles: int
    byte_hops: float
    core_byte_hops: float
    dram_bytes: float
    max_link_bytes: float
    energy_pj: float


@dataclass(frozen=True, slots=True)
class GeminiCost:
    """A mapping under Gemini's formulas, for a whole batch.

    Attributes:
        segments: Every layer group.
    """

    segments: tuple[GeminiSegment, ...]

    @property
    def cycles(self) -> int:
        """Sum of the segments' times."""
        return sum(s.cycles for s in self.segments)

    @property
    def byte_hops(self) -> float:
        """Bytes times links, edge links included."""
        return sum(s.byte_hops for s in self.segments)

    @property
    def core_byte_hops(self) -> float:
        """The part of it that flows between cores."""
        return sum(s.core_byte_hops for s in self.segments)

    @property
    def dram_bytes(self) -> float:
        """Bytes read from and written to DRAM."""
        return sum(s.dram_bytes for s in self.segments)

    @property
    def max_link_bytes(self) -> float:
        """Bytes over the busiest link of any segment."""
        return max(s.max_link_bytes for s in self.segments)

    @property
    def energy_pj(self) -> float:
        """Picojoules: MACs, vector operations, buffers, byte-hops, DRAM."""
        return sum(s.energy_pj for s in self.segments)

    @property
    def edp(self) -> float:
        """Energy-delay product, pJ x cycles."""
        return self.energy_pj * self.cycles


def gemini_cost(mapping: Mapping, *, residency: Residency = "streamed") -> GeminiCost:
    """A mapping's byte-hops, DRAM bytes, times and energy as Gemini counts them.

    Raises:
        SlowpokeError: The chip's network is not a mesh.
        CapacityError: A piece does not fit its core's buffer.
    """
    network = mapping.chip.network
    if not isinstance(network, Mesh):
        raise SlowpokeError(
            f"{network}: Gemini's formulas are those of a mesh; use estimate() for other networks"
        )
    outside = routes_of(Mesh(network.width + 2, network.height))
    gates = _gates(mapping, network)
    return GeminiCost(
        tuple(
            _segment(mapping, group_plan(mapping, g, residency), network, outside, gates)
            for g in range(len(mapping.groups))
        )
    )


def _gates(mapping: Mapping, network: Mesh) -> tuple[Ints, Ints]:
    """(offsets, routers of the widened mesh) through which each DRAM port sends and receives."""
    wide = network.width + 2
    ports = mapping.chip.dram_ports
    rows: list[list[int]] = []
    for port in ports:
        y, x = divmod(port, network.width)
        if x not in (0, network.width - 1):
            rows.append([y * wide + x + 1])
            continue
        side = sorted(p // network.width for p in ports if p % network.width == x)
        n, rank = len(side), side.index(y)
        column = 0 if x == 0 else wide - 1
        span = range(rank * network.height // n, (rank + 1) * network.height // n)
        rows.append([row * wide + column for row in span or [y]])
    return (
        offsets_of(np.array([len(row) for row in rows], dtype=np.int64)),
        np.array([gate for row in rows for gate in row], dtype=np.int64),
    )


def _segment(
    mapping: Mapping, plan: GroupPlan, network: Mesh, outside: Routes, gates: tuple[Ints, Ints]
) -> GeminiSegment:
    chip, units, flows = mapping.chip, mapping.units_per_batch, plan.flows
    reach = deliveries(flows, plan.core, chip.n_cores)
    n_ports = len(chip.dram_ports)
    spread = np.where(flows.port == INTERLEAVED, n_ports, 1)
    spread[(flows.role == Role.ACTIVATION) & (np.diff(reach.offsets) == 0)] = 0
    flow = np.repeat(np.arange(len(flows)), spread)
    port = np.where(flows.port[flow] == INTERLEAVED, positions_within(spread), flows.port[flow])
    total = flows.n_bytes * np.where(flows.once, 1, units)
    n_bytes = (total / np.maximum(spread, 1))[flow]
    from_dram = port >= 0
    port_bytes = np.bincount(port[from_dram], n_bytes[from_dram], minlength=n_ports)

    # every share of a port goes through each of its gates in equal parts
    offsets, gate_routers = gates
    n_gates = np.where(from_dram, np.diff(offsets)[np.maximum(port, 0)], 1)
    share = np.repeat(np.arange(len(flow)), n_gates)
    at = offsets[np.maximum(port[share], 0)] + positions_within(n_gates)
    gate = gate_routers[np.minimum(at, len(gate_routers) - 1)]
    tree_bytes = (n_bytes / n_gates)[share]
    y, x = np.divmod(plan.core[np.maximum(flows.src[flow[share]], 0)], network.width)
    own = y * (network.width + 2) + x + 1
    written = flows.role[flow[share]] == Role.OUTPUT
    origin = np.where(from_dram[share] & ~written, gate, own)
    rows, counts = take_rows(reach.offsets, flow[share])
    tree = np.concatenate([np.repeat(np.arange(len(share)), counts), np.flatnonzero(written)])
    y, x = np.divmod(reach.core[rows], network.width)
    target = np.concatenate([y * (network.width + 2) + x + 1, gate[written]])
    links, lengths = outside.paths(origin[tree], target)
    visits = np.unique(np.repeat(tree, lengths) * outside.n_links + links)
    visit_tree, visit_link = np.divmod(visits, outside.n_links)
    link_bytes = np.bincount(visit_link, tree_bytes[visit_tree], minlength=outside.n_links)
    between = ~from_dram[share[visit_tree]]

    busy = np.bincount(plan.core, plan.work_macs, minlength=chip.n_cores) / chip.macs_per_cycle
    compute = float(busy.max()) * (int(plan.level.max()) + units)
    noc = math.ceil(float(link_bytes.max(initial=0)) / chip.link_bytes_per_cycle)
    dram = math.ceil(float(port_bytes.max()) / chip.dram_bytes_per_cycle)
    byte_hops = float(link_bytes.sum())
    dram_bytes = float(port_bytes.sum())
    costs = chip.energy
    operators = [mapping.graph[int(op)] for op in plan.operators]
    arithmetic = sum(o.macs * costs.mac_pj + o.vector_ops * costs.vector_op_pj for o in operators)
    into = np.diff(reach.offsets) + (flows.src >= 0)
    energy = (
        arithmetic * mapping.samples_per_batch
        + byte_hops * costs.byte_hop_pj
        + dram_bytes * costs.dram_byte_pj
        + float((total * into).sum()) * costs.sram_byte_pj
    )
    return GeminiSegment(
        cycles=max(math.ceil(compute), noc, dram),
        compute_cycles=compute,
        noc_cycles=noc,
        dram_cycles=dram,
        byte_hops=byte_hops,
        core_byte_hops=float(tree_bytes[visit_tree[between]].sum()),
        dram_bytes=dram_bytes,
        max_link_bytes=float(link_bytes.max(initial=0)),
        energy_pj=energy,
    )
