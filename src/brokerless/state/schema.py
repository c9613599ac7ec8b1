"""The types of the tables."""

from __future__ import annotations

import pyarrow as pa

TIME: pa.DataType = pa.timestamp("ms", tz="UTC")


def schema(**types: pa.DataType) -> pa.Schema:
    """Return a schema with these columns."""
    return pa.schema(list(types.items()))


def structs(**types: pa.DataType) -> pa.DataType:
    """Return the type of a list of structs with these fields."""
    return pa.list_(pa.struct(list(types.items())))
