"""The chip: cores, network, DRAM ports and their speeds, as data that is checked once.

Presets are TOML files in `presets/`; a user's own chip is a TOML file of the same form, or a preset
with some values replaced: `chip("paper-4x4").replace(link_bytes_per_cycle=16)`.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.places import Core, DramPort, Link, Place, Router
from slowpoke_mapping.topology import Topology, parse_topology

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ProbeCosts(BaseModel):
    """What a probe costs on the core that records (SlowPoke section 4.3)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    clock_read_cycles: NonNegative = 10.0
    """Reading the chip-wide counter: 10 cycles (SlowPoke section 4.3)."""
    list_append_cycles: NonNegative = 16.0
    """Storing one 32-byte raw record, eight 4-byte words at two cycles."""
    slot_update_cycles: NonNegative = 30.0
    """Updating one static slot of the sketch (design.md section 7)."""
    hash_cycles: NonNegative = 15.0
    """One hash and its bucket in Stage-1 of the sketch; a record needs one for each table."""


class EnergyCosts(BaseModel):
    """Energy by event, 12 nm (Gemini, HPCA 2024, as its public implementation has it)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mac_pj: NonNegative = 0.018
    vector_op_pj: NonNegative = 0.0873
    byte_hop_pj: NonNegative = 3.2
    dram_byte_pj: NonNegative = 84.0
    sram_byte_pj: NonNegative = 2.15
    """Buffer read and write, per byte, for a 2 MiB buffer."""


class ChipConfig(BaseModel):
    """Everything that is fixed in silicon, and the run-time defaults that go with it.

    Raises:
        SlowpokeError: A value that does not fit its field or the others; the first one is named.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "custom"
    topology: str = "mesh:4x4"
    """`mesh:COLUMNSxROWS`, or another name of `slowpoke_mapping.topology.TOPOLOGIES`."""
    clock_hz: Positive = 1e9
    macs_per_cycle: Positive = 1024.0
    """Multiply-accumulates a core does in a cycle at full utilisation."""
    vector_ops_per_cycle: Positive = 128.0
    """Element operations (pooling, additions, exponentials) a core does in a cycle."""
    sram_bytes: Positive = 2 * 2**20
    """Buffer of one core for weights and activations."""
    scratchpad_bytes: Positive = 64 * 2**10
    """Memory of one core of which the recorder may use a part (SlowPoke section 2.1)."""
    bytes_per_element: Positive = 1.0
    """Bytes of a tensor element on the chip: 1 for int8, as in Gemini."""
    link_bytes_per_cycle: Positive = 32.0
    router_delay_cycles: NonNegative = 2.0
    """From the head's arrival at a router to its request for the next link."""
    switching: Literal["cut_through", "store_and_forward"] = "cut_through"
    packet_bytes: Positive = 4096.0
    """Longer messages are cut into packets of this size; store_and_forward uses it too."""
    message_bytes: Positive = 16384.0
    """The compiler cuts longer tensors into messages of at most this size: one record each."""
    buffer_packets: int = Field(default=0, ge=0)
    """Input buffer of each link in packets; 0 for unbounded (finite: XY meshes only)."""
    multicast: bool = True
    """Whether routers copy a message where the routes to its destinations part."""
    dram_routers: tuple[int, ...] = ()
    """Router of each DRAM port; empty: at the west and the east edge of a grid, in the rows a
    quarter of the height in from the north and the south (rows 1 and 2 of a 4x4 mesh); without a
    grid, four routers spread evenly over the ids."""
    dram_bytes_per_cycle: Positive = 32.0
    """Bandwidth of one port."""
    dram_latency_cycles: NonNegative = 100.0
    units_per_batch: int = Field(default=4, ge=1)
    """Batch units that pipeline through a layer group before the next group starts."""
    samples_per_unit: int = Field(default=1, ge=1)
    credit_depth: int = Field(default=2, ge=1)
    """A producer may be this many units ahead of its slowest consumer."""
    clock_skew_cycles: NonNegative = 0.0
    """Largest offset of a core's counter from the chip's."""
    probe_costs: ProbeCosts = ProbeCosts()
    energy: EnergyCosts = EnergyCosts()

    if not TYPE_CHECKING:  # a checker shall see the fields that pydantic makes arguments of

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _in_a_sentence(error) from None

    @field_validator("topology")
    @classmethod
    def _canonical(cls, spec: str) -> str:
        return parse_topology(spec).spec()

    @model_validator(mode="after")
    def _check(self) -> ChipConfig:
        n = self.network.n_routers
        for router in self.dram_routers:
            if not 0 <= router < n:
                raise SlowpokeError(
                    f"DRAM port at router {router}: the {self.topology} has routers 0 to {n - 1}"
                )
        if len(set(self.dram_routers)) != len(self.dram_routers):
            raise SlowpokeError(f"DRAM ports {self.dram_routers}: one port a router")
        if self.buffer_packets and not self.topology.startswith("mesh:"):
            raise SlowpokeError(
                f"{self.topology} with finite buffers could deadlock without virtual channels; "
                "set buffer_packets = 0 or use a mesh"
            )
        return self

    @cached_property
    def network(self) -> Topology:
        """The topology object."""
        return parse_topology(self.topology)

    @cached_property
    def dram_ports(self) -> tuple[int, ...]:
        """Router of each DRAM port, defaults filled in."""
        if self.dram_routers:
            return self.dram_routers
        n, columns = self.network.n_routers, self.network.columns
        if columns is None:
            return tuple(dict.fromkeys(i * n // 4 for i in range(4)))
        rows = n // columns
        edge = dict.fromkeys((rows // 4, rows - 1 - rows // 4))
        return tuple(
            dict.fromkeys(y * columns + x for x in dict.fromkeys((0, columns - 1)) for y in edge)
        )

    @property
    def n_cores(self) -> int:
        """Number of cores, one at each router."""
        return self.network.n_routers

    @property
    def n_links(self) -> int:
        """Number of directed links between routers."""
        return len(self.network.links)

    @property
    def n_channels(self) -> int:
        """Servers of the network: links, then one injection and one ejection channel a router."""
        return self.n_links + 2 * self.n_cores

    def injection_channel(self, router: int) -> int:
        """Channel index of a core's way into its router."""
        return self.n_links + router

    def ejection_channel(self, router: int) -> int:
        """Channel index of a router's way to its core."""
        return self.n_links + self.n_cores + router

    @cached_property
    def _link_index(self) -> dict[tuple[int, int], int]:
        return {(int(a), int(b)): i for i, (a, b) in enumerate(self.network.links)}

    def link_index(self, src: int, dst: int) -> int:
        """Channel index of the directed link from router src to router dst.

        Raises:
            SlowpokeError: There is no such link.
        """
        try:
            return self._link_index[src, dst]
        except KeyError:
            raise SlowpokeError(self._no_link(f"link:{src}->{dst}", src)) from None

    def _no_link(self, link: str, src: int) -> str:
        near = sorted(d for s, d in self._link_index if s == src)
        if not self.n_links:
            return f"{link}: the {self.network} has no links"
        if near:
            hint = f"router {src} links to {', '.join(map(str, near))}"
        else:
            hint = f"routers are 0 to {self.n_cores - 1}"
        return f"{link}: no such link on the {self.network}; {hint}"

    def check_place(self, place: Place) -> Place:
        """The place itself, if it lies on this chip.

        Raises:
            SlowpokeError: It does not.
        """
        if isinstance(place, Link):
            if (place.src, place.dst) not in self._link_index:
                raise SlowpokeError(self._no_link(str(place), place.src))
            return place
        bound, what = (
            (len(self.dram_ports), "DRAM ports")
            if isinstance(place, DramPort)
            else (self.n_cores, "cores" if isinstance(place, Core) else "routers")
        )
        if not 0 <= place.id < bound:
            raise SlowpokeError(f"{place} lies outside the chip; its {what} are 0 to {bound - 1}")
        return place

    def channels_of(self, place: Place) -> NDArray[np.int64]:
        """Channel indices that a link or router place covers; empty for cores and DRAM ports."""
        if isinstance(place, Link):
            pairs = [(place.src, place.dst)] + [(place.dst, place.src)] * place.both
            return np.array([self.link_index(*pair) for pair in pairs], dtype=np.int64)
        if isinstance(place, Router):
            touching = np.flatnonzero((self.network.links == place.id).any(axis=1))
            own = [self.injection_channel(place.id), self.ejection_channel(place.id)]
            return np.concatenate([touching, own]).astype(np.int64)
        return np.zeros(0, dtype=np.int64)

    @cached_property
    def physical_links(self) -> tuple[Link, ...]:
        """Every physical link once, in order of its first direction."""
        return tuple(dict.fromkeys(Link(int(a), int(b), both=True) for a, b in self.network.links))

    def replace(self, **changes: Any) -> ChipConfig:
        """The same chip with some values replaced, checked again.

        Another topology takes its own default DRAM ports, unless they are given too.
        """
        if (
            "dram_routers" not in changes
            and changes.get("topology", self.topology) != self.topology
        ):
            changes["dram_routers"] = ()
        return ChipConfig(**{**self.model_dump(), **changes})

    def to_toml(self) -> str:
        """The configuration as a TOML file that `chip()` reads back."""
        lines, tables = [], []
        for key, value in self.model_dump().items():
            if isinstance(value, dict):
                tables.append(f"\n[{key}]\n" + "".join(f"{k} = {v!r}\n" for k, v in value.items()))
            else:
                lines.append(f"{key} = {_toml(value)}\n")
        return "".join(lines) + "".join(tables)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL, which TOML wants escaped
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def _in_a_sentence(error: ValidationError) -> SlowpokeError:
    """The first thing that is wrong, as one sentence."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, SlowpokeError):
        return cause
    where = ".".join(str(part) for part in first["loc"]) or "chip"
    if first["type"] == "extra_forbidden":
        fields = [*ChipConfig.model_fields, *ProbeCosts.model_fields, *EnergyCosts.model_fields]
        near = difflib.get_close_matches(str(first["loc"][-1]), fields, n=1)
        hint = f"did you mean {near[0]}?" if near else "`slowpoke chips` shows the names"
        return SlowpokeError(f"a chip has no value {where!r}; {hint}")
    return SlowpokeError(
        f"chip value {where} = {first['input']!r}: {first['msg']}; "
        "`slowpoke chips` shows working examples"
    )


def chip_names() -> tuple[str, ...]:
    """Names of the presets in the package."""
    folder = resources.files("slowpoke_mapping") / "presets"
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml")))


def chip(name_or_path: str | Path | ChipConfig, **changes: Any) -> ChipConfig:
    """A chip by the name of a preset or the path of a TOML file, with some values replaced.

    Raises:
        SlowpokeError: No such preset or file, or a value that does not fit.

    >>> chip("paper-4x4").n_cores
    16
    """
    if isinstance(name_or_path, ChipConfig):
        return name_or_path.replace(**changes) if changes else name_or_path
    text = str(name_or_path)
    try:
        if text in chip_names():
            preset = resources.files("slowpoke_mapping") / "presets" / f"{text}.toml"
            content = preset.read_text(encoding="utf-8")
        else:
            content = Path(text).read_text(encoding="utf-8")
        values = tomllib.loads(content)
    except OSError:
        raise SlowpokeError(
            f"{text!r} is neither a preset ({', '.join(chip_names())}) nor a readable TOML file"
        ) from None
    except ValueError as error:  # not UTF-8, not TOML, or a path with a null byte
        raise SlowpokeError(f"{text}: not a TOML file ({error}); see `slowpoke chips`") from None
    config = ChipConfig(**values)
    return config.replace(**changes) if changes else config


def mesh_size(mesh: str | Sequence[int]) -> tuple[int, int]:
    """(columns, rows) of `4x4` or (4, 4).

    Raises:
        SlowpokeError: Not two whole numbers >= 1.
    """
    try:
        parts = mesh.lower().split("x") if isinstance(mesh, str) else list(mesh)
        if any(isinstance(part, float) and part != int(part) for part in parts):
            raise ValueError
        width, height = (int(part) for part in parts)
    except (ValueError, TypeError, OverflowError):
        raise SlowpokeError(
            f"mesh {mesh!r}: write columns x rows as two whole numbers, such as 4x4"
        ) from None
    if width < 1 or height < 1:
        raise SlowpokeError(
            f"mesh {width}x{height}: at least one column and one row are needed, such as 4x4"
        )
    return width, height
