import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import parse_fault
from slowpoke_tracer.detect.links import Method, PathSystem, estimate, path_system
from slowpoke_tracer.detect.observations import observe
from slowpoke_tracer.detect.routes import path_matrix
from slowpoke_tracer.sample import sample_program, sample_trace

PROGRAM = sample_program()
TRACE = sample_trace(PROGRAM)
METHODS: tuple[Method, ...] = ("em", "mlem", "nnls", "gd")


def system(
    a: list[list[float]], time: list[float], weight: list[float] | None = None
) -> PathSystem:
    n = len(time)
    return PathSystem(
        sp.csr_matrix(np.array(a, float)), np.array(time, float),
        np.array(weight or [1.0] * n), n_links=len(a[0]),
    )  # fmt: skip


# three links, pairs and singles: theta = (1, 2, 4) cycles a byte
IDENTIFIABLE = system(
    [[8, 0, 0], [8, 8, 0], [0, 16, 16], [4, 4, 4]],
    [8, 24, 96, 28],
)


@pytest.mark.parametrize("method", METHODS)
def test_a_consistent_system_gives_its_bandwidths_back(method: Method) -> None:
    found = estimate(IDENTIFIABLE, 0.5, method, n_iterations=20_000, tolerance=1e-10)
    assert found.theta == pytest.approx([1, 2, 4], rel=1e-5)
    assert found.converged


def test_a_single_link_is_total_time_over_total_bytes_after_one_step_of_em() -> None:
    one = system([[8], [16]], [10, 30], weight=[1, 3])
    methods: tuple[Method, ...] = ("em", "mlem")
    for method in methods:
        found = estimate(one, 0.1, method, n_iterations=1)
        assert found.theta[0] == pytest.approx((10 + 3 * 30) / (8 + 3 * 16))


def test_links_always_crossed_together_share_the_time_in_the_proportion_they_started_with() -> None:
    together = system([[8, 8]], [32])
    methods: tuple[Method, ...] = ("em", "mlem", "gd")
    for method in methods:
        found = estimate(together, 0.25, method, 5000, 1e-12)
        assert found.theta == pytest.approx([2, 2])


def test_the_first_step_of_em_splits_the_surprise_by_variance() -> None:
    # mu = (1, 2), T = 8: surprise 5, shares 1/5 and 4/5, so X = (2, 6) on 1 and 2 bytes
    found = estimate(system([[1, 2]], [8]), 1.0, "em", n_iterations=1)
    assert found.theta == pytest.approx([2, 3])


def test_a_column_without_traffic_stays_unknown() -> None:
    for method in METHODS:
        found = estimate(system([[8, 0], [4, 0]], [8, 4]), 1.0, method, 1000)
        assert np.isnan(found.theta[1])
        assert found.theta[0] == pytest.approx(1)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_step_of_mlem_keeps_the_total_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(1, 9, (6, 4)) * (rng.random((6, 4)) < 0.6)
    a[:, 0] += 1
    one = system(a.tolist(), rng.uniform(1, 50, 6).tolist(), rng.integers(1, 5, 6).tolist())
    found = estimate(one, 1.0, "mlem", n_iterations=3, tolerance=1e-15)
    fitted = one.a_bytes @ np.nan_to_num(found.theta)
    assert one.weight @ fitted == pytest.approx(one.weight @ one.time_cycles, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_gradient_descent_never_fits_worse_and_never_beats_nnls(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(1, 9, (8, 4)) * (rng.random((8, 4)) < 0.6)
    a[:, 0] += 1
    one = system(a.tolist(), rng.uniform(1, 50, 8).tolist())

    def squares(theta: np.ndarray) -> float:
        return float(np.sum((one.a_bytes @ np.nan_to_num(theta) - one.time_cycles) ** 2))

    steps = [squares(estimate(one, 1.0, "gd", n, 1e-15).theta) for n in (1, 5, 25, 2000)]
    best = squares(estimate(one, 1.0, "nnls").theta)
    assert all(b <= a * (1 + 1e-9) + 1e-9 for a, b in itertools.pairwise(steps))
    assert best <= steps[-1] * (1 + 1e-6) + 1e-6


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_em_and_mlem_take_the_same_steps_over_paths_as_over_messages(seed: int) -> None:
    rng = np.random.default_rng(seed)
    seen = observe(TRACE, PROGRAM, n_windows=2).transfers
    seen = seen.take(rng.choice(len(seen), 60))
    table = seen.table.copy()
    table["work"] = rng.integers(1, 9999, len(table))
    seen = replace(seen, table=table, count=rng.integers(1, 9, 60).astype(float))
    methods: tuple[Method, ...] = ("em", "mlem")
    for method in methods:
        each, merged = (
            estimate(path_system(seen, PROGRAM.chip, True, merge), 1 / 32, method, 7, 1e-15)
            for merge in (False, True)
        )
        assert merged.theta == pytest.approx(each.theta, rel=1e-9, nan_ok=True)


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(SlowpokeError, match="choose one of em, mlem, nnls, gd"):
        estimate(IDENTIFIABLE, 1.0, "lasso")  # type: ignore[arg-type]
    with pytest.raises(SlowpokeError, match="must all be positive"):
        estimate(IDENTIFIABLE, 0.0)
    with pytest.raises(SlowpokeError, match="finite"):
        system([[1.0]], [float("nan")])


def test_a_route_from_a_port_starts_at_its_router() -> None:
    chip = sample_program().chip
    port = 1
    there = chip.dram_ports[port]
    paths = path_matrix(np.array([-1 - port, there]), np.array([10, 10]), chip).toarray()
    assert np.array_equal(paths[0], paths[1])
    assert paths[0].sum() == len(chip.network.route(there, 10))


@pytest.mark.parametrize("method", METHODS)
def test_the_slow_link_of_a_run_has_ten_times_the_inverse_bandwidth(method: Method) -> None:
    program = sample_program()
    fault = parse_fault("link:5->6@10x")
    seen = observe(sample_trace(program, [fault], noise=0), program, n_windows=1).transfers
    whole = path_system(seen, program.chip)
    found = estimate(whole, 1 / 32, method, 20_000, 1e-9)
    assert np.nanargmax(found.theta[: program.chip.n_links]) == program.chip.link_index(5, 6)
    # what the traffic tells: the fitted times, exactly (some columns only ever occur together)
    fitted = whole.a_bytes @ np.nan_to_num(found.theta)
    assert fitted == pytest.approx(whole.time_cycles, rel=0.02)
