"""Reference material beside the repository; tests that need it are skipped where it is absent."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from torch_slowpoke.efficiency.cadence import CheckpointCost, checkpoint_cost
from torch_slowpoke.efficiency.schedule import Schedule, schedule_of_jobs

SHARED = Path(__file__).parents[3] / ".." / "shared"


def _reference(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"../shared/{name} is not beside this repository")
    return path


@pytest.fixture(scope="session")
def samples() -> Path:
    return _reference("samples")


@pytest.fixture(scope="session")
def oracle() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(_reference("reference/efficiency_oracle.json").read_text())
    return loaded


@pytest.fixture(scope="session")
def frontier_csv() -> Path:
    return _reference("reference/frontier_jobs_2024.csv")


@pytest.fixture(scope="session")
def frontier_columns(frontier_csv: Path) -> npt.NDArray[np.int64]:
    """Nodes, requested seconds, actual seconds; (3, 331640)."""
    return np.loadtxt(frontier_csv, delimiter=",", skiprows=1, dtype=np.int64).T


@pytest.fixture(scope="session")
def frontier(frontier_columns: npt.NDArray[np.int64]) -> Schedule:
    nodes, requested, actual = frontier_columns
    ratio = (nodes @ actual) / (nodes @ requested)
    return schedule_of_jobs(nodes, requested / 3600.0 * ratio)


@pytest.fixture(scope="session")
def frontier_cost() -> CheckpointCost:
    return checkpoint_cost(200e9, 6e12)
