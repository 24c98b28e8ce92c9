"""Interpolation and sampling on a grid."""

from __future__ import annotations

import math
from typing import Any

from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend.builder import Call, Row
from torch_slowpoke.frontend.needs import WHOLE, Need
from torch_slowpoke.frontend.view import Part, View, by_rank, laid_out, parts_of

TAPS = {"nearest": 1, "linear": 2, "bilinear": 4, "bicubic": 16, "trilinear": 8}


def resize_need(dim: int, inputs: int, outputs: int, reach: float, aligned: bool) -> Need:
    """Input indices that interpolation reads; `reach` is the filter's half width in input pixels.

    Output o is centred at (o + 1/2) r - 1/2 with r = inputs / outputs, or at o (inputs - 1) /
    (outputs - 1) with aligned corners; half an index is added on both sides for rounding.
    """
    if inputs == outputs:
        return (
            Need(dim, low=-math.ceil(reach) + 1, high=math.ceil(reach)) if reach > 1 else Need(dim)
        )
    if inputs == 1:
        return Need(WHOLE)
    if aligned:
        if outputs == 1:
            return Need(WHOLE)
        return Need(dim, num=inputs - 1, den=outputs - 1, low=-math.ceil(reach),
                    high=math.ceil(reach) + 2)  # fmt: skip
    ratio = inputs / outputs
    shift = (ratio - 1) / 2
    low = math.floor(shift - reach - 1e-6)
    high = math.ceil(shift + 1 + reach + 1e-6)
    if outputs % inputs == 0:
        return Need(dim, den=outputs // inputs, low=low, high=high)
    if inputs % outputs == 0:
        return Need(dim, mult=inputs // outputs, low=low, high=high)
    return Need(dim, num=inputs, den=outputs, low=low, high=high)


def _upsample(call: Call) -> Any:
    x: View = call.args[0]
    shape = call.shape()
    n = len(shape) - 2
    kind = next(k for k in ("bicubic", "bilinear", "trilinear", "linear", "nearest")
                if k in call.name)  # fmt: skip
    aligned = bool(call.arg("align_corners", False))
    needs = [Need(0), Need(1)]
    taps = TAPS[kind]
    for i in range(n):
        inputs, outputs = x.shape[i + 2], shape[i + 2]
        reach = 2.0 if kind == "bicubic" else 1.0
        if "_aa" in call.name:
            reach *= max(1.0, inputs / outputs)
            taps = max(taps, math.ceil(2 * reach) ** n)
        needs.append(
            _nearest(i + 2, inputs, outputs)
            if kind == "nearest"
            else resize_need(i + 2, inputs, outputs, reach, aligned)
        )
    dims = [parts_of(x, 0), parts_of(x, 1), *([Part(e, 1)] for e in shape[2:])]
    out = laid_out(by_rank(dims, channel=1), 0)
    return call.emit(OpKind.RESIZE, [(x, needs)], out, vector_ops=taps * math.prod(shape))


def _nearest(dim: int, inputs: int, outputs: int) -> Need:
    if inputs == outputs:
        return Need(dim)
    if outputs % inputs == 0:
        return Need(dim, den=outputs // inputs)
    if inputs % outputs == 0:
        return Need(dim, mult=inputs // outputs, high=inputs // outputs)
    return Need(dim, num=inputs, den=outputs, low=-1, high=2)  # float scale may round either way


def _grid_sample(call: Call) -> Any:
    x, grid = call.args[0], call.args[1]
    shape = call.shape()
    n = len(shape) - 2
    flows = []
    if isinstance(x, View):
        flows.append((x, [Need(0), Need(1), *[Need(WHOLE)] * n]))
    if isinstance(grid, View):
        flows.append((grid, [Need(0), *(Need(i + 2) for i in range(n)), Need(WHOLE)]))
    lead = x if isinstance(x, View) else grid
    dims = [parts_of(lead, 0), *([Part(e, 1)] for e in shape[1:])]
    out = laid_out(by_rank(dims, channel=1), 0)
    return call.emit(OpKind.RESIZE, flows, out, vector_ops=2**n * math.prod(shape))


_UPSAMPLES = (
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d",
    "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
    "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
)  # fmt: skip
ROWS: dict[str, Row] = {
    **dict.fromkeys(_UPSAMPLES, _upsample),
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), _grid_sample),
}
