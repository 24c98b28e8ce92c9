"""Views: the same elements under another shape. They vanish, unless data really has to move."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend.call import Call, Row
from torch_slowpoke.frontend.needs import WHOLE, Need, same
from torch_slowpoke.frontend.values import Constant
from torch_slowpoke.frontend.view import FREE, Digit, Part, View, by_rank, laid_out, parts_of


def fresh_parts(view: View, shape: tuple[int, ...]) -> list[list[Part]]:
    """Parts for an output of `shape`: those of `view` where the extents agree, else whole ones."""
    dims: list[list[Part]] = []
    for i, extent in enumerate(shape):
        agrees = i < len(view.dims) and view.shape[i] == extent
        dims.append(parts_of(view, i) if agrees else [Part(extent, 1)])
    if not any(part.batch for dim in dims for part in dim) and shape:
        leading = view.dims and any(d.batch for d in view.dims[0])
        if leading and shape[0] > 0 and len(dims[0]) == 1:
            dims[0] = [replace(dims[0][0], batch=True)]
    return dims


def move(call: Call, view: View, needs: list[Need] | None = None) -> View:
    """An operator that only rearranges: bytes, no MACs.

    With `needs` None `view` already has the output's shape; else they say what of it is read.
    """
    shape = call.shape()
    if needs is None:
        dims = by_rank([parts_of(view, i) for i in range(len(shape))])
        return call.emit(OpKind.MOVE, [(view, same(len(shape)))], laid_out(dims, 0))
    dims = by_rank(fresh_parts(view, shape))
    return call.emit(OpKind.MOVE, [(view, needs)], laid_out(dims, 0))


def settled(call: Call, before: View, after: View | None) -> View:
    """The view if it stays a relabelling, else the operator that moves the data."""
    if after is None:
        return move(call, before, [Need(WHOLE)] * len(before.dims))
    if after.rearranges() and not before.rearranges():
        return move(call, after)
    return after


def _reshape(call: Call) -> Any:
    view: View = call.args[0]
    return settled(call, view, view.reshape(call.shape()))


def _same(call: Call) -> Any:
    return call.args[0]


def _permute(call: Call) -> Any:
    view: View = call.args[0]
    n = len(view.dims)
    return view.permute([d % n for d in call.arg("dims")])


def _transpose(call: Call) -> Any:
    view: View = call.args[0]
    n = len(view.dims)
    if n < 2:
        return view
    first, second = call.arg("dim0", -2), call.arg("dim1", -1)
    if call.name in ("t", "mT", "numpy_T", "matrix_H", "adjoint", "mH"):
        first, second = -2, -1
    if call.name == "swapaxes":
        first, second = call.arg("axis0"), call.arg("axis1")
    order = list(range(n))
    order[first % n], order[second % n] = order[second % n], order[first % n]
    return view.permute(order)


def _movedim(call: Call) -> Any:
    view: View = call.args[0]
    n = len(view.dims)
    source, target = call.arg("source"), call.arg("destination")
    sources = [source] if isinstance(source, int) else list(source)
    targets = [target] if isinstance(target, int) else list(target)
    order: list[int | None] = [None] * n
    for s, t in zip(sources, targets, strict=True):
        order[t % n] = s % n
    rest = iter(i for i in range(n) if i not in {s % n for s in sources})
    return view.permute([next(rest) if o is None else o for o in order])


def _squeeze(call: Call) -> Any:
    view: View = call.args[0]
    reshaped = view.reshape(call.shape())
    assert reshaped is not None
    return reshaped


def _expand(call: Call) -> Any:
    view: View = call.args[0]
    return view.expand(call.shape())


def _or_move(call: Call, view: View, result: View | None) -> View:
    return result if result is not None else move(call, view, [Need(WHOLE)] * len(view.dims))


def _slice(call: Call) -> Any:
    view: View = call.args[0]
    dim = call.arg("dim") % len(view.dims)
    extent = view.shape[dim]
    start, step = call.arg("start") or 0, call.arg("step") or 1
    if not isinstance(start, int):
        return move(call, view, [Need(WHOLE)] * len(view.dims))
    start = max(start + extent, 0) if start < 0 else min(start, extent)
    return _or_move(call, view, view.narrow(dim, start, call.shape()[dim], step))


def _narrow(call: Call) -> Any:
    view: View = call.args[0]
    dim = call.arg("dim") % len(view.dims)
    start, extent = call.arg("start"), view.shape[dim]
    if not isinstance(start, int):
        return move(call, view, [Need(WHOLE)] * len(view.dims))
    return _or_move(call, view, view.narrow(dim, start % extent, call.shape()[dim]))


def _select(call: Call) -> Any:
    view: View = call.args[0]
    dim = call.arg("dim") % len(view.dims)
    index = call.arg("index")
    if not isinstance(index, int):
        return move(call, view, [Need(WHOLE)] * len(view.dims))
    return _or_move(call, view, view.select(dim, index % view.shape[dim]))


def _pieces(call: Call) -> Any:
    view: View = call.args[0]
    dim = call.arg("dim", 0) % len(view.dims)
    start, result = 0, []
    for i in range(len(call.node.meta["val"])):
        size = call.shape(i)[dim]
        piece = view.narrow(dim, start, size)
        if piece is None:
            needs = [Need(WHOLE)] * len(view.dims)
            out = laid_out(by_rank(fresh_parts(view, call.shape(i))), 0)
            piece = call.emit(OpKind.MOVE, [(view, needs)], out, output=i, suffix=f".{i}")
        result.append(piece)
        start += size
    return result


def _unbind(call: Call) -> Any:
    view: View = call.args[0]
    dim = call.arg("dim", 0) % len(view.dims)
    pieces = [view.select(dim, i) for i in range(view.shape[dim])]
    if all(piece is not None for piece in pieces):
        return pieces
    needs = [Need(WHOLE)] * len(view.dims)
    return [
        call.emit(
            OpKind.MOVE, [(view, needs)], laid_out(by_rank(fresh_parts(view, call.shape(i))), 0),
            output=i, suffix=f".{i}",
        )
        for i in range(view.shape[dim])
    ]  # fmt: skip


def _pad(call: Call) -> Any:
    view: View = call.args[0]
    pad = list(call.arg("pad"))
    if call.name == "pad" and call.arg("mode", "constant") != "constant":
        return move_padded(call, view, pad, call.arg("mode"))
    result: View | None = view
    for i in range(len(pad) // 2):
        dim = len(view.dims) - 1 - i
        before, after = pad[2 * i], pad[2 * i + 1]
        if result is not None and (before or after):
            crop = max(-before, 0), max(-after, 0)
            if any(crop):
                result = result.narrow(dim, crop[0], result.shape[dim] - sum(crop))
            if result is not None and (before > 0 or after > 0):
                result = result.pad(dim, max(before, 0), max(after, 0))
    return result if result is not None else move_padded(call, view, pad)


def move_padded(call: Call, view: View, pad: list[int], mode: str = "circular") -> View:
    """Padding with data: reflection and replication read near by, circular padding anywhere.

    Output i reads i - before, mirrored or clamped at the ends: at most 2 * before further up and
    2 * after further down.
    """
    n = len(view.dims)
    needs = [Need(i) for i in range(n)]
    for i in range(len(pad) // 2):
        before, after = pad[2 * i], pad[2 * i + 1]
        dim = n - 1 - i
        if before or after:
            near = mode in ("reflect", "replicate") and min(before, after) >= 0
            needs[dim] = (
                Need(dim, low=-before - 2 * after, high=1 + before) if near else Need(WHOLE)
            )
    return move(call, view, needs)


def _data_pad(call: Call) -> Any:
    mode = "reflect" if call.name.startswith("reflection") else "replicate"
    return move_padded(call, call.args[0], list(call.arg("padding")), mode)


def _repeat(call: Call) -> Any:
    view: View = call.args[0]
    shape = call.shape()
    dims = list(view.unsqueeze_to(len(shape)).dims)
    for i, extent in enumerate(shape):
        own = math.prod(d.size for d in dims[i])
        if extent != own and extent % own == 0:
            dims[i] = (Digit(extent // own, FREE, 0), *dims[i])
    return replace(view, dims=tuple(dims))


def _repeat_interleave(call: Call) -> Any:
    view: View = call.args[0]
    repeats, dim = call.arg("repeats"), call.arg("dim")
    if not isinstance(repeats, int) or dim is None:
        return move(call, view, [Need(WHOLE)] * len(view.dims))
    dims = list(view.dims)
    dims[dim % len(dims)] = (*dims[dim % len(dims)], Digit(repeats, FREE, 0))
    return replace(view, dims=tuple(dims))


def _unfold(call: Call) -> Any:
    view: View = call.args[0]
    dim = call.arg("dimension") % len(view.dims)
    size, step = call.arg("size"), call.arg("step")
    digits = view.dims[dim]
    if len(digits) != 1 or digits[0].batch:
        return move(call, view, [Need(WHOLE)] * len(view.dims))
    digit = digits[0]
    count = call.shape()[dim]
    dims = list(view.dims)
    dims[dim] = (replace(digit, size=count, step=digit.step * step),)
    return replace(view, dims=(*dims, (replace(digit, size=size),)))


def _constant_like(call: Call) -> Any:
    tensor = call.tensor()
    return Constant(tensor.numel(), float(tensor.dtype.itemsize))


CONSTANT_LIKE = (
    "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full",
    "new_empty", "rand_like", "randn_like", "new_empty_strided",
)  # fmt: skip
"""Operators that take of a tensor only its shape and dtype."""

ROWS: dict[str, Row] = {
    **dict.fromkeys(
        ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "view_as", "reshape_as",
         "_reshape_alias", "ravel"), _reshape),
    **dict.fromkeys(
        ("contiguous", "clone", "detach", "alias", "to", "_to_copy", "type_as", "dropout",
         "lift_fresh_copy", "lift_fresh", "feature_dropout", "alpha_dropout", "float", "half",
         "bfloat16", "positive", "view_dtype", "native_dropout", "requires_grad", "_conj",
         "resolve_conj", "resolve_neg", "real", "lift", "prims_convert_element_type",
         "alias_copy", "conj", "set_"), _same),
    **dict.fromkeys(("permute",), _permute),
    **dict.fromkeys(
        ("transpose", "t", "mT", "numpy_T", "matrix_H", "adjoint", "mH", "swapaxes", "swapdims"),
        _transpose),
    **dict.fromkeys(("movedim", "moveaxis"), _movedim),
    **dict.fromkeys(("squeeze", "unsqueeze"), _squeeze),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), _expand),
    "slice": _slice,
    "narrow": _narrow,
    "select": _select,
    **dict.fromkeys(
        ("chunk", "split", "split_with_sizes", "tensor_split", "unsafe_chunk", "unsafe_split",
         "unsafe_split_with_sizes"), _pieces),
    "unbind": _unbind,
    **dict.fromkeys(("constant_pad_nd", "pad"), _pad),
    **{f"{kind}_pad{n}d": _data_pad for kind in ("reflection", "replication") for n in (1, 2, 3)},
    **dict.fromkeys(("repeat", "tile"), _repeat),
    "repeat_interleave": _repeat_interleave,
    "unfold": _unfold,
    **dict.fromkeys(CONSTANT_LIKE, _constant_like),
}  # fmt: skip
