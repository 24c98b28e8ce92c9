"""Convolutions one after the other on a 2x2 mesh: a mapped program that replays in milliseconds."""

from __future__ import annotations

from slowpoke_mapping.chip import chip
from slowpoke_mapping.graph import DimWindow, Edge, Operator, OperatorGraph, OpKind
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.program import Program


def five_convolutions(inferences: int) -> Program:
    """Five 3x3 convolutions of 16 channels on 16x16."""
    box = (1, 16, 16, 16)
    window = (DimWindow(0), DimWindow(), DimWindow(2, low=-1, high=2), DimWindow(3, low=-1, high=2))
    operators = tuple(
        Operator(
            f"conv{i}",
            OpKind.CONV,
            box,
            (Edge(i - 1, box, window),),
            macs=16 * 16 * 9 * 16 * 16,
            weight_elements=16 * 16 * 9,
        )
        for i in range(5)
    )
    config = chip("default", topology="mesh:2x2", message_bytes=1024, packet_bytes=1024)
    return lower(map_graph(OperatorGraph("five", operators), config), inferences=inferences)
