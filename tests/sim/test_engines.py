"""Both engines give the same times, bit for bit, on random programs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import simpy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.places import Core, DramPort, Link, Place, Router
from slowpoke_mapping.program import Program, TaskKind
from slowpoke_sim.hops import SERVER
from slowpoke_sim.machine import Machine, Run, run
from slowpoke_sim.noise import NOISES
from slowpoke_sim.simpy_engine import At
from slowpoke_sim.speeds import servers_of
from slowpoke_tracer.trace import Trace
from tests.sim.programs import Builder, Event

SIZES = [0.0, 1.0, 64.0, 100.0, 250.0, 1000.0]


def trace_of(result: Run) -> Trace:
    assert result.trace is not None
    return result.trace


@st.composite
def chips(draw: st.DrawFn) -> ChipConfig:
    topology = draw(
        st.sampled_from(["mesh:3x3", "mesh:1x4", "torus:4x3", "ring:5", "dragonfly:3x2"])
    )
    is_mesh = topology.startswith("mesh")
    return ChipConfig(
        topology=topology,
        switching=draw(st.sampled_from(["cut_through", "store_and_forward"])),
        packet_bytes=draw(st.sampled_from([64.0, 100.0, 1e9])),
        router_delay_cycles=draw(st.sampled_from([0.0, 1.0, 2.5])),
        link_bytes_per_cycle=draw(st.sampled_from([10.0, 16.0])),
        dram_bytes_per_cycle=draw(st.sampled_from([10.0, 32.0])),
        dram_latency_cycles=draw(st.sampled_from([0.0, 20.0])),
        macs_per_cycle=100.0,
        multicast=draw(st.booleans()),
        buffer_packets=draw(st.sampled_from([0, 0, 1, 3])) if is_mesh else 0,
    )


def random_program(
    chip: ChipConfig, n_tasks: int, seed: int, sizes: Sequence[float] = SIZES
) -> Program:
    """Random tasks, each waiting for a few earlier ones, with credits, in one or two groups."""
    rng = random.Random(seed)
    units = rng.randint(1, 4)
    builder = Builder(chip, units=units, inferences=rng.randint(1, 2 * units))
    cores, ports = range(chip.n_cores), range(len(chip.dram_ports))
    n_destinations: list[int] = []
    for _ in range(rng.randint(1, 2)):
        first = len(n_destinations)
        for here in range(first, first + n_tasks):
            earlier = rng.sample(range(first, here), min(rng.randint(0, 3), here - first))
            after = [
                (Event(task, rng.randrange(n_destinations[task])), rng.choice([0, 0, 1]))
                for task in earlier
            ]
            once = rng.random() < 0.15
            size = rng.choice(sizes)
            kind = rng.choice(["compute", "compute", "probe", "send", "send", "read", "write"])
            dsts = tuple(rng.sample(cores, min(rng.randint(1, 3), len(cores))))
            n_destinations.append(len(dsts) if kind in ("send", "read") else 1)
            if kind == "compute":
                event = builder.compute(rng.choice(cores), size, after, once)
            elif kind == "probe":
                event = builder.probe(rng.choice(cores), size / 10, after, once)
            elif kind == "send":
                event = builder.send(rng.choice(cores), dsts, size, after, once)
            elif kind == "read":
                event = builder.read(rng.choice(ports), dsts, size, after, once)
            else:
                event = builder.write(rng.choice(cores), rng.choice(ports), size, after, once)
            if after and not once and rng.random() < 0.5:
                # a credit: what this one waits for may be this many units ahead, and no more
                builder.needs(after[0][0], event, rng.choice([2, 3]))
        builder.barrier()
    return builder.program()


@st.composite
def programs(draw: st.DrawFn) -> Program:
    return random_program(draw(chips()), draw(st.integers(1, 14)), draw(st.integers(0, 10**6)))


@st.composite
def programs_whose_servers_decide_ahead(draw: st.DrawFn) -> Program:
    chip = draw(chips()).model_copy(
        update={
            "switching": "cut_through",
            "buffer_packets": 0,
            "router_delay_cycles": draw(st.sampled_from([1.0, 2.5])),
        }
    )
    return random_program(chip, draw(st.integers(1, 30)), draw(st.integers(0, 10**6)), SIZES[1:])


@st.composite
def faults(draw: st.DrawFn, chip: ChipConfig) -> Fault:
    core = st.integers(0, chip.n_cores - 1)
    port = st.integers(0, len(chip.dram_ports) - 1)
    link = st.sampled_from(chip.network.links.tolist())
    place: Place = draw(
        st.one_of(
            st.builds(Core, core),
            st.builds(Router, core),
            st.builds(DramPort, port),
            st.builds(lambda ends, both: Link(ends[0], ends[1], both), link, st.booleans()),
        )
    )
    start = draw(st.sampled_from([0.0, 5.0, 12.5, 40.0]))
    period, duty = draw(st.sampled_from([(0.0, 1.0), (0.0, 1.0), (13.0, 0.3), (50.0, 1.0)]))
    return Fault(
        place,
        draw(st.sampled_from([1.0, 1.5, 2.0, 10.0])),
        start,
        draw(st.sampled_from([start + 7.0, start + 100.0, float("inf")])),
        draw(st.sampled_from([0.0, 0.0, 16.0])),
        period,
        duty,
    )


def same_times_from_both_engines(
    data: st.DataObject, some: st.SearchStrategy[Program], is_ahead: bool = False
) -> None:
    program = data.draw(some)
    slow = data.draw(st.lists(faults(program.chip), max_size=3))
    noise = data.draw(st.sampled_from(sorted(NOISES)))
    seed = data.draw(st.integers(0, 99))
    machines = [Machine(program, slow, noise, seed, engine) for engine in ("compiled", "simpy")]
    assert not is_ahead or machines[0].plan.constants.ahead
    for ours, theirs in zip(*(m.phases(hop_cycles=True) for m in machines), strict=True):
        assert ours.end_cycles == theirs.end_cycles
        for name in ("first", "eject", "consume", "hop_cycles"):
            a, b = getattr(ours, name), getattr(theirs, name)
            assert a.shape == b.shape and np.array_equal(a, b, equal_nan=True), name
    ours, theirs = (machine.components for machine in machines)
    assert ours.exposure.tolist() == theirs.exposure.tolist()
    assert np.allclose(ours.sums, theirs.sums, rtol=1e-9, atol=1e-9)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_start_and_end_times_are_equal_bit_for_bit(data: st.DataObject) -> None:
    same_times_from_both_engines(data, programs())


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_times_are_equal_bit_for_bit_where_servers_decide_ahead(data: st.DataObject) -> None:
    same_times_from_both_engines(data, programs_whose_servers_decide_ahead(), is_ahead=True)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(st.data())
def test_start_and_end_times_are_equal_on_six_hundred_programs(data: st.DataObject) -> None:
    same_times_from_both_engines(data, programs())


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(st.data())
def test_six_hundred_programs_whose_servers_decide_ahead(data: st.DataObject) -> None:
    same_times_from_both_engines(data, programs_whose_servers_decide_ahead(), is_ahead=True)


def test_a_phase_with_more_in_flight_than_there_is_room_for_is_run_again() -> None:
    program = random_program(ChipConfig(topology="mesh:3x3"), 30, 4, SIZES[1:])
    machines = [Machine(program, engine="compiled") for _ in range(2)]
    machines[1]._engine._n_entries = machines[1]._engine._n_heap = 2  # type: ignore[attr-defined]
    machines[1]._engine._make_scratch()  # type: ignore[attr-defined]
    for one, other in zip(*(machine.phases() for machine in machines), strict=True):
        assert np.array_equal(one.eject, other.eject, equal_nan=True)


@example(0.03125, 562949953421313.5625)
@given(st.floats(0, 1e15), st.floats(0, 1e15))
def test_a_simpy_clock_can_be_brought_to_any_later_time_exactly(one: float, two: float) -> None:
    now, time = sorted((one, two))
    clock = simpy.Environment(initial_time=now)
    At(clock, time)
    clock.run()
    assert clock.now == time


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_bytes_and_work_are_conserved_under_any_fault(data: st.DataObject) -> None:
    program = data.draw(programs())
    slow = data.draw(st.lists(faults(program.chip), max_size=3))
    noise = data.draw(st.sampled_from(sorted(NOISES)))
    healthy, faulty = run(program, (), noise), run(program, slow, noise)
    before, after = trace_of(healthy), trace_of(faulty)
    chip = program.chip
    # every byte that goes in at a core or port comes out at a core or port
    for result, trace in ((healthy, before), (faulty, after)):
        transfers, timing = trace.transfers, result.timing
        ejected = timing.channel_bytes[chip.n_links + chip.n_cores :].sum()
        assert ejected == transfers["bytes"][transfers["dst"] >= 0].sum()
        at_ports = (transfers["src"] < 0) | (transfers["dst"] < 0)
        # a multicast read is served once and ejected by everybody
        assert timing.port_bytes.sum() <= transfers["bytes"][at_ports].sum()
    assert after.compute["macs"].sum() == before.compute["macs"].sum()
    assert faulty.timing.channel_bytes.tolist() == healthy.timing.channel_bytes.tolist()
    assert faulty.timing.n_services == healthy.timing.n_services
    # a fault never shortens a service (drift belongs to times, which a fault shifts)
    if NOISES[noise].drift == 0:
        keys = ["event", "batch", "unit"]
        one, two = np.sort(before.compute, order=keys), np.sort(after.compute, order=keys)
        spans = [table["end_cycles"] - table["start_cycles"] for table in (one, two)]
        assert np.all(spans[1] >= spans[0] - 1e-9 * (1 + two["end_cycles"]))
    # without the fault the healthy run is back, bit for bit
    again = trace_of(run(program, (), noise))
    assert np.array_equal(again.compute, before.compute)
    assert np.array_equal(again.transfers, before.transfers)
    if noise == "none":
        n = chip.n_channels
        assert np.allclose(
            healthy.timing.channel_busy_cycles[:n] * chip.link_bytes_per_cycle,
            healthy.timing.channel_bytes[:n],
            rtol=1e-9,
            atol=1e-6,
        )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_fault_never_shortens_a_service_on_its_component_under_harsh_noise(
    data: st.DataObject,
) -> None:
    # Drift belongs to windows of time, and a fault shifts times: in one endless window the drift
    # of a component is one factor, so that everything else of `harsh` can be compared.
    program = data.draw(programs())
    fault = data.draw(faults(program.chip))
    noise = replace(NOISES["harsh"], drift_window_cycles=1e15)
    seed = data.draw(st.integers(0, 99))
    machines = [Machine(program, slow, noise, seed) for slow in ([], [fault])]
    hit = servers_of(program.chip, fault)
    hops, cores = machines[0].plan.arrays, program.chip.n_channels + len(program.chip.dram_ports)
    for before, after in zip(*(m.phases(hop_cycles=True) for m in machines), strict=True):
        tasks = program.group_offsets[before.group : before.group + 2]
        own = slice(*(int(hop) for hop in hops.hop_offsets[tasks]))
        events = slice(*(int(event) for event in program.event_offsets[tasks]))
        task = program.event_task[events]
        on_core = np.isin(program.kind[task], (TaskKind.COMPUTE, TaskKind.PROBE))
        is_hit = on_core & np.isin(cores + program.core[task], hit)
        healthy, faulty = ((p.eject - p.first)[is_hit] for p in (before, after))
        slack = 1e-9 * (1 + after.end_cycles)
        assert np.all((faulty >= healthy - slack) | np.isnan(healthy))
        is_hit = np.isin(hops.hops[own, SERVER], hit)
        assert np.all(after.hop_cycles[is_hit] >= before.hop_cycles[is_hit] - slack)
