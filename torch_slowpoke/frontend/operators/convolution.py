"""Convolutions of any rank, plain, grouped, dilated and transposed."""

from __future__ import annotations

import math
from typing import Any

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend.call import Call, Row, extents
from torch_slowpoke.frontend.needs import WHOLE, Need
from torch_slowpoke.frontend.packets import where
from torch_slowpoke.frontend.values import Constant
from torch_slowpoke.frontend.view import Part, View, by_rank, laid_out, parts_of


def spread(value: Any, n: int) -> tuple[int, ...]:
    """An int or a short list as one entry for each of `n` dimensions."""
    if isinstance(value, int):
        return (value,) * n
    values = tuple(value)
    return values * n if len(values) == 1 else values


def window_need(dim: int, kernel: int, stride: int, padding: int, dilation: int) -> Need:
    """Halo of a sliding window along one dimension."""
    return Need(dim, mult=stride, low=-padding, high=dilation * (kernel - 1) + 1 - padding)


def transposed_need(dim: int, kernel: int, stride: int, padding: int, dilation: int) -> Need:
    """Inputs i with o = i * stride - padding + dilation * k for some tap k."""
    reach = dilation * (kernel - 1)
    return Need(
        dim,
        den=stride,
        low=-((reach - padding) // stride),
        high=(stride - 1 + padding) // stride + 1,
    )


def _same_padding(call: Call, padding: Any, kernel: tuple[int, ...], dilation: tuple[int, ...],
                  ) -> tuple[int, ...]:  # fmt: skip
    if padding == "valid":
        return (0,) * len(kernel)
    if padding == "same":  # torch pads the odd element at the end
        return tuple(d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True))
    return spread(padding, len(kernel))


def _convolution(call: Call) -> Any:
    x, weight = call.args[0], call.args[1]
    if not isinstance(x, View):
        raise SlowpokeError(
            f"{where(call.node) or call.name} convolves a constant with data: only kernels that "
            "are weights or data over a data input can be mapped"
        )
    kernel_shape = extents(call.node.args[1].meta["val"])  # type: ignore[union-attr]
    shape = call.shape()
    n = len(kernel_shape) - 2
    batched = len(shape) == n + 2
    if not batched:
        x = View(x.producer, x.box, ((), *x.dims), x.offset, x.element_bytes, x.name)
        shape = (1, *shape)
    kernel = kernel_shape[2:]
    transposed = "transpose" in call.name or bool(call.arg("transposed", False))
    stride = spread(call.arg("stride", 1), n)
    dilation = spread(call.arg("dilation", 1), n)
    padding = _same_padding(call, call.arg("padding", 0), kernel, dilation)
    groups = call.arg("groups", 1)
    inputs, outputs = x.shape[1], shape[1]
    if groups == 1:
        channel = Need(WHOLE)
    elif outputs % groups == 0:
        per_in, per_out = inputs // groups, outputs // groups
        channel = Need(1, den=per_out, mult=per_in, high=per_in)
    need = transposed_need if transposed else window_need
    needs = [Need(0), channel] + [
        need(i + 2, kernel[i], stride[i], padding[i], dilation[i]) for i in range(n)
    ]
    dims = by_rank([parts_of(x, 0), *([Part(e, 1)] for e in shape[1:])], channel=1)
    out = laid_out(dims, 0)
    bias = call.arg("bias")
    weights = [w for w in (weight, bias) if isinstance(w, Constant)]
    flows = [(x, needs)]
    if isinstance(weight, View):  # dynamic filters
        flows.append((weight, [Need(WHOLE)] * len(weight.dims)))
    # every output (every input, transposed) meets each tap of its group's kernel once
    positions = math.prod(x.shape[2:]) * shape[0] if transposed else math.prod(shape) // outputs
    macs = positions * math.prod(kernel_shape)
    result = call.emit(OpKind.CONV, flows, out, macs=macs, weights=weights)
    if not batched:
        return View(
            result.producer, result.box, result.dims[1:], result.offset, result.element_bytes,
            result.name,
        )  # fmt: skip
    return result


def _deformable(call: Call) -> Any:
    """torchvision's deform_conv2d: each tap reads between four pixels, anywhere in the picture."""
    x, weight, offset, mask, bias = call.args[:5]
    shape, kernel_shape = call.shape(), extents(call.node.args[1].meta["val"])  # type: ignore[union-attr]
    groups = call.arg("groups", 1)
    per_in, per_out = kernel_shape[1], shape[1] // groups
    channel = Need(1, den=per_out, mult=per_in, high=per_in) if groups > 1 else Need(WHOLE)
    steering = (offset, mask) if call.arg("use_mask", True) else (offset,)
    flows = [(x, [Need(0), channel, Need(WHOLE), Need(WHOLE)])] if isinstance(x, View) else []
    flows += [(v, [Need(0), Need(WHOLE), Need(2), Need(3)]) for v in steering
              if isinstance(v, View)]  # fmt: skip
    flows += [(w, [Need(WHOLE)] * len(w.dims)) for w in (weight, bias) if isinstance(w, View)]
    first = flows[0][0]
    out = laid_out(by_rank([parts_of(first, 0), *([Part(e, 1)] for e in shape[1:])], channel=1), 0)
    positions = math.prod(shape) // shape[1]
    sampled = positions * groups * math.prod(kernel_shape[1:])
    return call.emit(
        OpKind.CONV, flows, out,
        macs=positions * math.prod(kernel_shape), vector_ops=BILINEAR * sampled,
        weights=[w for w in (weight, bias) if isinstance(w, Constant)],
    )  # fmt: skip


BILINEAR = 4
"""Vector operations of a value read between four pixels."""

ROWS: dict[str, Row] = {
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "conv_transpose1d",
         "conv_transpose2d", "conv_transpose3d"), _convolution),
    "deform_conv2d": _deformable,
}  # fmt: skip
