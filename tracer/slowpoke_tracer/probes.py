"""SL-Compiler: probes as data, inserted into a program with their cost.

A probe is SlowPoke's five-tuple (section 3.2, Table 1). `instrument` marks the events that leave a
record and adds the time that recording takes, as PROBE tasks on the core that records. The two
clock reads and the update of one record are one task with their summed cost, after the event: a
core's busy time is the same as with two tasks, and a simulation has half as many.

The program's own data flow does not change: no task of it waits for a probe. A probe occupies the
compute unit of its core, and that is how it costs time.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program, Role, TaskKind
from slowpoke_tracer.insertion import Added, inserted
from slowpoke_tracer.offload import list_writes, slot_writes
from slowpoke_tracer.sketch_config import SketchConfig


class Fragment(enum.StrEnum):
    """What a probe records."""

    EXEC = "exec"
    """Calculation: work, start, end."""
    ROUTE = "route"
    """Communication between cores: bytes, injection, ejection."""
    MEM = "mem"
    """Memory access: messages from and to DRAM, and the time at a port that was written to."""


class Type(enum.StrEnum):
    """Which instructions a probe matches."""

    COMP = "comp"
    COMM = "comm"
    IO = "io"


class Location(enum.StrEnum):
    """Where the clock is read."""

    PRE = "pre"
    """Before the instruction: its start only."""
    POST = "post"
    """After the instruction: its end only."""
    SURROUND = "surround"
    """Both: its duration."""


class Level(enum.StrEnum):
    """How much one record covers."""

    INST = "inst"
    """One instruction."""
    STAGE = "stage"
    """All of a core's matching instructions of one layer group and unit."""


class Structure(enum.StrEnum):
    """Where a record goes."""

    LIST = "list"
    """Appended to a list of raw records."""
    SKETCH = "sketch"
    """Folded into the Fail-Slow Sketch."""


_FRAGMENT_OF: Final = {
    Type.COMP: Fragment.EXEC, Type.COMM: Fragment.ROUTE, Type.IO: Fragment.MEM,
}  # fmt: skip


class _Tuple(NamedTuple):
    fragment: Fragment
    type: Type
    location: Location = Location.SURROUND
    level: Level = Level.INST
    structure: Structure = Structure.SKETCH


class Probe(_Tuple):
    """SlowPoke's five-tuple: what to record, of which instructions, where, how fine, and into what.

    >>> Probe.parse("exec comp post")
    Probe(fragment=exec, type=comp, location=post, level=inst, structure=sketch)
    """

    __slots__ = ()

    def __new__(
        cls,
        fragment: Fragment | str,
        type: Type | str,
        location: Location | str = Location.SURROUND,
        level: Level | str = Level.INST,
        structure: Structure | str = Structure.SKETCH,
    ) -> Probe:
        """The probe, checked.

        Raises:
            SlowpokeError: An option that Table 1 does not have, or a fragment that has nothing to
                record at instructions of that type.
        """
        values = []
        for kind, value in (
            (Fragment, fragment), (Type, type), (Location, location), (Level, level),
            (Structure, structure),
        ):  # fmt: skip
            try:
                values.append(kind(value))
            except ValueError:
                raise SlowpokeError(
                    f"probe {kind.__name__.lower()} {value!r}: one of {', '.join(kind)}"
                ) from None
        probe = super().__new__(cls, *values)  # type: ignore[arg-type]
        if _FRAGMENT_OF[probe.type] != probe.fragment:
            raise SlowpokeError(
                f"probe fragment {probe.fragment} at {probe.type} instructions records nothing; "
                f"{probe.type} goes with {_FRAGMENT_OF[probe.type]}"
            )
        return probe

    @staticmethod
    def parse(text: str) -> Probe:
        """The probe of a text such as `route comm surround inst sketch`; later words may be left
        out."""
        words = text.replace(",", " ").replace("/", " ").lower().split()
        if not 2 <= len(words) <= 5:
            raise SlowpokeError(
                f"probe {text!r}: two to five words, such as `exec comp surround inst sketch`"
            )
        return Probe(*words)

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{name}={value}" for name, value in zip(self._fields, self, strict=True)
        )
        return f"Probe({fields})"


_ROUTE, _MEM, _EXEC = (Probe(_FRAGMENT_OF[kind], kind) for kind in (Type.COMM, Type.IO, Type.COMP))

PROBES: Final[dict[str, tuple[Probe, ...]]] = {
    "comm": (_ROUTE,),
    "io": (_MEM,),
    "comp": (_EXEC,),
    "full": (_ROUTE, _MEM, _EXEC),
    "none": (),
}
"""The papers' configurations (SlowPoke section 4.3), by Table 1's types: communication, computation
and all instructions; besides, messages from and to DRAM alone, and none."""


def probe_set(probes: str | Probe | Sequence[Probe]) -> tuple[Probe, ...]:
    """Probes by the name of a preset, as text, or as they are.

    Raises:
        SlowpokeError: Neither a preset nor a probe.
    """
    if isinstance(probes, Probe):
        return (probes,)
    if isinstance(probes, str):
        if probes in PROBES:
            return PROBES[probes]
        if len(probes.split()) < 2:
            raise SlowpokeError(
                f"probes {probes!r}: one of {', '.join(PROBES)}, or a five-tuple such as "
                "`exec comp surround inst sketch`"
            )
        return tuple(Probe.parse(part) for part in probes.split(";"))
    return tuple(Probe(*probe) for probe in probes)


def matches(probe: Probe, program: Program) -> NDArray[np.bool_]:
    """(n_events,) whether the probe sees the event. The recorder's own traffic is not traced."""
    kind = program.kind[program.event_task]
    kinds = {
        Type.COMP: (TaskKind.COMPUTE,),
        Type.COMM: (TaskKind.TRANSFER,),
        Type.IO: (TaskKind.DRAM_READ, TaskKind.DRAM_WRITE),
    }[probe.type]
    traced = program.role[program.event_task] != Role.TRACE
    return np.asarray(np.isin(kind, kinds) & traced, dtype=np.bool_)


def store_cycles(probe: Probe, program: Program, sketch: SketchConfig) -> float:
    """Cycles that it takes to put one record of the probe into its structure (ProbeCosts)."""
    costs = program.chip.probe_costs
    if probe.structure == Structure.LIST:
        return costs.list_append_cycles
    if sketch.mode == "static":
        return costs.slot_update_cycles
    # Nearly every record is of a promoted pattern: Stage-1 and Stage-2 both cost.
    return costs.hash_cycles * sketch.n_tables + costs.slot_update_cycles


def record_cycles(probe: Probe, program: Program, sketch: SketchConfig) -> float:
    """Cycles that one record costs the core that stores it: clock reads and its storage."""
    n_reads = 2 if probe.location == Location.SURROUND else 1
    return n_reads * program.chip.probe_costs.clock_read_cycles + store_cycles(
        probe, program, sketch
    )


def instrument(
    program: Program,
    probes: str | Probe | Sequence[Probe] = "full",
    sketch: SketchConfig = SketchConfig(),
) -> Program:
    """The program with probes: which events are recorded, and PROBE tasks for what that costs.

    Tasks keep their order; each group's PROBE tasks follow its own. One PROBE an event (one a core,
    group and kind for Level.STAGE), whatever the number of probes that match it. Maps that do not
    fit the budget of their core are offloaded to DRAM (`slowpoke_tracer.offload`).

    Args:
        program: Without PROBE tasks.
        probes: A preset's name, a five-tuple or several.
        sketch: Which structure a record is folded into; its cost depends on it.

    Raises:
        SlowpokeError: The program has probes already, or the probes are unknown.
    """
    chosen = probe_set(probes)
    if np.any(program.kind == TaskKind.PROBE):
        raise SlowpokeError("the program has probes already; instrument the program it came from")
    n = program.n_events
    recorded, in_sketch, in_list = np.zeros((3, n), dtype=bool)
    cost = np.zeros(n)
    leader = np.arange(n)
    for probe in chosen:
        seen = matches(probe, program)
        recorded |= seen
        cycles = record_cycles(probe, program, sketch)
        if probe.level == Level.STAGE:
            leader[seen] = first_of_stage(program, seen)[seen]
            seen = np.isin(np.arange(n), leader[seen])
        cost[seen] += cycles
        if probe.structure == Structure.LIST:
            in_list |= seen
        else:
            in_sketch |= seen
        if probe.type == Type.IO and probe.location != Location.PRE:
            # When its port has stored a write is one more time, and in a sketch one more slot.
            write = seen & (program.kind[program.event_task] == TaskKind.DRAM_WRITE)
            cost[write] += program.chip.probe_costs.clock_read_cycles
            if probe.structure == Structure.SKETCH:
                cost[write] += store_cycles(probe, program, sketch)
    probed = np.flatnonzero(recorded & (leader == np.arange(n)))
    number = np.full(n, -1)
    number[probed] = np.arange(len(probed))
    followers = np.flatnonzero(recorded & (leader != np.arange(n)))
    added = Added.probes(program, probed, cost[probed]).also_waiting(
        number[leader[followers]], followers
    )
    added += _offloading(program, sketch, in_sketch, np.flatnonzero(in_list), n + number)
    return inserted(program, added, recorded)


def _offloading(
    program: Program,
    sketch: SketchConfig,
    in_sketch: NDArray[np.bool_],
    listed: NDArray[np.int64],
    probe: NDArray[np.int64],
) -> Added:
    """What has to be written to DRAM because a core's budget does not hold it."""
    n_cores = program.chip.n_cores
    budget = sketch.budget_of(program)
    kept = dataclasses.replace(program, recorded=in_sketch)
    patterns = sketch.patterns(kept)
    need = sketch.nbytes_per_core(patterns, n_cores)
    crowded = (need > budget) & (sketch.mode == "static")
    added = slot_writes(program, patterns, crowded)
    if len(listed):
        added += list_writes(program, listed, probe[listed], budget)
    return added


def first_of_stage(program: Program, seen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(n_events,) of each seen event, the first seen event of the same recorder and group."""
    first = np.arange(program.n_events)
    events = np.flatnonzero(seen)
    task = program.event_task[events]
    # Weights move in a batch's first unit only, so they are a stage of their own.
    stage = 2 * program.task_group[task].astype(np.int64) + program.once[task]
    stage = stage * program.chip.n_cores + program.event_recorder[events]
    _, index, inverse = np.unique(stage, return_index=True, return_inverse=True)
    first[events] = events[index[inverse]]
    return first
