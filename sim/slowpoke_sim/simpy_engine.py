"""The SimPy engine: cores, channels and ports as processes and queues; the readable reference.

Structure of SlowPoke section 3.5: every message, packet and task is a process, every server a
queue, and a monitoring process changes the speed of faulty servers at the times that the faults
say, re-timing the work in flight. SimPy's priorities carry the order that the compiled engine
keeps: at one time speeds change first, then everything happens, then servers decide in the order of
their numbers.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Generator
from typing import Any

import numpy as np
import simpy
from simpy.events import EventPriority

from slowpoke_mapping.program import TaskKind
from slowpoke_sim.compiled_engine import stuck
from slowpoke_sim.draws import draw, drift_factor, instance_key
from slowpoke_sim.hops import (
    CHILD,
    EVENT,
    FIRST_EVENT,
    INDEX,
    LAST_EVENT,
    N_CHILDREN,
    ROOT,
    SERVER,
    TRAIN,
)  # fmt: skip
from slowpoke_sim.phase import BLOCKED, BUSY, BYTES, HELD, SERVICES, Components, Phase
from slowpoke_sim.plan import Plan
from slowpoke_sim.speeds import Speeds, left_over, overlaps

_CHANGE, _HAPPEN, _DECIDE = -1, 1, 2
"""Priorities; SimPy's own events have 0 and 1. A server decides at _DECIDE + its number."""

_Process = Generator[simpy.Event, Any, None]


class At(simpy.Event):
    """An event at an exact time, with a priority among the events of that time.

    SimPy adds a delay to the clock, and there are times that no delay leads to: the sum rounds past
    them. Up to twice the present time the difference is exact (Sterbenz), so the way there is taken
    in halves where one step would miss.
    """

    def __init__(self, clock: simpy.Environment, time: float, priority: int = _HAPPEN) -> None:
        super().__init__(clock)
        self._ok, self._value = True, time
        self._priority = EventPriority(priority)
        self._approach(None)

    def _approach(self, _: simpy.Event | None) -> None:
        delay = self._value - self.env.now
        if self.env.now + delay == self._value:
            self.env.schedule(self, self._priority, delay)
        else:
            At(self.env, self._value / 2).callbacks.append(self._approach)


class _Server:
    """A core, channel or port: serves one at a time, by arrival time, then task, unit, hop, packet.

    `slowdown` is what the monitoring process sets; work in flight is re-timed when it changes.
    """

    def __init__(self, clock: simpy.Environment, number: int, slowdown: float) -> None:
        self.clock = clock
        self.number = number
        self.slowdown = slowdown
        self._queue: list[tuple[tuple[float, int, int, int, int], simpy.Event]] = []
        self._busy = self._deciding = False
        self._work = self._since = self._end = 0.0
        self._done: simpy.Event | None = None

    def request(self, task: int, unit: int, hop: int, packet: int) -> simpy.Event:
        """An event for when the server is ours."""
        granted = self.clock.event()
        heapq.heappush(self._queue, ((self.clock.now, task, unit, hop, packet), granted))
        self._decide_soon()
        return granted

    def serve(self, work_cycles: float) -> simpy.Event:
        """An event for when this much work, in cycles at full speed, is done."""
        self._done = self.clock.event()
        self._work, self._since = work_cycles, self.clock.now
        self._retime()
        return self._done

    def release(self) -> None:
        """Let the next one in."""
        self._busy = False
        self._decide_soon()

    def change(self, slowdown: float) -> None:
        """Proceed at another speed, also in the middle of a service."""
        if self._done is not None and self._end > self.clock.now:
            self._work = left_over(self._work, self.clock.now - self._since, self.slowdown)
            self._since = self.clock.now
            self.slowdown = slowdown
            self._retime()
        self.slowdown = slowdown

    def _retime(self) -> None:
        self._end = self._since + self._work * self.slowdown
        At(self.clock, self._end).callbacks.append(self._finish)

    def _finish(self, event: simpy.Event) -> None:
        # after a change of speed the earlier appointment is void
        if self._done is not None and event.value == self._end:
            done, self._done = self._done, None
            done.succeed(self._end)

    def _decide_soon(self) -> None:
        if self._queue and not self._busy and not self._deciding:
            self._deciding = True
            At(self.clock, self.clock.now, _DECIDE + self.number).callbacks.append(self._decide)

    def _decide(self, _: simpy.Event) -> None:
        self._deciding, self._busy = False, True
        heapq.heappop(self._queue)[1].succeed()


class _Slot:
    """A place in the input buffer behind a channel, used until its last copy has left."""

    def __init__(self, buffer: simpy.Resource, request: Any, n_copies: int) -> None:
        self._buffer, self._request, self._n_copies = buffer, request, n_copies

    def leave(self) -> None:
        """One copy has left."""
        self._n_copies -= 1
        if self._n_copies == 0:
            self._buffer.release(self._request)


class SimpyEngine:
    """Runs phases of a plan with one SimPy environment each."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def run_phase(
        self,
        batch: int,
        group: int,
        start_cycles: float,
        speeds: Speeds,
        components: Components,
        hop_cycles: bool = False,
    ) -> Phase:
        """One phase; `components` is brought up to date in place.

        Raises:
            SlowpokeError: A task waits for itself, directly or not.
        """
        return _Run(self._plan, batch, group, start_cycles, speeds, components).phase(hop_cycles)


class _Run:
    """One phase: the chip's servers, and a process for whatever is on its way."""

    def __init__(
        self,
        plan: Plan,
        batch: int,
        group: int,
        start_cycles: float,
        speeds: Speeds,
        components: Components,
    ) -> None:
        program = plan.program
        self.plan, self.batch, self.group, self.start = plan, batch, group, start_cycles
        self.a, self.c, self.speeds, self.components = (
            plan.arrays, plan.constants, speeds, components,
        )  # fmt: skip
        self.n_units = program.units_in_batch(batch)
        self.task0, self.task1 = (int(t) for t in program.group_offsets[group : group + 2])
        self.event0, event1 = (int(self.a.event_offsets[t]) for t in (self.task0, self.task1))
        self.hop0, hop1 = (int(self.a.hop_offsets[t]) for t in (self.task0, self.task1))
        shape = (event1 - self.event0, self.n_units)
        self.first, self.eject, self.consume = (np.full(shape, np.nan) for _ in range(3))
        self.packets_left = np.zeros(shape, dtype=np.int64)
        self.hop_cycles = np.zeros((hop1 - self.hop0, self.n_units))
        self.remaining = np.zeros((self.task1 - self.task0, self.n_units), dtype=np.int64)
        self.seen: set[tuple[int, int, int]] = set()
        self.n_left = 0
        self.end = start_cycles
        self.clock = simpy.Environment(initial_time=start_cycles)
        self.servers = [_Server(self.clock, s, 1.0) for s in range(plan.n_servers)]
        self.buffers = [
            simpy.Resource(self.clock, capacity=max(self.c.buffer_packets, 1))
            for _ in range(self.c.n_channels)
        ]

    def phase(self, hop_cycles: bool) -> Phase:
        self.clock.process(self._monitor())
        for task in range(self.task0, self.task1):
            for unit in range(self._units_of(task)):
                self.n_left += int(self.a.event_offsets[task + 1] - self.a.event_offsets[task])
                waits = sum(source >= 0 for _, source in self._inputs(task, unit))
                self.remaining[task - self.task0, unit] = waits
                if waits == 0:
                    self.clock.process(self._task(task, unit))
        self.clock.run()
        if self.n_left > 0:
            raise stuck(self.plan, self.group, self.remaining)
        self.consume = np.where(np.isnan(self.consume), self.eject, self.consume)
        cycles = self.hop_cycles if hop_cycles else self.hop_cycles[:0]
        return Phase(
            self.batch, self.group, self.start, self.end, self.first, self.eject, self.consume,
            cycles,
        )  # fmt: skip

    # --- faults ---------------------------------------------------------------------------------

    def _monitor(self) -> _Process:
        """Changes the speed of servers when a fault starts, steps or ends (SlowPoke 3.5)."""
        changes = []
        for server in range(self.plan.n_servers):
            span = slice(self.speeds.offsets[server], self.speeds.offsets[server + 1])
            times, slowdowns = self.speeds.times[span], self.speeds.slowdowns[span]
            past = int(np.searchsorted(times, self.start, side="right"))
            if past > 0:
                self.servers[server].slowdown = float(slowdowns[past - 1])
            changes += [
                (float(time), server, float(slowdown))
                for time, slowdown in zip(times[past:], slowdowns[past:], strict=True)
            ]
        for time, server, slowdown in sorted(changes):
            if time > self.clock.now:
                yield At(self.clock, time, _CHANGE)
            if self.n_left == 0:
                return
            self.servers[server].change(slowdown)

    # --- dependencies ---------------------------------------------------------------------------

    def _units_of(self, task: int) -> int:
        return 1 if self.a.once[task] else self.n_units

    def _inputs(self, task: int, unit: int) -> list[tuple[int, int]]:
        """(event, unit) that a task instance waits for; a negative unit is none."""
        found = []
        for d in range(self.a.dep_offsets[task], self.a.dep_offsets[task + 1]):
            event = int(self.a.dep_events[d])
            once = self.a.once[self.a.event_task[event]]
            found.append((event, 0 if once else unit - int(self.a.dep_lags[d])))
        return found

    def _happened(self, event: int, unit: int) -> None:
        """Start every task instance that waits for nothing else."""
        self.n_left -= 1
        self.end = self.clock.now
        once = self.a.once[self.a.event_task[event]]
        for d in range(self.a.rev_offsets[event], self.a.rev_offsets[event + 1]):
            task = int(self.a.rev_tasks[d])
            later = unit + int(self.a.rev_lags[d])
            units = range(self._units_of(task)) if once else range(later, later + 1)
            for v in units:
                if v < self._units_of(task):
                    self.remaining[task - self.task0, v] -= 1
                    if self.remaining[task - self.task0, v] == 0:
                        self.clock.process(self._task(task, v))

    # --- what is on its way ---------------------------------------------------------------------

    def _task(self, task: int, unit: int) -> _Process:
        """A task instance that is ready now."""
        if self.a.kind[task] in (TaskKind.COMPUTE, TaskKind.PROBE):
            yield from self._compute(task, unit)
            return
        root0 = int(self.a.hop_offsets[task])
        for hop in range(root0, root0 + int(self.a.n_roots[task])):
            if self.a.hops[hop, SERVER] >= self.c.n_channels:
                self.clock.process(self._read(task, unit, hop))
            else:
                self._send(task, unit, hop, self.clock.event().succeed(-math.inf))

    def _compute(self, task: int, unit: int) -> _Process:
        """A COMPUTE or PROBE on its core."""
        number = self.c.n_channels + self.c.n_ports + int(self.a.core[task])
        core = self.servers[number]
        yield core.request(task, unit, -1, 0)
        start = self.clock.now
        work = float(self.a.work[task])
        if self.a.kind[task] == TaskKind.COMPUTE:
            work = work / float(self.a.server_speed[number])
            work = work * draw(self.a.core_table, self._key(task, unit), 0, 0)
            work = work * self._drift(number)
            self.components.sums[number, BYTES] += self.a.work[task]
            for event, source in self._inputs(task, unit):
                of = self.a.event_task[event]
                if source >= 0 and self.a.kind[of] not in (TaskKind.COMPUTE, TaskKind.PROBE):
                    if np.isnan(self.consume[event - self.event0, source]):
                        self.consume[event - self.event0, source] = start
        end = yield core.serve(work)
        self._count(number, start, end, end, -1, unit)
        core.release()
        event = int(self.a.event_offsets[task])
        at = event - self.event0, unit
        self.first[at], self.eject[at], self.consume[at] = start, end, end
        self._happened(event, unit)

    def _read(self, task: int, unit: int, hop: int) -> _Process:
        """A DRAM_READ: its port serves the whole message, then the packets go on together."""
        self._inject(hop, unit, (yield from self._port(task, unit, hop))[0])
        end = self.clock.now
        yield At(self.clock, end + self.c.router_delay)
        for child in self._next_hops(hop):
            self._send(task, unit, child, self.clock.event().succeed(end))

    def _write(self, task: int, unit: int, hop: int) -> _Process:
        """A DRAM_WRITE whose last tail has reached the port's router."""
        yield At(self.clock, self.clock.now + self.c.router_delay)
        _, end = yield from self._port(task, unit, hop)
        event = int(self.a.hops[hop, EVENT])
        self.consume[event - self.event0, unit] = end
        self._happened(event, unit)

    def _port(
        self, task: int, unit: int, hop: int
    ) -> Generator[simpy.Event, Any, tuple[float, float]]:
        number = int(self.a.hops[hop, SERVER])
        port = self.servers[number]
        yield port.request(task, unit, hop, 0)
        start = self.clock.now
        n_bytes = float(self.a.message_bytes[task])
        work = self.c.port_latency + n_bytes / float(self.a.server_speed[number])
        end = yield port.serve(work * self._drift(number))
        self.components.sums[number, BYTES] += n_bytes
        self._count(number, start, end, end, hop, unit)
        port.release()
        return start, end

    def _send(self, task: int, unit: int, hop: int, upstream: simpy.Event) -> None:
        """All packets of a message ask for the channel of a hop."""
        for packet in range(int(self.a.n_packets[task])):
            self.clock.process(self._packet(task, unit, hop, packet, upstream, None))

    def _packet(
        self, task: int, unit: int, hop: int, packet: int, upstream: simpy.Event, slot: _Slot | None
    ) -> _Process:
        """A packet on one channel; `upstream` happens when its tail leaves the channel before."""
        number = int(self.a.hops[hop, SERVER])
        channel = self.servers[number]
        yield channel.request(task, unit, hop, packet)
        start = self.clock.now
        if packet == 0 and self.a.hops[hop, TRAIN] == ROOT:
            self._inject(hop, unit, start)
        last = packet + 1 == self.a.n_packets[task]
        n_bytes = float(self.a.last_bytes[task]) if last else self.c.packet_bytes
        work = n_bytes / float(self.a.server_speed[number])
        number_of_hop = int(self.a.hops[hop, INDEX])
        work = work * draw(self.a.link_table, self._key(task, unit), number_of_hop, packet)
        own = channel.serve(work * self._drift(number))
        self.components.sums[number, BYTES] += n_bytes
        gone = self.clock.event()
        inside = self.clock.event()
        onward = self._onward(task, unit, hop, packet, inside, gone)
        if self.c.cut_through:
            self.clock.process(onward)
        finish = yield own
        upstream_tail = yield upstream
        tail = max(finish, upstream_tail + self.c.router_delay)
        yield At(self.clock, tail)
        if not self.c.cut_through:
            self.clock.process(onward)
        yield inside
        self._count(number, start, finish, self.clock.now, hop, unit)
        self.components.sums[number, BLOCKED] += self.clock.now - tail
        channel.release()
        gone.succeed(self.clock.now)
        if slot is not None:
            slot.leave()
        self._arrive(task, unit, hop)

    def _onward(
        self, task: int, unit: int, hop: int, packet: int, inside: simpy.Event, gone: simpy.Event
    ) -> _Process:
        """The head goes on: into the next input buffer if it is finite, then to the next hops."""
        children = [h for h in self._next_hops(hop) if self.a.hops[h, SERVER] < self.c.n_channels]
        slot = None
        if self.c.buffer_packets > 0 and children:
            buffer = self.buffers[int(self.a.hops[hop, SERVER])]
            request = buffer.request()
            yield request
            slot = _Slot(buffer, request, len(children))
        inside.succeed()
        yield At(self.clock, self.clock.now + self.c.router_delay)
        for child in children:
            self.clock.process(self._packet(task, unit, child, packet, gone, slot))

    def _arrive(self, task: int, unit: int, hop: int) -> None:
        """A packet has left its last channel; the message is there with its last packet."""
        children = self._next_hops(hop)
        if children and self.a.hops[children[0], SERVER] < self.c.n_channels:
            return
        event = int(self.a.hops[children[0] if children else hop, EVENT])
        at = event - self.event0, unit
        if self.packets_left[at] == 0:
            self.packets_left[at] = self.a.n_packets[task]
        self.packets_left[at] -= 1
        if self.packets_left[at] == 0:
            self.eject[at] = self.clock.now
            if children:
                self.clock.process(self._write(task, unit, children[0]))
            else:
                self._happened(event, unit)

    # --- small things ---------------------------------------------------------------------------

    def _next_hops(self, hop: int) -> list[int]:
        first = int(self.a.hops[hop, CHILD])
        return list(range(first, first + int(self.a.hops[hop, N_CHILDREN])))

    def _inject(self, hop: int, unit: int, time: float) -> None:
        span = slice(self.a.hops[hop, FIRST_EVENT], self.a.hops[hop, LAST_EVENT])
        self.first[self.a.hop_events[span] - self.event0, unit] = time

    def _key(self, task: int, unit: int) -> np.uint64:
        key: np.uint64 = np.uint64(
            instance_key(self.c.task_key, self.batch, int(self.a.noise_id[task]), unit)
        )
        return key

    def _drift(self, server: int) -> float:
        return drift_factor(
            server, self.clock.now, self.c.drift_key, self.c.drift, self.c.drift_correlation,
            self.c.drift_window, self.components.windows, self.components.levels,
        )  # fmt: skip

    def _count(
        self, server: int, start: float, finish: float, release: float, hop: int, unit: int
    ) -> None:
        """Sums for the timing, and the exposure of the server's faults."""
        parts, speeds = self.components, self.speeds
        parts.sums[server, BUSY] += finish - start
        parts.sums[server, HELD] += release - start
        parts.sums[server, SERVICES] += 1
        if hop >= 0:
            self.hop_cycles[hop - self.hop0, unit] += finish - start
        span = slice(speeds.server_fault_offsets[server], speeds.server_fault_offsets[server + 1])
        for fault in speeds.server_faults[span]:
            ends = int(speeds.fault_offsets[fault]), int(speeds.fault_offsets[fault + 1])
            if not overlaps(start, finish, speeds.fault_times, speeds.fault_slowdowns, *ends):
                continue
            if hop < 0 or (hop, unit, fault) not in self.seen:
                self.seen.add((hop, unit, fault))
                parts.exposure[fault] += 1
