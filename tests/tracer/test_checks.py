from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.places import Core
from slowpoke_tracer.baselines.catalogue import BASELINES
from slowpoke_tracer.baselines.threshold import ThresholdDetector
from slowpoke_tracer.checks import check_detector
from slowpoke_tracer.detector import Context, Detector, Evidence
from slowpoke_tracer.diagnosis import Diagnosis, Suspect
from slowpoke_tracer.paper import SlowpokeDetector
from slowpoke_tracer.recorder import record
from slowpoke_tracer.sample import sample_program, sample_trace
from slowpoke_tracer.sketch import Sketch
from slowpoke_tracer.sloth import SlothDetector


@dataclass
class Spoiled:
    """A good detector whose diagnosis is changed afterwards."""

    spoil: Callable[[Diagnosis, Evidence], object]
    name: str = "spoiled"

    def detect(self, evidence: Evidence, context: Context) -> Diagnosis:
        found = ThresholdDetector().detect(evidence, context)
        return self.spoil(found, evidence)  # type: ignore[return-value]


def twice(found: Diagnosis, _: Evidence) -> Diagnosis:
    return replace(found, ranked=(*found.ranked, found.ranked[-1]))


def reverse(found: Diagnosis, _: Evidence) -> Diagnosis:
    return replace(found, ranked=found.ranked[::-1])


def stranger(found: Diagnosis, _: Evidence) -> Diagnosis:
    return replace(found, reported=(Suspect(Core(3), 1.0, 99.0),))


def elsewhere(found: Diagnosis, _: Evidence) -> Diagnosis:
    return replace(found, ranked=(Suspect(Core(99), 1.0, 1.0), *found.ranked))


def sure(found: Diagnosis, _: Evidence) -> Diagnosis:
    return replace(found, ranked=(replace(found.ranked[0], probability=2.0), *found.ranked[1:]))


def both_ways(found: Diagnosis, _: Evidence) -> Diagnosis:
    return replace(found, not_covered=(found.ranked[0].place,))


def moody(found: Diagnosis, _: Evidence) -> Diagnosis:
    return replace(found, notes=(str(np.random.default_rng().random()),))


def vandal(found: Diagnosis, evidence: Evidence) -> Diagnosis:
    column = evidence.log_sum if isinstance(evidence, Sketch) else evidence.compute["macs"]
    column += 1.0
    return found


def shrug(found: Diagnosis, _: Evidence) -> list[Suspect]:
    return list(found.ranked)


@pytest.mark.parametrize("detector", [SlowpokeDetector(), SlothDetector()])
def test_the_presets_keep_the_contract(detector: SlowpokeDetector | SlothDetector) -> None:
    check_detector(detector)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (twice, "ranked twice"),
        (reverse, "not in order of probability"),
        (stranger, "reported but not ranked"),
        (elsewhere, "outside the chip"),
        (sure, r"outside \[0, 1\]"),
        (both_ways, "both ranked and not covered"),
        (moody, "two diagnoses"),
        (vandal, "changed what it was given"),
        (shrug, "not a Diagnosis"),
    ],
)
def test_a_broken_rule_is_named(spoil: Callable[[Diagnosis, Evidence], object], says: str) -> None:
    with pytest.raises(SlowpokeError, match=says):
        check_detector(Spoiled(spoil))


def test_a_detector_without_a_name_is_refused() -> None:
    with pytest.raises(SlowpokeError, match="has a name"):
        check_detector(Spoiled(twice, name=""))


@pytest.mark.parametrize("left", ["computations", "messages", "nothing", "one of each"])
def test_every_detector_bears_evidence_in_which_half_or_all_is_missing(left: str) -> None:
    program = sample_program(n_batches=4)
    trace = sample_trace(program)
    n_compute = {"computations": None, "one of each": 1}.get(left, 0)
    n_transfers = {"messages": None, "one of each": 1}.get(left, 0)
    rest = replace(trace, compute=trace.compute[:n_compute],
                   transfers=trace.transfers[:n_transfers])  # fmt: skip
    profile = record(trace, program)
    detectors: list[Detector] = [SlowpokeDetector(), SlothDetector()]
    for detector in [*detectors, *(make() for make in BASELINES.values())]:
        for evidence in (rest, record(rest, program)):
            for known in (None, profile):
                context = Context(program, program.chip, profile=known)
                found = detector.detect(evidence, context)
                assert len(found.ranked) + len(found.not_covered) == 16 + 24
                covered = {suspect.place for suspect in found.ranked}
                assert set(s.place for s in found.reported) <= covered
                if detector.name != "random":
                    assert not found.reported
