"""Every example runs and says what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "own_detector.py": "1. core:5 looks",
    "own_model.py": "verdict: fail_slow\nlink:4-5: ",
    "own_topology.py": "cores",
}


def test_every_example_is_tried_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_an_example_says_what_it_promises(name: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True
    )
    assert SAYS[name] in done.stdout
