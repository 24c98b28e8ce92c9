import sys
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import parse_fault
from slowpoke_mapping.places import Core, Link, parse_place
from slowpoke_tracer.baselines.adr import AdrDetector, _slow_share
from slowpoke_tracer.baselines.catalogue import BASELINES
from slowpoke_tracer.baselines.events import events_of, raw_trace_bytes
from slowpoke_tracer.baselines.iaso import IasoDetector, aimd_scores
from slowpoke_tracer.baselines.microscope import MicroscopeDetector, root_causes, visits
from slowpoke_tracer.baselines.perseus import PerseusDetector, upper_bound
from slowpoke_tracer.baselines.silent import RandomDetector, SilentDetector
from slowpoke_tracer.baselines.spectrum import SpectrumDetector
from slowpoke_tracer.baselines.threshold import ThresholdDetector
from slowpoke_tracer.baselines.zscore import ZScoreDetector, running_z
from slowpoke_tracer.checks import check_detector
from slowpoke_tracer.detector import Context, Detector
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.recorder import record
from slowpoke_tracer.sample import sample_program, sample_trace
from slowpoke_tracer.trace import Trace

PROGRAM = sample_program()
HEALTHY_CYCLES = sample_trace(PROGRAM).meta.makespan_cycles
MIDDLE = f"[{0.4 * HEALTHY_CYCLES:.0f},{0.7 * HEALTHY_CYCLES:.0f}]"


@lru_cache
def traced(faults: tuple[str, ...], seed: int) -> Trace:
    return sample_trace(PROGRAM, [parse_fault(text) for text in faults], seed=seed)


def run(detector: Detector, *faults: str, seed: int = 1, sketch: bool = False) -> Diagnosis:
    trace = traced(faults, seed)
    evidence = record(trace, PROGRAM) if sketch else trace
    return detector.detect(evidence, Context(PROGRAM, PROGRAM.chip))


def reported(found: Diagnosis) -> list[str]:
    return [str(suspect.place) for suspect in found.reported]


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_keeps_the_contract(name: str) -> None:
    detector = BASELINES[name]()
    assert detector.name == name
    check_detector(detector)


@pytest.mark.parametrize("sketch", [False, True])
@pytest.mark.parametrize("name", [n for n in BASELINES if n != "random"])
def test_a_quiet_healthy_run_is_healthy_to_all_but_the_guesser(name: str, sketch: bool) -> None:
    assert not run(BASELINES[name](), sketch=sketch).reported


@pytest.mark.parametrize("name", ["iaso", "perseus", "adr"])
def test_core_methods_are_blind_to_links(name: str) -> None:
    found = run(BASELINES[name](), "link:5-6@10x")
    assert not found.reported
    assert {place for place in found.not_covered if isinstance(place, Link)} == set(
        PROGRAM.chip.physical_links
    )


@pytest.mark.parametrize("sketch", [False, True])
@pytest.mark.parametrize("name", ["threshold", "iaso", "perseus"])
def test_a_core_that_is_slow_all_the_time_is_found(name: str, sketch: bool) -> None:
    assert reported(run(BASELINES[name](), "core:5@10x", sketch=sketch)) == ["core:5"]


def test_threshold_scores_are_multiples_of_nominal_and_neighbours_share_messages() -> None:
    found = run(ThresholdDetector(), "core:5@4x")
    assert found.ranked[0].score == pytest.approx(4 / 1.5, rel=0.05)
    assert found.ranked[0].probability == pytest.approx(4 / 5.5, rel=0.05)
    # messages that cross 5-6 cross 4-5 and 6-7 as well: what SlowPoke's Table 2 counts as FPR
    sharp = ThresholdDetector(link_threshold=1.5)
    assert reported(run(sharp, "link:5-6@10x"))[0] == "link:5-6"
    assert len(reported(run(sharp, "link:5-6@10x"))) > 1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.1, 100), min_size=3, max_size=40), st.integers(2, 5))
def test_running_z_is_numpy_s_mean_and_deviation_of_what_came_before(
    values: list[float], least: int
) -> None:
    x = np.array(values)
    z = running_z(x, least)
    for i in range(len(x)):
        sd = x[:i].std() if i >= least else 0.0
        if sd > 1e-6 * x[0]:
            assert z[i] == pytest.approx((x[i] - x[:i].mean()) / sd, rel=1e-4, abs=1e-6)


def test_zscore_finds_an_onset_but_not_what_was_always_so() -> None:
    always, onset = "core:5@10x", f"core:5@10x{MIDDLE}"
    detector = ZScoreDetector(exceed=3, of=5)
    assert "core:5" in reported(run(detector, onset))
    assert "core:5" not in reported(run(detector, always))


def test_a_single_event_beyond_three_sigma_happens_in_every_healthy_run() -> None:
    any_event = ZScoreDetector(exceed=1, of=1)
    assert all(run(any_event, seed=seed).reported for seed in range(3))
    with pytest.raises(SlowpokeError, match="exceed"):
        ZScoreDetector(exceed=3, of=2)


def test_iaso_scores_grow_by_the_step_and_halve() -> None:
    slow = sample_trace(PROGRAM, [parse_fault(f"core:5@10x{MIDDLE}")], noise=0.0)
    history = aimd_scores(events_of(slow, PROGRAM), timeout=3.0, increase=5.0, decrease=0.5)
    mine = history[:, 5]
    steps = np.diff(np.concatenate([[0.0], mine]))
    grown = np.flatnonzero(steps > 0)
    assert steps[grown] == pytest.approx(5.0)
    after = np.flatnonzero((steps < 0) & (mine > 1e-9))
    assert mine[after] == pytest.approx(mine[after - 1] / 2)
    assert mine.max() == pytest.approx(5.0 * len(grown))
    assert not history[:, [c for c in range(16) if c != 5]].any()


def test_iaso_does_not_see_what_stays_below_its_timeout() -> None:
    assert not run(IasoDetector(), "core:5@2x").reported


def test_perseus_bound_is_the_textbook_prediction_interval() -> None:
    x = np.array([1.0, 2, 3, 4, 5, 6])
    y = np.array([2.1, 3.9, 6.2, 7.8, 10.1, 12.2])
    slope, intercept, *_ = stats.linregress(x, y)
    s = np.sqrt(np.sum((y - intercept - slope * x) ** 2) / 4)
    width = s * np.sqrt(1 + 1 / 6 + (7 - 3.5) ** 2 / np.sum((x - 3.5) ** 2))
    expected = intercept + slope * 7 + stats.t.ppf(0.999, 4) * width
    assert upper_bound(x, y, np.array([7.0]), 1, 0.999) == pytest.approx(expected)


def test_perseus_bound_over_a_single_work_is_that_of_a_mean() -> None:
    y = np.array([9.0, 10, 11, 10])
    expected = 10 + stats.t.ppf(0.99, 3) * y.std(ddof=1) * np.sqrt(1 + 1 / 4)
    found = upper_bound(np.full(4, 8.0), y, np.array([8.0]), 2, 0.99)
    assert found == pytest.approx(expected)


def test_perseus_weighs_a_slow_core_by_how_slow_it_is() -> None:
    score = {k: run(PerseusDetector(), f"core:5@{k}x").ranked[0].score for k in (2, 4, 10)}
    # the bound lies a few percent above nominal: 1.5 to 2, 2 to 5, above 5 times the bound
    assert score == {2: 10.0, 4: 25.0, 10: 100.0}


def slow_share(values: list[float], **changes: float) -> float:
    value = np.array(values)
    settings = {"value_window": 100, "percentile": 0.99, "frequency_window": 50,
                "state_window": 50, "min_variation": 0.5, "refresh": 10, "first_threshold": 3.0,
                "lighter_share": -1.0} | changes  # fmt: skip
    return float(_slow_share(value, np.arange(len(value), dtype=float), *settings.values()))


def test_adr_counts_slow_values_among_the_last_fifty() -> None:
    healthy = [1.0 + 0.001 * (i % 10) for i in range(200)]
    assert slow_share(healthy) <= 0.2  # the top tenth equals the threshold, none exceeds it
    assert slow_share([*healthy, *[2.0] * 30]) == pytest.approx(30 / 50)
    assert slow_share([2.0] * 80) == 0.0  # below three times nominal until a window is full
    assert slow_share([4.0] * 80) == 1.0


def test_adr_in_java_s_form_also_wants_updates_to_become_rare() -> None:
    # evenly spaced updates have no variation, so they are never "lighter"
    values = [*[1.0] * 200, *[5.0] * 60]
    assert slow_share(values) == 1.0
    assert slow_share(values, lighter_share=0.5) == 0.0
    with pytest.raises(SlowpokeError, match="windows"):
        AdrDetector(value_window=0)


def test_adr_finds_a_slow_core_in_the_trace_of_a_run() -> None:
    assert reported(run(AdrDetector(), "core:5@10x")) == ["core:5"]
    assert not run(AdrDetector(), "core:5@2x").reported


def test_the_search_goes_upstream_to_what_has_no_abnormal_cause() -> None:
    # 0 -> 1 -> 2 -> 3, and 4 -> 3
    upstream = [np.array(part, dtype=np.int64) for part in ([], [0], [1], [2, 4], [])]
    sinks = np.array([3])
    abnormal = np.array([False, True, True, True, False])
    assert root_causes(abnormal, upstream, sinks).tolist() == [1]
    assert root_causes(np.ones(5, dtype=bool), upstream, sinks).tolist() == [0, 4]
    # no abnormal sink: every abnormal place is a start
    abnormal = np.array([False, True, False, False, True])
    assert root_causes(abnormal, upstream, sinks).tolist() == [1, 4]


def test_the_walk_of_two_places_is_its_stationary_share() -> None:
    # 1 waits for 0. From 1: up 0.8, stay max(0, 0.4 - 0.8) = 0. From 0: down 0.5 x 0.4 = 0.2,
    # stay 0.8. So 0 -> 1 with 0.2, 1 -> 0 with 1: shares 1 / 1.2 and 0.2 / 1.2
    upstream = [np.zeros(0, dtype=np.int64), np.array([0])]
    share = visits(np.array([0.8, 0.4]), upstream, np.array([1]), 0.5, 4000)
    assert share == pytest.approx([1 / 1.2, 0.2 / 1.2], abs=1e-3)


@pytest.mark.parametrize("walk", [False, True])
def test_microscope_accuses_somebody_where_a_core_slows_down(walk: bool) -> None:
    found = run(MicroscopeDetector(walk=walk), f"core:5@10x{MIDDLE}")
    assert reported(found) == ["core:5"]


def test_spectrum_finds_the_link_that_failing_messages_share() -> None:
    found = run(SpectrumDetector(), f"link:5-6@10x{MIDDLE}")
    assert reported(found) == ["link:5-6"]
    assert found.ranked[0].place == parse_place("link:5-6")


def test_the_silent_one_never_speaks_and_the_guesser_does_in_its_share_of_runs() -> None:
    short = sample_program(n_batches=1)
    context = Context(short, short.chip)
    traces = [sample_trace(short, seed=seed) for seed in range(24)]
    spoke = [bool(RandomDetector().detect(trace, context).reported) for trace in traces]
    assert 4 <= sum(spoke) <= 20
    guesses = {RandomDetector(1.0).detect(trace, context).reported[0].place for trace in traces}
    assert len(guesses) > 6
    assert not run(SilentDetector(), "core:5@10x").reported


def test_bytes_that_must_be_kept_are_counted_records() -> None:
    # every core computes twice a unit, 32 units, 32 bytes a record
    assert raw_trace_bytes(PROGRAM, transfers=False) == 2 * 32 * 32
    # core 8 at a port: 8 messages in group 0 and a read in group 1, and the writes of its port
    port = PROGRAM.chip.dram_ports.index(8)
    writes = sum(core % 4 == port for core in range(16))
    assert raw_trace_bytes(PROGRAM) == (2 + 8 + 1 + writes) * 32 * 32
    assert ZScoreDetector().storage_bytes(PROGRAM) == 60
    assert SilentDetector().storage_bytes(PROGRAM) == 0
    for make in BASELINES.values():
        assert make().storage_bytes(PROGRAM) >= 0  # type: ignore[attr-defined]


def test_a_missing_scikit_learn_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(SlowpokeError, match=r"pip install 'torch-slowpoke\[eval\]'"):
        run(IasoDetector())


def test_events_of_a_trace_are_in_order_of_time() -> None:
    events = events_of(sample_trace(PROGRAM, noise=0.0), PROGRAM)
    assert events.n_windows == 32
    assert np.all(np.diff(events.compute.end_cycles) >= 0)
    assert events.core_ratio == pytest.approx(1)
    assert events.message_ratio == pytest.approx(1)
    metric = events.window_metrics()
    assert metric.shape == (32, 16 + 24)
    assert np.nanmax(metric) == pytest.approx(1)
    assert events.places[5] == Core(5)
