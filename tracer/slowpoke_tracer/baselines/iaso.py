"""IASO: peers' timeouts become scores by additive increase and multiplicative decrease, and scores
that leave the majority's cluster are fail-slow (Panda et al., USENIX ATC 2019).

The original could not be read in full: the skeleton is certain, the constants are marked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.places import Core, Place
from slowpoke_mapping.program import Program
from slowpoke_tracer.baselines.events import Events, events_of, raw_trace_bytes
from slowpoke_tracer.baselines.learn import sklearn_module
from slowpoke_tracer.detect.routes import numbered
from slowpoke_tracer.detector import Context, Evidence
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.suspects import scored_diagnosis


@dataclass(frozen=True, slots=True)
class IasoDetector:
    """Watches cores only: "execution time violations as timeout signals" (SLOTH IV-A).

    Attributes:
        timeout: Multiple of the peers' median time per work in the same operator that counts as a
            timeout; from no readable source.
        increase: Added to a core's score in a stage with a timeout; from no readable source. Scores
            run from 0 to 100.
        decrease: Factor of the score in a stage without one; from no readable source.
        eps: DBSCAN's radius on scores; from no readable source.
        min_score: A core outside the majority's cluster is reported above it, so that quiet chips
            stay quiet; from no readable source.
    """

    timeout: float = 3.0
    increase: float = 5.0
    decrease: float = 0.5
    eps: float = 5.0
    min_score: float = 20.0
    name: str = "iaso"

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """Score of a core: the highest its AIMD score got while outside the majority's cluster."""
        cluster = sklearn_module("cluster")
        events = events_of(evidence, context.program)
        history = aimd_scores(events, self.timeout, self.increase, self.decrease)
        present = np.unique(events.core)
        best = np.zeros(context.chip.n_cores)
        least = max(2, -(-len(present) // 2))
        # equal rows cluster equally: each once
        for row in np.unique(history[:, present], axis=0):
            if row.max(initial=0.0) <= self.min_score:
                continue
            label = cluster.DBSCAN(eps=self.eps, min_samples=least).fit_predict(row[:, None])
            ordinary = label == (np.bincount(label[label >= 0]).argmax() if label.max() >= 0 else 0)
            best[present] = np.maximum(best[present], np.where(ordinary, 0.0, row))
        scores: dict[Place, float] = {Core(int(c)): float(best[c]) for c in present}
        return scored_diagnosis(
            scores, self.min_score, scores, context.chip,
            f"iaso: timeouts at {self.timeout:g} x peers, from the {events.source}", links=False,
        )  # fmt: skip

    def storage_bytes(self, program: Program) -> float:
        """Bytes on the core that keeps most: its execution records and a score for each peer."""
        return raw_trace_bytes(program, transfers=False) + 4.0 * program.chip.n_cores


def aimd_scores(
    events: Events, timeout: float, increase: float, decrease: float
) -> NDArray[np.float64]:
    """(n_stages, n_cores) score of each core after each stage (window and layer group) of its own.

    A core that computed nothing in a stage keeps its score.
    """
    seen = events.compute
    group = seen.column("group").astype(np.int64)
    op = seen.column("op").astype(np.int64)
    # peers: the same operator in the same group, over the whole run
    n_ops = int(op.max(initial=0)) + 2  # an operator may be -1
    _, peer = numbered(group * n_ops + op + 1, (int(group.max(initial=0)) + 1) * n_ops)
    order = np.lexsort((events.core_ratio, peer))
    bounds = np.concatenate([[0], np.cumsum(np.bincount(peer))])
    middle = (bounds[:-1] + bounds[1:] - 1) // 2
    median = events.core_ratio[order][middle][peer]
    late = events.core_ratio > timeout * median
    # stages in the order in which they began
    key = seen.window * events.program.n_groups + group
    _, stage = numbered(key, events.n_windows * events.program.n_groups)
    n_stages, n_cores = int(stage.max(initial=-1)) + 1, events.program.chip.n_cores
    begun = np.full(n_stages, np.inf)
    np.minimum.at(begun, stage, seen.start_cycles)
    stage = np.argsort(np.argsort(begun, kind="stable"), kind="stable")[stage]
    there = np.zeros((n_stages, n_cores), dtype=bool)
    there[stage, events.core] = True
    timed_out = np.zeros_like(there)
    timed_out[stage[late], events.core[late]] = True
    score = np.zeros(n_cores)
    history = np.zeros((n_stages, n_cores))
    for row in range(n_stages):
        moved = np.where(timed_out[row], np.minimum(score + increase, 100.0), score * decrease)
        score = np.where(there[row], moved, score)
        history[row] = score
    return history
