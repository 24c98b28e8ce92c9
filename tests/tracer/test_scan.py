"""The scan's sums and windows, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slowpoke_mapping.places import Core
from slowpoke_tracer.detect.candidates import CORE, Candidates
from slowpoke_tracer.detect.scan import SLACK, SLOWDOWNS, best_windows, segment_sums


def candidates(share: NDArray[np.float64]) -> Candidates:
    n = share.shape[1]
    places = tuple(Core(i) for i in range(n))
    return Candidates(places, np.full(n, CORE, dtype=np.int8), sp.csc_matrix(share))


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_segment_sums_are_the_sums_of_their_definition(
    seed: int, n_patterns: int, n_epochs: int, n_groups: int
) -> None:
    rng = np.random.default_rng(seed)
    share = rng.uniform(0, 1, (n_patterns, 2)) * (rng.random((n_patterns, 2)) < 0.7)
    residual = rng.normal(size=(n_patterns, n_epochs))
    residual[rng.random(residual.shape) < 0.2] = np.nan
    variance = rng.uniform(0.1, 2, residual.shape)
    groups = rng.integers(0, n_groups, n_patterns)
    num, den = segment_sums(candidates(share), groups, n_groups, residual, variance)
    for c in range(2):
        for k, slowdown in enumerate(SLOWDOWNS):
            template = np.log(1 + (slowdown - 1) * share[:, c])[:, None]
            for g in range(n_groups):
                mine = groups == g
                n = np.nansum((template * residual / variance)[mine], axis=0)
                d = np.nansum(
                    np.where(np.isfinite(residual), template**2 / variance, np.nan)[mine], axis=0
                )
                np.testing.assert_allclose(num[c, k, :, g], n, atol=1e-12)
                np.testing.assert_allclose(den[c, k, :, g], d, atol=1e-12)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_the_best_window_is_the_best_that_begins_and_ends_with_evidence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (2, len(SLOWDOWNS), 2, 3)
    num, den = rng.normal(size=shape), rng.uniform(0.1, 1, shape)
    over = rng.uniform(1, 2, (2, len(SLOWDOWNS), 3))
    spread = rng.uniform(0, 0.5, (2, len(SLOWDOWNS)))
    score, slowdown, first, last = best_windows(num, den, over, spread)
    flat_n, flat_d = num.reshape(2, -1, 6), den.reshape(2, -1, 6)
    flat_v = (den * over[:, :, None, :]).reshape(2, -1, 6)

    def value(c: int, k: int, a: int, b: int) -> float:
        n, d = flat_n[c, k, a : b + 1].sum(), flat_d[c, k, a : b + 1].sum()
        v = flat_v[c, k, a : b + 1].sum() + (spread[c, k] * d) ** 2
        return float((n * d - d * d / 2) / v)

    for c in range(2):
        every = [
            value(c, k, a, b)
            for k in range(len(SLOWDOWNS))
            for a in range(6)
            for b in range(a, 6)
            if flat_n[c, k, a] > 0 and flat_n[c, k, b] > 0
        ]
        assert score[c] == pytest.approx(max(0.0, *every))
        if score[c] > 0:
            # edges that say next to nothing are trimmed
            assert value(c, slowdown[c], first[c], last[c]) >= score[c] - SLACK - 1e-9


def test_a_place_that_is_faster_than_expected_scores_nothing() -> None:
    share = np.ones((4, 1))
    residual = np.full((4, 3), -0.5)
    num, den = segment_sums(
        candidates(share), np.zeros(4, np.int64), 1, residual, np.full((4, 3), 0.01)
    )
    over = np.ones((1, len(SLOWDOWNS), 1))
    score, _, _, _ = best_windows(num, den, over, np.zeros((1, len(SLOWDOWNS))))
    assert score[0] == 0.0


def test_one_cell_twice_as_slow_scores_the_log_likelihood_ratio_of_a_normal() -> None:
    # r = ln 2, variance 0.01, template ln 2: (N D - D^2 / 2) / V = (ln 2)^2 / (2 x 0.01)
    num, den = segment_sums(
        candidates(np.ones((1, 1))),
        np.zeros(1, np.int64),
        1,
        np.array([[np.log(2)]]),
        np.array([[0.01]]),
    )
    over = np.ones((1, len(SLOWDOWNS), 1))
    score, slowdown, _, _ = best_windows(num, den, over, np.zeros((1, len(SLOWDOWNS))))
    assert SLOWDOWNS[slowdown[0]] == 2.0
    assert score[0] == pytest.approx(np.log(2) ** 2 / 0.02)


def test_segments_in_which_a_place_is_idle_are_trimmed_from_its_window() -> None:
    # four segments: next to nothing, evidence, evidence, next to nothing
    num = np.array([1e-3, 50.0, 50.0, 1e-3]).reshape(1, 1, 4, 1).repeat(len(SLOWDOWNS), axis=1)
    den = np.array([1e-3, 50.0, 50.0, 1e-3]).reshape(1, 1, 4, 1).repeat(len(SLOWDOWNS), axis=1)
    over = np.ones((1, len(SLOWDOWNS), 1))
    _, _, first, last = best_windows(num, den, over, np.zeros((1, len(SLOWDOWNS))))
    assert (first[0], last[0]) == (1, 2)
