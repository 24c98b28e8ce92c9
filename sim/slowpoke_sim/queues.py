"""Queues of the compiled engine: an event heap and one linked list a server, over flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slowpoke_sim.jit import hot

ARRIVE, HAPPEN, DECIDE, ENTER, LEAVE = 0, 1, 2, 3, 4
"""What a heap item is, in its lowest three bits; the rest is an entry, event or server."""
DECISION = 1 << 62
"""Keys from here on are decisions: they come after everything that happens at the same time."""
SIZE, FREE, FULL, LEFT = 0, 1, 2, 3
"""Places in State.counts."""


class State(NamedTuple):
    """Scratch of a phase. An entry is a packet, or a train of packets, on its way to a server.

    Attributes:
        counts: Heap size, number of free entries, whether a capacity was exceeded, events to come.
        heap_time, heap_key, heap_item: Binary heap by (time, key).
        free: Stack of entries that are not in use.
        e_task, e_unit, e_hop, e_packet: What an entry is; hop -1 for a task on a core.
        e_arrival: When it came to the server, in cycles.
        e_tail: When its tail leaves the channel before.
        e_slot: The entry that stands for its place in the buffer before the server, or -1.
        e_next, e_prev: Neighbours in the server's queue.
        head, last: (n_servers,) ends of the queue, or -1.
        free_at: (n_servers,) when the server is free; infinity while nobody knows.
        pending: (n_servers,) whether a decision is in the heap.
        cursor: (n_servers,) changes of slowdown that have happened.
        used, waiting: (n_servers,) places taken in the buffer behind a channel, and who waits.
        remaining: (n_tasks * n_units,) what a task instance still waits for.
        packets_left: (n_events * n_units,) packets of a message that have not arrived.
        seen: (n_hops * n_units * n_faults,) whether a message counts as exposed already.
    """

    counts: NDArray[np.int64]
    heap_time: NDArray[np.float64]
    heap_key: NDArray[np.int64]
    heap_item: NDArray[np.int64]
    free: NDArray[np.int64]
    e_task: NDArray[np.int64]
    e_unit: NDArray[np.int64]
    e_hop: NDArray[np.int64]
    e_packet: NDArray[np.int64]
    e_arrival: NDArray[np.float64]
    e_tail: NDArray[np.float64]
    e_slot: NDArray[np.int64]
    e_next: NDArray[np.int64]
    e_prev: NDArray[np.int64]
    head: NDArray[np.int64]
    last: NDArray[np.int64]
    free_at: NDArray[np.float64]
    pending: NDArray[np.bool_]
    cursor: NDArray[np.int64]
    used: NDArray[np.int64]
    waiting: NDArray[np.int64]
    remaining: NDArray[np.int64]
    packets_left: NDArray[np.int64]
    seen: NDArray[np.uint8]


@hot
def push(st: State, time: float, key: int, item: int) -> None:
    """Put an item into the heap, or note that it is full."""
    n = st.counts[SIZE]
    if n == len(st.heap_time):
        st.counts[FULL] = 1
        return
    st.counts[SIZE] = n + 1
    heap_time, heap_key, heap_item = st.heap_time, st.heap_key, st.heap_item
    while n > 0:
        up = (n - 1) >> 1
        up_time = heap_time[up]
        if up_time < time or (up_time == time and heap_key[up] <= key):
            break
        heap_time[n] = up_time
        heap_key[n] = heap_key[up]
        heap_item[n] = heap_item[up]
        n = up
    heap_time[n] = time
    heap_key[n] = key
    heap_item[n] = item


@hot
def drop_top(st: State) -> None:
    """Take the first item off the heap."""
    n = st.counts[SIZE] - 1
    st.counts[SIZE] = n
    heap_time, heap_key, heap_item = st.heap_time, st.heap_key, st.heap_item
    time, key, item = heap_time[n], heap_key[n], heap_item[n]
    at = 0
    child = 1
    while child < n:
        if child + 1 < n and (
            heap_time[child + 1] < heap_time[child]
            or (heap_time[child + 1] == heap_time[child] and heap_key[child + 1] < heap_key[child])
        ):
            child += 1
        if time < heap_time[child] or (time == heap_time[child] and key <= heap_key[child]):
            break
        heap_time[at] = heap_time[child]
        heap_key[at] = heap_key[child]
        heap_item[at] = heap_item[child]
        at = child
        child = 2 * at + 1
    heap_time[at] = time
    heap_key[at] = key
    heap_item[at] = item


@hot
def new_entry(
    st: State, task: int, unit: int, hop: int, packet: int, arrival: float, tail: float, slot: int
) -> int:
    """An entry with these values, or a note that there is none left."""
    n = st.counts[FREE] - 1
    if n < 0:
        st.counts[FULL] = 1
        n = 0
    st.counts[FREE] = n
    entry = st.free[n]
    st.e_task[entry] = task
    st.e_unit[entry] = unit
    st.e_hop[entry] = hop
    st.e_packet[entry] = packet
    st.e_arrival[entry] = arrival
    st.e_tail[entry] = tail
    st.e_slot[entry] = slot
    return int(entry)


@hot
def free_entry(st: State, entry: int) -> None:
    """Give an entry back."""
    st.free[st.counts[FREE]] = entry
    st.counts[FREE] += 1


@hot
def before(st: State, a: int, b: int) -> bool:
    """The one tie key: arrival time, task, unit, hop, packet."""
    if st.e_arrival[a] != st.e_arrival[b]:
        return bool(st.e_arrival[a] < st.e_arrival[b])
    if st.e_task[a] != st.e_task[b]:
        return bool(st.e_task[a] < st.e_task[b])
    if st.e_unit[a] != st.e_unit[b]:
        return bool(st.e_unit[a] < st.e_unit[b])
    if st.e_hop[a] != st.e_hop[b]:
        return bool(st.e_hop[a] < st.e_hop[b])
    return bool(st.e_packet[a] < st.e_packet[b])


@hot
def enqueue(st: State, server: int, entry: int, now: float) -> None:
    """Put an entry in a server's queue, which arrivals reach in order of time: walk ties only."""
    after = st.last[server]
    while after >= 0 and before(st, entry, after):
        after = st.e_prev[after]
    st.e_prev[entry] = after
    if after >= 0:
        behind = st.e_next[after]
        st.e_next[after] = entry
    else:
        behind = st.head[server]
        st.head[server] = entry
    st.e_next[entry] = behind
    if behind >= 0:
        st.e_prev[behind] = entry
    else:
        st.last[server] = entry
    wake(st, server, now)


@hot
def dequeue(st: State, server: int, entry: int) -> None:
    """Take out the head."""
    behind = st.e_next[entry]
    st.head[server] = behind
    if behind >= 0:
        st.e_prev[behind] = -1
    else:
        st.last[server] = -1


@hot
def wake(st: State, server: int, now: float) -> None:
    """Let a server decide as soon as it is free, if anybody waits and none is planned."""
    if st.head[server] >= 0 and not st.pending[server] and st.free_at[server] < np.inf:
        st.pending[server] = True
        push(st, max(now, st.free_at[server]), DECISION + server, (server << 3) | DECIDE)
