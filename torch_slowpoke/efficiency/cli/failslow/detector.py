"""The detector of a command line: its figures, or a campaign's."""

from pathlib import Path

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.failslow import Detector, read_detector
from torch_slowpoke.efficiency.units import parse_hours


def detector_of(
    recall: float | None, false_alarm: float, campaign: Path | None, name: str, probe: str
) -> Detector:
    """Recall and false alarms of one diagnosis, from either source.

    Raises:
        SlowpokeError: Neither source or both; see `read_detector`.
    """
    seconds = parse_hours(probe, "probe time") * 3600.0
    if (recall is None) == (campaign is None):
        raise SlowpokeError(
            "how good is the detector? give --recall (and --false-alarm), or a --campaign file, "
            "not both"
        )
    if campaign is not None:
        read = read_detector(campaign, name)
        return Detector(read.recall, read.false_alarm, seconds, read.name)
    return Detector(float(recall or 0.0), false_alarm, seconds)
