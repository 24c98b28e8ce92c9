"""`slowpoke models` and `slowpoke chips`: what there is to choose from."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Annotated

import typer


def models(
    pattern: Annotated[
        str, typer.Argument(help="Only names that contain this, or match it: resnet, vit_*.")
    ] = "",
) -> None:
    """List the names that can be analysed, one a line."""
    from slowpoke_mapping.errors import SlowpokeError
    from torch_slowpoke.frontend import model_names

    names = model_names()
    wanted = pattern if any(c in pattern for c in "*?[") else f"*{pattern}*"
    found = [name for name in names if fnmatch(name, wanted)]
    if not found:
        raise SlowpokeError(
            f"none of {len(names)} models matches {pattern!r}; `slowpoke models` lists all"
        )
    print("\n".join(found))


def chips(
    name: Annotated[
        str | None, typer.Argument(help="Show this preset or file as TOML, ready to edit.")
    ] = None,
) -> None:
    """List the chip presets, or show one."""
    from slowpoke_mapping.chip import chip, chip_names

    if name is not None:
        print(chip(name).to_toml(), end="")
        return
    row = "{:<14}{:<12}{:>5} {:>10} {:>12}  {:<15}{}"
    print(
        row.format("preset", "topology", "cores", "MAC/cycle", "link B/cycle", "DRAM B/cycle", "")
    )
    for preset in map(chip, chip_names()):
        dram = f"{len(preset.dram_ports)} x {preset.dram_bytes_per_cycle:g}"
        values = (preset.macs_per_cycle, preset.link_bytes_per_cycle)
        print(
            row.format(
                preset.name,
                preset.topology,
                preset.n_cores,
                *(f"{value:g}" for value in values),
                dram,
                preset.switching,
            )
        )
