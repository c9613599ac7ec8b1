"""Records of the topics that Kafka keeps its own state in, decoded by the schemas of its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from brokerless import _native
from brokerless.errors import UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator


def decoded_records(topic: str, rows: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield parts of the rows, each with what `_native.state_records` decodes from it.

    A part whose JSON does not fit into a column is halved. A single record that does not fit is not understood.
    """
    try:
        yield rows, _native.state_records(topic, rows["key"], rows["value"])
    except UnsupportedFormatError as error:
        if rows.num_rows > 1:
            half = rows.num_rows // 2
            yield from decoded_records(topic, rows.slice(0, half))
            yield from decoded_records(topic, rows.slice(half))
        else:
            nothing = _native.state_records(topic, pa.nulls(1, pa.binary()), pa.nulls(1, pa.binary()))
            why = pa.array([error.args[0]], pa.string())
            yield rows, nothing.set_column(nothing.schema.get_field_index("unknown"), "unknown", why)
