import pytest

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.evaluation.accounting import Confusion, paper_a, paper_b, strict
from torch_slowpoke.evaluation.outcome import Outcome
from torch_slowpoke.evaluation.published import TABLE_2, TABLE_2_PERCENT

HIT = Outcome(("core:1",), ("core:1",))
MISS = Outcome(("core:1",), ())
WRONG = Outcome(("core:1",), ("core:2",))
HIT_AND_ONE_MORE = Outcome(("core:1",), ("core:1", "core:2"))
CLEAN = Outcome((), ())
ALARM = Outcome((), ("core:2",))
ALARM_TWICE = Outcome((), ("core:2", "core:3"))

BACK_SOLVED = {
    "threshold": [(67, 52, 81, 71), (72, 49, 83, 69), (62, 59, 91, 63), (72, 44, 88, 67),
                  (83, 38, 70, 82)],
    "microscope": [(90, 37, 53, 103), (90, 33, 59, 98), (90, 33, 55, 101), (90, 26, 71, 86),
                   (95, 19, 38, 122)],
    "slowpoke": [(90, 37, 22, 152), (112, 11, 24, 152), (111, 12, 26, 152), (103, 23, 30, 152),
                 (113, 9, 5, 152)],
}  # fmt: skip
"""(TP, FN, FP, TN) of the paper's Table 2, as its readers solved it with pencil and paper."""

ROWS = [
    (method, workload, place)
    for method, rows in TABLE_2.items()
    for place, workload in enumerate(rows)
]


@pytest.mark.parametrize(("method", "workload", "place"), ROWS)
def test_a_row_of_table_2_is_solved_back_to_its_counts(
    method: str, workload: str, place: int
) -> None:
    table = Confusion.from_published(*TABLE_2[method][workload])
    assert (table.tp, table.fn, table.fp, table.tn) == BACK_SOLVED[method][place]


@pytest.mark.parametrize(("method", "workload", "place"), ROWS)
def test_counts_of_a_row_of_table_2_give_the_printed_percentages(
    method: str, workload: str, place: int
) -> None:
    table = Confusion(*BACK_SOLVED[method][place])
    accuracy, fpr = TABLE_2_PERCENT[method][place]
    # GoogLeNet's 264/299 is printed as 88.30 and is 88.294; 55/156 as 35.26 and is 35.256
    assert 100 * table.accuracy == pytest.approx(accuracy, abs=0.0075)
    assert 100 * table.false_positive_rate == pytest.approx(fpr, abs=0.0075)


@pytest.mark.parametrize("workload", TABLE_2["slowpoke"])
def test_runs_made_to_a_row_of_slowpoke_are_counted_back_by_paper_a(workload: str) -> None:
    table = Confusion.from_published(*TABLE_2["slowpoke"][workload])
    positives = table.tp + table.fn
    # wrong items sit on runs that are not found; what is left, beside the truth on found ones
    wrong = min(table.fp, table.fn)
    runs = [HIT_AND_ONE_MORE] * (table.fp - wrong) + [HIT] * (table.tp - table.fp + wrong)
    runs += [WRONG] * wrong + [MISS] * (table.fn - wrong)
    assert len(runs) == positives
    assert paper_a(runs, n_excluded=152 - positives) == table


@pytest.mark.parametrize("method", ["threshold", "microscope"])
@pytest.mark.parametrize("workload", TABLE_2["slowpoke"])
def test_runs_made_to_a_baseline_row_are_counted_back_by_paper_b(
    method: str, workload: str
) -> None:
    table = Confusion.from_published(*TABLE_2[method][workload])
    flagged = 152 - table.tn
    assert 0 <= flagged <= table.fp
    runs = [HIT] * table.tp + [WRONG] * (table.fp - flagged)
    runs += [MISS] * (table.fn - (table.fp - flagged)) + [CLEAN] * table.tn + [ALARM] * flagged
    assert len(runs) == 152 + table.tp + table.fn
    assert paper_b(runs) == table


def test_the_three_accountings_differ_on_one_small_set_of_runs() -> None:
    runs = [HIT, HIT, MISS, WRONG, HIT_AND_ONE_MORE, CLEAN, CLEAN, ALARM, ALARM_TWICE]
    assert strict(runs) == Confusion(tp=2, fn=3, fp=2, tn=2)
    assert paper_a(runs, n_excluded=1) == Confusion(tp=3, fn=2, fp=2, tn=6)
    assert paper_b(runs) == Confusion(tp=3, fn=2, fp=4, tn=2)


def test_two_faults_of_a_run_are_two_items_but_one_strict_verdict() -> None:
    half = Outcome(("core:1", "core:2"), ("core:1",))
    assert strict([half]) == Confusion(0, 1, 0, 0)
    assert paper_b([half]) == Confusion(1, 1, 0, 0)


def test_a_silent_detector_scores_one_half_strictly_and_55_per_cent_by_paper_a() -> None:
    silent = [MISS] * 127 + [CLEAN] * 127
    assert strict(silent).accuracy == 0.5
    assert paper_b(silent).accuracy == 0.5
    by_a = paper_a(silent, n_excluded=25)
    assert by_a == Confusion(tp=0, fn=127, fp=0, tn=152)
    assert by_a.accuracy == pytest.approx(152 / 279)
    assert by_a.false_positive_rate == 0


def test_paper_a_is_blind_to_false_alarms() -> None:
    assert paper_a([HIT, ALARM, ALARM]) == paper_a([HIT, CLEAN, CLEAN])


def test_an_empty_table_has_no_shares() -> None:
    table = strict([])
    assert table.accuracy != table.accuracy
    assert table.recall != table.recall


def test_negative_counts_are_refused() -> None:
    with pytest.raises(SlowpokeError, match="0 or more"):
        Confusion.from_published((10, 20), (3, 30))
