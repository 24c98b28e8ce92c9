"""diagnose(): a sketch or a trace in, a diagnosis out, by the detector of your choice."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program
from slowpoke_tracer.baselines.catalogue import BASELINES
from slowpoke_tracer.detector import Context, Detector
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.monitor import OnlineDetector
from slowpoke_tracer.paper import SlowpokeDetector
from slowpoke_tracer.robust import RobustDetector
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sloth import SlothDetector
from slowpoke_tracer.trace import Trace
from slowpoke_tracer.twin import Twin

DETECTORS: dict[str, Callable[[], Detector]] = {
    "robust": RobustDetector,
    "online": OnlineDetector,
    "slowpoke": SlowpokeDetector,
    "sloth": SlothDetector,
    **BASELINES,
}
"""Names for command lines; in Python pass a Detector."""


def detector_of(detector: str | Detector) -> Detector:
    """The detector of a name; a Detector passes through.

    Raises:
        SlowpokeError: No such name; the message has close ones.
    """
    if not isinstance(detector, str):
        return detector
    if detector not in DETECTORS:
        near = difflib.get_close_matches(detector, DETECTORS, 3) or list(DETECTORS)
        raise SlowpokeError(f"{detector!r} is no detector; try {', '.join(near)}")
    return DETECTORS[detector]()


def diagnose(
    evidence: Sketch | Trace,
    program: Program,
    *,
    twin: Twin | None = None,
    profile: Sketch | None = None,
    detector: str | Detector = "robust",
    seed: int = 0,
) -> Diagnosis:
    """Find what was slow in a run.

    Args:
        evidence: The run's sketch, or its full trace.
        program: What ran (the instrumented program, if probes were inserted).
        twin: Replays the program (`slowpoke_sim.twin.DigitalTwin`).
        profile: Sketch of a healthy run of the same program, where there is no twin.
        detector: A name of DETECTORS, or a Detector.
        seed: For detectors that draw.

    Raises:
        SlowpokeError: Unknown detector, a sketch of another program, or a baseline is missing.
    """
    if evidence.meta.program_fingerprint != program.fingerprint:
        raise SlowpokeError(
            f"the evidence is of program {evidence.meta.program_fingerprint}, not of "
            f"{program.fingerprint} ({program.model}); give the program that was recorded"
        )
    context = Context(program, program.chip, twin, profile, seed)
    return detector_of(detector).detect(evidence, context)
