"""A mapping as a table and as JSON: layer groups, parts, cores, and what bounds each group."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from rich.table import Table

from slowpoke_mapping.cost import Estimate, GroupEstimate, estimate
from slowpoke_mapping.mapping import LayerMapping, Mapping

MANY_CORES = 8


def map_table(mapping: Mapping, cost: Estimate | None = None) -> Table:
    """One line a layer, a section a layer group; bounds are cycles of a batch.

    Args:
        mapping: What to show.
        cost: Its estimate; None to make it.
    """
    cost = cost or estimate(mapping)
    table = Table(title=str(mapping), caption=str(cost), title_justify="left",
                  caption_justify="left")  # fmt: skip
    for name in ("group", "layer", "part", "cores"):
        table.add_column(name, overflow="fold")
    for name in ("cycles", "compute", "network", "DRAM", "bound", "busy"):
        table.add_column(name, justify="right")
    for g, (group, bounds) in enumerate(zip(mapping.groups, cost.groups, strict=True)):
        for i, layer in enumerate(group.layers):
            row = [str(g) if i == 0 else "", mapping.graph[layer.operator].name, part_text(layer),
                   cores_text(layer.cores)]  # fmt: skip
            table.add_row(*row, *(_bounds(bounds) if i == 0 else []))
        table.add_section()
    return table


def part_text(layer: LayerMapping) -> str:
    """The cuts of a layer that are more than one.

    >>> from slowpoke_mapping.mapping import Part
    >>> part_text(LayerMapping(0, Part(k=2, h=4), tuple(range(8))))
    'k2 h4'
    """
    part = layer.part
    cuts = (("k", part.k), ("b", part.b), ("h", part.h), ("w", part.w))
    return " ".join(f"{name}{n}" for name, n in cuts if n > 1) or "whole"


def cores_text(cores: tuple[int, ...]) -> str:
    """Cores of a layer in the order of its pieces; runs are joined.

    >>> cores_text((0, 1, 2, 3, 7, 6))
    '0-3, 7-6'
    """
    runs: list[list[int]] = []
    for core in cores:
        if runs and len(runs[-1]) > 1 and core - runs[-1][-1] == runs[-1][1] - runs[-1][0]:
            runs[-1].append(core)
        elif runs and len(runs[-1]) == 1 and abs(core - runs[-1][0]) == 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    if len(parts) > MANY_CORES:
        return f"{', '.join(parts[:MANY_CORES])}, ... ({len(cores)})"
    return ", ".join(parts)


def _bounds(group: GroupEstimate) -> list[str]:
    times = (group.cycles, group.compute_cycles, group.link_cycles, group.port_cycles)
    return [*(f"{t:,.0f}" for t in times), group.bound, f"{group.utilisation:.0%}"]


def map_json(mapping: Mapping, cost: Estimate | None = None) -> dict[str, Any]:
    """The mapping as `Mapping.from_json` reads it, and what it costs for a batch.

    Args:
        mapping: What to write.
        cost: Its estimate; None to make it.
    """
    cost = cost or estimate(mapping)
    data: dict[str, Any] = json.loads(mapping.to_json())
    return data | {
        "cycles": cost.cycles,
        "byte_hops": cost.byte_hops,
        "dram_bytes": cost.dram_bytes,
        "energy_pj": cost.energy_pj,
        "edp": cost.edp,
        "n_groups": len(mapping.groups),
        "estimates": [asdict(group) for group in cost.groups],
    }
