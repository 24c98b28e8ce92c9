import re
from collections.abc import Callable

import numpy as np
import pytest

from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Core, Link
from slowpoke_tracer.diagnosis import Diagnosis, Suspect
from torch_slowpoke.analysis import Analysis
from torch_slowpoke.report.text import busiest_text, stalls_text
from torch_slowpoke.report.timing_table import timing_dict, timing_tables

SLOW = Suspect(Core(1), 0.99, 5.0, 9.876, 1e3, 2e6, evidence="9.9x its nominal time")
OTHER = Suspect(Link(0, 1, both=True), 0.01, 1.0)
SICK = Diagnosis(ranked=(SLOW, OTHER), reported=(SLOW,), method="robust, twin", notes=("a note",))
WELL = Diagnosis(ranked=(OTHER,), reported=(), healthy_probability=0.98)


def test_the_verdict_comes_first(analysis_of: Callable[..., Analysis]) -> None:
    text = str(analysis_of(SICK, Fault(Core(1), 10.0)))
    assert text.startswith("1. core:1 looks 9.88x slow from 0.001 ms to 2.000 ms")
    assert str(analysis_of(WELL)).startswith("healthy: no core or link stands out")


def test_it_fits_on_a_screen_and_every_line_has_its_heading(
    analysis_of: Callable[..., Analysis],
) -> None:
    lines = str(analysis_of(SICK, Fault(Core(1), 10.0))).splitlines()
    assert len(lines) <= 24
    headings = [line.split()[0] for line in lines[2:]]
    assert headings == [
        "model", "chip", "injected", "time", "cost", "cores", "busiest", "mapping", "sketch",
        "probes", "method", "next", "note",
    ]  # fmt: skip


def test_a_fault_is_told_with_its_exposure_and_its_cost(
    analysis_of: Callable[..., Analysis],
) -> None:
    analysis = analysis_of(SICK, Fault(Core(1), 10.0))
    text = str(analysis)
    assert f"injected  core:1@10x ({analysis.exposure[0]:,} services exposed)" in text
    assert f"{analysis.slowdown:.2f}x the healthy run" in text
    assert analysis.slowdown > 2
    assert "injected  none" in str(analysis_of(WELL))


def test_runners_up_are_those_that_are_not_reported(analysis_of: Callable[..., Analysis]) -> None:
    assert "next      link:0-1 (0.010)" in str(analysis_of(SICK))


def test_the_shares_of_core_time_add_up(analysis_of: Callable[..., Analysis]) -> None:
    shares = [int(n) for n in re.findall(r"(\d+)%", stalls_text(analysis_of(WELL).timing))]
    assert len(shares) == 4
    assert sum(shares) == pytest.approx(100, abs=2)  # each is rounded


def test_the_busiest_of_each_kind_is_named(analysis_of: Callable[..., Analysis]) -> None:
    analysis = analysis_of(WELL, Fault(Core(3), 50.0))
    text = busiest_text(analysis.timing, analysis.chip)
    assert re.fullmatch(r"core:3 \(\d+%\), link:\d->\d \(\d+%\), dram:\d \(\d+%\)", text)


def test_tables_rank_layers_by_latency_and_servers_by_use(
    analysis_of: Callable[..., Analysis],
) -> None:
    analysis = analysis_of(WELL)
    layers, wires = timing_tables(analysis.timing, analysis.chip)
    assert layers.row_count == 2
    latencies = [float(cell) for cell in layers.columns[1].cells]  # type: ignore[arg-type]
    assert latencies == sorted(latencies, reverse=True)
    shares = [float(str(cell).rstrip("%")) for cell in wires.columns[1].cells]
    assert shares == sorted(shares, reverse=True)


def test_timing_as_json_has_a_row_for_each_link_port_and_layer(
    analysis_of: Callable[..., Analysis],
) -> None:
    analysis = analysis_of(WELL)
    data = timing_dict(analysis.timing, analysis.chip)
    # 2x2 mesh: four physical links, both ways
    n_ports = len(analysis.chip.dram_ports)
    assert [row["place"] for row in data["links"]].count("link:0->1") == 1
    assert len(data["links"]) == 8 + n_ports
    assert len(data["layers"]) == 2
    parts = ("busy", "input", "backpressure", "idle")
    total = np.sum([data[f"core_{part}_cycles"] for part in parts])
    assert total == pytest.approx(4 * data["makespan_cycles"])
