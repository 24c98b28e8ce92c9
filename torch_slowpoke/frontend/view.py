"""Where each element of a tensor lives in its producer's box, through any chain of views.

A tensor's dimensions are written as digits of a mixed radix. Each digit says which dimension of the
producer's box it moves along and by how much, so that reshape, permute, slice, chunk, expand and
padding are exact bookkeeping and cost no operator. The digit that counts samples is marked: it
keeps its place even when the batch it was traced with is 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.graph import GRAPH_INPUT, B, Box, H, K, W

FREE = -1
"""As `Digit.dim`: a broadcast digit; it moves along nothing."""


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of a tensor dimension: `size` values, each a `step` along box dimension `dim`."""

    size: int
    dim: int
    step: int = 1
    batch: bool = False


Digits = tuple[Digit, ...]


def merged(digits: Iterable[Digit]) -> Digits:
    """Neighbouring digits that count along one box dimension without a gap, as one digit.

    >>> merged([Digit(2, 1, 3), Digit(3, 1, 1)])
    (Digit(size=6, dim=1, step=1, batch=False),)
    """
    result: list[Digit] = []
    for digit in digits:
        if digit.size == 1 and not digit.batch:
            continue
        if result:
            last = result[-1]
            gapless = last.step == digit.size * digit.step or digit.dim == FREE
            if last.dim == digit.dim and gapless and not last.batch and not digit.batch:
                result[-1] = replace(digit, size=last.size * digit.size)
                continue
        result.append(digit)
    return tuple(result)


def size_of(digits: Digits) -> int:
    """Extent of the tensor dimension that the digits make up."""
    return math.prod(digit.size for digit in digits)


def regroup(digits: Sequence[Digit], shape: Sequence[int]) -> tuple[Digits, ...] | None:
    """The row-major digits cut into dimensions of `shape`; None where a digit cannot be cut so."""
    pending = list(reversed(digits))
    dims: list[Digits] = []
    for extent in shape:
        rest, taken = extent, list[Digit]()
        if pending and pending[-1].batch and pending[-1].size == 1:
            taken.append(pending.pop())
        while rest > 1:
            digit = pending.pop()
            if digit.size <= rest and rest % digit.size == 0:
                taken.append(digit)
                rest //= digit.size
            elif digit.size > rest and digit.size % rest == 0:
                inner = digit.size // rest
                taken.append(replace(digit, size=rest, step=digit.step * inner))
                pending.append(replace(digit, size=inner, batch=False))
                rest = 1
            else:
                return None
        dims.append(merged(taken))
    leftover = [digit for digit in pending if digit.batch]
    if leftover and dims:
        dims[-1] = merged([*dims[-1], *leftover])
    return tuple(dims)


@dataclass(frozen=True, slots=True)
class View:
    """A tensor as a way of reading its producer's box.

    Attributes:
        producer: Index of the operator, or GRAPH_INPUT.
        box: (B, K, H, W) of the producer's output.
        dims: For each tensor dimension its digits, most significant first; none for extent 1.
        offset: Box position of the element (0, 0, ...); negative where padding begins outside.
        element_bytes: Bytes of one element as the producer stores it.
        name: Name of the tensor, for edges.
    """

    producer: int
    box: Box
    dims: tuple[Digits, ...]
    offset: tuple[int, int, int, int] = (0, 0, 0, 0)
    element_bytes: float = 4.0
    name: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the tensor."""
        return tuple(size_of(digits) for digits in self.dims)

    @property
    def digits(self) -> Digits:
        """All digits, row-major."""
        return tuple(digit for dim in self.dims for digit in dim)

    @property
    def whole(self) -> bool:
        """Whether every element of the box appears exactly once."""
        digits = self.digits
        return (
            all(digit.dim != FREE for digit in digits)
            and math.prod(digit.size for digit in digits) == math.prod(self.box)
            and self.offset == (0, 0, 0, 0)
        )

    def positions(self) -> NDArray[np.int64]:
        """(n, 4) box positions of the elements in row-major order, padding outside the box.

        Broadcast digits do not move. Costs memory in proportion to the elements; for checks.
        """
        digits = self.digits
        index = np.indices([digit.size for digit in digits], dtype=np.int64).reshape(
            len(digits), -1
        )
        result = np.tile(np.array(self.offset, dtype=np.int64), (index.shape[1], 1))
        for digit, values in zip(digits, index, strict=True):
            if digit.dim != FREE:
                result[:, digit.dim] += digit.step * values
        return result

    def permute(self, order: Sequence[int]) -> View:
        """The same tensor with its dimensions in another order."""
        return replace(self, dims=tuple(self.dims[i] for i in order))

    def reshape(self, shape: Sequence[int]) -> View | None:
        """The same elements in row-major order under another shape; None if not expressible."""
        if tuple(shape) == self.shape:
            return self
        dims = regroup(self.digits, shape)
        return None if dims is None else replace(self, dims=dims)

    def narrow(self, dim: int, start: int, size: int, step: int = 1) -> View | None:
        """Elements start, start + step, ... of one dimension; None if not expressible."""
        digits = self.dims[dim]
        if start == 0 and size == size_of(digits):
            return self
        if not digits:  # extent 1
            return self
        head, *tail = digits
        inner = math.prod(digit.size for digit in tail)
        if inner == 1:
            new = merged([replace(head, size=size, step=head.step * step, batch=head.batch)])
            return self._moved(dim, new, head, start)
        if step == 1 and start % inner == 0 and size % inner == 0:
            return self._moved(
                dim, merged([replace(head, size=size // inner), *tail]), head, start // inner
            )
        if step == 1 and start // inner == (start + size - 1) // inner:
            fixed = self._moved(dim, tuple(tail), head, start // inner)
            return fixed.narrow(dim, start % inner, size)
        return None

    def _moved(self, dim: int, digits: Digits, digit: Digit, by: int) -> View:
        offset = list(self.offset)
        if digit.dim != FREE:
            offset[digit.dim] += by * digit.step
        dims = list(self.dims)
        dims[dim] = digits
        return replace(self, dims=tuple(dims), offset=(offset[0], offset[1], offset[2], offset[3]))

    def select(self, dim: int, index: int) -> View | None:
        """One index of a dimension, which then is gone."""
        one = self.narrow(dim, index, 1)
        if one is None:
            return None
        dims = list(one.dims)
        kept = tuple(digit for digit in dims.pop(dim) if digit.batch)
        if kept and dims:  # a batch of 1 stays traceable beside its neighbour
            at = min(dim, len(dims) - 1)
            dims[at] = (*kept, *dims[at]) if at == dim else (*dims[at], *kept)
        return replace(one, dims=tuple(dims))

    def pad(self, dim: int, before: int, after: int) -> View | None:
        """Extended by a constant on both sides of one dimension; None if not expressible."""
        digits = self.dims[dim]
        if len(digits) != 1 or digits[0].dim == FREE or digits[0].batch:
            return None
        digit = digits[0]
        return self._moved(dim, (replace(digit, size=digit.size + before + after),), digit, -before)

    def expand(self, shape: Sequence[int]) -> View:
        """Broadcast to `shape`; new dimensions come in front."""
        dims = list(self.unsqueeze_to(len(shape)).dims)
        for i, extent in enumerate(shape):
            if size_of(dims[i]) == 1 and extent > 1:
                dims[i] = (Digit(extent, FREE, 0),)
        return replace(self, dims=tuple(dims))

    def unsqueeze_to(self, n: int) -> View:
        """Leading dimensions of extent 1 until there are `n`."""
        return replace(self, dims=((),) * (n - len(self.dims)) + self.dims)

    def rearranges(self) -> bool:
        """Whether a box dimension is torn apart: reading it in row-major order moves data.

        A dimension of the box whose digits end up in several tensor dimensions, one of which also
        holds digits of another box dimension, or whose digits appear out of order within one tensor
        dimension, cannot stay where it is.
        """
        homes: dict[int, list[tuple[int, Digit]]] = {}
        for i, digits in enumerate(self.dims):
            for digit in digits:
                if digit.dim != FREE and not digit.batch:
                    homes.setdefault(digit.dim, []).append((i, digit))
        for placed in homes.values():
            for (i, first), (j, second) in itertools.pairwise(placed):
                if i == j and first.step < second.step:
                    return True
                crowded = any(
                    other.dim not in (FREE, first.dim) and not other.batch
                    for k in (i, j)
                    for other in self.dims[k]
                )
                if i != j and crowded:
                    return True
        return False


@dataclass(frozen=True, slots=True)
class Part:
    """A digit of an output that still has to find its place: its size and where it would rather be.

    Attributes:
        size: Number of values.
        want: Box dimension it should move along.
        order: Place among the digits of that box dimension, small ones are more significant.
        batch: Whether it counts samples; then it leads dimension B whatever it wants.
    """

    size: int
    want: int
    order: float = 0.0
    batch: bool = False


def laid_out(
    dims: Sequence[Sequence[Part]], producer: int, *, element_bytes: float = 4.0, name: str = ""
) -> View:
    """A fresh box for a tensor: every part goes where it wants, densely and in order."""
    homes: list[list[tuple[float, int, int, Part]]] = [[], [], [], []]
    for i, parts in enumerate(dims):
        for j, part in enumerate(parts):
            if part.batch:
                homes[B].append((-math.inf, i, j, part))
            elif part.size > 1:
                homes[part.want].append((part.order, i, j, part))
    placed: dict[tuple[int, int], Digit] = {}
    box = [1, 1, 1, 1]
    for dim, members in enumerate(homes):
        for _, i, j, part in reversed(sorted(members, key=lambda m: m[:3])):
            placed[i, j] = Digit(part.size, dim, box[dim], part.batch)
            box[dim] *= part.size
    return View(
        producer,
        (box[0], box[1], box[2], box[3]),
        tuple(
            merged(placed[i, j] for j in range(len(parts)) if (i, j) in placed)
            for i, parts in enumerate(dims)
        ),
        element_bytes=element_bytes,
        name=name,
    )


def parts_of(view: View, dim: int) -> list[Part]:
    """The digits of one tensor dimension, as parts that want to stay where they are."""
    return [
        Part(d.size, d.dim if d.dim != FREE else (H if dim else B), -float(d.step), d.batch)
        for d in view.dims[dim]
    ]


def by_rank(dims: Sequence[Sequence[Part]], channel: int | None = None) -> list[list[Part]]:
    """The documented rule for tensors without a history.

    The sample digit is B. With `channel` (convolutions: 1) that dimension is K, the first of the
    others is H, the rest W. Without, rank 4 is (B, K, H, W), rank 5 (B, K, T, H x W); in others the
    last dimension is K, the first of the others H and the rest W.
    """
    n = len(dims)
    if channel is None:
        channel = 1 if n in (4, 5) else n - 1
    wants: list[int] = []
    others = 0
    for i, parts in enumerate(dims):
        if i == channel:
            wants.append(K)
        elif i == 0 and any(part.batch for part in parts):
            wants.append(H if n == 3 and math.prod(p.size for p in parts if not p.batch) > 1 else B)
            others += wants[-1] == H
        else:
            wants.append(H if others == 0 else W)
            others += 1
    return [
        [Part(p.size, want, float(i), p.batch) for p in parts]
        for i, (want, parts) in enumerate(zip(wants, dims, strict=True))
    ]


def graph_input(shape: Sequence[int], *, element_bytes: float, name: str) -> View:
    """A tensor that the user hands in; its first dimension counts samples."""
    dims = [[Part(size, B, 0.0, i == 0 and len(shape) > 1)] for i, size in enumerate(shape)]
    return laid_out(by_rank(dims), GRAPH_INPUT, element_bytes=element_bytes, name=name)
