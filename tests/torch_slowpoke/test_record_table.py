from __future__ import annotations

import dataclasses
import json

import numpy as np
from rich.console import Console

from slowpoke_tracer.patterns import COMPUTE, PATTERN_DTYPE, TRANSFER
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.trace import TraceMeta
from torch_slowpoke.report.record_table import (
    record_dict,
    record_line,
    record_lines,
    record_table,
)


def sketch() -> Sketch:
    """Core 0: one compute pattern of 10 records; core 1: two message patterns of 20 and 30."""
    patterns = np.zeros(3, PATTERN_DTYPE)
    patterns["recorder"] = [0, 1, 1]
    patterns["kind"] = [COMPUTE, TRANSFER, TRANSFER]
    nothing = np.zeros(3)
    return Sketch(
        patterns=patterns, count=np.array([[10], [20], [30]]), log_sum=np.ones((3, 1)),
        log_min=np.ones((3, 1)), log_max=np.ones((3, 1)), duration_sum=nothing,
        duration_sum_squares=nothing, first_cycles=nothing, last_cycles=nothing,
        epoch_start_cycles=np.zeros(1), epoch_end_cycles=np.ones(1),
        nbytes_per_core=np.array([32, 56]), n_records=60, n_records_kept=60,
        meta=TraceMeta("tiny", "mesh:2x1", 1e9, "", 2, 1), n_patterns=3,
        raw_records=np.array([[10, 0], [0, 50]]), slot_nbytes=24,
    )  # fmt: skip


def text(value: Sketch) -> str:
    console = Console(width=120, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(record_table(value))
    return capture.get()


def test_the_bytes_add_up() -> None:
    data = record_dict(sketch())
    assert data["raw_bytes"] == 60 * 32 == sum(p["raw_bytes"] for p in data["parts"].values())
    entries = sum(p["entry_bytes"] for p in data["parts"].values())
    assert data["sketch_bytes"] == 88 == entries + data["fixed_bytes"]
    assert data["ratio"] == 1920 / 88
    assert data["raw_bytes_authors"] == 10 * 12 + 50 * 18
    assert json.loads(json.dumps(data)) == data


def test_communication_and_computation_stand_apart() -> None:
    rows = {line.split()[0]: line.split() for line in text(sketch()).splitlines() if line.strip()}
    assert rows["comm"][1:] == ["50", "1.6", "KiB", "0.0", "KiB", "33.3x", "2"]
    assert rows["comp"][1:] == ["10", "0.3", "KiB", "0.0", "KiB", "13.3x", "1"]
    assert "3 of 3" in text(sketch())


def test_losses_are_told_and_only_losses() -> None:
    assert not any("lost" in line for line in record_lines(sketch()))
    lossy = dataclasses.replace(sketch(), n_records_kept=45, n_patterns=5, n_evicted=7)
    (line,) = (line for line in record_lines(lossy) if "lost" in line)
    assert "15 records (25.00%), 2 patterns; 7 evictions" in line
    assert "75.0% of the records kept" in record_line(lossy)


def test_the_fullest_core_is_named() -> None:
    assert "(core 1)" in record_lines(sketch())[0]
    assert "21.8x" in record_line(sketch())


def test_a_run_without_records_has_no_ratio_to_boast_of() -> None:
    empty = dataclasses.replace(
        sketch(), n_records=0, n_records_kept=0, raw_records=np.zeros((2, 2), np.int64)
    )
    assert "0.0x" in record_line(empty)
