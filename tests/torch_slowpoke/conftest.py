"""Runs to report on: one by hand (two cores, one message), one of two layers on a 2x2 mesh."""

from collections.abc import Callable

import numpy as np
import pytest

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.graph import GRAPH_INPUT, Edge, Operator, OperatorGraph, OpKind
from slowpoke_mapping.lowering import lower
from slowpoke_mapping.mapper import map_graph
from slowpoke_sim.machine import run
from slowpoke_sim.noise import noise_of
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.probes import instrument
from slowpoke_tracer.recorder import record
from slowpoke_tracer.trace import COMPUTE_DTYPE, TRANSFER_DTYPE, Trace, TraceMeta
from torch_slowpoke.analysis import Analysis
from torch_slowpoke.whatif import costs

HOSTILE = "</script><b>&'\""
"""A name that would break a page that did not escape it."""


@pytest.fixture
def small_trace() -> Trace:
    compute = np.array(
        [(0, 0, 0, 0, 0, 0, 64.0, 0.0, 100.0), (1, 1, 0, 0, 0, 1, 64.0, 150.0, 200.0)],
        dtype=COMPUTE_DTYPE,
    )
    transfers = np.array(
        [(0, 1, 0, 0, 0, 0, 2, 32.0, 100.0, 140.0, 150.0),
         (-1, 0, 0, 0, 0, 0, 3, 8.0, 0.0, 20.0, 20.0)],
        dtype=TRANSFER_DTYPE,
    )  # fmt: skip
    meta = TraceMeta(HOSTILE, "mesh:2x1", 1e9, "abc", 2, 1, 200.0, ("a<b>", "c"))
    return Trace(compute, transfers, meta)


@pytest.fixture(scope="session")
def two_layers() -> OperatorGraph:
    box = (1, 8, 8, 8)
    linear = {"kind": OpKind.LINEAR, "box": box, "macs": 1 << 20, "weight_elements": 64}
    return OperatorGraph(
        HOSTILE,
        (
            Operator(f"{HOSTILE}.0", inputs=(Edge(GRAPH_INPUT, box),), **linear),  # type: ignore[arg-type]
            Operator(f"{HOSTILE}.1", inputs=(Edge(0, box),), **linear),  # type: ignore[arg-type]
        ),
        notes=("nothing was <i>folded</i>",),
        n_parameters=128,
        outputs=(1,),
    )


@pytest.fixture(scope="session")
def analysis_of(two_layers: OperatorGraph) -> Callable[..., Analysis]:
    """Makes the analysis of a run of the two layers, with a diagnosis that is handed in."""
    plan = map_graph(two_layers, ChipConfig(topology="mesh:2x2"))
    plain = lower(plan, inferences=8)
    program = instrument(plain)

    def make(diagnosis: Diagnosis, *faults: Fault) -> Analysis:
        observed = run(program, faults=faults, noise="none")
        assert observed.trace is not None
        return Analysis(
            graph=two_layers,
            mapping=plan,
            program=program,
            trace=observed.trace,
            sketch=record(observed.trace, program),
            diagnosis=diagnosis,
            timing=observed.timing,
            healthy_timing=run(program, noise="none").timing,
            unprobed_timing=run(plain, noise="none").timing,
            faults=faults,
            exposure=observed.exposure,
            costs=costs(program, diagnosis, "none", 0),
            noise_model=noise_of("none"),
            engine="compiled",
            seed=0,
        )

    return make
