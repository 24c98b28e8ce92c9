"""analyze() as a user calls it, on models small enough to run in a second."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torch_slowpoke
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.places import Core
from slowpoke_sim.machine import run
from slowpoke_tracer.diagnosis import Verdict
from slowpoke_tracer.sketch_config import SketchConfig
from torch_slowpoke.api import chip_for


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLOWPOKE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def small() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(8, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 12 * 12, 10),
    ).eval()


INPUT = torch.zeros(1, 8, 24, 24)


def analysis_of(**changes: Any) -> torch_slowpoke.Analysis:
    return torch_slowpoke.analyze(small(), INPUT, **{"mesh": (2, 2), **changes})


def test_a_users_own_module_is_diagnosed() -> None:
    analysis = analysis_of(faults=["core:1@10x"])
    assert analysis.diagnosis.verdict is Verdict.FAIL_SLOW
    assert analysis.diagnosis.reported[0].place == Core(1)
    assert analysis.slowdown > 1
    # 8 x 32 x 9 x 576 + 2 x 32 x 32 x 9 x 576 + 4608 x 10
    assert analysis.graph.macs == 1_327_104 + 2 * 5_308_416 + 46_080
    assert str(analysis).startswith("1. core:1 looks ")


def test_without_a_fault_the_verdict_is_healthy_and_nothing_was_slowed() -> None:
    analysis = analysis_of()
    assert analysis.diagnosis.verdict is Verdict.HEALTHY
    assert analysis.slowdown == 1.0
    assert analysis.exposure == ()
    assert str(analysis).startswith("healthy")


def test_the_same_seed_gives_the_same_result_byte_for_byte() -> None:
    first, second = (json.dumps(analysis_of(faults="core:1@3x").to_dict()) for _ in range(2))
    assert first == second
    assert json.dumps(analysis_of(faults="core:1@3x", seed=1).to_dict()) != first


def test_both_engines_lead_to_the_same_result() -> None:
    compiled, simpy = (
        analysis_of(faults="core:1@3x", engine=engine, inferences=4).to_dict()
        for engine in ("compiled", "simpy")
    )
    assert compiled.pop("engine") == "compiled"
    assert simpy.pop("engine") == "simpy"
    assert compiled == simpy


def test_a_fault_may_be_an_object_or_text() -> None:
    text = analysis_of(faults=["core:(1,0)@10x"])
    assert text.faults == (Fault(Core(1), 10.0),)
    assert analysis_of(faults=Fault(Core(1), 10.0)).to_dict() == text.to_dict()


def test_a_graph_and_a_mapping_can_be_handed_in_again(tmp_path: Path) -> None:
    first = analysis_of()
    path = tmp_path / "mapping.json"
    first.mapping.save(path)
    again = torch_slowpoke.analyze(first.graph, mesh=(2, 2), mapping=path)
    assert again.to_dict() == first.to_dict()
    given = torch_slowpoke.analyze(first.graph, mesh=(2, 2), mapping=first.mapping)
    assert given.to_dict() == first.to_dict()


def test_precision_scales_the_bytes_that_move() -> None:
    mapping = analysis_of().mapping

    def moved(precision: float | str) -> float:
        chip = analysis_of(precision=precision).chip
        assert chip.bytes_per_element == {"model": 4.0, 1.0: 1.0, 2.0: 2.0}[precision]
        plan = dataclasses.replace(mapping, chip=chip)
        return float(run(lower(plan)).timing.channel_bytes.sum())

    assert moved("model") == pytest.approx(4 * moved(1.0))
    assert moved(2.0) == pytest.approx(2 * moved(1.0))


def test_probes_cost_time_and_none_costs_none() -> None:
    assert analysis_of(probes="full").overhead > 0
    assert analysis_of(probes="comm").trace.compute.size == 0


def test_a_sketch_configuration_reaches_the_recorder() -> None:
    analysis = analysis_of(sketch=SketchConfig(n_epochs=2))
    assert analysis.sketch.n_epochs == 2


def test_progress_is_told_from_the_first_stage_to_the_last() -> None:
    told: list[tuple[str, int, int]] = []
    analysis_of(progress=lambda stage, done, total: told.append((stage, done, total)))
    assert [done for _, done, _ in told] == list(range(len(told)))
    assert told[-1][1] == told[-1][2]


def test_another_topology_or_preset_can_be_chosen() -> None:
    assert chip_for(topology="mesh:3x2").topology == "mesh:3x2"
    assert chip_for(chip="gemini-6x6").n_cores == 36
    assert chip_for("5x3").topology == "mesh:5x3"
    assert chip_for((5, 3)).topology == "mesh:5x3"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mesh": (0, 4)}, "mesh 0x4"),
        ({"mesh": "4"}, "4x4"),
        ({"mesh": (2.5, 2)}, "whole numbers"),
        ({"faults": "core:9@2x"}, "core:9"),
        ({"faults": "core:1@0.5x"}, "0.5"),
        ({"faults": "core:1@nanx"}, "slowdown"),
        ({"faults": "core:1@2x[5,5]"}, "empty"),
        ({"faults": "core:1@2x[nan,5]"}, "not a number"),
        ({"faults": "link:0-3@2x"}, "no such link"),
        ({"noise": "loud"}, "loud"),
        ({"engine": "warp"}, "warp"),
        ({"probes": "all"}, "all"),
        ({"detector": "robots"}, "robust"),
        ({"inferences": 0}, "0"),
        ({"batch": 0}, "0"),
        ({"precision": "half"}, "half"),
        ({"precision": -1}, "bytes_per_element"),
        ({"chip": "no-such-chip"}, "no-such-chip"),
        ({"topology": "cube:4"}, "cube"),
        ({"mapping": "no/such/file.json"}, "no/such/file.json"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(SlowpokeError) as error:
        analysis_of(**changes)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="analyse"):
        _ = torch_slowpoke.analyse
