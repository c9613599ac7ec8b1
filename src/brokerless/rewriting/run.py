"""Verbs that rewrite logs, run over the partitions that a user names: in place, or into a new directory.

In place, the log directory is open for writing all the while (`LogDirWriter`: locked, its clean-shutdown marker aside),
so that a crash leaves logs to be recovered, and nothing worse. Into a new directory, what is named is copied first and
the copy rewritten; it takes its name when all is done. A partition's directory without a log directory around it has
nobody's lock and no marker: it is taken for one that was left clean, and that nobody else writes to.

The owner of a log plans and swaps; the work between is done in this process, or in others, or anywhere that the files
are seen: there it may be done twice, so each attempt writes apart, and the owner moves what one of them wrote.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from brokerless.append.operation import LogState, ReportT, check_known
from brokerless.append.swap import collect, discard
from brokerless.append.writer import LogWriter
from brokerless.errors import CorruptRecordError
from brokerless.inspection.findings import findings
from brokerless.io import storage
from brokerless.io.clock import now_ms
from brokerless.io.workers import Workers
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.log.reader import LostRange
from brokerless.log.segment import segments_in
from brokerless.log_dir.cluster_metadata import Cluster, metadata_among
from brokerless.log_dir.copying import StagedCopy, check_at_rest
from brokerless.log_dir.start_faults import obstacles
from brokerless.log_dir.writer import LogDirWriter
from brokerless.recovery.loader import load
from brokerless.rewriting import attempts
from brokerless.rewriting.selection import Selection, select_partitions
from brokerless.rewriting.task_steps import in_place, staged

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from concurrent.futures import Future
    from types import TracebackType

    from brokerless.append.operation import Outcome, PlanT, RewriteOperation
    from brokerless.io.workers import Pool
    from brokerless.log_dir.cluster_metadata import Path
    from brokerless.recovery.load_result import Loaded
    from brokerless.rewriting.progress_file import ProgressFile
    from brokerless.rewriting.selection import Key
    from brokerless.rewriting.task_steps import Running

    Progress = Callable[[str, int], None]


SHARE = 1 << 30
"""Bytes of a log: of a larger one, several calls may share the work, where they may be made elsewhere."""


@dataclass(frozen=True)
class RewriteResult(Generic[ReportT]):
    """What was done to one partition, or would be.

    Attributes:
        topic: its topic.
        partition: its number.
        report: the verb's: `CompactionReport`, `RetainReport`, `Cut`, `ConvertReport` or `EraseReport`.
        recovery: what opening the log had to bring in order before, a line each.
        unkept_log_start_offset: where the log starts, if neither its files nor a checkpoint beside them say so: of a
            partition without a log directory around it.
        damage: what was damaged before, and is so still: all of a copy was checked, and in place what the work had not
            read, unless a pool did it.

    >>> import brokerless as bl
    >>> (done,) = bl.rewrite(bl.TruncateTo(offset=100), SAMPLE, dry_run=True)
    >>> done.name, done.report.cut_size
    ('preallocated-0', 8735)
    """

    topic: str
    partition: int
    report: ReportT
    recovery: tuple[str, ...] = ()
    unkept_log_start_offset: int | None = None
    damage: tuple[LostRange, ...] = ()

    @property
    def key(self) -> Key:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """`topic-partition`."""
        return _name(self.key)


def rewrite(
    operation: RewriteOperation[PlanT, ReportT],
    path: str | os.PathLike[str],
    *,
    topics: Collection[str] = (),
    partitions: Collection[int] = (),
    to: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    jobs: int = 1,
    progress: Progress = lambda _name, _read: None,
    broker_config: Path | None = None,
    metadata: Path | None = None,
) -> list[RewriteResult[ReportT]]:
    """Do a verb's work on partitions, and return what was done to each.

    Args:
        operation: what is done.
        path: a log directory, or one partition's directory.
        topics: of a log directory; at least one: nothing is rewritten that was not named.
        partitions: only these; none: all of the topics.
        to: a new directory for the result, of the kind that `path` is: all that was named, rewritten or not, and what
            a broker needs to start on it. None: in place.
        dry_run: change nothing.
        jobs: how many partitions are worked on at a time, each in a process of its own if it is more than one. These
            import the script that started them: its work belongs under `if __name__ == "__main__"`.
        progress: called with a partition's name and the bytes that were read of it since the last call.
        broker_config: the broker's configuration file (`server.properties`): settings of topics that have none of
            their own, below those that were set at runtime.
        metadata: the directory that has the cluster's metadata log, where `metadata.log.dir` is another one.

    Raises:
        LogInUseError: a broker, or another writer, is there.
        FileExistsError: there is something at `to`.
        ValueError: no topic is named, or an unknown one; `path` is no such directory; the verb refuses, also where
            settings decide which records go, and are not known; `broker_config` or `metadata` does not fit.
        CorruptRecordError: a log is damaged. Some partitions may be done, the others are as they were.

    >>> import brokerless as bl
    >>> [done.report.deleted_segments for done in rewrite(bl.Retain(retention_bytes=1 << 40), SAMPLE, dry_run=True)]
    [0]
    """
    return list(
        rewrite_each(
            operation,
            path,
            topics=topics,
            partitions=partitions,
            to=to,
            dry_run=dry_run,
            jobs=jobs,
            progress=progress,
            broker_config=broker_config,
            metadata=metadata,
        )
    )


def rewrite_each(
    operation: RewriteOperation[PlanT, ReportT],
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    topics: Collection[str] = (),
    partitions: Collection[int] = (),
    to: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    jobs: int = 1,
    progress: Progress = lambda _name, _read: None,
    pool: Pool[Any] | None = None,
    progress_file: ProgressFile | None = None,
    share: int = SHARE,
    broker_config: Path | None = None,
    metadata: Path | None = None,
) -> Iterator[RewriteResult[ReportT]]:
    """Do as `rewrite` does, and yield what was done to each partition as soon as it is; without a loop nothing is.

    Args:
        operation: what is done.
        path: one or, in place or for a dry run, several.
        topics: each of one log directory at least.
        partitions: as of `rewrite`.
        to: likewise.
        dry_run: likewise.
        jobs: likewise.
        progress: likewise.
        pool: where the work is done, instead of `jobs` processes here.
        progress_file: in place: partitions that it says are done are left alone, those that get done are added to it.
        share: bytes of a log for one call, if `pool` repeats calls and the verb can be divided.
        broker_config: as of `rewrite`.
        metadata: likewise; None: where it is among the paths.
    """
    paths = [os.fspath(one) for one in ([path] if isinstance(path, str | os.PathLike) else path)]
    found = [
        _Sourced(place, broker_config, metadata or metadata_among(paths, place.root.path))
        for place in select_partitions(paths, topics, partitions)
    ]
    for sourced in found:
        sourced.check(operation)
    chosen = Workers[Any](jobs, progress) if pool is None else pool
    if dry_run:
        for sourced in found:
            check_at_rest(sourced.place.root)
        yield from _each(operation, [_Looking(sourced) for sourced in found], chosen, None)
    elif to is None:
        checks = pool is None
        yield from _each(
            operation, [_Writing(sourced, operation, checks=checks) for sourced in found], chosen, progress_file, share
        )
    else:
        ((place, *elsewhere),) = found
        check_at_rest(place.root)
        source = next(iter(place.directories.values())) if place.is_partition else place.root.path
        with StagedCopy(os.fspath(to), is_partition=place.is_partition) as copy:
            with copy.told_as(source):
                copied = _Writing(_Sourced(_copied(place, copy, progress), *elsewhere), operation, is_original=False)
                done = [
                    replace(one, damage=_moved(_damage(copied.directory(one.key)), copy.path, os.fspath(to)))
                    for one in list(_each(operation, [copied], chosen, None))
                ]
            copy.publish()
        yield from done


class _Sourced(NamedTuple):
    """Partitions, and where settings of theirs are that their log directory does not have."""

    place: Selection
    broker_config: Path | None
    metadata: Path | None

    def cluster(self) -> Cluster:
        """Return what is known of their cluster now."""
        root = self.place.root
        return Cluster.of(root.path, root.node_id, broker_config=self.broker_config, metadata=self.metadata)

    def check(self, operation: RewriteOperation[Any, Any]) -> None:
        """Refuse a verb for which settings would have to be known that are not; warn of them for others.

        Raises:
            ValueError: records would go by Kafka's defaults; or a setting has a value that it cannot have.
        """
        cluster = self.cluster()
        if operation.decided_by:
            for key, directory in self.place.directories.items():
                check_known(operation, cluster.config_of(key[0]), directory)
        topics = {topic for topic, _ in self.place.directories}
        # Around a partition alone there is no broker's directory.
        alone = [said] if (said := cluster.missing_settings(topics)) else []
        for said in alone if self.place.is_alone else obstacles(cluster, topics):
            warnings.warn(said, stacklevel=2)


def _copied(place: Selection, copy: StagedCopy, progress: Progress) -> Selection:
    """Copy what was named, and return where the copies are."""
    directories = {key: copy.path if place.is_partition else f"{copy.path}/{_name(key)}" for key in place.directories}
    for key, directory in place.directories.items():
        copy.add_partition(directory, directories[key], partial(progress, _name(key)))
    # Else a broker that has started meanwhile wrote to what was copied.
    check_at_rest(place.root)
    if place.is_partition:
        return Selection(directories, place.root, is_partition=True, is_alone=True)
    copy.add_root(place.root.path, place.directories.keys())
    return Selection(directories, LogDirFiles(copy.path))


def _damage(directory: str, unread_from: int | None = 0) -> tuple[LostRange, ...]:
    """Find the damage in a log, in its segments from a base offset on."""
    unread = [part for part in segments_in(directory) if unread_from is not None and part.base_offset >= unread_from]
    return tuple(
        LostRange(found.path, found.position, found.start_offset, found.end_offset, found.reason)
        for segment in unread
        for found in findings(segment, is_clean=True)
        # Records of one batch whose offsets do not rise are read as they are.
        if found.next_position != found.position
    )


def _moved(damage: tuple[LostRange, ...], before: str, after: str) -> tuple[LostRange, ...]:
    """Name damage by where a directory will be."""
    return tuple(lost._replace(path=lost.path.replace(before, after)) for lost in damage)


def _each(
    operation: RewriteOperation[PlanT, ReportT],
    select_partitions: Sequence[_Looking | _Writing],
    pool: Pool[Any],
    progress_file: ProgressFile | None,
    share: int = SHARE,
) -> Iterator[RewriteResult[ReportT]]:
    with ExitStack() as stack:
        waiting = []
        for logs in select_partitions:
            stack.enter_context(logs)
            keys = logs.keys()
            waiting += [
                (logs, key) for key in keys if progress_file is None or not progress_file.skips(logs.directory(key))
            ]
        stack.enter_context(pool)
        waiting.reverse()
        ready: deque[tuple[_Begun[ReportT], int]] = deque()
        pending: dict[Future[Any], tuple[_Begun[ReportT], int]] = {}
        while waiting or ready or pending:
            while (waiting or ready) and len(pending) < pool.jobs:
                if not ready:
                    logs, key = waiting.pop()
                    plan, place = operation.plan(logs.state(key)), logs.attempts(key) if pool.may_retry else None
                    if place is None:
                        work = in_place(operation, plan, dry_run=logs.is_dry)
                    else:
                        work = staged(operation, plan, place, share)
                    ready.extend(_Begun(logs, key, work).numbered())
                begun, number = ready.popleft()
                pending[pool.submit(_name(begun.key), begun.work.calls[number])] = begun, number
            future, result = pool.first_completed(pending)
            begun, number = pending.pop(future)
            if begun.work.take(number, result):
                ready.extend(begun.numbered())
                if begun.work.outcome is not None:
                    done = begun.logs.finish(begun.key, begun.work.outcome)
                    if progress_file is not None:
                        progress_file.add(begun.logs.directory(begun.key))
                    yield done


class _Begun(NamedTuple, Generic[ReportT]):
    """A partition that is being worked on."""

    logs: _Looking | _Writing
    key: Key
    work: Running[ReportT]

    def numbered(self) -> list[tuple[_Begun[ReportT], int]]:
        """Return the calls of the step that it is at, by number."""
        return [(self, number) for number in range(len(self.work.calls))]


class _Looking:
    """Logs as they are, for a dry run."""

    is_dry = True

    def __init__(self, sourced: _Sourced) -> None:
        self.place = sourced.place
        self._cluster = sourced.cluster()

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def keys(self) -> list[Key]:
        """Return the partitions that have a segment: there is nothing to say of one that was only created."""
        found = {key: storage.list_directory(path) for key, path in self.place.directories.items()}
        # Of a segment that was removed, indexes may be left.
        kinds = (".log", ".log.swap", ".index", ".timeindex")
        return [key for key, names in found.items() if any(name.endswith(kinds) for name in names)]

    def state(self, key: Key) -> LogState:
        """Return a log as opening it would find it.

        Raises:
            CorruptRecordError: opening it would change its segments first: what the verb would do is not known.
        """
        directory, now = self.place.directories[key], now_ms()
        config = self._cluster.config_of(key[0])
        replication = self._cluster.replication(key, self.place.root.high_watermarks.get(key))
        loaded = _loaded(self.place, key, self._cluster)
        changes = [str(step) for step in loaded.changes.steps if step.name.endswith((".log", ".log.swap"))]
        loaded.check_missing()
        for change in loaded.losses + changes:
            raise CorruptRecordError(
                f"the log is to be brought in order first: {change}; `brokerless recover` does that", path=directory
            )
        unstable = loaded.producers.first_unstable_offset
        return LogState(
            directory=directory,
            config=config,
            segments=segments_in(directory),
            log_start_offset=loaded.log_start_offset,
            log_end_offset=loaded.log_end_offset,
            high_watermark=replication.replicated_end(loaded.log_end_offset),
            others_from=replication.others_from,
            last_stable_offset=loaded.log_end_offset if unstable is None else unstable,
            first_dirty_offset=self.place.root.first_dirty_offsets.get(key),
            producers=loaded.producers.to_snapshot(),
            now=now,
            is_tiered=loaded.is_tiered(config),
            is_original=False,
        )

    def directory(self, key: Key) -> str:
        """Return the path of a partition."""
        return self.place.directories[key]

    def attempts(self, _key: Key) -> None:
        """Return no place for attempts: nothing is written."""

    def finish(self, key: Key, outcome: Outcome[ReportT]) -> RewriteResult[ReportT]:
        """Return what would be done."""
        return RewriteResult(*key, outcome.report)


class _Writing:
    """Logs open for writing, each from its plan until it is done."""

    is_dry = False

    def __init__(
        self,
        sourced: _Sourced,
        operation: RewriteOperation[PlanT, ReportT],
        *,
        is_original: bool = True,
        checks: bool = False,
    ) -> None:
        self._sourced = sourced
        self._is_original = is_original
        self._checks = checks
        self.place = sourced.place
        self._prepare = operation.prepare
        self._log_dir: LogDirWriter | None = None
        self._logs: dict[Key, LogWriter] = {}
        self._attempts: dict[Key, str] = {}
        self._stack = ExitStack()

    def __enter__(self) -> None:
        # Before the marker is moved aside.
        self._is_clean = _is_clean(self.place)
        if not self.place.is_alone:
            _, broker_config, metadata = self._sourced
            log_dir = LogDirWriter(
                self.place.root.path, sole_replica=None, broker_config=broker_config, metadata=metadata
            )
            self._log_dir = self._stack.enter_context(log_dir)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave those that are not done as they were."""
        for log in self._logs.values():
            if self._log_dir is None:
                self._stack.enter_context(log)
            self._stack.callback(discard, log)
        for path in self._attempts.values():
            self._stack.callback(attempts.remove, path)
        self._stack.__exit__(kind, error, at)

    @cached_property
    def _cluster(self) -> Cluster:
        """What is known of the cluster once the log directory is locked."""
        return self._sourced.cluster()

    def keys(self) -> list[Key]:
        """Return all partitions."""
        return list(self.place.directories)

    def state(self, key: Key) -> LogState:
        """Open a log, let the verb prepare it, and return it to plan from.

        Raises:
            CorruptRecordError: recovery would cut the log first. A verb that refuses then must not have changed it.
        """
        place = self.place
        if not self._is_clean:
            _loaded(place, key, self._cluster).check_uncut()
        if self._log_dir is not None:
            log = self._log_dir.log(*key)
        else:
            log = LogWriter.open(
                place.directories[key],
                config=self._cluster.config_of(key[0]),
                replication=self._cluster.replication(key, place.root.high_watermarks.get(key)),
                is_clean=self._is_clean,
                recovery_point=place.root.recovery_points.get(key, 0),
                log_start_offset=place.root.log_start_offsets.get(key),
                first_dirty_offset=place.root.first_dirty_offsets.get(key),
                high_watermark=place.root.high_watermarks.get(key),
            )
        self._logs[key] = log
        self._prepare(log)
        return replace(log.state(), is_original=self._is_original)

    def directory(self, key: Key) -> str:
        """Return the path of a partition."""
        return self.place.directories[key]

    def attempts(self, key: Key) -> str:
        """Return a new directory for attempts at a partition's work."""
        self._attempts[key] = attempts.make(self.place.directories[key], *key)
        return self._attempts[key]

    def finish(self, key: Key, outcome: Outcome[ReportT]) -> RewriteResult[ReportT]:
        """Make of the log what the work says, and close it."""
        log = self._logs[key]
        collect(log.directory, outcome)
        log.enforce(outcome)
        if key in self._attempts:
            attempts.remove(self._attempts.pop(key))
        log.close()
        del self._logs[key]
        is_kept = self._log_dir is not None or log.log_start_offset <= log.first_segment_base_offset
        damage = _damage(log.directory, outcome.unread_from) if self._checks else ()
        unkept = None if is_kept else log.log_start_offset
        return RewriteResult(*key, outcome.report, tuple(log.recovery), unkept, damage)


def _is_clean(place: Selection) -> bool:
    """Tell whether logs were left clean. One that is alone is taken for that, but where it was copied tells more."""
    return place.root.is_clean or (place.is_alone and not place.root.is_there)


def _loaded(place: Selection, key: Key, cluster: Cluster) -> Loaded:
    """Work out what opening a log does."""
    return load(
        place.directories[key],
        cluster.config_of(key[0]),
        is_clean=_is_clean(place),
        recovery_point=place.root.recovery_points.get(key, 0),
        log_start_offset=place.root.log_start_offsets.get(key),
        now=now_ms(),
        high_watermark=place.root.high_watermarks.get(key),
    )


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
