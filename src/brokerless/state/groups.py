"""Groups of all types, with their state, their members and the members' assignments."""

from __future__ import annotations

import base64
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.arguments import check_paths, to_ms
from brokerless.errors import BrokerlessError
from brokerless.io.cores import cores
from brokerless.io.runner import Threads
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.metadata.schema import TIME, schema, structs
from brokerless.metadata.topic_names import TopicNames
from brokerless.notes import LeftOut, note
from brokerless.state.internal_topic import (
    MEMORY,
    OFFSETS_TOPIC,
    RowMemory,
    committed_rows,
    latest_records,
    more_memory,
    needed_logs_of,
    state_records,
)
from brokerless.wording import in_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator

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
    is_removed=pa.bool_(),
    coordinator_partition=pa.int32(),
    coordinator_offset=pa.int64(),
    coordinator_time=TIME,
)
# The value of MemberState.STABLE, for each protocol that has member states.
_STABLE = {"consumer": 0, "streams": 1}
_KINDS = {"ConsumerGroup": "consumer", "ShareGroup": "share", "StreamsGroup": "streams"}
# The records without which a group does not exist.
_METADATA = ("GroupMetadata", *(f"{prefix}Metadata" for prefix in _KINDS))
# The kinds of tasks in a streams member's assignment, which lists them by subtopology.
_TASKS = ("activeTasks", "standbyTasks", "warmupTasks")


def groups(
    *paths: str | os.PathLike[str], as_of: Time | None = None, history: bool = False, memory: int = MEMORY
) -> pa.Table:
    """Return the groups in log directories, as their coordinators would describe them after a start.

    Columns: `group`; `type` ("classic", "consumer", "share", "streams"); `state` as Kafka names it; `protocol_type` and
    `protocol` (of a new group: the assignor that its members request, null if none does); `epoch` (of a classic group:
    the generation); `assignment_epoch`; `leader`; `members`, a list of `member_id`, `instance_id`, `client_id`,
    `client_host`, `epoch`, `topics` and `assignment`, a list of `topic` and `partitions`; `updated`, the time of the
    last change; `is_removed`, whether a change removes the group, which leaves the columns before it null;
    `coordinator_partition coordinator_offset coordinator_time`, the place and time of the last record in
    `__consumer_offsets`. The offset is null for a group that only commits offsets.

    A group that only commits offsets is an empty classic group, even if its transaction is still open. Kafka may still
    list a group for a while after it has lost its last offset and member. If no metadata have a topic's name, `topic`
    is the topic id.

    With `history`, a group has one row per change. The row has the state of the group after the records that a
    coordinator wrote together. The rows are in the order of the coordinators' logs. Offset commits do not change a
    group; for their history see `commits`.

    Args:
        paths: log directories, or partition directories of `__consumer_offsets`.
        as_of: return the groups at this time, as far as compaction has left records from it; None: at the end.
        history: return every change up to `as_of` that compaction has left, instead of only the last state.
        memory: the approximate number of bytes for the records, in addition to one batch. Records and groups that take
            more are left out, and a warning names them.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory.

    >>> import brokerless as bl
    >>> bl.groups(CLUSTER_DIR).num_rows
    4
    """
    check_paths("groups", paths)
    if history:
        return pa.Table.from_batches(group_changes(*paths, as_of=as_of, memory=memory), SCHEMA)
    return pa.Table.from_pylist(group_rows(*paths, as_of=as_of, memory=memory), SCHEMA)


def group_changes(
    *paths: str | os.PathLike[str],
    as_of: Time | None = None,
    groups: Collection[str] | None = None,
    memory: int = MEMORY,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `groups` with `history`. The argument `groups` limits them to some names."""
    directories = LogDirs(*paths)
    until = None if as_of is None else to_ms("as_of", as_of)
    names = TopicNames(directories)
    for log in needed_logs_of(directories, OFFSETS_TOPIC):
        yield from changes_of(log, names, as_of=until, groups=groups, memory=memory)


def group_rows(*paths: str | os.PathLike[str], as_of: Time | None = None, memory: int = MEMORY) -> list[dict[str, Any]]:
    """Return the rows of `groups`, with times in ms."""
    directories = LogDirs(*paths)
    until = None if as_of is None else to_ms("as_of", as_of)
    names = TopicNames(directories)
    of_all = RowMemory(memory)

    def of_log(log: Log) -> list[dict[str, Any]]:
        return list(groups_of(log, names, as_of=until, memory=memory, rows=of_all))

    with Threads(min(_AT_ONCE, cores())) as threads:
        found = threads.map(of_log, needed_logs_of(directories, OFFSETS_TOPIC))
        rows = [row for of_one in found for row in of_one]
    return sorted(rows, key=lambda row: str(row["group"]))


def changes_of(
    log: Log,
    names: TopicNames,
    *,
    as_of: int | None = None,
    groups: Collection[str] | None = None,
    memory: int = MEMORY,
) -> Iterator[pa.RecordBatch]:
    """Yield each change of the groups of one partition of `__consumer_offsets`, with the schema `SCHEMA`.

    Args:
        log: the partition.
        names: the names of topics.
        as_of: only changes up to this time in ms; None: all.
        groups: only these groups; None: all.
        memory: see `groups`.
    """
    rows: list[dict[str, Any]] = []
    size = 0
    for row in _changes(log, names, as_of, memory):
        if groups is None or row["group"] in groups:
            rows.append(row)
            size += 1 + len(row.get("members", ()))
        if size >= _CHUNK:
            yield pa.RecordBatch.from_pylist(rows, SCHEMA)
            rows, size = [], 0
    if rows:
        yield pa.RecordBatch.from_pylist(rows, SCHEMA)


def _changes(log: Log, names: TopicNames, as_of: int | None, memory: int) -> Iterator[dict[str, Any]]:
    known: dict[str, _Group] = {}
    changing: _Group | None = None
    taken = 0
    for rows in committed_rows(log, as_of=as_of):
        for record in state_records(log, _without_commits(rows), memory=memory):
            name = _group_of(record)
            group = known.get(name)
            if group is None:
                group = known[name] = _Group(name, log.partition or 0, names)
            # A coordinator gives all records of one write the same time, and writes them next to each other.
            if changing is not None and (changing is not group or not changing.is_changed_at(record.timestamp)):
                yield from changing.change()
                if changing.is_empty:
                    del known[changing.name]
                    known.setdefault(name, group)
            taken += group.add(record)
            if taken > memory // 2:
                note(
                    LeftOut(
                        f"{log.name}: changes are shown only up to offset {record.offset}, because the groups at this "
                        f"point take more than {in_bytes(memory // 2)} of memory: {more_memory(2 * memory)}"
                    )
                )
                return
            changing = group
    if changing is not None:
        yield from changing.change()


def _group_of(record: StateRecord) -> str:
    # In older record types, the field is named `group`.
    return record.key.get("group", record.key.get("groupId", ""))  # type: ignore[no-any-return]


def _without_commits(rows: pa.RecordBatch) -> pa.RecordBatch:
    kinds = pc.binary_slice(rows["key"], 0, 2)
    is_commit = pc.is_in(kinds, value_set=pa.array(_COMMIT_TYPES, kinds.type))
    return rows.filter(pc.invert(is_commit))


def groups_of(
    log: Log,
    names: TopicNames,
    *,
    as_of: int | None = None,
    memory: int = MEMORY,
    rows: RowMemory | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the groups of one partition of `__consumer_offsets`, as rows of `SCHEMA`.

    Args:
        log: the partition. Each group is in only one partition.
        names: the names of topics.
        as_of: the time in ms; None: the end.
        memory: see `groups`.
        rows: the memory for the rows of several partitions; None: for the rows of this partition alone.
    """
    rows = rows or RowMemory(memory)
    pending = _native.LatestRecords(memory // 2)
    latest = latest_records(log, as_of=as_of, pending=pending, memory=memory)
    committing = latest.take_commit_groups()
    for group, timestamp in pending.take_commit_groups().items():
        committing.setdefault(group, timestamp)
    for row in _described(log, latest, names, memory):
        committing.pop(row["group"], None)
        if not rows.take(log, _size(row)):
            return
        yield row
    for name, timestamp in committing.items():
        row = {
            "group": name,
            "type": "classic",
            "state": "Empty",
            "protocol_type": None,
            "protocol": None,
            "epoch": None,
            "members": [],
            "updated": timestamp,
            "is_removed": False,
            "coordinator_partition": log.partition,
            "coordinator_time": timestamp,
        }
        if not rows.take(log, _size(row)):
            return
        yield row


def _described(log: Log, latest: _native.LatestRecords, names: TopicNames, memory: int) -> Iterator[dict[str, Any]]:
    """Yield the groups that have group records, one at a time. The records of each group are adjacent."""
    group: _Group | None = None
    taken = 0
    for rows in latest.take(by_group=True):
        for record in state_records(log, rows, memory=memory):
            name = _group_of(record)
            if group is None or name != group.name:
                yield from () if group is None else group.rows()
                group, taken = _Group(name, log.partition or 0, names), 0
            taken += record.memory
            if taken <= memory // 2:
                group.add(record)
            elif taken - record.memory <= memory // 2:
                note(
                    LeftOut(
                        f"{log.name}: group {name} is shown without some of its members, because its records take more "
                        f"than {in_bytes(memory // 2)} of memory when they are decoded: {more_memory(2 * memory)}"
                    )
                )
    yield from () if group is None else group.rows()


def _size(row: dict[str, Any]) -> int:
    """Return the approximate memory of a row, in bytes."""
    members = row["members"]
    lists = [one for member in members for one in ((member["topics"] or ()), *_partitions(member))]
    return _ROW_SIZE * (1 + len(members)) + _ITEM_SIZE * sum(map(len, lists))


def _partitions(member: dict[str, Any]) -> list[list[int]]:
    return [one["partitions"] for one in member["assignment"] or ()]


class _Group:
    """A group, built from its records. Each record type adds its own facts."""

    def __init__(self, name: str, partition: int, names: TopicNames) -> None:
        self.name, self._partition, self._names = name, partition, names
        self._records: dict[str, StateRecord] = {}
        self._of_members: dict[str, dict[str, StateRecord]] = {}
        self._last: StateRecord | None = None
        self._is_ending = False

    @property
    def is_empty(self) -> bool:
        """True if no record is left."""
        return not self._records and not any(self._of_members.values())

    def add(self, record: StateRecord) -> int:
        """Add the next record. The record of a member is kept with the member.

        Returns:
            The growth of the memory that the group's records take, in bytes.
        """
        member = record.key.get("memberId")
        records: dict[str, StateRecord] = (
            self._records if member is None else self._of_members.setdefault(record.name, {})
        )
        key = record.name if member is None else member
        before = records.pop(key, None) if record.value is None else records.get(key)
        if record.value is None:
            self._is_ending |= record.name in _METADATA
        else:
            records[key] = record
        self._last = record
        return (0 if record.value is None else record.memory) - (0 if before is None else before.memory)

    def is_changed_at(self, timestamp: int) -> bool:
        """Return whether the last record has this time."""
        return self._last is not None and self._last.timestamp == timestamp

    def change(self) -> Iterator[dict[str, Any]]:
        """Yield the group as the records since the last call have changed it, if it exists or existed."""
        row = self.row()
        if row is not None:
            yield row
        elif self._is_ending:
            yield {"group": self.name, "is_removed": True, **self._place()}
        self._is_ending = False

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the group as a row, if it exists."""
        row = self.row()
        if row is not None:
            yield row

    def row(self) -> dict[str, Any] | None:
        """Return the group as a row; None if its records show that it does not exist."""
        for prefix, kind in _KINDS.items():
            metadata = self._records.get(f"{prefix}Metadata")
            if metadata is not None:
                return self._new(prefix, kind, metadata)
        metadata = self._records.get("GroupMetadata")
        return None if metadata is None else self._classic(metadata)

    def _place(self) -> dict[str, Any]:
        last = self._last
        return {
            "coordinator_partition": self._partition,
            "coordinator_offset": None if last is None else last.offset,
            "coordinator_time": None if last is None else last.timestamp,
        }

    def _row(self, **columns: object) -> dict[str, Any]:
        place = self._place()
        return {"group": self.name, "updated": place["coordinator_time"], "is_removed": False, **place, **columns}

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
        """Return the state of a group with members (`ConsumerGroup.maybeUpdateGroupState`)."""
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
    """Decode a message that a client put into a record; None if it is missing, or in the client's own format."""
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
# The first two bytes of the key of an offset commit.
_COMMIT_TYPES = (b"\0\0", b"\0\1")
# The approximate memory, in bytes, of a row or a member, and of a partition or topic in a row.
_ROW_SIZE, _ITEM_SIZE = 1200, 120
# The number of partitions that are read at once. Each takes memory, and more of them would wait for Python's lock.
_AT_ONCE = 2
# The number of rows and members in a batch of changes.
_CHUNK = 16 << 10
