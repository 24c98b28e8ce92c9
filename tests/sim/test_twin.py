"""The digital twin: replays and shares."""

from __future__ import annotations

import numpy as np
import pytest

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.faults import parse_fault
from slowpoke_mapping.scale import Scale
from slowpoke_sim.machine import simulate
from slowpoke_sim.twin import DigitalTwin
from slowpoke_tracer.trace import Trace
from slowpoke_tracer.twin import Twin
from tests.sim.programs import Builder

CHIP = ChipConfig(
    link_bytes_per_cycle=10, router_delay_cycles=2, packet_bytes=100, macs_per_cycle=100,
    dram_bytes_per_cycle=10, dram_latency_cycles=50, dram_routers=(0,),
)  # fmt: skip


def twin(noise: str) -> DigitalTwin:
    builder = Builder(CHIP, units=3)
    builder.send(0, (1, 2), 100)
    builder.read(0, 1, 100)
    builder.write(1, 0, 100)
    builder.compute(5, 100)
    return DigitalTwin(builder.program(), noise)


def test_a_replay_is_the_run_of_the_same_seed() -> None:
    mine: Twin = twin("released")
    fault = parse_fault("link:0-1@3x")
    blocks = list(mine.replay([fault], seed=4, scale=Scale(0.9)))
    whole = simulate(mine.program, [fault], "released", 4, scale=Scale(0.9))
    assert np.array_equal(Trace.concatenate(blocks).transfers, whole.transfers)


def test_shares_are_service_over_latency_by_pencil_and_paper() -> None:
    builder = Builder(CHIP)
    builder.send(0, (1, 2), 100)
    builder.barrier()
    builder.read(0, 1, 100)
    builder.barrier()
    builder.write(1, 0, 100)
    shares = DigitalTwin(builder.program(), "none").shares().toarray()
    injection, hop, hop2 = CHIP.injection_channel(0), CHIP.link_index(0, 1), CHIP.link_index(1, 2)
    near, far = CHIP.ejection_channel(1), CHIP.ejection_channel(2)
    port = CHIP.n_channels
    for event, latency, services in (
        (0, 14, {injection: 10, hop: 10, near: 10}),
        (1, 16, {injection: 10, hop: 10, hop2: 10, far: 10}),
        (2, 74, {port: 60, hop: 10, near: 10}),
        (3, 12, {CHIP.injection_channel(1): 10, CHIP.link_index(1, 0): 10}),
    ):
        row = {int(i): shares[event, i] for i in np.flatnonzero(shares[event])}
        assert row == pytest.approx({i: cycles / latency for i, cycles in services.items()})


def test_shares_stay_within_one_and_cover_messages_only() -> None:
    mine = twin("harsh")
    shares = mine.shares(seed=2)
    assert shares.shape == (mine.program.n_events, CHIP.n_channels + 1)
    assert shares.max() <= 1.0
    assert shares.min() >= 0.0
    assert shares[-1].nnz == 0
