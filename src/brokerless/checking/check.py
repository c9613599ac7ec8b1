"""`check`: every fault of log directories, with its effect and its cure."""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from brokerless.arguments import check_several, unknown
from brokerless.checking.directories import check_cluster, check_directory, check_ids, known_cluster
from brokerless.checking.finding import Finding
from brokerless.checking.logs import LogCheck
from brokerless.errors import CorruptRecordError
from brokerless.io import storage
from brokerless.io.chunking import cores
from brokerless.layout import checkpoints
from brokerless.layout.topic_config import TopicConfig
from brokerless.log_dir.log_dirs import LogDirs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from brokerless.errors import BrokerlessError
    from brokerless.layout.log_dir_files import LogDirFiles
    from brokerless.log.log import Log
    from brokerless.state.cluster import ClusterState

    Known = ClusterState | ValueError | BrokerlessError

Level = Literal["quick", "default", "deep"]
"""How much is read: names, small files and batch headers; all batches, with checksums; all records, too."""

LEVELS: tuple[Level, ...] = ("quick", "default", "deep")

# So many logs for each thread, and bytes, are checked before findings are yielded; but no more logs than the maximum.
_SHARE_LOGS, _SHARE_BYTES = 4, 1 << 30
_MOST_LOGS = 1000


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
    given = [os.fspath(path) for path in paths]
    damaged = dict(_damaged_ids(given))
    yield from damaged.values()
    names = tuple(path for path in given if path not in damaged)
    if not names and damaged:
        return
    with _quiet():
        conflicts = list(check_ids(names)) if topics is None else []
        try:
            directories = LogDirs(*names)
        except ValueError as error:
            if len(names) == 1:
                raise
            conflicts = conflicts or [Finding(code="ids-conflict", path=names[0], message=str(error))]
            directories = None
    yield from conflicts
    together = [(names, directories)] if directories is not None else [((name,), LogDirs(name)) for name in names]
    for paths_of, chosen in together:
        yield from _check(paths_of, chosen, topics, level, progress)


def _check(
    paths: tuple[str, ...],
    directories: LogDirs,
    topics: Iterable[str] | None,
    level: Level,
    progress: Callable[[int], None],
) -> Iterator[Finding]:
    """Check directories that can be read as one."""
    with _quiet():
        logs = directories.logs(topics, all_replicas=True)
        # A partition's directory alone says nothing about the directory around it.
        given = {storage.absolute(path) for path in paths}
        roots = [root for root in directories.roots if storage.absolute(root.path) in given]
        shares = [*_shares(logs, cores())] or [[]]
    with _pool(cores()) as threads:

        def around() -> tuple[list[Finding], dict[str, TopicConfig]]:
            known = known_cluster([root.path for root in directories.roots])
            of_directories = topics is None and bool(roots)
            return list(_of_directories(roots, directories, known)) if of_directories else [], topic_configs(known)

        # Reading the metadata needs Arrow, which is slow to import: logs are checked meanwhile.
        known = threads.submit(around)
        for number, share in enumerate(shares):
            with _quiet():
                checks = [LogCheck(log, level, progress) for log, _ in share]
                of_segments: dict[int, Future[list[Finding]]] = {}
                # The largest ones first, so that no thread is left with one at the end.
                for at in sorted(range(len(share)), key=lambda at: -share[at][1]):
                    of_segments[at] = threads.submit(_listed, checks[at].of_segments())
                wait(of_segments.values())
                of_directories, configs = known.result()
                of_logs = [
                    threads.submit(_listed, check.of_log(configs.get(str(log.topic))))
                    for check, (log, _) in zip(checks, share, strict=True)
                ]
                wait(of_logs)
            if not number:
                yield from of_directories
            for at, found in enumerate(of_logs):
                yield from (*of_segments[at].result(), *found.result())


@contextmanager
def _pool(count: int) -> Iterator[ThreadPoolExecutor]:
    """Start threads, which end with what they are at."""
    threads = ThreadPoolExecutor(count)
    try:
        yield threads
    finally:
        threads.shutdown(cancel_futures=True)


def _listed(findings: Iterator[Finding]) -> list[Finding]:
    return list(findings)


def _shares(logs: Iterable[Log], threads: int) -> Iterator[list[tuple[Log, int]]]:
    """Divide logs into runs of neighbours, which are checked at the same time, each with its size."""
    share: list[tuple[Log, int]] = []
    for log in logs:
        share.append((log, sum(segment.size for segment in log.segments)))
        is_large = len(share) >= _SHARE_LOGS * threads and sum(size for _, size in share) >= _SHARE_BYTES
        if is_large or len(share) >= _MOST_LOGS:
            yield share
            share = []
    if share:
        yield share


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


def _of_directories(roots: Sequence[LogDirFiles], directories: LogDirs, known: Known) -> Iterator[Finding]:
    for root in roots:
        if root.is_there:
            yield from check_directory(root)
    yield from check_cluster([root.path for root in roots], directories, known)


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out warnings: findings say the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def topic_configs(known: Known) -> dict[str, TopicConfig]:
    """Return the settings of topics, as far as the metadata have them."""
    configs: dict[str, dict[str, str]] = {}
    for row in () if isinstance(known, Exception) else known.rows("configs"):
        if row["resource_type"] == "topic" and row["name"] == "cleanup.policy":
            configs.setdefault(row["resource"], {})["cleanup_policy"] = row["value"]
    return {topic: TopicConfig().with_keywords(dict(settings)) for topic, settings in configs.items()}
