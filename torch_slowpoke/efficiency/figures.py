"""The data of the paper's figures 3.1 and 7.1 to 7.5, from the same functions as everything else.

Graziani, Lusch and Messer (papers/002). Each figure is a dictionary of plain lists, ready for JSON;
`plots` draws them. Beside the curves as asked for stand a band for the uncertainty of the failure
rate, a line for never checkpointing and, where it differs, the curve as printed in the paper.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.efficiency.cadence import CheckpointCost, optimal_z
from torch_slowpoke.efficiency.logs.joblog import JobLog
from torch_slowpoke.efficiency.losses import CheckpointPlan
from torch_slowpoke.efficiency.machine import Definition, MachineEfficiency, machine_efficiency
from torch_slowpoke.efficiency.rate import RateInterval
from torch_slowpoke.efficiency.schedule import Schedule, schedule_of_jobs

SCHEMA = "slowpoke.efficiency.figures/1"

FACTORS = np.logspace(-1.0, 1.0, 101)
RATES = np.logspace(-5.0, -3.5, 80)
BANDWIDTH_RATIOS = np.logspace(np.log10(100 / 6000), np.log10(10000 / 6000), 40)
RATE_RATIOS = (1.0, 5.0, 10.0)  # the paper's 2e-5, 1e-4, 2e-4
HOURS = np.arange(1.0, 25.0)
SIZES = (2048, 4096, 8192)

Figure = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """What all figures are about.

    Attributes:
        log: The jobs as they were requested and ran.
        schedule: The jobs as types (N, T).
        interval: The failure rate and how sure it is.
        rate: The rate that is used.
        cost: What a checkpoint costs.
        plan: Where the checkpoints lie.
        definition: `renewal` or `paper`.
    """

    log: JobLog
    schedule: Schedule
    interval: RateInterval
    rate: float
    cost: CheckpointCost
    plan: CheckpointPlan
    definition: Definition

    def machine(
        self,
        rate: float | None = None,
        cost: CheckpointCost | None = None,
        plan: CheckpointPlan | None = None,
        schedule: Schedule | None = None,
        definition: Definition | None = None,
    ) -> MachineEfficiency:
        """The machine's efficiency with some of the parameters changed."""
        return machine_efficiency(
            schedule or self.schedule,
            self.rate if rate is None else rate,
            cost or self.cost,
            plan or self.plan,
            definition=definition or self.definition,
        )

    @property
    def never(self) -> CheckpointPlan:
        """The plan without checkpoints."""
        return replace(self.plan, checkpoints=False)


def _or_none(evaluate: Callable[[], MachineEfficiency]) -> float | None:
    """An efficiency, or nothing where the definition has none (minus infinity)."""
    try:
        return evaluate().efficiency
    except SlowpokeError:
        return None


def figure_3_1(z_chk_marks: Sequence[float] = (0.01, 0.1, 0.5, 1.0)) -> Figure:
    """Optimal checkpointing: both sides of equation (3.3), and z_c against z_chk."""
    z_c = np.linspace(0.0, 1.0, 101)
    z_chk = np.logspace(-6, 1, 141)
    marks, _ = optimal_z(np.array(z_chk_marks))
    return {
        "z_c": z_c.tolist(),
        "left_hand_side": (1.0 - z_c).tolist(),
        "right_hand_sides": {str(z): np.exp(-z_c - z).tolist() for z in z_chk_marks},
        "z_chk": z_chk.tolist(),
        "z_c_of_z_chk": optimal_z(z_chk)[0].tolist(),
        "young": np.sqrt(2.0 * z_chk).tolist(),
        "marks": [[z, float(c)] for z, c in zip(z_chk_marks, marks, strict=True)],
    }


def figure_7_1(study: Study) -> Figure:
    """Distribution of job sizes and durations."""
    log = study.log

    def histogram(values: np.ndarray[Any, Any], logarithmic: bool) -> Figure:
        known = np.isfinite(values) & (values > 0)
        v, w = values[known], log.weight[known]
        if v.size == 0:
            return {"edges": [], "jobs": []}
        low, high = float(v.min()), float(v.max()) * (1 + 1e-9)
        edges = np.geomspace(low, high, 41) if logarithmic else np.linspace(0.0, high, 49)
        jobs, edges = np.histogram(v, edges, weights=w)
        return {"edges": edges.tolist(), "jobs": jobs.tolist()}

    return {
        "n_nodes": histogram(log.n_nodes, True),
        "requested_hours": histogram(log.limit_seconds / 3600.0, False),
        "actual_hours": histogram(log.elapsed_seconds / 3600.0, False),
    }


def figure_7_2(study: Study) -> Figure:
    """Efficiency and losses against the cadence, in units of the best one."""

    def plan(factor: float) -> CheckpointPlan:
        # The authors cap the cadence at the job in this figure and nowhere else.
        return replace(study.plan, factor=factor, capped=study.plan.segments == "paper")

    curve = [study.machine(plan=plan(f)) for f in FACTORS]
    best = int(np.argmax([m.efficiency for m in curve]))
    printed = CheckpointPlan("paper", capped=True)
    return {
        "cadence_factor": FACTORS.tolist(),
        "efficiency": [m.efficiency for m in curve],
        "l_F": [m.failure_loss for m in curve],
        "l_chk": [m.checkpoint_loss for m in curve],
        "l_R": [m.restart_loss for m in curve],
        "low": [_or_none(lambda f=f: _at(study, study.interval.high, plan(f))) for f in FACTORS],  # type: ignore[misc]
        "high": [_or_none(lambda f=f: _at(study, study.interval.low, plan(f))) for f in FACTORS],  # type: ignore[misc]
        "never_checkpoint": study.machine(plan=study.never).efficiency,
        "as_printed": [
            study.machine(plan=replace(printed, factor=float(f)), definition="paper").efficiency
            for f in FACTORS
        ],
        "best": {"cadence_factor": float(FACTORS[best]), "efficiency": curve[best].efficiency},
    }


def _at(study: Study, rate: float, plan: CheckpointPlan) -> MachineEfficiency:
    return study.machine(rate=rate, plan=plan)


def figure_7_3(study: Study) -> Figure:
    """Efficiency and losses of single job sizes against their duration."""
    biggest = int(study.schedule.n_nodes.max())
    sizes = [n for n in SIZES if n < biggest] + [biggest]
    rows = {
        str(n): [study.machine(schedule=schedule_of_jobs([n], [t])) for t in HOURS] for n in sizes
    }
    return {
        "hours": HOURS.tolist(),
        "sizes": sizes,
        "efficiency": {n: [m.efficiency for m in row] for n, row in rows.items()},
        "l_F": {n: [m.failure_loss for m in row] for n, row in rows.items()},
        "l_chk": {n: [m.checkpoint_loss for m in row] for n, row in rows.items()},
        "l_R": {n: [m.restart_loss for m in row] for n, row in rows.items()},
    }


def figure_7_4(study: Study) -> Figure:
    """Efficiency against the failure rate."""
    printed = CheckpointPlan("paper")
    marks = [study.rate * r for r in RATE_RATIOS]
    return {
        "rate": RATES.tolist(),
        "efficiency": [_or_none(lambda r=r: study.machine(rate=r)) for r in RATES],  # type: ignore[misc]
        "never_checkpoint": [
            _or_none(lambda r=r: study.machine(rate=r, plan=study.never))  # type: ignore[misc]
            for r in RATES
        ],
        "as_printed": [
            _or_none(lambda r=r: study.machine(rate=r, plan=printed, definition="paper"))  # type: ignore[misc]
            for r in RATES
        ],
        "interval": [study.interval.low, study.interval.high],
        "marks": [[r, _or_none(lambda r=r: study.machine(rate=r))] for r in marks],  # type: ignore[misc]
    }


def figure_7_5(study: Study) -> Figure:
    """Efficiency against the bandwidth to storage, in units of the machine's own."""
    printed = CheckpointPlan("paper")
    curves = {}
    for ratio in RATE_RATIOS:
        rate = study.rate * ratio
        low, high = study.interval.low * ratio, study.interval.high * ratio
        costs = [
            replace(study.cost, write_hours=study.cost.write_hours / b) for b in BANDWIDTH_RATIOS
        ]

        def curve(
            at: float,
            costs: Sequence[CheckpointCost] = costs,
            plan: CheckpointPlan = study.plan,
            definition: Definition = study.definition,
        ) -> list[float | None]:
            return [
                _or_none(lambda c=c: study.machine(at, c, plan, definition=definition))  # type: ignore[misc]
                for c in costs
            ]

        curves[f"{rate:g}"] = {
            "efficiency": curve(rate),
            "low": curve(high),
            "high": curve(low),
            "never_checkpoint": curve(rate, plan=study.never),
            "as_printed": curve(rate, plan=printed, definition="paper"),
        }
    return {"bandwidth_ratio": BANDWIDTH_RATIOS.tolist(), "curves": curves}


def all_figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """The figures by their number in the paper; about a thousand evaluations, a few seconds."""
    yield "3.1", figure_3_1()
    yield "7.1", figure_7_1(study)
    yield "7.2", figure_7_2(study)
    yield "7.3", figure_7_3(study)
    yield "7.4", figure_7_4(study)
    yield "7.5", figure_7_5(study)


N_FIGURES = 6
