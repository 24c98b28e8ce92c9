"""FailRank: scores that flow along the communication graph (SlowPoke section 3.4.3).

    s <- (1 - lambda) s0 + lambda sum_u w(u, v) s(u)        l <- alpha w + beta s(u) + gamma l

Their fixed points are s* = (1 - lambda) (I - lambda W')^-1 s0, which is unique since the weights
out of a node sum to at most 1, and l* = (alpha w + beta s*(u)) / (1 - gamma), which no longer holds
l0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_tracer.commgraph import CommGraph


@dataclass(frozen=True, slots=True)
class FailRankSettings:
    """The constants of FailRank.

    Attributes:
        damping: lambda. Not printed in the paper; 0.6 in the authors' public code. A victim in a
            two-core cycle outranks its clean root from 0.618 on.
        alpha: Weight of the traffic share in a link's score; 0.1 (SlowPoke section 3.4.3).
        beta: Weight of the upstream core's score; 0.3 (same).
        gamma: Weight of the link's previous score; 0.6 (same).
        tolerance: Largest change that counts as converged; not printed.
        max_iterations: Where to stop at the latest; not printed.
        link_updates: How often the link rule is applied: None for until convergence, as printed;
            the authors' code applies it once, after the nodes have converged.
        restart_links: l <- alpha w + beta s(u) + gamma l0 in place of the printed rule, whose fixed
            point has forgotten what link detection said.
    """

    damping: float = 0.6
    alpha: float = 0.1
    beta: float = 0.3
    gamma: float = 0.6
    tolerance: float = 1e-9
    max_iterations: int = 1000
    link_updates: int | None = None
    restart_links: bool = False

    def __post_init__(self) -> None:
        if not (0 <= self.damping < 1 and 0 <= self.gamma < 1):
            raise SlowpokeError(
                f"FailRank: lambda {self.damping} and gamma {self.gamma} must lie in [0, 1) to "
                "converge; the paper has gamma 0.6, the authors' code lambda 0.6"
            )
        if not (self.tolerance > 0 and self.max_iterations >= 1 and (self.link_updates or 0) >= 0):
            raise SlowpokeError(
                "FailRank: tolerance > 0, at least one iteration, link updates >= 0"
            )


@dataclass(frozen=True, eq=False)
class FailRankResult:
    """Scores after the iteration.

    Attributes:
        node_scores: (n_nodes,).
        edge_scores: (n_edges,).
        n_iterations: Rounds until both stood still.
        converged: Whether they did.
    """

    node_scores: NDArray[np.float64]
    edge_scores: NDArray[np.float64]
    n_iterations: int
    converged: bool


def failrank(
    graph: CommGraph,
    node_start: NDArray[np.float64],
    edge_start: NDArray[np.float64],
    settings: FailRankSettings = FailRankSettings(),
) -> FailRankResult:
    """Iterate both rules from the scores of core and link detection.

    Args:
        graph: Edges and weights.
        node_start: (n_nodes,) s0 in [0, 1]; also the restart.
        edge_start: (n_edges,) l0 in [0, 1].
        settings: Constants.

    Cost: n_edges a round; about ln(tolerance) / ln(lambda) rounds.
    """
    c = settings
    s, edge = node_start.astype(np.float64), edge_start.astype(np.float64)
    s_before_links = c.link_updates is not None
    iteration, converged = 0, False

    def updated(edge: NDArray[np.float64]) -> NDArray[np.float64]:
        kept = edge_start if c.restart_links else edge
        return np.asarray(c.alpha * graph.weight + c.beta * s[graph.src] + c.gamma * kept)

    while iteration < c.max_iterations and not converged:
        iteration += 1
        flow = np.bincount(graph.dst, graph.weight * s[graph.src], minlength=graph.n_nodes)
        new = (1.0 - c.damping) * node_start + c.damping * flow
        change = float(np.max(np.abs(new - s), initial=0.0))
        if not s_before_links:
            new_edge = updated(edge)
            change = max(change, float(np.max(np.abs(new_edge - edge), initial=0.0)))
            edge = new_edge
        s = new
        converged = change <= c.tolerance
    for _ in range(c.link_updates or 0):
        edge = updated(edge)
    return FailRankResult(s, edge, iteration, converged)


def softmax_within(
    scores: NDArray[np.float64], level: NDArray[np.int64], sharpness: float
) -> NDArray[np.float64]:
    """(n,) softmax of sharpness * score within each level; the entries of a level sum to 1.

    >>> softmax_within(np.array([0.0, 0.0, 5.0]), np.array([0, 0, 1]), 1.0).tolist()
    [0.5, 0.5, 1.0]
    """
    if not len(scores):
        return np.zeros(0)
    size = int(level.max()) + 1
    top = np.full(size, -np.inf)
    np.maximum.at(top, level, sharpness * scores)
    e = np.exp(sharpness * scores - top[level])
    result: NDArray[np.float64] = e / np.bincount(level, e, minlength=size)[level]
    return result
