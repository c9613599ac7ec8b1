"""A log directory to be exported and restored, and what of it has to come back."""

import brokerless as bl
from brokerless.spark import export
from brokerless.spark.jobs.formats import RESTORED_COLUMNS
from support.log_files import NOW, batch
from support.spark_stand_in import Here

FINE = {"minPartitions": "100"}


def rows(log, **options):
    found = []
    for part in log.read(columns=RESTORED_COLUMNS, **options):
        times = part["timestamp"].cast("int64").to_pylist()
        found += [
            {**row, "timestamp": time}
            for row, time in zip(part.drop_columns("timestamp").to_pylist(), times, strict=True)
        ]
    return found


def ends(log):
    return log.log_start_offset, log.log_end_offset


def new_source(path):
    """Make topics: one that starts late and ends with what compaction took, one of two partitions, one empty."""
    with bl.create_log_dir(path) as log_dir:
        log_dir.create_topic("late", segment_bytes=1000, retention_ms=-1)
        log = log_dir.log("late", 0)
        for _ in range(4):
            log.append(batch(0, [b"x"] * 50, timestamp=NOW))
        log.append_as_follower(batch(200, [b"last"], leader_epoch=3, last_offset_delta=49, timestamp=NOW))
        log.run(bl.Retention(before_offset=120))
        log_dir.create_topic("two", 2)
        for number in range(2):
            log_dir.log("two", number).append(batch(0, [b"%d" % number] * 50, timestamp=NOW))
        log_dir.create_topic("empty")
        log_dir.create_topic("expired")
        log_dir.log("expired", 0).append(batch(0, [b"x"] * 7, timestamp=NOW))
        log_dir.log("expired", 0).run(bl.Retention(before_offset=7))
    return path


def exported_to(path, source):
    export(Here(), str(source), str(path), options=FINE)
    return str(path)


def assert_restored(source, path):
    assert bl.LogDirs(path).topics() == bl.LogDirs(source).topics()
    for log in bl.LogDirs(source).logs():
        restored = bl.LogDirs(path).log(log.topic, log.partition)
        assert rows(restored) == rows(log)
        assert ends(restored) == ends(log)
        assert restored.topic_id == log.topic_id
