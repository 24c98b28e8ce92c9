"""The pipeline, stage by stage: model -> graph -> mapping -> program -> trace -> sketch ->
diagnosis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowpoke_mapping.chip import ChipConfig, mesh_size
from slowpoke_mapping.chip import chip as chip_named
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault, parse_faults
from slowpoke_mapping.graph import OperatorGraph
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_mapping.mapping import Mapping
from slowpoke_sim.machine import run
from slowpoke_sim.noise import noise_of
from slowpoke_sim.twin import DigitalTwin
from slowpoke_tracer.probes import instrument, probe_set
from slowpoke_tracer.recorder import SketchConfig, record
from slowpoke_tracer.tracer import detector_of, diagnose
from torch_slowpoke.analysis import Analysis, Progress, quiet
from torch_slowpoke.importing import operator_graph as operator_graph
from torch_slowpoke.whatif import costs

N_STAGES = 4

if TYPE_CHECKING:
    from slowpoke_sim.noise import Noise
    from slowpoke_tracer.detector import Detector


def chip_for(
    mesh: str | Sequence[int] | None = (4, 4),
    chip: str | Path | ChipConfig | None = None,
    topology: str | None = None,
    precision: float | None = None,
) -> ChipConfig:
    """The chip of analyze()'s arguments.

    Args:
        mesh: (columns, rows) or `4x4`; ignored when a topology or a chip is given.
        chip: A preset's name, a TOML file, or a ChipConfig; its own size holds.
        topology: `torus:4x4`, `ring:16`, ...: replaces the chip's.
        precision: Bytes of an element; None for the chip's.
    """
    changes: dict[str, Any] = {}
    if topology is not None:
        changes["topology"] = topology
    elif chip is None:
        width, height = mesh_size(mesh if mesh is not None else (4, 4))
        changes["topology"] = f"mesh:{width}x{height}"
    if precision is not None:
        changes["bytes_per_element"] = precision
    return chip_named(chip if chip is not None else "default", **changes)


def analyze(
    model: Any,
    example_inputs: Any = None,
    *,
    mesh: str | Sequence[int] = (4, 4),
    chip: str | Path | ChipConfig | None = None,
    topology: str | None = None,
    mapping: Mapping | str | Path | None = None,
    faults: str | Fault | Iterable[str | Fault] = (),
    probes: str = "full",
    sketch: SketchConfig | None = None,
    noise: str | Noise = "released",
    inferences: int = 16,
    batch: int | None = None,
    engine: str = "compiled",
    precision: float | str | None = None,
    seed: int = 0,
    detector: str | Detector = "robust",
    progress: Progress = quiet,
) -> Analysis:
    """Run a model on a simulated chip and find what is slow.

    Args:
        model: Any model that `operator_graph` takes.
        example_inputs: As for `operator_graph`.
        mesh: (columns, rows), or `4x4`.
        chip: Preset, TOML file or ChipConfig, in place of `mesh`.
        topology: Another network, such as `torus:4x4`, in place of `mesh`.
        mapping: A mapping or its JSON file, in place of searching one.
        faults: Faults to inject, as Fault objects or text (`core:5@10x[2ms,5ms]`).
        probes: `full`, `comm`, `comp` or `none` (SlowPoke Table 1).
        sketch: Parameters of the Fail-Slow Sketch; None for the static table with 8 epochs.
        noise: `released`, `paper`, `harsh`, `none`, or a Noise.
        inferences: Samples to run.
        batch: Samples of a batch; None for the chip's own.
        engine: `compiled`, or the reference `simpy` (same results, slower).
        precision: Bytes of a tensor element, or `model` for the model's own dtype.
        seed: Of noise and search; the same seed gives the same result.
        detector: `robust`, `slowpoke` (the paper as printed), another preset, or a Detector.
        progress: Called with (stage, done, total).

    Raises:
        SlowpokeError: Anything given that cannot be used, in one sentence.
    """
    config = chip_for(mesh, chip, topology, None if isinstance(precision, str) else precision)
    injected = parse_faults(faults, config.network, config.clock_hz)
    for fault in injected:
        config.check_place(fault.place)
    noise, detector = noise_of(noise), detector_of(detector)  # refused before the long work
    probe_set(probes)
    progress("import the model", 0, N_STAGES)
    graph = operator_graph(model, example_inputs)
    if isinstance(precision, str):
        config = config.replace(bytes_per_element=model_element_bytes(graph, precision))
    progress("map it", 1, N_STAGES)
    plan = _mapping(mapping, graph, config, batch, seed)
    plain = lower(plan, inferences=inferences)
    program = instrument(plain, probes, sketch or SketchConfig())
    progress("simulate", 2, N_STAGES)
    unprobed = run(plain, noise=noise, seed=seed, engine=engine).timing
    observed = run(program, faults=injected, noise=noise, seed=seed, engine=engine)
    healthy = run(program, noise=noise, seed=seed, engine=engine).timing if injected else None
    assert observed.trace is not None  # kept unless a sink is given
    summary = record(observed.trace, program, sketch or SketchConfig())
    progress("diagnose", 3, N_STAGES)
    twin = DigitalTwin(program, noise=noise)
    diagnosis = diagnose(summary, program, twin=twin, detector=detector, seed=seed)
    price = costs(program, diagnosis, noise, seed)
    progress("done", N_STAGES, N_STAGES)
    return Analysis(
        graph=graph,
        mapping=plan,
        program=program,
        trace=observed.trace,
        sketch=summary,
        diagnosis=diagnosis,
        timing=observed.timing,
        healthy_timing=healthy or observed.timing,
        unprobed_timing=unprobed,
        faults=injected,
        exposure=observed.exposure,
        costs=price,
        noise_model=noise,
        engine=engine,
        seed=seed,
    )


def model_element_bytes(graph: OperatorGraph, precision: str) -> float:
    """Bytes of an element for `precision="model"`: the widest dtype of the model's tensors."""
    if precision != "model":
        raise SlowpokeError(f"precision {precision!r}: give bytes of an element (1, 2), or 'model'")
    return max(operator.element_bytes for operator in graph)


def _mapping(
    mapping: Mapping | str | Path | None,
    graph: OperatorGraph,
    chip: ChipConfig,
    batch: int | None,
    seed: int,
) -> Mapping:
    if isinstance(mapping, Mapping):
        return mapping
    if mapping is None:
        return map_graph(graph, chip, batch=batch, seed=seed)
    try:
        return Mapping.from_json(Path(mapping).read_text(), graph)
    except (OSError, UnicodeDecodeError) as error:
        raise SlowpokeError(f"mapping {str(mapping)!r} cannot be read: {error}") from None
