"""Options that several commands share, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    str, typer.Argument(help="A model's name (`slowpoke models`), or a .pt2 file.", metavar="MODEL")
]
Mesh = Annotated[str | None, typer.Option("--mesh", help="Columns x rows of cores.", metavar="WxH")]
Topology = Annotated[
    str | None,
    typer.Option("--topology", help="Network: torus:4x4, ring:16, ...; or torus with --mesh."),
]
Chip = Annotated[str | None, typer.Option("--chip", help="Preset (`slowpoke chips`) or TOML file.")]
Faults = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        help="Fault to inject: core:5@10x, link:5-6@2x[2ms,5ms], ...; may be repeated.",
        metavar="PLACE@SLOWDOWNx",
    ),
]
Noise = Annotated[
    str, typer.Option("--noise", help="Natural noise: none, paper, released or harsh.")
]
Inferences = Annotated[int, typer.Option("--inferences", help="Samples to run.", min=1)]
Batch = Annotated[
    int | None,
    typer.Option("--batch", help="Samples of a batch; by default the chip's.", min=1),
]
Engine = Annotated[
    str, typer.Option("--engine", help="compiled, or simpy (the reference, slower).")
]
Probes = Annotated[str, typer.Option("--probes", help="full, comm, comp or none.")]
Detector = Annotated[
    str, typer.Option("--detector", help="robust, or slowpoke (the paper as printed), ...")
]
Precision = Annotated[
    str | None,
    typer.Option("--precision", help="Bytes of a tensor element, or `model` for its own dtype."),
]
Seed = Annotated[int, typer.Option("--seed", help="Of noise and search.", min=0)]
Json = Annotated[
    Path | None, typer.Option("--json", help="Write the result as JSON; - for standard output.")
]
Plot = Annotated[
    Path | None, typer.Option("--plot", help="Draw the chip into a .png, .svg or .pdf file.")
]


def network(mesh: str | None, topology: str | None, chip: str | None) -> str | None:
    """The topology's text of --mesh and --topology; None where the chip's own holds.

    Raises:
        SlowpokeError: A mesh that is none, or one beside a topology that has its own size.

    >>> network("4x2", "torus", None)
    'torus:4x2'
    """
    from slowpoke_mapping.chip import mesh_size
    from slowpoke_mapping.errors import SlowpokeError

    if mesh is None:
        return topology if topology or chip else "mesh:4x4"
    width, height = mesh_size(mesh)
    if topology is None:
        return f"mesh:{width}x{height}"
    if ":" in topology:
        raise SlowpokeError(
            f"--mesh {mesh} beside --topology {topology}: the topology has its own size; "
            "leave out --mesh"
        )
    return f"{topology}:{width}x{height}"


def element_bytes(precision: str | None) -> float | str | None:
    """--precision as `analyze` takes it: bytes, `model`, or None.

    Raises:
        SlowpokeError: Neither a number nor `model`.
    """
    from slowpoke_mapping.errors import SlowpokeError

    if precision is None or precision == "model":
        return precision
    try:
        return float(precision)
    except ValueError:
        raise SlowpokeError(
            f"--precision {precision!r}: give bytes of an element (1, 2, 4), or model"
        ) from None
