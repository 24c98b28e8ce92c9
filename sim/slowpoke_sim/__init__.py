"""The accelerator: a program, faults and noise in, a trace out."""

from slowpoke_sim.machine import ENGINES, Run, run, simulate
from slowpoke_sim.noise import NOISES, Noise
from slowpoke_sim.parquet_sink import ParquetSink
from slowpoke_sim.timing import Timing
from slowpoke_sim.twin import DigitalTwin

__all__ = [
    "ENGINES",
    "NOISES",
    "DigitalTwin",
    "Noise",
    "ParquetSink",
    "Run",
    "Timing",
    "run",
    "simulate",
]
