"""The compiled engine's loop: what happens in one phase, event by event, over flat arrays.

Rules that make the order of processing irrelevant, so that the SimPy engine gives the same times
bit for bit: at one time, everything that happens (arrivals, ends) is taken in before any server
decides whom it serves next; servers decide in the order of their numbers; a server serves by
(arrival time, task, unit, hop, packet). Cost: about two heap operations a hop of a packet, each
logarithmic in the number of servers and of messages in flight.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slowpoke_sim import queues as q
from slowpoke_sim.draws import draw, drift_factor, instance_key
from slowpoke_sim.jit import hot
from slowpoke_sim.plan import Arrays, Constants
from slowpoke_sim.queues import State, dequeue, drop_top, enqueue, free_entry, new_entry, push, wake
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
    busy: NDArray[np.float64]
    held: NDArray[np.float64]
    blocked: NDArray[np.float64]
    bytes: NDArray[np.float64]
    n_services: NDArray[np.int64]
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
def _tie(task: int, unit: int, n_units: int) -> int:
    return (task * n_units + unit) << 8


@hot
def _happen(st: State, w: Where, event: int, unit: int, time: float) -> None:
    item = (event - w.event0) * w.n_units + unit
    push(st, time, item << 8, (item << 3) | q.HAPPEN)


@hot
def _ready(a: Arrays, c: Constants, st: State, w: Where, task: int, unit: int, now: float) -> None:
    """All that a task waits for has happened: it asks for its core or its first channel."""
    if a.kind[task] == _COMPUTE or a.kind[task] == _PROBE:
        entry = new_entry(st, task, unit, -1, 0, now, now, -1)
        enqueue(st, c.n_channels + c.n_ports + a.core[task], entry, now)
        return
    root0 = a.hop_offsets[task]
    for hop in range(root0, root0 + a.n_roots[task]):
        entry = new_entry(st, task, unit, hop, 0, now, -np.inf, -1)
        enqueue(st, a.hop_server[hop], entry, now)


@hot
def _count_down(
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
def _drift(c: Constants, out: Out, server: int, now: float) -> float:
    return drift_factor(
        server, now, c.drift_key, c.drift, c.drift_correlation, c.drift_window,
        out.windows, out.levels,
    )  # fmt: skip


@hot
def _end_of_service(
    st: State, slow: Slow, out: Out, server: int, now: float, work: float, seen: int
) -> float:
    """When work that a server starts now is done; counts it, and its faults' exposure.

    `seen`: where to note that this message on this hop is counted; -1 to count every service.
    """
    first, last = slow.offsets[server], slow.offsets[server + 1]
    if first == last:
        end = now + work
    else:
        cursor = st.cursor[server]
        while cursor < last - first and slow.times[first + cursor] <= now:
            cursor += 1
        st.cursor[server] = cursor
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
    out.busy[server] += end - now
    out.n_services[server] += 1
    return end


@hot
def _serve_core(
    a: Arrays, c: Constants, st: State, slow: Slow, out: Out, w: Where, server: int, now: float
) -> None:
    entry = st.head[server]
    task, unit = st.e_task[entry], st.e_unit[entry]
    dequeue(st, server, entry)
    free_entry(st, entry)
    work = a.work[task]
    if a.kind[task] == _COMPUTE:
        key = instance_key(c.task_key, w.batch, a.noise_id[task], unit)
        work = work / a.server_speed[server] * draw(a.core_table, key, 0, 0)
        out.bytes[server] += a.work[task]
        for d in range(a.dep_offsets[task], a.dep_offsets[task + 1]):
            event = a.dep_events[d]
            of = a.event_task[event]
            source = 0 if a.once[of] else unit - a.dep_lags[d]
            if source >= 0 and a.kind[of] != _COMPUTE and a.kind[of] != _PROBE:
                at = (event - w.event0) * w.n_units + source
                if np.isnan(out.consume[at]):
                    out.consume[at] = now
        work = work * _drift(c, out, server, now)
    end = _end_of_service(st, slow, out, server, now, work, -1)
    out.held[server] += end - now
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
    entry = st.head[server]
    task, unit, hop = st.e_task[entry], st.e_unit[entry], st.e_hop[entry]
    dequeue(st, server, entry)
    free_entry(st, entry)
    work = c.port_latency + a.message_bytes[task] / a.server_speed[server]
    work = work * _drift(c, out, server, now)
    at_hop = (hop - w.hop0) * w.n_units + unit
    end = _end_of_service(st, slow, out, server, now, work, at_hop)
    out.bytes[server] += a.message_bytes[task]
    out.held[server] += end - now
    if len(out.hop_cycles):
        out.hop_cycles[at_hop] += end - now
    st.free_at[server] = end
    if a.kind[task] == _WRITE:
        event = a.hop_event[hop]
        out.consume[(event - w.event0) * w.n_units + unit] = end
        _happen(st, w, event, unit, end)
        return
    for k in range(a.hop_event_offsets[hop], a.hop_event_offsets[hop + 1]):
        out.first[(a.hop_events[k] - w.event0) * w.n_units + unit] = now
    arrival = end + c.router_delay
    for k in range(a.child_offsets[hop], a.child_offsets[hop + 1]):
        train = new_entry(st, task, unit, a.children[k], 0, arrival, end, -1)
        push(st, arrival, _tie(task - w.task0, unit, w.n_units), (train << 3) | q.ARRIVE)


@hot
def _serve_channel(
    a: Arrays, c: Constants, st: State, slow: Slow, out: Out, w: Where, server: int, now: float
) -> None:
    entry = st.head[server]
    task, unit, hop = st.e_task[entry], st.e_unit[entry], st.e_hop[entry]
    packet, upstream, slot = st.e_packet[entry], st.e_tail[entry], st.e_slot[entry]
    n_packets = a.n_packets[task]
    parent = a.hop_parent[hop]
    is_train = parent < 0 or a.hop_server[parent] >= c.n_channels
    if is_train and packet + 1 < n_packets:
        st.e_packet[entry] = packet + 1
    else:
        dequeue(st, server, entry)
        free_entry(st, entry)
    n_bytes = c.packet_bytes if packet + 1 < n_packets else a.last_bytes[task]
    work = n_bytes / a.server_speed[server]
    if len(a.link_table):
        key = instance_key(c.task_key, w.batch, a.noise_id[task], unit)
        work = work * draw(a.link_table, key, hop - a.hop_offsets[task], packet)
    work = work * _drift(c, out, server, now)
    at_hop = (hop - w.hop0) * w.n_units + unit
    own = _end_of_service(st, slow, out, server, now, work, at_hop)
    out.bytes[server] += n_bytes
    if len(out.hop_cycles):
        out.hop_cycles[at_hop] += own - now
    tail = max(own, upstream + c.router_delay)
    if parent < 0 and packet == 0:
        for k in range(a.hop_event_offsets[hop], a.hop_event_offsets[hop + 1]):
            out.first[(a.hop_events[k] - w.event0) * w.n_units + unit] = now
    child0, child1 = a.child_offsets[hop], a.child_offsets[hop + 1]
    to_port = child0 < child1 and a.hop_server[a.children[child0]] >= c.n_channels
    if c.buffer_packets > 0 and child0 < child1 and not to_port:
        # the packet keeps the channel until the next input buffer has room
        flight = new_entry(st, task, unit, hop, packet, now, tail, slot)
        st.free_at[server] = np.inf
        if c.cut_through:
            _ask_for_room(a, c, st, out, w, flight, now)
        else:
            push(st, tail, _tie(task - w.task0, unit, w.n_units), (flight << 3) | q.ENTER)
        return
    out.held[server] += tail - now
    st.free_at[server] = tail
    if slot >= 0:
        push(st, tail, 0, (slot << 3) | q.LEAVE)
    if child0 == child1 or to_port:
        event = a.hop_event[hop] if child0 == child1 else a.hop_event[a.children[child0]]
        at = (event - w.event0) * w.n_units + unit
        if st.packets_left[at] == 0:
            st.packets_left[at] = n_packets
            out.eject[at] = tail
        else:
            out.eject[at] = max(out.eject[at], tail)
        st.packets_left[at] -= 1
        if st.packets_left[at] == 0:
            if to_port:
                arrival = out.eject[at] + c.router_delay
                whole = new_entry(st, task, unit, a.children[child0], 0, arrival, tail, -1)
                push(st, arrival, _tie(task - w.task0, unit, w.n_units), (whole << 3) | q.ARRIVE)
            else:
                _happen(st, w, event, unit, out.eject[at])
        return
    arrival = (now if c.cut_through else tail) + c.router_delay
    for k in range(child0, child1):
        copy = new_entry(st, task, unit, a.children[k], packet, arrival, tail, -1)
        push(st, arrival, _tie(task - w.task0, unit, w.n_units), (copy << 3) | q.ARRIVE)


@hot
def _ask_for_room(
    a: Arrays, c: Constants, st: State, out: Out, w: Where, flight: int, now: float
) -> None:
    """A packet that holds a channel asks for a slot in the buffer behind it."""
    server = a.hop_server[st.e_hop[flight]]
    if st.used[server] < c.buffer_packets:
        _enter(a, c, st, out, w, flight, now)
    else:
        st.waiting[server] = flight


@hot
def _enter(a: Arrays, c: Constants, st: State, out: Out, w: Where, flight: int, now: float) -> None:
    """It has the slot: its channel is free once the tail has left, its copies go on."""
    hop, task, unit = st.e_hop[flight], st.e_task[flight], st.e_unit[flight]
    server = a.hop_server[hop]
    st.used[server] += 1
    release = max(st.e_tail[flight], now)
    out.held[server] += release - st.e_arrival[flight]
    out.blocked[server] += release - st.e_tail[flight]
    st.free_at[server] = release
    wake(st, server, now)
    if st.e_slot[flight] >= 0:
        push(st, release, 0, (st.e_slot[flight] << 3) | q.LEAVE)
    # the flight's entry lives on as the slot: e_packet counts the copies that still use it
    packet = st.e_packet[flight]
    child0, child1 = a.child_offsets[hop], a.child_offsets[hop + 1]
    st.e_packet[flight] = child1 - child0
    arrival = now + c.router_delay
    for k in range(child0, child1):
        copy = new_entry(st, task, unit, a.children[k], packet, arrival, release, flight)
        push(st, arrival, _tie(task - w.task0, unit, w.n_units), (copy << 3) | q.ARRIVE)


@hot
def _leave(a: Arrays, c: Constants, st: State, out: Out, w: Where, slot: int, now: float) -> None:
    """A copy has left the buffer; the slot is free after the last one."""
    st.e_packet[slot] -= 1
    if st.e_packet[slot] > 0:
        return
    server = a.hop_server[st.e_hop[slot]]
    free_entry(st, slot)
    st.used[server] -= 1
    if st.waiting[server] >= 0:
        flight = st.waiting[server]
        st.waiting[server] = -1
        _enter(a, c, st, out, w, flight, now)


@hot
def _begin(a: Arrays, c: Constants, st: State, slow: Slow, w: Where) -> None:
    """Count what every task instance waits for; those that wait for nothing are ready."""
    for server in range(len(slow.offsets) - 1):
        changes = slow.times[slow.offsets[server] : slow.offsets[server + 1]]
        st.cursor[server] = np.searchsorted(changes, w.start, side="right")
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
def run_loop(a: Arrays, c: Constants, st: State, slow: Slow, out: Out, w: Where) -> float:
    """Run a phase; returns the time of its last event."""
    _begin(a, c, st, slow, w)
    end = w.start
    while st.counts[q.SIZE] > 0 and st.counts[q.FULL] == 0:
        now = st.heap_time[0]
        item = st.heap_item[0]
        drop_top(st)
        what, number = item & 7, item >> 3
        if what == q.DECIDE:
            st.pending[number] = False
            if number < c.n_channels:
                _serve_channel(a, c, st, slow, out, w, number, now)
            elif number < c.n_channels + c.n_ports:
                _serve_port(a, c, st, slow, out, w, number, now)
            else:
                _serve_core(a, c, st, slow, out, w, number, now)
            wake(st, number, now)
        elif what == q.ARRIVE:
            enqueue(st, a.hop_server[st.e_hop[number]], number, now)
        elif what == q.HAPPEN:
            end = now
            _count_down(a, c, st, w, w.event0 + number // w.n_units, number % w.n_units, now)
        elif what == q.ENTER:
            _ask_for_room(a, c, st, out, w, number, now)
        else:
            _leave(a, c, st, out, w, number, now)
    for at in range(len(out.consume)):
        if np.isnan(out.consume[at]):
            out.consume[at] = out.eject[at]
    return end
