"""The commands as users type them: figures, JSON, pictures, and one sentence for each fault."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.cli import app

STORE = ("--bandwidth", "6TB/s", "--checkpoint", "200GB")


def run(*args: str | Path) -> tuple[int, str]:
    """Exit code and output; as the main program, a SlowpokeError is code 2 and one line."""
    result = CliRunner().invoke(app, [str(a) for a in args])
    if isinstance(result.exception, SlowpokeError):
        return 2, str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def run_json(*args: str | Path) -> dict[str, Any]:
    code, out = run(*args, "--json", "-")
    assert code == 0, out
    loaded: dict[str, Any] = json.loads(out)
    assert loaded["schema"].startswith("slowpoke.efficiency.")
    return loaded


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "n_nodes,requested_hours,actual_hours\n512,6,3\n4096,24,20\n64,2,2\n2,1,0\n9000,12,11\n"
    )
    return path


@pytest.fixture
def sacct(tmp_path: Path) -> Path:
    path = tmp_path / "sacct.txt"
    lines = ["JobIDRaw|Submit|Start|End|Elapsed|Timelimit|AllocNodes|State|FailedNode"]
    for i in range(40):
        state = "NODE_FAIL" if i % 20 == 0 else "COMPLETED"
        day = f"2024-0{1 + i // 20}-{1 + i % 20:02d}"
        lines.append(
            f"{i}|{day}T00:00:00|{day}T00:00:00|{day}T10:00:00|10:00:00|12:00:00|500|{state}|n{i}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_papers_figures_are_one_switch_away(frontier_csv: Path) -> None:
    paper = run_json(
        "machine", frontier_csv, "--rate", "2e-5", *STORE, "--segments", "paper",
        "--definition", "paper",
    )  # fmt: skip
    assert round(paper["efficiency"], 3) == 0.957
    assert round(paper["l_chk"], 3) == 0.012
    assert round(paper["l_F"], 3) == 0.028
    assert round(paper["l_R"], 3) == 0.003
    never = run_json(
        "machine", frontier_csv, "--rate", "2e-5", *STORE, "--segments", "paper",
        "--definition", "paper", "--never",
    )  # fmt: skip
    assert round(never["efficiency"], 3) == 0.914
    ours = run_json("machine", frontier_csv, "--rate", "2e-5", *STORE)
    assert ours["efficiency"] == pytest.approx(0.956002, abs=1e-6)
    assert ours["efficiency"] == pytest.approx(1 - ours["l_F"] - ours["l_chk"] - ours["l_R"])
    variants = {(v["segments"], v["definition"]): v["efficiency"] for v in ours["variants"]}
    assert variants["paper", "paper"] == pytest.approx(paper["efficiency"], rel=1e-12)
    assert variants["exact", "renewal"] == pytest.approx(0.955171, abs=1e-6)
    assert any("hangs" in n for n in ours["notes"])


def test_a_reader_who_compares_is_told_why_the_figures_differ(table: Path) -> None:
    code, out = run("machine", table, "--rate", "2e-5", *STORE)
    assert code == 0
    assert "as printed: the last segment is charged in full" in out
    assert "restarts are charged but are not usage" in out
    assert "not modelled: hangs" in out


def test_a_log_with_failures_needs_no_rate(sacct: Path) -> None:
    found = run_json("machine", sacct, *STORE)
    assert found["rate"] == pytest.approx(2 / 200_000)
    low, median, high = found["band"]["efficiency"]
    assert low < median < high
    rate = run_json("rate", sacct)
    assert rate["rate"] == found["rate"]
    assert (rate["n_failures"], rate["states"]) == (2, {"COMPLETED": 38, "NODE_FAIL": 2})
    assert rate["dispersion"]["n_months"] == 2


def test_applications_have_their_own_rate_and_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("application,n_nodes,hours,n_jobs\nllm,512,24,10\ncfd,512,24,10\n")
    alike = run_json("machine", path, "--rate", "2e-5", *STORE)
    own = run_json(
        "machine", path, "--rate", "2e-5", *STORE, "--application",
        "llm:rate=1.5e-4,checkpoint=5TB,bandwidth=2TB/s,model=fixed",
    )  # fmt: skip
    assert own["efficiency"] != alike["efficiency"]
    code, out = run("machine", path, "--rate", "2e-5", *STORE, "--application", "llm:1e-4")
    assert code == 2 and "rate=1e-4" in out


def test_the_cadence_of_the_papers_example() -> None:
    found = run_json("cadence", "--nodes", "2000", "--rate", "2e-5", *STORE, "--step-time", "3s",
                     "--time", "12h")  # fmt: skip
    assert found["cadence_node_hours"] == pytest.approx(1899.889144, abs=1e-6)
    assert found["cadence_steps"] == 1139
    assert found["settings"]["dmtcp"] == "dmtcp_launch --interval 3420"
    assert found["efficiency"] == pytest.approx(0.9612685, abs=1e-7)
    assert found["job"]["n_checkpoints_before_the_last"] == 11
    code, out = run("cadence", "--nodes", "2000", "--rate", "frontier-2024", *STORE, "--time", "1h")
    assert code == 0 and "only the checkpoint at its end" in out


def test_what_a_detector_is_worth(table: Path, tmp_path: Path) -> None:
    campaign = tmp_path / "campaign.json"
    campaign.write_text('{"detector": "robust", "recall": 0.99, "run_false_positive_rate": 0.002}')
    options = ("failslow", table, "--rate", "2e-5", *STORE, "--onset", "1e-5")
    robust = run_json(*options, "--campaign", campaign)
    paper = run_json(*options, "--recall", "0.8677", "--false-alarm", "0.1211")
    assert robust["saved_node_hours"] > paper["saved_node_hours"]
    assert (robust["recall"], robust["detector"]) == (0.99, "robust")
    cases = robust["cases"]
    assert cases["none"]["efficiency"] < robust["efficiency"] < cases["perfect"]["efficiency"]
    assert robust["failstop_efficiency"] > cases["perfect"]["efficiency"]
    twice = run_json(*options, "--recall", "0.8677", "--false-alarm", "0.1211", "--confirm", "2")
    assert twice["saved_node_hours"] > paper["saved_node_hours"]
    hourly = run_json(*options, "--campaign", campaign, "--period", "1h")
    assert hourly["saved_node_hours"] <= robust["saved_node_hours"]


def test_playing_agrees_with_the_formula(table: Path) -> None:
    options = ("simulate", table, "--rate", "1e-4", *STORE, "--years", "300", "--seed", "4")
    found = run_json(*options)
    assert found["standard_errors_away"] <= 4
    assert found == run_json(*options)


def test_each_command_draws_and_writes(table: Path, sacct: Path, tmp_path: Path) -> None:
    rate = ("--rate", "2e-5")
    commands: dict[str, tuple[str | Path, ...]] = {
        "machine": (table, *rate, *STORE),
        "rate": (sacct,),
        "cadence": ("--nodes", "64", *rate, *STORE),
        "failslow": (table, *rate, *STORE, "--onset", "1e-5", "--recall", "0.9"),
        "simulate": (table, *rate, *STORE, "--years", "2"),
    }
    for name, options in commands.items():
        picture, data = tmp_path / f"{name}.png", tmp_path / f"{name}.json"
        code, out = run(name, *options, "--plot", picture, "--json", data)
        assert code == 0 and out, out
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert json.loads(data.read_text())["schema"]
    assert not list(tmp_path.glob("*.part"))


def test_the_papers_figures_by_one_command(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "figures"
    found = run_json("figures", table, "--out", folder, "--kind", "svg")
    assert sorted(p.name for p in folder.iterdir()) == [
        f"figure_{n}.svg" for n in ("3_1", "7_1", "7_2", "7_3", "7_4", "7_5")
    ]
    figures = found["figures"]
    factors = figures["7.2"]
    at_one = factors["cadence_factor"].index(1.0)
    assert factors["efficiency"][at_one] == pytest.approx(found["efficiency"], rel=1e-12)
    assert all(
        low <= e <= high
        for low, e, high in zip(factors["low"], factors["efficiency"], factors["high"], strict=True)
    )
    assert factors["never_checkpoint"] < found["efficiency"]
    assert len(figures["7.4"]["rate"]) == 80
    assert found["rate_interval"]["low"] < found["rate"] < found["rate_interval"]["high"]


def test_the_printed_curves_are_the_oracles(
    frontier_csv: Path, tmp_path: Path, oracle: dict[str, Any]
) -> None:
    out = ("--out", tmp_path, "--no-plot", "--segments", "paper", "--definition", "paper")
    figures = run_json("figures", frontier_csv, *out)["figures"]
    assert figures["7.2"]["efficiency"] == pytest.approx(oracle["fig7_2_grid"]["e"], rel=1e-8)
    assert figures["7.2"]["as_printed"] == pytest.approx(oracle["fig7_2_grid"]["e"], rel=1e-8)
    assert figures["7.2"]["best"]["cadence_factor"] == pytest.approx(oracle["fig7_2_peak"]["frac"])
    assert figures["7.4"]["efficiency"] == pytest.approx(oracle["fig7_4_grid"]["e"], rel=1e-8)
    for n, row in oracle["fig7_3_grid"].items():
        if n in figures["7.3"]["efficiency"]:
            assert figures["7.3"]["efficiency"][n] == pytest.approx(row, rel=1e-8)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--bandwidth", "6", "--checkpoint", "200GB"), "no unit"),
        (("--bandwidth", "6TB", "--checkpoint", "200GB"), "unknown unit"),
        (("--bandwidth", "0TB/s", "--checkpoint", "200GB"), "greater than zero"),
        (("--bandwidth", "6TB/s", "--checkpoint", "200"), "no unit"),
        (("--bandwidth", "6TB/s", "--checkpoint", "-1GB"), "not negative"),
        ((*STORE, "--rate", "-2e-5"), "not negative"),
        ((*STORE, "--rate", "nan"), "failure rate"),
        ((*STORE, "--rate", "inf"), "failure rate"),
        ((*STORE, "--rate", "fast"), "failure rate"),
        ((*STORE, "--setup", "2"), "setup time"),
        ((*STORE, "--model", "global"), "shared, local or fixed"),
        ((*STORE, "--segments", "whole"), "paper, exact or equal"),
        ((*STORE, "--definition", "ours"), "paper or renewal"),
        ((*STORE, "--durations", "guessed"), "scaled, requested or actual"),
        ((*STORE, "--factor", "0"), "above zero"),
        ((*STORE, "--factor", "nan"), "above zero"),
        ((*STORE, "--rounding", "none"), "segments='paper'"),
        ((*STORE, "--read-ratio", "nan"), "read_ratio"),
        ((*STORE, "--format", "excel"), "unknown"),
        ((*STORE, "--failures", "-1"), "not negative"),
        ((*STORE, "--application", "x"), "write it like"),
        ((*STORE, "--plot", "picture.docx"), "cannot be drawn"),
        ((*STORE, "--plot", "none/picture.png"), "cannot be written"),
        ((*STORE, "--json", "none/out.json"), "cannot be written"),
        ((*STORE, "--json", "."), "names no file"),
        ((*STORE, "--json", ""), "names no file"),
    ],
)
def test_faults_are_one_sentence(
    table: Path, options: tuple[str, ...], names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    rate = () if "--rate" in options else ("--rate", "2e-5")
    code, out = run("machine", table, *rate, *options)
    assert code == 2
    assert names in out and "\n" not in out


def test_more_faults_are_one_sentence(table: Path, tmp_path: Path) -> None:
    rate = ("--rate", "2e-5")
    cases: list[tuple[tuple[str | Path, ...], str]] = [
        (("machine", table, *STORE), "--rate"),
        (("machine", tmp_path / "none.csv", *rate, *STORE), "does not exist"),
        (("rate", table), "--failures"),
        (("cadence", "--nodes", "0", *rate, *STORE), "0 nodes"),
        (("cadence", "--nodes", "4", *rate, *STORE, "--step-time", "0s"), "step time"),
        (("cadence", "--nodes", "4", *rate, *STORE, "--time", "0h"), "above zero"),
        (("failslow", table, *rate, *STORE, "--onset", "1e-5"), "--recall"),
        (("failslow", table, *rate, *STORE, "--onset", "1e-5", "--recall", "1.5"), "between 0"),
        (
            (
                "failslow",
                table,
                *rate,
                *STORE,
                "--onset",
                "1e-5",
                "--recall",
                "1",
                "--slowdown",
                "0.5",
            ),
            "at least 1",
        ),
        (
            (
                "failslow",
                table,
                *rate,
                *STORE,
                "--onset",
                "1e-5",
                "--recall",
                "1",
                "--period",
                "0h",
            ),
            "above zero",
        ),
        (("simulate", table, "--rate", "0", *STORE), "nothing fails"),
        (("simulate", table, *rate, *STORE, "--years", "0"), "years"),
        (("figures", table, "--kind", "docx", "--out", tmp_path), "png, svg or pdf"),
        (("figures", table, "--rate", "0", "--out", tmp_path), "failure rate 0"),
        (("figures", table, "--out", table), "cannot be made"),
    ]
    for options, names in cases:
        code, out = run(*options)
        assert code == 2, options
        assert names in out and "\n" not in out, out


def test_a_rate_of_zero_and_a_hopeless_one_have_a_result(table: Path) -> None:
    assert run_json("machine", table, "--rate", "0", *STORE)["efficiency"] == 1.0
    hopeless = run_json("machine", table, "--rate", "1e3", *STORE)
    assert hopeless["efficiency"] == 0.0
    assert hopeless["variants"][0]["efficiency"] is None
    free = run_json("cadence", "--nodes", "1", "--rate", "0", *STORE)
    assert (free["efficiency"], free["cadence_seconds"]) == (1.0, None)


def test_a_rate_without_digits_is_none(table: Path) -> None:
    """1e-320 is no longer a number with 16 digits, and no machine's rate."""
    for segments in ("paper", "exact", "equal"):
        found = run_json("machine", table, "--rate", "1e-320", *STORE, "--segments", segments)
        assert found["efficiency"] == 1.0
    code, out = run("simulate", table, "--rate", "1e-320", *STORE)
    assert code == 2 and "nothing fails" in out


def test_importing_it_brings_neither_torch_nor_pandas_nor_matplotlib() -> None:
    code = (
        "import sys, torch_slowpoke.efficiency.cli; "
        "print([m for m in ('torch', 'pandas', 'matplotlib', 'pyarrow', 'scipy', 'numba') "
        "if m in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "[]"
