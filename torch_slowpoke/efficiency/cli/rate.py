"""`slowpoke efficiency rate`: how often nodes fail, from an accounting log."""

from torch_slowpoke.efficiency import inputs, plots
from torch_slowpoke.efficiency.cli import options as o
from torch_slowpoke.efficiency.cli import show
from torch_slowpoke.efficiency.rate import failure_rate


def rate(
    log: o.JobsFile,
    failures: o.Failures = None,
    confidence: o.Confidence = 0.95,
    format: o.LogFormat = None,
    columns: o.Columns = "",
    json: o.JsonPath = None,
    plot: o.PlotPath = None,
) -> None:
    """Failure rate per node-hour from an accounting log, with its interval and its tests."""
    read = inputs.log_of(log, format, columns)
    found = failure_rate(read, confidence=confidence, n_failures=failures)
    lines = [
        str(found.estimate),
        f"upper bound, with failed boots and programs that died with a node: {found.upper}",
        "states: " + ", ".join(f"{s} {n:,}" for s, n in found.states.items()),
    ]
    if found.n_records != found.estimate.n_failures:
        lines.append(f"{found.n_records:,} records are {found.estimate.n_failures:,} events")
    if found.dispersion is not None:
        d = found.dispersion
        lines.append(
            f"by month: variance over mean {d.index:.2f} in {d.n_months} months (p {d.p_value:.3g})"
        )
    for name, slope in (
        ("trend of log rate per month", found.trend),
        ("power of the job's size", found.size),
    ):
        if slope is not None:
            value = (
                "beyond all bounds"
                if slope.slope is None
                else f"{slope.slope:+.3f} +- {slope.standard_error:.3f}"
            )
            lines.append(f"{name}: {value} (p {slope.p_value:.3g})")
    lines += [f"node {n}: {k} failures" for n, k in found.worst_nodes if k > 1]
    lines += [*show.log_lines(read), *(f"note: {n}" for n in found.notes)]
    show.report({**found.to_dict(), "log": read.report.to_dict()}, lines, json)
    if plot is not None:
        both = (found.estimate, found.upper)
        figure = plots.draw_intervals(
            ["node failures", "upper bound"],
            [i.rate for i in both],
            [i.low for i in both],
            [i.high for i in both],
        )
        plots.save(figure, plot)
