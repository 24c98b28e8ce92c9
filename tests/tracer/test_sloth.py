from functools import lru_cache

import numpy as np
import pytest

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import parse_fault
from slowpoke_tracer.detect.links import estimate
from slowpoke_tracer.detect.observations import observe
from slowpoke_tracer.detector import Context
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.recorder import record
from slowpoke_tracer.sample import MESSAGE_BYTES, sample_program, sample_trace
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sloth import sloth_diagnosis, undirected_system
from slowpoke_tracer.trace import Trace

PROGRAM = sample_program()
PROFILE = record(sample_trace(PROGRAM, seed=99), PROGRAM)


@lru_cache
def traced(faults: tuple[str, ...], seed: int) -> Trace:
    return sample_trace(PROGRAM, [parse_fault(text) for text in faults], seed=seed)


def diagnose(*faults: str, profile: Sketch | None = PROFILE, sketch: bool = True) -> Diagnosis:
    trace = traced(faults, 1)
    evidence = record(trace, PROGRAM) if sketch else trace
    return sloth_diagnosis(evidence, Context(PROGRAM, PROGRAM.chip, profile=profile))


def test_columns_are_bytes_per_physical_link_then_hops_one_and_bytes() -> None:
    seen = observe(sample_trace(PROGRAM, noise=0.0), PROGRAM, 1).transfers
    between_cores = (seen.column("src").astype(int) >= 0) & (seen.column("dst").astype(int) >= 0)
    seen = seen.select(between_cores)
    system = undirected_system(seen, PROGRAM.chip)
    a = system.a_bytes.toarray()
    assert a.shape[1] == 24 + 3
    assert np.array_equal(a[:, :24].sum(axis=1), a[:, 24] * MESSAGE_BYTES)
    assert np.all(a[:, 24] >= 1)
    assert np.all(a[:, 25] == 1)
    assert np.all(a[:, 26] == MESSAGE_BYTES)
    # nothing slow, nothing noisy: (hops + 2) x 256 cycles, which the columns explain exactly
    fitted = a @ np.nan_to_num(estimate(system, 1 / 32, "nnls").theta)
    assert fitted == pytest.approx((a[:, 24] + 2) * 256)


@pytest.mark.parametrize("sketch", [False, True])
@pytest.mark.parametrize("profile", [PROFILE, None])
def test_one_slow_place_at_ten_times_is_the_only_report(
    sketch: bool, profile: Sketch | None
) -> None:
    assert not diagnose(sketch=sketch, profile=profile).reported
    for fault in ("core:5@10x", "link:5-6@10x"):
        found = diagnose(fault, sketch=sketch, profile=profile)
        assert [str(s.place) for s in found.reported] == [fault.split("@")[0]]
        assert found.reported[0].slowdown == pytest.approx(10, rel=0.3)


def test_a_ratio_of_five_cannot_see_a_link_at_half_speed() -> None:
    assert not diagnose("link:5-6@2x").reported
    assert [str(s.place) for s in diagnose("core:5@2x").reported] == ["core:5"]


def test_it_says_what_served_as_the_healthy_run() -> None:
    assert "a healthy profile" in diagnose().method
    assert "the nominal bandwidth" in diagnose(profile=None).method


def test_the_profile_of_another_program_is_refused() -> None:
    other = sample_program(n_batches=4)
    with pytest.raises(SlowpokeError, match="record one of this program"):
        diagnose(profile=record(sample_trace(other), other))
