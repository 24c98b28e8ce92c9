"""Operators that only bring data elsewhere: roll, flip, shuffles, gathers."""

from __future__ import annotations

from typing import Any

from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend.call import Call, Row
from torch_slowpoke.frontend.needs import WHOLE, Need
from torch_slowpoke.frontend.operators.matmul import ROWS as MATMUL
from torch_slowpoke.frontend.operators.views import fresh_parts
from torch_slowpoke.frontend.values import Constant, views
from torch_slowpoke.frontend.view import Part, View, by_rank, laid_out, parts_of


def _along(call: Call) -> Any:
    """Roll and flip: the dimensions they run along are needed whole."""
    x: View = call.args[0]
    n = len(x.dims)
    dims = call.arg("dims")
    chosen = [dims] if isinstance(dims, int) else list(dims or range(n))
    whole = {d % n for d in chosen}
    if all(x.shape[d] == 1 for d in whole):
        return x
    needs = [Need(WHOLE) if i in whole else Need(i) for i in range(n)]
    out = laid_out([parts_of(x, i) for i in range(n)], 0)
    return call.emit(OpKind.MOVE, [(x, needs)], out)


def _pixel_shuffle(call: Call) -> Any:
    x: View = call.args[0]
    shape = call.shape()
    if len(shape) != 4:
        return _gather(call)
    up = call.name == "pixel_shuffle"
    r = call.arg("upscale_factor") if up else call.arg("downscale_factor")
    if up:
        channel, space = Need(1, mult=r * r, high=r * r), [Need(i, den=r) for i in (2, 3)]
    else:
        channel, space = Need(1, den=r * r), [Need(i, mult=r, high=r) for i in (2, 3)]
    dims = [parts_of(x, 0), *([Part(e, 1)] for e in shape[1:])]
    out = laid_out(by_rank(dims, channel=1), 0)
    return call.emit(OpKind.MOVE, [(x, [Need(0), channel, *space])], out)


def _channel_shuffle(call: Call) -> Any:
    x: View = call.args[0]
    needs = [Need(WHOLE) if i == 1 else Need(i) for i in range(len(x.dims))]
    return call.emit(
        OpKind.MOVE, [(x, needs)], laid_out([parts_of(x, i) for i in range(len(x.dims))], 0)
    )


def _gather(call: Call) -> Any:
    """Reads at positions that depend on data: everything may be needed."""
    sources = views(call.values)
    flows = [(view, [Need(WHOLE)] * len(view.dims)) for view in sources]
    out = laid_out(by_rank(fresh_parts(sources[0], call.shape())), 0)
    return call.emit(OpKind.MOVE, flows, out)


def _index(call: Call) -> Any:
    table, indices = call.args[0], call.args[1]
    if isinstance(table, Constant) and isinstance(indices, list | tuple) and len(indices) == 1:
        n = len(call.shape())
        if n >= 2:
            from dataclasses import replace

            return MATMUL["embedding"](replace(call, args=(table, indices[0])))
    return _gather(call)


def _index_select(call: Call) -> Any:
    x = call.args[0]
    if not isinstance(x, View) or len(x.dims) != len(call.shape()):
        return _gather(call)
    n = len(x.dims)
    dim = call.arg("dim") % n
    needs = [Need(WHOLE) if i == dim else Need(i) for i in range(n)]
    dims = [parts_of(x, i) for i in range(n)]
    wants = [p.want for p in dims[dim]] or [1]
    dims[dim] = [Part(call.shape()[dim], wants[0])]
    return call.emit(OpKind.MOVE, [(x, needs)], laid_out(dims, 0))


ROWS: dict[str, Row] = {
    **dict.fromkeys(("roll", "flip", "fliplr", "flipud", "triu", "tril"), _along),
    **dict.fromkeys(("pixel_shuffle", "pixel_unshuffle"), _pixel_shuffle),
    **dict.fromkeys(("channel_shuffle", "native_channel_shuffle"), _channel_shuffle),
    **dict.fromkeys(
        ("gather", "take", "take_along_dim", "im2col", "col2im", "diagonal", "rot90", "diag_embed",
         "_pad_circular", "as_strided"), _gather),
    "index": _index,
    "index_select": _index_select,
}  # fmt: skip

__all__ = ["ROWS", "OpKind"]
