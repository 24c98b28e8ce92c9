"""Pooling with fixed and adaptive windows."""

from __future__ import annotations

import math
from typing import Any

from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend.call import Call, Row
from torch_slowpoke.frontend.needs import Need
from torch_slowpoke.frontend.operators.convolution import spread, window_need
from torch_slowpoke.frontend.values import Plumbing
from torch_slowpoke.frontend.view import Part, View, by_rank, laid_out, parts_of


def adaptive_need(dim: int, inputs: int, outputs: int) -> Need:
    """Output o reads [floor(o * in / out), ceil((o + 1) * in / out))."""
    if inputs % outputs == 0:
        ratio = inputs // outputs
        return Need(dim, mult=ratio, high=ratio)
    widest = max(-(-(o + 1) * inputs // outputs) - o * inputs // outputs for o in range(outputs))
    return Need(dim, num=inputs, den=outputs, high=widest)


def _emit(call: Call, x: View, spatial: list[Need], n: int, area: int) -> Any:
    shape = call.shape()
    lead = len(shape) - n
    needs = [Need(i) for i in range(lead)] + spatial
    dims = [parts_of(x, i) for i in range(lead)] + [[Part(e, 1)] for e in shape[lead:]]
    ranked = by_rank(dims, channel=lead - 1)
    out = laid_out(ranked, 0)
    result = call.emit(
        OpKind.POOL, [(x, needs)], out, vector_ops=math.prod(shape) * area
    )  # fmt: skip
    value = call.node.meta["val"]
    if isinstance(value, list | tuple):  # with indices
        return [result, *(Plumbing(result) for _ in value[1:])]
    return result


def _pool(call: Call) -> Any:
    x: View = call.args[0]
    n = int(call.name.split("pool")[1][0])
    kernel = spread(call.arg("kernel_size"), n)
    stride = spread(call.arg("stride") or kernel, n)
    padding = spread(call.arg("padding", 0), n)
    dilation = spread(call.arg("dilation", 1) or 1, n)
    lead = len(call.shape()) - n
    spatial = [
        window_need(lead + i, kernel[i], stride[i], padding[i], dilation[i]) for i in range(n)
    ]
    return _emit(call, x, spatial, n, math.prod(kernel))


def _adaptive(call: Call) -> Any:
    x: View = call.args[0]
    n = int(call.name.split("pool")[1][0])
    shape = call.shape()
    lead = len(shape) - n
    before, after = x.shape[lead:], shape[lead:]
    spatial = [adaptive_need(lead + i, before[i], after[i]) for i in range(n)]
    area = max(1, math.prod(before) // max(1, math.prod(after)))
    return _emit(call, x, spatial, n, area)


_RANKS = ("1d", "2d", "3d")
ROWS: dict[str, Row] = {
    **{f"{kind}_pool{r}": _pool for kind in ("max", "avg") for r in _RANKS},
    **{f"max_pool{r}_with_indices": _pool for r in _RANKS},
    **{f"{kind}_pool{r}": _adaptive for kind in ("adaptive_avg", "adaptive_max") for r in _RANKS},
    **{f"_adaptive_avg_pool{r}": _adaptive for r in _RANKS[1:]},
}
