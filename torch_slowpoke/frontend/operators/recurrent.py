"""Recurrent layers: one operator a call, samples are all that can be cut."""

from __future__ import annotations

import math
from typing import Any

from slowpoke_mapping.graph import B, OpKind
from torch_slowpoke.frontend.call import Call, Row
from torch_slowpoke.frontend.needs import WHOLE, Need
from torch_slowpoke.frontend.values import constants, views
from torch_slowpoke.frontend.view import Part, View, laid_out, parts_of


def _recurrent(call: Call) -> Any:
    x: View = call.args[0]
    shape = call.shape()
    weights = constants([call.arg("params")])
    batch_first = bool(call.arg("batch_first", False))
    batch_dim = (0 if batch_first else 1) if len(shape) == 3 else None
    dims = [[Part(extent, 2 if i < len(shape) - 1 else 1)] for i, extent in enumerate(shape)]
    needs = [Need(WHOLE)] * len(x.dims)
    if batch_dim is not None:
        dims[batch_dim] = parts_of(x, batch_dim)
        needs[batch_dim] = Need(batch_dim)
    out = laid_out(dims, 0)
    # every weight of a matrix meets every step of every sample; biases are the only vectors
    steps = math.prod(shape[:-1])
    matrices = [
        math.prod(v.meta["val"].shape)
        for v in call.node.all_input_nodes[1:]
        if "val" in v.meta and v.meta["val"].dim() == 2
        and any(c is call.builder.env.get(v) for c in weights)
    ]  # fmt: skip
    flows = [(x, needs)]
    for state in views([call.arg("hx")]):
        flows.append((state, [Need(WHOLE)] * len(state.dims)))
    result = call.emit(
        OpKind.LINEAR, flows, out, macs=steps * sum(matrices), vector_ops=8 * math.prod(shape),
        weights=weights, weight_dims=(), partitionable=(B,),
    )  # fmt: skip
    value = call.node.meta["val"]
    states = []
    for i in range(1, len(value)):
        own = [[Part(extent, 2 if at < 2 else 1)] for at, extent in enumerate(call.shape(i))]
        reads = [Need(WHOLE)] * len(result.dims)
        if batch_dim is not None:  # states are (layers, samples, features)
            own[1] = parts_of(x, batch_dim)
            reads[batch_dim] = Need(1)
        states.append(call.emit(
            OpKind.MOVE, [(result, reads)], laid_out(own, 0),
            output=i, suffix=f".state{i}",
        ))  # fmt: skip
    return [result, *states]


ROWS: dict[str, Row] = dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent)
