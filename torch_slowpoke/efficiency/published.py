"""Failure rates that have been published, with what was counted, and Meta's own formula.

Counts and exposures are given where the source has them, so that an interval can be had; printed
percentages do not always fit them.
"""

from dataclasses import dataclass

from slowpoke_mapping.errors import SlowpokeError


@dataclass(frozen=True)
class PublishedRate:
    """A failure rate per node-hour and where it comes from.

    Attributes:
        name: Short name for the command line.
        rate: Failures per node-hour.
        n_failures: Failures counted; None if only a rate was published.
        exposure_node_hours: In which they were counted; None likewise.
        counted: What counts as a failure.
        source: Publication.
    """

    name: str
    rate: float
    n_failures: int | None
    exposure_node_hours: float | None
    counted: str
    source: str


_LLAMA3_NODE_HOURS = 54 * 24 * 2048.0

PUBLISHED = (
    PublishedRate(
        "frontier-2024",
        2.0e-5,
        None,
        None,
        "node failures under an application",
        "Graziani, Lusch, Messer, Application Failures and Machine Computational Efficiency",
    ),
    PublishedRate(
        "llama3-405b",
        419 / _LLAMA3_NODE_HOURS,
        419,
        _LLAMA3_NODE_HOURS,
        "unexpected interruptions, 54 days, 2,048 nodes of 8 GPUs",
        "Llama 3, arXiv 2407.21783",
    ),
    PublishedRate(
        "meta-rsc1",
        6.50e-3 / 24,
        None,
        None,
        "failures per node-day of large jobs",
        "Kokolis et al., HPCA 2025, arXiv 2410.21680",
    ),
    PublishedRate(
        "meta-rsc2",
        2.34e-3 / 24,
        None,
        None,
        "failures per node-day of large jobs",
        "Kokolis et al., HPCA 2025, arXiv 2410.21680",
    ),
    PublishedRate(
        "epoch-h100",
        8 / 50_000.0,
        None,
        None,
        "one failure per 50,000 GPU-hours, 8 GPUs a node",
        "Epoch AI, Hardware failures won't limit AI scaling, 2024",
    ),
    PublishedRate(
        "lablup-b200",
        10 / (55 * 24 * 63.0),
        10,
        55 * 24 * 63.0,
        "XID failures, 55 days, 63 nodes",
        "Lablup, arXiv 2605.09370",
    ),
)


def published_rate(name: str) -> PublishedRate:
    """The published rate of that name.

    Raises:
        SlowpokeError: No such name.
    """
    for rate in PUBLISHED:
        if rate.name == name:
            return rate
    names = ", ".join(r.name for r in PUBLISHED)
    raise SlowpokeError(f"no published rate is called {name!r}: there are {names}")


def ettr_kokolis(
    n_nodes: float,
    failures_per_node_day: float,
    *,
    write_hours: float,
    restart_hours: float,
    interval_hours: float,
) -> float:
    """Effective training time ratio of a long job, first order (Kokolis et al., HPCA 2025).

    To first order it is the renewal efficiency of a job that runs for ever; queue time is left out.

    Args:
        n_nodes: Nodes of the job.
        failures_per_node_day: Failure rate.
        write_hours: Time of a checkpoint.
        restart_hours: Time of a restart.
        interval_hours: Time between checkpoints.

    >>> round(ettr_kokolis(2048, 6.5e-3, write_hours=2.5/3600, restart_hours=1/12,
    ...                    interval_hours=0.5), 5)
    0.81398
    """
    per_hour = n_nodes * failures_per_node_day / 24.0
    lost = per_hour * (restart_hours + interval_hours / 2.0)
    return (1.0 - lost) / (1.0 + write_hours / interval_hours)
