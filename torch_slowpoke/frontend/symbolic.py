"""torch.fx graphs of modules and functions, traced once more down to ATen operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from slowpoke_mapping.graph import OperatorGraph
from torch_slowpoke.frontend.call import element_bytes
from torch_slowpoke.frontend.fakes import faked
from torch_slowpoke.frontend.reading import read
from torch_slowpoke.frontend.values import Constant


def import_symbolic(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
    mode: FakeTensorMode,
) -> OperatorGraph:
    """The way out where torch.export fails: torch.fx traces, shapes propagate on fake tensors.

    Raises:
        Exception: What symbolic_trace or running the graph raises.
    """
    graph = model if isinstance(model, GraphModule) else torch.fx.symbolic_trace(model)
    wanted = [n for n in graph.graph.nodes if n.op == "placeholder"]
    given = list(args)
    unknown = sorted(set(kwargs) - {str(n.target) for n in wanted})
    if len(given) > len(wanted) or unknown:
        raise TypeError(f"{len(given)} inputs and {unknown} for {len(wanted)} arguments")
    for node in wanted[len(given) :]:
        if node.target in kwargs:
            given.append(kwargs[str(node.target)])
        elif node.args:
            given.append(node.args[0])
    n_parameters = sum(p.numel() for p in model.parameters())
    return import_graph_module(graph, given, name, mode, n_parameters=n_parameters)


def import_graph_module(
    graph: GraphModule,
    inputs: list[Any],
    name: str,
    mode: FakeTensorMode,
    *,
    n_parameters: int = 0,
    constants: dict[int, str] | None = None,
) -> OperatorGraph:
    """The operator graph of a torch.fx graph of modules and functions.

    Args:
        graph: From torch.fx.symbolic_trace or torch.compile; run once on fake tensors.
        inputs: One fake tensor (or other value) for each placeholder.
        name: Name of the graph.
        mode: The mode of the fake tensors.
        n_parameters: Parameters of the model.
        constants: Positions in `inputs` of weights, with their names, and of buffers, with "".
    """
    owned = {
        key: tensor
        for source in (graph.named_parameters(), graph.named_buffers())
        for key, tensor in source
    }
    own_names = list(owned)
    own = [faked(owned[key], mode) for key in own_names]
    positions = [i for i, v in enumerate(inputs) if isinstance(v, torch.Tensor)]

    def run(own_values: list[torch.Tensor], tensors: list[torch.Tensor]) -> Any:
        values = list(inputs)
        for i, tensor in zip(positions, tensors, strict=True):
            values[i] = tensor
        with (
            torch.fx.traceback.preserve_node_meta(),
            torch.nn.utils.stateless._reparametrize_module(
                graph, dict(zip(own_names, own_values, strict=True))
            ),
        ):
            return torch.fx.Interpreter(graph).run(*values)

    with mode, torch.no_grad():
        traced = make_fx(run, pre_dispatch=True, tracing_mode="real")(
            own, [inputs[i] for i in positions]
        )
    trainable = {key for key, _ in graph.named_parameters()}
    values: list[Any] = [
        Constant(t.numel(), element_bytes(t), (key,) if key in trainable else ())
        for key, t in zip(own_names, own, strict=True)
    ]
    names = list(own_names)
    labels = [n.name for n in graph.graph.nodes if n.op == "placeholder"]
    for i in positions:
        tensor = inputs[i]
        if constants and i in constants:
            key = constants[i]
            values.append(Constant(tensor.numel(), element_bytes(tensor), (key,) if key else ()))
        else:
            values.append(tensor)
        names.append(labels[i] if i < len(labels) else f"input{i}")
    return read(traced, values, names, name, n_parameters).graph
