"""What every detector is: evidence and context in, a diagnosis out, never the fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.program import Program
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.trace import Trace
from slowpoke_tracer.twin import Twin

Evidence = Sketch | Trace
"""What a run leaves: the sketch of the chip's memory, or every record."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a deployment knows beside the evidence.

    Attributes:
        program: The program that ran.
        chip: The chip it ran on.
        twin: Replays the program; None where there is no simulator.
        profile: Sketch of a healthy run; None where none was recorded.
        seed: Of whatever the detector draws; the same seed gives the same diagnosis.
    """

    program: Program
    chip: ChipConfig
    twin: Twin | None = None
    profile: Sketch | None = None
    seed: int = 0


@runtime_checkable
class Detector(Protocol):
    """Anything that reads a run's evidence and says which places are slow, or that none is.

    The same evidence and context give the same diagnosis; `ranked` lists every covered place once,
    `reported` is drawn from it, and neither evidence nor context is changed. `check_detector` of
    `slowpoke_tracer.checks` tries all of it.
    """

    @property
    def name(self) -> str:
        """Name in tables."""

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """The diagnosis of one run."""
