"""Softmax and the norms that need a whole row: layer, group, instance, RMS."""

from __future__ import annotations

import math
from typing import Any

from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend.call import Call, Row
from torch_slowpoke.frontend.needs import WHOLE, Need
from torch_slowpoke.frontend.operators.elementwise import inherited
from torch_slowpoke.frontend.operators.matmul import SOFTMAX_OPS, indexing
from torch_slowpoke.frontend.values import constants
from torch_slowpoke.frontend.view import View

NORM_OPS = 6
"""Element operations of a norm per element: two moments (2 each), scale, shift."""


def over(call: Call, kind: OpKind, x: View, dims: set[int], ops: int, weights: list[Any],
         indexed: list[int], special: dict[int, Need] | None = None) -> Any:  # fmt: skip
    """An operator that keeps its shape and needs `dims` whole."""
    shape = call.shape()
    needs = [
        (special or {}).get(i, Need(WHOLE) if i in dims else Need(i)) for i in range(len(shape))
    ]
    out = inherited([x], shape)
    whole = dims | set(special or {})
    blocked = {d.dim for i in whole for d in out.dims[i] if d.size > 1}
    if special:  # groups may be cut from each other
        blocked -= {d.dim for i in special for d in out.dims[i]}
    result = call.emit(
        kind, [(x, needs)], out, vector_ops=ops * math.prod(shape), weights=constants(weights),
        weight_dims=indexing(out, indexed),
        partitionable=tuple(d for d in range(4) if d not in blocked),
    )  # fmt: skip
    value = call.node.meta["val"]
    return [result, *[None] * (len(value) - 1)] if isinstance(value, list | tuple) else result


def _softmax(call: Call) -> Any:
    x: View = call.args[0]
    dim = call.arg("dim", -1)
    n = len(call.shape())
    return over(call, OpKind.SOFTMAX, x, {dim % n if n else 0}, SOFTMAX_OPS, [], [])


def _layer_norm(call: Call) -> Any:
    x: View = call.args[0]
    n = len(call.shape())
    rows = len(call.arg("normalized_shape"))
    dims = set(range(n - rows, n))
    return over(call, OpKind.NORM, x, dims, NORM_OPS, [call.arg("weight"), call.arg("bias")],
                sorted(dims))  # fmt: skip


def _group_norm(call: Call) -> Any:
    x: View = call.args[0]
    shape = call.shape()
    groups = call.arg("num_groups") or call.arg("group")
    size = shape[1] // groups
    special = {1: Need(1, den=size, mult=size, high=size)} if groups > 1 else {}
    dims = set(range(2, len(shape))) | (set() if special else {1})
    return over(call, OpKind.NORM, x, dims, NORM_OPS, [call.arg("weight"), call.arg("bias")],
                [1], special)  # fmt: skip


def _instance_norm(call: Call) -> Any:
    x: View = call.args[0]
    dims = set(range(2, len(call.shape())))
    return over(call, OpKind.NORM, x, dims, NORM_OPS, [call.arg("weight"), call.arg("bias")], [1])


def _running(call: Call) -> Any:
    x: View = call.args[0]
    n = len(call.shape())
    return over(call, OpKind.NORM, x, {call.arg("dim") % n}, 1, [], [])


ROWS: dict[str, Row] = {
    **dict.fromkeys(
        ("softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax", "softmin",
         "special_softmax"), _softmax),
    **dict.fromkeys(
        ("layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm"), _layer_norm),
    **dict.fromkeys(("group_norm", "native_group_norm"), _group_norm),
    "instance_norm": _instance_norm,
    **dict.fromkeys(("cumsum", "cumprod", "logcumsumexp"), _running),
}  # fmt: skip
