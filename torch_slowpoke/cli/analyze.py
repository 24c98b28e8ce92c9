"""`slowpoke analyze`: the whole pipeline."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from torch_slowpoke.cli import options as o
from torch_slowpoke.cli.outputs import STANDARD_OUTPUT, check_outputs, write_json
from torch_slowpoke.cli.progress import progress_bar


def analyze(
    model: o.Model,
    mesh: o.Mesh = None,
    topology: o.Topology = None,
    chip: o.Chip = None,
    mapping: Annotated[
        Path | None, typer.Option("--mapping", help="JSON file of `slowpoke map`.")
    ] = None,
    fault: o.Faults = None,
    noise: o.Noise = "released",
    inferences: o.Inferences = 16,
    batch: o.Batch = None,
    engine: o.Engine = "compiled",
    probes: o.Probes = "full",
    detector: o.Detector = "robust",
    precision: o.Precision = None,
    seed: o.Seed = 0,
    json: o.Json = None,
    plot: o.Plot = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write one HTML page.")] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option("--perfetto", help="Write the run for Perfetto (.json or .json.gz)."),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Write every record (Parquet).")
    ] = None,
    remap: Annotated[
        bool, typer.Option("--remap", help="Map the model around what is slow; say what it brings.")
    ] = False,
) -> None:
    """Run a model on a simulated chip and say which core or link is slow."""
    check_outputs(json=json, plot=plot, html=html, perfetto=perfetto, trace=trace)
    network, element_bytes = o.network(mesh, topology, chip), o.element_bytes(precision)
    if plot is not None:
        from torch_slowpoke.report.plots import check_format

        check_format(plot)

    from torch_slowpoke.api import analyze as run

    with progress_bar() as progress:
        analysis = run(
            model,
            chip=chip,
            topology=network,
            mapping=mapping,
            faults=fault or (),
            noise=noise,
            inferences=inferences,
            batch=batch,
            engine=engine,
            probes=probes,
            detector=detector,
            precision=element_bytes,
            seed=seed,
            progress=progress,
        )
    if json != STANDARD_OUTPUT:
        print(analysis)
        if remap and analysis.diagnosis.reported:
            print(f"remap     {analysis.remap()}")
    if json is not None:
        write_json(analysis.to_dict(), json)
    if plot is not None:
        from torch_slowpoke.report.plots import analysis_figure, save_figure

        save_figure(analysis_figure(analysis), plot)
    if html is not None:
        from torch_slowpoke.report.html import analysis_html

        command = " ".join(["slowpoke", *sys.argv[1:]])
        html.write_text(analysis_html(analysis, command=command), encoding="utf-8")
    if perfetto is not None:
        from torch_slowpoke.report.perfetto import write_perfetto

        write_perfetto(analysis.trace, perfetto, analysis.diagnosis, analysis.faults)
    if trace is not None:
        analysis.trace.save(trace)
