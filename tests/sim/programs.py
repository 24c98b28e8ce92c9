"""Small programs by hand: a builder that collects tasks and gives the Program arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.program import Program, TaskKind


@dataclass(frozen=True)
class Event:
    """What later tasks wait for: an event of a task (its j-th destination)."""

    task: int
    number: int = 0


@dataclass
class Builder:
    """Collects tasks in order; `after` lists (event, lag) or events."""

    chip: ChipConfig
    units: int = 1
    inferences: int | None = None
    rows: list[tuple[int, int, int, float, float, bool, tuple[int, ...]]] = field(
        default_factory=list
    )
    deps: list[list[tuple[Event, int]]] = field(default_factory=list)
    groups: list[int] = field(default_factory=lambda: [0])
    ops: list[int] = field(default_factory=list)

    def _add(
        self,
        kind: TaskKind,
        core: int,
        port: int,
        work: float,
        size: float,
        dsts: tuple[int, ...],
        after: Sequence[Event | tuple[Event, int]],
        once: bool,
        op: int,
    ) -> Event:
        self.rows.append((int(kind), core, port, work, size, once, dsts))
        self.deps.append([a if isinstance(a, tuple) else (a, 0) for a in after])
        self.ops.append(op)
        return Event(len(self.rows) - 1)

    def compute(self, core: int, macs: float, after: Sequence[Event | tuple[Event, int]] = (),
                once: bool = False, op: int = 0) -> Event:  # fmt: skip
        return self._add(TaskKind.COMPUTE, core, -1, macs, 0.0, (), after, once, op)

    def probe(self, core: int, cycles: float, after: Sequence[Event | tuple[Event, int]] = (),
              once: bool = False, op: int = 0) -> Event:  # fmt: skip
        return self._add(TaskKind.PROBE, core, -1, cycles, 0.0, (), after, once, op)

    def send(self, src: int, dsts: int | tuple[int, ...], size: float,
             after: Sequence[Event | tuple[Event, int]] = (), once: bool = False,
             op: int = 0) -> Event:  # fmt: skip
        dsts = (dsts,) if isinstance(dsts, int) else dsts
        return self._add(TaskKind.TRANSFER, src, -1, 0.0, size, dsts, after, once, op)

    def read(self, port: int, dsts: int | tuple[int, ...], size: float,
             after: Sequence[Event | tuple[Event, int]] = (), once: bool = False,
             op: int = 0) -> Event:  # fmt: skip
        dsts = (dsts,) if isinstance(dsts, int) else dsts
        return self._add(TaskKind.DRAM_READ, -1, port, 0.0, size, dsts, after, once, op)

    def write(self, core: int, port: int, size: float,
              after: Sequence[Event | tuple[Event, int]] = (), once: bool = False,
              op: int = 0) -> Event:  # fmt: skip
        return self._add(TaskKind.DRAM_WRITE, core, port, 0.0, size, (), after, once, op)

    def barrier(self) -> None:
        """What follows belongs to the next layer group."""
        self.groups.append(len(self.rows))

    def needs(self, task: Event, on: Event, lag: int) -> None:
        """A dependency on a task that is added later, such as a credit."""
        self.deps[task.task].append((on, lag))

    def program(self) -> Program:
        """The arrays."""
        kind, core, port, work, size, once, dsts = zip(*self.rows, strict=True)
        n_events = np.array([max(len(d), 1) for d in dsts])
        event_offsets = np.concatenate([[0], np.cumsum(n_events)])
        flat = [(event_offsets[e.task] + e.number, lag) for deps in self.deps for e, lag in deps]
        events, lags = zip(*flat, strict=True) if flat else ((), ())
        return Program(
            chip=self.chip,
            model="by hand",
            operator_names=tuple(f"op{i}" for i in range(max(self.ops) + 1)),
            graph_fingerprint="0" * 16,
            n_inferences=self.inferences or self.units * self.chip.samples_per_unit,
            units_per_batch=self.units,
            samples_per_unit=self.chip.samples_per_unit,
            group_offsets=np.array([*self.groups, len(self.rows)], dtype=np.int64),
            kind=np.array(kind, dtype=np.uint8),
            op=np.array(self.ops, dtype=np.int32),
            core=np.array(core, dtype=np.int32),
            port=np.array(port, dtype=np.int32),
            work_macs=np.array(work, dtype=np.float64),
            message_bytes=np.array(size, dtype=np.float64),
            role=np.zeros(len(kind), dtype=np.uint8),
            once=np.array(once, dtype=np.bool_),
            dst_offsets=np.concatenate([[0], np.cumsum([len(d) for d in dsts])]).astype(np.int64),
            dst_cores=np.array([c for d in dsts for c in d], dtype=np.int32),
            dep_offsets=np.concatenate([[0], np.cumsum([len(d) for d in self.deps])]).astype(
                np.int64
            ),
            dep_events=np.array(events, dtype=np.int64),
            dep_lags=np.array(lags, dtype=np.int32),
            recorded=np.ones(int(n_events.sum()), dtype=np.bool_),
        )
