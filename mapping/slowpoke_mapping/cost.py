"""What a mapping costs: cycles, bytes and energy of every layer group, before anything runs.

The estimate of a group follows its pipeline: the first unit's way through the layers, weights
included, then one period a unit; and it is at least what the busiest channel or DRAM port needs
for all its bytes. The period is the longest of the busiest core's work, the busiest channel's and
port's bytes for one unit, and the loop that a credit closes (design.md section 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.capacity import Residency
from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.load import Load, group_load
from slowpoke_mapping.mapping import Mapping
from slowpoke_mapping.placement import check_speeds
from slowpoke_mapping.program import Role
from slowpoke_mapping.ragged import Ints
from slowpoke_mapping.routes import Routes, routes_of
from slowpoke_mapping.traffic import GroupPlan, group_plan

MIN_SPEED = 1e-9
"""A speed factor of 0 is a place that takes (almost) for ever, not a division by zero."""


@dataclass(frozen=True, slots=True)
class GroupEstimate:
    """What one layer group costs for a whole batch.

    Attributes:
        cycles: Time of the group.
        compute_cycles: Work of the busiest core.
        link_cycles: Bytes over rate of the busiest channel (links, injection, ejection).
        port_cycles: Bytes over rate of the busiest DRAM port.
        period_cycles: Time between units in the steady state.
        fill_cycles: First unit's way through the group, weights included.
        byte_hops: Bytes times links.
        dram_bytes: Bytes read and written.
        energy_pj: Energy.
        bound: What limits it: `compute`, `network`, `dram` or `pipeline`.
        utilisation: Work over cycles times cores.
    """

    cycles: float
    compute_cycles: float
    link_cycles: float
    port_cycles: float
    period_cycles: float
    fill_cycles: float
    byte_hops: float
    dram_bytes: float
    energy_pj: float
    bound: str
    utilisation: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a mapping costs for one batch.

    Attributes:
        groups: Each layer group's cost.
        n_samples: Samples of the batch.
    """

    groups: tuple[GroupEstimate, ...]
    n_samples: int

    @property
    def cycles(self) -> float:
        """Cycles of a batch: groups run one after another."""
        return sum(g.cycles for g in self.groups)

    @property
    def byte_hops(self) -> float:
        """Bytes times links of a batch."""
        return sum(g.byte_hops for g in self.groups)

    @property
    def dram_bytes(self) -> float:
        """DRAM bytes of a batch."""
        return sum(g.dram_bytes for g in self.groups)

    @property
    def energy_pj(self) -> float:
        """Picojoules of a batch."""
        return sum(g.energy_pj for g in self.groups)

    @property
    def edp(self) -> float:
        """Energy-delay product of a batch, pJ x cycles."""
        return self.energy_pj * self.cycles

    def __str__(self) -> str:
        return (
            f"{self.cycles:,.0f} cycles a batch of {self.n_samples}, "
            f"{self.byte_hops:,.0f} byte-hops, {self.dram_bytes:,.0f} DRAM bytes, "
            f"{self.energy_pj / 1e9:.3f} mJ"
        )


@dataclass(frozen=True, slots=True)
class Speeds:
    """Speed of every core, channel and port, in MACs and bytes per cycle."""

    core: NDArray[np.float64]
    channel: NDArray[np.float64]
    port: NDArray[np.float64]


def speeds_of(
    chip: ChipConfig,
    core_speed: Sequence[float] | None = None,
    link_speed: Sequence[float] | None = None,
) -> Speeds:
    """Speeds of a chip whose cores and links run at factors of their nominal rates.

    Raises:
        SlowpokeError: Not one finite factor >= 0 for each core or directed link.
    """
    channel = np.full(chip.n_channels, float(chip.link_bytes_per_cycle))
    channel[: chip.n_links] *= check_speeds(link_speed, chip.n_links, "link_speed")
    core = chip.macs_per_cycle * check_speeds(core_speed, chip.n_cores, "core_speed")
    return Speeds(
        np.maximum(core, MIN_SPEED),
        np.maximum(channel, MIN_SPEED),
        np.full(len(chip.dram_ports), float(chip.dram_bytes_per_cycle)),
    )


def estimate(
    mapping: Mapping,
    *,
    residency: Residency = "streamed",
    core_speed: Sequence[float] | None = None,
    link_speed: Sequence[float] | None = None,
) -> Estimate:
    """What a mapping costs for one batch, group by group.

    Args:
        mapping: Any valid mapping.
        residency: As for lowering.
        core_speed: (n_cores,) factors of nominal speed.
        link_speed: (n_links,) factors of nominal speed, directed links.

    Raises:
        SlowpokeError: Speeds that do not fit the chip.
        CapacityError: A piece does not fit its core's buffer.
    """
    speeds = speeds_of(mapping.chip, core_speed, link_speed)
    routes = routes_of(mapping.chip.network)
    groups = []
    for g in range(len(mapping.groups)):
        plan = group_plan(mapping, g, residency)
        groups.append(estimate_group(mapping, plan, routes, speeds))
    return Estimate(tuple(groups), mapping.samples_per_batch)


def estimate_group(
    mapping: Mapping, plan: GroupPlan, routes: Routes, speeds: Speeds
) -> GroupEstimate:
    """What one group costs for a batch."""
    chip, units = mapping.chip, mapping.units_per_batch
    load = group_load(plan, chip, routes)
    every = np.ones(len(load.share_flow), dtype=bool)
    piece_cycles = plan.work_macs / speeds.core[plan.core]
    busy_core = np.bincount(plan.core, piece_cycles, minlength=chip.n_cores)
    unit_channel = load.channel_bytes(~load.once) / speeds.channel
    unit_port = load.port_bytes(~load.once) / speeds.port
    link = float((unit_channel * units + load.channel_bytes(load.once) / speeds.channel).max())
    port = float((unit_port * units + load.port_bytes(load.once) / speeds.port).max())

    fill, loop = _first_unit(mapping, plan, load, speeds, piece_cycles)
    period = max(busy_core.max(), loop, float(unit_channel.max()), float(unit_port.max()))
    pipeline = fill + (units - 1) * period
    uses_dram = bool((load.share_port >= 0).any())
    cycles = max(pipeline, link, port + uses_dram * chip.dram_latency_cycles)
    compute = float(busy_core.max()) * units
    limits = {"compute": compute, "network": link, "dram": port}
    bound = max(limits, key=lambda name: limits[name])
    if limits[bound] < 0.5 * cycles:
        bound = "pipeline"
    byte_hops, dram_bytes = load.byte_hops(units), load.dram_bytes(units)
    return GroupEstimate(
        cycles=cycles,
        compute_cycles=compute,
        link_cycles=link,
        port_cycles=port,
        period_cycles=float(period),
        fill_cycles=fill,
        byte_hops=byte_hops,
        dram_bytes=dram_bytes,
        energy_pj=_energy_pj(mapping, plan, load, every, byte_hops, dram_bytes),
        bound=bound,
        utilisation=float(
            plan.work_macs.sum() * units / (chip.macs_per_cycle * chip.n_cores * max(cycles, 1e-9))
        ),
    )


def _first_unit(
    mapping: Mapping, plan: GroupPlan, load: Load, speeds: Speeds,
    piece_cycles: NDArray[np.float64],
) -> tuple[float, float]:  # fmt: skip
    """(cycles until the first unit has left, longest loop that a credit closes)."""
    chip, flows = mapping.chip, plan.flows
    n_layers = len(plan.operators)
    layer_cycles = np.zeros(n_layers)
    np.maximum.at(layer_cycles, plan.layer, piece_cycles)
    # channel and port bytes of a share, by the layer that waits for it
    owner = np.repeat(np.arange(len(flows)), np.diff(flows.dst_offsets))
    reader = np.full(len(flows), n_layers, dtype=np.int64)
    np.minimum.at(reader, owner, plan.layer[flows.dst])
    share_reader, share_role = reader[load.share_flow], flows.role[load.share_flow]
    hop = chip.router_delay_cycles + _packet_cycles(chip)
    distance = _mean_hops(load) * hop

    from_dram = (share_role == Role.WEIGHT) | (share_role == Role.INPUT)
    arrival = np.zeros(n_layers)
    for layer in np.unique(share_reader[from_dram]):
        # reads are served in the order of the layers that wait for them
        before = from_dram & (share_reader <= layer)
        arrival[layer] = chip.dram_latency_cycles + distance + max(
            float((load.port_bytes(before) / speeds.port).max()),
            float((load.channel_bytes(before) / speeds.channel).max()),
        )  # fmt: skip

    index = {int(op): i for i, op in enumerate(plan.operators)}
    delivery = _delivery_cycles(plan, load, speeds)
    end = np.zeros(n_layers)
    loop = 0.0
    for i, op in enumerate(plan.operators):
        start = arrival[i]
        for edge in mapping.graph[int(op)].inputs:
            if edge.producer in index:
                p = index[edge.producer]
                gap = delivery.get((p, i), 0.0)
                gap += distance if gap else 0.0
                start = max(start, end[p] + gap)
                lag = chip.credit_depth + int(plan.level[i] - plan.level[p]) - 1
                if plan.level[i] == plan.level[p] + 1:
                    loop = max(loop, (layer_cycles[p] + gap + layer_cycles[i]) / lag)
        end[i] = start + layer_cycles[i]
    leaving = share_role == Role.OUTPUT
    drain = 0.0
    if leaving.any():
        drain = chip.dram_latency_cycles + distance + max(
            float((load.port_bytes(leaving) / speeds.port).max()),
            float((load.channel_bytes(leaving) / speeds.channel).max()),
        )  # fmt: skip
    return float(end.max()) + drain, loop


def _packet_cycles(chip: ChipConfig) -> float:
    """Cycles that the last message adds at every hop: all of it when it is stored and forwarded."""
    if chip.switching == "store_and_forward":
        return min(chip.packet_bytes, chip.message_bytes) / chip.link_bytes_per_cycle
    return 0.0


def _mean_hops(load: Load) -> float:
    on_link = load.visit_channel < load.n_links
    total = load.share_bytes.sum()
    return float(load.share_bytes[load.visit_share[on_link]].sum() / total) if total else 0.0


def _delivery_cycles(plan: GroupPlan, load: Load, speeds: Speeds) -> dict[tuple[int, int], float]:
    """For each (producer, consumer) layer: cycles until the last byte of a unit has passed."""
    flows = plan.flows
    sent = np.flatnonzero(flows.role == Role.ACTIVATION)
    if len(sent) == 0:
        return {}
    n_layers = len(plan.operators)
    remote = np.zeros(len(flows), dtype=bool)
    remote[load.share_flow] = True
    owner = np.repeat(np.arange(len(flows)), np.diff(flows.dst_offsets))
    chosen = (flows.role[owner] == Role.ACTIVATION) & remote[owner]
    chosen &= plan.core[flows.dst] != plan.core[np.maximum(flows.src[owner], 0)]
    producer = plan.layer[flows.src[owner[chosen]]]
    consumer = plan.layer[flows.dst[chosen]]
    rate = float(speeds.channel[load.n_links])
    received = _largest(
        producer * n_layers + consumer, flows.dst[chosen], flows.n_bytes[owner[chosen]],
        plan.n_pieces,
    )  # fmt: skip
    # a producer injects a rectangle once, however many consumers it has
    pairs = np.unique(np.stack([producer * n_layers + consumer, owner[chosen]]), axis=1)
    injected = _largest(pairs[0], flows.src[pairs[1]], flows.n_bytes[pairs[1]], plan.n_pieces)
    return {
        (key // n_layers, key % n_layers): max(received[key], injected.get(key, 0.0)) / rate
        for key in received
    }


def _largest(
    keys: Ints, pieces: Ints, n_bytes: NDArray[np.float64], n_pieces: int
) -> dict[int, float]:
    """For each key the largest sum of bytes over its pieces."""
    cells, inverse = np.unique(keys * n_pieces + pieces, return_inverse=True)
    sums = np.bincount(inverse, n_bytes)
    result: dict[int, float] = {}
    for cell, total in zip((cells // n_pieces).tolist(), sums.tolist(), strict=True):
        result[cell] = max(result.get(cell, 0.0), total)
    return result


def _energy_pj(
    mapping: Mapping, plan: GroupPlan, load: Load, every: NDArray[np.bool_], byte_hops: float,
    dram_bytes: float,
) -> float:  # fmt: skip
    """Energy of a batch: arithmetic, buffers, network, DRAM."""
    chip, units = mapping.chip, mapping.units_per_batch
    costs = chip.energy
    operators = [mapping.graph[int(op)] for op in plan.operators]
    arithmetic = sum(o.macs * costs.mac_pj + o.vector_ops * costs.vector_op_pj for o in operators)
    times = np.where(load.once, 1, units)
    through_channels = load.visit_channel >= load.n_links  # into or out of a core's buffer
    shares = load.visit_share[through_channels]
    buffered = float((load.share_bytes * times)[shares].sum())
    return (
        arithmetic * mapping.samples_per_batch
        + byte_hops * costs.byte_hop_pj
        + dram_bytes * costs.dram_byte_pj
        + buffered * costs.sram_byte_pj
    )
