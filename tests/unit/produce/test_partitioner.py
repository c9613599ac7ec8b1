"""Rows go to the partition that Kafka's producer would send them to, all of them, and in order."""

import struct

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless import _native
from brokerless.produce import partitioner
from support.sent_records import rows, values


def test_keys_go_where_kafkas_partitioner_sends_them(tmp_path):
    keys = [b"key-%d" % i for i in range(500)]
    with bl.Producer(tmp_path / "d", "t", partitions=3) as producer:
        producer.send(pa.table({"key": keys, "value": keys}))
    chosen = _native.Partitioner("t", range(3), 1, 0).choose(None, pa.array(keys, pa.binary()), len(keys), 1)
    expected = chosen.to_pylist()
    found = {row["key"]: row["partition"] for row in rows(tmp_path / "d")}
    assert found == dict(zip(keys, expected, strict=True))
    assert set(expected) == {0, 1, 2}


def test_a_partition_column_decides_before_the_key(tmp_path):
    with bl.Producer(tmp_path / "d", "t", partitions=3) as producer:
        producer.send([{"key": b"same", "value": b"%d" % i, "partition": i % 3} for i in range(9)])
    assert [(row["partition"], row["value"]) for row in rows(tmp_path / "d")] == [
        (partition, b"%d" % (3 * i + partition)) for partition in range(3) for i in range(3)
    ]


def test_rows_without_a_key_stick_to_a_partition_for_a_batch(tmp_path):
    """Else each of them makes a batch of its own, and compression has nothing to work with."""
    with bl.Producer(tmp_path / "d", "t", partitions=4, batch_size=2000) as producer:
        producer.send([{"value": b"x" * 100} for _ in range(400)])
    found = rows(tmp_path / "d", columns=["partition", "baseOffset"])
    assert len(found) == 400
    assert {row["partition"] for row in found} == {0, 1, 2, 3}
    batches = {(row["partition"], row["baseOffset"]) for row in found}
    assert len(batches) <= 60


HEADERS_OF_VIEWS = [
    pa.list_(pa.struct([("key", pa.string_view()), ("value", pa.binary_view())])),
    pa.large_list(pa.struct([("key", pa.string_view()), ("value", pa.binary())])),
    pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary_view())]))),
]


@pytest.mark.parametrize("headers", HEADERS_OF_VIEWS, ids=str)
def test_views_are_divided_like_what_they_are_views_of(tmp_path, headers):
    """Other libraries hand over Arrow's newer types, which pyarrow cannot pick rows of."""
    expected = [
        (b"%d" % i, b"a value of %d" % i if i % 5 else None, [{"key": "h", "value": b"%d" % i}] if i % 7 else [])
        for i in range(100)
    ]
    table = pa.table(
        {
            "key": pa.array([key for key, _, _ in expected], pa.binary_view()),
            "value": pa.array([value and value.decode() for _, value, _ in expected], pa.string_view()),
            "headers": pa.array([of_row or None for _, _, of_row in expected], headers),
        }
    )
    with bl.Producer(tmp_path / "d", "t", partitions=3) as producer:
        producer.send(table)
    found = rows(tmp_path / "d")
    assert {row["partition"] for row in found} == {0, 1, 2}
    assert sorted(expected) == sorted((row["key"], row["value"], row["headers"] or []) for row in found)


def test_a_view_that_leads_out_of_its_memory_is_refused(tmp_path):
    """A cast in Arrow would follow it, and end the process."""
    views = pa.array([b"a" * 20, b"b" * 20], pa.binary_view())
    bad = pa.py_buffer(struct.pack("<4i", 99, 0, 7, 0) + views.buffers()[1].to_pybytes()[16:])
    damaged = pa.Array.from_buffers(pa.binary_view(), 2, [None, bad, *views.buffers()[2:]])
    rows = pa.record_batch({"value": damaged})
    with (
        bl.Producer(tmp_path / "d", "t", partitions=3) as producer,
        pytest.raises(ValueError, match="column value is damaged: a value is outside its memory"),
    ):
        producer.send(rows)


def test_rows_are_divided_alike_whether_they_are_moved_or_picked_out(tmp_path, monkeypatch):
    """Of many bytes at once a copy is not made, and could not be."""
    keys = [b"%d" % (i * 7919 % 1000) for i in range(5000)]
    table = pa.table({"key": keys, "value": [b"%d" % i for i in range(5000)]})
    for name, most in (("moved", 1 << 30), ("picked", 0)):
        monkeypatch.setattr(partitioner, "_MAX_MOVED", most)
        with bl.Producer(tmp_path / name, "t", partitions=5) as producer:
            producer.send(table)
    columns = ["partition", "offset", "baseOffset", "key", "value"]
    assert rows(tmp_path / "moved", columns=columns) == rows(tmp_path / "picked", columns=columns)
    in_partition = [row["value"] for row in rows(tmp_path / "moved") if row["partition"] == 3]
    assert in_partition == sorted(in_partition, key=int)


def test_an_unknown_partition_is_refused_by_name(tmp_path):
    with (
        bl.Producer(tmp_path / "d", "t", partitions=2) as producer,
        pytest.raises(ValueError, match="no partition 2: it has 2"),
    ):
        producer.send([{"value": b"a", "partition": 2}])


def test_keys_need_to_know_all_partitions(tmp_path):
    with bl.create_log_dir(tmp_path / "d", kraft=False) as directory:
        directory.create_topic("t", 3)
    (tmp_path / "d" / "t-0").rmdir()
    with bl.Producer(tmp_path / "d", "t") as producer:
        producer.send([{"key": b"a", "value": b"1", "partition": 2}, {"value": b"2"}])
        with pytest.raises(ValueError, match="partitions 1, 2 here"):
            producer.send([{"key": b"a", "value": b"3"}])
    assert sorted(values(tmp_path / "d")) == [b"1", b"2"]
