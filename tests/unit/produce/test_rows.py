"""Rows that `send` takes arrive at close. What cannot arrive is refused at once, and costs no row sent before."""

import datetime as dt
import itertools
import random
import struct
import time
import uuid

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import brokerless as bl
from support.sent_records import rows, values

T = 1_700_000_000_000
AT = dt.datetime.fromtimestamp(T / 1000, dt.UTC)
TIMES = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Etc/UTC", "+00:00")]
TYPES = [
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(1),
]
TYPES += [pa.dictionary(pa.int8(), type_) for type_ in TYPES]
HEADER = pa.struct({"key": pa.string(), "value": pa.binary()})
VIEWED = pa.struct({"value": pa.dictionary(pa.uint16(), pa.binary()), "key": pa.string_view()})
HEADERS = [pa.list_(HEADER), pa.large_list(VIEWED), pa.list_view(HEADER), pa.large_list_view(VIEWED)]
HEADERS += [pa.map_(pa.string(), pa.binary())]


def column_of(column, type_):
    if pa.types.is_dictionary(type_):
        return pa.DictionaryArray.from_arrays(
            pa.array([0] * len(column), type_.index_type), column[:1].cast(type_.value_type)
        )
    return column.cast(type_)


def test_times_of_all_units_and_zones_wait_together(tmp_path):
    """Arrow cannot put two of them into one column: what waited was dropped when the producer was closed."""
    tables = [
        pa.table({"value": [b"v"], "timestamp": pa.array([AT]).cast(type_)}) for type_ in (*TIMES, pa.int64())[:-1]
    ]
    tables.append(pa.table({"value": [b"v"], "timestamp": [T]}))
    with bl.Producer(tmp_path, "t") as producer:
        for pair in itertools.permutations(tables, 2):
            producer.send(pair)
    found = rows(tmp_path, columns=["timestamp"])
    assert [row["timestamp"] for row in found] == [AT] * len(tables) * (len(tables) - 1) * 2


@pytest.mark.parametrize("name", ["key", "value"])
def test_bytes_of_all_types_wait_together(tmp_path, name):
    other = {"value": [b"v"]} if name == "key" else {}
    tables = [pa.table({name: column_of(pa.array(["a"]), type_), **other}) for type_ in TYPES]
    with bl.Producer(tmp_path, "t") as producer:
        for pair in itertools.permutations(tables, 2):
            producer.send(pair)
    assert [row[name] for row in rows(tmp_path)] == [b"a"] * len(tables) * (len(tables) - 1) * 2


def test_headers_of_all_types_wait_together(tmp_path):
    wanted = [[("h", b"1"), ("h", None), ("é", b"")], [], None, [("k", b"2")]]
    expected = [[{"key": key, "value": value} for key, value in of_row or []] for of_row in wanted]
    with bl.Producer(tmp_path, "t") as producer:
        for type_ in HEADERS:
            given = (
                wanted
                if pa.types.is_map(type_)
                else [of and [dict(zip(("key", "value"), h, strict=True)) for h in of] for of in wanted]
            )
            plain = pa.array(given[1:], HEADERS[0] if not pa.types.is_map(type_) else type_)
            producer.send(pa.table({"value": [b"v"] * 3, "headers": plain}))
            producer.send(pa.table({"value": [b"v"] * 3, "headers": headers_of(given, type_).slice(1)}))
    assert [row["headers"] for row in rows(tmp_path)] == expected[1:] * 2 * len(HEADERS)


def headers_in(type_):
    headers = [None, [("k", b"2")], [("h", b"1"), ("i", b"3")]]
    dicts = [of_row and [dict(zip(("key", "value"), header, strict=True)) for header in of_row] for of_row in headers]
    return pa.array(headers if pa.types.is_map(type_) else dicts, type_).slice(1)


@pytest.mark.parametrize("type_", [HEADERS[0], HEADERS[2], HEADERS[4]], ids=str)
def test_dictionaries_of_all_columns_arrive_as_what_they_stand_for(tmp_path, type_):
    indices = pa.array([9, 1, 0, None, 1], pa.uint8())
    times = pa.DictionaryArray.from_arrays(indices, pa.array([AT, None], pa.timestamp("ns", "UTC")), safe=False)
    numbers = pa.DictionaryArray.from_arrays(indices, pa.array([1, 0], pa.int16()), safe=False)
    headers = pa.DictionaryArray.from_arrays(indices, headers_in(type_), safe=False)
    table = pa.table({"value": list("01234"), "timestamp": times, "partition": numbers}).slice(1)
    table = table.append_column("headers", headers.slice(1))
    with bl.Producer(tmp_path, "t", partitions=2) as producer:
        producer.send(table)
        producer.send(pd.DataFrame({"value": ["5"], "timestamp": pd.Series([AT], dtype="category"), "partition": 0}))
        for name, damaged in (("timestamp", times), ("partition", numbers), ("headers", headers)):
            with pytest.raises(ValueError, match=f"column {name} is damaged"):
                producer.send(pa.table({"value": ["v"] * 5, name: damaged}))
    found = {row["value"]: row for row in rows(tmp_path, columns=["value", "timestamp", "partition", "headers"])}
    both = [{"key": "h", "value": b"1"}, {"key": "i", "value": b"3"}]
    assert [found[b"%d" % row]["headers"] for row in range(1, 6)] == [both, [{"key": "k", "value": b"2"}], [], both, []]
    assert [found[b"%d" % row]["timestamp"] == AT for row in range(1, 6)] == [False, True, False, False, True]
    assert [found[b"%d" % row]["partition"] for row in (1, 2, 4)] == [0, 1, 0]


def test_extension_types_whose_storage_is_the_value_arrive(tmp_path):
    key = uuid.uuid4()
    table = pa.table(
        {
            "key": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([key.bytes], pa.binary(16))),
            "value": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}"])),
        }
    )
    with bl.Producer(tmp_path, "t") as producer:
        producer.send(table)
    assert [(row["key"], row["value"]) for row in rows(tmp_path)] == [(key.bytes, b"{}")]


def headers_of(given, type_):
    """Arrow makes no array of a dictionary in a list of its own."""
    if pa.types.is_map(type_) or type_.value_type != VIEWED:
        return pa.array(given, type_)
    flat = [header for of_row in given for header in of_row or []]
    key = pa.array([header["key"] for header in flat], pa.string_view())
    value = pa.array([header["value"] for header in flat], pa.binary()).dictionary_encode().cast(VIEWED[0].type)
    entries = pa.StructArray.from_arrays([value, key], fields=list(VIEWED))
    sizes = [len(of_row or []) for of_row in given]
    starts = [sum(sizes[:row]) for row in range(len(given) + 1)]
    mask = pa.array([of_row is None for of_row in given])
    if type_ == HEADERS[1]:
        return pa.LargeListArray.from_arrays(pa.array(starts, pa.int64()), entries, mask=mask)
    return pa.LargeListViewArray.from_arrays(
        pa.array(starts[:-1], pa.int64()), pa.array(sizes, pa.int64()), entries, mask=mask
    )


def test_numbers_of_all_widths_wait_together(tmp_path):
    integers = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    with bl.Producer(tmp_path, "t", partitions=2) as producer:
        for type_ in [*integers, pa.null()]:
            producer.send(pa.table({"key": [b"k"], "value": [b"v"], "partition": pa.array([None], type_)}))
            if type_ != pa.null():
                producer.send(pa.table({"value": [b"v"], "partition": pa.array([1], type_)}))
    assert len(rows(tmp_path)) == 2 * len(integers) + 1


HEADER_ROWS = [[{"key": "h", "value": b"1"}], []]
FRAMES = {
    "polars": lambda: pl.DataFrame(
        {"key": ["k", None], "value": [b"1", b"2"], "headers": HEADER_ROWS, "timestamp": [AT] * 2}
    ),
    "polars categories": lambda: pl.DataFrame(
        {
            "key": pl.Series(["k", None], dtype=pl.Enum(["other", "k"])),
            "value": pl.Series(["1", "2"], dtype=pl.Categorical),
            "headers": HEADER_ROWS,
            "timestamp": [AT] * 2,
        }
    ),
    "pandas": lambda: pd.DataFrame(
        {"key": ["k", None], "value": [b"1", b"2"], "headers": HEADER_ROWS, "timestamp": [AT] * 2}
    ),
    "pandas categories": lambda: pd.DataFrame(
        {
            "key": pd.Series(["k", None], dtype="category"),
            "value": pd.Series(["1", "2"], dtype="category"),
            "headers": HEADER_ROWS,
            "timestamp": pd.Series([AT] * 2).dt.as_unit("ns"),
        }
    ).set_axis([7, 3]),
    "duckdb": lambda: duckdb.sql(
        f"select to_timestamp({T} / 1000) as timestamp, unnest(['k', null]) as key,"
        " unnest(['1'::blob, '2'::blob]) as value,"
        " unnest([[{'key': 'h', 'value': '1'::blob}], []]) as headers"
    ),
    "duckdb categories": lambda: duckdb.sql(
        f"select to_timestamp({T} / 1000) as timestamp, unnest(['k', null])::enum('k') as key,"
        " unnest(['1', '2']) as value,"
        " unnest([map {'h': '1'::blob}, map {}]) as headers"
    ),
}


def as_stored():
    return [
        {"key": key, "value": value, "headers": headers, "timestamp": AT}
        for key, value, headers in ((b"k", b"1", HEADER_ROWS[0]), (None, b"2", []))
    ]


@pytest.mark.parametrize("name", FRAMES)
def test_frames_of_other_libraries_arrive(tmp_path, name):
    frame = FRAMES[name]()
    with bl.Producer(tmp_path, "t") as producer:
        producer.send(frame)
        producer.send([FRAMES[name](), pa.table(frame) if not hasattr(frame, "to_arrow_table") else frame])
    columns = ["key", "value", "headers", "timestamp"]
    assert rows(tmp_path, columns=columns) == as_stored() * 3


def test_arrow_in_any_form_arrives_with_dicts_between(tmp_path):
    table = pa.table({"value": [b"1", b"2"]})
    batch = table.to_batches()[0]
    struct_array = pa.array([{"value": b"1"}, {"value": b"2"}])
    forms = [
        table,
        batch,
        pa.RecordBatchReader.from_batches(table.schema, [batch]),
        struct_array,
        pa.array([{"value": b"0"}, {"value": b"1"}, {"value": b"2"}])[1:],
        pa.chunked_array([struct_array[:1], struct_array[1:]]),
        [table, batch],
        iter([batch]),
    ]
    mixed = [{"value": b"1"}, {"value": b"2"}, batch, {"value": b"1"}, {"value": b"2"}]
    with bl.Producer(tmp_path, "t") as producer:
        for form in [*forms, mixed]:
            producer.send(form)
    assert values(tmp_path) == [b"1", b"2"] * (len(forms) + 1 + 3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (pl.Series([b"x"]), "polars.series.series.Series has no columns by name, which rows are"),
        (
            pl.LazyFrame({"value": [b"x"]}),
            "polars.lazyframe.frame.LazyFrame was given; an Arrow table, reader or batch, a",
        ),
        (pa.array([b"x"]), "pyarrow.lib.BinaryArray has no columns by name, which rows are"),
        ("rows", "str was given; "),
        (5, "int was given; "),
        ([b"x"], "bytes is among them; "),
        ([("k", b"x")], "tuple is among them; "),
    ],
    ids=str,
)
def test_what_are_no_rows_is_refused_by_its_class(tmp_path, wrong, message):
    with bl.Producer(tmp_path, "t") as producer, pytest.raises(TypeError, match=f"rows: {message}"):
        producer.send(wrong)


class Address(pa.ExtensionType):
    """A type of somebody's own."""

    def __init__(self):
        super().__init__(pa.binary(8), "somebodys.address")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


ADDRESSES = pa.ExtensionArray.from_storage(Address(), pa.array([b"12345678"], pa.binary(8)))
OPAQUE = pa.field("key", pa.binary(), metadata={b"ARROW:extension:name": b"vendors.point"})
DATE = pa.array([dt.date(2024, 1, 1)])
REFUSED = [
    (pa.table({"value": [1]}), {}, "column value has type int64, expected binary or string: cast it first"),
    (
        pa.table({"value": pa.array([1]).dictionary_encode()}),
        {},
        "column value has type int64, expected binary or string: cast",
    ),
    (pl.DataFrame({"value": [1.5]}), {}, "column value has type double, expected binary or string: cast it first"),
    (
        pl.DataFrame({"key": ["k"], "value": pl.Series([object()], dtype=pl.Object)}),
        {},
        "column value has the Polars type Object, and would be sent as addresses in memory: convert it to Binary",
    ),
    (
        pa.table({"value": ADDRESSES}),
        {},
        "column value has the extension type somebodys.address, whose bytes need not be the value: cast it to binary",
    ),
    (
        pa.table([["k"], ["v"]], schema=pa.schema([OPAQUE, pa.field("value", pa.string())])),
        {},
        "column key has the extension type vendors.point",
    ),
    (
        pa.table(
            {"value": ["v"], "headers": pa.array([[]], pa.list_(pa.struct([OPAQUE, pa.field("value", OPAQUE.type)])))}
        ),
        {},
        "column headers has the extension type vendors.point",
    ),
    (
        pd.DataFrame({"value": [b"x", 5]}),
        {},
        "rows: pandas.* cannot be converted to Arrow: Conversion failed for column value .*: Expected bytes",
    ),
    (pd.DataFrame([["a", "b"]], columns=["value", "value"]), {}, r"Duplicate column names found: \['value', 'value'\]"),
    (pa.table([["a"], ["b"]], names=["value", "value"]), {}, "2 columns are named value: drop or rename all but one"),
    (pl.DataFrame({"a": ["x"]}), {}, "unknown column 'a'"),
    (pl.DataFrame({"key": ["x"]}), {}, "there is no column value"),
    (
        pa.table({"value": ["x"], "timestamp": DATE}),
        {},
        r"column timestamp has type date32\[day\], expected timestamp or int64 of",
    ),
    (
        pa.table({"value": ["x"], "timestamp": ["now"]}),
        {},
        "column timestamp has type string, expected timestamp or int64 of",
    ),
    (pa.table({"value": ["x"], "timestamp": [-2]}), {}, "row 0: timestamp -2 is below -1"),
    (pa.table({"value": ["x"], "timestamp": pa.array([-1], pa.timestamp("us"))}), {}, "row 0: timestamp -0.001 ms is"),
    (
        pa.table({"value": ["x"], "partition": ["0"]}),
        {},
        "column partition has type string, expected an integer: cast it",
    ),
    (pa.table({"value": ["x"], "partition": [1]}), {}, "topic 't' has no partition 1"),
    (pa.table({"value": ["x"], "partition": [-1]}), {}, "row 0: partition is -1, but must be from 0 to 2147483647"),
    (
        pa.table({"value": ["x"], "headers": ["h"]}),
        {},
        "column headers has type string, expected list<struct<key: string, value",
    ),
    (pa.table({"value": ["x"], "headers": [[{"key": None, "value": "v"}]]}), {}, "row 0: a header's key is null"),
    (pa.table({"value": ["x"], "headers": [[None, {"key": "h", "value": ""}]]}), {}, "row 0: a header is null"),
    (
        pa.table({"value": ["x"], "headers": [[{"key": "h", "value": "v"}]]}),
        {"magic": 1},
        "row 0: 1 headers in magic 1",
    ),
    (pa.table({"value": ["x"]}), {"keep_offsets": True}, "there is no column offset, which must be kept"),
    (pa.table({"value": ["x"], "offset": [-7]}), {"keep_offsets": True}, "row 0: offset is -7, but must be from 0 to "),
    (
        pa.table({"value": ["x"], "offset": pa.array([None], pa.int64())}),
        {"keep_offsets": True},
        "row 0: offset is null",
    ),
    (pa.table({"value": ["x"], "offset": pa.array([None])}), {"keep_offsets": True}, "row 0: offset is null"),
    (
        pa.table({"value": ["x"], "offset": [1]}),
        {"keep_offsets": True},
        "offset 1 of t-0 after offset 5: sort the rows",
    ),
    (
        pa.table({"value": ["x"] * 2, "offset": [9, 9]}),
        {"keep_offsets": True},
        "offsets of t-0 do not rise: sort the rows",
    ),
    (
        pa.table({"value": ["x"], "offset": [9], "timestampType": [7]}),
        {"keep_offsets": True},
        "row 0: unknown timestamp",
    ),
    (pa.array([{"value": b"x"}, None]), {}, "has rows that are null: leave them out"),
    (pa.chunked_array([pa.array([{"value": b"x"}, None])]), {}, "has rows that are null: leave them out"),
    ([{"value": b"x", "timestamp": 1.5}], {}, "a row has 1.5 as its timestamp: a whole number is expected"),
    ([{"value": b"x", "timestamp": np.float32(1.5)}], {}, "as its timestamp: a whole number is expected"),
    ([{"value": b"x", "partition": np.bool_(True)}], {}, "as its partition: a whole number is expected"),
    ([{"value": b"x", "partition": 0.5}], {}, "a row has 0.5 as its partition: a whole number is expected"),
]


@pytest.mark.parametrize(("wrong", "options", "message"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_rows_that_no_record_can_be_are_refused_at_once_and_the_others_stay(tmp_path, wrong, options, message):
    with bl.Producer(tmp_path, "t", **options) as producer:
        producer.send([{"value": b"before", "offset": 5}])
        with pytest.raises(ValueError, match=message):
            producer.send(wrong)
        producer.send([{"value": b"after", "offset": 6}])
    assert values(tmp_path) == [b"before", b"after"]


def test_whole_numbers_of_numpy_are_numbers(tmp_path):
    with bl.Producer(tmp_path, "t") as producer:
        producer.send([{"value": b"x", "timestamp": np.int64(T), "partition": np.uint8(0)}])
        producer.send([{"value": b"x", "timestamp": np.datetime64(T, "ms")}])
    assert [row["timestamp"] for row in rows(tmp_path)] == [AT, AT]


def test_offsets_are_held_against_those_of_their_own_partition(tmp_path):
    with bl.Producer(tmp_path, "t", partitions=2, keep_offsets=True) as producer:
        producer.send([{"value": b"1", "partition": 0, "offset": 8}, {"value": b"2", "partition": 1, "offset": 3}])
        with pytest.raises(ValueError, match="offset 3 of t-1 after offset 3"):
            producer.send([{"value": b"3", "partition": 0, "offset": 9}, {"value": b"4", "partition": 1, "offset": 3}])
        producer.send([{"value": b"3", "partition": 0, "offset": 9}, {"value": b"4", "partition": 1, "offset": 4}])
    assert values(tmp_path) == [b"1", b"3", b"2", b"4"]


def test_a_partition_that_refuses_a_batch_does_not_drop_the_rows_of_others(tmp_path):
    with bl.create_log_dir(tmp_path) as log_dir:
        log_dir.create_topic("t", 3)
        # A log of the caller's, with another limit than the topic's.
        log_dir.log("t", 1, max_message_bytes=500)
        producer = bl.Producer(log_dir, "t", batch_size=100)
        producer.send([{"value": b"%d" % number, "partition": number % 3} for number in range(30)])
        producer.send([{"value": b"x" * 1000, "partition": 1}, {"value": b"behind", "partition": 1}])
        with pytest.raises(bl.errors.RecordTooLargeError, match="t-1: "):
            producer.flush()
        with pytest.raises(ValueError, match="failed earlier"):
            producer.send([{"value": b"c"}])
    assert values(tmp_path) == [b"%d" % (3 * i + partition) for partition in range(3) for i in range(10)]


NOW = round(time.time() * 1000)
OLD = {"message_timestamp_before_max_ms": 3_600_000}
REFUSED_BY_TOPIC = {
    "a time ahead": ({}, {"timestamp": NOW + 7_200_000}, bl.errors.InvalidTimestampError, "timestamp .* is not within"),
    "a time of no year": (
        {},
        {"timestamp": 1 << 62},
        bl.errors.InvalidTimestampError,
        "timestamp 4611686018427387904 is not",
    ),
    "a time long ago": (
        OLD,
        {"timestamp": NOW - 7_200_000},
        bl.errors.InvalidTimestampError,
        "within 3600000 ms before",
    ),
    "the time 0": (OLD | {"magic": 1}, {"timestamp": 0}, bl.errors.InvalidTimestampError, "timestamp 0 is not within"),
    "no key": (
        {"cleanup_policy": "compact"},
        {"key": None},
        bl.errors.InvalidRecordError,
        "a compacted topic needs keys",
    ),
    "size": (
        {"max_message_bytes": 1000},
        {"value": b"x" * 2000},
        bl.errors.RecordTooLargeError,
        "the record takes 2071 bytes in a batch of its own, but max_message_bytes is 1000",
    ),
    "size by a byte": (
        {"max_message_bytes": 200},
        {"value": b"x" * 130},
        bl.errors.RecordTooLargeError,
        "takes 201 bytes",
    ),
    "size of headers": (
        {"max_message_bytes": 1000},
        {"headers": [("h" * 400, b"v"), ("k", b"x" * 600)]},
        bl.errors.RecordTooLargeError,
        "max_message_bytes is 1000",
    ),
    "size once compressed": (
        {"max_message_bytes": 1000, "compression": "zstd"},
        {"value": random.Random(1).randbytes(2000)},
        bl.errors.RecordTooLargeError,
        "max_message_bytes is 1000",
    ),
    "size as the topic stores it": (
        {"max_message_bytes": 1000, "compression": "zstd", "compression_type": "uncompressed"},
        {"value": b"x" * 2000},
        bl.errors.RecordTooLargeError,
        "takes 2071 bytes in a batch",
    ),
    "size of a segment": (
        {"segment_bytes": 1000},
        {"value": b"x" * 2000},
        bl.errors.RecordBatchTooLargeError,
        "segment_bytes",
    ),
    "size decompressed": (
        {"max_decompressed_message_bytes": 1000, "compression": "zstd"},
        {"value": b"x" * 2000},
        bl.errors.InvalidRecordError,
        "takes 2008 bytes decompressed, but max_decompressed_message_bytes is 1000",
    ),
    "the last offset": (
        {"keep_offsets": True},
        {"offset": (1 << 63) - 1},
        bl.errors.AppendError,
        "is too large: it can be",
    ),
    "a copy's size": (
        {"segment_bytes": 1000, "keep_offsets": True},
        {"value": b"x" * 2000, "offset": 999},
        bl.errors.RecordBatchTooLargeError,
        "segment_bytes is 1000",
    ),
}


@pytest.mark.parametrize("name", REFUSED_BY_TOPIC)
def test_rows_that_the_topic_does_not_take_are_refused_at_once_and_the_others_stay(tmp_path, name):
    """At the append one of them costs all rows of its batch, and those that wait behind it."""
    options, wrong, error, message = REFUSED_BY_TOPIC[name]
    is_copy = "keep_offsets" in options

    def row(number, **fields):
        return {"key": b"k", "value": b"%d" % number, **({"offset": number} if is_copy else {}), **fields}

    with bl.Producer(tmp_path, "t", **options) as producer:
        producer.send([row(8)])
    with bl.Producer(tmp_path, "t", **options) as producer:
        for number in range(20, 120):
            producer.send([row(number)])
            with pytest.raises(error, match=message) as refused:
                # The offsets of good rows: a refused call leaves nothing.
                producer.send([row(number + 1), row(number + 2, **wrong)][is_copy:])
        if isinstance(refused.value, bl.errors.InvalidRecordError) and "decompressed" not in name:
            assert [row for row, _ in refused.value.record_errors] == [1]
        producer.send([row(120)])
    assert values(tmp_path) == [b"8", *(b"%d" % number for number in range(20, 121))]


@pytest.mark.parametrize(
    ("options", "row"),
    [
        ({"message_timestamp_type": "LogAppendTime"}, {"timestamp": 1 << 62}),
        ({"magic": 0}, {"timestamp": 1 << 62}),
        (OLD, {"timestamp": -1}),
        (OLD, {"timestamp": None}),
        ({"message_timestamp_after_max_ms": (1 << 63) - 1}, {"timestamp": NOW + (1 << 40)}),
        ({"message_timestamp_before_max_ms": 0, "message_timestamp_after_max_ms": 0}, {}),
        ({"max_message_bytes": 1000, "compression": "zstd"}, {"value": b"x" * 2000}),
        ({"max_message_bytes": 200}, {"value": b"x" * 128}),
        ({"max_message_bytes": 1000, "compression_type": "gzip"}, {"value": b"x" * 900}),
        ({"max_decompressed_message_bytes": 1000}, {"value": b"x" * 2000}),
        ({"max_decompressed_message_bytes": 106, "compression": "gzip"}, {"value": b"x" * 98, "key": b"1"}),
        (
            {"keep_offsets": True, "max_message_bytes": 100},
            {"value": b"x" * 200, "offset": 0, "timestamp": NOW + (1 << 40)},
        ),
        ({"keep_offsets": True, "cleanup_policy": "compact"}, {"offset": 3}),
    ],
    ids=lambda given: str(given).replace(str(NOW + (1 << 40)), "far ahead"),
)
def test_rows_that_the_topic_takes_are_not_refused(tmp_path, options, row):
    row = {"value": b"v", **row}
    with bl.Producer(tmp_path, "t", **options) as producer:
        producer.send([row] if "offset" in row else [row] * 3)
    assert values(tmp_path) == [row["value"]] * (1 if "offset" in row else 3)


@pytest.mark.slow
def test_offsets_below_the_log_end_are_refused_at_once(tmp_path):
    with bl.Producer(tmp_path, "t", partitions=2) as producer:
        producer.send([{"value": b"%d" % offset, "partition": 1} for offset in range(9)])
    with bl.Producer(tmp_path, "t", keep_offsets=True) as producer:
        producer.send([{"value": b"a", "partition": 0, "offset": 5}])
        with pytest.raises(
            bl.errors.UnexpectedAppendOffsetError, match="t-1: first offset 5 is below the log end offset 9"
        ):
            producer.send([{"value": b"b", "partition": number, "offset": 5 + (not number)} for number in range(2)])
        producer.send([{"value": b"c", "partition": number, "offset": 9} for number in range(2)])
    assert values(tmp_path) == [b"a", b"c", *(b"%d" % offset for offset in range(9)), b"c"]


def test_rows_before_a_refused_row_stay_and_are_counted_in_large_input(tmp_path):
    good = [{"value": b"x" * 1000}] * 10_000
    with bl.Producer(tmp_path, "t", max_message_bytes=2000) as producer:
        with pytest.raises(bl.errors.RecordTooLargeError) as refused:
            producer.send([*good, {"value": b"y" * 3000}])
        (note,) = refused.value.__notes__
        producer.send([{"value": b"after"}])
    found = values(tmp_path)
    assert note == f"{len(found) - 1} rows of this call, before the invalid rows, were accepted"
    assert (found[-1], 4000 < len(found) < 10_000) == (b"after", True)


def test_a_source_that_fails_leaves_nothing_of_its_call(tmp_path):
    def source():
        yield {"value": b"never"}
        raise OSError("gone")

    with bl.Producer(tmp_path, "t") as producer:
        producer.send([{"value": b"before"}])
        with pytest.raises(OSError, match="gone"):
            producer.send(source())
    assert values(tmp_path) == [b"before"]


@pytest.mark.parametrize("idempotent", [False, True])
def test_rows_whose_time_runs_out_while_they_wait_do_not_take_others_with_them(tmp_path, monkeypatch, idempotent):
    now = NOW
    monkeypatch.setattr("brokerless.produce.producer.now_ms", lambda: now)
    producer = bl.Producer(tmp_path, "t", idempotent=idempotent, **OLD)
    producer.send([{"value": b"%d" % hour, "timestamp": NOW + hour * 600_000} for hour in range(-6, 6)])
    now += 1_200_000
    with pytest.raises(bl.errors.InvalidTimestampError, match="2 rows are refused; the first is row 0: timestamp"):
        producer.close()
    assert values(tmp_path) == [b"%d" % hour for hour in range(-4, 6)]
    wanted = list(range(10)) if idempotent else [-1] * 10
    assert [row["sequence"] if idempotent else -1 for row in rows(tmp_path)] == wanted


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip"},
        {"compression": "lz4", "idempotent": True},
        {"compression": "zstd", "compression_type": "uncompressed", "idempotent": True},
        {"compression": "gzip", "magic": 1},
        {"compression": "gzip", "magic": 0},
        {"batch_size": 1 << 20, "idempotent": True},
        {"batch_size": 1 << 20, "keep_offsets": True, "segment_bytes": 20_000},
        {"batch_size": 1 << 20, "keep_offsets": True, "segment_bytes": 20_000, "compression": "zstd"},
    ],
    ids=str,
)
def test_a_batch_that_becomes_too_large_is_split(tmp_path, options):
    """Its rows were accepted: of each alone the topic takes a batch."""
    random_bytes = random.Random(1).randbytes
    sent = [b"x" * 1000 if number % 1000 < 900 else random_bytes(1000) for number in range(3000)]
    with bl.Producer(tmp_path, "t", **{"max_message_bytes": 17_000, **options}) as producer:
        producer.send([{"value": value, "offset": 2 * number} for number, value in enumerate(sent)])
        producer.flush()
        assert producer.records == len(sent)
        producer.send([{"value": b"after", "offset": 10_000}])
    assert values(tmp_path) == [*sent, b"after"]
    found = [row["sequence"] for row in rows(tmp_path)]
    assert found == (list(range(len(sent) + 1)) if "idempotent" in options else [None] * (len(sent) + 1))


def test_rows_that_keep_their_offsets_need_a_partition_of_several(tmp_path):
    with bl.Producer(tmp_path, "t", partitions=2, keep_offsets=True) as producer:
        producer.send([{"value": b"1", "partition": 1, "offset": 3}])
        for partition in ({}, {"partition": None}):
            with pytest.raises(ValueError, match="1 rows that keep their offsets have no partition"):
                producer.send([{"value": b"2", "offset": 1, "key": b"k", **partition}])
    assert values(tmp_path) == [b"1"]


def test_a_dictionary_that_stands_for_much_is_sent_in_pieces(tmp_path):
    """A few bytes may stand for more than memory holds."""
    value = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int32()), pa.array([b"x" * (1 << 20)]))
    seen = []
    with bl.Producer(tmp_path, "t", max_message_bytes=2 << 20, compression="zstd") as producer:
        send = producer._send_waiting
        producer._send_waiting = lambda: (seen.append(producer._waiting_bytes), send())
        producer.send(pa.table({"value": value}))
    assert (producer.records, max(seen) < 64 << 20) == (100, True)


def damaged(type_, views, size=2, buffers=(), mask=None):
    return pa.Array.from_buffers(type_, size, [mask, pa.py_buffer(views), *map(pa.py_buffer, buffers)])


DAMAGED = {
    "a view": damaged(pa.binary_view(), struct.pack("<8i", 99, 0, 7, 0, 0, 0, 0, 0), buffers=[b"x" * 99]),
    "a view of no length": damaged(pa.string_view(), struct.pack("<8i", -99, 0, 0, 0, 0, 0, 0, 0), buffers=[b"x" * 99]),
    "an offset": damaged(pa.binary(), struct.pack("<3i", 0, 1 << 30, 3), buffers=[b"xxx"]),
    "an offset that falls": damaged(pa.binary(), struct.pack("<4i", 0, 2, 1, 3), size=3, buffers=[b"xxx"]),
    "an offset below 0": damaged(pa.string(), struct.pack("<3i", 0, -3, 3), buffers=[b"xxx"]),
    "a large offset": damaged(pa.large_binary(), struct.pack("<3q", 0, 1 << 60, 3), buffers=[b"xxx"]),
    "an index": pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int8()), pa.array([b"x"]), safe=False),
    "an index below 0": pa.DictionaryArray.from_arrays(pa.array([0, -1], pa.int8()), pa.array([b"x"]), safe=False),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_values_outside_of_their_memory_are_refused(tmp_path, name):
    """What pyarrow does with rows believes all of them."""
    with bl.Producer(tmp_path, "t", partitions=3) as producer:
        for column in ("key", "value"):
            rows = pa.RecordBatch.from_arrays([DAMAGED[name]], [column])
            if column == "key":
                rows = rows.append_column("value", pa.array([b"v"] * rows.num_rows))
            with pytest.raises(ValueError, match="is damaged"):
                producer.send(rows)


def test_a_null_may_have_any_view(tmp_path):
    """It leads nowhere, and pyarrow's cast follows it all the same."""
    wild = struct.pack("<8i", -100532224, 0, 9, -5, 1, ord("a"), 0, 0)
    column = damaged(pa.binary_view(), wild, buffers=[b"x" * 99], mask=pa.py_buffer(b"\x02"))
    with bl.Producer(tmp_path, "t", partitions=2) as producer:
        producer.send(pa.record_batch({"key": column, "value": column}))
    assert sorted(values(tmp_path), key=str) == sorted([None, b"a"], key=str)
