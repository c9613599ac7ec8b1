"""Converted logs hold the rows that they held: logs of real brokers in every direction, and back where formats can."""

import json
import os
import struct
import zlib

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.append.writer import LogWriter
from brokerless.errors import CorruptRecordError
from brokerless.layout.replication import SOLE, Replication
from brokerless.layout.topic_config import TopicConfig
from brokerless.metadata.topic_settings import Cluster
from brokerless.rewriting.convert import Conversion
from brokerless.rewriting.run import rewrite
from support.drop_batches import headers, written
from support.kafka_answers import CONSUMED_COLUMNS, as_consumed, consumed, partitions
from support.log_files import NOW, batch, marker
from support.metadata_images import set_replicas

COLUMNS = [*CONSUMED_COLUMNS, "producerId", "producerEpoch", "sequence", "isTransactional"]
DROPPING = frozenset({"headers", "producers"})
LOG_DIRS = ["kafka-2.8-v0", "kafka-2.8-v1", "kafka-2.8-mixed", "kafka-4.1"]


def rows(path, isolation_level="read_uncommitted", columns=COLUMNS):
    return as_rows(bl.Log(path).read(isolation_level=isolation_level, columns=columns))


def as_rows(batches):
    return [row for rows in batches for row in rows.to_pylist()]


def convert(path, verb, **settings):
    """Convert a partition that was left clean; return what was done."""
    with LogWriter.open(str(path), config=TopicConfig(**settings), is_clean=True) as log:
        return log.run(verb)


def as_magic_2(expected):
    """Of messages it knows no leader epoch: a follower of the batches that they become needs one."""
    known = [{**row, "leaderEpoch": row["leaderEpoch"] or 0} for row in expected]
    return [{**row, "timestampType": row["timestampType"].replace("NoTimestampType", "CreateTime")} for row in known]


@pytest.mark.parametrize(
    ("log_dir", "codec"), [*((name, None) for name in LOG_DIRS), ("kafka-4.1", "none"), ("kafka-2.8-mixed", "zstd")]
)
def test_what_the_consumer_returned_is_there_in_format_2(golden, copied, log_dir, codec):
    for partition in partitions(golden, log_dir):
        path = copied(log_dir, partition)
        end = bl.Log(path).log_end_offset
        report = convert(path, Conversion(magic=2, compression=codec))
        assert report.dropped_timestamps == report.dropped_producers == report.dropped_control_batches == 0
        for isolation_level in ("read_uncommitted", "read_committed"):
            found = as_consumed(bl.Log(path).read(isolation_level=isolation_level, columns=CONSUMED_COLUMNS))
            expected = consumed(golden, log_dir, partition, isolation_level)
            assert found == as_magic_2(expected), (partition, isolation_level)
        assert bl.Log(path).log_end_offset == end, partition
        found = headers(path)
        assert all(b["magic"] == 2 and b["is_valid"] for b in found)
        wanted = {codec, "none"} if codec else {b["compression"] for b in found}
        assert {b["compression"] for b in found} <= wanted
        assert all(b["is_control"] or not b["records_count"] or b["compression"] == codec for b in found if codec)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("log_dir", LOG_DIRS)
def test_what_a_read_committed_consumer_returned_is_there_in_old_formats(golden, copied, log_dir, magic):
    for partition in partitions(golden, log_dir):
        path = copied(log_dir, partition)
        end = bl.Log(path).log_end_offset
        convert(path, Conversion(magic=magic, compression="gzip", drop=DROPPING))
        expected = consumed(golden, log_dir, partition, "read_committed")
        found = as_consumed(bl.Log(path).read(columns=CONSUMED_COLUMNS))
        assert [as_old(row, magic) for row in expected] == [as_old(row, magic) for row in found], partition
        assert all(row["headers"] == [] and row["leaderEpoch"] is None for row in found)
        assert {b["magic"] for b in headers(path)} <= {magic}
        assert bl.Log(path).log_end_offset == end, partition
        producers = [_native.producer_snapshot(snapshot.read_bytes()).num_rows for snapshot in path.glob("*.snapshot")]
        assert not any(producers), partition


def as_old(row, magic):
    """What a format of old keeps of a row."""
    kept = {**row, "headers": [], "leaderEpoch": None}
    return (
        {**kept, "timestamp": -1, "timestampType": "NoTimestampType"}
        if magic == 0
        else {**kept, "timestampType": row["timestampType"].replace("NoTimestampType", "CreateTime")}
    )


@pytest.mark.parametrize("partition", ["headers-0", "idempotent-0", "txn-interleaved-0"])
def test_what_old_formats_lack_is_refused_unless_asked_for(copied, partition):
    path = copied("kafka-4.1", partition)
    before = {p.name: p.read_bytes() for p in path.glob("*.log")}
    with pytest.raises(ValueError, match=r"\.log: .*which magic 1 cannot store: drop (headers|producers)"):
        convert(path, Conversion(magic=1, compression="none"))
    assert {p.name: p.read_bytes() for p in path.glob("*.log")} == before
    assert not list(path.glob("*.cleaned"))


def test_there_and_back_gives_the_same_bytes(golden, copied):
    """Another codec and back: only what is compressed by another library than Kafka's differs."""
    for partition in partitions(golden, "kafka-4.1"):
        if all(b["compression"] == "none" for b in headers(golden / "logs" / "kafka-4.1" / partition)):
            path = copied("kafka-4.1", partition)
            before = {p.name: p.read_bytes() for p in path.glob("*.log")}
            convert(path, Conversion(compression="lz4"))
            convert(path, Conversion(compression="none"))
            assert {p.name: p.read_bytes() for p in path.glob("*.log")} == before, partition


@pytest.mark.parametrize("log_dir", ["kafka-2.8-v0", "kafka-2.8-v1"])
def test_up_and_back_down_gives_the_same_rows(golden, copied, log_dir):
    magic = int(log_dir[-1])
    for partition in partitions(golden, log_dir):
        path = copied(log_dir, partition)
        before = rows(path)
        if {b["magic"] for b in headers(path)} == {magic}:
            convert(path, Conversion(magic=2))
            convert(path, Conversion(magic=magic))
            assert rows(path) == before, partition


@pytest.mark.slow
def test_joined_batches_hold_the_rows_sequences_and_transactions_that_they_held(golden, copied):
    fewer = 0
    for partition in partitions(golden, "kafka-4.1"):
        path = copied("kafka-4.1", partition)
        before, committed, batches = rows(path), rows(path, "read_committed"), len(headers(path))
        convert(path, Conversion(batch_size=1 << 20))
        assert rows(path) == before, partition
        assert rows(path, "read_committed") == committed, partition
        fewer += batches - len(headers(path))
    assert fewer > 100


def test_the_log_ends_where_it_did_though_markers_and_undecided_records_went(tmp_path):
    path = written(
        tmp_path / "t-0",
        batch(0, [b"a", b"b"]),
        batch(2, [b"committed"], producer_id=1, base_sequence=0, transactional=True),
        marker(3, 1, commit=True),
        batch(4, [b"open"], producer_id=2, base_sequence=0, transactional=True),
        batch(5, [b"behind"]),
    )
    report = convert(path, Conversion(magic=1, drop=DROPPING))
    assert (report.dropped_producers, report.dropped_control_batches, report.dropped_undecided_records) == (1, 1, 2)
    assert [row["value"] for row in rows(path)] == [b"a", b"b", b"committed"]
    log = bl.Log(path)
    assert (log.log_end_offset, [s.base_offset for s in log.segments]) == (6, [0, 6])
    with LogWriter.open(str(path), config=TopicConfig(message_format=1), is_clean=True) as again:
        assert again.last_stable_offset == 6
        assert again.append(message(b"next")).first_offset == 6


def message(value):
    """Build a message of format 1."""
    body = struct.pack(">bbqii", 1, 0, NOW, -1, len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def test_a_segment_that_outgrows_its_size_is_split(tmp_path):
    batches = [batch(10 * i, [b"x" * 500] * 10) for i in range(20)]
    path = written(tmp_path / "t-0", *batches)
    convert(path, Conversion(compression="zstd"))
    before = rows(path)
    report = convert(path, Conversion(compression="none"), segment_bytes=20_000)
    assert (report.replaced_segments, report.new_segments) == (1, 7)
    assert rows(path) == before
    segments = bl.Log(path).segments
    assert [s.base_offset for s in segments] == [0, 30, 60, 90, 120, 150, 180]
    assert all(s.size <= 20_000 for s in segments)


def test_nothing_is_replaced_where_nothing_changes(tmp_path):
    path = written(tmp_path / "t-0", batch(0, [b"a"]))
    inode = (path / f"{0:020d}.log").stat().st_ino
    report = convert(path, Conversion(magic=2, compression="none"))
    assert (report.replaced_segments, report.changed_batches, report.bytes_before) == (0, 0, report.bytes_after)
    assert (path / f"{0:020d}.log").stat().st_ino == inode


def test_a_dry_run_says_the_same_and_changes_nothing(copied):
    path = copied("kafka-4.1", "multi-partition-0", "__cluster_metadata-0") / "multi-partition-0"
    before = {p.name: p.read_bytes() for p in path.iterdir()}
    (planned,) = rewrite(Conversion(compression="zstd"), path, dry_run=True)
    assert {p.name: p.read_bytes() for p in path.iterdir()} == before
    (done,) = rewrite(Conversion(compression="zstd"), path)
    assert planned.report == done.report
    assert json.loads(json.dumps(done.report.to_dict()))["changed_batches"] == done.report.changed_batches > 0


def test_modification_times_move_along(tmp_path):
    """A segment of format 0 has no other times: retention goes by them."""
    path = written(tmp_path / "t-0", batch(0, [b"a"]))
    log = path / f"{0:020d}.log"
    os.utime(log, ns=(NOW * 1_000_000,) * 2)
    convert(path, Conversion(magic=0))
    assert log.stat().st_mtime_ns == NOW * 1_000_000


def test_damage_is_met_and_the_log_stays(tmp_path):
    path = written(tmp_path / "t-0", batch(0, [b"a"]), batch(1, [b"b"]))
    log = path / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    with pytest.raises(CorruptRecordError, match="crc mismatch") as error:
        convert(path, Conversion(compression="zstd"))
    assert (error.value.base_offset, error.value.path) == (1, str(log))
    assert log.read_bytes() == content
    assert not list(path.glob("*.cleaned"))


@pytest.mark.parametrize(
    ("offset", "at", "message"),
    [(1 << 40, 1, "not below 10, where the segment has to end"), (5, 2, "offset 2 is below 6")],
)
def test_a_damaged_offset_costs_no_record(tmp_path, offset, at, message):
    path = written(tmp_path / "t-0", *(batch(n, [b"a"]) for n in range(3)), batch(9, [b"a"]))
    log = path / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    size = len(content) // 4
    content[size : size + 8] = offset.to_bytes(8, "big")
    log.write_bytes(content)
    with pytest.raises(CorruptRecordError, match=message) as error:
        convert(path, Conversion(magic=1, drop=frozenset({"producers"})))
    assert (error.value.path, error.value.position) == (str(log), at * size)
    assert log.read_bytes() == content


def test_a_preallocated_tail_is_no_damage(tmp_path):
    path = tmp_path / "t-0"
    path.mkdir()
    settings = TopicConfig(preallocate=True, segment_bytes=1 << 20)
    with LogWriter.open(str(path), config=settings, is_clean=True) as log:
        log.append(batch(0, [b"a"], timestamp=log.state().now))
        log.run(Conversion(compression="gzip"))
        log.append(batch(0, [b"b"], timestamp=log.state().now))
    assert [row["value"] for row in rows(path)] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "nothing to convert"),
        ({"magic": 3}, "magic 3 is not"),
        ({"compression": "brotli"}, 'compression is "brotli"'),
        ({"compression_level": 3}, "needs a compression"),
        ({"compression": "gzip", "compression_level": 10}, "compression level 10"),
        ({"magic": 1, "drop": frozenset({"timestamps"})}, "cannot drop 'timestamps'"),
        ({"magic": 2, "drop": DROPPING}, "no headers need to be dropped"),
    ],
)
def test_a_conversion_that_cannot_be_is_refused_at_once(options, message):
    with pytest.raises(ValueError, match=message):
        Conversion(**options)


def test_a_log_without_its_producers_goes_to_any_cluster(copied, tmp_path):
    """Its records stay in format 2, with headers and leader epochs; aborted ones and markers go."""
    path = copied("kafka-4.1", "txn-commit-abort-0")
    before, epochs = rows(path, "read_committed", CONSUMED_COLUMNS), bl.Log(path).leader_epochs
    convert(path, Conversion(drop=frozenset({"producers"})))
    for level in ("read_uncommitted", "read_committed"):
        assert rows(path, level, CONSUMED_COLUMNS) == before
    # As at each load, one that no batch has is forgotten.
    assert bl.Log(path).leader_epochs == [epoch for epoch in epochs if epoch.start_offset < bl.Log(path).log_end_offset]
    assert not list(path.glob("*.txnindex")) or all(not file.stat().st_size for file in path.glob("*.txnindex"))
    batches = b"".join(file.read_bytes() for file in sorted(path.glob("*.log")))
    with bl.create_log_dir(tmp_path / "other", kraft=False) as other:
        other.create_topic("t")
        other.log("t", 0).append_as_follower(batches)
    assert _native.highest_cluster_producer_id(batches) is None


def test_batches_are_joined_only_where_nobody_else_may_end(copied):
    """By what the metadata say of replicas, and how far the high watermark was."""
    data = copied("kafka-4.1", "idempotent-0", "__cluster_metadata-0")
    cluster, key = Cluster.of(str(data), 1), ("idempotent", 0)
    assert cluster.replication(key, 7) == SOLE
    assert Cluster.of(str(data), 2).replication(key, 7) == Replication(0, 7)
    set_replicas(cluster.image, *key, (1, 2), in_sync=(1,))
    assert cluster.replication(key, 7) == Replication(0, 7)
    set_replicas(cluster.image, *key, (1, 2), in_sync=(2, 1))
    assert cluster.replication(key, 7) == Replication(7, 7)
    assert cluster.replication(key, None) == Replication(0, 0)
    # Of what nobody describes, nothing is known; of what is, a broker takes a missing entry for 0.
    assert cluster.replication(("other", 0), 7) == Replication(0, 7)
    assert cluster.replication(("other", 0), None) == Replication(0, None)
    cluster.image.is_whole = False
    assert cluster.replication(key, 7) == Replication(0, 7)


@pytest.mark.parametrize("known", ["no others", "nothing", "some"])
def test_a_high_watermark_never_moves_over_what_other_replicas_may_not_have(copied, known):
    """Else a broker that starts serves records that a new leader may truncate, and a cleaner relies on them."""
    path = copied("kafka-4.1", "idempotent-0")
    starts = [row["base_offset"] for batches in bl.Log(path).scan() for row in batches.to_pylist()]
    end = {"no others": None, "nothing": 0, "some": starts[-3]}[known]
    with LogWriter.open(str(path), config=TopicConfig(), is_clean=True, replication=Replication(end, end)) as log:
        assert log.replicated_end == (log.log_end_offset if end is None else end)
        assert log.state().high_watermark == log.replicated_end
        verb = Conversion(batch_size=1 << 16)
        if end == 0:
            with pytest.raises(ValueError, match=r"may end inside a joined batch.*give sole_replica"):
                log.run(verb)
            assert log.run(Conversion(batch_size=1 << 16, sole_replica=True)).apart_batches == 0
        else:
            assert log.run(verb).apart_batches == sum(start >= end for start in starts if end is not None)
    left = [row["base_offset"] for batches in bl.Log(path).scan() for row in batches.to_pylist()]
    assert left[0] == 0
    assert len(left) < len(starts)
    assert [start for start in left if end and start >= end] == [start for start in starts if end and start >= end]


def test_messages_of_old_formats_are_not_made_a_batch_each(copied):
    """Which would take many times the space: it is refused, and told how to do it."""
    path = copied("kafka-2.8-v1", "codec-none-0")
    with (
        LogWriter.open(str(path), config=TopicConfig(), is_clean=True, replication=Replication(0, None)) as log,
        pytest.raises(ValueError, match=r"messages outside any wrapper"),
    ):
        log.run(Conversion(magic=2))
    assert {row["magic"] for rows in bl.Log(path).scan() for row in rows.to_pylist()} == {1}
