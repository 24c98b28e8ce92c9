"""Names of ATen operators (packets) that the reader treats apart, and where a node stands."""

from __future__ import annotations

import torch
from torch.fx import Node

IGNORED = (
    "_assert_tensor_metadata", "sym_size", "_assert_async", "sym_constrain_range",
    "_linalg_check_errors", "_print",
)  # fmt: skip
"""Packet names that neither compute nor read data."""

PRODUCTS = frozenset({
    "linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "conv1d", "conv2d", "conv3d",
    "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "scaled_dot_product_attention", "lstm", "gru",
})  # fmt: skip
"""Operators that are work even where only constants go in."""

WORKING = PRODUCTS | {"embedding", "_embedding_bag", "_embedding_bag_forward_only", "index"}
"""Operators in which indices meet weights: work begins there."""

ALIASING = frozenset({
    "view", "reshape", "flatten", "slice", "select", "narrow", "transpose", "permute", "t",
    "squeeze", "unsqueeze", "expand", "chunk", "split", "split_with_sizes", "unbind", "detach",
    "alias", "unfold", "contiguous", "view_as", "to", "movedim", "tensor_split", "diagonal",
})  # fmt: skip
"""Operators whose result may share memory with their first argument."""


def packet_of(node: Node) -> str:
    """The ATen name of a node without its overload; empty if it is no ATen operator."""
    target = node.target
    return target._schema.name.split("::")[1] if isinstance(target, torch._ops.OpOverload) else ""


def is_functorch(node: Node) -> bool:
    """Whether it opens or closes a level of torch.vmap, which lowering resolves."""
    return str(getattr(node.target, "__module__", "")).startswith("torch._functorch")


def mutates(node: Node) -> bool:
    """Whether it writes into one of its arguments."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def readers(node: Node) -> int:
    """Users of a node that read its data."""
    return sum(
        1
        for user in node.users
        if not (
            isinstance(user.target, torch._ops.OpOverload)
            and user.target._schema.name.split("::")[1].startswith(IGNORED)
        )
    )


def module_path(node: Node) -> tuple[str, bool]:
    """Path of the innermost module, and whether that is one of torch.nn's own leaves."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return "", False
    path, kind = list(stack.values())[-1]
    name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    leaf = name.startswith("torch.nn.modules") and not name.endswith(
        ("Sequential", "ModuleList", "MultiheadAttention", "TransformerEncoderLayer",
         "TransformerDecoderLayer")
    )  # fmt: skip
    path = str(path)
    for prefix in ("L['self'].", "L__self___", "self."):
        path = path.removeprefix(prefix)
    return ("" if path in ("L['self']", "self") else path), leaf and bool(path)


def where(node: Node) -> str:
    """Module path of a node, for messages."""
    return module_path(node)[0]
