"""Results: the rows of a campaign as outcomes, by detector, evidence and workload."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_slowpoke.evaluation.outcome import Outcome
from torch_slowpoke.evaluation.published import SLOTH_WORKLOADS
from torch_slowpoke.evaluation.store import read_rows, read_settings

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Method:
    """A detector on a kind of evidence."""

    detector: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.detector} ({self.evidence})"


@dataclass(frozen=True, eq=False)
class Results:
    """What a campaign found.

    Attributes:
        settings: What the campaign is.
        rows: Of each method, its rows in the store's order.
        workloads: Labels, in the papers' order, others behind.
    """

    settings: dict[str, Any]
    rows: dict[Method, list[Row]]
    workloads: tuple[str, ...]

    @property
    def methods(self) -> tuple[Method, ...]:
        """In the campaign's order, sketch before trace."""
        order = {name: i for i, name in enumerate(self.settings.get("detectors", ()))}
        return tuple(
            sorted(self.rows, key=lambda m: (order.get(m.detector, len(order)), m.evidence))
        )

    def of(self, method: Method, workload: str | None = None) -> list[Row]:
        """Rows of a method, on one workload or on all."""
        return [row for row in self.rows[method] if workload in (None, row["workload"])]

    def cases(self, workload: str | None = None) -> list[Row]:
        """One row for each run, whoever judged it."""
        seen: dict[str, Row] = {}
        for rows in self.rows.values():
            for row in rows:
                if workload in (None, row["workload"]):
                    seen.setdefault(row["task"], row)
        return list(seen.values())

    def n_excluded(self, workload: str | None = None) -> int:
        """Injected faults that touched nothing, and so are no cases."""
        return sum(row["n_excluded"] for row in self.cases(workload))


def read_results(folder: Path) -> Results:
    """The results in a campaign's folder; it may still be running.

    Raises:
        SlowpokeError: The folder holds no campaign.
    """
    rows: dict[Method, list[Row]] = defaultdict(list)
    labels: dict[str, None] = {}
    for row in read_rows(folder).to_pylist():
        rows[Method(row["detector"], row["evidence"])].append(row)
        labels.setdefault(row["workload"])
    return Results(read_settings(folder), dict(rows), tuple(sorted(labels, key=_paper_order)))


def outcome(row: Row) -> Outcome:
    """A row as metrics read it."""
    return Outcome(
        truth=tuple(row["truth"]),
        reported=tuple(row["reported"]),
        rank=row["rank"],
        score=row["max_score"],
        n_components=row["n_components"],
        case=f"{row['workload']}/{row['cluster']}",
        cluster=row["cluster"],
        slowdown=row["slowdown"],
        slowdown_estimate=row["slowdown_estimate"],
        interval=(row["start_cycles"], row["end_cycles"]),
        interval_estimate=(row["start_estimate"], row["end_estimate"]),
        makespan_ratio=row["makespan_ratio"],
        exposure=min(row["exposure"], default=0),
        healthy_probability=row["healthy_probability"],
        alarm_cycles=row.get("alarm_cycles", math.nan),
        makespan_cycles=row["makespan_cycles"],
        refused=bool(row["refused"]),
        seconds=row["seconds"],
    )


def mean(values: list[float]) -> float:
    """Mean of what is known; NaN of nothing."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _paper_order(label: str) -> tuple[int, str]:
    model = label.split()[0]
    place = SLOTH_WORKLOADS.index(model) if model in SLOTH_WORKLOADS else len(SLOTH_WORKLOADS)
    return place, label
