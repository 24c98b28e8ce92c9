import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.evaluation.statistics import (
    Proportion,
    auroc,
    cluster_bootstrap,
    holm,
    mcnemar,
    partial_auroc,
    recall_at,
)


def test_wilson_intervals_are_those_of_the_reference() -> None:
    for k, n, low, high in ((242, 301, 0.755, 0.845), (90, 127, 0.624, 0.781),
                            (22, 174, 0.085, 0.184), (0, 300, 0.0, 0.013)):  # fmt: skip
        found = Proportion(k, n).interval
        assert found == pytest.approx((low, high), abs=5e-4)


def test_wilson_is_the_closed_form() -> None:
    k, n, z = 7, 20, 1.959963984540054
    p = k / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert Proportion(k, n).interval == pytest.approx((middle - half, middle + half))


def test_nothing_has_no_proportion() -> None:
    assert str(Proportion(0, 0)) == "-"
    assert math.isnan(Proportion(0, 0).value)
    with pytest.raises(SlowpokeError, match="0 <= k <= n"):
        Proportion(3, 2)


def test_mcnemar_is_a_fair_coin_on_the_runs_that_differ() -> None:
    # 1 or fewer heads of 8, twice: 2 (1 + 8) / 256
    assert mcnemar(1, 7) == pytest.approx(18 / 256)
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(4, 4) == 1.0


def test_holm_steps_down_and_never_decreases() -> None:
    # by hand: 4 x .005, 3 x .01, then 2 x .03 = .06, then max(.06, .04)
    assert holm([0.03, 0.005, 0.04, 0.01]) == pytest.approx([0.06, 0.02, 0.06, 0.03])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


scores = st.lists(st.integers(0, 8), min_size=1, max_size=30)


@given(scores, scores)
def test_auroc_is_scikit_learns(a: list[int], b: list[int]) -> None:
    truth = [1] * len(a) + [0] * len(b)
    assert auroc(a, b) == pytest.approx(float(roc_auc_score(truth, a + b)))


@given(scores, scores)
def test_the_partial_area_up_to_one_is_the_whole_area(a: list[int], b: list[int]) -> None:
    assert partial_auroc(a, b, 1.0) == pytest.approx(auroc(a, b))


def test_the_partial_area_of_a_perfect_and_of_a_constant_score() -> None:
    assert partial_auroc([2, 3], [0, 1]) == pytest.approx(1.0)
    assert partial_auroc([1, 1], [1, 1]) == pytest.approx(0.025)


def test_recall_at_a_rate_allows_that_share_of_negatives_above() -> None:
    negatives = list(range(100))
    assert recall_at([99.5, 98.5, 50], negatives, 0.0) == pytest.approx(1 / 3)
    assert recall_at([99.5, 98.5, 50], negatives, 0.01) == pytest.approx(2 / 3)
    assert recall_at([50], [1, 2], 1.0) == 1.0


def test_the_bootstrap_resamples_clusters_and_not_rows() -> None:
    rng = np.random.default_rng(1)
    per_cluster = rng.random(40)
    values = np.repeat(per_cluster, 25)
    clusters = np.repeat(np.arange(40), 25).tolist()
    low, high = cluster_bootstrap(clusters, lambda rows: float(values[rows].mean()), 2000)
    # the same data as 40 independent rows: about 1.96 s / sqrt(40), five times that of 1000 rows
    half = 1.96 * per_cluster.std() / math.sqrt(40)
    assert (high - low) / 2 == pytest.approx(half, rel=0.1)
    assert low < per_cluster.mean() < high


def test_a_bootstrap_of_nothing_is_unknown() -> None:
    assert all(map(math.isnan, cluster_bootstrap([], lambda rows: 0.0)))
