"""The compiled heart of the search: flows of a layer group, and their load, in microseconds.

The same rectangles, multicast trees and pipeline formula as `traffic`, `load` and `cost` (tests
hold them together), over flat arrays, so that a candidate placement needs no Python object.

A slot is a place in a bundle's core group: piece i of each of its layers sits in slot i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.compiled import compiled
from slowpoke_mapping.ragged import Ints

INTERLEAVED_SOURCE = -1_000_000
"""Source or destination of a flow: every port alike. Port p alone is -1 - p."""

NEW = -(1 << 62)
"""Source of a flow that was just made."""

Floats = NDArray[np.float64]


class Net(NamedTuple):
    """The network, its speeds and the buffers.

    Attributes:
        n_cores, n_links, width, link_of, table_offsets, table_links: See routes.Routes.
        ports: (n_ports,) router of each port.
        channel_time: (n_channels,) cycles a byte.
        core_time: (n_cores,) cycles a MAC.
        port_time: Cycles a byte of one port.
        multicast: Whether a tree carries bytes once.
        sram: Bytes of a core's buffer.
        latency: Cycles of a DRAM access; message: bytes of the longest message; hop: cycles of a
            router and a stored message.
    """

    n_cores: int
    n_links: int
    width: int
    link_of: Ints
    table_offsets: Ints
    table_links: Ints
    ports: Ints
    channel_time: Floats
    core_time: Floats
    port_time: float
    multicast: bool
    sram: float
    latency: float
    message: float
    hop: float


class Layers(NamedTuple):
    """The layers of a group, in topological order, and the tensors they read.

    Attributes:
        bundle: (L,) bundle of each layer.
        box: (L, 4) output box of one unit.
        work: (L,) MAC equivalents of one unit.
        weight_bytes: (L,); weight_dim: (L, 4) True where a dimension indexes the weights.
        level: (L,) longest chain that leads to the layer.
        leaves: (L,) whether the output goes to DRAM.
        edge_offsets: (L + 1,) inputs of each layer.
        edge_producer: (E,) layer that makes the tensor, or -1 for DRAM.
        edge_tensor: (E,) number of a tensor from DRAM: readers of the same one share reads.
        edge_port: (E,) its port or INTERLEAVED (-2), or -3: as the reading layer's flow says.
        edge_box: (E, 4); edge_window: (E, 4, 6) dim, num, den, mult, low, high.
        edge_buffer: (E,) units of the input that are held.
        element: Bytes of an element.
        units: Units of a batch; depth: credits.
    """

    bundle: Ints
    box: Ints
    work: Floats
    weight_bytes: Floats
    weight_dim: NDArray[np.bool_]
    level: Ints
    leaves: NDArray[np.bool_]
    edge_offsets: Ints
    edge_producer: Ints
    edge_tensor: Ints
    edge_port: Ints
    edge_box: Ints
    edge_window: Ints
    edge_buffer: Ints
    element: float
    units: int
    depth: int


class Flow(NamedTuple):
    """Flows, growing as they are found; linked lists of destinations and of a slot's flows.

    Attributes:
        src: (F,) slot, or a port as above; n_bytes: (F,) of a whole batch, in `times` parts.
        first, next_dst, dst: Destinations (slots or ports) of a flow.
        slot_first, slot_next, slot_flow: Flows that touch a slot.
        used: (4,) flows, destinations and slot entries in use, and whether the room ran out.
        table: (T,) hash table of flows; its keys; where: (F,) place of each flow in it.
    """

    src: Ints
    n_bytes: Floats
    times: Floats
    first: Ints
    next_dst: Ints
    dst: Ints
    slot_first: Ints
    slot_next: Ints
    slot_flow: Ints
    used: Ints
    table: Ints
    keys: NDArray[np.uint64]
    where: Ints


class Timing(NamedTuple):
    """What the pipeline formula needs besides the load: filled with the flows.

    Attributes:
        share: (S_layers, ) work of each (layer, slot) pair; laid out by layer_at[layer] + piece.
        layer_at: (L + 1,) first pair of each layer.
        received: (E,) largest bytes that one piece receives of a tensor, for one unit.
        fetched: (L,) largest bytes of weights and first inputs that one piece fetches.
        queued: (L,) cycles until the busiest port has sent what a layer waits for.
        written: (1,) cycles of every port's writes of a unit, in all.
        dram: (2,) cycles of a batch at the busiest port, and bytes in all.
        region: (S_layers, 4, 2) region of each (layer, slot) pair.
        need: (4, 2), sent: (n_ports,), held, weights: (n_cores,) scratch.
    """

    share: Floats
    layer_at: Ints
    received: Floats
    fetched: Floats
    queued: Floats
    written: Floats
    dram: Floats
    region: Ints
    need: Ints
    sent: Floats
    held: Floats
    weights: Floats


def make_flow(n_slots: int, n_flows: int, n_entries: int) -> Flow:
    """Empty flows with room for so many."""
    size = 1 << max(8, int(np.ceil(np.log2(2 * n_flows + 1))))
    ints = np.int64
    return Flow(
        np.zeros(n_flows, ints), np.zeros(n_flows), np.zeros(n_flows), np.zeros(n_flows, ints),
        np.zeros(n_entries, ints), np.zeros(n_entries, ints), np.zeros(n_slots, ints),
        np.zeros(2 * n_entries, ints), np.zeros(2 * n_entries, ints), np.zeros(4, ints),
        np.full(size, -1, ints), np.zeros(size, np.uint64), np.zeros(n_flows, ints),
    )  # fmt: skip


def make_timing(n_layers: int, n_edges: int, n_shares: int, net: Net) -> Timing:
    """Empty timing arrays."""
    return Timing(
        np.zeros(n_shares), np.zeros(n_layers + 1, np.int64), np.zeros(n_edges),
        np.zeros(n_layers), np.zeros(n_layers), np.zeros(1), np.zeros(2),
        np.zeros((n_shares, 4, 2), np.int64), np.zeros((4, 2), np.int64), np.zeros(len(net.ports)),
        np.zeros(net.n_cores), np.zeros(net.n_cores),
    )  # fmt: skip


@compiled
def _mixed(key: np.uint64, value: int) -> np.uint64:
    """One more number into a 64-bit key (the finaliser of splitmix64)."""
    x = key ^ (np.uint64(value) + np.uint64(0x9E3779B97F4A7C15))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def _find(flow: Flow, key: np.uint64) -> int:
    """The flow of a key; a new one, with src NEW, if there is none. -1 if there is no room."""
    mask = len(flow.table) - 1
    at = np.int64(key & np.uint64(mask))
    while flow.table[at] >= 0:
        if flow.keys[at] == key:
            return int(flow.table[at])
        at = (at + 1) & mask
    f = flow.used[0]
    if f >= len(flow.src):
        flow.used[3] = 1
        return -1
    flow.used[0] += 1
    flow.table[at] = f
    flow.keys[at] = key
    flow.where[f] = at
    flow.src[f] = NEW
    flow.first[f] = -1
    return int(f)


@compiled
def _deliver(flow: Flow, f: int, slot: int) -> None:
    """Add a destination to a flow, once."""
    entry = flow.first[f]
    if entry >= 0 and flow.dst[entry] == slot:
        return
    if flow.used[1] >= len(flow.dst):
        flow.used[3] = 1
        return
    entry = flow.used[1]
    flow.used[1] += 1
    flow.dst[entry] = slot
    flow.next_dst[entry] = flow.first[f]
    flow.first[f] = entry
    if slot >= 0:
        _touch(flow, f, slot)


@compiled
def _touch(flow: Flow, f: int, slot: int) -> None:
    entry = flow.slot_first[slot]
    if entry >= 0 and flow.slot_flow[entry] == f:
        return
    if flow.used[2] >= len(flow.slot_flow):
        flow.used[3] = 1
        return
    entry = flow.used[2]
    flow.used[2] += 1
    flow.slot_flow[entry] = f
    flow.slot_next[entry] = flow.slot_first[slot]
    flow.slot_first[slot] = entry


@compiled
def _place_region(
    layers: Layers, layer: int, cuts: Ints, piece: int, region: Ints, at: int
) -> None:
    """Region of piece number `piece`: W varies fastest, then H, B, K (Part.pieces)."""
    b = layers.bundle[layer]
    rest = piece
    for i in range(4):
        d = 3 if i == 0 else 2 if i == 1 else 0 if i == 2 else 1
        n = cuts[b, d]
        index = rest % n
        rest //= n
        region[at, d, 0] = index * layers.box[layer, d] // n
        region[at, d, 1] = (index + 1) * layers.box[layer, d] // n


@compiled
def _needed(layers: Layers, e: int, region: Ints, at: int, need: Ints) -> float:
    """What a region needs of input e (graph.Edge.needed); returns its volume."""
    volume = 1.0
    for i in range(4):
        extent = layers.edge_box[e, i]
        dim = layers.edge_window[e, i, 0]
        start, stop = 0, extent
        if dim >= 0:
            low = region[at, dim, 0]
            last = region[at, dim, 1] - 1
            num, den = layers.edge_window[e, i, 1], layers.edge_window[e, i, 2]
            mult = layers.edge_window[e, i, 3]
            if den == 1:
                start = mult * low * num + layers.edge_window[e, i, 4]
                stop = mult * last * num + layers.edge_window[e, i, 5]
            else:
                start = mult * (low * num // den) + layers.edge_window[e, i, 4]
                stop = mult * (last * num // den) + layers.edge_window[e, i, 5]
            start = min(max(start, 0), extent)
            stop = max(min(max(stop, 0), extent), start)
            if last < low:
                stop = start
        need[i, 0] = start
        need[i, 1] = stop
        volume *= stop - start
    return volume


@compiled
def build(
    layers: Layers, net: Net, cuts: Ints, slot_at: Ints, core: Ints, ports: Ints, flow: Flow,
    timing: Timing,
) -> None:  # fmt: skip
    """Fill `flow` and `timing` for the given cuts, slots and DRAM ports of a group.

    Args:
        layers: The group.
        net: The chip.
        cuts: (n_bundles, 4) cuts (b, k, h, w).
        slot_at: (n_bundles + 1,) first slot of each bundle.
        core: (n_slots,) core of each slot.
        ports: (L, 3) DRAM port of inputs, weights, outputs; -2 interleaved.
        flow: Result.
        timing: Result.
    """
    n_layers = len(layers.bundle)
    for f in range(flow.used[0]):
        flow.table[flow.where[f]] = -1
    for i in range(4):
        flow.used[i] = 0
    for i in range(len(flow.slot_first)):
        flow.slot_first[i] = -1
    for e in range(len(timing.received)):
        timing.received[e] = 0.0
    for p in range(len(timing.sent)):
        timing.sent[p] = 0.0
    for c in range(net.n_cores):
        timing.held[c] = 0.0
        timing.weights[c] = 0.0
    timing.written[0] = 0.0
    _regions(layers, cuts, slot_at, core, timing)
    for layer in range(n_layers):
        timing.fetched[layer] = 0.0
        b = layers.bundle[layer]
        for piece in range(slot_at[b + 1] - slot_at[b]):
            slot = slot_at[b] + piece
            at = timing.layer_at[layer] + piece
            fetched = 0.0
            for e in range(layers.edge_offsets[layer], layers.edge_offsets[layer + 1]):
                elements = _needed(layers, e, timing.region, at, timing.need)
                if elements <= 0:
                    continue
                if layers.edge_producer[e] < 0:
                    fetched += _read_input(
                        layers, net, e, layer, slot, elements, ports, flow, timing
                    )
                else:
                    total = _receive(layers, e, slot, slot_at, flow, timing)
                    timing.received[e] = max(timing.received[e], total)
            if layers.weight_bytes[layer] > 0:
                fetched += _read_weights(
                    layers, net, layer, slot, at, core[slot], ports, flow, timing
                )
            timing.fetched[layer] = max(timing.fetched[layer], fetched)
            if layers.leaves[layer]:
                _write(layers, net, layer, slot, at, ports, flow, timing)
            if flow.used[3] != 0:
                return
        busiest = 0.0
        for p in range(len(timing.sent)):
            busiest = max(busiest, timing.sent[p])
        timing.queued[layer] = busiest
    _total_dram(net, flow, timing)


@compiled
def _regions(layers: Layers, cuts: Ints, slot_at: Ints, core: Ints, timing: Timing) -> None:
    """Region, work and footprint of every piece of every layer."""
    at = 0
    for layer in range(len(layers.bundle)):
        b = layers.bundle[layer]
        timing.layer_at[layer] = at
        size = 1.0
        for d in range(4):
            size *= layers.box[layer, d]
        for piece in range(slot_at[b + 1] - slot_at[b]):
            _place_region(layers, layer, cuts, piece, timing.region, at)
            volume = 1.0
            for d in range(4):
                volume *= timing.region[at, d, 1] - timing.region[at, d, 0]
            timing.share[at] = layers.work[layer] * volume / size
            place = core[slot_at[b] + piece]
            weights = _weight_bytes(layers, layer, timing.region, at)
            timing.weights[place] += weights
            timing.held[place] += weights + volume * layers.element
            for e in range(layers.edge_offsets[layer], layers.edge_offsets[layer + 1]):
                elements = _needed(layers, e, timing.region, at, timing.need)
                timing.held[place] += elements * layers.element * layers.edge_buffer[e]
            at += 1
    timing.layer_at[len(layers.bundle)] = at


@compiled
def _weight_bytes(layers: Layers, layer: int, region: Ints, at: int) -> float:
    result = layers.weight_bytes[layer]
    for d in range(4):
        if layers.weight_dim[layer, d]:
            result = result * (region[at, d, 1] - region[at, d, 0]) / layers.box[layer, d]
    return float(result)


@compiled
def _read_input(
    layers: Layers, net: Net, e: int, layer: int, slot: int, elements: float, ports: Ints,
    flow: Flow, timing: Timing,
) -> float:  # fmt: skip
    """A region of a tensor from DRAM, for one slot; its bytes for one unit."""
    port = layers.edge_port[e]
    if port == -3:
        port = ports[layer, 0]
    n_bytes = elements * layers.element
    key = _mixed(_mixed(np.uint64(1), layers.edge_tensor[e]), port)
    for d in range(4):
        key = _mixed(key, timing.need[d, 0] << 32 | timing.need[d, 1])
    f = _find(flow, key)
    if f < 0:
        return 0.0
    if flow.src[f] == NEW:
        flow.src[f] = INTERLEAVED_SOURCE if port < 0 else -1 - port
        flow.n_bytes[f] = n_bytes * layers.units
        flow.times[f] = layers.units
        _send(net, timing.sent, port, n_bytes, 1.0)
    _deliver(flow, f, slot)
    return n_bytes


@compiled
def _receive(
    layers: Layers, e: int, slot: int, slot_at: Ints, flow: Flow, timing: Timing
) -> float:  # fmt: skip
    """What one slot receives of a tensor made in the group; bytes from other slots, for a unit."""
    p = layers.edge_producer[e]
    b = layers.bundle[p]
    need, region = timing.need, timing.region
    first = timing.layer_at[p]
    total = 0.0
    for other in range(slot_at[b + 1] - slot_at[b]):
        at = first + other
        w_low = max(region[at, 3, 0], need[3, 0])
        w_high = min(region[at, 3, 1], need[3, 1])
        h_low = max(region[at, 2, 0], need[2, 0])
        h_high = min(region[at, 2, 1], need[2, 1])
        k_low = max(region[at, 1, 0], need[1, 0])
        k_high = min(region[at, 1, 1], need[1, 1])
        b_low = max(region[at, 0, 0], need[0, 0])
        b_high = min(region[at, 0, 1], need[0, 1])
        if w_high <= w_low or h_high <= h_low or k_high <= k_low or b_high <= b_low:
            continue
        n_bytes = layers.element * (w_high - w_low) * (h_high - h_low)
        n_bytes *= (k_high - k_low) * (b_high - b_low)
        key = _mixed(np.uint64(2), p << 32 | other)
        key = _mixed(key, w_low << 32 | w_high)
        key = _mixed(key, h_low << 32 | h_high)
        key = _mixed(key, k_low << 32 | k_high)
        key = _mixed(key, b_low << 32 | b_high)
        f = _find(flow, key)
        if f < 0:
            return 0.0
        source = slot_at[b] + other
        if flow.src[f] == NEW:
            flow.src[f] = source
            flow.n_bytes[f] = n_bytes * layers.units
            _touch(flow, f, source)
        if slot != source:
            total += n_bytes
        _deliver(flow, f, slot)
    return total


@compiled
def _read_weights(
    layers: Layers, net: Net, layer: int, slot: int, at: int, place: int, ports: Ints, flow: Flow,
    timing: Timing,
) -> float:  # fmt: skip
    """The weights of one slot, once or again for every unit (capacity); bytes of one reading."""
    n_bytes = _weight_bytes(layers, layer, timing.region, at)
    passes = 0
    if timing.held[place] > net.sram:
        # activations beyond half of the buffer pass through it in chunks
        kept = timing.held[place] - timing.weights[place]
        if timing.weights[place] + min(kept, net.sram / 2) > net.sram:
            passes = max(1, int(np.ceil(kept / (net.sram / 2))))
    key = _mixed(np.uint64(3), layer << 32 | passes)
    for d in range(4):
        if layers.weight_dim[layer, d]:
            key = _mixed(key, timing.region[at, d, 0] << 32 | timing.region[at, d, 1])
    f = _find(flow, key)
    if f < 0:
        return 0.0
    port = ports[layer, 1]
    if flow.src[f] == NEW:
        flow.src[f] = INTERLEAVED_SOURCE if port < 0 else -1 - port
        flow.n_bytes[f] = n_bytes * (passes * layers.units if passes else 1)
        flow.times[f] = layers.units if passes else 1
        _send(net, timing.sent, port, n_bytes * max(passes, 1), 1.0)
    _deliver(flow, f, slot)
    return n_bytes * max(passes, 1)


@compiled
def _write(
    layers: Layers,
    net: Net,
    layer: int,
    slot: int,
    at: int,
    ports: Ints,
    flow: Flow,
    timing: Timing,
) -> None:
    """The output of one slot goes to DRAM."""
    n_bytes = layers.element
    for d in range(4):
        n_bytes *= timing.region[at, d, 1] - timing.region[at, d, 0]
    f = _find(flow, _mixed(np.uint64(4), layer << 32 | slot))
    if f < 0:
        return
    port = ports[layer, 2]
    flow.src[f] = slot
    flow.n_bytes[f] = n_bytes * layers.units
    flow.times[f] = layers.units
    _touch(flow, f, slot)
    _deliver(flow, f, INTERLEAVED_SOURCE if port < 0 else -1 - port)
    part = n_bytes if port >= 0 else n_bytes / len(net.ports)
    messages = max(np.ceil(part / net.message), 1.0) * n_bytes / part
    timing.written[0] += messages * net.latency + n_bytes * net.port_time


@compiled
def _send(net: Net, sent: Floats, port: int, n_bytes: float, times: float) -> None:
    """Add the cycles of a port (-1: of all, in equal parts) for n_bytes, so many times."""
    if port >= 0:
        messages = max(np.ceil(n_bytes / net.message), 1.0)
        sent[port] += times * (messages * net.latency + n_bytes * net.port_time)
    else:
        part = n_bytes / len(sent)
        messages = max(np.ceil(part / net.message), 1.0)
        for i in range(len(sent)):
            sent[i] += times * (messages * net.latency + part * net.port_time)


@compiled
def _total_dram(net: Net, flow: Flow, timing: Timing) -> None:
    """Cycles of a batch at the busiest port, and bytes in all."""
    load = timing.sent
    for p in range(len(load)):
        load[p] = 0.0
    total = 0.0
    for f in range(flow.used[0]):
        end = flow.src[f]
        if end >= 0:
            end = flow.dst[flow.first[f]]
        if end < 0:
            port = -1 if end == INTERLEAVED_SOURCE else -1 - end
            _send(net, load, port, flow.n_bytes[f] / flow.times[f], flow.times[f])
            total += flow.n_bytes[f]
    busiest = 0.0
    for p in range(len(load)):
        busiest = max(busiest, load[p])
    timing.dram[0] = busiest
    timing.dram[1] = total


@compiled
def _route(
    net: Net, src: int, dst: int, n_bytes: float, tick: int, stamp: Ints, load: Floats
) -> float:
    """Add bytes to the links from src to dst that this tree has not yet visited; byte-hops."""
    hops = 0
    if net.width > 0:
        sy, sx = src // net.width, src % net.width
        dy, dx = dst // net.width, dst % net.width
        side = 0 if dx > sx else 1
        step = 1 if dx > sx else -1
        while sx != dx:
            link = net.link_of[sy * net.width + sx, side]
            if stamp[link] != tick:
                stamp[link] = tick
                load[link] += n_bytes
                hops += 1
            sx += step
        side = 2 if dy > sy else 3
        step = 1 if dy > sy else -1
        while sy != dy:
            link = net.link_of[sy * net.width + sx, side]
            if stamp[link] != tick:
                stamp[link] = tick
                load[link] += n_bytes
                hops += 1
            sy += step
        return hops * n_bytes
    row = src * net.n_cores + dst
    for i in range(net.table_offsets[row], net.table_offsets[row + 1]):
        link = net.table_links[i]
        if stamp[link] != tick:
            stamp[link] = tick
            load[link] += n_bytes
            hops += 1
    return hops * n_bytes


@compiled
def put(
    net: Net, flow: Flow, f: int, core: Ints, sign: float, tick: Ints, stamp: Ints, load: Floats,
    totals: Floats,
) -> None:  # fmt: skip
    """Add (sign 1) or take away (sign -1) the load of one flow.

    Args:
        net: The chip.
        flow: Flows.
        f: Which.
        core: (n_slots,) core of each slot.
        sign: 1 or -1.
        tick: (1,) counter of trees.
        stamp: (n_channels,) last tree that visited each channel.
        load: (n_channels,) bytes of a batch on each channel.
        totals: (2,) byte-hops, and bytes through channels of cores.
    """
    n_bytes = flow.n_bytes[f] * sign
    source = flow.src[f]
    first, last = 0, 1
    if source == INTERLEAVED_SOURCE:
        last = len(net.ports)
        n_bytes /= last
    elif source < 0:
        first, last = -1 - source, -source
    for origin in range(first, last):
        router = core[source] if source >= 0 else net.ports[origin]
        tick[0] += 1
        entry = flow.first[f]
        injected = False
        while entry >= 0:
            slot = flow.dst[entry]
            entry = flow.next_dst[entry]
            if not net.multicast:
                tick[0] += 1
                injected = False
            if slot >= 0:
                target = core[slot]
                if source >= 0 and target == router:
                    continue
                door = net.n_links + net.n_cores + target
                if stamp[door] == tick[0]:
                    continue
                stamp[door] = tick[0]
                load[door] += n_bytes
                totals[1] += n_bytes
                if source >= 0 and not injected:
                    injected = True
                    load[net.n_links + router] += n_bytes
                    totals[1] += n_bytes
                totals[0] += _route(net, router, target, n_bytes, tick[0], stamp, load)
            elif slot == INTERLEAVED_SOURCE:
                load[net.n_links + router] += n_bytes
                totals[1] += n_bytes
                for p in range(len(net.ports)):
                    tick[0] += 1
                    totals[0] += _route(
                        net, router, net.ports[p], n_bytes / len(net.ports), tick[0], stamp, load
                    )
            else:
                load[net.n_links + router] += n_bytes
                totals[1] += n_bytes
                totals[0] += _route(
                    net, router, net.ports[-1 - slot], n_bytes, tick[0], stamp, load
                )


@compiled
def pipeline_cycles(
    layers: Layers, net: Net, slot_at: Ints, core: Ints, timing: Timing, busy: Floats, end: Floats,
    layer_cycles: Floats, pace: Floats,
) -> float:  # fmt: skip
    """First unit's way through the group and one period a further unit (cost.estimate)."""
    for c in range(net.n_cores):
        busy[c] = 0.0
    n_layers = len(layers.bundle)
    rate = net.channel_time[net.n_links]  # a core's own channel
    for layer in range(n_layers):
        b = layers.bundle[layer]
        layer_cycles[layer] = 0.0
        for piece in range(slot_at[b + 1] - slot_at[b]):
            place = core[slot_at[b] + piece]
            cycles = timing.share[timing.layer_at[layer] + piece] * net.core_time[place]
            busy[place] += cycles
            layer_cycles[layer] = max(layer_cycles[layer], cycles)
    period = 0.0
    for c in range(net.n_cores):
        period = max(period, busy[c])
    longest = 0.0
    queued = 0.0
    for layer in range(n_layers):
        start = 0.0
        if timing.fetched[layer] > 0:
            start = max(timing.queued[layer], queued + timing.fetched[layer] * rate)
        queued = max(queued, timing.queued[layer])
        pace[layer] = 0.0
        place = core[slot_at[layers.bundle[layer]]]
        for e in range(layers.edge_offsets[layer], layers.edge_offsets[layer + 1]):
            p = layers.edge_producer[e]
            if p >= 0:
                gap = timing.received[e] * rate + (net.hop if timing.received[e] > 0 else 0.0)
                source = core[slot_at[layers.bundle[p]]]
                if source == place:
                    pace[layer] = max(pace[layer], pace[p])
                    if layers.units > 1 and pace[p] < layer_cycles[p]:
                        gap += layer_cycles[p]  # the core serves its producer's next unit first
                else:
                    pace[layer] = max(pace[layer], max(pace[p], busy[source]))
                    if layers.level[layer] == layers.level[p] + 1:
                        loop = layer_cycles[p] + gap + layer_cycles[layer]
                        period = max(period, loop / layers.depth)
                start = max(start, end[p] + gap)
        end[layer] = start + layer_cycles[layer]
        longest = max(longest, end[layer])
    drain = 0.0
    if timing.written[0] > 0:
        drain = timing.written[0] / len(net.ports)
    return longest + drain + (layers.units - 1) * period
