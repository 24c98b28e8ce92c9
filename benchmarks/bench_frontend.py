"""How long importing a model takes, and how much memory it needs above torch's own.

    python benchmarks/bench_frontend.py            the best of three processes a model, as a table
    pytest benchmarks/bench_frontend.py            repeated imports, for pytest-benchmark

Times are after `import torch`: torchvision's or transformers' own import is among them.
"""

import subprocess
import sys
from typing import Any

import pytest

from torch_slowpoke.frontend import operator_graph

MODELS = ("resnet50", "qwen2.5-0.5b", "vit_b_16", "swin_t", "regnet_y_128gf", "vit_h_14")

ONE = """
import resource, sys, time
import torch
import torch.export
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
wall, cpu = time.perf_counter(), time.process_time()
from torch_slowpoke.frontend import operator_graph
graph = operator_graph(sys.argv[1])
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(f"{sys.argv[1]:16s} {len(graph):5d} {graph.macs / 1e9:10.3f} {wall:8.2f} {cpu:8.2f} "
      f"{peak / 1024:10.0f}")
"""


def main() -> None:
    print(f"{'model':16s} {'ops':>5s} {'GMAC':>10s} {'s':>8s} {'cpu s':>8s} {'peak MiB':>10s}")
    for name in sys.argv[1:] or MODELS:
        command = [sys.executable, "-W", "ignore", "-c", ONE, name]
        lines = [
            subprocess.run(command, check=True, capture_output=True, text=True).stdout
            for _ in range(3)
        ]
        print(min(lines, key=lambda line: float(line.split()[4])), end="")  # cpu s


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "vit_b_16"])
def test_import(benchmark: Any, name: str) -> None:
    operator_graph("resnet18")  # torch's own first-use imports
    graph = benchmark.pedantic(operator_graph, (name,), rounds=3)
    assert len(graph) > 20


if __name__ == "__main__":
    main()
