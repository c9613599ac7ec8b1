"""`LogDirWriter`: one log directory open for writing, in a broker's place. `create_log_dir` and `open_log_dir` make it.

While it is open the directory is as a running broker has it: locked, and without the clean-shutdown marker, so that
whatever happens a broker (or we) will recover the logs. The marker is moved aside, not removed: to a name that brokers
pass over at start, from where a complete `close` puts it back byte for byte, with the broker epoch in it.

The order of `close` is Kafka's (`LogManager.shutdown`): the logs are closed, then the checkpoints are written, then the
marker, which says that all of that was done.
"""

from __future__ import annotations

import contextlib
import errno
import os
import warnings
from typing import TYPE_CHECKING, Never, Self

from brokerless import _native
from brokerless.append.writer import LogWriter
from brokerless.arguments import check_number
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.io import disk, storage
from brokerless.io.clock import now_ms
from brokerless.layout import checkpoints, file_names, journal
from brokerless.layout.bootstrap_metadata import Bootstrap, Topic
from brokerless.layout.lock import Lock
from brokerless.layout.log_dir_files import LogDirFiles, check_outside
from brokerless.layout.release import Release
from brokerless.layout.replication import SOLE
from brokerless.layout.topic_config import TopicConfig
from brokerless.log_dir.root_writer import RootWriter
from brokerless.log_dir.start_faults import obstacles
from brokerless.log_dir.transactional_ids import TransactionalIds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from brokerless.log_dir.cluster_metadata import Path

# So many partitions are named in a warning.
_NAMED = 3


class LogDirWriter:
    """One log directory, open for writing. Also a context manager: leaving it closes it, an exception or not.

    An error in the caller's block says nothing about the logs: an append is whole or was refused. So the directory is
    closed cleanly then, too; only a log that cannot be closed leaves it to be recovered.

    Args:
        path: the log directory: what a broker's `log.dirs` names.
        sole_replica: no other broker has replicas of these partitions, or none that matters. None: nothing will be
            appended, so no warning is needed of brokers that may have some.
        recover: recover each log when it is opened, even if the directory was left clean, even if sound batches behind
            damage are lost with that, which are set aside, and even if records are missing that other files tell of.
        lock: the directory's, if the caller has it; None: it is taken.
        next_producer_id: the first producer id that the cluster has not given yet; None: as its metadata log says. See
            `reserve_producer_id`.
        broker_config: the broker's configuration file (`server.properties`): settings of topics that have none of
            their own, below those that were set at runtime.
        metadata: the directory that has the cluster's metadata log, where `metadata.log.dir` is another one.

    Attributes:
        path: as given.
        was_clean: whether the last who wrote here shut down cleanly. If not, each log is recovered when it is opened.
        node_id: the broker's; None if the directory does not say.
        cluster_id: likewise.
        directory_id: likewise.
        transactional_ids: those of the producers that wrote here.
        rolled_forward: the names of partitions of an interrupted commit that was carried out when this was opened.

    Raises:
        LogInUseError: a broker, or another writer, is there.
        ValueError: it is no log directory.
        CorruptRecordError: a file of the directory is damaged; a broker would not start either.
        ValueError: `broker_config` is another broker's, or has a value that cannot be; `metadata` has no metadata log,
            or another cluster's.

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
            raise ValueError(f"not a log directory: {self.path!r} is one partition's; open the directory around it")
        if not LogDirFiles.is_root(names):
            raise ValueError(f"not a log directory: {self.path!r} has none of its files; `create` makes a new one")
        self._logs: dict[tuple[str, int], LogWriter] = {}
        self._opened_with: dict[tuple[str, int], TopicConfig] = {}
        # Those that could not be opened, at a point where some of their files may have been changed.
        self._unsure: set[tuple[str, int]] = set()
        # The topics that were asked for, of whose partitions it was said which a broker will not serve.
        self._judged: set[str] = set()
        # The names of leftovers that were recovered.
        self._recovered: set[str] = set()
        self._recover = recover
        self._process = os.getpid()
        self._lock: Lock | None = lock or Lock(self._file(checkpoints.LOCK))
        try:
            self.rolled_forward = journal.roll_forward(self.path)
            self.transactional_ids = TransactionalIds(self.path, self.log, self.partitions)
            self._root = root = RootWriter(self.path, broker_config=broker_config, metadata=metadata)
            self.was_clean = root.had_marker and not recover
            self.node_id = root.meta.node_id if root.meta else None
            self.cluster_id = root.meta.cluster_id if root.meta else None
            self.directory_id = root.meta.directory_id if root.meta else None
            self._is_sole = sole_replica is True
            if sole_replica is False and (others := self._other_replicas()):
                cluster = "a cluster" if self.cluster_id is None else f"cluster {self.cluster_id}"
                warnings.warn(
                    f"{self.path} belongs to {cluster}: {others}; a replica that becomes leader has "
                    "what is written here truncated; say sole_replica if none counts",
                    stacklevel=3,  # the caller of open_log_dir
                )
            if sole_replica is not None:
                for said in obstacles(root.cluster):
                    warnings.warn(said, stacklevel=3)
            root.move_marker_aside()
            root.move_bootstrap()
            try:
                self.transactional_ids.finish()
            except BaseException:
                # What was clean stays so, but for what was being changed.
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
            # What went wrong first says more.
            error.add_note(f"{self.path} is left to be recovered: {closing}")

    def __repr__(self) -> str:
        return f"LogDirWriter({self.path!r})"

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or left to be recovered after an error."""
        return self._lock is None

    def partitions(self) -> list[tuple[str, int]]:
        """Return all (topic, partition) here, sorted; deleted, stray and future ones are left out."""
        return sorted(self._root.partitions)

    def topic_id(self, topic: str) -> str | None:
        """Return the id of a topic that is here; None: it has none."""
        return self._root.topic_ids(only=topic).get(topic)

    def config_of(self, topic: str, partition: int) -> TopicConfig:
        """Return the settings that a partition is open with; of one that is not, those that its topic has."""
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
        """Create a topic: its partitions' directories and, in a new cluster, its metadata.

        A KRaft broker takes only topics that its cluster's metadata names, and renames other directories `-stray`. In
        a directory that no broker has started on yet, the metadata is written here. Else the topic has to be created
        in its cluster, and `topic_id` is the id that it got there. Before KRaft a broker takes any directory.

        Args:
            name: as Kafka allows.
            partitions: how many.
            topic_id: 22 characters of URL-safe base64; None: a random one, where it may be.
            leader_epoch: of the partitions' leader; not below that of any batch that will be written.
            config: the topic's (`TopicConfig`); a new cluster's broker is told them.

        Returns:
            The topic's id; None if it has none.

        Raises:
            ValueError: the topic exists; Kafka does not allow the name; the cluster's own id is needed, or the id is
                another topic's.
        """
        self._check_open()
        present = {topic for topic, _ in self._root.partitions}
        if name in present:
            raise ValueError(f"topic {name!r} exists")
        file_names.check_topic_names([name], present)
        # A copy of one of Kafka's own topics needs it to be there.
        file_names.check_writable_topic(name, is_copy=True)
        file_names.check_partitions(name, partitions)
        file_names.check_leader_epoch(name, leader_epoch)
        if topic_id is not None:
            checkpoints.check_topic_id(topic_id)
            for other, known in self._root.topic_ids().items():
                if known == topic_id:
                    raise ValueError(f"topic id {topic_id} is that of topic {other!r}: of two, a broker loads one")
        own = TopicConfig().with_keywords(config)
        if self._root.bootstrap is not None:
            topic_id = topic_id or checkpoints.random_id()
            epochs = dict.fromkeys(range(partitions), leader_epoch)
            self._root.bootstrap.topics[name] = Topic(topic_id, own.to_configs(), epochs)
            # Before the directories: those of a topic that the metadata does not name become stray.
            self._root.write_bootstrap()
        elif topic_id is None and self._root.is_kraft:
            raise ValueError(
                f"topic {name!r} needs the id that it has in cluster {self.cluster_id}: create it there, and give its "
                "topic_id; without it a broker renames the directory -stray"
            )
        self._root.config[name] = self._root.cluster.config_of(name).with_keywords(config)
        for partition in range(partitions):
            self._root.make_partition(name, partition, topic_id)
        disk.sync_directory(self.path)
        return topic_id

    def log(self, topic: str, partition: int, *, leader_epoch: int | None = None, **config: object) -> LogWriter:
        """Open a partition for writing, the first time; recovered, if the directory was not left clean.

        One that was closed is opened again.

        Args:
            topic: one that is here.
            partition: likewise.
            leader_epoch: what appended batches are stamped with; None: that of the topic's metadata, if it is
                written here, else the last one that the log knows.
            config: what differs from those the topic has: its own, as it was created here, or as the cluster's
                metadata log says; else those of its broker; else Kafka's defaults.

        Raises:
            ValueError: it is not here; it is open with other settings.
            CorruptRecordError: a broker would not load it either; or it needs recovery that would lose sound batches
                behind damage, or lacks records that other files in the directory tell of, and nothing was changed.
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
            # What fails until then leaves the directory as clean as it is.
            before_changes=lambda: self._unsure.add(key),
            reserve_producer_id=self.reserve_producer_id,
            replication=SOLE if self._is_sole else self._root.replication(key),
        )
        if self._root.bootstrap is not None:
            # Files that somebody else put here may have more than was closed here, and producers that have expired.
            known = log.highest_cluster_producer_id(self._root.recovery_points.get(key, 0))
            if known is not None:
                self.reserve_producer_id(known)
        self._unsure.discard(key)
        if not self._recover:
            for said in self._concerns(log, topic):
                warnings.warn(said, stacklevel=2)
        self._logs[key], self._opened_with[key] = log, chosen
        return log

    def _concerns(self, log: LogWriter, topic: str) -> Iterator[str]:
        """Yield what opening a log has lost of it, and, the first time for a topic, why a broker will not serve it."""
        # Of a damaged end, that it was cut off says it all.
        if cuts := [cut for cut in log.cuts if cut.is_damage]:
            yield from (f"{log.directory}: recovery has cut off {cut}; it is set aside there" for cut in cuts)
        elif log.promise is not None:
            yield str(log.promise)
        if topic not in self._judged:
            self._judged.add(topic)
            if unserved := list(self._root.unserved([topic]).values()):
                more = [f"{len(unserved) - _NAMED} more"] if len(unserved) > _NAMED else []
                yield "; ".join([*unserved[:_NAMED], *more])

    def reserve_producer_id(self, producer_id: int) -> None:
        """Make sure that the cluster never gives this producer id to a producer of its own.

        A broker takes the first batches of a new producer for duplicates where a log has another one of the same id: it
        acknowledges them, and they are lost. The metadata of a new cluster get a record that it goes on above the id.
        A cluster that exists has to be above it already, and to have no other broker: a controller gives each of them a
        thousand ids at a time (`ProducerIdControlManager`), which it gives to producers as these come, until it stops.

        Args:
            producer_id: of batches that will be appended. From 2^62 on no cluster gives one.

        Raises:
            ValueError: the cluster may yet give it, or how far it has got is not known.
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
            "a broker would take a new producer's batches for duplicates of these, and lose them; "
            "append them without producers (`brokerless convert --drop producers` makes such a copy of a log)"
        )
        if given is None:
            raise ValueError(
                f"producer id {producer_id}: {self.path} has no metadata log that says which ids the cluster has "
                f"given: {cure}, or open the directory with next_producer_id, above all that were given"
            )
        if producer_id >= given:
            raise ValueError(
                f"producer id {producer_id}: the cluster has given those below {given}, and will give this one: {cure}"
            )
        others = cluster.other_brokers
        who = "other brokers, which are not known," if others is None else f"brokers {', '.join(map(str, others))}"
        raise ValueError(
            f"producer id {producer_id}: {who} have been given ids below {given}, and may yet give this one: {cure}; "
            f"or, if these batches were written in this cluster, or none of its brokers runs, open the directory with "
            f"next_producer_id={given}"
        )

    def _other_replicas(self) -> str:
        """Say which partitions other brokers have, or may have; "": none."""
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
        """Bring the metadata that is written here to this leader epoch; return it, or the one known if it is None."""
        described = self._root.bootstrap.topics.get(topic) if self._root.bootstrap else None
        if described is None:
            return leader_epoch
        known = described.leader_epochs.get(partition, 0)
        if leader_epoch is not None and leader_epoch > known:
            described.leader_epochs[partition] = leader_epoch
            self._root.write_bootstrap()
        # A crash in the middle of create_topic leaves these to be made.
        if not storage.exists(
            self._file(f"{self._root.partitions[topic, partition]}/{checkpoints.PARTITION_METADATA}")
        ):
            self._root.make_partition(topic, partition, described.topic_id)
            disk.sync_directory(self.path)
        return known if leader_epoch is None else leader_epoch

    def commit(self, staging: str, *, unique: str, gone: Collection[str] = ()) -> None:
        """Put staged partition directories in the place of those here, all or none, whatever happens meanwhile.

        What fails once they are in force is a warning: whoever took it for a failure would write again. The directory
        is closed then, and the next who opens it does the rest.

        Args:
            staging: the name of a directory in this one, with whole, cleanly closed partition directories, and files of
                the log directory; all durable. The logs they replace are closed.
            unique: 32 hex digits that no other directory has in its name.
            gone: names of partition directories that go without another in their place.

        Raises:
            OSError: nothing has changed.
        """
        self._check_open()
        self._root.write_checkpoints(self._logs)
        is_committed = False
        try:
            journal.commit(self.path, staging, unique=unique, gone=gone)
            is_committed = True
            replaced = [file_names.parse_directory_name(name)[:2] for name in (*journal.roll_forward(self.path), *gone)]
            for key in replaced:
                self._logs.pop(key, None)
                self._opened_with.pop(key, None)
            self._root.reload(replaced)
            for key in replaced:
                if key in self._root.partitions:
                    # The checkpoints say how far they go.
                    self.log(*key)
        except BaseException as error:
            if is_committed or storage.exists(self._file(journal.NAME)):
                # Left as it is, without the marker: what is known here of the logs may not be true any more.
                self._unlock()
                rest = "what was written is in force; the next writer, or `brokerless recover`, finishes the rest"
                if isinstance(error, Exception):
                    warnings.warn(f"{self.path}: {error}: {rest}", stacklevel=2)
                    return
                error.add_note(rest)
            raise

    def checkpoint(self) -> None:
        """Write down how far the open logs are flushed, as a broker does each minute: recovery starts from there."""
        self._check_open()
        self._root.write_checkpoints(self._logs)

    def close(self) -> None:
        """Close all logs, and leave what a broker leaves that shut down cleanly; a second time is harmless.

        The marker of a directory that had none is written only if every log of it was opened, and so recovered. The
        replicas on their way to it, and stray ones, are recovered then, too. In a process that was forked from the one
        that opened the directory nothing is done.

        Raises:
            OSError: a log could not be closed; the directory will be recovered by whoever opens it next.
            ValueError: likewise, and it had been broken by an error before.
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

    def recover_leftovers(self, topics: Collection[str] = ()) -> Iterator[tuple[str, list[str]]]:
        """Recover `-future` and `-stray` directories, as a broker does that starts, and close them.

        A future replica becomes the partition's as soon as it has caught up; a stray one is kept to be looked into.

        Args:
            topics: only those of these; none: all.

        Yields:
            The directory's name, and what was changed, a line each.

        Raises:
            CorruptRecordError: a broker would not start on it.
        """
        self._check_open()
        for name, (topic, _) in self._root.leftovers.items():
            if name not in self._recovered and (not topics or topic in topics):
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
        """Recover leftovers of a directory that was not left clean; False: one cannot be."""
        try:
            are_any = bool(list(self.recover_leftovers()))
        except CorruptRecordError as error:
            warnings.warn(f"{self.path} is left without a clean-shutdown marker: {error}", stacklevel=3)
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
    """Open one log directory for writing, in the place of its broker.

    Args:
        path: the log directory: what a broker's `log.dirs` names.
        sole_replica: no other broker has replicas of these partitions, or none that matters: do not warn of them.
        recover: recover each log when it is opened, even if the directory was left clean, even if sound batches behind
            damage are lost with that, which are set aside, and even if records are missing that other files tell of.
        next_producer_id: the first producer id that the cluster has not given yet; None: as its metadata log says. See
            `LogDirWriter.reserve_producer_id`.
        broker_config: the broker's configuration file (`server.properties`): settings of topics that have none of
            their own, below those that were set at runtime.
        metadata: the directory that has the cluster's metadata log, where `metadata.log.dir` is another one.

    Raises:
        LogInUseError: a broker, or another writer, has the directory open.
        ValueError: it is no log directory, or `broker_config` or `metadata` does not fit it.
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
    """Make a new log directory, for a broker that has not run yet, and open it for writing.

    A KRaft broker with this `node.id` that is its own and only controller (`controller.quorum.voters`) starts from it
    as from one that it formatted itself, with all topics that were created in it.

    Args:
        path: a new directory in one that exists; or an empty directory.
        cluster_id: None: a random one; before KRaft none, the cluster that takes it has one.
        node_id: the broker's `node.id`, or `broker.id` before KRaft.
        directory_id: the directory's own; None: a random one; before KRaft none.
        kraft: whether it is for a cluster without ZooKeeper.
        release: the oldest Kafka that can serve it, from "3.9" on; newer ones can, too. The new cluster has the
            features of this release until somebody upgrades them (`kafka-features.sh`).
        broker_config: the broker's configuration file (`server.properties`).

    Raises:
        FileExistsError: the directory is not empty.
        LogInUseError: another process is creating it.
        ValueError: an id or the release is none; or it would be in another log directory, or in a partition's.

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
    # The lock is a file, too: none is made in a directory of anybody's.
    _check_unused(path)
    with contextlib.ExitStack() as failing:
        lock = Lock(f"{path}/{checkpoints.LOCK}")
        failing.callback(lock.release)
        # Whoever had the lock before may have made it.
        _check_unused(path)
        if kraft:
            disk.atomic_write(f"{path}/{checkpoints.BOOTSTRAP}", metadata)
        # Last: it is what makes it a log directory.
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
    """Open a log directory for writing; make one where there is nothing, or an empty directory.

    Args:
        path: the log directory.
        sole_replica: as of `LogDirWriter`, and so are the others.
        broker_config: likewise.
        metadata: likewise.
        release: of one that is made: the oldest Kafka that is to serve it (`create_log_dir`).

    Raises:
        ValueError: `release` is given for a directory that exists, or is none; or `metadata` for one that does not.
    """
    name = os.fspath(path)
    if not storage.exists(name) or _is_unused(name):
        if metadata is not None:
            raise ValueError(f"{path} is to be a new cluster's: it has no metadata log in {metadata}")
        # Somebody else may make it at the same time.
        with contextlib.suppress(FileExistsError):
            return create_log_dir(name, broker_config=broker_config, release=release or "4.0")
    if release is not None:
        raise ValueError(f"release {release}: {path} exists, and is as it was made: leave the release out")
    return LogDirWriter(name, sole_replica=sole_replica, broker_config=broker_config, metadata=metadata)


def _check_unused(path: str) -> None:
    if not _is_unused(path):
        raise FileExistsError(errno.EEXIST, "not empty: a new log directory needs a directory of its own", path)


def _is_unused(path: str) -> bool:
    """Tell whether a directory is empty, or as one who makes it into a log directory has it, or a crash leaves it."""
    unfinished = {
        checkpoints.LOCK,
        checkpoints.BOOTSTRAP,
        f"{checkpoints.BOOTSTRAP}.tmp",
        f"{checkpoints.META_PROPERTIES}.tmp",
    }
    return unfinished.issuperset(storage.list_directory(path))
