"""A cadence as the settings of the tools that write checkpoints.

Names and units as in the tools' own sources and manuals: SCR and VELOC count seconds, FTI minutes,
DMTCP seconds with 0 for never. Multilevel intervals (FTI L1-L4, VELOC's several modes) are outside
the model, which knows one store: its interval is that of the level that survives a node failure.
"""

import math
from collections.abc import Callable

from torch_slowpoke.efficiency.cadence import Cadence

_LARGEST_SIGNAL_SECONDS = 65535  # sbatch --signal: sig_time is 16 bits


def _whole(seconds: float, unit_seconds: float = 1.0) -> int:
    """Interval in whole units, at least one: 0 means `never` to most tools."""
    return max(1, round(seconds / unit_seconds))


def _scr(c: Cadence) -> str:
    return "SCR_CHECKPOINT_SECONDS=" + ("0" if math.isinf(c.seconds) else str(_whole(c.seconds)))


def _veloc(c: Cadence) -> str:
    return "persistent_interval = " + ("-1" if math.isinf(c.seconds) else str(_whole(c.seconds)))


def _fti(c: Cadence) -> str:
    return "ckpt_L4 = " + ("0" if math.isinf(c.seconds) else str(_whole(c.seconds, 60.0)))


def _dmtcp(c: Cadence) -> str:
    return "dmtcp_launch --interval " + ("0" if math.isinf(c.seconds) else str(_whole(c.seconds)))


def _slurm(c: Cadence) -> str:
    # Time for the last checkpoint, twice over, before Slurm kills the job at its limit; Slurm may
    # send the signal up to 60 s early, never late.
    seconds = min(_LARGEST_SIGNAL_SECONDS, max(1, math.ceil(2.0 * c.write_seconds)))
    return f"#SBATCH --signal=B:USR1@{seconds}"


SETTINGS: dict[str, Callable[[Cadence], str]] = {
    "scr": _scr,
    "veloc": _veloc,
    "fti": _fti,
    "dmtcp": _dmtcp,
    "slurm": _slurm,
}


def settings(cadence: Cadence) -> dict[str, str]:
    """The line to write for each tool, by its name; `slurm` asks for time to write the last one."""
    return {tool: line(cadence) for tool, line in SETTINGS.items()}
