"""Rows become batches that read back as the same rows, and that are Kafka's own bytes where those are known."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerless._native import Encoder, end_transaction_marker, scan
from support.encoder_rows import HEADERS, T, batches, decoded, rows_of, table_of, values

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in CODECS if magic == 2 or codec != "zstd"]
SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS), ("timestamp", pa.int64())])
PLACED = ["key", "value", "headers", "timestamp", "offset", "timestampType", "leaderEpoch"]
MAX_SEQUENCE = 2**31 - 1
BYTES = st.none() | st.binary(max_size=40) | st.integers(0, 40_000).map(lambda n: b"abcdefgh" * (n // 8))
ROW = st.fixed_dictionaries(
    {
        "key": BYTES,
        "value": BYTES,
        "headers": st.lists(
            st.fixed_dictionaries({"key": st.text(max_size=8), "value": st.none() | st.binary(max_size=90)}), max_size=3
        ),
        "timestamp": st.just(-1) | st.integers(T - 10**6, T + 10**6) | st.integers(0, 2**62),
    }
)


@given(st.lists(ROW, max_size=12), st.sampled_from(FORMATS), st.sampled_from([0, 1, 200, 16384, 10**6]))
def test_what_is_encoded_is_read(rows, magic_and_codec, batch_size):
    magic, codec = magic_and_codec
    if magic < 2:
        rows = [row | {"headers": []} for row in rows]
    encoder = Encoder(magic=magic, compression=codec, batch_size=batch_size)
    data = encoder.encode(pa.RecordBatch.from_pylist(rows, SCHEMA), timestamp=0)
    assert decoded(data) == [row | ({"timestamp": -1} if magic == 0 else {}) for row in rows]


@given(
    st.lists(
        st.tuples(st.integers(1, 2**33), ROW, st.sampled_from([0, 1]), st.sampled_from([None, 0, 7])), max_size=12
    ),
    st.sampled_from(CODECS),
    st.sampled_from([1, 2]),
)
def test_what_is_kept_reads_the_same(parts, codec, magic):
    offset, rows = -1, []
    for gap, row, timestamp_type, leader_epoch in parts:
        offset += gap
        kept = {"offset": offset, "timestampType": timestamp_type, "leaderEpoch": leader_epoch if magic == 2 else None}
        rows.append(row | kept | ({"headers": []} if magic == 1 else {}))
    if magic == 1 and codec == "zstd":
        codec = "lz4"
    schema = pa.schema([*SCHEMA, ("offset", pa.int64()), ("timestampType", pa.int32()), ("leaderEpoch", pa.int32())])
    table = pa.RecordBatch.from_pylist(rows, schema)
    encoder = Encoder(magic=magic, compression=codec, keep_offsets=True, batch_size=500)
    assert decoded(encoder.encode(table, timestamp=0), PLACED) == rows


@pytest.mark.parametrize(
    ("compression", "levels"),
    [("gzip", [-1, *range(1, 10)]), ("lz4", range(1, 18)), ("zstd", [-131072, -50, -1, 0, *range(1, 22, 3), 22])],
)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_every_level_reads_back(magic, compression, levels):
    if (magic, compression) not in FORMATS:
        return
    noise = bytes((i * i * 31 + i // 7) % 251 for i in range(100_000))
    rows = rows_of([b"text " * 20_000, noise, b"", noise[7:]])
    sizes = set()
    for level in levels:
        encoder = Encoder(magic=magic, compression=compression, level=level, batch_size=10**6)
        # The second time with what the first left in the context.
        for _ in range(2):
            data = encoder.encode(rows, timestamp=T)
            assert values(data) == rows["value"].to_pylist()
        sizes.add(len(data))
    assert len(sizes) > 1, "no level makes a difference"


@pytest.mark.parametrize(
    ("compression", "level"),
    [("gzip", 0), ("gzip", 10), ("lz4", 0), ("lz4", 18), ("zstd", 23), ("zstd", -131073), ("none", 1), ("snappy", 1)],
)
def test_a_level_out_of_range_is_refused(compression, level):
    with pytest.raises(ValueError, match=f"compression level {level} for {compression}; allowed: "):
        Encoder(compression=compression, level=level)


def made_by_kafka(golden, magic):
    """Yield the uncompressed batches of records in the logs of brokers, with their headers and rows."""
    for path in sorted([*golden.glob("logs/*/*/*.log"), *golden.glob("batches/*.bin")]):
        data = path.read_bytes()
        for header in scan(data, check_crcs=True)[0].to_pylist():
            wanted = header["magic"] == magic and header["compression"] == "none" and header["is_valid"]
            if wanted and not header["is_control"] and header["records_count"] != 0:
                entry = data[header["position"] : header["position"] + header["size"]]
                yield path.name, header, entry, table_of(entry, PLACED)


@pytest.mark.parametrize(("magic", "at_least"), [(0, 300), (1, 300), (2, 1000)])
def test_uncompressed_batches_of_brokers_are_made_again(golden, magic, at_least):
    made = 0
    for name, header, entry, rows in made_by_kafka(golden, magic):
        offsets = rows["offset"].to_pylist()
        # A compacted batch is not what a builder makes of what is left in it; under LogAppendTime magic 2 stores create
        # times, which no reader is told.
        is_whole = (offsets[0], offsets[-1]) == (header["base_offset"], header["last_offset"])
        if (
            not is_whole
            or header["delete_horizon_ms"] is not None
            or (magic, header["timestamp_type"]) == (2, "LogAppendTime")
        ):
            continue
        encoder = Encoder(
            magic=magic,
            batch_size=2**31,
            keep_offsets=True,
            producer_id=header["producer_id"],
            producer_epoch=header["producer_epoch"],
            base_sequence=header["base_sequence"],
            is_transactional=header["is_transactional"],
            partition_leader_epoch=header["partition_leader_epoch"],
        )
        assert encoder.encode(rows.to_batches()[0], timestamp=0).to_pybytes() == entry, (name, header)
        made += 1
    assert made > at_least


def test_batches_close_before_they_would_be_too_large():
    # 61 bytes of header; a record of 30 bytes takes 37.
    rows = rows_of([b"x" * 30] * 10)
    for batch_size, counts in [
        (0, [1] * 10),
        (61 + 2 * 37, [2] * 5),
        (61 + 3 * 37, [3, 3, 3, 1]),
        (430, [9, 1]),
        (431, [10]),
    ]:
        found = batches(Encoder(batch_size=batch_size).encode(rows, timestamp=T))
        assert [batch["records_count"] for batch in found] == counts, batch_size
        assert all(batch["size"] <= batch_size for batch in found if batch["records_count"] > 1)
    assert [b["records_count"] for b in batches(Encoder(max_records=4).encode(rows, timestamp=T))] == [4, 4, 2]


def test_what_compresses_well_goes_into_larger_batches():
    rows = rows_of([b"x" * 1000] * 2000)
    counts = [b["records_count"] for b in batches(Encoder(compression="zstd").encode(rows, timestamp=T))]
    # The first batch cannot know how well; the estimate falls by 0.005 a batch.
    assert counts[0] == 15
    assert counts == [*sorted(counts[:-1]), counts[-1]]
    assert counts[-2] > counts[0]


def test_a_producer_sends_batches_that_start_at_0():
    rows = rows_of([b"x"] * 5)
    found = batches(Encoder(max_records=2).encode(rows, timestamp=T))
    assert [(b["base_offset"], b["last_offset"]) for b in found] == [(0, 1), (0, 1), (0, 0)]
    assert {b["partition_leader_epoch"] for b in found} == {-1}


def test_sequences_go_on_from_batch_to_batch_and_wrap():
    encoder = Encoder(producer_id=9, producer_epoch=1, base_sequence=MAX_SEQUENCE - 2, max_records=2)
    first = batches(encoder.encode(rows_of([b"x"] * 5), timestamp=T))
    assert [(b["base_sequence"], b["last_sequence"]) for b in first] == [
        (MAX_SEQUENCE - 2, MAX_SEQUENCE - 1),
        (MAX_SEQUENCE, 0),
        (1, 1),
    ]
    assert encoder.next_sequence == 2
    # What is refused uses none.
    with pytest.raises(ValueError, match=r"row 4: timestamp -9 is below -1, which stands for none"):
        encoder.encode(rows_of([b"x"] * 5, timestamp=pa.array([T, T, T, T, -9])), timestamp=T)
    assert encoder.next_sequence == 2
    assert encoder.encode(rows_of([]), timestamp=T).to_pybytes() == b""
    assert [b["base_sequence"] for b in batches(encoder.encode(rows_of([b"x"]), timestamp=T))] == [2]


def test_buffers_stay_what_they_were():
    encoder = Encoder()
    kept = [encoder.encode(rows_of([b"%d" % i] * 100), timestamp=T) for i in range(5)]
    copies = [buffer.to_pybytes() for buffer in kept]
    del kept[1:4]
    kept += [encoder.encode(rows_of([b"%d" % i] * 100), timestamp=T) for i in range(5, 9)]
    assert values(kept[0]) == [b"0"] * 100
    assert kept[1].to_pybytes() == copies[4]
    assert values(kept[-1]) == [b"8"] * 100


def test_kept_batches_end_where_what_a_batch_has_once_changes():
    rows = rows_of(
        [b"x"] * 8,
        offset=pa.array([3, 5, 6, 9, 10, 11, 12, 13 + MAX_SEQUENCE]),
        leaderEpoch=pa.array([1, 1, 2, 2, 2, 2, None, None], pa.int32()),
        timestampType=pa.array([0, 0, 0, 1, 1, 1, 0, 0], pa.int32()),
        timestamp=pa.array([T, T + 1, T, T, T, T + 1, T, T]),
    )
    found = batches(Encoder(keep_offsets=True, partition_leader_epoch=4).encode(rows, timestamp=0))
    assert [
        (b["base_offset"], b["last_offset"], b["partition_leader_epoch"], b["timestamp_type"], b["max_timestamp"])
        for b in found
    ] == [
        (3, 5, 1, "CreateTime", T + 1),
        (6, 6, 2, "CreateTime", T),
        (9, 10, 2, "LogAppendTime", T),
        (11, 11, 2, "LogAppendTime", T + 1),
        (12, 12, 4, "CreateTime", T),
        (13 + MAX_SEQUENCE, 13 + MAX_SEQUENCE, 4, "CreateTime", T),
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "there is no column offset, which must be kept"),
        ({"offset": pa.array([3, 3])}, "row 1: offset 3 after offset 3; offsets must increase"),
        ({"offset": pa.array([3, -1])}, "row 1: offset -1 is negative"),
        ({"offset": pa.array([3, None])}, "row 1: offset is null"),
        ({"offset": pa.array([3, 4], pa.int32())}, "column offset has type int32, expected int64: cast it first"),
        (
            {"offset": pa.array([3, 4]), "timestampType": pa.array([0, 2], pa.int32())},
            "row 1: unknown timestamp type 2",
        ),
        (
            {"offset": pa.array([3, 4]), "leaderEpoch": pa.array([0, 2])},
            "column leaderEpoch has type int64, expected int32: cast it first",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused(columns, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Encoder(keep_offsets=True).encode(rows_of([b"x", b"y"], **columns), timestamp=T)


def test_messages_without_timestamps_go_on_without_one():
    """As Kafka converts them: every format has -1 for none, and readers see CreateTime."""
    rows = rows_of(
        [b"x"] * 2,
        offset=pa.array([3, 4]),
        timestampType=pa.array([0, -1], pa.int32()),
        timestamp=pa.array([-1, -1]),
    )
    found = batches(Encoder(keep_offsets=True).encode(rows, timestamp=T))
    assert [(b["base_offset"], b["last_offset"], b["timestamp_type"], b["max_timestamp"]) for b in found] == [
        (3, 4, "CreateTime", -1)
    ]


def test_times_that_magic_0_has_not_are_refused():
    rows = rows_of([b"x"], offset=pa.array([3]), timestampType=pa.array([0], pa.int32()))
    with pytest.raises(ValueError, match="timestamp type CreateTime cannot be kept in magic 0; it needs magic 1 or 2"):
        Encoder(magic=0, keep_offsets=True).encode(rows, timestamp=T)
    rows = rows.set_column(2, "timestampType", pa.array([-1], pa.int32()))
    assert decoded(Encoder(magic=0, keep_offsets=True).encode(rows, timestamp=T), ["offset"]) == [{"offset": 3}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"magic": 3}, "magic 3 is not 0, 1 or 2"),
        ({"magic": 1, "compression": "zstd"}, "magic 1 does not support zstd"),
        ({"compression": "brotli"}, 'unknown compression "brotli"'),
        ({"timestamp_type": "CREATE_TIME"}, 'unknown timestamp type "CREATE_TIME"'),
        ({"timestamp_type": "NoTimestampType"}, "magic 2 needs a timestamp type"),
        ({"max_records": 0}, "max_records is 0; it must be at least 1"),
        ({"is_transactional": True}, "a transactional batch needs a producer id"),
        ({"producer_id": 1, "base_sequence": 0}, "producer id 1 needs a producer epoch"),
    ],
)
def test_what_kafka_refuses_is_refused_before_any_row(options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Encoder(**options)


def test_log_append_time_counts_for_all_rows():
    encoder = Encoder(timestamp_type="LogAppendTime", log_append_time=T + 9)
    data = encoder.encode(rows_of([b"x"] * 2, timestamp=pa.array([T, T + 1])), timestamp=0)
    assert [(b["timestamp_type"], b["max_timestamp"]) for b in batches(data)] == [("LogAppendTime", T + 9)]
    assert [row["timestamp"] for row in decoded(data)] == [T + 9] * 2


def test_a_marker_is_kafkas():
    expected = (
        "000000000000002a0000004200000005026c5979ba0030000000000000018bcfe568000000018bcfe568000000000000000fa10003ffffff"
        "ff000000012000000008000000010c00000000000700"
    )
    where = {"base_offset": 42, "partition_leader_epoch": 5}
    who = {"producer_id": 4001, "producer_epoch": 3, "coordinator_epoch": 7}
    assert end_transaction_marker(commit=True, timestamp=T, **who, **where).hex() == expected
    with pytest.raises(ValueError, match="a transactional batch needs a producer id"):
        end_transaction_marker(commit=True, timestamp=T, producer_id=-1, producer_epoch=0)
