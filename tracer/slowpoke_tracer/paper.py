"""The `slowpoke` preset: SL-Tracer as the paper prints it (SlowPoke section 3.4).

Core detection by peers, link detection by EM, the multi-level communication graph, FailRank with
both rules to convergence, softmax within each level. Its weaknesses are the paper's
(docs/detectors.md says which); `robust` repairs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.places import Core, Link, Place
from slowpoke_mapping.program import Program
from slowpoke_tracer.commgraph import CommGraph, communication_graph
from slowpoke_tracer.detect.cores import (
    CoreEvidence,
    StageRates,
    compare_with_peers,
    normal_probability,
    stage_rates,
)
from slowpoke_tracer.detect.links import Method, estimate, path_system
from slowpoke_tracer.detect.observations import Observations, observe
from slowpoke_tracer.detect.routes import path_matrix
from slowpoke_tracer.detector import Context, Evidence
from slowpoke_tracer.diagnosis import Diagnosis, Suspect
from slowpoke_tracer.failrank import FailRankSettings, failrank, softmax_within
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.suspects import covered_places, diagnosis_of


@dataclass(frozen=True, slots=True)
class SlowpokeSettings:
    """Every constant of the preset; where the paper prints none, it says what was chosen.

    Attributes:
        n_windows: Time windows that levels are repeated for; None for the evidence's own (a
            sketch's epochs, 8 of a trace). The paper's nodes are "a core at a specific time
            window"; how long one is, it leaves open.
        candidate_z: A core is an outlier beyond so many standard deviations below its stage's mean.
            Not printed; 3 could never fire in stages of 10 cores or fewer.
        candidate_drop: and if its rate is lower by this share of the mean ("significantly lower");
            not printed.
        min_peers: Stages with fewer cores compare nobody; in a stage of two both are equally far
            from their mean.
        link_method: `em` is what the paper names.
        endpoints: Whether A has columns for injection, ejection and DRAM ports beside links. The
            paper's has links only, which charges those services to short paths.
        link_candidate_z: A link is an outlier beyond so many standard deviations above the mean
            inverse bandwidth of the window's links. Not printed: the paper says only "abnormal".
        link_candidate_ratio: and if its inverse bandwidth is this multiple of the mean. Not
            printed; the authors' code has 5, there against a healthy run.
        em_iterations: At most; not printed.
        em_tolerance: Relative change that counts as converged; not printed.
        failrank: Constants of FailRank.
        node_sharpness: Softmax of sharpness * score over a level's cores. Not printed; 200 in the
            authors' code (at 1, the best of 16 cores gets at most 0.15).
        link_sharpness: The same over a level's physical links; their code takes 1 on scores x 100.
        softmax_over: `candidates`: those that detection flagged in the level share the
            probability, since FailRank "starts with initial fail-slow candidates and iteratively
            updates their scores"; `level`: all cores, or all links, of the level do. The text
            allows both; under `level` the converged link rule, which forgets its evidence, leaves
            the busiest link on top whatever was measured.
        threshold: A candidate whose softmax in some level exceeds it is reported. Not printed; 0.65
            in the authors' code.
    """

    n_windows: int | None = None
    candidate_z: float = 1.0
    candidate_drop: float = 0.1
    min_peers: int = 3
    link_method: Method = "em"
    endpoints: bool = True
    link_candidate_z: float = 3.0
    link_candidate_ratio: float = 5.0
    em_iterations: int = 500
    em_tolerance: float = 1e-6
    failrank: FailRankSettings = field(default_factory=FailRankSettings)
    node_sharpness: float = 200.0
    link_sharpness: float = 100.0
    softmax_over: Literal["level", "candidates"] = "candidates"
    threshold: float = 0.65


@dataclass(frozen=True, eq=False)
class LinkEvidence:
    """What link detection says, by time window and directed link.

    Attributes:
        theta: (n_windows, n_links) cycles a byte; NaN without traffic.
        probability: (n_windows, n_links) from the normal model; 0 without traffic.
        ratio: (n_windows, n_links) theta over the mean of the window's other links.
        candidate: (n_windows, n_links) whether it stands out.
        start_cycles: (n_windows, n_links) first message that crossed it.
        end_cycles: (n_windows, n_links) end of the last.
    """

    theta: NDArray[np.float64]
    probability: NDArray[np.float64]
    ratio: NDArray[np.float64]
    candidate: NDArray[np.bool_]
    start_cycles: NDArray[np.float64]
    end_cycles: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SlowpokeDetector:
    """The paper's method behind the detector protocol."""

    settings: SlowpokeSettings = field(default_factory=SlowpokeSettings)
    name: str = "slowpoke"

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """Diagnose one run; neither twin nor profile is used."""
        return slowpoke_diagnosis(evidence, context, self.settings)

    def storage_bytes(self, program: Program) -> float:
        """Bytes on the core that keeps most: its sketch, in the default configuration."""
        return sketch_bytes(program)


def sketch_bytes(program: Program) -> float:
    """Bytes of the sketch on the core whose sketch is largest, in the default configuration."""
    config = SketchConfig()
    nbytes = config.nbytes_per_core(config.patterns(program), program.chip.n_cores)
    return float(np.max(nbytes))


def slowpoke_diagnosis(
    evidence: Evidence, context: Context, settings: SlowpokeSettings = SlowpokeSettings()
) -> Diagnosis:
    """SL-Tracer as printed.

    Args:
        evidence: Sketch or trace of the run.
        context: Program and chip.
        settings: Constants.

    Cost: observations x hops for the link equations, times EM iterations; graph edges times rounds.
    """
    program, chip = context.program, context.chip
    seen = observe(evidence, program, settings.n_windows)
    rates = stage_rates(seen)
    cores = compare_with_peers(
        rates, settings.candidate_z, settings.candidate_drop, settings.min_peers
    )
    links = detect_links(seen, chip, settings)
    graph = communication_graph(program, seen.n_windows)

    node_level = rates.window * program.n_groups + rates.group
    node = node_level * chip.n_cores + rates.core
    node_start = np.zeros(graph.n_nodes)
    np.maximum.at(node_start, node, np.where(cores.candidate, cores.probability, 0.0))
    on_link = graph.link >= 0
    edge_start = np.zeros(len(graph.src))
    l0 = np.where(links.candidate, links.probability, 0.0)
    window = graph.level[on_link] // program.n_groups
    edge_start[on_link] = l0[window, graph.link[on_link]]
    result = failrank(graph, node_start, edge_start, settings.failrank)

    suspects = _core_suspects(rates, cores, node, result.node_scores, graph, settings)
    edge_scores = np.full((graph.n_levels, chip.n_links), -np.inf)
    edge_scores[graph.level[on_link], graph.link[on_link]] = result.edge_scores[on_link]
    suspects.update(_link_suspects(links, edge_scores, chip, program.n_groups, settings))
    reported = [s.place for s in suspects.values() if s.probability > settings.threshold]
    candidates = _candidates(rates, cores, links, chip)
    notes = [
        f"reports candidates whose softmax within a level exceeds {settings.threshold:g}",
        f"FailRank stood still after {result.n_iterations} rounds"
        if result.converged
        else f"FailRank had not converged after {result.n_iterations} rounds",
    ]
    return diagnosis_of(
        suspects,
        [place for place in reported if place in candidates],
        covered_places(seen, chip),
        chip,
        f"slowpoke: peer groups and {settings.link_method}, from the {seen.source}",
        tuple(notes),
    )


def detect_links(seen: Observations, chip: ChipConfig, settings: SlowpokeSettings) -> LinkEvidence:
    """Inverse bandwidths per time window, and which links stand out from the window's others.

    All messages of a window make one system: the paper groups computations by stage, but not
    messages, and a stage alone has too few of them for so many links.
    """
    transfers = seen.transfers
    shape = (seen.n_windows, chip.n_links)
    theta = np.full(shape, np.nan)
    start, end = np.full(shape, np.inf), np.full(shape, -np.inf)
    for window in range(seen.n_windows):
        here = transfers.select(transfers.window == window)
        if not len(here):
            continue
        found = estimate(
            path_system(here, chip, settings.endpoints, settings.link_method in ("em", "mlem")),
            1.0 / chip.link_bytes_per_cycle,
            settings.link_method,
            settings.em_iterations,
            settings.em_tolerance,
        )
        theta[window] = found.theta[: chip.n_links]
        src, dst = (here.column(name).astype(np.int64) for name in ("src", "dst"))
        paths = path_matrix(src, dst, chip)
        row = np.repeat(np.arange(len(here)), np.diff(paths.indptr))
        np.minimum.at(start[window], paths.indices, here.start_cycles[row])
        np.maximum.at(end[window], paths.indices, here.end_cycles[row])

    used = np.isfinite(theta)
    n = used.sum(axis=1, keepdims=True)
    value = np.where(used, theta, 0.0)
    mean = value.sum(axis=1, keepdims=True) / np.maximum(n, 1)
    square = np.where(used, value - mean, 0.0) ** 2
    sd = np.sqrt(square.sum(axis=1, keepdims=True) / np.maximum(n, 1))
    spread = used & (sd > 1e-12 * mean)
    z = np.where(spread, (value - mean) / np.where(sd > 0, sd, 1.0), 0.0)
    others = (n * mean - value) / np.maximum(n - 1, 1)
    ratio = np.where(used & (others > 0), value / np.where(others > 0, others, 1.0), np.nan)
    candidate = (
        (n >= settings.min_peers)
        & (z > settings.link_candidate_z)
        & (value > settings.link_candidate_ratio * mean)
    )
    return LinkEvidence(theta, normal_probability(z), ratio, candidate, start, end)


def _candidates(
    rates: StageRates, cores: CoreEvidence, links: LinkEvidence, chip: ChipConfig
) -> set[Place]:
    places: set[Place] = {Core(int(core)) for core in np.unique(rates.core[cores.candidate])}
    ends = chip.network.links
    for link in np.flatnonzero(links.candidate.any(axis=0)):
        places.add(Link(int(ends[link, 0]), int(ends[link, 1]), both=True))
    return places


def _core_suspects(
    rates: StageRates,
    cores: CoreEvidence,
    node: NDArray[np.int64],
    scores: NDArray[np.float64],
    graph: CommGraph,
    settings: SlowpokeSettings,
) -> dict[Place, Suspect]:
    """One suspect a core: its best level, and the span of the levels in which it stands out."""
    nodes = np.unique(node)
    flagged = np.isin(nodes, node[cores.candidate])
    pool = flagged if settings.softmax_over == "candidates" else np.ones(len(nodes), dtype=bool)
    share = np.zeros(len(nodes))
    share[pool] = softmax_within(
        scores[nodes[pool]], graph.node_level[nodes[pool]], settings.node_sharpness
    )
    of_row = np.searchsorted(nodes, node)
    suspects: dict[Place, Suspect] = {}
    for core in np.unique(rates.core):
        mine = np.flatnonzero(rates.core == core)
        out = mine[cores.candidate[mine]]
        considered = out if len(out) else mine
        best = considered[np.lexsort((scores[node[considered]], share[of_row[considered]]))[-1]]
        place = Core(int(core))
        # without a candidate the softmax is what is left over: it ranks, but never above candidates
        suspects[place] = Suspect(
            place,
            float(share[of_row[best]]) if len(out) else 0.0,
            float(scores[node[best]]),
            *(_span(cores.slowdown[out], rates.start_cycles[out], rates.end_cycles[out])),
            evidence=f"{len(out)} of {len(mine)} stages below their peers"
            + (f", by up to {cores.z[out].max():.2f} standard deviations" if len(out) else ""),
        )
    return suspects


def _link_suspects(
    links: LinkEvidence,
    scores: NDArray[np.float64],
    chip: ChipConfig,
    n_groups: int,
    settings: SlowpokeSettings,
) -> dict[Place, Suspect]:
    """One suspect a physical link: the stronger direction in its best level.

    `scores` is (n_levels, n_links); -inf where the level has no traffic on the link.
    """
    ways = np.array(
        [
            [chip.link_index(*pair) for pair in ((link.src, link.dst), (link.dst, link.src))]
            for link in chip.physical_links
        ]
    )
    pooled: NDArray[np.float64] = np.max(scores[:, ways], axis=2)
    used = np.isfinite(pooled)
    of_window: NDArray[np.bool_] = np.any(links.candidate[:, ways], axis=2)
    flagged = np.repeat(of_window, n_groups, axis=0) & used
    pool = flagged if settings.softmax_over == "candidates" else used
    share = np.zeros(pooled.shape)
    level, column = np.nonzero(pool)
    share[level, column] = softmax_within(pooled[level, column], level, settings.link_sharpness)
    observed: NDArray[np.bool_] = np.any(np.isfinite(links.theta[:, ways]), axis=2)
    suspects: dict[Place, Suspect] = {}
    for number, link in enumerate(chip.physical_links):
        if not observed[:, number].any():
            continue
        out = np.flatnonzero(flagged[:, number])
        where = links.candidate[:, ways[number]]
        suspects[link] = Suspect(
            link,
            float(share[out, number].max(initial=0.0)),
            float(max(pooled[out if len(out) else slice(None), number].max(initial=0.0), 0.0)),
            *_span(
                links.ratio[:, ways[number]][where],
                links.start_cycles[:, ways[number]][where],
                links.end_cycles[:, ways[number]][where],
            ),
            evidence=f"{int(of_window[:, number].sum())} of {int(observed[:, number].sum())} "
            "windows slower than the other links",
        )
    return suspects


def _span(
    slowdown: NDArray[np.float64], start: NDArray[np.float64], end: NDArray[np.float64]
) -> tuple[float, float, float]:
    if not len(slowdown):
        return float("nan"), float("nan"), float("nan")
    return float(np.median(slowdown)), float(start.min()), float(end.max())
