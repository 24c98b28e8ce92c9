"""The table, JSON and DOT of an operator graph, with figures had by hand."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import GRAPH_INPUT, Edge, Operator, OperatorGraph, OpKind
from torch_slowpoke.report.graph_table import graph_dot, graph_json, graph_rows, graph_table


def example() -> OperatorGraph:
    first = Operator(
        "body.0[a]", OpKind.CONV, (1, 4, 8, 8), (Edge(GRAPH_INPUT, (1, 3, 8, 8)),), macs=3000,
        vector_ops=256, weight_elements=108, shape=(1, 4, 8, 8), weights_key="w",
    )  # fmt: skip
    second = Operator(
        'body."1"', OpKind.CONV, (1, 4, 8, 8), (Edge(0, (1, 4, 8, 8)),), macs=3000,
        weight_elements=108, shape=(1, 4, 8, 8), weights_key="w",
    )  # fmt: skip
    last = Operator(
        "head", OpKind.LINEAR, (1, 10, 1, 1), (Edge(1, (1, 4, 8, 8)),), macs=2560,
        weight_elements=2570, shape=(1, 10),
    )  # fmt: skip
    return OperatorGraph("tiny", (first, second, last), notes=("a [note]",), n_parameters=2678)


def test_rows_sum_by_operator_module_and_kind() -> None:
    graph = example()
    assert [r.macs for r in graph_rows(graph)] == [3000, 3000, 2560]
    assert [(r.name, r.macs, r.n_operators) for r in graph_rows(graph, "module")] == [
        ("body", 6000, 2), ("head", 2560, 1),
    ]  # fmt: skip
    assert [r.name for r in graph_rows(graph, "module", 2)] == ["body.0[a]", 'body."1"', "head"]
    (conv, linear) = graph_rows(graph, "kind")
    assert (conv.weight_bytes, conv.activation_bytes) == (432, 2 * 1024)  # shared weights once
    assert (linear.weight_bytes, linear.activation_bytes) == (10280, 40)


@pytest.mark.parametrize("by", ["operator", "module", "kind"])
def test_every_view_has_the_graphs_totals(by: str) -> None:
    graph = example()
    rows = graph_rows(graph, by)
    assert sum(r.macs for r in rows) == graph.macs
    assert sum(r.weight_bytes for r in rows) == graph.weight_bytes


def test_the_table_says_mac_and_prints_names_as_they_are() -> None:
    console = Console(width=160, record=True, file=None)
    with console.capture() as capture:
        console.print(graph_table(example()))
    text = capture.get()
    assert "million MAC" in text
    assert "1 MAC = 2 FLOP" in text
    assert "body.0[a]" in text
    assert "a [note]" in text
    assert "35.0" in text  # 3000 of 8560


def test_json_holds_what_the_graph_holds() -> None:
    data = json.loads(json.dumps(graph_json(example())))
    assert data["schema"] == "slowpoke-graph/1"
    assert (data["macs"], data["flops"]) == (8560, 17120)
    assert data["operators"][2]["inputs"][0]["from"] == 'body."1"'
    assert data["operators"][0]["inputs"][0]["from"] is None
    assert data["outputs"] == ["head"]


def test_dot_quotes_names_and_draws_every_edge() -> None:
    dot = graph_dot(example())
    assert dot.startswith("digraph slowpoke {")
    assert dot.rstrip().endswith("}")
    assert 'body.\\"1\\"' in dot
    assert [line.split(" [")[0].strip() for line in dot.splitlines() if "->" in line] == [
        "input -> n0", "n0 -> n1", "n1 -> n2",
    ]  # fmt: skip


def test_a_wrong_view_is_told_in_a_sentence() -> None:
    with pytest.raises(SlowpokeError, match="operator, module, kind"):
        graph_rows(example(), "layer")
    with pytest.raises(SlowpokeError, match="at least one part"):
        graph_rows(example(), "module", 0)
