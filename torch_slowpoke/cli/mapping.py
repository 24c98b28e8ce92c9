"""`slowpoke map`: which operator runs on which cores, and what limits each layer group."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torch_slowpoke.cli import options as o
from torch_slowpoke.cli.outputs import STANDARD_OUTPUT, check_outputs, print_table, write_json
from torch_slowpoke.cli.progress import progress_bar


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
    plot: o.Plot = None,
) -> None:
    """Map a model onto a chip and say what limits each layer group."""
    check_outputs(json=json, plot=plot)
    if plot is not None:
        from torch_slowpoke.report.plots import check_format

        check_format(plot)
    from slowpoke_mapping.capacity import RESIDENCIES, Residency
    from slowpoke_mapping.cost import estimate
    from slowpoke_mapping.errors import SlowpokeError
    from slowpoke_mapping.mapper import map_graph
    from slowpoke_mapping.objective import objective_function
    from torch_slowpoke.api import chip_for, operator_graph
    from torch_slowpoke.report.map_table import map_json, map_table

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
        print_table(map_table(mapping, cost))
    if json is not None:
        write_json(map_json(mapping, cost), json)
    if plot is not None:
        from torch_slowpoke.report.map_plot import save_map

        save_map(mapping, plot)
