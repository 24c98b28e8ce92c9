"""What recording costs in bytes: tables for `slowpoke record`, one line for `slowpoke analyze`."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from slowpoke_tracer.patterns import COMPUTE
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.trace import RAW_RECORD_BYTES

AUTHORS_COMPUTE_BYTES, AUTHORS_TRANSFER_BYTES = 12, 18
"""Raw records of the SlowPoke authors' public code."""


def record_dict(sketch: Sketch) -> dict[str, Any]:
    """A sketch's bytes as JSON can hold them; `comm` and `comp` share Stage-1 and epoch times."""
    records = sketch.raw_records.sum(axis=0)
    is_compute = sketch.patterns["kind"] == COMPUTE
    kept = sketch.count.sum(axis=1) + sketch.missed
    return {
        "mode": sketch.mode,
        "epochs": sketch.n_epochs,
        "raw_bytes": sketch.raw_nbytes,
        "raw_bytes_authors": int(
            records[0] * AUTHORS_COMPUTE_BYTES + records[1] * AUTHORS_TRANSFER_BYTES
        ),
        "sketch_bytes": sketch.nbytes,
        "ratio": sketch.ratio,
        "core_mean_bytes": float(sketch.nbytes_per_core.mean()),
        "core_max_bytes": int(sketch.nbytes_per_core.max(initial=0)),
        "fixed_bytes": sketch.nbytes - len(sketch.patterns) * sketch.slot_nbytes,
        "patterns": sketch.n_patterns,
        "patterns_kept": len(sketch.patterns),
        "records": sketch.n_records,
        "records_kept": sketch.n_records_kept,
        "evicted": sketch.n_evicted,
        "saturated": sketch.n_saturated,
        "parts": {
            name: {
                "records": int(offered),
                "statistics": int(kept[mine].sum()),
                "raw_bytes": int(offered) * RAW_RECORD_BYTES,
                "entry_bytes": int(mine.sum()) * sketch.slot_nbytes,
                "patterns_kept": int(mine.sum()),
            }
            for name, offered, mine in (
                ("comm", records[1], ~is_compute),
                ("comp", records[0], is_compute),
            )
        },
    }


def record_table(sketch: Sketch) -> Table:
    """Raw bytes, entry bytes, ratio and retained patterns, for comm and comp and in all."""
    data = record_dict(sketch)
    table = Table(box=box.SIMPLE, pad_edge=False)
    for column in ("", "records", "raw", "sketch", "ratio", "patterns kept"):
        table.add_column(column, justify="left" if not column else "right")
    for name, part in data["parts"].items():
        table.add_row(
            name, f"{part['records']:,}", _kib(part["raw_bytes"]), _kib(part["entry_bytes"]),
            _ratio(part["raw_bytes"], part["entry_bytes"]), f"{part['patterns_kept']:,}",
        )  # fmt: skip
    shared = "epoch times" if sketch.mode == "static" else "Stage-1, epoch times"
    table.add_row(shared, "", "", _kib(data["fixed_bytes"]), "", "")
    table.add_row(
        "in all", f"{data['records']:,}", _kib(data["raw_bytes"]), _kib(data["sketch_bytes"]),
        _ratio(data["raw_bytes"], data["sketch_bytes"]),
        f"{data['patterns_kept']:,} of {data['patterns']:,}",
    )  # fmt: skip
    return table


def record_lines(sketch: Sketch) -> list[str]:
    """What stands below the table: the fullest core, what was lost, the authors' record sizes."""
    data = record_dict(sketch)
    fullest = int(np.argmax(sketch.nbytes_per_core)) if len(sketch.nbytes_per_core) else 0
    lines = [
        f"per core  {_kib(data['core_mean_bytes'])} mean, {_kib(data['core_max_bytes'])} at most "
        f"(core {fullest})",
        f"authors   {_ratio(data['raw_bytes_authors'], data['sketch_bytes'])} at their 12 and 18 "
        "bytes a record instead of 32",
    ]
    lost = data["records"] - data["records_kept"]
    if lost or data["evicted"] or data["saturated"]:
        lines.append(
            f"lost      {lost:,} records ({lost / max(data['records'], 1):.2%}), "
            f"{data['patterns'] - data['patterns_kept']:,} patterns; "
            f"{data['evicted']:,} evictions, {data['saturated']:,} saturated cells or counters"
        )
    return lines


def record_line(sketch: Sketch) -> str:
    """The same in one line."""
    data = record_dict(sketch)
    share = data["records_kept"] / data["records"] if data["records"] else 1.0
    return (
        f"{_kib(data['sketch_bytes'])} for {_kib(data['raw_bytes'])} of raw records "
        f"({_ratio(data['raw_bytes'], data['sketch_bytes'])}), at most "
        f"{_kib(data['core_max_bytes'])} a core, {share:.1%} of the records kept"
    )


def _kib(nbytes: float) -> str:
    return f"{nbytes / 1024:,.1f} KiB"


def _ratio(raw: float, packed: float) -> str:
    return f"{raw / packed:,.1f}x" if packed else "-"
