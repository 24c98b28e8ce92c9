"""The compiled engine's loop where servers can decide ahead: half the price of the general one.

Servers take whoever arrives first, and ties are known when they happen. Unless something that a
server does comes back to a server at the very same time (no router delay, tasks of no length) or a
packet must wait for room behind its channel, the start of a service is therefore known on arrival:
when whatever came before is done. Nobody queues, no server is asked again, and the times are those
of the general loop, bit for bit.
"""

from __future__ import annotations

import numpy as np

from slowpoke_sim import hops as h
from slowpoke_sim import queues as q
from slowpoke_sim.draws import draw
from slowpoke_sim.jit import hot, loop
from slowpoke_sim.phase import BYTES, HELD
from slowpoke_sim.plan import Arrays, Constants
from slowpoke_sim.queues import State
from slowpoke_sim.service import (
    Out,
    Slow,
    Where,
    begin,
    compute,
    count_down,
    drift,
    end_of_service,
    finish,
    land,
    pass_port,
)


@hot
def _serve(
    a: Arrays, c: Constants, st: State, slow: Slow, out: Out, w: Where, entry: int, now: float
) -> None:
    """Serve what asks now, as soon as its server is free."""
    task, unit, hop = st.entry[entry, q.TASK], st.entry[entry, q.UNIT], st.entry[entry, q.HOP]
    packet, key = st.entry[entry, q.PACKET], st.entry[entry, q.KEY]
    upstream = st.entry_time[entry, q.TAIL]
    q.free_entry(st, entry)
    if hop < 0:
        server = c.n_channels + c.n_ports + a.core[task]
        start = max(now, st.free_at[server])
        compute(a, c, st, slow, out, w, server, task, unit, key, start)
        return
    server = a.hops[hop, h.SERVER]
    if server >= c.n_channels:
        start = max(now, st.free_at[server])
        pass_port(a, c, st, slow, out, w, server, task, unit, hop, key, start)
        return
    child, n_children = a.hops[hop, h.CHILD], a.hops[hop, h.N_CHILDREN]
    goes_on = n_children > 0 and a.hops[child, h.SERVER] < c.n_channels
    train, index = a.hops[hop, h.TRAIN], a.hops[hop, h.INDEX]
    n_packets = a.n_packets[task]
    at_hop = (hop - w.hop0) * w.n_units + unit
    free_at = st.free_at[server]
    # a train stands behind its channel as a whole: nobody comes between its packets
    for number in range(packet, n_packets if train > 0 else packet + 1):
        start = max(now, free_at)
        n_bytes = c.packet_bytes
        if number + 1 == n_packets:
            n_bytes = a.last_bytes[task]
        work = n_bytes / a.server_speed[server]
        work = work * draw(a.link_table, np.uint64(key), index, number)
        work = work * drift(c, out, server, start)
        own = end_of_service(st, slow, out, server, start, work, at_hop)
        out.sums[server, BYTES] += n_bytes
        if len(out.hop_cycles):
            out.hop_cycles[at_hop] += own - start
        tail = max(own, upstream + c.router_delay)
        if number == 0 and train == h.ROOT:
            for k in range(a.hops[hop, h.FIRST_EVENT], a.hops[hop, h.LAST_EVENT]):
                out.first[(a.hop_events[k] - w.event0) * w.n_units + unit] = start
        out.sums[server, HELD] += tail - start
        free_at = tail
        if not goes_on:
            land(a, c, st, out, w, task, unit, hop, key, tail)
            continue
        arrival = start + c.router_delay
        for k in range(child, child + n_children):
            copy = q.new_entry(st, task, unit, k, number, -1, key, arrival, tail)
            if start == now:
                q.line_up(st, arrival, copy)  # one router delay from now, like every other
            else:
                q.push(st, arrival, (copy << 2) | q.ARRIVE)
    st.free_at[server] = free_at


@loop
def run_ahead(a: Arrays, c: Constants, st: State, slow: Slow, out: Out, w: Where) -> float:
    """Run a phase; returns the time of its last event."""
    begin(a, c, st, slow, w)
    now = w.start
    end = w.start
    while st.counts[q.FULL] == 0:
        if st.counts[q.AT_ONCE] > 1:
            q.order_at_once(st)
        for i in range(st.counts[q.AT_ONCE]):
            if st.counts[q.FULL] == 0:
                _serve(a, c, st, slow, out, w, st.at_once[i], now)
        st.counts[q.AT_ONCE] = 0
        source = q.next_of(st)
        if source == q.NOTHING:
            break
        while True:
            if source == q.OF_LINE:
                first = st.counts[q.FIRST]
                st.counts[q.FIRST] = (first + 1) & (len(st.line_time) - 1)
                now = st.line_time[first]
                q.ask_at_once(st, st.line_entry[first])
            else:
                now = st.heap_time[0]
                item = st.heap_item[0]
                number = item >> 2
                if item & 3 == q.ARRIVE:
                    q.ask_at_once(st, number)
                else:
                    end = now
                    event = number // w.n_units
                    count_down(a, c, st, w, w.event0 + event, number - event * w.n_units, now)
            # whoever arrives at one time is served in the order of tasks, not of arrival here
            if not q.is_more_now(st, now):
                break
            source = q.next_of(st)
    finish(out)
    return end
