"""How often the main job is right: seeds x {slow core, slow link, nothing}, ResNet-50 on a 4x4
mesh.

    python benchmarks/hit_rates.py --seeds 20

Prints the hit rates with Wilson intervals, and what a 10x slow link, router and core cost beside
the paper's figure 1(b).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from scipy.stats import binomtest

from slowpoke_mapping.faults import Fault, parse_fault
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.places import Link, Place
from slowpoke_mapping.program import Program
from slowpoke_sim.machine import run
from slowpoke_sim.twin import DigitalTwin
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.probes import instrument
from slowpoke_tracer.recorder import record
from slowpoke_tracer.tracer import diagnose
from torch_slowpoke.api import chip_for, operator_graph

PAPER_SLOWDOWN = {"link:5-6@10x": 1.26, "router:5@10x": 1.67, "core:5@10x": 2.48}
"""Makespan ratios of SlowPoke's figure 1(b), ResNet-50 on 4x4, one component at 10x."""


def right(diagnosis: Diagnosis, truth: Sequence[Place]) -> bool:
    """Whether the report is the truth, or for one link its ambiguity group."""
    if not truth:
        return not diagnosis.reported
    if len(diagnosis.reported) != len(truth):
        return False
    return all(any(_same(s.place, s.ambiguous_with, t) for s in diagnosis.reported) for t in truth)


def _same(place: Place, group: Sequence[Place], truth: Place) -> bool:
    named = (place.physical if isinstance(place, Link) else place, *group)
    return (truth.physical if isinstance(truth, Link) else truth) in named


def one(program: Program, faults: Sequence[Fault], noise: str, seed: int) -> Diagnosis:
    """Run, record, diagnose."""
    trace = run(program, faults=faults, noise=noise, seed=seed).trace
    assert trace is not None
    return diagnose(record(trace, program), program, twin=DigitalTwin(program, noise=noise))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--mesh", default="4x4")
    parser.add_argument("--noise", default="released")
    parser.add_argument("--inferences", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--faults", nargs="*", default=["core:5@10x", "link:5-6@10x", ""])
    arguments = parser.parse_args()
    chip = chip_for(arguments.mesh)
    plain = lower(map_graph(operator_graph(arguments.model), chip), inferences=arguments.inferences)
    program = instrument(plain, "full")
    for text in arguments.faults:
        faults = [parse_fault(text, chip.network)] if text else []
        hits, wrong, began = 0, [], time.perf_counter()
        for seed in range(1, arguments.seeds + 1):
            diagnosis = one(program, faults, arguments.noise, seed)
            hit = right(diagnosis, [fault.place for fault in faults])
            hits += hit
            if not hit:
                wrong.append(f"seed {seed}: {str(diagnosis).splitlines()[0]}")
        interval = binomtest(hits, arguments.seeds).proportion_ci(method="wilson")
        seconds = (time.perf_counter() - began) / arguments.seeds
        print(
            f"{text or 'no fault':16} {hits}/{arguments.seeds} right "
            f"[{interval.low:.3f}, {interval.high:.3f}], {seconds:.2f} s a case"
        )
        for line in wrong:
            print(f"    {line}")
    healthy = run(plain, noise=arguments.noise, seed=1).timing.makespan_cycles
    print("makespan with one component 10x slow, over healthy (paper figure 1b: 4x4, ResNet-50)")
    for text, paper in PAPER_SLOWDOWN.items():
        slow = run(plain, faults=[parse_fault(text)], noise=arguments.noise, seed=1).timing
        print(f"    {text:14} {slow.makespan_cycles / healthy:.2f}   paper {paper:.2f}")


if __name__ == "__main__":
    main()
