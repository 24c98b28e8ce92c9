import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency import cadence as cadence_module
from torch_slowpoke.efficiency.cadence import (
    CheckpointCost,
    cadence,
    checkpoint_cost,
    daly_node_hours,
    optimal_cadence_node_hours,
    optimal_z,
    young_node_hours,
)
from torch_slowpoke.efficiency.settings import settings


def test_z_opt_agrees_with_the_mpmath_table(oracle: dict[str, Any]) -> None:
    table = oracle["variants_ours"]["lambert_table_mpmath"]
    for row in table:
        z_c, rest = optimal_z(float(row["z_chk"]))
        assert z_c == pytest.approx(float(row["z_c"]), rel=1e-14, abs=0)
        assert rest == pytest.approx(float(row["one_minus_z_c"]), rel=1e-14, abs=0)
    assert len(table) == 18


def test_z_opt_is_exact_from_1e_300_to_600() -> None:
    z = np.concatenate(
        [
            np.geomspace(1e-300, 600, 400),
            np.geomspace(1e-3, 10, 200),
            [0.125, np.nextafter(0.125, 0)],
        ]
    )
    z_c, rest = optimal_z(z)
    with mpmath.workdps(700):
        for i, value in enumerate(z):
            exact_rest = -mpmath.lambertw(-mpmath.exp(-1 - mpmath.mpf(value)))
            assert abs(float(z_c[i] / (1 - exact_rest.real) - 1)) <= 1e-14
            # t = e^(-1-z)..., so t inherits the rounding of z: z times one ulp.
            bound = 1e-14 + value * 2.3e-16
            assert abs(float(rest[i] / exact_rest.real - 1)) <= bound


def test_the_series_has_the_printed_coefficients(oracle: dict[str, Any]) -> None:
    printed = oracle["variants_ours"]["series_coefficients_s"]
    for ours, text in zip(cadence_module._A, printed, strict=True):
        numerator, _, denominator = text.partition("/")
        assert ours == pytest.approx(int(numerator) / int(denominator or 1), rel=1e-15)


@given(st.floats(min_value=1e-300, max_value=700.0))
def test_z_opt_solves_its_equation_and_grows(z: float) -> None:
    (a, b), (ra, rb) = optimal_z(np.array([z, z * 1.001]))
    assert 0 < a <= b <= 1
    assert ra >= rb >= 0
    if z > 1e-3:
        assert math.log(ra) + float(a) == pytest.approx(-z, rel=1e-11)


def test_the_papers_2000_node_job_checkpoints_every_57_minutes(oracle: dict[str, Any]) -> None:
    job = cadence(2000, 2e-5, checkpoint_cost(200e9, 6e12))
    assert job.checkpoint_node_hours == pytest.approx(oracle["N2000"]["u_chk"], rel=1e-15)
    # The authors' bisection stops at 1e-8 in z_c.
    assert job.cadence_node_hours == pytest.approx(oracle["N2000"]["u_c_code"], rel=2e-9)
    assert young_node_hours(2e-5, job.checkpoint_node_hours) == pytest.approx(
        oracle["N2000"]["u_c_sqrt"], rel=1e-14
    )
    assert job.seconds / 3600 == pytest.approx(0.949945, abs=1e-6)
    assert job.steps(3.0) == math.floor(job.seconds / 3.0)


def test_a_long_jobs_losses_are_those_of_the_table(oracle: dict[str, Any]) -> None:
    cost = checkpoint_cost(200e9, 6e12)
    for n, row in oracle["variants_ours"]["fig7_3_long_job_limit"].items():
        job = cadence(int(n), 2e-5, cost)
        assert job.cadence_node_hours == pytest.approx(row["u_c"], rel=1e-12)
        assert job.efficiency == pytest.approx(row["e_renewal"], rel=1e-12)
        failure, checkpoint, restart = job.losses
        # At the optimum l_F + l_chk = z_c of the usage without restarts.
        assert (failure + checkpoint) / (1 - restart) == pytest.approx(row["z_c"], rel=1e-12)


def test_shared_storage_costs_n_squared_and_the_others_n() -> None:
    for model, ratio in (("shared", 100.0), ("local", 10.0), ("fixed", 10.0)):
        cost = CheckpointCost(model, 1e-3)  # type: ignore[arg-type]
        assert cost.checkpoint_node_hours(20) / cost.checkpoint_node_hours(2) == ratio


def test_daly_is_the_first_three_terms() -> None:
    assert daly_node_hours(2e-5, 37.037037037037) == pytest.approx(1899.88874, abs=1e-5)
    assert daly_node_hours(1.0, 3.0) == 1.0


def test_nothing_fails_nothing_to_checkpoint_and_free_checkpoints_are_continuous() -> None:
    assert optimal_cadence_node_hours(0.0, 5.0) == math.inf
    assert optimal_cadence_node_hours(1e-5, 0.0) == 0.0
    never = cadence(4, 0.0, checkpoint_cost(1e9, 1e9))
    assert never.efficiency == 1.0
    assert settings(never) == {
        "scr": "SCR_CHECKPOINT_SECONDS=0",
        "veloc": "persistent_interval = -1",
        "fti": "ckpt_L4 = 0",
        "dmtcp": "dmtcp_launch --interval 0",
        "slurm": "#SBATCH --signal=B:USR1@8",
    }


def test_settings_carry_the_cadence_in_each_tools_unit() -> None:
    lines = settings(cadence(2000, 2e-5, checkpoint_cost(200e9, 6e12)))
    assert lines["scr"] == "SCR_CHECKPOINT_SECONDS=3420"
    assert lines["veloc"] == "persistent_interval = 3420"
    assert lines["fti"] == "ckpt_L4 = 57"
    assert lines["dmtcp"] == "dmtcp_launch --interval 3420"
    assert lines["slurm"] == "#SBATCH --signal=B:USR1@134"  # twice 66.7 s


def test_a_tiny_cadence_is_never_written_as_the_zero_that_means_never() -> None:
    lines = settings(cadence(1, 0.9, CheckpointCost("local", 1e-12)))
    assert lines["dmtcp"].endswith(" 1") or int(lines["dmtcp"].split()[-1]) >= 1
    assert int(lines["fti"].split()[-1]) >= 1


@given(
    n=st.integers(1, 10**6), rate=st.floats(0, 1e3), hours=st.floats(0, 1e3), alpha=st.floats(0, 10)
)
def test_every_job_has_an_efficiency_between_0_and_1(
    n: int, rate: float, hours: float, alpha: float
) -> None:
    job = cadence(n, rate, CheckpointCost("shared", hours, alpha, 0.1))
    assert -1e-12 <= job.efficiency <= 1.0


@pytest.mark.parametrize("rate", [-1e-5, math.nan, math.inf, 1e13])
def test_a_rate_that_is_none_is_one_sentence(rate: float) -> None:
    with pytest.raises(SlowpokeError, match="failure rate"):
        cadence(10, rate, checkpoint_cost(1e9, 1e9))


def test_impossible_jobs_costs_and_steps_are_one_sentence() -> None:
    with pytest.raises(SlowpokeError, match="0 nodes"):
        cadence(0, 1e-5, checkpoint_cost(1e9, 1e9))
    with pytest.raises(SlowpokeError, match="bandwidth"):
        checkpoint_cost(1e9, 0.0)
    with pytest.raises(SlowpokeError, match="size"):
        checkpoint_cost(-1.0, 1e9)
    with pytest.raises(SlowpokeError, match="unknown"):
        CheckpointCost("global", 1.0)  # type: ignore[arg-type]
    for z in (-1e-9, math.nan):
        with pytest.raises(SlowpokeError, match="not negative"):
            optimal_z(z)
    with pytest.raises(SlowpokeError, match="between 0 and 1e"):
        checkpoint_cost(1e300, 1.0)
    with pytest.raises(SlowpokeError, match="step time"):
        cadence(2, 1e-5, checkpoint_cost(1e9, 1e9)).steps(0.0)
