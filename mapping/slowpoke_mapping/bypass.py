"""Concatenations without a core: consumers read each part where it is made.

A concatenation computes nothing; giving it cores would send every byte over the network twice.
Gemini's layers take several inputs and have no concatenation either.
"""

from __future__ import annotations

from dataclasses import replace

from slowpoke_mapping.graph import (
    FULL,
    GRAPH_INPUT,
    DimWindow,
    Edge,
    Operator,
    OperatorGraph,
    OpKind,
)


def without_concatenations(graph: OperatorGraph) -> OperatorGraph:
    """The same graph, where operators read the parts of a concatenation directly.

    A concatenation stays where it does more than put its inputs side by side along one dimension,
    or where its result leaves the graph. The graph itself is returned if nothing changes.
    """
    leaving = set(graph.outputs)
    gone = {
        index
        for index, operator in enumerate(graph)
        if index not in leaving and _only_joins(operator)
    }
    if not gone:
        return graph
    number: dict[int, int] = {GRAPH_INPUT: GRAPH_INPUT}
    parts: dict[int, tuple[Edge, ...]] = {}
    operators: list[Operator] = []
    for index, operator in enumerate(graph):
        edges: list[Edge] = []
        for edge in operator.inputs:
            if edge.producer in gone:
                edges += [_through(edge, part) for part in parts[edge.producer]]
            else:
                edges.append(replace(edge, producer=number[edge.producer]))
        if index in gone:
            parts[index] = tuple(edges)
        else:
            number[index] = len(operators)
            operators.append(replace(operator, inputs=tuple(edges)))
    names = ", ".join(graph[index].name for index in sorted(gone)[:3])
    more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
    return replace(
        graph,
        operators=tuple(operators),
        outputs=tuple(number[index] for index in graph.outputs),
        notes=(*graph.notes, f"mapped without a core of their own: {names}{more} (concatenation)"),
    )


def _only_joins(operator: Operator) -> bool:
    """Whether every input is read index by index, shifted along one dimension at most."""
    return (
        operator.kind == OpKind.CONCAT
        and operator.macs == operator.vector_ops == operator.weight_elements == 0
        and len(operator.inputs) > 0
        and all(
            _shift(window, dim) is not None and (dim != 0 or window == DimWindow(dim))
            for edge in operator.inputs
            for dim, window in enumerate(edge.windows)
        )
        and sum(edge.elements for edge in operator.inputs) == operator.elements
    )


def _shift(window: DimWindow, dim: int) -> int | None:
    """Where input index 0 lies in the output, if the window is a shift of its own dimension."""
    if (window.dim, window.num, window.den, window.mult) != (dim, 1, 1, 1):
        return None
    return -window.low if window.high == window.low + 1 and window.low <= 0 else None


def _through(edge: Edge, part: Edge) -> Edge:
    """What a reader of the concatenation needs of one of its parts."""
    windows = []
    for dim, (window, inner) in enumerate(zip(edge.windows, part.windows, strict=True)):
        shift = _shift(inner, dim)
        assert shift is not None
        if window.dim == FULL:
            windows.append(window)
        else:
            windows.append(replace(window, low=window.low - shift, high=window.high - shift))
    return replace(part, windows=(windows[0], windows[1], windows[2], windows[3]))
