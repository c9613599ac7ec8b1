"""Groups of all types, with their state, their members and what the members are assigned."""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless import _native
from brokerless.arguments import to_ms
from brokerless.errors import BrokerlessError
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.state.internal_topic import OFFSETS_TOPIC, latest_records, logs_of, state_records
from brokerless.state.schema import TIME, schema, structs
from brokerless.state.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokerless.arguments import Time
    from brokerless.log.log import Log
    from brokerless.state.internal_topic import StateRecord

_PARTITIONS = structs(topic=pa.string(), partitions=pa.list_(pa.int32()))
_MEMBERS = structs(
    member_id=pa.string(),
    instance_id=pa.string(),
    client_id=pa.string(),
    client_host=pa.string(),
    epoch=pa.int32(),
    topics=pa.list_(pa.string()),
    assignment=_PARTITIONS,
)
SCHEMA = schema(
    group=pa.string(),
    type=pa.string(),
    state=pa.string(),
    protocol_type=pa.string(),
    protocol=pa.string(),
    epoch=pa.int32(),
    assignment_epoch=pa.int32(),
    leader=pa.string(),
    members=_MEMBERS,
    updated=TIME,
    coordinator_partition=pa.int32(),
)
# MemberState.STABLE of each protocol that has such states.
_STABLE = {"consumer": 0, "streams": 1}
_KINDS = {"ConsumerGroup": "consumer", "ShareGroup": "share", "StreamsGroup": "streams"}
# Of these, the assignment of a member lists tasks of subtopologies.
_TASKS = ("activeTasks", "standbyTasks", "warmupTasks")


def groups(*paths: str | os.PathLike[str], at: Time | None = None) -> pa.Table:
    """Return the groups of log directories, as their coordinators would describe them after a start.

    Columns: `group`; `type` ("classic", "consumer", "share", "streams"); `state` as Kafka names it; `protocol_type` and
    `protocol` (of a new group: the assignor that its members ask for, null if none does); `epoch` (of a classic group:
    the generation); `assignment_epoch`; `leader`; `members`, a list of `member_id`, `instance_id`, `client_id`,
    `client_host`, `epoch`, `topics` and `assignment`, a list of `topic` and `partitions`; `updated`, the time of the
    last change; `coordinator_partition`, the partition of `__consumer_offsets`.

    A group that only commits offsets is an empty classic group, also if its transaction is still open. Kafka may list
    a group without any offset or member a while longer. Where no metadata have a topic's name, `topic` is the
    id.

    Args:
        paths: log directories, or partition directories of `__consumer_offsets`.
        at: the groups at this time, as far as compaction left records of it; None: at the end.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory.

    >>> import brokerless as bl
    >>> bl.groups(SAMPLE_DIR).num_rows
    0
    """
    return pa.Table.from_pylist(group_rows(*paths, at=at), SCHEMA)


def group_rows(*paths: str | os.PathLike[str], at: Time | None = None) -> list[dict[str, Any]]:
    """Return the rows of `groups`, with times in ms."""
    directories = LogDirs(*paths)
    until = None if at is None else to_ms("at", at)
    names = TopicNames(directories)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = threads.map(partial(groups_of, names=names, at=until), logs_of(directories, OFFSETS_TOPIC))
        rows = [row for of_log in found for row in of_log]
    return sorted(rows, key=lambda row: str(row["group"]))


def groups_of(log: Log, names: TopicNames, *, at: int | None = None) -> list[dict[str, Any]]:
    """Return the groups of one partition of `__consumer_offsets`, as rows of `SCHEMA`.

    Args:
        log: the partition. A group is in one only.
        names: the names of topics.
        at: the time in ms; None: the end.
    """
    pending: list[pa.RecordBatch] = []
    latest = latest_records(log, at=at, pending=pending)
    committing = latest.take_commit_groups()
    for rows in pending:
        for group, timestamp in _committing(rows).items():
            committing.setdefault(group, timestamp)
    found: dict[str, _Group] = {}
    for rows in latest.take():
        for record in state_records(log, rows):
            # Older types of records call it group.
            name = record.key.get("group", record.key.get("groupId", ""))
            found.setdefault(name, _Group(name, log.partition or 0, names)).add(record)
    described = {name: group.row() for name, group in found.items()}
    for name, timestamp in committing.items():
        if described.get(name) is None:
            described[name] = {
                "group": name,
                "type": "classic",
                "state": "Empty",
                "protocol_type": None,
                "protocol": None,
                "epoch": None,
                "members": [],
                "updated": timestamp,
                "coordinator_partition": log.partition,
            }
    return [row for row in described.values() if row is not None]


def _committing(rows: pa.RecordBatch) -> dict[str, int]:
    """Return the groups whose offset commits are among rows, with the newest timestamp of each."""
    latest = _native.LatestRecords()
    latest.push(rows["key"], rows["value"], rows["offset"], rows["timestamp"])
    return latest.take_commit_groups()


class _Group:
    """A group from its records. Each type of record adds what it says."""

    def __init__(self, name: str, partition: int, names: TopicNames) -> None:
        self._name, self._partition, self._names = name, partition, names
        self._records: dict[str, StateRecord] = {}
        self._of_members: dict[str, dict[str, StateRecord]] = {}

    def add(self, record: StateRecord) -> None:
        """Take a record. One of a member is kept with the member."""
        member = record.key.get("memberId")
        if member is None:
            self._records[record.name] = record
        else:
            self._of_members.setdefault(record.name, {})[member] = record

    def row(self) -> dict[str, Any] | None:
        """Return the group as a row; None if its records say that there is none."""
        for prefix, kind in _KINDS.items():
            metadata = self._records.get(f"{prefix}Metadata")
            if metadata is not None:
                return self._new(prefix, kind, metadata)
        metadata = self._records.get("GroupMetadata")
        return None if metadata is None else self._classic(metadata)

    def _row(self, **columns: object) -> dict[str, Any]:
        records = [*self._records.values()]
        records += [record for of_type in self._of_members.values() for record in of_type.values()]
        updated = max(record.timestamp for record in records)
        return {"group": self._name, "updated": updated, "coordinator_partition": self._partition, **columns}

    def _classic(self, metadata: StateRecord) -> dict[str, Any]:
        value = metadata.value
        is_consumer = value["protocolType"] == "consumer"
        members = [
            {
                "member_id": member["memberId"],
                "instance_id": member.get("groupInstanceId"),
                "client_id": member["clientId"],
                "client_host": member["clientHost"],
                "epoch": value["generation"],
                "topics": _subscription(member["subscription"]) if is_consumer else None,
                "assignment": _assignment(member["assignment"]) if is_consumer else None,
            }
            for member in value["members"]
        ]
        return self._row(
            type="classic",
            state="Stable" if members else "Empty",
            protocol_type=value["protocolType"],
            protocol=value["protocol"],
            epoch=value["generation"],
            leader=value["leader"],
            members=members,
        )

    def _new(self, prefix: str, kind: str, metadata: StateRecord) -> dict[str, Any]:
        epoch = metadata.value["epoch"]
        target = self._records.get(f"{prefix}TargetAssignmentMetadata")
        assignment_epoch = 0 if target is None else target.value["assignmentEpoch"]
        current = self._of_members.get(f"{prefix}CurrentMemberAssignment", {})
        known = self._of_members.get(f"{prefix}MemberMetadata", {})
        members = [self._member(member, record.value, current.get(member)) for member, record in known.items()]
        assignors = Counter(record.value.get("serverAssignor") for record in known.values())
        assignors.pop(None, None)
        state = "Empty"
        if members:
            stable = _STABLE.get(kind)
            progress = self._progress(epoch, assignment_epoch, [current.get(member) for member in known], stable)
            state = "Stable" if stable is None else progress
        if kind == "streams" and members:
            topology = self._records.get("StreamsGroupTopology")
            if topology is None or topology.value["epoch"] != metadata.value.get("validatedTopologyEpoch", -1):
                state = "NotReady"
        return self._row(
            type=kind,
            state=state,
            protocol_type="consumer" if kind == "consumer" else kind,
            protocol=next((name for name, _ in assignors.most_common(1)), None),
            epoch=epoch,
            assignment_epoch=assignment_epoch,
            members=members,
        )

    @staticmethod
    def _progress(epoch: int, assignment_epoch: int, assigned: Iterable[StateRecord | None], stable: int | None) -> str:
        """Return how far a group with members is (`ConsumerGroup.maybeUpdateGroupState`)."""
        if epoch > assignment_epoch:
            return "Assigning"
        values = [{} if record is None else record.value for record in assigned]
        are_there = all(
            value.get("state") == stable and value.get("memberEpoch") == assignment_epoch for value in values
        )
        return "Stable" if are_there else "Reconciling"

    def _member(self, member: str, value: dict[str, Any], current: StateRecord | None) -> dict[str, Any]:
        assigned = {} if current is None else current.value
        topics = value.get("subscribedTopicNames")
        if value.get("subscribedTopicRegex"):
            topics = [*(topics or []), value["subscribedTopicRegex"]]
        return {
            "member_id": member,
            "instance_id": value.get("instanceId"),
            "client_id": value.get("clientId"),
            "client_host": value.get("clientHost"),
            "epoch": assigned.get("memberEpoch"),
            "topics": topics,
            "assignment": self._assigned(assigned),
        }

    def _assigned(self, assigned: dict[str, Any]) -> list[dict[str, Any]]:
        found = [
            {"topic": self._names.of(one["topicId"]), "partitions": sorted(one["partitions"])}
            for one in assigned.get("assignedPartitions", ())
        ]
        for kind in _TASKS:
            found += [
                {
                    "topic": f"{kind.removesuffix('Tasks')} {one['subtopologyId']}",
                    "partitions": sorted(one["partitions"]),
                }
                for one in assigned.get(kind, ())
            ]
        return sorted(found, key=lambda one: one["topic"])


def _subscription(text: str | None) -> list[str] | None:
    subscribed = _embedded("ConsumerProtocolSubscription", text)
    return None if subscribed is None else sorted(subscribed["topics"])


def _assignment(text: str | None) -> list[dict[str, Any]] | None:
    assigned = _embedded("ConsumerProtocolAssignment", text)
    if assigned is None:
        return None
    partitions = [
        {"topic": one["topic"], "partitions": sorted(one["partitions"])} for one in assigned["assignedPartitions"]
    ]
    return sorted(partitions, key=lambda one: one["topic"])


def _embedded(name: str, text: str | None) -> dict[str, Any] | None:
    """Decode a message that a client put into a record; None: there is none, or it is the client's own."""
    data = base64.b64decode(text or "")
    if not data:
        return None
    # As in Kafka, a later version begins with the fields of the newest known one.
    version = min(int.from_bytes(data[:2], signed=True), _NEWEST)
    try:
        return json.loads(_native.embedded_json(name, data[2:], version))  # type: ignore[no-any-return]
    except (BrokerlessError, ValueError):
        return None


# ConsumerProtocolSubscription.HIGHEST_SUPPORTED_VERSION
_NEWEST = 3
