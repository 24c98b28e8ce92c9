"""Topologies: routes against networkx and by hand."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.topology import (
    Dragonfly,
    Mesh,
    Ring,
    Topology,
    Torus,
    check_topology,
    distances,
    parse_topology,
)

ALL: list[Topology] = [
    Mesh(1, 1), Mesh(4, 3), Mesh(1, 5), Torus(4, 4), Torus(5, 3), Torus(2, 2), Torus(1, 4),
    Torus(2, 1), Ring(1), Ring(2), Ring(7), Ring(8), Dragonfly(9, 4, 2), Dragonfly(3, 2),
    Dragonfly(1, 4), Dragonfly(5, 1), Dragonfly(4, 3, 2),
]  # fmt: skip


@pytest.mark.parametrize("topology", ALL, ids=str)
def test_every_topology_passes_the_check_for_users_own(topology: Topology) -> None:
    assert check_topology(topology) is topology
    assert parse_topology(topology.spec()) == topology


@pytest.mark.parametrize("topology", ALL, ids=str)
def test_routes_are_as_short_as_networkx_finds_them(topology: Topology) -> None:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(topology.n_routers))
    graph.add_edges_from(topology.links.tolist())
    shortest = dict(nx.all_pairs_shortest_path_length(graph))
    ours = distances(topology)
    expected = np.array([[shortest[a][b] for b in range(len(ours))] for a in range(len(ours))])
    if isinstance(topology, Dragonfly):
        # minimal means one global link; two may now and then save a local hop
        assert np.all(ours >= expected) and ours.max() <= 3
    else:
        assert np.array_equal(ours, expected)


def test_a_torus_closes_rows_and_columns() -> None:
    torus = Torus(4, 4)
    stops = [tuple(torus.links[link]) for link in torus.route(0, 14)]
    # east to column 2 (half-way: east), then north round the edge to row 3
    assert stops == [(0, 1), (1, 2), (2, 14)]
    assert len(torus.links) == 64
    assert len(Torus(2, 2).links) == 8


def test_the_mean_distance_of_an_8x8_mesh_is_five_and_a_quarter() -> None:
    assert distances(Mesh(8, 8)).mean() == pytest.approx(2 * (8 - 1 / 8) / 3)


def test_a_balanced_dragonfly_joins_every_two_groups_once() -> None:
    links = Dragonfly(9, 4, 2).links
    groups = links // 4
    between = groups[groups[:, 0] != groups[:, 1]]
    assert len(np.unique(between, axis=0)) == len(between) == 9 * 8
    assert np.bincount(links[groups[:, 0] != groups[:, 1], 0]).tolist() == [2] * 36


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("hypercube:4", "mesh, torus, ring, dragonfly"),
        ("ring:0", "between 1 and"),
        ("ring:2x3", "ring:8"),
        ("torus:0x4", "at least one column"),
        ("dragonfly:10x4x2", "3 global links or at most 9 groups"),
        ("dragonfly:0x4", "at least one group"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_with_a_way_out(spec: str, words: str) -> None:
    with pytest.raises(SlowpokeError, match=words):
        parse_topology(spec)


def test_a_chip_takes_every_topology() -> None:
    for spec in ("torus:4x4", "ring:8", "dragonfly:3x4"):
        chip = ChipConfig(topology=spec)
        assert len(chip.physical_links) * 2 == chip.n_links
        assert 1 <= len(chip.dram_ports) <= 4


@dataclass(frozen=True)
class _Broken:
    """A ring of 4 with one thing wrong."""

    wrong: str

    @property
    def n_routers(self) -> int:
        return 4

    @property
    def columns(self) -> int | None:
        return None

    @property
    def links(self) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
        links = Ring(4).links
        if self.wrong == "way back":
            return links[1:]
        return np.concatenate([links, links[:1]]) if self.wrong == "twice" else links

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        if self.wrong == "two ways" and (src, dst) == (0, 1):
            return Ring(4).route(0, 3) + Ring(4).route(3, 2) + Ring(4).route(2, 1)
        if self.wrong == "ends at" and (src, dst) == (0, 3):
            return ()
        if self.wrong == "breaks off" and (src, dst) == (0, 3):
            return Ring(4).route(1, 2)
        return Ring(4).route(src, dst)

    def order(self) -> tuple[int, ...]:
        return (0, 1, 2, 2 if self.wrong == "every router once" else 3)

    def positions(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.zeros((3 if self.wrong == "positions" else 4, 2))

    def spec(self) -> str:
        return "broken"


@pytest.mark.parametrize(
    "wrong",
    ["way back", "twice", "two ways", "ends at", "breaks off", "every router once", "positions"],
)
def test_the_check_names_what_is_wrong_with_a_users_topology(wrong: str) -> None:
    with pytest.raises(SlowpokeError, match=wrong):
        check_topology(_Broken(wrong))
