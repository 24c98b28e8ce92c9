"""What probes leave of a run: Location decides which times are read, Level what a record covers.

A simulated trace holds both times of every recorded event. `as_probed` reduces it to what the given
probes would have written down; for the presets (surround, inst) that is the trace itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.program import Program
from slowpoke_tracer.probes import Level, Location, Probe, first_of_stage, matches, probe_set
from slowpoke_tracer.trace import Trace


@dataclasses.dataclass(frozen=True, eq=False)
class _Reading:
    """Per event: whether its start and end are read, and the event that stands for its stage."""

    start: NDArray[np.bool_]
    end: NDArray[np.bool_]
    leader: NDArray[np.int64]


def _reading(program: Program, probes: Sequence[Probe]) -> _Reading:
    n = program.n_events
    start, end, single = np.zeros((3, n), dtype=bool)
    leader = np.arange(n)
    for probe in probes:
        seen = matches(probe, program) & program.recorded
        start |= seen & (probe.location != Location.POST)
        end |= seen & (probe.location != Location.PRE)
        if probe.level == Level.INST:
            single |= seen
        else:
            leader[seen] = first_of_stage(program, seen)[seen]
    # An event with a record of its own needs no stage.
    return _Reading(start, end, np.where(single, np.arange(n), leader))


def observed_program(program: Program, probes: str | Probe | Sequence[Probe]) -> Program:
    """The program with only those events recorded that a record of the probes stands for.

    `Patterns.of_program` of it are the patterns of `as_probed` traces; a stage's pattern has the
    operator, place and work of its first event.
    """
    reading = _reading(program, probe_set(probes))
    recorded = np.zeros(program.n_events, dtype=bool)
    recorded[reading.leader[reading.start | reading.end]] = True
    return dataclasses.replace(program, recorded=recorded)


def as_probed(trace: Trace, program: Program, probes: str | Probe | Sequence[Probe]) -> Trace:
    """The records that the probes leave of a run.

    Args:
        trace: Of the program, with both times of every recorded event.
        program: The instrumented program.
        probes: As given to `instrument`.

    Returns:
        A start that is not read is NaN (`post`), and so is an end (`pre`). At stage level the
        records of one core, layer group, batch and unit are one: from the first start to the last
        end, with the work of all, under the first one's event.
    """
    reading = _reading(program, probe_set(probes))
    return Trace(
        _reduced(trace.compute, reading, "start_cycles", ("end_cycles",), "macs"),
        _reduced(
            trace.transfers, reading, "inject_cycles", ("eject_cycles", "consume_cycles"), "bytes"
        ),
        trace.meta,
    )


def _reduced(
    table: NDArray[np.void], reading: _Reading, first: str, last: tuple[str, ...], work: str
) -> NDArray[np.void]:
    event = table["event"]
    table = table[reading.start[event] | reading.end[event]].copy()
    if not len(table):
        return table
    event = table["event"]
    leader = reading.leader[event]
    key = np.stack([leader, table["batch"], table["unit"]])
    _, index, row = np.unique(key, axis=1, return_index=True, return_inverse=True)
    if len(index) < len(table):
        row = row.ravel()
        merged = table[index]
        merged["event"] = leader[index]
        merged[work] = np.bincount(row, table[work])
        merged[first] = np.inf
        np.minimum.at(merged[first], row, table[first])
        for name in last:
            merged[name] = -np.inf
            np.maximum.at(merged[name], row, table[name])
        table = merged
    event = table["event"]
    table[first][~reading.start[event]] = np.nan
    for name in last:
        table[name][~reading.end[event]] = np.nan
    known = np.where(np.isnan(table[last[0]]), table[first], table[last[0]])
    return table[np.argsort(known, kind="stable")]
