"""The store: rows of finished tasks in a folder that survives `kill -9` at any moment.

`parts/*.parquet` hold the rows, each written under another name and renamed when it is complete;
`manifest.jsonl` has a line for each part with its tasks and checksum, written after the part. A
part without a line (killed between the two) is adopted when the store is opened, a half-written
file is thrown away, and a task counts once, wherever its rows appear.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slowpoke_mapping.errors import SlowpokeError

SCHEMA_VERSION = 1
_TEXT = pa.string()
_TEXTS = pa.list_(pa.string())

SCHEMA = pa.schema(
    [
        *((name, _TEXT) for name in ("task", "workload", "dataset", "split", "kind")),
        ("variant", pa.int64()), ("index", pa.int64()), ("cluster", _TEXT),
        ("noise_seed", pa.int64()), ("n_excluded", pa.int64()),
        ("faults", _TEXTS), ("truth", _TEXTS), ("exposure", pa.list_(pa.int64())),
        *((name, pa.float64()) for name in ("slowdown", "start_cycles", "end_cycles",
                                            "makespan_cycles", "makespan_ratio")),
        *((name, pa.int64()) for name in ("n_components", "n_records", "raw_bytes")),
        *((name, pa.float64()) for name in ("sketch_bytes_per_core", "probe_overhead",
                                            "seconds_run")),
        ("detector", _TEXT), ("evidence", _TEXT), ("verdict", _TEXT), ("reported", _TEXTS),
        ("ambiguous", _TEXTS), ("ranked", _TEXTS), ("ranked_scores", pa.list_(pa.float64())),
        *((name, pa.float64()) for name in ("rank", "max_score", "healthy_probability")),
        ("not_covered", pa.int64()),
        *((name, pa.float64()) for name in ("slowdown_estimate", "start_estimate",
                                            "end_estimate")),
        ("refused", _TEXT), ("storage_bytes", pa.float64()), ("seconds", pa.float64()),
    ]
)  # fmt: skip
"""Columns of a row: one detector's answer to one run. Times in cycles, storage in bytes a core."""

TIMINGS = ("seconds", "seconds_run")
"""Columns that differ between two runs of one task."""


class Store:
    """A folder of results that one campaign at a time writes to.

    Args:
        folder: Made if it is missing.
        settings: What the campaign is; written once, and compared when the folder is opened again.

    Raises:
        SlowpokeError: The folder holds another campaign, or another process writes to it.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self._parts = folder / "parts"
        self._parts.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(folder)
        try:
            _settle(folder, settings)
            self.done = self._recovered()
        except BaseException:
            self.close()
            raise

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep the rows of finished tasks; those of tasks that are kept already are dropped.

        All rows of a task must come in one call. They are on disk when this returns.
        """
        fresh = [row for row in rows if row["task"] not in self.done]
        if not fresh:
            return
        tasks = list(dict.fromkeys(str(row["task"]) for row in fresh))
        content = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([dict(row) for row in fresh], SCHEMA), content)
        name = f"{uuid.uuid4().hex}.parquet"
        _write_whole(self._parts / name, content.getvalue())
        self._note(name, tasks, content.getvalue())
        self.done.update(tasks)

    def close(self) -> None:
        """Let another campaign write here."""
        self._lock.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _note(self, name: str, tasks: Sequence[str], content: bytes) -> None:
        line = {"part": name, "sha256": hashlib.sha256(content).hexdigest(), "tasks": list(tasks)}
        with (self.folder / "manifest.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _recovered(self) -> set[str]:
        """Tasks whose rows are safe; mends what a kill left behind."""
        for path in self._parts.glob("*.tmp"):
            path.unlink()
        manifest = self.folder / "manifest.jsonl"
        lines, torn = _manifest(manifest)
        if torn:
            text = "".join(json.dumps(line) + "\n" for line in lines)
            _write_whole(manifest, text.encode())
        done: set[str] = set()
        named = {str(line["part"]) for line in lines}
        for line in lines:
            path = self._parts / line["part"]
            if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != line["sha256"]:
                raise SlowpokeError(
                    f"{path} is missing or was changed; put it back, or remove its line from "
                    f"{manifest} and resume to compute its {len(line['tasks'])} tasks again"
                )
            done.update(line["tasks"])
        for path in sorted(self._parts.glob("*.parquet")):
            if path.name not in named:
                content = path.read_bytes()
                tasks = pq.read_table(io.BytesIO(content), columns=["task"])["task"].unique()
                self._note(path.name, tasks.to_pylist(), content)
                done.update(tasks.to_pylist())
        return done


def read_settings(folder: Path) -> dict[str, Any]:
    """What the campaign in a folder is.

    Raises:
        SlowpokeError: The folder holds none.
    """
    try:
        settings: dict[str, Any] = json.loads((folder / "campaign.json").read_text("utf-8"))
    except (OSError, ValueError):
        raise SlowpokeError(
            f"{folder}: holds no campaign; give the --out of a `slowpoke campaign`"
        ) from None
    return settings


def read_rows(folder: Path) -> pa.Table:
    """Every row of a store, a task's once, in an order that does not depend on how it was made.

    May be called while a campaign is writing.

    Raises:
        SlowpokeError: The folder holds no campaign.
    """
    read_settings(folder)
    tables, seen = [], set[str]()
    for path in sorted((folder / "parts").glob("*.parquet")):
        table = pq.read_table(path, schema=SCHEMA)
        fresh = set(table["task"].unique().to_pylist()) - seen
        seen |= fresh
        tables.append(table.filter(pc.is_in(table["task"], pa.array(sorted(fresh), _TEXT))))
    rows = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    order = ("workload", "dataset", "split", "kind", "index", "evidence", "detector")
    return rows.sort_by([(name, "ascending") for name in order])


def _manifest(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """The complete lines, and whether a torn one follows."""
    lines = []
    if path.exists():
        for text in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
            try:
                lines.append(json.loads(text))
            except ValueError:
                return lines, True
            if not text.endswith("\n"):
                return lines, True
    return lines, False


def _settle(folder: Path, settings: Mapping[str, Any]) -> None:
    path = folder / "campaign.json"
    wanted = json.loads(json.dumps({"schema": SCHEMA_VERSION, **settings}))
    if not path.exists():
        _write_whole(path, (json.dumps(wanted, indent=2) + "\n").encode())
        return
    kept = read_settings(folder)
    if kept != wanted:
        keys = [*dict.fromkeys([*kept, *wanted])]
        name = next(key for key in keys if kept.get(key) != wanted.get(key))
        raise SlowpokeError(
            f"{folder} holds a campaign with {name} = {kept.get(name)}, not {wanted.get(name)}; "
            "repeat its settings to resume it, or choose another folder"
        )


def _locked(folder: Path) -> IO[str]:
    """A lock that the system takes back when the process dies, however it dies."""
    file = (folder / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise SlowpokeError(
            f"{folder}: another campaign is writing here; wait for it or choose another folder"
        ) from None
    return file


def _write_whole(path: Path, content: bytes) -> None:
    """All or nothing, also if the machine stops."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
