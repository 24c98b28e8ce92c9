"""An analysis in a screenful of text, the verdict first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.places import Link
from torch_slowpoke.report.record_table import record_line

if TYPE_CHECKING:
    from slowpoke_sim.timing import Timing
    from torch_slowpoke.analysis import Analysis

N_RANKED = 5
LEAST_PROBABILITY = 0.001
"""Runners-up below are not worth a line; JSON and HTML list them."""


def analysis_text(analysis: Analysis) -> str:
    """Verdict, runners-up, timing, mapping, sketch and overhead."""
    return "\n".join(_lines(analysis))


def _lines(analysis: Analysis) -> Iterator[str]:
    chip, diagnosis, timing = analysis.chip, analysis.diagnosis, analysis.timing
    yield from str(diagnosis).splitlines()
    yield ""
    yield (
        f"model     {analysis.graph.name}: {analysis.graph.macs / 1e9:.3f} GMAC an inference, "
        f"{analysis.program.n_inferences} inferences"
    )
    yield (
        f"chip      {chip.network} ({chip.name}), {chip.n_cores} cores at "
        f"{chip.clock_hz / 1e9:g} GHz, {analysis.noise} noise, seed {analysis.seed}"
    )
    faults = ", ".join(str(fault) for fault in analysis.faults) or "none"
    exposed = f" ({_count(sum(analysis.exposure))} services exposed)" if analysis.faults else ""
    yield f"injected  {faults}{exposed}"
    cost = f", {analysis.slowdown:.2f}x the healthy run" if analysis.faults else ""
    yield f"time      {_ms(timing.makespan_cycles, chip.clock_hz)} in all{cost}"
    for price in analysis.costs:
        yield f"cost      {price.place}: {price.ratio:.2f}x the time of the run without it"
    yield f"cores     {stalls_text(timing)}"
    yield f"busiest   {busiest_text(timing, chip)}"
    yield (
        f"mapping   {len(analysis.mapping.groups)} layer groups, "
        f"{analysis.program.n_tasks} tasks a batch unit"
    )
    yield f"sketch    {record_line(analysis.sketch)}"
    yield f"probes    {100 * analysis.overhead:.2f}% slower than without"
    yield f"method    {diagnosis.method}"
    runners_up = [
        s
        for s in diagnosis.ranked
        if s not in diagnosis.reported and s.probability >= LEAST_PROBABILITY
    ][:N_RANKED]
    if runners_up:
        yield "next      " + ", ".join(f"{s.place} ({s.probability:.3f})" for s in runners_up)
    for note in diagnosis.notes:
        yield f"note      {note}"


def stalls_text(timing: Timing) -> str:
    """`41% busy, 30% waiting for input, 5% for a consumer, 24% idle`: of all cores' time."""
    whole = timing.makespan_cycles * len(timing.core_busy_cycles) or 1.0
    parts = (
        ("busy", timing.core_busy_cycles),
        ("waiting for input", timing.core_input_cycles),
        ("waiting for a consumer", timing.core_backpressure_cycles),
        ("idle until the group ends", timing.core_idle_cycles),
    )
    return ", ".join(f"{100 * cycles.sum() / whole:.0f}% {name}" for name, cycles in parts)


def busiest_text(timing: Timing, chip: ChipConfig) -> str:
    """`core 5 (93%), link:5->6 (40%), dram:0 (71%)`: the busiest of each kind."""
    cores, links = timing.core_utilization, timing.channel_utilization[: chip.n_links]
    ports = timing.port_busy_cycles / (timing.makespan_cycles or 1.0)
    parts = [f"core:{np.argmax(cores)} ({100 * cores.max():.0f}%)"]
    if len(links):
        src, dst = chip.network.links[int(np.argmax(links))]
        parts.append(f"{Link(int(src), int(dst))} ({100 * links.max():.0f}%)")
    parts.append(f"dram:{np.argmax(ports)} ({100 * ports.max():.0f}%)")
    return ", ".join(parts)


def _ms(cycles: float, clock_hz: float) -> str:
    return f"{1e3 * cycles / clock_hz:.3f} ms"


def _count(number: int) -> str:
    return f"{number:,}"
