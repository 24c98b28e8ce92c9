"""Write a detector, have it checked, and hear what it says of a run with a slow core.

python examples/own_detector.py
"""

import numpy as np

from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Core
from slowpoke_tracer.checks import check_detector
from slowpoke_tracer.detector import Context, Evidence
from slowpoke_tracer.diagnosis import Diagnosis, Suspect
from slowpoke_tracer.patterns import COMPUTE
from slowpoke_tracer.recorder import record
from slowpoke_tracer.sample import sample_program, sample_trace
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.tracer import diagnose


class SlowestCore:
    """Reports the core whose time for a unit of work is far above the other cores' median."""

    name = "slowest-core"

    def __init__(self, ratio: float = 1.5) -> None:
        self.ratio = ratio

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """Cores by cycles a MAC, from the sketch alone."""
        sketch = evidence if isinstance(evidence, Sketch) else record(evidence, context.program)
        compute = sketch.patterns["kind"] == COMPUTE
        core = sketch.patterns["recorder"][compute]
        work = sketch.patterns["work"][compute] * sketch.count[compute].sum(axis=1)
        n = context.chip.n_cores
        cycles = np.bincount(core, sketch.duration_sum[compute], minlength=n)
        macs = np.bincount(core, work, minlength=n)
        seen = np.flatnonzero(macs)
        pace = cycles[seen] / macs[seen]
        slowdown = pace / np.median(pace)
        odds = slowdown**8
        suspects = tuple(
            Suspect(Core(int(seen[i])), float(odds[i] / odds.sum()), float(slowdown[i]),
                    slowdown=float(slowdown[i]))
            for i in np.argsort(-slowdown, kind="stable")
        )  # fmt: skip
        return Diagnosis(
            ranked=suspects,
            reported=tuple(s for s in suspects if s.slowdown > self.ratio),
            method=self.name,
            clock_hz=context.chip.clock_hz,
        )


def main() -> None:
    """Check it, then use it."""
    check_detector(SlowestCore())  # raises with the rule that is broken, if one is
    program = sample_program()
    trace = sample_trace(program, [Fault(Core(5), 10.0)], seed=3)
    print(diagnose(record(trace, program), program, detector=SlowestCore()))


if __name__ == "__main__":
    main()
