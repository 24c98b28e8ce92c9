"""From a graph of ATen operators, or an exported program of them, to an operator graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule

from slowpoke_mapping.graph import OperatorGraph
from torch_slowpoke.frontend.builder import Builder
from torch_slowpoke.frontend.call import element_bytes
from torch_slowpoke.frontend.dataflow import data_nodes, writes_through_a_view
from torch_slowpoke.frontend.operators import TABLE
from torch_slowpoke.frontend.packets import IGNORED, is_functorch, packet_of
from torch_slowpoke.frontend.quiet import quiet
from torch_slowpoke.frontend.refusal import unlowered
from torch_slowpoke.frontend.values import Constant


@dataclass(frozen=True, slots=True)
class Reading:
    """A graph, and where the elements of each of the model's outputs lie.

    Attributes:
        graph: The operators.
        inputs: What stands for each input, in the order of the placeholders.
        outputs: The model's outputs, as nested as the model returns them; tensors are views.
    """

    graph: OperatorGraph
    inputs: tuple[Any, ...]
    outputs: Any


def import_program(
    program: ExportedProgram, name: str, *, n_parameters: int | None = None
) -> OperatorGraph:
    """The operator graph of an exported program, decomposed where the table has no row."""
    return read_program(program, name, n_parameters=n_parameters).graph


def read_program(
    program: ExportedProgram, name: str, *, n_parameters: int | None = None
) -> Reading:
    """Like `import_program`, with the views of inputs and outputs."""
    with quiet():
        program = _readable(program, name)
        inputs, names = _program_inputs(program)
        if n_parameters is None:
            unique = {id(p): p.numel() for p in program.parameters()}
            n_parameters = sum(unique.values())
        return read(program.graph_module, inputs, names, name, n_parameters)


def read(
    module: GraphModule, inputs: list[Any], names: list[str], name: str, n_parameters: int
) -> Reading:
    """Reads a graph of ATen operators.

    If all of its inputs are indices and nothing but index arithmetic is found, that arithmetic is
    the work and is read as such.
    """
    for plumbing in (True, False):
        builder = Builder(name, TABLE, plumbing=plumbing)
        values = [
            value if isinstance(value, Constant) else builder.input_value(value, label)
            for value, label in zip(inputs, names, strict=True)
        ]
        outputs = builder.run(module, values)
        if builder.drafts:
            break
    graph = builder.finished(outputs, n_parameters)
    return Reading(graph, tuple(values), builder.placed(outputs))


def _program_inputs(program: ExportedProgram) -> tuple[list[Any], list[str]]:
    """Constants for parameters and buffers, tensors for the user's inputs."""
    nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
    canonical: dict[int, str] = {}
    inputs: list[Any] = []
    names: list[str] = []
    for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True):
        value = node.meta.get("val")
        target = spec.target or node.name
        names.append(target if spec.kind is not InputKind.USER_INPUT else node.name)
        if spec.kind is InputKind.USER_INPUT or not isinstance(value, torch.Tensor):
            inputs.append(value)
            continue
        parameters: tuple[str, ...] = ()
        if spec.kind is InputKind.PARAMETER:
            stored = program.state_dict.get(target)
            parameters = (
                canonical.setdefault(id(stored), target) if stored is not None else target,
            )
        inputs.append(Constant(value.numel(), element_bytes(value), parameters))
    return inputs, names


def _readable(program: ExportedProgram, name: str) -> ExportedProgram:
    """Without writes through views, torch.vmap, and composite operators that the table lacks."""
    specs = program.graph_signature.input_specs
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    fixed = frozenset(
        node.name
        for node, spec in zip(placeholders, specs, strict=True)
        if spec.kind is not InputKind.USER_INPUT
    )
    known = torch.export.default_decompositions()
    wanted = {}
    written = mapped = False
    for module in program.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        carrying = data_nodes(module.graph, fixed)
        written = written or writes_through_a_view(module.graph, carrying)
        mapped = mapped or any(is_functorch(node) for node in module.graph.nodes)
        for node in carrying:
            packet = packet_of(node)
            if packet and not _has_row(packet) and node.target in known:
                wanted[node.target] = known[node.target]
    if not (wanted or written or mapped):
        return program
    try:
        lowered: ExportedProgram = program.run_decompositions(wanted)
    except Exception as error:
        raise unlowered(error, name) from error
    return lowered


def _has_row(packet: str) -> bool:
    plain = packet.rstrip("_") if packet.endswith("_") and not packet.startswith("__") else packet
    return packet in TABLE or plain in TABLE or packet.startswith(IGNORED)
