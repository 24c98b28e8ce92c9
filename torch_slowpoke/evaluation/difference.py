"""Two campaigns on the same cases, method by method: what changed, and whether by chance."""

from __future__ import annotations

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.evaluation.results import Results, outcome
from torch_slowpoke.evaluation.statistics import Proportion, holm, mcnemar
from torch_slowpoke.evaluation.tables import Cell, Table


def difference(first: Results, second: Results) -> Table:
    """Strict accuracy of each method that both campaigns have, on the cases that both have.

    A case is a workload, data set, split, kind and index; an exact McNemar test pairs the runs,
    Holm's correction covers the methods.

    Raises:
        SlowpokeError: The campaigns share no method or no case.
    """
    methods = [method for method in first.methods if method in second.rows]
    rows: list[list[Cell]] = []
    p_values = []
    for method in methods:
        a, b = (
            {o.case: o for o in map(outcome, results.of(method))} for results in (first, second)
        )
        shared = [case for case in a if case in b]
        if not shared:
            continue
        lost = sum(a[case].exact and not b[case].exact for case in shared)
        won = sum(b[case].exact and not a[case].exact for case in shared)
        before = Proportion(sum(a[case].exact for case in shared), len(shared))
        after = Proportion(sum(b[case].exact for case in shared), len(shared))
        p_values.append(mcnemar(lost, won))
        rows.append([str(method), len(shared), str(before), str(after), won, lost])
    if not rows:
        raise SlowpokeError(
            "the two campaigns share no method on a common case; compare campaigns over the same "
            "workloads and data set"
        )
    return Table(
        "difference", "Strict accuracy on the cases that both campaigns have",
        ("method", "cases", "first", "second", "newly right", "newly wrong", "McNemar p, Holm"),
        tuple((*row, f"{p:.2g}") for row, p in zip(rows, holm(p_values), strict=True)),
    )  # fmt: skip
