"""Online mode: look at the sketch after every epoch, and raise an alarm as soon as one is due.

The score of the run so far is the best over windows that have already ended. Each of them is also a
window of the whole run, for which the thresholds are set, so that looking often costs no more false
alarms than looking once at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_tracer.detector import Context
from slowpoke_tracer.diagnosis import Diagnosis, Suspect
from slowpoke_tracer.recorder import record
from slowpoke_tracer.robust import RobustDetector
from slowpoke_tracer.robust_config import RobustConfig
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.trace import Trace


@dataclass(eq=False)
class Monitor:
    """Watches a run, epoch by epoch.

    Attributes:
        context: Program and twin or profile.
        config: Of the robust detector; hypotheses are not simulated while the run goes on.
        alarms: (epoch, suspect) of each place when it was first reported.
    """

    context: Context
    config: RobustConfig = field(default_factory=RobustConfig)
    alarms: list[tuple[int, Suspect]] = field(default_factory=list)
    _next_epoch: int = 0

    def update(self, sketch: Sketch, n_complete: int) -> Diagnosis:
        """The diagnosis of the run so far.

        Args:
            sketch: `Recorder.result()` of the run so far.
            n_complete: Epochs that have ended; later ones are not looked at.

        Raises:
            SlowpokeError: Epochs go backwards, or more have ended than there are.
        """
        if not self._next_epoch < n_complete <= sketch.n_epochs:
            raise SlowpokeError(
                f"{n_complete} epochs after {self._next_epoch}: give each ended epoch once, in "
                f"order, up to {sketch.n_epochs}"
            )
        self._next_epoch = n_complete
        detector = RobustDetector(replace(self.config, confirm=False))
        diagnosis = detector.detect(until(sketch, n_complete), self.context)
        known = {suspect.place for _, suspect in self.alarms}
        for suspect in diagnosis.reported:
            if suspect.place not in known:
                self.alarms.append((n_complete - 1, suspect))
        return diagnosis


@dataclass(frozen=True, slots=True)
class OnlineDetector:
    """The monitor as a detector: it sees the epochs one by one and stops at the first alarm.

    What it reports is what is known then; `Diagnosis.alarm_cycles` is the end of that epoch, by
    which a campaign measures detection latency. Cost: one scan an epoch.
    """

    config: RobustConfig = field(default_factory=RobustConfig)
    name: str = "online"

    def detect(self, evidence: Sketch | Trace, context: Context) -> Diagnosis:
        """The first diagnosis that reports something, or that of the whole run.

        Args:
            evidence: The run's sketch, or its trace (which is sketched first).
            context: Program, twin or profile.

        Raises:
            SlowpokeError: As `RobustDetector.detect`; a sketch without any epoch.
        """
        sketch = record(evidence, context.program) if isinstance(evidence, Trace) else evidence
        monitor = Monitor(context, self.config)
        ends = sketch.epoch_end_cycles
        diagnosis = None
        for epoch in np.flatnonzero(np.isfinite(ends)).tolist():
            diagnosis = monitor.update(sketch, epoch + 1)
            if diagnosis.reported:
                return replace(diagnosis, alarm_cycles=float(ends[epoch]))
        if diagnosis is None:
            raise SlowpokeError("nothing was recorded: a monitor needs at least one ended epoch")
        return diagnosis


def until(sketch: Sketch, n_complete: int) -> Sketch:
    """The sketch without the epochs from n_complete on."""
    count, log_sum = sketch.count.copy(), sketch.log_sum.copy()
    log_min, log_max = sketch.log_min.copy(), sketch.log_max.copy()
    count[:, n_complete:], log_sum[:, n_complete:] = 0, 0.0
    log_min[:, n_complete:], log_max[:, n_complete:] = np.inf, -np.inf
    start, end = sketch.epoch_start_cycles.copy(), sketch.epoch_end_cycles.copy()
    start[n_complete:], end[n_complete:] = np.nan, np.nan
    return replace(
        sketch,
        count=count,
        log_sum=log_sum,
        log_min=log_min,
        log_max=log_max,
        epoch_start_cycles=start,
        epoch_end_cycles=end,
    )
