"""What fits in a core's buffer: footprints of pieces, which weights stay, which are fetched again.

A core holds the weights of its pieces, their inputs for as many batch units as may be under way,
and one output each (Gemini, HPCA 2024: inputs doubled plus weights). What does not fit is fetched
again for every unit, in slices; nothing can be done when even one output row with its input and
its slice of the weights is too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import CapacityError
from slowpoke_mapping.graph import H, Operator, Regions
from slowpoke_mapping.mapping import Mapping
from slowpoke_mapping.ragged import Ints

Residency = Literal["streamed", "resident"]
RESIDENCIES = ("streamed", "resident")


def volume(regions: Regions) -> Ints:
    """(...,) number of indices in each region."""
    sides: Ints = np.maximum(regions[..., 1] - regions[..., 0], 0)
    return np.asarray(sides.prod(axis=-1), dtype=np.int64)


def weight_share(operator: Operator, regions: Regions, box: Sequence[int]) -> NDArray[np.float64]:
    """(n,) part of an operator's weights that each output region needs."""
    share: NDArray[np.float64] = np.ones(regions.shape[:-2])
    for dim in operator.weight_dims:
        share = share * (regions[..., dim, 1] - regions[..., dim, 0]) / box[dim]
    return share


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the pieces of one layer need on their cores, for one batch unit.

    Attributes:
        weight_bytes: (n_pieces,) weights.
        input_bytes: (n_pieces,) inputs, for as many units as are buffered.
        output_bytes: (n_pieces,) output of one unit.
        row_bytes: (n_pieces,) one output row of one channel, with its input and weight slice.
    """

    weight_bytes: NDArray[np.float64]
    input_bytes: NDArray[np.float64]
    output_bytes: NDArray[np.float64]
    row_bytes: NDArray[np.float64]


def footprint(
    operator: Operator,
    regions: Regions,
    box: Sequence[int],
    scale_b: int,
    bytes_per_element: float,
    buffered_units: Sequence[int],
) -> Footprint:
    """What each piece of a layer needs in its core's buffer.

    Args:
        operator: The layer.
        regions: (n_pieces, 4, 2) its pieces.
        box: Its output box for one unit.
        scale_b: Samples of a unit.
        bytes_per_element: Of the chip.
        buffered_units: For each input, how many units of it are held at once.
    """
    weights = operator.weight_elements * bytes_per_element * weight_share(operator, regions, box)
    row = regions.copy()
    row[:, : H + 1, 1] = np.minimum(row[:, : H + 1, 0] + 1, row[:, : H + 1, 1])
    slices = operator.weight_elements * bytes_per_element * weight_share(operator, row, box)
    inputs = np.zeros(len(regions))
    row_inputs = np.zeros(len(regions))
    for edge, units in zip(operator.inputs, buffered_units, strict=True):
        inputs += units * bytes_per_element * volume(edge.needed(regions, scale_b))
        row_inputs += bytes_per_element * volume(edge.needed(row, scale_b))
    outputs = bytes_per_element * volume(regions).astype(np.float64)
    return Footprint(
        weights, inputs, outputs, slices + row_inputs + bytes_per_element * volume(row)
    )


@dataclass(frozen=True, slots=True)
class Residence:
    """How often the weights of each piece of a group are read.

    Attributes:
        passes: (n_pieces of the group,) 0: once a batch, they stay; n > 0: n times every unit.
        demand_bytes: (n_cores,) what each core would hold if everything stayed.
    """

    passes: NDArray[np.int64]
    demand_bytes: NDArray[np.float64]


def residence(
    mapping: Mapping,
    operators: Sequence[int],
    footprints: Sequence[Footprint],
    cores: Ints,
    residency: Residency,
) -> Residence:
    """Which weights of a group stay on the chip.

    Args:
        mapping: Where the pieces are.
        operators: Operator of each layer of the group.
        footprints: Of each layer of the group.
        cores: (n_pieces,) core of each piece, layer after layer.
        residency: `streamed`: what does not fit is fetched again; `resident`: it must fit.

    Raises:
        CapacityError: One output row with its input and weight slice does not fit; or, when
            `resident`, the weights and activations of a core's pieces do not.
    """
    sram = float(mapping.chip.sram_bytes)
    weights = np.concatenate([f.weight_bytes for f in footprints])
    activations = np.concatenate([f.input_bytes + f.output_bytes for f in footprints])
    rows = np.concatenate([f.row_bytes for f in footprints])
    layer = np.repeat(np.arange(len(footprints)), [len(f.row_bytes) for f in footprints])
    worst = int(rows.argmax())
    if rows[worst] > sram:
        name = mapping.graph[operators[int(layer[worst])]].name
        raise CapacityError(
            f"operator {name!r}: one output row with its input and weight slice needs "
            f"{rows[worst]:,.0f} bytes, but a core's buffer has {sram:,.0f}; "
            f"set sram_bytes to at least {np.ceil(rows[worst]):.0f}",
            demand_bytes=float(rows[worst]),
            bound_bytes=sram,
            tensor=name,
        )
    n_cores = mapping.chip.n_cores
    demand: NDArray[np.float64] = np.bincount(
        cores, weights + activations, minlength=n_cores
    ).astype(np.float64)
    passes = np.zeros(len(cores), dtype=np.int64)
    crowded = np.flatnonzero(demand > sram)
    if len(crowded) and residency == "resident":
        _refuse(mapping, operators, layer, weights, activations, cores, demand)
    for core in crowded:
        here = np.flatnonzero(cores == core)
        _stream(passes, here, weights[here], float(activations[here].sum()), sram)
    return Residence(passes, demand)


def _stream(
    passes: Ints, here: Ints, weights: NDArray[np.float64], activation_bytes: float, sram: float
) -> None:
    """Mark the largest weights of one core as fetched again until the rest fits."""
    # activations beyond half of the buffer pass through it row by row
    held = min(activation_bytes, sram / 2)
    chunks = max(int(np.ceil(activation_bytes / (sram / 2))), 1)
    staying = float(weights.sum())
    for i in np.argsort(-weights, kind="stable"):
        if staying + held <= sram or weights[i] == 0:
            return
        passes[here[i]] = chunks
        staying -= float(weights[i])


def _refuse(
    mapping: Mapping,
    operators: Sequence[int],
    layer: Ints,
    weights: NDArray[np.float64],
    activations: NDArray[np.float64],
    cores: Ints,
    demand: NDArray[np.float64],
) -> None:
    sram = float(mapping.chip.sram_bytes)
    core = int(demand.argmax())
    here = np.flatnonzero(cores == core)
    largest = here[int((weights + activations)[here].argmax())]
    name = mapping.graph[operators[int(layer[largest])]].name
    n_cores = int(np.ceil((weights + activations).sum() / sram))
    side = int(np.ceil(np.sqrt(n_cores)))
    raise CapacityError(
        f"operator {name!r} does not stay on the chip: core {core} would hold "
        f"{demand[core]:,.0f} bytes of weights and activations, its buffer has {sram:,.0f}; "
        f"use sram_bytes >= {np.ceil(demand[core]):.0f}, a mesh of at least {side}x{side}, "
        'or residency="streamed"',
        demand_bytes=float(demand[core]),
        bound_bytes=sram,
        tensor=name,
    )
