"""Times on hand-made programs, by pencil and paper."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program
from slowpoke_mapping.scale import Scale
from slowpoke_sim.machine import ENGINES, run, simulate
from slowpoke_tracer.trace import Trace
from tests.sim.programs import Builder, Event

CHIP = ChipConfig(
    link_bytes_per_cycle=10, router_delay_cycles=2, packet_bytes=100, macs_per_cycle=100,
    dram_bytes_per_cycle=10, dram_latency_cycles=50,
)  # fmt: skip
"""4 x 4 mesh; a full packet takes 10 cycles a channel."""
STORE = CHIP.replace(switching="store_and_forward")

both = pytest.mark.parametrize("engine", sorted(ENGINES))


def one_message(chip: ChipConfig, size: float, src: int = 0, dst: int = 2) -> Program:
    builder = Builder(chip)
    builder.send(src, dst, size)
    return builder.program()


def times(trace: Trace, event: int) -> tuple[float, float, float]:
    row = trace.transfers[trace.transfers["event"] == event][0]
    return (
        float(row["inject_cycles"]),
        float(row["eject_cycles"]),
        float(row["consume_cycles"]),
    )


@both
def test_a_cut_through_packet_pays_router_delays_and_one_serialisation(engine: str) -> None:
    # injection, 2 links, ejection: the head needs 3 router delays, the tail 10 cycles more
    trace = simulate(one_message(CHIP, 100), noise="none", engine=engine)
    assert times(trace, 0) == (0.0, 3 * 2 + 10, 16.0)


@both
def test_a_store_and_forward_packet_pays_serialisation_on_every_channel(engine: str) -> None:
    trace = simulate(one_message(STORE, 100), noise="none", engine=engine)
    assert times(trace, 0) == (0.0, 4 * 10 + 3 * 2, 46.0)


@both
def test_packets_of_one_message_pipeline_over_the_hops(engine: str) -> None:
    # 250 bytes: packets of 10, 10 and 5 cycles; store and forward: last packet leaves the first
    # channel at 25, then 3 x (2 + 5) more, but never overtakes: packet 2 ends hop 4 at 56
    cut = simulate(one_message(CHIP, 250), noise="none", engine=engine)
    assert times(cut, 0)[1] == 3 * 2 + 25
    store = simulate(one_message(STORE, 250), noise="none", engine=engine)
    assert times(store, 0)[1] == 56 + 5


@both
def test_a_message_without_bytes_takes_the_router_delays(engine: str) -> None:
    assert times(simulate(one_message(CHIP, 0), noise="none", engine=engine), 0)[1] == 6.0


@both
def test_a_read_is_served_by_its_port_and_then_travels(engine: str) -> None:
    builder = Builder(CHIP)
    port_router = CHIP.dram_ports[0]
    builder.read(0, port_router + 1, 100)
    builder.read(0, port_router + 1, 100)
    trace = simulate(builder.program(), noise="none", engine=engine)
    # port 50 + 10; router 2; link and ejection: one delay and 10 cycles
    assert times(trace, 0) == (0.0, 60 + 2 + 2 + 10, 74.0)
    assert times(trace, 1) == (60.0, 120 + 14, 134.0)


@both
def test_a_write_ejects_at_the_ports_router_and_is_consumed_when_stored(engine: str) -> None:
    builder = Builder(CHIP)
    port_router = CHIP.dram_ports[0]
    builder.write(port_router + 1, 0, 100)
    trace = simulate(builder.program(), noise="none", engine=engine)
    # injection and one link: 2 + 10; router 2; port 50 + 10
    assert times(trace, 0) == (0.0, 12.0, 12 + 2 + 60)


@both
def test_multicast_carries_the_bytes_once_and_has_one_time_for_each_destination(
    engine: str,
) -> None:
    builder = Builder(CHIP)
    builder.send(0, (1, 2, 5), 100)
    result = run(builder.program(), noise="none", engine=engine)
    assert result.trace is not None
    assert [times(result.trace, e)[1] for e in range(3)] == [2 * 2 + 10, 3 * 2 + 10, 3 * 2 + 10]
    # injection, 0->1, 1->2, 1->5, three ejections
    assert result.timing.channel_bytes.sum() == 7 * 100
    assert result.timing.channel_bytes[CHIP.link_index(0, 1)] == 100


@both
def test_without_multicast_every_destination_gets_a_copy_of_its_own(engine: str) -> None:
    builder = Builder(CHIP.replace(multicast=False))
    builder.send(0, (1, 2), 100)
    result = run(builder.program(), noise="none", engine=engine)
    assert result.trace is not None
    # the second copy waits for the first at injection
    assert times(result.trace, 0) == (0.0, 14.0, 14.0)
    assert times(result.trace, 1) == (10.0, 10 + 16, 26.0)
    assert result.timing.channel_bytes[CHIP.link_index(0, 1)] == 200


@both
def test_a_message_is_consumed_when_its_first_compute_task_starts(engine: str) -> None:
    builder = Builder(CHIP)
    builder.compute(2, 10_000)
    message = builder.send(0, 2, 100)
    builder.compute(2, 100, [message])
    builder.compute(2, 100, [message])
    trace = simulate(builder.program(), noise="none", engine=engine)
    assert times(trace, 1) == (0.0, 16.0, 100.0)


@both
def test_a_core_serves_by_ready_time_then_task(engine: str) -> None:
    builder = Builder(CHIP)
    builder.compute(0, 1000)
    builder.compute(0, 500)
    builder.probe(0, 7)
    trace = simulate(builder.program(), noise="none", engine=engine)
    assert trace.compute["end_cycles"].tolist() == [10.0, 15.0]
    assert run(builder.program(), noise="none", engine=engine).timing.makespan_cycles == 22.0


@both
def test_a_credit_holds_the_producer_back(engine: str) -> None:
    # producer 1 cycle, consumer 10, one unit ahead at most: the producer's unit u waits for the
    # consumer's unit u - 1
    builder = Builder(CHIP, units=4)
    producer = builder.compute(0, 100)
    consumer = builder.compute(1, 1000, [producer])
    builder.needs(producer, consumer, 1)
    result = run(builder.program(), noise="none", engine=engine)
    assert result.timing.makespan_cycles == 4 * 11
    assert result.timing.core_backpressure_cycles[0] == 3 * 10
    assert result.timing.core_input_cycles[1] == 4 * 1


@both
def test_a_once_task_runs_in_the_first_unit_of_each_batch(engine: str) -> None:
    builder = Builder(CHIP, units=2, inferences=3)
    weights = builder.send(1, 0, 100, once=True)
    builder.compute(0, 100, [weights])
    trace = simulate(builder.program(), noise="none", engine=engine)
    assert trace.transfers[["batch", "unit"]].tolist() == [(0, 0), (1, 0)]
    assert trace.compute[["batch", "unit"]].tolist() == [(0, 0), (0, 1), (1, 0)]


@both
def test_a_group_starts_when_the_one_before_has_ended(engine: str) -> None:
    builder = Builder(CHIP)
    builder.compute(0, 1000)
    builder.compute(1, 3000)
    builder.barrier()
    builder.compute(0, 100)
    trace = simulate(builder.program(), noise="none", engine=engine)
    assert trace.compute["start_cycles"].tolist() == [0.0, 0.0, 30.0]


@both
def test_a_fault_in_the_middle_slows_only_the_rest_of_the_work(engine: str) -> None:
    builder = Builder(CHIP)
    builder.compute(3, 10_000)
    program = builder.program()
    for fault, end in (
        ("core:3@10x[40,inf]", 40 + 60 * 10),
        ("core:3@2x[10,30]", 100 + 10),
        ("core:3@2x[200,300]", 100),
        (["core:3@2x[0,20]", "core:3@3x[0,20]"], 20 + 100 - 20 / 6),
        ("core:3@2x[0,1000];period=10;duty=0.5", 100 + 33),
    ):
        result = run(program, fault, "none", engine=engine)
        assert result.timing.makespan_cycles == pytest.approx(end, abs=3), fault


@both
def test_exposure_counts_the_services_that_a_fault_touches(engine: str) -> None:
    builder = Builder(CHIP)
    for _ in range(5):
        builder.compute(3, 1000)
    builder.send(0, 2, 1000)
    faults = ["core:3@2x[10,20]", "core:4@2x", "link:0-1@2x"]
    faults += ["link:0->1@2x[1e6,2e6]", "router:0@2x"]
    result = run(builder.program(), faults, "none", engine=engine)
    # a message counts once on each channel: injection and link 0 -> 1 of router 0
    assert result.exposure == (1, 0, 1, 0, 2)


@both
def test_scale_multiplies_the_nominal_speeds(engine: str) -> None:
    builder = Builder(CHIP)
    builder.compute(3, 1000)
    builder.barrier()
    builder.send(0, 1, 100)
    program = builder.program()
    slow = run(program, noise="none", engine=engine, scale=Scale(0.5, 0.25)).timing
    assert slow.phase_end_cycles.tolist() == [[40.0, 40.0 + 4 + 20]]


def test_blocks_go_to_a_sink_and_nothing_is_kept() -> None:
    class Counter:
        n = 0

        def add(self, block: Trace) -> None:
            self.n += block.n_records

        def result(self) -> int:
            return self.n

    builder = Builder(CHIP, units=2, inferences=7)
    builder.send(0, 1, 100)
    program = builder.program()
    assert simulate(program, sink=Counter()) == 7
    assert run(program, on_block=lambda block: None).trace is None
    assert len(simulate(program).transfers) == 7


def test_memory_does_not_grow_with_the_inferences_of_a_streamed_run() -> None:
    def peak_bytes(inferences: int) -> int:
        builder = Builder(CHIP, units=50, inferences=inferences)
        for core in range(16):
            builder.send(core, (core + 1) % 16, 100, [builder.compute(core, 100)])
        program = builder.program()
        run(program, "core:1@2x", on_block=lambda block: None)
        tracemalloc.start()
        run(program, "core:1@2x", on_block=lambda block: None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert peak_bytes(5000) < 1.05 * peak_bytes(500)


def test_arguments_are_refused_with_the_choices() -> None:
    program = one_message(CHIP, 100)
    with pytest.raises(SlowpokeError, match="none, paper, released, harsh"):
        simulate(program, noise="loud")
    with pytest.raises(SlowpokeError, match="compiled, simpy"):
        simulate(program, engine="verilog")
    with pytest.raises(SlowpokeError, match="cores are 0 to 15"):
        simulate(program, faults="core:99@2x")
    with pytest.raises(SlowpokeError, match="no such link"):
        simulate(program, faults="link:0-9@2x")
    with pytest.raises(SlowpokeError, match="seed"):
        simulate(program, seed=-1)


@both
def test_a_program_that_waits_for_itself_is_refused(engine: str) -> None:
    builder = Builder(CHIP)
    first = builder.compute(0, 1)
    second = builder.compute(0, 1, [first])
    builder.needs(first, second, 0)
    with pytest.raises(SlowpokeError, match="waits for it"):
        simulate(builder.program(), engine=engine)


def test_a_skew_shifts_the_counters_of_each_core_and_nothing_else() -> None:
    builder = Builder(CHIP.replace(clock_skew_cycles=100))
    builder.compute(0, 1000)
    builder.send(0, 2, 100)
    program = builder.program()
    skewed = run(program, noise="none")
    assert skewed.trace is not None
    skew = skewed.skew_cycles
    assert np.all(np.abs(skew) <= 100) and np.ptp(skew) > 10
    assert skewed.trace.compute["start_cycles"][0] == skew[0]
    assert times(skewed.trace, 1)[:2] == (skew[0], 16 + skew[2])
    assert skewed.timing.makespan_cycles == 16.0


def test_an_event_of_a_multicast_releases_only_who_waits_for_it() -> None:
    builder = Builder(CHIP)
    message = builder.send(0, (1, 3), 100)
    builder.compute(1, 100, [Event(message.task, 0)])
    builder.compute(3, 100, [Event(message.task, 1)])
    trace = simulate(builder.program(), noise="none")
    assert trace.compute["start_cycles"].tolist() == [14.0, 18.0]
