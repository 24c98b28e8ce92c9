import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.places import Core, DramPort, Link
from slowpoke_mapping.topology import TOPOLOGIES
from torch_slowpoke.report.geometry import CORE_HALF, LANE, Geometry

SPECS = {"mesh": "mesh:4x3", "torus": "torus:4x4", "ring": "ring:8", "dragonfly": "dragonfly:2x4"}


@given(st.integers(1, 8), st.integers(1, 8))
def test_a_mesh_is_drawn_column_by_row_with_row_0_on_top(width: int, height: int) -> None:
    geometry = Geometry.of(ChipConfig(topology=f"mesh:{width}x{height}"))
    for core in range(width * height):
        assert geometry.centre(Core(core)) == (core % width, core // width)
    assert not geometry.bent.any()


def test_the_two_directions_of_a_link_lie_side_by_side() -> None:
    chip = ChipConfig(topology="mesh:2x1")
    there, back = (Geometry.of(chip).segments[chip.link_index(*ends)] for ends in ((0, 1), (1, 0)))
    assert there.tolist() == [[0.0, LANE], [1.0, LANE]]
    assert back.tolist() == [[1.0, -LANE], [0.0, -LANE]]


def test_a_link_is_centred_between_its_routers() -> None:
    geometry = Geometry.of(ChipConfig())
    assert geometry.centre(Link(5, 6, both=True)) == (1.5, 1.0)


def test_ports_lie_outside_the_grid_beside_their_router() -> None:
    geometry = Geometry.of(ChipConfig())  # ports at routers 4, 8 (west) and 7, 11 (east)
    ports = {geometry.centre(DramPort(p)) for p in range(4)}
    assert ports == {(-0.75, 1.0), (-0.75, 2.0), (3.75, 1.0), (3.75, 2.0)}
    assert {geometry.port_rotation(p) for p in range(4)} == {90.0}


@pytest.mark.parametrize("spec", [SPECS[name] for name in TOPOLOGIES if name in SPECS])
def test_every_topology_is_drawn_without_one_router_on_another(spec: str) -> None:
    geometry = Geometry.of(ChipConfig(topology=spec))
    apart = np.hypot(*(geometry.routers[:, None] - geometry.routers[None]).transpose(2, 0, 1))
    np.fill_diagonal(apart, np.inf)
    assert apart.min() > 2 * CORE_HALF
    assert np.isfinite(geometry.segments).all()
    assert np.isfinite(geometry.ports).all()


def test_a_chip_of_one_core_has_a_place_for_everything() -> None:
    geometry = Geometry.of(ChipConfig(topology="mesh:1x1"))
    assert geometry.size[0] > 0 and geometry.size[1] > 0
    assert geometry.segments.shape == (0, 2, 2)
    assert np.isfinite(geometry.ports).all()
