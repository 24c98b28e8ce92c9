"""Parameters of the robust detector."""

from __future__ import annotations

from dataclasses import dataclass

from slowpoke_mapping.errors import SlowpokeError


@dataclass(frozen=True, slots=True)
class RobustConfig:
    """Parameters of the robust detector.

    Attributes:
        false_positive_rate: Of a run, for which the thresholds are set.
        n_replays: Healthy replays of the twin.
        least_score: Floor of the thresholds, in nats: 24 replays show too little of the tail
            (measured: of 350 healthy runs none had a mean above 23.0).
        least_max_score: Floor for the longest latencies of links: one burst in a queue makes a
            long tail (measured: 3 of 150 healthy runs of DarkNet-19 above 30, the largest 61.7).
        least_slowdown: A place is reported only from this estimate on.
        refit_above: The twin's speeds are refitted when the run's median residual exceeds this.
        n_hypotheses: Places whose fault is simulated before one is reported.
        n_segments: Parts of a run (layer groups in an epoch) on which rivals are compared.
        n_batches: Batches on which hypotheses are simulated, at least; they stand for the others.
        n_instances: Task instances that these batches have together, at least: with fewer, what a
            hypothesis changes is itself uncertain.
        max_faults: Simultaneous faults that are looked for.
        least_gain: Share of the greatest network fault's gain in misfit that a further one must
            bring: below it, a victim of the first is more likely than a second fault.
        least_brief: Nats that a network fault in at most two segments must explain: a burst in a
            queue that moves the few messages of a layer group looks like a brief fault in one
            direction of a link (measured: 8 of 450 healthy runs explain 24 to 68).
        least_further: Nats that a further network fault must explain, whatever came before it: what
            a slow core does to the network is never simulated to the last nat (measured: victims
            of cores 27 to 150, one 184, faults beside cores from 260 on).
        confirm: Whether hypotheses are simulated (needs a twin).
        calibrate: Healthy replays that a run's scores are compared with for a p-value, beside the
            `n_replays` that the thresholds come from; 0 for none (needs a twin, kept on disk).
    """

    false_positive_rate: float = 0.002
    n_replays: int = 24
    least_score: float = 24.0
    least_max_score: float = 70.0
    least_slowdown: float = 1.1
    refit_above: float = 0.03
    n_hypotheses: int = 4
    n_segments: int = 16
    n_batches: int = 4
    n_instances: int = 30_000
    max_faults: int = 4
    least_gain: float = 0.05
    least_brief: float = 50.0
    least_further: float = 180.0
    confirm: bool = True
    calibrate: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.false_positive_rate < 1:
            raise SlowpokeError(
                f"false_positive_rate {self.false_positive_rate:g}: a probability between 0 and 1"
            )
        counts = (self.n_hypotheses, self.n_segments, self.n_batches, self.n_instances,
                  self.max_faults)  # fmt: skip
        if self.n_replays < 4 or min(counts) < 1:
            raise SlowpokeError(
                f"{self}: at least 4 replays, and one hypothesis, segment, batch, instance and "
                "fault are needed"
            )
        if self.calibrate < 0:
            raise SlowpokeError(f"calibrate {self.calibrate}: a number of replays, 0 for none")
