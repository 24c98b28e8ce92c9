import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_tracer.commgraph import CommGraph, communication_graph
from slowpoke_tracer.failrank import FailRankSettings, failrank, softmax_within
from slowpoke_tracer.sample import sample_program


def graph_of(n: int, edges: list[tuple[int, int, float]]) -> CommGraph:
    src, dst, traffic = (np.array(column) for column in zip(*edges, strict=True))
    weight = traffic / np.bincount(src, traffic, minlength=n)[src]
    level = np.zeros(len(src), dtype=np.int64)
    return CommGraph(1, n, src, dst, np.arange(len(src)), level, traffic, weight)


def closed_form(graph: CommGraph, s0: np.ndarray, damping: float) -> np.ndarray:
    w = np.zeros((graph.n_nodes, graph.n_nodes))
    np.add.at(w, (graph.src, graph.dst), graph.weight)
    return np.asarray((1 - damping) * np.linalg.solve(np.eye(len(w)) - damping * w.T, s0))


def test_scores_of_a_chain_are_powers_of_lambda() -> None:
    # s0 = (1, 0, 0): (1 - l), (1 - l) l, (1 - l) l^2
    result = failrank(graph_of(3, [(0, 1, 5.0), (1, 2, 9.0)]), np.array([1.0, 0, 0]), np.zeros(2))
    assert result.node_scores == pytest.approx([0.4, 0.24, 0.144])
    assert result.edge_scores == pytest.approx([0.25 + 0.75 * 0.4, 0.25 + 0.75 * 0.24])


def test_a_victim_in_a_cycle_never_outranks_a_clean_root_but_ties_do_build_up() -> None:
    # s(root) = (1 - l) / (1 - l^2), s(victim) = l s(root)
    cycle = graph_of(2, [(0, 1, 1.0), (1, 0, 1.0)])
    result = failrank(cycle, np.array([1.0, 0.0]), np.zeros(2))
    assert result.node_scores == pytest.approx([0.625, 0.375])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 0.95), st.floats(0, 0.9))
def test_both_rules_converge_to_their_closed_forms_from_any_start(
    seed: int, damping: float, gamma: float
) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    pairs = {(int(a), int(b)) for a, b in rng.integers(0, n, (3 * n, 2)) if a != b}
    graph = graph_of(n, [(a, b, float(rng.uniform(0.1, 9))) for a, b in sorted(pairs)] or
                     [(0, 1, 1.0)])  # fmt: skip
    s0, l0 = rng.random(n), rng.random(len(graph.src))
    constants = FailRankSettings(damping=damping, gamma=gamma, tolerance=1e-12)
    result = failrank(graph, s0, l0, constants)
    s = closed_form(graph, s0, damping)
    assert result.converged
    assert result.node_scores == pytest.approx(s, abs=1e-9)
    link = (constants.alpha * graph.weight + constants.beta * s[graph.src]) / (1 - gamma)
    assert result.edge_scores == pytest.approx(link, abs=1e-8)
    # the mass is not created: no score exceeds the largest start by more than the graph gathers
    assert result.node_scores.sum() <= s0.sum() + 1e-9


def test_the_converged_link_rule_forgets_what_was_measured() -> None:
    graph = communication_graph(sample_program())
    s0 = np.zeros(graph.n_nodes)
    s0[3] = 1.0
    rng = np.random.default_rng(0)
    perfect, useless = np.zeros(len(graph.src)), rng.random(len(graph.src))
    perfect[7] = 1.0
    a, b = failrank(graph, s0, perfect), failrank(graph, s0, useless)
    assert a.edge_scores == pytest.approx(b.edge_scores, abs=1e-7)


def test_links_that_restart_remember_what_was_measured() -> None:
    graph = graph_of(2, [(0, 1, 1.0)])
    restarted = FailRankSettings(restart_links=True)
    result = failrank(graph, np.array([0.5, 0.0]), np.array([0.9]), restarted)
    assert result.converged
    assert result.edge_scores == pytest.approx([0.1 + 0.3 * 0.2 + 0.6 * 0.9])


def test_a_single_link_update_keeps_six_tenths_of_what_was_measured() -> None:
    graph = graph_of(2, [(0, 1, 1.0)])
    once = FailRankSettings(link_updates=1)
    result = failrank(graph, np.array([0.5, 0.0]), np.array([0.9]), once)
    # s(0) = 0.4 x 0.5 = 0.2: 0.1 x 1 + 0.3 x 0.2 + 0.6 x 0.9
    assert result.edge_scores == pytest.approx([0.7])


def test_rounds_follow_from_the_slower_of_the_two_decays() -> None:
    chain = graph_of(2, [(0, 1, 1.0)])
    result = failrank(chain, np.zeros(2), np.ones(1), FailRankSettings(tolerance=1e-6))
    # |l_k - l*| = .75 x .6^k, so the change falls below 1e-6 at .3 x .6^(k-1) < 1e-6
    assert result.n_iterations == int(np.ceil(np.log(1e-6 / 0.3) / np.log(0.6))) + 1


def test_a_diverging_setting_is_refused() -> None:
    with pytest.raises(SlowpokeError, match="lambda 1"):
        FailRankSettings(damping=1.0)


def test_the_best_of_sixteen_gets_little_at_sharpness_one_and_all_at_two_hundred() -> None:
    scores = np.zeros(16)
    scores[4] = 1.0
    level = np.zeros(16, dtype=np.int64)
    assert softmax_within(scores, level, 1.0)[4] == pytest.approx(np.e / (np.e + 15))
    assert softmax_within(scores, level, 200.0)[4] == pytest.approx(1)
    both = softmax_within(np.r_[scores, scores], np.r_[level, level + 3], 3.0)
    assert both[:16].sum() == pytest.approx(1)
    assert both[16:].sum() == pytest.approx(1)
