"""The campaign: tasks through an executor into a store, resumable at any moment."""

from __future__ import annotations

import concurrent.futures as cf
import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_tracer.detector import Detector
from torch_slowpoke.evaluation.code_version import code_hash, versions
from torch_slowpoke.evaluation.datasets import Dataset, streams
from torch_slowpoke.evaluation.store import Store
from torch_slowpoke.evaluation.task import Row, Task, execute, home_workload, prepare
from torch_slowpoke.evaluation.workloads import Workload

FLUSH_SECONDS = 5.0
"""Rows wait at most so long for the disk: what a kill -9 costs."""
FLUSH_TASKS = 64
ORPHAN_SECONDS = 1.0
"""How often a worker looks whether the campaign's process still lives."""
MAX_POOLS = 5
"""Process pools that may break one after another without a single result."""

Progress = Callable[[int, int], None]
"""Called with (tasks done, tasks in all); done counts those of earlier sessions too."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """Which tasks are to be done.

    Attributes:
        workloads: What runs.
        dataset: Which faults and negatives.
        detectors: Who judges; all see the same runs.
        evidence: `sketch`, `trace` or both.
        positives: Faulty runs of each workload; None for the data set's own number.
        negatives: Runs without a fault, likewise.
        split: calibration, tuning or test.
        seed: Of every case.
    """

    workloads: tuple[Workload, ...]
    dataset: Dataset
    detectors: tuple[Detector, ...]
    evidence: tuple[str, ...] = ("sketch", "trace")
    positives: int | None = None
    negatives: int | None = None
    split: str = "test"
    seed: int = 0

    def tasks(self) -> list[Task]:
        """Every task, workload by workload.

        Raises:
            SlowpokeError: Nothing to do, or a workload, detector or split that cannot be used.
        """
        code = code_hash()
        tasks = [
            Task(workload, self.dataset, case, self.detectors, self.evidence, self.split,
                 self.seed, code)
            for workload in self.workloads
            for case in self.dataset.cases(self.positives, self.negatives)
        ]  # fmt: skip
        if not tasks or not self.detectors or not self.evidence:
            raise SlowpokeError(
                "a campaign needs at least one workload, case, detector and kind of evidence"
            )
        if len({task.id for task in tasks}) != len(tasks):
            raise SlowpokeError("the campaign names a workload twice; name each once")
        streams(self.dataset.name, self.split, tasks[0].case, 0, self.seed)
        return tasks

    def settings(self) -> dict[str, Any]:
        """What identifies the campaign in its folder, as JSON can hold it."""
        return {
            "workloads": [repr(workload.key()) for workload in self.workloads],
            "labels": [workload.label for workload in self.workloads],
            "dataset": repr(self.dataset),
            "detectors": [detector.name for detector in self.detectors],
            "detector_settings": [repr(detector) for detector in self.detectors],
            "evidence": list(self.evidence),
            "positives": self.positives,
            "negatives": self.negatives,
            "split": self.split,
            "seed": self.seed,
            "code": code_hash(),
            "versions": versions(),
        }


@dataclass(frozen=True, slots=True)
class Tally:
    """What a session did.

    Attributes:
        n_tasks: Tasks of the campaign.
        n_before: Done in earlier sessions.
        n_done: Done in this one.
        seconds: Wall-clock time of this one, preparation included.
        prepare_seconds: Of it, making programs, baselines and compiled code.
    """

    n_tasks: int
    n_before: int
    n_done: int
    seconds: float
    prepare_seconds: float

    @property
    def cases_per_second(self) -> float:
        """Tasks done over the time that they took, preparation left out."""
        spent = self.seconds - self.prepare_seconds
        return self.n_done / spent if spent > 0 else 0.0


def run_campaign(
    campaign: Campaign,
    folder: Path,
    *,
    workers: int = 1,
    executor: cf.Executor | None = None,
    progress: Progress = lambda done, total: None,
) -> Tally:
    """Do what is not done yet of a campaign, and keep the rows in a folder.

    An interrupt (Ctrl-C) keeps what is done and goes on to the caller; a killed process loses at
    most FLUSH_SECONDS of work. Call again to resume.

    Args:
        campaign: What to do.
        folder: Of the store.
        workers: Processes; 1 works in this process.
        executor: Runs the tasks instead, such as a Dask client's `get_executor()`.
        progress: Called after each task.

    Raises:
        SlowpokeError: The folder holds another campaign, a task that cannot be done, or workers
            that die again and again.
    """
    if workers < 1:
        raise SlowpokeError(f"{workers} workers: at least one process is needed")
    began = time.perf_counter()
    tasks = campaign.tasks()
    with Store(folder, campaign.settings()) as store:
        left = [task for task in tasks if task.id not in store.done]
        n_before = len(tasks) - len(left)
        keeper = _Keeper(store, len(tasks), n_before, progress)
        progress(n_before, len(tasks))
        prepared = time.perf_counter()
        try:
            if left and executor is not None:
                prepared = _submitted(left, executor, keeper)
            elif left and workers > 1:
                prepared = _pooled(left, workers, keeper)
            else:
                for home, detectors in _homes(left):
                    prepare(home, detectors)
                prepared = time.perf_counter()
                for task in left:
                    keeper.keep(execute(task))
        finally:
            keeper.flush()
    now = time.perf_counter()
    return Tally(len(tasks), n_before, keeper.n_done - n_before, now - began, prepared - began)


class _Keeper:
    """Collects rows and hands them to the store in parts."""

    def __init__(self, store: Store, n_tasks: int, n_done: int, progress: Progress) -> None:
        self.n_done = n_done
        self._store, self._n_tasks, self._progress = store, n_tasks, progress
        self._rows: list[Row] = []
        self._n_waiting = 0
        self._flushed = time.monotonic()

    def keep(self, rows: Sequence[Row]) -> None:
        """Take the rows of one task."""
        self._rows += rows
        self._n_waiting += 1
        self.n_done += 1
        late = time.monotonic() - self._flushed > FLUSH_SECONDS
        if late or self._n_waiting >= FLUSH_TASKS:
            self.flush()
        self._progress(self.n_done, self._n_tasks)

    def flush(self) -> None:
        """Put what was taken on disk."""
        rows, self._rows, self._n_waiting = self._rows, [], 0
        self._store.add(rows)
        self._flushed = time.monotonic()


def _pooled(tasks: list[Task], workers: int, keeper: _Keeper) -> float:
    """Through processes of this machine; a pool whose worker died is replaced."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # read by the workers: their threads would only compete
    left = {task.id: task for task in tasks}
    prepared, n_broken = None, 0
    while left:
        before = len(left)
        try:
            with _pool(workers) as pool:
                at = _submitted(list(left.values()), pool, keeper, left)
                prepared = prepared or at
        except cf.BrokenExecutor:
            n_broken = n_broken + 1 if len(left) == before else 0
            if n_broken >= MAX_POOLS:
                raise SlowpokeError(
                    f"worker processes died {n_broken} times in a row; give fewer --workers "
                    "(memory) and resume"
                ) from None
    return prepared or time.perf_counter()


@contextlib.contextmanager
def _pool(workers: int) -> Iterator[cf.ProcessPoolExecutor]:
    """Fresh processes (spawned: threads of this one would not survive a fork)."""
    context = multiprocessing.get_context("spawn")
    pool = cf.ProcessPoolExecutor(
        workers, context, initializer=_begin_work, initargs=(os.getpid(),)
    )
    try:
        yield pool
    except BaseException:
        # nobody waits for minutes after Ctrl-C: what is half done is done again on resuming
        for process in (getattr(pool, "_processes", None) or {}).values():
            process.terminate()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def _begin_work(parent: int) -> None:
    """Leave interrupts to the parent, and do not outlive it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(ORPHAN_SECONDS)
    os._exit(1)


def _submitted(
    tasks: list[Task],
    executor: cf.Executor,
    keeper: _Keeper,
    left: dict[str, Task] | None = None,
) -> float:
    """Through an executor, a window of tasks at a time; returns when preparation was over.

    One process makes what a workload needs, the others find it in the cache; whoever is idle while
    the last of it is made begins with tasks whose workload is ready.
    """
    prepared = time.perf_counter()
    of_home: dict[Workload, list[Task]] = {}
    for task in tasks:
        of_home.setdefault(home_workload(task), []).append(task)
    making: dict[cf.Future[None], Workload] = {
        executor.submit(prepare, *home): home[0] for home in _homes(tasks)
    }
    waiting: deque[Task] = deque()
    running: dict[cf.Future[list[Row]], Task] = {}
    width = 2 * max(getattr(executor, "_max_workers", 0) or (os.cpu_count() or 1), 8)
    try:
        while making or waiting or running:
            while waiting and len(running) < width:
                task = waiting.popleft()
                running[executor.submit(execute, task)] = task
            everything: list[cf.Future[Any]] = [*making, *running]
            finished = cf.wait(everything, return_when=cf.FIRST_COMPLETED).done
            # what succeeded is kept before what failed is told
            for future in sorted(finished, key=lambda one: one.exception() is not None):
                if future in making:
                    future.result()
                    waiting.extend(of_home[making.pop(future)])
                    prepared = time.perf_counter()
                else:
                    task = running.pop(future)
                    keeper.keep(future.result())
                    if left is not None:
                        left.pop(task.id)
    except BaseException:
        begun: list[cf.Future[Any]] = [*making, *running]
        for future in begun:
            future.cancel()
        raise
    return prepared


def _homes(tasks: Sequence[Task]) -> list[tuple[Workload, tuple[Detector, ...]]]:
    """Each workload or variant that the tasks need, once, with who will judge it.

    The models themselves first: variants find their graphs in the cache.
    """
    homes = {home_workload(task): task.detectors for task in tasks}
    return sorted(homes.items(), key=lambda home: home[0].variant)
