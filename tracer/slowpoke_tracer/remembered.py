"""Remembering: what many detectors compute of the same evidence is computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

Function = TypeVar("Function", bound=Callable[..., Any])


def remembered(function: Function) -> Function:
    """Keep a function's answers for as long as its first argument lives, which it never changes.

    Arguments are hashable, and told apart as they compare: evidence and programs by identity. An
    answer must not hold the first argument, or neither is ever freed.
    """
    kept: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()

    @wraps(function)
    def remembering(first: Any, *others: Any, **named: Any) -> Any:
        known = kept.setdefault(first, {})
        key = (others, *sorted(named.items()))
        if key not in known:
            known[key] = function(first, *others, **named)
        return known[key]

    return cast(Function, remembering)
