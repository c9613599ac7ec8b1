"""The cluster's metadata as tables, at the end of its log or as of an earlier offset or time."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless.arguments import check_paths, to_ms
from brokerless.errors import UnsupportedFormatError, located
from brokerless.io import storage
from brokerless.layout.file_names import METADATA_TOPIC
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.metadata.bootstrap import bootstrap, bootstrap_file
from brokerless.metadata.directory import formatted_snapshot, has_metadata_log, has_topic_ids, was_started
from brokerless.metadata.image import SCHEMAS, SECRETS, MetadataImage
from brokerless.metadata.log import damaged_in_words, last_time, replay_log, replay_snapshot, snapshots
from brokerless.metadata.schema import finite
from brokerless.metadata.topic_settings import Cluster
from brokerless.notes import collected, note
from brokerless.state.internal_topic import logs_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from brokerless.arguments import Time
    from brokerless.layout.log_dir_files import LogDirFiles
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.log import Log


class ClusterState:
    """The metadata of a cluster at one point.

    Attributes:
        path: the directory of the metadata log, or the file that a new cluster starts with.
        offset: the offset after the last record that was applied; None for a cluster that has not started.
        time: the time of that record in ms; None if it is not known.
        is_whole: False if damage hides the end of the log, so that the state may be outdated.
        notes: one sentence for each part of the metadata that is not known, with the reason.
    """

    def __init__(self, path: str, image: MetadataImage, notes: Iterable[str] = ()) -> None:
        self.path, self._image, self.notes = path, image, list(notes)
        self.offset, self.time, self.is_whole = image.offset, image.time, image.is_whole

    def __repr__(self) -> str:
        return f"<ClusterState at offset {self.offset} of {self.path!r}>"

    def table(self, subject: str) -> pa.Table:
        """Return a table of one subject.

        Args:
            subject: `brokers`, `controllers`, `topics`, `partitions`, `configs`, `acls`, `quotas`, `users`, `features`,
                `tokens` or `voters`.

        Raises:
            ValueError: the subject does not exist.
        """
        if subject not in SCHEMAS:
            raise ValueError(f"unknown subject {subject!r}: there are {', '.join(SCHEMAS)}")
        return self._image.table(subject)

    @property
    def refusal(self) -> str | None:
        """The reason why a controller refuses a record and does not start; None if it accepts all records."""
        return self._image.refusal

    def of_directory(self, root: LogDirFiles, beside: Iterable[LogDirFiles] = ()) -> Cluster:
        """Return the cluster of a log directory, described by these metadata. The directory may have none itself.

        Args:
            root: the log directory.
            beside: other log directories. Directories of the same broker are treated as online.
        """
        new = None
        with suppress(UnsupportedFormatError):
            new = bootstrap(root.path, root.node_id)
        found = Cluster(root.path, root.node_id, new, image=self._image)
        found.online.update(other.directory_id for other in beside if other.node_id == root.node_id)
        return found

    def topic_configs(self, node_id: int | None = None) -> dict[str, TopicConfig]:
        """Return the settings of each topic on a broker. Topics with an invalid setting are left out."""
        found = {}
        for topic in self._image.topic_ids:
            with suppress(ValueError):
                found[topic] = self._image.settings_of(topic, node_id)
        return found

    def rows(self, subject: str) -> list[dict[str, Any]]:
        """Return the rows of a subject's table as dicts, which may lack columns that are null.

        >>> import brokerless as bl
        >>> with bl.create_log_dir(NEW) as directory:
        ...     topic_id = directory.create_topic("orders", partitions=3)
        >>> [row["topic"] for row in bl.cluster(NEW).rows("topics")]
        ['orders']
        """
        return self._image.rows(subject)

    @property
    def brokers(self) -> pa.Table:
        """`broker_id epoch incarnation_id is_fenced in_controlled_shutdown rack endpoints log_dirs`."""
        return self.table("brokers")

    @property
    def controllers(self) -> pa.Table:
        """`controller_id incarnation_id endpoints`, of the registered controllers."""
        return self.table("controllers")

    @property
    def topics(self) -> pa.Table:
        """`topic topic_id partitions replication_factor`."""
        return self.table("topics")

    @property
    def partitions(self) -> pa.Table:
        """The partitions. A `leader` of -1 means that the partition has no leader.

        `topic partition leader leader_epoch partition_epoch replicas isr elr last_known_elr adding_replicas
        removing_replicas directories`.
        """
        return self.table("partitions")

    @property
    def configs(self) -> pa.Table:
        """`resource_type resource name value is_sensitive`, one row per setting. Broker "" means all brokers."""
        return self.table("configs")

    @property
    def acls(self) -> pa.Table:
        """`id resource_type resource pattern_type principal host operation permission`."""
        return self.table("acls")

    @property
    def quotas(self) -> pa.Table:
        """`entity name value`. An entity is a list of `type` and `name`; a null name stands for the default entity."""
        return self.table("quotas")

    @property
    def users(self) -> pa.Table:
        """`user mechanism iterations`, and with secrets `salt stored_key server_key` in base64."""
        return self.table("users")

    @property
    def features(self) -> pa.Table:
        """`feature level`."""
        return self.table("features")

    @property
    def tokens(self) -> pa.Table:
        """`token_id owner requester renewers issued expires max_time`. Their secrets are not in the metadata."""
        return self.table("tokens")

    @property
    def voters(self) -> pa.Table:
        """`voter_id directory_id is_leader endpoints`, of the metadata quorum."""
        return self.table("voters")

    def diff(self, later: ClusterState) -> pa.Table:
        """Return the changes from this point to another point, or from this cluster to another cluster.

        Columns: `subject`; `key`, which identifies the row; `change` ("added", "removed" or "changed"); and, for a
        changed value, `column`, `before` and `after`, as JSON. `before` and `after` are null for hidden values. Added
        and removed settings, quotas, users and features also have `column`, with the added value as `after` or the
        removed value as `before`.
        """
        rows: list[dict[str, Any]] = []
        for subject in SCHEMAS:
            before, after = (state._image.table(subject, secrets=True) for state in (self, later))  # noqa: SLF001
            rows += _changes(subject, before, after, secrets=self._image.secrets and later._image.secrets)
        return pa.Table.from_pylist(rows, DIFF_SCHEMA)


# The columns that change when a leader changes, or when a broker stops or starts.
_OF_LEADERSHIP = {
    "brokers": ("epoch", "incarnation_id"),
    "controllers": ("incarnation_id",),
    "partitions": ("leader", "leader_epoch", "partition_epoch", "isr", "elr", "last_known_elr"),
    "voters": ("is_leader",),
}


def is_of_leadership(change: dict[str, Any]) -> bool:
    """Return whether a change is one of a leader, of in-sync replicas or of an epoch."""
    return change["change"] == "changed" and change["column"] in _OF_LEADERSHIP.get(change["subject"], ())


DIFF_SCHEMA = pa.schema([(name, pa.string()) for name in ("subject", "key", "change", "column", "before", "after")])
# The columns that identify the rows of a subject.
_KEYS = {
    "brokers": ("broker_id",),
    "controllers": ("controller_id",),
    "topics": ("topic",),
    "partitions": ("topic", "partition"),
    "configs": ("resource_type", "resource", "name"),
    # Not by its id, which says nothing and differs between clusters
    "acls": ("principal", "permission", "operation", "resource_type", "pattern_type", "resource", "host"),
    "quotas": ("entity", "name"),
    "users": ("user", "mechanism"),
    "features": ("feature",),
    "tokens": ("token_id",),
    "voters": ("voter_id",),
}


# The column to report for an added or removed row.
_VALUES = {"configs": "value", "quotas": "value", "users": "iterations", "features": "level"}


def cluster(
    *paths: str | os.PathLike[str], as_of: Time | None = None, as_of_offset: int | None = None, secrets: bool = False
) -> ClusterState:
    """Return the metadata of a cluster: brokers, topics, settings, ACLs, users, features and the quorum.

    The tables are built from the newest snapshot before the wanted point, and the metadata log after it.

    Args:
        paths: log directories, at least one of them with the metadata log; or the metadata log's own directory.
        as_of: return the metadata as of this time; None: at the end of the log.
        as_of_offset: return the metadata before this offset of the metadata log.
        secrets: whether to show the salts and keys of SCRAM users, and the values of sensitive settings.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: no path has metadata of a cluster, or they begin after the wanted point.
        CorruptRecordError: the snapshot from which the state is built is damaged.

    >>> import brokerless as bl
    >>> with bl.create_log_dir(NEW) as directory:
    ...     topic_id = directory.create_topic("orders", partitions=3)
    >>> bl.cluster(NEW).topics.select(["topic", "partitions"]).to_pylist()
    [{'topic': 'orders', 'partitions': 3}]
    """
    check_paths("cluster", paths)
    if as_of is not None and as_of_offset is not None:
        raise ValueError("as_of and as_of_offset both give a point: give one of them")
    until = None if as_of is None else to_ms("as_of", as_of)
    image = MetadataImage(secrets=secrets)
    with collected(forwards=True) as notes:
        path = _replay_directories(LogDirs(*paths), image, until, as_of_offset)
    return ClusterState(path, image, notes)


def _replay_directories(directories: LogDirs, image: MetadataImage, until: int | None, as_of_offset: int | None) -> str:
    log = next((log for log in logs_of(directories, METADATA_TOPIC) if has_metadata_log(log.root.path)), None)
    if log is not None:
        _replay(log, image, until, as_of_offset)
        _tell_left_out(log.path, image)
        return log.path
    for root in directories.given_roots:
        file = bootstrap_file(root.path, None)
        # Once a cluster has started, the file is outdated, and the metadata log is elsewhere.
        if storage.exists(file) and not was_started(root.path):
            with located(file):
                replay_snapshot(storage.read_all(file), image)
            if not image.topic_ids and (has_topic_ids(root.path) or root.recovery_points):
                continue
            image.offset = None
            _tell_left_out(file, image)
            return file
    raise ValueError(
        f"no {METADATA_TOPIC}-0 in {directories.in_words()}: a broker or a controller has it in "
        "metadata.log.dir, or without that setting in the first of its log.dirs. A cluster with ZooKeeper has none"
    )


def _tell_left_out(path: str, image: MetadataImage) -> None:
    for why, count in image.unknown.items():
        note(f"{path}: {count} records cannot be decoded: {why}")
    for name, count in image.left_out.items():
        note(f"{path}: {count} records {name} of a preview release are left out")


def _replay(log: Log, image: MetadataImage, as_of: int | None, as_of_offset: int | None) -> None:
    start, image.offset = log.local_log_start_offset, 0
    snapshot = _snapshot_before(log, as_of, as_of_offset)
    if snapshot is not None:
        start, path, content = snapshot
        with located(path):
            replay_snapshot(content, image)
        image.offset = start
    elif start > 0:
        point = f"offset {as_of_offset}" if as_of is None else f"time {as_of}"
        raise ValueError(f"{log.path} begins at offset {start}, and has no snapshot up to {point}")
    # A broker truncates a log whose end is below its snapshot to that snapshot.
    end = log.log_end_offset if as_of_offset is None else min(as_of_offset, log.log_end_offset)
    damage = replay_log(log, image, start, end, as_of) if start < end else None
    if damage is not None:
        image.is_whole = False
        note(damaged_in_words(damage))
    elif as_of is None and as_of_offset is None and (expected := log.files.expected_end) is not None:
        image.is_whole = False
        note(f"the cluster's metadata are not whole: {expected}")


def _snapshot_before(log: Log, as_of: int | None, as_of_offset: int | None) -> tuple[int, str, bytes] | None:
    """Return the newest snapshot that is not after the wanted point, as end offset, path and content.

    Raises:
        CorruptRecordError: the snapshot is damaged.
    """
    first = formatted_snapshot(log.root.path).rpartition("/")[2]
    for offset, _, path in snapshots(log):
        if path.endswith(f"/{first}") or (as_of_offset is not None and offset > as_of_offset):
            continue
        with located(path):
            content = storage.read_all(path)
            if as_of is None or last_time(content) <= as_of:
                return offset, path, content
    return None


def _changes(subject: str, before: pa.Table, after: pa.Table, *, secrets: bool) -> Iterator[dict[str, Any]]:
    keys = _KEYS[subject]

    def by_key(table: pa.Table) -> dict[str, dict[str, Any]]:
        return {_text([row[key] for key in keys]): row for row in _plain(table)}

    old, new = by_key(before), by_key(after)
    for key in sorted({*old, *new}):
        yield from _changes_of(subject, key, old.get(key), new.get(key), secrets=secrets)


def changes_of_row(
    subject: str, before: dict[str, Any] | None, after: dict[str, Any] | None
) -> Iterator[dict[str, Any]]:
    """Yield the changes from a row of a subject's table to another with the same key, as rows of `ClusterState.diff`.

    Args:
        subject: the subject.
        before: the row before; None if the row was added. It may lack columns that are not of interest.
        after: the row after; None if the row was removed.
    """
    row = after if before is None else before
    if row is not None:
        yield from _changes_of(subject, _text([row[key] for key in _KEYS[subject]]), before, after, secrets=False)


def _changes_of(
    subject: str, key: str, was: dict[str, Any] | None, now: dict[str, Any] | None, *, secrets: bool
) -> Iterator[dict[str, Any]]:
    row = {"subject": subject, "key": " ".join(map(_shown, json.loads(key)))}
    if was is None or now is None:
        change, side, found = ("added", "after", now) if was is None else ("removed", "before", was)
        column = _VALUES.get(subject)
        shown = {}
        if column is not None and found is not None and not _is_hidden(column, found, secrets=secrets):
            shown = {side: _text(found[column])}
        yield {**row, "change": change, "column": column, **shown}
        return
    for column in SCHEMAS[subject].names:
        earlier, later = _text(was.get(column)), _text(now.get(column))
        if earlier != later and (subject, column) != ("acls", "id"):
            is_hidden = _is_hidden(column, now, secrets=secrets)
            shown = {} if is_hidden else {"before": earlier, "after": later}
            yield {**row, "change": "changed", "column": column, **shown}


def _is_hidden(column: str, row: dict[str, Any], *, secrets: bool) -> bool:
    return not secrets and (column in SECRETS or (column == "value" and bool(row.get("is_sensitive"))))


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows with times as numbers."""
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(number, field.name, table[number].cast(pa.int64()))
    return table.to_pylist()


def _text(value: object) -> str:
    return json.dumps(finite(value), ensure_ascii=False)


def _shown(part: object) -> str:
    return part if isinstance(part, str) else _text(part)
