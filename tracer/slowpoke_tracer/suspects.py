"""From a method's scores of places to the diagnosis that every detector returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.places import Core, Place
from slowpoke_tracer.detect.observations import Observations
from slowpoke_tracer.detect.routes import path_matrix
from slowpoke_tracer.diagnosis import Diagnosis, Suspect


def covered_places(seen: Observations, chip: ChipConfig, links: bool = True) -> tuple[Place, ...]:
    """Cores that computed and physical links that carried a message, in the chip's order."""
    computed = np.unique(seen.compute.column("recorder").astype(np.int64))
    places: list[Place] = [Core(int(core)) for core in computed]
    if links:
        transfers = seen.transfers
        paths = path_matrix(
            transfers.column("src").astype(np.int64), transfers.column("dst").astype(np.int64), chip
        )
        used = np.bincount(paths.indices, minlength=chip.n_links) > 0
        directed = {(int(a), int(b)) for a, b in chip.network.links[used]}
        places += [
            link
            for link in chip.physical_links
            if (link.src, link.dst) in directed or (link.dst, link.src) in directed
        ]
    return tuple(places)


def diagnosis_of(
    suspects: Mapping[Place, Suspect],
    reported: Iterable[Place],
    covered: Iterable[Place],
    chip: ChipConfig,
    method: str,
    notes: tuple[str, ...] = (),
    links: bool = True,
) -> Diagnosis:
    """Rank suspects, fill in covered places without one, and list what was not covered.

    Args:
        suspects: What the method scored, by place.
        reported: Places of the claim; each is in `suspects`.
        covered: Places that the evidence touches.
        chip: The chip.
        method: Name of the method and its baseline.
        notes: For the reader.
        links: Whether the method looks at links at all; if not, every link is not covered.

    Places of equal probability and score keep the chip's order.
    """
    everything = dict.fromkeys(covered)
    filled = {**{place: Suspect(place, 0.0, 0.0) for place in everything}, **suspects}
    ranked = sorted(filled.values(), key=lambda s: (-s.probability, -s.score))
    claim = set(reported)
    wanted: list[Place] = [Core(core) for core in range(chip.n_cores)]
    wanted += chip.physical_links
    return Diagnosis(
        ranked=tuple(ranked),
        reported=tuple(s for s in ranked if s.place in claim),
        not_covered=tuple(place for place in wanted if place not in filled),
        method=method,
        clock_hz=chip.clock_hz,
        notes=notes + (() if links else ("this method does not look at links",)),
    )


def scored_diagnosis(
    scores: Mapping[Place, float],
    threshold: float,
    covered: Iterable[Place],
    chip: ChipConfig,
    method: str,
    notes: tuple[str, ...] = (),
    links: bool = True,
    top: int | None = None,
) -> Diagnosis:
    """The diagnosis of a method that gives each place a score >= 0 and reports those above one.

    The probability is score / (score + threshold): no posterior, but 1/2 exactly at the threshold.

    Args:
        scores: By place; NaN counts as 0.
        threshold: A place is reported if its score exceeds it; > 0.
        covered: As for `diagnosis_of`.
        chip: The chip.
        method: Name of the method and its baseline.
        notes: For the reader.
        links: As for `diagnosis_of`.
        top: Report at most so many, the highest first.
    """
    suspects = {}
    for place, score in scores.items():
        value = float(score) if score == score else 0.0
        share = 1.0 if value == float("inf") else value / (value + threshold)
        suspects[place] = Suspect(place, share, value)
    above = [s.place for s in suspects.values() if s.score > threshold]
    above.sort(key=lambda place: -suspects[place].score)
    return diagnosis_of(suspects, above[:top], covered, chip, method, notes, links)
