"""`slowpoke efficiency failslow`: chips that are slow and do not fail."""

from torch_slowpoke.efficiency.cli.failslow.group import app

__all__ = ["app"]
