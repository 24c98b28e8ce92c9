"""What is computed once for a workload, mapping and chip: baseline, candidates, scanners,
thresholds.
"""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.program import Program
from slowpoke_mapping.scale import Scale
from slowpoke_tracer.baseline import (
    Baseline,
    Replayer,
    profile_baseline,
    replay_seeds,
    twin_baseline,
)
from slowpoke_tracer.detect.candidates import CORE, NETWORK, Candidates
from slowpoke_tracer.detect.scan import Scanner
from slowpoke_tracer.detector import Context
from slowpoke_tracer.patterns import Patterns
from slowpoke_tracer.phase_bank import PhaseBank, replayed_batches
from slowpoke_tracer.remembered import remembered
from slowpoke_tracer.sketch_config import SketchConfig

if TYPE_CHECKING:
    from slowpoke_tracer.robust_config import RobustConfig

CACHE_VERSION = 3
EULER = 0.5772156649015329
SEED = 20_260
"""Of the twin's replays; the user's seed is the observed run's, and must not meet it."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything a diagnosis needs that does not depend on the observed run.

    Attributes:
        program: What runs.
        baseline: Healthy cells.
        candidates: What can be accused.
        scanners: By statistic, `mean` and `max`.
        thresholds: By (statistic, family), in nats.
        replayer: Makes the replays; None without a twin.
        seed: Of the replays.
        n_batches: Batches that hypotheses are replayed on, at least.
        n_instances: Task instances of these batches, at least.
    """

    program: Program
    baseline: Baseline
    candidates: Candidates
    scanners: dict[str, Scanner]
    thresholds: dict[tuple[str, int], float]
    replayer: Replayer | None
    seed: int
    n_batches: int
    n_instances: int
    _banks: dict[int, PhaseBank] = field(default_factory=dict)

    @cached_property
    def last_group(self) -> NDArray[np.int64]:
        """(n_patterns,) last layer group of a pattern; that of shared slots is behind their own."""
        patterns, program = self.baseline.patterns, self.program
        group = program.task_group[program.event_task]
        last = patterns.table["group"].astype(np.int64)
        for of_event in (patterns.of_event, patterns.port_of_event):
            seen = of_event >= 0
            np.maximum.at(last, of_event[seen], group[seen])
        return last

    def bank(self, run: int) -> PhaseBank:
        """The phases of replay `run`; costs a replay of some batches when first asked for."""
        assert self.replayer is not None
        if run not in self._banks:
            twin, seed = self.replayer.twin, replay_seeds(self.seed, run + 1)[run]
            program = twin.program
            wanted = math.ceil(self.n_instances * program.n_batches / program.n_task_instances)
            batches, stand_in = replayed_batches(program, max(wanted, self.n_batches))
            self._banks[run] = PhaseBank(
                twin.program,
                self.baseline.patterns,
                self.replayer.n_epochs,
                twin.phases(seed, self.baseline.scale, batches),
                stand_in,
            )
        return self._banks[run]


_MEMORY: OrderedDict[tuple[str, RobustConfig], Prepared] = OrderedDict()
_MEMORY_SIZE = 20
"""Programs of a campaign, each with the robust detector's configuration and the monitor's."""


def prepare(
    context: Context, sketch: SketchConfig, config: RobustConfig, scale: Scale = Scale()
) -> Prepared:
    """Baseline, scanners and thresholds, from memory, disk, or `config.n_replays` replays.

    Raises:
        SlowpokeError: The context has neither a twin nor a profile.
    """
    if context.twin is None:
        if context.profile is None:
            raise SlowpokeError(
                "the robust detector needs a healthy baseline: give a digital twin or a profile "
                "(the sketch of a healthy run), or use detector='slowpoke', which compares peers"
            )
        patterns = sketch.patterns(context.program)
        baseline = profile_baseline(context.program, patterns, [context.profile])
        return _prepared(context, baseline, None, config)
    key = hashlib.sha256(
        repr(
            (CACHE_VERSION, context.program.fingerprint, context.twin.fingerprint, sketch,
             config.n_replays, scale, SEED)
        ).encode()
    ).hexdigest()[:24]  # fmt: skip
    name = (key, config)
    if name in _MEMORY:
        _MEMORY.move_to_end(name)
        return _MEMORY[name]
    path = cache_folder() / f"baseline-{key}.npz"
    replayer = Replayer(context.twin, sketch.patterns(context.program), sketch.n_epochs)
    same = next((p for (other, _), p in _MEMORY.items() if other == key), None)
    kept = same.baseline if same else _load(path, replayer.patterns, scale)
    baseline = kept or twin_baseline(
        context.twin, replayer, n_runs=config.n_replays, seed=SEED, scale=scale
    )
    if kept is None:
        _save(path, baseline)
    prepared = _prepared(context, baseline, replayer, config)
    _MEMORY[name] = prepared
    while len(_MEMORY) > _MEMORY_SIZE:
        _MEMORY.popitem(last=False)
    return prepared


def _prepared(
    context: Context, baseline: Baseline, replayer: Replayer | None, config: RobustConfig
) -> Prepared:
    candidates, scanners = _scanners(baseline, context.program)
    rate, least = config.false_positive_rate, config.least_score
    floors = {(name, family): least for name in scanners for family in (CORE, NETWORK)}
    floors["max", NETWORK] = config.least_max_score
    thresholds = {
        (name, family): threshold(scanner, family, floors[name, family], rate)
        for name, scanner in scanners.items()
        for family in (CORE, NETWORK)
    }
    return Prepared(
        context.program, baseline, candidates, scanners, thresholds, replayer, SEED,
        config.n_batches, config.n_instances,
    )  # fmt: skip


@remembered
def _scanners(baseline: Baseline, program: Program) -> tuple[Candidates, dict[str, Scanner]]:
    candidates = Candidates.of(program.chip, baseline)
    return candidates, {
        "mean": Scanner.of(baseline, baseline.means, candidates, program.n_groups),
        "max": Scanner.of(baseline, baseline.maxima, candidates, program.n_groups),
    }


def threshold(scanner: Scanner, family: int, floor: float, false_positive_rate: float) -> float:
    """The score that a healthy run exceeds with a quarter of the stated probability.

    A Gumbel law fitted by moments to the healthy runs' largest scores; four (statistic, family)
    pairs share the false-positive rate equally.
    """
    members = scanner.candidates.family == family
    if not members.any() or len(scanner.healthy) < 2:
        return floor
    largest = scanner.healthy[:, members].max(axis=1)
    scale = float(largest.std(ddof=1)) * math.sqrt(6) / math.pi
    location = float(largest.mean()) - EULER * scale
    level = 1 - false_positive_rate / 4
    return max(location - scale * math.log(-math.log(level)), floor)


def cache_folder() -> Path:
    """Where baselines are kept: $SLOWPOKE_CACHE, or slowpoke in the user's cache folder."""
    given = os.environ.get("SLOWPOKE_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "slowpoke"


def _save(path: Path, baseline: Baseline) -> None:
    """Write to a temporary file first: a run killed half-way leaves no broken cache."""
    shares = baseline.shares.tocsr()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".npz", delete=False) as file:
            np.savez(
                file,
                log_means=baseline.log_means,
                log_maxima=baseline.log_maxima,
                log_minima=baseline.log_minima,
                data=shares.data,
                indices=shares.indices,
                indptr=shares.indptr,
                shape=np.array(shares.shape),
                steady=np.array(baseline.steady),
                group_cycles=baseline.group_cycles,
                source=np.array(baseline.source),
            )
        os.replace(file.name, path)
    except OSError:
        return  # a cache that cannot be written costs time, not correctness


def _load(path: Path, patterns: Patterns, scale: Scale) -> Baseline | None:
    try:
        with np.load(path) as data:
            return Baseline(
                patterns=patterns,
                log_means=data["log_means"],
                log_maxima=data["log_maxima"],
                log_minima=data["log_minima"],
                shares=sp.csr_matrix(
                    (data["data"], data["indices"], data["indptr"]), shape=tuple(data["shape"])
                ),
                steady=bool(data["steady"]),
                group_cycles=data["group_cycles"],
                scale=scale,
                source=str(data["source"]),
            )
    except (OSError, KeyError, ValueError, EOFError):
        return None
