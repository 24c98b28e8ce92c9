"""The program: the static task graph that the chip executes, one period of it stored once.

A period is one layer group for one batch unit. A task instance is (batch, task, unit); groups of a
batch run one after another with a barrier between them, units of a batch overlap. Everything is
numpy arrays over tasks, events and dependencies, so that engines need no object per task (design.md
sections 4 and 5).

A task ends in one event, but a TRANSFER or DRAM_READ ends in one event a destination: each copy of
a multicast has its own ejection time. Event e of task t is `event_offsets[t] + j`.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError


class TaskKind(enum.IntEnum):
    """What a task occupies."""

    COMPUTE = 0
    """The compute unit of `core`, for work_macs / speed."""
    TRANSFER = 1
    """The channels from `core` to each destination core."""
    DRAM_READ = 2
    """DRAM port `port`, then the channels from its router to each destination core."""
    DRAM_WRITE = 3
    """The channels from `core` to the port's router, then DRAM port `port`."""
    PROBE = 4
    """The compute unit of `core`, for `work_macs` cycles, exactly (no noise)."""


class Role(enum.IntEnum):
    """Which tensor a message carries."""

    ACTIVATION = 0
    WEIGHT = 1
    INPUT = 2
    """Read from DRAM: enters the graph, or was written by an earlier group."""
    OUTPUT = 3
    """Written to DRAM for a later group or the outside."""
    TRACE = 4
    """The recorder's own data on its way to DRAM."""


@dataclass(frozen=True, eq=False)
class Program:
    """Tasks and dependencies of every layer group for one batch unit, and how often they repeat.

    Attributes:
        chip: The chip it was lowered for.
        model: Name of the model.
        operator_names: Name of each operator; `op` indexes it.
        graph_fingerprint: Fingerprint of the operator graph.
        n_inferences: Samples to run.
        units_per_batch: Units of a full batch; the last batch may have fewer.
        samples_per_unit: Samples of a unit.
        group_offsets: (n_groups + 1,) group g has tasks [group_offsets[g], group_offsets[g + 1]).
        kind: (n_tasks,) TaskKind.
        op: (n_tasks,) operator that the task computes, or whose tensor the message belongs to: the
            producer for activations and outputs, the reader for weights and inputs.
        core: (n_tasks,) core of a COMPUTE or PROBE, source of a TRANSFER or DRAM_WRITE, else -1.
        port: (n_tasks,) DRAM port of a DRAM_READ or DRAM_WRITE, else -1.
        work_macs: (n_tasks,) work of a COMPUTE in MAC equivalents (MACs / utilisation + vector
            operations at their own rate); cycles of a PROBE; else 0.
        message_bytes: (n_tasks,) bytes of a message, else 0.
        role: (n_tasks,) Role of a message, else 0.
        once: (n_tasks,) True for tasks that run in the first unit of each batch only (weights).
        dst_offsets: (n_tasks + 1,) destinations of task t are dst_cores[dst_offsets[t]:...].
        dst_cores: Destination cores of TRANSFERs and DRAM_READs.
        dep_offsets: (n_tasks + 1,) what task t waits for is dep_events[dep_offsets[t]:...].
        dep_events: Event ids, of the same group.
        dep_lags: Unit u of the task waits for unit u - lag of the event (not at all if that is
            negative); lag >= 1 is a credit. An event of a `once` task is that of the batch's first
            unit, whatever the lag.
        recorded: (n_events,) whether the event leaves a record in the trace.
    """

    chip: ChipConfig
    model: str
    operator_names: tuple[str, ...]
    graph_fingerprint: str
    n_inferences: int
    units_per_batch: int
    samples_per_unit: int
    group_offsets: NDArray[np.int64]
    kind: NDArray[np.uint8]
    op: NDArray[np.int32]
    core: NDArray[np.int32]
    port: NDArray[np.int32]
    work_macs: NDArray[np.float64]
    message_bytes: NDArray[np.float64]
    role: NDArray[np.uint8]
    once: NDArray[np.bool_]
    dst_offsets: NDArray[np.int64]
    dst_cores: NDArray[np.int32]
    dep_offsets: NDArray[np.int64]
    dep_events: NDArray[np.int64]
    dep_lags: NDArray[np.int32]
    recorded: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.n_inferences < 1 or self.units_per_batch < 1 or self.samples_per_unit < 1:
            raise SlowpokeError(
                f"{self.n_inferences} inferences in batches of {self.units_per_batch} units x "
                f"{self.samples_per_unit} samples: all are whole numbers >= 1"
            )
        n = self.n_tasks
        per_task = (self.op, self.core, self.port, self.work_macs, self.message_bytes, self.role,
                    self.once)  # fmt: skip
        if any(len(array) != n for array in per_task) or len(self.recorded) != self.n_events:
            raise SlowpokeError("program: arrays over tasks or events differ in length")
        if self.dst_offsets[-1] != len(self.dst_cores) or self.dep_offsets[-1] != len(
            self.dep_events
        ):
            raise SlowpokeError("program: offsets do not end at the length of what they index")
        if np.any(self.work_macs < 0) or not np.all(np.isfinite(self.work_macs)):
            raise SlowpokeError("program: work is finite and >= 0")
        if np.any(self.message_bytes < 0) or not np.all(np.isfinite(self.message_bytes)):
            raise SlowpokeError("program: messages have a finite size >= 0 bytes")
        owner = np.repeat(np.arange(n), np.diff(self.dep_offsets))
        if len(self.dep_events):
            if self.dep_events.min() < 0 or self.dep_events.max() >= self.n_events:
                raise SlowpokeError("program: a dependency names an event that does not exist")
            groups = self.task_group
            if np.any(groups[self.event_task[self.dep_events]] != groups[owner]):
                raise SlowpokeError("program: a dependency crosses a group's barrier")
        if np.any(self.dep_lags < 0):
            raise SlowpokeError("program: a dependency's lag is >= 0 units")

    @property
    def n_tasks(self) -> int:
        """Tasks of one period of every group."""
        return len(self.kind)

    @property
    def n_groups(self) -> int:
        """Number of layer groups."""
        return len(self.group_offsets) - 1

    @cached_property
    def event_offsets(self) -> NDArray[np.int64]:
        """(n_tasks + 1,) events of task t are [event_offsets[t], event_offsets[t + 1])."""
        n_events = np.maximum(np.diff(self.dst_offsets), 1)
        return np.concatenate([[0], np.cumsum(n_events)]).astype(np.int64)

    @property
    def n_events(self) -> int:
        """Events of one period of every group."""
        return int(np.maximum(np.diff(self.dst_offsets), 1).sum())

    @cached_property
    def event_task(self) -> NDArray[np.int64]:
        """(n_events,) task of each event."""
        return np.repeat(np.arange(self.n_tasks), np.diff(self.event_offsets))

    @cached_property
    def task_group(self) -> NDArray[np.int32]:
        """(n_tasks,) layer group of each task."""
        return np.repeat(
            np.arange(self.n_groups, dtype=np.int32), np.diff(self.group_offsets)
        ).astype(np.int32)

    @cached_property
    def event_src(self) -> NDArray[np.int32]:
        """(n_events,) source of a message (core, or -1 - port), core of a COMPUTE or PROBE."""
        task = self.event_task
        read = self.kind[task] == TaskKind.DRAM_READ
        return np.where(read, -1 - self.port[task], self.core[task]).astype(np.int32)

    @cached_property
    def event_dst(self) -> NDArray[np.int32]:
        """(n_events,) destination of a message (core, or -1 - port), core of a COMPUTE or PROBE."""
        task = self.event_task
        result = np.where(
            self.kind[task] == TaskKind.DRAM_WRITE, -1 - self.port[task], self.core[task]
        ).astype(np.int32)
        n_dst = np.diff(self.dst_offsets)
        result[n_dst[task] > 0] = self.dst_cores
        return result

    @cached_property
    def event_recorder(self) -> NDArray[np.int32]:
        """(n_events,) core that stores the record: receiver, or core at the port's router."""
        ports = np.array(self.chip.dram_ports, dtype=np.int32)
        dst = self.event_dst
        return np.where(dst >= 0, dst, ports[np.clip(-1 - dst, 0, len(ports) - 1)]).astype(np.int32)

    @property
    def total_units(self) -> int:
        """Batch units of the whole run."""
        return -(-self.n_inferences // self.samples_per_unit)

    @property
    def n_batches(self) -> int:
        """Batches of the whole run; the last may have fewer units."""
        return -(-self.total_units // self.units_per_batch)

    def units_in_batch(self, batch: int) -> int:
        """Units of a batch."""
        return min(self.units_per_batch, self.total_units - batch * self.units_per_batch)

    def with_inferences(self, inferences: int) -> Program:
        """The same tasks for another number of samples."""
        return replace(self, n_inferences=inferences)

    @property
    def n_task_instances(self) -> int:
        """Tasks that a whole run executes."""
        n_once = int(self.once.sum())
        return self.n_batches * n_once + self.total_units * (self.n_tasks - n_once)

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits that change when anything that determines a run changes."""
        digest = hashlib.sha256(self.chip.model_dump_json().encode())
        digest.update(
            repr(
                (self.graph_fingerprint, self.n_inferences, self.units_per_batch,
                 self.samples_per_unit)
            ).encode()
        )  # fmt: skip
        for array in (
            self.group_offsets, self.kind, self.op, self.core, self.port, self.work_macs,
            self.message_bytes, self.role, self.once, self.dst_offsets, self.dst_cores,
            self.dep_offsets, self.dep_events, self.dep_lags, self.recorded,
        ):  # fmt: skip
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def __str__(self) -> str:
        return (
            f"{self.model}: {self.n_groups} groups, {self.n_tasks} tasks a unit, "
            f"{self.n_batches} batches, {self.n_task_instances} task instances"
        )
