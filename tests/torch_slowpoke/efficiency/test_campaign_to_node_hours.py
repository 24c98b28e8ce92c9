"""A campaign that is really run, its report, and what its detectors are worth on a machine."""

import json
from pathlib import Path

import pytest

from slowpoke_mapping.graph import GRAPH_INPUT, Edge, Operator, OperatorGraph, OpKind
from slowpoke_tracer.baselines.silent import RandomDetector, SilentDetector
from slowpoke_tracer.baselines.threshold import ThresholdDetector
from torch_slowpoke.cli import main
from torch_slowpoke.evaluation.campaign import Campaign, run_campaign
from torch_slowpoke.evaluation.datasets import DATASETS
from torch_slowpoke.evaluation.store import read_rows
from torch_slowpoke.evaluation.workloads import Workload

DETECTORS = (ThresholdDetector(), RandomDetector(), SilentDetector())


def chain() -> OperatorGraph:
    """Four layers, a millisecond a run."""
    box = (1, 16, 16, 16)
    return OperatorGraph(
        "chain",
        tuple(
            Operator(
                f"layer{i}",
                kind=OpKind.LINEAR,
                box=box,
                inputs=(Edge(i - 1 if i else GRAPH_INPUT, box),),
                macs=1 << 20,
                weight_elements=64,
            )
            for i in range(4)
        ),
    )


def test_a_campaign_that_is_run_becomes_node_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLOWPOKE_CACHE", str(tmp_path / "cache"))
    folder, jobs = tmp_path / "run", tmp_path / "jobs.csv"
    jobs.write_text("n_nodes,hours\n512,6\n4096,24\n")
    run_campaign(
        Campaign(
            (Workload(chain(), "mesh:2x2"),),
            DATASETS["slowpoke-152"],
            DETECTORS,
            positives=8,
            negatives=6,
        ),
        folder,
    )
    assert main(["report", str(folder), "--draws", "0"]) == 0
    capsys.readouterr()
    rows = read_rows(folder).to_pylist()
    for detector in DETECTORS:
        mine = [r for r in rows if r["detector"] == detector.name and r["evidence"] == "sketch"]
        faulty = [set(r["truth"]) == set(r["reported"]) for r in mine if r["truth"]]
        healthy = [bool(r["reported"]) for r in mine if not r["truth"]]
        assert (len(faulty), len(healthy)) == (8, 6)
        for source in (folder, folder / "report" / "table2-strict.csv"):
            code = main(
                ["efficiency", "failslow", str(jobs), "--rate", "2e-5", "--bandwidth", "6TB/s",
                 "--checkpoint", "200GB", "--onset", "1e-5", "--campaign", str(source),
                 "--detector", f"{detector.name} (sketch)", "--json", "-"]
            )  # fmt: skip
            found = json.loads(capsys.readouterr().out)
            assert code == 0
            assert (found["recall"], found["false_alarm"]) == (sum(faulty) / 8, sum(healthy) / 6)
        if detector.name == "silent":
            assert found["saved_node_hours"] == 0.0
