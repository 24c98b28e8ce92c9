"""torch.export on fake tensors, torch.fx as the way out, and words where both fail."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import OperatorGraph
from torch_slowpoke.frontend.builder import IGNORED, WORKING, Builder, element_bytes, is_index
from torch_slowpoke.frontend.fakes import fake_mode, faked, faked_copy, faked_tree
from torch_slowpoke.frontend.operators import TABLE
from torch_slowpoke.frontend.operators.views import CONSTANT_LIKE
from torch_slowpoke.frontend.values import Constant

ALIASING = frozenset({
    "view", "reshape", "flatten", "slice", "select", "narrow", "transpose", "permute", "t",
    "squeeze", "unsqueeze", "expand", "chunk", "split", "split_with_sizes", "unbind", "detach",
    "alias", "unfold", "contiguous", "view_as", "to", "movedim", "tensor_split", "diagonal",
})  # fmt: skip
"""Operators whose result may share memory with their first argument."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without torch's warnings and logs, and without the fused encoder that hides its parts.

    What torch logs of a failed trace is a page; the error raised in its place is a sentence.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    level = logging.root.manager.disable
    try:
        logging.disable(logging.CRITICAL)
        torch.backends.mha.set_fastpath_enabled(False)
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
        torch.backends.mha.set_fastpath_enabled(fast)


def import_module(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> OperatorGraph:
    """The operator graph of a module; the module is neither changed nor moved.

    Args:
        model: Any module, on any device, in any mode; it is analysed in evaluation mode.
        args: Example inputs.
        kwargs: Example keyword inputs.
        name: Name of the graph.

    Raises:
        SlowpokeError: It cannot be exported; the sentence says why.
    """
    refuse_quantised(model)
    mode = fake_mode()
    with quiet():
        try:
            twin = faked_copy(model, mode)
        except SlowpokeError:
            raise
        except Exception:  # an attribute that cannot be copied: export the module itself
            return _import_uncopied(model, args, kwargs, name)
        return import_twin(twin, faked_tree(args, mode), faked_tree(kwargs, mode), name, mode)


def _import_uncopied(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> OperatorGraph:
    flags = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        program = torch.export.export(model, args, kwargs, strict=False)
    except Exception as error:
        raise explained(error, name, args, kwargs) from error
    finally:
        for module, training in flags:
            module.training = training
    return import_program(program, name)


def import_twin(
    twin: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
    mode: FakeTensorMode,
) -> OperatorGraph:
    """The operator graph of a module that is already fake and in evaluation mode."""
    with quiet():
        try:
            with mode:
                program = _exported(twin, args, kwargs)
        except Exception as error:
            try:
                return import_symbolic(twin, args, kwargs, name, mode)
            except SlowpokeError:
                raise
            except Exception:
                raise explained(error, name, args, kwargs) from error
        n_parameters = sum(p.numel() for p in twin.parameters())
        return import_program(program, name, n_parameters=n_parameters)


def _exported(twin: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    """Exports; outputs that torch's trees do not know (dataclasses) are taken apart and retried."""
    try:
        return torch.export.export(twin, args, kwargs, strict=False)
    except Exception as error:
        if "in output, which is not a known type" not in str(error):
            raise
    forward = twin.forward

    @functools.wraps(forward)
    def plain_forward(*inputs: Any, **keywords: Any) -> Any:
        return plain(forward(*inputs, **keywords))

    twin.forward = plain_forward
    return torch.export.export(twin, args, kwargs, strict=False)


def plain(output: Any) -> Any:
    """Nested tuples of the tensors in an output of any class."""
    if isinstance(output, torch.Tensor | int | float | str | bool | None):
        return output
    if isinstance(output, Mapping):
        return tuple(plain(v) for v in output.values())
    if isinstance(output, list | tuple | set):
        return tuple(plain(v) for v in output)
    return tuple(plain(v) for v in vars(output).values()) if hasattr(output, "__dict__") else None


def refuse_quantised(model: nn.Module) -> None:
    """Raises for modules of torch.ao's quantised kind, whose weights are opaque."""
    for path, module in model.named_modules():
        kind = type(module).__module__
        if ".quantized" in kind and "qat" not in kind:
            raise SlowpokeError(
                f"{path or 'the model'} is a quantised {type(module).__name__}: its weights are "
                "opaque to torch.export; analyse the floating-point model, the chip's "
                "bytes_per_element says how wide an element is"
            )


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
        program = _readable(program)
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


def _packet(node: Node) -> str:
    target = node.target
    return target._schema.name.split("::")[1] if isinstance(target, torch._ops.OpOverload) else ""


def _readable(program: ExportedProgram) -> ExportedProgram:
    """Without writes through views, and without composite operators that the table lacks."""
    specs = program.graph_signature.input_specs
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    fixed = frozenset(
        node.name
        for node, spec in zip(placeholders, specs, strict=True)
        if spec.kind is not InputKind.USER_INPUT
    )
    known = torch.export.default_decompositions()
    wanted = {}
    written = False
    for module in program.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        carrying = data_nodes(module.graph, fixed)
        written = written or writes_through_a_view(module.graph, carrying)
        for node in carrying:
            packet = _packet(node)
            if packet and not _has_row(packet) and node.target in known:
                wanted[node.target] = known[node.target]
    return program.run_decompositions(wanted) if wanted or written else program


def _has_row(packet: str) -> bool:
    plain = packet.rstrip("_") if packet.endswith("_") and not packet.startswith("__") else packet
    return packet in TABLE or plain in TABLE or packet.startswith(IGNORED)


def _mutates(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _roots(graph: torch.fx.Graph) -> dict[Node, Node]:
    """For each node the one whose memory it may share."""
    root: dict[Node, Node] = {}
    for node in graph.nodes:
        first = node.args[0] if node.args else None
        named = getattr(node.target, "__name__", "") == "getitem"
        shares = _packet(node) in ALIASING or _mutates(node) or named
        root[node] = root[first] if shares and isinstance(first, Node) else node
    return root


def data_nodes(graph: torch.fx.Graph, fixed: frozenset[str] = frozenset()) -> set[Node]:
    """Nodes whose values depend on more than weights, buffers, indices and masks.

    Args:
        graph: A graph of ATen operators.
        fixed: Names of placeholders that hold weights or buffers.
    """
    root = _roots(graph)
    carrying: set[Node] = set()
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder":
            index = isinstance(value, torch.Tensor) and is_index(value)
            carries = node.name not in fixed and not index
        else:
            packet = _packet(node)
            carries = packet in WORKING or (
                packet not in CONSTANT_LIKE
                and any(n in carrying or root[n] in carrying for n in node.all_input_nodes)
            )
        if carries:
            carrying.add(node)
            if _mutates(node):
                carrying.add(root[node])
    return carrying


def writes_through_a_view(graph: torch.fx.Graph, carrying: set[Node]) -> bool:
    """Whether an in-place operator changes data that another node still reads by another name.

    Writing constants into constants (the masks of shifted windows) does no harm.
    """
    order = {node: i for i, node in enumerate(graph.nodes)}
    root = _roots(graph)
    members: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        members.setdefault(root[node], []).append(node)
    for node in graph.nodes:
        changed = node.args[0] if node.args else None
        if not _mutates(node) or not isinstance(changed, Node) or root[node] not in carrying:
            continue
        for other in members[root[node]]:
            if other is changed or order[other] >= order[node]:
                continue
            if any(order[user] > order[node] for user in other.users):
                return True
    return False


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


def explained(
    error: Exception, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> SlowpokeError:
    """One sentence for an export that failed."""
    if isinstance(error, SlowpokeError):
        return error
    text = str(error)
    kind = type(error).__name__
    first = next((line.strip() for line in text.splitlines() if line.strip()), kind)
    first = first if len(first) <= 160 else first[:157] + "..."
    shapes = [tuple(v.shape) for v in tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)]
    depends = ("DataDependent", "GuardOnData", "data-dependent", "Data dependent", "unbacked",
               "control flow", "_local_scalar_dense", "nonzero", "Could not guard",
               "aten::equal", "symbolically traced variables")  # fmt: skip
    if any(word in kind or word in text for word in depends):
        return SlowpokeError(
            f"{name} cannot be exported: its control flow or its shapes depend on the data "
            f"({first}); analyse the part with fixed shapes, or trace one branch of it"
        )
    if isinstance(error, TypeError) and "argument" in text:
        return SlowpokeError(
            f"{name} was called with {len(args)} inputs and keywords {sorted(kwargs)}, which its "
            f"forward does not take ({first}); give example_inputs as its forward wants them"
        )
    if "uninitialized parameter" in text:
        return SlowpokeError(
            f"{name} has lazy layers without weights: run it once on real data, then analyse it"
        )
    return SlowpokeError(
        f"{name} cannot be run on example inputs of shapes {shapes} ({first}); give "
        "example_inputs that its forward accepts"
    )
