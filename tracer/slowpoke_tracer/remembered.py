"""Remembering: what many detectors compute of the same evidence is computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

Function = TypeVar("Function", bound=Callable[..., Any])


def remembered(function: Function) -> Function:
    """Keep a function's answers for as long as its first argument lives, which it never changes.

    The first argument is told apart by identity, the others by value; all are positional and
    hashable. An answer must not hold the first argument, or neither is ever freed.
    """
    kept: WeakKeyDictionary[Any, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()

    @wraps(function)
    def remembering(first: Any, *others: Any) -> Any:
        known = kept.setdefault(first, {})
        if others not in known:
            known[others] = function(first, *others)
        return known[others]

    return cast(Function, remembering)
