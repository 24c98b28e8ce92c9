"""Natural performance noise, as data: how much service times vary on a healthy chip.

Sources: SlowPoke section 2.3 (cores normal, link times Gamma); the values of `released` are those
of the authors' published simulator (core rate with CV 0.0152, link width Gamma of shape 8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_sim.draws import N_CELLS, Z_MAX

CORE_CV = 0.0152
"""Coefficient of variation of a core's rate in the published simulator."""
GAMMA_SHAPE = 8.0
MIN_SPEED = 0.05
"""A core's random speed is cut here, as a share of nominal: P is normal, but positive."""


class Distribution(Protocol):
    """How many times longer than nominal a service takes, as a quantile function."""

    def time_factors(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """The factor at each probability p in (0, 1): positive, finite and monotone in p."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Every service takes its nominal time."""

    def time_factors(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Ones."""
        return np.ones_like(p)


@dataclass(frozen=True, slots=True)
class NormalSpeed:
    """Speed is normal with mean 1, cut at MIN_SPEED (SlowPoke section 2.3, cores)."""

    cv: float

    def time_factors(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 / speed, the slowest last."""
        return np.asarray(1.0 / np.maximum(1.0 - self.cv * special.ndtri(p), MIN_SPEED))


@dataclass(frozen=True, slots=True)
class GammaTime:
    """Time is Gamma with mean 1: CV 1 / sqrt(shape) (SlowPoke section 2.3, links)."""

    shape: float

    def time_factors(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Gamma quantiles of mean 1."""
        return np.asarray(special.gammaincinv(self.shape, p) / self.shape)


@dataclass(frozen=True, slots=True)
class GammaWidth:
    """Width is Gamma with mean 1, so time has mean shape / (shape - 1) and a heavier tail."""

    shape: float

    def time_factors(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 / width, the narrowest last."""
        return np.asarray(self.shape / special.gammainccinv(self.shape, p))


@dataclass(frozen=True, slots=True)
class Noise:
    """What varies on a healthy chip.

    Attributes:
        name: What reports call it.
        core: Time factor of each COMPUTE instance.
        link: Time factor of each packet on each channel.
        core_spread: Standard deviation of each core's own lasting speed (process variation).
        drift: Standard deviation of the log of each component's slow AR(1) drift.
        drift_window_cycles: Time window over which drift is constant.
        drift_correlation: Correlation of neighbouring windows, in [0, 1).
    """

    name: str
    core: Distribution = Exact()
    link: Distribution = Exact()
    core_spread: float = 0.0
    drift: float = 0.0
    drift_window_cycles: float = 1e5
    drift_correlation: float = 0.98

    def __post_init__(self) -> None:
        if not 0 <= self.core_spread < 0.5 or not 0 <= self.drift < 1:
            raise SlowpokeError(
                f"noise {self.name!r}: spread {self.core_spread:g} must be in [0, 0.5) and drift "
                f"{self.drift:g} in [0, 1)"
            )
        if not 0 < self.drift_window_cycles < math.inf or not 0 <= self.drift_correlation < 1:
            raise SlowpokeError(
                f"noise {self.name!r}: the drift's window is a time > 0 in cycles and its "
                "correlation lies in [0, 1)"
            )

    def core_table(self) -> NDArray[np.float64]:
        """Factors of a COMPUTE, as `draws.draw` reads them; empty for Exact."""
        return _table(self.core, self.name)

    def link_table(self) -> NDArray[np.float64]:
        """Factors of a packet, as `draws.draw` reads them; empty for Exact."""
        return _table(self.link, self.name)

    def __str__(self) -> str:
        return self.name


NOISES: dict[str, Noise] = {
    "none": Noise("none"),
    "paper": Noise("paper", NormalSpeed(CORE_CV), GammaTime(GAMMA_SHAPE)),
    "released": Noise("released", NormalSpeed(CORE_CV), GammaWidth(GAMMA_SHAPE)),
    "harsh": Noise("harsh", NormalSpeed(0.06), GammaWidth(GAMMA_SHAPE), 0.03, 0.02),
}
"""The paper prints no Gamma shape: `paper` uses the published simulator's 8 (CV 0.354)."""


def noise_of(noise: str | Noise) -> Noise:
    """The preset of a name; a Noise passes through.

    Raises:
        SlowpokeError: No such preset.

    >>> noise_of("harsh").core_spread
    0.03
    """
    if isinstance(noise, Noise):
        return noise
    try:
        return NOISES[noise]
    except (KeyError, TypeError):
        raise SlowpokeError(
            f"noise {noise!r} is unknown; choose one of {', '.join(NOISES)} or pass a Noise"
        ) from None


def _table(distribution: Distribution, name: str) -> NDArray[np.float64]:
    if isinstance(distribution, Exact):
        return np.empty(0)
    z = np.linspace(-Z_MAX, Z_MAX, N_CELLS + 1)
    # probabilities that round to 1 would make an unbounded quantile infinite
    p = np.concatenate([special.ndtr(z), np.linspace(0.0, 1.0, N_CELLS + 1)])
    p = np.clip(p, 2.0**-53, 1.0 - 2.0**-53)
    factors = np.asarray(distribution.time_factors(p), dtype=np.float64)
    if factors.shape != p.shape or not np.all(np.isfinite(factors)) or np.any(factors <= 0):
        raise SlowpokeError(
            f"noise {name!r}: {distribution} must give one positive, finite factor for each "
            "probability"
        )
    return np.ascontiguousarray(factors)
