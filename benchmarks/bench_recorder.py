"""Records a second of the recorder, and its memory over the length of the stream.

    pytest benchmarks/bench_recorder.py -s

The bar is 5 M records/s on one core in the streaming path; speeds are printed and stored, not
asserted, because machines differ; time is the processor's. A plain numpy sum over the same bytes
is the yardstick.
"""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

from slowpoke_mapping.chip import chip
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.program import Program
from slowpoke_sim.machine import simulate
from slowpoke_tracer.probes import instrument
from slowpoke_tracer.recorder import Recorder
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.trace import Trace
from torch_slowpoke.frontend import operator_graph

CONFIGS = {
    "static": SketchConfig(),
    "hash": SketchConfig(mode="hash"),
    "hash, epoch in key": SketchConfig(mode="hash", epoch_in_key=True),
    "hash, healthiest, full list": SketchConfig(mode="hash", max_length=64, eviction="healthiest"),
}


@pytest.fixture(scope="module")
def run() -> tuple[Program, Trace]:
    """DarkNet-19's records, as the simulator streams them."""
    program = instrument(
        lower(map_graph(operator_graph("darknet19"), chip("default")), inferences=64)
    )
    return program, simulate(program, seed=1)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("name", CONFIGS)
def test_speed(benchmark: Any, run: tuple[Program, Trace], name: str) -> None:
    program, trace = run
    recorder = Recorder(program, CONFIGS[name])
    benchmark.pedantic(recorder.add, args=(trace,), rounds=15, warmup_rounds=2)
    best = trace.n_records / benchmark.stats.stats.min / 1e6
    began = time.process_time()
    total = trace.transfers.view(np.uint8).sum()
    yardstick = trace.n_records / (time.process_time() - began) / 1e6
    assert total > 0
    benchmark.extra_info["million_records_per_second"] = round(best, 2)
    print(
        f"\n{name}: {best:.1f} M records/s best, "
        f"{trace.n_records / benchmark.stats.stats.median / 1e6:.1f} median; "
        f"{best / yardstick:.3f} of a numpy byte sum"
    )


def test_memory(run: tuple[Program, Trace]) -> None:
    """Bytes that the recorder holds after two blocks, and after fifty more."""
    program, trace = run
    for name, config in CONFIGS.items():
        tracemalloc.start()
        recorder = Recorder(program, config)
        recorder.add(trace)
        recorder.add(trace)
        once = tracemalloc.get_traced_memory()
        for _ in range(50):
            recorder.add(trace)
        often = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(
            f"\n{name}: {once[0] / 1e6:.3f} MB after {2 * trace.n_records} records, "
            f"{often[0] / 1e6:.3f} MB after {52 * trace.n_records}, peak {often[1] / 1e6:.3f} MB"
        )
        assert often[0] < once[0] + 10_000
