"""Writing JSON: standard output or a file, without NaN, never half a file."""

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slowpoke_mapping.errors import SlowpokeError

STANDARD_OUTPUT = "-"


def plain(value: Any) -> Any:
    """The same with numpy's numbers made plain and what JSON cannot say (NaN, infinite) null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "item") and not isinstance(value, str):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(payload: Mapping[str, Any], path: str) -> None:
    """Write `payload` to a file, or to standard output for `-`.

    Raises:
        SlowpokeError: The file cannot be written.
    """
    text = json.dumps(plain(payload), indent=2, allow_nan=False) + "\n"
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    target = Path(path)
    if not target.name:
        raise SlowpokeError(f"{path!r} names no file to write JSON to; - is standard output")
    part = target.with_name(target.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise SlowpokeError(f"{path} cannot be written: {error.strerror}") from None
