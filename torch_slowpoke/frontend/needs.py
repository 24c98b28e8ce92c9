"""What a region of an operator's output needs of its inputs, composed down to the producer's box.

An operator states its needs per tensor dimension (`Need`); `windows` carries them through the views
in between. The result may be too large where four integer windows cannot say better, never too
small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from slowpoke_mapping.graph import DIMS, DimWindow, Edge
from torch_slowpoke.frontend.view import FREE, Digits, View, size_of

WHOLE = -1
"""As `Need.dim`: the whole dimension."""


@dataclass(frozen=True, slots=True)
class Need:
    """Input indices that output indices [a, c) of tensor dimension `dim` need.

    The same arithmetic as DimWindow, on tensor dimensions:
    [mult * (a * num // den) + low, mult * ((c - 1) * num // den) + high).
    """

    dim: int = WHOLE
    num: int = 1
    den: int = 1
    mult: int = 1
    low: int = 0
    high: int = 1

    @property
    def same(self) -> bool:
        """Whether index i needs exactly index i."""
        return self.dim != WHOLE and (self.num, self.den, self.mult, self.low, self.high) == (
            1, 1, 1, 0, 1,
        )  # fmt: skip


def same(n: int) -> list[Need]:
    """Every dimension needs itself."""
    return [Need(dim) for dim in range(n)]


@dataclass(frozen=True, slots=True)
class _Term:
    """One digit's share of a box position: step * (mult * (x // radix * num // den) + [low, high)).

    `x` is the index in output box dimension `out`, of which `size` values are left after the
    division; `out` is FREE when the digit runs over its whole range [low, high).
    """

    step: int
    low: int
    high: int
    out: int = FREE
    size: int = 1
    radix: int = 1
    num: int = 1
    den: int = 1
    mult: int = 1
    reach: int = 0

    @property
    def exact(self) -> bool:
        return (self.num, self.den, self.mult, self.low, self.high) == (1, 1, 1, 0, 1)

    def leads(self, out: View) -> bool:
        """Whether the digit is the most significant one of its output dimension."""
        if self.out == FREE:
            return False
        if any(d.batch and d.dim == self.out for d in out.digits):
            return any(d.batch and d.step == self.radix for d in out.digits)
        return self.radix * self.size >= out.box[self.out]

    def free(self) -> _Term:
        """The same digit over all the values it can take."""
        return _Term(self.step, 0, self.reach) if self.out != FREE else self


def _aligned(inner: Digits, outer: Digits) -> list[_Term] | None:
    """Digits of an input dimension that equals an output dimension, refined to common radices."""
    left, right = list(reversed(inner)), list(reversed(outer))
    terms: list[_Term] = []
    while left and right:
        a, b = left.pop(), right.pop()
        if a.batch != b.batch and (a.size == 1 or b.size == 1):
            # a batch digit of 1 on one side only: the other side has lost track of the samples
            (left if b.size == 1 and b.batch else right).append(a if b.size == 1 and b.batch else b)
            continue
        small = min(a.size, b.size)
        if max(a.size, b.size) % small:
            return None
        if a.size > small:
            cut = a.size // small
            left.append(replace(a, size=cut, batch=False))
            a = replace(a, size=small, step=a.step * cut)
        if b.size > small:
            cut = b.size // small
            right.append(replace(b, size=cut, batch=False))
            b = replace(b, size=small, step=b.step * cut)
        if a.dim != FREE:
            terms.append(
                _Term(a.step, 0, 1, b.dim, small, b.step, reach=small)
                if b.dim != FREE
                else _Term(a.step, 0, small)
            )
    return terms if all(d.size == 1 for d in left) else None


def _mapped(digits: Digits, need: Need, outer: Digits) -> list[_Term]:
    """Digits of an input dimension under a need that is not the identity."""
    terms = [_Term(d.step, 0, d.size) for d in digits]
    outer = tuple(d for d in outer if d.size > 1 or d.batch)
    if not digits or not outer or (len(outer) > 1 and need.num != 1):
        return terms
    lead, target = digits[0], outer[0]
    rest = math.prod(d.size for d in outer[1:])
    den, mult, low, high = need.den * rest, need.mult, need.low, need.high
    if len(digits) > 1:
        # index // inner is again a window if the stride is a multiple of inner
        inner = math.prod(d.size for d in digits[1:])
        if mult % inner == 0:
            mult, low, high = mult // inner, low // inner, (high - 1) // inner + 1
        elif (mult, low, high) == (1, 0, 1) and need.num == 1:
            den *= inner
        else:
            return terms
    if need.num != 1 and target.step != 1:
        return terms
    terms[0] = _Term(
        lead.step, low, high, target.dim, target.size, target.step, need.num, den, mult, lead.size
    )
    return terms


def _terms(view: View, needs: Sequence[Need], out: View) -> list[list[_Term]]:
    """The terms of each of the four box dimensions of `view`."""
    result: list[list[_Term]] = [[], [], [], []]
    for digits, need in zip(view.dims, needs, strict=True):
        terms: list[_Term] | None = None
        located = tuple(d for d in digits if d.dim != FREE)
        if need.same and size_of(digits) == size_of(out.dims[need.dim]):
            terms = _aligned(digits, out.dims[need.dim])
        if terms is None:
            if need.dim == WHOLE or len(located) != len(digits):
                terms = [_Term(d.step, 0, d.size) for d in located]
            else:
                terms = _mapped(digits, need, out.dims[need.dim])
        used = iter(terms)
        if len(terms) == len(located):
            for digit, term in zip(located, used, strict=True):
                result[digit.dim].append(term)
        else:  # refined: follow the sizes
            for digit in located:
                covered = 1
                while covered < digit.size:
                    term = next(used)
                    covered *= term.size if term.out != FREE else term.high
                    result[digit.dim].append(term)
    return result


def _joined(terms: list[_Term]) -> list[_Term]:
    """Neighbouring digits that count on without a gap on both sides, as one."""
    result: list[_Term] = []
    for term in sorted(terms, key=lambda t: -t.step):
        if result:
            last = result[-1]
            if (
                last.exact and term.exact and last.out == term.out != FREE
                and last.step == term.size * term.step
                and last.radix == term.size * term.radix
            ):  # fmt: skip
                size = last.size * term.size
                result[-1] = replace(term, size=size, reach=size)
                continue
        result.append(term)
    return result


def _window(dim: int, terms: list[_Term], view: View, out: View) -> DimWindow:
    extent, offset = view.box[dim], view.offset[dim]
    terms = _joined(terms)
    leading = [t for t in terms if t.leads(out)]
    chosen = max(leading, key=lambda t: t.step * t.reach, default=None)
    spans = [t.free() for t in terms if t is not chosen]
    low = offset + sum(t.step * t.low for t in spans)
    high = offset + sum(t.step * (t.high - 1) for t in spans) + 1
    if chosen is None:
        if dim == 0 or (low <= 0 and high >= extent):
            return DimWindow()
        return DimWindow(0, num=0, low=max(low, 0), high=min(high, extent))
    return DimWindow(
        chosen.out,
        num=chosen.num,
        den=chosen.den * chosen.radix,
        mult=chosen.mult * chosen.step,
        low=low + chosen.step * chosen.low,
        high=high + chosen.step * (chosen.high - 1),
    )


def edge(view: View, needs: Sequence[Need], out: View) -> Edge:
    """The edge over which `view` flows into an operator whose output lies as `out`.

    Args:
        view: The input tensor.
        needs: One for each of its dimensions.
        out: The output tensor as a view of its own box.
    """
    windows = [_window(dim, terms, view, out) for dim, terms in enumerate(_terms(view, needs, out))]
    assert len(windows) == len(DIMS)
    return Edge(
        view.producer,
        view.box,
        (windows[0], windows[1], windows[2], windows[3]),
        view.element_bytes,
        view.name,
    )
