"""`slowpoke efficiency failslow ...` as users type it, with the reference's figures."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.cli import main
from torch_slowpoke.efficiency.failslow import read_detector
from torch_slowpoke.evaluation.store import Store

STORE = ("--bandwidth", "6TB/s", "--checkpoint", "200GB")
RATE = ("--rate", "2e-5")
ONSET = ("--onset", "1e-5")
PAPER = ("--recall", "0.8677", "--false-alarm", "0.1211")
JOINT = ("joint", "--nodes", "64", *RATE, *STORE, *ONSET)
ACT = ("act", "--nodes", "64", *ONSET, *PAPER, "--alarms", "1")
POOL = ("pool", "--nodes", "64", *ONSET)
SHARE = ("share", "--nodes", "1024", "--time", "12h", *ONSET)
KIND = ("kinds", "--nodes", "64", "--kind")


def run(capsys: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, str]:
    """Exit code and what was printed: output, or the sentence about what is wrong."""
    code = main(["efficiency", "failslow", *(str(a) for a in args)])
    captured = capsys.readouterr()
    return code, captured.out if code == 0 else captured.err.strip()


def run_json(capsys: pytest.CaptureFixture[str], *args: str | Path) -> dict[str, Any]:
    code, out = run(capsys, *args, "--json", "-")
    assert code == 0, out
    loaded: dict[str, Any] = json.loads(out)
    assert loaded["schema"].startswith("slowpoke.efficiency.failslow")
    return loaded


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text("n_nodes,hours\n512,6\n4096,24\n64,2\n")
    return path


def test_the_slow_share_of_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    """F1 by hand, and F3 summed period by period."""
    found = run_json(capsys, *SHARE, "--recall", "1", "--period", "3h", "--found-after", "0s")
    cases = found["cases"]
    x = 1e-5 * 1024 * 12
    assert cases["none"]["slow_share"] == pytest.approx(1 - (1 - math.exp(-x)) / x, rel=1e-12)
    quarter = x / 4
    assert cases["periodic"]["slow_share"] == pytest.approx(
        1 - (1 - math.exp(-quarter)) / quarter, rel=1e-12
    )
    assert cases["random"]["slow_share"] == 0.0
    lost = cases["none"]["slow_share"] * (1 - 1 / 1.67) * 1024 * 12
    assert cases["none"]["lost_node_hours"] == pytest.approx(lost, rel=1e-12)


def test_the_references_cadence_of_diagnosis(capsys: pytest.CaptureFixture[str]) -> None:
    """P* = 2848.3 node-hours to first order and 2856.1 at best; losses of k in a row."""
    found = run_json(capsys, "period", "--nodes", "1024", *ONSET, *PAPER)
    rows = found["confirmations"]
    assert rows[0]["young_type_period_node_hours"] == pytest.approx(2848.3, abs=0.05)
    assert rows[0]["period_node_hours"] == pytest.approx(2856.1, rel=1e-3)
    assert rows[0]["efficiency"] == pytest.approx(0.983842, abs=1e-6)
    assert [row["young_type_loss"] for row in rows] == pytest.approx(
        [0.01640, 0.00811, 0.00564, 0.00541], rel=0.02
    )
    assert [row["young_type_period_hours"] for row in rows] == pytest.approx(
        [2.78, 0.95, 0.47, 0.36], rel=0.02
    )
    assert (found["n_agreeing"], found["efficiency"]) == (4, rows[3]["efficiency"])


def test_act_or_wait_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """Two alarms at odds of 7 each; 1,000 node-hours at 1e-5 make prior odds of e^0.01 - 1."""
    options = ("--nodes", "500", *ONSET, "--since-clean", "2h", "--slowdown", "2", "--drain", "1h",
               "--recall", "0.7", "--false-alarm", "0.1", "--alarms", "2")  # fmt: skip
    found = run_json(capsys, "act", *options, "--remaining", "10h")
    odds = math.expm1(0.01) * 49
    probability = odds / (1 + odds)
    assert found["probability"] == pytest.approx(probability, rel=1e-12)
    assert found["expected_gain_node_hours"] == pytest.approx(probability * 0.5 * 5000 - 500)
    assert found["action"] == "drain"
    assert run_json(capsys, "act", *options, "--remaining", "3h")["action"] == "wait"


def test_the_references_policies(capsys: pytest.CaptureFixture[str]) -> None:
    """F10: a checkpoint and a restart beat killing, .953533 against .943684 for 1,024 nodes.

    False alarms at 2e-5 per node-hour are 2e-5 N of the diagnoses that are an hour apart.
    """
    for n, drained, killed in ((1024, 0.953533, 0.943684), (4096, 0.883281, 0.849652)):
        swap = 2 * n * 200e9 / 6e12 + 2
        found = run_json(
            capsys, "joint", "--nodes", str(n), *RATE, *STORE, *ONSET, "--recall", "0.8677",
            "--false-alarm", str(2e-5 * n), "--period", "1h", "--found-after", "30min",
            "--drain", f"{swap!r}s",
        )  # fmt: skip
        cases = found["cases"]
        assert cases["drain"]["efficiency"] == pytest.approx(drained, abs=2e-5)
        assert cases["kill"]["efficiency"] == pytest.approx(killed, abs=2e-6)
        assert found["best"] == "drain"
        above = cases["drain"]["product_rule"] - cases["drain"]["efficiency"]
        assert 0 < above < 2e-3
        calm = cases["not slow"]
        assert calm["product_rule"] == pytest.approx(calm["efficiency"], rel=1e-9)


def test_the_worst_kind_rules_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: onsets times stay are 2 % for the core and 5 % for the link."""
    found = run_json(
        capsys, "kinds", "--nodes", "100",
        "--kind", "link:onset=5e-5,slowdown=2,stay=10h",
        "--kind", "core:onset=2e-5,slowdown=4,stay=10h",
    )  # fmt: skip
    core, link = 1 - math.exp(-0.02), 1 - math.exp(-0.05)
    assert found["loss"] == pytest.approx(core * 0.75 + (1 - core) * link * 0.5, rel=1e-12)
    assert found["alone"] == pytest.approx({"link": link * 0.5, "core": core * 0.75})


def test_what_a_check_before_the_job_is_worth(capsys: pytest.CaptureFixture[str]) -> None:
    """F7: 64.07 % of jobs of 1,024 nodes start slow if a slow node stays for 100 hours."""
    found = run_json(capsys, "pool", "--nodes", "1024", *ONSET, "--stay", "100h", "--time", "12h")
    assert found["slow_start_probability"] == pytest.approx(0.6407, abs=5e-5)
    x = 1e-5 * 1024 * 12
    checked = 1 - (1 - math.exp(-x)) / x
    assert found["slow_share_checked"] == pytest.approx(checked, rel=1e-12)
    more = found["slow_start_probability"] * (1 - checked)
    assert found["saved_node_hours"] == pytest.approx(more * (1 - 1 / 1.67) * 1024 * 12)


def test_a_file_of_jobs_stands_for_the_fleet(
    jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (*RATE, *STORE, *ONSET, *PAPER)
    assert run_json(capsys, jobs, *options) == run_json(capsys, "fleet", jobs, *options)
    assert run_json(capsys, *options, jobs)["schema"] == "slowpoke.efficiency.failslow/1"


@pytest.mark.parametrize("command", ["fleet", "share", "period", "act", "joint", "kinds", "pool"])
def test_help_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, command, "--help")
    assert code == 0
    assert f"slowpoke efficiency failslow {command}" in out.partition("Examples:")[2]


def test_each_command_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = ("--since-clean", "1h", "--remaining", "5h")
    for options in (
        SHARE,
        ("period", "--nodes", "64", *ONSET, *PAPER),
        (*ACT, *times),
        JOINT,
        (*KIND, "core:onset=1e-6,slowdown=2,stay=1h"),
        (*POOL, "--stay", "1h", "--time", "2h"),
    ):
        picture = tmp_path / f"{options[0]}.png"
        code, out = run(capsys, *options, "--plot", picture)
        assert code == 0 and out
        assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("period", "--nodes", "0", *ONSET, *PAPER), "0 nodes"),
        (("period", "--nodes", "-3", *ONSET, *PAPER), "-3 nodes"),
        (("period", "--nodes", "9" * 30, *ONSET, *PAPER), "nodes"),
        (("period", "--nodes", "64", "--onset", "often", *PAPER), "onset rate"),
        (("period", "--nodes", "64", *ONSET), "--recall"),
        (("period", "--nodes", "64", *ONSET, "--recall", "nan"), "between 0 and 1"),
        (("period", "--nodes", "64", *ONSET, *PAPER, "--slowdown", "nan"), "slowdown nan"),
        (("period", "--nodes", "64", *ONSET, *PAPER, "--probe", "2"), "no unit"),
        ((*SHARE, "--period", "1h"), "go together"),
        ((*SHARE, "--recall", "0.9"), "go together"),
        ((*SHARE, "--recall", "0.9", "--period", "0h"), "above zero"),
        ((*ACT, "--since-clean", "2", "--remaining", "3h"), "no unit"),
        ((*ACT, "--since-clean", "2h", "--remaining", "3h", "--alarms", "-1"), "alarms"),
        ((*JOINT, "--found-after", "1h"), "needs a detector"),
        ((*JOINT, "--recall", "0.9", "--found-after", "soon"), "mean time to detection"),
        ((*JOINT, "--recovery", "0s"), "above zero"),
        ((*JOINT, "--slowdown", "inf"), "finite"),
        ((*JOINT, "--rate", "0"), "no finite"),
        ((*KIND, "core"), "write it like"),
        ((*KIND, "a:onset=1,slowdown=x,stay=1h"), "from 1 on"),
        ((*KIND, "a:onset=1,slowdown=2,stay=1"), "no unit"),
        (("kinds", "--nodes", "64", *2 * ("--kind", "a:onset=1,slowdown=2,stay=1h")), "one name"),
        ((*POOL, "--stay", "1h", "--time", "0h"), "above zero"),
        ((*POOL, "--stay", "forever", "--time", "1h"), "stay"),
    ],
)
def test_faults_are_one_sentence(
    options: tuple[str, ...], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = run(capsys, *options)
    assert code == 2
    assert names in said and "\n" not in said


def test_extremes_have_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    never = run_json(capsys, "period", "--nodes", "64", *ONSET, "--recall", "0")
    assert never["confirmations"][0]["period_hours"] is None
    calm = run_json(capsys, "period", "--nodes", "64", "--onset", "0", *PAPER)
    assert calm["efficiency"] == 1.0
    free = run_json(capsys, "period", "--nodes", "64", *ONSET, "--recall", "1", "--probe", "0s")
    assert free["confirmations"][0]["period_hours"] == 0.0
    at_once = run_json(capsys, *JOINT, "--recall", "1", "--found-after", "0s")["cases"]
    later = run_json(capsys, *JOINT, "--recall", "1", "--found-after", "1h")["cases"]
    assert at_once["drain"]["efficiency"] > later["drain"]["efficiency"]


# ---- from a campaign to node-hours ---------------------------------------------------------------


def row(task: str, detector: str, truth: list[str], reported: list[str]) -> dict[str, Any]:
    return {
        "task": task, "workload": "darknet19 mesh:4x4", "dataset": "d", "split": "test",
        "kind": "fault" if truth else "seed", "variant": 0, "index": 0, "cluster": task,
        "noise_seed": 1, "n_excluded": 0, "faults": truth, "truth": truth, "exposure": [3],
        "slowdown": 10.0, "start_cycles": 0.0, "end_cycles": 1.0,
        "makespan_cycles": 9.0, "makespan_ratio": 1.2, "n_components": 40, "n_records": 5,
        "raw_bytes": 160, "sketch_bytes_per_core": 8.0, "probe_overhead": 0.02,
        "seconds_run": 0.1, "detector": detector, "evidence": "sketch", "verdict": "",
        "reported": reported, "ambiguous": [], "ranked": [], "ranked_scores": [], "rank": 1.0,
        "max_score": 1.0, "healthy_probability": 0.5, "not_covered": 0,
        "slowdown_estimate": math.nan, "start_estimate": math.nan, "end_estimate": math.nan,
        "refused": "", "storage_bytes": 8.0, "seconds": 0.1,
    }  # fmt: skip


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """Eight faulty and eight healthy runs.

    `robust` finds seven faults of eight and accuses one healthy run of eight; `silent` never does.
    """
    folder = tmp_path / "campaign"
    settings = {
        "labels": ["darknet19 mesh:4x4"], "detectors": ["robust", "silent"],
        "dataset": "d", "split": "test", "seed": 0, "evidence": ["sketch"], "code": "x",
        "versions": {"python": "3.11"},
    }  # fmt: skip
    with Store(folder, settings) as store:
        for i in range(16):
            truth = ["core:1"] if i < 8 else []
            says = {0: ["core:3"], 8: ["core:2"]}.get(i, truth)
            store.add([row(f"t{i}", "robust", truth, says), row(f"t{i}", "silent", truth, [])])
    return folder


def test_a_campaign_becomes_node_hours(
    campaign: Path, jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the store, and from the table that a report writes, the same to the last digit."""
    fleet = (jobs, *RATE, *STORE, *ONSET)
    typed = run_json(capsys, *fleet, "--recall", "0.875", "--false-alarm", "0.125")
    assert main(["report", str(campaign), "--draws", "0"]) == 0
    capsys.readouterr()
    table = campaign / "report" / "table2-strict.csv"
    for source in (campaign, campaign / "campaign.json", campaign / "report", table):
        found = run_json(capsys, *fleet, "--campaign", source, "--detector", "robust")
        assert (found["recall"], found["false_alarm"]) == (7 / 8, 1 / 8)
        assert found["detector"] == "robust (sketch)"
        assert found["saved_node_hours"] == typed["saved_node_hours"]
    assert read_detector(campaign, "silent (sketch)").recall == 0.0


def test_the_detector_option_alone_takes_a_result(
    campaign: Path, tmp_path: Path, jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = (jobs, *RATE, *STORE, *ONSET)
    code, said = run(capsys, *fleet, "--detector", campaign)
    assert code == 2 and "name one of them: robust (sketch), silent (sketch)" in said
    assert main(["report", str(campaign), "--draws", "0"]) == 0
    capsys.readouterr()
    lines = (campaign / "report" / "table2-strict.csv").read_text().splitlines()
    alone = tmp_path / "alone.csv"
    alone.write_text("\n".join(line for line in lines if not line.startswith("silent")) + "\n")
    assert run_json(capsys, *fleet, "--detector", alone)["recall"] == 7 / 8


def test_a_campaigns_other_files_are_one_sentence(campaign: Path, tmp_path: Path) -> None:
    assert main(["report", str(campaign), "--draws", "0"]) == 0
    report = campaign / "report"
    for path in (
        report / "protocol.csv",
        report / "report.md",
        report / "report.png",
        report / "none.csv",
        campaign / "parts",
        campaign / "manifest.jsonl",
    ):
        with pytest.raises(SlowpokeError, match=r"table2-strict\.csv|JSON|cannot be read"):
            read_detector(path)
    with pytest.raises(SlowpokeError, match="several detectors"):
        read_detector(report)
    bad = tmp_path / "bad.csv"
    for text in ("", "algorithm,TP,FN,FP,TN\n"):
        bad.write_text(text)
        with pytest.raises(SlowpokeError, match="no recall"):
            read_detector(bad)
    bad.write_text("algorithm,TP,FN,FP,TN\nrobust (sketch),3,1,0,0\n")
    with pytest.raises(SlowpokeError, match="healthy runs"):
        read_detector(bad)
    for cells in ("x,1,2,3", "1,2", "-1,2,3,4", "1e400,1,1,1"):
        bad.write_text(f"algorithm,TP,FN,FP,TN\nrobust (sketch),{cells}\n")
        with pytest.raises(SlowpokeError):
            read_detector(bad)
