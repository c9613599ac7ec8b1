"""A producer's rows arrive: where they belong, in order, once, and only if their transaction was committed."""

import copy
import pickle
import random

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless.io import disk
from brokerless.log.segment import offset_index, time_index
from support.sent_records import rows, values


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_any_form_of_rows_arrives_the_same(tmp_path, codec):
    dicts = [
        {"key": b"k%d" % i, "value": None if i % 7 == 0 else b"v%d" % i, "headers": [{"key": "h", "value": b"%d" % i}]}
        for i in range(100)
    ]
    table = pa.Table.from_pylist(
        dicts,
        pa.schema(
            {
                "key": pa.binary(),
                "value": pa.binary(),
                "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
            }
        ),
    )
    forms = {"dicts": dicts, "table": table, "batch": table.to_batches()[0], "batches": table.to_batches(10)}
    for name, form in forms.items():
        with bl.Producer(tmp_path / name, "t", compression=codec) as producer:
            producer.send(form)
        found = [{key: row[key] for key in ("key", "value", "headers")} for row in rows(tmp_path / name)]
        assert found == dicts, name


def test_idempotent_batches_have_sequences_without_a_gap(tmp_path):
    with bl.Producer(tmp_path / "d", "t", idempotent=True, batch_size=500) as producer:
        for i in range(10):
            producer.send([{"value": b"%d" % (10 * i + j)} for j in range(10)])
            producer.flush()
        producer_id = producer.producer_id
    found = rows(tmp_path / "d")
    assert [row["sequence"] for row in found] == list(range(100))
    assert {row["producerId"] for row in found} == {producer_id}
    assert producer_id >= 1 << 62


def test_a_directory_in_use_is_refused(tmp_path):
    with bl.create_log_dir(tmp_path / "d"), pytest.raises(bl.errors.LogInUseError):
        bl.Producer(tmp_path / "d", "t")


def test_many_rows_in_many_segments_are_read_back(tmp_path):
    random.seed(1)
    sent = [b"%d" % i + random.randbytes(random.randrange(200)) for i in range(20_000)]
    with bl.Producer(tmp_path / "d", "t", compression="lz4", segment_bytes=100_000, idempotent=True) as producer:
        producer.send(pa.table({"value": pa.array(sent, pa.binary())}))
    log = bl.LogDirs(tmp_path / "d").log("t", 0)
    assert len(log.segments) > 5
    assert values(tmp_path / "d") == sent
    for segment in log.segments:
        offset_index(segment).sanity_check()
        time_index(segment).sanity_check()


@pytest.mark.parametrize(
    "arguments",
    [
        {"compression": "lz5"},
        {"compression": "zstd", "compression_level": 99},
        {"compression": "zstd", "magic": 1},
        {"batch_size": 0},
        {"partitions": 0},
        {"idempotent": True, "magic": 1},
        {"idempotent": True, "producer_id": -5},
        {"topic_id": "short"},
        {"segment_bytes": -1},
    ],
)
def test_impossible_arguments_are_refused_before_anything_is_made(tmp_path, arguments):
    with pytest.raises(ValueError, match=r"."):
        bl.Producer(tmp_path / "d", "t", **arguments)
    assert not (tmp_path / "d").exists()


def test_rows_taken_for_duplicates_are_not_dropped_without_a_word(tmp_path):
    with bl.Producer(tmp_path / "d", "t", idempotent=True, producer_id=5) as producer:
        producer.send([{"value": b"1"}])
    producer = bl.Producer(tmp_path / "d", "t", idempotent=True, producer_id=5)
    producer.send([{"value": b"2"}])
    with pytest.raises(bl.errors.AppendError, match="has already been used for t-0"):
        producer.flush()
    producer.close()


@pytest.mark.parametrize("magic", [0, 1])
def test_a_second_producer_goes_on_in_the_same_format(tmp_path, magic):
    for value in (b"1", b"2"):
        with bl.Producer(tmp_path / "d", "t", magic=magic) as producer:
            producer.send([{"value": value}])
    assert [row["magic"] for row in rows(tmp_path / "d", columns=["magic"])] == [magic, magic]


def test_a_copy_with_offsets_may_be_larger_than_a_segment(tmp_path):
    sent = [{"value": b"x" * 1000, "offset": 2 * i} for i in range(3000)]
    with bl.Producer(tmp_path / "d", "t", keep_offsets=True, segment_bytes=1 << 20) as producer:
        producer.send(sent)
    assert [row["offset"] for row in rows(tmp_path / "d", columns=["offset"])] == [row["offset"] for row in sent]
    assert len(bl.LogDirs(tmp_path / "d").log("t", 0).segments) >= 3


def test_the_last_offset_that_a_number_holds_is_refused(tmp_path):
    """The log end offset behind it would be negative."""
    with bl.Producer(tmp_path / "d", "t", keep_offsets=True) as producer:
        producer.send([{"value": b"a", "offset": (1 << 63) - 2}])
        with pytest.raises(bl.errors.AppendError, match=r"t-0: last offset .* is too large"):
            producer.send([{"value": b"b", "offset": (1 << 63) - 1}])
    assert bl.LogDirs(tmp_path / "d").log("t", 0).log_end_offset == (1 << 63) - 1


def test_a_producer_is_not_copied(tmp_path):
    """Its copy would go on from the same log end, over what the first has written."""
    with bl.Producer(tmp_path / "d", "t") as producer:
        for copying in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="two would write over each other"):
                copying(producer)


@pytest.mark.parametrize("topic", ["__cluster_metadata", "__consumer_offsets", "__transaction_state"])
def test_rows_of_ones_own_do_not_go_to_topics_of_kafka(tmp_path, topic):
    """A broker reads its own records there, and stops at others."""
    with pytest.raises(ValueError, match=r"Raft layer|internal to Kafka"):
        bl.Producer(tmp_path / "d", topic)
    with pytest.raises(ValueError, match=r"Raft layer"):
        bl.Producer(tmp_path / "d", "__cluster_metadata", keep_offsets=True)
    assert not (tmp_path / "d").exists()
    with bl.Producer(tmp_path / "copy", "__consumer_offsets", keep_offsets=True) as producer:
        producer.send([{"offset": 3, "key": b"k", "value": b"v"}])
    assert bl.LogDirs(tmp_path / "copy").log("__consumer_offsets", 0).log_end_offset == 4


def test_a_producer_counts_what_is_in_the_log(tmp_path):
    with bl.Producer(tmp_path / "d", "t", transactional_id="loader") as producer:
        for number, is_committed in ((3, True), (4, False), (5, True)):
            producer.begin()
            producer.send([{"value": b"v"}] * number)
            producer.flush()
            producer.commit() if is_committed else producer.abort()
        assert producer.records == 8


def test_a_producer_counts_no_row_that_a_full_disk_did_not_take(tmp_path, monkeypatch):
    """Who goes on from there with the rest of the input would leave out rows."""
    write = disk.Output.write_at

    def fills(output, position, content):
        if output.path.endswith(".log") and position > 300:
            write(output, position, bytes(content)[:500])
            raise OSError(28, "No space left on device")
        write(output, position, content)

    producer = bl.Producer(tmp_path / "d", "t", batch_size=200)
    producer.send([{"value": b"%d" % i * 20} for i in range(20)])
    producer.flush()
    monkeypatch.setattr("brokerless.io.disk.Output.write_at", fills)
    producer.send([{"value": b"%d" % i * 20} for i in range(200)])
    with pytest.raises(OSError, match="No space"):
        producer.close()
    monkeypatch.undo()
    with bl.open_log_dir(tmp_path / "d") as log_dir:
        assert producer.records == log_dir.log("t", 0).log_end_offset
    assert 20 < producer.records < 220


def test_a_copy_does_not_make_up_times(tmp_path):
    """A row without a time gets the present one, which no row of the source had."""
    time = 1_700_000_000_000
    with bl.Producer(tmp_path / "d", "t", partitions=2, keep_offsets=True) as producer:
        producer.send([{"offset": 3, "value": b"1", "timestamp": time, "partition": 0}])
        for rows in (
            [
                {"offset": 4, "value": b"2", "timestamp": time, "partition": 0},
                {"offset": 5, "value": b"3", "partition": 0},
            ],
            [{"offset": 6, "value": b"4", "partition": 0}],
        ):
            with pytest.raises(ValueError, match="1 rows that keep their offsets have no timestamp"):
                producer.send(rows)
        producer.send([{"offset": 7, "value": b"5", "timestamp": time + 1, "partition": 0}])
    found = bl.LogDirs(tmp_path / "d").log("t", 0).read(columns=["offset", "timestamp"])
    assert [
        (row["offset"], round(row["timestamp"].timestamp() * 1000)) for rows in found for row in rows.to_pylist()
    ] == [(3, time), (7, time + 1)]
    with bl.Producer(tmp_path / "e", "t", keep_offsets=True) as producer:
        producer.send([{"offset": 3, "value": b"1"}])
        with pytest.raises(ValueError, match="earlier rows had none"):
            producer.send([{"offset": 4, "value": b"2", "timestamp": time}])


def test_a_column_of_another_name_is_not_lost_in_silence(tmp_path):
    rows = pa.table({"Key": [b"k"], "value": [b"v"]})
    with bl.Producer(tmp_path / "d", "t") as producer:
        for found in (rows, rows.to_batches()[0], rows.to_batches()):
            with pytest.raises(ValueError, match="unknown column 'Key': did you mean 'key'"):
                producer.send(found)
        producer.send(pa.table({"value": [b"v"], "topic": ["elsewhere"], "position": [7], "path": ["p"]}))
    assert values(tmp_path / "d") == [b"v"]


def test_a_row_without_a_value_is_not_taken_for_a_tombstone(tmp_path):
    with bl.Producer(tmp_path / "data", "t", cleanup_policy="compact") as producer:
        with pytest.raises(ValueError, match="a row has no value; None is Kafka's null"):
            producer.send([{"key": b"k", "value": b"v"}, {"key": b"k"}])
        producer.send([{"key": b"k", "value": None}])
    assert values(tmp_path / "data") == [None]


def test_what_is_no_row_is_said_in_one_line(tmp_path):
    with bl.Producer(tmp_path / "d", "t") as producer:
        with pytest.raises(TypeError, match="not one dict"):
            producer.send({"value": b"v"})
        said = "a value that its column does not take"
        with pytest.raises(ValueError, match=f"row 1: value has {said}: it takes bytes, not int: encode it first"):
            producer.send([{"value": b"v"}, {"value": 5}])
        with pytest.raises(ValueError, match=rf"row 0: key has {said}.* not dict: .* json.dumps\(value\).encode\(\)"):
            producer.send([{"key": {"id": 5}, "value": b"v"}])
        with pytest.raises(ValueError, match=f"row 0: partition has {said}"):
            producer.send([{"value": b"v", "partition": 1 << 40}])


def test_settings_of_a_topic_that_is_there_are_not_taken_silently(tmp_path):
    """A broker would delete by the topic's own retention, whatever the producer was given."""
    with pytest.raises(ValueError, match="magic: give magic instead"):
        bl.Producer(tmp_path, "t", message_format=1)
    for policies in ("compact,delete", "delete,compact"):
        bl.Producer(tmp_path, "t", retention_ms=-1, cleanup_policy=policies, producer_id_expiration_ms=1000).close()
    with pytest.raises(ValueError, match="'t' has retention_ms=-1, not 5"):
        bl.Producer(tmp_path, "t", retention_ms=5)
