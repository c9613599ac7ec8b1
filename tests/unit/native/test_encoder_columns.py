"""The columns that rows come in: any Arrow type that holds what a record does; others are refused by name."""

import struct

import pyarrow as pa
import pytest

from brokerless._native import Encoder, Partitioner
from support.encoder_rows import HEADERS, T, decoded, rows_of


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
        ({"value": pa.array([1])}, "column value has type int64, expected binary or string"),
        ({"key": pa.array([b"x"])}, "there is no column value"),
        (
            {"value": pa.array([b"x"]), "timestamp": pa.array(["now"])},
            "column timestamp has type string, expected timestamp or int64 of",
        ),
        (
            {"value": pa.array([b"x"]), "headers": pa.array([b"x"])},
            "column headers has type binary, expected list<struct<key: string",
        ),
        (
            {"value": pa.array([b"x"]), "headers": pa.array([[b"x"]])},
            "column headers has type list<item: binary>, expected list<struct",
        ),
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


def stream_of(rows):
    """The bytes of an Arrow stream: what stands in its buffers, readers believe."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return bytearray(sink.getvalue())


@pytest.mark.parametrize(
    ("type_", "damage"),
    [
        (pa.binary(), struct.pack("<4i", 0, 20, 40, 99)),
        (pa.string(), struct.pack("<4i", 0, 40, 20, 60)),
        (pa.binary(), struct.pack("<4i", -20, 20, 40, 60)),
        (pa.large_binary(), struct.pack("<4q", 0, 20, 40, 2**62)),
        (pa.large_string(), struct.pack("<4q", -(2**63), 20, 40, 60)),
        (pa.binary_view(), struct.pack("<4i", 99, 0, 7, 0)),
        (pa.string_view(), struct.pack("<4i", 99, 0, 0, 2**31 - 1)),
        (pa.binary_view(), struct.pack("<4i", -1, 0, 0, 0)),
    ],
    ids=str,
)
def test_places_outside_of_an_arrays_memory_are_refused(type_, damage):
    rows = pa.record_batch({"value": pa.array([20 * "a", 20 * "b", 20 * "c"], type_)})
    stream = stream_of(rows)
    places = rows["value"].buffers()[1].to_pybytes()[: len(damage)]
    at = stream.index(places)
    stream[at : at + len(damage)] = damage
    found = pa.ipc.open_stream(stream).read_next_batch()
    with pytest.raises(ValueError, match=r"^row \d: column value is damaged: a value is outside its memory"):
        Encoder().encode(found, timestamp=T)
    with pytest.raises(ValueError, match=r"^column key is damaged: a value is outside its memory"):
        Partitioner("t", [0, 1], 1, 0).choose(None, found["value"], 3, 1)


@pytest.mark.parametrize("claim", [2, 9, -1])
def test_a_claimed_number_of_nulls_makes_no_nulls(claim):
    """Kafka's null deletes a key: the bitmap decides, never what a file says of it."""
    values = [b"a", None, b"c", None, b"e", b"f", b"g", None, b"i"]
    stream = stream_of(pa.record_batch({"value": pa.array(values)}))
    node = struct.pack("<2q", 9, 3)
    assert stream.count(node) == 1
    found = pa.ipc.open_stream(stream.replace(node, struct.pack("<2q", 9, claim))).read_next_batch()
    assert [row["value"] for row in decoded(Encoder().encode(found, timestamp=T))] == values


def test_nulls_that_no_bitmap_names_are_refused():
    stream = stream_of(pa.record_batch({"value": pa.array([b"abc"] * 9)}))
    found = pa.ipc.open_stream(stream.replace(struct.pack("<2q", 9, 0), struct.pack("<2q", 9, 2))).read_next_batch()
    with pytest.raises(ValueError, match=r"^an array of binary is damaged: a buffer ends after 0 values, not 9"):
        Encoder().encode(found, timestamp=T)


def test_lists_that_claim_headers_that_are_not_there_are_refused():
    offsets = pa.py_buffer(struct.pack("<4i", 0, 0, 5, 0))
    headers = pa.Array.from_buffers(HEADERS, 3, [None, offsets], children=[pa.array([], HEADERS.value_type)])
    with pytest.raises(ValueError, match=r"^row 1: a header's key is null"):
        Encoder().encode(rows_of([b"x"] * 3, headers=headers), timestamp=T)


@pytest.mark.parametrize(
    "wrong", [None, [], pa.table({"value": [b"x"]}), pa.array([b"x"])], ids=lambda wrong: type(wrong).__name__
)
def test_what_is_no_record_batch_is_a_type_error(wrong):
    with pytest.raises(TypeError, match=r"^expected a pyarrow\.RecordBatch, found "):
        Encoder().encode(wrong, timestamp=T)


@pytest.mark.parametrize("wrong", [[], pa.table({"key": [b"x"]})], ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_array_is_a_type_error(wrong):
    with pytest.raises(TypeError, match=r"^expected a pyarrow\.Array, found "):
        Partitioner("t", [0], 1, 0).choose(None, wrong, 1, 1)


class Oddly(pa.ExtensionType):
    """An extension type may call itself anything."""

    def __init__(self):
        super().__init__(pa.binary(), "oddly")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()

    def __str__(self):
        return "int64"


def test_extension_types_are_what_they_are_stored_as():
    column = pa.ExtensionArray.from_storage(Oddly(), pa.array([b"x", None]))
    found = decoded(Encoder().encode(pa.record_batch({"value": column}), timestamp=T))
    assert [row["value"] for row in found] == [b"x", None]


@pytest.mark.parametrize("byte", [0x00, 0x7F, 0xFF])
def test_any_damage_to_what_arrays_are_read_from_is_a_value_or_an_error(byte):
    headers = [[{"key": "k", "value": b"x" * 14}, {"key": "", "value": None}], None, []]
    columns = {
        "key": pa.array([b"k", None, b""]),
        "value": pa.array(["v" * 13, "", None], pa.string_view()),
        "headers": pa.array(headers, HEADERS),
        "timestamp": pa.array([T, None, T + 1]),
    }
    whole = stream_of(pa.record_batch(columns))
    encoded = 0
    for at in range(len(whole)):
        stream = whole.copy()
        stream[at] = byte
        try:
            rows = pa.ipc.open_stream(stream).read_next_batch()
            encoded += Encoder().encode(rows, timestamp=T).size > 0
        except (ValueError, KeyError, OSError, NotImplementedError, StopIteration):
            pass
    assert encoded > len(whole) / 4


def test_headers_in_an_old_format_are_refused_with_their_row():
    headers = pa.array([[], [{"key": "h", "value": b""}]], HEADERS)
    with pytest.raises(ValueError, match=r"^row 1: 1 headers in magic 1; only magic 2 has headers$"):
        Encoder(magic=1).encode(rows_of([b"x"] * 2, headers=headers), timestamp=T)


@pytest.mark.parametrize("type_", [pa.binary(), pa.string(), pa.large_binary(), pa.string_view()], ids=str)
def test_keys_go_where_kafkas_producers_send_them(type_):
    # The hashes of Kafka's UtilsTest, made positive by dropping the sign bit.
    hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
    keys = pa.array([*hashes, None], type_)
    found = Partitioner("t", range(13), 100, 0).choose(None, keys, 5, 1)
    assert found.type == pa.int32()
    assert found.to_pylist()[:4] == [(h & 0x7FFFFFFF) % 13 for h in hashes.values()]
    assert 0 <= found.to_pylist()[4] < 13
    with pytest.raises(ValueError, match="topic 't' has no partition here"):
        Partitioner("t", [], 100, 0)
    with pytest.raises(ValueError, match="column key has type int64"):
        Partitioner("t", [0], 100, 0).choose(None, pa.array([1]), 1, 1)
    with pytest.raises(ValueError, match="column partition has type int64"):
        Partitioner("t", [0], 100, 0).check(pa.array([0]), None)
