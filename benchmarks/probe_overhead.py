"""What probes cost: makespan with probes over makespan without (SlowPoke section 4.3, figure 10).

    python benchmarks/probe_overhead.py

Writes probe_overhead.csv, .png and .md to benchmarks/results. Probed and unprobed runs of a seed
share their noise; the mean is over the seeds.
"""

from __future__ import annotations

import argparse
import csv
import platform
import subprocess
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from slowpoke_mapping.chip import chip
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.program import Program, TaskKind
from slowpoke_sim.machine import run
from slowpoke_tracer.offload import offloaded_bytes
from slowpoke_tracer.probes import PROBES, Probe, instrument
from slowpoke_tracer.sketch_config import SketchConfig
from torch_slowpoke.frontend import operator_graph

WORKLOADS = ("darknet19", "resnet50", "googlenet", "vgg16", "binary_tree", "early_exit_resnet",
             "qwen2.5-0.5b")  # fmt: skip
HASH = SketchConfig(mode="hash")
LISTS = "route comm surround inst list; mem io surround inst list; exec comp surround inst list"
CONFIGURATIONS: dict[str, tuple[str | tuple[Probe, ...], SketchConfig]] = {
    "comm": ("comm", SketchConfig()),
    "comm and io": (PROBES["comm"] + PROBES["io"], SketchConfig()),
    "comp": ("comp", SketchConfig()),
    "full": ("full", SketchConfig()),
    "comm, hash": ("comm", HASH),
    "full, hash": ("full", HASH),
    "full, lists to DRAM": (LISTS, SketchConfig()),
}
PAPER = {"comm": "<= 5 % (SLOTH: < 7 %)", "comp": "", "full": "<= 10 %"}


def busiest_probes(program: Program, makespan_cycles: float) -> float:
    """Share of the makespan that the core with most probe work spends on it."""
    probe = program.kind == TaskKind.PROBE
    runs = np.where(program.once, program.n_batches, program.total_units)
    cycles = np.bincount(
        program.core[probe], (program.work_macs * runs)[probe], program.chip.n_cores
    )
    return float(cycles.max() / makespan_cycles)


def measure(name: str, mesh: str, inferences: int, seeds: range) -> list[dict[str, Any]]:
    """One row for each configuration."""
    on = chip("default", topology=f"mesh:{mesh}")
    plain = lower(map_graph(operator_graph(name), on), inferences=inferences)
    base = [run(plain, seed=seed, trace=False).timing.makespan_cycles for seed in seeds]
    rows = []
    for label, (probes, config) in CONFIGURATIONS.items():
        program = instrument(plain, probes, config)
        took = [run(program, seed=seed, trace=False).timing.makespan_cycles for seed in seeds]
        overhead = 100 * (np.array(took) / np.array(base) - 1)
        rows.append(
            {
                "workload": name, "probes": label, "overhead_percent": round(overhead.mean(), 3),
                "sd": round(float(overhead.std(ddof=1)), 3) if len(overhead) > 1 else 0.0,
                "largest": round(overhead.max(), 3), "paper": PAPER.get(label, ""),
                "busiest_core_probe_percent": round(100 * busiest_probes(program, took[0]), 3),
                "records": int(
                    (program.recorded * np.where(
                        program.once[program.event_task], program.n_batches, program.total_units
                    )).sum()
                ),
                "offloaded_mib": round(offloaded_bytes(program) / 2**20, 3),
                "makespan_cycles": round(base[0]), "seeds": len(took), "mesh": mesh,
                "inferences": inferences,
            }
        )  # fmt: skip
        print(name, label, f"{overhead.mean():.2f} % +- {rows[-1]['sd']:.2f}", flush=True)
    return rows


def figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Bars of each workload and configuration, the paper's bounds as lines."""
    names = list(dict.fromkeys(row["workload"] for row in rows))
    labels = list(CONFIGURATIONS)
    shape, axes = plt.subplots(figsize=(11, 4))
    for i, label in enumerate(labels):
        values = [r["overhead_percent"] for r in rows if r["probes"] == label]
        axes.bar(np.arange(len(names)) + 0.12 * (i - 3), values, 0.11, label=label)
    axes.axhline(5, color="grey", linestyle="--", linewidth=1)
    axes.axhline(10, color="black", linestyle="--", linewidth=1)
    axes.text(len(names) - 0.4, 5.1, "paper: comm", fontsize=8, ha="right")
    axes.text(len(names) - 0.4, 10.1, "paper: full", fontsize=8, ha="right")
    axes.set_xticks(range(len(names)), names, rotation=15)
    axes.set_ylabel("overhead, % of the run")
    axes.legend(fontsize=8, ncols=3)
    shape.tight_layout()
    shape.savefig(path, dpi=110)
    plt.close(shape)


def where() -> str:
    """Commit and versions of this run."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return f"commit {commit}, Python {platform.python_version()}, {platform.machine()}"


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--mesh", default="4x4")
    parser.add_argument("--inferences", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in arguments.workloads:
        rows += measure(name, arguments.mesh, arguments.inferences, range(1, arguments.seeds + 1))
    arguments.out.mkdir(parents=True, exist_ok=True)
    stem = arguments.out / "probe_overhead"
    with stem.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    figure(rows, stem.with_suffix(".png"))
    labels = list(CONFIGURATIONS)
    lines = [
        "# Probe overhead, % of the run without probes", "",
        f"{arguments.mesh} mesh, {arguments.inferences} inferences, {arguments.seeds} seeds, noise "
        f"`released`; {where()}.", "",
        "| workload | " + " | ".join(labels) + " |", "|---" * (len(labels) + 1) + "|",
    ]  # fmt: skip
    for name in arguments.workloads:
        mine = {r["probes"]: r for r in rows if r["workload"] == name}
        cells = [f"{mine[x]['overhead_percent']:.2f} ± {mine[x]['sd']:.2f}" for x in labels]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += [
        "| paper | " + " | ".join(PAPER.get(x, "") for x in labels) + " |", "",
        "`comm` is the papers' type Comm, messages between cores; `io` is messages from and to "
        "DRAM; `full` is comm, io and comp. They fold every record into static slots, `hash` into "
        "Algorithm 1 with 3 tables; `lists to DRAM` keeps raw records and writes full lists out "
        "over the network.", "",
        "Share of the run for which probes take the compute unit of the busiest core, %:", "",
        "| workload | " + " | ".join(labels) + " |", "|---" * (len(labels) + 1) + "|",
    ]  # fmt: skip
    for name in arguments.workloads:
        mine = {r["probes"]: r for r in rows if r["workload"] == name}
        cells = [f"{mine[x]['busiest_core_probe_percent']:.2f}" for x in labels]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
