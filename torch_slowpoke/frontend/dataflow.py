"""Which nodes of a graph carry data, and which of them share memory."""

from __future__ import annotations

import torch
from torch.fx import Node

from torch_slowpoke.frontend.call import is_index
from torch_slowpoke.frontend.operators.views import CONSTANT_LIKE
from torch_slowpoke.frontend.packets import ALIASING, WORKING, mutates, packet_of


def _roots(graph: torch.fx.Graph) -> dict[Node, Node]:
    """For each node the one whose memory it may share."""
    root: dict[Node, Node] = {}
    for node in graph.nodes:
        first = node.args[0] if node.args else None
        named = getattr(node.target, "__name__", "") == "getitem"
        shares = packet_of(node) in ALIASING or mutates(node) or named
        root[node] = root[first] if shares and isinstance(first, Node) else node
    return root


def data_nodes(graph: torch.fx.Graph, fixed: frozenset[str] = frozenset()) -> set[Node]:
    """Nodes whose values depend on more than weights, buffers, indices and masks.

    Args:
        graph: A graph of ATen operators.
        fixed: Names of placeholders that hold weights or buffers.
    """
    root = _roots(graph)
    carrying: set[Node] = set()
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder":
            index = isinstance(value, torch.Tensor) and is_index(value)
            carries = node.name not in fixed and not index
        else:
            packet = packet_of(node)
            carries = packet in WORKING or (
                packet not in CONSTANT_LIKE
                and any(n in carrying or root[n] in carrying for n in node.all_input_nodes)
            )
        if carries:
            carrying.add(node)
            if mutates(node):
                carrying.add(root[node])
    return carrying


def writes_through_a_view(graph: torch.fx.Graph, carrying: set[Node]) -> bool:
    """Whether an in-place operator changes data that another node still reads by another name.

    Writing constants into constants (the masks of shifted windows) does no harm.
    """
    order = {node: i for i, node in enumerate(graph.nodes)}
    root = _roots(graph)
    members: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        members.setdefault(root[node], []).append(node)
    for node in graph.nodes:
        changed = node.args[0] if node.args else None
        if not mutates(node) or not isinstance(changed, Node) or root[node] not in carrying:
            continue
        for other in members[root[node]]:
            if other is changed or order[other] >= order[node]:
                continue
            if any(order[user] > order[node] for user in other.users):
                return True
    return False
