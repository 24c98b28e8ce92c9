"""An operator graph as a table, as JSON and as a picture for Graphviz.

Work is counted in multiply-accumulates (MAC); one MAC is two FLOP. Bytes are those of the model's
own dtypes. Activation bytes are what the operators write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import DIMS, FULL, GRAPH_INPUT, Operator, OperatorGraph

SCHEMA = "slowpoke-graph/1"
VIEWS = ("operator", "module", "kind")


@dataclass(frozen=True, slots=True)
class Row:
    """What one line of the table sums up.

    Attributes:
        name: Operator, module path or kind.
        detail: Kind and output shape of a single operator, or how many operators there are.
        n_operators: Number of operators.
        macs: Multiply-accumulates.
        vector_ops: Element operations that are no MACs.
        weight_bytes: Bytes of parameters read, those shared between operators once.
        activation_bytes: Bytes written.
    """

    name: str
    detail: str
    n_operators: int
    macs: int
    vector_ops: int
    weight_bytes: int
    activation_bytes: int


def module_of(name: str, depth: int) -> str:
    """The first `depth` parts of a module path.

    >>> module_of("layer3.0.conv2", 1)
    'layer3'
    """
    return ".".join(name.split("#")[0].split(".")[:depth])


def graph_rows(graph: OperatorGraph, by: str = "operator", depth: int = 1) -> list[Row]:
    """Lines of the table.

    Args:
        graph: Any operator graph.
        by: `operator`, `module` (the first `depth` parts of the path) or `kind`.
        depth: Parts of the module path to keep; at least 1.

    Raises:
        SlowpokeError: `by` or `depth` is something else.
    """
    if by not in VIEWS:
        raise SlowpokeError(f"{by!r} is no view of a graph: there are {', '.join(VIEWS)}")
    if depth < 1:
        raise SlowpokeError(f"depth {depth}: keep at least one part of the module path")
    keys: dict[str, Callable[[Operator], str]] = {
        "operator": lambda o: o.name,
        "module": lambda o: module_of(o.name, depth),
        "kind": lambda o: str(o.kind.value),
    }
    groups: dict[str, list[Operator]] = {}
    for operator in graph:
        groups.setdefault(keys[by](operator), []).append(operator)
    seen: set[str] = set()
    return [_row(name, operators, seen, by) for name, operators in groups.items()]


def _row(name: str, operators: Sequence[Operator], seen: set[str], by: str) -> Row:
    weight_bytes = 0.0
    for operator in operators:
        if operator.weights_key and operator.weights_key in seen:
            continue
        seen.add(operator.weights_key)
        weight_bytes += operator.weight_elements * operator.weight_element_bytes
    first = operators[0]
    shape = "x".join(map(str, first.shape or first.box))
    detail = f"{first.kind.value} {shape}" if by == "operator" else f"{len(operators)}"
    return Row(
        name,
        detail,
        len(operators),
        sum(o.macs for o in operators),
        sum(o.vector_ops for o in operators),
        int(weight_bytes),
        int(sum(o.elements * o.element_bytes for o in operators)),
    )


def graph_table(graph: OperatorGraph, by: str = "operator", depth: int = 1) -> Table:
    """The table of `slowpoke graph MODEL`; see `graph_rows` for the arguments."""
    table = Table(
        title=Text(f"{graph} (1 MAC = 2 FLOP)"), caption=Text("\n".join(graph.notes)),
        caption_justify="left",
        title_justify="left", show_footer=True,
    )  # fmt: skip
    rows = graph_rows(graph, by, depth)
    total = max(graph.macs, 1)
    table.add_column(by, "total", overflow="fold")
    table.add_column("kind, output shape" if by == "operator" else "operators", str(len(graph)))
    columns = (
        ("million MAC", _millions(graph.macs)),
        ("% of MAC", "100.0"),
        ("million other ops", _millions(sum(r.vector_ops for r in rows))),
        ("weight KiB", _kib(graph.weight_bytes)),
        ("activation KiB", _kib(sum(r.activation_bytes for r in rows))),
    )
    for heading, footer in columns:
        table.add_column(heading, footer, justify="right")
    for row in rows:
        table.add_row(
            Text(row.name), row.detail, _millions(row.macs), f"{100 * row.macs / total:.1f}",
            _millions(row.vector_ops), _kib(row.weight_bytes), _kib(row.activation_bytes),
        )  # fmt: skip
    return table


def _millions(count: int) -> str:
    return f"{count / 1e6:,.3f}"


def _kib(n_bytes: int) -> str:
    return f"{n_bytes / 1024:,.1f}"


def graph_json(graph: OperatorGraph) -> dict[str, Any]:
    """Everything the graph says, ready for json.dump; `macs` are MAC, `flops` are 2 x MAC."""
    return {
        "schema": SCHEMA,
        "name": graph.name,
        "fingerprint": graph.fingerprint,
        "macs": graph.macs,
        "flops": graph.flops,
        "n_parameters": graph.n_parameters,
        "weight_bytes": graph.weight_bytes,
        "notes": list(graph.notes),
        "outputs": [graph[i].name for i in graph.outputs],
        "operators": [_operator_json(graph, operator) for operator in graph],
    }


def _operator_json(graph: OperatorGraph, operator: Operator) -> dict[str, Any]:
    return {
        "name": operator.name,
        "kind": operator.kind.value,
        "target": operator.target,
        "shape": list(operator.shape),
        "box": dict(zip(DIMS, operator.box, strict=True)),
        "macs": operator.macs,
        "flops": operator.flops,
        "vector_ops": operator.vector_ops,
        "weight_bytes": int(operator.weight_elements * operator.weight_element_bytes),
        "activation_bytes": int(operator.elements * operator.element_bytes),
        "partitionable": [DIMS[d] for d in operator.partitionable],
        "folded": list(operator.folded),
        "inputs": [
            {
                "from": None if edge.producer == GRAPH_INPUT else graph[edge.producer].name,
                "name": edge.name,
                "box": dict(zip(DIMS, edge.box, strict=True)),
                "windows": [
                    None if w.dim == FULL
                    else {"dim": DIMS[w.dim], "num": w.num, "den": w.den, "mult": w.mult,
                          "low": w.low, "high": w.high}
                    for w in edge.windows
                ],
            }
            for edge in operator.inputs
        ],
    }  # fmt: skip


def graph_dot(graph: OperatorGraph) -> str:
    """The graph in Graphviz's language: `dot -Tsvg`. Nodes show million MAC, edges KiB."""
    lines = [
        "digraph slowpoke {",
        f"  label={_quoted(f'{graph} (1 MAC = 2 FLOP)')};",
        "  node [shape=box, fontname=sans, fontsize=10];",
        "  edge [fontname=sans, fontsize=8];",
    ]
    fed = False
    for i, operator in enumerate(graph):
        label = f"{operator.name}\n{operator.kind.value}  {_millions(operator.macs)} million MAC"
        lines.append(f"  n{i} [label={_quoted(label)}];")
        for edge in operator.inputs:
            source = "input" if edge.producer == GRAPH_INPUT else f"n{edge.producer}"
            fed = fed or source == "input"
            size = _kib(int(edge.elements * edge.element_bytes))
            lines.append(f"  {source} -> n{i} [label={_quoted(f'{size} KiB')}];")
    if fed:
        lines.append("  input [shape=ellipse];")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
