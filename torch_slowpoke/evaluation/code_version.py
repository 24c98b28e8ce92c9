"""The code that a result depends on, as one hash: an old result is never taken for a new one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

PACKAGES = (
    "slowpoke_mapping",
    "slowpoke_sim",
    "slowpoke_tracer",
    "torch_slowpoke.frontend",
    "torch_slowpoke.evaluation",
)
MAPPING_PACKAGES = ("slowpoke_mapping", "torch_slowpoke.frontend")
"""What a program (before probes) depends on."""

LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn", "torch", "torchvision")
PRESENTATION = ("cli", "tables", "figure", "published", "statistics", "progress", "difference")
"""Modules of the evaluation that only show results: a change there leaves the results valid."""


@lru_cache(maxsize=8)
def code_hash(packages: tuple[str, ...] = PACKAGES) -> str:
    """16 hex digits over the sources and data of packages, and the versions of LIBRARIES."""
    digest = hashlib.sha256()
    for package in packages:
        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations
        for folder in spec.submodule_search_locations:
            for path in _sources(Path(folder)):
                digest.update(f"{package}/{path.relative_to(folder).as_posix()}\0".encode())
                digest.update(path.read_bytes())
    for library in LIBRARIES:
        digest.update(f"{library} {_version(library)}".encode())
    return digest.hexdigest()[:16]


def versions() -> dict[str, str]:
    """Version of each library that results depend on; `-` where it is not installed."""
    return {library: _version(library) for library in LIBRARIES}


def _version(library: str) -> str:
    try:
        return version(library)
    except ModuleNotFoundError:
        return "-"


def _sources(folder: Path) -> Iterable[Path]:
    shown = {f"{name}.py" for name in PRESENTATION} if folder.name == "evaluation" else set()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".toml") and path.name not in shown:
            yield path
