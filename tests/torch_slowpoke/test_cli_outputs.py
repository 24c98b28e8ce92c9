import json
import math
import os
from pathlib import Path

import pytest

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.cli.outputs import check_outputs, write_json


def test_a_file_in_a_folder_that_exists_will_do(tmp_path: Path) -> None:
    check_outputs(json=tmp_path / "a.json", plot=tmp_path / "a.png", html=None)
    assert list(tmp_path.iterdir()) == []  # looked, not touched


def test_standard_output_is_for_json_alone() -> None:
    check_outputs(json=Path("-"))


@pytest.mark.parametrize(
    ("name", "says"),
    [("no/such/a.png", "there is no folder .*such; make it first"), (".", "is a folder")],
)
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(SlowpokeError, match=f"--plot .*{says}"):
        check_outputs(plot=tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_closed_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(SlowpokeError, match="cannot be written"):
        check_outputs(plot=tmp_path / "a.png")


def test_two_options_cannot_share_a_file(tmp_path: Path) -> None:
    with pytest.raises(SlowpokeError, match="--json and --html both name"):
        check_outputs(json=tmp_path / "a", html=tmp_path / "." / "a")


def test_json_has_null_where_a_number_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"a": math.nan, "b": [1.5, math.inf, ("x", -math.inf)], "c": {"d": 2}}
    expected = {"a": None, "b": [1.5, None, ["x", None]], "c": {"d": 2}}
    write_json(data, tmp_path / "a.json")
    write_json(data, Path("-"))
    assert json.loads((tmp_path / "a.json").read_text()) == expected
    assert json.loads(capsys.readouterr().out) == expected
