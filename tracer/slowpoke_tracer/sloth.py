"""The `sloth` preset: SL-Tracer as the public pipeline of SLOTH, the second paper, behaves.

SLOTH's text prints no formulas of its own. What differs from `slowpoke` is what its authors' public
pipeline does: cores against the nominal rate, two-sided; links by non-negative least squares over
undirected links, against a healthy run; FailRank over cores only, from normalised starts and with
traffic counted both ways; one link formula, once; a second rule that counts hits.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.places import Core, Link, Place
from slowpoke_mapping.program import Program
from slowpoke_tracer.commgraph import CommGraph, communication_graph
from slowpoke_tracer.detect.cores import StageRates, compare_with_nominal, stage_rates
from slowpoke_tracer.detect.links import PathSystem, estimate
from slowpoke_tracer.detect.observations import Observations, observe, recorded_alike
from slowpoke_tracer.detect.routes import numbered, path_matrix
from slowpoke_tracer.detector import Context, Evidence
from slowpoke_tracer.diagnosis import Diagnosis, Suspect
from slowpoke_tracer.failrank import FailRankSettings, failrank, softmax_within
from slowpoke_tracer.paper import sketch_bytes
from slowpoke_tracer.remembered import remembered
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.suspects import covered_places, diagnosis_of
from slowpoke_tracer.trace import Trace


@dataclass(frozen=True, slots=True)
class SlothSettings:
    """Every constant of the preset; "public pipeline" is its authors' released code.

    Attributes:
        n_windows: Time windows; None for the evidence's own. The public pipeline uses inferences.
        nominal_sd_share: Standard deviation of the normal model over the nominal rate; 200 / 1024
            (public pipeline).
        candidate_probability: Cores at or below it start from 0; ours, no such rule was found.
        min_mean_cycles: Shorter pieces are ignored; ours (in the public pipeline, pieces of 2 or 3
            cycles make healthy cores suspects by rounding).
        link_ratio: A link is a candidate if its inverse bandwidth exceeds this multiple of the
            healthy run's; 5 (public pipeline). No 2x fault can pass it.
        healthy_floor: Least healthy inverse bandwidth, as a share of the nominal; ours. Least
            squares gives zeros where columns are alike, and any ratio to zero is large.
        weight_traffic: 0.1, weight_ratio: 0.6, weight_node: 0.3: the one link formula (public
            pipeline: 10, 60, 30 on scores in percent).
        node_sharpness: 200 (public pipeline).
        link_sharpness: 100: 1 on scores in percent (public pipeline).
        threshold: Softmax beyond which a place is reported; 0.65 (public pipeline).
        hits_threshold: Softmax of a link's number of hits beyond which it is reported too; 0.8
            (public pipeline).
        failrank: lambda 0.6 (public pipeline).
    """

    n_windows: int | None = None
    nominal_sd_share: float = 200.0 / 1024.0
    candidate_probability: float = 0.9
    min_mean_cycles: float = 100.0
    link_ratio: float = 5.0
    healthy_floor: float = 0.5
    weight_traffic: float = 0.1
    weight_ratio: float = 0.6
    weight_node: float = 0.3
    node_sharpness: float = 200.0
    link_sharpness: float = 100.0
    threshold: float = 0.65
    hits_threshold: float = 0.8
    failrank: FailRankSettings = field(default_factory=lambda: FailRankSettings(link_updates=0))


@dataclass(frozen=True, slots=True)
class SlothDetector:
    """SLOTH's method behind the detector protocol."""

    settings: SlothSettings = field(default_factory=SlothSettings)
    name: str = "sloth"

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """Diagnose one run against the profile, else a twin's healthy replay, else the nominal."""
        return sloth_diagnosis(evidence, context, self.settings)

    def storage_bytes(self, program: Program) -> float:
        """Bytes on the core that keeps most: its sketch, in the default configuration."""
        return sketch_bytes(program)


def sloth_diagnosis(
    evidence: Evidence, context: Context, settings: SlothSettings = SlothSettings()
) -> Diagnosis:
    """SL-Tracer in SLOTH's form.

    Args:
        evidence: Sketch or trace of the run.
        context: Program and chip; a profile or a twin serves as the healthy run for links.
        settings: Constants.

    Raises:
        SlowpokeError: The profile is of another program.

    Cost: one NNLS of n_links columns a window, twice; graph edges times rounds.
    """
    program, chip = context.program, context.chip
    seen = observe(evidence, program, settings.n_windows)
    graph = communication_graph(program, seen.n_windows, symmetric=True)
    rates = stage_rates(seen, settings.min_mean_cycles)
    suspects, node_share, reported = _cores(rates, graph, chip, program.n_groups, settings)

    healthy, baseline, alike = _healthy_theta(evidence, context, seen.n_windows)
    theta = _windows_theta(alike, program, seen.n_windows)
    messages = observe(alike, program, seen.n_windows).transfers
    least = settings.healthy_floor / chip.link_bytes_per_cycle
    ratio = theta / np.maximum(healthy, least)
    flagged = np.isfinite(ratio) & (ratio > settings.link_ratio)
    score = _link_scores(ratio, flagged, node_share, graph, chip, program.n_groups, settings)
    more = _links(score, ratio, flagged, np.isfinite(theta), messages, chip, settings)
    suspects.update(more)
    reported += [s.place for s in more.values() if s.probability > settings.threshold]
    return diagnosis_of(
        suspects,
        reported,
        covered_places(seen, chip),
        chip,
        f"sloth: nominal rate and NNLS against {baseline}, from the {seen.source}",
        (f"reports candidates whose softmax exceeds {settings.threshold:g}",),
    )


def _cores(
    rates: StageRates,
    graph: CommGraph,
    chip: ChipConfig,
    n_groups: int,
    settings: SlothSettings,
) -> tuple[dict[Place, Suspect], NDArray[np.float64], list[Place]]:
    """Suspected cores, the softmax share of every node within its level, and the cores reported."""
    found = compare_with_nominal(
        rates,
        chip.macs_per_cycle,
        settings.nominal_sd_share * chip.macs_per_cycle,
        settings.candidate_probability,
    )
    node = (rates.window * n_groups + rates.group) * chip.n_cores + rates.core
    start = np.zeros(graph.n_nodes)
    np.maximum.at(start, node, np.where(found.candidate, found.probability, 0.0))
    total = start.sum()
    result = failrank(
        graph, start / total if total else start, np.zeros(len(graph.src)), settings.failrank
    )
    share = np.zeros(graph.n_nodes)
    nodes = np.unique(node)
    # the restart vector sums to 1 over the run: each level is brought back to a scale of 1
    level = graph.node_level[nodes]
    top = np.zeros(graph.n_levels)
    np.maximum.at(top, level, result.node_scores[nodes])
    scaled = result.node_scores[nodes] / np.where(top > 0, top, 1.0)[level]
    share[nodes] = softmax_within(scaled, level, settings.node_sharpness)
    suspects: dict[Place, Suspect] = {}
    for core in np.unique(rates.core):
        mine = np.flatnonzero(rates.core == core)
        out = mine[found.candidate[mine]]
        best = float(share[node[out]].max(initial=0.0))
        span = (float("nan"),) * 3
        if len(out):
            span = (
                float(np.median(found.slowdown[out])),
                float(rates.start_cycles[out].min()),
                float(rates.end_cycles[out].max()),
            )
        suspects[Core(int(core))] = Suspect(
            Core(int(core)), best, float(found.probability[mine].max()), *span,
            evidence=f"{len(out)} of {len(mine)} stages off the nominal rate",
        )  # fmt: skip
    reported = [s.place for s in suspects.values() if s.probability > settings.threshold]
    return suspects, share, reported


def undirected_system(seen: Observations, chip: ChipConfig) -> PathSystem:
    """Equations over [bytes per physical link, hops, 1, bytes], as the public pipeline has them.

    Args:
        seen: Messages; those that cross no link are left out.
        chip: With its topology.
    """
    paths = path_matrix(
        seen.column("src").astype(np.int64), seen.column("dst").astype(np.int64), chip
    )
    physical = {link: i for i, link in enumerate(chip.physical_links)}
    ends = chip.network.links
    of = np.array([physical[Link(int(a), int(b), both=True)] for a, b in ends], dtype=np.int64)
    fold = sp.csr_matrix(
        (np.ones(len(of)), (np.arange(len(of)), of)), shape=(len(of), len(physical))
    )
    hops = np.diff(paths.indptr).astype(np.float64)
    size = seen.column("work").astype(np.float64)
    both = sp.diags_array(size) @ (paths @ fold)
    extra = np.stack([hops, np.ones(len(hops)), size], axis=1)
    a = sp.csr_matrix(sp.hstack([both, extra], format="csr"))
    crosses = hops > 0
    return PathSystem(a, seen.mean_cycles, seen.count, len(physical)).rows(crosses)


def _windows_theta(evidence: Evidence, program: Program, n_windows: int) -> NDArray[np.float64]:
    """(n_windows, n_physical_links) inverse bandwidths; NaN without traffic."""
    chip, seen = program.chip, observe(evidence, program, n_windows).transfers
    n, known = len(chip.physical_links), _known_theta(evidence)
    theta = np.full((seen.n_windows, n), np.nan)
    for window in range(seen.n_windows):
        part = seen.select(seen.window == window)
        # the same messages are asked for again in other windows, where most epochs are empty
        digest = hashlib.blake2b(part.pattern.tobytes())
        digest.update(part.count.tobytes())
        digest.update(part.mean_cycles.tobytes())
        key = (program, digest.digest())
        if key not in known:
            system = undirected_system(_alike_joined(part), chip)
            known[key] = np.full(n, np.nan)
            if len(system.time_cycles):
                nominal = 1.0 / chip.link_bytes_per_cycle
                known[key] = estimate(system, nominal, "nnls").theta[:n]
        theta[window] = known[key]
    return theta


@remembered
def _known_theta(evidence: Evidence) -> dict[tuple[Program, bytes], NDArray[np.float64]]:
    """Inverse bandwidths by messages, filled as they are asked for."""
    return {}


def _alike_joined(seen: Observations) -> Observations:
    """Messages of one size between the same ends as one row of their mean time.

    To weighted least squares that is the same, for a tenth of the price.
    """
    table, used = seen.table, numbered(seen.pattern, len(seen.table))
    ends = [table[name][used[0]] for name in ("src", "dst", "work")]
    order = np.lexsort(ends)
    new = np.logical_or.reduce([end[order][1:] != end[order][:-1] for end in ends])
    kind = np.empty(len(order), dtype=np.int64)
    kind[order] = np.cumsum(np.concatenate([[False], new])) if len(order) else 0
    first = np.empty(int(kind.max(initial=-1)) + 1, dtype=np.int64)
    first[kind] = used[0]
    of_row, n = kind[used[1]], len(first)
    count = np.bincount(of_row, seen.count, n).astype(np.float64)
    mean = np.bincount(of_row, seen.count * seen.mean_cycles, n) / count
    nothing = np.full(n, np.nan)
    return Observations(
        table, first, np.zeros(n, np.int64), count, mean, nothing, nothing, 1, seen.source
    )


def _healthy_theta(
    evidence: Evidence, context: Context, n_windows: int
) -> tuple[NDArray[np.float64], str, Evidence]:
    """(n_physical_links,) of a healthy run, what that was, and the run in hand, recorded in the
    same way."""
    program, chip = context.program, context.chip
    nominal = 1.0 / chip.link_bytes_per_cycle
    if context.profile is not None:
        if context.profile.meta.program_fingerprint != program.fingerprint:
            raise SlowpokeError(
                f"the profile is of program {context.profile.meta.program_fingerprint}, not of "
                f"{program.fingerprint} ({program.model}); record one of this program"
            )
        healthy_run: Evidence = context.profile
        what = "a healthy profile"
        evidence = recorded_alike(evidence, context.profile, program)
    elif context.twin is not None:
        healthy_run = Trace.concatenate(context.twin.replay(seed=context.seed))
        what = "a healthy replay of the twin"
        if isinstance(evidence, Sketch):
            healthy_run = recorded_alike(healthy_run, evidence, program)
    else:
        nothing = np.full(len(chip.physical_links), nominal)
        return nothing, "the nominal bandwidth", evidence
    theta = _windows_theta(healthy_run, program, n_windows)
    used = np.isfinite(theta).any(axis=0)
    healthy = np.full(theta.shape[1], nominal)
    healthy[used] = np.nanmedian(theta[:, used], axis=0)
    return healthy, what, evidence


def _link_scores(
    ratio: NDArray[np.float64],
    flagged: NDArray[np.bool_],
    node_share: NDArray[np.float64],
    graph: CommGraph,
    chip: ChipConfig,
    n_groups: int,
    settings: SlothSettings,
) -> NDArray[np.float64]:
    """(n_windows, n_physical_links) of the one link formula."""
    n_windows = len(ratio)
    cores = node_share[: graph.n_levels * chip.n_cores]
    # a link's endpoint counts with its best level of the window
    node = cores.reshape(n_windows, n_groups, chip.n_cores).max(axis=1)
    ends = np.array([(link.src, link.dst) for link in chip.physical_links])
    traffic = np.zeros((n_windows, chip.n_links))
    inside = graph.link >= 0
    np.add.at(
        traffic, (graph.level[inside] // n_groups, graph.link[inside]), graph.traffic_bytes[inside]
    )
    # symmetric traffic: both directions hold the sum already
    first = [chip.link_index(link.src, link.dst) for link in chip.physical_links]
    traffic = traffic[:, first]
    most = traffic.max(axis=1, keepdims=True)
    result: NDArray[np.float64] = (
        settings.weight_traffic * traffic / np.where(most > 0, most, 1.0)
        + settings.weight_ratio * np.where(flagged, ratio, 0.0)
        + settings.weight_node * node[:, ends].max(axis=2)
    )
    return result


def _links(
    score: NDArray[np.float64],
    ratio: NDArray[np.float64],
    flagged: NDArray[np.bool_],
    used: NDArray[np.bool_],
    seen: Observations,
    chip: ChipConfig,
    settings: SlothSettings,
) -> dict[Place, Suspect]:
    window, column = np.nonzero(used)
    share = np.zeros(score.shape)
    share[window, column] = softmax_within(score[window, column], window, settings.link_sharpness)
    hits = flagged.sum(axis=0).astype(np.float64)
    covered: NDArray[np.bool_] = np.any(used, axis=0)
    hit_share = np.zeros(len(hits))
    hit_share[covered] = softmax_within(hits[covered], np.zeros(covered.sum(), dtype=np.int64), 1.0)
    n_windows = len(score)
    start, end = np.full(n_windows, np.inf), np.full(n_windows, -np.inf)
    np.minimum.at(start, seen.window, seen.start_cycles)
    np.maximum.at(end, seen.window, seen.end_cycles)
    suspects: dict[Place, Suspect] = {}
    for number, link in enumerate(chip.physical_links):
        if not covered[number]:
            continue
        out = np.flatnonzero(flagged[:, number])
        probability, span = 0.0, (float("nan"),) * 3
        if len(out):
            probability = float(share[out, number].max())
            if hit_share[number] > settings.hits_threshold:
                probability = max(probability, float(hit_share[number]))
            span = (
                float(np.median(ratio[out, number])),
                float(start[out].min()),
                float(end[out].max()),
            )
        suspects[link] = Suspect(
            link, probability, float(score[used[:, number], number].max()), *span,
            evidence=f"{len(out)} of {int(used[:, number].sum())} windows beyond "
            f"{settings.link_ratio:g} times the healthy inverse bandwidth",
        )  # fmt: skip
    return suspects
