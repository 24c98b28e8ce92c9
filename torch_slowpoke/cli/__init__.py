"""The command line: `slowpoke`.

Nothing heavy is imported here or at the top of any file of this package: `slowpoke --help` answers
at once, and only a command that needs torch or numpy pays for them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

import typer

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.cli.app import app

INTERRUPTED, BAD_INPUT, BROKEN_PIPE = 130, 2, 1
# Typer's own copy of click, or click itself: whichever makes its usage errors.
_USAGE_ERROR = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code.

    Bad input ends in one sentence on standard error and code 2, an interrupt in one line and code
    130. `--debug`, anywhere on the line, shows the traceback instead.

    Args:
        arguments: What follows the program's name; None for those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        code = app(args=words, prog_name="slowpoke", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:  # `slowpoke models | head`: nobody listens any more
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        sentence = _sentence(error)
        if debug or sentence is None:
            raise
        print(f"slowpoke: {sentence}", file=sys.stderr)
        return BAD_INPUT
    if code == INTERRUPTED:
        print("slowpoke: interrupted", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _sentence(error: Exception) -> str | None:
    """What a user can put right, in one line; None for a fault of our own."""
    if isinstance(error, SlowpokeError):
        text = str(error)
    elif isinstance(error, _USAGE_ERROR):
        text = f"{error.format_message().rstrip('.')}; see slowpoke --help"  # type: ignore[attr-defined]
    elif isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror or error}; choose another file or make room"
    else:
        return None
    return " ".join(text.split())
