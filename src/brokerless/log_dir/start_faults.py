"""Faults outside the logs that keep a broker from starting on log directories.

`check` reports these faults as findings, `recover` as reasons why a broker will not start.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless.arguments import listed_few
from brokerless.errors import BrokerlessError, CorruptRecordError, remedy_for
from brokerless.io import storage
from brokerless.layout import checkpoints, commit_journal, file_names
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.metadata.bootstrap import check_bootstrap
from brokerless.metadata.directory import formatted_snapshot, has_topic_ids, is_fatal_snapshot, is_newest_snapshot
from brokerless.metadata.log import check_formatted_snapshot
from brokerless.remarks import Remark

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from brokerless.layout.file_names import DirectoryName
    from brokerless.metadata.topic_settings import Cluster

METADATA = f"{file_names.METADATA_TOPIC}-0"
STRAY_CURE = "a broker renamed the directory: to have it served again, remove the suffix .<id>-stray from its name"
_OFFLINE = "a broker takes this log directory offline; if it has no other, it does not start"
# Uuid.METADATA_TOPIC_ID
_METADATA_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class OfflineError(CorruptRecordError):
    """The error for a fault that takes only this log directory offline: the broker starts with its others."""


class Fault(NamedTuple):
    """A fault that keeps a broker from starting.

    Attributes:
        code: the code of its finding.
        path: the file or the directory.
        message: the defect.
        cure: the remedy to apply before a broker starts.
        takes_offline: True if a broker that has other log directories starts without this one (`LogDirFailureChannel`).
            A broker never starts without the directory of its metadata log.
    """

    code: str
    path: str
    message: str
    cure: str
    takes_offline: bool = False

    def __str__(self) -> str:
        effect = _OFFLINE if self.takes_offline else "a broker does not start"
        return f"{effect}: {self.path}: {self.message}; {self.cure}"

    @property
    def remark(self) -> Remark:
        """The fault as a `Remark`."""
        return remark_on(self.code, str(self), self.path)

    @property
    def finding(self) -> str:
        """The message of the fault's finding."""
        return f"{self.message}; {_OFFLINE}" if self.takes_offline else self.message

    def error(self) -> CorruptRecordError:
        """Return the error for an operation that needs a directory on which a broker starts."""
        return (OfflineError if self.takes_offline else CorruptRecordError)(str(self))


def remark_on(code: str, message: str, path: str) -> Remark:
    """Return a remark on a path, with the partition whose directory the path is, or is in."""
    for name in (os.path.basename(path), os.path.basename(os.path.dirname(path))):
        with suppress(ValueError):
            topic, partition, _ = file_names.parse_directory_name(name)
            return Remark(code, message, topic=topic, partition=partition, path=path)
    return Remark(code, message, path=path)


def start_faults(path: str, beside: Collection[str] = ()) -> Iterator[Fault]:
    """Yield the faults of a log directory: in its small files, in its file names, and beside its metadata log.

    Faults in the metadata records are found when the metadata image is built, and faults in a log when the log is
    loaded. A log that a broker will delete can keep the broker from starting, too, because the broker loads it first.

    Args:
        path: the log directory.
        beside: the broker's other log directories.
    """
    yield from _damaged_files(path, beside)
    yield from _wrong_names(path)
    yield from quorum_faults(path)
    metadata, is_home = f"{path}/{METADATA}", not any(map(_has_metadata, beside))
    is_taken = storage.exists(metadata) or (is_home and storage.is_link(metadata))
    if is_taken and not _has_metadata(path):
        message = "a file has the name of the directory of the metadata log"
        yield Fault("name-taken", metadata, message, "move it out")
    # A broker reads this file beside its metadata log.
    if _has_metadata(path) or is_home:
        for file, error in _unreadable(f"{path}/{checkpoints.BOOTSTRAP}", check_bootstrap):
            cure = "put back a copy; if the cluster has started, remove the file"
            yield Fault("metadata-damaged", file, _why(error), cure)
    if _has_metadata(path) and is_newest_snapshot(formatted_snapshot(path)):
        for file, error in _unreadable(formatted_snapshot(path), check_formatted_snapshot):
            cure = "put back a copy; if the cluster has started, remove the file: the metadata log has its records"
            yield Fault("metadata-damaged", file, _why(error), cure)


def obstacles(cluster: Cluster, topics: Iterable[str] = ()) -> Iterator[str]:
    """Yield a sentence for each reason why a broker may not start on a log directory or serve it.

    Args:
        cluster: the cluster of the log directory.
        topics: the topics whose settings matter.
    """
    yield from map(str, missing_ids(cluster.path))
    yield from map(str, quorum_faults(cluster.path))
    if missing := cluster.missing_settings(topics):
        yield missing


def missing_ids(path: str, beside: Collection[str] = ()) -> Iterator[Fault]:
    """Yield the fault if a log directory of a KRaft broker has no ids. Arguments are as for `start_faults`."""
    file = f"{path}/{checkpoints.META_PROPERTIES}"
    if not storage.exists(file) and not storage.is_link_loop(file) and _is_kraft(path, beside):
        message = "the file is missing, and a KRaft broker needs one in each of its log.dirs"
        cure = _cure_of_ids(path, beside, "put it back")
        if is_blank(path):
            message = "the directory is empty, and a KRaft broker starts only if each of its log.dirs is formatted"
            cure = "mount the right disk, or format this one (`kafka-storage.sh format --ignore-formatted`)"
        yield Fault("ids-missing", file, message, cure)


def _has_metadata(path: str) -> bool:
    return storage.is_directory(f"{path}/{METADATA}")


def is_blank(path: str) -> bool:
    """Return whether a directory is on a new disk: it is empty except for the file system's own files."""
    return storage.is_directory(path) and set(storage.list_directory(path)) <= {"lost+found"}


def _cure_of_ids(path: str, beside: Collection[str], cure: str) -> str:
    """Add to a cure the ids that another directory of the broker has."""
    for other in beside:
        if other != path:
            with suppress(BrokerlessError, OSError):
                meta = checkpoints.parse_meta_properties(storage.read_all(f"{other}/{checkpoints.META_PROPERTIES}"))
                ids = f"version=1, cluster.id={meta.cluster_id}, node.id={meta.node_id}"
                return f"{cure}, or write {ids} and the directory.id that the metadata have for this disk"
    return cure


def _is_kraft(path: str, beside: Collection[str]) -> bool:
    """Return whether the broker of some log directories is a KRaft broker.

    If no directory has ids, only a metadata log or topic ids show this.
    """
    paths = {path, *beside}
    if any(_has_metadata(one) or LogDirFiles(one).is_kraft for one in paths):
        return True
    has_ids = any(storage.exists(f"{one}/{checkpoints.META_PROPERTIES}") for one in paths)
    return not has_ids and has_topic_ids(path)


def quorum_faults(path: str) -> Iterator[Fault]:
    """Yield a fault for each small file of the metadata log that a controller cannot read."""
    for name, check, cure in (
        (
            checkpoints.QUORUM_STATE,
            checkpoints.check_quorum_state,
            "a controller starts without it if it is the only one of its cluster",
        ),
        (checkpoints.PARTITION_METADATA, _check_metadata_id, "a broker recreates it"),
    ):
        for file, error in _unreadable(f"{path}/{METADATA}/{name}", check):
            yield Fault("quorum-damaged", file, _why(error), f"put back a copy, or remove the file: {cure}")


def conflicting_ids(found: Mapping[str, checkpoints.MetaProperties]) -> Iterator[Fault]:
    """Yield a fault for each id that keeps one broker from starting on all of these log directories.

    As in `MetaPropertiesEnsemble.verify`, all directories must have the same cluster and node id, and each its own
    directory id.

    Args:
        found: the ids of each directory, by path.
    """
    for name, ids in (
        ("cluster.id", {path: meta.cluster_id for path, meta in found.items()}),
        ("node.id", {path: meta.node_id for path, meta in found.items()}),
    ):
        first: dict[str | int, str] = {}
        for path, value in ids.items():
            if value is not None:
                first.setdefault(value, path)
        if len(first) > 1:
            both = ", ".join(f"{value} in {path}" for value, path in first.items())
            cure = "name only directories of one broker"
            yield Fault("ids-conflict", next(iter(found)), f"different {name}: {both}", cure)
    seen: dict[str, str] = {}
    for path, meta in found.items():
        if meta.directory_id is not None and seen.setdefault(meta.directory_id, path) != path:
            both = f"{meta.directory_id} in {seen[meta.directory_id]}, {path}"
            cure = "if one is a copy of the other, remove the copy"
            yield Fault("ids-conflict", path, f"two directories with the same directory.id: {both}", cure)


def foreign_ids(cluster: Cluster) -> Iterator[Fault]:
    """Yield the fault if the metadata have registered the id of a log directory for another node.

    A controller does not register a directory id for a second node (`ClusterControlManager.registerBroker`).
    """
    owner = cluster.registered_node
    if owner is not None and cluster.node_id not in (None, owner):
        file = f"{cluster.path}/{checkpoints.META_PROPERTIES}"
        message = f"node.id is {cluster.node_id}, but in the metadata the directory belongs to node {owner}"
        cure = f"write node.id={owner} into the file, or name the right metadata log"
        yield Fault("ids-conflict", file, message, cure)


def doubled_partitions(directories: Iterable[str]) -> Iterator[Fault]:
    """Yield a fault for each partition that has two of these directories, which all belong to one broker.

    A broker refuses such partitions (`LogManager.loadLog`). A partition that is being moved (`-future`) may have two
    directories, but only in two log directories. In one log directory, the broker could not rename the `-future`
    directory to the name of the other one.

    Args:
        directories: the paths of partition directories.
    """
    seen: dict[tuple[str, int, str], str] = {}
    for path in sorted(directories):
        around, name = os.path.split(path)
        with suppress(ValueError):
            topic, partition, leftover = file_names.parse_directory_name(name)
            if leftover in ("delete", "stray"):
                continue
            # A leftover's kind never equals a path, so both serve as keys.
            others = [seen.setdefault((topic, partition, place), path) for place in (leftover, f"{around}/")]
            other = next((other for other in others if other != path), None)
            if other is not None and not _is_stray_move(path, other):
                message = f"{topic}-{partition} is in {other}, too"
                yield Fault("partition-twice", path, message, "move out the directory that has fewer records")


def _is_stray_move(path: str, other: str) -> bool:
    """Return whether one of a partition's two directories is a `-future` that a KRaft broker renames to `-stray`.

    A broker compares the topic id of the `-future` directory with the metadata before it renames that directory to the
    name of the other one.
    """
    moves = [one for one in (path, other) if one.endswith("-future")]
    if len(moves) != 1 or not LogDirFiles(os.path.dirname(path)).is_kraft:
        return False
    moving, present = (_topic_id(one) for one in sorted((path, other), key=lambda one: one != moves[0]))
    return present is not None and moving != present


def _topic_id(directory: str) -> str | None:
    with suppress(BrokerlessError, OSError):
        return checkpoints.parse_partition_metadata(
            storage.read_all(f"{directory}/{checkpoints.PARTITION_METADATA}")
        ).topic_id
    return None


def taken_names(cluster: Cluster) -> Iterator[Fault]:
    """Yield a fault for each file that has the name of a partition directory that the broker will create.

    A log directory in which the broker cannot create a partition directory goes offline.
    """
    yield from _taken_names(cluster.path, cluster.is_home)


def names_taken_from_checkpoints(root: LogDirFiles) -> Iterator[Fault]:
    """Yield the faults of `taken_names` for a ZooKeeper broker, whose checkpoints name its partitions."""
    if not root.is_kraft:
        yield from _taken_names(root.path, lambda key: key in root.recovery_points or key in root.high_watermarks)


def _taken_names(path: str, is_home: Callable[[tuple[str, int]], bool]) -> Iterator[Fault]:
    directories = storage.list_subdirectories(path)
    for name in sorted(set(storage.list_directory(path)).difference(directories)):
        with suppress(ValueError):
            topic, partition, leftover = file_names.parse_directory_name(name)
            if not leftover and is_home((topic, partition)):
                message = "a file has the name of the directory that a broker makes for a partition"
                yield Fault("name-taken", f"{path}/{name}", message, "move it out", not _has_metadata(path))


class Absent(NamedTuple):
    """A partition that the metadata place in a log directory, although none of its broker's directories has it.

    Attributes:
        topic: the topic.
        partition: the partition number.
        path: the log directory.
        is_lost: whether the broker will lead the partition with an empty log. If False, the broker fetches the records
            from another node, has never created the log, or has the log in a directory that is not known.
        why: the reason, as a sentence.
        strays: the partition's directories that the broker renamed to `-stray` while it had other metadata.
    """

    topic: str
    partition: int
    path: str
    is_lost: bool
    why: str
    strays: tuple[str, ...]

    @property
    def cure(self) -> str:
        """The remedy for the strays; "" without strays."""
        if not self.strays:
            return ""
        return f"{listed_few(self.strays)}: {STRAY_CURE}"


def absent_partitions(rows: Callable[[str], list[dict[str, Any]]], roots: Iterable[LogDirFiles]) -> Iterator[Absent]:
    """Yield the partitions that no log directory of their broker holds.

    Args:
        rows: returns the metadata's rows of a kind, as `MetadataImage.rows` does.
        roots: the log directories of one or more brokers.
    """
    by_node: dict[int, list[LogDirFiles]] = {}
    of_unknown: set[tuple[str, int]] = set()
    for root in roots:
        if root.node_id is not None:
            by_node.setdefault(root.node_id, []).append(root)
        else:
            of_unknown |= {(one.topic, one.partition) for _, one in _partitions_in(root.path)}
    registered = {row["broker_id"]: set(row["log_dirs"] or ()) for row in rows("brokers")}
    brokers = {node: _Directories.of(mine, registered.get(node, set())) for node, mine in by_node.items()}
    topic_ids = {row["topic"]: row["topic_id"] for row in rows("topics")}
    for row in rows("partitions"):
        key = row["topic"], row["partition"]
        for node, directory in zip(row["replicas"], row.get("directories") or (), strict=False):
            broker = brokers.get(node)
            # A directory that has lost its ids may be any broker's.
            is_here = key in of_unknown or (
                broker is not None and (key in broker.partitions or (*key, directory) in broker.moves)
            )
            home = None if broker is None or is_here else broker.home(directory)
            if broker is None or home is None:
                continue
            # Without a replica in sync, an eligible leader replica leads (KIP-966).
            leaders = row["isr"] or row.get("elr") or ()
            is_alone = [node] in (row["replicas"], leaders)
            is_lost = broker.are_all and broker.had(key, home) and is_alone
            why = f"the metadata log places it on node {node}, in the directory with the id {directory}"
            others = ", and the other replicas delete their records" if len(row["replicas"]) > 1 else ""
            if is_alone:
                why += f"; the broker becomes leader with an empty log{others}"
            elif node in leaders:
                why += (
                    f"; if this broker starts first, it becomes leader with an empty log{others}: start another "
                    "replica first"
                )
            topic_id = topic_ids.get(key[0])
            strays = [path for path in broker.strays.get(key, ()) if topic_id and _topic_id(path) == topic_id]
            yield Absent(*key, home.path, is_lost, why, tuple(strays))


def named_by_reason(partitions: Iterable[Absent]) -> Iterator[Remark]:
    """Yield one remark per reason why partitions are absent, because a disk may have had thousands of partitions."""
    by_reason: dict[str, list[Absent]] = {}
    for one in partitions:
        by_reason.setdefault(one.why, []).append(one)
    for why, absent in by_reason.items():
        names = [f"{one.topic}-{one.partition}" for one in absent]
        code = "partition-lost" if absent[0].is_lost else "partition-missing"
        yield Remark(code, f"no {listed_few(names)}: {why}", path=absent[0].path, names=tuple(names))


class _Directories(NamedTuple):
    """The log directories of a broker: those that are present, and those that it registered.

    Attributes:
        roots: the present log directories, by directory id.
        registered: the ids of the directories that the broker registered.
        are_all: whether all registered directories, or replacements for them, are present.
        partitions: the partitions in the present directories.
        moves: the partitions that are being moved to a directory, each with its id. A broker completes the move if the
            metadata place the partition there (`LogManager.recoverAbandonedFutureLogs`).
        strays: the `-stray` directories of each partition.
        was_clean: whether the broker was shut down cleanly. If so, the broker had created all its logs before.
    """

    roots: dict[str | None, LogDirFiles]
    registered: set[str]
    are_all: bool
    partitions: set[tuple[str, int]]
    moves: set[tuple[str, int, str | None]]
    strays: dict[tuple[str, int], list[str]]
    was_clean: bool

    @classmethod
    def of(cls, roots: Sequence[LogDirFiles], registered: set[str]) -> _Directories:
        partitions, moves = set(), set()
        strays: dict[tuple[str, int], list[str]] = {}
        for root in roots:
            for name, (topic, partition, leftover) in _partitions_in(root.path):
                if not leftover:
                    partitions.add((topic, partition))
                elif leftover == "future":
                    moves.add((topic, partition, root.directory_id))
                elif leftover == "stray":
                    strays.setdefault((topic, partition), []).append(f"{root.path}/{name}")
        by_id = {root.directory_id: root for root in roots}
        are_all = bool(registered) and len(roots) >= len(registered)
        return cls(by_id, registered, are_all, partitions, moves, strays, any(root.is_clean for root in roots))

    def home(self, directory: str) -> LogDirFiles | None:
        """Return the directory with an id, or its replacement; None if neither is present."""
        if directory in self.roots or not self.are_all or directory not in self.registered:
            return self.roots.get(directory)
        return next((root for name, root in self.roots.items() if name not in self.registered), None)

    def had(self, key: tuple[str, int], home: LogDirFiles) -> bool:
        """Return whether the log of a partition existed: a broker that was killed may not have created it yet."""
        # An empty directory is that of a new disk, or of a wiped one.
        is_wiped = not (home.recovery_points or home.high_watermarks or any(_partitions_in(home.path)))
        is_named = any(key in root.recovery_points or key in root.high_watermarks for root in self.roots.values())
        return self.was_clean or is_wiped or is_named


def _partitions_in(path: str) -> Iterator[tuple[str, DirectoryName]]:
    """Yield the partition directories of a log directory, by name, without the metadata log's directory."""
    for name in storage.list_subdirectories(path):
        with suppress(ValueError):
            parsed = file_names.parse_directory_name(name)
            if parsed.topic != file_names.METADATA_TOPIC:
                yield name, parsed


def partition_faults(directory: str) -> Iterator[Fault]:
    """Yield the faults in the file names and small files of a partition's directory, which may be a leftover."""
    is_metadata = os.path.basename(directory) == METADATA
    for name in sorted(storage.list_files(directory)):
        if file_names.is_fatal(name) or (is_metadata and is_fatal_snapshot(name)):
            message = f"the file name {name} does not begin with an offset"
            yield Fault("file-unknown", f"{directory}/{name}", message, "move the file out")
    for name, code, parse in (
        (checkpoints.PARTITION_METADATA, "topic-id-damaged", checkpoints.parse_partition_metadata),
        (checkpoints.LEADER_EPOCHS, "epochs-damaged", checkpoints.parse_leader_epochs),
    ):
        obstructs = storage.is_broken_link if name == checkpoints.LEADER_EPOCHS else _never
        for file, error in _unreadable(f"{directory}/{name}", parse, obstructs):
            takes_offline = _takes_offline(os.path.dirname(directory), error)
            yield Fault(code, file, _why(error), remedy_for(name) or "", takes_offline)
    for name in obstructed_files(directory):
        message = "a directory, or a link in a loop, has the name of a file"
        takes_offline = not _has_metadata(os.path.dirname(directory))
        yield Fault("file-obstructed", f"{directory}/{name}", message, "move it out", takes_offline)


def obstructed_files(directory: str) -> Iterator[str]:
    """Yield the names in a partition's directory that are not files, although a broker opens files of these names."""
    files = set(storage.list_files(directory))
    segments = {name for name in files if name.endswith(".log") and file_names.live_base_offset(name) is not None}
    for name in sorted(set(storage.list_directory(directory)) - files):
        path, (offset, _, kind) = f"{directory}/{name}", name.partition(".")
        if storage.is_broken_link(path) and (kind == "txnindex" or not storage.is_link_loop(path)):
            continue
        # A broker ignores a `.log` that is not a file, and creates the first segment if there is no segment.
        is_index = kind in ("index", "timeindex", "txnindex") and f"{offset}.log" in segments
        is_log = kind == "log" and not segments and file_names.live_base_offset(name) is not None
        if is_index or is_log or name == f"{checkpoints.LEADER_EPOCHS}.tmp":
            yield name


def _takes_offline(path: str, error: Exception) -> bool:
    """Return whether this error in a file makes a broker continue without the log directory, if it has others."""
    return not isinstance(error, checkpoints.UnexpectedContentError) and not _has_metadata(path)


def _damaged_files(path: str, beside: Collection[str]) -> Iterator[Fault]:
    if storage.is_link_loop(f"{path}/{checkpoints.LOCK}"):
        message = "a link in a loop has the name of the lock file"
        yield Fault("file-obstructed", f"{path}/{checkpoints.LOCK}", message, "remove it", not _has_metadata(path))
    meta = f"{path}/{checkpoints.META_PROPERTIES}"
    for file, error in _unreadable(meta, _parse_ids(path, beside), storage.is_link_loop):
        cure = _cure_of_ids(path, beside, "put back a copy")
        yield Fault("ids-damaged", file, _why(error), cure, _takes_offline(path, error))
    is_kraft = LogDirFiles(path).is_kraft
    for name in checkpoints.OFFSET_CHECKPOINTS:
        for file, error in _unreadable(f"{path}/{name}", checkpoints.parse_offset_checkpoint, storage.is_broken_link):
            if not (is_kraft and isinstance(error, checkpoints.UnexpectedContentError)):
                cure = remedy_for(name) or ""
                yield Fault("checkpoint-damaged", file, _why(error), cure, _takes_offline(path, error))


def _parse_ids(path: str, beside: Collection[str]) -> Callable[[bytes], object]:
    """Return the function that parses a directory's ids as the directory's broker does."""

    def parse(content: bytes) -> None:
        ids = checkpoints.parse_meta_properties(content)
        missing = [name for name, found in (("node id", ids.node_id), ("cluster.id", ids.cluster_id)) if found is None]
        # A ZooKeeper broker starts without ids. A KRaft broker needs the ids that are mandatory in version 1.
        if missing and _is_kraft(path, beside):
            what = f"is of version {ids.version}, and has no {missing[0]}" if content.strip() else "is empty"
            raise checkpoints.UnexpectedContentError(f"meta.properties {what}")

    return parse


def overlooked_checkpoints(path: str) -> Iterator[tuple[str, str]]:
    """Yield the checkpoints with an invalid number, each with the error. A KRaft broker reads them as empty."""
    for name in checkpoints.OFFSET_CHECKPOINTS if LogDirFiles(path).is_kraft else ():
        for file, error in _unreadable(f"{path}/{name}", checkpoints.parse_offset_checkpoint):
            if isinstance(error, checkpoints.UnexpectedContentError):
                yield file, _why(error)


def _wrong_names(path: str) -> Iterator[Fault]:
    for name in storage.list_subdirectories(path):
        # A broker does not see names that are not UTF-8. If it cannot read the directory's ids, it looks at no name.
        own = (file_names.REMOTE_INDEXES, commit_journal.NAME, checkpoints.META_PROPERTIES)
        # The broker removes the marker before it looks at the names.
        is_marker = name == checkpoints.CLEAN_SHUTDOWN and not storage.list_directory(f"{path}/{name}")
        if is_marker or name in own or not file_names.is_utf8(name):
            continue
        try:
            file_names.parse_directory_name(name)
        except ValueError as error:
            yield Fault("name-unknown", f"{path}/{name}", str(error), "move it out")


def _never(_: str) -> bool:
    return False


def _unreadable(
    file: str, parse: Callable[[bytes], object], obstructs: Callable[[str], bool] = _never
) -> Iterator[tuple[str, Exception]]:
    """Yield a file with its error, if the file exists and cannot be read.

    Args:
        file: the file.
        parse: the function that parses its content.
        obstructs: returns True for a broken link that is an obstacle for a broker; other broken links are treated as
            missing files. A broken link is an obstacle if the broker creates the file before it reads it
            (`CheckpointFile`).
    """
    try:
        if obstructs(file):
            raise CorruptRecordError("the file is a link to a file that does not exist")
        if storage.exists(file):
            parse(storage.read_all(file))
    except (BrokerlessError, OSError) as error:
        yield file, error


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error.args[0])


def _check_metadata_id(content: bytes) -> None:
    stored = checkpoints.parse_partition_metadata(content).topic_id
    if stored != _METADATA_ID:
        raise CorruptRecordError(f"not the metadata log's id: stored {stored}, expected {_METADATA_ID}")
