from dataclasses import replace

import numpy as np
import pytest

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_tracer.detect.observations import Observations, observe
from slowpoke_tracer.detect.routes import path_matrix
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.recorder import record
from slowpoke_tracer.sample import MESSAGE_BYTES, WORK_MACS, sample_program, sample_trace
from slowpoke_tracer.sketch_config import SketchConfig

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


def test_patterns_that_share_a_slot_are_told_apart_by_their_work() -> None:
    # without noise a message takes cycles in proportion to its bytes: sharing loses nothing
    program = sample_program()
    sizes = np.where(np.arange(program.n_tasks) % 3 == 0, 512.0, 8192.0)
    moves = program.message_bytes > 0
    program = replace(program, message_bytes=np.where(moves, sizes, 0.0))
    trace = sample_trace(program, noise=0.0)
    sketch = record(trace, program, SketchConfig(max_length=17))
    assert len(sketch.patterns) < len(Patterns.of_program(program))
    assert sketch.n_records_kept == trace.n_records
    whole, packed = observe(trace, program), observe(sketch, program)
    assert packed.count.sum() == pytest.approx(trace.n_records)

    def means(seen: Observations) -> dict[tuple[object, ...], float]:
        keys = seen.table[["recorder", "kind", "group", "op", "src", "dst", "role", "work"]]
        where = zip(keys[seen.pattern].tolist(), seen.window.tolist(), strict=True)
        return dict(zip(((*key, w) for key, w in where), seen.mean_cycles.tolist(), strict=True))

    a, b = means(whole), means(packed)
    assert a.keys() <= b.keys()
    assert [b[key] for key in a] == pytest.approx([a[key] for key in a], rel=0.01)


def test_a_sketch_of_another_program_is_refused() -> None:
    other = sample_program(n_batches=2)
    sizes = np.where(other.message_bytes > 0, 1234.0, 0.0)
    other = replace(other, message_bytes=sizes)
    with pytest.raises(SlowpokeError, match="patterns that the program does not have"):
        observe(record(sample_trace(other), other), PROGRAM)
