"""Data sets: seeded generators of faults and of negatives (design.md section 9).

A case is one run of one workload. Its random stream comes from the data set, the split, the index
and the attempt alone, so that workloads on one chip share their faults, as in the paper; times are
shares of the workload's own healthy run. A fault that touches no service of its run is no case: it
is counted, and the next attempt is drawn.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.faults import Fault
from torch_slowpoke.evaluation.sampling import (
    CoresAndLinks,
    DramPorts,
    HotCores,
    LogUniformTimes,
    OneWayLinks,
    Places,
    Routers,
    Several,
    SpatialPatterns,
    Times,
    UniformTimes,
)
from torch_slowpoke.evaluation.workloads import World

SPLITS = ("calibration", "tuning", "test")
"""Disjoint random streams: nothing that was tuned on one is measured on it."""

FAULT = "fault"
NEGATIVES = ("seed", "modified", "congestion", "stale", "harsh")
"""Kinds of negatives: new seeds; a shallower network; background traffic that the program does not
have; a chip that has aged since its profile and its twin's data sheet; harsh noise."""

MODIFIED, CONGESTION, STALE, HARSH = NEGATIVES[1:]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A generator of cases.

    Attributes:
        name: On command lines and in tables.
        n_positives: Default number of faulty runs for each workload.
        n_negatives: Default number of runs without a fault.
        places: Where faults strike.
        times: When.
        slowdowns: By turns, each for a core and a link before the next.
        negatives: Kinds, by turns.
    """

    name: str
    n_positives: int
    n_negatives: int
    places: Places
    times: Times
    slowdowns: tuple[float, ...] = (10.0,)
    negatives: tuple[str, ...] = ("seed", "modified")

    def __post_init__(self) -> None:
        for kind in self.negatives:
            if kind not in NEGATIVES:
                raise SlowpokeError(
                    f"{kind!r} is no kind of negative; choose of {', '.join(NEGATIVES)}"
                )

    def cases(self, positives: int | None = None, negatives: int | None = None) -> Iterator[Case]:
        """Every case of one workload.

        Args:
            positives: Number of faulty runs; None for the data set's own.
            negatives: Number of the others; None for the data set's own.
        """
        for index in range(self.n_positives if positives is None else positives):
            yield Case(FAULT, index)
        for index in range(self.n_negatives if negatives is None else negatives):
            yield Case(self.negatives[index % len(self.negatives)], index)

    def faults(self, rng: np.random.Generator, world: World, index: int) -> tuple[Fault, ...]:
        """The faults of a case, in cycles of the workload's healthy run."""
        slowdown = self.slowdowns[index // 2 % len(self.slowdowns)]
        result = []
        for place in self.places.draw(rng, world, index):
            start, end = self.times.draw(rng)
            run_cycles = world.healthy_cycles
            result.append(Fault(place, slowdown, start * run_cycles, end * run_cycles))
        return tuple(result)


@dataclass(frozen=True, slots=True)
class Case:
    """One run of a data set: `fault` or a kind of negative, and its number among either."""

    kind: str
    index: int

    @property
    def positive(self) -> bool:
        """Whether something is to be slow."""
        return self.kind == FAULT


def streams(
    dataset: str, split: str, case: Case, attempt: int, seed: int
) -> tuple[np.random.Generator, int]:
    """(stream of the draws, seed of the run's noise) of an attempt at a case.

    Raises:
        SlowpokeError: Unknown split.
    """
    if split not in SPLITS:
        raise SlowpokeError(f"split {split!r} is unknown; choose of {', '.join(SPLITS)}")
    entropy = [seed, SPLITS.index(split), zlib.crc32(dataset.encode()), int(case.positive),
               case.index, attempt]  # fmt: skip
    draws, noise = np.random.SeedSequence(entropy).spawn(2)
    # 31 bits: apart from the seeds of healthy profiles
    return np.random.default_rng(draws), int(noise.generate_state(1, np.uint32)[0] >> 1)


_SPATIAL = ("center", "edge-ring", "scratch", "random")
_ALL_NEGATIVES = NEGATIVES

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset("slowpoke-152", 152, 152, CoresAndLinks(0.7), UniformTimes()),
        Dataset(
            "balanced", 150, 150, CoresAndLinks(0.5), LogUniformTimes(),
            (1.2, 1.5, 2.0, 5.0, 10.0), _ALL_NEGATIVES,
        ),
        Dataset(
            "uniform", 300, 300, CoresAndLinks(0.5), UniformTimes(), (10.0, 5.0, 2.0), ("seed",)
        ),
        Dataset("spatial", 400, 400, SpatialPatterns(_SPATIAL, 100), UniformTimes()),
        *(
            Dataset(f"spatial-{name}", 100, 100, SpatialPatterns((name,), 100), UniformTimes())
            for name in _SPATIAL
        ),
        Dataset("thermal", 100, 100, HotCores(), UniformTimes()),
        Dataset("one-way", 150, 150, OneWayLinks(), UniformTimes(), (10.0, 5.0, 2.0)),
        Dataset("mild", 200, 0, CoresAndLinks(0.0), UniformTimes(), (1.5, 1.2)),
        Dataset("router", 50, 50, Routers(), UniformTimes(), (10.0, 5.0)),
        Dataset("dram", 50, 50, DramPorts(), UniformTimes(), (10.0, 5.0)),
        Dataset("multi", 100, 100, Several(), UniformTimes()),
        *(
            Dataset(f"severity-{k:g}x", 152, 152, CoresAndLinks(0.7), UniformTimes(), (k,))
            for k in (2.0, 5.0)
        ),
        Dataset(
            "hard-negatives", 0, 100, CoresAndLinks(0.7), UniformTimes(),
            negatives=(CONGESTION, STALE, HARSH),
        ),
    )
}  # fmt: skip
"""Names for command lines; in Python pass a Dataset."""


def dataset_named(name: str) -> Dataset:
    """The data set of a name.

    Raises:
        SlowpokeError: No such data set.
    """
    if name not in DATASETS:
        raise SlowpokeError(f"data set {name!r} is unknown; choose of {', '.join(DATASETS)}")
    return DATASETS[name]
