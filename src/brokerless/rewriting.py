"""Verbs that rewrite logs, run over the partitions that a user names: in place, or into a new directory.

In place, the log directory is open for writing all the while (`LogDirWriter`: locked, its clean-shutdown marker aside),
so that a crash leaves logs to be recovered, and nothing worse. Into a new directory, what is named is copied first and
the copy rewritten; it takes its name when all is done. A partition's directory without a log directory around it has
nobody's lock and no marker: it is taken for one that was left clean, and that nobody else writes to.

The owner of a log plans and swaps; the work between is done in this process, or in others.
"""

from __future__ import annotations

import contextlib
import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic

from brokerless import disk, storage
from brokerless.cluster_metadata import topic_settings
from brokerless.copying import StagedCopy, check_at_rest
from brokerless.errors import CorruptRecordError, unknown
from brokerless.log import files
from brokerless.log.load import load
from brokerless.log.open_log import now_ms
from brokerless.log.rewrite import LogState, Outcome, ReportT, discard
from brokerless.log.root import Root
from brokerless.log.segment import segments_in
from brokerless.log.settings import TopicSettings
from brokerless.log.writer import LogWriter
from brokerless.log_dir_writer import METADATA_TOPIC, LogDirWriter
from brokerless.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from concurrent.futures import Future
    from types import TracebackType

    from brokerless.log.rewrite import PlanT, Verb

    Key = tuple[str, int]
    Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Rewritten(Generic[ReportT]):
    """What was done to one partition, or would be.

    Attributes:
        topic: its topic.
        partition: its number.
        report: the verb's.
        recovery: what opening the log had to bring in order before, a line each.
        unkept_log_start_offset: where the log starts, if neither its files nor a checkpoint beside them say so: of a
            partition without a log directory around it.
    """

    topic: str
    partition: int
    report: ReportT
    recovery: tuple[str, ...] = ()
    unkept_log_start_offset: int | None = None

    @property
    def name(self) -> str:
        """`topic-partition`."""
        return _name((self.topic, self.partition))


def rewrite(
    verb: Verb[PlanT, ReportT],
    path: str | os.PathLike[str],
    *,
    topics: Collection[str] = (),
    partitions: Collection[int] = (),
    to: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    jobs: int = 1,
    progress: Progress = lambda _name, _read: None,
) -> list[Rewritten[ReportT]]:
    """Do a verb's work on partitions, and return what was done to each.

    Args:
        verb: what is done.
        path: a log directory, or one partition's directory.
        topics: of a log directory; at least one: nothing is rewritten that was not named.
        partitions: only these; none: all of the topics.
        to: a new directory for the result, of the kind that `path` is: all that was named, rewritten or not, and what
            a broker needs to start on it. None: in place.
        dry_run: change nothing.
        jobs: how many partitions are worked on at a time, each in a process of its own if it is more than one. These
            import the script that started them: its work belongs under `if __name__ == "__main__"`.
        progress: called with a partition's name and the bytes that were read of it since the last call.

    Raises:
        LogInUseError: a broker, or another writer, is there.
        FileExistsError: there is something at `to`.
        ValueError: no topic is named, or an unknown one; `path` is no such directory; the verb refuses.
        CorruptRecordError: a log is damaged. Some partitions may be done, the others are as they were.

    >>> from brokerless.log.retain import Retain
    >>> [done.report.deleted_segments for done in rewrite(Retain(retention_bytes=1 << 40), SAMPLE, dry_run=True)]
    [0]
    """
    return list(
        rewrite_each(
            verb, path, topics=topics, partitions=partitions, to=to, dry_run=dry_run, jobs=jobs, progress=progress
        )
    )


def rewrite_each(
    verb: Verb[PlanT, ReportT],
    path: str | os.PathLike[str],
    *,
    topics: Collection[str] = (),
    partitions: Collection[int] = (),
    to: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    jobs: int = 1,
    progress: Progress = lambda _name, _read: None,
) -> Iterator[Rewritten[ReportT]]:
    """Do as `rewrite` does, and yield what was done to each partition as soon as it is; without a loop nothing is."""
    place = _at(os.fspath(path), topics, partitions)
    if dry_run:
        check_at_rest(place.root)
        yield from _each(verb, _Looking(place), jobs, progress)
    elif to is None:
        yield from _each(verb, _Writing(place, verb), jobs, progress)
    else:
        check_at_rest(place.root)
        with StagedCopy(os.fspath(to)) as copy:
            done = list(_each(verb, _Writing(_copied(place, copy, progress), verb), jobs, progress))
            copy.publish()
        yield from done


@dataclass(frozen=True)
class _Place:
    """The partitions that were named.

    Attributes:
        directories: the path of each.
        root: the log directory whose checkpoints speak of them; one without files if there is none.
        is_partition: the path was that of one partition.
        is_alone: it is opened without its log directory, the lock and the marker there.
    """

    directories: dict[Key, str]
    root: Root
    is_partition: bool = False
    is_alone: bool = False


def _at(path: str, topics: Collection[str], partitions: Collection[int]) -> _Place:
    disk.check_local(path)
    names = storage.list_directory(path)
    if files.is_partition_directory(names):
        topic, partition, leftover = files.parse_directory_name(os.path.basename(os.path.abspath(path)))
        if leftover or topic == METADATA_TOPIC:
            raise ValueError(f"cannot rewrite {path}: it is no partition of a topic")
        root = Root(os.path.dirname(os.path.abspath(path)))
        is_alone = not Root.is_root(storage.list_directory(root.path))
        return _Place({(topic, partition): path}, root, is_partition=True, is_alone=is_alone)
    if not Root.is_root(names):
        raise ValueError(f"cannot rewrite {path}: it is neither a log directory nor a partition's directory")
    if not topics:
        raise ValueError(f"no topic named: {path} is a log directory; say which of its topics are to be rewritten")
    return _Place(_chosen(path, topics, partitions), Root(path))


def _chosen(path: str, topics: Collection[str], partitions: Collection[int]) -> dict[Key, str]:
    known: dict[Key, str] = {}
    for name in storage.list_subdirectories(path):
        with contextlib.suppress(ValueError):
            topic, partition, leftover = files.parse_directory_name(name)
            if not leftover and topic != METADATA_TOPIC:
                known[topic, partition] = f"{path}/{name}"
    for topic in topics:
        if topic not in {name for name, _ in known}:
            raise unknown("topic", topic, (name for name, _ in known))
    chosen = {key: known[key] for key in sorted(known) if key[0] in topics}
    for number in partitions:
        if number not in {partition for _, partition in chosen}:
            raise unknown("partition", str(number), {str(partition) for _, partition in chosen})
    return {key: chosen[key] for key in chosen if not partitions or key[1] in partitions}


def _copied(place: _Place, copy: StagedCopy, progress: Progress) -> _Place:
    """Copy what was named, and return where the copies are."""
    directories = {key: copy.path if place.is_partition else f"{copy.path}/{_name(key)}" for key in place.directories}
    for key, directory in place.directories.items():
        copy.add_partition(directory, directories[key], partial(progress, _name(key)))
    # Else a broker that has started meanwhile wrote to what was copied.
    check_at_rest(place.root)
    if place.is_partition:
        return _Place(directories, place.root, is_partition=True, is_alone=True)
    copy.add_root(place.root.path, place.directories.keys())
    return _Place(directories, Root(copy.path))


def _each(
    verb: Verb[PlanT, ReportT], logs: _Looking | _Writing, jobs: int, progress: Progress
) -> Iterator[Rewritten[ReportT]]:
    with logs, Workers[Outcome[ReportT]](jobs, progress) as workers:
        pending: dict[Future[Outcome[ReportT]], Key] = {}
        waiting = logs.keys()[::-1]
        while waiting or pending:
            while waiting and len(pending) < jobs:
                key = waiting.pop()
                call = partial(_work, verb, verb.plan(logs.state(key)), logs.is_dry)
                pending[workers.submit(_name(key), call)] = key
            future, outcome = workers.first_done(pending)
            yield logs.finish(pending.pop(future), outcome)


def _work(verb: Verb[PlanT, ReportT], plan: PlanT, is_dry: bool, progress: Callable[[int], None]) -> Outcome[ReportT]:
    return verb.work(plan, dry_run=is_dry, progress=progress)


class _Looking:
    """Logs as they are, for a dry run."""

    is_dry = True

    def __init__(self, place: _Place) -> None:
        self.place = place
        self._settings = topic_settings(place.root.path, place.root.node_id)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def keys(self) -> list[Key]:
        """Return the partitions that have a segment: there is nothing to say of one that was only created."""
        found = {key: storage.list_directory(path) for key, path in self.place.directories.items()}
        return [key for key, names in found.items() if any(name.endswith((".log", ".log.swap")) for name in names)]

    def state(self, key: Key) -> LogState:
        """Return a log as opening it would find it.

        Raises:
            CorruptRecordError: opening it would change its segments first: what the verb would do is not known.
        """
        place, directory, now = self.place, self.place.directories[key], now_ms()
        settings = self._settings.get(key[0], TopicSettings())
        loaded = load(
            directory,
            settings,
            is_clean=place.is_alone or place.root.is_clean,
            recovery_point=place.root.recovery_points.get(key, 0),
            log_start_offset=place.root.log_start_offsets.get(key, 0),
            now=now,
        )
        changes = [str(step) for step in loaded.changes.steps if step.name.endswith((".log", ".log.swap"))]
        for change in loaded.losses + changes:
            raise CorruptRecordError(
                f"the log is to be brought in order first: {change}; `brokerless recover` does that", path=directory
            )
        unstable = loaded.producers.first_unstable_offset
        return LogState(
            directory=directory,
            settings=settings,
            segments=segments_in(directory),
            log_start_offset=loaded.log_start_offset,
            log_end_offset=loaded.log_end_offset,
            high_watermark=loaded.log_end_offset,
            last_stable_offset=loaded.log_end_offset if unstable is None else unstable,
            first_dirty_offset=place.root.first_dirty_offsets.get(key),
            producers=loaded.producers.to_snapshot(),
            leader_epochs=tuple(loaded.leader_epochs.entries()),
            now=now,
        )

    def finish(self, key: Key, outcome: Outcome[ReportT]) -> Rewritten[ReportT]:
        """Return what would be done."""
        return Rewritten(*key, outcome.report)


class _Writing:
    """Logs open for writing, each from its plan until it is done."""

    is_dry = False

    def __init__(self, place: _Place, verb: Verb[PlanT, ReportT]) -> None:
        self.place = place
        self._prepare = verb.prepare
        self._log_dir: LogDirWriter | None = None
        self._logs: dict[Key, LogWriter] = {}
        self._stack = ExitStack()

    def __enter__(self) -> None:
        if not self.place.is_alone:
            self._log_dir = self._stack.enter_context(LogDirWriter(self.place.root.path, sole_replica=True))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave those that are not done as they were."""
        for log in self._logs.values():
            if self._log_dir is None:
                self._stack.enter_context(_closing(log))
            self._stack.callback(discard, log)
        self._stack.__exit__(kind, error, at)

    def keys(self) -> list[Key]:
        """Return all partitions."""
        return list(self.place.directories)

    def state(self, key: Key) -> LogState:
        """Open a log, let the verb prepare it, and return it to plan from."""
        place = self.place
        if self._log_dir is not None:
            log = self._log_dir.log(*key)
        else:
            log = LogWriter.open(
                place.directories[key],
                settings=topic_settings(place.root.path, place.root.node_id).get(key[0], TopicSettings()),
                is_clean=place.root.is_clean or not Root.is_root(storage.list_directory(place.root.path)),
                recovery_point=place.root.recovery_points.get(key, 0),
                log_start_offset=place.root.log_start_offsets.get(key, 0),
                first_dirty_offset=place.root.first_dirty_offsets.get(key),
            )
        self._logs[key] = log
        self._prepare(log)
        return log.state()

    def finish(self, key: Key, outcome: Outcome[ReportT]) -> Rewritten[ReportT]:
        """Make of the log what the work says, and close it."""
        log = self._logs[key]
        log.enforce(outcome)
        log.close()
        del self._logs[key]
        is_kept = self._log_dir is not None or log.log_start_offset <= log.first_segment_base_offset
        return Rewritten(*key, outcome.report, tuple(log.recovery), None if is_kept else log.log_start_offset)


@contextlib.contextmanager
def _closing(log: LogWriter) -> Iterator[None]:
    """Close a log in the end. What went wrong before, perhaps with the log itself, says more than what does then."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(ValueError, OSError):
            log.close()
        raise
    log.close()


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
