"""A detector's quality, as a fleet feels it: how often it finds, how often it cries wolf."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.failslow.exposure import check_share

_LARGEST = 10**300  # JSON has whole numbers of any size

_RECALL = ("recall", "detection_rate", "true_positive_rate", "tpr")
_FALSE_ALARM = ("false_alarm", "run_false_positive_rate", "run_fpr", "false_positive_rate", "fpr")


@dataclass(frozen=True)
class Detector:
    """How well one diagnosis works.

    Attributes:
        recall: q, probability that a slow chip is found by one diagnosis.
        false_alarm: f, probability that a diagnosis of a healthy job accuses something.
        cost_seconds: Wall time that a diagnosis takes from the job.
        name: For the reader.
    """

    recall: float
    false_alarm: float = 0.0
    cost_seconds: float = 0.0
    name: str = "detector"

    def __post_init__(self) -> None:
        check_share(self.recall, "recall")
        check_share(self.false_alarm, "false-alarm probability")
        if not (math.isfinite(self.cost_seconds) and self.cost_seconds >= 0):
            raise SlowpokeError(
                f"a diagnosis of {self.cost_seconds} s: give a finite time, not negative"
            )

    def confirmed(self, k: int) -> "Detector":
        """The same, acting only if k diagnoses in a row agree; windows taken for independent."""
        if k < 1:
            raise SlowpokeError(f"{k} confirmations: give at least 1, a single diagnosis")
        if k == 1:
            return self
        f = self.false_alarm
        repeats = float(k) if f == 1.0 else (1.0 - f**k) / (1.0 - f)
        return Detector(
            self.recall**k, f**k, self.cost_seconds * repeats, f"{self.name}, {k} in a row"
        )


def _number(node: dict[str, Any], keys: tuple[str, ...]) -> float | None:
    for key in keys:
        value = node.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value) if abs(value) < _LARGEST else math.inf
    return None


def _find(node: Any, label: str, found: dict[str, Detector]) -> None:
    if isinstance(node, list):
        for i, child in enumerate(node):
            _find(child, f"{label}[{i}]", found)
    if not isinstance(node, dict):
        return
    recall, false_alarm = _number(node, _RECALL), _number(node, _FALSE_ALARM)
    if recall is not None and false_alarm is not None:
        name = node.get("detector", node.get("name", label))
        found[str(name)] = Detector(
            recall, false_alarm, _number(node, ("cost_seconds", "seconds")) or 0.0, str(name)
        )
    for key, child in node.items():
        _find(child, str(key), found)


def read_detector(path: str | Path, name: str = "") -> Detector:
    """A detector's recall and false-alarm probability from the JSON result of a campaign.

    Any object in it that has both a recall (`recall`, `detection_rate`) and a false-alarm rate
    (`false_alarm`, `run_false_positive_rate`, `fpr`) is a detector, named by its `detector` or
    `name` field or by its key.

    Args:
        path: JSON file.
        name: Which of them, if there are several.

    Raises:
        SlowpokeError: No such file, no JSON, none or several such objects, no such name, or
            figures that are no probabilities.
    """
    path = Path(path)
    found: dict[str, Detector] = {}
    try:
        _find(json.loads(path.read_text(encoding="utf-8")), path.stem, found)
    except OSError as error:
        raise SlowpokeError(f"{path} cannot be read: {error.strerror}") from None
    except SlowpokeError:
        raise
    except (ValueError, RecursionError):
        raise SlowpokeError(f"{path} is not JSON: give a campaign's result file") from None
    names = ", ".join(found)
    if not found:
        raise SlowpokeError(
            f"{path} has no object with a recall and a false-alarm rate: give a campaign's result"
        )
    if name and name not in found:
        raise SlowpokeError(f"{path} has no detector {name!r}: it has {names}")
    if not name and len(found) > 1:
        raise SlowpokeError(f"{path} has several detectors, name one of them: {names}")
    return found[name] if name else next(iter(found.values()))
