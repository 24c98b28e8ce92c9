"""`slowpoke efficiency`: what failures and slow chips cost a machine, on the command line.

Each command reads text with units, computes, prints a few lines, and writes the same as JSON and as
a picture if asked. Errors of the user are SlowpokeError; the main program turns them into one line.
"""

from torch_slowpoke.efficiency.cli.app import app

__all__ = ["app"]
