"""One detector's answer to one run beside the truth: what every metric is made from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from slowpoke_mapping.places import Link, Place, parse_place


def physical(place: str | Place) -> str:
    """The hardware that a place names: both directions of a link are one physical link.

    >>> physical("link:6->5"), physical("core:3")
    ('link:5-6', 'core:3')
    """
    parsed = parse_place(place)
    return str(parsed.physical if isinstance(parsed, Link) else parsed)


def physicals(places: Iterable[str | Place]) -> tuple[str, ...]:
    """Each piece of hardware once, in the order given."""
    return tuple(dict.fromkeys(physical(place) for place in places))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a detector said of a run, and what was so.

    Attributes:
        truth: Physical places that were slow; empty for a negative.
        reported: Physical places of the claim.
        rank: Rank of the first true place in the ranking, from 1, ties at their mean; infinity
            if it is not ranked; NaN for negatives.
        score: How suspicious the run is as a whole; larger is more suspicious.
        n_components: Cores and physical links of the chip.
        case: Name of the run, the same for every detector that saw it.
        cluster: Runs that share a fault (the same one on several workloads) are one cluster.
        slowdown: True slowdown; NaN for a negative.
        slowdown_estimate: Of a correct report; NaN where there is none.
        interval: True interval in cycles, cut at the run's end; NaN for a negative.
        interval_estimate: Of a correct report; NaN where there is none.
        makespan_ratio: Makespan over the healthy one's.
        exposure: Services that overlap the least exposed fault.
        healthy_probability: That the detector gives to nothing being slow; NaN if it gives none.
        alarm_cycles: When a detector that watches the run raised the alarm; NaN of others.
        makespan_cycles: Of the run.
        refused: The detector gave a reason instead of a diagnosis; counts as silent.
        seconds: Time of the diagnosis.
    """

    truth: tuple[str, ...]
    reported: tuple[str, ...]
    rank: float = math.nan
    score: float = 0.0
    n_components: int = 1
    case: str = ""
    cluster: str = ""
    slowdown: float = math.nan
    slowdown_estimate: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)
    interval_estimate: tuple[float, float] = (math.nan, math.nan)
    makespan_ratio: float = 1.0
    exposure: int = 0
    healthy_probability: float = math.nan
    alarm_cycles: float = math.nan
    makespan_cycles: float = math.nan
    refused: bool = False
    seconds: float = 0.0

    @property
    def positive(self) -> bool:
        """Whether something was slow."""
        return bool(self.truth)

    @property
    def n_found(self) -> int:
        """True places that were reported."""
        return len(set(self.truth) & set(self.reported))

    @property
    def n_wrong(self) -> int:
        """Reported places that were not slow."""
        return len(set(self.reported) - set(self.truth))

    @property
    def exact(self) -> bool:
        """Positive: exactly the truth is reported; negative: nothing is."""
        return set(self.truth) == set(self.reported)

    @property
    def missed(self) -> bool:
        """Something was slow and nothing is reported."""
        return self.positive and not self.reported

    @property
    def misidentified(self) -> bool:
        """Something was slow, and the report names other places only."""
        return self.positive and bool(self.reported) and self.n_found == 0

    @property
    def false_alarm(self) -> bool:
        """Nothing was slow and something is reported."""
        return not self.positive and bool(self.reported)

    @property
    def interval_iou(self) -> float:
        """Intersection over union of the true and the estimated interval; NaN without both."""
        (a, b), (c, d) = self.interval, self.interval_estimate
        if any(math.isnan(t) for t in (a, b, c, d)):
            return math.nan
        union = max(b, d) - min(a, c)
        return max(min(b, d) - max(a, c), 0.0) / union if union > 0 else math.nan

    @property
    def latency(self) -> float:
        """From onset to a right alarm, as a share of the run; NaN without one.

        An alarm before the onset is no detection.
        """
        waited = self.alarm_cycles - self.interval[0]
        return waited / self.makespan_cycles if self.n_found and waited >= 0 else math.nan

    @property
    def slowdown_error(self) -> float:
        """|ln(estimate / truth)|; NaN without an estimate."""
        return abs(math.log(self.slowdown_estimate / self.slowdown))
