"""Reads an exported graph node by node and writes operators.

Linear in the number of nodes. Views cost no operator, batch-norm and activations fold into the
operator whose only reader they are, constants and index plumbing disappear, the rest is emitted by
the table in operators/.
"""

from __future__ import annotations

import math
import operator as python_operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import GRAPH_INPUT, K, OperatorGraph, OpKind
from torch_slowpoke.frontend.call import Call, Row, element_bytes, extents, is_index
from torch_slowpoke.frontend.draft import Draft, finished_graph
from torch_slowpoke.frontend.needs import Need, edge
from torch_slowpoke.frontend.packets import IGNORED, PRODUCTS, WORKING, module_path, readers, where
from torch_slowpoke.frontend.values import Constant, Plumbing, constants, tensors, views
from torch_slowpoke.frontend.view import Part, View, by_rank, graph_input, laid_out


class Builder:
    """Accumulates the operators of one model."""

    def __init__(self, name: str, table: dict[str, Row], *, plumbing: bool = True) -> None:
        self.name = name
        self.table = table
        self.plumbing = plumbing
        self.drafts: list[Draft] = []
        self.env: dict[Node, Any] = {}
        self.exclusive: dict[Node, bool] = {}
        self.unknown: dict[str, list[int]] = {}
        self.remarks: Counter[str] = Counter()
        self.renumbered: dict[int, int] = {}

    # -- reading ------------------------------------------------------------------------------

    def run(self, module: GraphModule, inputs: Sequence[Any]) -> Any:
        """Reads every node of a graph; returns the values of its output."""
        placeholders = iter(inputs)
        result: Any = None
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self.env[node] = next(placeholders)
            elif node.op == "get_attr":
                self.env[node] = self._attribute(module, node)
            elif node.op == "call_function":
                self.env[node] = self._call(module, node)
            elif node.op == "output":
                result = self.resolve(node.args[0])
            else:
                raise SlowpokeError(
                    f"node {node.name!r} is a {node.op}: only exported graphs of ATen operators "
                    "can be read; pass the module itself"
                )
        return result

    def resolve(self, argument: Any) -> Any:
        """An argument with nodes replaced by their values."""
        return torch.fx.map_arg(argument, lambda node: self.env[node])

    def _attribute(self, module: GraphModule, node: Node) -> Any:
        value: Any = module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, torch.Tensor):
            key = str(node.target) if isinstance(value, torch.nn.Parameter) else ""
            return Constant(value.numel(), element_bytes(value), (key,) if key else ())
        return value

    def _call(self, module: GraphModule, node: Node) -> Any:
        target: Any = node.target
        if target is python_operator.getitem:
            whole = self.resolve(node.args[0])
            index: Any = node.args[1]
            return whole[index] if isinstance(whole, list | tuple) else whole
        if isinstance(target, torch._ops.HigherOrderOperator):
            return self._higher_order(node)
        if not isinstance(target, torch._ops.OpOverload):
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                raise SlowpokeError(
                    f"operator {getattr(target, '__name__', target)} is not an ATen operator and "
                    "cannot be read; write that part with torch's own functions"
                )
            return value
        packet = target._schema.name.split("::")[1]
        if packet.startswith(IGNORED):
            return None
        name = packet
        if name not in self.table and name.endswith("_") and name.rstrip("_") in self.table:
            name = name.rstrip("_")
        call = Call(self, node, name, self.resolve(node.args))
        result = self._evaluate(call)
        if target._schema.is_mutable and node.args and isinstance(node.args[0], Node):
            self.env[node.args[0]] = result
        return result

    def _evaluate(self, call: Call) -> Any:
        output = call.node.meta.get("val")
        if not isinstance(output, torch.Tensor | list | tuple):
            return output
        values = call.values
        self._check_dtypes(call, output)
        if not views(values):
            folded = self._without_work(call, output, values)
            if folded is not None:
                return folded
            args = [self._promoted(a) for a in call.args]
            if not views(args):
                args[0] = self._from_memory(call.node.args[0], args[0])
            call = replace(call, args=tuple(args))
        row = self.table.get(call.name)
        result = row(call) if row else self._unknown(call)
        self.exclusive[call.node] = readers(call.node) == 1 and self._still_exclusive(call, result)
        return result

    def _still_exclusive(self, call: Call, result: Any) -> bool:
        """A new operator starts fresh; a view is only as exclusive as what it looks at."""
        if not isinstance(result, View):
            return False
        sources = [
            n for n in call.node.all_input_nodes
            if isinstance(v := self.env.get(n), View) and v.producer == result.producer
        ]  # fmt: skip
        return all(self.exclusive.get(n, False) for n in sources)

    def _check_dtypes(self, call: Call, output: Any) -> None:
        for value in output if isinstance(output, list | tuple) else [output]:
            if isinstance(value, torch.Tensor) and (
                value.dtype.is_complex
                or value.dtype in QUANTISED
                or value.layout is not torch.strided
            ):
                raise SlowpokeError(
                    f"operator {where(call.node) or call.name} computes in {_kind(value)}: "
                    "only dense real floating-point and integer tensors can be mapped; convert the "
                    "model, for example with .float() or .to_dense()"
                )

    def _without_work(self, call: Call, output: Any, values: list[Any]) -> Any:
        """Constants stay constants, plumbing stays plumbing; None if real work begins here."""
        leaves = [leaf for value in values for leaf in tensors(value)]
        fixed = all(isinstance(leaf, Constant) for leaf in leaves)
        trained = any(c.parameters for c in constants(values))
        if fixed and trained and call.name in PRODUCTS:
            # a small network over constants (position biases) runs each time; its first operand
            # comes from DRAM like an input
            self.remarks["matrix products over constants alone, counted as work"] += 1
            return None
        if not fixed and (not self.plumbing or (trained and call.name in WORKING)):
            return None
        outputs = list(output) if isinstance(output, list | tuple) else [output]
        parameters = tuple(dict.fromkeys(p for c in constants(values) for p in c.parameters))
        result: list[Any] = []
        for value in outputs:
            if not isinstance(value, torch.Tensor):
                result.append(value)
            elif fixed:
                own = () if is_index(value) else parameters
                result.append(Constant(math.prod(extents(value)), element_bytes(value), own))
            else:
                self.remarks["index and mask operators (no work of their own)"] += 1
                result.append(Plumbing(self._input(value, call.node.name)))
        return result if isinstance(output, list | tuple) else result[0]

    def _from_memory(self, node: Any, value: Any) -> Any:
        """A constant operand that is read from DRAM as if it were an input, without samples."""
        if not isinstance(value, Constant) or not isinstance(node, Node):
            return value
        dims = by_rank([[Part(size, 0)] for size in extents(node.meta["val"])])
        return laid_out(dims, GRAPH_INPUT, element_bytes=value.element_bytes, name=node.name)

    def _promoted(self, value: Any) -> Any:
        if isinstance(value, Plumbing):
            return value.view
        if isinstance(value, list | tuple):
            return type(value)(self._promoted(v) for v in value)
        return value

    def _input(self, tensor: torch.Tensor, name: str) -> View:
        return graph_input(extents(tensor), element_bytes=element_bytes(tensor), name=name)

    def input_value(self, tensor: Any, name: str) -> Any:
        """The value of a user's input: plumbing if it holds indices."""
        if not isinstance(tensor, torch.Tensor):
            return tensor
        view = self._input(tensor, name)
        return Plumbing(view) if is_index(tensor) and self.plumbing else view

    def _higher_order(self, node: Node) -> Any:
        name = str(getattr(node.target, "__name__", node.target))
        args = self.resolve(node.args)
        if name == "with_effects" and str(args[1]).split(".")[1].startswith(IGNORED):
            return [args[0], None]  # a token, passed on: nothing is computed
        bodies = [a for a in args if isinstance(a, GraphModule)]
        if name in ("cond", "while_loop", "scan", "map_impl", "associative_scan") or not bodies:
            raise SlowpokeError(
                f"{where(node) or self.name} uses {name}, whose work depends on data: trace the "
                "branch or the number of steps that you want to analyse"
            )
        body = bodies[0]
        return self.run(body, list(args[args.index(body) + 1 :]))

    # -- writing ------------------------------------------------------------------------------

    def emit(
        self,
        call: Call,
        kind: OpKind,
        inputs: Sequence[tuple[View, Sequence[Need]]],
        out: View,
        *,
        macs: int = 0,
        vector_ops: int = 0,
        weights: Sequence[Constant] = (),
        weight_dims: tuple[int, ...] = (K,),
        partitionable: tuple[int, ...] = (0, 1, 2, 3),
        suffix: str = "",
        output: int = 0,
    ) -> View:
        """Appends an operator and returns its output as a view of its own box.

        Args:
            call: The node it comes from.
            kind: What it does.
            inputs: Views with the needs of each of their dimensions.
            out: Where the output's elements lie (its `producer` is set here).
            macs: Multiply-accumulates.
            vector_ops: Other element operations.
            weights: Constants read; only those from parameters count.
            weight_dims: Box dimensions that index them.
            partitionable: Box dimensions that may be cut.
            suffix: Appended to the name, where one node makes several operators.
            output: Which output of the node this is.
        """
        tensor = call.tensor(output)
        if 0 in extents(tensor):
            raise SlowpokeError(
                f"{where(call.node) or call.name} makes an empty tensor of shape "
                f"{extents(tensor)}: every extent is at least 1; give example inputs with at "
                "least one sample and no empty dimension"
            )
        inputs = [(v, needs) for v, needs in inputs if 0 not in v.shape]
        view = replace(out, producer=len(self.drafts), element_bytes=element_bytes(tensor))
        keys = [w.parameters[0] for w in weights if w.parameters]
        counted = [w for w in weights if w.parameters]
        name = self._name(call, keys[0] if keys else "", kind) + suffix
        self.drafts.append(
            Draft(
                name=name,
                kind=kind,
                view=replace(view, name=name),
                inputs=[edge(v, needs, view) for v, needs in inputs],
                macs=macs,
                vector_ops=vector_ops,
                weight_elements=sum(w.weight_elements for w in counted),
                weight_dims=weight_dims,
                partitionable=partitionable,
                shape=extents(tensor),
                weight_element_bytes=counted[0].element_bytes if counted else view.element_bytes,
                target=str(call.node.target),
                weights_key=keys[0] if keys and kind is not OpKind.EMBEDDING else "",
                has_bias=len(counted) > 1,
            )
        )
        return replace(view, name=name)

    def _name(self, call: Call, key: str, kind: OpKind) -> str:
        path, leaf = module_path(call.node)
        if "parametrizations." in key:  # a weight computed from others: named as the weight
            key = key.split(".original")[0].replace("parametrizations.", "")
        owner, _, attribute = key.rpartition(".")
        if key and (owner == path or owner.startswith(path + ".") or not path):
            name = owner if attribute in ("weight", "bias") else key.removesuffix("_weight")
            name = name or call.name
        elif path and (leaf or key):
            name = path
        else:
            name = f"{path}.{call.name}" if path else call.name
        return name

    def fold(self, call: Call, view: View, *, vector_ops: int, weights: Sequence[Constant] = (),
             affine: bool = False) -> View | None:  # fmt: skip
        """Folds an element-wise follower into the producer of `view`; None if it may not be."""
        source = self.node_of(call, view)
        if view.producer == GRAPH_INPUT or not view.whole or not self.exclusive.get(source, False):
            return None
        draft = self.drafts[view.producer]
        if draft.view.element_bytes != view.element_bytes:
            return None
        draft.vector_ops += vector_ops
        draft.weight_elements += sum(w.weight_elements for w in weights)
        draft.affine_only = draft.affine_only and affine
        path, leaf = module_path(call.node)
        draft.folded.append(path if leaf else f"{path}.{call.name}" if path else call.name)
        width = element_bytes(call.tensor())
        draft.view = replace(draft.view, element_bytes=width)
        return replace(view, element_bytes=width)

    def node_of(self, call: Call, view: View) -> Node:
        """The argument node that stands for `view`."""
        for node in call.node.all_input_nodes:
            if self.env.get(node) == view:
                return node
        return call.node

    def _unknown(self, call: Call) -> Any:
        from torch_slowpoke.frontend.fallback import conservative

        self.unknown.setdefault(str(call.node.target), []).append(len(self.drafts))
        return conservative(call)

    def finished(self, outputs: Any, n_parameters: int) -> OperatorGraph:
        """The graph of everything read so far."""
        leaving = dict.fromkeys(v.producer for v in views([outputs]) if v.producer != GRAPH_INPUT)
        graph, self.renumbered = finished_graph(
            self.name, self.drafts, list(leaving), self._notes(), n_parameters
        )
        return graph

    def placed(self, outputs: Any) -> Any:
        """The outputs with the indices of the finished graph."""
        if isinstance(outputs, View):
            return replace(outputs, producer=self.renumbered.get(outputs.producer, GRAPH_INPUT))
        if isinstance(outputs, list | tuple):
            return [self.placed(v) for v in outputs]
        return outputs

    def _notes(self) -> list[str]:
        notes = []
        folded = sum(len(d.folded) for d in self.drafts)
        if folded:
            notes.append(f"{folded} element-wise followers were folded into their producers")
        for remark, count in sorted(self.remarks.items()):
            notes.append(f"{count} x {remark}")
        work = sum(d.macs + d.vector_ops for d in self.drafts)
        for target, at in sorted(self.unknown.items()):
            own = sum(
                self.drafts[i].macs + self.drafts[i].vector_ops for i in at if i < len(self.drafts)
            )
            notes.append(
                f"{target} is not in the operator table: {len(at)} taken as element-wise with all "
                f"of their inputs needed, {own / max(work, 1):.1%} of the work"
            )
        return notes


QUANTISED = frozenset({
    torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4,
})  # fmt: skip


def _kind(tensor: torch.Tensor) -> str:
    return str(tensor.dtype if tensor.layout is torch.strided else tensor.layout)
