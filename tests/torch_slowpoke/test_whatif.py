"""What a fault costs, and what mapping around it brings."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

import torch_slowpoke
from slowpoke_mapping.chip import chip
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import parse_fault
from slowpoke_mapping.places import Core, DramPort, Link, Place, Router
from slowpoke_sim.machine import run
from slowpoke_tracer.diagnosis import Diagnosis, Suspect
from torch_slowpoke.whatif import estimated_faults, speeds


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Any:
    model = nn.Sequential(*(nn.Conv2d(16, 16, 3, padding=1) for _ in range(6)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLOWPOKE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield torch_slowpoke.analyze(
            model, torch.zeros(1, 16, 32, 32), mesh=(3, 2), faults=["core:4@8x"]
        )


def diagnosis_of(place: Place, slowdown: float) -> Diagnosis:
    suspect = Suspect(place, 1.0, 1.0, slowdown, 0.0, math.inf)
    return Diagnosis((suspect,), (suspect,))


def test_the_cost_is_the_makespan_with_over_without_the_estimated_fault(
    analysis: torch_slowpoke.Analysis,
) -> None:
    (cost,) = analysis.costs
    assert cost.place == Core(4)
    (fault,) = estimated_faults(analysis.diagnosis)
    slow = run(analysis.program, [fault], seed=0).timing.makespan_cycles
    assert cost.with_cycles == slow
    assert cost.without_cycles == analysis.healthy_timing.makespan_cycles
    assert cost.ratio == pytest.approx(analysis.slowdown, rel=0.1)


def test_mapping_around_a_slow_core_brings_time_back(analysis: torch_slowpoke.Analysis) -> None:
    remapped = analysis.remap()
    assert remapped.remapped_cycles < remapped.slow_cycles
    assert 0 < remapped.regained <= 1.1
    assert remapped.throughput == remapped.healthy_cycles / remapped.remapped_cycles
    assert "remapped" in str(remapped)
    work = {core: 0.0 for core in range(6)}
    for group in remapped.mapping.groups:
        for layer in group.layers:
            for core in layer.cores:
                work[core] += 1.0 / len(layer.cores)
    assert work[4] == min(work.values())


def test_a_healthy_run_costs_nothing_and_is_not_mapped_again() -> None:
    analysis = torch_slowpoke.analyze(
        nn.Conv2d(4, 4, 3), torch.zeros(1, 4, 16, 16), mesh=(2, 1), noise="none"
    )
    assert analysis.costs == ()
    with pytest.raises(SlowpokeError, match="nothing is reported"):
        analysis.remap()


@pytest.mark.parametrize(
    ("place", "slow_cores", "n_slow_links"),
    [(Core(4), 1, 0), (Link(0, 1, both=True), 0, 2), (Link(0, 1), 0, 1), (Router(4), 0, 8),
     (DramPort(0), 0, 0)],
)  # fmt: skip
def test_a_diagnosis_becomes_speeds_of_cores_and_links(
    place: Place, slow_cores: int, n_slow_links: int
) -> None:
    core_speed, link_speed = speeds(chip("default", topology="mesh:3x3"), diagnosis_of(place, 4.0))
    assert (core_speed == 0.25).sum() == slow_cores
    assert (link_speed == 0.25).sum() == n_slow_links
    assert set(core_speed) | set(link_speed) <= {0.25, 1.0}


def test_a_suspect_without_an_estimate_is_taken_as_healthy() -> None:
    suspect = Suspect(Core(1), 1.0, 1.0)
    (fault,) = estimated_faults(Diagnosis((suspect,), (suspect,)))
    assert fault == parse_fault("core:1@1x")
