"""A run as a Chrome trace, for Perfetto (ui.perfetto.dev) and chrome://tracing.

Three processes: the cores, one thread each, with their computations; the network, one track for
each pair of ends, with its messages from injection to ejection; and, above them, what was injected
and what was diagnosed. Times are in microseconds of simulated time, to the nanosecond.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.topology import parse_topology
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.trace import Trace, TraceMeta

CORES, NETWORK, VERDICT = 1, 2, 3
"""Process ids; threads count from 1, because viewers treat thread 0 as idle."""


def write_perfetto(
    trace: Trace,
    path: str | Path,
    diagnosis: Diagnosis | None = None,
    faults: Sequence[Fault] = (),
    window_cycles: tuple[float, float] = (0.0, float("inf")),
) -> None:
    """Write a trace as Chrome trace JSON, compressed if the path ends in .gz.

    Args:
        trace: What is shown; about 200 bytes a record, and browsers give up above 200 MB.
        path: `.json` or `.json.gz`.
        diagnosis: Its reported places become slices above the cores.
        faults: What was injected, likewise.
        window_cycles: Only records that overlap [start, end) are written.

    Raises:
        SlowpokeError: An empty window.
    """
    if not window_cycles[0] < window_cycles[1]:
        raise SlowpokeError(f"window {window_cycles}: give a start before its end, in cycles")
    target = Path(path)
    if target.suffix == ".gz":
        # no name and no time in the header: the same run gives the same bytes
        with target.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
            for line in _lines(trace, diagnosis, faults, window_cycles):
                packed.write(line.encode())
    else:
        with target.open("w", encoding="utf-8") as file:
            _copy(_lines(trace, diagnosis, faults, window_cycles), file)


def _copy(lines: Iterable[str], file: IO[str]) -> None:
    for line in lines:
        file.write(line)


def _lines(
    trace: Trace,
    diagnosis: Diagnosis | None,
    faults: Sequence[Fault],
    window_cycles: tuple[float, float],
) -> Iterator[str]:
    meta = trace.meta
    other = {
        "model": meta.model,
        "topology": meta.topology,
        "clock_hz": meta.clock_hz,
        "program": meta.program_fingerprint,
    }
    yield f'{{"displayTimeUnit": "ns", "otherData": {json.dumps(other)}, "traceEvents": [\n'
    separator = ""
    for event in (
        *_names(meta),
        *_verdict(trace, diagnosis, faults),
        *_compute(trace, window_cycles),
        *_messages(trace, window_cycles),
    ):
        yield separator + json.dumps(event)
        separator = ",\n"
    yield "\n]}\n"


def _names(meta: TraceMeta) -> Iterator[dict[str, Any]]:
    columns = parse_topology(meta.topology).columns
    titles = {CORES: f"cores ({meta.topology})", NETWORK: "network", VERDICT: "diagnosis"}
    for order, pid in enumerate((VERDICT, CORES, NETWORK)):
        yield _meta("process_name", pid, 0, name=titles[pid])
        yield _meta("process_sort_index", pid, 0, sort_index=order)
    for core in range(meta.n_cores):
        name = f"core {core}"
        if columns is not None:
            name += f" ({core % columns},{core // columns})"
        yield _meta("thread_name", CORES, core + 1, name=name)
        yield _meta("thread_sort_index", CORES, core + 1, sort_index=core)


def _meta(key: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": key, "pid": pid, "tid": tid, "args": args}


def _verdict(
    trace: Trace, diagnosis: Diagnosis | None, faults: Sequence[Fault]
) -> Iterator[dict[str, Any]]:
    end = trace.meta.makespan_cycles
    rows: list[tuple[str, float, float, dict[str, Any]]] = [
        (f"injected {f.place} {f.slowdown:g}x", f.start_cycles, f.end_cycles, {"fault": str(f)})
        for f in faults
    ]
    for suspect in diagnosis.reported if diagnosis is not None else ():
        args = {"probability": suspect.probability, "evidence": suspect.evidence}
        name = f"reported {suspect.place}"
        if suspect.slowdown == suspect.slowdown:
            name += f" {suspect.slowdown:.2f}x"
        rows.append((name, *suspect.interval, args))
    for tid, (name, start, stop, args) in enumerate(rows, 1):
        start = 0.0 if np.isnan(start) else start
        stop = min(stop, end) if stop == stop else end
        if not start < stop:
            continue
        yield _meta("thread_name", VERDICT, tid, name=name)
        start_us, end_us = _us((start, stop), trace.meta.clock_hz)
        yield _slice(name, VERDICT, tid, start_us, end_us, args)


def _slice(
    name: str, pid: int, tid: int, start_us: float, end_us: float, args: dict[str, Any]
) -> dict[str, Any]:
    duration = round(end_us - start_us, 3)
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": start_us, "dur": duration,
            "args": args}  # fmt: skip


def _us(times_cycles: Any, clock_hz: float) -> list[float]:
    """Microseconds, rounded to whole nanoseconds: slices of one core still do not overlap."""
    rounded: NDArray[np.float64] = np.rint(np.asarray(times_cycles) * (1e9 / clock_hz)) / 1e3
    return rounded.tolist()  # type: ignore[no-any-return]


def _compute(trace: Trace, window_cycles: tuple[float, float]) -> Iterator[dict[str, Any]]:
    rows, names = trace.compute, trace.meta.operator_names
    inside = (rows["end_cycles"] > window_cycles[0]) & (rows["start_cycles"] < window_cycles[1])
    rows = rows[inside]
    starts = _us(rows["start_cycles"], trace.meta.clock_hz)
    ends = _us(rows["end_cycles"], trace.meta.clock_hz)
    for row, start, end in zip(rows, starts, ends, strict=True):
        args = {"group": int(row["group"]), "batch": int(row["batch"]), "unit": int(row["unit"]),
                "macs": float(row["macs"])}  # fmt: skip
        yield _slice(_operator(names, row["op"]), CORES, int(row["core"]) + 1, start, end, args)


def _messages(trace: Trace, window_cycles: tuple[float, float]) -> Iterator[dict[str, Any]]:
    rows, names = trace.transfers, trace.meta.operator_names
    inside = (rows["eject_cycles"] > window_cycles[0]) & (rows["inject_cycles"] < window_cycles[1])
    rows = rows[inside]
    starts = _us(rows["inject_cycles"], trace.meta.clock_hz)
    ends = _us(rows["eject_cycles"], trace.meta.clock_hz)
    for number, (row, start, end) in enumerate(zip(rows, starts, ends, strict=True), 1):
        head = {
            "cat": "message",
            "name": f"{_end(row['src'])} to {_end(row['dst'])}",
            "id2": {"local": hex(number)},
            "pid": NETWORK,
            "tid": 1,
        }
        args = {"operator": _operator(names, row["op"]), "bytes": float(row["bytes"]),
                "batch": int(row["batch"]), "unit": int(row["unit"])}  # fmt: skip
        yield {"ph": "b", "ts": start, **head, "args": args}
        yield {"ph": "e", "ts": end, **head}


def _operator(names: Sequence[str], op: int) -> str:
    return names[op] if 0 <= op < len(names) else f"operator {op}"


def _end(end: int) -> str:
    return f"core {end}" if end >= 0 else f"DRAM {-1 - end}"
