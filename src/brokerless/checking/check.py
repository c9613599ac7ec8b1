"""`check`: finds every fault of log directories, with its effect and its cure.

A check is divided into pieces of two kinds: a log, and log directories without their logs. `plan` finds the pieces. A
thread of `check` or a Spark task can check each piece on its own.
"""

from __future__ import annotations

import os
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from brokerless.arguments import check_paths, some_or_all, unknown
from brokerless.checking.codes import LEVELS
from brokerless.checking.directories import (
    check_blank,
    check_cluster,
    check_directory,
    check_doubled,
    check_ids,
    known_cluster,
)
from brokerless.checking.finding import Finding
from brokerless.checking.logs import LogCheck
from brokerless.errors import CorruptRecordError
from brokerless.io import storage
from brokerless.io.cores import cores
from brokerless.io.runner import Threads
from brokerless.layout import commit_journal, file_names
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.layout.topic_config import TopicConfig
from brokerless.log.log import Log
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.log_dir.start_faults import is_blank
from brokerless.notes import collected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from brokerless.checking.codes import Level
    from brokerless.errors import BrokerlessError
    from brokerless.inspection.findings import Count
    from brokerless.io.runner import Progress
    from brokerless.state.cluster import ClusterState

    Known = ClusterState | ValueError | BrokerlessError


# At least this many logs per thread, or bytes, are checked before findings are yielded, but no more logs than the
# maximum.
_SHARE_LOGS, _SHARE_BYTES = 4, 1 << 30
_MOST_LOGS = 1000


class LogToCheck(NamedTuple):
    """A log to check: small, and picklable.

    Attributes:
        path: the partition directory, or a `.log` file.
        root: the log directory that holds it.
        topic: the topic; None outside of partitions.
        partition: the partition number.
        size: the total size of the segments, in bytes.
        config: the settings of the topic; None if not known.
    """

    path: str
    root: str
    topic: str | None
    partition: int | None
    size: int
    config: TopicConfig | None


class DirectoriesToCheck(NamedTuple):
    """Log directories, as paths, to compare with each other and with the cluster's metadata; picklable."""

    paths: tuple[str, ...]


class Plan(NamedTuple):
    """The pieces of a check.

    Attributes:
        findings: findings about ids. The ids decide which directories belong together.
        directories: the log directories to check. Directories of one cluster are one piece.
        logs: the logs to check, by topic and partition.
    """

    findings: list[Finding]
    directories: list[DirectoriesToCheck]
    logs: list[LogToCheck]


class Chosen(NamedTuple):
    """The topics and the partitions to check; None means all."""

    topics: list[str] | None
    partitions: list[int] | None

    @property
    def is_all(self) -> bool:
        """True if all topics and partitions are chosen. The directories are then checked, too."""
        return self.topics is None and self.partitions is None

    def logs(self, directories: LogDirs) -> list[Log]:
        """Return the logs, including replicas that are being moved."""
        moving = directories.moving(self.topics)
        present = directories.logs(self.topics, self.partitions, all_replicas=True)
        return [*present, *(log for log in moving if self.partitions is None or log.partition in self.partitions)]


def check(
    *paths: str | os.PathLike[str],
    topics: Iterable[str] | None = None,
    partitions: Iterable[int] | None = None,
    level: Level = "default",
    progress: Progress = lambda _name, _size: None,
) -> Iterator[Finding]:
    """Check log directories, and yield findings: first on directories, then on logs, by topic and partition.

    Every replica in the paths is checked, even if it is being moved to another disk. Nothing is changed. A running
    broker changes its files during the check, so check a snapshot or a copy instead.

    Args:
        paths: log directories of one broker or several, partition directories, or `.log` files.
        topics: check only these topics, by name or glob (`orders-*`), not the directories themselves; None: everything.
        partitions: check only these partitions, not the directories themselves; None: everything.
        level: "quick": check names, small files and batch headers; "default": also verify checksums, and compare
            indexes and snapshots with the batches; "deep": also decode every record.
        progress: called from any thread with the name of a log and the number of its bytes checked since the last call.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory, or a topic does not exist.

    >>> import brokerless as bl
    >>> list(bl.check(SAMPLE))
    []
    """
    check_paths("check", paths)
    if level not in LEVELS:
        raise unknown("level", level, LEVELS)
    chosen = Chosen(some_or_all("topics", topics), some_or_all("partitions", partitions))
    found, groups = _groups(paths, checks_ids=chosen.is_all)
    yield from found
    for names, directories in groups:
        yield from _check(names, directories, chosen, level, progress)


def _groups(
    paths: Iterable[str | os.PathLike[str]], listed: LogDirs | None = None, *, checks_ids: bool
) -> tuple[list[Finding], list[tuple[list[str], LogDirs]]]:
    """Return findings about ids, and each group of paths that belong together, with its directories."""
    names = [os.fspath(path) for path in paths]
    blank = [name for name in names if is_blank(name) and not file_names.is_directory_name(os.path.basename(name))]
    if len(blank) < len(names):
        names = [name for name in names if name not in blank]
    with collected():
        conflicts = list(check_ids(names)) if checks_ids else []
        conflicts += check_blank(blank, names) if checks_ids else []
        try:
            groups = [(names, LogDirs(*names) if listed is None else listed)]
        except ValueError as error:
            if len(names) == 1:
                raise
            conflicts = conflicts or [Finding(code="ids-conflict", path=names[0], message=str(error))]
            groups = [([name], LogDirs(name)) for name in names]
    return conflicts, groups


def plan(
    paths: Iterable[str | os.PathLike[str]],
    choose: Callable[[LogDirs], Sequence[Log]] | None = None,
    listed: LogDirs | None = None,
) -> Plan:
    """Find the logs and directories that a check of some paths covers, for checks in other processes.

    Args:
        paths: as for `check`.
        choose: returns the logs to check. If it is given, the directories themselves are not checked. None: check all
            logs with all replicas.
        listed: the paths' log directories, if they were listed before.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory, or `choose` raised it.
    """
    found, groups = _groups(paths, listed, checks_ids=choose is None)
    planned = Plan(found, [], [])
    with collected():
        for group, directories in groups:
            if choose is None and _roots(group, directories):
                planned.directories.append(DirectoriesToCheck(tuple(group)))
            all_logs = [*directories.logs(all_replicas=True), *directories.moving()] if choose is None else []
            logs = all_logs if choose is None else choose(directories)
            known = known_cluster([root.path for root in directories.roots])
            # The task of a log carries only the settings that a check needs.
            configs = {
                topic: TopicConfig(cleanup_policy=one.cleanup_policy, remote_storage_enable=one.remote_storage_enable)
                for topic, one in topic_configs(known, directories.roots).items()
            }
            planned.logs.extend(
                LogToCheck(
                    log.path,
                    log.root.path,
                    log.topic,
                    log.partition,
                    _size(log),
                    configs.get(log.topic or ""),
                )
                for log in logs
            )
    return planned


def _check(
    paths: Sequence[str],
    directories: LogDirs,
    chosen: Chosen,
    level: Level,
    progress: Progress,
) -> Iterator[Finding]:
    """Check directories that can be read as one."""
    with collected():
        logs = chosen.logs(directories)
        roots = _roots(paths, directories)
        shares = [*_shares(logs, cores())] or [[]]
    with Threads() as threads:

        def around() -> tuple[list[Finding], dict[str, TopicConfig]]:
            known = known_cluster([root.path for root in directories.roots])
            of_directories = chosen.is_all and bool(roots)
            configs = topic_configs(known, directories.roots)
            return list(_of_directories(roots, directories, known)) if of_directories else [], configs

        # A read of the metadata needs Arrow, which is slow to import, so logs are checked meanwhile.
        with collected():
            known = threads.start(around)
        for number, share in enumerate(shares):
            with collected():
                checks = [LogCheck(log, level, partial(progress, log.name), goes_on=True) for log, _ in share]
                of_segments: dict[int, Future[list[Finding]]] = {}
                # The largest logs first, so that no thread has a large one left at the end.
                for at in sorted(range(len(share)), key=lambda at: -share[at][1]):
                    of_segments[at] = threads.start(_listed, checks[at].of_segments())
                wait(of_segments.values())
                of_directories, configs = known.result()
                of_logs = [
                    threads.start(_listed, check.of_log(configs.get(str(log.topic))))
                    for check, (log, _) in zip(checks, share, strict=True)
                ]
                wait(of_logs)
            if not number:
                yield from of_directories
            for at, found in enumerate(of_logs):
                yield from _at_given_path(share[at][0], (*of_segments[at].result(), *found.result()))


def _listed(findings: Iterator[Finding]) -> list[Finding]:
    return list(findings)


def _shares(logs: Iterable[Log], threads: int) -> Iterator[list[tuple[Log, int]]]:
    """Divide logs into runs of neighbors that are checked at the same time. Each log comes with its size."""
    share: list[tuple[Log, int]] = []
    for log in logs:
        share.append((log, _size(log)))
        is_large = len(share) >= _SHARE_LOGS * threads and sum(size for _, size in share) >= _SHARE_BYTES
        if is_large or len(share) >= _MOST_LOGS:
            yield share
            share = []
    if share:
        yield share


def _size(log: Log) -> int:
    """Return the size of a log's segments, in bytes; 0 if the log cannot be read, which is a finding."""
    try:
        return sum(segment.size for segment in log.segments)
    except FileNotFoundError:
        raise
    except OSError:
        return 0


def check_directories(directories: DirectoriesToCheck) -> Iterator[Finding]:
    """Check log directories without their logs: names, ids, checkpoints, the cluster's metadata, hanging transactions.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory.
    """
    with collected():
        found = LogDirs(*directories.paths)
        roots = _roots(directories.paths, found)
        known = known_cluster([root.path for root in found.roots])
    return quietly(_of_directories(roots, found, known))


def open_log(log: LogToCheck, roots: dict[str, LogDirFiles]) -> Log:
    """List the files of a log to check.

    Args:
        log: the log.
        roots: the log directories of logs that were opened before, by path, so that their files are read only once.

    Raises:
        FileNotFoundError: the log no longer exists.
    """
    root = roots.setdefault(log.root, LogDirFiles(log.root))
    # If a commit is not rolled forward yet, the current log is in another directory.
    place = storage.absolute(log.path)
    active = commit_journal.active_path(place)
    return Log(log.path if active == place else active, root=root)


def check_log(
    listed: Log,
    config: TopicConfig | None,
    level: Level,
    *,
    count: Count | None = None,
    gone: Callable[[FileNotFoundError], None] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Finding]:
    """Check a log, and yield findings. Warnings may report the same faults.

    Args:
        listed: the log, as `open_log` returns it.
        config: the settings of the topic; None if not known.
        level: as for `check`.
        count: called with each file and its runs of sound batches, unless the level is "quick".
        gone: called with the error for a segment that no longer exists; None: raise the error.
        progress: called with the bytes of each segment that was checked.

    Raises:
        FileNotFoundError: one of the segments no longer exists.
    """
    checked = LogCheck(listed, level, progress, count=count, gone=gone, goes_on=True)
    return _at_given_path(listed, chain(checked.of_segments(), checked.of_log(config)))


def _at_given_path(log: Log, found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings with paths that begin as the log's was given; a log opens its segments by absolute paths."""
    given = (os.path.dirname(log.path) or ".") if log.files.is_file else log.path.rstrip("/") or "/"
    for one in found:
        path = storage.as_given(one.path, given)
        yield one if path == one.path else replace(one, path=path)


def _roots(paths: Iterable[str], directories: LogDirs) -> list[LogDirFiles]:
    """Return the log directories among the paths. The log directory of a given partition directory is not included."""
    given = {storage.absolute(path) for path in paths}
    return [root for root in directories.roots if storage.absolute(root.path) in given]


def _of_directories(roots: Sequence[LogDirFiles], directories: LogDirs, known: Known) -> Iterator[Finding]:
    for root in roots:
        if root.is_there:
            others = [other.path for other in roots if other is not root and _may_be_of_one_broker(root, other)]
            yield from check_directory(root, others)
    yield from check_doubled(roots)
    yield from check_cluster([root.path for root in roots], directories, known)


def _may_be_of_one_broker(root: LogDirFiles, other: LogDirFiles) -> bool:
    return root.node_id is None or other.node_id in (None, root.node_id)


def topic_configs(known: Known, roots: Sequence[LogDirFiles]) -> dict[str, TopicConfig]:
    """Return the topics' settings on the broker of some directories, as far as the metadata have them."""
    nodes: set[int | None] = set()
    # Damaged ids are a finding of their own.
    with suppress(CorruptRecordError):
        nodes = {root.node_id for root in roots}
    return {} if isinstance(known, Exception) else known.topic_configs(nodes.pop() if len(nodes) == 1 else None)


def quietly(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield findings, and suppress the warnings that report the same faults."""
    while True:
        with collected():
            found = next(findings, None)
        if found is None:
            return
        yield found
