"""Element-wise operators: activations fold into their producer, others read what they write."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend.call import Call, Row
from torch_slowpoke.frontend.needs import Need
from torch_slowpoke.frontend.values import constants, views
from torch_slowpoke.frontend.view import FREE, Part, View, by_rank, laid_out, parts_of, size_of


def broadcast_needs(view: View, n: int) -> list[Need]:
    """Each dimension needs its own index in an output of rank `n`."""
    shift = n - len(view.dims)
    return [Need(i + shift) for i in range(len(view.dims))]


def inherited(sources: list[View], shape: tuple[int, ...]) -> View:
    """A box for an element-wise output: every dimension lies as in the first source that has it."""
    n = len(shape)
    aligned = [source.unsqueeze_to(n) for source in sources]
    fallback = by_rank([[Part(extent, 1)] for extent in shape])
    dims: list[list[Part]] = []
    for i, extent in enumerate(shape):
        having = [
            v for v in aligned
            if size_of(v.dims[i]) == extent and all(d.dim != FREE for d in v.dims[i])
        ]  # fmt: skip
        having.sort(key=lambda v: not any(d.batch for d in v.dims[i]))
        dims.append(parts_of(having[0], i) if having else fallback[i])
    return laid_out(dims, 0)


def elementwise(call: Call, vector_ops: int | None = None, affine: bool = False) -> Any:
    """Folds if there is one data input of the same shape, else emits an operator."""
    shape = call.shape()
    sources = views(call.values)
    weights = constants(call.values)
    work = math.prod(shape) if vector_ops is None else vector_ops
    if len(sources) == 1 and sources[0].shape == shape:
        folded = call.builder.fold(
            call, sources[0], vector_ops=work, weights=weights, affine=affine
        )
        if folded is not None:
            return folded
    out = inherited(sources, shape)
    flows = [(view, broadcast_needs(view, len(shape))) for view in sources]
    return call.emit(OpKind.ELEMENTWISE, flows, out, vector_ops=work, weights=weights)


def _plain(call: Call) -> Any:
    return elementwise(call)


def _affine(call: Call) -> Any:
    return elementwise(call, affine=not views(call.values[1:]))


def _batch_norm(call: Call) -> Any:
    x: View = call.args[0]
    shape = call.shape()
    if call.arg("training", False) or call.arg("train", False):  # statistics of the batch itself
        from torch_slowpoke.frontend.operators.norm import NORM_OPS, over

        own = {i for i in range(len(shape)) if i != 1}
        weights = [call.arg("weight"), call.arg("bias")]
        return over(call, OpKind.NORM, x, own, NORM_OPS, weights, [1])
    scale_and_shift = constants([call.arg("weight"), call.arg("bias")])
    draft = call.builder.drafts[x.producer] if x.producer >= 0 else None
    mergeable = (
        draft is not None and draft.kind in (OpKind.CONV, OpKind.LINEAR) and draft.affine_only
    )
    if draft is not None and mergeable and draft.weight_elements:
        # scale and shift go into the weights and the bias before the chip ever sees them
        folded = call.builder.fold(call, x, vector_ops=0, affine=True)
        if folded is not None:
            if not draft.has_bias and scale_and_shift:
                draft.weight_elements += shape[1]
                draft.has_bias = True
            return _multiple(call, folded)
    needs = [Need(i) for i in range(len(shape))]
    out = inherited([x], shape)
    return _multiple(call, call.emit(
        OpKind.NORM, [(x, needs)], out, vector_ops=2 * math.prod(shape), weights=scale_and_shift,
    ))  # fmt: skip


def _multiple(call: Call, result: View) -> Any:
    value = call.node.meta["val"]
    return [result, *[None] * (len(value) - 1)] if isinstance(value, list | tuple) else result


def _glu(call: Call) -> Any:
    x: View = call.args[0]
    shape = call.shape()
    dim = call.arg("dim", -1) % len(shape)
    half = shape[dim]
    halves = [x.narrow(dim, 0, half), x.narrow(dim, half, half)]
    if None in halves:
        from torch_slowpoke.frontend.fallback import conservative

        return conservative(call)
    sources = [v for v in halves if v is not None]
    out = inherited(sources, shape)
    flows = [(v, [Need(i) for i in range(len(shape))]) for v in sources]
    return call.emit(OpKind.ELEMENTWISE, flows, out, vector_ops=2 * math.prod(shape))


def _copy(call: Call) -> Any:
    source = call.args[1]
    if isinstance(source, View):
        return source.expand(call.shape())
    return source


AFFINE = ("add", "sub", "mul", "div", "neg", "rsub")
PLAIN = (
    "relu", "relu6", "gelu", "silu", "sigmoid", "tanh", "hardtanh", "hardswish", "hardsigmoid",
    "leaky_relu", "elu", "selu", "celu", "mish", "softplus", "softsign", "logsigmoid",
    "log_sigmoid", "prelu", "threshold", "hardshrink", "softshrink", "tanhshrink", "rrelu",
    "log_sigmoid_forward",
    "abs", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "square",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
    "erf", "erfc", "erfinv", "ceil", "floor", "round", "trunc", "frac", "sign", "sgn",
    "reciprocal", "pow", "float_power", "clamp", "clamp_min", "clamp_max", "clip", "maximum",
    "minimum", "fmax", "fmin", "fmod", "remainder", "atan2", "hypot", "lerp", "addcmul", "addcdiv",
    "logaddexp", "logaddexp2", "logit", "nan_to_num", "floor_divide", "true_divide", "divide",
    "multiply", "subtract", "where", "masked_fill", "eq", "ne", "lt", "le", "gt", "ge",
    "logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and", "bitwise_or",
    "bitwise_not", "bitwise_xor", "isnan", "isinf", "isfinite", "__and__", "__or__", "xlogy",
    "bernoulli", "polar", "fake_quantize_per_tensor_affine", "sinc", "special_expit", "copysign",
    "heaviside", "digamma", "lgamma", "deg2rad", "rad2deg", "fill", "zero", "greater", "less",
)  # fmt: skip

ROWS: dict[str, Row] = {
    **dict.fromkeys(PLAIN, _plain),
    **dict.fromkeys(AFFINE, _affine),
    **dict.fromkeys(
        ("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm",
         "_native_batch_norm_legit", "cudnn_batch_norm"), _batch_norm),
    "glu": _glu,
    "copy": _copy,
}  # fmt: skip

__all__ = ["ROWS", "broadcast_needs", "elementwise", "inherited", "replace"]
