"""Quantities with units, read from text: `6TB/s`, `200GB`, `2s`, `6.5e-3/node-day`.

A bare number is refused wherever two units are in common use, because a bandwidth that is wrong by
a factor of a thousand gives an efficiency that still looks like one.
"""

import math
import re

from slowpoke_mapping.errors import SlowpokeError

_QUANTITY = re.compile(
    r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf))\s*(.*?)\s*", re.ASCII
)
_CLOCK = re.compile(r"\s*(?:(\d{1,9})-)?(\d{1,9}):(\d{2}):(\d{2}(?:\.\d{1,9})?)\s*", re.ASCII)

_BYTES = {
    "B": 1.0,
    **{f"{p}B": 1000.0 ** (i + 1) for i, p in enumerate("kMGTPE")},
    **{f"{p}iB": 1024.0 ** (i + 1) for i, p in enumerate("KMGTPE")},
}
# Slurm, Lustre and most people write KB; lower-case b stays refused, for it means bits.
_BYTES["KB"] = 1000.0

_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
}
_PER_NODE_HOUR = {
    "": 1.0,
    "/node-hour": 1.0,
    "/node-h": 1.0,
    "/node-day": 1.0 / 24.0,
    "/node-year": 1.0 / 8766.0,
}


def _split(text: str, what: str, example: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise SlowpokeError(f"{what} {text!r} is not a number with a unit: write it like {example}")
    value = float(match.group(1))
    if not math.isfinite(value) or value < 0:
        raise SlowpokeError(
            f"{what} {text!r} must be finite and not negative: write it like {example}"
        )
    return value, match.group(2)


def _with_unit(text: str, units: dict[str, float], what: str, example: str) -> float:
    value, unit = _split(text, what, example)
    if unit == "" and "" not in units:
        raise SlowpokeError(f"{what} {text!r} has no unit: write it like {example}")
    if unit not in units:
        known = ", ".join(u for u in units if u)
        raise SlowpokeError(
            f"{what} {text!r} has the unknown unit {unit!r}: use one of {known}, like {example}"
        )
    scaled = value * units[unit]
    if not math.isfinite(scaled):
        raise SlowpokeError(f"{what} {text!r} is too large: write it like {example}")
    return scaled


def parse_bytes(text: str, what: str = "size") -> float:
    """Amount of data in bytes; decimal (`GB`) and binary (`GiB`) prefixes are different things.

    Raises:
        SlowpokeError: No unit, an unknown unit, a negative or infinite value.

    >>> parse_bytes("200GB")
    200000000000.0
    >>> parse_bytes("1 KiB")
    1024.0
    """
    return _with_unit(text, _BYTES, what, "200GB")


def parse_bandwidth(text: str, what: str = "bandwidth") -> float:
    """Bandwidth in bytes per second, greater than zero.

    Raises:
        SlowpokeError: No unit, bits, not "per second", zero, negative or infinite.

    >>> parse_bandwidth("6TB/s")
    6000000000000.0
    """
    value = _with_unit(text, {f"{u}/s": v for u, v in _BYTES.items()}, what, "6TB/s")
    if value == 0:
        raise SlowpokeError(f"{what} {text!r} must be greater than zero: write it like 6TB/s")
    return value


def parse_hours(text: str, what: str = "duration") -> float:
    """Duration in hours, from `2s`, `10min`, `1.5h`, `2d` or a clock time `[D-]HH:MM:SS`.

    Raises:
        SlowpokeError: No unit, an unknown unit, a negative or infinite value.

    >>> parse_hours("30min")
    0.5
    >>> parse_hours("1-12:00:00")
    36.0
    """
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        days, hours, minutes, seconds = clock.groups(default="0")
        return int(days) * 24 + int(hours) + int(minutes) / 60 + float(seconds) / 3600
    return _with_unit(text, _SECONDS, what, "30min") / 3600.0


def parse_rate(text: str, what: str = "rate") -> float:
    """Failures per node-hour; a bare number is per node-hour, the paper's own unit for R0.

    Raises:
        SlowpokeError: An unknown unit, a negative or infinite value.

    >>> parse_rate("2e-5")
    2e-05
    >>> round(parse_rate("6.5e-3/node-day"), 9)
    0.000270833
    """
    return _with_unit(text, _PER_NODE_HOUR, what, "2e-5 or 6.5e-3/node-day")
