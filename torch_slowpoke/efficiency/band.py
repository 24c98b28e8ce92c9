"""How sure an efficiency is, when the failure rate was estimated from a log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from torch_slowpoke.efficiency.cadence import CheckpointCost
from torch_slowpoke.efficiency.losses import BEST_PLAN, CheckpointPlan
from torch_slowpoke.efficiency.machine import Application, Definition, machine_efficiency
from torch_slowpoke.efficiency.rate import RateInterval
from torch_slowpoke.efficiency.schedule import Schedule
from torch_slowpoke.efficiency.stable import FloatArray

N_DRAWS = 400
_FIELDS = ("efficiency", "l_F", "l_chk", "l_R")


@dataclass(frozen=True)
class EfficiencyBand:
    """Quantiles of the efficiency and the losses over the posterior of the failure rate.

    Attributes:
        confidence: Share of the draws between `low` and `high`.
        low: efficiency, l_F, l_chk, l_R: lower quantiles.
        median: The medians.
        high: Upper quantiles.
        n_draws: Rates drawn.
    """

    confidence: float
    low: tuple[float, ...]
    median: tuple[float, ...]
    high: tuple[float, ...]
    n_draws: int

    def to_dict(self) -> dict[str, Any]:
        """JSON fields: [low, median, high] of each figure."""
        rows = zip(_FIELDS, self.low, self.median, self.high, strict=True)
        return {
            "confidence": self.confidence,
            "n_draws": self.n_draws,
            **{name: list(values) for name, *values in rows},
        }


def efficiency_band(
    schedule: Schedule,
    rate: RateInterval,
    cost: CheckpointCost,
    plan: CheckpointPlan = BEST_PLAN,
    *,
    definition: Definition = "renewal",
    applications: Mapping[str, Application] | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> EfficiencyBand:
    """Carry the uncertainty of R0 through to the efficiency, by Jeffreys draws.

    Draws and not the interval's ends, because the paper's efficiency is not monotone in the rate
    (its segments are rounded up). O(n_draws x n_types), 0.3 s for 400 draws on Frontier.

    Args:
        schedule: The jobs.
        rate: k failures in U node-hours.
        cost: What a checkpoint costs.
        plan: Where the checkpoints lie.
        definition: `renewal` or `paper`.
        applications: As in `machine_efficiency`.
        n_draws: Rates to draw.
        seed: Of the draws.
    """
    rows = np.empty((n_draws, 4))
    for i, r in enumerate(rate.draws(n_draws, seed)):
        m = machine_efficiency(
            schedule, float(r), cost, plan, definition=definition, applications=applications
        )
        rows[i] = m.efficiency, m.failure_loss, m.checkpoint_loss, m.restart_loss
    tail = (1.0 - rate.confidence) / 2.0
    low, median, high = (
        tuple(float(v) for v in q) for q in _quantiles(rows, (tail, 0.5, 1.0 - tail))
    )
    return EfficiencyBand(rate.confidence, low, median, high, n_draws)


def _quantiles(rows: FloatArray, at: tuple[float, float, float]) -> FloatArray:
    return np.quantile(rows, at, axis=0)
