"""The types of the tables, and their values as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa

TIME: pa.DataType = pa.timestamp("ms", tz="UTC")


def schema(**types: pa.DataType) -> pa.Schema:
    """Return a schema with these columns."""
    return pa.schema(list(types.items()))


def structs(**types: pa.DataType) -> pa.DataType:
    """Return the type of a list of structs with these fields."""
    return pa.list_(pa.struct(list(types.items())))


def json_text(value: object) -> str:
    """Return a value as JSON. As in Kafka's JSON, infinite numbers and NaN are text with Java's names."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), separators=(",", ":"), ensure_ascii=False)


def finite(value: Any) -> Any:  # noqa: ANN401 - a value of any type
    """Return the value, with infinite numbers and NaN replaced by Java's names for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    return [finite(part) for part in value] if isinstance(value, list) else value
