"""Spark's types for those of Arrow, and columns in them.

A type that Spark lacks has the form that `from_avro` gives it in Spark 4.1, and `from_protobuf` with its option
`upcast.unsigned.ints`. Decimals of more than 38 digits, which neither of them reads, are text.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# The last time that Spark can hold.
_MAX_MS = (1 << 63) // 1000 - 1


def spark_type(kind: pa.DataType) -> pa.DataType:
    """Return Spark's type for an Arrow type.

    >>> spark_type(pa.struct([("at", pa.timestamp("ms", "UTC")), ("count", pa.uint32())]))
    StructType(struct<at: timestamp[us, tz=UTC], count: int64>)
    """
    if isinstance(kind, pa.TimestampType):
        # Of nanoseconds, all digits are kept.
        return pa.int64() if kind.unit == "ns" else pa.timestamp("us", kind.tz)
    if isinstance(kind, pa.ListType):
        return pa.list_(spark_type(kind.value_type))
    if isinstance(kind, pa.MapType):
        return pa.map_(spark_type(kind.key_type), spark_type(kind.item_type))
    if isinstance(kind, pa.StructType):
        return pa.struct([(field.name, spark_type(field.type)) for field in kind.fields])
    if isinstance(kind, pa.Decimal256Type):
        return pa.string()
    return _NUMBERS.get(kind, kind)


_NUMBERS: dict[pa.DataType, pa.DataType] = {
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.time32("ms"): pa.int32(),
    pa.time64("us"): pa.int64(),
}


def spark_column(column: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return a column in Spark's type; a time beyond the range of that type becomes null."""
    made: pa.Array[Any]
    if column.offset:
        # Arrow makes no list or map with nulls from the offsets of a slice.
        column = pa.concat_arrays([column, column.slice(0, 0)])
    if column.type == kind:
        made = column
    elif isinstance(kind, pa.TimestampType):
        ms = column.cast(pa.int64())
        fits = pc.and_(pc.less_equal(ms, pa.scalar(_MAX_MS)), pc.greater_equal(ms, pa.scalar(-_MAX_MS)))
        made = pc.multiply(pc.if_else(fits, ms, pa.scalar(None, pa.int64())), pa.scalar(1000)).cast(kind)
    elif isinstance(column, pa.MapArray) and isinstance(kind, pa.MapType):
        keys, items = spark_column(column.keys, kind.key_type), spark_column(column.items, kind.item_type)
        # The stubs know no type beside keys and items.
        made = pa.MapArray.from_arrays(column.offsets, keys, items, type=kind, mask=column.is_null())  # type: ignore[call-overload]
    elif isinstance(column, pa.ListArray) and isinstance(kind, pa.ListType):
        values = spark_column(column.values, kind.value_type)
        made = pa.ListArray.from_arrays(column.offsets, values, type=kind, mask=column.is_null())
    elif isinstance(column, pa.StructArray) and isinstance(kind, pa.StructType):
        fields = [spark_column(column.field(place), field.type) for place, field in enumerate(kind.fields)]
        made = pa.StructArray.from_arrays(fields, fields=kind.fields, mask=column.is_null())
    elif isinstance(column.type, pa.Decimal256Type):
        # Arrow's own text of a small number has an exponent.
        made = pa.array([None if one is None else f"{one:f}" for one in column.to_pylist()], kind)
    else:
        made = column.cast(kind)
    return made


def spark_rows(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a schema that has Spark's types."""
    return pa.RecordBatch.from_arrays([spark_column(rows[field.name], field.type) for field in schema], schema=schema)
