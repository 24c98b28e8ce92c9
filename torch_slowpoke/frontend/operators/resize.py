"""Interpolation and sampling on a grid."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend.call import Call, Row
from torch_slowpoke.frontend.needs import WHOLE, Need
from torch_slowpoke.frontend.view import Part, View, by_rank, laid_out, parts_of

TAPS = {"nearest": 1, "linear": 2, "bilinear": 4, "bicubic": 16, "trilinear": 8}


def resize_need(
    dim: int, inputs: int, outputs: int, ratio: Fraction, reach: float, aligned: bool
) -> Need:
    """Input indices that interpolation reads; `reach` is the filter's half width in input pixels.

    Output o is centred at (o + 1/2) * ratio - 1/2, or at o (inputs - 1) / (outputs - 1) with
    aligned corners. `ratio` is inputs / outputs unless the caller gave a scale factor.
    """
    if inputs == 1 or (aligned and outputs == 1):
        return Need(WHOLE)
    if aligned:
        ratio = Fraction(inputs - 1, outputs - 1)
        shift = 0.0
    else:
        shift = (float(ratio) - 1) / 2
        if ratio == 1 and reach <= 1:
            return Need(dim)
    slack = 0.001  # torch computes the centre in floating point
    low = math.floor(shift - reach - slack)
    high = math.ceil(shift + 1 + reach + slack)
    return _scaled(dim, ratio, low, high)


def nearest_need(dim: int, inputs: int, outputs: int, ratio: Fraction) -> Need:
    """The one input index, with room for rounding where the ratio is no whole number."""
    if inputs == outputs and ratio == 1:
        return Need(dim)
    if ratio.numerator == 1:
        return Need(dim, den=ratio.denominator)
    if ratio.denominator == 1:
        return Need(dim, mult=ratio.numerator, high=ratio.numerator)
    return Need(dim, num=ratio.numerator, den=ratio.denominator, low=-1, high=2)


def _scaled(dim: int, ratio: Fraction, low: int, high: int) -> Need:
    if ratio.numerator == 1:
        return Need(dim, den=ratio.denominator, low=low, high=high)
    if ratio.denominator == 1:
        return Need(dim, mult=ratio.numerator, low=low, high=high)
    return Need(dim, num=ratio.numerator, den=ratio.denominator, low=low, high=high)


def _ratios(call: Call, before: tuple[int, ...], after: tuple[int, ...]) -> list[Fraction]:
    """Input pixels per output pixel: by the sizes, or by scale factors where given."""
    factors = call.arg("scale_factors")
    if not factors:
        factors = [call.arg(f"scales_{axis}") for axis in "dhw"[-len(before) :]]
        if len(before) == 1:
            factors = [call.arg("scales")]
    return [
        Fraction(1 / factor).limit_denominator(10000) if factor else Fraction(i, o)
        for i, o, factor in zip(before, after, factors, strict=True)
    ]


def _upsample(call: Call) -> Any:
    x: View = call.args[0]
    shape = call.shape()
    n = len(shape) - 2
    kind = next(k for k in ("bicubic", "bilinear", "trilinear", "linear", "nearest")
                if k in call.name)  # fmt: skip
    aligned = bool(call.arg("align_corners", False))
    needs = [Need(0), Need(1)]
    taps = TAPS[kind]
    ratios = _ratios(call, x.shape[2:], shape[2:])
    for i in range(n):
        inputs, outputs = x.shape[i + 2], shape[i + 2]
        reach = 2.0 if kind == "bicubic" else 1.0
        if "_aa" in call.name:
            reach *= max(1.0, float(ratios[i]))
            taps = max(taps, math.ceil(2 * reach) ** n)
        needs.append(
            nearest_need(i + 2, inputs, outputs, ratios[i])
            if kind == "nearest"
            else resize_need(i + 2, inputs, outputs, ratios[i], reach, aligned)
        )
    dims = [parts_of(x, 0), parts_of(x, 1), *([Part(e, 1)] for e in shape[2:])]
    out = laid_out(by_rank(dims, channel=1), 0)
    return call.emit(OpKind.RESIZE, [(x, needs)], out, vector_ops=taps * math.prod(shape))


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
