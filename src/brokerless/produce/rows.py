"""Rows in every form that a producer accepts: Arrow data or dicts."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping
from numbers import Number
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import pyarrow as pa

from brokerless import _native
from brokerless.arguments import unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.values.row_encoder import RowEncoder

    class ArrowStream(Protocol):
        """Rows of the Arrow PyCapsule protocol: pandas and Polars frames, DuckDB relations, tables and readers."""

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

    class ArrowArray(Protocol):
        """One batch of rows of the Arrow PyCapsule protocol: record batches, struct arrays."""

        def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

    Rows: TypeAlias = ArrowStream | ArrowArray | Iterable[ArrowStream | ArrowArray] | Iterable[Mapping[str, Any]]

# Columns that exports have and reads do not.
_OF_EXPORTS = ("timestampMillis", "path")
# The index column of a pandas frame whose rows were selected from another.
_PANDAS_INDEX = "__index_level_"
# Extension types whose storage is the value itself. Only a type's own library knows what other bytes mean.
_PLAIN_EXTENSIONS = {"arrow.json", "arrow.uuid", "geoarrow.wkb", "geoarrow.wkt", "ogc.wkb"}
# The number of dicts converted to Arrow at a time.
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
# The columns of integers in dicts.
_WHOLE_NUMBERS = ("timestamp", "partition", "offset", "leaderEpoch", "timestampType")
_EXPECTED = (
    "an Arrow table, reader or batch, a pandas or Polars frame, a DuckDB relation, or several of them or of dicts"
)


def batches_of(
    rows: Rows, *, magic: int = 2, keep_offsets: bool = False, encoder: RowEncoder | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield rows in the types that the encoder accepts, after `encoder` has encoded their keys and values.

    All batches have the same types: `key` and `value` binary, `headers` list<struct<key: binary, value: binary>>,
    `timestamp` timestamp[ms, UTC], `partition` int32, and with `keep_offsets` `offset` int64, `leaderEpoch` and
    `timestampType` int32. Only `value` is required.

    Raises:
        TypeError: `rows` is not of a supported type.
        ValueError: a column's name is unknown, its type does not fit, or its memory is damaged; or a row cannot be a
            record of this magic.
    """
    for batch in _arrow(rows, encoder):
        yield from _native.RecordRows(batch, magic=magic, keep_offsets=keep_offsets)


def _arrow(rows: Rows, encoder: RowEncoder | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one or several Arrow objects, or of dicts."""
    if isinstance(rows, Mapping):
        raise TypeError(f"rows: a list is expected, not one dict; give [{rows!r}]")
    if _is_arrow(rows):
        yield from _imported(rows, encoder)
        return
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        raise TypeError(f"rows: {_class_name(rows)} was given; {_EXPECTED} is expected")
    for is_dict, some in itertools.groupby(rows, lambda row: isinstance(row, Mapping)):
        if is_dict:
            while dicts := list(itertools.islice(cast("Iterator[Mapping[str, Any]]", some), _DICTS)):
                yield _from_dicts(dicts if encoder is None else encoder.dicts(dicts))
            continue
        for batch in some:
            if not _is_arrow(batch):
                raise TypeError(f"rows: {_class_name(batch)} is among them; {_EXPECTED} is expected")
            yield from _imported(batch, encoder)


def _class_name(found: object) -> str:
    return f"{type(found).__module__}.{type(found).__qualname__}".removeprefix("builtins.")


def _is_arrow(rows: object) -> bool:
    return hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__")


def _imported(rows: Any, encoder: RowEncoder | None) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - anything with the methods of the protocol
    if isinstance(rows, pa.RecordBatch):
        yield _known(rows, encoder)
        return
    _check_objects(rows)
    batches = _batches(rows)
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, TypeError, ValueError) as error:
            if "non-struct" in str(error):
                raise TypeError(
                    f"rows: {_class_name(rows)} has no columns by name, which rows are ({error}); {_EXPECTED} is "
                    "expected"
                ) from error
            if "struct has non-zero null count" in str(error):
                raise ValueError(f"rows: {_class_name(rows)} has rows that are null: leave them out") from error
            # Where pandas cannot convert a column, the cause comes first and the column last.
            cause = ": ".join(str(part) for part in reversed(error.args))
            raise ValueError(f"rows: {_class_name(rows)} cannot be converted to Arrow: {cause}") from error
        if batch is None:
            return
        yield _known(batch, encoder)


def _batches(rows: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - as above
    if isinstance(rows, (pa.StructArray, pa.ChunkedArray)) and pa.types.is_struct(rows.type) and not rows.null_count:
        # The protocol has no offset for a slice, so it cannot pass one as a batch.
        chunks: list[Any] = rows.chunks if isinstance(rows, pa.ChunkedArray) else [rows]
        yield from map(pa.RecordBatch.from_struct_array, chunks)
    elif hasattr(rows, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(rows)
    else:
        yield pa.record_batch(rows)


def _check_objects(rows: Any) -> None:  # noqa: ANN401 - as above
    """Refuse Polars' Object columns, which Polars passes as fixed-size binary: the objects' memory addresses."""
    if type(rows).__module__.startswith("polars."):
        for name, dtype in getattr(rows, "schema", {}).items():
            if str(dtype) == "Object":
                raise ValueError(
                    f"column {name} has the Polars type Object, and would be sent as addresses in memory: convert it "
                    "to Binary or String first"
                )


def _known(rows: pa.RecordBatch, encoder: RowEncoder | None) -> pa.RecordBatch:
    """Return rows, encoded, whose columns are all known. Refuse an unknown name, because its column would be lost.

    Raises:
        ValueError: a column is unknown, has the same name as another, or has an extension type whose bytes need not be
            the value.
    """
    names = rows.schema.names
    if encoder is not None and len(set(names)) == len(names):
        rows = encoder.batch(_decoded(rows))
        names = rows.schema.names
    for name in names:
        if name not in _native.ROW_COLUMNS and name not in _OF_EXPORTS and not name.startswith(_PANDAS_INDEX):
            raise unknown("column", name, _native.ROW_COLUMNS)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{names.count(twice)} columns are named {twice}: drop or rename all but one")
    for field in rows.schema:
        extension = _extension(field) if field.name in _SCHEMA.names else None
        if extension is not None:
            raise ValueError(
                f"column {field.name} has the extension type {extension}, whose bytes need not be the value: cast it "
                "to binary or string first"
            )
    return _decoded(rows)


def _extension(field: pa.Field[Any]) -> str | None:
    """Return the name of an extension type in a column, at any depth, unless its storage is the value itself."""
    found: Any = field.type
    if isinstance(found, pa.BaseExtensionType):
        name: str | None = found.extension_name
    else:
        # Arrow does not know the type, and shows only its storage.
        name = (field.metadata or {}).get(b"ARROW:extension:name", b"").decode(errors="replace") or None
    if name is not None and name not in _PLAIN_EXTENSIONS:
        return name
    inner = [found.field(number) for number in range(found.num_fields)]
    if pa.types.is_dictionary(found):
        inner.append(pa.field("values", found.value_type))
    return next(filter(None, map(_extension, inner)), None)


def _decoded(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Replace dictionary arrays of numbers, times and lists by their values.

    `RecordRows` accepts dictionaries of bytes unchanged, and refuses all other dictionaries. Arrow does not check the
    value offsets of a dictionary, and would read outside its memory if they are damaged.
    """
    for number, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type) and field.name in _SCHEMA.names and _is_decoded(field.type.value_type):
            column: Any = rows.column(number)
            try:
                rows = rows.set_column(number, field.name, _values(column))
            except (pa.ArrowInvalid, IndexError) as error:
                raise ValueError(f"column {field.name} is damaged: {error}") from error
    return rows


def _is_decoded(values: pa.DataType) -> bool:
    """Return whether `_decoded` replaces dictionaries of a type."""
    types = pa.types
    lists = (types.is_list, types.is_large_list, types.is_list_view, types.is_large_list_view, types.is_map)
    return any(is_kind(values) for is_kind in (*lists, types.is_integer, types.is_timestamp))


def _values(column: Any) -> Any:  # noqa: ANN401 - a dictionary array of any type, and an array of that
    """Return the values of a dictionary array; for lists, views into the dictionary, without a copy."""
    import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

    # `take` detects no damage except indices out of range.
    column.validate()
    values, indices = column.dictionary, column.indices
    if not pa.types.is_nested(values.type):
        return values.take(indices)
    offsets = values.offsets.cast(pa.int64())
    starts = offsets[: len(values)]
    sizes = values.sizes.cast(pa.int64()) if hasattr(values, "sizes") else pc.subtract(offsets[1:], starts)
    # A null list may have a size.
    sizes = pc.if_else(values.is_valid(), sizes, pa.scalar(0, pa.int64()))
    views: Any = pa.LargeListViewArray
    return views.from_arrays(starts.take(indices).fill_null(0), sizes.take(indices).fill_null(0), values.values)


def _from_dicts(rows: list[Mapping[str, Any]]) -> pa.RecordBatch:
    for name in sorted({name for row in rows for name in row} - set(_SCHEMA.names)):
        raise unknown("column", name, _SCHEMA.names)
    if any("value" not in row for row in rows):
        raise ValueError("a row has no value; None is Kafka's null, which deletes its key where logs are compacted")
    rows = [_with_whole_numbers(row) for row in rows]
    try:
        batch = pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(_refused(rows) or f"a row has a value that its column does not take: {error}") from error
    return batch if any("timestamp" in row for row in rows) else batch.drop_columns("timestamp")


def _refused(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return which value of which row its column does not take; "" if each value alone is taken."""
    for number, row in enumerate(rows):
        for name, value in row.items():
            try:
                pa.array([value], _SCHEMA.field(name).type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                is_bytes = pa.types.is_binary(_SCHEMA.field(name).type)
                what = "bytes" if is_bytes else str(_SCHEMA.field(name).type)
                hint = ""
                if is_bytes and isinstance(value, dict | list):
                    hint = ": encode it first, such as json.dumps(value).encode()"
                elif is_bytes:
                    hint = ": encode it first, such as str(value).encode()"
                said = f"row {number}: {name} has a value that its column does not take: it takes {what}"
                return f"{said}, not {type(value).__name__}{hint}" if is_bytes else f"{said}: {error}"
    return ""


def _with_whole_numbers(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse a fractional number, which Arrow would truncate, and convert NumPy scalars."""
    others = {}
    for name in _WHOLE_NUMBERS:
        given = row.get(name)
        # The exact type, not `isinstance`: this runs for every row, and these two are the usual ones.
        if given is None or type(given) is int:
            continue
        kind = getattr(getattr(given, "dtype", None), "kind", None)
        if kind == "M":
            others[name] = given.astype("datetime64[us]").item()
        elif kind == "b" or (isinstance(given, Number) and not hasattr(given, "__index__")):
            raise ValueError(f"a row has {given!r} as its {name}: a whole number is expected")
        elif kind is not None:
            others[name] = operator.index(given)
    return {**row, **others} if others else row


def check_times(rows: pa.RecordBatch, *, before: bool | None) -> bool | None:
    """Refuse rows that keep their offsets if only some have a timestamp, because the others would get the current time.

    Args:
        rows: the next rows.
        before: True if the earlier rows had timestamps, False if they had none; None if there were no earlier rows.

    Returns:
        True if these rows have timestamps; `before` if there are no rows.

    Raises:
        ValueError: only some rows have a timestamp, counting the earlier rows too.
    """
    if not rows.num_rows:
        return before
    has_times = "timestamp" in rows.schema.names
    nulls = rows["timestamp"].null_count if has_times else rows.num_rows * (before is True)
    if nulls:
        raise ValueError(
            f"{nulls} rows that keep their offsets have no timestamp, and would get the current time. Give each row a "
            "timestamp, -1 for none, or leave the column out. Spark reads timestamps beyond its range as null; Python "
            "and the command copy them unchanged"
        )
    if has_times and before is False:
        raise ValueError(
            "rows that keep their offsets have timestamps, but earlier rows had none: give every row a timestamp"
        )
    return has_times


def check_rising(offsets: pa.Array[Any], log: str, *, after: int, hint: str) -> tuple[int, int]:
    """Refuse offsets of one partition that do not rise.

    Args:
        offsets: the offsets of one or more rows, without nulls.
        log: the partition's name.
        after: the last offset of earlier rows; -1 if there were none.
        hint: the remedy, for the error message.

    Returns:
        The first and the last offset.

    Raises:
        ValueError: an offset is not above the previous one.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

    first: int = offsets[0].as_py()
    if first <= after:
        raise ValueError(f"offset {first} of {log} after offset {after}: {hint}")
    if pc.any(pc.less_equal(offsets[1:], offsets[:-1])).as_py():
        raise ValueError(f"offsets of {log} do not rise: {hint}")
    return first, offsets[-1].as_py()
