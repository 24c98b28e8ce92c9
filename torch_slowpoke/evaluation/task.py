"""A task: one case of one workload, simulated once and shown to every detector."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.program import Program
from slowpoke_mapping.scale import Scale
from slowpoke_sim.machine import Run, run
from slowpoke_tracer.detect.observations import recorded
from slowpoke_tracer.detector import Context, Detector, Evidence
from slowpoke_tracer.diagnosis import Diagnosis, Suspect
from slowpoke_tracer.monitor import OnlineDetector
from slowpoke_tracer.robust import RobustDetector
from slowpoke_tracer.trace import Trace
from torch_slowpoke.evaluation.background import with_background, without_background
from torch_slowpoke.evaluation.code_version import code_hash
from torch_slowpoke.evaluation.datasets import (
    CONGESTION,
    HARSH,
    MODIFIED,
    STALE,
    Case,
    Dataset,
    streams,
)
from torch_slowpoke.evaluation.metrics import expected_rank
from torch_slowpoke.evaluation.outcome import physical, physicals
from torch_slowpoke.evaluation.workloads import N_VARIANTS, Workload, World, world

MAX_ATTEMPTS = 100
"""Draws of a case before it is given up: nothing of the workload can be touched."""
N_RANKED = 5
"""Ranked places that a row keeps."""
CONGESTION_SHARES = (0.05, 0.4)
"""Background traffic as a share of a link, uniform between these (feasibility: 5 to 40 %)."""
STALE_SPEED = 0.9
"""Speed of the links of a chip that has aged, over its data sheet's."""
EVIDENCE = ("sketch", "trace")

Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """Everything that determines the rows of one case.

    Attributes:
        workload: What runs.
        dataset: Which generator.
        case: Which of its cases.
        detectors: Each of them sees the run; their text form must tell them apart.
        evidence: `sketch`, `trace` or both.
        split: Which random stream.
        seed: Of the campaign.
        code: Version of the code, by default of the code at hand.
    """

    workload: Workload
    dataset: Dataset
    case: Case
    detectors: tuple[Detector, ...]
    evidence: tuple[str, ...] = ("sketch",)
    split: str = "test"
    seed: int = 0
    code: str = ""

    def __post_init__(self) -> None:
        if not self.code:
            object.__setattr__(self, "code", code_hash())
        for thing in (self.dataset, *self.detectors):
            if " object at 0x" in repr(thing):
                raise SlowpokeError(
                    f"{thing!r} prints its address: a campaign names results by what made them; "
                    "make it a dataclass or give it a __repr__ with its parameters"
                )
        names = [detector.name for detector in self.detectors]
        if len(set(names)) != len(names):
            raise SlowpokeError(f"detectors {', '.join(names)}: each needs a name of its own")
        for kind in self.evidence:
            if kind not in EVIDENCE:
                raise SlowpokeError(f"evidence {kind!r} is unknown; choose sketch, trace or both")

    @property
    def id(self) -> str:
        """20 hex digits that change with anything that determines the result."""
        parts = (self.workload.key(), self.dataset, self.case, self.detectors, self.evidence,
                 self.split, self.seed, self.code)  # fmt: skip
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]

    @property
    def cluster(self) -> str:
        """The fault or negative that workloads share."""
        return f"{self.dataset.name}/{self.split}/{self.case.kind}/{self.case.index}"


@dataclass(frozen=True, eq=False)
class Observed:
    """A run that is a case, and what a deployment would know of it.

    Attributes:
        home: The workload as the detectors know it.
        trace: What the chip showed.
        run: Times and exposure.
        noise_seed: Of the run.
        n_excluded: Faults drawn before it that touched nothing.
        context: What every detector is given.
    """

    home: World
    trace: Trace
    run: Run
    noise_seed: int
    n_excluded: int
    context: Context


def execute(task: Task) -> list[Row]:
    """Simulate the case and diagnose it with every detector.

    Returns:
        One row for each detector and kind of evidence. A detector that sketches whatever it is
        given has a row for the sketch alone: the trace would give the same one again.

    Raises:
        SlowpokeError: No fault of the data set can touch the workload, or a workload is unknown.
    """
    began = time.perf_counter()
    observed = observe_case(task)
    program = observed.home.program
    sketch = recorded(observed.trace, program, observed.home.sketch)
    prepared = time.perf_counter() - began
    rows = []
    for kind in task.evidence:
        evidence: Evidence = sketch if kind == "sketch" else observed.trace
        for detector in task.detectors:
            if kind == "trace" and "sketch" in task.evidence and sketches_first(detector):
                continue
            began = time.perf_counter()
            found, reason = _diagnosed(detector, evidence, observed.context)
            seconds = time.perf_counter() - began
            rows.append(
                {
                    **_case_columns(task, observed, sketch.nbytes_per_core.max(), prepared),
                    "detector": detector.name,
                    "evidence": kind,
                    **_answer_columns(found, observed.run.faults),
                    "refused": reason,
                    "storage_bytes": _storage(detector, program, sketch.nbytes_per_core.mean()),
                    "seconds": seconds,
                }
            )
    return rows


def sketches_first(detector: Detector) -> bool:
    """Whether a trace tells the detector no more than its sketch."""
    return isinstance(detector, RobustDetector | OnlineDetector)


def observe_case(task: Task) -> Observed:
    """Simulate attempts at a case until its faults touch something."""
    home = world(home_workload(task))
    aged = Scale(link_speed=STALE_SPEED) if task.case.kind == STALE else Scale()
    for attempt in range(MAX_ATTEMPTS):
        rng, noise_seed = streams(task.dataset.name, task.split, task.case, attempt, task.seed)
        program, crowded = home.program, home.program
        faults: tuple[Fault, ...] = ()
        if task.case.positive:
            faults = task.dataset.faults(rng, home, task.case.index)
        elif task.case.kind == CONGESTION:
            crowded = _crowded(home, rng)
        done = run(crowded, faults, home.workload.noise, noise_seed, scale=aged)
        if min(done.exposure, default=1) > 0:
            break
    else:
        raise SlowpokeError(
            f"{task.workload.label}: {MAX_ATTEMPTS} draws of {task.cluster} touched nothing; "
            "choose another data set or more inferences"
        )
    assert done.trace is not None
    trace = done.trace
    if crowded is not program:
        trace = without_background(trace, program, crowded)
    # a detector's seed must not tell it the run's: it is the case's number alone
    context = context_of(home, task.case.index)
    return Observed(home, trace, done, noise_seed, attempt, context)


def home_workload(task: Task) -> Workload:
    """The workload as the detectors know it: of some negatives, a variant of the task's."""
    if task.case.kind == MODIFIED:
        # the kinds take turns in the list of negatives, the variants within their kind
        turn = task.case.index // len(task.dataset.negatives)
        return replace(task.workload, variant=1 + turn % N_VARIANTS)
    if task.case.kind == HARSH:
        return replace(task.workload, noise="harsh")
    return task.workload


def prepare(workload: Workload, detectors: tuple[Detector, ...]) -> None:
    """Make what every case of a workload needs and leave it in the cache: program, healthy runs,
    the detectors' own baselines, compiled code.
    """
    home = world(workload)
    for detector in detectors:
        _diagnosed(detector, home.profile, context_of(home, 0))


def context_of(home: World, seed: int) -> Context:
    """What every detector is told beside the evidence."""
    return Context(home.program, home.chip, home.twin, home.profile, seed)


def _crowded(home: World, rng: np.random.Generator) -> Program:
    n = home.chip.network.n_routers
    src, dst = (int(router) for router in rng.choice(n, size=2, replace=False))
    program = home.program
    work = np.bincount(program.task_group, weights=program.work_macs, minlength=program.n_groups)
    share = work / work.sum() if work.sum() > 0 else np.full(len(work), 1 / len(work))
    group_cycles = share * home.healthy_cycles / program.n_batches
    return with_background(program, src, dst, float(rng.uniform(*CONGESTION_SHARES)), group_cycles)


def _diagnosed(
    detector: Detector, evidence: Evidence, context: Context
) -> tuple[Diagnosis | None, str]:
    """The diagnosis, or why there is none. One detector's failure is no reason to lose the rest."""
    try:
        return detector.detect(evidence, context), ""
    except SlowpokeError as error:
        return None, f"refused: {error}"
    except Exception as error:
        return None, f"failed: {type(error).__name__}: {error}"


def _case_columns(task: Task, observed: Observed, sketch_bytes: float, seconds: float) -> Row:
    faults, done = observed.run.faults, observed.run
    makespan = done.timing.makespan_cycles
    return {
        "task": task.id,
        "workload": task.workload.label,
        "variant": observed.home.workload.variant,
        "dataset": task.dataset.name,
        "split": task.split,
        "kind": task.case.kind,
        "index": task.case.index,
        "cluster": task.cluster,
        "noise_seed": observed.noise_seed,
        "n_excluded": observed.n_excluded,
        "faults": [str(fault) for fault in faults],
        "truth": list(physicals(fault.place for fault in faults)),
        "exposure": [int(n) for n in done.exposure],
        "slowdown": faults[0].slowdown if faults else math.nan,
        "start_cycles": faults[0].start_cycles if faults else math.nan,
        "end_cycles": min(faults[0].end_cycles, makespan) if faults else math.nan,
        "makespan_cycles": makespan,
        "makespan_ratio": makespan / observed.home.healthy_cycles,
        "n_components": observed.home.chip.n_cores + len(observed.home.chip.physical_links),
        "n_records": observed.trace.n_records,
        "raw_bytes": int(observed.trace.raw_nbytes),
        "sketch_bytes_per_core": float(sketch_bytes),
        "probe_overhead": observed.home.probe_overhead,
        "seconds_run": seconds,
    }


def _answer_columns(found: Diagnosis | None, faults: Sequence[Fault]) -> Row:
    truth = physicals(fault.place for fault in faults)
    ranked = found.ranked if found else ()
    reported = found.reported if found else ()
    keys = [(suspect.probability, suspect.score) for suspect in ranked]
    true = [i for i, suspect in enumerate(ranked) if physical(suspect.place) in truth]
    ranks = [expected_rank(keys, i) for i in true]
    right = next((s for s in reported if physical(s.place) in truth), None)
    ambiguous = {name for s in reported for name in physicals(s.ambiguous_with)}
    return {
        "verdict": str(found.verdict) if found else "healthy",
        "reported": list(physicals(suspect.place for suspect in reported)),
        "ambiguous": sorted(ambiguous),
        "ranked": [str(suspect.place) for suspect in ranked[:N_RANKED]],
        "ranked_scores": [float(suspect.score) for suspect in ranked[:N_RANKED]],
        "rank": min(ranks, default=math.inf) if truth else math.nan,
        "max_score": max((float(s.score) for s in ranked), default=0.0),
        "healthy_probability": float(found.healthy_probability) if found else math.nan,
        "alarm_cycles": float(found.alarm_cycles) if found else math.nan,
        "not_covered": len(found.not_covered) if found else 0,
        "slowdown_estimate": _of(right, "slowdown"),
        "start_estimate": _of(right, "start_cycles"),
        "end_estimate": _of(right, "end_cycles"),
    }


def _of(suspect: Suspect | None, name: str) -> float:
    return math.nan if suspect is None else float(getattr(suspect, name))


def _storage(detector: Detector, program: Program, sketch_bytes: float) -> float:
    """Bytes a core must keep: the detector's own word, else the sketch's."""
    own = getattr(detector, "storage_bytes", None)
    return float(own(program)) if callable(own) else float(sketch_bytes)
