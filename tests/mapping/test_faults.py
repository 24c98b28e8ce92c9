import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import RAMP_STEPS, Fault, parse_fault, parse_faults
from slowpoke_mapping.places import Core, DramPort, Link, Place, Router
from slowpoke_mapping.topology import Mesh

TIMES = st.floats(0, 1e12)
PLACES: st.SearchStrategy[Place] = st.sampled_from(
    [Core(5), Router(0), DramPort(1), Link(5, 6), Link(5, 6, both=True)]
)


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    start = draw(TIMES)
    duty = draw(st.just(1.0) | st.floats(0, 1, exclude_min=True))
    return Fault(
        draw(PLACES),
        draw(st.floats(1, 1e6)),
        start,
        draw(st.just(math.inf) | st.floats(min_value=start, exclude_min=True)),
        ramp_cycles=draw(st.just(0.0) | TIMES),
        period_cycles=draw(st.floats(1, 1e12)) if duty < 1 else 0.0,
        duty=duty,
    )


@given(faults())
def test_a_fault_reads_back_from_its_text(fault: Fault) -> None:
    assert parse_fault(str(fault)) == fault


@given(st.text(max_size=20) | st.from_regex(r"core:5@.{0,6}x.{0,12}", fullmatch=True))
def test_any_text_is_a_fault_or_one_sentence(text: str) -> None:
    try:
        fault = parse_fault(text)
    except SlowpokeError as error:
        assert str(error)
    else:
        assert parse_fault(str(fault)) == fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("core:5@10x", Fault(Core(5), 10.0)),
        ("core:(1,2)@1x", Fault(Core(9), 1.0)),
        ("link:5-6@2.5x", Fault(Link(5, 6, both=True), 2.5)),
        ("link:6->5@1e1x", Fault(Link(6, 5), 10.0)),
        ("core:5@10x[1e6,2e6]", Fault(Core(5), 10.0, 1e6, 2e6)),
        ("core:5@10x[ 2ms , 5ms ]", Fault(Core(5), 10.0, 1e6, 2.5e6)),
        ("core:5@10x[2us,inf]", Fault(Core(5), 10.0, 1e3, math.inf)),
        ("dram:1@3x;ramp=1ms", Fault(DramPort(1), 3.0, ramp_cycles=5e5)),
        (
            "router:0@3x[0,1s];period=2ms;duty=0.3",
            Fault(Router(0), 3.0, 0.0, 5e8, period_cycles=1e6, duty=0.3),
        ),
    ],
)
def test_a_text_means_what_the_guide_says_at_half_a_gigahertz(text: str, fault: Fault) -> None:
    assert parse_fault(text, Mesh(4, 4), clock_hz=5e8) == fault


@pytest.mark.parametrize(
    ("unit", "cycles"), [("ns", 3.0), ("us", 3e3), ("ms", 3e6), ("s", 3e9), ("", 3.0)]
)
def test_a_unit_of_time_is_exact_on_a_gigahertz_clock(unit: str, cycles: float) -> None:
    assert parse_fault(f"core:0@2x[3{unit},inf]", clock_hz=1e9).start_cycles == cycles


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("core:5", "is no fault; write PLACE@SLOWDOWNx"),
        ("core:5@10", "is no fault; write PLACE@SLOWDOWNx"),
        ("@10x", "is no fault"),
        ("", "is no fault"),
        ("cor:5@10x", "'cor:5' is no place"),
        ("core:5@tenx", "is no fault|is no slowdown"),
        ("core:5@0.5x", "slowdown 0.5 must be a finite number >= 1"),
        ("core:5@-2x", "slowdown -2 must be a finite number >= 1"),
        ("core:5@nanx", "slowdown nan must be a finite number >= 1"),
        ("core:5@infx", "slowdown inf must be a finite number >= 1"),
        ("core:5@10x[5,5]", r"interval \[5, 5\] cycles is empty"),
        ("core:5@10x[5,4]", "is empty or not a number"),
        ("core:5@10x[nan,4]", "is empty or not a number"),
        ("core:5@10x[4,nan]", "is empty or not a number"),
        ("core:5@10x[-1,4]", "starts at 0 or later"),
        ("core:5@10x[inf,inf]", "is empty or not a number"),
        ("core:5@10x[1]", r"an interval is \[start,end\]"),
        ("core:5@10x[1,2,3]", r"an interval is \[start,end\]"),
        ("core:5@10x[1,]", "'' is no time"),
        ("core:5@10x[1,2min]", "'2min' is no time"),
        ("core:5@10x[1,1e]", "'1e' is no time"),
        ("core:5@10x[[1,2]", "is no fault"),
        ("core:5@10x[1,2]]", "is no fault"),
        ("core:5@10x;rampe=3", "'rampe=3' is unknown"),
        ("core:5@10x;ramp", "'ramp' is unknown"),
        ("core:5@10x;ramp=1;ramp=2", "given twice"),
        ("core:5@10x;ramp=-1", "ramp and period are finite times >= 0"),
        ("core:5@10x;ramp=inf", "ramp and period are finite times >= 0"),
        ("core:5@10x;period=5ms", "a period needs a share that is slow"),
        ("core:5@10x;period=0.5;duty=0.5", "shorter than a cycle"),
        ("core:5@10x;duty=0.5", "give the period too"),
        ("core:5@10x;period=5ms;duty=0", r"duty 0 must be in \(0, 1\]"),
        ("core:5@10x;period=5ms;duty=1.5", r"duty 1.5 must be in \(0, 1\]"),
        ("core:5@10x;period=5ms;duty=1ms", "'1ms' is no share"),
    ],
)
def test_what_is_no_fault_is_refused_in_a_sentence_that_says_why(text: str, says: str) -> None:
    with pytest.raises(SlowpokeError, match=says):
        parse_fault(text)


def test_a_fault_object_needs_a_place_not_its_name() -> None:
    with pytest.raises(SlowpokeError, match="'core:5' is no Place"):
        Fault("core:5", 10.0)  # type: ignore[arg-type]
    with pytest.raises(SlowpokeError, match="5 is no fault"):
        parse_fault(5)  # type: ignore[arg-type]


def test_faults_come_as_one_text_or_object_or_as_several() -> None:
    slow = Fault(Core(5), 10.0)
    assert parse_faults("core:5@10x") == parse_faults(slow) == (slow,)
    assert parse_faults(["core:5@10x", Fault(Core(6), 2.0)]) == (slow, Fault(Core(6), 2.0))
    assert parse_faults(()) == ()


def test_a_continuous_fault_changes_speed_twice() -> None:
    assert list(Fault(Core(0), 4.0, 10.0, 30.0).changes(100.0)) == [(10.0, 4.0), (30.0, 1.0)]


def test_changes_at_or_after_the_end_of_the_run_are_left_out() -> None:
    fault = Fault(Core(0), 4.0, 10.0, 30.0)
    assert list(fault.changes(30.0)) == [(10.0, 4.0)]
    assert list(fault.changes(10.0)) == []


def test_a_fault_without_an_end_never_returns_to_full_speed() -> None:
    assert list(Fault(Core(0), 4.0).changes(math.inf)) == [(0.0, 4.0)]


def test_a_ramp_climbs_in_equal_steps_to_the_full_slowdown() -> None:
    # 16 steps of one cycle and of 2x each: 3x, 5x, ... 33x, the last from cycle 15 on
    steps = list(Fault(Core(0), 33.0, 0.0, 50.0, ramp_cycles=16.0).changes(math.inf))
    assert steps == [*((float(n), 3.0 + 2 * n) for n in range(16)), (50.0, 1.0)]


def test_a_ramp_that_is_cut_off_ends_at_full_speed() -> None:
    steps = list(Fault(Core(0), 33.0, 0.0, 2.5, ramp_cycles=16.0).changes(math.inf))
    assert steps == [(0.0, 3.0), (1.0, 5.0), (2.0, 7.0), (2.5, 1.0)]


def test_an_intermittent_fault_is_slow_for_its_share_of_every_period() -> None:
    fault = Fault(Core(0), 2.0, 100.0, 225.0, period_cycles=100.0, duty=0.5)
    assert list(fault.changes(1e9)) == [(100.0, 2.0), (150.0, 1.0), (200.0, 2.0), (225.0, 1.0)]


@given(faults(), st.floats(1, 1e12))
def test_changes_are_ordered_bounded_and_end_at_full_speed(fault: Fault, until: float) -> None:
    if fault.period_cycles and until / fault.period_cycles > 1000:
        until = fault.start_cycles + 100 * fault.period_cycles
    changes = list(fault.changes(until))
    assert all(a[0] <= b[0] for a, b in pairwise(changes))
    assert all(fault.start_cycles <= time < until for time, _ in changes)
    assert all(1.0 <= slowdown <= fault.slowdown for _, slowdown in changes)
    if fault.end_cycles < until and changes:
        assert changes[-1][1] == 1.0


@given(faults(), st.floats(2, 1e12))
def test_a_longer_look_only_adds_changes(fault: Fault, until: float) -> None:
    if fault.period_cycles and until / fault.period_cycles > 1000:
        until = fault.start_cycles + 100 * fault.period_cycles
    longer = list(fault.changes(until))
    shorter = list(fault.changes(until / 2))
    assert shorter == [change for change in longer if change[0] < until / 2]


def test_the_mean_slowdown_of_a_ramp_lies_between_start_and_end() -> None:
    # (1/16 + ... + 16/16) / 16 = 17/32 of the way
    changes = list(Fault(Core(0), 2.0, ramp_cycles=16.0).changes(16.0))
    assert len(changes) == RAMP_STEPS
    assert sum(s for _, s in changes) / RAMP_STEPS == 1 + 17 / 32
