"""Six heat maps of the sketch's parameters on DarkNet-19 (SlowPoke section 4.4, figures 12, 13).

    python benchmarks/sketch_heatmaps.py

H hash tables, B buckets, S places in Stage-2 and T the threshold, all of one core; two are varied,
the others stay at their defaults. Each map has the ratio with both stages counted, and the share of
the records that the sketch accounts for, without which a ratio says little. Writes
sketch_heatmaps.csv, .png and .md to benchmarks/results.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import itertools
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
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.probes import instrument
from slowpoke_tracer.recorder import record
from slowpoke_tracer.sketch_config import SketchConfig
from torch_slowpoke.frontend import operator_graph

FIELDS = {"H": "n_tables", "B": "n_buckets", "S": "max_length", "T": "threshold"}
VALUES = {"H": (1, 2, 3, 4, 5), "B": (16, 32, 64, 128, 512), "S": (16, 32, 64, 128, 512),
          "T": (2, 5, 10, 20, 40)}  # fmt: skip
DEFAULTS = {"H": 3, "B": 32, "S": 512, "T": 10}
"""The paper's H = 3, B = 512, S = 8192, T = 10 of the whole chip, shared out to 16 cores."""
PAPER = {
    "H": "fewer hash tables compress more", "B": "fewer buckets compress more",
    "T": "a larger threshold compresses more", "S": "has little impact",
}  # fmt: skip


def measure(inferences: int) -> list[dict[str, Any]]:
    """A row for each pair of parameters and each of their values."""
    program = instrument(
        lower(map_graph(operator_graph("darknet19"), chip("default")), inferences=inferences)
    )
    trace = simulate(program, seed=1)
    base = SketchConfig(mode="hash")
    patterns = Patterns.of_program(program)
    known: dict[tuple[int, ...], dict[str, Any]] = {}
    rows = []
    for x, y in itertools.combinations(FIELDS, 2):
        for a, b in itertools.product(VALUES[x], VALUES[y]):
            values = {**DEFAULTS, x: a, y: b}
            key = tuple(values.values())
            if key not in known:
                changes: dict[str, Any] = {FIELDS[name]: value for name, value in values.items()}
                sketch = record(trace, program, dataclasses.replace(base, **changes), patterns)
                known[key] = {
                    **values, "ratio": round(sketch.ratio, 3),
                    "record_share": round(sketch.n_records_kept / sketch.n_records, 4),
                    "pattern_share": round(len(sketch.patterns) / sketch.n_patterns, 4),
                    "sketch_kib": round(sketch.nbytes / 1024, 2),
                }  # fmt: skip
            rows.append({"x": x, "y": y, **known[key]})
    return rows


def figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Twelve panels: the ratio above, the share of the records below."""
    pairs = list(itertools.combinations(FIELDS, 2))
    shape, panels = plt.subplots(2, 6, figsize=(20, 6.5))
    for column, (x, y) in enumerate(pairs):
        mine = [r for r in rows if (r["x"], r["y"]) == (x, y)]
        for line, (name, style) in enumerate((("ratio", ".1f"), ("record_share", ".2f"))):
            values = np.array([r[name] for r in mine]).reshape(len(VALUES[x]), len(VALUES[y]))
            axes = panels[line, column]
            axes.imshow(values, cmap="viridis", aspect="auto")
            for (i, j), value in np.ndenumerate(values):
                axes.text(j, i, format(value, style), ha="center", va="center", fontsize=8,
                          color="white" if value < values.mean() else "black")  # fmt: skip
            axes.set_xticks(range(len(VALUES[y])), [str(v) for v in VALUES[y]])
            axes.set_yticks(range(len(VALUES[x])), [str(v) for v in VALUES[x]])
            axes.set_xlabel(y)
            axes.set_ylabel(x)
            fixed = ", ".join(f"{k} = {v}" for k, v in DEFAULTS.items() if k not in (x, y))
            axes.set_title(f"{'ratio' if line == 0 else 'share of records'}; {fixed}", fontsize=9)
    shape.tight_layout()
    shape.savefig(path, dpi=80)
    plt.close(shape)


def trends(rows: list[dict[str, Any]]) -> list[str]:
    """Each parameter's own effect, beside what the paper says of it."""
    lines = ["| parameter | smallest to largest value | ratio | share of records | paper |"]
    lines.append("|---|---|---|---|---|")
    for name in FIELDS:
        line = [
            next(
                row
                for row in rows
                if all(row[k] == v for k, v in {**DEFAULTS, name: value}.items())
            )
            for value in VALUES[name]
        ]
        cells = [" → ".join(f"{r[what]:g}" for r in line) for what in ("ratio", "record_share")]
        values = " → ".join(map(str, VALUES[name]))
        lines.append(f"| {name} | {values} | {cells[0]} | {cells[1]} | {PAPER[name]} |")
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
    parser.add_argument("--inferences", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    rows = measure(arguments.inferences)
    arguments.out.mkdir(parents=True, exist_ok=True)
    stem = arguments.out / "sketch_heatmaps"
    with stem.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    figure(rows, stem.with_suffix(".png"))
    lines = [
        "# Parameters of the hash mode on DarkNet-19", "",
        f"{arguments.inferences} inferences, 4x4 mesh, sizes of one core, seed 1; {where()}.", "",
        *trends(rows), "",
        "The paper's figures 12 and 13 print colours, no numbers; its text says the last column.",
    ]  # fmt: skip
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
