"""The tables of a campaign: the papers' layouts, and the protocol's own figures."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_slowpoke.evaluation.accounting import ACCOUNTINGS, Confusion
from torch_slowpoke.evaluation.datasets import FAULT
from torch_slowpoke.evaluation.metrics import STRATA, by_impact, kind_confusion, metrics
from torch_slowpoke.evaluation.outcome import Outcome
from torch_slowpoke.evaluation.published import TABLE_2
from torch_slowpoke.evaluation.results import Method, Results, mean, outcome
from torch_slowpoke.evaluation.statistics import Proportion, holm, mcnemar

Cell = str | float | int

EXPOSURES = (50, 500)
"""Edges between strata of exposed services."""


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table.

    Attributes:
        name: Of its CSV file.
        title: Above it.
        columns: Names.
        rows: As many cells each as there are columns; NaN prints as a dash.
        note: How to read it.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """GitHub's Markdown."""
        lines = [f"### {self.title}", ""]
        if self.note:
            lines += [self.note, ""]
        lines += [_line(self.columns), _line(["---"] * len(self.columns))]
        lines += [_line([text(cell) for cell in row]) for row in self.rows]
        return "\n".join(lines) + "\n"


def text(cell: Cell) -> str:
    """A cell as people read it: three decimals, a dash for the unknown."""
    if isinstance(cell, float):
        return "-" if math.isnan(cell) else f"{cell:.3f}"
    return str(cell)


def tables(results: Results, n_draws: int = 200) -> list[Table]:
    """Every table of a campaign.

    Args:
        results: Of `read_results`.
        n_draws: Resamples of each bootstrap interval.
    """
    made = [
        campaign_table(results),
        protocol_table(results, n_draws),
        paper_layout(results, "strict"),
        paper_layout(results, "paper-A"),
        paper_layout(results, "paper-B"),
        by_workload(results),
        paired_table(results),
        strata_table(results),
        exposure_table(results),
        negatives_table(results),
        confusion_table(results),
        errors_table(results),
    ]
    return [table for table in made if table.rows]


def campaign_table(results: Results) -> Table:
    """What was run: cases, exclusions, impact, size."""
    rows: list[tuple[Cell, ...]] = []
    for workload in results.workloads:
        cases = results.cases(workload)
        faulty = [row for row in cases if row["kind"] == FAULT]
        rows.append((
            workload, len(faulty), len(cases) - len(faulty), results.n_excluded(workload),
            mean([float(row["n_records"]) for row in cases]),
            mean([row["makespan_ratio"] for row in faulty]),
            max((row["makespan_ratio"] for row in faulty), default=math.nan),
            100 * mean([row["probe_overhead"] for row in cases]),
            mean([row["sketch_bytes_per_core"] for row in cases]),
            mean([row["seconds_run"] for row in cases]),
        ))  # fmt: skip
    return Table(
        "campaign", "What was run",
        ("workload", "faulty runs", "runs without fault", "excluded faults", "records",
         "mean slowdown of the run", "largest", "probe overhead %", "sketch bytes, largest core",
         "seconds a run"),
        tuple(rows),
        "An excluded fault touched no service of its run (ground truth, alike for every method) "
        "and was drawn again.",
    )  # fmt: skip


def protocol_table(results: Results, n_draws: int = 200) -> Table:
    """The protocol's figures of each method, over all workloads."""
    rows: list[tuple[Cell, ...]] = []
    for method in results.methods:
        mine = results.of(method)
        m = metrics([outcome(row) for row in mine], n_draws)
        failed = sum(row["refused"].startswith("failed") for row in mine)
        rows.append((
            method.detector, method.evidence, str(m.strict_accuracy), str(m.false_alarm),
            str(m.hit), m.partial.value, m.misidentified.value, m.miss.value,
            *(m.top[k].value for k in (1, 3, 5)), _with(m.mrr, m.mrr_interval),
            _with(m.auroc, m.auroc_interval), m.pauroc, m.recall_at_1, m.recall_at_5,
            m.component_fpr, m.precision, m.f1, m.interval_iou, m.slowdown_error, m.latency,
            m.brier, m.calibration_error,
            round(mean([row["storage_bytes"] for row in mine])), m.seconds,
            m.refused - failed, failed,
        ))  # fmt: skip
    return Table(
        "protocol", "Every method on the same runs",
        ("method", "evidence", "strict accuracy", "run FPR", "hit", "partly right", "wrong place",
         "miss", "top-1", "top-3", "top-5", "MRR", "AUROC", "pAUROC 5 %", "recall at 1 % FPR",
         "recall at 5 % FPR", "component FPR", "precision", "F1", "interval IoU",
         "slowdown error", "alarm after, share of run", "Brier", "calibration error",
         "bytes a core", "seconds", "refused", "failed"),
        tuple(rows),
        "Hit, partly right, wrong place and miss share the faulty runs. Intervals are 95 %: "
        "Wilson, and cluster bootstrap by fault for MRR and AUROC.",
    )  # fmt: skip


def paper_layout(results: Results, accounting: str) -> Table:
    """Accuracy and FPR by method and workload, in the layout of SlowPoke's Table 2."""
    rows: list[tuple[Cell, ...]] = []
    for method in results.methods:
        for workload in results.workloads:
            table = _confusion(results, method, workload, accounting)
            printed = TABLE_2.get(method.detector, {}).get(workload.split()[0])
            paper = Confusion.from_published(*printed) if printed else None
            total = table.tp + table.fn + table.fp + table.tn
            rows.append((
                str(method), workload,
                _percent(table.accuracy, table.tp + table.tn, total),
                _percent(table.false_positive_rate, table.fp, table.fp + table.tn),
                table.tp, table.fn, table.fp, table.tn,
                f"{100 * paper.accuracy:.2f}" if paper else "-",
                f"{100 * paper.false_positive_rate:.2f}" if paper else "-",
            ))  # fmt: skip
    labels = {
        "strict": "Strict accounting: runs are counted",
        "paper-A": "Paper accounting A: TN is the number of injected faults",
        "paper-B": "Paper accounting B: TN is the number of clean negatives",
    }
    return Table(
        f"table2-{accounting.lower()}", f"{labels[accounting]} (layout of SlowPoke, Table 2)",
        ("algorithm", "workload", "accuracy %", "FPR %", "TP", "FN", "FP", "TN",
         "printed accuracy %", "printed FPR %"),
        tuple(rows),
        "" if accounting == "strict" else
        "Read beside the silent detector: it never reports anything.",
    )  # fmt: skip


def by_workload(results: Results) -> Table:
    """Accuracy / FPR with workloads across, in the layout of SLOTH's Table II."""
    rows: list[tuple[Cell, ...]] = []
    for accounting in ACCOUNTINGS:
        for method in results.methods:
            cells = []
            for workload in results.workloads:
                table = _confusion(results, method, workload, accounting)
                shares = (table.accuracy, table.false_positive_rate)
                cells.append(" / ".join(_two_decimals(100 * share) for share in shares))
            rows.append((accounting, str(method), *cells))
    return Table(
        "table-ii", "Accuracy / FPR in per cent (layout of SLOTH, Table II)",
        ("accounting", "method", *results.workloads), tuple(rows),
    )  # fmt: skip


def paired_table(results: Results) -> Table:
    """Each method against the first: exact McNemar on the same runs, Holm over comparisons."""
    methods = results.methods
    if len(methods) < 2:
        return Table("paired", "", (), ())
    right = {m: {row["task"]: outcome(row).exact for row in results.of(m)} for m in methods}
    rows: list[list[Cell]] = []
    p_values = []
    for method in methods[1:]:
        both = right[methods[0]].keys() & right[method].keys()
        first = sum(right[methods[0]][t] and not right[method][t] for t in both)
        second = sum(right[method][t] and not right[methods[0]][t] for t in both)
        p_values.append(mcnemar(first, second))
        rows.append([str(method), len(both), first, second])
    return Table(
        "paired", f"{methods[0]} against each other method, strictly right on the same runs",
        ("method", "runs", "only the first is right", "only this one is right", "McNemar p, Holm"),
        tuple(
            (*row, "<1e-6" if p < 1e-6 else f"{p:.2g}")
            for row, p in zip(rows, holm(p_values), strict=True)
        ),
    )  # fmt: skip


def strata_table(results: Results) -> Table:
    """Hit rates of faulty runs by kind of place, slowdown and increase of the makespan."""

    def kind_of(o: Outcome) -> str:
        return o.truth[0].partition(":")[0] if len(o.truth) == 1 else f"{len(o.truth)} places"

    columns: dict[str, Callable[[Outcome], bool]] = {}
    everything = [outcome(row) for row in results.cases() if row["truth"]]
    for kind in sorted({kind_of(o) for o in everything}):
        for k in sorted({o.slowdown for o in everything}):
            columns[f"{kind} {k:g}x"] = lambda o, kind=kind, k=k: (  # type: ignore[misc]
                kind_of(o) == kind and o.slowdown == k
            )
    rows: list[tuple[Cell, ...]] = []
    for method in results.methods:
        mine = [outcome(row) for row in results.of(method) if row["truth"]]
        cells = [_hits([o for o in mine if chosen(o)]) for chosen in columns.values()]
        cells += [_hits(part) for part in by_impact(mine)]
        rows.append((str(method), *cells))
    impacts = [
        f"run +{100 * low:g}..{100 * high:g} %" if high < math.inf else f"run +{100 * low:g} % on"
        for low, high in STRATA
    ]
    return Table(
        "strata", "Hits by kind of fault, slowdown and what it costs the run",
        ("method", *columns, *impacts), tuple(rows) if everything else (),
    )  # fmt: skip


def exposure_table(results: Results) -> Table:
    """Hit rates of single faults by kind of place, slowdown and services that overlap them."""
    chosen = {m: [outcome(row) for row in results.of(m)] for m in results.methods}
    strata: dict[tuple[str, float, int], None] = {}
    keyed: dict[Method, dict[tuple[str, float, int], list[Outcome]]] = {}
    for method, outcomes in chosen.items():
        mine = keyed.setdefault(method, defaultdict(list))
        for o in outcomes:
            if len(o.truth) == 1:
                stratum = sum(o.exposure >= edge for edge in EXPOSURES)
                key = (o.truth[0].partition(":")[0], o.slowdown, stratum)
                strata[key] = None
                mine[key].append(o)
    order = sorted(strata, key=lambda k: (k[0], -k[1], k[2]))
    names = (f"< {EXPOSURES[0]}", f"{EXPOSURES[0]} to {EXPOSURES[1] - 1}", f"{EXPOSURES[1]} on")
    rows = tuple(
        (kind, f"{k:g}x", names[stratum],
         *(_hits(keyed[m][kind, k, stratum]) for m in results.methods))
        for kind, k, stratum in order
    )  # fmt: skip
    return Table(
        "exposure", "Hits by kind of fault, slowdown and exposed services",
        ("place", "slowdown", "services", *map(str, results.methods)), rows,
    )  # fmt: skip


def errors_table(results: Results) -> Table:
    """Every run that the first method judged wrongly."""
    if not results.methods:
        return Table("errors", "", (), ())
    rows: list[tuple[Cell, ...]] = []
    for row in results.of(results.methods[0]):
        o = outcome(row)
        if o.exact:
            continue
        lasting = (row["end_cycles"] - row["start_cycles"]) / row["makespan_cycles"]
        rows.append((
            row["workload"], row["kind"], row["index"], "; ".join(o.truth) or "-", o.slowdown,
            row["start_cycles"] / row["makespan_cycles"], lasting,
            " ".join(map(str, row["exposure"])) or "-", 100 * (o.makespan_ratio - 1),
            "; ".join(o.reported) or "-", o.rank,
            "yes" if set(o.truth) & set(row["ambiguous"]) else "no",
        ))  # fmt: skip
    return Table(
        "errors", f"What {results.methods[0]} got wrong",
        ("workload", "kind", "case", "slow", "slowdown", "onset, share of run", "lasting, share",
         "services exposed", "run longer by %", "reported", "rank of the truth",
         "named as ambiguous"),
        tuple(rows),
    )  # fmt: skip


def negatives_table(results: Results) -> Table:
    """False alarms by kind of negative."""
    kinds = sorted({row["kind"] for row in results.cases() if not row["truth"]})
    rows: list[tuple[Cell, ...]] = []
    for method in results.methods:
        counts: dict[str, list[bool]] = defaultdict(list)
        for row in results.of(method):
            counts[row["kind"]].append(bool(row["reported"]))
        rows.append((str(method), *(f"{sum(counts[k])}/{len(counts[k])}" for k in kinds)))
    return Table(
        "negatives", "False alarms by kind of negative", ("method", *kinds),
        tuple(rows) if kinds else (),
        "seed: another draw of the noise; modified: a shallower network; congestion: background "
        "traffic that the program does not have; stale: links at 0.9 of the data sheet and the "
        "profile; harsh: the harsh noise.",
    )  # fmt: skip


def confusion_table(results: Results) -> Table:
    """True kind of place -> reported kind, runs."""
    counts = {m: kind_confusion([outcome(r) for r in results.of(m)]) for m in results.methods}
    pairs = sorted({pair for counter in counts.values() for pair in counter})
    return Table(
        "kinds", "Runs by true kind and reported kind",
        ("method", *(f"{true} as {reported}" for true, reported in pairs)),
        tuple((str(m), *(counts[m][pair] for pair in pairs)) for m in results.methods),
    )  # fmt: skip


def _confusion(results: Results, method: Method, workload: str, accounting: str) -> Confusion:
    outcomes = [outcome(row) for row in results.of(method, workload)]
    return ACCOUNTINGS[accounting](outcomes, results.n_excluded(workload))


def _hits(outcomes: Sequence[Outcome]) -> str:
    share = Proportion(sum(o.exact for o in outcomes), len(outcomes))
    return f"{share.k}/{share.n}" if share.n else "-"


def _with(value: float, interval: tuple[float, float]) -> str:
    if math.isnan(interval[0]):  # no data, or no resamples were asked for
        return text(value)
    return f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"


def _percent(share: float, part: int, whole: int) -> str:
    return f"{100 * share:.2f} ({part}/{whole})" if whole else "-"


def _two_decimals(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
