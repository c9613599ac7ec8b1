"""`RootWriter`: a log directory's own files, as who has it open for writing reads and writes them.

They say whose it is, whether it was shut down cleanly (the marker), how far its logs are written and flushed
(checkpoints), what a new cluster starts with, and which partitions are there. Unlike for readers (`LogDirFiles`), a
damaged one is an error: it stops a broker too.
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
from brokerless.layout.bootstrap_metadata import without_records
from brokerless.layout.replication import SOLE
from brokerless.log_dir.cluster_metadata import Cluster, bootstrap, bootstrap_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from brokerless.append.writer import LogWriter
    from brokerless.layout.bootstrap_metadata import Bootstrap
    from brokerless.layout.journal import Journal
    from brokerless.layout.replication import Replication
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log_dir.cluster_metadata import Path

_T = TypeVar("_T")


class RootWriter:
    """A log directory's own files; nothing is changed before it is asked for. Who uses it has the lock.

    Args:
        path: the log directory.
        journal: what is in force and not yet moved to its place; for who only looks at what a writer would find.
        broker_config: the broker's configuration file; see `Cluster`.
        metadata: where the cluster's metadata log is; likewise.

    Attributes:
        journal: as given.
        meta: whose it is; None if the directory does not say.
        had_marker: whether the clean-shutdown marker was there.
        recovery_points: the checkpoint, by (topic, partition).
        log_start_offsets: likewise.
        high_watermarks: likewise.
        first_dirty_offsets: likewise.
        partitions: the directory's name of each partition, also of those that only the metadata names yet.
        leftovers: the partition of each `-future` and `-stray` directory, by its name: a broker that starts recovers
            these, too.
        deleted: the topics of `-delete` directories, by name: a broker loads these, too, and then deletes them.
        made: partitions that were made here: empty, so there is nothing to recover in them.
        bootstrap: what a new cluster will start with; None if it has started, or there is none.
        bootstrap_file: where that is read from.
        cluster: what the directory says of its cluster.
        config: of the topics that were asked for.

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
        self._elsewhere: dict[str, Path | None] = {"broker_config": broker_config, "metadata": metadata}
        self.config: dict[str, TopicConfig] = {}
        self._load()

    def _load(self) -> None:
        self.meta = self._parsed(checkpoints.META_PROPERTIES, checkpoints.parse_meta_properties)
        self.recovery_points = self._parsed(checkpoints.RECOVERY_POINTS, checkpoints.parse_offset_checkpoint) or {}
        self.log_start_offsets = self._parsed(checkpoints.LOG_START_OFFSETS, checkpoints.parse_offset_checkpoint) or {}
        self.high_watermarks = self._parsed(checkpoints.HIGH_WATERMARKS, checkpoints.parse_offset_checkpoint) or {}
        self.first_dirty_offsets = (
            self._parsed(checkpoints.FIRST_DIRTY_OFFSETS, checkpoints.parse_offset_checkpoint) or {}
        )
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
            self.path, node_id, bootstrap(self.path, node_id, file=self.bootstrap_file), **self._elsewhere
        )
        self.bootstrap = self.cluster.bootstrap
        for topic, described in self.bootstrap.topics.items() if self.bootstrap else ():
            for partition in described.leader_epochs:
                self.partitions.setdefault((topic, partition), f"{topic}-{partition}")
        self.made = set()

    def reload(self, replaced: Iterable[tuple[str, int]]) -> None:
        """Read it again, now that a commit has put other directories, cleanly closed, in the place of these partitions.

        Raises:
            CorruptRecordError: a file is damaged.
        """
        for topic, _ in replaced:
            self.config.pop(topic, None)
        had_marker, made, cluster = self.had_marker, self.made, self.cluster
        self._load()
        # The metadata log is nobody's but a broker's.
        cluster.bootstrap = self.bootstrap
        self.had_marker, self.cluster = had_marker, cluster
        self.made = self.partitions.keys() & made.union(replaced)

    @property
    def is_kraft(self) -> bool:
        """Whether it is of a cluster without ZooKeeper, whose brokers take only what their metadata names."""
        return self.meta is not None and self.meta.version >= 1

    def unknown(self, topic: str, partition: int) -> ValueError:
        """Return the error that this partition is not here.

        Raises:
            TypeError: a string in place of its number.
        """
        check_partition(partition)
        if topic == file_names.METADATA_TOPIC:
            return ValueError(f"{file_names.METADATA_TOPIC} is the Raft layer's: its records are not written here")
        of_topic = [number for name, number in self.partitions if name == topic]
        if of_topic:
            return unknown_partition(partition, of_topic)
        return unknown("topic", topic, (name for name, _ in self.partitions))

    def config_of(self, topic: str) -> TopicConfig:
        """Return a topic's settings: as it was created here, or as the cluster's metadata log has them."""
        if topic not in self.config:
            self.config[topic] = self.cluster.config_of(topic)
        return self.config[topic]

    def replication(self, key: tuple[str, int]) -> Replication:
        """Return what is known of a partition's other replicas."""
        return self.cluster.replication(key, self.high_watermarks.get(key))

    def topic_ids(self, *, only: str | None = None) -> dict[str, str]:
        """Return topics' ids, of all that have one or of one: by the metadata that is written here, or their files."""
        known = {name: topic.topic_id for name, topic in self.bootstrap.topics.items()} if self.bootstrap else {}
        for (topic, _), name in self.partitions.items():
            path = self._file(f"{name}/{checkpoints.PARTITION_METADATA}")
            if only in (None, topic) and topic not in known and storage.exists(path):
                with located(path):
                    known[topic] = checkpoints.parse_partition_metadata(storage.read_all(path)).topic_id
        return known

    def unserved(self, topics: Collection[str] = ()) -> dict[tuple[str, int], str]:
        """Return why a broker will not serve partitions that are here, of these topics or of all; see `Cluster`."""
        found = {}
        for key, name in self.partitions.items():
            if (not topics or key[0] in topics) and storage.exists(self._file(name)):
                try:
                    metadata = self._parsed(
                        f"{name}/{checkpoints.PARTITION_METADATA}", checkpoints.parse_partition_metadata
                    )
                except CorruptRecordError as error:
                    found[key] = f"a broker does not start: {error}"
                    continue
                # Where a new cluster's metadata name it, who opens it puts the file there.
                described = self.bootstrap.topics.get(key[0]) if self.bootstrap and metadata is None else None
                topic_id = described.topic_id if described else metadata.topic_id if metadata else None
                found[key] = self.cluster.unserved(key, topic_id)
        return {key: why for key, why in found.items() if why}

    def make_partition(self, topic: str, partition: int, topic_id: str | None) -> None:
        """Make a partition's directory, as far as it is not there; it is durable once this directory is."""
        # It may be there as `t-00`.
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
        """Write what a new cluster will start with, as `bootstrap` is now."""
        assert self.bootstrap is not None
        content = self.bootstrap.format(timestamp=now_ms())
        disk.atomic_write(self._file(checkpoints.BOOTSTRAP), content)

    def move_bootstrap(self) -> None:
        """Put what a new cluster will start with where releases before 4.4 have it, and 4.4 takes it from, too.

        A commit puts it there, and it cannot put anything into the metadata log's directory.
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
        """Let the metadata know the highest epoch of each log: a leader of a lower one forgets the higher ones."""
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
        """The checkpoints by their files' names."""
        return {
            checkpoints.FIRST_DIRTY_OFFSETS: self.first_dirty_offsets,
            checkpoints.RECOVERY_POINTS: self.recovery_points,
            checkpoints.LOG_START_OFFSETS: self.log_start_offsets,
            checkpoints.HIGH_WATERMARKS: self.high_watermarks,
        }

    def _forget(self, key: tuple[str, int]) -> None:
        """Remove the checkpoint entries of a log that was deleted by hand: they would hide new rows."""
        for name, offsets in self._checkpoints.items():
            if offsets.pop(key, None) is not None:
                self._write_checkpoint(name, offsets)

    def write_checkpoints(self, logs: Mapping[tuple[str, int], LogWriter]) -> None:
        """Write the checkpoints, with what these logs say; the entries of others stay."""
        cleaned = dict(self.first_dirty_offsets)
        for key, log in logs.items():
            if log.first_dirty_offset is not None:
                cleaned[key] = log.first_dirty_offset
            self._note_log(key, log)
            # A missing entry is 0 to a broker: where others may have replicas, none is made up.
            if key in self.high_watermarks or log.replication == SOLE:
                self.high_watermarks[key] = log.replicated_end
        for name, offsets in {**self._checkpoints, checkpoints.FIRST_DIRTY_OFFSETS: cleaned}.items():
            # The cleaner's, of its own accord: most directories have none. Without topics there is no other, either: a
            # directory that a broker has started on, which makes all of them, is told by that.
            is_changed = name != checkpoints.FIRST_DIRTY_OFFSETS or offsets != self.first_dirty_offsets
            if is_changed and (self.partitions or storage.exists(self._file(name))):
                self._write_checkpoint(name, offsets)
        self.first_dirty_offsets = cleaned

    def _write_checkpoint(self, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        disk.atomic_write(self._file(name), checkpoints.format_offset_checkpoint(offsets))

    def leftover_offsets(self, name: str) -> tuple[int, int | None]:
        """Return the checkpointed recovery point and log start offset of a leftover."""
        key = self.leftovers[name]
        # A checkpoint has one entry for a partition: that of a future replica, unless the present one is here.
        if key in self.partitions:
            return 0, None
        return self.recovery_points.get(key, 0), self.log_start_offsets.get(key)

    def note_leftover(self, name: str, log: LogWriter) -> None:
        """Take over into the checkpoints where a recovered leftover starts, and that all of it is durable."""
        if self.leftovers[name] not in self.partitions:
            self._note_log(self.leftovers[name], log)

    def _note_log(self, key: tuple[str, int], log: LogWriter) -> None:
        self.recovery_points[key] = log.recovery_point
        # As Kafka (LogManager.checkpointLogStartOffsetsInDir): where the first segment's name does not say it, and
        # always of a tiered log. What is known of a log may not tell that it is one: an entry stays.
        is_told = log.log_start_offset == log.first_segment_base_offset and not log.is_tiered
        if not is_told or key in self.log_start_offsets:
            self.log_start_offsets[key] = log.log_start_offset

    def move_marker_aside(self) -> None:
        """Take the clean-shutdown marker back, durably: from here on the directory is as a running broker has it."""
        if storage.exists(self._file(checkpoints.CLEAN_SHUTDOWN)):
            disk.rename(self._file(checkpoints.CLEAN_SHUTDOWN), self._file(checkpoints.CLEAN_SHUTDOWN_ASIDE))
            disk.sync_directory(self.path)

    def write_marker(self) -> None:
        """Put the marker that was moved aside back, or write one."""
        if storage.exists(self._file(checkpoints.CLEAN_SHUTDOWN_ASIDE)):
            disk.rename(self._file(checkpoints.CLEAN_SHUTDOWN_ASIDE), self._file(checkpoints.CLEAN_SHUTDOWN))
            disk.sync_directory(self.path)
        else:
            disk.atomic_write(self._file(checkpoints.CLEAN_SHUTDOWN), checkpoints.format_clean_shutdown(-1))

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
