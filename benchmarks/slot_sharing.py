"""What sharing slots costs detection: the evidence for slow links, with a slot each and with fewer.

    python benchmarks/slot_sharing.py

One run is recorded with several numbers of slots at once. For each physical link and slowdown the
log-likelihood ratio of a matched filter over the epochs is taken (mean log duration per slot and
epoch against healthy replays; template log(1 + (k - 1) share of the link in a message's latency)),
largest over contiguous epochs and over k. Reported: how often the slow link ranks first and above
every healthy run, the median evidence in nats, and its median lead over the next link. Writes
slot_sharing.md to benchmarks/results.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from slowpoke_mapping.chip import chip
from slowpoke_mapping.faults import Fault, parse_fault
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.program import Program
from slowpoke_sim.machine import run, simulate
from slowpoke_sim.twin import DigitalTwin
from slowpoke_tracer.patterns import TRANSFER, Patterns
from slowpoke_tracer.probes import instrument
from slowpoke_tracer.recorder import Recorder
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.slots import MAX_SLOTS, shared
from slowpoke_tracer.trace import Trace
from torch_slowpoke.frontend import operator_graph

EVERY = 1_000_000
SLOWDOWNS = (1.5, 2.0, 3.0, 5.0, 10.0)
LEAST_VARIANCE = 1e-5
Floats = NDArray[np.float64]


class Several:
    """Hands each block to one recorder for each number of slots."""

    def __init__(self, program: Program, patterns: dict[int, Patterns]):
        config = SketchConfig(max_length=EVERY)
        self.recorders = {n: Recorder(program, config, part) for n, part in patterns.items()}

    def add(self, block: Trace) -> None:
        for recorder in self.recorders.values():
            recorder.add(block)

    def result(self) -> dict[int, Sketch]:
        return {n: recorder.result() for n, recorder in self.recorders.items()}


def log_means(sketch: Sketch) -> Floats:
    """(n, n_epochs) mean ln(duration); NaN in empty cells."""
    seen = sketch.count > 0
    return np.where(seen, sketch.log_sum / np.maximum(sketch.count, 1), np.nan)


@dataclass(frozen=True, eq=False)
class Filter:
    """A matched filter for every physical link.

    Attributes:
        mean: (n, n_epochs) of healthy runs.
        variance: (n, 1) between healthy runs.
        transfer: (n,) which slots are messages'.
        share: (n, n_links) share of each physical link in a slot's latency.
    """

    mean: Floats
    variance: Floats
    transfer: NDArray[np.bool_]
    share: Floats

    @staticmethod
    def of(
        program: Program, patterns: Patterns, shares: sp.csr_matrix, healthy: list[Sketch]
    ) -> Filter:
        on = program.chip
        cells = np.stack([log_means(sketch) for sketch in healthy])
        spread = cells.var(axis=0, ddof=1)
        known = np.isfinite(spread)
        variance = np.where(known, spread, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        transfer = patterns.table["kind"] == TRANSFER
        recorded = np.flatnonzero(patterns.of_event >= 0)
        events = recorded[transfer[patterns.of_event[recorded]]]
        owner = patterns.of_event[events]
        weight = 1.0 / np.bincount(owner, minlength=len(patterns))[owner]
        shape = (len(patterns), program.n_events)
        mean_share = (sp.csr_matrix((weight, (owner, events)), shape=shape) @ shares).tocsc()
        columns = [
            np.asarray(mean_share[:, on.channels_of(link)].sum(axis=1)).ravel()
            for link in on.physical_links
        ]
        return Filter(
            cells.mean(axis=0), variance[:, None] + LEAST_VARIANCE, transfer,
            np.minimum(np.stack(columns, axis=1), 1.0),
        )  # fmt: skip

    def evidence(self, sketch: Sketch) -> Floats:
        """(n_links,) log-likelihood ratio in nats, 0 where nothing speaks for a link."""
        residual = log_means(sketch) - self.mean
        residual -= np.nanmedian(residual[self.transfer])
        result = np.zeros(self.share.shape[1])
        for link, share in enumerate(self.share.T):
            rows = np.flatnonzero(share > 0.005)
            for slowdown in SLOWDOWNS:
                template = np.log1p((slowdown - 1) * share[rows])[:, None]
                gain = (residual[rows] * template - template**2 / 2) / self.variance[rows]
                running = 0.0
                for epoch in np.nansum(gain, axis=0):  # Kadane's scan over the epochs
                    running = max(0.0, running + float(epoch))
                    result[link] = max(result[link], running)
        return result


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--inferences", type=int, default=32)
    parser.add_argument("--faults", type=int, default=16, help="for each slowdown")
    parser.add_argument("--slots", type=int, nargs="*", default=[EVERY, 200, MAX_SLOTS, 100])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    on = chip("default")
    program = instrument(
        lower(map_graph(operator_graph(arguments.model), on), inferences=arguments.inferences)
    )
    fine = Patterns.of_program(program)
    patterns = {n: shared(fine, n) for n in arguments.slots}

    def sketches(faults: tuple[Fault, ...], seed: int) -> dict[int, Sketch]:
        result: dict[int, Sketch] = simulate(
            program, faults, seed=seed, sink=Several(program, patterns)
        )
        return result

    twin = DigitalTwin(program)
    shares = sum(twin.shares(seed) for seed in (901, 902)) / 2
    healthy = [sketches((), 1000 + i) for i in range(8)]
    filters = {
        n: Filter.of(program, part, shares, [h[n] for h in healthy]) for n, part in patterns.items()
    }
    quiet = [sketches((), 5000 + i) for i in range(8)]
    limit = {n: max(float(f.evidence(q[n]).max()) for q in quiet) for n, f in filters.items()}
    makespan = run(program, trace=False).timing.makespan_cycles
    rng = np.random.default_rng(1)
    lines = [
        "| slots a core | patterns | slowdown | found | evidence, nats | lead | healthy at most |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for slowdown in (10.0, 2.0, 1.5):
        found: dict[int, list[tuple[bool, float, float]]] = {n: [] for n in patterns}
        for number in range(arguments.faults):
            link = int(rng.integers(len(on.physical_links)))
            start = rng.uniform(0, 0.9) * makespan
            end = start + rng.uniform(0, 1) * makespan
            place = on.physical_links[link]
            fault = parse_fault(f"{place}@{slowdown}x[{start:.0f},{end:.0f}]", on.network)
            observed = sketches((fault,), 7000 + number)
            for n, matched in filters.items():
                evidence = matched.evidence(observed[n])
                other = float(np.delete(evidence, link).max())
                mine = float(evidence[link])
                found[n].append((mine > max(other, limit[n]), mine, mine / max(other, 1.0)))
        for n, cases in found.items():
            hits, nats, lead = (np.array(column) for column in zip(*cases, strict=True))
            name = "one each" if n == EVERY else str(n)
            lines.append(
                f"| {name} | {len(patterns[n])} | {slowdown:g} | {hits.sum()}/{len(cases)} | "
                f"{np.median(nats):.0f} | {np.median(lead):.1f}x | {limit[n]:.0f} |"
            )
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    text = [
        "# What sharing slots costs detection", "",
        f"{arguments.model}, 4x4 mesh, {arguments.inferences} inferences, noise `released`, random "
        f"links with onset and duration uniform; commit {commit}, Python "
        f"{platform.python_version()}.", "", *lines,
    ]  # fmt: skip
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "slot_sharing.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()
