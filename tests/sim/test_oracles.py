"""The simulated chip against queueing theory and against BookSim2's published-by-measurement table.

BookSim2: 8x8 mesh, XY, uniform random traffic, five cycles a hop (routing, two allocations, switch,
link), eight virtual channels of eight flits; mean packet latency with source queueing.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_sim.machine import run
from slowpoke_sim.noise import Noise
from tests.sim.programs import Builder
from tests.sim.traffic import open_traffic, times, uniform_latency

LINE = ChipConfig(topology="mesh:2x1", link_bytes_per_cycle=1, packet_bytes=1e9)
N = 200_000


def waits(load: float, sizes: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """Mean wait for the injection channel, and its standard error by batch means."""
    gaps = np.random.default_rng(seed).exponential(sizes.mean() / load, (1, len(sizes)))
    ready, injected, _ = times(
        open_traffic(LINE, gaps, np.ones((1, len(sizes)), int), sizes[None, :])
    )
    batches = (injected - ready)[len(sizes) // 10 :].reshape(20, -1).mean(axis=1)
    return float(batches.mean()), float(batches.std(ddof=1) / np.sqrt(len(batches)))


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_one_link_with_equal_messages_waits_as_m_d_1(load: float) -> None:
    mean, error = waits(load, np.full(N, 10.0), seed=1)
    assert mean == pytest.approx(10 * load / (2 * (1 - load)), abs=3.5 * error)
    assert error < 0.1 * mean


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_one_link_with_exponential_messages_waits_as_m_m_1(load: float) -> None:
    sizes = np.random.default_rng(5).exponential(10.0, N)
    mean, error = waits(load, sizes, seed=2)
    assert mean == pytest.approx(10 * load / (1 - load), abs=3.5 * error + 0.01 * mean)
    assert error < 0.1 * mean


class _Exponential:
    """Service times of a Markov chain."""

    def time_factors(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        return -np.log1p(-p)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_two_exponential_stages_with_credits_are_a_bounded_markov_queue(depth: int) -> None:
    # equal rates: the producer is stopped with probability 1 / (depth + 1)
    units = 40_000
    builder = Builder(ChipConfig(macs_per_cycle=1), units=units)
    producer = builder.compute(0, 1.0)
    consumer = builder.compute(1, 1.0, [producer])
    builder.needs(producer, consumer, depth)
    timing = run(builder.program(), noise=Noise("exponential", core=_Exponential())).timing
    assert units / timing.makespan_cycles == pytest.approx(depth / (depth + 1), rel=0.02)
    stopped = timing.core_backpressure_cycles[0] / timing.makespan_cycles
    assert stopped == pytest.approx(1 / (depth + 1), rel=0.04)


@pytest.mark.parametrize(("a", "b"), [(3.0, 7.0), (7.0, 3.0), (5.0, 5.0)])
def test_two_fixed_stages_with_two_credits_run_at_the_slower_ones_pace(a: float, b: float) -> None:
    builder = Builder(ChipConfig(macs_per_cycle=1), units=50)
    producer = builder.compute(0, a)
    consumer = builder.compute(1, b, [producer])
    builder.needs(producer, consumer, 2)
    makespan = run(builder.program(), noise="none").timing.makespan_cycles
    assert makespan == a + b + 49 * max(a, b)


def test_zero_load_latency_of_every_pair_is_pencil_and_paper() -> None:
    chip = ChipConfig(
        topology="mesh:8x8", link_bytes_per_cycle=1, router_delay_cycles=5, packet_bytes=5
    )
    for dst in range(64):
        gaps, size = np.ones((1, 1)), np.full((1, 1), 5.0)
        ready, _, ejected = times(open_traffic(chip, gaps, np.full((1, 1), dst), size))
        # one router delay for each router on the way, then five flits
        assert ejected[0] - ready[0] == (dst % 8 + dst // 8 + 1) * 5 + 5


BOOKSIM = {
    1: {0.05: 33.48, 0.10: 33.72, 0.20: 34.70, 0.30: 36.82},
    5: {0.05: 38.06, 0.10: 38.93, 0.20: 42.08, 0.30: 49.53},
}
BUFFERS = {1: 8, 5: 3}
"""Input buffers in packets: 8 flits, and 15 flits (as 3 packets)."""


@pytest.mark.parametrize("flits", [1, 5])
@pytest.mark.parametrize("load", [0.05, 0.10, 0.20, 0.30])
def test_packet_latency_is_within_ten_per_cent_of_booksim(flits: int, load: float) -> None:
    n_cycles = 1500 * flits + 1500
    latency = uniform_latency(load, flits, n_cycles, buffers=BUFFERS[flits]).mean()
    assert latency == pytest.approx(BOOKSIM[flits][load], rel=0.10)


@pytest.mark.slow
@pytest.mark.parametrize("flits", [1, 5])
@pytest.mark.parametrize("load", [0.05, 0.10, 0.20, 0.30])
def test_packet_latency_of_a_long_run_is_within_ten_per_cent_of_booksim(
    flits: int, load: float
) -> None:
    latency = uniform_latency(load, flits, 20_000, buffers=BUFFERS[flits]).mean()
    assert latency == pytest.approx(BOOKSIM[flits][load], rel=0.10)


def test_the_mesh_saturates_between_40_and_50_per_cent() -> None:
    # saturated: three times the latency at zero load (37.3 cycles), and it grows with the run
    assert uniform_latency(0.40, 5, 6000, buffers=3).mean() < 3 * 37.3
    short = uniform_latency(0.50, 5, 6000, buffers=3).mean()
    assert short > 3 * 37.3
    assert uniform_latency(0.50, 5, 12000, buffers=3).mean() > 1.5 * short
