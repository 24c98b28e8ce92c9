"""The trace: only what a chip can observe of its run.

Two tables, of compute records and transfer records, as structured numpy arrays. A transfer record
holds when the first byte left its source, when the last byte reached the destination router's port
(ejection) and when the destination took it (consumption); hops are not seen (design.md section 4).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from slowpoke_mapping.errors import SlowpokeError

SCHEMA = 1
METADATA_KEY = "slowpoke"
"""Under which a trace's Parquet file keeps its metadata."""
RAW_RECORD_BYTES = 32
"""Bytes of one raw record, to which compression ratios refer (design.md section 7)."""

COMPUTE_DTYPE = np.dtype(
    [
        ("core", "i4"), ("op", "i4"), ("group", "i4"), ("batch", "i4"), ("unit", "i4"),
        ("event", "i4"), ("macs", "f8"), ("start_cycles", "f8"), ("end_cycles", "f8"),
    ]
)  # fmt: skip
"""`event`: id of the event in the program (the compiler's tag); `macs`: work in MAC equivalents."""

TRANSFER_DTYPE = np.dtype(
    [
        ("src", "i4"), ("dst", "i4"), ("op", "i4"), ("group", "i4"), ("batch", "i4"),
        ("unit", "i4"), ("event", "i4"), ("bytes", "f8"), ("inject_cycles", "f8"),
        ("eject_cycles", "f8"), ("consume_cycles", "f8"),
    ]
)  # fmt: skip
"""`src`, `dst`: a core, or -1 - p for DRAM port p. A read's inject is when its port starts to serve
it; a write's consume is when its port has stored it."""


@dataclass(frozen=True, slots=True)
class TraceMeta:
    """What a reader must know to use a trace.

    Attributes:
        model: Name of the model.
        topology: Spec of the topology, `mesh:4x4`.
        clock_hz: Cycles in a second.
        program_fingerprint: Fingerprint of the program that ran; profiles refuse another one.
        n_cores: Number of cores.
        n_batches: Batches of the whole run.
        makespan_cycles: End of the last task; NaN while a run is not over.
        operator_names: Names that `op` indexes.
    """

    model: str
    topology: str
    clock_hz: float
    program_fingerprint: str
    n_cores: int
    n_batches: int
    makespan_cycles: float = float("nan")
    operator_names: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Text under METADATA_KEY in a Parquet file, from which `Trace.load` reads it back."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({"schema": SCHEMA, "units": "cycles, bytes, macs", **values})


@dataclass(frozen=True, eq=False)
class Trace:
    """Records of a run, or of a block of it (one layer group of one batch).

    Attributes:
        compute: (n,) COMPUTE_DTYPE, in order of end time, then event, then unit.
        transfers: (m,) TRANSFER_DTYPE, in order of ejection time, then event, then unit.
        meta: What they refer to.
    """

    compute: NDArray[np.void]
    transfers: NDArray[np.void]
    meta: TraceMeta

    def __post_init__(self) -> None:
        if self.compute.dtype != COMPUTE_DTYPE or self.transfers.dtype != TRANSFER_DTYPE:
            raise SlowpokeError(
                "a trace is made of COMPUTE_DTYPE and TRANSFER_DTYPE records; convert the columns"
            )

    @property
    def n_records(self) -> int:
        """Number of records of both tables."""
        return len(self.compute) + len(self.transfers)

    @property
    def raw_nbytes(self) -> int:
        """Bytes of the raw records at 32 B each (design.md section 7)."""
        return self.n_records * RAW_RECORD_BYTES

    @staticmethod
    def concatenate(blocks: Iterable[Trace], meta: TraceMeta | None = None) -> Trace:
        """One trace of several blocks, in their order.

        Raises:
            SlowpokeError: No block is given.
        """
        parts = list(blocks)
        if not parts:
            raise SlowpokeError("no block of a trace was given; run at least one inference")
        return Trace(
            np.concatenate([part.compute for part in parts]),
            np.concatenate([part.transfers for part in parts]),
            meta if meta is not None else parts[-1].meta,
        )

    def to_arrow(self) -> pa.Table:
        """Both tables as one, `table` 0 for compute records and 1 for transfers; no metadata."""
        columns: dict[str, pa.Array] = {}
        n, m = len(self.compute), len(self.transfers)
        table = pa.array(np.repeat(np.array([0, 1], dtype=np.int8), [n, m]))
        columns["table"] = table
        names = dict.fromkeys((*COMPUTE_DTYPE.names, *TRANSFER_DTYPE.names))  # type: ignore[misc]
        for name in names:
            parts = []
            for array, length in ((self.compute, n), (self.transfers, m)):
                dtype = (COMPUTE_DTYPE.fields or {}).get(name) or (TRANSFER_DTYPE.fields or {})[
                    name
                ]
                if name in (array.dtype.names or ()):
                    parts.append(pa.array(np.ascontiguousarray(array[name])))
                else:
                    parts.append(pa.nulls(length, pa.from_numpy_dtype(dtype[0])))
            columns[name] = pa.concat_arrays(parts)
        return pa.table(columns)

    def save(self, path: str | Path) -> None:
        """Write both tables into one Parquet file, metadata included."""
        arrow = self.to_arrow().replace_schema_metadata({METADATA_KEY: self.meta.to_json()})
        pq.write_table(arrow, str(path), compression="zstd")

    @staticmethod
    def load(path: str | Path) -> Trace:
        """The trace of a file that `save` wrote.

        Raises:
            SlowpokeError: Not readable, or not such a file.
        """
        try:
            arrow = pq.read_table(str(path))
            data = json.loads((pq.read_metadata(str(path)).metadata or {})[METADATA_KEY.encode()])
            if data.pop("schema") != SCHEMA:
                raise KeyError("schema")
            data.pop("units")
            data["operator_names"] = tuple(data["operator_names"])
            which = arrow["table"].to_numpy()
            compute = np.zeros(int((which == 0).sum()), COMPUTE_DTYPE)
            transfers = np.zeros(int((which == 1).sum()), TRANSFER_DTYPE)
            for array, code in ((compute, 0), (transfers, 1)):
                part = arrow.filter(pa.array(which == code))
                for name in array.dtype.names or ():
                    array[name] = part[name].to_numpy()
            return Trace(compute, transfers, TraceMeta(**data))
        except OSError as error:
            raise SlowpokeError(f"{path}: cannot be read ({error})") from None
        except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
            raise SlowpokeError(
                f"{path}: not a trace of this version ({type(error).__name__}); write one with "
                "`slowpoke simulate --trace`"
            ) from None


class PhaseTimes(NamedTuple):
    """What one phase (a layer group of a batch) showed.

    Attributes:
        cycles: How long it lasted.
        duration: (n_events of the group, n_units) inject to eject of a message, start to end of a
            task on a core; NaN where an event did not happen in that unit.
        port_duration: Likewise, eject to consume: of a DRAM write, queue and service of the port.
    """

    cycles: float
    duration: NDArray[np.float64]
    port_duration: NDArray[np.float64]
