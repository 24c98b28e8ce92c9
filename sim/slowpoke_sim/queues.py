"""Queues of the compiled engine: an event heap, a line of packets that are one router delay away,
and one linked list a server, over flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slowpoke_sim.jit import hot

ARRIVE, HAPPEN, ENTER, LEAVE = 0, 1, 2, 3
"""What a heap item is, in its lowest two bits; the rest is an entry or an event instance."""
DECIDE = 1 << 62
"""Items from here on are decisions of servers: they come after whatever else happens then."""
SIZE, FREE, FULL, LEFT, HOLE, FIRST, END, AT_ONCE = range(8)
"""Places in State.counts: heap size, free entries, whether a capacity was exceeded, events to come,
whether the top of the heap has been taken and its place is vacant, ends of the line, entries that
ask now (`slowpoke_sim.ahead`)."""
NOTHING, OF_HEAP, OF_LINE = 0, 1, 2
"""Where the next item is."""
TASK, UNIT, HOP, PACKET, SLOT, NEXT, PREV, KEY = range(8)
"""Columns of an entry: what it is (hop -1 for a task on a core); the entry that stands for its
place in the buffer before the server, or -1; neighbours in the queue; key of its draws."""
ARRIVAL, TAIL = 0, 1
"""Columns of an entry's times: when it came to the server, when its tail leaves the one before."""
HEAD, LAST, PENDING, CURSOR, USED, WAITING = range(6)
"""Columns of a server: ends of its queue, or -1; whether a decision is in the heap; changes of
slowdown that have happened; places taken in the buffer behind it, and who waits for one, or -1."""


class State(NamedTuple):
    """Scratch of a phase. An entry is a packet, or a train of packets, on its way to a server.

    Attributes:
        counts: See above.
        heap_time, heap_item: Binary heap by (time, item).
        at_once: Entries that ask for their server now.
        line_time, line_entry: Ring of arrivals. All that is put there happens one and the same
            delay later, so that it stands in order of time without a heap; its length is a power
            of two and no less than the number of entries.
        free: Stack of entries that are not in use.
        entry, entry_time: (n_entries, 8) and (n_entries, 2).
        server: (n_servers, 8).
        free_at: (n_servers,) when the server is free; infinity while nobody knows.
        remaining: (n_tasks * n_units,) what a task instance still waits for.
        packets_left: (n_events * n_units,) packets of a message that have not arrived.
        seen: (n_hops * n_units * n_faults,) whether a message counts as exposed already.
    """

    counts: NDArray[np.int64]
    heap_time: NDArray[np.float64]
    heap_item: NDArray[np.int64]
    at_once: NDArray[np.int64]
    line_time: NDArray[np.float64]
    line_entry: NDArray[np.int64]
    free: NDArray[np.int64]
    entry: NDArray[np.int64]
    entry_time: NDArray[np.float64]
    server: NDArray[np.int64]
    free_at: NDArray[np.float64]
    remaining: NDArray[np.int64]
    packets_left: NDArray[np.int64]
    seen: NDArray[np.uint8]


@hot
def push(st: State, time: float, item: int) -> None:
    """Put an item into the heap (into the vacant top, if there is one), or note that it is full."""
    if st.counts[HOLE] == 1:
        st.counts[HOLE] = 0
        _sink(st, time, item, st.counts[SIZE])
        return
    n = st.counts[SIZE]
    heap_time, heap_item = st.heap_time, st.heap_item
    if n == len(heap_time):
        st.counts[FULL] = 1
        return
    st.counts[SIZE] = n + 1
    while n > 0:
        up = (n - 1) >> 1
        up_time = heap_time[up]
        if up_time < time or (up_time == time and heap_item[up] <= item):
            break
        heap_time[n] = up_time
        heap_item[n] = heap_item[up]
        n = up
    heap_time[n] = time
    heap_item[n] = item


@hot
def line_up(st: State, time: float, entry: int) -> None:
    """Put an arrival at the end of the line; none there is later."""
    end = st.counts[END]
    st.line_time[end] = time
    st.line_entry[end] = entry
    st.counts[END] = (end + 1) & (len(st.line_time) - 1)


@hot
def next_of(st: State) -> int:
    """Where the next item is; that of the heap leaves a vacant place, to be read at 0 before."""
    if st.counts[HOLE] == 1:
        st.counts[HOLE] = 0
        n = st.counts[SIZE] - 1
        st.counts[SIZE] = n
        if n > 0:
            _sink(st, st.heap_time[n], st.heap_item[n], n)
    first = st.counts[FIRST]
    # at one time, arrivals come before decisions; among what is none the order does not matter
    if first != st.counts[END] and (st.counts[SIZE] == 0 or st.line_time[first] <= st.heap_time[0]):
        return OF_LINE
    if st.counts[SIZE] == 0:
        return NOTHING
    st.counts[HOLE] = 1
    return OF_HEAP


@hot
def _sink(st: State, time: float, item: int, n: int) -> None:
    """Put an item in the place of the top of a heap of n."""
    heap_time, heap_item = st.heap_time, st.heap_item
    at = 0
    child = 1
    while child < n:
        child_time, child_item = heap_time[child], heap_item[child]
        if child + 1 < n:
            # which of two comes first is a coin toss, so nothing branches on it: & and | on purpose
            other_time, other_item = heap_time[child + 1], heap_item[child + 1]
            is_other = (other_time < child_time) | (
                (other_time == child_time) & (other_item < child_item)
            )
            child += int(is_other)
            child_time = other_time if is_other else child_time
            child_item = other_item if is_other else child_item
        if (time < child_time) | ((time == child_time) & (item <= child_item)):
            break
        heap_time[at] = child_time
        heap_item[at] = child_item
        at = child
        child = 2 * at + 1
    heap_time[at] = time
    heap_item[at] = item


@hot
def comes_before(st: State, time: float, item: int) -> bool:
    """Whether a decision would be next."""
    first = st.counts[FIRST]
    if first != st.counts[END] and st.line_time[first] <= time:
        return False
    n = st.counts[SIZE]
    if st.counts[HOLE] == 0:
        if n == 0:
            return True
        return bool(time < st.heap_time[0] or (time == st.heap_time[0] and item < st.heap_item[0]))
    for child in range(1, min(n, 3)):
        if st.heap_time[child] < time or (
            st.heap_time[child] == time and st.heap_item[child] < item
        ):
            return False
    return True


@hot
def is_more_now(st: State, now: float) -> bool:
    """Whether anything else happens at this time, after an item was taken."""
    first = st.counts[FIRST]
    if first != st.counts[END] and st.line_time[first] <= now:
        return True
    n = st.counts[SIZE]
    if st.counts[HOLE] == 0:
        return bool(n > 0 and st.heap_time[0] <= now)
    return bool((n > 1 and st.heap_time[1] <= now) or (n > 2 and st.heap_time[2] <= now))


@hot
def ask_at_once(st: State, entry: int) -> None:
    """An entry asks for its server now."""
    n = st.counts[AT_ONCE]
    if n == len(st.at_once):
        st.counts[FULL] = 1  # entries ran out before
        return
    st.at_once[n] = entry
    st.counts[AT_ONCE] = n + 1


@hot
def order_at_once(st: State) -> None:
    """Put those that ask now into the order in which servers take them: seldom more than one."""
    for i in range(1, st.counts[AT_ONCE]):
        entry = st.at_once[i]
        at = i
        while at > 0 and before(st, entry, st.at_once[at - 1]):
            st.at_once[at] = st.at_once[at - 1]
            at -= 1
        st.at_once[at] = entry


@hot
def new_entry(
    st: State,
    task: int,
    unit: int,
    hop: int,
    packet: int,
    slot: int,
    key: int,
    arrival: float,
    tail: float,
) -> int:
    """An entry with these values, or a note that there is none left."""
    n = st.counts[FREE] - 1
    if n < 0:
        st.counts[FULL] = 1
        n = 0
    st.counts[FREE] = n
    entry = st.free[n]
    st.entry[entry, TASK] = task
    st.entry[entry, UNIT] = unit
    st.entry[entry, HOP] = hop
    st.entry[entry, PACKET] = packet
    st.entry[entry, SLOT] = slot
    st.entry[entry, KEY] = key
    st.entry_time[entry, ARRIVAL] = arrival
    st.entry_time[entry, TAIL] = tail
    return int(entry)


@hot
def free_entry(st: State, entry: int) -> None:
    """Give an entry back."""
    st.free[st.counts[FREE]] = entry
    st.counts[FREE] += 1


@hot
def before(st: State, a: int, b: int) -> bool:
    """The one tie key: arrival time, task, unit, hop, packet."""
    if st.entry_time[a, ARRIVAL] != st.entry_time[b, ARRIVAL]:
        return bool(st.entry_time[a, ARRIVAL] < st.entry_time[b, ARRIVAL])
    for column in range(TASK, PACKET + 1):
        if st.entry[a, column] != st.entry[b, column]:
            return bool(st.entry[a, column] < st.entry[b, column])
    return False


@hot
def enqueue(st: State, server: int, entry: int) -> None:
    """Put an entry in a server's queue, which arrivals reach in order of time: walk ties only."""
    after = st.server[server, LAST]
    while after >= 0 and before(st, entry, after):
        after = st.entry[after, PREV]
    st.entry[entry, PREV] = after
    if after >= 0:
        behind = st.entry[after, NEXT]
        st.entry[after, NEXT] = entry
    else:
        behind = st.server[server, HEAD]
        st.server[server, HEAD] = entry
    st.entry[entry, NEXT] = behind
    if behind >= 0:
        st.entry[behind, PREV] = entry
    else:
        st.server[server, LAST] = entry


@hot
def dequeue(st: State, server: int, entry: int) -> None:
    """Take out the head."""
    behind = st.entry[entry, NEXT]
    st.server[server, HEAD] = behind
    if behind >= 0:
        st.entry[behind, PREV] = -1
    else:
        st.server[server, LAST] = -1


@hot
def wake(st: State, server: int, now: float) -> None:
    """Let a server decide as soon as it is free, if anybody waits and none is planned."""
    if st.server[server, HEAD] >= 0 and st.server[server, PENDING] == 0:
        free_at = st.free_at[server]
        if free_at < np.inf:
            st.server[server, PENDING] = 1
            push(st, max(now, free_at), DECIDE + server)
