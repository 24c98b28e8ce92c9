"""Fail-slow faults: a place that is correct but too slow, for a time.

Text form: `PLACE@SLOWDOWNx` with an optional interval `[2ms,5ms]` or `[1e6,2e6]` cycles, and
optional `;ramp=1ms`, `;period=2ms;duty=0.3` (design.md section 3; SlowPoke section 4.1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.places import Place, parse_place
from slowpoke_mapping.topology import Topology

RAMP_STEPS = 16
"""A ramp is simulated as this many equal steps of slowdown, so that speed is piecewise constant."""

_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
_FORM = re.compile(
    r"(?P<place>[^@]+)@(?P<slowdown>[^x\[;]+)x(?P<interval>\[[^\[\]]*\])?(?P<rest>(;.*)?)"
)
_HELP = "write PLACE@SLOWDOWNx, such as core:5@10x or link:5-6@2x[2ms,5ms]"


@dataclass(frozen=True, slots=True)
class Fault:
    """A place that runs `slowdown` times slower between two times.

    Attributes:
        place: What is slow.
        slowdown: Time multiplier, >= 1 (10 takes ten times as long).
        start_cycles: Onset.
        end_cycles: When full speed returns; infinity for never.
        ramp_cycles: Time over which the slowdown grows from 1, in RAMP_STEPS steps; 0 for at once.
            An intermittent fault ramps anew in each period.
        period_cycles: Period of an intermittent fault, >= 1; 0 for a continuous one.
        duty: Share of each period that is slow; less than 1 needs a period.
    """

    place: Place
    slowdown: float
    start_cycles: float = 0.0
    end_cycles: float = math.inf
    ramp_cycles: float = 0.0
    period_cycles: float = 0.0
    duty: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.place, Place):
            raise SlowpokeError(
                f"{self.place!r} is no Place; give Core(5), or parse_fault the whole text core:5@2x"
            )
        if not 1.0 <= self.slowdown < math.inf:
            raise SlowpokeError(
                f"{self.place}: slowdown {self.slowdown:g} must be a finite number >= 1 "
                "(2 means twice as long)"
            )
        if not 0 <= self.start_cycles < self.end_cycles:
            raise SlowpokeError(
                f"{self.place}: the interval [{self.start_cycles:g}, {self.end_cycles:g}] cycles "
                "is empty or not a number; it starts at 0 or later and ends after it starts"
            )
        if not 0 <= self.ramp_cycles < math.inf or not 0 <= self.period_cycles < math.inf:
            raise SlowpokeError(f"{self.place}: ramp and period are finite times >= 0 in cycles")
        if 0 < self.period_cycles < 1:
            raise SlowpokeError(
                f"{self.place}: a period of {self.period_cycles:g} cycles is shorter than a cycle; "
                "give one of at least 1, or 0 for a continuous fault"
            )
        if not 0 < self.duty <= 1:
            raise SlowpokeError(f"{self.place}: duty {self.duty:g} must be in (0, 1]")
        if self.duty < 1 and self.period_cycles == 0:
            raise SlowpokeError(
                f"{self.place}: duty {self.duty:g} is a share of each period; give the period too"
            )

    def changes(self, until_cycles: float) -> Iterator[tuple[float, float]]:
        """(time, slowdown from then on), in order of time; 1 after the end.

        Args:
            until_cycles: Changes at or after this time are left out.
        """
        for start, stop in self._slow_spans(until_cycles):
            for step in range(RAMP_STEPS if self.ramp_cycles > 0 else 1):
                time = start + self.ramp_cycles * step / RAMP_STEPS
                if time >= min(stop, until_cycles):
                    break
                share = (step + 1) / RAMP_STEPS if self.ramp_cycles > 0 else 1.0
                yield time, 1.0 + (self.slowdown - 1.0) * share
            if stop < until_cycles:
                yield stop, 1.0

    def _slow_spans(self, until_cycles: float) -> Iterator[tuple[float, float]]:
        if self.period_cycles == 0 or self.duty == 1:
            if self.start_cycles < until_cycles:
                yield self.start_cycles, self.end_cycles
            return
        n = 0
        while (start := self.start_cycles + n * self.period_cycles) < min(
            self.end_cycles, until_cycles
        ):
            yield start, min(start + self.duty * self.period_cycles, self.end_cycles)
            n += 1

    def __str__(self) -> str:
        text = f"{self.place}@{_number(self.slowdown)}x"
        if self.start_cycles > 0 or self.end_cycles < math.inf:
            text += f"[{_number(self.start_cycles)},{_number(self.end_cycles)}]"
        for name, value in (("ramp", self.ramp_cycles), ("period", self.period_cycles)):
            if value:
                text += f";{name}={_number(value)}"
        return text + (f";duty={_number(self.duty)}" if self.duty != 1 else "")


def _number(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(value)).removesuffix(".0")


def parse_fault(
    text: str | Fault, topology: Topology | None = None, clock_hz: float = 1e9
) -> Fault:
    """The fault that a text names; a Fault passes through.

    Args:
        text: `core:5@10x`, `link:5-6@10x[2ms,5ms]`, `core:5@2x[1e6,2e6];ramp=1e5`.
        topology: For places written as (x, y).
        clock_hz: Turns times with a unit (ns, us, ms, s) into cycles.

    Raises:
        SlowpokeError: Not of this form, slowdown below 1, an empty or NaN interval.

    >>> parse_fault("core:5@10x[2ms,5ms]", clock_hz=1e9).start_cycles
    2000000.0
    """
    if isinstance(text, Fault):
        return text
    match = _FORM.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise SlowpokeError(f"{text!r} is no fault; {_HELP}")
    place = parse_place(match["place"], topology)
    try:
        slowdown = float(match["slowdown"])
    except ValueError:
        raise SlowpokeError(f"{text!r}: {match['slowdown']!r} is no slowdown; {_HELP}") from None
    start, end = 0.0, math.inf
    if match["interval"]:
        parts = match["interval"].strip("[]").split(",")
        if len(parts) != 2:
            raise SlowpokeError(f"{text!r}: an interval is [start,end]; {_HELP}")
        start, end = (_cycles(part, text, clock_hz) for part in parts)
    options: dict[str, float] = {}
    for item in filter(None, match["rest"].split(";")):
        name, _, value = (part.strip() for part in item.partition("="))
        if name not in ("ramp", "period", "duty") or name in options or not value:
            raise SlowpokeError(
                f"{text!r}: {item!r} is unknown or given twice; use ramp=, period= and duty="
            )
        options[name] = _share(value, text) if name == "duty" else _cycles(value, text, clock_hz)
    if "period" in options and "duty" not in options:
        raise SlowpokeError(f"{text!r}: a period needs a share that is slow, such as ;duty=0.3")
    return Fault(
        place,
        slowdown,
        start,
        end,
        ramp_cycles=options.get("ramp", 0.0),
        period_cycles=options.get("period", 0.0),
        duty=options.get("duty", 1.0),
    )


def parse_faults(
    faults: str | Fault | Iterable[str | Fault],
    topology: Topology | None = None,
    clock_hz: float = 1e9,
) -> tuple[Fault, ...]:
    """Every fault of one or several texts or Fault objects."""
    if isinstance(faults, str | Fault):
        faults = (faults,)
    return tuple(parse_fault(fault, topology, clock_hz) for fault in faults)


def _cycles(text: str, whole: str, clock_hz: float) -> float:
    match = re.fullmatch(r"\s*([-+.\deE]+|nan|inf)\s*(ns|us|ms|s)?\s*", text)
    try:
        if match is None:
            raise ValueError
        value = float(match[1])
    except ValueError:
        raise SlowpokeError(
            f"{whole!r}: {text.strip()!r} is no time; write cycles (1e6) or a unit (2ms)"
        ) from None
    return value * clock_hz / _PER_SECOND[match[2]] if match[2] else value


def _share(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SlowpokeError(
            f"{whole!r}: duty {text!r} is no share of a period; write a number such as duty=0.3"
        ) from None
