"""Run an operation that rewrites logs over the named partitions: in place, or into a new directory.

In place, the log directory stays open for writing (`LogDirWriter`): locked, and without its clean-shutdown marker. So
after a crash, the logs only need recovery. For a new directory, the named partitions are copied first and the copies
are rewritten. The directory gets its final name at the end. A partition's directory outside any log directory has
neither lock nor marker. It is treated as closed cleanly, and nothing protects it from another writer.

The owner of a log plans the work and swaps the segments. The rewriting itself runs in this process, in other processes,
or on any machine that sees the files. A runner may repeat it, so each attempt has its own directory, and the owner uses
the files of one attempt.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from brokerless.append.operation import Joint, LogState, PlanT, ReportT, check_known
from brokerless.append.swap import collect, discard
from brokerless.append.writer import LogWriter
from brokerless.arguments import check_paths
from brokerless.errors import CorruptRecordError, LogInUseError
from brokerless.inspection.findings import findings
from brokerless.io import storage
from brokerless.io.clock import now_ms
from brokerless.io.processes import Processes
from brokerless.layout import file_names
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.log.segment import segments_in
from brokerless.log_dir.copying import StagedCopy, check_at_rest
from brokerless.log_dir.start_faults import obstacles
from brokerless.log_dir.writer import LogDirWriter
from brokerless.metadata.directory import metadata_among
from brokerless.metadata.topic_settings import Cluster
from brokerless.notes import collected, note
from brokerless.recovery.loader import load
from brokerless.rewriting import attempts
from brokerless.rewriting.selection import Selection, select_partitions
from brokerless.rewriting.task_steps import Scheduler, in_place, staged
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from brokerless.append.operation import Outcome, RewriteOperation
    from brokerless.io.runner import Runner
    from brokerless.log.defect import Defect
    from brokerless.metadata.topic_settings import Path
    from brokerless.recovery.load_result import Loaded
    from brokerless.remarks import Remark
    from brokerless.rewriting.progress_file import ProgressFile
    from brokerless.rewriting.selection import Key
    from brokerless.rewriting.task_steps import PartitionWork

    Progress = Callable[[str, int], None]


SHARE = 1 << 30
"""The size of a log in bytes above which several calls may share the work, if the runner may retry calls."""


# The number of a report's lines that are in the text of a result.
_MOST_LINES = 6


@dataclass(frozen=True)
class RewriteResult(Generic[ReportT]):
    """The effect of an operation on one partition, done or planned.

    Attributes:
        topic: the topic.
        partition: the partition's number.
        report: the operation's report: `CompactionReport`, `RetentionReport`, `TruncationReport`, `ConversionReport` or
            `ErasureReport`.
        recovery: the changes made by opening the log before the operation.
        unkept_log_start_offset: the log start offset, if neither the files nor a checkpoint beside them store it, as
            for a partition outside any log directory.
        damage: damage that existed before and remains. A copy is checked as a whole. In place, the check covers
            the parts that the operation has not read. In place, the check is skipped if a `runner` did the work.
        notes: facts about the directories that are unknown, or that may have changed during the run; a sentence each.
        dry_run: whether nothing was changed, so that the report describes a plan.

    >>> import brokerless as bl
    >>> (done,) = bl.rewrite(bl.Truncation(offset=100), CLUSTER_DIR, topics=["orders"], partitions=[0], dry_run=True)
    >>> done.name, done.report.cut_size
    ('orders-0', 3648)
    """

    topic: str
    partition: int
    report: ReportT
    recovery: tuple[Remark, ...] = ()
    unkept_log_start_offset: int | None = None
    damage: tuple[Defect, ...] = ()
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def __str__(self) -> str:
        return "\n".join(f"{self.name}: {line}" for line in self.report.lines(dry_run=self.dry_run)[:_MOST_LINES])

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
    *paths: str | os.PathLike[str],
    topics: Iterable[str] | None = None,
    partitions: Iterable[int] | None = None,
    output: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    jobs: int = 1,
    progress: Progress = lambda _name, _read: None,
    broker_config: Path | None = None,
    metadata: Path | None = None,
) -> list[RewriteResult[ReportT]]:
    """Run an operation on partitions, and return the result of each.

    Args:
        operation: `Compaction`, `Conversion`, `Erasure`, `Retention` or `Truncation`, with its options.
        paths: log directories, or partitions' directories; with `output`, only one.
        topics: the topics, by name or glob (`orders-*`); a log directory needs at least one, so that only named topics
            are rewritten.
        partitions: the partitions of these topics; None: all.
        output: write the result to this new directory and leave the path unchanged. The directory is of the same kind
            as the path. It gets all named partitions, rewritten or not, and the files that a broker needs to start.
            None to rewrite in place.
        dry_run: change nothing. Not allowed with `output`.
        jobs: the number of partitions worked on at a time; with more than one, each has its own process. These
            processes import the calling script, so its work belongs under `if __name__ == "__main__"`.
        progress: called with a partition's name and the number of its bytes read since the last call.
        broker_config: the broker's configuration file (`server.properties`), for settings that a topic does not
            override. Dynamic broker configs override the file.
        metadata: the directory with the cluster's metadata log, if `metadata.log.dir` is not the log directory.

    Raises:
        LogInUseError: a broker or another writer uses the log directory.
        FileExistsError: `output` exists.
        ValueError: no topic is named, or a named topic is unknown; a path is neither kind of directory; the operation
            refuses a log, perhaps because the settings that decide which records are removed are unknown; or
            `broker_config` or `metadata` does not fit.
        CorruptRecordError: a log is damaged. Some partitions may be finished, the others are unchanged.

    >>> import brokerless as bl
    >>> retention = bl.Retention(retention_bytes=1 << 40)
    >>> [done.report.deleted_segments for done in rewrite(retention, CLUSTER_DIR, topics=["orders"], dry_run=True)]
    [0, 0, 0]
    """
    check_paths("rewrite", paths)
    return list(
        rewrite_each(
            operation,
            paths,
            topics=topics,
            partitions=partitions,
            output=output,
            dry_run=dry_run,
            jobs=jobs,
            progress=progress,
            broker_config=broker_config,
            metadata=metadata,
        )
    )


def rewrite_each(
    operation: RewriteOperation[PlanT, ReportT],
    paths: Sequence[str | os.PathLike[str]],
    *,
    topics: Iterable[str] | None = None,
    partitions: Iterable[int] | None = None,
    output: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    jobs: int = 1,
    progress: Progress = lambda _name, _read: None,
    runner: Runner | None = None,
    progress_file: ProgressFile | None = None,
    share: int = SHARE,
    broker_config: Path | None = None,
    metadata: Path | None = None,
) -> Iterator[RewriteResult[ReportT]]:
    """Run an operation as `rewrite` does, and yield the result of each partition once it is finished.

    Args:
        operation: see `rewrite`.
        paths: see `rewrite`.
        topics: see `rewrite`; each is in at least one of the log directories.
        partitions: see `rewrite`.
        output: see `rewrite`.
        dry_run: see `rewrite`.
        jobs: see `rewrite`.
        progress: see `rewrite`.
        runner: the runner that does the work; None for `jobs` processes on this machine.
        progress_file: for work in place: the run skips the partitions that the file lists, and adds finished ones.
        share: the number of bytes of a log to process in one call, if `runner` may retry calls and the operation can be
            divided.
        broker_config: see `rewrite`.
        metadata: see `rewrite`; None: the log directory among `paths` that has a metadata log.
    """
    places = [os.fspath(path) for path in paths]
    sources = [
        _Source(selection, broker_config, metadata or metadata_among(places, selection.root.path))
        for selection in select_partitions(places, topics, partitions)
    ]
    if output is not None and len(places) > 1:
        raise ValueError(f"{option('output')} needs one path, not {len(places)}, because a copy has one source")
    if dry_run and output is not None:
        raise ValueError(f"{option('dry_run')} writes nothing, and cannot be combined with {option('output')}")
    with collected(forwards=True) as notes:
        for source in sources:
            source.check(operation)
            if dry_run and source.selection.root.is_locked:
                note(
                    f"{source.selection.root.path} is in use by a broker or another writer, which may change the logs "
                    "during the dry run"
                )
    chosen_runner = Processes(jobs, progress) if runner is None else runner
    results: Iterable[RewriteResult[ReportT]]
    if dry_run:
        results = _run(operation, [_DryRunLogs(source) for source in sources], chosen_runner, None, progress)
    elif output is None:
        checks = runner is None
        opened = [_OpenLogs(source, operation, checks=checks) for source in sources]
        results = _run(operation, opened, chosen_runner, progress_file, progress, share)
    else:
        (source,) = sources
        results = _rewrite_copy(operation, source, os.fspath(output), chosen_runner, progress)
    for result in results:
        yield replace(result, notes=tuple(notes))


def _rewrite_copy(
    operation: RewriteOperation[PlanT, ReportT], source: _Source, to: str, runner: Runner, progress: Progress
) -> list[RewriteResult[ReportT]]:
    """Copy the selected partitions, rewrite the copies, and give them their name."""
    selection = source.selection
    check_at_rest(selection.root)
    original = next(iter(selection.directories.values())) if selection.is_partition else selection.root.path
    with StagedCopy(to, is_partition=selection.is_partition, like=[original]) as copy:
        with copy.name_in_errors(original):
            copied = source._replace(selection=_copy(selection, copy, progress))
            logs = _OpenLogs(copied, operation, is_original=False)
            results = [
                replace(result, damage=_relocated(_find_damage(logs.directory(result.key)), copy.path, to))
                for result in list(_run(operation, [logs], runner, None, progress))
            ]
        copy.publish()
    return results


class _Source(NamedTuple):
    """The selected partitions of one log directory, and where to find settings that the directory lacks."""

    selection: Selection
    broker_config: Path | None
    metadata: Path | None

    def cluster(self) -> Cluster:
        """Return the cluster's metadata as known now."""
        root = self.selection.root
        return Cluster.of(root.path, root.node_id, broker_config=self.broker_config, metadata=self.metadata)

    def check(self, operation: RewriteOperation[Any, Any]) -> None:
        """Refuse an operation that depends on unknown settings. For other operations, warn about unknown settings.

        Raises:
            ValueError: Kafka's defaults would decide which records are removed, or a setting has an impossible value.
        """
        cluster = self.cluster()
        if operation.decided_by:
            for key, directory in self.selection.directories.items():
                check_known(operation, cluster.config_of(key[0]), directory)
        topics = {topic for topic, _ in self.selection.directories}
        # No broker starts on a partition outside a log directory, so only settings can be missing.
        found = [cluster.missing_settings(topics)] if self.selection.is_alone else obstacles(cluster, topics)
        for obstacle in found:
            if obstacle:
                note(obstacle)


def _copy(selection: Selection, copy: StagedCopy, progress: Progress) -> Selection:
    """Copy the selected partitions, and return the selection of the copies."""
    directories = {
        key: copy.path if selection.is_partition else f"{copy.path}/{_name(key)}" for key in selection.directories
    }
    for key, directory in selection.directories.items():
        copy.add_partition(directory, directories[key], partial(progress, _name(key)))
    # Check again, because a broker that started during the copy may have written to the logs.
    check_at_rest(selection.root)
    if selection.is_partition:
        return Selection(directories, selection.root, is_partition=True, is_alone=True)
    copy.add_root(selection.root.path, selection.directories.keys())
    return Selection(directories, LogDirFiles(copy.path))


def _find_damage(directory: str, unread_from: int | None = 0) -> tuple[Defect, ...]:
    """Return the damage in a log's segments from a base offset on; with None, in no segment."""
    unread = [part for part in segments_in(directory) if unread_from is not None and part.base_offset >= unread_from]
    return tuple(
        found
        for segment in unread
        for found in findings(segment, is_clean=True)
        # A finding without a length is about offsets that do not ascend within a batch, which readers return unchanged.
        if found.next_position != found.position
    )


def _relocated(damage: tuple[Defect, ...], before: str, after: str) -> tuple[Defect, ...]:
    """Return the damage with the final paths of the files."""
    return tuple(lost._replace(path=lost.path.replace(before, after)) for lost in damage)


def _run(
    operation: RewriteOperation[PlanT, ReportT],
    log_groups: Sequence[_DryRunLogs | _OpenLogs],
    runner: Runner,
    progress_file: ProgressFile | None,
    progress: Progress,
    share: int = SHARE,
) -> Iterator[RewriteResult[ReportT]]:
    """Work on all partitions that are not finished yet; see `Scheduler` for the order."""
    with ExitStack() as stack:
        chosen: dict[str, tuple[_DryRunLogs | _OpenLogs, Key]] = {}
        for logs in log_groups:
            stack.enter_context(logs)
            for key in logs.partitions():
                directory = logs.directory(key)
                if progress_file is None or not progress_file.skips(directory):
                    chosen[directory] = logs, key
        operations: Mapping[str, RewriteOperation[Any, ReportT]] = dict.fromkeys(chosen, operation)
        if isinstance(operation, Joint):
            states = {directory: (key, logs.look_at(key)) for directory, (logs, key) in chosen.items()}
            operations = operation.together(states, lambda directory, read: progress(_name(chosen[directory][1]), read))
        tasks = [
            _Task(operations[directory], logs, key, runner.may_retry, share)
            for directory, (logs, key) in chosen.items()
        ]
        stack.enter_context(runner)
        for task, outcome in Scheduler(runner, tasks).run():
            result = task.logs.finish(task.key, outcome)
            if progress_file is not None:
                progress_file.add(task.logs.directory(task.key))
            yield result


@dataclass(frozen=True)
class _Task(Generic[PlanT, ReportT]):
    """A partition waiting for its work; see `task_steps.Task`."""

    operation: RewriteOperation[PlanT, ReportT]
    logs: _DryRunLogs | _OpenLogs
    key: Key
    may_retry: bool
    share: int

    @property
    def name(self) -> str:
        return _name(self.key)

    def begin(self) -> PartitionWork[ReportT]:
        plan = self.operation.plan(self.logs.state(self.key))
        attempts_directory = self.logs.make_attempts_directory(self.key) if self.may_retry else None
        if attempts_directory is None:
            return in_place(self.operation, plan, dry_run=self.logs.is_dry)
        return staged(self.operation, plan, attempts_directory, self.share)


class _DryRunLogs:
    """The logs of a dry run, which are only read."""

    is_dry = True

    def __init__(self, source: _Source) -> None:
        self._selection = source.selection
        self._cluster = source.cluster()

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def partitions(self) -> list[Key]:
        """Return the partitions that have a segment. A partition that was only created has nothing to rewrite."""
        found = {key: storage.list_directory(path) for key, path in self._selection.directories.items()}
        # A removed segment may have left its indexes.
        kinds = (".log", ".log.swap", ".index", ".timeindex")
        return [key for key, names in found.items() if any(name.endswith(kinds) for name in names)]

    def state(self, key: Key) -> LogState:
        """Return the state that the log would have once it is opened.

        Raises:
            CorruptRecordError: opening the log would change its segments first, so the operation's result is unknown.
            LogInUseError: opening the log would change its segments, and a broker may be changing them now.
        """
        directory, now = self._selection.directories[key], now_ms()
        loaded = _load(self._selection, key, self._cluster)
        changes = [str(step) for step in loaded.changes.steps if step.name.endswith((".log", ".log.swap"))]
        if self._selection.root.is_locked:
            # The newest segment ends in a batch that is being appended, or in preallocated zeros: that is not damage.
            newest = file_names.segment_file(loaded.base_offsets[-1], file_names.LOG)
            damage = [str(cut) for cut in loaded.cuts if cut.is_damage or cut.name != newest]
            others = [str(step) for step in loaded.changes.steps if step.name.endswith(".log.swap")]
            if damage or others:
                raise LogInUseError(
                    f"{self._selection.root.path} is in use, and {key[0]}-{key[1]} seems to need recovery "
                    f"({(damage + others)[0]}): try again, or run the dry run on a snapshot of the directory"
                )
            return self._state(key, loaded, directory, now)
        loaded.check_missing()
        for change in loaded.losses + changes:
            raise CorruptRecordError(
                f"the log needs recovery first: {change}; run `brokerless recover`", path=directory
            )
        return self._state(key, loaded, directory, now)

    look_at = state

    def _state(self, key: Key, loaded: Loaded, directory: str, now: int) -> LogState:
        config = self._cluster.config_of(key[0])
        replication = self._cluster.replication(key, self._selection.root.high_watermarks.get(key))
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
            first_dirty_offset=self._selection.root.first_dirty_offsets.get(key),
            producers=loaded.producers.to_snapshot(),
            now=now,
            is_tiered=loaded.is_tiered(config),
            is_original=False,
        )

    def directory(self, key: Key) -> str:
        """Return the path of a partition."""
        return self._selection.directories[key]

    def make_attempts_directory(self, _key: Key) -> None:
        """Make no directory: a dry run writes nothing."""

    def finish(self, key: Key, outcome: Outcome[ReportT]) -> RewriteResult[ReportT]:
        """Return the operation's planned effect."""
        return RewriteResult(*key, outcome.report, dry_run=True)


def _discard(log: LogWriter) -> None:
    """Remove the new segments of an unfinished log, unless a swap was begun."""
    if not log.is_broken:
        discard(log.directory)


class _OpenLogs:
    """The logs of a selection, each open for writing from its plan to its outcome."""

    is_dry = False

    def __init__(
        self,
        source: _Source,
        operation: RewriteOperation[PlanT, ReportT],
        *,
        is_original: bool = True,
        checks: bool = False,
    ) -> None:
        self._source = source
        self._is_original = is_original
        self._checks = checks
        self._selection = source.selection
        self._operation = operation
        self._log_dir: LogDirWriter | None = None
        self._logs: dict[Key, LogWriter] = {}
        self._attempts: dict[Key, str] = {}
        self._stack = ExitStack()

    def __enter__(self) -> None:
        # Before the clean-shutdown marker is moved aside.
        self._is_clean = _is_clean(self._selection)
        if not self._selection.is_alone:
            _, broker_config, metadata = self._source
            log_dir = LogDirWriter(
                self._selection.root.path, sole_replica=None, broker_config=broker_config, metadata=metadata
            )
            self._log_dir = self._stack.enter_context(log_dir)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave unfinished logs as they were."""
        for log in self._logs.values():
            if self._log_dir is None:
                self._stack.enter_context(log)
            self._stack.callback(_discard, log)
        for path in self._attempts.values():
            self._stack.callback(attempts.remove, path)
        self._stack.__exit__(kind, error, at)

    @cached_property
    def _cluster(self) -> Cluster:
        """The cluster's metadata as known once the log directory is locked."""
        return self._source.cluster()

    def partitions(self) -> list[Key]:
        """Return all partitions."""
        return list(self._selection.directories)

    def state(self, key: Key) -> LogState:
        """Open a log, roll it if the operation needs that, and return its state.

        Raises:
            CorruptRecordError: recovery would cut the log. An operation that refuses the log must leave it unchanged.
        """
        selection, root = self._selection, self._selection.root
        if not self._is_clean:
            _load(selection, key, self._cluster).check_uncut()
        if self._log_dir is not None:
            log = self._log_dir.log(*key)
        else:
            log = LogWriter.open(
                selection.directories[key],
                config=self._cluster.config_of(key[0]),
                replication=self._cluster.replication(key, root.high_watermarks.get(key)),
                is_clean=self._is_clean,
                recovery_point=root.recovery_points.get(key, 0),
                log_start_offset=root.log_start_offsets.get(key),
                first_dirty_offset=root.first_dirty_offsets.get(key),
                high_watermark=root.high_watermarks.get(key),
            )
        self._logs[key] = log
        return replace(log.state_for(self._operation), is_original=self._is_original)

    def look_at(self, key: Key) -> LogState:
        """Return the state of a log, and close it again."""
        state = self.state(key)
        self._logs.pop(key).close()
        return state

    def directory(self, key: Key) -> str:
        """Return the path of a partition."""
        return self._selection.directories[key]

    def make_attempts_directory(self, key: Key) -> str:
        """Make a directory for attempts at a partition's work, and return its path."""
        self._attempts[key] = attempts.make(self._selection.directories[key], *key)
        return self._attempts[key]

    def finish(self, key: Key, outcome: Outcome[ReportT]) -> RewriteResult[ReportT]:
        """Apply the outcome, and close the log."""
        log = self._logs[key]
        collect(log.directory, outcome)
        log.enforce(outcome)
        if key in self._attempts:
            attempts.remove(self._attempts.pop(key))
        log.close()
        del self._logs[key]
        is_kept = self._log_dir is not None or log.log_start_offset <= log.first_segment_base_offset
        damage = _find_damage(log.directory, outcome.unread_from) if self._checks else ()
        unkept = None if is_kept else log.log_start_offset
        return RewriteResult(*key, outcome.report, tuple(log.recovery), unkept, damage)


def _is_clean(selection: Selection) -> bool:
    """Return whether the logs were closed cleanly, as is assumed of a log outside any log directory.

    For the copy of a partition, the marker in the log directory of its original is used.
    """
    return selection.root.is_clean or (selection.is_alone and not selection.root.is_there)


def _load(selection: Selection, key: Key, cluster: Cluster) -> Loaded:
    """Plan what opening a log changes."""
    root = selection.root
    return load(
        selection.directories[key],
        cluster.config_of(key[0]),
        is_clean=_is_clean(selection),
        recovery_point=root.recovery_points.get(key, 0),
        log_start_offset=root.log_start_offsets.get(key),
        now=now_ms(),
        high_watermark=root.high_watermarks.get(key),
    )


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
