"""Root-mean-square norms written out as square, mean and product, taken together again.

Language models write them by hand: x * rsqrt(mean(x * x) + eps) * weight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slowpoke_mapping.graph import FULL, GRAPH_INPUT, IDENTITY, DimWindow, Edge, OpKind

if TYPE_CHECKING:
    from torch_slowpoke.frontend.draft import Draft


def fused_norms(drafts: list[Draft], leaving: set[int]) -> dict[int, int]:
    """Rewrites each norm's product as a NORM operator; returns the operators that are gone.

    Args:
        drafts: All operators; a product of a norm is changed in place.
        leaving: Operators whose outputs the model returns; they stay.

    Returns:
        For every operator that stays its new index.
    """
    consumers: dict[int, set[int]] = {}
    for i, draft in enumerate(drafts):
        for edge in draft.inputs:
            consumers.setdefault(edge.producer, set()).add(i)
    gone: set[int] = set()
    for at, mean in enumerate(drafts):
        if mean.kind is not OpKind.REDUCE or len(mean.inputs) != 1:
            continue
        square = mean.inputs[0].producer
        if square == GRAPH_INPUT or not _is_square(drafts[square]):
            continue
        if not any(name.endswith(("rsqrt", "pow")) for name in mean.folded):
            continue
        users = consumers.get(at, set())
        if consumers.get(square) != {at} or len(users) != 1 or {at, square} & leaving:
            continue
        (last,) = users
        product = drafts[last]
        source = drafts[square].inputs[0]
        if product.kind is not OpKind.ELEMENTWISE or not product.target.startswith("aten.mul"):
            continue
        data = [e for e in product.inputs if e.producer == source.producer]
        if len(product.inputs) != 2 or len(data) != 1 or data[0].windows != source.windows:
            continue
        _join(drafts[square], mean, product, data[0])
        gone |= {square, at}
    kept = [i for i in range(len(drafts)) if i not in gone]
    return {old: new for new, old in enumerate(kept)}


def _is_square(draft: Draft) -> bool:
    named = draft.target.startswith(("aten.pow", "aten.square", "aten.mul"))
    return (
        draft.kind is OpKind.ELEMENTWISE and named and len(draft.inputs) == 1 and not draft.folded
        and _identity(draft.inputs[0])
    )  # fmt: skip


def _identity(edge: Edge) -> bool:
    return all(
        window == same or (window.dim == FULL and extent == 1)
        for window, same, extent in zip(edge.windows, IDENTITY, edge.box, strict=True)
    )


def _join(square: Draft, mean: Draft, product: Draft, data: Edge) -> None:
    reduced = mean.inputs[0].windows
    windows = [
        DimWindow() if over.dim == FULL else window
        for window, over in zip(data.windows, reduced, strict=True)
    ]
    product.inputs = [replace(data, windows=(windows[0], windows[1], windows[2], windows[3]))]
    product.kind = OpKind.NORM
    product.vector_ops += square.vector_ops + mean.vector_ops
    product.folded = [square.name, mean.name, *mean.folded, *product.folded]
    product.partitionable = tuple(
        d for d in product.partitionable if reduced[d].dim != FULL or product.view.box[d] == 1
    )
    product.name = product.name.rsplit(".", 1)[0] if "." in product.name else product.name
