"""Logs before and after a real broker's cleaner: with its clock, ours leaves what it left."""

import shutil

import pytest

import brokerless as bl
from brokerless.io import storage
from brokerless.log.segment import segments_in, transaction_index
from brokerless.rewriting.compact.compact import Compaction
from support.kafka_answers import CONSUMED_COLUMNS, as_consumed

HOUR = 3_600_000
RETENTIONS = {
    "compact-plain": HOUR,
    "compact-tombstones": 1,
    "compact-codecs": HOUR,
    "compact-idempotent": 1,
    "compact-txn": HOUR,
    "compact-txn-expired": 1,
    "compact-log-append-time": HOUR,
    "compact-delete": HOUR,
}


def compacted(golden, tmp_path, log_dir, partition, **settings):
    """Copy a partition, compact the copy, and return its directory and the report."""
    source = golden / "logs" / f"{log_dir}-before-compaction" / partition
    directory = tmp_path / partition
    shutil.copytree(source, directory)
    now = settings.pop("now")
    topic = bl.TopicConfig(cleanup_policy="compact", **settings)
    with bl.LogWriter.open(str(directory), config=topic, is_clean=True, now=lambda: now) as log:
        return directory, log.run(Compaction(release="4.1"))


def headers(segment, *gone):
    return [h for found in segment.scan(check_crcs=True) for h in found.drop_columns([*gone]).to_pylist()]


def aborted(segment):
    index = transaction_index(segment)
    return [] if index is None else index.entries().to_pylist()


def rows(directory):
    return as_consumed(bl.Log(str(directory)).read(columns=CONSUMED_COLUMNS))


@pytest.mark.parametrize("topic", RETENTIONS)
def test_a_compacted_log_equals_what_the_cleaner_of_4_1_left(golden, tmp_path, topic):
    retention, after = RETENTIONS[topic], golden / "logs" / "kafka-4.1-compacted" / f"{topic}-0"
    theirs = segments_in(str(after))
    horizons = {h["delete_horizon_ms"] for segment in theirs for h in headers(segment)} - {None}
    # one pass, at one time; where nothing was stamped, any will do
    assert len(horizons) <= 1
    now = max(horizons, default=theirs[0].modified) - retention
    directory, report = compacted(
        golden,
        tmp_path,
        "kafka-4.1",
        f"{topic}-0",
        now=now,
        segment_bytes=12288,
        index_interval_bytes=512,
        delete_retention_ms=retention,
    )
    ours = segments_in(str(directory))
    assert [segment.base_offset for segment in ours] == [segment.base_offset for segment in theirs]
    for mine, kafkas in zip(ours, theirs, strict=True):
        assert headers(mine, "position", "size", "batch_length", "crc") == headers(
            kafkas, "position", "size", "batch_length", "crc"
        )
        if not {"gzip", "lz4", "snappy", "zstd"} & {h["compression"] for h in headers(kafkas)}:
            assert storage.read_all(mine.path) == storage.read_all(kafkas.path)
            for name in ("index", "timeindex"):
                paths = [segment.path.removesuffix("log") + name for segment in (mine, kafkas)]
                assert storage.read_all(paths[0]) == storage.read_all(paths[1]), name
        assert aborted(mine) == aborted(kafkas)
    assert rows(directory) == rows(after)
    assert bl.LogDirFiles(str(after.parent)).first_dirty_offsets[topic, 0] == report.first_uncleanable_offset


def test_what_28_left_of_three_formats(golden, tmp_path):
    after = golden / "logs" / "kafka-2.8-mixed" / "upgraded-compact-0"
    directory, _ = compacted(
        golden, tmp_path, "kafka-2.8-mixed", "upgraded-compact-0", now=0, segment_bytes=8192, delete_retention_ms=HOUR
    )
    assert rows(directory) == rows(after)


@pytest.mark.parametrize("magic", ["v0", "v1"])
def test_what_28_left_of_an_old_format_and_newer_records(golden, tmp_path, magic):
    directory, report = compacted(
        golden, tmp_path, f"kafka-2.8-{magic}", "compact-0", now=0, segment_bytes=8192, delete_retention_ms=1
    )
    end = report.first_uncleanable_offset
    theirs = rows(golden / "logs" / f"kafka-2.8-{magic}" / "compact-0")
    ours = [row for row in rows(directory) if row["offset"] < end]
    newer = {row["key"] for row in theirs if row["offset"] >= end}
    assert report.total("superseded") > 100
    # what was not written to again is there, but for tombstones, which have gone since
    assert [row for row in ours if row["key"] not in newer and row["value"] is not None] == [
        row for row in theirs if row["offset"] < end and row["key"] not in newer and row["value"] is not None
    ]
    assert {row["offset"] for row in theirs if row["offset"] < end} <= {row["offset"] for row in ours}
