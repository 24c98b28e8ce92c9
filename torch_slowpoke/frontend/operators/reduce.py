"""Reductions over dimensions, and orderings."""

from __future__ import annotations

import math
from typing import Any

from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend.call import Call, Row
from torch_slowpoke.frontend.needs import WHOLE, Need
from torch_slowpoke.frontend.values import views
from torch_slowpoke.frontend.view import Part, View, by_rank, laid_out, parts_of


def _dims(call: Call, n: int) -> set[int]:
    dim = call.arg("dim")
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return set(range(n))
    dims = [dim] if isinstance(dim, int) else list(dim)
    return {d % n for d in dims} if n else set()


def _reduce(call: Call) -> Any:
    x: View = call.args[0]
    n = len(x.dims)
    gone = _dims(call, n)
    keep = bool(call.arg("keepdim", False))
    kept = [i for i in range(n) if i not in gone or keep]
    needs: list[Need] = [Need(WHOLE)] * n
    dims: list[list[Part]] = []
    for at, i in enumerate(kept):
        if i in gone:
            dims.append([])
        else:
            needs[i] = Need(at)
            dims.append(parts_of(x, i))
    out = laid_out(dims, 0)
    result = call.emit(OpKind.REDUCE, [(x, needs)], out, vector_ops=math.prod(x.shape))
    value = call.node.meta["val"]
    if isinstance(value, list | tuple):
        return [result, *[result] * (len(value) - 1)]
    return result


def _ordered(call: Call) -> Any:
    """Sort and top-k: the dimension they run along is needed whole."""
    x: View = call.args[0]
    n = len(x.dims)
    dim = call.arg("dim", -1) % n if n else 0
    needs = [Need(WHOLE) if i == dim else Need(i) for i in range(n)]
    shape = call.shape()
    dims = [parts_of(x, i) for i in range(n)]
    wants = [p.want for p in dims[dim]] or [1]
    dims[dim] = [Part(shape[dim], wants[0])]
    work = math.prod(x.shape) * max(1, math.ceil(math.log2(max(x.shape[dim], 2))))
    result = call.emit(OpKind.REDUCE, [(x, needs)], laid_out(dims, 0), vector_ops=work)
    value = call.node.meta["val"]
    count = len(value) if isinstance(value, list | tuple) else 0
    return [result] * count if count else result


def _counted(call: Call) -> Any:
    """Histograms: every output counts over all inputs."""
    x: View = call.args[0]
    out = laid_out([[Part(extent, 1)] for extent in call.shape()], 0)
    return call.emit(
        OpKind.REDUCE, [(x, [Need(WHOLE)] * len(x.dims))], out, vector_ops=math.prod(x.shape)
    )


def _loss(call: Call) -> Any:
    """Losses: everything is compared, then usually averaged."""
    sources = views(call.values)
    shape = call.shape()
    flows = [(v, [Need(WHOLE)] * len(v.dims)) for v in sources]
    out = laid_out(by_rank([[Part(extent, 1)] for extent in shape]), 0)
    work = sum(math.prod(v.shape) for v in sources)
    result = call.emit(OpKind.REDUCE, flows, out, vector_ops=work)
    value = call.node.meta["val"]
    return [result, *[None] * (len(value) - 1)] if isinstance(value, list | tuple) else result


LOSSES = (
    "nll_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward",
    "cross_entropy_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "soft_margin_loss",
    "poisson_nll_loss",
)  # fmt: skip

ROWS: dict[str, Row] = {
    **dict.fromkeys(LOSSES, _loss),
    **dict.fromkeys(
        ("mean", "sum", "amax", "amin", "max", "min", "prod", "var", "std", "norm", "argmax",
         "argmin", "any", "all", "logsumexp", "linalg_vector_norm", "var_mean", "std_mean",
         "median", "nansum", "nanmean", "count_nonzero", "aminmax", "frobenius_norm"), _reduce),
    **dict.fromkeys(("histc", "bincount"), _counted),
    **dict.fromkeys(("sort", "topk", "argsort", "msort", "kthvalue"), _ordered),
}  # fmt: skip
