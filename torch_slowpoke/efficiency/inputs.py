"""What the commands take: jobs, a failure rate with its uncertainty, the cost of a checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.cadence import CheckpointCost, CheckpointModel, checkpoint_cost
from torch_slowpoke.efficiency.logs import JobLog, read_log, schedule_of_log
from torch_slowpoke.efficiency.logs.read import Durations, Format, Ratio
from torch_slowpoke.efficiency.losses import CheckpointPlan, Rounding, Segments
from torch_slowpoke.efficiency.machine import Application, Definition
from torch_slowpoke.efficiency.published import PUBLISHED, published_rate
from torch_slowpoke.efficiency.rate import RateInterval, failure_rate, rate_interval
from torch_slowpoke.efficiency.schedule import Schedule
from torch_slowpoke.efficiency.units import parse_bandwidth, parse_bytes, parse_hours, parse_rate


def rate_of(text: str) -> float:
    """Failures per node-hour: a number, a number per node-day, or the name of a published rate."""
    if any(text == p.name for p in PUBLISHED):
        return published_rate(text).rate
    return parse_rate(text, "failure rate")


def cost_of(
    checkpoint: str, bandwidth: str, model: str, read_ratio: float, setup: str
) -> CheckpointCost:
    """What a checkpoint costs, from text with units.

    Raises:
        SlowpokeError: See `units` and `CheckpointCost`.
    """
    return checkpoint_cost(
        parse_bytes(checkpoint, "checkpoint size"),
        parse_bandwidth(bandwidth),
        model=cast(CheckpointModel, model),
        read_ratio=read_ratio,
        setup_hours=parse_hours(setup, "setup time"),
    )


def plan_of(
    segments: str, factor: float, never: bool, capped: bool, rounding: str
) -> CheckpointPlan:
    """Where the checkpoints lie."""
    return CheckpointPlan(
        cast(Segments, segments), factor, capped, not never, cast(Rounding, rounding)
    )


def definition_of(text: str) -> Definition:
    """`paper` or `renewal`.

    Raises:
        SlowpokeError: Anything else.
    """
    if text not in get_args(Definition):
        raise SlowpokeError(f"definition {text!r}: use paper or renewal")
    return cast(Definition, text)


@dataclass(frozen=True)
class Jobs:
    """A log and the schedule that was made of it."""

    log: JobLog
    schedule: Schedule


def log_of(
    path: Path, format: str | None = None, columns: str = "", application: str = ""
) -> JobLog:
    """Read a log.

    Raises:
        SlowpokeError: See `read_log`.
    """
    return read_log(
        path, format=cast("Format | None", format), columns=columns, application=application
    )


def jobs_of(
    path: Path,
    durations: str = "scaled",
    ratio: str = "usage",
    format: str | None = None,
    columns: str = "",
    application: str = "",
) -> Jobs:
    """Read jobs and group them.

    Raises:
        SlowpokeError: See `read_log` and `schedule_of_log`.
    """
    log = log_of(path, format, columns, application)
    schedule = schedule_of_log(log, durations=cast(Durations, durations), ratio=cast(Ratio, ratio))
    return Jobs(log, schedule)


def interval_of(
    rate: str | None, n_failures: int | None, log: JobLog, confidence: float = 0.95
) -> tuple[float, RateInterval | None]:
    """The failure rate, and its interval where failures were counted.

    A given rate is taken as it is; without one it is counted failures over the log's exposure.

    Raises:
        SlowpokeError: Neither a rate nor failures, in the options or in the log.
    """
    if n_failures is not None:
        interval = rate_interval(n_failures, log.exposure_node_hours, confidence)
        return (interval.rate if rate is None else rate_of(rate)), interval
    if rate is not None:
        return rate_of(rate), None
    if log.report.format not in ("slurm", "pbs"):
        raise SlowpokeError(
            f"a log of kind {log.report.format} tells no failure rate: give --rate, like 2e-5, or "
            "--failures"
        )
    interval = failure_rate(log, confidence=confidence).estimate
    return interval.rate, interval


def assumed_interval(rate: float, log: JobLog, confidence: float = 0.95) -> RateInterval:
    """The interval that a rate would have if it had been counted over this log's exposure."""
    return rate_interval(round(rate * log.exposure_node_hours), log.exposure_node_hours, confidence)


def applications_of(texts: Sequence[str], machine: CheckpointCost) -> dict[str, Application]:
    """Applications from `NAME:rate=1e-4,checkpoint=500GB,bandwidth=6TB/s,model=fixed`.

    Raises:
        SlowpokeError: Anything that does not read like that.
    """
    found: dict[str, Application] = {}
    example = "write it like cfd:rate=1e-4,checkpoint=500GB,bandwidth=6TB/s"
    for text in texts:
        name, colon, rest = text.rpartition(":")
        fields = dict(part.partition("=")[::2] for part in rest.split(",")) if colon else {}
        if not fields or not set(fields) <= {"rate", "checkpoint", "bandwidth", "model"}:
            raise SlowpokeError(f"application {text!r}: {example}")
        if ("checkpoint" in fields) != ("bandwidth" in fields):
            raise SlowpokeError(
                f"application {text!r}: a checkpoint needs its size and a bandwidth, {example}"
            )
        cost = None
        if "checkpoint" in fields:
            cost = checkpoint_cost(
                parse_bytes(fields["checkpoint"], "checkpoint size"),
                parse_bandwidth(fields["bandwidth"]),
                model=cast(CheckpointModel, fields.get("model", machine.model)),
                read_ratio=machine.read_ratio,
                setup_hours=machine.setup_hours,
            )
        elif "model" in fields:
            raise SlowpokeError(f"application {text!r}: a model needs a checkpoint, {example}")
        found[name] = Application(rate_of(fields["rate"]) if "rate" in fields else None, cost)
    return found
