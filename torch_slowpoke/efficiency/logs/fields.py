"""Fields of accounting logs: durations, dates, counts; each distinct text is read once."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np

from torch_slowpoke.efficiency.logs.joblog import RowError
from torch_slowpoke.efficiency.stable import FloatArray

_DURATION = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,7}):)?(\d{1,2}):(\d{2}(?:\.\d+)?)", re.ASCII)
_COUNT = re.compile(r"(\d{1,9}(?:\.\d+)?)([KM]?)", re.ASCII)


# Clocks that are set forward in spring hide an hour; a minute for rounding and clean-up.
SLACK_SECONDS = 3660.0


class Memo(dict[str, float]):
    """A dictionary that reads a text the first time it is asked for it.

    A million records hold a few thousand different durations, states and sizes. It forgets
    everything when it has grown past `largest`, so that a log of random texts cannot fill memory.
    """

    def __init__(self, parse: Callable[[str], float], largest: int = 200_000) -> None:
        super().__init__()
        self._parse = parse
        self._largest = largest

    def __missing__(self, text: str) -> float:
        value = self._parse(text)
        if len(self) >= self._largest:
            self.clear()
        self[text] = value
        return value


def duration_seconds(text: str, what: str) -> float:
    """Seconds of `[D-]HH:MM:SS`, `MM:SS.mmm` or a whole number of seconds."""
    if text.isascii() and text.isdigit() and len(text) < 12:
        return float(text)
    match = _DURATION.fullmatch(text)
    if match is None:
        raise RowError(f"{what} is not [D-]HH:MM:SS" if text else f"{what} is missing")
    days, hours, minutes, seconds = match.groups(default="0")
    if int(minutes) > 59 or float(seconds) >= 60:
        raise RowError(f"{what} is not [D-]HH:MM:SS")
    return int(days) * 86400.0 + int(hours) * 3600.0 + int(minutes) * 60.0 + float(seconds)


def elapsed_seconds(text: str) -> float:
    """Elapsed time of a job."""
    return duration_seconds(text, "elapsed time")


def limit_seconds(text: str) -> float:
    """Time limit; NaN if it is the partition's or not said, infinite if there is none."""
    if text in ("", "Partition_Limit"):
        return math.nan
    if text == "UNLIMITED":
        return math.inf
    if text.isascii() and text.isdigit():
        raise RowError("time limit is not [D-]HH:MM:SS")
    return duration_seconds(text, "time limit")


def limit_minutes(text: str) -> float:
    """Raw time limit in minutes, as seconds."""
    if text in ("", "Partition_Limit"):
        return math.nan
    if text == "UNLIMITED":
        return math.inf
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise RowError("raw time limit is not a number of minutes")
    return float(text) * 60.0


def node_count(text: str) -> float:
    """Number of nodes; Slurm writes 2K for 2048 unless told --noconvert."""
    match = _COUNT.fullmatch(text)
    if match is None:
        raise RowError("number of nodes is not a whole number" if text else "no number of nodes")
    value = float(match.group(1)) * {"": 1.0, "K": 1024.0, "M": 1048576.0}[match.group(2)]
    if value != math.floor(value):
        raise RowError("number of nodes is not a whole number")
    return value


def _day_seconds(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise RowError("a date is not YYYY-MM-DDTHH:MM:SS") from None


def _clock_seconds(text: str) -> float:
    if len(text) != 8 or text[2] != ":" or text[5] != ":":
        raise RowError("a date is not YYYY-MM-DDTHH:MM:SS")
    h, m, s = text[:2], text[3:5], text[6:]
    if (
        not (h + m + s).isascii()
        or not (h + m + s).isdigit()
        or int(h) > 23
        or int(m) > 59
        or int(s) > 60
    ):
        raise RowError("a date is not YYYY-MM-DDTHH:MM:SS")
    return int(h) * 3600.0 + int(m) * 60.0 + int(s)


_DAYS = Memo(_day_seconds)
_CLOCKS = Memo(_clock_seconds)


def date_seconds(text: str) -> float:
    """Seconds since 1970 of `YYYY-MM-DDTHH:MM:SS` or of epoch seconds; NaN if Unknown or None."""
    if len(text) == 19 and text[10] == "T":
        return _DAYS[text[:10]] + _CLOCKS[text[11:]]
    if text in ("Unknown", "None", "", "N/A"):
        return math.nan
    if text.isascii() and text.isdigit() and len(text) < 12:
        return float(text)
    raise RowError("a date is not YYYY-MM-DDTHH:MM:SS")


_LAYOUT = "0000-00-00T00:00:00"
_DIGITS = [i for i, c in enumerate(_LAYOUT) if c == "0"]
_MARKS = [i for i, c in enumerate(_LAYOUT) if c != "0"]


def dates_seconds(texts: Sequence[str]) -> FloatArray:
    """Seconds since 1970 of many texts that all are `YYYY-MM-DDTHH:MM:SS`, (n,)."""
    joined = "".join(texts)
    if len(joined) != 19 * len(texts) or not joined.isascii():
        raise RowError("a date is not YYYY-MM-DDTHH:MM:SS")
    cells = np.frombuffer(joined.encode(), dtype=np.uint8).reshape(-1, 19)
    digits = cells[:, _DIGITS] - np.uint8(48)
    sound = (digits <= 9).all() and (cells[:, _MARKS] == np.frombuffer(b"--T::", np.uint8)).all()
    if not sound:
        raise RowError("a date is not YYYY-MM-DDTHH:MM:SS")
    d = digits.astype(np.int64)
    h, m, s = (10 * d[:, i] + d[:, i + 1] for i in (8, 10, 12))
    if not ((h <= 23) & (m <= 59) & (s <= 60)).all():
        raise RowError("a date is not YYYY-MM-DDTHH:MM:SS")
    date_number = d[:, :8] @ (10 ** np.arange(7, -1, -1))
    # A log has few days: each is read once, and checked to be in the calendar.
    days, index = np.unique(date_number, return_inverse=True)
    first = np.array([_DAYS[f"{n // 10000:04d}-{n // 100 % 100:02d}-{n % 100:02d}"] for n in days])
    return np.asarray(first[index] + (3600 * h + 60 * m + s))


def check_times(start: float, end: float, elapsed: float) -> None:
    """Refuse an end before the start, and more elapsed time than lies between the two.

    Logs have local time without a zone: clocks that are set forward or back shift it by an hour.
    """
    if math.isnan(start) or math.isnan(end):
        return
    wall = end - start
    if wall < 0 and not abs(elapsed - wall - 3600.0) <= 60.0:
        raise RowError("the job ends before it starts")
    if elapsed > wall + SLACK_SECONDS:
        raise RowError("elapsed time is longer than from start to end")
