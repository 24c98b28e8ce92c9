"""Places: where a fault strikes, a probe sits and a diagnosis points.

Text forms (design.md section 3): `core:5`, `core:(1,2)` (column, row), `link:5-6` (the physical
link, both directions), `link:5->6` (one direction), `router:5`, `dram:0`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slowpoke_mapping.errors import SlowpokeError

if TYPE_CHECKING:
    from slowpoke_mapping.topology import Topology


@dataclass(frozen=True, slots=True, order=True)
class Core:
    """A core, by its id y * W + x."""

    id: int

    def __str__(self) -> str:
        return f"core:{self.id}"


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """A link between two routers: one direction, or (the usual fault) the physical link.

    Attributes:
        src: Router the data leaves; of a physical link the smaller id.
        dst: Router the data enters.
        both: True for the physical link, that is both directions.
    """

    src: int
    dst: int
    both: bool = False

    def __post_init__(self) -> None:
        if self.src == self.dst:
            raise SlowpokeError(f"{self}: a link joins two different routers, such as link:5-6")
        if self.both and self.src > self.dst:
            low, high = self.dst, self.src
            object.__setattr__(self, "src", low)
            object.__setattr__(self, "dst", high)

    def __str__(self) -> str:
        return f"link:{self.src}{'-' if self.both else '->'}{self.dst}"

    @property
    def physical(self) -> Link:
        """The physical link that this direction belongs to."""
        return Link(self.src, self.dst, both=True)


@dataclass(frozen=True, slots=True, order=True)
class Router:
    """A router: every link with an end there, injection and ejection included."""

    id: int

    def __str__(self) -> str:
        return f"router:{self.id}"


@dataclass(frozen=True, slots=True, order=True)
class DramPort:
    """A DRAM port of the chip, by its index in the chip's list of ports."""

    id: int

    def __str__(self) -> str:
        return f"dram:{self.id}"


Place = Core | Link | Router | DramPort

_FORM = re.compile(r"(core|link|router|dram):(.+)", re.IGNORECASE)
_ID = r"[0-9]{1,9}"
_END = rf"({_ID}|\(\s*{_ID}\s*,\s*{_ID}\s*\))"
_LINK = re.compile(rf"{_END}\s*(->|-)\s*{_END}")
_HELP = "write core:5, core:(1,2), link:5-6, link:5->6, router:5 or dram:0"


def parse_place(text: str | Place, topology: Topology | None = None) -> Place:
    """The place that a text names; a Place passes through.

    Args:
        text: `core:5`, `core:(1,2)`, `link:5-6`, `link:5->6`, `router:5`, `dram:0`.
        topology: Needed for the (x, y) form, whose column and row must lie on it. Whether an id
            lies on the chip is for `ChipConfig.check_place` to say.

    Raises:
        SlowpokeError: Not of one of these forms.

    >>> print(parse_place("link:6-5"), parse_place("link:6->5"))
    link:5-6 link:6->5
    """
    if isinstance(text, Place):
        return text
    match = _FORM.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise SlowpokeError(f"{text!r} is no place; {_HELP}")
    kind, rest = match[1].lower(), match[2].strip()
    if kind == "link":
        link = _LINK.fullmatch(rest)
        if link is None:
            raise SlowpokeError(f"{text!r} is no link; {_HELP}")
        src, dst = (_router_id(part, text, topology) for part in (link[1], link[3]))
        return Link(src, dst, both=link[2] == "-")
    if re.fullmatch(_END, rest) is None or (kind == "dram" and "(" in rest):
        raise SlowpokeError(f"{text!r} is no {kind}; {_HELP}")
    number = _router_id(rest, text, topology)
    return (
        Core(number) if kind == "core" else Router(number) if kind == "router" else DramPort(number)
    )


def _router_id(text: str, whole: str, topology: Topology | None) -> int:
    if not text.startswith("("):
        return int(text)
    if topology is None or topology.columns is None:
        raise SlowpokeError(
            f"{whole!r} names a column and a row, which needs a mesh or torus; give the id instead"
        )
    x, y = (int(part) for part in text.strip("()").split(","))
    if x >= topology.columns or y * topology.columns + x >= topology.n_routers:
        raise SlowpokeError(f"{whole!r} lies outside the {topology}; columns and rows count from 0")
    return y * topology.columns + x
