"""A tiny workload: four layers on a 2x2 mesh, a millisecond a run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slowpoke_mapping.graph import GRAPH_INPUT, Edge, Operator, OperatorGraph, OpKind
from torch_slowpoke.evaluation.workloads import Workload, World, world


def chain(n: int = 4, name: str = "chain") -> OperatorGraph:
    box = (1, 16, 16, 16)
    layers = tuple(
        Operator(
            f"layer{i}",
            kind=OpKind.LINEAR,
            box=box,
            inputs=(Edge(i - 1 if i else GRAPH_INPUT, box),),
            macs=1 << 20,
            weight_elements=64,
        )
        for i in range(n)
    )
    return OperatorGraph(name, layers)


@pytest.fixture(scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SLOWPOKE_CACHE", str(own_cache))
    yield


@pytest.fixture(scope="session")
def tiny() -> Workload:
    return Workload(chain(), "mesh:2x2")


@pytest.fixture
def tiny_world(tiny: Workload) -> World:
    return world(tiny)
