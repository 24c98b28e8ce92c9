import numpy as np
import pytest

from slowpoke_tracer.commgraph import communication_graph, group_traffic
from slowpoke_tracer.sample import MESSAGE_BYTES, sample_program

PROGRAM = sample_program()
CHIP = PROGRAM.chip


def test_traffic_counts_every_dependency_on_every_link_of_its_path() -> None:
    traffic = group_traffic(PROGRAM, dram_routes=False)
    expected = np.zeros(CHIP.n_links)
    for src in range(8):
        for dst in range(8, 16):
            for link in CHIP.network.route(src, dst):
                expected[link] += MESSAGE_BYTES
    assert traffic.link_bytes[0] == pytest.approx(expected)
    assert traffic.n_visited == PROGRAM.n_tasks
    # XY routing: from row 1 to row 2 each column's link carries all that ends in its column
    assert traffic.link_bytes[0][CHIP.link_index(5, 9)] == 8 * 2 * MESSAGE_BYTES


def test_dram_messages_load_the_links_between_port_and_core() -> None:
    with_ports, without = group_traffic(PROGRAM), group_traffic(PROGRAM, dram_routes=False)
    extra = (with_ports.link_bytes - without.link_bytes).sum(axis=1)
    hops = [0, 0]
    for core in range(16):
        port = CHIP.dram_ports[core % 4]
        reads_in = 0 if core < 8 else 1
        hops[reads_in] += len(CHIP.network.route(port, core))
        hops[1 - reads_in] += len(CHIP.network.route(core, port))
    assert extra == pytest.approx(np.array(hops) * MESSAGE_BYTES)


def test_weights_out_of_every_node_sum_to_one() -> None:
    graph = communication_graph(PROGRAM, n_windows=3)
    out = np.bincount(graph.src, graph.weight, minlength=graph.n_nodes)
    assert out[np.unique(graph.src)] == pytest.approx(1)
    assert graph.n_levels == 6
    assert graph.n_nodes == 6 * 16 + 5


def test_dram_nodes_join_the_writers_of_a_level_to_the_readers_of_the_next() -> None:
    graph = communication_graph(PROGRAM, n_windows=2)
    dram = 4 * 16
    for between in range(3):
        into = graph.src[graph.dst == dram + between]
        out = graph.dst[graph.src == dram + between]
        low = into.min() // 16
        assert low == between
        assert set(into // 16) == {between}
        assert set(out // 16) == {between + 1}
        # level 0 is written by cores 8 to 15, which is who reads in level 1
        assert set(into % 16) == set(out % 16)
        assert len(into) == 8
    inside = graph.link >= 0
    assert np.array_equal(graph.src[inside] // 16, graph.dst[inside] // 16)
    assert np.array_equal(graph.level[inside], graph.src[inside] // 16)


def test_symmetric_traffic_weighs_both_directions_alike() -> None:
    graph = communication_graph(PROGRAM, symmetric=True)
    there = {(int(a), int(b)): t for a, b, t in zip(graph.src, graph.dst, graph.traffic_bytes,
                                                    strict=True) if a < 32 and b < 32}  # fmt: skip
    assert there
    assert all(there[b, a] == t for (a, b), t in there.items())
