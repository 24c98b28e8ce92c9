"""How a chip's speeds differ from its data sheet: three factors that a run can be fitted to."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slowpoke_mapping.errors import SlowpokeError


@dataclass(frozen=True, slots=True)
class Scale:
    """Factors on the chip's nominal speeds: 0.9 is 10 % slower than the configuration says."""

    link_speed: float = 1.0
    core_speed: float = 1.0
    dram_speed: float = 1.0

    def __post_init__(self) -> None:
        for value in (self.link_speed, self.core_speed, self.dram_speed):
            if not 0 < value < math.inf:
                raise SlowpokeError(f"{self}: a speed factor is a finite number > 0")
