import copy
import pickle
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowpoke_mapping.chip import ChipConfig, EnergyCosts, ProbeCosts, chip, chip_names, mesh_size
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.places import Core, DramPort, Link, Place, Router

CHIP = ChipConfig()
POSITIVE = st.floats(1e-300, 1e300)
NON_NEGATIVE = st.just(0.0) | POSITIVE


@st.composite
def chips(draw: st.DrawFn) -> ChipConfig:
    width, height = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    ports = draw(st.lists(st.integers(0, width * height - 1), unique=True, max_size=4))
    return ChipConfig(
        name=draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
        topology=f"mesh:{width}x{height}",
        clock_hz=draw(POSITIVE),
        link_bytes_per_cycle=draw(POSITIVE),
        router_delay_cycles=draw(NON_NEGATIVE),
        switching=draw(st.sampled_from(["cut_through", "store_and_forward"])),
        buffer_packets=draw(st.integers(0, 8)),
        multicast=draw(st.booleans()),
        dram_routers=tuple(ports),
        units_per_batch=draw(st.integers(1, 64)),
        probe_costs=ProbeCosts(hash_cycles=draw(NON_NEGATIVE)),
        energy=EnergyCosts(mac_pj=draw(NON_NEGATIVE)),
    )


@given(config=chips())
def test_a_chip_reads_back_from_its_toml(config: ChipConfig) -> None:
    assert ChipConfig(**tomllib.loads(config.to_toml())) == config


@given(config=chips())
def test_a_chip_reads_back_from_its_json(config: ChipConfig) -> None:
    assert ChipConfig.model_validate_json(config.model_dump_json()) == config


def test_a_chip_is_a_value_whatever_was_asked_of_it_before() -> None:
    used = ChipConfig()
    assert len(used.physical_links) == 24
    for same in (pickle.loads(pickle.dumps(used)), copy.deepcopy(used), ChipConfig()):
        assert same == used
        assert hash(same) == hash(used)
    with pytest.raises(ValueError, match="frozen"):
        used.clock_hz = 2e9  # type: ignore[misc]


@pytest.mark.parametrize("name", chip_names())
def test_every_preset_is_a_chip_that_bears_its_name(name: str) -> None:
    config = chip(name)
    assert config.name == name
    assert name == "default" or config.topology == f"mesh:{name.rpartition('-')[2]}"


def test_the_presets_have_the_published_values() -> None:
    paper = chip("paper-4x4")
    assert (paper.n_cores, paper.switching) == (16, "store_and_forward")
    assert paper.macs_per_cycle == 1024  # SlowPoke section 4.1
    assert paper.probe_costs.clock_read_cycles == 10  # SlowPoke section 4.3
    gemini = chip("gemini-6x6")
    # Gemini, HPCA 2024: 144 GB/s over four controllers at 1 GHz
    assert gemini.dram_bytes_per_cycle * len(gemini.dram_ports) * gemini.clock_hz == 144e9
    assert (gemini.n_cores, gemini.sram_bytes) == (36, 2 * 2**20)


def test_a_file_is_a_chip_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\ntopology = "mesh:3x2"\n[probe_costs]\nhash_cycles = 7\n')
    mine = chip(path)
    assert (mine.n_cores, mine.probe_costs.hash_cycles) == (6, 7)
    assert chip(str(path), clock_hz=2e9) == mine.replace(clock_hz=2e9)


def test_a_chip_passes_through() -> None:
    assert chip(CHIP) is CHIP
    assert chip(CHIP, clock_hz=5.0).clock_hz == 5.0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"name = ", "not a TOML file"),
        (b"\xff\xfe", "not a TOML file"),
        (b"clock = 3", "a chip has no value 'clock'"),
        (b"topology = 3", "chip value topology = 3"),
        (b"[energy]\nmac_jp = 1", "no value 'energy.mac_jp'; did you mean mac_pj"),
    ],
)
def test_a_file_that_is_no_chip_is_refused_in_a_sentence(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(SlowpokeError, match=says):
        chip(path)


@pytest.mark.parametrize("name", ["", "paper", "paper-4x4 ", "no/such/file.toml", "a\0b"])
def test_an_unknown_chip_is_refused(name: str) -> None:
    with pytest.raises(SlowpokeError, match=r"neither a preset|not a TOML file"):
        chip(name)


def test_an_unknown_chip_is_told_the_presets() -> None:
    with pytest.raises(SlowpokeError, match=r"'paper' is neither a preset \(.*paper-4x4"):
        chip("paper")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"topology": "mesh:0x4"}, "mesh 0x4: at least one column and one row"),
        ({"topology": "mesh"}, "the sizes of a mesh are whole numbers"),
        ({"topology": "mush:4x4"}, "unknown topology; choose one of mesh"),
        ({"topology": "mesh:1000x1000"}, "at most 65536"),
        ({"clock_hz": 0}, "chip value clock_hz = 0"),
        ({"clock_hz": float("nan")}, "chip value clock_hz = nan"),
        ({"link_bytes_per_cycle": float("inf")}, "chip value link_bytes_per_cycle = inf"),
        ({"router_delay_cycles": -1}, "chip value router_delay_cycles = -1"),
        ({"switching": "wormhole"}, "chip value switching = 'wormhole'.*cut_through"),
        ({"credit_depth": 0}, "chip value credit_depth = 0"),
        ({"link_byte_per_cycle": 3}, "did you mean link_bytes_per_cycle"),
        ({"dram_routers": (16,)}, "DRAM port at router 16: the mesh:4x4 has routers 0 to 15"),
        ({"dram_routers": (-1,)}, "DRAM port at router -1"),
        ({"dram_routers": (3, 3)}, "one port a router"),
    ],
)
def test_a_chip_that_cannot_be_is_refused_where_it_is_made(
    values: dict[str, Any], says: str
) -> None:
    with pytest.raises(SlowpokeError, match=says):
        ChipConfig(**values)
    with pytest.raises(SlowpokeError, match=says):
        CHIP.replace(**values)


def test_finite_buffers_are_for_meshes_however_the_name_is_written() -> None:
    assert ChipConfig(topology=" MESH:4X4", buffer_packets=2).topology == "mesh:4x4"


def test_another_topology_takes_its_own_ports_and_the_same_one_keeps_them() -> None:
    mine = ChipConfig(dram_routers=(7,), clock_hz=2e9)
    assert mine.replace(clock_hz=3e9).dram_ports == (7,)
    assert mine.replace(topology="mesh:4x4").dram_ports == (7,)
    assert set(mine.replace(topology="mesh:2x2").dram_ports) == {0, 1, 2, 3}
    assert mine.replace(topology="mesh:2x2", dram_routers=(3,)).dram_ports == (3,)
    assert mine.replace(topology="mesh:2x2").clock_hz == 2e9


@pytest.mark.parametrize(
    ("topology", "ports"),
    [
        ("mesh:1x1", (0,)),
        ("mesh:2x2", (0, 1, 2, 3)),
        ("mesh:4x4", (4, 8, 7, 11)),
        ("mesh:8x8", (16, 40, 23, 47)),
        ("mesh:1x4", (1, 2)),
        ("mesh:4x1", (0, 3)),
    ],
)
def test_default_ports_sit_a_quarter_in_on_the_west_and_east_edge(
    topology: str, ports: tuple[int, ...]
) -> None:
    assert set(ChipConfig(topology=topology).dram_ports) == set(ports)


def test_a_mesh_has_the_links_of_a_grid_and_two_channels_a_core() -> None:
    # 4x4: 4 rows of 3 and 4 columns of 3, both ways
    assert (CHIP.n_links, CHIP.n_channels, len(CHIP.physical_links)) == (48, 48 + 32, 24)
    channels = [CHIP.injection_channel(r) for r in range(16)]
    channels += [CHIP.ejection_channel(r) for r in range(16)]
    assert channels == list(range(48, 80))


@given(config=chips())
def test_every_channel_belongs_to_the_routers_it_touches(config: ChipConfig) -> None:
    covered = np.zeros(config.n_channels, dtype=int)
    for router in range(config.n_cores):
        covered[config.channels_of(Router(router))] += 1
    # a link ends at two routers, a core's own channels at one
    assert np.all(covered[: config.n_links] == 2)
    assert np.all(covered[config.n_links :] == 1)


@given(config=chips())
def test_a_physical_link_is_its_two_directions(config: ChipConfig) -> None:
    seen = [int(c) for link in config.physical_links for c in config.channels_of(link)]
    assert sorted(seen) == list(range(config.n_links))
    for link in config.physical_links:
        there, back = (Link(link.src, link.dst), Link(link.dst, link.src))
        both = [*config.channels_of(there), *config.channels_of(back)]
        assert both == config.channels_of(link).tolist()


def test_cores_and_ports_cover_no_channel() -> None:
    assert not len(CHIP.channels_of(Core(5)))
    assert not len(CHIP.channels_of(DramPort(0)))


@pytest.mark.parametrize(
    "place", [Core(0), Core(15), Router(15), DramPort(3), Link(5, 6), Link(6, 5, both=True)]
)
def test_a_place_on_the_chip_passes_the_check(place: Place) -> None:
    assert CHIP.check_place(place) is place


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (Core(16), "core:16 lies outside the chip; its cores are 0 to 15"),
        (Core(-1), "core:-1 lies outside the chip"),
        (Router(16), "router:16 lies outside the chip; its routers are 0 to 15"),
        (DramPort(4), "dram:4 lies outside the chip; its DRAM ports are 0 to 3"),
        (Link(5, 7), "link:5->7: no such link on the mesh 4x4; router 5 links to 1, 4, 6, 9"),
        (Link(99, 98, both=True), "link:98-99: no such link on the mesh 4x4; routers are 0 to 15"),
    ],
)
def test_a_place_outside_the_chip_is_refused_with_what_there_is(place: Place, says: str) -> None:
    with pytest.raises(SlowpokeError, match=says):
        CHIP.check_place(place)


def test_a_chip_of_one_core_has_no_link() -> None:
    lonely = ChipConfig(topology="mesh:1x1")
    assert (lonely.n_links, lonely.physical_links) == (0, ())
    with pytest.raises(SlowpokeError, match="the mesh 1x1 has no links"):
        lonely.check_place(Link(0, 1))


@pytest.mark.parametrize(
    "mesh", ["3x2", "3X2", " 3 x 2 ", (3, 2), [3, 2], (3.0, 2), np.array([3, 2])]
)
def test_a_mesh_size_is_columns_by_rows(mesh: Any) -> None:
    assert mesh_size(mesh) == (3, 2)


@pytest.mark.parametrize(
    ("mesh", "says"),
    [
        ("0x4", "mesh 0x4: at least one column and one row"),
        ("4x-1", "at least one column and one row"),
        ("4", "write columns x rows as two whole numbers, such as 4x4"),
        ("4x4x4", "write columns x rows"),
        ("axb", "write columns x rows"),
        ("", "write columns x rows"),
        ("4.5x4", "write columns x rows"),
        ((4.5, 4), "write columns x rows"),
        ((float("nan"), 4), "write columns x rows"),
        ((float("inf"), 4), "write columns x rows"),
        ((4,), "write columns x rows"),
        (4, "write columns x rows"),
        (None, "write columns x rows"),
    ],
)
def test_what_is_no_mesh_size_is_refused(mesh: Any, says: str) -> None:
    with pytest.raises(SlowpokeError, match=says):
        mesh_size(mesh)
