"""What the sketch saves: bytes of raw traces and of sketches (SlowPoke section 4.4, figure 11).

    python benchmarks/storage.py

Runs each workload for 1, 10 and 100 inferences and until a core has made about 2 MiB of raw records
(65,536 of 32 B), and records one run in several modes at once. Writes storage.csv, .png and .md to
benchmarks/results. Every ratio counts both stages, epoch times and headers; the papers' way of
counting and the raw record sizes of the authors' code stand beside it.
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
from slowpoke_sim.machine import simulate
from slowpoke_tracer.patterns import COMPUTE
from slowpoke_tracer.probes import instrument
from slowpoke_tracer.recorder import Recorder
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.trace import Trace
from torch_slowpoke.frontend import operator_graph

SLOWPOKE = ("darknet19", "resnet50", "googlenet", "vgg16", "binary_tree")
RECORDS_PER_CORE = 65_536
HASH = SketchConfig(mode="hash")
MODES = {
    "static": SketchConfig(),
    "static, a slot each": SketchConfig(max_length=100_000),
    "hash": HASH,
    "hash in 16 KiB": HASH,
    "hash, epoch in key": SketchConfig(mode="hash", epoch_in_key=True, max_length=8192),
    "hash, papers' key": SketchConfig(mode="hash", key="footprint", n_epochs=1),
}
AUTHORS = "the authors' code on DarkNet-19, its memory counted: 0.43x, 4.3x, 42x at 1, 10, 100"


class Several:
    """Hands each block to several recorders."""

    def __init__(self, recorders: dict[str, Recorder]):
        self.recorders = recorders

    def add(self, block: Trace) -> None:
        for recorder in self.recorders.values():
            recorder.add(block)

    def result(self) -> dict[str, Sketch]:
        return {name: recorder.result() for name, recorder in self.recorders.items()}


def row_of(name: str, length: str, inferences: int, mode: str, sketch: Sketch) -> dict[str, Any]:
    """The figures of one sketch."""
    compute, transfers = (int(n) for n in sketch.raw_records.sum(axis=0))
    is_compute = sketch.patterns["kind"] == COMPUTE
    comp, comm = (int(n) * sketch.slot_nbytes for n in (is_compute.sum(), (~is_compute).sum()))
    return {
        "workload": name, "run": length, "inferences": inferences, "mode": mode,
        "records": sketch.n_records, "raw_kib": round(sketch.raw_nbytes / 1024, 1),
        "sketch_kib": round(sketch.nbytes / 1024, 2),
        "ratio": round(sketch.ratio, 2),
        "ratio_authors_record_sizes": round((12 * compute + 18 * transfers) / sketch.nbytes, 2),
        "ratio_entries_only": round(sketch.raw_nbytes / max(comp + comm, 1), 2),
        "core_mean_kib": round(sketch.nbytes_per_core.mean() / 1024, 2),
        "core_max_kib": round(sketch.nbytes_per_core.max() / 1024, 2),
        "core_max_reserved_kib": round(sketch.reserved_nbytes_per_core.max() / 1024, 2),
        "raw_comp_kib": round(compute / 32, 1), "raw_comm_kib": round(transfers / 32, 1),
        "entries_comp_kib": round(comp / 1024, 2), "entries_comm_kib": round(comm / 1024, 2),
        "patterns": len(sketch.patterns), "patterns_of_program": sketch.n_patterns,
        "pattern_share": round(len(sketch.patterns) / sketch.n_patterns, 4),
        "record_share": round(sketch.n_records_kept / max(sketch.n_records, 1), 4),
        "evicted": sketch.n_evicted, "saturated": sketch.n_saturated,
    }  # fmt: skip


def measure(name: str) -> list[dict[str, Any]]:
    """Rows of one workload: every mode at every length of the run."""
    on = chip("default")
    graph_mapping = map_graph(operator_graph(name), on)
    hundred = instrument(lower(graph_mapping, inferences=100))
    runs = np.where(hundred.once[hundred.event_task], hundred.n_batches, hundred.total_units)
    per_core = (runs * hundred.recorded).sum() / on.n_cores
    long = max(round(100 * RECORDS_PER_CORE / per_core), 1)
    rows: list[dict[str, Any]] = []
    for length, inferences in (("1", 1), ("10", 10), ("100", 100), ("2 MiB a core", long)):
        program = instrument(lower(graph_mapping, inferences=inferences))
        configs = dict(MODES)
        configs["hash in 16 KiB"] = HASH.fit(16 * 1024, program)
        sink = Several({mode: Recorder(program, config) for mode, config in configs.items()})
        sketches = simulate(program, seed=1, sink=sink)
        rows += [
            row_of(name, length, inferences, mode, sketch) for mode, sketch in sketches.items()
        ]
        static = rows[-len(MODES)]
        print(name, length, inferences, f"static {static['ratio']}x", flush=True)
    return rows


def figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Raw against sketch, for communication and computation, and the ratio over run length."""
    shape, (left, right) = plt.subplots(1, 2, figsize=(12, 4))
    names = list(dict.fromkeys(row["workload"] for row in rows))
    static = [r for r in rows if r["mode"] == "static"]
    long = [r for r in static if r["run"].startswith("2")]
    at = np.arange(len(names))
    for i, (column, label) in enumerate(
        (("raw_comm_kib", "raw comm"), ("entries_comm_kib", "sketch comm"),
         ("raw_comp_kib", "raw comp"), ("entries_comp_kib", "sketch comp"))
    ):  # fmt: skip
        left.bar(at + 0.2 * (i - 1.5), [r[column] for r in long], 0.18, label=label)
    left.set_yscale("log")
    left.set_ylabel("KiB, 16 cores, log scale")
    left.set_xticks(at, names, rotation=15)
    left.legend(fontsize=8)
    for name in names:
        mine = [r for r in static if r["workload"] == name]
        mine.sort(key=lambda r: r["inferences"])
        right.plot([r["inferences"] for r in mine], [r["ratio"] for r in mine], "o-", label=name)
    right.axhline(115.9, color="black", linestyle="--", linewidth=1)
    right.text(1, 122, "paper's mean, 115.9x", fontsize=8)
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("inferences")
    right.set_ylabel("raw bytes / sketch bytes, static mode")
    right.legend(fontsize=8)
    shape.tight_layout()
    shape.savefig(path, dpi=110)
    plt.close(shape)


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Markdown: the long run mode by mode, then the ratio over the run's length."""
    lines = []
    for mode in MODES:
        lines += [
            f"## {mode}, about 2 MiB of raw records a core", "",
            "| workload | inferences | raw MiB | sketch KiB | ratio | entries only | 12/18 B | "
            "core mean KiB | core max KiB | patterns | records |",
            "|" + "---|" * 11,
        ]  # fmt: skip
        long = [r for r in rows if r["mode"] == mode and r["run"].startswith("2")]
        for r in long:
            lines.append(
                f"| {r['workload']} | {r['inferences']} | {r['raw_kib'] / 1024:.1f} | "
                f"{r['sketch_kib']:.1f} | {r['ratio']:.1f} | {r['ratio_entries_only']:.1f} | "
                f"{r['ratio_authors_record_sizes']:.1f} | {r['core_mean_kib']:.2f} | "
                f"{r['core_max_kib']:.2f} | {100 * r['pattern_share']:.1f} % of "
                f"{r['patterns_of_program']} | {100 * r['record_share']:.2f} % |"
            )
        mean = np.mean([r["ratio"] for r in long])
        lines += [f"| mean | | | | {mean:.1f} | | | | | | |", ""]
    lines += ["## Ratio as a function of the run's length", ""]
    lines += ["| workload | mode | 1 | 10 | 100 | 2 MiB a core |", "|---|---|---|---|---|---|"]
    for name in dict.fromkeys(r["workload"] for r in rows):
        for mode in MODES:
            mine = {
                r["run"]: r["ratio"] for r in rows if (r["workload"], r["mode"]) == (name, mode)
            }
            cells = " | ".join(f"{value:.2f}" for value in mine.values())
            lines.append(f"| {name} | {mode} | {cells} |")
    return lines


def where() -> str:
    """Commit and versions of this run."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return f"commit {commit}, Python {platform.python_version()}, {platform.machine()}"


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="*", default=list(SLOWPOKE))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    rows = [row for name in arguments.workloads for row in measure(name)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    stem = arguments.out / "storage"
    with stem.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    figure(rows, stem.with_suffix(".png"))
    lines = [
        "# Storage: raw records against sketches", "",
        f"4x4 mesh, full probes, noise `released`, seed 1; {where()}.", "",
        "Paper: 115.9x on average; DarkNet-19 to 0.8 % (comm) and 0.7 % (comp), VGG 17.8 MiB to "
        f"137.2 KiB; {AUTHORS} inferences.", "",
        "`ratio` = 32 B a record over both stages, headers and epoch times. `entries only` leaves "
        "out Stage-1 and epoch times (the papers' way). `12/18 B` takes the authors' record sizes. "
        "`patterns` and `records`: what is retained.", "",
    ]  # fmt: skip
    lines += table(rows)
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
