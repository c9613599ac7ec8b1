"""Statistics of a segment: sums by hour, message format and codec, which can be added up to coarser sums.

A record is counted in the hour of its timestamp, a batch in the hour of its largest timestamp. All records on disk are
counted, including aborted records and records below the log start offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.errors import located
from brokerless.io.file_window import Window
from brokerless.log.segment import cut_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.log.segment import Segment

GROUPS = ("hour", "magic", "compression")
FACTS = {
    "batches": "sum",
    "bytes": "sum",
    "min_batch_bytes": "min",
    "max_batch_bytes": "max",
    "control_records": "sum",
    "records": "sum",
    "key_bytes": "sum",
    "value_bytes": "sum",
    "null_keys": "sum",
    "tombstones": "sum",
    "headers": "sum",
    "first_offset": "min",
    "last_offset": "max",
    "first_timestamp": "min",
    "last_timestamp": "max",
}
"""The statistics, each with the function that combines two values. `bytes` counts whole batches, as stored."""

_MS_PER_HOUR = 3_600_000
COLUMNS = ("key", "value", "headers", "timestamp", "magic", "compression")
"""The columns of the rows that `of_records` adds up."""

# An aggregation has a high cost per call and a low cost per row.
_WINDOW, _ROWS = 8 << 20, 1 << 19
# The number of partial sums after which they are combined.
_MAX_WAITING = 256


def profile(segment: Segment) -> pa.Table:
    """Return the sums of a segment by `GROUPS`, with one column per entry of `FACTS`.

    `hour` is the number of hours since 1970, and null without timestamps. Times are in ms. A minimum or maximum is null
    if there are no values.

    Raises:
        CorruptRecordError: the segment is damaged, or the last batch of an older segment is cut.

    >>> from brokerless.log.log import Log
    >>> sums = profile(Log(SAMPLE).segments[0])
    >>> sum(sums["records"].to_pylist())
    102
    """
    waiting: list[pa.Table] = [_EMPTY]
    for sums in _partial(segment):
        waiting.append(sums)
        if len(waiting) > _MAX_WAITING:
            waiting = [combined(waiting)]
    return combined(waiting)


def combined(tables: list[pa.Table]) -> pa.Table:
    """Combine tables of sums into one."""
    return _added(pa.concat_tables(tables, promote_options="default"))


def _added(table: pa.Table) -> pa.Table:
    """Add up the rows of each group, for those `FACTS` that the table has."""
    facts = [name for name in table.column_names if name in FACTS]
    group = {name: _only(table[name]) for name in GROUPS}
    if None in group.values():
        wanted: Any = [(name, FACTS[name]) for name in facts]
        grouped = table.group_by(list(GROUPS)).aggregate(wanted)
        columns = {name: grouped[name] for name in GROUPS} | {name: grouped[f"{name}_{FACTS[name]}"] for name in facts}
    else:
        # A single group is the common case, and this way is many times faster.
        added = {name: getattr(pc, FACTS[name])(table[name]).as_py() for name in facts}
        columns = {name: pa.array([value], table[name].type) for name, value in (group | added).items()}
    return pa.table({name: _filled(name, columns[name]) for name in table.column_names})


def _only(column: Any) -> Any:  # noqa: ANN401 - a value
    """Return the only value of a column; None if it has several, nulls or no values."""
    if column.null_count or not len(column):
        return None
    ends: Any = pc.min_max(column).as_py()
    return ends["min"] if ends["min"] == ends["max"] else None


def _filled(name: str, column: Any) -> Any:  # noqa: ANN401 - an array
    return column.fill_null(0) if FACTS.get(name) == "sum" else column


def _partial(segment: Segment) -> Iterator[pa.Table]:
    """Yield the sums of groups of batches and of their records, in file order."""
    decoder = _native.Decoder(COLUMNS, max_rows=_ROWS, max_bytes=2 * _WINDOW)
    with segment.open() as file, located(segment.path):
        end = segment.extent(file).end_position
        window = Window(file, 0, end, _WINDOW)
        while window.position < end:
            rows, consumed = decoder.decode(window.data, window.position)
            if rows is not None:
                yield of_records(rows)
            if consumed:
                batches, _ = _native.scan(window.data[:consumed], window.position)
                yield of_batches(batches)
                window.advance(consumed)
            elif rows is None and not window.fill(decoder.needed):
                raise cut_batch(window.position, end)


def of_records(rows: pa.RecordBatch) -> pa.Table:
    """Return the sums of rows with the columns `COLUMNS`."""
    key: Any = rows["key"]
    value: Any = rows["value"]
    timestamps = _known(rows["timestamp"].cast(pa.int64()))
    return _sums(
        {
            "hour": pc.divide(timestamps, _MS_PER_HOUR),
            "magic": rows["magic"],
            "compression": rows["compression"],
            "records": _ones(rows),
            "key_bytes": pc.binary_length(key),
            "value_bytes": pc.binary_length(value),
            "null_keys": key.is_null(),
            "tombstones": value.is_null(),
            "headers": pc.list_value_length(rows["headers"]),
            "first_timestamp": timestamps,
            "last_timestamp": timestamps,
        }
    )


def of_batches(batches: pa.RecordBatch) -> pa.Table:
    """Return the sums of batches, given as `_native.scan` returns their headers."""
    is_control = batches["is_control"]
    return _sums(
        {
            "hour": pc.divide(_known(batches["max_timestamp"]), _MS_PER_HOUR),
            "magic": batches["magic"],
            "compression": batches["compression"],
            "batches": _ones(batches),
            "bytes": batches["size"],
            "min_batch_bytes": batches["size"],
            "max_batch_bytes": batches["size"],
            "control_records": pc.if_else(is_control, batches["records_count"], 0),
            "first_offset": batches["base_offset"],
            "last_offset": batches["last_offset"],
        }
    )


def _sums(columns: dict[str, Any]) -> pa.Table:
    return _added(pa.table({name: column.cast(SCHEMA.field(name).type) for name, column in columns.items()}))


def _known(timestamps: Any) -> Any:  # noqa: ANN401 - arrays
    """Replace negative timestamps, which mean "none", by null."""
    return pc.if_else(pc.greater_equal(timestamps, pa.scalar(0)), timestamps, None)


def _ones(rows: pa.RecordBatch) -> Any:  # noqa: ANN401 - an array
    return pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)


_FIELDS: list[pa.Field[Any]] = [
    pa.field("hour", pa.int64()),
    pa.field("magic", pa.int32()),
    pa.field("compression", pa.string()),
]
SCHEMA = pa.schema([*_FIELDS, *(pa.field(name, pa.int64()) for name in FACTS)])
# `SCHEMA.empty_table()` would import pandas, which Spark's workers need not have.
_EMPTY = pa.Table.from_batches([], SCHEMA)
