"""What a node of the exported graph stands for while it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch_slowpoke.frontend.view import View


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor known before any input arrives: weights, buffers, and what is computed from them.

    Attributes:
        elements: Number of elements.
        element_bytes: Bytes of one element.
        parameters: Names of the parameters it comes from; none for buffers and position indices.
    """

    elements: int
    element_bytes: float
    parameters: tuple[str, ...] = ()

    @property
    def weight_elements(self) -> int:
        """Elements that count as weights: those that come from parameters."""
        return self.elements if self.parameters else 0


@dataclass(frozen=True, slots=True)
class Plumbing:
    """Indices and masks that enter from outside: they steer the work and are none themselves."""

    view: View


def tensors(value: object) -> Iterator[View | Constant | Plumbing]:
    """All tensor values in an argument, however nested."""
    if isinstance(value, View | Constant | Plumbing):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


def views(values: Iterable[object]) -> list[View]:
    """The views among the arguments, each once."""
    return list(dict.fromkeys(v for a in values for v in tensors(a) if isinstance(v, View)))


def constants(values: Iterable[object]) -> list[Constant]:
    """The constants among the arguments."""
    return [v for a in values for v in tensors(a) if isinstance(v, Constant)]
