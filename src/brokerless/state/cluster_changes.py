"""The changes that operators made to a cluster, one by one, from its metadata log."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.errors import CorruptRecordError, UnsupportedFormatError, located
from brokerless.io import storage
from brokerless.metadata.directory import CutSnapshotError, formatted_snapshot
from brokerless.metadata.image import SECRETS, MetadataImage, config_row, entity_of, quota_row, user_row
from brokerless.metadata.log import replay_rows, replay_snapshot, snapshots
from brokerless.metadata.schema import TIME, schema
from brokerless.notes import note
from brokerless.state.cluster import changes_of_row

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from brokerless.log.log import Log

SCHEMA = schema(
    time=TIME,
    offset=pa.int64(),
    subject=pa.string(),
    key=pa.string(),
    change=pa.string(),
    column=pa.string(),
    before=pa.string(),
    after=pa.string(),
)
"""The columns of changes: the time and the offset of the record, and the columns of `ClusterState.diff`."""

MOST_CHANGES = 1000
"""The most changes that are kept, the newest ones."""

# Frequent records that change no topic, setting, ACL, user, quota or feature: BrokerRegistrationChange, FenceBroker,
# NoOp, PartitionChange, ProducerIds, UnfenceBroker. A controller writes two NoOps a second.
_LEFT_OUT = pa.array([bytes((1, kind)) for kind in (5, 7, 8, 15, 17, 20)], pa.binary())


class Changes(NamedTuple):
    """The changes in a metadata log.

    Attributes:
        table: the newest changes with the columns `SCHEMA`, newest first.
        earlier: the number of earlier changes, which the table leaves out.
    """

    table: pa.Table
    earlier: int


NO_CHANGES = Changes(SCHEMA.empty_table(), 0)


def changes_in(log: Log, topics: Collection[str] | None = None, most: int = MOST_CHANGES) -> Changes:
    """Return the changes of topics, settings, ACLs, users, quotas and features in a metadata log.

    The changes of leaders, in-sync replicas and epochs are left out. At damage the changes end, as for a broker.

    Args:
        log: the metadata log.
        topics: only these topics, and their settings; None: everything.
        most: the most changes to return.
    """
    start, image = log.local_log_start_offset, _Recorder(topics, most)
    if start > 0 and not _replay_oldest(log, start, image):
        note(f"earlier metadata of the cluster are not known: {log.path} begins at offset {start}, without a snapshot")
        return NO_CHANGES
    image.records = True
    try:
        for rows in log.read(image.offset, columns=["key", "value", "offset", "timestamp"]):
            heads: Any = pc.binary_slice(rows["value"], 0, 2)
            kept = rows.filter(pc.invert(pc.fill_null(pc.is_in(heads, value_set=_LEFT_OUT), pa.scalar(False))))
            times: Any = kept["timestamp"]
            replay_rows(kept, image, kept["offset"].to_pylist(), times.view(pa.int64()).to_pylist())
    except (CorruptRecordError, UnsupportedFormatError):
        # A finding or a note reports it.
        pass
    found = list(reversed(image.found))
    return Changes(pa.Table.from_pylist(found, SCHEMA), image.total - len(found))


def _replay_oldest(log: Log, start: int, image: _Recorder) -> bool:
    """Replay the oldest snapshot from which the log continues; return False if the log has none."""
    first = formatted_snapshot(log.root.path).rpartition("/")[2]
    for offset, _, path in reversed(snapshots(log)):
        if offset >= start and not path.endswith(f"/{first}"):
            with located(path):
                try:
                    replay_snapshot(storage.read_all(path), image)
                except (CutSnapshotError, CorruptRecordError):
                    return False
            image.offset = offset
            return True
    return False


class _Recorder(MetadataImage):
    """An image that records the changes of each record.

    Attributes:
        records: whether changes are recorded: those in a snapshot are not.
        found: the newest changes, oldest first.
        total: the number of all changes.
    """

    def __init__(self, topics: Collection[str] | None, most: int) -> None:
        super().__init__(secrets=True)
        self.offset = 0
        self.records = False
        self.found: deque[dict[str, Any]] = deque(maxlen=most)
        self.total = 0
        self._wanted = topics
        # The latest change of each topic.
        self._latest: dict[str, dict[str, Any]] = {}

    def _apply(self, name: str, value: dict[str, Any], record: bytes) -> None:
        look = _LOOKS.get(name) if self.records else None
        if look is None:
            super()._apply(name, value, record)
            return
        subject, of = look
        before = of(self, value)
        super()._apply(name, value, record)
        after = of(self, value)
        if before != after:
            self._record(subject, before, after)

    def _record(self, subject: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        offset, time = (self.offset or 0) - 1, self.time or 0
        row = after or before or {}
        if self._wanted is not None and not (
            (subject == "topics" and row["topic"] in self._wanted)
            or (subject == "configs" and row["resource_type"] == "topic" and row["resource"] in self._wanted)
        ):
            return
        changes = list(changes_of_row(subject, before, after))
        if subject == "topics":
            (change,) = changes
            sides = (("before", before), ("after", after))
            change |= {"column": "partitions", **{side: str(row["partitions"]) for side, row in sides if row}}
            if self._grows(change, time):
                return
        for change in _with_a_password(changes) if subject == "users" else changes:
            found = {"time": time, "offset": offset, **change}
            if subject == "topics":
                self._latest[found["key"]] = found
            self.found.append(found)
            self.total += 1

    def _grows(self, change: dict[str, Any], time: int) -> bool:
        """Merge the record of a partition with those before it.

        A controller gives all records of one operation the same time.

        Returns:
            True if the change was merged.
        """
        row = self._latest.get(change["key"])
        if row is None or change["change"] != "changed" or row["change"] == "removed" or row["time"] != time:
            return False
        row["after"] = change["after"]
        return True

    def topic(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """Return the topic of a record; None if it does not exist."""
        name = self._names.get(value["topicId"])
        return None if name is None else {"topic": name, "partitions": len(self._partitions[value["topicId"]])}

    def config(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """Return the setting of a record; None if it is not set."""
        kind, resource, name = value["resourceType"], value["resourceName"], value["name"]
        found = self._configs.get((kind, resource), {}).get(name)
        return None if found is None else config_row(kind, resource, name, found)

    def acl(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """Return the ACL of a record; None if it does not exist."""
        return self._acls.get(value["id"])

    def user(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """Return the user of a record; None if it does not exist."""
        found = self._users.get((value["name"], value["mechanism"]))
        return None if found is None else user_row(found)

    def quota(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """Return the quota of a record; None if it is not set."""
        entity = entity_of(value)
        found = self._quotas.get((entity, value["key"]))
        return None if found is None else quota_row(entity, value["key"], found)

    def feature(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """Return the feature of a record; None if it has no level."""
        level = self._features.get(value["name"])
        return None if level is None else {"feature": value["name"], "level": level}


_LOOKS: dict[str, tuple[str, Callable[[_Recorder, dict[str, Any]], dict[str, Any] | None]]] = {
    "TopicRecord": ("topics", _Recorder.topic),
    "RemoveTopicRecord": ("topics", _Recorder.topic),
    "PartitionRecord": ("topics", _Recorder.topic),
    "ConfigRecord": ("configs", _Recorder.config),
    "AccessControlEntryRecord": ("acls", _Recorder.acl),
    "RemoveAccessControlEntryRecord": ("acls", _Recorder.acl),
    "UserScramCredentialRecord": ("users", _Recorder.user),
    "RemoveUserScramCredentialRecord": ("users", _Recorder.user),
    "ClientQuotaRecord": ("quotas", _Recorder.quota),
    "FeatureLevelRecord": ("features", _Recorder.feature),
}


def _with_a_password(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return changes of a user with one for a new password, which changes up to three columns."""
    open_ones = [change for change in changes if change["column"] not in SECRETS]
    hidden = [{**change, "column": "password"} for change in changes if change["column"] in SECRETS]
    return [*open_ones, *hidden[:1]]
