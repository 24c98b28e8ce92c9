"""Find the slow core or link of a many-core accelerator that runs a PyTorch model.

>>> import torch_slowpoke
>>> analysis = torch_slowpoke.analyze("resnet50", mesh=(4, 4))  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from slowpoke_mapping.errors import CapacityError, SlowpokeError
    from slowpoke_mapping.lowering import lower
    from slowpoke_mapping.mapper import map_graph
    from slowpoke_sim.machine import simulate
    from slowpoke_tracer.tracer import diagnose
    from torch_slowpoke.analysis import Analysis
    from torch_slowpoke.api import analyze
    from torch_slowpoke.frontend.backend import last_analyses
    from torch_slowpoke.importing import operator_graph

_HOMES = {
    "Analysis": "torch_slowpoke.analysis",
    "CapacityError": "slowpoke_mapping.errors",
    "SlowpokeError": "slowpoke_mapping.errors",
    "analyze": "torch_slowpoke.api",
    "diagnose": "slowpoke_tracer.tracer",
    "last_analyses": "torch_slowpoke.frontend.backend",
    "lower": "slowpoke_mapping.lowering",
    "map_graph": "slowpoke_mapping.mapper",
    "operator_graph": "torch_slowpoke.importing",
    "simulate": "slowpoke_sim.machine",
}

__all__ = [
    "Analysis",
    "CapacityError",
    "SlowpokeError",
    "__version__",
    "analyze",
    "diagnose",
    "last_analyses",
    "lower",
    "map_graph",
    "operator_graph",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Import a public name at first use, so that `slowpoke --help` does not wait for numba."""
    from importlib import import_module

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
