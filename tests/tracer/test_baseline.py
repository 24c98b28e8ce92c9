"""What a healthy run should look like, and how far a new one may stray."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowpoke_tracer.baseline import PRIOR_SAMPLES, Moments, replay_seeds


def test_the_mean_of_steady_epochs_is_pooled_and_of_others_is_not() -> None:
    samples = np.array([[[1.0, 3.0]], [[2.0, 4.0]]], dtype=np.float32)
    assert Moments.of(samples, steady=True).mean.tolist() == [[2.5, 2.5]]
    assert Moments.of(samples, steady=False).mean.tolist() == [[1.5, 3.5]]


def test_a_gap_in_one_run_does_not_hide_the_others() -> None:
    samples = np.array([[[1.0]], [[np.nan]], [[2.0]]], dtype=np.float32)
    moments = Moments.of(samples, steady=False)
    assert moments.mean[0, 0] == pytest.approx(1.5)
    assert np.isfinite(moments.variance).all()


@given(st.integers(0, 2**32 - 1), st.integers(2, 12))
@settings(max_examples=25, deadline=None)
def test_a_left_out_run_is_compared_with_the_mean_of_the_others(seed: int, n_runs: int) -> None:
    samples = np.random.default_rng(seed).normal(size=(n_runs, 3, 2)).astype(np.float32)
    moments = Moments.of(samples, steady=False)
    for run in range(n_runs):
        others = np.delete(samples, run, axis=0).astype(np.float64).mean(axis=0)
        shrink = np.sqrt((n_runs - 1) * (n_runs + 1)) / n_runs
        np.testing.assert_allclose(
            moments.left_out(run), (samples[run] - others) * shrink, rtol=1e-4, atol=1e-6
        )


def test_left_out_deviations_have_the_variance_of_a_new_run() -> None:
    rng = np.random.default_rng(1)
    samples = rng.normal(0, 0.3, size=(24, 2000, 1)).astype(np.float32)
    moments = Moments.of(samples, steady=False)
    measured = np.mean([moments.left_out(run).var() for run in range(24)])
    fresh = rng.normal(0, 0.3, size=(2000, 1)) - moments.mean
    assert measured == pytest.approx(fresh.var(), rel=0.08)
    assert moments.variance.mean() == pytest.approx(fresh.var(), rel=0.08)


def test_a_variance_from_few_runs_leans_on_the_typical_one() -> None:
    samples = np.zeros((3, 5, 1), dtype=np.float32)
    samples[:, 1:, 0] = np.array([-1.0, 0.0, 1.0])[:, None]
    variance = Moments.of(samples, steady=False).variance
    # own variance 0 of three runs, typical variance 1 with the weight of PRIOR_SAMPLES
    assert variance[0, 0] == pytest.approx(PRIOR_SAMPLES / (3 + PRIOR_SAMPLES) * (1 + 1 / 3))


def test_seeds_of_replays_repeat_and_differ() -> None:
    assert replay_seeds(1, 8) == replay_seeds(1, 8)
    assert len({*replay_seeds(1, 8), *replay_seeds(2, 8)}) == 16
