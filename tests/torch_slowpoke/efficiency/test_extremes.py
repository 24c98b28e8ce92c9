"""Amounts far beyond any machine: a result or one sentence, never a warning of the arithmetic."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.failslow import (
    Detector,
    slow_with_periodic_diagnosis,
    slow_without_detection,
)
from torch_slowpoke.efficiency.logs import read_log, schedule_of_log
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


@pytest.mark.parametrize("application", ["", ",a"])
def test_rows_beyond_any_machine_are_rejected_and_named(tmp_path: Path, application: str) -> None:
    path = tmp_path / "jobs.csv"
    rows = ["4,1e305,1,1", "4,1,1e305,1", "4,1,1,1e308", "4,2,2,1"]
    header = "n_nodes,requested_hours,actual_hours,n_jobs" + (",application" if application else "")
    path.write_text("\n".join([header, *(row + application for row in rows)]) + "\n")
    log = read_log(path)
    assert (log.report.n_jobs, log.exposure_node_hours) == (1, 8.0)
    assert {reason: r.lines for reason, r in log.report.rejected.items()} == {
        "requested duration is not a finite number": [2],
        "actual duration is not a finite number": [3],
        "number of jobs is beyond any machine's": [4],
    }


def test_a_table_of_zero_jobs_a_row_has_no_schedule(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("n_nodes,requested_hours,actual_hours,n_jobs\n4,1,1,0\n")
    with pytest.raises(SlowpokeError, match="no job"):
        schedule_of_log(read_log(path))
