import numpy as np
import pytest

from slowpoke_tracer.detect.observations import observe
from slowpoke_tracer.detect.routes import path_matrix
from slowpoke_tracer.recorder import record
from slowpoke_tracer.sample import MESSAGE_BYTES, WORK_MACS, sample_program, sample_trace

PROGRAM = sample_program()


def test_without_noise_every_mean_duration_is_work_over_rate() -> None:
    seen = observe(sample_trace(PROGRAM, noise=0.0), PROGRAM)
    assert seen.compute.mean_cycles == pytest.approx(WORK_MACS / 1024)
    transfers = seen.transfers
    src, dst = (transfers.column(name).astype(np.int64) for name in ("src", "dst"))
    # injection, hops and ejection take 8192 / 32 = 256 cycles each, and so does a port's read
    hops = np.diff(path_matrix(src, dst, PROGRAM.chip).indptr)
    services = hops + 2 + (src < 0)
    assert transfers.mean_cycles == pytest.approx(services * MESSAGE_BYTES / 32)


def test_a_row_stands_for_as_many_records_as_the_trace_has() -> None:
    trace = sample_trace(PROGRAM)
    for n_windows in (1, 3, 8):
        seen = observe(trace, PROGRAM, n_windows)
        assert seen.count.sum() == trace.n_records
        assert seen.n_windows == n_windows


def test_a_sketch_and_its_trace_tell_the_same_story() -> None:
    trace = sample_trace(PROGRAM, noise=0.05)
    whole, packed = observe(trace, PROGRAM), observe(record(trace, PROGRAM), PROGRAM)
    for a, b in ((whole.compute, packed.compute), (whole.transfers, packed.transfers)):
        assert a.n_windows == b.n_windows
        assert np.array_equal(a.count, b.count)
        # geometric against arithmetic mean: apart by half the variance of the logarithm
        assert np.log(a.mean_cycles / b.mean_cycles).max() < 0.01
        assert np.all(b.mean_cycles <= a.mean_cycles * 1.001)
        assert np.all(b.start_cycles <= a.start_cycles + 1e-6)
        assert np.all(b.end_cycles >= a.end_cycles - 1e-6)
