"""The detector of a command line: its figures, or a campaign's."""

from pathlib import Path

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.failslow import Detector, read_detector
from torch_slowpoke.efficiency.units import parse_hours


def is_given(recall: float | None, campaign: Path | None, detector: str) -> bool:
    """Whether the options describe a detector at all."""
    return recall is not None or campaign is not None or bool(detector)


def detector_of(
    recall: float | None, false_alarm: float, campaign: Path | None, detector: str, probe: str
) -> Detector:
    """Recall and false alarms of one diagnosis, from either source.

    Args:
        recall: A figure, or none.
        false_alarm: The figure beside it.
        campaign: Result of a campaign.
        detector: Which of the campaign's; without `campaign`, the result itself.
        probe: Time of a diagnosis.

    Raises:
        SlowpokeError: Neither source or both; see `read_detector`.
    """
    seconds = parse_hours(probe, "probe time") * 3600.0
    if campaign is None and detector:
        campaign, detector = Path(detector), ""
    if (recall is None) == (campaign is None):
        raise SlowpokeError(
            "how good is the detector? give --recall (and --false-alarm), or a campaign's result "
            "with --detector or --campaign, not both"
        )
    if campaign is None:
        return Detector(float(recall or 0.0), false_alarm, seconds)
    read = read_detector(campaign, detector)
    return Detector(read.recall, read.false_alarm, seconds, read.name)
