"""Where the time went, by pencil and paper."""

from __future__ import annotations

import numpy as np
import pytest

from slowpoke_mapping.chip import ChipConfig
from slowpoke_sim.machine import run
from tests.sim.programs import Builder

CHIP = ChipConfig(
    link_bytes_per_cycle=10, router_delay_cycles=2, packet_bytes=100, macs_per_cycle=100,
    dram_bytes_per_cycle=10, dram_latency_cycles=50,
)  # fmt: skip


def test_every_cycle_of_a_core_is_busy_waiting_blocked_or_idle() -> None:
    builder = Builder(CHIP, units=4, inferences=8)
    producer = builder.compute(0, 100, op=0)
    message = builder.send(0, 1, 200, [producer], op=0)
    consumer = builder.compute(1, 1000, [message], op=1)
    builder.needs(producer, consumer, 2)
    builder.probe(1, 3, [consumer])
    builder.barrier()
    builder.compute(2, 500, op=2)
    timing = run(builder.program(), noise="none").timing
    parts = (
        timing.core_busy_cycles
        + timing.core_input_cycles
        + timing.core_backpressure_cycles
        + timing.core_idle_cycles
    )
    assert np.allclose(parts, timing.makespan_cycles)
    assert timing.core_busy_cycles[:3].tolist() == [8 * 1, 8 * (10 + 3), 8 * 5]
    assert timing.core_backpressure_cycles[0] > 0
    assert timing.core_backpressure_cycles[1] == 0
    # messages leave the injection channel every 20 cycles and arrive at 25, 45, 65 and 85; the
    # consumer and its probe take 13, so they wait 25 and then 7 cycles three times, in two batches
    assert timing.core_input_cycles[1] == 2 * (25 + 3 * 7)


def test_operators_have_their_compute_time_and_their_latency_in_a_batch() -> None:
    builder = Builder(CHIP, units=2, inferences=4)
    first = builder.compute(0, 1000, op=0)
    builder.compute(1, 2000, op=0)
    builder.compute(2, 500, [first], op=1)
    timing = run(builder.program(), noise="none").timing
    assert timing.operator_busy_cycles.tolist() == [4 * 30, 4 * 5]
    assert timing.operator_latency_cycles.tolist() == [40, 15]
    assert timing.phase_start_cycles.tolist() == [[0], [40]]
    assert timing.makespan_cycles == 80


def test_channels_and_ports_count_bytes_and_busy_time() -> None:
    builder = Builder(CHIP)
    router = CHIP.dram_ports[0]
    builder.read(0, router, 250)
    builder.write(router, 0, 150)
    timing = run(builder.program(), noise="none").timing
    assert timing.port_bytes[0] == 400
    assert timing.port_busy_cycles[0] == 2 * 50 + 40
    assert timing.channel_busy_cycles[CHIP.ejection_channel(router)] == 25
    assert timing.channel_bytes[CHIP.injection_channel(router)] == 150
    assert timing.n_hops == 3 + 2
    assert timing.n_services == 3 + 2 + 2
    assert timing.channel_utilization.max() == pytest.approx(25 / timing.makespan_cycles)
    assert "cycles; cores" in str(timing)


def test_an_operator_that_computes_nothing_has_no_latency() -> None:
    builder = Builder(CHIP)
    builder.compute(0, 100, op=0)
    builder.send(0, 1, 100, op=1)
    assert np.isnan(run(builder.program()).timing.operator_latency_cycles[1])
