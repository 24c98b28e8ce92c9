"""From a model to its operator graph, without waiting for the simulator's imports."""

from __future__ import annotations

from typing import Any

from slowpoke_mapping.graph import OperatorGraph


def operator_graph(model: Any, example_inputs: Any = None, **kwargs: Any) -> OperatorGraph:
    """The operator graph of a model or of a model's name (design.md section 4).

    Args:
        model: A name (`slowpoke models`), an nn.Module, an ExportedProgram, a `.pt2` file, a
            GraphModule, or an OperatorGraph, which passes through.
        example_inputs: A tensor, a tuple of them, or a dict of keyword arguments; a named model
            brings its own.

    Raises:
        SlowpokeError: Unknown name, or a model that cannot be exported.
    """
    if isinstance(model, OperatorGraph):
        return model
    from torch_slowpoke import frontend  # torch takes seconds to import: only who needs it pays

    return frontend.operator_graph(model, example_inputs, **kwargs)
