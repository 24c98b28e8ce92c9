import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowpoke_mapping.faults import parse_fault
from slowpoke_tracer.detect.cores import (
    StageRates,
    compare_with_nominal,
    compare_with_peers,
    stage_rates,
)
from slowpoke_tracer.detect.observations import observe
from slowpoke_tracer.sample import sample_program, sample_trace


def one_stage(*rates: float) -> StageRates:
    n = len(rates)
    zero = np.zeros(n, dtype=np.int64)
    time = np.zeros(n)
    return StageRates(zero, zero, zero, np.arange(n), np.array(rates), time, time, zero)


def test_one_slow_core_of_four_lies_the_square_root_of_three_below_the_mean() -> None:
    # mean 76, deviations 24, 24, 24, -72, variance 1728: z = 72 / 41.57, p = erf(z / sqrt 2)
    found = compare_with_peers(one_stage(100, 100, 100, 4), candidate_z=1.0, candidate_drop=0.1)
    assert found.z[3] == pytest.approx(np.sqrt(3))
    assert found.probability[3] == pytest.approx(0.91674, abs=1e-5)
    assert found.slowdown[3] == pytest.approx(25)
    assert found.candidate.tolist() == [False, False, False, True]


@given(st.lists(st.floats(1, 1e4), min_size=2, max_size=40))
def test_no_core_lies_further_from_the_mean_than_the_square_root_of_its_peers(
    rates: list[float],
) -> None:
    found = compare_with_peers(one_stage(*rates), 0.0, 0.0, min_peers=2)
    assert found.z.max(initial=0.0) <= np.sqrt(len(rates) - 1) + 1e-9
    assert np.all((found.probability >= 0) & (found.probability <= 1))
    assert not np.any(found.candidate & (found.z <= 0))


def test_the_three_sigma_rule_cannot_fire_among_ten_cores_however_slow_one_is() -> None:
    for n, fires in ((10, False), (11, True)):
        found = compare_with_peers(one_stage(*[1000.0] * (n - 1), 1e-3), 3.0, 0.1)
        assert found.candidate.any() == fires


def test_two_cores_and_equal_cores_accuse_nobody() -> None:
    for rates in ((1024, 10), (7, 7, 7, 7), (5,)):
        found = compare_with_peers(one_stage(*rates), 0.0, 0.0)
        assert not found.candidate.any()
        assert not found.probability.any()


def test_a_fast_core_is_suspected_only_by_the_two_sided_nominal_rule() -> None:
    rates = one_stage(1024, 1024 + 600, 102.4)
    two = compare_with_nominal(rates, 1024, sd=200, candidate_probability=0.95)
    one = compare_with_nominal(rates, 1024, sd=200, candidate_probability=0.95, sides="one")
    assert two.candidate.tolist() == [False, True, True]
    assert one.candidate.tolist() == [False, False, True]
    assert two.probability[1] == pytest.approx(0.9973, abs=1e-4)  # three sigma
    assert two.slowdown[2] == pytest.approx(10)


def test_rates_of_a_run_are_nominal_where_nothing_is_slow() -> None:
    program = sample_program()
    rates = stage_rates(
        observe(sample_trace(program, [parse_fault("core:5@4x")], noise=0), program)
    )
    assert len(rates) == 8 * 2 * 16  # windows, groups, cores
    assert rates.rate[rates.core == 5] == pytest.approx(256)
    assert rates.rate[rates.core != 5] == pytest.approx(1024)
    assert np.bincount(rates.stage).tolist() == [8] * 32
