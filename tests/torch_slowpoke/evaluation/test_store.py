import json
import os
from pathlib import Path
from typing import Any

import pytest

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.evaluation.store import SCHEMA, Store, read_rows

SETTINGS = {"name": "x"}


def rows(*tasks: str, detectors: tuple[str, ...] = ("a", "b")) -> list[dict[str, Any]]:
    return [{"task": task, "detector": d, "index": 0} for task in tasks for d in detectors]


def kept(folder: Path) -> list[tuple[str, str]]:
    table = read_rows(folder)
    return sorted(zip(table["task"].to_pylist(), table["detector"].to_pylist(), strict=True))


def test_rows_come_back_as_they_were_kept(tmp_path: Path) -> None:
    row = {"task": "t", "detector": "a", "truth": ["core:1"], "exposure": [3], "rank": 1.5,
           "slowdown": float("inf"), "refused": ""}  # fmt: skip
    with Store(tmp_path, SETTINGS) as store:
        store.add([row])
    found = read_rows(tmp_path).to_pylist()
    assert found == [{**dict.fromkeys(SCHEMA.names), **row}]


def test_a_task_counts_once_however_often_it_is_added(tmp_path: Path) -> None:
    with Store(tmp_path, SETTINGS) as store:
        store.add(rows("t1", "t2"))
        store.add(rows("t2", "t3"))
    with Store(tmp_path, SETTINGS) as store:
        assert store.done == {"t1", "t2", "t3"}
        store.add(rows("t1"))
    assert kept(tmp_path) == sorted((t, d) for t in ("t1", "t2", "t3") for d in "ab")


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the program's own runs after it."""


@pytest.mark.parametrize("step", range(1, 12))
def test_a_kill_between_any_two_writes_loses_nothing_that_was_kept(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path, SETTINGS) as store:
        store.add(rows("before"))
    calls = 0
    real_replace, real_fsync = os.replace, os.fsync

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls >= step:
            raise Killed

    def replace(*args: Any) -> None:
        count()
        real_replace(*args)

    def fsync(*args: Any) -> None:
        count()
        real_fsync(*args)

    store = Store(tmp_path, SETTINGS)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        patch.setattr(os, "fsync", fsync)
        done = []
        try:
            for task in ("t1", "t2"):
                store.add(rows(task))
                done.append(task)
        except Killed:
            pass
    store.close()
    with Store(tmp_path, SETTINGS) as store:
        assert {"before", *done} <= store.done <= {"before", "t1", "t2"}
        store.add(rows("t1", "t2"))
    assert kept(tmp_path) == sorted((t, d) for t in ("before", "t1", "t2") for d in "ab")


def test_a_part_without_a_line_is_adopted_and_a_torn_line_is_mended(tmp_path: Path) -> None:
    with Store(tmp_path, SETTINGS) as store:
        store.add(rows("t1"))
        store.add(rows("t2"))
    manifest = tmp_path / "manifest.jsonl"
    first, second = manifest.read_text().splitlines(keepends=True)
    manifest.write_text(first + second[: len(second) // 2])
    with Store(tmp_path, SETTINGS) as store:
        assert store.done == {"t1", "t2"}
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    assert [line["tasks"] for line in lines] == [["t1"], ["t2"]]


def test_a_half_written_part_is_thrown_away(tmp_path: Path) -> None:
    with Store(tmp_path, SETTINGS) as store:
        store.add(rows("t1"))
    (tmp_path / "parts" / "x.parquet.tmp").write_bytes(b"PAR1 half")
    with Store(tmp_path, SETTINGS) as store:
        assert store.done == {"t1"}
    assert [path.suffix for path in (tmp_path / "parts").iterdir()] == [".parquet"]


def test_a_changed_part_is_not_believed(tmp_path: Path) -> None:
    with Store(tmp_path, SETTINGS) as store:
        store.add(rows("t1"))
    part = next((tmp_path / "parts").iterdir())
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    with pytest.raises(SlowpokeError, match="is missing or was changed"):
        Store(tmp_path, SETTINGS)


def test_another_campaign_does_not_write_into_the_folder(tmp_path: Path) -> None:
    with Store(tmp_path, SETTINGS):
        with pytest.raises(SlowpokeError, match="another campaign is writing here"):
            Store(tmp_path, SETTINGS)
    with pytest.raises(SlowpokeError, match="a campaign with name = x, not y"):
        Store(tmp_path, {"name": "y"})
    with Store(tmp_path, SETTINGS) as store:
        assert store.done == set()


def test_a_folder_without_a_campaign_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(SlowpokeError, match="holds no campaign"):
        read_rows(tmp_path)
