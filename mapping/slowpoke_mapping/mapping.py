"""A mapping: which piece of which operator runs on which core, and where data waits between groups.

Gemini's layer-pipeline spatial mapping (Cai et al., HPCA 2024): layer groups run one after another
and exchange data through DRAM; inside a group every layer has a core group, a partition and a flow
of data, and batch units pipeline through the group.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slowpoke_mapping.bypass import without_concatenations
from slowpoke_mapping.chip import ChipConfig, chip
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import DIMS, OperatorGraph, Regions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = 1

INTERLEAVED = -2
"""As a DRAM port in `FlowOfData`: the data is spread evenly over every port."""


@dataclass(frozen=True, slots=True)
class Part:
    """Into how many pieces each loop dimension of an operator's output is cut."""

    k: int = 1
    b: int = 1
    h: int = 1
    w: int = 1

    def __post_init__(self) -> None:
        if min(self.k, self.b, self.h, self.w) < 1:
            raise SlowpokeError(f"{self}: every dimension is cut into at least one piece")

    @property
    def n_pieces(self) -> int:
        """Number of pieces."""
        return self.k * self.b * self.h * self.w

    @property
    def cuts(self) -> tuple[int, int, int, int]:
        """Cuts in the order of `graph.DIMS` (B, K, H, W)."""
        return (self.b, self.k, self.h, self.w)

    def pieces(self, box: tuple[int, int, int, int]) -> Regions:
        """(n_pieces, 4, 2) regions that tile the box once; sizes differ by at most one.

        Piece number ((k * n_b + b) * n_h + h) * n_w + w: W varies fastest, K slowest.

        Raises:
            SlowpokeError: More cuts than a dimension has indices.

        >>> Part(h=2).pieces((1, 8, 5, 5))[:, 2].tolist()
        [[0, 2], [2, 5]]
        """
        for dim, cut, extent in zip(DIMS, self.cuts, box, strict=True):
            if cut > extent:
                raise SlowpokeError(
                    f"{self} cuts dimension {dim} into {cut}, but its extent is {extent}; "
                    "use at most one piece per index"
                )
        edges = [np.arange(c + 1) * e // c for c, e in zip(self.cuts, box, strict=True)]
        k, b, h, w = np.indices((self.k, self.b, self.h, self.w)).reshape(4, -1)
        result = np.empty((self.n_pieces, 4, 2), dtype=np.int64)
        for axis, index in enumerate((b, k, h, w)):
            result[:, axis, 0] = edges[axis][index]
            result[:, axis, 1] = edges[axis][index + 1]
        return result


@dataclass(frozen=True, slots=True)
class FlowOfData:
    """Which DRAM port a layer's data uses: a port's index, or INTERLEAVED.

    Attributes:
        inputs: Where tensors that enter the graph are read. (Tensors of an earlier group are read
            where their producer wrote them.)
        weights: Where the weights are read.
        outputs: Where the output is written, if a later group or the outside reads it.
    """

    inputs: int = INTERLEAVED
    weights: int = INTERLEAVED
    outputs: int = INTERLEAVED


@dataclass(frozen=True, slots=True)
class LayerMapping:
    """One operator on its core group: piece i runs on cores[i]."""

    operator: int
    part: Part
    cores: tuple[int, ...]
    flow: FlowOfData = FlowOfData()


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers that are on the chip together and pipeline over batch units."""

    layers: tuple[LayerMapping, ...]


@dataclass(frozen=True)
class Mapping:
    """A graph on a chip.

    Attributes:
        graph: What runs.
        chip: Where it runs.
        groups: Layer groups, in the order they run; each operator is in exactly one.
        units_per_batch: Batch units that pipeline through a group before the next group starts.
        samples_per_unit: Samples of one unit; scales every tensor's B extent.
    """

    graph: OperatorGraph
    chip: ChipConfig
    groups: tuple[LayerGroup, ...]
    units_per_batch: int = 1
    samples_per_unit: int = 1

    def __post_init__(self) -> None:
        if self.units_per_batch < 1 or self.samples_per_unit < 1:
            raise SlowpokeError(
                f"batch of {self.units_per_batch} units x {self.samples_per_unit} samples: "
                "both are whole numbers >= 1"
            )
        group_of: dict[int, int] = {}
        for g, group in enumerate(self.groups):
            for layer in group.layers:
                self._check_layer(layer)
                if layer.operator in group_of:
                    raise SlowpokeError(f"{self._name(layer)} is mapped twice; map it once")
                group_of[layer.operator] = g
        for index, operator in enumerate(self.graph):
            if index not in group_of:
                raise SlowpokeError(f"operator {operator.name!r} is not mapped; put it in a group")
            for edge in operator.inputs:
                if edge.producer >= 0 and group_of[edge.producer] > group_of[index]:
                    raise SlowpokeError(
                        f"operator {operator.name!r} is in group {group_of[index]} but reads "
                        f"{self.graph[edge.producer].name!r} of group {group_of[edge.producer]}; "
                        "a producer's group does not come later"
                    )

    def _name(self, layer: LayerMapping) -> str:
        return f"operator {self.graph[layer.operator].name!r}"

    def _check_layer(self, layer: LayerMapping) -> None:
        if not 0 <= layer.operator < len(self.graph):
            raise SlowpokeError(
                f"a layer maps operator {layer.operator}: the graph has 0 to {len(self.graph) - 1}"
            )
        operator = self.graph[layer.operator]
        if layer.part.n_pieces != len(layer.cores):
            raise SlowpokeError(
                f"{self._name(layer)}: {layer.part} makes {layer.part.n_pieces} pieces for "
                f"{len(layer.cores)} cores; the numbers are equal"
            )
        if len(set(layer.cores)) != len(layer.cores) or not all(
            0 <= core < self.chip.n_cores for core in layer.cores
        ):
            raise SlowpokeError(
                f"{self._name(layer)}: cores {layer.cores} must be different and within "
                f"0 to {self.chip.n_cores - 1}"
            )
        box = self.box(layer.operator)
        for dim, (cut, extent) in enumerate(zip(layer.part.cuts, box, strict=True)):
            if cut > extent or (cut > 1 and dim not in operator.partitionable):
                raise SlowpokeError(
                    f"{self._name(layer)}: {layer.part} cuts dimension {DIMS[dim]} of extent "
                    f"{extent} into {cut}; it can be cut along "
                    f"{', '.join(DIMS[d] for d in operator.partitionable) or 'nothing'}"
                )
        for port in (layer.flow.inputs, layer.flow.weights, layer.flow.outputs):
            if port != INTERLEAVED and not 0 <= port < len(self.chip.dram_ports):
                raise SlowpokeError(
                    f"{self._name(layer)}: DRAM port {port} does not exist; use 0 to "
                    f"{len(self.chip.dram_ports) - 1} or {INTERLEAVED} for interleaved"
                )

    @property
    def samples_per_batch(self) -> int:
        """Samples (inferences) of a whole batch."""
        return self.units_per_batch * self.samples_per_unit

    @cached_property
    def group_of(self) -> dict[int, int]:
        """Layer group of each operator."""
        return {layer.operator: g for g, group in enumerate(self.groups) for layer in group.layers}

    @cached_property
    def _flows(self) -> dict[int, FlowOfData]:
        return {layer.operator: layer.flow for group in self.groups for layer in group.layers}

    @cached_property
    def _leaving(self) -> frozenset[int]:
        group_of = self.group_of
        return frozenset(self.graph.outputs) | {
            edge.producer
            for index, operator in enumerate(self.graph)
            for edge in operator.inputs
            if edge.producer >= 0 and group_of[edge.producer] != group_of[index]
        }

    def flow(self, operator: int) -> FlowOfData:
        """Flow of data of an operator."""
        return self._flows[operator]

    def leaves_group(self, operator: int) -> bool:
        """Whether an operator's output goes to DRAM: a later group or the outside reads it."""
        return operator in self._leaving

    def box(self, operator: int) -> tuple[int, int, int, int]:
        """Output box of an operator for one batch unit: B is scaled by the samples of a unit."""
        b, k, h, w = self.graph[operator].box
        return (b * self.samples_per_unit, k, h, w)

    def pieces(self, layer: LayerMapping) -> Regions:
        """(n_pieces, 4, 2) output regions of a layer's pieces for one batch unit."""
        return layer.part.pieces(self.box(layer.operator))

    def to_json(self) -> str:
        """JSON text that `from_json` reads back with the same graph."""
        groups = [
            [[layer.operator, [layer.part.k, layer.part.b, layer.part.h, layer.part.w],
              list(layer.cores), [layer.flow.inputs, layer.flow.weights, layer.flow.outputs]]
             for layer in group.layers]
            for group in self.groups
        ]  # fmt: skip
        return json.dumps(
            {
                "schema": SCHEMA,
                "model": self.graph.name,
                "graph": self.graph.fingerprint,
                "chip": self.chip.model_dump(),
                "units_per_batch": self.units_per_batch,
                "samples_per_unit": self.samples_per_unit,
                "operators": [operator.name for operator in self.graph],
                "groups": groups,
            }
        )

    @staticmethod
    def from_json(text: str, graph: OperatorGraph) -> Mapping:
        """The mapping of a JSON text, checked against the graph it was made for.

        Raises:
            SlowpokeError: Not such a text, or made for another graph.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            if data["schema"] != SCHEMA:
                raise SlowpokeError(
                    f"mapping of schema {data['schema']!r}: this version reads {SCHEMA}; map again"
                )
            if data["graph"] != graph.fingerprint:
                graph = without_concatenations(graph)  # as the mapper does
            if data["graph"] != graph.fingerprint:
                raise SlowpokeError(
                    f"the mapping was made for another graph ({data['model']!r}, "
                    f"{data['graph']}) than {graph.name!r} ({graph.fingerprint}); map again"
                )
            groups = tuple(
                LayerGroup(
                    tuple(
                        LayerMapping(op, Part(*part), tuple(cores), FlowOfData(*flow))
                        for op, part, cores, flow in group
                    )
                )
                for group in data["groups"]
            )
            return Mapping(
                graph,
                chip(ChipConfig(**data["chip"])),
                groups,
                data["units_per_batch"],
                data["samples_per_unit"],
            )
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise SlowpokeError(
                f"not a mapping file ({type(error).__name__}: {error}); write one with "
                "`slowpoke map --json`"
            ) from None

    def plot(self, path: str | Path | None = None, groups: Sequence[int] | None = None) -> Figure:
        """A figure of the chip, a panel a layer group: cores coloured by layer, links by load.

        Args:
            path: Where to write it as well; None for nowhere.
            groups: Numbers of the groups to draw; None for the first twelve.

        Raises:
            SlowpokeError: A group that does not exist.
        """
        from slowpoke_mapping.picture import mapping_figure

        figure = mapping_figure(self, groups)
        if path is not None:
            figure.savefig(path)
        return figure

    def save(self, path: str | Path) -> None:
        """Write `to_json()` to a file."""
        Path(path).write_text(self.to_json() + "\n")

    def __str__(self) -> str:
        return (
            f"{self.graph.name} on {self.chip.network}: {len(self.groups)} layer groups, "
            f"batch of {self.units_per_batch} units x {self.samples_per_unit} samples"
        )
