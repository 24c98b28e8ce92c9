"""The packed C layout of the sketch, field by field: what each byte on the core holds.

Fixed point, so that sums and merges are exact and do not depend on the order of the records: the
logarithm of a duration is stored in steps of 1/2048 (0.05 %), as a core without a floating-point
logarithm gets it from a leading-zero count and a table. Bytes are counted as packed, without
padding, for every table of both stages (issue of the recorder; feasibility study, section 8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LOG_STEPS: Final = 2048
"""Steps of ln(duration) in one unit: the resolution is 1/2048, or 0.05 % of a duration."""
LOG_CODE_MAX: Final = 2**16 - 1
"""Largest code of a minimum or maximum: ln(duration) < 32, durations below 7.9e13 cycles."""
LOG_SUM_MAX: Final = 2**32 - 1
"""Largest code of a sum: 2.1 million, such as 209 k records of e^10 cycles in one cell."""
COUNT_MAX: Final = 2**16 - 1
"""Largest count of a bucket or of a cell in hash mode; it saturates there."""
MIN_DURATION_CYCLES: Final = 1.0
"""Shorter durations (equal timestamps, skewed counters) count as one tick of the counter."""
TIME_STEP_CYCLES: Final = 16.0
"""Resolution of stored timestamps: 32 bits reach 2^36 cycles, 69 s at 1 GHz."""
TIME_CODE_MAX: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a C struct.

    Attributes:
        name: Name of the member.
        c_type: Its type.
        nbytes: Its size.
        holds: What it means.
    """

    name: str
    c_type: str
    nbytes: int
    holds: str


CELL: Final = (
    Field("log_sum", "uint32_t", 4, "sum of round(2048 ln(duration)), saturating"),
    Field("log_max", "uint16_t", 2, "largest round(2048 ln(duration))"),
    Field("log_min", "uint16_t", 2, "smallest round(2048 ln(duration)); 0xffff while empty"),
)
"""Epoch cell of static mode: the compiler knows the count."""

HASH_CELL: Final = (*CELL, Field("count", "uint16_t", 2, "records in the cell, saturating"))
"""Epoch cell of hash mode."""

HEADER: Final = (
    Field("duration_sum", "float", 4, "sum of durations in cycles"),
    Field("duration_sum_squares", "float", 4, "sum of squared durations"),
    Field("first", "uint32_t", 4, "start of the first record, in steps of 16 cycles"),
    Field("last", "uint32_t", 4, "end of the last record, in steps of 16 cycles"),
)
"""Head of a slot of static mode: the slot's number is its key, the compiler knows the rest."""

HASH_HEADER: Final = (
    Field("src", "int16_t", 2, "key: core, or -1 - port"),
    Field("dst", "int16_t", 2, "key: core, or -1 - port"),
    Field("work", "float", 4, "key: MACs or bytes, the resource footprint"),
    Field("op", "uint16_t", 2, "key: operator tag"),
    Field("group", "uint8_t", 1, "key: layer group"),
    Field("kind_role", "uint8_t", 1, "key: kind (2 bits) and role (3 bits)"),
    Field("epoch", "uint16_t", 2, "key: epoch, where the key has one"),
    Field("missed", "uint16_t", 2, "records counted in Stage-1 before promotion, saturating"),
    *HEADER,
)
"""Head of a Stage-2 entry of hash mode: it carries its whole key."""

BUCKET: Final = (
    Field("fingerprint", "uint32_t", 4, "hash of the key; the compiler excludes collisions"),
    Field("frequency", "uint16_t", 2, "0 for empty; saturates"),
)
"""Bucket of Stage-1."""

EPOCH_TIMES: Final = (
    Field("start", "uint32_t", 4, "earliest start seen in the epoch, in steps of 16 cycles"),
    Field("end", "uint32_t", 4, "latest end"),
)
"""Once a core and epoch."""


def nbytes(fields: tuple[Field, ...]) -> int:
    """Size of a packed struct.

    >>> [nbytes(part) for part in (HEADER, CELL, HASH_HEADER, HASH_CELL, BUCKET, EPOCH_TIMES)]
    [16, 8, 32, 10, 6, 8]
    """
    return sum(field.nbytes for field in fields)


def c_source() -> str:
    """The structs as C, for a reader or a firmware."""
    parts = {
        "epoch_times": EPOCH_TIMES, "slot_header": HEADER, "cell": CELL, "bucket": BUCKET,
        "entry_header": HASH_HEADER, "hash_cell": HASH_CELL,
    }  # fmt: skip
    lines = []
    for name, fields in parts.items():
        lines.append(f"struct __attribute__((packed)) {name} {{  /* {nbytes(fields)} bytes */")
        lines += [f"    {f.c_type} {f.name};  /* {f.holds} */" for f in fields]
        lines.append("};")
    return "\n".join(lines)
