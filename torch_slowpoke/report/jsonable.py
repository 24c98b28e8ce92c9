"""Results as JSON can hold them."""

from __future__ import annotations

from typing import Any


def finite(value: Any) -> Any:
    """The same data with null in place of every NaN and infinity, at any depth."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return None
    return value
