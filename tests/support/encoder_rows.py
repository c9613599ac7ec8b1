"""Rows for an encoder, and what its batches read back as."""

import pyarrow as pa

from brokerless._native import Decoder, scan

T = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows_of(values, **columns):
    return pa.record_batch({"value": pa.array(values, pa.binary()), **columns})


def table_of(data, columns):
    """Return the rows of whole batches, timestamps as int64 ms."""
    decoder = Decoder(columns)
    parts, position = [], 0
    while position < len(data):
        rows, consumed = decoder.decode(memoryview(data)[position:], position)
        assert consumed, "a batch is cut"
        position += consumed
        parts += [rows] if rows else []
    table = pa.Table.from_batches(parts, decoder.schema).combine_chunks()
    if "timestamp" not in columns:
        return table
    return table.set_column(columns.index("timestamp"), "timestamp", table["timestamp"].cast(pa.int64()))


def decoded(data, columns=("key", "value", "headers", "timestamp")):
    return table_of(data, list(columns)).to_pylist()


def values(data):
    return [row["value"] for row in decoded(data, ["value"])]


def batches(data):
    headers, consumed = scan(data, check_crcs=True)
    assert consumed == len(data)
    assert all(headers["is_valid"].to_pylist())
    return headers.to_pylist()
