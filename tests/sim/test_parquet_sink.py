"""A streamed trace file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_sim import parquet_sink
from slowpoke_sim.machine import run, simulate
from slowpoke_sim.parquet_sink import ParquetSink
from slowpoke_tracer.trace import Trace
from tests.sim.programs import Builder


@pytest.mark.parametrize("row_group_records", [1, 5, 1 << 17])
def test_a_streamed_file_holds_what_the_whole_trace_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_group_records: int
) -> None:
    monkeypatch.setattr(parquet_sink, "_ROW_GROUP_RECORDS", row_group_records)
    builder = Builder(ChipConfig(), units=2, inferences=9)
    builder.write(3, 0, 5000, [builder.compute(3, 1e5)])
    program = builder.program()
    with ParquetSink(tmp_path / "run.parquet") as sink:
        result = run(program, seed=3, sink=sink)
    whole, read = simulate(program, seed=3), Trace.load(tmp_path / "run.parquet")
    assert np.array_equal(read.compute, whole.compute)
    assert np.array_equal(read.transfers, whole.transfers)
    assert read.meta == whole.meta
    assert read.meta.makespan_cycles == result.timing.makespan_cycles
    assert sink.n_records == whole.n_records


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    builder = Builder(ChipConfig())
    builder.compute(0, 1)
    with pytest.raises(SlowpokeError, match="cannot be written"):
        run(builder.program(), sink=ParquetSink(tmp_path / "missing" / "run.parquet"))
