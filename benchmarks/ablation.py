"""What each part of the detectors is worth: one factor at a time, all variants on the same runs.

    python benchmarks/ablation.py --out runs/ablation

Every variant is a detector that is given the trace and sketches it as its row says. The campaign
engine keeps the rows, so that an interrupted run goes on; the table is printed at the end.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from slowpoke_mapping.scale import Scale
from slowpoke_sim.machine import run
from slowpoke_sim.twin import DigitalTwin
from slowpoke_tracer.detector import Context, Detector, Evidence
from slowpoke_tracer.diagnosis import Diagnosis
from slowpoke_tracer.failrank import FailRankSettings
from slowpoke_tracer.paper import SlowpokeDetector, SlowpokeSettings
from slowpoke_tracer.recorder import record
from slowpoke_tracer.robust import RobustDetector
from slowpoke_tracer.robust_config import RobustConfig
from slowpoke_tracer.sketch_config import SketchConfig
from slowpoke_tracer.trace import Trace
from torch_slowpoke.evaluation.campaign import Campaign, run_campaign
from torch_slowpoke.evaluation.datasets import dataset_named
from torch_slowpoke.evaluation.metrics import metrics
from torch_slowpoke.evaluation.results import outcome, read_results
from torch_slowpoke.evaluation.workloads import Workload

STALE_SPEED = 0.9
"""Speed of the links when the stale profile was recorded, over that of the observed run."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A detector with one thing changed.

    Attributes:
        name: Of its row.
        detector: What judges.
        sketch: How the trace is sketched first; None hands over the trace.
        baseline: `twin`; `profile`, `stale profile`: a healthy run, or one on a slower chip.
        twin_speed: Of the twin's links and cores, over the chip's.
    """

    name: str
    detector: Detector
    sketch: SketchConfig | None = SketchConfig()
    baseline: str = "twin"
    twin_speed: float = 1.0

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        """The detector's diagnosis of what this variant lets it see."""
        if self.sketch is not None and isinstance(evidence, Trace):
            evidence = record(evidence, context.program, self.sketch)
        if self.twin_speed != 1.0:
            assert isinstance(context.twin, DigitalTwin)
            context = replace(context, twin=OffTwin(context.twin, self.twin_speed))
        if self.baseline == "profile":
            context = replace(context, twin=None)
        elif self.baseline == "stale profile":
            old = run(context.program, seed=77, scale=Scale(link_speed=STALE_SPEED)).trace
            assert old is not None
            context = replace(context, twin=None, profile=record(old, context.program))
        return self.detector.detect(evidence, context)


class OffTwin(DigitalTwin):
    """A twin that believes in other speeds than the chip has.

    Args:
        twin: Of the chip as it is.
        speed: Of links and cores, over the chip's.
    """

    def __init__(self, twin: DigitalTwin, speed: float) -> None:
        super().__init__(twin.program, twin.noise)
        self._speed = speed

    @property
    def fingerprint(self) -> str:
        """Of its replays."""
        return f"{super().fingerprint}-{self._speed}"

    def _off(self, scale: Scale) -> Scale:
        return replace(
            scale,
            link_speed=scale.link_speed * self._speed,
            core_speed=scale.core_speed * self._speed,
        )

    def replay(self, faults=(), seed=0, scale=Scale()):  # type: ignore[no-untyped-def]
        """As the twin, at the speeds it believes in."""
        return super().replay(faults, seed, self._off(scale))

    def shares(self, seed=0, scale=Scale()):  # type: ignore[no-untyped-def]
        """As the twin, at the speeds it believes in."""
        return super().shares(seed, self._off(scale))

    def phases(self, seed=0, scale=Scale(), batches=None):  # type: ignore[no-untyped-def]
        """As the twin, at the speeds it believes in."""
        return super().phases(seed, self._off(scale), batches)


def paper(**changes: object) -> SlowpokeDetector:
    """The paper's preset with some settings changed."""
    return SlowpokeDetector(replace(SlowpokeSettings(), **changes))  # type: ignore[arg-type]


def robust(**changes: object) -> RobustDetector:
    """The robust detector with some settings changed."""
    return RobustDetector(replace(RobustConfig(), **changes))  # type: ignore[arg-type]


def hashed(threshold: int) -> SketchConfig:
    """The paper's hash sketch with another H."""
    return SketchConfig(mode="hash", threshold=threshold)


VARIANTS = (
    Variant("link estimator: NNLS", paper(link_method="nnls"), None),
    Variant("link estimator: EM (printed)", paper(link_method="em"), None),
    Variant("link estimator: MLEM", paper(link_method="mlem"), None),
    Variant("link estimator: GLR, profile", robust(), baseline="profile"),
    Variant("link estimator: GLR, twin (robust)", robust()),
    Variant("FailRank: none", paper(failrank=FailRankSettings(damping=0.0, link_updates=0)), None),
    Variant("FailRank: links once", paper(failrank=FailRankSettings(link_updates=1)), None),
    Variant("FailRank: links restart", paper(failrank=FailRankSettings(restart_links=True)), None),
    Variant("sketch: hash, H = 1", robust(), hashed(1)),
    Variant("sketch: hash, H = 2", robust(), hashed(2)),
    Variant("sketch: hash, H = 10", robust(), hashed(10)),
    Variant("sketch: static, 1 epoch", robust(), SketchConfig(n_epochs=1)),
    Variant("sketch: static, 4 epochs", robust(), SketchConfig(n_epochs=4)),
    Variant("sketch: static, 16 epochs", robust(), SketchConfig(n_epochs=16)),
    Variant("baseline: twin 10 % off", robust(), twin_speed=1.1),
    Variant("baseline: twin 20 % off", robust(), twin_speed=1.2),
    Variant("baseline: twin 20 % off, not refitted", robust(refit_above=9.0), twin_speed=1.2),
    Variant("baseline: stale profile", robust(), baseline="stale profile"),
    Variant("confirmation: off", robust(confirm=False)),
    Variant("confirmation: on 1 batch", robust(n_batches=1)),
    Variant("confirmation: on 16 batches", robust(n_batches=16)),
)
"""FailRank as printed is the row of the EM; explaining away is the robust detector's."""


def main() -> None:
    """Run what is not done yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=["resnet50", "darknet19"])
    parser.add_argument("--dataset", default="uniform")
    parser.add_argument("--positives", type=int, default=90)
    parser.add_argument("--negatives", type=int, default=45)
    parser.add_argument("--inferences", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    campaign = Campaign(
        tuple(Workload(model, inferences=arguments.inferences) for model in arguments.models),
        dataset_named(arguments.dataset),
        VARIANTS,
        ("trace",),
        arguments.positives,
        arguments.negatives,
    )
    run_campaign(campaign, arguments.out, workers=arguments.workers)
    print(table(arguments.out))


def table(folder: Path) -> str:
    """Markdown: strict accuracy of each variant by workload, and its errors over all of them."""
    results = read_results(folder)
    head = ["variant", *results.workloads, "cores", "links", "false alarms", "refused", "seconds"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for method in results.methods:
        outcomes = [outcome(row) for row in results.of(method)]
        kinds: dict[str, list[bool]] = defaultdict(list)
        for one in outcomes:
            kinds[one.truth[0].partition(":")[0] if one.positive else "none"].append(one.exact)
        figures = metrics(outcomes, 0)
        cells = [method.detector]
        for workload in results.workloads:
            mine = metrics([outcome(row) for row in results.of(method, workload)], 0)
            cells.append(f"{mine.strict_accuracy.value:.3f}")
        for kind in ("core", "link"):
            cells.append(f"{sum(kinds[kind])}/{len(kinds[kind])}")
        cells.append(f"{kinds['none'].count(False)}/{len(kinds['none'])}")
        cells += [str(figures.refused), f"{figures.seconds:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
