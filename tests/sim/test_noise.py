"""Natural noise: its distribution, and that it depends on who draws and never on when."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program
from slowpoke_sim.draws import drift_factor, mix, normal_of_bits, normals
from slowpoke_sim.machine import Machine, run
from slowpoke_sim.noise import NOISES, GammaTime, Noise, NormalSpeed, noise_of
from tests.sim.programs import Builder

CHIP = ChipConfig(link_bytes_per_cycle=10, packet_bytes=100, macs_per_cycle=100)
N = 4000


def work(n_units: int = N, n_tasks: int = 4) -> Program:
    """Tasks of 100 cycles on one core each, messages of one 10-cycle packet over 3 channels."""
    builder = Builder(CHIP, units=n_units)
    for i in range(n_tasks):
        builder.compute(i, 10_000)
        builder.send(4 + i, 8 + i, 100)
    return builder.program()


def factors(noise: str | Noise, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Time factors of all tasks, and of all hops."""
    (phase,) = Machine(work(), (), noise, seed).phases(hop_cycles=True)
    spans = phase.eject - phase.first
    return np.ravel(spans[0::2]) / 100, np.ravel(phase.hop_cycles) / 10


def test_the_normal_quantile_is_scipys() -> None:
    bits = [0, 1, 2**63, 2**64 - 1, *(int(x) for x in np.logspace(12, 19, 50))]
    ours = np.array([normal_of_bits(np.uint64(b)) for b in bits])
    p = np.array([((b >> 12) + 0.5) / 2**52 for b in bits])
    expected = np.where(p < 0.5, special.ndtri(p), -special.ndtri(1 - p))
    assert np.allclose(ours, expected, rtol=1e-9, atol=1e-9)


def test_hashed_normals_are_standard_and_uncorrelated() -> None:
    x = normals(np.uint64(12345), 200_000)
    assert stats.kstest(x, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.01
    other = normals(np.uint64(mix(np.uint64(12345), np.uint64(1))), 200_000)
    assert abs(np.corrcoef(x, other)[0, 1]) < 0.01


@pytest.mark.parametrize(
    ("name", "core_cv", "mean", "link_cv"),
    [
        ("none", 0.0, 1.0, 0.0),
        ("paper", 0.0152, 1.0, 8**-0.5),
        # time is inverse Gamma of shape 8: mean 8 / 7, CV 1 / sqrt(6)
        ("released", 0.0152, 8 / 7, 6**-0.5),
    ],
)
def test_mean_and_spread_are_those_of_the_preset(
    name: str, core_cv: float, mean: float, link_cv: float
) -> None:
    core, link = factors(name)
    assert core.mean() == pytest.approx(1.0, abs=0.001)
    assert core.std() / core.mean() == pytest.approx(core_cv, rel=0.03)
    assert link.mean() == pytest.approx(mean, rel=0.01)
    assert link.std() / link.mean() == pytest.approx(link_cv, rel=0.04)


def test_core_speeds_are_normal_and_link_times_gamma_by_kolmogorov_and_smirnov() -> None:
    core, link = factors("paper")
    assert stats.kstest(1 / core, "norm", args=(1, 0.0152)).pvalue > 1e-3
    assert stats.kstest(link, "gamma", args=(8, 0, 1 / 8)).pvalue > 1e-3


def test_released_link_widths_are_gamma_by_kolmogorov_and_smirnov() -> None:
    _, link = factors("released", seed=3)
    assert stats.kstest(1 / link, "gamma", args=(8, 0, 1 / 8)).pvalue > 1e-3


def test_two_seeds_differ_and_one_seed_repeats() -> None:
    one, again, other = factors("released", 1), factors("released", 1), factors("released", 2)
    for a, b, c in zip(one, again, other, strict=True):
        assert np.array_equal(a, b)
        assert not np.any(a == c)


def test_a_sub_range_of_tasks_and_units_draws_the_same_as_the_whole() -> None:
    whole = next(Machine(work(20, 4), (), "paper").phases(hop_cycles=True)).hop_cycles
    part = next(Machine(work(10, 2), (), "paper").phases(hop_cycles=True)).hop_cycles
    assert np.allclose(part, whole[: len(part), :10], rtol=1e-9)


def test_probes_leave_the_draws_of_everything_else_alone() -> None:
    def program(probed: bool) -> Program:
        builder = Builder(CHIP)
        first = builder.compute(0, 10_000)
        probe = builder.probe(0, 25, [first]) if probed else first
        builder.compute(0, 10_000, [probe])
        return builder.program()

    plain, probed = run(program(False), noise="released"), run(program(True), noise="released")
    difference = probed.timing.makespan_cycles - plain.timing.makespan_cycles
    assert difference == pytest.approx(25, abs=1e-9)


def test_harsh_chips_have_fast_and_slow_cores_of_their_own() -> None:
    noise = Noise("spread", core_spread=0.03)
    builder = Builder(ChipConfig(topology="mesh:20x20"), units=2)
    for core in range(400):
        builder.compute(core, 102_400)
    (phase,) = Machine(builder.program(), (), noise).phases()
    spans = phase.eject - phase.first
    assert np.allclose(spans[:, 0], spans[:, 1], rtol=1e-9)
    assert np.std(100 / spans[:, 0]) == pytest.approx(0.03, rel=0.15)


def test_drift_is_a_stationary_autoregression_over_windows() -> None:
    windows, levels = np.full(1, -1), np.zeros(1)
    logs = np.log(
        [
            drift_factor(0, 10.0 * k, np.uint64(7), 0.1, 0.8, 10.0, windows, levels)
            for k in range(20_000)
        ]
    )
    assert logs.std() == pytest.approx(0.1, rel=0.05)
    assert np.corrcoef(logs[:-1], logs[1:])[0, 1] == pytest.approx(0.8, abs=0.02)
    # a jump over windows ends at the same level as a walk through them
    windows, levels = np.full(1, -1), np.zeros(1)
    jump = drift_factor(0, 10.0 * 500, np.uint64(7), 0.1, 0.8, 10.0, windows, levels)
    assert np.log(jump) == pytest.approx(logs[500], abs=1e-12)


class _Coin:
    """Half of the services take twice the time."""

    def time_factors(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(p < 0.5, 1.0, 2.0)


def test_a_users_distribution_is_drawn_from() -> None:
    core, _ = factors(Noise("coin", core=_Coin()))
    assert np.mean(core > 1.5) == pytest.approx(0.5, abs=0.02)
    assert np.isin(np.round(core, 6), [1.0, 2.0]).mean() > 0.99


class _Negative:
    def time_factors(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        return p - 0.5


def test_noise_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(SlowpokeError, match="positive, finite factor"):
        run(work(1), noise=Noise("negative", link=_Negative()))
    with pytest.raises(SlowpokeError, match=r"in \[0, 1\)"):
        Noise("wild", drift=2.0)
    with pytest.raises(SlowpokeError, match="none, paper, released, harsh"):
        noise_of("quiet")
    assert noise_of(NOISES["paper"]).link == GammaTime(8.0)
    assert noise_of("paper").core == NormalSpeed(0.0152)
