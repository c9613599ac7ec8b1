"""Rows as they are handed to a producer: Arrow, or dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from brokerless import _native
from brokerless.errors import unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Rows: TypeAlias = pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch] | Iterable[Mapping[str, Any]]

# Beside those of a read, an export has these.
_OF_EXPORTS = ("timestampMillis", "path")
# Python objects are turned into Arrow so many at a time.
_DICTS = 4096
_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", _HEADERS),
        pa.field("timestamp", pa.timestamp("ms", "UTC")),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("leaderEpoch", pa.int32()),
        pa.field("timestampType", pa.int32()),
    ]
)


def batches_of(rows: Rows) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table, of batches or of dicts."""
    if isinstance(rows, pa.RecordBatch):
        yield _known(rows)
    elif isinstance(rows, pa.Table):
        yield from map(_known, rows.to_batches())
    elif isinstance(rows, Mapping):
        raise TypeError(f"rows: several are expected, not one dict; give [{rows!r}]")
    else:
        dicts: list[Mapping[str, Any]] = []
        for row in rows:
            if isinstance(row, pa.RecordBatch):
                yield _known(row)
                continue
            dicts.append(row)
            if len(dicts) == _DICTS:
                yield _from_dicts(dicts)
                dicts = []
        if dicts:
            yield _from_dicts(dicts)


def _known(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Pass on rows of columns that a read has, too: one of another name is a slip, and would be lost."""
    for name in rows.schema.names:
        if name not in _native.ROW_COLUMNS and name not in _OF_EXPORTS:
            raise unknown("column", name, _native.ROW_COLUMNS)
    return rows


def _from_dicts(rows: list[Mapping[str, Any]]) -> pa.RecordBatch:
    for name in sorted({name for row in rows for name in row} - set(_SCHEMA.names)):
        raise unknown("column", name, _SCHEMA.names)
    if any("value" not in row for row in rows):
        raise ValueError("a row has no value; None is Kafka's null, which deletes its key where logs are compacted")
    try:
        batch = pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"a row has a value that its column does not take: {error}") from error
    return batch if any("timestamp" in row for row in rows) else batch.drop_columns("timestamp")


def check_times(rows: pa.RecordBatch, *, before: bool | None) -> bool | None:
    """Refuse rows without a time among others that keep their offsets: the copy would have the present time there.

    Args:
        rows: some.
        before: whether those before had times; None: there were none.

    Returns:
        Whether these have; of no rows, `before`.

    Raises:
        ValueError: not all have, or not as those before.
    """
    if not rows.num_rows:
        return before
    has_times = "timestamp" in rows.schema.names
    nulls = rows["timestamp"].null_count if has_times else rows.num_rows * (before is True)
    if nulls:
        raise ValueError(
            f"{nulls} rows that keep their offsets have no timestamp, and would get the present time: give each its "
            "own, -1 for none, or leave the column out. Spark has null for times beyond its range, which Python and "
            "the command copy as they are"
        )
    if has_times and before is False:
        raise ValueError(
            "rows that keep their offsets have timestamps, and those before had none: give all of them one"
        )
    return has_times
