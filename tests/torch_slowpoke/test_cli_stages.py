"""The commands on a real, small model: binary_tree on a 2x2 mesh."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slowpoke_tracer.trace import Trace
from torch_slowpoke.cli import main

FILES = {
    "json": "d.json", "plot": "m.png", "html": "r.html", "perfetto": "p.json", "trace": "t.parquet"
}  # fmt: skip
LINE = "binary_tree --mesh 2x2 --inferences 4 --fault core:1@10x --seed 1".split()


def outputs(folder: Path) -> list[str]:
    return [word for key, name in FILES.items() for word in (f"--{key}", str(folder / name))]


def printed(*words: str) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        assert main(words) == 0
    return text.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("analyze")
    (folder / "stdout").write_text(printed("analyze", *LINE, *outputs(folder)))
    return folder


def result(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / FILES["json"]).read_text())
    return data


def test_the_slow_core_is_named_first_with_its_slowdown(folder: Path) -> None:
    assert (folder / "stdout").read_text().startswith("1. core:1 looks ")
    [claim] = result(folder)["reported"]
    assert claim["place"] == "core:1"
    assert claim["slowdown"] == pytest.approx(10, rel=0.2)
    assert claim["start_cycles"] < claim["end_cycles"]


def test_the_json_has_what_scripts_rely_on(folder: Path) -> None:
    data = result(folder)
    assert data["schema"] == 1
    assert data["verdict"] == "fail_slow"
    assert data["ranked"][0] == data["reported"][0]
    assert data["faults"] == ["core:1@10x"]


def test_every_file_is_written_in_its_own_format(folder: Path) -> None:
    assert (folder / FILES["plot"]).read_bytes().startswith(b"\x89PNG")
    assert '<h1 class="fail_slow">core:1 looks' in (folder / FILES["html"]).read_text()
    events = json.loads((folder / FILES["perfetto"]).read_text())["traceEvents"]
    trace = Trace.load(folder / FILES["trace"])
    assert trace.n_records == result(folder)["trace_records"]
    slices = [event for event in events if event["ph"] == "X" and event["pid"] == 1]
    assert len(slices) == len(trace.compute)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_files_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    # another process with other hashes, so that no order of a set can hide
    words = [sys.executable, "-m", "torch_slowpoke", "analyze", *LINE, *outputs(tmp_path)]
    subprocess.run(
        words, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": "7"}
    )
    for name in FILES.values():
        first, second = ((where / name).read_bytes() for where in (folder, tmp_path))
        if name == FILES["html"]:  # the page tells its command line
            first, second = (
                b"\n".join(line for line in page.splitlines() if b"<th>command" not in line)
                for page in (first, second)
            )
        assert first == second, name


def test_without_a_fault_the_same_command_says_healthy(tmp_path: Path) -> None:
    words = [word for word in LINE if word not in ("--fault", "core:1@10x")]
    data = json.loads(printed("analyze", *words, "--json", "-"))
    assert (data["verdict"], data["reported"]) == ("healthy", [])


def test_simulate_tells_where_the_time_goes(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    text = printed("simulate", *LINE, "--trace", str(path), "--json", str(tmp_path / "s.json"))
    assert "injected  core:1@10x: " in text
    data = json.loads((tmp_path / "s.json").read_text())
    assert Trace.load(path).meta.makespan_cycles == data["makespan_cycles"]
    busy = data["core_busy_cycles"]
    assert max(range(4), key=busy.__getitem__) == 1


def test_graph_shows_the_model_as_table_json_and_dot(tmp_path: Path) -> None:
    text = printed(
        "graph", "binary_tree", "--by", "kind", "--json", str(tmp_path / "g.json"),
        "--dot", str(tmp_path / "g.dot"),
    )  # fmt: skip
    data = json.loads((tmp_path / "g.json").read_text())
    assert "MAC" in text
    assert data["macs"] == sum(operator["macs"] for operator in data["operators"]) > 0
    assert (tmp_path / "g.dot").read_text().startswith("digraph")


def test_a_mapping_that_was_written_is_the_one_that_is_analysed(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    picture = tmp_path / "map.png"
    words = "binary_tree --mesh 2x2 --seed 1 --json".split()
    text = printed("map", *words, str(path), "--plot", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")
    written = json.loads(path.read_text())
    assert written["byte_hops"] > 0 and written["dram_bytes"] > 0
    assert f"{len(written['groups'])} layer groups" in text
    words = ["analyze", *LINE, "--json", "-"]
    again = json.loads(printed(*words, "--mapping", str(path)))
    assert again == json.loads(printed(*words))


def test_record_counts_the_bytes_of_both_kinds(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    text = printed(
        "record", "binary_tree", "--mesh", "2x2", "--inferences", "4", "--json", str(path)
    )
    data = json.loads(path.read_text())
    assert "comm" in text and "comp" in text
    assert data["raw_bytes"] == 32 * data["records"]
    entries = sum(part["entry_bytes"] for part in data["parts"].values())
    assert entries + data["fixed_bytes"] == data["sketch_bytes"]
