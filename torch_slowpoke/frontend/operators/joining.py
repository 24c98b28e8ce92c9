"""Concatenation, stacking and writing into a part of a tensor."""

from __future__ import annotations

import math
from typing import Any

from slowpoke_mapping.graph import B, K, OpKind
from torch_slowpoke.frontend.call import Call, Row
from torch_slowpoke.frontend.needs import WHOLE, Need
from torch_slowpoke.frontend.operators.elementwise import broadcast_needs, inherited
from torch_slowpoke.frontend.operators.views import fresh_parts
from torch_slowpoke.frontend.values import Constant, constants, views
from torch_slowpoke.frontend.view import Part, View, by_rank, laid_out, parts_of


def joined(call: Call, pieces: list[Any], sizes: list[int], dim: int, stacked: bool) -> View:
    """One operator that lays pieces side by side along `dim`."""
    shape = call.shape()
    n = len(shape)
    first = next(p for p in pieces if isinstance(p, View))
    if stacked:
        first = View(
            first.producer, first.box, (*first.dims[:dim], (), *first.dims[dim:]), first.offset
        )
    wants = by_rank([[Part(extent, 1)] for extent in shape])
    homes = {d.dim for i, digits in enumerate(first.dims) if i != dim for d in digits}
    own = [d.dim for d in first.dims[dim] if d.dim >= 0]
    want = own[0] if own else wants[dim][0].want
    if want == B or (not own and want in homes):
        want = next((free for free in (3, 2, 1) if free not in homes), K)
    dims = [parts_of(first, i) for i in range(n)]
    dims[dim] = [Part(shape[dim], want)]
    out = laid_out(dims, 0)
    flows, start = [], 0
    for piece, size in zip(pieces, sizes, strict=True):
        if isinstance(piece, View):
            needs = [Need(i) for i in range(n)]
            if stacked:
                needs.pop(dim)
            else:
                needs[dim] = Need(dim, low=-start, high=1 - start)
            flows.append((piece, needs))
        start += size
    return call.emit(
        OpKind.CONCAT, flows, out, vector_ops=0, weights=constants(pieces), weight_dims=()
    )


def _cat(call: Call) -> Any:
    pieces = list(call.args[0])
    nodes: Any = call.node.args[0]
    dim = call.arg("dim", 0) % len(call.shape())
    sizes = []
    kept = []
    for piece, node in zip(pieces, nodes, strict=True):
        tensor = node.meta["val"]
        if tensor.numel() == 0:  # old code starts lists with an empty tensor
            continue
        kept.append(piece)
        sizes.append(int(tensor.shape[dim]))
    if len(kept) == 1:
        return kept[0]
    if len(views(kept)) == 0:
        return Constant(math.prod(call.shape()), float(call.tensor().dtype.itemsize))
    return joined(call, kept, sizes, dim, stacked=False)


def _stack(call: Call) -> Any:
    pieces = list(call.args[0])
    dim = call.arg("dim", 0) % len(call.shape())
    return joined(call, pieces, [1] * len(pieces), dim, stacked=True)


def _written(call: Call) -> Any:
    """A tensor with a part overwritten: reads itself region for region, the source wholly."""
    shape = call.shape()
    sources = views(call.values)
    base = call.args[0]
    flows = []
    for view in sources:
        if view == base:
            flows.append((view, broadcast_needs(view, len(shape))))
        else:
            flows.append((view, [Need(WHOLE)] * len(view.dims)))
    if isinstance(base, View):
        out = inherited([base], shape)
    else:  # into a constant: the samples are those of what is written
        out = laid_out(by_rank(fresh_parts(sources[0], shape)), 0)
    return call.emit(OpKind.MOVE, flows, out, weights=constants([base]))


ROWS: dict[str, Row] = {
    **dict.fromkeys(("cat", "concat", "concatenate"), _cat),
    "stack": _stack,
    **dict.fromkeys(
        ("slice_scatter", "select_scatter", "index_put", "scatter", "scatter_add", "index_copy",
         "index_add", "masked_scatter", "diagonal_scatter", "scatter_reduce", "index_fill"),
        _written),
}  # fmt: skip
