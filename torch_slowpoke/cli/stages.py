"""`slowpoke graph`, `simulate` and `record`: the pipeline's stages, one by one."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from torch_slowpoke.cli import options as o
from torch_slowpoke.cli.outputs import STANDARD_OUTPUT, check_outputs, print_table, write_json
from torch_slowpoke.cli.progress import Report, progress_bar

if TYPE_CHECKING:
    from slowpoke_mapping.mapping import Mapping


def mapped(
    model: str,
    mesh: str | None,
    topology: str | None,
    chip: str | None,
    batch: int | None,
    seed: int,
    progress: Report,
) -> Mapping:
    """The model of a command line on its chip."""
    from slowpoke_mapping.mapper import map_graph
    from torch_slowpoke.api import chip_for, operator_graph

    config = chip_for(None, chip, o.network(mesh, topology, chip))
    progress("import the model", 0, 3)
    graph = operator_graph(model)
    progress("map it", 1, 3)
    return map_graph(graph, config, batch=batch, seed=seed)


def graph(
    model: o.Model,
    by: Annotated[str, typer.Option("--by", help="operator, module or kind.")] = "operator",
    depth: Annotated[
        int, typer.Option("--depth", help="Parts of the path that --by module keeps.", min=1)
    ] = 1,
    json: o.Json = None,
    dot: Annotated[Path | None, typer.Option("--dot", help="Write the graph for Graphviz.")] = None,
) -> None:
    """Show a model as operators: MACs, weight and activation bytes."""
    check_outputs(json=json, dot=dot)
    from torch_slowpoke.api import operator_graph
    from torch_slowpoke.report.graph_table import graph_dot, graph_json, graph_table

    with progress_bar() as progress:
        progress("import the model", 0, 1)
        operators = operator_graph(model)
    if json != STANDARD_OUTPUT:
        print_table(graph_table(operators, by, depth))
    if json is not None:
        write_json(graph_json(operators), json)
    if dot is not None:
        dot.write_text(graph_dot(operators), encoding="utf-8")


def simulate(
    model: o.Model,
    mesh: o.Mesh = None,
    topology: o.Topology = None,
    chip: o.Chip = None,
    fault: o.Faults = None,
    noise: o.Noise = "released",
    inferences: o.Inferences = 16,
    batch: o.Batch = None,
    engine: o.Engine = "compiled",
    seed: o.Seed = 0,
    json: o.Json = None,
    plot: o.Plot = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Write every record (Parquet).")
    ] = None,
) -> None:
    """Run a model on the simulated chip and say where the time goes."""
    check_outputs(json=json, plot=plot, trace=trace)
    from slowpoke_mapping.lowering import lower
    from slowpoke_sim.machine import run
    from slowpoke_sim.parquet_sink import ParquetSink
    from torch_slowpoke.report.plots import check_format, run_figure, save_figure
    from torch_slowpoke.report.text import busiest_text, stalls_text
    from torch_slowpoke.report.timing_table import timing_dict, timing_tables

    if plot is not None:
        check_format(plot)
    with progress_bar() as progress:
        mapping = mapped(model, mesh, topology, chip, batch, seed, progress)
        program = lower(mapping, inferences=inferences)
        progress("simulate", 2, 3)
        with ParquetSink(trace) if trace else nullcontext() as sink:
            result = run(program, fault or (), noise, seed, engine, sink=sink, trace=False)
    timing, on = result.timing, program.chip
    if json != STANDARD_OUTPUT:
        print(f"{program} on {on.network}")
        print(f"time      {1e3 * timing.makespan_cycles / on.clock_hz:.3f} ms")
        print(f"cores     {stalls_text(timing)}")
        print(f"busiest   {busiest_text(timing, on)}")
        for injected, services in zip(result.faults, result.exposure, strict=True):
            print(f"injected  {injected}: {services:,} services exposed")
        for table in timing_tables(timing, on):
            print_table(table)
    if json is not None:
        write_json({"schema": 1, "model": program.model, **timing_dict(timing, on)}, json)
    if plot is not None:
        title = f"{program.model} on {on.network}"
        save_figure(run_figure(on, timing, faults=result.faults, title=title), plot)


def record(
    model: o.Model,
    mesh: o.Mesh = None,
    topology: o.Topology = None,
    chip: o.Chip = None,
    fault: o.Faults = None,
    noise: o.Noise = "released",
    inferences: o.Inferences = 16,
    batch: o.Batch = None,
    probes: o.Probes = "full",
    mode: Annotated[
        str, typer.Option("--mode", help="static (a slot a pattern) or hash (Algorithm 1).")
    ] = "static",
    epochs: Annotated[int, typer.Option("--epochs", help="Cells of a pattern.", min=1)] = 8,
    seed: o.Seed = 0,
    json: o.Json = None,
) -> None:
    """Say what the recorder keeps of a run, in counted bytes."""
    check_outputs(json=json)
    from slowpoke_mapping.lowering import lower
    from slowpoke_sim.machine import simulate as streamed
    from slowpoke_tracer.probes import instrument
    from slowpoke_tracer.recorder import Recorder, SketchConfig
    from torch_slowpoke.report.record_table import record_dict, record_lines, record_table

    config = SketchConfig(mode=mode, n_epochs=epochs)  # type: ignore[arg-type]  # it checks
    with progress_bar() as progress:
        mapping = mapped(model, mesh, topology, chip, batch, seed, progress)
        program = instrument(lower(mapping, inferences=inferences), probes, config)
        progress("simulate", 2, 3)
        recorder = Recorder(program, config)
        sketch = streamed(program, fault or (), noise, seed, sink=recorder)
    if json != STANDARD_OUTPUT:
        print(f"{program} on {program.chip.network}")
        print_table(record_table(sketch))
        for line in record_lines(sketch):
            print(line)
    if json is not None:
        write_json({"schema": 1, "model": program.model, **record_dict(sketch)}, json)
