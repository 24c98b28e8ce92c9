"""A trace on disk, written block by block: memory does not grow with the length of the run."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_sim.machine import finished
from slowpoke_tracer.trace import METADATA_KEY, Trace, TraceMeta

# The writer keeps what it knows of every row group until the end, about 29 kB: with a row group a
# block memory would grow with the run after all.
_ROW_GROUP_RECORDS = 1 << 17


class ParquetSink:
    """Takes the blocks of a run and writes the file that `Trace.load` reads.

    Use it as a context manager, or call `close()`; the file is complete after that.

        with ParquetSink("run.parquet") as sink:
            run(program, sink=sink)

    Raises:
        SlowpokeError: The file cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None
        self._meta: TraceMeta | None = None
        self._end_cycles = 0.0
        self._pending: list[pa.Table] = []
        self._n_pending = 0
        self.n_records = 0

    def add(self, block: Trace) -> None:
        """Take one block: a layer group of a batch; 131,072 records are written together."""
        table = block.to_arrow()
        if self._writer is None:
            try:
                self._writer = pq.ParquetWriter(str(self._path), table.schema, compression="zstd")
            except OSError as error:
                raise SlowpokeError(f"{self._path}: cannot be written ({error})") from None
        self._pending.append(table)
        self._n_pending += table.num_rows
        if self._n_pending >= _ROW_GROUP_RECORDS:
            self._flush(self._writer)
        self._meta = block.meta
        for times in (block.compute["end_cycles"], block.transfers["consume_cycles"]):
            self._end_cycles = max(self._end_cycles, float(times.max(initial=0.0)))
        self.n_records += block.n_records

    def close(self) -> None:
        """Add the metadata (the end of the last record as makespan) and close the file."""
        if self._writer is not None and self._meta is not None:
            self._flush(self._writer)
            text = finished(self._meta, self._end_cycles).to_json()
            self._writer.add_key_value_metadata({METADATA_KEY: text})
            self._writer.close()
            self._writer = None

    def _flush(self, writer: pq.ParquetWriter) -> None:
        if self._pending:
            writer.write_table(pa.concat_tables(self._pending))
        self._pending, self._n_pending = [], 0

    def __enter__(self) -> ParquetSink:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
