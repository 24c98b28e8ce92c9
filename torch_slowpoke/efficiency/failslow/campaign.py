"""A detector's recall and false-alarm probability from what a campaign leaves behind.

`slowpoke campaign --out FOLDER` leaves the rows of every run, `slowpoke report FOLDER` the counts
of every method in `table2-strict.csv`. Recall is the share of faulty runs on which exactly the
truth was reported, TP/(TP + FN): a report that names something else drains the wrong node. The
false-alarm probability is the share of healthy runs with any report, FP/(FP + TN).
"""

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.failslow.detector import Detector

_LARGEST = 10**300  # JSON has whole numbers of any size

_RECALL = ("recall", "detection_rate", "true_positive_rate", "tpr")
_FALSE_ALARM = ("false_alarm", "run_false_positive_rate", "run_fpr", "false_positive_rate", "fpr")
_COUNTS = "table2-strict.csv"
_COLUMNS = ("algorithm", "TP", "FN", "FP", "TN")


def read_detector(path: str | Path, name: str = "") -> Detector:
    """A detector's recall and false-alarm probability from the result of a campaign.

    Args:
        path: The folder of a campaign (counted from its rows; it may still be running) or the
            `campaign.json` in it; a report's folder or its `table2-strict.csv`; or JSON in which
            any object with both a recall (`recall`, `detection_rate`) and a
            false-alarm rate (`false_alarm`, `run_false_positive_rate`, `fpr`) is a detector, named
            by its `detector` or `name` field or by its key.
        name: Which of them, if there are several: `robust`, or `robust (sketch)` where a campaign
            judged from two kinds of evidence.

    Raises:
        SlowpokeError: No such file, none of these, no or several detectors, no such name, a
            campaign without faulty or without healthy runs, figures that are no probabilities.
    """
    path = Path(path)
    try:
        found = _detectors(path)
    except OSError as error:
        raise SlowpokeError(f"{path} cannot be read: {error.strerror}") from None
    if not found:
        raise SlowpokeError(
            f"{path} has no recall beside a false-alarm rate: give the folder of a campaign, its "
            "report's table2-strict.csv, or JSON with both"
        )
    # `robust` is enough for `robust (sketch)` where there is no other.
    chosen = [n for n in found if n == name] or [
        n for n in found if not name or n.partition(" (")[0] == name
    ]
    if not chosen:
        raise SlowpokeError(f"{path} has no detector {name!r}: it has {', '.join(found)}")
    if len(chosen) > 1:
        raise SlowpokeError(f"{path} has several detectors, name one of them: {', '.join(chosen)}")
    recall, false_alarm = found[chosen[0]]
    if math.isnan(recall) or math.isnan(false_alarm):
        lacking = "faulty" if math.isnan(recall) else "healthy"
        raise SlowpokeError(
            f"{path} tells nothing of {chosen[0]!r} on {lacking} runs: run a campaign with "
            "positives and negatives"
        )
    return Detector(recall, false_alarm, name=chosen[0])


def _detectors(path: Path) -> dict[str, tuple[float, float]]:
    """Recall and false-alarm probability by name; NaN where a campaign has no such runs."""
    if path.name == "campaign.json" and (path.parent / "parts").is_dir():
        path = path.parent
    if path.is_dir():
        if (path / "campaign.json").exists():
            return _of_rows(path)
        path = path / _COUNTS
    if path.suffix == ".csv":
        return _of_counts(path)
    return _of_json(path)


def _of_rows(folder: Path) -> dict[str, tuple[float, float]]:
    # Parquet is only read here, and takes longer to import than all else does to compute.
    from torch_slowpoke.evaluation.accounting import strict
    from torch_slowpoke.evaluation.results import outcome, read_results

    results = read_results(folder)
    found = {}
    for method in results.methods:
        counts = strict(outcome(row) for row in results.of(method))
        found[str(method)] = _shares(counts.tp, counts.fn, counts.fp, counts.tn)
    return found


def _shares(tp: int, fn: int, fp: int, tn: int) -> tuple[float, float]:
    return (
        tp / (tp + fn) if tp + fn else math.nan,
        fp / (fp + tn) if fp + tn else math.nan,
    )


def _of_counts(path: Path) -> dict[str, tuple[float, float]]:
    """Counts of every workload, added up by method."""
    sums: dict[str, list[int]] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for row in csv.DictReader(file):
                name, *counts = (row[column] for column in _COLUMNS)
                numbers = [int(count) for count in counts]
                if min(numbers) < 0:
                    raise ValueError
                sums[name] = [a + b for a, b in zip(sums.get(name, [0] * 4), numbers, strict=True)]
    except (ValueError, KeyError, TypeError, csv.Error):
        raise SlowpokeError(
            f"{path} has no counts in columns {', '.join(_COLUMNS)}: give a report's {_COUNTS}"
        ) from None
    return {name: _shares(*counts) for name, counts in sums.items()}


def _of_json(path: Path) -> dict[str, tuple[float, float]]:
    try:
        return dict(_objects(json.loads(path.read_text(encoding="utf-8")), path.stem))
    except (ValueError, RecursionError):
        raise SlowpokeError(f"{path} is not JSON: give a campaign's result file") from None


def _objects(node: Any, label: str) -> Iterator[tuple[str, tuple[float, float]]]:
    if isinstance(node, list):
        for i, child in enumerate(node):
            yield from _objects(child, f"{label}[{i}]")
    if not isinstance(node, dict):
        return
    recall, false_alarm = _number(node, _RECALL), _number(node, _FALSE_ALARM)
    if recall is not None and false_alarm is not None:
        yield str(node.get("detector", node.get("name", label))), (recall, false_alarm)
    for key, child in node.items():
        yield from _objects(child, str(key))


def _number(node: dict[str, Any], keys: tuple[str, ...]) -> float | None:
    for key in keys:
        value = node.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value) if abs(value) < _LARGEST else math.inf
    return None
