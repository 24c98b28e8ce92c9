"""`slowpoke efficiency simulate`: the jobs of a machine by Monte Carlo."""

from typing import Annotated

import typer

from torch_slowpoke.efficiency import inputs, plots
from torch_slowpoke.efficiency.cli import options as o
from torch_slowpoke.efficiency.cli import show
from torch_slowpoke.efficiency.machine import machine_efficiency
from torch_slowpoke.efficiency.montecarlo import simulate_machine


def simulate(
    jobs: o.JobsFile,
    bandwidth: o.Bandwidth,
    checkpoint: o.Checkpoint,
    rate: o.RateText = None,
    failures: o.Failures = None,
    years: Annotated[int, typer.Option(help="How often the schedule is played.")] = 20,
    segments: o.SegmentsText = "equal",
    definition: o.DefinitionText = "renewal",
    model: o.Model = "shared",
    read_ratio: o.ReadRatio = 1.0,
    setup: o.Setup = "2s",
    durations: o.Durations = "scaled",
    ratio: o.Ratio = "usage",
    factor: o.Factor = 1.0,
    never: o.Never = False,
    format: o.LogFormat = None,
    columns: o.Columns = "",
    seed: o.Seed = 0,
    json: o.JsonPath = None,
    plot: o.PlotPath = None,
) -> None:
    """Play the jobs by Monte Carlo, and compare with the closed form."""
    cost = inputs.cost_of(checkpoint, bandwidth, model, read_ratio, setup)
    plan = inputs.plan_of(segments, factor, never, False, "up")
    chosen = inputs.definition_of(definition)
    read = inputs.jobs_of(jobs, durations, ratio, format, columns)
    r, _ = inputs.interval_of(rate, failures, read.log)
    theory = machine_efficiency(read.schedule, r, cost, plan, definition=chosen)
    played = simulate_machine(
        read.schedule,
        r,
        cost,
        plan,
        definition=chosen,
        n_years=years,
        seed=seed,
        watch=show.watched("playing"),
    )
    off = played.efficiency.errors_from(theory.efficiency)
    lines = [
        f"played   efficiency {played.efficiency}",
        f"formula  efficiency {theory.efficiency:.7g}, {off:.1f} standard errors away",
        *(
            [f"one year scatters by {played.one_year_sd:.2g} although the rate is known"]
            if played.one_year_sd is not None
            else ["a single year tells no error: play more with --years"]
        ),
        *(f"note: {n}" for n in theory.notes),
    ]
    payload = {
        **played.to_dict(),
        "seed": seed,
        "formula": {k: theory.to_dict()[k] for k in ("efficiency", "l_F", "l_chk", "l_R")},
        "standard_errors_away": off,
        "notes": list(theory.notes),
    }
    show.report(payload, lines, json)
    if plot is not None:
        estimates = [played.failure_loss, played.checkpoint_loss, played.restart_loss]
        figure = plots.draw_bars(
            ["l_F", "l_chk", "l_R"],
            [e.mean for e in estimates],
            "share lost",
            [e.standard_error if years > 1 else 0.0 for e in estimates],
        )
        plots.save(figure, plot)
