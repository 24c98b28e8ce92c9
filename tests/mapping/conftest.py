"""Small operator graphs made by hand, so that every number can be had with pencil and paper."""

from __future__ import annotations

import numpy as np
import pytest

from slowpoke_mapping.graph import (
    GRAPH_INPUT,
    Box,
    DimWindow,
    Edge,
    Operator,
    OperatorGraph,
    OpKind,
)  # fmt: skip


class Build:
    """Operators by hand."""

    @staticmethod
    def conv(
        name: str, source: int, box: Box, k: int, kernel: int = 1, stride: int = 1, pad: int = 0
    ) -> Operator:
        b, c, h, w = box
        height = (h + 2 * pad - kernel) // stride + 1
        width = (w + 2 * pad - kernel) // stride + 1
        spatial = {"mult": stride, "low": -pad, "high": kernel - pad}
        edge = Edge(
            source, box,
            (DimWindow(0), DimWindow(), DimWindow(2, **spatial), DimWindow(3, **spatial)),
            name="x" if source == GRAPH_INPUT else "",
        )  # fmt: skip
        return Operator(
            name, OpKind.CONV, (b, k, height, width), (edge,),
            macs=b * k * height * width * c * kernel * kernel,
            weight_elements=k * c * kernel * kernel,
        )  # fmt: skip

    @staticmethod
    def add(name: str, left: int, right: int, box: Box) -> Operator:
        return Operator(
            name, OpKind.ELEMENTWISE, box, (Edge(left, box), Edge(right, box)),
            vector_ops=int(np.prod(box)),
        )  # fmt: skip

    @staticmethod
    def linear(name: str, source: int, box: Box, features: int) -> Operator:
        edge = Edge(source, box, (DimWindow(0), DimWindow(), DimWindow(), DimWindow()))
        inputs = int(np.prod(box[1:]))
        return Operator(
            name, OpKind.LINEAR, (box[0], features, 1, 1), (edge,),
            macs=box[0] * inputs * features, weight_elements=inputs * features,
            partitionable=(0, 1),
        )  # fmt: skip

    @staticmethod
    def graph(*operators: Operator, name: str = "hand-made") -> OperatorGraph:
        return OperatorGraph(name, operators)

    def chain(self, channels: int = 8, size: int = 8, layers: int = 3) -> OperatorGraph:
        """3x3 convolutions, each reading the one before."""
        operators: list[Operator] = []
        box: Box = (1, channels, size, size)
        for i in range(layers):
            operators.append(self.conv(f"conv{i}", i - 1, box, channels, 3, 1, 1))
        return self.graph(*operators)

    def residual(self, channels: int = 16, size: int = 8) -> OperatorGraph:
        """conv, then two convolutions whose result is added to the first one's."""
        box: Box = (1, channels, size, size)
        return self.graph(
            self.conv("stem", GRAPH_INPUT, (1, 3, size, size), channels, 3, 1, 1),
            self.conv("a", 0, box, channels, 3, 1, 1),
            self.conv("b", 1, box, channels, 3, 1, 1),
            self.add("sum", 2, 0, box),
            self.linear("head", 3, box, 10),
        )


@pytest.fixture
def build() -> Build:
    return Build()
