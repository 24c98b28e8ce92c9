"""Add a network of your own, here a star, and run a model on it.

python examples/own_topology.py
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.topology import TOPOLOGIES, check_topology
from slowpoke_sim.machine import run
from torch_slowpoke import operator_graph


@dataclass(frozen=True)
class Star:
    """Router 0 in the middle, all others around it."""

    n_routers: int
    columns: None = None

    @property
    def links(self) -> NDArray[np.int32]:
        """Out along link 2 (i - 1), back along the next."""
        pairs = [pair for i in range(1, self.n_routers) for pair in ((0, i), (i, 0))]
        return np.array(pairs, dtype=np.int32).reshape(-1, 2)

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        """Through the middle."""
        if src == dst:
            return ()
        inward = (2 * src - 1,) if src else ()
        return inward + ((2 * dst - 2,) if dst else ())

    def order(self) -> tuple[int, ...]:
        """By number."""
        return tuple(range(self.n_routers))

    def positions(self) -> NDArray[np.float64]:
        """The middle, and a circle."""
        angle = 2 * np.pi * np.arange(self.n_routers - 1) / max(self.n_routers - 1, 1)
        circle = 2 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return np.concatenate([np.zeros((1, 2)), circle])

    def spec(self) -> str:
        """What `--topology` and files call it."""
        return f"star:{self.n_routers}"


def main() -> None:
    """Check it, name it, and see where a run's time goes."""
    check_topology(Star(9))
    TOPOLOGIES["star"] = Star
    chip = ChipConfig(name="star", topology="star:9", dram_routers=(0,))
    program = lower(map_graph(operator_graph("resnet18"), chip), inferences=4)
    print(program)
    print(run(program, trace=False).timing)


if __name__ == "__main__":
    main()
