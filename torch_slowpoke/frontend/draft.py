"""Operators while followers may still fold into them, and the graph that they become."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from slowpoke_mapping.graph import GRAPH_INPUT, Edge, Operator, OperatorGraph, OpKind
from torch_slowpoke.frontend.fusion import fused_norms
from torch_slowpoke.frontend.view import View


@dataclass(slots=True)
class Draft:
    """An operator that followers may still fold into."""

    name: str
    kind: OpKind
    view: View
    inputs: list[Edge]
    macs: int
    vector_ops: int
    weight_elements: int
    weight_dims: tuple[int, ...]
    partitionable: tuple[int, ...]
    shape: tuple[int, ...]
    weight_element_bytes: float
    target: str
    weights_key: str
    has_bias: bool = False
    folded: list[str] = field(default_factory=list)
    affine_only: bool = True

    def finished(self) -> Operator:
        """The frozen operator."""
        return Operator(
            name=self.name, kind=self.kind, box=self.view.box, inputs=tuple(self.inputs),
            macs=self.macs, vector_ops=self.vector_ops, weight_elements=self.weight_elements,
            weight_dims=self.weight_dims, partitionable=self.partitionable, shape=self.shape,
            element_bytes=self.view.element_bytes,
            weight_element_bytes=self.weight_element_bytes, target=self.target,
            folded=tuple(self.folded), weights_key=self.weights_key,
        )  # fmt: skip


def finished_graph(
    name: str,
    drafts: list[Draft],
    leaving: list[int],
    notes: list[str],
    n_parameters: int,
) -> tuple[OperatorGraph, dict[int, int]]:
    """The graph of all drafts, and where each of them stands in it (fused ones are gone).

    Args:
        name: Name of the graph.
        drafts: In topological order; written-out norms are changed in place.
        leaving: Indices of drafts that the model returns.
        notes: What the reader noticed; what is fused here is added.
        n_parameters: Parameters of the model.
    """
    index = fused_norms(drafts, set(leaving))
    fused = (len(drafts) - len(index)) // 2
    if fused:
        notes = [*notes, f"{fused} written-out RMS norms were taken as one operator each"]
    operators = []
    names: set[str] = set()
    for old in index:
        operator = drafts[old].finished()
        edges = tuple(
            replace(e, producer=index.get(e.producer, GRAPH_INPUT)) for e in operator.inputs
        )
        unique, count = operator.name, 1
        while unique in names:
            count += 1
            unique = f"{operator.name}#{count}"
        names.add(unique)
        operators.append(replace(operator, inputs=edges, name=unique))
    graph = OperatorGraph(
        name=name,
        operators=tuple(operators),
        notes=tuple(notes),
        n_parameters=n_parameters,
        outputs=tuple(index[i] for i in leaving),
    )
    return graph, index
