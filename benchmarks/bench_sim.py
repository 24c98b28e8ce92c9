"""How fast the simulated chip is, and how far a slow link, router or core slows ResNet-50 down.

    python benchmarks/bench_sim.py            prints a table (minutes: it maps three programs)
    pytest benchmarks/bench_sim.py            the same work for pytest-benchmark

Speeds are processor seconds of one core after compilation (`time.process_time`), best of three.
"""

import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.program import Program
from slowpoke_sim.machine import Machine, run
from torch_slowpoke.frontend import operator_graph

TASKS = 500_000
PAPER = {"link": 1.26, "router": 1.67, "core": 2.48}
"""SlowPoke section 1, Figure 1(b): total execution time with one fail-slow event."""


@cache
def program(model: str = "resnet50", mesh: str = "4x4", inferences: int = 16) -> Program:
    chip = ChipConfig(topology=f"mesh:{mesh}")
    return lower(map_graph(operator_graph(model), chip), inferences=inferences)


def engine_alone(of: Program, engine: str = "compiled", noise: str = "released") -> int:
    """Run every phase, keep nothing; packets that were carried over a channel."""
    machine = Machine(of, (), noise, 0, engine)
    for _ in machine.phases():
        pass
    return machine.clock.timing(machine.components).n_hops


def seconds(work: Callable[[], Any], repeat: int = 3) -> tuple[float, Any]:
    best, result = float("inf"), None
    for _ in range(repeat):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return best, result


def long_run(of: Program) -> Program:
    """The same program with as many inferences as make TASKS task instances."""
    batches = -(-TASKS * of.n_batches // of.n_task_instances)
    batch = of.units_per_batch * of.samples_per_unit
    return replace(of, n_inferences=batches * batch)


def ratios(of: Program, places: list[str], seed: int | None = None) -> list[float]:
    """Makespan with one place 10x slow over that without, for each place.

    Slow all the time, or (with a seed) from a uniform onset for a uniform duration, both up to the
    healthy makespan: the law of SlowPoke's fault set (section 4.1).
    """
    healthy = run(of, trace=False).timing.makespan_cycles
    random = np.random.default_rng(seed)
    found = []
    for place in places:
        onset, duration = random.random(2) * healthy
        when = "" if seed is None else f"[{onset},{onset + duration}]"
        slow = run(of, f"{place}@10x{when}", trace=False).timing.makespan_cycles
        found.append(slow / healthy)
    return found


def cold_start() -> tuple[float, float]:
    """Wall seconds of `slowpoke --help`, and of importing and running from the disk cache."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "torch_slowpoke", "--help"], check=True,
                   capture_output=True)  # fmt: skip
    middle = time.perf_counter()
    code = "import slowpoke_sim.machine as m; m.CompiledEngine"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return middle - start, time.perf_counter() - middle


def main() -> None:
    small = program()
    engine_alone(small)
    print(f"{platform.machine()}, Python {platform.python_version()}; {small}")
    quick, hops = seconds(lambda: engine_alone(small))
    plain, _ = seconds(lambda: engine_alone(small, noise="none"))
    print(f"compiled: {hops / quick / 1e6:.2f} M link-hops/s (released), "
          f"{hops / plain / 1e6:.2f} (no noise)")  # fmt: skip
    one_batch = replace(small, n_inferences=small.units_per_batch * small.samples_per_unit)
    fast, hops = seconds(lambda: engine_alone(one_batch))
    slow, same = seconds(lambda: engine_alone(one_batch, "simpy"), repeat=1)
    print(f"SimPy: {same / slow / 1e6:.3f} M link-hops/s, compiled {slow / fast:.0f} x as fast")
    long = long_run(small)
    spent, _ = seconds(lambda: run(long, trace=False))
    print(f"{long.n_task_instances:,} task instances with timing, no trace: {spent:.2f} s")
    large = program(mesh="16x16")
    wide, wide_hops = seconds(lambda: engine_alone(large))
    again, hops = seconds(lambda: engine_alone(small))
    print(f"16x16: {wide_hops / wide / 1e6:.2f} M link-hops/s, "
          f"{wide / wide_hops / (again / hops):.2f} x the cost of 4x4")  # fmt: skip
    places = {
        "link": [str(link) for link in small.chip.physical_links],
        "router": [f"router:{i}" for i in range(small.chip.n_cores)],
        "core": [f"core:{i}" for i in range(small.chip.n_cores)],
    }
    for kind, names in places.items():
        always = ratios(small, names)
        events = [ratio for seed in range(5) for ratio in ratios(small, names, seed)]
        print(
            f"one {kind} 10x slow all the time: makespan x {statistics.mean(always):.2f} (from "
            f"{min(always):.2f} to {max(always):.2f} over {len(names)} places); for a random time: "
            f"x {statistics.mean(events):.2f}; SlowPoke's Figure 1(b) says {PAPER[kind]}"
        )
    qwen = program("qwen2.5-0.5b", "16x16", 4)
    start = time.process_time()
    run(qwen, trace=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{qwen}: {time.process_time() - start:.1f} s, peak of this process {peak:.2f} GiB")
    cli, imports = cold_start()
    print(f"cold start: slowpoke --help {cli:.1f} s, import of the engine {imports:.1f} s (wall)")


def test_compiled_engine(benchmark: Any) -> None:
    of = program()
    engine_alone(of)
    benchmark(engine_alone, of)


def test_simpy_engine(benchmark: Any) -> None:
    of = program()
    one_batch = replace(of, n_inferences=of.units_per_batch * of.samples_per_unit)
    benchmark.pedantic(engine_alone, (one_batch, "simpy"), rounds=1)


def test_half_a_million_tasks(benchmark: Any) -> None:
    of = long_run(program())
    benchmark(lambda: run(of, trace=False))


if __name__ == "__main__":
    main()
