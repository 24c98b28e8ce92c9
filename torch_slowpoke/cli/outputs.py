"""Files that a command writes: checked before the work, written after it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.report.jsonable import finite

if TYPE_CHECKING:
    from rich.table import Table

STANDARD_OUTPUT = Path("-")
PIPE_COLUMNS = 120


def check_outputs(**paths: Path | None) -> None:
    """Say now what could not be written in an hour.

    Args:
        paths: Option name -> path; None for options that were not given. Only `json` may be `-`.

    Raises:
        SlowpokeError: A folder that is missing or closed, or two options with one file.
    """
    seen: dict[Path, str] = {}
    for option, path in paths.items():
        if path is None or (option == "json" and path == STANDARD_OUTPUT):
            continue
        _check_writable(option, path)
        other = seen.setdefault(path.resolve(), option)
        if other != option:
            raise SlowpokeError(f"--{other} and --{option} both name {path}; give two files")


def _check_writable(option: str, path: Path) -> None:
    folder = path.parent
    if path.is_dir():
        raise SlowpokeError(f"--{option} {path}: is a folder; give a file's name in it")
    if not folder.is_dir():
        raise SlowpokeError(f"--{option} {path}: there is no folder {folder}; make it first")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise SlowpokeError(f"--{option} {path}: cannot be written; choose another place")


def print_table(table: Table) -> None:
    """Print a table as wide as the terminal, or PIPE_COLUMNS wide where there is none."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS).print(table)


def write_json(data: dict[str, Any], path: Path) -> None:
    """Write a JSON object, to standard output if the path is `-`.

    Numbers that JSON does not know (NaN, infinity) become null.
    """
    text = json.dumps(finite(data), indent=2, allow_nan=False) + "\n"
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
    else:
        path.write_text(text, encoding="utf-8")
