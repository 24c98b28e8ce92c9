"""Finite input buffers: a packet keeps its channel until the next buffer has room."""

from __future__ import annotations

import pytest

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_sim.machine import ENGINES, run
from tests.sim.programs import Builder

CHIP = ChipConfig(
    topology="mesh:3x1", link_bytes_per_cycle=10, router_delay_cycles=2, packet_bytes=100
)
SLOW = "link:1->2@10x"


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_a_congestion_tree_grows_backwards_from_a_slow_link(engine: str) -> None:
    # three packets of 10 cycles over injection, 0->1, 1->2 (100 cycles), ejection; one place a
    # buffer. Packet 1 enters link 0->1 at 14 and holds it until packet 0 has left 1->2 at 104;
    # packet 2 holds the injection channel from 20 until then, and link 0->1 from 106 until 206.
    builder = Builder(CHIP.replace(buffer_packets=1))
    builder.send(0, 2, 300)
    timing = run(builder.program(), SLOW, "none", engine=engine).timing
    assert timing.channel_blocked_cycles[CHIP.link_index(0, 1)] == (104 - 24) + (206 - 116)
    assert timing.channel_blocked_cycles[CHIP.injection_channel(0)] == 104 - 30
    assert timing.makespan_cycles == 208 + 100 + 2


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_without_bounds_nobody_is_blocked(engine: str) -> None:
    builder = Builder(CHIP)
    builder.send(0, 2, 300)
    timing = run(builder.program(), SLOW, "none", engine=engine).timing
    assert timing.channel_blocked_cycles.sum() == 0
    assert timing.makespan_cycles == 4 + 300 + 2


def test_a_tree_delays_traffic_that_never_touches_the_slow_link() -> None:
    def innocent(buffers: int) -> float:
        # core 0 floods the slow link 1 -> 2, then sends to its neighbour 1
        builder = Builder(CHIP.replace(buffer_packets=buffers))
        builder.send(0, 2, 1000)
        victim = builder.send(0, 1, 100)
        result = run(builder.program(), SLOW, "none")
        assert result.trace is not None
        row = result.trace.transfers[result.trace.transfers["event"] == victim.task]
        return float(row["eject_cycles"][0])

    assert innocent(0) == 100 + 4 + 10
    assert innocent(1) > 700
    assert innocent(1) > innocent(4) > innocent(0)


def test_finite_buffers_elsewhere_are_refused_because_they_could_deadlock() -> None:
    with pytest.raises(SlowpokeError, match="deadlock"):
        ChipConfig(topology="torus:4x4", buffer_packets=2)
