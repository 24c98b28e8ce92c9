"""The mapper beside Gemini's own figures, against simpler mappings, and against the simulator.

    python benchmarks/bench_mapper.py                 all of it
    python benchmarks/bench_mapper.py gemini          byte-hops and DRAM bytes beside Gemini's rows
    python benchmarks/bench_mapper.py ablation        round-robin, stripe, Gemini-like, ours
    python benchmarks/bench_mapper.py agreement       the estimate beside the simulator, by group
    python benchmarks/bench_mapper.py speed           candidates a second, seconds a search
    pytest benchmarks/bench_mapper.py                 speed as ratios, for pytest-benchmark

Gemini's rows are what its public implementation reports (rr = 50, objective energy x delay, int8,
1024 MAC/core, 2 MiB, 32 B/cycle, 12 nm, one die). Its VGG-19 ends before the classifier and its
ResNet-50 strides in the first convolution of a block; we map torchvision's ResNet-50 as it is and
VGG-19 without its classifier.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from slowpoke_mapping.chip import ChipConfig, chip
from slowpoke_mapping.cost import estimate, speeds_of
from slowpoke_mapping.gemini import gemini_cost
from slowpoke_mapping.graph import OperatorGraph
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.mapping import LayerGroup, Mapping
from slowpoke_mapping.partition import choices
from slowpoke_mapping.routes import routes_of
from slowpoke_mapping.search import Surroundings, improve_group
from slowpoke_mapping.segment import Weights
from slowpoke_sim import run

# (cycles, mJ, byte-hops, DRAM bytes)
GEMINI: dict[tuple[str, str, int], tuple[int, float, int, int]] = {
    ("resnet50", "4x4", 1): (870_700, 5.58, 218_904_537, 43_288_866),
    ("resnet50", "4x4", 16): (5_322_151, 44.95, 1_560_596_464, 269_150_976),
    ("resnet50", "6x6", 1): (446_333, 6.12, 348_083_547, 42_481_856),
    ("resnet50", "6x6", 16): (2_626_485, 44.32, 2_137_361_080, 227_932_432),
    ("googlenet", "4x4", 1): (297_291, 1.86, 68_032_164, 13_871_202),
    ("googlenet", "4x4", 16): (2_402_516, 16.36, 485_005_212, 95_415_040),
    ("googlenet", "6x6", 1): (141_625, 1.98, 104_088_155, 13_546_296),
    ("googlenet", "6x6", 16): (1_311_772, 13.53, 479_071_680, 59_501_632),
    ("darknet19", "4x4", 1): (448_528, 3.27, 112_720_784, 25_401_504),
    ("darknet19", "4x4", 16): (3_219_288, 17.94, 448_458_768, 69_745_120),
    ("darknet19", "6x6", 1): (218_640, 3.60, 177_083_799, 25_464_208),
    ("darknet19", "6x6", 16): (1_637_788, 16.42, 569_307_884, 39_046_592),
    ("vgg19", "4x4", 1): (1_466_166, 9.14, 232_046_528, 47_099_648),
    ("vgg19", "4x4", 16): (21_887_398, 102.4, 1_737_396_672, 345_148_096),
    ("vgg19", "6x6", 1): (697_214, 9.91, 383_638_828, 45_606_904),
    ("vgg19", "6x6", 16): (10_452_495, 103.4, 2_649_875_900, 281_649_024),
}
WORKLOADS = ("binary_tree", "googlenet", "darknet19", "vgg19", "resnet50")


@lru_cache(maxsize=16)
def graph_of(name: str) -> OperatorGraph:
    from torch_slowpoke.frontend import operator_graph

    return operator_graph(name)


def features(graph: OperatorGraph) -> OperatorGraph:
    """VGG-19 without its classifier, as Gemini has it."""
    last = max(i for i, operator in enumerate(graph) if operator.name.startswith("features"))
    return replace(graph, operators=graph.operators[: last + 1], outputs=())


def compare_with_gemini() -> None:
    print("| run | byte-hops | of Gemini's | DRAM bytes | of Gemini's | groups | T | of Gemini's |"
          " E mJ | EDP of Gemini's | search s |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for (name, mesh, batch), (cycles, mj, hops, dram) in GEMINI.items():
        graph = features(graph_of(name)) if name == "vgg19" else graph_of(name)
        begin = time.process_time()
        mapping = map_graph(graph, chip(f"gemini-{mesh}"), batch=batch, objective="edp")
        taken = time.process_time() - begin
        cost = gemini_cost(mapping)
        print(
            f"| {name} {mesh} b{batch} | {cost.byte_hops:,.0f} | {cost.byte_hops / hops:.2f} "
            f"| {cost.dram_bytes:,.0f} | {cost.dram_bytes / dram:.2f} | {len(mapping.groups)} "
            f"| {cost.cycles:,} | {cost.cycles / cycles:.2f} | {cost.energy_pj / 1e9:.2f} "
            f"| {cost.edp / (cycles * mj * 1e9):.2f} | {taken:.1f} |",
            flush=True,
        )


def around_of(mapping: Mapping) -> Surroundings:
    graph, config = mapping.graph, mapping.chip
    units, scale_b = mapping.units_per_batch, mapping.samples_per_unit
    ports = {op: mapping.flow(op).outputs for op in range(len(graph))}
    return Surroundings(
        graph, config, units, scale_b, speeds_of(config), routes_of(config.network),
        np.arange(config.n_cores),
        lambda ops: choices([graph[op] for op in ops], config, units, scale_b), ports,
    )  # fmt: skip


def round_robin(mapping: Mapping) -> Mapping:
    """The same groups and cuts, pieces dealt out over the chip like cards."""
    n = mapping.chip.n_cores
    stride = next(s for s in range(max(2, n // 3), 2 * n) if np.gcd(s, n) == 1)
    deal = {core: int(core * stride % n) for core in range(n)}
    return replace(
        mapping,
        groups=tuple(
            LayerGroup(tuple(replace(x, cores=tuple(deal[c] for c in x.cores)) for x in g.layers))
            for g in mapping.groups
        ),
    )


def gemini_like(mapping: Mapping, evaluations: int, seed: int) -> Mapping:
    """Gemini's moves and temperatures from the stripe, every result taken as it is."""
    around = around_of(mapping)
    cost = estimate(mapping)
    value = Weights(1.0, cost.cycles / cost.energy_pj)
    groups = []
    for g, group in enumerate(mapping.groups):
        share = evaluations * len(group.layers) // len(mapping.graph)
        found, _ = improve_group(around, group, value, share, seed + g, heat=0.05)
        around.output_ports.update((x.operator, x.flow.outputs) for x in found.layers)
        groups.append(found)
    return replace(mapping, groups=tuple(groups))


def ablation(name: str = "resnet50", mesh: str = "6x6", batch: int = 16) -> None:
    config = chip(f"gemini-{mesh}")
    graph = graph_of(name)
    options: dict[str, Any] = {"batch": batch, "objective": "edp"}
    stripe = map_graph(graph, config, search=False, **options)
    budget = 100 * len(stripe.graph) * int(config.n_cores**0.5)
    variants: dict[str, Callable[[], Mapping]] = {
        "round-robin": lambda: round_robin(stripe),
        "stripe": lambda: stripe,
        "Gemini-like": lambda: gemini_like(stripe, budget, 0),
        "ours": lambda: map_graph(graph, config, **options),
    }
    print(f"\n{name} {mesh} b{batch}, objective energy x delay")
    print("| mapping | byte-hops | DRAM bytes | estimated cycles | simulated cycles | E mJ | EDP |")
    print("|---|---|---|---|---|---|---|")
    for label, make in variants.items():
        mapping = make()
        cost = estimate(mapping)
        ran = run(lower(mapping, inferences=mapping.samples_per_batch), noise="none", trace=False)
        print(
            f"| {label} | {cost.byte_hops:,.0f} | {cost.dram_bytes:,.0f} | {cost.cycles:,.0f} "
            f"| {ran.timing.makespan_cycles:,.0f} | {cost.energy_pj / 1e9:.2f} | {cost.edp:.3e} |",
            flush=True,
        )


def agreement(configs: tuple[str, ...] = ("default", "gemini-6x6", "paper-4x4")) -> None:
    print("\nestimate / simulated cycles without noise, each layer group, default search")
    print("| workload | chip | groups | whole | lowest | highest | within 15 % | every group |")
    print("|---|---|---|---|---|---|---|---|")
    for name in WORKLOADS:
        for config in configs:
            mapping = map_graph(graph_of(name), chip(config))
            program = lower(mapping, inferences=mapping.samples_per_batch)
            ends = run(program, noise="none", trace=False).timing.phase_end_cycles[0]
            simulated = np.diff(np.concatenate([[0.0], ends]))
            expected = np.array([group.cycles for group in estimate(mapping).groups])
            ratio = expected / simulated
            print(
                f"| {name} | {config} | {len(ratio)} | {expected.sum() / ends[-1]:.2f} "
                f"| {ratio.min():.2f} | {ratio.max():.2f} | {np.mean(abs(ratio - 1) <= 0.15):.0%} "
                f"| {' '.join(f'{r:.2f}' for r in ratio)} |",
                flush=True,
            )


def candidates_per_second(evaluations: int = 20_000) -> float:
    """Candidate placements a CPU second over the layer groups of ResNet-50 on 6x6, batch 16."""
    mapping = map_graph(
        graph_of("resnet50"), chip("gemini-6x6"), batch=16, objective="edp", search=False
    )
    around = around_of(mapping)
    for group in mapping.groups:
        improve_group(around, group, Weights(), 1, 0)
    begin, done = time.process_time(), 0
    for group in mapping.groups:
        done += improve_group(around, group, Weights(), evaluations, 1)[1]
    return done / (time.process_time() - begin)


def speed() -> None:
    print(f"\n{candidates_per_second():,.0f} candidates/s on one core (resnet50 6x6 b16)")
    cases: tuple[tuple[str, ChipConfig, dict[str, Any]], ...] = (
        ("resnet50", chip("default"), {}),
        ("resnet50", chip("gemini-6x6"), {"batch": 16, "objective": "edp"}),
        ("qwen2.5-0.5b", chip("paper-8x8"), {}),
    )
    for name, config, options in cases:
        graph = graph_of(name)
        map_graph(graph, config, evaluations=10, **options)
        begin = time.process_time()
        mapping = map_graph(graph, config, **options)
        mapped = time.process_time()
        program = lower(mapping)
        print(
            f"{name} {config.network} {options or ''}: search {mapped - begin:.2f} s, "
            f"lowering {time.process_time() - mapped:.2f} s, {program.n_tasks:,} tasks"
        )


def test_a_candidate_against_the_whole_estimate(benchmark: Any) -> None:
    """One candidate of the search beside one estimate of the group from scratch, in numpy."""
    mapping = map_graph(
        graph_of("resnet50"), chip("gemini-6x6"), batch=16, objective="edp", search=False
    )
    around, group = around_of(mapping), mapping.groups[1]
    improve_group(around, group, Weights(), 1, 0)
    begin = time.perf_counter()
    for _ in range(3):
        estimate(mapping)
    benchmark.extra_info["estimate_seconds_per_group"] = (
        (time.perf_counter() - begin) / 3 / len(mapping.groups)
    )
    benchmark.extra_info["candidates_per_round"] = 2000
    benchmark.pedantic(
        improve_group, (around, group, Weights(), 2000, 1), rounds=5, warmup_rounds=1
    )


PARTS: dict[str, Callable[[], None]] = {
    "gemini": compare_with_gemini, "ablation": ablation, "agreement": agreement, "speed": speed,
}  # fmt: skip

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        if part not in PARTS:
            raise SystemExit(f"{part!r}: choose {', '.join(PARTS)}")
        PARTS[part]()
