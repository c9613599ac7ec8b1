"""What remote storage holds, as the topic of the remote log managers says it."""

import shutil
from pathlib import Path

import pytest

import brokerless as bl
from brokerless.state import remote_segments
from brokerless.state.internal_topic import StateRecord
from support.log_files import batch, write_segment
from support.state_records import remote_segment, write_records

STARTED, FINISHED, DELETING, DELETED = range(4)


def by_partition(table):
    found = {}
    for row in table.to_pylist():
        found.setdefault((row["topic"], row["partition"]), []).append(row)
    return found


def test_the_segments_are_those_of_the_storage(golden):
    """Kafka's storage for tests has a file for each, named by offset and segment id."""
    found = by_partition(bl.remote_segments(golden / "logs/kafka-4.1-tiered"))
    assert sorted(found) == [("tiered-plain", 0), ("tiered-txn", 0), ("tiered-zstd", 0)]
    for (topic, partition), rows in found.items():
        log = bl.Log(golden / f"logs/kafka-4.1-tiered/{topic}-{partition}")
        assert {row["topic_id"] for row in rows} == {log.topic_id}
        assert {row["state"] for row in rows} == {"COPY_SEGMENT_FINISHED"}
        assert rows[0]["start_offset"] == log.log_start_offset
        # Each begins behind the one before.
        ends = [row["end_offset"] + 1 for row in rows]
        assert [row["start_offset"] for row in rows[1:]] == ends[:-1]
        assert ends[-1] >= log.local_log_start_offset
        assert all(row["bytes"] > 0 and row["leader_epochs"] for row in rows)


def test_segments_at_a_time_and_of_a_topic(golden):
    broker = golden / "logs/kafka-4.1-tiered"
    whole = bl.remote_segments(broker)
    times = sorted(row["updated"] for row in whole.to_pylist())
    early = bl.remote_segments(broker, as_of=times[len(times) // 2])
    assert 0 < early.num_rows < whole.num_rows
    chosen = bl.remote_segments(broker, topics=["tiered-zstd"])
    assert set(chosen["topic"].to_pylist()) == {"tiered-zstd"}


def test_a_directory_without_remote_segments(golden, tmp_path):
    shutil.copytree(Path(golden / "logs/kafka-4.1/nulls-0"), tmp_path / "nulls-0")
    with pytest.warns(UserWarning, match="no partition of __remote_log_metadata is in the paths"):
        assert bl.remote_segments(tmp_path).num_rows == 0


def test_a_deleted_partition_takes_its_own_segments(tmp_path, monkeypatch):
    """The other partitions of its topic, and topics of the same name, keep theirs."""
    places = [{"name": "t", "id": topic_id, "partition": number} for topic_id, number in (("a", 0), ("a", 1), ("b", 0))]
    fields = {"startOffset": 0, "endOffset": 1, "segmentSizeInBytes": 1, "maxTimestampMs": 1, "segmentLeaderEpochs": []}
    fields |= {"remoteLogSegmentState": 1, "brokerId": 1, "eventTimestampMs": 1}
    values = [
        ("RemoteLogSegmentMetadataRecord", {"remoteLogSegmentId": {"topicIdPartition": place, "id": str(i)}, **fields})
        for i, place in enumerate(places)
    ]
    deleted = {"topicIdPartition": places[1], "remotePartitionDeleteState": 2}
    values.append(("RemotePartitionDeleteMetadataRecord", deleted))
    records = [StateRecord(name, {}, value, 0, offset, 0) for offset, (name, value) in enumerate(values)]
    write_segment(tmp_path / "__remote_log_metadata-0", 0, [batch(0, [b"x"])])
    monkeypatch.setattr(remote_segments, "state_records", lambda _log, _rows: records)
    assert [row["segment_id"] for row in bl.remote_segments(tmp_path).to_pylist()] == ["0", "2"]
    assert bl.remote_segments(tmp_path, history=True).num_rows == 3


def written(directory, *changes, **options):
    """Return the states and custom metadata of segments whose records are these."""
    records = []
    for segment, states in enumerate(changes):
        records.append((None, remote_segment(segment, is_new=True)))
        records += [(None, remote_segment(segment, state, custom=custom)) for state, custom in states]
    write_records(directory, "__remote_log_metadata", records)
    rows = bl.remote_segments(directory, **options).to_pylist()
    return {row["segment_id"][-2:]: (row["state"], row["custom_metadata"]) for row in rows}


def test_changes_that_do_not_follow_a_state_are_dropped(tmp_path):
    """As brokers do: a broker wrote them that did not know yet that it no longer led."""
    late = [(FINISHED, b"in time"), (DELETING, b"in time"), (FINISHED, b"late")]
    early = [(DELETED, b"early")]
    deleted = [(DELETING, None), (DELETED, None), (FINISHED, b"late")]
    expected = [("DELETE_SEGMENT_STARTED", b"in time"), ("COPY_SEGMENT_STARTED", None)]
    assert list(written(tmp_path / "now", late, early, deleted).values()) == expected
    states = written(tmp_path / "all", late, early, deleted, history=True)
    assert list(states.values()) == [*expected, ("DELETE_SEGMENT_FINISHED", None)]


def test_the_last_change_says_the_custom_metadata(tmp_path):
    changed = [(FINISHED, b"first"), (FINISHED, b"again")]
    removed = [(FINISHED, b"first"), (DELETING, None)]
    found = list(written(tmp_path, changed, removed).values())
    assert found == [("COPY_SEGMENT_FINISHED", b"again"), ("DELETE_SEGMENT_STARTED", None)]


def test_a_state_of_a_newer_release(tmp_path):
    assert list(written(tmp_path, [(9, None)], [(9, None), (DELETING, None)]).values()) == [
        ("9", None),
        ("DELETE_SEGMENT_STARTED", None),
    ]
