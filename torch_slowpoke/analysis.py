"""An analysis: everything one run of the pipeline made, and how it reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault
from slowpoke_mapping.graph import OperatorGraph
from slowpoke_mapping.mapping import Mapping
from slowpoke_mapping.program import Program
from slowpoke_sim.noise import Noise
from slowpoke_sim.timing import Timing
from slowpoke_tracer.diagnosis import Diagnosis, Suspect
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.trace import Trace
from torch_slowpoke import whatif
from torch_slowpoke.whatif import Cost, Remap

SCHEMA = 1

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total)."""


def quiet(stage: str, done: int, total: int) -> None:
    """The progress that says nothing."""


@dataclass(frozen=True, eq=False)
class Analysis:
    """What `torch_slowpoke.analyze` returns; printing it gives the verdict first.

    Attributes:
        graph: The model as operators.
        mapping: Where they run.
        program: The instrumented task graph.
        trace: What the chip could observe of the run.
        sketch: What is left of it on the chip.
        diagnosis: Verdict and ranked suspects.
        timing: Of the observed run: makespan, per layer, per core.
        healthy_timing: Of the same run (same noise) without the injected faults.
        unprobed_timing: Of the healthy run without probes.
        faults: What was injected.
        exposure: Services on each fault's component that overlapped it.
        costs: What each reported place costs, by replay with and without it.
        noise_model: The noise of every run.
        engine: Which engine ran.
        seed: Of noise and search.
    """

    graph: OperatorGraph
    mapping: Mapping
    program: Program
    trace: Trace
    sketch: Sketch
    diagnosis: Diagnosis
    timing: Timing
    healthy_timing: Timing
    unprobed_timing: Timing
    faults: tuple[Fault, ...]
    exposure: tuple[int, ...]
    costs: tuple[Cost, ...]
    noise_model: Noise
    engine: str
    seed: int

    @property
    def chip(self) -> ChipConfig:
        """The chip."""
        return self.program.chip

    @property
    def noise(self) -> str:
        """Name of the noise."""
        return self.noise_model.name

    @property
    def overhead(self) -> float:
        """What the probes cost: healthy makespan with probes over without, minus 1."""
        return self.healthy_timing.makespan_cycles / self.unprobed_timing.makespan_cycles - 1

    @property
    def slowdown(self) -> float:
        """What the faults cost: makespan over the healthy one's."""
        return self.timing.makespan_cycles / self.healthy_timing.makespan_cycles

    def remap(self) -> Remap:
        """Map the model again, around what was reported, and simulate what that brings.

        Raises:
            SlowpokeError: Nothing was reported.
        """
        if not self.diagnosis.reported:
            raise SlowpokeError("nothing is reported slow, so there is nothing to map around")
        return whatif.remap(
            self.graph,
            self.mapping,
            self.diagnosis,
            inferences=self.program.n_inferences,
            noise=self.noise_model,
            seed=self.seed,
        )

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON can hold it: `verdict`, `reported`, `ranked` and what led there."""
        return {
            "schema": SCHEMA,
            "model": self.graph.name,
            "topology": self.chip.topology,
            "chip": self.chip.name,
            "macs": self.graph.macs,
            "weight_elements": self.graph.weight_elements,
            "seed": self.seed,
            "noise": self.noise,
            "engine": self.engine,
            "inferences": self.program.n_inferences,
            "program": self.program.fingerprint,
            "faults": [str(fault) for fault in self.faults],
            "exposed_services": [int(n) for n in self.exposure],
            "verdict": str(self.diagnosis.verdict),
            "healthy_probability": self.diagnosis.healthy_probability,
            "reported": [suspect_dict(s, self.chip.clock_hz) for s in self.diagnosis.reported],
            "ranked": [suspect_dict(s, self.chip.clock_hz) for s in self.diagnosis.ranked],
            "costs": [{"place": str(c.place), "slowdown": c.ratio} for c in self.costs],
            "not_covered": [str(place) for place in self.diagnosis.not_covered],
            "method": self.diagnosis.method,
            "notes": list(self.diagnosis.notes),
            "makespan_cycles": self.timing.makespan_cycles,
            "makespan_seconds": self.timing.makespan_cycles / self.chip.clock_hz,
            "fault_slowdown": self.slowdown,
            "probe_overhead": self.overhead,
            "groups": len(self.mapping.groups),
            "trace_records": self.trace.n_records,
            "trace_bytes": self.trace.raw_nbytes,
            "sketch_bytes": self.sketch.nbytes,
            "sketch_bytes_max_per_core": int(self.sketch.nbytes_per_core.max()),
        }

    def __str__(self) -> str:
        from torch_slowpoke.report.text import analysis_text  # reports know the analysis

        return analysis_text(self)


def suspect_dict(suspect: Suspect, clock_hz: float) -> dict[str, Any]:
    """A suspect as JSON can hold it; what is unknown is null."""
    start, end = (None if math.isnan(t) else t for t in suspect.interval)
    return {
        "place": str(suspect.place),
        "probability": suspect.probability,
        "score": suspect.score if math.isfinite(suspect.score) else None,
        "slowdown": None if math.isnan(suspect.slowdown) else suspect.slowdown,
        "start_cycles": start,
        "end_cycles": end,
        "start_seconds": None if start is None else start / clock_hz,
        "end_seconds": None if end is None else end / clock_hz,
        "ambiguous_with": [str(place) for place in suspect.ambiguous_with],
        "evidence": suspect.evidence,
    }
