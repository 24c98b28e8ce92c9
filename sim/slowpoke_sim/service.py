"""The compiled engine's loop: what happens in one phase, event by event, over flat arrays.

Rules that make the order of processing irrelevant, so that the SimPy engine gives the same times
bit for bit: at one time, everything that happens (arrivals, ends) is taken in before any server
decides whom it serves next; servers decide in the order of their numbers; a server serves by
(arrival time, task, unit, hop, packet). Cost: about one heap operation a hop of a packet (two where
it is stored before it is forwarded), logarithmic in the number of busy servers and of messages in
flight.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slowpoke_sim import hops as h
from slowpoke_sim import queues as q
from slowpoke_sim.draws import draw, drift_factor, instance_key
from slowpoke_sim.jit import hot, loop
from slowpoke_sim.phase import BLOCKED, BUSY, BYTES, HELD, SERVICES
from slowpoke_sim.plan import Arrays, Constants
from slowpoke_sim.queues import State
from slowpoke_sim.speeds import finish_time, overlaps

_COMPUTE, _PROBE, _WRITE = 0, 4, 3


class Out(NamedTuple):
    """What a phase writes: times by event and unit (`Phase`), sums by server (`Components`)."""

    first: NDArray[np.float64]
    eject: NDArray[np.float64]
    consume: NDArray[np.float64]
    hop_cycles: NDArray[np.float64]
    windows: NDArray[np.int64]
    levels: NDArray[np.float64]
    sums: NDArray[np.float64]
    exposure: NDArray[np.int64]


class Slow(NamedTuple):
    """The arrays of `Speeds`."""

    offsets: NDArray[np.int64]
    times: NDArray[np.float64]
    slowdowns: NDArray[np.float64]
    fault_offsets: NDArray[np.int64]
    fault_times: NDArray[np.float64]
    fault_slowdowns: NDArray[np.float64]
    server_fault_offsets: NDArray[np.int64]
    server_faults: NDArray[np.int64]


class Where(NamedTuple):
    """Which phase: first task, event and hop of the group, batch, units, start."""

    task0: int
    task1: int
    event0: int
    event1: int
    hop0: int
    batch: int
    n_units: int
    start: float


@hot
def _happen(st: State, w: Where, event: int, unit: int, time: float) -> None:
    q.push(st, time, (((event - w.event0) * w.n_units + unit) << 2) | q.HAPPEN)


@hot
def _ready(a: Arrays, c: Constants, st: State, w: Where, task: int, unit: int, now: float) -> None:
    """All that a task waits for has happened: it asks for its core or its first channel."""
    key = int(np.int64(instance_key(c.task_key, w.batch, a.noise_id[task], unit)))
    if a.kind[task] == _COMPUTE or a.kind[task] == _PROBE:
        server = c.n_channels + c.n_ports + a.core[task]
        entry = q.new_entry(st, task, unit, -1, 0, -1, key, now, now)
        if c.ahead:
            q.ask_at_once(st, entry)
            return
        q.enqueue(st, server, entry)
        q.wake(st, server, now)
        return
    root0 = a.hop_offsets[task]
    for hop in range(root0, root0 + a.n_roots[task]):
        server = a.hops[hop, h.SERVER]
        entry = q.new_entry(st, task, unit, hop, 0, -1, key, now, -np.inf)
        if c.ahead:
            q.ask_at_once(st, entry)
        else:
            q.enqueue(st, server, entry)
            q.wake(st, server, now)


@hot
def count_down(
    a: Arrays, c: Constants, st: State, w: Where, event: int, unit: int, now: float
) -> None:
    """An event instance has happened: whoever waits for nothing else is ready."""
    st.counts[q.LEFT] -= 1
    once = a.once[a.event_task[event]]
    for d in range(a.rev_offsets[event], a.rev_offsets[event + 1]):
        task = a.rev_tasks[d]
        first, last = 0, w.n_units
        if not once:
            first = unit + a.rev_lags[d]
            last = min(first + 1, w.n_units)
        if a.once[task]:
            last = min(last, 1)
        for v in range(first, last):
            i = (task - w.task0) * w.n_units + v
            st.remaining[i] -= 1
            if st.remaining[i] == 0:
                _ready(a, c, st, w, task, v, now)


@hot
def drift(c: Constants, out: Out, server: int, now: float) -> float:
    """How many times longer a server takes now than on average."""
    return drift_factor(
        server, now, c.drift_key, c.drift, c.drift_correlation, c.drift_window,
        out.windows, out.levels,
    )  # fmt: skip


@hot
def end_of_service(
    st: State, slow: Slow, out: Out, server: int, now: float, work: float, seen: int
) -> float:
    """When work that a server starts now is done, its slow times included; counts it.

    `seen`: where to note that this message on this hop is counted; -1 to count every service.
    """
    end = now + work
    first, last = 0, 0
    if len(slow.times):
        first, last = slow.offsets[server], slow.offsets[server + 1]
    if first < last:
        cursor = st.server[server, q.CURSOR]
        while cursor < last - first and slow.times[first + cursor] <= now:
            cursor += 1
        st.server[server, q.CURSOR] = cursor
        end = finish_time(now, work, slow.times, slow.slowdowns, first, first + cursor, last)
        for k in range(slow.server_fault_offsets[server], slow.server_fault_offsets[server + 1]):
            fault = slow.server_faults[k]
            lo, hi = slow.fault_offsets[fault], slow.fault_offsets[fault + 1]
            if overlaps(now, end, slow.fault_times, slow.fault_slowdowns, lo, hi):
                if seen < 0:
                    out.exposure[fault] += 1
                elif st.seen[seen * len(out.exposure) + fault] == 0:
                    st.seen[seen * len(out.exposure) + fault] = 1
                    out.exposure[fault] += 1
    out.sums[server, BUSY] += end - now
    out.sums[server, SERVICES] += 1.0
    return end


@hot
def _serve_core(
    a: Arrays, c: Constants, st: State, slow: Slow, out: Out, w: Where, server: int, now: float
) -> None:
    entry = st.server[server, q.HEAD]
    task, unit, key = st.entry[entry, q.TASK], st.entry[entry, q.UNIT], st.entry[entry, q.KEY]
    q.dequeue(st, server, entry)
    q.free_entry(st, entry)
    compute(a, c, st, slow, out, w, server, task, unit, key, now)


@hot
def compute(
    a: Arrays,
    c: Constants,
    st: State,
    slow: Slow,
    out: Out,
    w: Where,
    server: int,
    task: int,
    unit: int,
    key: int,
    now: float,
) -> None:
    """A core starts a task: inputs are consumed now, if nobody did it earlier."""
    work = a.work[task]
    if a.kind[task] == _COMPUTE:
        work = work / a.server_speed[server] * draw(a.core_table, np.uint64(key), 0, 0)
        work = work * drift(c, out, server, now)
        out.sums[server, BYTES] += a.work[task]
        for d in range(a.dep_offsets[task], a.dep_offsets[task + 1]):
            event = a.dep_events[d]
            of = a.event_task[event]
            source = 0 if a.once[of] else unit - a.dep_lags[d]
            if source >= 0 and a.kind[of] != _COMPUTE and a.kind[of] != _PROBE:
                at = (event - w.event0) * w.n_units + source
                if not out.consume[at] <= now:  # NaN: not consumed yet
                    out.consume[at] = now
    end = end_of_service(st, slow, out, server, now, work, -1)
    out.sums[server, HELD] += end - now
    event = a.event_offsets[task]
    at = (event - w.event0) * w.n_units + unit
    out.first[at] = now
    out.eject[at] = end
    out.consume[at] = end
    st.free_at[server] = end
    _happen(st, w, event, unit, end)


@hot
def _serve_port(
    a: Arrays, c: Constants, st: State, slow: Slow, out: Out, w: Where, server: int, now: float
) -> None:
    """A whole message: one read starts here, one write ends here."""
    entry = st.server[server, q.HEAD]
    task, unit, hop = st.entry[entry, q.TASK], st.entry[entry, q.UNIT], st.entry[entry, q.HOP]
    key = st.entry[entry, q.KEY]
    q.dequeue(st, server, entry)
    q.free_entry(st, entry)
    pass_port(a, c, st, slow, out, w, server, task, unit, hop, key, now)


@hot
def pass_port(
    a: Arrays,
    c: Constants,
    st: State,
    slow: Slow,
    out: Out,
    w: Where,
    server: int,
    task: int,
    unit: int,
    hop: int,
    key: int,
    now: float,
) -> None:
    """A port starts to serve a message."""
    work = c.port_latency + a.message_bytes[task] / a.server_speed[server]
    work = work * drift(c, out, server, now)
    at_hop = (hop - w.hop0) * w.n_units + unit
    end = end_of_service(st, slow, out, server, now, work, at_hop)
    out.sums[server, BYTES] += a.message_bytes[task]
    out.sums[server, HELD] += end - now
    if len(out.hop_cycles):
        out.hop_cycles[at_hop] += end - now
    st.free_at[server] = end
    if a.kind[task] == _WRITE:
        event = a.hops[hop, h.EVENT]
        out.consume[(event - w.event0) * w.n_units + unit] = end
        _happen(st, w, event, unit, end)
        return
    for k in range(a.hops[hop, h.FIRST_EVENT], a.hops[hop, h.LAST_EVENT]):
        out.first[(a.hop_events[k] - w.event0) * w.n_units + unit] = now
    arrival = end + c.router_delay
    child = a.hops[hop, h.CHILD]
    for k in range(child, child + a.hops[hop, h.N_CHILDREN]):
        train = q.new_entry(st, task, unit, k, 0, -1, key, arrival, end)
        q.push(st, arrival, (train << 2) | q.ARRIVE)


@hot
def _arrive(c: Constants, st: State, time: float, entry: int) -> None:
    """A packet is on its way to its next channel."""
    if c.cut_through:
        q.line_up(st, time, entry)  # one router delay from now, like every other
    else:
        q.push(st, time, (entry << 2) | q.ARRIVE)


@hot
def _serve_channel(
    a: Arrays, c: Constants, st: State, slow: Slow, out: Out, w: Where, server: int, now: float
) -> None:
    entry = st.server[server, q.HEAD]
    task, unit, hop = st.entry[entry, q.TASK], st.entry[entry, q.UNIT], st.entry[entry, q.HOP]
    packet, slot, key = st.entry[entry, q.PACKET], st.entry[entry, q.SLOT], st.entry[entry, q.KEY]
    upstream = st.entry_time[entry, q.TAIL]
    n_packets = a.n_packets[task]
    n_bytes = c.packet_bytes
    if packet + 1 == n_packets:
        n_bytes = a.last_bytes[task]
    stays = a.hops[hop, h.TRAIN] > 0 and packet + 1 < n_packets
    if stays:
        st.entry[entry, q.PACKET] = packet + 1
    else:
        q.dequeue(st, server, entry)
    work = n_bytes / a.server_speed[server]
    work = work * draw(a.link_table, np.uint64(key), a.hops[hop, h.INDEX], packet)
    work = work * drift(c, out, server, now)
    at_hop = (hop - w.hop0) * w.n_units + unit
    own = end_of_service(st, slow, out, server, now, work, at_hop)
    out.sums[server, BYTES] += n_bytes
    if len(out.hop_cycles):
        out.hop_cycles[at_hop] += own - now
    tail = max(own, upstream + c.router_delay)
    if packet == 0 and a.hops[hop, h.TRAIN] == h.ROOT:
        for k in range(a.hops[hop, h.FIRST_EVENT], a.hops[hop, h.LAST_EVENT]):
            out.first[(a.hop_events[k] - w.event0) * w.n_units + unit] = now
    child, n_children = a.hops[hop, h.CHILD], a.hops[hop, h.N_CHILDREN]
    to_port = n_children > 0 and a.hops[child, h.SERVER] >= c.n_channels
    if c.buffer_packets > 0 and n_children > 0 and not to_port:
        # the packet keeps the channel until the next input buffer has room
        if not stays:
            q.free_entry(st, entry)
        flight = q.new_entry(st, task, unit, hop, packet, slot, key, now, tail)
        st.free_at[server] = np.inf
        if c.cut_through:
            _ask_for_room(a, c, st, out, flight, now)
        else:
            q.push(st, tail, (flight << 2) | q.ENTER)
        return
    out.sums[server, HELD] += tail - now
    st.free_at[server] = tail
    if slot >= 0:
        q.push(st, tail, (slot << 2) | q.LEAVE)
    if n_children == 0 or to_port:
        if not stays:
            q.free_entry(st, entry)
        land(a, c, st, out, w, task, unit, hop, key, tail)
        return
    arrival = (now if c.cut_through else tail) + c.router_delay
    if not stays:
        # the entry goes on to the first next hop, copies of it to the others
        st.entry[entry, q.HOP] = child
        st.entry[entry, q.SLOT] = -1
        st.entry_time[entry, q.ARRIVAL] = arrival
        st.entry_time[entry, q.TAIL] = tail
        _arrive(c, st, arrival, entry)
        child += 1
        n_children -= 1
    for k in range(child, child + n_children):
        _arrive(c, st, arrival, q.new_entry(st, task, unit, k, packet, -1, key, arrival, tail))


@hot
def land(
    a: Arrays,
    c: Constants,
    st: State,
    out: Out,
    w: Where,
    task: int,
    unit: int,
    hop: int,
    key: int,
    tail: float,
) -> None:
    """A packet leaves its last channel; the message is there with its last packet."""
    child = a.hops[hop, h.CHILD]
    to_port = a.hops[hop, h.N_CHILDREN] > 0
    event = a.hops[child, h.EVENT] if to_port else a.hops[hop, h.EVENT]
    at = (event - w.event0) * w.n_units + unit
    if st.packets_left[at] == 0:
        st.packets_left[at] = a.n_packets[task]
        out.eject[at] = tail
    else:
        out.eject[at] = max(out.eject[at], tail)
    st.packets_left[at] -= 1
    if st.packets_left[at] > 0:
        return
    if to_port:
        arrival = out.eject[at] + c.router_delay
        whole = q.new_entry(st, task, unit, child, 0, -1, key, arrival, tail)
        q.push(st, arrival, (whole << 2) | q.ARRIVE)
    else:
        _happen(st, w, event, unit, out.eject[at])


@hot
def _ask_for_room(a: Arrays, c: Constants, st: State, out: Out, flight: int, now: float) -> None:
    """A packet that holds a channel asks for a place in the buffer behind it."""
    server = a.hops[st.entry[flight, q.HOP], h.SERVER]
    if st.server[server, q.USED] < c.buffer_packets:
        _enter(a, c, st, out, flight, now)
    else:
        st.server[server, q.WAITING] = flight


@hot
def _enter(a: Arrays, c: Constants, st: State, out: Out, flight: int, now: float) -> None:
    """It has the place: its channel is free once the tail has left, its copies go on."""
    hop, task, unit = st.entry[flight, q.HOP], st.entry[flight, q.TASK], st.entry[flight, q.UNIT]
    packet, key, slot = (
        st.entry[flight, q.PACKET], st.entry[flight, q.KEY], st.entry[flight, q.SLOT],
    )  # fmt: skip
    server = a.hops[hop, h.SERVER]
    st.server[server, q.USED] += 1
    release = max(st.entry_time[flight, q.TAIL], now)
    out.sums[server, HELD] += release - st.entry_time[flight, q.ARRIVAL]
    out.sums[server, BLOCKED] += release - st.entry_time[flight, q.TAIL]
    st.free_at[server] = release
    q.wake(st, server, now)
    if slot >= 0:
        q.push(st, release, (slot << 2) | q.LEAVE)
    # the flight's entry lives on as the place: PACKET counts the copies that still use it
    child, n_children = a.hops[hop, h.CHILD], a.hops[hop, h.N_CHILDREN]
    st.entry[flight, q.PACKET] = n_children
    arrival = now + c.router_delay
    for k in range(child, child + n_children):
        q.line_up(
            st, arrival, q.new_entry(st, task, unit, k, packet, flight, key, arrival, release)
        )


@hot
def _leave(a: Arrays, c: Constants, st: State, out: Out, slot: int, now: float) -> None:
    """A copy has left the buffer; the place is free after the last one."""
    st.entry[slot, q.PACKET] -= 1
    if st.entry[slot, q.PACKET] > 0:
        return
    server = a.hops[st.entry[slot, q.HOP], h.SERVER]
    q.free_entry(st, slot)
    st.server[server, q.USED] -= 1
    flight = st.server[server, q.WAITING]
    if flight >= 0:
        st.server[server, q.WAITING] = -1
        _enter(a, c, st, out, flight, now)


@hot
def begin(a: Arrays, c: Constants, st: State, slow: Slow, w: Where) -> None:
    """Count what every task instance waits for; those that wait for nothing are ready."""
    if len(slow.times):
        for server in range(len(slow.offsets) - 1):
            changes = slow.times[slow.offsets[server] : slow.offsets[server + 1]]
            st.server[server, q.CURSOR] = np.searchsorted(changes, w.start, side="right")
    for task in range(w.task0, w.task1):
        n_units = 1 if a.once[task] else w.n_units
        st.counts[q.LEFT] += n_units * (a.event_offsets[task + 1] - a.event_offsets[task])
        for d in range(a.dep_offsets[task], a.dep_offsets[task + 1]):
            lag = 0 if a.once[a.event_task[a.dep_events[d]]] else a.dep_lags[d]
            for unit in range(lag, n_units):
                st.remaining[(task - w.task0) * w.n_units + unit] += 1
    for task in range(w.task0, w.task1):
        for unit in range(1 if a.once[task] else w.n_units):
            if st.remaining[(task - w.task0) * w.n_units + unit] == 0:
                _ready(a, c, st, w, task, unit, w.start)


@hot
def finish(out: Out) -> None:
    """What nobody took is consumed when it is ejected."""
    for i in range(len(out.consume)):
        if np.isnan(out.consume[i]):
            out.consume[i] = out.eject[i]


@loop
def run_loop(a: Arrays, c: Constants, st: State, slow: Slow, out: Out, w: Where) -> float:
    """Run a phase; returns the time of its last event."""
    begin(a, c, st, slow, w)
    end = w.start
    while st.counts[q.FULL] == 0:
        source = q.next_of(st)
        if source == q.NOTHING:
            break
        if source == q.OF_LINE:
            first = st.counts[q.FIRST]
            st.counts[q.FIRST] = (first + 1) & (len(st.line_time) - 1)
            now = st.line_time[first]
            item = (st.line_entry[first] << 2) | q.ARRIVE
        else:
            now = st.heap_time[0]
            item = st.heap_item[0]
        server = -1
        if item >= q.DECIDE:
            server = int(item - q.DECIDE)
            st.server[server, q.PENDING] = 0
        else:
            what, number = item & 3, item >> 2
            if what == q.ARRIVE:
                at = a.hops[st.entry[number, q.HOP], h.SERVER]
                q.enqueue(st, at, number)
                if st.server[at, q.PENDING] == 0:
                    if st.free_at[at] <= now and q.comes_before(st, now, q.DECIDE + at):
                        # nothing else happens first: decide without the detour over the heap
                        server = int(at)
                    else:
                        q.wake(st, at, now)
            elif what == q.HAPPEN:
                end = now
                event = number // w.n_units
                count_down(a, c, st, w, w.event0 + event, number - event * w.n_units, now)
            elif what == q.ENTER:
                _ask_for_room(a, c, st, out, number, now)
            else:
                _leave(a, c, st, out, number, now)
        if server < 0:
            continue
        if server < c.n_channels:
            _serve_channel(a, c, st, slow, out, w, server, now)
        elif server < c.n_channels + c.n_ports:
            _serve_port(a, c, st, slow, out, w, server, now)
        else:
            _serve_core(a, c, st, slow, out, w, server, now)
        q.wake(st, server, now)
    finish(out)
    return end
