"""Where the time of a simulated run went, as tables: layers, links and ports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.places import DramPort, Link
from slowpoke_sim.timing import Timing

N_ROWS = 12


def timing_tables(timing: Timing, chip: ChipConfig, n_rows: int = N_ROWS) -> Iterator[Table]:
    """The slowest layers, then the busiest links and ports.

    Args:
        timing: Of a run.
        chip: Where it ran.
        n_rows: Rows of each table.
    """
    layers = _table("layer", "ms a batch", "core-ms in all")
    latency = np.nan_to_num(timing.operator_latency_cycles, nan=-1.0)
    for op in np.argsort(-latency, kind="stable")[:n_rows]:
        if latency[op] >= 0:
            layers.add_row(
                _name(timing.operator_names, int(op)),
                _ms(latency[op], chip),
                _ms(timing.operator_busy_cycles[op], chip),
            )
    yield layers
    wires = _table("link or port", "busy", "held", "MiB")
    for row in sorted(_servers(timing, chip), key=lambda row: -row[1])[:n_rows]:
        place, busy, held, nbytes = row
        wires.add_row(place, f"{busy:.1%}", f"{held:.1%}", f"{nbytes / 2**20:.2f}")
    yield wires


def timing_dict(timing: Timing, chip: ChipConfig) -> dict[str, Any]:
    """A run's timing as JSON can hold it."""
    return {
        "makespan_cycles": timing.makespan_cycles,
        "makespan_seconds": timing.makespan_cycles / chip.clock_hz,
        "core_busy_cycles": timing.core_busy_cycles.tolist(),
        "core_input_cycles": timing.core_input_cycles.tolist(),
        "core_backpressure_cycles": timing.core_backpressure_cycles.tolist(),
        "core_idle_cycles": timing.core_idle_cycles.tolist(),
        "links": [
            {"place": place, "utilisation": busy, "bytes": nbytes}
            for place, busy, _, nbytes in _servers(timing, chip)
        ],
        "layers": [
            {"name": _name(timing.operator_names, op), "latency_cycles": float(latency)}
            for op, latency in enumerate(timing.operator_latency_cycles)
        ],
        "n_services": timing.n_services,
    }


def _servers(timing: Timing, chip: ChipConfig) -> list[tuple[str, float, float, float]]:
    """(place, busy share, held share, bytes) of every link, then every port."""
    whole = timing.makespan_cycles or 1.0
    rows = [
        (str(Link(int(a), int(b))), float(timing.channel_busy_cycles[i]) / whole,
         float(timing.channel_held_cycles[i]) / whole, float(timing.channel_bytes[i]))
        for i, (a, b) in enumerate(chip.network.links)
    ]  # fmt: skip
    for port in range(len(chip.dram_ports)):
        busy = float(timing.port_busy_cycles[port]) / whole
        rows.append((str(DramPort(port)), busy, busy, float(timing.port_bytes[port])))
    return rows


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE)
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right")
    return table


def _name(names: tuple[str, ...], op: int) -> str:
    return names[op] if op < len(names) else f"operator {op}"


def _ms(cycles: float, chip: ChipConfig) -> str:
    return f"{1e3 * cycles / chip.clock_hz:.3f}"
