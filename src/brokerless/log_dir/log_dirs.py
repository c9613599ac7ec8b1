"""`LogDir`: the log directories of one broker or several, seen as one set of topics; the way to write to one."""

from __future__ import annotations

import os
import warnings
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from brokerless.errors import check_partition, check_several, unknown, unknown_partition
from brokerless.io import storage
from brokerless.layout import file_names, journal
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.log.log import Log
from brokerless.log_dir.writer import LogDirWriter, create_log_dir

if TYPE_CHECKING:
    from collections.abc import Iterable


# How often all is looked at, where a partition was gone as soon as it was listed.
_LOOKS = 3


class InactivePartition(NamedTuple):
    """A partition directory that no longer, or not yet, counts: `kind` is "delete", "stray" or "future".

    >>> import os
    >>> LogDir.create(NEW).close()
    >>> os.mkdir(f"{NEW}/orders-0.{'0' * 32}-delete")
    >>> [(left.topic, left.partition, left.kind) for left in LogDir(NEW).leftovers()]
    [('orders', 0, 'delete')]
    """

    path: str
    topic: str
    partition: int
    kind: str


class LogDir:
    """What is found at some paths: log directories (roots), partition directories, or single `.log` files.

    The same partition in roots of different brokers (`node.id`) is replicated: the replica that is read is the one
    with the highest last leader epoch, then the highest log end offset.

    Args:
        paths: at least one.

    Attributes:
        roots: the log directories, in the order of the paths.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is none of these, two roots are of different clusters, or two roots of one broker hold the
            same partition.

    >>> LogDir(SAMPLE_DIR).topics()
    ['upgraded-compact']
    """

    def __init__(self, *paths: str | os.PathLike[str]) -> None:
        if not paths:
            raise ValueError("no path: a log directory, a partition directory or a .log file is needed")
        for _ in range(_LOOKS):
            self.roots: list[LogDirFiles] = []
            self._logs: list[Log] = []
            self._leftovers: list[InactivePartition] = []
            self._seen: set[str] = set()
            are_complete = [self._add(os.fspath(path)) for path in paths]
            if all(are_complete):
                break
        self._check()

    @staticmethod
    def create(
        path: str | os.PathLike[str],
        *,
        cluster_id: str | None = None,
        node_id: int = 1,
        directory_id: str | None = None,
        kraft: bool = True,
        release: str = "4.0",
    ) -> LogDirWriter:
        """Make a new log directory, for a broker that has not run yet, and open it for writing.

        A KRaft broker with this `node.id`, that is its own and only controller (`controller.quorum.voters`), starts
        on it as on one that it formatted itself, with all topics that were created in it.

        Args:
            path: what does not exist yet, in a directory that does; or an empty directory.
            cluster_id: None: a random one; before KRaft none, the cluster that takes it has one.
            node_id: the broker's `node.id`, or `broker.id` before KRaft.
            directory_id: the directory's own; None: a random one; before KRaft none.
            kraft: whether it is for a cluster without ZooKeeper.
            release: the oldest Kafka that is to serve it, from "3.9" on; newer ones do, too. The new cluster has the
                features of this release, until somebody upgrades them (`kafka-features.sh`).

        Raises:
            FileExistsError: the directory is not empty.
            LogInUseError: another writer is there, who makes it.
            ValueError: an id or the release is none; or it would be in another log directory, or in a partition's.

        >>> with LogDir.create(NEW) as log_dir:
        ...     topic_id = log_dir.create_topic("orders", partitions=2)
        >>> LogDir(NEW).topics(), LogDir(NEW).roots[0].is_clean
        (['orders'], True)
        """
        return create_log_dir(
            os.fspath(path),
            cluster_id=cluster_id,
            node_id=node_id,
            directory_id=directory_id,
            kraft=kraft,
            release=release,
        )

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        sole_replica: bool = False,
        recover: bool = False,
        next_producer_id: int | None = None,
        broker_config: str | os.PathLike[str] | None = None,
        metadata: str | os.PathLike[str] | None = None,
    ) -> LogDirWriter:
        """Open one log directory for writing: see `LogDirWriter`, which takes the same arguments.

        Raises:
            LogInUseError: a broker, or another writer, is there.
            ValueError: it is no log directory, or `broker_config` or `metadata` does not fit it.
            CorruptRecordError: a file of the directory is damaged; a broker would not start either.
        """
        return LogDirWriter(
            path,
            sole_replica=sole_replica,
            recover=recover,
            next_producer_id=next_producer_id,
            broker_config=broker_config,
            metadata=metadata,
        )

    def topics(self) -> list[str]:
        """Return the topics, sorted, internal ones (`__consumer_offsets`) included."""
        return sorted({log.topic for log in self._logs if log.topic is not None})

    def logs(
        self,
        topics: Iterable[str] | None = None,
        partitions: Iterable[int] | None = None,
        *,
        all_replicas: bool = False,
    ) -> list[Log]:
        """Return one log a partition, by topic and partition; only these topics and partitions, if given.

        With `all_replicas`, one a replica: those of a partition in the order of the paths, not compared.

        Raises:
            ValueError: a topic or partition that is not here.
            TypeError: a string in place of several topics, or of a partition's number.
        """
        check_several("topics", topics)
        check_several("partitions", partitions)
        # Only what is asked for is compared with its replicas: that opens files, and damage elsewhere is no matter.
        chosen = self._by_partition
        if topics is not None:
            wanted = set(topics)
            for topic in sorted(wanted - set(self.topics())):
                raise unknown("topic", topic, self.topics())
            chosen = [replicas for replicas in chosen if replicas[0].topic in wanted]
        if partitions is not None:
            numbers = set(partitions)
            for number in numbers:
                check_partition(number)
            known = {replicas[0].partition for replicas in chosen if replicas[0].partition is not None}
            for number in sorted(numbers - known):
                raise unknown_partition(number, known)
            chosen = [replicas for replicas in chosen if replicas[0].partition in numbers]
        if all_replicas:
            return [log for replicas in chosen for log in replicas]
        return [_sorted(replicas)[0] for replicas in chosen]

    def log(self, topic: str, partition: int) -> Log:
        """Return one partition's log.

        Raises:
            ValueError: it is not here.
        """
        return self.logs([topic], [partition])[0]

    def replicas(self, topic: str, partition: int) -> list[Log]:
        """Return all replicas of a partition, the one that is read first.

        Raises:
            ValueError: it is not here.
        """
        self.log(topic, partition)
        return _sorted([log for log in self._logs if (log.topic, log.partition) == (topic, partition)])

    def leftovers(self) -> list[InactivePartition]:
        """Return the directories of deleted, stray and future partitions, which are not read, by path."""
        return sorted(self._leftovers)

    @cached_property
    def _by_partition(self) -> list[list[Log]]:
        found: dict[tuple[str, int, str], list[Log]] = {}
        for log in self._logs:
            # files and directories without a name of their own are nobody's replicas
            alone = "" if log.topic is not None and not log.is_file else log.path
            found.setdefault((log.topic or "", log.partition or 0, alone), []).append(log)
        return [found[key] for key in sorted(found)]

    def _add(self, path: str) -> bool:
        """Add what is at a path. False: a partition that was listed there is gone.

        A running broker deletes topics, and moves partitions to other directories, while we look.
        """
        names = _names(path)
        if names is None or file_names.is_partition_directory(names) or (not names and _parsed(path)):
            self._add_log(path, None)
            return True
        found, pending = journal.look(path)
        for name in found:
            if not file_names.is_utf8(name):
                what = "the name is not UTF-8, and a broker does not see it"
                warnings.warn(f"not read: {path}/{name}: {what}", stacklevel=2)
        directories = [(found[name], parsed) for name in sorted(found) if (parsed := _parsed(name))]
        if not directories and not LogDirFiles.is_root(names):
            raise ValueError(f"nothing to read: {path!r} is no log directory, partition directory or .log file")
        root = self._root(path)
        # The directories and the checkpoints of one moment.
        root.journal = pending
        is_complete = True
        for directory, parsed in directories:
            if parsed.leftover:
                self._leftovers.append(InactivePartition(directory, parsed.topic, parsed.partition, parsed.leftover))
                continue
            try:
                self._add_log(directory, root)
            except FileNotFoundError:
                if storage.is_directory(directory):
                    raise
                is_complete = False
        return is_complete

    def _add_log(self, path: str, root: LogDirFiles | None) -> None:
        place = storage.absolute(path if root else journal.current(path))
        if place not in self._seen:
            self._seen.add(place)
            log = Log(path, root=root)
            # The log directory around a partition is one for all that is found in it.
            log.root = root or self._root(log.root.path)
            self._logs.append(log)

    def _root(self, path: str) -> LogDirFiles:
        for root in self.roots:
            if storage.absolute(root.path) == storage.absolute(path):
                return root
        self.roots.append(LogDirFiles(path))
        return self.roots[-1]

    def _check(self) -> None:
        if len(self.roots) > 1:
            clusters = {root.cluster_id: root.path for root in self.roots if root.cluster_id is not None}
            if len(clusters) > 1:
                places = ", ".join(f"{cluster} in {path}" for cluster, path in clusters.items())
                raise ValueError(f"different clusters: {places}; read each alone")
        for replicas in self._by_partition:
            by_broker: dict[int | str, Log] = {}
            for log in replicas if len(replicas) > 1 else ():
                node = log.root.node_id
                broker = log.root.path if node is None else node
                if by_broker.setdefault(broker, log) is not log:
                    raise ValueError(
                        f"{log.name} of node {node} is in two places: {by_broker[broker].path}, {log.path}"
                    )


def _names(path: str) -> list[str] | None:
    """Return what is in a directory; None: it is none, or is being moved to its place by a writer."""
    try:
        return storage.list_directory(path) if storage.is_directory(path) else None
    except FileNotFoundError:
        return None


def _parsed(path: str) -> file_names.DirectoryName | None:
    try:
        return file_names.parse_directory_name(os.path.basename(storage.absolute(path)))
    except ValueError:
        return None


def _sorted(replicas: list[Log]) -> list[Log]:
    """Sort replicas, the one to be read first. What the last epoch has not seen may be truncated by its leader."""

    def age(log: Log) -> tuple[int, int]:
        return (log.leader_epochs[-1].epoch if log.leader_epochs else -1, log.log_end_offset)

    return sorted(replicas, key=age, reverse=True) if len(replicas) > 1 else replicas
