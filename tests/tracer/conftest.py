"""Small programs and traces that can be followed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from slowpoke_mapping.chip import ChipConfig, chip
from slowpoke_mapping.program import Program, TaskKind
from slowpoke_tracer.trace import COMPUTE_DTYPE, TRANSFER_DTYPE, Trace, TraceMeta


@dataclass
class Task:
    """One task of a hand-made program; deps are (task, destination number, lag)."""

    kind: TaskKind
    op: int = 0
    core: int = -1
    port: int = -1
    work: float = 0.0
    dsts: tuple[int, ...] = ()
    deps: tuple[tuple[int, int, int], ...] = ()
    once: bool = False
    role: int = 0
    recorded: bool = True
    size: float = field(default=0.0)


def build_program(
    groups: Sequence[Sequence[Task]],
    on: ChipConfig | None = None,
    n_inferences: int = 8,
    units_per_batch: int = 2,
) -> Program:
    """A program of the tasks of each group; task numbers in deps count over all groups."""
    tasks = [task for group in groups for task in group]
    n_events = [max(len(t.dsts), 1) for t in tasks]
    offsets = np.concatenate([[0], np.cumsum(n_events)])
    deps = [[(offsets[t] + j, lag) for t, j, lag in task.deps] for task in tasks]
    flat = [dep for part in deps for dep in part]

    def starts(sizes: list[int]) -> Any:
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def column(name: str, dtype: Any) -> Any:
        return np.array([getattr(t, name) for t in tasks], dtype=dtype)

    return Program(
        chip=on if on is not None else chip("default", topology="mesh:2x2"),
        model="hand-made",
        operator_names=tuple(f"op{i}" for i in range(1 + max((t.op for t in tasks), default=0))),
        graph_fingerprint="0" * 16,
        n_inferences=n_inferences,
        units_per_batch=units_per_batch,
        samples_per_unit=1,
        group_offsets=starts([len(group) for group in groups]),
        kind=column("kind", np.uint8),
        op=column("op", np.int32),
        core=column("core", np.int32),
        port=column("port", np.int32),
        work_macs=column("work", np.float64),
        message_bytes=column("size", np.float64),
        role=column("role", np.uint8),
        once=column("once", np.bool_),
        dst_offsets=starts([len(t.dsts) for t in tasks]),
        dst_cores=np.array([d for t in tasks for d in t.dsts], dtype=np.int32),
        dep_offsets=starts([len(part) for part in deps]),
        dep_events=np.array([event for event, _ in flat], dtype=np.int64),
        dep_lags=np.array([lag for _, lag in flat], dtype=np.int32),
        recorded=np.repeat([t.recorded for t in tasks], n_events).astype(bool),
    )


def two_groups() -> list[list[Task]]:
    """Read, compute, multicast to two cores, compute there; then a second group that writes."""
    return [
        [
            Task(TaskKind.DRAM_READ, port=0, dsts=(0,), size=512, role=1, once=True),
            Task(TaskKind.COMPUTE, core=0, work=1000, deps=((0, 0, 0),)),
            Task(TaskKind.TRANSFER, core=0, dsts=(1, 2), size=256, deps=((1, 0, 0),)),
            Task(TaskKind.COMPUTE, op=1, core=1, work=500, deps=((2, 0, 0),)),
            Task(TaskKind.COMPUTE, op=1, core=2, work=500, deps=((2, 1, 0),)),
        ],
        [
            Task(TaskKind.COMPUTE, op=2, core=3, work=800),
            Task(TaskKind.DRAM_WRITE, op=2, core=3, port=0, size=128, role=3, deps=((5, 0, 0),)),
        ],
    ]


def fake_trace(program: Program, seed: int = 0) -> Trace:
    """Every record of a run, with durations of no meaning, in order of time."""
    rng = np.random.default_rng(seed)
    compute, transfers = [], []
    now = 0.0
    for batch in range(program.n_batches):
        for group in range(program.n_groups):
            for unit in range(program.units_in_batch(batch)):
                for task in range(*program.group_offsets[group : group + 2]):
                    kind = program.kind[task]
                    if (program.once[task] and unit) or kind == TaskKind.PROBE:
                        continue
                    for event in range(*program.event_offsets[task : task + 2]):
                        if not program.recorded[event]:
                            continue
                        start = now
                        now += float(np.exp(rng.uniform(2, 9)))
                        where = (int(program.op[task]), group, batch, unit, event)
                        src, dst = int(program.event_src[event]), int(program.event_dst[event])
                        if kind == TaskKind.COMPUTE:
                            compute.append((src, *where, program.work_macs[task], start, now))
                        else:
                            row = (program.message_bytes[task], start, now, now + 5 * (dst < 0))
                            transfers.append((src, dst, *where, *row))
    meta = TraceMeta(
        program.model, program.chip.topology, program.chip.clock_hz, program.fingerprint,
        program.chip.n_cores, program.n_batches,
    )  # fmt: skip
    return Trace(np.array(compute, COMPUTE_DTYPE), np.array(transfers, TRANSFER_DTYPE), meta)


@pytest.fixture
def tasks_of_two_groups() -> list[list[Task]]:
    return two_groups()


@pytest.fixture
def program_of() -> Callable[..., Program]:
    return build_program


@pytest.fixture
def trace_of() -> Callable[..., Trace]:
    return fake_trace


@pytest.fixture
def small_program() -> Program:
    return build_program(two_groups())
