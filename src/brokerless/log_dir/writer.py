"""`LogDirWriter`: one log directory, open for writing in place of its broker.

`create_log_dir` and `open_log_dir` return it. While it is open, the directory looks as if a broker were running: it is
locked, and has no clean-shutdown marker. After a crash, the next broker or writer therefore recovers the logs.

The marker is not removed but renamed, to a name that brokers ignore at start. A complete `close` renames it back, byte
for byte, with the broker epoch in it.

`close` follows Kafka's order (`LogManager.shutdown`): it closes the logs, writes the checkpoints, then writes the
marker. So if there is a marker, logs and checkpoints are complete.
"""

from __future__ import annotations

import contextlib
import errno
import os
from functools import partial
from typing import TYPE_CHECKING, Never, Self

from brokerless import _native
from brokerless.append.writer import LogWriter
from brokerless.arguments import check_number
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.io import disk, interrupts, storage
from brokerless.io.clock import now_ms
from brokerless.layout import checkpoints, commit_journal, file_names
from brokerless.layout.file_names import is_chosen
from brokerless.layout.lock import Lock
from brokerless.layout.log_dir_files import LogDirFiles, check_outside, hint_at_log_dirs
from brokerless.layout.release import Release
from brokerless.layout.replication import SOLE
from brokerless.layout.topic_config import TopicConfig
from brokerless.log_dir.root_writer import RootWriter
from brokerless.log_dir.start_faults import obstacles
from brokerless.log_dir.transactional_ids import TransactionalIds
from brokerless.metadata.bootstrap import Bootstrap, Topic
from brokerless.notes import note
from brokerless.wording import current_face, option, spark

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from brokerless.metadata.topic_settings import Path
    from brokerless.remarks import Remark

# The maximum number of partitions that a warning names.
_NAMED = 3


class LogDirWriter:
    """A log directory open for writing. It is a context manager, which closes the directory at the end of the block.

    The directory is closed cleanly even if the block raises an exception: each append is written as a whole or refused,
    so no log is left half written. The directory needs recovery only if a log cannot be closed.

    Args:
        path: the log directory, an entry of the broker's `log.dirs`.
        sole_replica: True if no other broker has replicas of these partitions that must stay consistent with them.
            False: warn about brokers that may have replicas. None: nothing will be appended, so do not warn.
        recover: recover each log when it is opened, even if the directory was shut down cleanly. Recovery then
            proceeds even if it must cut off sound batches after damage (it sets them aside), or if records are missing
            although other files refer to them.
        lock: the directory's lock, if the caller holds it; None: acquire it.
        next_producer_id: the first producer id that the cluster has not allocated yet; None: read it from the
            metadata log. See `reserve_producer_id`.
        broker_config: the broker's configuration file (`server.properties`). Its settings apply to topics without
            settings of their own. Settings made at runtime override it.
        metadata: the directory of the cluster's metadata log, if `metadata.log.dir` is another directory.

    Attributes:
        path: the path, as given.
        was_clean: whether the last broker or writer shut down cleanly. If not, each log is recovered when it is opened.
        node_id: the broker's `node.id`; None if the directory does not record it.
        cluster_id: the cluster's id; None if the directory does not record it.
        directory_id: the directory's own id; None if the directory does not record it.
        transactional_ids: the transactional ids of the producers that wrote here.
        rolled_forward: the partitions of an interrupted commit that was completed when the directory was opened.
        notes: sentences for the caller, for example why a broker may not serve the written records.

    Raises:
        LogInUseError: a broker, or another writer, has the directory open.
        ValueError: `path` is no log directory.
        CorruptRecordError: a file of the directory is damaged; a broker would not start either.
        ValueError: `broker_config` belongs to another broker or has an invalid value; or `metadata` has no metadata
            log, or has the log of another cluster.

    >>> import brokerless as bl
    >>> with bl.create_log_dir(NEW) as log_dir:
    ...     topic_id = log_dir.create_topic("orders", partitions=2)
    ...     log_dir.partitions()
    [('orders', 0), ('orders', 1)]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sole_replica: bool | None = False,
        recover: bool = False,
        lock: Lock | None = None,
        next_producer_id: int | None = None,
        broker_config: Path | None = None,
        metadata: Path | None = None,
    ) -> None:
        self.path = os.fspath(path)
        if next_producer_id is not None:
            check_number("next_producer_id", next_producer_id, 0)
        self._next_producer_id = next_producer_id
        names = storage.list_directory(self.path)
        if file_names.is_partition_directory(names):
            raise ValueError(f"{self.path!r} is a partition's directory: open the log directory around it")
        if not LogDirFiles.is_root(names):
            maker = (
                "a write makes a new one of an empty directory"
                if current_face() is spark
                else "`create_log_dir` makes a new one"
            )
            hint = hint_at_log_dirs(self.path) or f"; {maker}"
            raise ValueError(f"{self.path!r} is not a log directory: it has none of a broker's own files{hint}")
        self._logs: dict[tuple[str, int], LogWriter] = {}
        self._opened_with: dict[tuple[str, int], TopicConfig] = {}
        # The partitions that could not be opened, although the attempt may have changed some of their files.
        self._unsure: set[tuple[str, int]] = set()
        # The topics whose unserved partitions were reported already.
        self._judged: set[str] = set()
        # The names of recovered leftovers.
        self._recovered: set[str] = set()
        self._recover = recover
        self.notes: list[str] = []
        self._process = os.getpid()
        self._lock: Lock | None = lock or Lock(self._file(checkpoints.LOCK))
        try:
            self.rolled_forward = commit_journal.roll_forward(self.path)
            self.transactional_ids = TransactionalIds(self.path, self.log, self.partitions)
            self._root = root = RootWriter(self.path, broker_config=broker_config, metadata=metadata)
            self.was_clean = root.had_marker and not recover
            self.node_id = root.meta.node_id if root.meta else None
            self.cluster_id = root.meta.cluster_id if root.meta else None
            self.directory_id = root.meta.directory_id if root.meta else None
            self._is_sole = sole_replica is True
            if sole_replica is False and (others := self._other_replicas()):
                cluster = "a cluster" if self.cluster_id is None else f"cluster {self.cluster_id}"
                self._note(
                    f"{self.path} belongs to {cluster}: {others}. If another replica becomes leader, this broker "
                    f"truncates the records written here. If no other replica matters, give {option('sole_replica')}"
                )
            if sole_replica is not None:
                for said in obstacles(root.cluster):
                    self._note(said)
            try:
                with interrupts.deferred():
                    root.move_marker_aside()
                    root.move_bootstrap()
                    self.transactional_ids.finish()
            except BaseException:
                # A clean directory stays clean, except for a log that was being changed.
                with contextlib.suppress(Exception):
                    self.close()
                raise
        except BaseException:
            self._unlock()
            raise

    def __reduce__(self) -> Never:
        raise TypeError("an open log directory cannot be pickled or copied: two would write over each other")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        try:
            self.close()
        except Exception as closing:
            if error is None:
                raise
            # The first error tells more.
            error.add_note(f"{self.path} could not be closed and needs recovery: {closing}")

    def __repr__(self) -> str:
        return f"<LogDirWriter {self.path!r}, {'closed' if self.is_closed else 'open'}>"

    @property
    def is_closed(self) -> bool:
        """True if the directory was closed, or an error left it in need of recovery."""
        return self._lock is None

    def partitions(self) -> list[tuple[str, int]]:
        """Return all (topic, partition) pairs, sorted. Deleted, stray and future partitions are left out."""
        return sorted(self._root.partitions)

    def topic_id(self, topic: str) -> str | None:
        """Return a topic's id; None if the topic has none."""
        return self._root.topic_ids(only=topic).get(topic)

    def config_of(self, topic: str, partition: int) -> TopicConfig:
        """Return the settings with which a partition is open; if it is not open, its topic's settings."""
        return self._opened_with.get((topic, partition)) or self._root.config_of(topic)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        topic_id: str | None = None,
        leader_epoch: int = 0,
        **config: object,
    ) -> str | None:
        """Create a topic: its partition directories and, in a new cluster, its metadata.

        A KRaft broker serves only topics that its cluster's metadata name, and renames other directories `-stray`. If
        no broker has started on the directory yet, this method writes the metadata. Otherwise, create the topic in
        its cluster first and pass its id as `topic_id`. Before KRaft, a broker serves any directory.

        Args:
            name: a name that Kafka allows.
            partitions: the number of partitions.
            topic_id: 22 characters of URL-safe base64; None: a random id, in a new cluster.
            leader_epoch: the leader epoch of the partitions. Batches that are written later must not have a higher one.
            config: the topic's settings (`TopicConfig`). The metadata of a new cluster record them.

        Returns:
            The topic's id; None if the topic has none.

        Raises:
            ValueError: the topic exists, Kafka does not allow the name, the id from the cluster is missing, or another
                topic has the id.

        >>> import brokerless as bl
        >>> with bl.create_log_dir(NEW) as log_dir:
        ...     topic_id = log_dir.create_topic("orders", cleanup_policy="compact")
        ...     log_dir.config_of("orders", 0).cleanup_policy
        'compact'
        """
        self._check_open()
        present = {topic for topic, _ in self._root.partitions}
        if name in present:
            raise ValueError(f"topic {name!r} exists")
        file_names.check_topic_names([name], present)
        # A copy of an internal topic must create that topic.
        file_names.check_writable_topic(name, is_copy=True)
        file_names.check_partitions(name, partitions)
        file_names.check_leader_epoch(name, leader_epoch)
        if topic_id is not None:
            checkpoints.check_topic_id(topic_id)
            for other, known in self._root.topic_ids().items():
                if known == topic_id:
                    raise ValueError(
                        f"topic id {topic_id} is that of topic {other!r}: if two topics have one id, a broker loads "
                        "only one of them"
                    )
        own = TopicConfig().with_keywords(config)
        if self._root.bootstrap is None and topic_id is None and self._root.is_kraft:
            raise ValueError(
                f"topic {name!r} needs the topic id that it has in cluster {self.cluster_id}, because a broker renames "
                "a directory with another id -stray. Create the topic in the cluster, and give its id here "
                f"({option('topic_id')})"
            )
        with interrupts.deferred():
            if self._root.bootstrap is not None:
                topic_id = topic_id or checkpoints.random_id()
                epochs = dict.fromkeys(range(partitions), leader_epoch)
                self._root.bootstrap.topics[name] = Topic(topic_id, own.to_configs(), epochs)
                # Before the directories: a broker renames directories -stray if the metadata do not name their topic.
                self._root.write_bootstrap()
            self._root.config[name] = self._root.cluster.config_of(name).with_keywords(config)
            for partition in range(partitions):
                self._root.make_partition(name, partition, topic_id)
            disk.sync_directory(self.path)
        return topic_id

    def log(self, topic: str, partition: int, *, leader_epoch: int | None = None, **config: object) -> LogWriter:
        """Return a partition's log, open for writing.

        The first call opens the log, and recovers it if the directory was not shut down cleanly. Later calls return
        the same log. A log that was closed is opened again.

        Args:
            topic: an existing topic.
            partition: the number of an existing partition.
            leader_epoch: the leader epoch of appended batches; None: the epoch in the topic's metadata if they are
                written here, else the last epoch in the log.
            config: settings that override those of the topic. The topic's settings come from its creation here or from
                the cluster's metadata log. For a setting that neither has, the broker's setting is used or, if that is
                not known, Kafka's default.

        Raises:
            ValueError: the partition does not exist, or is open with other settings.
            CorruptRecordError: a broker would not load the log either; or recovery would lose sound batches after
                damage; or the log lacks records to which other files in the directory refer. Nothing was changed.
        """
        self._check_open()
        if leader_epoch is not None:
            file_names.check_leader_epoch(topic, leader_epoch)
        key = (topic, partition)
        if key not in self._root.partitions:
            raise self._root.unknown(topic, partition)
        chosen = self.config_of(topic, partition).with_keywords(config)
        before = self._logs.get(key)
        if before is not None and not before.is_closed:
            if config and chosen != self._opened_with[key]:
                raise ValueError(f"{topic}-{partition} is open with other settings")
            return before
        leader_epoch = self._described_epoch(topic, partition, leader_epoch)
        with contextlib.ExitStack() as changes:

            def begin_changes() -> None:
                # Defer interrupts until `close` knows the log. Otherwise the directory would need recovery.
                changes.enter_context(interrupts.deferred())
                self._unsure.add(key)

            log = LogWriter.open(
                self._file(self._root.partitions[key]),
                config=chosen,
                is_clean=(self.was_clean or key in self._root.made or before is not None) and key not in self._unsure,
                recovery_point=before.recovery_point if before else self._root.recovery_points.get(key, 0),
                log_start_offset=before.log_start_offset if before else self._root.log_start_offsets.get(key),
                leader_epoch=leader_epoch,
                first_dirty_offset=before.first_dirty_offset if before else self._root.first_dirty_offsets.get(key),
                recover=self._recover,
                high_watermark=None if before else self._root.high_watermarks.get(key),
                # A failure before any change leaves a clean directory clean.
                before_changes=begin_changes,
                reserve_producer_id=self.reserve_producer_id,
                before_truncation=partial(self._root.lower_recovery_point, key),
                replication=SOLE if self._is_sole else self._root.replication(key),
            )
            if self._root.bootstrap is not None:
                # Files that were copied in from elsewhere may hold records beyond the closed end, and expired
                # producers.
                known = log.highest_cluster_producer_id(self._root.recovery_points.get(key, 0))
                if known is not None:
                    self.reserve_producer_id(known)
            self._unsure.discard(key)
            if not self._recover:
                for said in self._concerns(log, topic):
                    self._note(said)
            self._logs[key], self._opened_with[key] = log, chosen
        return log

    def _note(self, text: str) -> None:
        self.notes.append(text)
        note(text)

    def _concerns(self, log: LogWriter, topic: str) -> Iterator[str]:
        """Yield what was lost when a log was opened and, once per topic, why a broker will not serve its partitions."""
        # A cut at damage also explains the missing records.
        if cuts := [cut for cut in log.cuts if cut.is_damage]:
            yield from (f"{log.directory}: recovery has cut off {cut}; it is set aside there" for cut in cuts)
        elif log.expected_end is not None:
            yield str(log.expected_end)
        if topic not in self._judged:
            self._judged.add(topic)
            if unserved := list(map(str, self._root.unserved([topic]).values())):
                more = [f"{len(unserved) - _NAMED} more"] if len(unserved) > _NAMED else []
                yield "; ".join([*unserved[:_NAMED], *more])

    def reserve_producer_id(self, producer_id: int) -> None:
        """Ensure that the cluster never allocates this producer id to another producer.

        If a log already has batches with the id of a new producer, a broker mistakes that producer's first batches for
        duplicates. The broker acknowledges them but does not store them, so they are lost.

        - In a new cluster, this method adds a record to the metadata, so that the cluster allocates only higher ids.
        - An existing cluster must have allocated the id already, and must have no other broker. The controller
          allocates ids to brokers in blocks of a thousand (`ProducerIdControlManager`), and a broker hands out the ids
          of its block until it stops.

        Args:
            producer_id: the producer id of batches to append. No cluster allocates ids of 2^62 or above.

        Raises:
            ValueError: the cluster may still allocate the id, or its next producer id is not known.
        """
        self._check_open()
        if producer_id >= _native.FIRST_OWN_PRODUCER_ID:
            return
        if self._root.bootstrap is not None:
            if self._root.bootstrap.keep_producer_id(producer_id):
                self._root.write_bootstrap()
            return
        cluster, given = self._root.cluster, self._next_producer_id
        is_told = given is not None
        if given is None:
            given = cluster.next_producer_id
        if given is not None and producer_id < given and (is_told or cluster.other_brokers == []):
            return
        cure = (
            "A broker would treat batches of the new producer as duplicates of these, and lose them. Append these "
            "batches without producers (`brokerless convert --drop producers` makes such a copy of a log)"
        )
        if given is None:
            raise ValueError(
                f"cannot append batches of producer id {producer_id}: the cluster may assign this id again, because "
                f"{self.path} has no metadata log that says which ids were assigned. {cure}, or open the directory "
                "with a next_producer_id above all assigned ids"
            )
        if producer_id >= given:
            raise ValueError(
                f"cannot append batches of producer id {producer_id}: the cluster has assigned the ids below {given}, "
                f"and will assign this id to a new producer. {cure}"
            )
        others = cluster.other_brokers
        who = "other brokers, which are not known," if others is None else f"brokers {', '.join(map(str, others))}"
        raise ValueError(
            f"cannot append batches of producer id {producer_id}: {who} have reserved ids below {given}, and may still "
            f"assign this id to a new producer. {cure}. If these batches were written in this cluster, or if none of "
            f"its brokers runs, you can open the directory with next_producer_id={given} instead"
        )

    def _other_replicas(self) -> str:
        """Describe the partitions that other brokers have, or may have; "" if none."""
        root = self._root
        try:
            shared = {
                key: root.cluster.replicas(key) for key in sorted(root.partitions) if not root.cluster.is_sole(key)
            }
        except (CorruptRecordError, UnsupportedFormatError):
            return "another broker may have replicas, and its metadata log cannot be read"
        if not shared and root.cluster.is_new:
            return ""
        known = [f"{topic}-{partition} is on nodes {nodes}" for (topic, partition), nodes in shared.items() if nodes]
        if len(known) < len(shared) or root.cluster.image is None:
            return "another broker may have replicas"
        more = f" and {len(known) - 3} more" if len(known) > 3 else ""
        return ", ".join(known[:3]) + more

    def _described_epoch(self, topic: str, partition: int, leader_epoch: int | None) -> int | None:
        """Raise the partition's leader epoch in the metadata written here to `leader_epoch`, and return `leader_epoch`.

        If `leader_epoch` is None, return the epoch in these metadata, or None if they lack the topic.
        """
        described = self._root.bootstrap.topics.get(topic) if self._root.bootstrap else None
        if described is None:
            return leader_epoch
        known = described.leader_epochs.get(partition, 0)
        if leader_epoch is not None and leader_epoch > known:
            described.leader_epochs[partition] = leader_epoch
            self._root.write_bootstrap()
        # A crash during create_topic can leave the metadata without the directory.
        if not storage.exists(
            self._file(f"{self._root.partitions[topic, partition]}/{checkpoints.PARTITION_METADATA}")
        ):
            self._root.make_partition(topic, partition, described.topic_id)
            disk.sync_directory(self.path)
        return known if leader_epoch is None else leader_epoch

    @interrupts.deferred()
    def commit(self, staging: str, *, unique: str, gone: Collection[str] = ()) -> None:
        """Replace partition directories by staged ones: all of them or none, even across a crash.

        If an error occurs after the commit, there is only a warning. An exception would make the caller write the rows
        again. The directory is then closed, and the next writer that opens it completes the commit.

        Args:
            staging: the name of a directory inside this one. It holds whole, cleanly closed partition directories, and
                files of the log directory, all of them durable. The logs that they replace must be closed.
            unique: 32 hex digits that no other directory name contains.
            gone: names of partition directories to delete without a replacement.

        Raises:
            OSError: the commit failed, and nothing has changed.
        """
        self._check_open()
        self._root.write_checkpoints(self._logs)
        is_committed = False
        try:
            commit_journal.commit(self.path, staging, unique=unique, gone=gone)
            is_committed = True
            replaced = [
                file_names.parse_directory_name(name)[:2] for name in (*commit_journal.roll_forward(self.path), *gone)
            ]
            for key in replaced:
                self._logs.pop(key, None)
                self._opened_with.pop(key, None)
            self._root.reload(replaced)
            for key in replaced:
                if key in self._root.partitions:
                    # Opening the log updates the checkpoints.
                    self.log(*key)
        except BaseException as error:
            if is_committed or storage.exists(self._file(commit_journal.NAME)):
                # Leave the directory without the marker, because the state in memory may no longer match the logs.
                self._unlock()
                rest = "the rows are committed; the next writer, or `brokerless recover`, finishes the rest"
                if isinstance(error, Exception):
                    self._note(f"{self.path}: {error}: {rest}")
                    return
                error.add_note(rest)
            raise

    def checkpoint(self) -> None:
        """Checkpoint how far the open logs are flushed, as a broker does every minute. Recovery starts there."""
        self._check_open()
        self._root.write_checkpoints(self._logs)

    @interrupts.deferred()
    def close(self) -> None:
        """Close all logs, and leave the directory as a broker does after a clean shutdown.

        Idempotent; does nothing in a forked child. A directory without a clean-shutdown marker gets one only if every
        log was opened, because opening a log recovers it. Before the marker is written, `-future` and `-stray` replicas
        are recovered, too.

        Raises:
            OSError: a log could not be closed; the next writer or broker recovers the directory.
            ValueError: a log could not be closed because of an earlier error; the next writer or broker recovers the
                directory.
        """
        if self._lock is None or os.getpid() != self._process:
            return
        try:
            with contextlib.ExitStack() as closing:
                for log in self._logs.values():
                    closing.callback(log.close)
            self._root.write_checkpoints(self._logs)
            self._root.raise_leader_epochs(self._logs)
            is_recovered = self._root.partitions.keys() <= self._logs.keys() | self._root.made
            if not self._unsure and (self._root.had_marker or (is_recovered and self._recovers_leftovers())):
                self._root.write_marker()
        finally:
            self._unlock()

    def recover_leftovers(self, topics: Collection[str] = ()) -> Iterator[tuple[str, list[Remark]]]:
        """Recover `-future` and `-stray` directories, as a starting broker does, and close them.

        Once a `-future` replica has caught up, a broker replaces the partition's log with it. A `-stray` replica is
        kept for inspection.

        Args:
            topics: recover only directories of these topics; empty: all.

        Yields:
            The directory's name, and its changes.

        Raises:
            CorruptRecordError: a broker would not start on a directory.
        """
        self._check_open()
        for name, (topic, _) in self._root.leftovers.items():
            if name not in self._recovered and (not topics or is_chosen(topic, topics)):
                recovery_point, log_start_offset = self._root.leftover_offsets(name)
                with LogWriter.open(
                    self._file(name),
                    config=self._root.config_of(topic),
                    is_clean=False,
                    recovery_point=recovery_point,
                    log_start_offset=log_start_offset,
                    recover=self._recover,
                ) as log:
                    steps = log.recovery
                self._root.note_leftover(name, log)
                self._recovered.add(name)
                yield name, steps

    def _recovers_leftovers(self) -> bool:
        """Recover the leftovers of a directory that was not shut down cleanly; return False if a recovery fails."""
        try:
            are_any = bool(list(self.recover_leftovers()))
        except CorruptRecordError as error:
            self._note(f"{self.path} is left without a clean-shutdown marker: {error}")
            return False
        if are_any:
            self._root.write_checkpoints({})
        return True

    def _check_open(self) -> None:
        if self._lock is None:
            raise ValueError(f"closed: {self.path}")
        if os.getpid() != self._process:
            raise ValueError(f"{self.path} is open in process {self._process}, not in this one")

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"


def open_log_dir(
    path: str | os.PathLike[str],
    *,
    sole_replica: bool = False,
    recover: bool = False,
    next_producer_id: int | None = None,
    broker_config: Path | None = None,
    metadata: Path | None = None,
) -> LogDirWriter:
    """Open an existing log directory for writing, in place of its broker.

    The broker must be stopped: the directory's lock admits one writer. Close the directory, or leave the `with` block,
    before the broker starts again.

    Args:
        path: the log directory, an entry of the broker's `log.dirs`.
        sole_replica: True if no other broker has replicas of these partitions that must stay consistent with them. If
            False, a warning names the brokers that may have replicas.
        recover: recover each log when it is opened, even if the directory was shut down cleanly. Recovery then
            proceeds even if it must cut off sound batches after damage (it sets them aside), or if records are missing
            although other files refer to them.
        next_producer_id: the first producer id that the cluster has not allocated yet; None: read it from the
            metadata log. See `LogDirWriter.reserve_producer_id`.
        broker_config: the broker's configuration file (`server.properties`). Its settings apply to topics without
            settings of their own. Settings made at runtime override it.
        metadata: the directory of the cluster's metadata log, if `metadata.log.dir` is another directory.

    Raises:
        LogInUseError: a broker, or another writer, has the directory open.
        ValueError: `path` is no log directory, or `broker_config` or `metadata` does not fit it.
        CorruptRecordError: a file of the directory is damaged; a broker would not start either.

    >>> import brokerless as bl
    >>> bl.create_log_dir(NEW).close()
    >>> with bl.open_log_dir(NEW) as log_dir:
    ...     log_dir.was_clean
    True
    """
    return LogDirWriter(
        path,
        sole_replica=sole_replica,
        recover=recover,
        next_producer_id=next_producer_id,
        broker_config=broker_config,
        metadata=metadata,
    )


def create_log_dir(
    path: str | os.PathLike[str],
    *,
    cluster_id: str | None = None,
    node_id: int = 1,
    directory_id: str | None = None,
    kraft: bool = True,
    release: str = "4.0",
    broker_config: Path | None = None,
) -> LogDirWriter:
    """Create a log directory for a broker that has not run yet, and open it for writing.

    A KRaft broker can start from the result as from a directory that it formatted itself, and has all topics created in
    it. The broker must have this `node.id` and be its own and only controller (`controller.quorum.voters`).

    Args:
        path: a new directory inside an existing one, or an empty directory.
        cluster_id: the id of the new cluster; None: a random id. Without KRaft, None means no id, and the cluster that
            adopts the directory writes its own.
        node_id: the broker's `node.id`, or `broker.id` without KRaft.
        directory_id: the directory's own id; None: a random id, or no id without KRaft.
        kraft: whether the cluster runs without ZooKeeper.
        release: the oldest Kafka release that can serve the directory, "3.9" or later; newer releases can serve it
            too. The new cluster has the features of this release until they are upgraded (`kafka-features.sh`).
        broker_config: the broker's configuration file (`server.properties`).

    Raises:
        FileExistsError: the directory is not empty.
        LogInUseError: another process is creating the directory.
        ValueError: an id or the release is invalid, or `path` is inside a log directory or a partition directory.

    >>> import brokerless as bl
    >>> with bl.create_log_dir(NEW) as log_dir:
    ...     topic_id = log_dir.create_topic("orders", partitions=2)
    >>> bl.LogDirs(NEW).topics(), bl.LogDirs(NEW).roots[0].is_clean
    (['orders'], True)
    """
    path = os.fspath(path)
    disk.check_local(path)
    check_outside(path)
    if not 0 <= node_id < 1 << 31:
        raise ValueError(f"not a node id: {node_id}; 0 to {(1 << 31) - 1} expected")
    if kraft:
        cluster_id, directory_id = cluster_id or checkpoints.random_id(), directory_id or checkpoints.random_id()
    if directory_id is not None:
        checkpoints.check_directory_id(directory_id)
    metadata = Bootstrap(node_id, Release.parse(release)).format(timestamp=now_ms())
    meta = checkpoints.format_meta_properties(checkpoints.MetaProperties(int(kraft), cluster_id, node_id, directory_id))
    with contextlib.suppress(FileExistsError):
        disk.make_directory(path)
        disk.sync_directory(os.path.dirname(os.path.abspath(path)))
    # The lock is itself a file: do not create one in a directory that is in use.
    _check_unused(path)
    with contextlib.ExitStack() as failing:
        lock = Lock(f"{path}/{checkpoints.LOCK}")
        failing.callback(lock.release)
        # The lock's previous holder may have created the log directory.
        _check_unused(path)
        if kraft:
            disk.atomic_write(f"{path}/{checkpoints.BOOTSTRAP}", metadata)
        # Write this file last, because it makes the directory a log directory.
        disk.atomic_write(f"{path}/{checkpoints.META_PROPERTIES}", meta)
        made = LogDirWriter(path, sole_replica=True, lock=lock, broker_config=broker_config)
        failing.pop_all()
    return made


def open_or_create(
    path: str | os.PathLike[str],
    *,
    sole_replica: bool = False,
    broker_config: Path | None = None,
    metadata: Path | None = None,
    release: str | None = None,
) -> LogDirWriter:
    """Open a log directory for writing; create it if the path does not exist or is an empty directory.

    Args:
        path: the log directory.
        sole_replica: see `LogDirWriter`.
        broker_config: see `LogDirWriter`.
        metadata: see `LogDirWriter`.
        release: the oldest Kafka release that can serve a new directory; see `create_log_dir`.

    Raises:
        ValueError: `release` is invalid, or given for an existing directory; or `metadata` is given for a new one.
    """
    name = os.fspath(path)
    if not storage.exists(name) or _is_unused(name):
        if metadata is not None:
            raise ValueError(f"{path} is a new cluster's: it has no metadata log in {metadata}; leave metadata out")
        # Another process may create it at the same time.
        with contextlib.suppress(FileExistsError):
            return create_log_dir(name, broker_config=broker_config, release=release or "4.0")
    if release is not None:
        raise ValueError(f"release {release}: {path} exists, and its release cannot be changed: leave release out")
    return LogDirWriter(name, sole_replica=sole_replica, broker_config=broker_config, metadata=metadata)


def _check_unused(path: str) -> None:
    if not _is_unused(path):
        raise FileExistsError(errno.EEXIST, "not empty: a new log directory needs a directory of its own", path)


def _is_unused(path: str) -> bool:
    """Return whether a directory is empty, or holds only files of an unfinished `create_log_dir`."""
    unfinished = {
        checkpoints.LOCK,
        checkpoints.BOOTSTRAP,
        f"{checkpoints.BOOTSTRAP}.tmp",
        f"{checkpoints.META_PROPERTIES}.tmp",
    }
    return unfinished.issuperset(storage.list_directory(path))
