"""Slow cores by comparison: of peers within a stage, or with the chip's nominal rate.

A stage is one operator in one layer group and time window; its peers are the cores that compute it
(SlowPoke section 3.4.1). Rates are MAC equivalents in a cycle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from slowpoke_tracer.detect.observations import Observations
from slowpoke_tracer.detect.routes import numbered


@dataclass(frozen=True, eq=False)
class StageRates:
    """How fast each core was in each stage.

    Attributes:
        window: (n,) time window.
        group: (n,) layer group.
        op: (n,) operator.
        core: (n,) core.
        rate: (n,) MAC equivalents in a cycle.
        start_cycles: (n,) start of the first piece.
        end_cycles: (n,) end of the last.
        stage: (n,) number of the stage, 0 to n_stages - 1.
    """

    window: NDArray[np.int64]
    group: NDArray[np.int64]
    op: NDArray[np.int64]
    core: NDArray[np.int64]
    rate: NDArray[np.float64]
    start_cycles: NDArray[np.float64]
    end_cycles: NDArray[np.float64]
    stage: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.core)


@dataclass(frozen=True, eq=False)
class CoreEvidence:
    """What the comparison says of each row of a StageRates.

    Attributes:
        probability: (n,) from the normal model, 0 at or above the average.
        z: (n,) standard deviations below the average.
        slowdown: (n,) rate expected without the row itself, over its rate; NaN without peers.
        candidate: (n,) whether it stands out.
    """

    probability: NDArray[np.float64]
    z: NDArray[np.float64]
    slowdown: NDArray[np.float64]
    candidate: NDArray[np.bool_]


def stage_rates(seen: Observations, min_mean_cycles: float = 0.0) -> StageRates:
    """The rate of each core in each stage, from what was computed.

    Args:
        seen: Of a run.
        min_mean_cycles: Shorter pieces are left out (a rounded clock makes them look slow).
    """
    compute = seen.compute
    work = compute.column("work").astype(np.float64)
    compute = compute.select((compute.mean_cycles > min_mean_cycles) & (work > 0))
    if not len(compute):
        none, zero = np.zeros(0, np.int64), np.zeros(0)
        return StageRates(none, none, none, none, zero, zero, zero, none)
    # the core that computes is the core that records
    names = ("group", "op", "recorder")
    keys = [compute.window, *(compute.column(k).astype(np.int64) for k in names)]
    least = [int(key.min()) for key in keys]
    widths = [int(key.max()) - low + 1 for key, low in zip(keys, least, strict=True)]
    code = np.zeros(len(compute), dtype=np.int64)
    for key, low, width in zip(keys, least, widths, strict=True):
        code = code * width + (key - low)
    found, number = numbered(code, math.prod(widths))
    rows = np.empty((len(keys), len(found)), dtype=np.int64)
    for i in range(len(keys) - 1, -1, -1):
        found, rows[i] = np.divmod(found, widths[i])
        rows[i] += least[i]
    n = rows.shape[1]
    work = compute.column("work").astype(np.float64) * compute.count
    time = compute.mean_cycles * compute.count
    start = np.full(n, np.inf)
    np.minimum.at(start, number, compute.start_cycles)
    end = np.full(n, -np.inf)
    np.maximum.at(end, number, compute.end_cycles)
    new = np.any(rows[:3, 1:] != rows[:3, :-1], axis=0)
    stage = np.concatenate([[0], np.cumsum(new)])
    rate = np.bincount(number, work, n) / np.bincount(number, time, n)
    return StageRates(rows[0], rows[1], rows[2], rows[3], rate, start, end, stage)


def normal_probability(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(|Z| < z) of a standard normal Z for z > 0, else 0: how surely the value is low.

    The paper derives a probability "from the normal distribution of its performance variance"
    without a formula; this is the form of the authors' code, made one-sided.

    >>> normal_probability(np.array([-1.0, 0.0, 1.0])).round(4).tolist()
    [0.0, 0.0, 0.6827]
    """
    result: NDArray[np.float64] = erf(np.maximum(z, 0.0) / np.sqrt(2.0))
    return result


def compare_with_peers(
    rates: StageRates, candidate_z: float, candidate_drop: float, min_peers: int = 3
) -> CoreEvidence:
    """Compare each core with the mean and standard deviation of its stage, itself included.

    That is the printed method; z can then be at most sqrt(n - 1) in a stage of n cores, so that no
    core of a stage of 10 or fewer exceeds 3.

    Args:
        rates: Of a run.
        candidate_z: A candidate lies more than this many standard deviations below the mean.
        candidate_drop: and by more than this share of the mean.
        min_peers: Stages of fewer cores compare nobody.
    """
    size = int(rates.stage[-1]) + 1 if len(rates) else 0
    n = np.bincount(rates.stage, minlength=size)[rates.stage]
    mean = (np.bincount(rates.stage, rates.rate, size))[rates.stage] / n
    square = np.bincount(rates.stage, (rates.rate - mean) ** 2, size)[rates.stage]
    sd = np.sqrt(square / n)
    usable = (n >= min_peers) & (sd > 1e-12 * mean)
    z = np.where(usable, (mean - rates.rate) / np.where(usable, sd, 1.0), 0.0)
    candidate = usable & (z > candidate_z) & (rates.rate < (1.0 - candidate_drop) * mean)
    others = np.where(n > 1, (n * mean - rates.rate) / np.maximum(n - 1, 1), np.nan)
    return CoreEvidence(normal_probability(z), z, others / rates.rate, candidate)


def compare_with_nominal(
    rates: StageRates,
    macs_per_cycle: float,
    sd: float,
    candidate_probability: float,
    sides: Literal["one", "two"] = "two",
) -> CoreEvidence:
    """Compare each core with the chip's nominal rate, as the authors' public code does.

    Args:
        rates: Of a run.
        macs_per_cycle: Nominal rate.
        sd: Standard deviation of the normal model, in MACs a cycle.
        candidate_probability: A candidate's probability exceeds it.
        sides: `two` also suspects a core that is fast.
    """
    z = (macs_per_cycle - rates.rate) / sd
    if sides == "two":
        z = np.abs(z)
    probability = normal_probability(z)
    return CoreEvidence(
        probability, z, macs_per_cycle / rates.rate, probability > candidate_probability
    )
