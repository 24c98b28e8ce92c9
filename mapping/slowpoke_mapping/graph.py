"""The operator graph: what a model computes, in the four loop dimensions that can be partitioned.

Every tensor, whatever its rank, is seen as a box (B, K, H, W): batch, channels or features, and
two dimensions of space or sequence. A front-end says once how it folds a tensor into that box; from
then on regions are exact integer rectangles.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError

DIMS = ("b", "k", "h", "w")
"""Names of the four loop dimensions, in the order of every box, region and partition here."""
B, K, H, W = range(4)
FULL = -1
"""As `DimWindow.dim`: the whole input extent is needed, whatever output is asked for."""

GRAPH_INPUT = -1
"""As `Edge.producer`: the tensor enters the graph from outside (through DRAM)."""

Box = tuple[int, int, int, int]
Regions = NDArray[np.int64]
"""(..., 4, 2): for each of the four dimensions, half-open [low, high)."""


class OpKind(enum.StrEnum):
    """What an operator does, as far as mapping and reports care."""

    CONV = "conv"
    LINEAR = "linear"
    MATMUL = "matmul"
    ATTENTION = "attention"
    POOL = "pool"
    ELEMENTWISE = "elementwise"
    CONCAT = "concat"
    SOFTMAX = "softmax"
    NORM = "norm"
    EMBEDDING = "embedding"
    REDUCE = "reduce"
    RESIZE = "resize"
    MOVE = "move"
    """Data is only rearranged (permute before reshape, window partition): bytes, no MACs."""


@dataclass(frozen=True, slots=True)
class DimWindow:
    """What one input dimension contributes to an output range, as integer arithmetic.

    For output indices [a, c) of output dimension `dim`, the input indices needed are
    [mult * (a * num // den) + low, mult * ((c - 1) * num // den) + high), clipped to the input.
    A convolution has mult = stride, low = -padding, high = dilation * (kernel - 1) + 1 - padding;
    a concatenation low = -offset, high = 1 - offset; a grouped convolution den = outputs per group,
    mult = high = inputs per group. `dim = FULL` needs the whole input dimension.
    """

    dim: int = FULL
    num: int = 1
    den: int = 1
    mult: int = 1
    low: int = 0
    high: int = 1

    def __post_init__(self) -> None:
        if not FULL <= self.dim < 4 or self.num < 0 or self.den < 1:
            raise SlowpokeError(
                f"{self}: dim is -1..3, num >= 0 and den >= 1; use DimWindow() for 'all of it'"
            )


IDENTITY: tuple[DimWindow, DimWindow, DimWindow, DimWindow] = (
    DimWindow(B), DimWindow(K), DimWindow(H), DimWindow(W),
)  # fmt: skip
"""The same region of the input as of the output: element-wise operators."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor flows into an operator.

    Attributes:
        producer: Index of the producing operator, or GRAPH_INPUT.
        box: Extent of the producer's output as (B, K, H, W), per sample of the batch the graph was
            traced with.
        windows: For each of the four dimensions of `box`, which part an output region needs.
        element_bytes: Bytes of one element in the model's own dtype.
        name: Name of the tensor, in the user's terms where there is one.
    """

    producer: int
    box: Box
    windows: tuple[DimWindow, DimWindow, DimWindow, DimWindow] = IDENTITY
    element_bytes: float = 4.0
    name: str = ""

    @property
    def elements(self) -> int:
        """Number of elements of the whole tensor."""
        return int(np.prod(self.box, dtype=np.int64))

    def needed(self, output_regions: Regions, scale_b: int = 1) -> Regions:
        """The input regions that output regions need.

        Args:
            output_regions: (..., 4, 2) regions of the consumer's output.
            scale_b: Samples per batch unit; scales this tensor's B extent (design.md section 4).

        Returns:
            (..., 4, 2) regions of the producer's output, clipped; an empty range has low == high.
        """
        box = (self.box[0] * scale_b, *self.box[1:])
        result = np.empty_like(output_regions)
        for i, window in enumerate(self.windows):
            if window.dim == FULL:
                result[..., i, 0] = 0
                result[..., i, 1] = box[i]
                continue
            low = output_regions[..., window.dim, 0]
            last = output_regions[..., window.dim, 1] - 1
            start = window.mult * (low * window.num // window.den) + window.low
            stop = window.mult * (last * window.num // window.den) + window.high
            result[..., i, 0] = np.clip(start, 0, box[i])
            result[..., i, 1] = np.maximum(np.clip(stop, 0, box[i]), result[..., i, 0])
            empty = last < low
            result[..., i, 1] = np.where(empty, result[..., i, 0], result[..., i, 1])
        return result


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator with its folded followers (batch-norm, activation).

    Attributes:
        name: Module path in the user's model (`layer3.0.conv2`), unique in the graph.
        kind: What it does.
        box: Output extent (B, K, H, W) for the batch the graph was traced with.
        inputs: Tensors that flow in; constants and weights are not among them.
        macs: Multiply-accumulates of the whole operator; FLOPs are 2 x MACs.
        vector_ops: Element operations that are no MACs (comparisons, additions, exponentials),
            those of folded followers included.
        weight_elements: Parameters read (shared parameters are listed once in `shared_weights`).
        weight_dims: Output dimensions that index the weights: a piece needs the weight elements in
            proportion to its share of these dimensions (a convolution: K).
        partitionable: Output dimensions that may be cut.
        shape: Output shape in the user's terms, before folding into the box.
        element_bytes: Bytes of one output element in the model's own dtype.
        weight_element_bytes: Bytes of one weight element in the model's own dtype.
        target: Name of the framework's operator (`aten.conv2d.default`).
        folded: Names of what was folded into it.
        weights_key: Operators with the same non-empty key use the same parameters (tied weights).
    """

    name: str
    kind: OpKind
    box: Box
    inputs: tuple[Edge, ...]
    macs: int = 0
    vector_ops: int = 0
    weight_elements: int = 0
    weight_dims: tuple[int, ...] = (K,)
    partitionable: tuple[int, ...] = (B, K, H, W)
    shape: tuple[int, ...] = ()
    element_bytes: float = 4.0
    weight_element_bytes: float = 4.0
    target: str = ""
    folded: tuple[str, ...] = ()
    weights_key: str = ""

    @property
    def flops(self) -> int:
        """2 x MACs, the convention of printed FLOP figures."""
        return 2 * self.macs

    @property
    def elements(self) -> int:
        """Number of output elements."""
        return int(np.prod(self.box, dtype=np.int64))

    def __post_init__(self) -> None:
        if any(extent < 1 for extent in self.box):
            raise SlowpokeError(
                f"operator {self.name!r} has output box {self.box}: every extent is at least 1; "
                "check the example input for an empty dimension"
            )
        if self.macs < 0 or self.vector_ops < 0 or self.weight_elements < 0:
            raise SlowpokeError(f"operator {self.name!r}: work and weights cannot be negative")


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """Operators in topological order, and what the import left out or approximated.

    Attributes:
        name: Name of the model.
        operators: Every operator after those it reads.
        notes: What was folded, skipped or approximated, a sentence each.
        n_parameters: Parameters of the model, shared ones once.
        outputs: Indices of the operators whose outputs leave the graph.
    """

    name: str
    operators: tuple[Operator, ...]
    notes: tuple[str, ...] = ()
    n_parameters: int = 0
    outputs: tuple[int, ...] = ()
    _consumers: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.operators:
            raise SlowpokeError(
                f"the graph of {self.name!r} has no operator: nothing is left to map; "
                "give a model that computes something from its input"
            )
        names: set[str] = set()
        consumers: list[list[int]] = [[] for _ in self.operators]
        for index, operator in enumerate(self.operators):
            if operator.name in names:
                raise SlowpokeError(f"two operators are named {operator.name!r}: names are unique")
            names.add(operator.name)
            for edge in operator.inputs:
                if not GRAPH_INPUT <= edge.producer < index:
                    raise SlowpokeError(
                        f"operator {operator.name!r} reads operator {edge.producer}: operators "
                        "come in topological order, each after those it reads"
                    )
                if edge.producer >= 0:
                    consumers[edge.producer].append(index)
                    if edge.box != self.operators[edge.producer].box:
                        raise SlowpokeError(
                            f"operator {operator.name!r} reads a tensor of box {edge.box}, but "
                            f"{self.operators[edge.producer].name!r} makes "
                            f"{self.operators[edge.producer].box}"
                        )
        if not self.outputs:
            object.__setattr__(
                self, "outputs", tuple(i for i, users in enumerate(consumers) if not users)
            )
        object.__setattr__(
            self, "_consumers", tuple(tuple(dict.fromkeys(users)) for users in consumers)
        )

    def __len__(self) -> int:
        return len(self.operators)

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.operators)

    def __getitem__(self, index: int) -> Operator:
        return self.operators[index]

    def consumers(self, index: int) -> tuple[int, ...]:
        """Indices of the operators that read operator `index`'s output."""
        return self._consumers[index]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the whole graph, for the batch it was traced with."""
        return sum(operator.macs for operator in self.operators)

    @property
    def flops(self) -> int:
        """2 x MACs."""
        return 2 * self.macs

    @property
    def weight_elements(self) -> int:
        """Parameters that operators read; tied ones once."""
        total, seen = 0, set()
        for operator in self.operators:
            if operator.weights_key:
                if operator.weights_key in seen:
                    continue
                seen.add(operator.weights_key)
            total += operator.weight_elements
        return total

    @property
    def weight_bytes(self) -> int:
        """Bytes of the parameters in the model's own dtypes; tied ones once."""
        total, seen = 0.0, set()
        for operator in self.operators:
            if operator.weights_key:
                if operator.weights_key in seen:
                    continue
                seen.add(operator.weights_key)
            total += operator.weight_elements * operator.weight_element_bytes
        return int(total)

    @property
    def fingerprint(self) -> str:
        """16 hex digits that change when any operator, edge or size changes."""
        text = json.dumps(
            [
                (o.name, o.kind, o.box, o.macs, o.vector_ops, o.weight_elements, o.weight_dims,
                 [(e.producer, e.box, [(w.dim, w.num, w.den, w.mult, w.low, w.high)
                                       for w in e.windows]) for e in o.inputs])
                for o in self.operators
            ]
        )  # fmt: skip
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return (
            f"{self.name}: {len(self)} operators, {self.macs / 1e9:.3f} GMAC, "
            f"{self.n_parameters / 1e6:.2f} M parameters"
        )
