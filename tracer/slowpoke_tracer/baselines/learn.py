"""scikit-learn, for the baselines that need it; an extra, so that the product runs without."""

from __future__ import annotations

import importlib
from typing import Any

from slowpoke_mapping.errors import SlowpokeError


def sklearn_module(name: str) -> Any:
    """`sklearn.<name>`.

    Raises:
        SlowpokeError: scikit-learn is not installed.
    """
    try:
        return importlib.import_module(f"sklearn.{name}")
    except ImportError:
        raise SlowpokeError(
            "this baseline needs scikit-learn, which is not installed; "
            "pip install 'torch-slowpoke[eval]'"
        ) from None
