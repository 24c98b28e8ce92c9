"""What a mapping costs: cycles, bytes and energy of every layer group, before anything runs.

The estimate of a group is what its layers take as a pipeline (slowpoke_mapping.pipeline), and at
least what the busiest channel or DRAM port needs for all its bytes. That is the formula of
design.md section 5, max(slowest piece x (depth + units - 1), busiest link, busiest port) + fill +
weight load, with its sums played through in order instead of added up: layers of one core group
take turns, weights arrive while earlier layers compute, credits hold producers back.
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
from slowpoke_mapping.pipeline import Stages, pipeline_run
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
        port_cycles: Accesses and bytes over rate of the busiest DRAM port.
        period_cycles: Mean time between units that leave the group.
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
    unit_port = _port_cycles(load, ~load.once, chip, speeds)
    link = float((unit_channel * units + load.channel_bytes(load.once) / speeds.channel).max())
    port = float((unit_port * units + _port_cycles(load, load.once, chip, speeds)).max())

    stages = _stages(mapping, plan, load, speeds, piece_cycles)
    fill, pipeline = pipeline_run(stages, chip.n_cores)
    if units > 1 and float(unit_channel.max()) * (units - 1) > pipeline - fill:
        # a channel is the slowest stage: the first unit's way, then one turn of it a unit
        fill, _ = pipeline_run(stages._replace(units=1), chip.n_cores)
        pipeline = max(pipeline, fill + (units - 1) * float(unit_channel.max()))
    cycles = max(pipeline, link, port)
    period = (pipeline - fill) / (units - 1) if units > 1 else pipeline
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


def _port_cycles(
    load: Load, shares: NDArray[np.bool_], chip: ChipConfig, speeds: Speeds
) -> NDArray[np.float64]:
    """(n_ports,) cycles that the chosen shares keep each port busy: an access for each message."""
    return (
        load.port_messages(shares) * chip.dram_latency_cycles
        + load.port_bytes(shares) / speeds.port
    )


def _stages(
    mapping: Mapping, plan: GroupPlan, load: Load, speeds: Speeds,
    piece_cycles: NDArray[np.float64],
) -> Stages:  # fmt: skip
    """The group as a pipeline of whole layers."""
    chip, flows = mapping.chip, plan.flows
    n_layers, n_ports = len(plan.operators), load.n_ports
    cycles = np.zeros(n_layers)
    np.maximum.at(cycles, plan.layer, piece_cycles)
    owner = np.repeat(np.arange(len(flows)), np.diff(flows.dst_offsets))
    reader = np.full(len(flows), n_layers, dtype=np.int64)
    np.minimum.at(reader, owner, plan.layer[flows.dst])
    role = flows.role[load.share_flow]
    written = role == Role.OUTPUT
    shares_layer = np.where(
        written, plan.layer[np.maximum(flows.src[load.share_flow], 0)], reader[load.share_flow]
    )
    from_dram = (role == Role.WEIGHT) | (role == Role.INPUT)
    hop = chip.router_delay_cycles + _packet_cycles(chip)
    ports = {name: np.zeros((n_layers, n_ports)) for name in ("read", "once", "write")}
    passing = {name: np.zeros(n_layers) for name in ports}
    for name, kind in (
        ("read", from_dram & ~load.once), ("once", from_dram & load.once), ("write", written)
    ):  # fmt: skip
        distance = _mean_hops(load, kind) * hop
        for layer in np.unique(shares_layer[kind]):
            own = kind & (shares_layer == layer)
            ports[name][layer] = _port_cycles(load, own, chip, speeds)
            passing[name][layer] = distance + float(
                (load.channel_bytes(own) / speeds.channel).max()
            )
    distance = _mean_hops(load, role == Role.ACTIVATION) * hop
    delivery = _delivery_cycles(plan, load, speeds)
    index = {int(op): i for i, op in enumerate(plan.operators)}
    edges = sorted(
        {
            (index[edge.producer], i)
            for i, op in enumerate(plan.operators)
            for edge in mapping.graph[int(op)].inputs
            if edge.producer in index
        }
    )
    gaps = [delivery[pair] + distance if pair in delivery else 0.0 for pair in edges]
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return Stages(
        cycles=cycles,
        server=plan.core[np.searchsorted(plan.layer, np.arange(n_layers))],
        edge_from=ends[:, 0].copy(),
        edge_to=ends[:, 1].copy(),
        edge_gap=np.array(gaps, dtype=np.float64),
        edge_lag=chip.credit_depth + plan.level[ends[:, 1]] - plan.level[ends[:, 0]] - 1,
        read_port=ports["read"],
        read_pass=passing["read"],
        once_port=ports["once"],
        once_pass=passing["once"],
        write_port=ports["write"],
        write_pass=passing["write"],
        reads=passing["read"] > 0,
        writes=passing["write"] > 0,
        depth=chip.credit_depth,
        units=mapping.units_per_batch,
    )


def _packet_cycles(chip: ChipConfig) -> float:
    """Cycles that the last message adds at every hop: all of it when it is stored and forwarded."""
    if chip.switching == "store_and_forward":
        return min(chip.packet_bytes, chip.message_bytes) / chip.link_bytes_per_cycle
    return 0.0


def _mean_hops(load: Load, shares: NDArray[np.bool_]) -> float:
    """Links that a byte of the chosen shares passes; those of a multicast count as one way."""
    paths = np.bincount(
        load.visit_share[load.visit_channel >= load.n_links + load.n_cores],
        minlength=len(load.share_bytes),
    )
    on_link = (load.visit_channel < load.n_links) & shares[load.visit_share]
    weights = load.share_bytes / np.maximum(paths, 1)
    total = float(load.share_bytes[shares].sum())
    return float(weights[load.visit_share[on_link]].sum()) / total if total else 0.0


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
