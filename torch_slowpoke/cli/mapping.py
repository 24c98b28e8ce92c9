"""`slowpoke map`: which operator runs on which cores, and what limits each layer group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torch_slowpoke.cli import options as o
from torch_slowpoke.cli.outputs import STANDARD_OUTPUT, check_outputs, write_json
from torch_slowpoke.cli.progress import progress_bar

if TYPE_CHECKING:
    from rich.table import Table

    from slowpoke_mapping.cost import Estimate
    from slowpoke_mapping.mapping import LayerMapping, Mapping


def map_(
    model: o.Model,
    mesh: o.Mesh = None,
    topology: o.Topology = None,
    chip: o.Chip = None,
    objective: Annotated[
        str, typer.Option("--objective", help="latency, energy or edp.")
    ] = "latency",
    batch: o.Batch = None,
    residency: Annotated[
        str, typer.Option("--residency", help="streamed, or resident: weights stay on the chip.")
    ] = "streamed",
    evaluations: Annotated[
        int | None,
        typer.Option("--evaluations", help="Candidates the search may try; 0 for none.", min=0),
    ] = None,
    seed: o.Seed = 0,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Write the mapping, for analyze --mapping; - for stdout."),
    ] = None,
) -> None:
    """Map a model onto a chip and say what limits each layer group."""
    check_outputs(json=json)
    from rich.console import Console

    from slowpoke_mapping.capacity import RESIDENCIES, Residency
    from slowpoke_mapping.cost import estimate
    from slowpoke_mapping.errors import SlowpokeError
    from slowpoke_mapping.mapper import map_graph
    from slowpoke_mapping.objective import objective_function
    from torch_slowpoke.api import chip_for, operator_graph

    if residency not in RESIDENCIES:
        raise SlowpokeError(f"--residency {residency!r}: choose {' or '.join(RESIDENCIES)}")
    kept: Residency = "resident" if residency == "resident" else "streamed"
    objective_function(objective)
    config = chip_for(None, chip, o.network(mesh, topology, chip))
    with progress_bar() as progress:
        progress("import the model", 0, 0)
        graph = operator_graph(model)
        progress("map it", 0, 0)
        mapping = map_graph(
            graph,
            config,
            objective=objective,
            batch=batch,
            evaluations=evaluations or None,
            search=evaluations != 0,
            seed=seed,
            residency=kept,
            progress=lambda done, total: progress("search", done, total),
        )
    cost = estimate(mapping, residency=kept)
    if json != STANDARD_OUTPUT:
        print(mapping)
        print(cost)
        Console().print(_table(mapping, cost))
    if json is not None:
        write_json(_data(mapping, cost), json)


def _table(mapping: Mapping, cost: Estimate) -> Table:
    """A line for each layer; a group's costs stand beside its first."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("group", justify="right")
    for heading in ("layer", "cuts", "cores"):
        table.add_column(heading, overflow="fold")
    for heading in ("kcycles", "bound", "used"):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, (group, its) in enumerate(zip(mapping.groups, cost.groups, strict=True)):
        for first, layer in enumerate(group.layers):
            costs = ("", "", "")
            if first == 0:
                costs = (f"{its.cycles / 1e3:,.1f}", its.bound, f"{its.utilisation:.0%}")
            name = mapping.graph[layer.operator].name
            head = str(number) if first == 0 else ""
            table.add_row(head, name, _cuts(layer), _cores(layer.cores), *costs)
    return table


def _cuts(layer: LayerMapping) -> str:
    """`k4 h2`: into how many pieces each dimension is cut, where it is."""
    part = layer.part
    cuts = (("k", part.k), ("b", part.b), ("h", part.h), ("w", part.w))
    return " ".join(f"{name}{n}" for name, n in cuts if n > 1) or "whole"


def _cores(cores: tuple[int, ...]) -> str:
    """`0-3,7`: neighbouring ids as ranges, in the order of the pieces.

    >>> _cores((0, 1, 2, 3, 7, 6))
    '0-3,7,6'
    """
    runs: list[list[int]] = []
    for core in cores:
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _data(mapping: Mapping, cost: Estimate) -> dict[str, Any]:
    """The mapping as `Mapping.from_json` reads it, and what it costs."""
    import json
    from dataclasses import asdict

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
