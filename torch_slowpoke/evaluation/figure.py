"""The campaign as a picture: what becomes of faulty runs, how often healthy ones are accused."""

from __future__ import annotations

from pathlib import Path

from torch_slowpoke.evaluation.metrics import metrics
from torch_slowpoke.evaluation.results import Results, outcome

SHARES = (("hit", "exactly right", "#2a7f62"), ("partial", "partly right", "#9fcfa8"),
          ("misidentified", "wrong place", "#c8553d"), ("miss", "missed", "#d9d9d9"))  # fmt: skip


def save_campaign_figure(results: Results, path: Path) -> None:
    """Write a PNG (or what the suffix says): one bar for each method."""
    from matplotlib.figure import Figure

    methods = results.methods[::-1]
    figure = Figure(figsize=(9, 1.6 + 0.28 * len(methods)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    found = [metrics([outcome(row) for row in results.of(m)], n_draws=0) for m in methods]
    names = [str(method) for method in methods]
    start = [0.0] * len(methods)
    for attribute, label, colour in SHARES:
        parts = [getattr(m, attribute) for m in found]
        width = [part.value if part.n else 0.0 for part in parts]
        left.barh(names, width, left=start, color=colour, label=label)
        start = [a + b for a, b in zip(start, width, strict=True)]
    left.set_xlabel("share of faulty runs")
    left.set_xlim(0, 1)
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    alarms = [m.false_alarm for m in found]
    right.barh(names, [a.value if a.n else 0.0 for a in alarms], color="#c8553d")
    right.set_xlabel("healthy runs accused")
    right.set_xlim(0, 1)
    figure.savefig(path, dpi=150)
