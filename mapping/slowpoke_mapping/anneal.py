"""Simulated annealing of one layer group: where its pieces sit, how layers are cut, which ports.

Gemini's four moves (HPCA 2024), six to two to one to two of eleven: swap two cores; move cores from
one layer to another; change a DRAM port; change a partition. What differs: candidates are evaluated
incrementally, the temperature falls geometrically over a given number of evaluations, partitions
are drawn from the better half, and the last fifth only goes downhill.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.compiled import compiled
from slowpoke_mapping.kernel import (
    Floats,
    Flow,
    Layers,
    Net,
    Timing,
    build,
    make_flow,
    make_timing,
    pipeline_cycles,
    put,
)
from slowpoke_mapping.ragged import Ints

POLISH = 0.2
"""Share of the evaluations at the end that accept no loss."""
CONTENTION = 0.5
"""Cycles of the mean link count this much in the latency, for queues that no maximum shows."""
HOTSPOT = 0.1
"""Cycles of the busiest channel count this much, even when computing hides them."""


class Choice(NamedTuple):
    """Cuts that a bundle may take, by number of pieces.

    Attributes:
        cuts: (m, 4) cuts (b, k, h, w) of all bundles and sizes.
        offsets: (n_bundles, n_cores + 2): for n pieces of bundle b: cuts[offsets[b, n]:
            offsets[b, n + 1]].
    """

    cuts: Ints
    offsets: Ints


class State(NamedTuple):
    """A candidate: cuts, slots, cores, ports.

    Attributes:
        cuts: (n_bundles, 4); slot_at: (n_bundles + 1,); core: (n_slots,) with room to spare;
        ports: (L, 3).
    """

    cuts: Ints
    slot_at: Ints
    core: Ints
    ports: Ints


class Value(NamedTuple):
    """What is minimised: worth of a cycle and of a picojoule; energies of a byte."""

    per_cycle: float
    per_pj: float
    hop_pj: float
    dram_pj: float
    sram_pj: float


class Work(NamedTuple):
    """Scratch memory of one evaluation."""

    flow: Flow
    timing: Timing
    load: Floats
    totals: Floats
    stamp: Ints
    tick: Ints
    busy: Floats
    end: Floats
    layer_cycles: Floats
    pace: Floats
    slot_of: Ints
    owner: Ints
    seen: Ints
    touched: Ints


def make_work(layers: Layers, net: Net, n_slots: int) -> Work:
    """Scratch memory for candidates of at most n_slots slots."""
    n_edges = len(layers.edge_producer)
    n_bundles = int(layers.bundle.max()) + 1
    most = max(n_slots - n_bundles + 1, 1)
    pairs = 0
    for e in range(n_edges):
        inside = layers.edge_producer[e] >= 0
        pairs += most * most // 4 + most if inside else most
    entries = int(min(pairs + 4 * most * len(layers.bundle) + 64, 2_000_000))
    return Work(
        make_flow(n_slots, entries, entries),
        make_timing(len(layers.bundle), n_edges, len(layers.bundle) * n_slots, net),
        np.zeros(len(net.channel_time)), np.zeros(2), np.zeros(len(net.channel_time), np.int64),
        np.zeros(1, np.int64), np.zeros(net.n_cores), np.zeros(len(layers.bundle)),
        np.zeros(len(layers.bundle)), np.zeros(len(layers.bundle)), np.zeros(net.n_cores, np.int64),
        np.zeros(net.n_cores, np.int64), np.zeros(entries, np.int64), np.zeros(entries, np.int64),
    )  # fmt: skip


@compiled
def _score(
    layers: Layers, net: Net, value: Value, work: Work, pipeline: float
) -> float:  # fmt: skip
    """The value of what lies in `work`."""
    busiest, total = 0.0, 0.0
    for c in range(len(work.load)):
        time = work.load[c] * net.channel_time[c]
        if time > busiest:
            busiest = time
        if c < net.n_links:
            total += time
    mean = total / max(net.n_links, 1)
    dram = work.timing.dram[0]
    cycles = max(max(pipeline, busiest), dram) + CONTENTION * mean + HOTSPOT * busiest
    energy = (
        work.totals[0] * value.hop_pj
        + work.timing.dram[1] * value.dram_pj
        + work.totals[1] * value.sram_pj
    )
    return float(value.per_cycle * cycles + value.per_pj * energy)


@compiled
def _pipeline(layers: Layers, net: Net, state: State, work: Work) -> float:
    return pipeline_cycles(
        layers, net, state.slot_at, state.core, work.timing, work.busy, work.end,
        work.layer_cycles, work.pace,
    )  # fmt: skip


@compiled
def evaluate(layers: Layers, net: Net, value: Value, state: State, work: Work) -> float:
    """The value of a candidate from scratch; infinite if there is no room for its flows."""
    build(
        layers, net, state.cuts, state.slot_at, state.core, state.ports, work.flow, work.timing
    )  # fmt: skip
    if work.flow.used[3] != 0:
        return np.inf
    for c in range(len(work.load)):
        work.load[c] = 0.0
    work.totals[0] = 0.0
    work.totals[1] = 0.0
    for f in range(work.flow.used[0]):
        put(net, work.flow, f, state.core, 1.0, work.tick, work.stamp, work.load, work.totals)
    pipeline = _pipeline(layers, net, state, work)
    return _score(layers, net, value, work, pipeline)


@compiled
def _random(seed: NDArray[np.uint64]) -> np.uint64:
    """The next number of splitmix64."""
    seed[0] += np.uint64(0x9E3779B97F4A7C15)
    x = seed[0]
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.uint64(x ^ (x >> np.uint64(31)))


@compiled
def _below(seed: NDArray[np.uint64], n: int) -> int:
    return int(np.int64(_random(seed) % np.uint64(n)))


@compiled
def _unit(seed: NDArray[np.uint64]) -> float:
    return np.float64(_random(seed) >> np.uint64(11)) / 9007199254740992.0


@compiled
def _copy(source: State, target: State) -> None:
    for b in range(len(source.cuts)):
        for d in range(4):
            target.cuts[b, d] = source.cuts[b, d]
    for b in range(len(source.slot_at)):
        target.slot_at[b] = source.slot_at[b]
    for s in range(len(source.core)):
        target.core[s] = source.core[s]
    for layer in range(len(source.ports)):
        for i in range(3):
            target.ports[layer, i] = source.ports[layer, i]


@compiled
def _largest_size(choice: Choice, bundle: int, low: int, high: int) -> int:
    """Largest number of pieces in [low, high] that the bundle allows; 0 for none."""
    for n in range(high, low - 1, -1):
        if choice.offsets[bundle, n + 1] > choice.offsets[bundle, n]:
            return n
    return 0


@compiled
def _resize(
    state: State, other: State, choice: Choice, usable: Ints, seed: NDArray[np.uint64],
    n_bundles: int, owner: Ints,
) -> bool:  # fmt: skip
    """`other` becomes `state` with one bundle larger, at the cost of idle cores or another one."""
    n_slots = state.slot_at[n_bundles]
    grow = _below(seed, n_bundles)
    now = state.slot_at[grow + 1] - state.slot_at[grow]
    for c in range(len(owner)):
        owner[c] = -1
    for b in range(n_bundles):
        for s in range(state.slot_at[b], state.slot_at[b + 1]):
            owner[state.core[s]] = b
    idle = len(usable) - n_slots
    shrink = _below(seed, n_bundles)
    spare = 0
    if shrink != grow:
        spare = state.slot_at[shrink + 1] - state.slot_at[shrink] - 1
    target = 0
    for n in range(now + 1, min(now + idle + spare, len(usable)) + 1):
        if choice.offsets[grow, n + 1] > choice.offsets[grow, n]:
            target = n
            break
    if target == 0:
        return False
    from_other = max(target - now - idle, 0)
    smaller = state.slot_at[shrink + 1] - state.slot_at[shrink]
    if from_other > 0:
        smaller = _largest_size(choice, shrink, 1, smaller - from_other)
        if smaller == 0:
            return False
    # cores that leave the shrinking bundle: its last slots, or from a random end
    _copy(state, other)
    at = 0
    freed = 0
    for b in range(n_bundles):
        other.slot_at[b] = at
        size = state.slot_at[b + 1] - state.slot_at[b]
        keep = size
        if b == shrink and from_other > 0:
            keep = smaller
        for i in range(keep):
            other.core[at + i] = state.core[state.slot_at[b] + i]
        for i in range(keep, size):
            owner[state.core[state.slot_at[b] + i]] = -1
            freed += 1
        at += target if b == grow else keep
    other.slot_at[n_bundles] = at
    # the growing bundle takes idle cores, beginning at a random one
    start = _below(seed, len(usable))
    need = other.slot_at[grow] + now
    for i in range(len(usable)):
        if need == other.slot_at[grow] + target:
            break
        c = usable[(start + i) % len(usable)]
        if owner[c] < 0:
            owner[c] = grow
            other.core[need] = c
            need += 1
    if need < other.slot_at[grow] + target:
        return False
    _draw_cuts(other, choice, grow, target, seed)
    if from_other > 0:
        _draw_cuts(other, choice, shrink, smaller, seed)
    return True


@compiled
def _draw_cuts(state: State, choice: Choice, bundle: int, n: int, seed: NDArray[np.uint64]) -> None:
    low, high = choice.offsets[bundle, n], choice.offsets[bundle, n + 1]
    row = low + _below(seed, high - low)
    for d in range(4):
        state.cuts[bundle, d] = choice.cuts[row, d]


@compiled
def anneal_group(
    layers: Layers, net: Net, value: Value, choice: Choice, usable: Ints, state: State,
    other: State, best: State, work: Work, spare: Work, evaluations: int,
    seed: NDArray[np.uint64], heat: float,
    shared: bool, uniform: bool, calm: bool,
) -> tuple[float, float, int]:  # fmt: skip
    """Search; `best` holds the result.

    Args:
        layers: The group; net: The chip; value: What is minimised.
        choice: Cuts that may be drawn.
        usable: Cores that may be used.
        state: The start; afterwards the last accepted candidate.
        other, best: Room for two more.
        work, spare: Scratch memory.
        evaluations: Candidates to try.
        seed: (1,) state of the generator.
        heat: First temperature, as a share of the start's value.
        shared: Whether several slots sit on one core.
        uniform: Whether all cores have one speed: swaps then leave the pipeline alone.
        calm: Only swap cores and change ports.

    Returns:
        (value of the start, value of the best, candidates evaluated).
    """
    n_bundles = len(state.cuts)
    n_layers = len(layers.bundle)
    n_ports = len(net.ports)
    current = evaluate(layers, net, value, state, work)
    pipeline = _pipeline(layers, net, state, work)
    start = current
    lowest = current
    _copy(state, best)
    slot_of, owner, seen, touched = work.slot_of, work.owner, work.seen, work.touched
    for c in range(net.n_cores):
        slot_of[c] = -1
    round_ = 0
    for s in range(state.slot_at[n_bundles]):
        slot_of[state.core[s]] = s
    hot = max(1, int(evaluations * (1.0 - POLISH)))
    ratio = (1e-5 / max(heat, 1e-5)) ** (1.0 / hot)
    temperature = heat * abs(current)
    done = 0
    tries = 0
    while done < evaluations and tries < 4 * evaluations + 64:
        tries += 1
        n_slots = state.slot_at[n_bundles]
        kind = _below(seed, 11)
        if calm and kind != 8:
            kind = 0  # layers keep their cores' number and their cuts
        if done >= hot:
            temperature = 0.0
        else:
            temperature *= ratio
        if kind < 6:
            a = _below(seed, n_slots)
            here = state.core[a]
            if shared:
                b = _below(seed, n_slots)
                there = state.core[b]
            else:
                there = usable[_below(seed, len(usable))]
                b = slot_of[there]
            if here == there:
                continue
            if shared and _clash(state, a, b, n_bundles):
                continue
            # flows that touch exactly one of the two, or begin at one of them, change
            round_ += 1
            n_touched = _touched(work.flow, a, b, round_, seen, touched)
            for i in range(n_touched):
                put(net, work.flow, touched[i], state.core, -1.0, work.tick, work.stamp, work.load,
                    work.totals)  # fmt: skip
            state.core[a] = there
            if b >= 0:
                state.core[b] = here
            for i in range(n_touched):
                put(net, work.flow, touched[i], state.core, 1.0, work.tick, work.stamp, work.load,
                    work.totals)  # fmt: skip
            after = pipeline
            if shared or not uniform:
                after = _pipeline(layers, net, state, work)
            new = _score(layers, net, value, work, after)
            done += 1
            if new <= current or (
                temperature > 0 and _unit(seed) < np.exp((current - new) / temperature)
            ):
                current = new
                pipeline = after
                slot_of[there] = a
                slot_of[here] = b
                if new < lowest * (1 - 1e-12):
                    lowest = new
                    _copy(state, best)
            else:
                for i in range(n_touched):
                    put(net, work.flow, touched[i], state.core, -1.0, work.tick, work.stamp,
                        work.load, work.totals)  # fmt: skip
                state.core[a] = here
                if b >= 0:
                    state.core[b] = there
                for i in range(n_touched):
                    put(net, work.flow, touched[i], state.core, 1.0, work.tick, work.stamp,
                        work.load, work.totals)  # fmt: skip
            continue
        if kind < 8:
            if n_bundles == 1 and len(usable) == n_slots:
                continue
            if not _resize(state, other, choice, usable, seed, n_bundles, owner):
                continue
        else:
            _copy(state, other)
            if kind == 8:
                layer = _below(seed, n_layers)
                other.ports[layer, _below(seed, 3)] = _below(seed, n_ports + 1) - 1
                for i in range(3):
                    if other.ports[layer, i] == -1:
                        other.ports[layer, i] = -2
            else:
                b = _below(seed, n_bundles)
                n = state.slot_at[b + 1] - state.slot_at[b]
                if choice.offsets[b, n + 1] - choice.offsets[b, n] < 2:
                    continue
                _draw_cuts(other, choice, b, n, seed)
        new = evaluate(layers, net, value, other, spare)
        done += 1
        if new <= current or (
            temperature > 0 and _unit(seed) < np.exp((current - new) / temperature)
        ):
            current = new
            _copy(other, state)
            work, spare = spare, work
            pipeline = _pipeline(layers, net, state, work)
            if not shared:
                for c in range(net.n_cores):
                    slot_of[c] = -1
                for s in range(state.slot_at[n_bundles]):
                    slot_of[state.core[s]] = s
            if new < lowest * (1 - 1e-12):
                lowest = new
                _copy(state, best)
    return start, lowest, done


@compiled
def _clash(state: State, a: int, b: int, n_bundles: int) -> bool:
    """Whether swapping the cores of two slots puts two slots of one bundle on one core."""
    for turn in range(2):
        one, two = (a, b) if turn == 0 else (b, a)
        for bundle in range(n_bundles):
            if state.slot_at[bundle] <= one < state.slot_at[bundle + 1]:
                for s in range(state.slot_at[bundle], state.slot_at[bundle + 1]):
                    if s != one and s != two and state.core[s] == state.core[two]:
                        return True
    return False


@compiled
def _touched(flow: Flow, a: int, b: int, round_: int, seen: Ints, touched: Ints) -> int:
    """Flows whose tree changes when slots a and b (or a and an idle core) swap; how many.

    A flow with both among its destinations keeps its tree; it is met twice and left out.
    """
    n = 0
    entry = flow.slot_first[a]
    while entry >= 0:
        f = flow.slot_flow[entry]
        entry = flow.slot_next[entry]
        if seen[f] != 2 * round_ and seen[f] != 2 * round_ + 1:
            seen[f] = 2 * round_
    if b >= 0:
        entry = flow.slot_first[b]
        while entry >= 0:
            f = flow.slot_flow[entry]
            entry = flow.slot_next[entry]
            if seen[f] == 2 * round_ and flow.src[f] != a and flow.src[f] != b:
                seen[f] = 2 * round_ + 1
            elif seen[f] != 2 * round_ and seen[f] != 2 * round_ + 1:
                seen[f] = 2 * round_ + 1
                touched[n] = f
                n += 1
    entry = flow.slot_first[a]
    while entry >= 0:
        f = flow.slot_flow[entry]
        entry = flow.slot_next[entry]
        if seen[f] == 2 * round_:
            seen[f] = 2 * round_ + 1
            touched[n] = f
            n += 1
    return n
