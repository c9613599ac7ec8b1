"""Logs of real brokers, exported and restored: the same rows at the same offsets, between the same ends."""

import pytest

pytest.importorskip("pyspark")

import brokerless as bl
from brokerless.spark import export, restore
from support.restored_directory import ends, rows
from support.spark_stand_in import Here

LOG_DIRS = ["kafka-4.1", "kafka-4.1-tiered", "kafka-4.1-compacted", "kafka-2.8-mixed", "kafka-2.8-v0", "kafka-2.8-v1"]


def converted(row):
    """Messages of format 0 and 1 are records of format 2 then, as a broker converts them."""
    return {**row, "timestampType": max(row["timestampType"], 0), "leaderEpoch": row["leaderEpoch"] or 0}


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("log_dir", LOG_DIRS)
@pytest.mark.filterwarnings("ignore:.* has no offsets")
def test_golden_logs_come_back_offset_by_offset(golden, tmp_path, log_dir, level):
    options = {"kafka.isolation.level": level, "minPartitions": "20"}
    export(Here(), str(golden / "logs" / log_dir), str(tmp_path / "e"), options=options)
    found = restore(Here(), str(tmp_path / "e"), str(tmp_path / "d"), compression="zstd")
    source, copy = bl.LogDirs(golden / "logs" / log_dir), bl.LogDirs(tmp_path / "d")
    topics = [topic for topic in source.topics() if not topic.startswith("__")]
    assert copy.topics() == topics
    for log in source.logs(topics):
        restored = copy.log(log.topic, log.partition)
        expected = [converted(row) for row in rows(log, isolation_level=level)]
        assert rows(restored) == expected, log.name
        assert rows(restored, isolation_level="read_committed") == expected, log.name
        end = log.log_end_offset if level == "read_uncommitted" else log.last_stable_offset
        assert ends(restored) == (log.local_log_start_offset, end), log.name
        assert restored.topic_id == (log.topic_id or restored.topic_id)
    assert bl.LogDirFiles(str(tmp_path / "d")).is_clean
    assert not list((tmp_path / "d").glob("*-delete"))
    assert sum(partition.rows for partition in found.partitions) == sum(len(rows(log)) for log in copy.logs())
    again = Here()
    assert restore(again, str(tmp_path / "e"), str(tmp_path / "d"), compression="zstd").tasks == 0
    assert again.made == []


def test_json_comes_back_too(golden, tmp_path):
    path = golden / "logs/kafka-4.1"
    export(Here(), str(path), str(tmp_path / "e"), format="json", compression="gzip")
    restore(Here(), str(tmp_path / "e"), str(tmp_path / "d"))
    for log in bl.LogDirs(tmp_path / "d").logs():
        assert rows(log) == rows(bl.LogDirs(path).log(log.topic, log.partition)), log.name


def test_the_metadata_log_is_exported_like_others_and_not_restored(golden, tmp_path):
    """Its topic id is one that no other topic can have."""
    path, metadata = str(golden / "logs/kafka-4.1"), "__cluster_metadata"
    topics = [metadata, "headers"]
    export(Here(), path, str(tmp_path / "e"), topics=topics)
    assert export(Here(), path, str(tmp_path / "e"), topics=topics).tasks == 0
    with pytest.raises(ValueError, match=f"{metadata}: .*Raft layer"):
        restore(Here(), str(tmp_path / "e"), str(tmp_path / "d"))
    assert not (tmp_path / "d").exists()
    restore(Here(), str(tmp_path / "e"), str(tmp_path / "d"), topics=["headers"])
    assert bl.LogDirs(tmp_path / "d").topics() == ["headers"]
