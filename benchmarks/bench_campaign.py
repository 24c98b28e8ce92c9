"""Cases a second of a campaign, and what each detector adds to a bare simulation.

    pytest benchmarks/bench_campaign.py --benchmark-only
    python benchmarks/bench_campaign.py --workloads binary_tree resnet50 --cases 6

The benchmark's yardstick is the simulation of the same case without any detector, so that its
figures are ratios within one run. The script prints one line for each workload: cases a second on
one core, the share of the time that is simulation, and the slowest detectors.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from typing import Any

import pytest

from slowpoke_tracer.detector import Detector
from slowpoke_tracer.tracer import DETECTORS
from torch_slowpoke.evaluation.datasets import DATASETS, FAULT, Case
from torch_slowpoke.evaluation.task import EVIDENCE, Task, execute, observe_case, prepare
from torch_slowpoke.evaluation.workloads import Workload

WORKLOAD = Workload("binary_tree")
DATASET = DATASETS["slowpoke-152"]


def task(workload: Workload, case: Case, *detectors: Detector) -> Task:
    return Task(workload, DATASET, case, detectors, EVIDENCE)


@pytest.fixture(scope="module", autouse=True)
def prepared() -> None:
    """Programs, baselines and compiled code are made once for a campaign, not for a case."""
    prepare(WORKLOAD, tuple(make() for make in DETECTORS.values()))


def test_bench_the_bare_simulation(benchmark: Any) -> None:
    benchmark(observe_case, task(WORKLOAD, Case(FAULT, 0)))


@pytest.mark.parametrize("name", DETECTORS)
def test_bench_a_case_with_one_detector(benchmark: Any, name: str) -> None:
    benchmark(execute, task(WORKLOAD, Case(FAULT, 0), DETECTORS[name]()))


def test_bench_a_case_with_every_detector(benchmark: Any) -> None:
    benchmark(execute, task(WORKLOAD, Case(FAULT, 0), *(make() for make in DETECTORS.values())))


def main() -> None:
    """Print a line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="+", default=["binary_tree", "darknet19"])
    parser.add_argument("--mesh", default="4x4")
    parser.add_argument("--cases", type=int, default=4, help="faulty ones, and as many healthy")
    arguments = parser.parse_args()
    detectors = tuple(make() for make in DETECTORS.values())
    for name in arguments.workloads:
        workload = Workload(name, f"mesh:{arguments.mesh}")
        prepare(workload, detectors)
        cases = [Case(kind, i) for i in range(arguments.cases) for kind in (FAULT, "seed")]
        began = time.perf_counter()
        rows = [row for case in cases for row in execute(task(workload, case, *detectors))]
        seconds = time.perf_counter() - began
        spent: dict[str, float] = defaultdict(float)
        for row in rows:
            spent[row["detector"]] += row["seconds"] / seconds
        simulated = sum({row["task"]: row["seconds_run"] for row in rows}.values()) / seconds
        slowest = sorted(spent, key=lambda detector: -spent[detector])[:4]
        shares = ", ".join(f"{detector} {100 * spent[detector]:.0f} %" for detector in slowest)
        print(
            f"{workload.label}: {len(cases) / seconds:.2f} cases/s, simulation and sketch "
            f"{100 * simulated:.0f} %, {shares}"
        )


if __name__ == "__main__":
    main()
