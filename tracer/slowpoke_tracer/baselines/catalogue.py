"""Names of the baselines, for command lines and campaigns; in Python pass a detector."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from slowpoke_tracer.baselines.adr import AdrDetector
from slowpoke_tracer.baselines.iaso import IasoDetector
from slowpoke_tracer.baselines.microscope import MicroscopeDetector
from slowpoke_tracer.baselines.perseus import PerseusDetector
from slowpoke_tracer.baselines.silent import RandomDetector, SilentDetector
from slowpoke_tracer.baselines.spectrum import SpectrumDetector
from slowpoke_tracer.baselines.threshold import ThresholdDetector
from slowpoke_tracer.baselines.zscore import ZScoreDetector
from slowpoke_tracer.detector import Detector

BASELINES: dict[str, Callable[[], Detector]] = {
    "threshold": ThresholdDetector,
    "zscore": ZScoreDetector,
    "zscore-raw": partial(ZScoreDetector, metric="raw", name="zscore-raw"),
    "microscope": MicroscopeDetector,
    "microscope-rw": partial(MicroscopeDetector, walk=True),
    "iaso": IasoDetector,
    "perseus": PerseusDetector,
    "adr": AdrDetector,
    "spectrum": SpectrumDetector,
    "silent": SilentDetector,
    "random": RandomDetector,
}
