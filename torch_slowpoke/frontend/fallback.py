"""What becomes of an operator that the table does not know: all of its inputs are needed."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend.call import Call
from torch_slowpoke.frontend.needs import WHOLE, Need
from torch_slowpoke.frontend.operators.views import fresh_parts
from torch_slowpoke.frontend.values import constants, views
from torch_slowpoke.frontend.view import by_rank, laid_out


def known_macs(call: Call) -> int:
    """MACs by torch's own FLOP registry, 0 where it has no formula."""
    target: Any = call.node.target
    formula = flop_registry.get(getattr(target, "overloadpacket", None))
    if formula is None:
        return 0

    def value(argument: Any) -> Any:
        return torch.fx.map_arg(argument, lambda node: node.meta.get("val"))

    return int(
        formula(*value(call.node.args), **value(call.node.kwargs), out_val=call.node.meta["val"])
        // 2
    )


def conservative(call: Call) -> Any:
    """An element-wise operator (a matrix product if torch counts FLOPs) that needs everything."""
    sources = views(call.values)
    flows = [(view, [Need(WHOLE)] * len(view.dims)) for view in sources]
    macs = known_macs(call)
    value = call.node.meta["val"]
    outputs = list(value) if isinstance(value, list | tuple) else [value]
    results: list[Any] = []
    for i, tensor in enumerate(outputs):
        if not isinstance(tensor, torch.Tensor):
            results.append(tensor)
            continue
        shape = call.shape(i)
        out = laid_out(by_rank(fresh_parts(sources[0], shape)), 0)
        results.append(
            call.emit(
                OpKind.MATMUL if macs else OpKind.ELEMENTWISE, flows, out,
                macs=macs if i == 0 else 0, vector_ops=math.prod(shape),
                weights=constants(call.values) if i == 0 else (), weight_dims=(),
                output=i, suffix=f".{i}" if i else "",
            )
        )  # fmt: skip
    return results if isinstance(value, list | tuple) else results[0]
