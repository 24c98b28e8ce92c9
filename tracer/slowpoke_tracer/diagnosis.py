"""The diagnosis: healthy or fail-slow, and which places, how slow, since when, how sure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from slowpoke_mapping.places import Place


class Verdict(enum.StrEnum):
    """What a run's evidence says."""

    HEALTHY = "healthy"
    FAIL_SLOW = "fail_slow"


@dataclass(frozen=True, slots=True)
class Suspect:
    """A place that may be slow.

    Attributes:
        place: Where.
        probability: Posterior probability that it is the root cause.
        score: The method's own score, larger is more suspicious.
        slowdown: Estimated time multiplier; NaN where the method estimates none.
        start_cycles: Estimated onset; NaN where unknown.
        end_cycles: Estimated end; NaN where unknown.
        ambiguous_with: Places that the traffic cannot tell from this one.
        evidence: What speaks for it, one sentence.
    """

    place: Place
    probability: float
    score: float
    slowdown: float = float("nan")
    start_cycles: float = float("nan")
    end_cycles: float = float("nan")
    ambiguous_with: tuple[Place, ...] = ()
    evidence: str = ""

    @property
    def interval(self) -> tuple[float, float]:
        """(start, end) in cycles."""
        return (self.start_cycles, self.end_cycles)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a detector says of a run.

    Attributes:
        ranked: Every covered place, most probable first.
        reported: The claim; the verdict is healthy exactly if it is empty.
        not_covered: Places that no traffic touched: unknown, not healthy.
        healthy_probability: Posterior probability that nothing is slow.
        method: Preset, and what served as the healthy baseline.
        clock_hz: Cycles in a second, for printing.
        notes: What a reader must know (what was not recorded, what was refitted).
        p_value: Conformal: how probable so suspicious a run is when nothing is slow; NaN unless
            the detector was calibrated.
        alarm_cycles: When the alarm was raised, of a detector that watches the run; NaN of one
            that looks at the end, or where there was no alarm.
    """

    ranked: tuple[Suspect, ...]
    reported: tuple[Suspect, ...]
    not_covered: tuple[Place, ...] = ()
    healthy_probability: float = float("nan")
    method: str = ""
    clock_hz: float = 1e9
    notes: tuple[str, ...] = ()
    p_value: float = float("nan")
    alarm_cycles: float = float("nan")

    @property
    def verdict(self) -> Verdict:
        """Healthy exactly if nothing is reported."""
        return Verdict.FAIL_SLOW if self.reported else Verdict.HEALTHY

    def __str__(self) -> str:
        if not self.ranked:
            lines = ["no verdict: nothing was recorded of any core or link; use probes"]
        elif not self.reported:
            lines = ["healthy: no core or link stands out"]
        else:
            lines = []
            for number, suspect in enumerate(self.reported, 1):
                lines.append(f"{number}. {suspect_text(suspect, self.clock_hz)}")
        if self.not_covered:
            lines.append(f"not covered by any traffic: {', '.join(map(str, self.not_covered))}")
        return "\n".join(lines)


def suspect_text(suspect: Suspect, clock_hz: float) -> str:
    """`core:5 looks 10.0x slow from 0.12 ms to 4.80 ms (probability 1.00)`."""
    text = str(suspect.place)
    if suspect.slowdown == suspect.slowdown:
        text += f" looks {suspect.slowdown:.2f}x slow"
    else:
        text += " looks slow"
    if suspect.start_cycles == suspect.start_cycles:
        start, end = (1e3 * t / clock_hz for t in suspect.interval)
        text += f" from {start:.3f} ms to {end:.3f} ms"
    text += f" (probability {suspect.probability:.3f})"
    if suspect.ambiguous_with:
        text += f"; traffic cannot tell it from {', '.join(map(str, suspect.ambiguous_with))}"
    return text
