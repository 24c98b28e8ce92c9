import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_tracer.baselines.silent import SilentDetector
from slowpoke_tracer.baselines.threshold import ThresholdDetector
from torch_slowpoke.cli import main
from torch_slowpoke.evaluation.accounting import Confusion
from torch_slowpoke.evaluation.campaign import Campaign, run_campaign
from torch_slowpoke.evaluation.cli import write_csv
from torch_slowpoke.evaluation.datasets import DATASETS
from torch_slowpoke.evaluation.difference import difference
from torch_slowpoke.evaluation.figure import save_campaign_figure
from torch_slowpoke.evaluation.published import TABLE_2
from torch_slowpoke.evaluation.results import Method, Results, outcome, read_results
from torch_slowpoke.evaluation.tables import (
    Table,
    errors_table,
    exposure_table,
    paired_table,
    paper_layout,
    tables,
)
from torch_slowpoke.evaluation.workloads import Workload


def row(
    task: str, detector: str, truth: list[str], reported: list[str], **kw: Any
) -> dict[str, Any]:
    return {
        "task": task, "workload": "darknet19 mesh:4x4", "dataset": "d", "split": "test",
        "kind": "fault" if truth else "seed", "variant": 0, "index": 0, "cluster": task,
        "noise_seed": 1, "n_excluded": 0, "faults": [], "truth": truth, "exposure": [3],
        "slowdown": 10.0 if truth else math.nan, "start_cycles": 0.0, "end_cycles": 1.0,
        "makespan_cycles": 9.0, "makespan_ratio": 1.2, "n_components": 40, "n_records": 5,
        "raw_bytes": 160, "sketch_bytes_per_core": 8.0, "probe_overhead": 0.02,
        "seconds_run": 0.1, "detector": detector, "evidence": "sketch", "verdict": "",
        "reported": reported, "ambiguous": [], "ranked": [], "ranked_scores": [], "rank": 1.0,
        "max_score": 1.0, "healthy_probability": 0.5, "not_covered": 0,
        "slowdown_estimate": math.nan, "start_estimate": math.nan, "end_estimate": math.nan,
        "refused": "", "storage_bytes": 8.0, "seconds": 0.1, **kw,
    }  # fmt: skip


def as_published(method: str, workload: str) -> Results:
    """Runs whose counts are those of a row of SlowPoke's Table 2, and the silent detector."""
    table = Confusion.from_published(*TABLE_2[method][workload])
    positives = table.tp + table.fn
    answers = [["core:1"]] * table.tp + [[]] * table.fn
    # every wrong item of the paper's SlowPoke is on a faulty run
    for i in range(table.fp):
        answers[-1 - i] = [*answers[-1 - i], "core:2"]
    mine = [
        row(f"p{i}", method, ["core:1"], list(a), n_excluded=int(i < 152 - positives))
        for i, a in enumerate(answers)
    ]
    mine += [row(f"n{i}", method, [], []) for i in range(152)]
    silent = [{**r, "detector": "silent", "reported": []} for r in mine]
    settings = {"detectors": [method, "silent"]}
    both = {Method(method, "sketch"): mine, Method("silent", "sketch"): silent}
    return Results(settings, both, ("darknet19 mesh:4x4",))


def cells(table: Table) -> dict[str, dict[str, Any]]:
    return {str(r[0]): dict(zip(table.columns, r, strict=True)) for r in table.rows}


def test_the_papers_row_is_printed_again_under_its_accounting() -> None:
    found = cells(paper_layout(as_published("slowpoke", "darknet19"), "paper-A"))
    mine = found["slowpoke (sketch)"]
    assert mine["accuracy %"] == "80.40 (242/301)"
    assert mine["FPR %"] == "12.64 (22/174)"
    assert (mine["printed accuracy %"], mine["printed FPR %"]) == ("80.40", "12.64")


def test_the_silent_detector_stands_beside_every_method() -> None:
    results = as_published("slowpoke", "darknet19")
    by = {
        name: cells(paper_layout(results, name))["silent (sketch)"]
        for name in ("strict", "paper-A", "paper-B")
    }
    assert by["paper-A"]["accuracy %"] == "54.48 (152/279)"
    assert by["paper-B"]["accuracy %"] == "54.48 (152/279)"
    assert by["strict"]["accuracy %"] == "54.48 (152/279)"
    assert all(cell["FPR %"].startswith("0.00") for cell in by.values())


def test_methods_are_paired_run_by_run() -> None:
    table = paired_table(as_published("slowpoke", "darknet19"))
    (silent,) = table.rows
    # 90 faults found, 22 wrong items all on missed runs: right on 90 runs that silence misses
    assert silent[:4] == ("silent (sketch)", 279, 90, 0)
    assert silent[4] == "<1e-6"


def test_every_table_has_as_many_cells_as_columns() -> None:
    for table in tables(as_published("slowpoke", "resnet50"), n_draws=5):
        assert all(len(line) == len(table.columns) for line in table.rows), table.name
        lines = table.markdown().rstrip().splitlines()
        bars = {line.count("|") for line in lines if line.startswith("|")}
        assert bars == {len(table.columns) + 1}


def test_what_is_unknown_prints_as_a_dash() -> None:
    results = as_published("slowpoke", "darknet19")
    faulty = {m: [r for r in rows if r["truth"]] for m, rows in results.rows.items()}
    found = {t.name: t for t in tables(replace(results, rows=faulty), n_draws=0)}
    assert found["table-ii"].rows[0][2] == "70.87 / -"  # 90 of 127, and no healthy run
    assert not any("nan" in table.markdown() for table in found.values())


def test_a_table_is_read_back_from_its_csv(tmp_path: Path) -> None:
    table = Table("t", "T", ("a", "b"), (("x, y", 1.5), ("z", math.nan)))
    write_csv(table, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["a", "b"], ["x, y", "1.5"], ["z", ""]]


def test_a_difference_pairs_the_cases_of_two_campaigns() -> None:
    first = as_published("slowpoke", "darknet19")
    method = Method("slowpoke", "sketch")
    changed = [dict(r) for r in first.rows[method]]
    for r in changed[:8]:  # eight hits become misses, one miss becomes a hit
        r["reported"] = []
    changed[-153]["reported"] = ["core:1"]
    second = replace(first, rows={method: changed})
    (line,) = difference(first, second).rows
    assert line[1] == 279
    assert line[4:6] == (1, 8)
    # two-sided binomial: 2 (1 + 9) / 512
    assert float(str(line[6])) == pytest.approx(20 / 512, rel=0.05)
    with pytest.raises(SlowpokeError, match="share no method"):
        difference(first, replace(first, rows={}))


@pytest.fixture
def done(tiny: Workload, tmp_path: Path) -> Path:
    plan = Campaign(
        (tiny,), DATASETS["balanced"], (ThresholdDetector(), SilentDetector()),
        positives=10, negatives=5,
    )  # fmt: skip
    run_campaign(plan, tmp_path / "run")
    return tmp_path / "run"


def test_a_report_is_written_as_csv_markdown_and_png(
    done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(done), "--draws", "10"]) == 0
    assert "threshold" in capsys.readouterr().out
    report = done / "report"
    names = {path.name for path in report.glob("*.csv")}
    assert {"protocol.csv", "table2-strict.csv", "table2-paper-a.csv", "table-ii.csv"} <= names
    text = (report / "report.md").read_text()
    assert "chain mesh:2x2" in text and "Read beside the silent detector" in text
    assert (report / "report.png").read_bytes().startswith(b"\x89PNG")


def test_a_campaign_differs_from_itself_in_nothing(
    done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", str(done), str(done), "--csv", str(tmp_path / "d.csv")]) == 0
    with (tmp_path / "d.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 4
    assert all(line["newly right"] == line["newly wrong"] == "0" for line in lines)
    assert all(line["McNemar p, Holm"] == "1" for line in lines)


def test_the_picture_of_a_campaign_without_faults_has_no_bars_to_fail_on(tmp_path: Path) -> None:
    results = as_published("slowpoke", "darknet19")
    healthy = {m: [r for r in rows if not r["truth"]] for m, rows in results.rows.items()}
    save_campaign_figure(replace(results, rows=healthy), tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 1000
    assert all(not outcome(r).positive for rows in healthy.values() for r in rows)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--workloads", "resnet5O", "--out", "x"], "unknown model 'resnet5O': did you mean"),
        (["--workloads", ",", "--out", "x"], "names nothing"),
        (["--workloads", "resnet50", "--out", "x", "--dataset", "y"], "data set 'y' is unknown"),
        (["--workloads", "resnet50", "--out", "x", "--detectors", "zscor"], "try zscore"),
        (["--workloads", "resnet50", "--out", "x", "--noise", "loud"], "noise 'loud' is unknown"),
        (["--workloads", "resnet50", "--out", "x", "--evidence", "log"], "choose sketch, trace"),
        (["--workloads", "resnet50", "--out", "x", "--mesh", "0x4"], "at least one column"),
        (["--workloads", "resnet50"], "Missing option '--out'"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["campaign", *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_a_report_of_no_campaign_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "holds no campaign" in capsys.readouterr().err


def test_results_are_ordered_as_the_campaign_names_them(done: Path) -> None:
    assert [str(m) for m in read_results(done).methods] == [
        "threshold (sketch)", "threshold (trace)", "silent (sketch)", "silent (trace)"]  # fmt: skip


def test_hits_are_told_apart_by_exposed_services_and_errors_are_listed() -> None:
    rows = [
        row("a", "mine", ["core:1"], ["core:1"], exposure=[49]),
        row("b", "mine", ["core:1"], [], exposure=[49], rank=3.0),
        row("c", "mine", ["core:1"], ["core:1"], exposure=[50]),
        row("d", "mine", ["core:1"], ["core:2"], exposure=[500], ambiguous=["core:1"]),
        row("e", "mine", [], [], exposure=[]),
        row("f", "mine", [], ["link:0-1"], exposure=[]),
    ]
    results = Results({}, {Method("mine", "sketch"): rows}, ("darknet19 mesh:4x4",))
    assert [r[1:] for r in exposure_table(results).rows] == [
        ("10x", "< 50", "1/2"), ("10x", "50 to 499", "1/1"), ("10x", "500 on", "0/1"),
    ]  # fmt: skip
    errors = errors_table(results).rows
    assert [(r[3], r[7], r[9], r[10], r[11]) for r in errors] == [
        ("core:1", "49", "-", 3.0, "no"),
        ("core:1", "500", "core:2", 1.0, "yes"),
        ("-", "-", "link:0-1", 1.0, "no"),
    ]
    old = {k: v for k, v in rows[0].items() if k != "alarm_cycles"}  # of an earlier version
    assert math.isnan(outcome(old).alarm_cycles)
