"""Rows of values to rows of bytes."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless import _native
from brokerless.values.decoding import Decoding
from brokerless.values.forms import REGISTRY
from brokerless.values.resolution import schema_to_write
from brokerless.values.row_decoder import decoded_columns
from brokerless.wording import option

if TYPE_CHECKING:
    from brokerless.schemas.schema import SchemaVersion
    from brokerless.values.encoding import Encoding

# The number of rows that are encoded at a time.
_ROWS = 4096
# The types of Arrow that decoded keys and values have, for the others.
_KNOWN: dict[pa.DataType, pa.DataType] = {
    **dict.fromkeys((pa.large_string(), pa.string_view()), pa.string()),
    **dict.fromkeys((pa.large_binary(), pa.binary_view()), pa.binary()),
    **dict.fromkeys((pa.int8(), pa.int16(), pa.uint8(), pa.uint16()), pa.int32()),
    pa.float16(): pa.float32(),
    pa.time32("s"): pa.time32("ms"),
    pa.duration("s"): pa.duration("ms"),
}


class RowEncoder:
    """Encodes the keys and values in the rows of a topic.

    The rows are as they are decoded. If a key or value is null, and its bytes are in `keyBytes` or `valueBytes`, it has
    these bytes: it was not decoded.

    Args:
        encoding: how to encode, with its schemas.
        topic: the topic.
        new_version: a version of a subject that is written, and that the registry does not have yet.

    Attributes:
        parts: the parts that are encoded.
        new_version: as given.

    Raises:
        ValueError: a schema is not known, or cannot be used.
    """

    def __init__(self, encoding: Encoding, topic: str, *, new_version: SchemaVersion | None = None) -> None:
        self.parts, self.new_version = encoding.parts, new_version
        self._encoders = {part: _encoder(encoding, topic, part) for part in encoding.parts}
        decoded = {part: decoded_columns(Decoding(**{part: REGISTRY})) for part in encoding.parts}  # type: ignore[arg-type]
        self._left_out = {name for names in decoded.values() for name in names}

    def batch(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Encode rows of Arrow's types.

        Raises:
            ValueError: a value does not fit. The message has its row and its place in the row.
        """
        for part, encoder in self._encoders.items():
            if part in rows.schema.names:
                found = rows.select([name for name in (part, f"{part}Bytes") if name in rows.schema.names])
                found, headers = _cast(found), _headers(rows)
                encoded = [
                    encoder.encode(
                        found.slice(at, _ROWS), None if headers is None else headers.slice(at, _ROWS), first_row=at
                    )
                    for at in range(0, max(rows.num_rows, 1), _ROWS)
                ]
                for name in encoded[0].schema.names:
                    rows = _with_column(rows, name, pa.concat_arrays([one[name] for one in encoded]))
        return rows.drop_columns([name for name in rows.schema.names if name in self._left_out])

    def dicts(self, rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Encode rows that are dicts. Dates, times, decimals, UUIDs and bytes may also be those of Python.

        Raises:
            ValueError: as `batch`.
        """
        changed = [{name: value for name, value in row.items() if name not in self._left_out} for row in rows]
        headers = _listed_headers(rows)
        for part, encoder in self._encoders.items():
            texts = [_json(row.get(part), number, part) for number, row in enumerate(rows)]
            field = pa.field(part, pa.string(), metadata={"content-type": "application/json"})
            stored = pa.array([row.get(f"{part}Bytes") for row in rows], pa.binary())
            fields: list[pa.Field[Any]] = [field, pa.field(f"{part}Bytes", pa.binary())]
            schema = pa.schema(fields)
            batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.string()), stored], schema=schema)
            found = encoder.encode(batch, headers)
            headers = _headers(found)
            for row, encoded in zip(changed, found[part].to_pylist(), strict=True):
                if part in row or encoded is not None:
                    row[part] = encoded
        if headers is not None:
            for row, listed in zip(changed, headers.to_pylist(), strict=True):
                row["headers"] = listed
        return list(changed)


def _encoder(encoding: Encoding, topic: str, part: str) -> _native.ValueEncoder:
    form, found = str(encoding.form(part)), schema_to_write(encoding, topic, part)
    if found is None:
        return _native.ValueEncoder(part, form)
    schema, text = found
    return _native.ValueEncoder(
        part,
        form,
        (schema.id, *text),
        message=encoding.message if part == "value" else None,
        guid=uuid.UUID(schema.guid).bytes if encoding.framing == "header" else None,
    )


def _headers(rows: pa.RecordBatch) -> pa.Array[Any] | None:
    """Return the headers of rows; None if they have none."""
    if "headers" not in rows.schema.names or pa.types.is_null(rows.schema.field("headers").type):
        return None
    headers: pa.Array[Any] = rows["headers"]
    return headers


def _listed_headers(rows: list[Mapping[str, Any]]) -> pa.Array[Any] | None:
    """Return the headers of rows that are dicts; None if they have none, or some that will be refused with the rows."""
    if not any(row.get("headers") for row in rows):
        return None
    kind = _native.row_schema(["headers"]).field("headers").type
    try:
        headers: pa.Array[Any] = pa.array([row.get("headers") for row in rows], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return headers


def _with_column(rows: pa.RecordBatch, name: str, column: pa.Array[Any]) -> pa.RecordBatch:
    """Return rows with a new or another column."""
    field = pa.field(name, column.type)
    if name in rows.schema.names:
        return rows.set_column(rows.schema.names.index(name), field, column)
    return rows.append_column(field, column)


def _cast(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows in the types that decoded keys and values have."""
    schema = pa.schema([field.with_type(_known(field.type)) for field in rows.schema])
    try:
        return rows if schema == rows.schema else rows.cast(schema)
    except pa.ArrowException as error:
        raise ValueError(
            f"columns {', '.join(rows.schema.names)} have types without a form in JSON: {error}"
        ) from error


def _known(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    inner: Any = kind
    if kind in _KNOWN:
        return _KNOWN[kind]
    if types.is_dictionary(kind):
        return _known(inner.value_type)
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_timestamp(kind) and inner.unit == "s":
        return pa.timestamp("ms", inner.tz)
    if types.is_struct(kind):
        return pa.struct([one.with_type(_known(one.type)) for one in kind.fields])
    if types.is_map(kind):
        return pa.map_(_known(inner.key_type), inner.item_field.with_type(_known(inner.item_type)))
    lists = (types.is_list, types.is_large_list, types.is_list_view, types.is_large_list_view, types.is_fixed_size_list)
    if any(is_kind(kind) for is_kind in lists):
        return pa.list_(inner.value_field.with_type(_known(inner.value_type)))
    return kind


def _json(value: object, number: int, part: str) -> str | None:
    """Return a value as JSON text; None for null."""
    if value is None:
        return None
    try:
        return json.dumps(value, allow_nan=False, default=_converted)
    except ValueError:
        # JSON has no NaN.
        pass
    except (TypeError, RecursionError) as error:
        raise ValueError(f"row {number}: {part}: {error}") from error
    try:
        return json.dumps(_with_texts(value), allow_nan=False, default=_converted)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"row {number}: {part}: {error}") from error


def _with_texts(value: Any) -> Any:  # noqa: ANN401 - any value
    """Return a value with text for the numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {key: _with_texts(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_texts(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _converted(value: Any) -> Any:  # noqa: ANN401 - any value
    """Return a value of Python in the form that decoded values have in JSON."""
    match value:
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case decimal.Decimal():
            return f"{value:f}"
        case dt.datetime():
            # Without a zone, it is a local timestamp.
            return value.isoformat() if value.tzinfo is None else value.astimezone(dt.UTC).isoformat()
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            micros = value // dt.timedelta(microseconds=1)
            return f"{'-' if micros < 0 else ''}{abs(micros) // 10**6}.{abs(micros) % 10**6:06}s"
        case uuid.UUID():
            return str(value)
        case Mapping():
            return dict(value)
    if hasattr(value, "tolist"):
        # of NumPy
        return _with_texts(value.tolist())
    raise TypeError(f"{type(value).__qualname__} has no form in JSON: see {option('encode')}")
