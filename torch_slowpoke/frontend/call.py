"""One operator of the exported graph, as the rows of the table see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend.needs import Need
from torch_slowpoke.frontend.view import View

if TYPE_CHECKING:
    from torch_slowpoke.frontend.builder import Builder


@dataclass(frozen=True, slots=True)
class Call:
    """One node with its arguments resolved, as the rows of the table see it."""

    builder: Builder
    node: Node
    name: str
    args: tuple[Any, ...]

    def arg(self, name: str, default: Any = None) -> Any:
        """An argument by its name in the operator's schema, or the schema's default."""
        schema = self.node.target._schema  # type: ignore[union-attr]
        for i, argument in enumerate(schema.arguments):
            if argument.name == name:
                if i < len(self.args) and not argument.kwarg_only:
                    return self.args[i]
                if name in self.node.kwargs:
                    return self.builder.resolve(self.node.kwargs[name])
                return argument.default_value if argument.has_default_value() else default
        return default

    @property
    def values(self) -> list[Any]:
        """All arguments, keyword arguments included."""
        return [*self.args, *(self.builder.resolve(v) for v in self.node.kwargs.values())]

    def tensor(self, index: int = 0) -> torch.Tensor:
        """The output (or one of several), for its shape and dtype."""
        value = self.node.meta["val"]
        chosen: torch.Tensor = value[index] if isinstance(value, list | tuple) else value
        return chosen

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Extents of the output (or of one of several)."""
        return extents(self.tensor(index))

    def emit(self, kind: OpKind, inputs: Sequence[tuple[View, Sequence[Need]]], out: View,
             **work: Any) -> View:  # fmt: skip
        """A new operator; see `Builder.emit`."""
        return self.builder.emit(self, kind, inputs, out, **work)


def extents(tensor: torch.Tensor) -> tuple[int, ...]:
    """Shape as integers; a symbolic size counts as the size of the example it was traced with."""
    sizes = []
    for size in tensor.shape:
        if isinstance(size, int):
            sizes.append(size)
            continue
        hint = size.node.hint if size.node.has_hint() else None
        if hint is None:
            raise SlowpokeError(
                f"a tensor has the data-dependent size {size}: the graph must have fixed sizes; "
                "export the model with static shapes"
            )
        sizes.append(int(hint))
    return tuple(sizes)


def element_bytes(tensor: torch.Tensor) -> float:
    """Bytes of one element."""
    return float(tensor.dtype.itemsize)


def is_index(tensor: torch.Tensor) -> bool:
    """Whether it holds integers or truth values."""
    return not tensor.dtype.is_floating_point and not tensor.dtype.is_complex


Row = Callable[[Call], Any]
