"""The segments in remote storage (KIP-405), from the topic in which remote log managers record them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless.arguments import check_paths, some_or_all, to_ms
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.metadata.schema import TIME, schema, structs
from brokerless.state.internal_topic import (
    REMOTE_LOG_METADATA_TOPIC,
    RowMemory,
    committed_rows,
    needed_logs_of,
    state_records,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from brokerless.arguments import Time
    from brokerless.log.log import Log

SCHEMA = schema(
    topic=pa.string(),
    topic_id=pa.string(),
    partition=pa.int32(),
    segment_id=pa.string(),
    start_offset=pa.int64(),
    end_offset=pa.int64(),
    bytes=pa.int64(),
    max_time=TIME,
    leader_epochs=structs(leader_epoch=pa.int32(), start_offset=pa.int64()),
    has_transactions=pa.bool_(),
    state=pa.string(),
    broker_id=pa.int32(),
    updated=TIME,
    custom_metadata=pa.binary(),
    metadata_partition=pa.int32(),
)
# RemoteLogSegmentState, by its number in records.
STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
_COPY_STARTED, _COPY_FINISHED, _DELETE_STARTED, _DELETED = STATES
# The state changes that brokers apply (RemoteLogSegmentState.isValidTransition). They ignore other changes, which come
# from a former leader.
_CHANGES = {
    *((state, state) for state in STATES),
    (_COPY_STARTED, _COPY_FINISHED),
    (_COPY_STARTED, _DELETE_STARTED),
    (_COPY_FINISHED, _DELETE_STARTED),
    (_DELETE_STARTED, _DELETED),
}
_OF_SEGMENTS = ("RemoteLogSegmentMetadataRecord", "RemoteLogSegmentMetadataUpdateRecord")
# RemotePartitionDeleteState: the partition and its segments are deleted.
_PARTITION_DELETED = 2


def remote_segments(
    *paths: str | os.PathLike[str],
    topics: Iterable[str] | None = None,
    as_of: Time | None = None,
    history: bool = False,
) -> pa.Table:
    """Return the segments of tiered topics in remote storage, according to `__remote_log_metadata`.

    Columns: `topic topic_id partition segment_id start_offset`; `end_offset`, its last offset; `bytes max_time`;
    `leader_epochs`, a list of `leader_epoch` and `start_offset`; `has_transactions`, whether its transaction index has
    entries, null if that is not known; `state` as Kafka names it; `broker_id` of the broker that changed it last;
    `updated`; `custom_metadata`, the note of the storage plug-in; `metadata_partition`, the partition of the topic.

    A broker reads only segments in state COPY_SEGMENT_FINISHED.

    Args:
        paths: log directories.
        topics: only these topics; None: all.
        as_of: return the segments at this time; None: at the end.
        history: whether to return deleted segments, too.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory.

    >>> import brokerless as bl
    >>> bl.remote_segments(CLUSTER_DIR).num_rows
    0
    """
    check_paths("remote_segments", paths)
    wanted = some_or_all("topics", topics)
    directories = LogDirs(*paths)
    until = None if as_of is None else to_ms("as_of", as_of)
    logs = needed_logs_of(directories, REMOTE_LOG_METADATA_TOPIC)
    rows = [row for log in logs for row in segments_of(log, as_of=until, history=history)]
    chosen = [row for row in rows if wanted is None or row["topic"] in wanted]
    table = pa.Table.from_pylist(chosen, SCHEMA)
    return table.sort_by([(column, "ascending") for column in ("topic", "topic_id", "partition", "start_offset")])


def segments_of(log: Log, *, as_of: int | None = None, history: bool = False) -> Iterable[dict[str, Any]]:
    """Return the segments in one partition of `__remote_log_metadata`, as rows of `SCHEMA`.

    Args:
        log: the partition. It holds all segments of the topic partitions that it is responsible for.
        as_of: the time in ms; None: the end.
        history: whether to return deleted segments, too.
    """
    # By topic id and partition, then by segment id.
    of_all: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    memory = RowMemory()
    for rows in committed_rows(log, as_of=as_of):
        for record in state_records(log, rows):
            value = record.value
            if record.name == "RemotePartitionDeleteMetadataRecord":
                if value["remotePartitionDeleteState"] == _PARTITION_DELETED and not history:
                    of_all.pop(_place(value["topicIdPartition"]), None)
                continue
            if record.name not in _OF_SEGMENTS:
                continue
            segment_id, number = value["remoteLogSegmentId"]["id"], value["remoteLogSegmentState"]
            state = STATES[number] if 0 <= number < len(STATES) else str(number)
            segments = of_all.setdefault(_place(value["remoteLogSegmentId"]["topicIdPartition"]), {})
            row = segments.get(segment_id)
            if record.name == "RemoteLogSegmentMetadataRecord":
                is_new = row is None or row["state"] in (_COPY_STARTED, _DELETED)
                if not (is_new and memory.take(log, record.memory)):
                    continue
                row = segments[segment_id] = {**_segment(value), "metadata_partition": log.partition}
            elif row is None or not _may_follow(row["state"], state):
                continue
            row["state"], row["broker_id"], row["updated"] = state, value["brokerId"], value["eventTimestampMs"]
            custom = value.get("customMetadata")
            row["custom_metadata"] = None if custom is None else base64.b64decode(custom)
            if state == _DELETED and not history:
                del segments[segment_id]
    return [row for segments in of_all.values() for row in segments.values()]


def _place(topic_id_partition: dict[str, Any]) -> tuple[str, int]:
    return topic_id_partition["id"], topic_id_partition["partition"]


def _may_follow(before: str, state: str) -> bool:
    """Return whether brokers apply this change of state. Changes from or to states of newer releases always apply."""
    return not {before, state} <= set(STATES) or (before, state) in _CHANGES


def _segment(value: dict[str, Any]) -> dict[str, Any]:
    place = value["remoteLogSegmentId"]["topicIdPartition"]
    return {
        "topic": place["name"],
        "topic_id": place["id"],
        "partition": place["partition"],
        "segment_id": value["remoteLogSegmentId"]["id"],
        "start_offset": value["startOffset"],
        "end_offset": value["endOffset"],
        "bytes": value["segmentSizeInBytes"],
        "max_time": value["maxTimestampMs"] if value["maxTimestampMs"] >= 0 else None,
        "leader_epochs": [
            {"leader_epoch": one["leaderEpoch"], "start_offset": one["offset"]} for one in value["segmentLeaderEpochs"]
        ],
        # Records have this field only if the index is empty, and older brokers never write it.
        "has_transactions": False if value.get("txnIndexEmpty") else None,
    }
