"""A detector's quality, as a fleet feels it: how often it finds, how often it cries wolf."""

import math
from dataclasses import dataclass

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.failslow.exposure import check_share

_MOST_CONFIRMATIONS = 1000


@dataclass(frozen=True)
class Detector:
    """How well one diagnosis works.

    Attributes:
        recall: q, probability that a slow chip is found by one diagnosis.
        false_alarm: f, probability that a diagnosis of a healthy job accuses something.
        cost_seconds: Wall time that a diagnosis takes from the job.
        name: For the reader.
    """

    recall: float
    false_alarm: float = 0.0
    cost_seconds: float = 0.0
    name: str = "detector"

    def __post_init__(self) -> None:
        check_share(self.recall, "recall")
        check_share(self.false_alarm, "false-alarm probability")
        if not (math.isfinite(self.cost_seconds) and self.cost_seconds >= 0):
            raise SlowpokeError(
                f"a diagnosis of {self.cost_seconds} s: give a finite time, not negative"
            )

    def confirmed(self, k: int) -> "Detector":
        """The same, acting only if k diagnoses in a row agree; windows taken for independent."""
        if k < 1:
            raise SlowpokeError(f"{k} confirmations: give at least 1, a single diagnosis")
        if k > _MOST_CONFIRMATIONS:
            raise SlowpokeError(f"{k} confirmations: give at most {_MOST_CONFIRMATIONS}")
        if k == 1:
            return self
        f = self.false_alarm
        repeats = float(k) if f == 1.0 else (1.0 - f**k) / (1.0 - f)
        return Detector(
            self.recall**k, f**k, self.cost_seconds * repeats, f"{self.name}, {k} in a row"
        )
