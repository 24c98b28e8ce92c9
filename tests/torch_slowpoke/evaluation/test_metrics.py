import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_slowpoke.evaluation.metrics import (
    by_impact,
    expected_rank,
    kind_confusion,
    metrics,
)
from torch_slowpoke.evaluation.outcome import Outcome, physical, physicals

TRUTH = ("core:1",)


def outcome(reported: tuple[str, ...] = (), truth: tuple[str, ...] = TRUTH, **kw: float) -> Outcome:
    return Outcome(truth, reported, n_components=40, **kw)  # type: ignore[arg-type]


def test_each_direction_of_a_link_is_the_physical_link() -> None:
    assert physical("link:9->8") == physical("link:8->9") == "link:8-9"
    assert physicals(["link:9->8", "link:8->9", "core:2"]) == ("link:8-9", "core:2")


def test_a_hand_made_set_gives_figures_that_add_up() -> None:
    runs = [
        outcome(("core:1",), rank=1, score=9, slowdown=10, slowdown_estimate=20),
        outcome(("core:1", "core:2"), rank=2, score=8),
        outcome(("core:2",), rank=4, score=3),
        outcome((), rank=math.inf, score=1),
        outcome((), (), score=0),
        outcome(("core:2",), (), score=5),
    ]
    m = metrics(runs, n_draws=20)
    assert (m.hit.k, m.partial.k, m.misidentified.k, m.miss.k) == (1, 1, 1, 1)
    assert m.strict_accuracy.k == 2 and m.strict_accuracy.n == 6
    assert (m.false_alarm.k, m.false_alarm.n) == (1, 2)
    assert m.lenient.k == 2
    assert [m.top[k].k for k in (1, 3, 5)] == [1, 2, 3]
    assert m.mrr == pytest.approx((1 + 1 / 2 + 1 / 4 + 0) / 4)
    # wrong items 1 + 1 + 1 over 4 x 39 + 2 x 40 healthy components
    assert m.component_fpr == pytest.approx(3 / 236)
    assert m.precision == pytest.approx(2 / 5)
    assert m.recall == pytest.approx(2 / 4)
    assert m.f1 == pytest.approx(2 * 0.4 * 0.5 / 0.9)
    # pairs (9, 8, 3, 1) against (0, 5): 4 + 2 of 8
    assert m.auroc == pytest.approx(6 / 8)
    assert m.slowdown_error == pytest.approx(math.log(2))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([(), ("core:1",), ("core:1", "core:2")]),
            st.sampled_from([(), ("core:1",), ("core:3",), ("core:1", "core:2"), ("core:1", "x")]),
        ),
        max_size=30,
    )
)
def test_every_positive_is_a_hit_or_partial_or_wrong_or_missed(
    runs: list[tuple[tuple[str, ...], tuple[str, ...]]],
) -> None:
    m = metrics([Outcome(truth, reported, n_components=9) for truth, reported in runs], n_draws=0)
    positives = sum(bool(truth) for truth, _ in runs)
    assert m.hit.k + m.partial.k + m.misidentified.k + m.miss.k == positives == m.hit.n
    assert m.strict_accuracy.k == m.hit.k + m.false_alarm.n - m.false_alarm.k


def test_the_intersection_over_union_of_intervals_is_that_of_pencil_and_paper() -> None:
    seen = Outcome(TRUTH, TRUTH, interval=(10, 30), interval_estimate=(20, 50))
    assert seen.interval_iou == pytest.approx(10 / 40)
    apart = Outcome(TRUTH, TRUTH, interval=(10, 30), interval_estimate=(40, 50))
    assert apart.interval_iou == 0
    assert math.isnan(Outcome(TRUTH, TRUTH, interval=(10, 30)).interval_iou)


def test_ties_share_their_mean_rank() -> None:
    scores = [(0.5, 1.0), (0.5, 1.0), (0.5, 1.0), (0.1, 0.0)]
    assert [expected_rank(scores, i) for i in range(4)] == [2, 2, 2, 4]


def test_kinds_are_confused_by_name() -> None:
    runs = [
        outcome(("link:0-1",)),
        outcome(),
        outcome(("core:2",), ("link:0-1",)),
        outcome(("core:2", "link:0-1"), ()),
    ]
    assert kind_confusion(runs) == {
        ("core", "link"): 1,
        ("core", "none"): 1,
        ("link", "core"): 1,
        ("none", "mixed"): 1,
    }


def test_strata_of_impact_split_at_one_and_ten_per_cent() -> None:
    runs = [outcome(makespan_ratio=r) for r in (0.999, 1.005, 1.01, 1.09, 1.1, 3.0)]
    runs.append(outcome(truth=(), makespan_ratio=1.0))
    assert [[o.makespan_ratio for o in part] for part in by_impact(runs)] == [
        [0.999, 1.005],
        [1.01, 1.09],
        [1.1, 3.0],
    ]


def test_a_run_without_an_alarm_is_later_than_any_other() -> None:
    def run(alarm: float, found: bool = True) -> Outcome:
        return Outcome(
            truth=("core:1",),
            reported=("core:1",) if found else (),
            interval=(20.0, 90.0),
            alarm_cycles=alarm,
            makespan_cycles=100.0,
        )

    alarms = [run(30.0), run(50.0), run(math.nan, found=False)]
    assert metrics(alarms, 0).latency == pytest.approx(0.3)
    assert metrics([*alarms, run(10.0)], 0).latency == pytest.approx(0.3)  # before the onset
    assert metrics([*alarms, *[run(math.nan, found=False)] * 2], 0).latency == math.inf
    assert math.isnan(metrics([run(math.nan)], 0).latency)  # looks at the end only


def test_the_probability_of_a_fault_is_judged_by_brier_and_calibration() -> None:
    def run(healthy: float, slow: bool) -> Outcome:
        return Outcome(("core:0",) if slow else (), (), healthy_probability=healthy)

    sure = [run(0.0, slow=True), run(1.0, slow=False)]
    assert metrics(sure, 0).brier == 0 == metrics(sure, 0).calibration_error
    half = [run(0.25, slow=True), run(0.25, slow=False)]
    assert metrics(half, 0).brier == pytest.approx((0.25**2 + 0.75**2) / 2)
    assert metrics(half, 0).calibration_error == pytest.approx(0.25)
    assert math.isnan(metrics([run(math.nan, slow=True)], 0).brier)
