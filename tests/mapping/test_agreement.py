"""The estimate beside the simulator, an independent account of the same mapping."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.cost import estimate
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_sim import run


@pytest.mark.parametrize("switching", ["cut_through", "store_and_forward"])
@pytest.mark.parametrize("topology", ["mesh:1x1", "mesh:4x4", "mesh:5x2"])
@pytest.mark.parametrize("units", [4, 9])
def test_every_group_takes_what_the_estimate_says_within_fifteen_per_cent(
    build: Any, topology: str, units: int, switching: str
) -> None:
    graph = build.residual(64, 32)
    chip = ChipConfig(topology=topology, units_per_batch=units, switching=switching)
    mapping = map_graph(graph, chip, evaluations=1000)
    program = lower(mapping, inferences=units)
    ends = run(program, noise="none", trace=False).timing.phase_end_cycles[0]
    simulated = np.diff(np.concatenate([[0.0], ends]))
    expected = [group.cycles for group in estimate(mapping).groups]
    np.testing.assert_allclose(expected, simulated, rtol=0.15)
