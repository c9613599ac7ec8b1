"""The columns that rows come in: any Arrow type that holds what a record does; others are refused by name."""

import pyarrow as pa
import pytest

from brokerless._native import Encoder, partition_for_keys
from encoding import HEADERS, T, decoded, rows_of


@pytest.mark.parametrize(
    "type_",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view()],
    ids=str,
)
def test_keys_and_values_of_every_width(type_):
    wanted = ["a", None, "", "b" * 300, "c" * 12, "d" * 13]
    column = pa.array(["left out", *wanted, "left out"], type_).slice(1, 6)
    rows = pa.record_batch({"value": column, "key": pa.array(wanted[::-1], type_)})
    as_bytes = [None if text is None else text.encode() for text in wanted]
    found = decoded(Encoder().encode(rows, timestamp=T))
    assert [row["value"] for row in found] == as_bytes
    assert [row["key"] for row in found] == as_bytes[::-1]


@pytest.mark.parametrize("list_", [pa.list_, pa.large_list])
@pytest.mark.parametrize(("key", "value"), [(pa.string(), pa.binary()), (pa.large_string(), pa.string())], ids=str)
def test_headers_of_every_width(list_, key, value):
    wanted = [[{"key": "é", "value": "x"}, {"key": "é", "value": None}], [], [{"key": "", "value": ""}]]
    type_ = list_(pa.struct([("value", value), ("key", key)]))
    column = pa.array([[{"key": "left out", "value": "x"}], *wanted, None], type_).slice(1)
    found = decoded(Encoder().encode(rows_of([b"x"] * 4, headers=column), timestamp=T), ["headers"])
    as_bytes = [[h | {"value": h["value"] and h["value"].encode()} for h in headers] for headers in [*wanted, []]]
    as_bytes[2] = [{"key": "", "value": b""}]
    assert [row["headers"] for row in found] == as_bytes


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([T, None]), [T, 7]),
        (pa.array([-1, 0]), [-1, 0]),
        (pa.array([T, None], pa.timestamp("ms")), [T, 7]),
        (pa.array([T * 1000 + 999, None], pa.timestamp("us", "UTC")), [T, 7]),
        (pa.array([-1000, 0], pa.timestamp("us", "UTC")), [-1, 0]),
        (pa.array([T * 10**6 + 999_999, None], pa.timestamp("ns", "Europe/Berlin")), [T, 7]),
        (pa.array([T // 1000, None], pa.timestamp("s")), [T, 7]),
        (pa.array([None, None]), [7, 7]),
    ],
    ids=str,
)
def test_timestamps_of_every_unit(column, expected):
    found = decoded(Encoder().encode(rows_of([b"x"] * 2, timestamp=column), timestamp=7))
    assert [row["timestamp"] for row in found] == expected


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": pa.array([1])}, "column value is Int64; binary or string is wanted"),
        ({"key": pa.array([b"x"])}, "there is no column value"),
        (
            {"value": pa.array([b"x"]), "timestamp": pa.array(["now"])},
            "column timestamp is Utf8; timestamp or int64 of",
        ),
        ({"value": pa.array([b"x"]), "headers": pa.array([b"x"])}, "column headers is Binary; list<struct<key: string"),
        ({"value": pa.array([b"x"]), "headers": pa.array([[b"x"]])}, "column headers is List"),
        (
            {"value": pa.array([b"x"]), "headers": pa.array([[{"key": None, "value": b""}]], HEADERS)},
            "row 0: a header's key is null",
        ),
        ({"value": pa.array([b"x"]), "headers": pa.array([[None]], HEADERS)}, "row 0: a header is null"),
        (
            {"value": pa.array([b"x"]), "timestamp": pa.array([-1], pa.timestamp("us"))},
            "row 0: timestamp -0.001 ms is before 1970",
        ),
        (
            {"value": pa.array([b"x"]), "timestamp": pa.array([2**62], pa.timestamp("s"))},
            "row 0: timestamp of 4611686018427387904 seconds overflows",
        ),
    ],
)
def test_a_column_that_does_not_fit_is_named(columns, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Encoder().encode(pa.record_batch(columns), timestamp=T)


def test_headers_in_an_old_format_are_refused_with_their_row():
    headers = pa.array([[], [{"key": "h", "value": b""}]], HEADERS)
    with pytest.raises(ValueError, match=r"^row 1: 1 headers in magic 1; only magic 2 has headers$"):
        Encoder(magic=1).encode(rows_of([b"x"] * 2, headers=headers), timestamp=T)


@pytest.mark.parametrize("type_", [pa.binary(), pa.string(), pa.large_binary(), pa.string_view()], ids=str)
def test_keys_go_where_kafkas_producers_send_them(type_):
    # The hashes of Kafka's UtilsTest, made positive by dropping the sign bit.
    hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
    keys = pa.array([*hashes, None], type_)
    found = partition_for_keys(keys, 13)
    assert found.type == pa.int32()
    assert found.to_pylist() == [*((h & 0x7FFFFFFF) % 13 for h in hashes.values()), -1]
    with pytest.raises(ValueError, match="partitions 0; there must be at least one"):
        partition_for_keys(keys, 0)
    with pytest.raises(ValueError, match="column key is Int64"):
        partition_for_keys(pa.array([1]), 3)
