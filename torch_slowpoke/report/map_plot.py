"""The picture of a mapping, written to a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.mapping import Mapping
from slowpoke_mapping.picture import mapping_figure
from torch_slowpoke.report.plots import FORMATS, REPEATABLE


def save_map(mapping: Mapping, path: str | Path, groups: Sequence[int] | None = None) -> None:
    """Draw a mapping into a PNG, SVG or PDF file.

    Args:
        mapping: What to draw.
        path: Its ending says the format.
        groups: Numbers of the layer groups; None for the first twelve.

    Raises:
        SlowpokeError: Another ending, or a group that does not exist.
    """
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise SlowpokeError(f"{target.name}: a picture ends in {', '.join(FORMATS)}")
    with matplotlib.rc_context(REPEATABLE):
        mapping_figure(mapping, groups).savefig(target, dpi=110)
