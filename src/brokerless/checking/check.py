"""`check`: every fault of log directories, with its effect and its cure.

A check has two kinds of pieces: a log, and log directories around their logs. `plan` finds the pieces, and each can be
checked in another process: by the threads of `check`, or by Spark's tasks.
"""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

from brokerless.arguments import check_several, unknown
from brokerless.checking.directories import check_cluster, check_directory, check_ids
from brokerless.checking.finding import Finding
from brokerless.checking.logs import LogCheck
from brokerless.errors import BrokerlessError, CorruptRecordError
from brokerless.io import storage
from brokerless.io.chunking import in_shares
from brokerless.layout import checkpoints, commit_journal
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.layout.topic_config import TopicConfig
from brokerless.log.log import Log
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.state.cluster import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from brokerless.inspection.findings import Contents

Level = Literal["quick", "default", "deep"]
"""How much is read: names, small files and batch headers; all batches, with checksums; all records, too."""

LEVELS: tuple[Level, ...] = ("quick", "default", "deep")

# Logs of about so many bytes are checked before their findings are yielded.
_SHARE = 256 << 20


class LogToCheck(NamedTuple):
    """A log to check: small, and picklable.

    Attributes:
        path: its directory, or a `.log` file.
        root: the log directory around it.
        topic: its topic; None outside of partitions.
        partition: its partition.
        size: the bytes of its segments.
        cleanup_policy: the setting of its topic; None: not known.
    """

    path: str
    root: str
    topic: str | None
    partition: int | None
    size: int
    cleanup_policy: str | None


class DirectoriesToCheck(NamedTuple):
    """Log directories to check against each other and the cluster's metadata, by their paths; picklable."""

    paths: tuple[str, ...]


class Plan(NamedTuple):
    """The pieces of a check.

    Attributes:
        findings: findings about ids, which decide which directories belong together.
        directories: the log directories to check, those that belong together in one piece.
        logs: the logs to check, by topic and partition.
    """

    findings: list[Finding]
    directories: list[DirectoriesToCheck]
    logs: list[LogToCheck]


def check(
    *paths: str | os.PathLike[str],
    topics: Iterable[str] | None = None,
    level: Level = "default",
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Finding]:
    """Check log directories, and yield findings: those of directories first, then those of logs by topic and partition.

    Every replica in the paths is checked. Nothing is changed. A running broker changes its files meanwhile: check a
    snapshot or a copy instead.

    Args:
        paths: log directories of one broker or several, partition directories, or `.log` files.
        topics: only these topics, and nothing about directories; None: all.
        level: "quick": names, small files and the headers of batches; "default": also checksums, indexes and
            snapshots against batches; "deep": also every record.
        progress: called with the bytes of each segment that was checked, from any thread.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory, or a topic does not exist.

    >>> import brokerless as bl
    >>> list(bl.check(SAMPLE))
    []
    """
    if level not in LEVELS:
        raise unknown("level", level, LEVELS)
    check_several("topics", topics)
    wanted = None if topics is None else list(topics)
    planned = plan(paths, None if wanted is None else lambda directories: directories.logs(wanted, all_replicas=True))
    yield from planned.findings
    for directories in planned.directories:
        yield from check_directories(directories)
    roots: dict[str, LogDirFiles] = {}

    def findings_of(log: LogToCheck) -> list[Finding]:
        return list(check_log(log, level, roots, progress=progress))

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for share in in_shares(planned.logs, lambda log: log.size, _SHARE):
            with _quiet():
                of_share = list(threads.map(findings_of, share))
            for of_log in of_share:
                yield from of_log


def plan(
    paths: Iterable[str | os.PathLike[str]],
    choose: Callable[[LogDirs], Sequence[Log]] | None = None,
    listed: LogDirs | None = None,
) -> Plan:
    """Find the logs and directories that a check of some paths covers.

    Args:
        paths: as for `check`.
        choose: chooses logs, and leaves out findings about directories; None: all logs, with all replicas.
        listed: the paths, if they were listed before.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory, or `choose` raised it.
    """
    given = [os.fspath(path) for path in paths]
    with _quiet():
        damaged = dict(_damaged_ids(given))
        planned = Plan(list(damaged.values()), [], [])
        names = [path for path in given if path not in damaged]
        if not names and damaged:
            return planned
        conflicts = list(check_ids(names)) if choose is None else []
        try:
            groups = [(names, LogDirs(*names) if listed is None else listed)]
        except ValueError as error:
            if len(names) == 1:
                raise
            conflicts = conflicts or [Finding(code="ids-conflict", path=names[0], message=str(error))]
            groups = [([name], LogDirs(name)) for name in names]
        planned.findings.extend(conflicts)
        for group, directories in groups:
            if choose is None and _roots(group, directories):
                planned.directories.append(DirectoriesToCheck(tuple(group)))
            logs = directories.logs(all_replicas=True) if choose is None else choose(directories)
            policies = cleanup_policies([root.path for root in directories.roots])
            planned.logs.extend(
                LogToCheck(
                    log.path,
                    log.root.path,
                    log.topic,
                    log.partition,
                    sum(segment.size for segment in log.segments),
                    policies.get(log.topic or ""),
                )
                for log in logs
            )
    return planned


def check_directories(directories: DirectoriesToCheck) -> Iterator[Finding]:
    """Check log directories but for their logs: names, ids, checkpoints, the cluster's metadata, hanging transactions.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory.
    """
    with _quiet():
        found = LogDirs(*directories.paths)
        roots = _roots(directories.paths, found)
    return quietly(_of_directories(roots, found))


def check_log(
    log: LogToCheck,
    level: Level,
    roots: dict[str, LogDirFiles],
    *,
    contents: Contents | None = None,
    gone: Callable[[FileNotFoundError], None] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Finding]:
    """Check a log, and yield findings. It may warn of the same.

    Args:
        log: the log.
        level: as for `check`.
        roots: the log directories around logs that were checked before, by path, to read their files once.
        contents: takes what is sound, unless the level is "quick".
        gone: gets the error for a segment that is no longer there; None: raise it.
        progress: as for `check`.

    Raises:
        FileNotFoundError: the log or one of its segments is no longer there.
    """
    root = roots.setdefault(log.root, LogDirFiles(log.root))
    config = None
    if log.cleanup_policy is not None:
        # Metadata may hold any text.
        with suppress(ValueError):
            config = TopicConfig(cleanup_policy=log.cleanup_policy)
    # A commit that is not rolled forward has the current log elsewhere.
    place = storage.absolute(log.path)
    active = commit_journal.active_path(place)
    listed = Log(log.path if active == place else active, root=root)
    return LogCheck(listed, config, level, progress, contents=contents, gone=gone).findings()


def cleanup_policies(paths: Sequence[str]) -> dict[str, str]:
    """Return `cleanup.policy` of the topics for which the metadata in some log directories have it."""
    with suppress(ValueError, BrokerlessError):
        rows = cluster(*paths).configs.to_pylist()
        wanted = [row for row in rows if (row["resource_type"], row["name"]) == ("topic", "cleanup.policy")]
        return {row["resource"]: row["value"] for row in wanted}
    return {}


def _roots(paths: Iterable[str], directories: LogDirs) -> list[LogDirFiles]:
    """Return the log directories among paths: a partition's directory says nothing about the directory around it."""
    given = {storage.absolute(path) for path in paths}
    return [root for root in directories.roots if storage.absolute(root.path) in given]


def _damaged_ids(paths: Iterable[str]) -> Iterator[tuple[str, Finding]]:
    """Yield the paths whose ids cannot be read. Nothing else in them can be checked: whose they are is not known."""
    for path in paths:
        file = f"{path}/{checkpoints.META_PROPERTIES}"
        if storage.exists(file):
            try:
                checkpoints.parse_meta_properties(storage.read_all(file))
            except CorruptRecordError as error:
                message = f"{error.args[0]}; the logs in {path} were not checked: write the file again first"
                yield path, Finding(code="ids-damaged", path=file, message=message)


def _of_directories(roots: Sequence[LogDirFiles], directories: LogDirs) -> Iterator[Finding]:
    for root in roots:
        if root.is_there:
            yield from check_directory(root)
    yield from check_cluster([root.path for root in roots], directories)


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out warnings: findings say the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def quietly(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield findings without the warnings that say the same."""
    while True:
        with _quiet():
            found = next(findings, None)
        if found is None:
            return
        yield found
