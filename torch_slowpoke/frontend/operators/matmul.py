"""Matrix products, linear layers, attention and embedding look-ups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from slowpoke_mapping.graph import B, H, K, OpKind, W
from torch_slowpoke.frontend.call import Call, Row, extents
from torch_slowpoke.frontend.needs import WHOLE, Need
from torch_slowpoke.frontend.operators.views import settled
from torch_slowpoke.frontend.values import Constant, Plumbing, constants
from torch_slowpoke.frontend.view import Part, View, graph_input, laid_out, parts_of, size_of

SOFTMAX_OPS = 4
"""Element operations of a softmax per element: maximum, exponential, sum, division."""


def _rows(parts: list[Part], taken: set[int]) -> list[Part]:
    """Leading parts of a product: they stay, but leave K to the new features."""
    moved = [
        Part(p.size, (H if H not in taken else W) if p.want == K else p.want, p.order, p.batch)
        for p in parts
    ]
    return moved


def indexing(out: View, dims: Sequence[int]) -> tuple[int, ...]:
    """Box dimensions that are made of nothing but the given tensor dimensions."""
    mine = {d.dim for i in dims for d in out.dims[i] if d.size > 1}
    others = {
        d.dim for i, digits in enumerate(out.dims) if i not in dims for d in digits if d.size > 1
    }
    return tuple(sorted(mine - others))


def _linear(call: Call) -> Any:
    x, weight = call.args[0], call.args[1]
    bias = call.arg("bias")
    if not isinstance(weight, Constant) or not isinstance(x, View):
        return product(
            call, x, _transposed(weight), call.node.args[0], call.node.args[1], flip=True
        )
    shape = call.shape()
    n = len(shape)
    taken = {d.dim for i in range(n - 1) for d in x.dims[i] if d.dim != K}
    dims = [_rows(parts_of(x, i), taken) for i in range(n - 1)]
    out = laid_out([*dims, [Part(shape[-1], K)]], 0)
    needs = [Need(i) for i in range(n - 1)] + [Need(WHOLE)]
    weights = [w for w in (weight, bias) if isinstance(w, Constant)]
    return call.emit(
        OpKind.LINEAR, [(x, needs)], out, macs=math.prod(shape) * size_of(x.dims[-1]),
        weights=weights, weight_dims=indexing(out, [n - 1]) or (K,),
    )  # fmt: skip


def _transposed(value: Any) -> Any:
    if isinstance(value, View):
        n = len(value.dims)
        return value if n < 2 else value.permute([*range(n - 2), n - 1, n - 2])
    return value


def _shape_of(value: Any, node: Any, flip: bool = False) -> tuple[int, ...]:
    if isinstance(value, View):
        return value.shape
    shape = extents(node.meta["val"])
    return (*shape[:-2], shape[-1], shape[-2]) if flip and len(shape) > 1 else shape


def product(
    call: Call, left: Any, right: Any, left_node: Any, right_node: Any, *, flip: bool = False,
    extra: Sequence[Any] = (),
) -> View:  # fmt: skip
    """left @ right with broadcasting, either of them possibly constant."""
    left, right = _as_view(left), _as_view(right)
    a, b = _shape_of(left, left_node), _shape_of(right, right_node, flip)
    shape = call.shape()
    row = len(a) > 1
    column = len(b) > 1
    inner = a[-1]
    n = len(shape)
    row_dim = n - 1 - column if row else None
    column_dim = n - 1 if column else None
    n_batch = n - row - column
    dims = _batch_parts(left, right, len(a) - 2, len(b) - 2, shape[:n_batch])
    heads_in_k = any(p.want == K and p.size > 1 for parts in dims for p in parts)
    if row:
        dims.append(_side(left, len(a) - 2, a[-2] if row else 1, H, set()))
    if column:
        taken = {p.want for parts in dims for p in parts if p.size > 1}
        dims.append(_column(right, len(b) - 1, b[-1], taken, heads_in_k))
    out = laid_out(dims, 0)
    flows = []
    if isinstance(left, View):
        needs = _batch_needs(len(a) - 2, n_batch)
        flows.append((left, [*needs, *([Need(row_dim)] if row_dim is not None else []), Need()]))
    if isinstance(right, View):
        needs = _batch_needs(len(b) - 2, n_batch)
        tail = [Need(), Need(column_dim)] if column_dim is not None else [Need()]
        flows.append((right, [*needs, *tail]))
    weights = constants([left, right, *extra])
    indexed = _indexed(left, right, n, n_batch, row_dim, column_dim)
    plain = isinstance(right, Constant) and len(b) == 2
    return call.emit(
        OpKind.LINEAR if plain else OpKind.MATMUL, flows, out,
        macs=math.prod(shape) * inner, weights=weights,
        weight_dims=indexing(out, indexed) if weights else (K,),
    )  # fmt: skip


def _as_view(value: Any) -> Any:
    return value.view if isinstance(value, Plumbing) else value


def _indexed(left: Any, right: Any, n: int, n_batch: int, row: int | None, column: int | None,
             ) -> list[int]:  # fmt: skip
    """Output dimensions that index the constant side."""
    if isinstance(right, Constant):
        return [column] if column is not None else []
    if isinstance(left, Constant):
        return [row] if row is not None else []
    return []


def _batch_needs(own: int, n_batch: int) -> list[Need]:
    return [Need(i + n_batch - own) for i in range(max(own, 0))]


def _batch_parts(left: Any, right: Any, n_left: int, n_right: int, shape: tuple[int, ...],
                 ) -> list[list[Part]]:  # fmt: skip
    dims: list[list[Part]] = []
    for i, extent in enumerate(shape):
        found: list[Part] | None = None
        for side, own in ((left, n_left), (right, n_right)):
            at = i - (len(shape) - own)
            if isinstance(side, View) and at >= 0 and size_of(side.dims[at]) == extent:
                parts = parts_of(side, at)
                if found is None or any(p.batch for p in parts):
                    found = found if found and any(p.batch for p in found) else parts
        dims.append(found if found is not None else [Part(extent, K)])
    return dims


def _side(value: Any, dim: int, extent: int, default: int, taken: set[int]) -> list[Part]:
    if isinstance(value, View):
        return parts_of(value, dim)
    return [Part(extent, default)]


def _column(value: Any, dim: int, extent: int, taken: set[int], heads_in_k: bool) -> list[Part]:
    if not isinstance(value, View):
        return [Part(extent, W if heads_in_k and W not in taken else K, 1.0)]
    parts = parts_of(value, dim)
    if all(p.want == K for p in parts):
        return [Part(p.size, K, 1.0 + p.order / 2**60, p.batch) for p in parts]
    free = W if W not in taken else K
    return [Part(p.size, B if p.batch else free, p.order, p.batch) for p in parts]


def _matmul(call: Call) -> Any:
    return product(call, call.args[0], call.args[1], call.node.args[0], call.node.args[1])


def _addmm(call: Call) -> Any:
    bias, left, right = call.args[:3]
    nodes: Any = call.node.args
    result = product(call, left, right, nodes[1], nodes[2], extra=constants([bias]))
    if isinstance(bias, View):
        from torch_slowpoke.frontend.operators.elementwise import broadcast_needs, inherited

        n = len(call.shape())
        return call.emit(
            OpKind.ELEMENTWISE,
            [(v, broadcast_needs(v, n)) for v in (result, bias)],
            inherited([result, bias], call.shape()),
            vector_ops=math.prod(call.shape()), suffix=".add",
        )  # fmt: skip
    return result


def _outer(call: Call) -> Any:
    from torch_slowpoke.frontend.operators.elementwise import elementwise

    return elementwise(call)


def _attention(call: Call) -> Any:
    query, key, value = (_as_view(v) for v in call.args[:3])
    nodes: Any = call.node.args
    shape = call.shape()
    n = len(shape)
    q, k = _shape_of(query, nodes[0]), _shape_of(key, nodes[1])
    v = _shape_of(value, nodes[2])
    rows, columns = math.prod(q[:-1]), k[-2]
    like = query if isinstance(query, View) else None
    dims: list[list[Part]] = []
    for i in range(n - 1):
        dims.append(parts_of(like, i) if like is not None else [Part(shape[i], K if i else B)])
    heads_in_k = any(p.want == K and p.size > 1 for parts in dims[:-1] for p in parts)
    if not heads_in_k and n == 4:  # heads belong to the features wherever they were
        dims[1] = [Part(p.size, K, -1e18 + p.order, p.batch) for p in dims[1]]
    features = parts_of(value, n - 1) if isinstance(value, View) else [Part(v[-1], K)]
    dims.append([Part(p.size, K, 1.0 + p.order / 2**60) for p in features])
    out = laid_out(dims, 0)
    flows = []
    if isinstance(query, View):
        flows.append((query, [*(Need(i) for i in range(n - 1)), Need()]))
    for tensor, last, size in ((key, Need(), k), (value, Need(n - 1), v)):
        if isinstance(tensor, View):
            lead = [Need(i) for i in range(n - 2)]
            if n >= 3 and size[n - 3] != q[n - 3]:  # grouped queries share a key head
                lead[n - 3] = Need(n - 3, den=q[n - 3] // size[n - 3])
            flows.append((tensor, [*lead, Need(), last]))
    mask = call.arg("attn_mask")
    if isinstance(mask, View):
        shift = n - len(mask.dims)
        needs = [
            Need(i + shift) if i + shift < n - 1 else Need(WHOLE) for i in range(len(mask.dims))
        ]
        flows.append((mask, needs))
    result = call.emit(
        OpKind.ATTENTION, flows, out, macs=rows * columns * (q[-1] + v[-1]),
        vector_ops=SOFTMAX_OPS * rows * columns, weights=constants([query, key, value]),
        weight_dims=(),
    )  # fmt: skip
    output = call.node.meta["val"]
    return [result, *[None] * (len(output) - 1)] if isinstance(output, list | tuple) else result


def _embedding(call: Call) -> Any:
    """Rows of a table: only the rows read count as weights."""
    table, index = call.args[0], call.args[1]
    shape = call.shape()
    n = len(shape)
    position = _as_view(index)
    if not isinstance(position, View):
        ids = [Part(e, H) for e in shape[:-1]]
        position = graph_input(shape[:-1], element_bytes=8.0, name=call.node.name)
        flows: list[tuple[View, list[Need]]] = []
        lead = [[p] for p in ids]
    else:
        flows = [(position, [Need(i) for i in range(n - 1)])]
        lead = [_rows(parts_of(position, i), set()) for i in range(n - 1)]
    lead = [[Part(p.size, H, p.order, p.batch) for p in parts] for parts in lead]
    out = laid_out([*lead, [Part(shape[-1], K)]], 0)
    if isinstance(table, View):
        flows.append((table, [Need(WHOLE), Need(n - 1)]))
        return call.emit(OpKind.EMBEDDING, flows, out)
    read = min(table.elements, math.prod(shape))
    used = Constant(read, table.element_bytes, table.parameters)
    return call.emit(
        OpKind.EMBEDDING, flows, out, weights=[used], weight_dims=(0, 1, 2, 3)
    )  # fmt: skip


def _bags(call: Call) -> Any:
    """Sums of rows of a table."""
    table, index = call.args[0], call.args[1]
    shape = call.shape()
    count = math.prod(_shape_of(index, call.node.args[1]))
    flows = [(v, [Need(WHOLE)] * len(v.dims)) for v in (_as_view(index),) if isinstance(v, View)]
    weights = [
        Constant(min(t.elements, count * shape[-1]), t.element_bytes, t.parameters)
        for t in constants([table])
    ]
    out = laid_out([[Part(shape[0], B, 0.0, True)], [Part(shape[1], K)]], 0)
    result = call.emit(
        OpKind.EMBEDDING, flows, out, vector_ops=count * shape[-1], weights=weights,
        weight_dims=(B, K),
    )  # fmt: skip
    value = call.node.meta["val"]
    return [result, *[None] * (len(value) - 1)] if isinstance(value, list | tuple) else result


def _distances(call: Call) -> Any:
    """Distances between all pairs of rows: a product against the transposed second operand."""
    left, right = call.args[0], call.args[1]
    nodes = call.node.args
    return product(call, left, _transposed(right), nodes[0], nodes[1], flip=True)


def _bilinear(call: Call) -> Any:
    """y_k = x1^T W_k x2 + b_k: a product with every matrix, then one with the second operand."""
    shape = call.shape()
    n = len(shape)
    sources = [v for v in (_as_view(call.args[0]), _as_view(call.args[1])) if isinstance(v, View)]
    dims = [_rows(parts_of(sources[0], i), set()) for i in range(n - 1)]
    out = laid_out([*dims, [Part(shape[-1], K)]], 0)
    needs = [Need(i) for i in range(n - 1)] + [Need(WHOLE)]
    nodes: Any = call.node.args
    left, right = (_shape_of(call.args[i], nodes[i])[-1] for i in (0, 1))
    weights = constants([call.args[2], call.arg("bias")])
    return call.emit(
        OpKind.MATMUL, [(v, needs) for v in sources], out,
        macs=math.prod(shape) * right * (left + 1), weights=weights,
        weight_dims=indexing(out, [n - 1]),
    )  # fmt: skip


def _grouped(call: Call) -> Any:
    """Every row meets one matrix of a stack (mixture of experts); which one depends on the data."""
    x, stack = call.args[0], call.args[1]
    shape = call.shape()
    n = len(shape)
    view = _as_view(x)
    needs = [Need(i) for i in range(n - 1)] + [Need(WHOLE)]
    dims = [_rows(parts_of(view, i), set()) for i in range(n - 1)]
    out = laid_out([*dims, [Part(shape[-1], K)]], 0)
    flows = [(view, needs)]
    if isinstance(stack, View):
        flows.append((stack, [Need(WHOLE)] * len(stack.dims)))
    return call.emit(
        OpKind.MATMUL, flows, out, macs=math.prod(shape) * size_of(view.dims[-1]),
        weights=constants([stack]), weight_dims=indexing(out, [n - 1]),
    )  # fmt: skip


ROWS: dict[str, Row] = {
    "linear": _linear,
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot", "vdot", "inner"), _matmul),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addbmm"), _addmm),
    **dict.fromkeys(("outer", "ger"), _outer),
    **dict.fromkeys(
        ("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu",
         "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
         "_scaled_dot_product_attention_math", "_scaled_dot_product_cudnn_attention",
         "_scaled_dot_product_fused_attention_overrideable"), _attention),
    "embedding": _embedding,
    **dict.fromkeys(("_embedding_bag", "embedding_bag", "_embedding_bag_forward_only"), _bags),
    "bilinear": _bilinear,
    **dict.fromkeys(("_cdist_forward", "_euclidean_dist"), _distances),
    **dict.fromkeys(("_grouped_mm", "grouped_mm", "grouped_mm_fallback"), _grouped),
}  # fmt: skip

__all__ = ["ROWS", "SOFTMAX_OPS", "indexing", "product", "settled"]
