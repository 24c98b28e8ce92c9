"""Lowering: a mapping becomes the static task graph that the chip executes.

For each layer group and batch unit: a COMPUTE a piece, a TRANSFER a message between pieces, reads
of inputs and weights from DRAM, writes of what leaves the group, and credits that bound how far a
producer may run ahead (design.md sections 4 and 5).

A consumer further down the pipeline than the next layer (a residual edge) holds as many units more
as there are layers in between; with the same two buffers on every edge, a skip over four layers
would halve the rate of the whole group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.capacity import Residency
from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.mapping import INTERLEAVED, Mapping
from slowpoke_mapping.program import Program, Role, TaskKind
from slowpoke_mapping.ragged import Ints, offsets_of, positions_within, take_rows
from slowpoke_mapping.traffic import Flows, GroupPlan, group_plan


def lower(mapping: Mapping, *, inferences: int = 16, residency: Residency = "streamed") -> Program:
    """The program of a mapping.

    Args:
        mapping: Any valid mapping, the mapper's or a user's.
        inferences: Samples to run.
        residency: `streamed`: weights that do not fit their core's buffer are read again for every
            unit; `resident`: they must fit.

    Returns:
        The program; its tasks grow with messages (bytes / chip.message_bytes) and with the
        producer-consumer pairs of pieces.

    Raises:
        SlowpokeError: Fewer than one inference.
        CapacityError: A piece does not fit its core's buffer.
    """
    if inferences < 1:
        raise SlowpokeError(f"{inferences} inferences: run at least 1")
    tasks = [
        _group_tasks(group_plan(mapping, g, residency), mapping.chip)
        for g in range(len(mapping.groups))
    ]
    group_offsets = offsets_of(np.array([len(t.kind) for t in tasks]))
    event_bases = offsets_of(np.array([int(t.event_offsets[-1]) for t in tasks]))
    n_events = int(event_bases[-1])
    return Program(
        chip=mapping.chip,
        model=mapping.graph.name,
        operator_names=tuple(operator.name for operator in mapping.graph),
        graph_fingerprint=mapping.graph.fingerprint,
        n_inferences=inferences,
        units_per_batch=mapping.units_per_batch,
        samples_per_unit=mapping.samples_per_unit,
        group_offsets=group_offsets,
        kind=np.concatenate([t.kind for t in tasks]),
        op=np.concatenate([t.op for t in tasks]).astype(np.int32),
        core=np.concatenate([t.core for t in tasks]).astype(np.int32),
        port=np.concatenate([t.port for t in tasks]).astype(np.int32),
        work_macs=np.concatenate([t.work_macs for t in tasks]),
        message_bytes=np.concatenate([t.message_bytes for t in tasks]),
        role=np.concatenate([t.role for t in tasks]).astype(np.uint8),
        once=np.concatenate([t.once for t in tasks]),
        dst_offsets=offsets_of(np.concatenate([t.n_dst for t in tasks])),
        dst_cores=np.concatenate([t.dst_cores for t in tasks]).astype(np.int32),
        dep_offsets=offsets_of(np.concatenate([t.n_deps for t in tasks])),
        dep_events=np.concatenate(
            [t.dep_events + base for t, base in zip(tasks, event_bases[:-1], strict=True)]
        ),
        dep_lags=np.concatenate([t.dep_lags for t in tasks]).astype(np.int32),
        recorded=np.ones(n_events, dtype=np.bool_),
    )


@dataclass(frozen=True, slots=True)
class _Tasks:
    """Tasks of one group; dependencies name events of the group, counted from its first."""

    kind: NDArray[np.uint8]
    op: Ints
    core: Ints
    port: Ints
    work_macs: NDArray[np.float64]
    message_bytes: NDArray[np.float64]
    role: Ints
    once: NDArray[np.bool_]
    n_dst: Ints
    dst_cores: Ints
    event_offsets: Ints
    n_deps: Ints
    dep_events: Ints
    dep_lags: Ints


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Where each flow is delivered: one row a (flow, core), without a producer's own core.

    Attributes:
        offsets: (n_flows + 1,) rows of each flow.
        core: Destination core of each row.
        of_pair: For each entry of `Flows.dst`, the row that serves the piece; -1 where producer
            and consumer share a core.
    """

    offsets: Ints
    core: Ints
    of_pair: Ints


def deliveries(flows: Flows, core: Ints, n_cores: int) -> Deliveries:
    """The cores that each flow must reach.

    Args:
        flows: Flows of a group.
        core: (n_pieces,) core of each piece.
        n_cores: Cores of the chip.
    """
    owner = np.repeat(np.arange(len(flows)), np.diff(flows.dst_offsets))
    dst = core[flows.dst]
    src = np.where(flows.src >= 0, core[np.maximum(flows.src, 0)], -1)
    remote = dst != src[owner]
    key = owner * n_cores + dst
    rows, inverse = np.unique(key[remote], return_inverse=True)
    of_pair = np.full(len(dst), -1, dtype=np.int64)
    of_pair[remote] = inverse
    counts = np.bincount(rows // n_cores, minlength=len(flows)).astype(np.int64)
    return Deliveries(offsets_of(counts), rows % n_cores, of_pair)


def _unicast(plan: GroupPlan, n_cores: int) -> Flows:
    """Every flow once for each destination core: what a chip without multicast sends."""
    flows = plan.flows
    owner = np.repeat(np.arange(len(flows)), np.diff(flows.dst_offsets))
    keys = owner * n_cores + plan.core[flows.dst]
    rows, inverse = np.unique(keys, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    counts = np.bincount(inverse, minlength=len(rows)).astype(np.int64)
    silent = np.flatnonzero(np.diff(flows.dst_offsets) == 0)
    pick = np.concatenate([rows // n_cores, silent])
    counts = np.concatenate([counts, np.zeros(len(silent), dtype=np.int64)])
    return Flows(
        flows.role[pick], flows.op[pick], flows.src[pick], flows.port[pick], flows.n_bytes[pick],
        flows.once[pick], offsets_of(counts), flows.dst[order],
    )  # fmt: skip


def _group_tasks(plan: GroupPlan, chip: ChipConfig) -> _Tasks:
    flows = plan.flows if chip.multicast else _unicast(plan, chip.n_cores)
    reach = deliveries(flows, plan.core, chip.n_cores)
    n_reach = np.diff(reach.offsets)
    n_ports = len(chip.dram_ports)

    # one task for each flow, port it is spread over, and message of the share
    spread = np.where(flows.port == INTERLEAVED, n_ports, 1)
    spread[(flows.role == Role.ACTIVATION) & (n_reach == 0)] = 0
    share = np.repeat(flows.n_bytes / np.maximum(spread, 1), spread)
    flow_of_share = np.repeat(np.arange(len(flows)), spread)
    port_of_share = np.where(
        flows.port[flow_of_share] == INTERLEAVED,
        positions_within(spread),
        flows.port[flow_of_share],
    )
    n_messages = np.maximum(np.ceil(share / chip.message_bytes), 1).astype(np.int64)
    flow = np.repeat(flow_of_share, n_messages)
    size = np.repeat(share / n_messages, n_messages)
    port = np.repeat(port_of_share, n_messages)

    # computes first, then messages in order of the layer that waits for them
    role = flows.role[flow].astype(np.int64)
    waiting = _first_layer(flows, plan)[flow]
    order = np.lexsort((np.arange(len(flow)), role != Role.WEIGHT, waiting))
    flow, size, port, role = flow[order], size[order], port[order], role[order]
    n_pieces, n_messages_all = plan.n_pieces, len(flow)
    task_of_message = n_pieces + np.arange(n_messages_all)
    tasks_of_flow_order = np.argsort(flow, kind="stable")
    tasks_of_flow = offsets_of(np.bincount(flow, minlength=len(flows)).astype(np.int64))
    message_task = task_of_message[tasks_of_flow_order]

    read = (role == Role.WEIGHT) | (role == Role.INPUT)
    kind = np.where(
        read, TaskKind.DRAM_READ,
        np.where(role == Role.OUTPUT, TaskKind.DRAM_WRITE, TaskKind.TRANSFER),
    )  # fmt: skip
    dst_rows, n_dst = take_rows(reach.offsets, flow)
    n_dst_all = np.concatenate([np.zeros(n_pieces, dtype=np.int64), n_dst])
    event_offsets = offsets_of(np.maximum(n_dst_all, 1))

    task, event, lag = _dependencies(
        plan, chip, flows, reach, flow, task_of_message, tasks_of_flow, message_task, event_offsets
    )
    n_tasks = n_pieces + n_messages_all
    by_task = np.lexsort((lag, event, task))
    zeros = np.zeros(n_pieces, dtype=np.int64)
    return _Tasks(
        kind=np.concatenate([zeros + int(TaskKind.COMPUTE), kind]).astype(np.uint8),
        op=np.concatenate([plan.operators[plan.layer], flows.op[flow]]),
        core=np.concatenate(
            [plan.core, np.where(read, -1, plan.core[np.maximum(flows.src[flow], 0)])]
        ),
        port=np.concatenate([zeros - 1, port]),
        work_macs=np.concatenate([plan.work_macs, np.zeros(n_messages_all)]),
        message_bytes=np.concatenate([np.zeros(n_pieces), size]),
        role=np.concatenate([zeros, role]),
        once=np.concatenate([zeros.astype(bool), flows.once[flow]]),
        n_dst=n_dst_all,
        dst_cores=reach.core[dst_rows],
        event_offsets=event_offsets,
        n_deps=np.bincount(task, minlength=n_tasks).astype(np.int64),
        dep_events=event[by_task],
        dep_lags=lag[by_task],
    )


def _first_layer(flows: Flows, plan: GroupPlan) -> Ints:
    """(n_flows,) first layer that waits for a flow; the producer's own for what only leaves."""
    owner = np.repeat(np.arange(len(flows)), np.diff(flows.dst_offsets))
    result = np.where(flows.src >= 0, plan.layer[np.maximum(flows.src, 0)], len(plan.operators))
    fed = np.full(len(flows), len(plan.operators), dtype=np.int64)
    np.minimum.at(fed, owner, plan.layer[flows.dst])
    return np.where(np.diff(flows.dst_offsets) > 0, fed, result)


def _dependencies(
    plan: GroupPlan, chip: ChipConfig, flows: Flows, reach: Deliveries, flow: Ints,
    task_of_message: Ints, tasks_of_flow: Ints, message_task: Ints, event_offsets: Ints,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """(task, event, lag) of every dependency of the group, distinct."""
    depth = chip.credit_depth
    owner = np.repeat(np.arange(len(flows)), np.diff(flows.dst_offsets))
    dst, role = flows.dst, flows.role[owner]
    found: list[tuple[Ints, Ints, Ints]] = []

    def add(task: Ints, event: Ints, lag: Ints | int) -> None:
        found.append((task, event, np.broadcast_to(np.asarray(lag, dtype=np.int64), task.shape)))

    # piece i is task i, and its one event is event i: computes come first

    # a compute waits for each message at its own core, or for a producer on the same core
    here = reach.of_pair < 0
    add(dst[here], flows.src[owner[here]], 0)
    far = np.flatnonzero(~here)
    at, counts = take_rows(tasks_of_flow, owner[far])
    position = reach.of_pair[far] - reach.offsets[owner[far]]
    add(np.repeat(dst[far], counts), event_offsets[message_task[at]] + np.repeat(position, counts),
        0)  # fmt: skip

    # what a core sends waits for its compute; a compute, for its writes of `depth` units before
    sent = flows.src[flow] >= 0
    add(task_of_message[sent], flows.src[flow][sent], 0)
    written = flows.role[flow] == Role.OUTPUT
    add(flows.src[flow][written], event_offsets[task_of_message[written]], depth)

    # credits: further down the pipeline, more units are held
    level = plan.level[plan.layer]
    nearest = np.full(len(flows), len(plan.operators), dtype=np.int64)
    np.minimum.at(nearest, owner, level[dst])
    from_level = np.where(flows.src >= 0, level[np.maximum(flows.src, 0)] + 1, nearest)
    lag = depth + level[dst] - from_level[owner]
    activation = role == Role.ACTIVATION
    add(flows.src[owner[activation]], dst[activation], lag[activation])
    fetched = np.flatnonzero(~activation & ~flows.once[owner])
    at, counts = take_rows(tasks_of_flow, owner[fetched])
    add(message_task[at], np.repeat(dst[fetched], counts), np.repeat(lag[fetched], counts))

    task, event, lags = (np.concatenate(c) for c in zip(*found, strict=True))
    return _distinct(task, event, lags)


def _distinct(task: Ints, event: Ints, lag: Ints) -> tuple[Ints, Ints, Ints]:
    """Distinct dependencies; of several credits on one event the shortest holds."""
    order = np.lexsort((lag, lag > 0, event, task))
    task, event, lag = task[order], event[order], lag[order]
    new = np.ones(len(task), dtype=bool)
    new[1:] = (
        (task[1:] != task[:-1]) | (event[1:] != event[:-1]) | ((lag[1:] > 0) != (lag[:-1] > 0))
    )
    return task[new], event[new], lag[new]
