"""Answers that live as long as what they are about."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass

from slowpoke_tracer.remembered import remembered


@dataclass(frozen=True, eq=False)
class Evidence:
    value: int


def test_an_answer_is_computed_once_for_each_evidence_and_argument() -> None:
    asked: list[tuple[int, int]] = []

    @remembered
    def plus(evidence: Evidence, other: int) -> int:
        asked.append((evidence.value, other))
        return evidence.value + other

    one, same = Evidence(1), Evidence(1)
    assert [plus(one, 2), plus(one, 2), plus(one, 3), plus(same, 2)] == [3, 3, 4, 3]
    assert asked == [(1, 2), (1, 3), (1, 2)]


def test_it_goes_with_the_evidence() -> None:
    class Answer:
        """Something that can be watched."""

    @remembered
    def answer(evidence: Evidence) -> Answer:
        return Answer()

    evidence = Evidence(1)
    watched = weakref.ref(answer(evidence))
    assert watched() is not None
    del evidence
    gc.collect()
    assert watched() is None
