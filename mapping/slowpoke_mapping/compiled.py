"""One way to compile hot loops: no allocation, no reference counts, kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit
from numba.extending import register_jitable

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a function that allocates nothing, and keep the result on disk.

    `_nrt=False`: without allocation, numba need not count references to the many arrays that a
    call carries (measured: ten times faster).
    """
    options: dict[str, Any] = {"cache": True, "_nrt": False, "error_model": "numpy"}
    return cast(F, njit(**options)(function))


def compiled_untyped(function: Any) -> Any:
    """The same for functions whose many arrays carry no types."""
    return compiled(function)


def inlined(function: F) -> F:
    """Plain Python on arrays where Python calls it; compiled into the compiled code that does."""
    return register_jitable(function)
