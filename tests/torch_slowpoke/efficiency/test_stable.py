import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_slowpoke.efficiency.stable import lost_share, repeated_share, survived_share

POSITIVE = st.floats(min_value=1e-300, max_value=600.0)


@given(POSITIVE)
def test_the_three_shares_agree_with_fifty_digits(x: float) -> None:
    with mpmath.workdps(350):
        m = mpmath.mpf(x)
        lost = float(1 - m / mpmath.expm1(m))
        survived = float(-mpmath.expm1(-m) / m)
        repeated = float(mpmath.expm1(m) / m)
    assert lost_share(x) == pytest.approx(lost, rel=1e-14, abs=0)
    assert survived_share(x) == pytest.approx(survived, rel=1e-15, abs=0)
    assert repeated_share(x) == pytest.approx(repeated, rel=1e-15, abs=0)


def test_the_ends_are_the_limits() -> None:
    assert lost_share(0.0) == 0.0
    assert survived_share(0.0) == repeated_share(0.0) == 1.0
    assert lost_share(1e300) == 1.0
    assert np.isinf(repeated_share(1e4))
