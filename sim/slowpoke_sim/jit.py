"""How the engine's loop is compiled: cached on disk, inlined, and without reference counting.

Nothing in the loop allocates, yet numba counts references to each of the many arrays of a
NamedTuple at every call that is not inlined, and such a call copies hundreds of words. ResNet-50 on
4x4 takes 1.8 s with counting, 0.30 s without, 0.14 s inlined as well.

numba's cache looks at the file of the outer function only: after a change to a part in another file
(`queues`, `draws`), remove `__pycache__/*.nb?` here, or the loop runs, and is tested, as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

_LOOP: dict[str, Any] = {"cache": True, "_nrt": False, "error_model": "numpy"}
_HOT: dict[str, Any] = {**_LOOP, "forceinline": True}


def hot(function: Function) -> Function:
    """Compile a part of the loop that allocates nothing and returns no array."""
    compiled: Function = njit(**_HOT)(function)
    return compiled


def loop(function: Function) -> Function:
    """Compile the loop itself: it allocates nothing, returns no array and divides by no zero."""
    compiled: Function = njit(**_LOOP)(function)
    return compiled
