"""`RootWriter`: the files of a log directory that is open for writing, outside its partitions.

These files record the directory's owner, a clean shutdown (the marker), how far its logs are written and flushed
(checkpoints), the metadata of a new cluster, and the partitions. A damaged file is an error here, as it is for a
broker. Readers (`LogDirFiles`) accept a damaged file.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, TypeVar

from brokerless.arguments import check_partition, unknown, unknown_partition
from brokerless.errors import CorruptRecordError, located
from brokerless.io import disk, storage
from brokerless.io.clock import now_ms
from brokerless.layout import checkpoints, file_names
from brokerless.layout.file_names import is_chosen
from brokerless.layout.replication import SOLE
from brokerless.log_dir.start_faults import remark_on
from brokerless.metadata.bootstrap import bootstrap, bootstrap_file, without_records
from brokerless.metadata.topic_settings import Cluster
from brokerless.notes import note

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from brokerless.append.writer import LogWriter
    from brokerless.layout.commit_journal import Journal
    from brokerless.layout.replication import Replication
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.metadata.bootstrap import Bootstrap
    from brokerless.metadata.topic_settings import Path
    from brokerless.remarks import Remark

_T = TypeVar("_T")


class RootWriter:
    """The files of a log directory outside its partitions.

    Creating the object changes no file. A caller that changes files must hold the lock.

    Args:
        path: the log directory.
        journal: the journal of a finished commit whose files are not in place yet. Only for a caller that reads the
            directory as a writer would find it.
        broker_config: the broker's configuration file; see `Cluster`.
        metadata: the directory of the cluster's metadata log; see `Cluster`.

    Attributes:
        journal: the journal, as given.
        meta: the ids of the cluster, node and directory; None if the directory does not record them.
        had_marker: whether the clean-shutdown marker existed.
        recovery_points: the recovery point checkpoint, by (topic, partition).
        log_start_offsets: the log start offset checkpoint, by (topic, partition).
        high_watermarks: the high watermark checkpoint, by (topic, partition).
        first_dirty_offsets: the cleaner checkpoint, by (topic, partition).
        overlooked: the checkpoints with an invalid number, by file name, each with the error. A broker reads them as
            empty, so they are written again.
        partitions: the directory name of each partition, including partitions that only the metadata name.
        leftovers: the partition of each `-future` and `-stray` directory, by directory name. A starting broker
            recovers these too.
        deleted: the topics of `-delete` directories, by directory name. A starting broker loads these, then deletes
            them.
        made: the partitions created by this object. New partitions are empty, so they need no recovery.
        bootstrap: the metadata that a new cluster starts with; None if the cluster has started, or there are no
            metadata.
        bootstrap_file: the path of these metadata.
        cluster: the cluster's metadata that the directory holds.
        config: the settings of the topics that callers have requested so far.

    Raises:
        CorruptRecordError: a file is damaged.
        ValueError: `broker_config` or `metadata` does not fit.
    """

    partitions: dict[tuple[str, int], str]
    leftovers: dict[str, tuple[str, int]]
    deleted: dict[str, str]
    made: set[tuple[str, int]]
    bootstrap: Bootstrap | None
    bootstrap_file: str
    cluster: Cluster

    def __init__(
        self,
        path: str,
        journal: Journal | None = None,
        *,
        broker_config: Path | None = None,
        metadata: Path | None = None,
    ) -> None:
        self.path = path
        self.journal = journal
        self._broker_config, self._metadata = broker_config, metadata
        self.config: dict[str, TopicConfig] = {}
        self._load()

    def _load(self) -> None:
        self.meta = self._parsed(checkpoints.META_PROPERTIES, checkpoints.parse_meta_properties)
        self.overlooked: dict[str, str] = {}
        self.recovery_points = self._checkpoint(checkpoints.RECOVERY_POINTS)
        self.log_start_offsets = self._checkpoint(checkpoints.LOG_START_OFFSETS)
        self.high_watermarks = self._checkpoint(checkpoints.HIGH_WATERMARKS)
        self.first_dirty_offsets = self._checkpoint(checkpoints.FIRST_DIRTY_OFFSETS)
        self.had_marker = storage.exists(self._file(checkpoints.CLEAN_SHUTDOWN))
        self.partitions, self.leftovers, self.deleted = {}, {}, {}
        directories = {name: self._file(name) for name in storage.list_subdirectories(self.path)}
        if self.journal is not None:
            directories = self.journal.applied(directories)
        for name in sorted(directories):
            place = os.path.relpath(directories[name], self.path)
            with contextlib.suppress(ValueError):
                topic, partition, leftover = file_names.parse_directory_name(name)
                if not leftover and topic != file_names.METADATA_TOPIC:
                    other = self.partitions.setdefault((topic, partition), place)
                    if other != place:
                        raise CorruptRecordError(f"one partition in two directories: {other}, {name}", path=self.path)
                if leftover in ("future", "stray"):
                    self.leftovers[name] = topic, partition
                if leftover == "delete":
                    self.deleted[name] = topic
        self.bootstrap_file = bootstrap_file(self.path, self.journal)
        node_id = self.meta.node_id if self.meta else None
        self.cluster = Cluster(
            self.path,
            node_id,
            bootstrap(self.path, node_id, file=self.bootstrap_file),
            broker_config=self._broker_config,
            metadata=self._metadata,
        )
        self.bootstrap = self.cluster.bootstrap
        for topic, described in self.bootstrap.topics.items() if self.bootstrap else ():
            for partition in described.leader_epochs:
                self.partitions.setdefault((topic, partition), f"{topic}-{partition}")
        self.made = set()

    def reload(self, replaced: Iterable[tuple[str, int]]) -> None:
        """Read the files again after a commit has replaced the directories of these partitions by cleanly closed ones.

        Raises:
            CorruptRecordError: a file is damaged.
        """
        for topic, _ in replaced:
            self.config.pop(topic, None)
        had_marker, made, cluster = self.had_marker, self.made, self.cluster
        self._load()
        # Only a broker changes the metadata log, so what was read of it stays valid.
        cluster.bootstrap = self.bootstrap
        self.had_marker, self.cluster = had_marker, cluster
        self.made = self.partitions.keys() & made.union(replaced)

    @property
    def is_kraft(self) -> bool:
        """True if the directory belongs to a KRaft cluster, whose brokers load only topics that their metadata name."""
        return self.meta is not None and self.meta.version >= 1

    def unknown(self, topic: str, partition: int) -> ValueError:
        """Return the error for a partition that does not exist.

        Raises:
            TypeError: `partition` is not a number.
        """
        check_partition(partition)
        if topic == file_names.METADATA_TOPIC:
            return ValueError(f"{file_names.METADATA_TOPIC} cannot be written to: only Kafka's Raft layer writes to it")
        of_topic = [number for name, number in self.partitions if name == topic]
        if of_topic:
            return unknown_partition(partition, of_topic)
        return unknown("topic", topic, (name for name, _ in self.partitions))

    def config_of(self, topic: str) -> TopicConfig:
        """Return a topic's settings, from its creation here or from the cluster's metadata log."""
        if topic not in self.config:
            self.config[topic] = self.cluster.config_of(topic)
        return self.config[topic]

    def replication(self, key: tuple[str, int]) -> Replication:
        """Return the known state of a partition's other replicas."""
        return self.cluster.replication(key, self.high_watermarks.get(key))

    def topic_ids(self, *, only: str | None = None) -> dict[str, str]:
        """Return the ids of all topics that have one, or of topic `only`, from the metadata here or the files."""
        known = {name: topic.topic_id for name, topic in self.bootstrap.topics.items()} if self.bootstrap else {}
        for (topic, _), name in self.partitions.items():
            path = self._file(f"{name}/{checkpoints.PARTITION_METADATA}")
            if only in (None, topic) and topic not in known and storage.exists(path):
                with located(path):
                    known[topic] = checkpoints.parse_partition_metadata(storage.read_all(path)).topic_id
        return known

    def unserved(self, topics: Collection[str] = ()) -> dict[tuple[str, int], Remark]:
        """Return why a broker will not serve existing partitions of these topics (empty: all); see `Cluster`."""
        found = {}
        for key, name in self.partitions.items():
            if (not topics or is_chosen(key[0], topics)) and storage.exists(self._file(name)):
                try:
                    file = f"{name}/{checkpoints.PARTITION_METADATA}"
                    # To a broker, a file behind a broken link does not exist.
                    is_broken = storage.is_broken_link(self._file(file))
                    metadata = None if is_broken else self._parsed(file, checkpoints.parse_partition_metadata)
                except CorruptRecordError as error:
                    path = self._file(file)
                    found[key] = remark_on("topic-id-damaged", f"a broker does not start: {error}", path)
                    continue
                # If a new cluster's metadata name the topic, opening the log writes the file.
                described = self.bootstrap.topics.get(key[0]) if self.bootstrap and metadata is None else None
                topic_id = described.topic_id if described else metadata.topic_id if metadata else None
                if unserved := self.cluster.unserved(key, topic_id):
                    found[key] = remark_on(unserved.code, unserved.why, self._file(name))
        return found

    def make_partition(self, topic: str, partition: int, topic_id: str | None) -> None:
        """Create a partition's directory and partition.metadata if missing; durable once its parent is synced."""
        # An existing directory may be named `t-00`.
        name = self.partitions.get((topic, partition), f"{topic}-{partition}")
        if not storage.exists(self._file(name)):
            self._forget((topic, partition))
            disk.make_directory(self._file(name))
            self.made.add((topic, partition))
        if topic_id is not None:
            content = checkpoints.format_partition_metadata(topic_id)
            disk.atomic_write(self._file(f"{name}/{checkpoints.PARTITION_METADATA}"), content)
        self.partitions[topic, partition] = name

    def write_bootstrap(self) -> None:
        """Write `bootstrap`, the metadata that a new cluster starts with, to its file."""
        assert self.bootstrap is not None
        content = self.bootstrap.format(timestamp=now_ms())
        disk.atomic_write(self._file(checkpoints.BOOTSTRAP), content)

    def move_bootstrap(self) -> None:
        """Move the metadata of a new cluster to the file of releases before 4.4, which 4.4 reads too.

        A commit can replace this file, but no file in the metadata log's directory.
        """
        if self.bootstrap is None or self.bootstrap_file == self._file(checkpoints.BOOTSTRAP):
            return
        self.write_bootstrap()
        disk.sync_directory(self.path)
        voters = without_records(storage.read_all(self.bootstrap_file))
        if voters:
            disk.atomic_write(self.bootstrap_file, voters)
        else:
            disk.remove(self.bootstrap_file)
            disk.sync_directory(os.path.dirname(self.bootstrap_file))
        self.bootstrap_file = self._file(checkpoints.BOOTSTRAP)

    def raise_leader_epochs(self, written: Iterable[tuple[str, int]]) -> None:
        """Raise the leader epochs in the metadata to the highest epoch in each log.

        Otherwise, the leader would start with a lower epoch, and drop the log's higher epochs.
        """
        if self.bootstrap is None:
            return
        before = self.bootstrap.format(timestamp=0)
        for topic, partition in written:
            described = self.bootstrap.topics.get(topic)
            if described is not None and partition in described.leader_epochs:
                name = f"{self.partitions[topic, partition]}/{checkpoints.LEADER_EPOCHS}"
                epochs = self._parsed(name, checkpoints.parse_leader_epochs) or []
                highest = max((epoch for epoch, _ in epochs), default=0)
                described.leader_epochs[partition] = max(described.leader_epochs[partition], highest)
        if self.bootstrap.format(timestamp=0) != before:
            self.write_bootstrap()

    @property
    def _checkpoints(self) -> dict[str, dict[tuple[str, int], int]]:
        """The checkpoints, by file name."""
        return {
            checkpoints.FIRST_DIRTY_OFFSETS: self.first_dirty_offsets,
            checkpoints.RECOVERY_POINTS: self.recovery_points,
            checkpoints.LOG_START_OFFSETS: self.log_start_offsets,
            checkpoints.HIGH_WATERMARKS: self.high_watermarks,
        }

    def _forget(self, key: tuple[str, int]) -> None:
        """Remove the checkpoint entries of a manually deleted log, because they would hide new rows."""
        for name, offsets in self._checkpoints.items():
            if offsets.pop(key, None) is not None:
                self._write_checkpoint(name, offsets)

    def lower_recovery_point(self, key: tuple[str, int], offset: int) -> None:
        """Write the recovery points with this one for a log, unless its own is lower."""
        if self.recovery_points.get(key, 0) > offset:
            self.recovery_points[key] = offset
            self._write_checkpoint(checkpoints.RECOVERY_POINTS, self.recovery_points)

    def write_checkpoints(self, logs: Mapping[tuple[str, int], LogWriter]) -> None:
        """Write the checkpoints with the offsets of these logs. Entries of other logs stay."""
        cleaned = dict(self.first_dirty_offsets)
        for key, log in logs.items():
            if log.first_dirty_offset is not None:
                cleaned[key] = log.first_dirty_offset
            self._note_log(key, log)
            # A broker reads a missing entry as 0. If other brokers may have replicas, do not invent an entry.
            if key in self.high_watermarks or log.replication == SOLE:
                self.high_watermarks[key] = log.replicated_end
        for name, offsets in {**self._checkpoints, checkpoints.FIRST_DIRTY_OFFSETS: cleaned}.items():
            # The cleaner checkpoint is written only if it changed, because most directories have none. Without topics,
            # no checkpoint is created: checkpoints count as a sign that a broker has started on the directory.
            is_changed = offsets != self.first_dirty_offsets or name in self.overlooked
            is_changed = is_changed or name != checkpoints.FIRST_DIRTY_OFFSETS
            if is_changed and (self.partitions or storage.exists(self._file(name))):
                self._write_checkpoint(name, offsets)
        self.first_dirty_offsets = cleaned

    def _write_checkpoint(self, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        disk.atomic_write(self._file(name), checkpoints.format_offset_checkpoint(offsets))

    def leftover_offsets(self, name: str) -> tuple[int, int | None]:
        """Return the checkpointed recovery point and log start offset of a leftover."""
        key = self.leftovers[name]
        # A checkpoint has one entry per partition. It is the future replica's only if the current one is not here.
        if key in self.partitions:
            return 0, None
        return self.recovery_points.get(key, 0), self.log_start_offsets.get(key)

    def note_leftover(self, name: str, log: LogWriter) -> None:
        """Record a recovered leftover's start offset and recovery point for the checkpoints."""
        if self.leftovers[name] not in self.partitions:
            self._note_log(self.leftovers[name], log)

    def _note_log(self, key: tuple[str, int], log: LogWriter) -> None:
        self.recovery_points[key] = log.recovery_point
        # As in Kafka (LogManager.checkpointLogStartOffsetsInDir), a log gets an entry if its start differs from its
        # first segment's base offset, and always if it is tiered. Whether a log is tiered may not be known, so an
        # existing entry stays.
        is_implied = log.log_start_offset == log.first_segment_base_offset and not log.is_tiered
        if not is_implied or key in self.log_start_offsets:
            self.log_start_offsets[key] = log.log_start_offset

    def move_marker_aside(self) -> None:
        """Rename the clean-shutdown marker, durably. From now on, the directory looks as under a running broker."""
        if storage.exists(self._file(checkpoints.CLEAN_SHUTDOWN)):
            disk.rename(self._file(checkpoints.CLEAN_SHUTDOWN), self._file(checkpoints.CLEAN_SHUTDOWN_ASIDE))
            disk.sync_directory(self.path)

    def write_marker(self) -> None:
        """Rename the marker back, or write a new one. A marker that was never renamed stays."""
        if storage.exists(self._file(checkpoints.CLEAN_SHUTDOWN_ASIDE)):
            disk.rename(self._file(checkpoints.CLEAN_SHUTDOWN_ASIDE), self._file(checkpoints.CLEAN_SHUTDOWN))
            disk.sync_directory(self.path)
        elif not storage.exists(self._file(checkpoints.CLEAN_SHUTDOWN)):
            disk.atomic_write(self._file(checkpoints.CLEAN_SHUTDOWN), checkpoints.format_clean_shutdown(None))

    def _checkpoint(self, name: str) -> dict[tuple[str, int], int]:
        """Read a checkpoint as a starting broker does: treat a checkpoint with an invalid number as empty."""
        try:
            return self._parsed(name, checkpoints.parse_offset_checkpoint) or {}
        except checkpoints.UnexpectedContentError as error:
            note(f"the file is treated as empty: {error}")
            self.overlooked[name] = str(error.args[0])
            return {}

    def _parsed(self, name: str, parse: Callable[[bytes], _T]) -> _T | None:
        path = self._read_from(name)
        try:
            content = storage.read_all(path)
        except FileNotFoundError:
            return None
        with located(path):
            return parse(content)

    def _read_from(self, name: str) -> str:
        if self.journal is not None and name in self.journal.files:
            return f"{self.journal.path}/{name}"
        return self._file(name)

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"
