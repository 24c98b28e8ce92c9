"""Amounts far beyond any machine: a result or one sentence, never a warning of the arithmetic."""

import math
from collections.abc import Callable

import pytest

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.failslow import (
    Detector,
    slow_with_periodic_diagnosis,
    slow_without_detection,
)
from torch_slowpoke.efficiency.losses import CheckpointPlan
from torch_slowpoke.efficiency.rate import rate_interval


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: CheckpointPlan(factor=1e308), "at most 1e\\+12"),
        (lambda: CheckpointPlan(factor=math.inf), "finite"),
        (lambda: rate_interval(10**400, 1e6), "at most 1e\\+12"),
        (lambda: slow_without_detection(1e5, 1e308), "not exceed 1e\\+100"),
        (lambda: Detector(0.9, 0.1).confirmed(10**400), "at most 1000"),
    ],
)
def test_more_than_any_machine_has_is_one_sentence(call: Callable[[], object], names: str) -> None:
    with pytest.raises(SlowpokeError, match=names):
        call()


def test_a_recall_below_all_floating_numbers_finds_nothing() -> None:
    nobody = slow_without_detection(1e5, 1e-5)
    assert slow_with_periodic_diagnosis(1e5, 1e-5, 1e-320, 100.0) == nobody
    assert slow_with_periodic_diagnosis(1e5, 1e-5, 1e-12, 100.0) == pytest.approx(nobody, rel=1e-9)


def test_a_thousand_confirmations_are_allowed() -> None:
    assert Detector(1.0, 0.0, 2.0).confirmed(1000).recall == 1.0
