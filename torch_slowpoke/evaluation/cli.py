"""`slowpoke campaign`, `report` and `diff`: fault campaigns on the command line."""

from __future__ import annotations

import csv
import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.cli import options as o

if TYPE_CHECKING:
    from slowpoke_tracer.detector import Detector
    from torch_slowpoke.evaluation.results import Results
    from torch_slowpoke.evaluation.tables import Table

ALL = "all"


def _application() -> typer.Typer:
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


campaign_app, report_app, diff_app = _application(), _application(), _application()

Folder = Annotated[Path, typer.Argument(help="The --out of a campaign.", metavar="FOLDER")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write the table as CSV.")]


@campaign_app.command()
def campaign(
    workloads: Annotated[
        str, typer.Option("--workloads", help="Models (`slowpoke models`), commas between.")
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the results; resumed if it exists.")
    ],
    dataset: Annotated[
        str, typer.Option("--dataset", help="slowpoke-152, balanced, spatial, thermal, multi, ...")
    ] = "slowpoke-152",
    detectors: Annotated[
        str, typer.Option("--detectors", help="Names, commas between; or all.")
    ] = ALL,
    mesh: o.Mesh = None,
    topology: o.Topology = None,
    chip: o.Chip = None,
    evidence: Annotated[
        str, typer.Option("--evidence", help="sketch, trace, or sketch,trace.")
    ] = "sketch,trace",
    noise: o.Noise = "released",
    inferences: o.Inferences = 16,
    batch: o.Batch = None,
    positives: Annotated[
        int | None, typer.Option("--positives", help="Faulty runs of each workload.", min=0)
    ] = None,
    negatives: Annotated[
        int | None, typer.Option("--negatives", help="Runs without fault of each.", min=0)
    ] = None,
    split: Annotated[str, typer.Option("--split", help="calibration, tuning or test.")] = "test",
    seed: o.Seed = 0,
    workers: Annotated[
        int | None, typer.Option("--workers", help="Processes; by default one a core.", min=1)
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", help="A Dask scheduler: tcp://HOST:PORT.")
    ] = None,
) -> None:
    """Run every detector over a set of faulty and healthy runs; resume what was interrupted."""
    import os

    from slowpoke_sim.noise import noise_of
    from torch_slowpoke.evaluation.campaign import Campaign, run_campaign
    from torch_slowpoke.evaluation.datasets import dataset_named
    from torch_slowpoke.evaluation.progress import campaign_progress
    from torch_slowpoke.evaluation.workloads import Workload
    from torch_slowpoke.frontend import model_names

    network = o.network(mesh, topology, chip)
    noise_of(noise)
    names = _names(workloads)
    for name in names:
        _check_model(name, model_names())
    plan = Campaign(
        workloads=tuple(
            Workload(name, network, chip or "default", inferences, batch, noise) for name in names
        ),
        dataset=dataset_named(dataset),
        detectors=_detectors(detectors),
        evidence=tuple(_names(evidence)),
        positives=positives,
        negatives=negatives,
        split=split,
        seed=seed,
    )
    for workload in plan.workloads:
        workload.hardware()
    executor = _dask(scheduler) if scheduler else None
    with campaign_progress() as progress:
        tally = run_campaign(
            plan, out, workers=workers or os.cpu_count() or 1, executor=executor,
            progress=progress,
        )  # fmt: skip
    print(
        f"{tally.n_done} cases in {tally.seconds:.0f} s ({tally.prepare_seconds:.0f} s of it to "
        f"prepare), {tally.cases_per_second:.2f} cases/s; {tally.n_before} were done before"
    )
    print(f"slowpoke report {out}")


@report_app.command()
def report(
    folder: Folder,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for CSV, Markdown and PNG; by default FOLDER/report."),
    ] = None,
    draws: Annotated[
        int, typer.Option("--draws", help="Resamples of each bootstrap interval.", min=0)
    ] = 1000,
) -> None:
    """Show the tables of a campaign, and write them as CSV, Markdown and PNG."""
    from rich.console import Console

    from torch_slowpoke.evaluation.figure import save_campaign_figure
    from torch_slowpoke.evaluation.results import read_results
    from torch_slowpoke.evaluation.tables import protocol_table, tables

    results = read_results(folder)
    if not results.rows:
        raise SlowpokeError(f"{folder}: no case is done yet; run the campaign first")
    target = out or folder / "report"
    target.mkdir(parents=True, exist_ok=True)
    made = tables(results, draws)
    for table in made:
        write_csv(table, target / f"{table.name}.csv")
    (target / "report.md").write_text(markdown(results, made), encoding="utf-8")
    save_campaign_figure(results, target / "report.png")
    brief = protocol_table(results, 0)
    wanted = ("method", "evidence", "strict accuracy", "run FPR", "hit", "wrong place", "miss",
              "top-1", "seconds")  # fmt: skip
    Console().print(_rich(brief, wanted))
    print(f"{len(made)} tables as CSV, report.md and report.png are in {target}")


@diff_app.command()
def diff(first: Folder, second: Folder, csv_path: Csv = None) -> None:
    """Compare two campaigns on the cases that both have."""
    from rich.console import Console

    from torch_slowpoke.evaluation.difference import difference
    from torch_slowpoke.evaluation.results import read_results

    table = difference(read_results(first), read_results(second))
    Console().print(_rich(table, table.columns, intervals=True))
    if csv_path is not None:
        write_csv(table, csv_path)


def markdown(results: Results, made: list[Table]) -> str:
    """The report as one Markdown file: settings first, then the tables."""
    s = results.settings
    versions = ", ".join(f"{name} {v}" for name, v in s["versions"].items())
    lines = [
        f"# Fault campaign: {', '.join(s['labels'])}",
        "",
        f"Data set `{s['dataset']}`, split {s['split']}, seed {s['seed']}; evidence "
        f"{' and '.join(s['evidence'])}; code {s['code']}; {versions}.",
        "",
        *(table.markdown() for table in made),
    ]
    return "\n".join(lines)


def write_csv(table: Table, path: Path) -> None:
    """A table as CSV; what is unknown is empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table.columns)
        for row in table.rows:
            writer.writerow(["" if cell != cell else cell for cell in row])


def _rich(table: Table, wanted: tuple[str, ...], intervals: bool = False) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Printed

    from torch_slowpoke.evaluation.tables import text

    printed = Printed(
        title=table.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    at = [table.columns.index(name) for name in wanted]
    for name in wanted:
        # long words of a header go onto lines of their own, so that names stay whole
        printed.add_column("\n".join(name.split()), no_wrap=True)
    for row in table.rows:
        cells = [text(row[i]) for i in at]
        if not intervals:  # they are in the files; on a screen they would break every line
            cells = [cell.partition(" [")[0] for cell in cells]
        printed.add_row(*cells)
    return printed


def _names(words: str) -> list[str]:
    names = [word.strip() for word in words.split(",") if word.strip()]
    if not names:
        raise SlowpokeError(f"{words!r} names nothing; write names with commas between them")
    return list(dict.fromkeys(names))


def _detectors(words: str) -> tuple[Detector, ...]:
    from slowpoke_tracer.tracer import DETECTORS

    names = list(DETECTORS) if words.strip() == ALL else _names(words)
    for name in names:
        if name not in DETECTORS:
            near = difflib.get_close_matches(name, DETECTORS, 3) or list(DETECTORS)
            raise SlowpokeError(f"{name!r} is no detector; try {', '.join(near)}, or all")
    return tuple(DETECTORS[name]() for name in names)


def _check_model(name: str, known: tuple[str, ...]) -> None:
    """Say now what an hour of mapping would end with; files and parametrised names pass."""
    if name in known or ":" in name or Path(name).suffix:
        return
    near = difflib.get_close_matches(name, known, 3, 0.5)
    hint = f"did you mean {', '.join(near)}?" if near else "`slowpoke models` lists them"
    raise SlowpokeError(f"unknown model {name!r}: {hint}")


def _dask(address: str) -> Any:
    try:
        from distributed import Client
    except ModuleNotFoundError:
        raise SlowpokeError(
            "--scheduler needs Dask, which is not installed; install torch-slowpoke[eval]"
        ) from None
    try:
        client: Any = Client
        return client(address, timeout=10).get_executor(pure=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise SlowpokeError(f"--scheduler {address}: {error}; give tcp://HOST:PORT") from None
