import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Core, Link
from slowpoke_tracer.diagnosis import Diagnosis, Suspect
from slowpoke_tracer.trace import COMPUTE_DTYPE, Trace
from torch_slowpoke.report.perfetto import CORES, NETWORK, VERDICT, write_perfetto

SLOW = Suspect(Core(0), 0.99, 5.0, 9.876, 50.0, 120.0)
DIAGNOSIS = Diagnosis(ranked=(SLOW,), reported=(SLOW,))


def events(path: Path, pid: int, phase: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return [row for row in rows if row["pid"] == pid and row["ph"] == phase]


def test_computations_are_slices_of_their_core_in_microseconds(
    small_trace: Trace, tmp_path: Path
) -> None:
    write_perfetto(small_trace, tmp_path / "t.json")
    rows = [
        (e["name"], e["tid"], e["ts"], e["dur"]) for e in events(tmp_path / "t.json", CORES, "X")
    ]
    assert rows == [("a<b>", 1, 0.0, 0.1), ("c", 2, 0.15, 0.05)]


def test_messages_are_pairs_that_open_and_close_by_their_own_id(
    small_trace: Trace, tmp_path: Path
) -> None:
    write_perfetto(small_trace, tmp_path / "t.json")
    opened, closed = (events(tmp_path / "t.json", NETWORK, phase) for phase in "be")
    assert [(e["name"], e["ts"]) for e in opened] == [
        ("core 0 to core 1", 0.1),
        ("DRAM 0 to core 0", 0.0),
    ]
    assert [(e["name"], e["ts"]) for e in closed] == [
        ("core 0 to core 1", 0.14),
        ("DRAM 0 to core 0", 0.02),
    ]
    assert [e["id2"] for e in opened] == [e["id2"] for e in closed]
    assert len({e["id2"]["local"] for e in opened}) == 2


def test_threads_are_named_by_core_and_place_and_none_is_thread_0(
    small_trace: Trace, tmp_path: Path
) -> None:
    write_perfetto(small_trace, tmp_path / "t.json")
    names = {
        e["tid"]: e["args"]["name"]
        for e in events(tmp_path / "t.json", CORES, "M")
        if e["name"] == "thread_name"
    }
    assert names == {1: "core 0 (0,0)", 2: "core 1 (1,0)"}


def test_what_was_injected_and_reported_stands_above(small_trace: Trace, tmp_path: Path) -> None:
    unknown = Suspect(Link(0, 1), 0.5, 1.0)
    diagnosis = Diagnosis(ranked=(SLOW, unknown), reported=(SLOW, unknown))
    write_perfetto(small_trace, tmp_path / "t.json", diagnosis, [Fault(Core(0), 10.0, 50.0)])
    rows = [(e["name"], e["ts"], e["dur"]) for e in events(tmp_path / "t.json", VERDICT, "X")]
    assert rows == [
        ("injected core:0 10x", 0.05, 0.15),  # to the end of the run, 0.2 us
        ("reported core:0 9.88x", 0.05, 0.07),
        ("reported link:0->1", 0.0, 0.2),
    ]


def test_a_window_leaves_out_what_does_not_overlap_it(small_trace: Trace, tmp_path: Path) -> None:
    write_perfetto(small_trace, tmp_path / "t.json", window_cycles=(145.0, 1000.0))
    assert [e["name"] for e in events(tmp_path / "t.json", CORES, "X")] == ["c"]
    assert events(tmp_path / "t.json", NETWORK, "b") == []
    with pytest.raises(SlowpokeError, match="give a start before its end"):
        write_perfetto(small_trace, tmp_path / "t.json", window_cycles=(5.0, 5.0))


def test_slices_of_a_core_never_overlap_however_short(small_trace: Trace, tmp_path: Path) -> None:
    edges = np.cumsum(np.random.default_rng(0).exponential(0.7, 1001))
    compute = np.zeros(1000, COMPUTE_DTYPE)
    compute["start_cycles"], compute["end_cycles"] = edges[:-1], edges[1:]
    write_perfetto(replace(small_trace, compute=compute), tmp_path / "t.json")
    rows = events(tmp_path / "t.json", CORES, "X")
    ends = [round(1e3 * (e["ts"] + e["dur"])) for e in rows]
    starts = [round(1e3 * e["ts"]) for e in rows]
    assert len(rows) == 1000
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))


def test_a_compressed_file_holds_the_same_and_repeats(small_trace: Trace, tmp_path: Path) -> None:
    for name in ("a.json", "a.json.gz", "b.json.gz"):
        write_perfetto(small_trace, tmp_path / name, DIAGNOSIS)
    packed = (tmp_path / "a.json.gz").read_bytes()
    assert gzip.decompress(packed).decode() == (tmp_path / "a.json").read_text()
    assert packed == (tmp_path / "b.json.gz").read_bytes()


def test_clocks_other_than_a_gigahertz_are_converted(small_trace: Trace, tmp_path: Path) -> None:
    slow = replace(small_trace, meta=replace(small_trace.meta, clock_hz=5e8))
    write_perfetto(slow, tmp_path / "t.json")
    assert [e["dur"] for e in events(tmp_path / "t.json", CORES, "X")] == [0.2, 0.1]
