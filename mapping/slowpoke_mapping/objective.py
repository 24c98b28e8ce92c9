"""What a mapping is searched for: latency, energy, their product, or any function of both.

The search is local, so it needs only what one more cycle and one more picojoule are worth where it
stands; the product and a user's function are replaced by their slopes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.segment import Weights, dram_pj_per_cycle

Objective = str | Callable[[float, float], float]
"""`latency`, `energy`, `edp`, or a function of (cycles, picojoules) of a batch."""

OBJECTIVES: dict[str, Callable[[float, float], float]] = {
    "latency": lambda cycles, energy_pj: cycles,
    "energy": lambda cycles, energy_pj: energy_pj,
    "edp": lambda cycles, energy_pj: cycles * energy_pj,
}

HIDDEN_DRAM = 0.3
"""In a search for latency, a cycle of DRAM traffic counts this many cycles even when computing
hides it: ports keep slack and energy is saved, for a few per cent of the estimated latency."""

STEP = 1e-3


def objective_function(objective: Objective) -> Callable[[float, float], float]:
    """The function of an objective's name; a function passes through.

    Raises:
        SlowpokeError: An unknown name.
    """
    if not isinstance(objective, str):
        return objective
    try:
        return OBJECTIVES[objective]
    except KeyError:
        raise SlowpokeError(
            f"objective {objective!r}: choose {', '.join(OBJECTIVES)}, or give a function of "
            "(cycles, picojoules)"
        ) from None


def worth(objective: Objective, cycles: float, energy_pj: float, chip: ChipConfig) -> Weights:
    """What one more cycle and one more picojoule are worth at a point, the cycle or pJ as unit.

    Raises:
        SlowpokeError: A function that is not finite or grows in neither.
    """
    if objective == "latency":
        return Weights(1.0, HIDDEN_DRAM / dram_pj_per_cycle(chip))
    if objective == "energy":
        return Weights(1e-3 * energy_pj / max(cycles, 1.0), 1.0)  # time breaks ties
    function = objective_function(objective)
    here = function(cycles, energy_pj)
    by_cycle = (function(cycles * (1 + STEP), energy_pj) - here) / (cycles * STEP)
    by_pj = (function(cycles, energy_pj * (1 + STEP)) - here) / (energy_pj * STEP)
    by_cycle, by_pj = max(by_cycle, 0.0), max(by_pj, 0.0)
    if not math.isfinite(by_cycle + by_pj) or by_cycle + by_pj == 0:
        raise SlowpokeError(
            f"objective gives {here!r} at {cycles:g} cycles and {energy_pj:g} pJ and grows with "
            "neither; it must be finite and grow with cycles or picojoules"
        )
    if by_cycle == 0:
        return Weights(0.0, 1.0)
    return Weights(1.0, by_pj / by_cycle)
