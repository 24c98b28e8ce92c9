"""Microscope: follow abnormal neighbours from the last operators upstream (Lin, Chen, Zheng, ICSOC
2018), with the dependency graph of a program on a chip in place of services.

`microscope` searches depth first and ranks what has no abnormal cause by its correlation with the
latency that users see, as CIRCA's re-implementation does; `microscope-rw` ranks by a random walk,
as SLOTH IV-A says of its modified Microscope.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.program import Program, TaskKind
from slowpoke_tracer.baselines.events import Events, events_of, raw_trace_bytes
from slowpoke_tracer.detect.observations import recorded_alike
from slowpoke_tracer.detect.routes import path_matrix
from slowpoke_tracer.detector import Context, Evidence
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.remembered import remembered
from slowpoke_tracer.suspects import scored_diagnosis


@dataclass(frozen=True, slots=True)
class MicroscopeDetector:
    """Depth-first search over abnormal places, ranked by correlation or by a random walk.

    Attributes:
        threshold: Standard deviations from the healthy windows that make a place abnormal; 3.
        baseline_share: Share of the windows, from the first, that count as healthy where no profile
            is given; from no readable source.
        relative_floor: Smallest standard deviation over the mean, since few windows estimate it
            badly; ours.
        min_windows: Windows that a correlation needs; with fewer, candidates are ordered by z;
            ours.
        walk: Rank by random walk instead of correlation.
        backward: rho, weight of a step downstream; 0.5 (CIRCA).
        steps_per_node: Length of the walk; 10 (CIRCA).
        top: Candidates that are reported at most; the original hands all of them to an operator.
    """

    threshold: float = 3.0
    baseline_share: float = 0.25
    relative_floor: float = 0.05
    min_windows: int = 8
    walk: bool = False
    backward: float = 0.5
    steps_per_node: int = 10
    top: int = 1

    @property
    def name(self) -> str:
        """Name in tables."""
        return "microscope-rw" if self.walk else "microscope"

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """Score: |correlation| or visits of the walk, of abnormal places without abnormal cause."""
        events = events_of(evidence, context.program)
        metric = events.window_metrics()
        if context.profile is None:
            first = max(2, int(self.baseline_share * len(metric)))
            z = peak_z(metric, metric[:first], self.relative_floor)
            how = f"the first {first} windows"
        else:
            alike = recorded_alike(evidence, context.profile, context.program)
            z = peak_z(
                events_of(alike, context.program).window_metrics(),
                events_of(context.profile, context.program).window_metrics(),
                self.relative_floor,
            )
            how = "a healthy profile"
        covered = [i for i in range(len(z)) if np.any(np.isfinite(metric[:, i]))]
        upstream = upstream_places(events)
        abnormal = z > self.threshold
        sinks = sink_places(events)
        candidates = root_causes(abnormal, upstream, sinks)
        relation = self._correlation(metric, events.window_latency())
        if relation is None:
            relation = np.where(np.isfinite(z), np.maximum(z, 0.0), 0.0)
            relation = relation / max(float(relation.max(initial=0.0)), 1e-12)
            how += "; too few windows to correlate, ordered by z"
        if self.walk:
            rank = visits(relation, upstream, sinks, self.backward, self.steps_per_node)
        else:
            rank = relation
        score = np.zeros(len(z))
        # candidates first, in the order of their rank; the rest keep theirs below
        top = max(float(rank.max(initial=0.0)), 1e-12)
        score[:] = 0.5 * rank / top
        score[candidates] = 0.5 + 0.5 * rank[candidates] / top
        scores = {events.places[i]: float(score[i]) for i in covered}
        return scored_diagnosis(
            scores, 0.5 - 1e-9 if len(candidates) else 1.0, scores, context.chip,
            f"{self.name}: against {how}, from the {events.source}",
            top=min(self.top, len(candidates)) if len(candidates) else None,
        )  # fmt: skip

    def _correlation(
        self, metric: NDArray[np.float64], latency: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """(n_places,) |Pearson| with the latency of the window; None with too few windows."""
        if len(latency) < self.min_windows:
            return None
        result = np.zeros(metric.shape[1])
        for i in range(metric.shape[1]):
            both = np.isfinite(metric[:, i]) & np.isfinite(latency)
            a, b = metric[both, i], latency[both]
            if len(a) >= self.min_windows and a.std() > 0 and b.std() > 0:
                result[i] = abs(np.corrcoef(a, b)[0, 1])
        return result

    def storage_bytes(self, program: Program) -> float:
        """Bytes on the core that keeps most: the full trace, from which it builds its graph."""
        return raw_trace_bytes(program)


def peak_z(
    metric: NDArray[np.float64], reference: NDArray[np.float64], relative_floor: float
) -> NDArray[np.float64]:
    """(n_places,) the highest window of each place, in standard deviations of its reference."""
    with warnings.catch_warnings():
        # a place without events has no mean: NaN, as wanted
        warnings.simplefilter("ignore", RuntimeWarning)
        mean, sd = np.nanmean(reference, axis=0), np.nanstd(reference, axis=0)
        peak = np.nanmax(metric, axis=0)
    result: NDArray[np.float64] = (peak - mean) / np.maximum(sd, relative_floor * mean)
    return result


@remembered
def upstream_places(events: Events) -> list[NDArray[np.int64]]:
    """What each place waits for: a core for the links into it, a link for what feeds it.

    A message makes a chain: its source core, the links of its path, its destination core.
    """
    chip = events.program.chip
    n_ports = len(chip.dram_ports)
    n_ends = n_ports + chip.n_cores
    table, used = events.transfers.table, np.unique(events.transfers.pattern)
    src, dst = (table[name][used].astype(np.int64) for name in ("src", "dst"))
    ends = np.unique((src + n_ports) * n_ends + dst + n_ports)
    src, dst = ends // n_ends - n_ports, ends % n_ends - n_ports
    pairs: set[tuple[int, int]] = set()
    paths = path_matrix(src, dst, chip)
    on_path = (chip.n_cores + events.physical_of[paths.indices]).tolist()
    for i, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        links = on_path[paths.indptr[i] : paths.indptr[i + 1]]
        chain = [a] * (a >= 0) + links + [b] * (b >= 0)
        pairs.update(zip(chain[1:], chain[:-1], strict=True))
    upstream: list[list[int]] = [[] for _ in events.places]
    for here, before in sorted(pairs):
        if here != before:
            upstream[here].append(before)
    return [np.array(part, dtype=np.int64) for part in upstream]


def sink_places(events: Events) -> NDArray[np.int64]:
    """Cores that end a layer group: where a user's request waits. All cores if none writes."""
    program = events.program
    writers = np.unique(program.core[program.kind == TaskKind.DRAM_WRITE])
    return (writers if len(writers) else np.unique(events.core)).astype(np.int64)


def root_causes(
    abnormal: NDArray[np.bool_], upstream: list[NDArray[np.int64]], sinks: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Abnormal places that the search reaches and that have no abnormal place upstream.

    Two places that are upstream of each other are both kept when nothing else explains them. The
    search starts at abnormal sinks; where none is, at every abnormal place.
    """
    start = [int(i) for i in sinks if abnormal[i]] or np.flatnonzero(abnormal).tolist()
    visited: set[int] = set()
    found: list[int] = []
    stack = start[::-1]
    while stack:
        here = stack.pop()
        if here in visited:
            continue
        visited.add(here)
        causes = [int(i) for i in upstream[here] if abnormal[i]]
        # in a cycle of two, neither is the other's cause
        if not [i for i in causes if here not in upstream[i]]:
            found.append(here)
        stack.extend(causes[::-1])
    return np.array(sorted(found), dtype=np.int64)


def visits(
    relation: NDArray[np.float64],
    upstream: list[NDArray[np.int64]],
    sinks: NDArray[np.int64],
    backward: float,
    steps_per_node: int,
) -> NDArray[np.float64]:
    """(n_places,) expected share of the steps of a walk from the sinks, exactly, without draws.

    From a place the walk goes upstream in proportion to the correlation there, downstream with
    `backward` times that, and stays with what its own correlation exceeds its neighbours' by.
    """
    n = len(relation)
    step = np.zeros((n, n))
    for here, before in enumerate(upstream):
        step[here, before] += relation[before]
        step[before, here] += backward * relation[here]
    for here in range(n):
        others = upstream[here]
        step[here, here] = max(0.0, relation[here] - relation[others].max(initial=0.0))
    total = step.sum(axis=1)
    stuck = total <= 0
    step[stuck] = np.eye(n)[stuck]
    step /= step.sum(axis=1, keepdims=True)
    where = np.zeros(n)
    where[sinks] = 1.0 / len(sinks)
    count = np.zeros(n)
    for _ in range(steps_per_node * n):
        where = where @ step
        count += where
    share: NDArray[np.float64] = count / count.sum()
    return share
