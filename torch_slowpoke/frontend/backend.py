"""`torch.compile(model, backend="slowpoke")`: runs the model as it is, analyses on the side."""

from __future__ import annotations

import difflib
import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._guards import CompileContext, tracing
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import OperatorGraph
from torch_slowpoke.frontend.fakes import fake_mode, faked
from torch_slowpoke.frontend.quiet import quiet
from torch_slowpoke.frontend.refusal import explained
from torch_slowpoke.frontend.symbolic import import_graph_module

analyze_graph: Callable[[OperatorGraph, dict[str, Any]], object] | None = None
"""What is done with each compiled graph and the options of torch.compile; None for
`torch_slowpoke.analyze(graph, **options)`."""


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """One graph that torch.compile handed over.

    Attributes:
        compile_id: torch's own number, frame/recompilation: `0/0`, after a graph break `1/0`.
        graph: Its operators; None if it could not be read.
        analysis: What `analyze_graph` made of it; None if it could not be read.
        skipped: Why not, in a sentence.
    """

    compile_id: str
    graph: OperatorGraph | None
    analysis: object
    skipped: str = ""

    def __str__(self) -> str:
        return str(self.graph) if self.graph else f"graph {self.compile_id}: {self.skipped}"


_compiled: list[CompiledGraph] = []


class Analyses(tuple[Any, ...]):
    """One analysis for each compiled graph, oldest first; printing it shows the graph breaks.

    Attributes:
        compiled: The graphs, with those that could not be analysed.
        breaks: Why torch split the model, each reason once.
    """

    compiled: tuple[CompiledGraph, ...]
    breaks: tuple[str, ...]

    def __new__(cls, compiled: tuple[CompiledGraph, ...]) -> Analyses:  # noqa: D102
        result = super().__new__(cls, [c.analysis for c in compiled if c.graph is not None])
        result.compiled = compiled
        reasons = torch._dynamo.utils.counters["graph_break"]
        result.breaks = tuple(dict.fromkeys(str(r).strip().splitlines()[0] for r in reasons))
        return result

    def __str__(self) -> str:
        lines = [str(c) for c in self.compiled] or ["nothing was compiled yet"]
        lines += [f"graph break: {reason}" for reason in self.breaks]
        return "\n".join(lines)


def last_analyses() -> Analyses:
    """Analyses of the graphs compiled since the start or `clear_analyses()`."""
    return Analyses(tuple(_compiled))


def clear_analyses() -> None:
    """Forgets earlier analyses, and the graph breaks that torch has counted."""
    _compiled.clear()
    torch._dynamo.utils.counters["graph_break"].clear()


def backend(
    gm: GraphModule, example_inputs: list[Any], options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The entry point of torch.compile: analyses the graph and returns it unchanged.

    Args:
        gm: The graph that torch._dynamo captured.
        example_inputs: A value for each of its placeholders, parameters among them.
        options: Keyword arguments of `torch_slowpoke.analyze`, such as {"mesh": "4x4"}.

    Raises:
        SlowpokeError: An option is unknown. A graph that cannot be read does not stop the model:
            it is left out with a warning.
    """
    settings = dict(options or {})
    _check(settings)
    number = CompileContext.current_compile_id()
    compile_id = str(number) if number is not None else f"{len(_compiled)}/0"
    try:
        graph = graph_of(gm, example_inputs, f"compiled graph {compile_id}")
        with tracing(None), unset_fake_temporarily():
            analysis = _hook()(graph, settings)
    except SlowpokeError as error:
        _compiled.append(CompiledGraph(compile_id, None, None, str(error)))
        warnings.warn(f"graph {compile_id} is not analysed: {error}", stacklevel=2)
        return gm.forward
    _compiled.append(CompiledGraph(compile_id, graph, analysis))
    return gm.forward


def graph_of(
    gm: GraphModule, example_inputs: list[Any], name: str = "compiled graph"
) -> OperatorGraph:
    """The operator graph of what torch._dynamo captured."""
    with quiet(), tracing(None), unset_fake_temporarily():
        mode = fake_mode()
        nodes = [node for node in gm.graph.nodes if node.op == "placeholder"]
        inputs: list[Any] = []
        constants: dict[int, str] = {}
        unique: dict[int, int] = {}
        for i, (node, value) in enumerate(zip(nodes, example_inputs, strict=True)):
            if isinstance(value, torch.SymInt):
                hint: Any = value.node.hint
                inputs.append(int(hint))
                continue
            inputs.append(faked(value, mode) if isinstance(value, torch.Tensor) else value)
            kind, path = origin(node)
            if isinstance(value, nn.Parameter):
                unique[id(value)] = value.numel()
            if isinstance(value, nn.Parameter) or kind == "parameter":
                constants[i] = path or node.name
            elif kind == "buffer":
                constants[i] = ""
        n_parameters = sum(unique.values()) + sum(p.numel() for p in gm.parameters())
        try:
            return import_graph_module(
                gm, inputs, name, mode, n_parameters=n_parameters, constants=constants
            )
        except Exception as error:
            raise explained(error, name, tuple(inputs), {}) from error


def origin(node: Node) -> tuple[str, str]:
    """Whether a placeholder is a parameter, a buffer or an input, and its path in the model."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    if source is not None:
        text = source.name() if callable(source.name) else str(source.name)
        keys = re.findall(r"\['([^']*)'\]|\.(\w+)", text)
        path = [a or b for a, b in keys if (a or b) not in ("self", "_modules")]
        kinds = [k for k in ("_parameters", "_buffers") if k in path]
        if kinds:
            kept = [p for p in path if p not in ("_parameters", "_buffers")]
            return kinds[0].strip("_").removesuffix("s"), ".".join(kept)
    for kind in ("parameter", "buffer"):
        if f"_{kind}s_" in node.name:
            return kind, node.name
    return "input", ""


def _hook() -> Callable[[OperatorGraph, dict[str, Any]], object]:
    if analyze_graph is not None:
        return analyze_graph
    from torch_slowpoke import api

    return lambda graph, options: api.analyze(graph, **options)


def _check(options: dict[str, Any]) -> None:
    """Raises for options that analyze() does not know."""
    if not options or analyze_graph is not None:
        return
    from torch_slowpoke import api

    known = [p for p in inspect.signature(api.analyze).parameters if p != "model"]
    for key in options:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            raise SlowpokeError(f"unknown option {key!r} of the slowpoke backend: {hint}")
