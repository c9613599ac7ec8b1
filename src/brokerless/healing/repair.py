"""`repair`: a log directory without its faults, beside the damaged one or in its place.

1. A deep check of each log says what is sound (`salvage`). Nothing is changed up to here; a dry run ends here.
2. The repaired partitions are built in a directory that a broker would delete, from the sound batches. Indexes,
   snapshots and leader epochs are built as a broker's recovery does (`recovery.loader.load`).
3. What is built is checked. The bytes that were left out, and a report, are written beside the log directory.
4. One rename publishes the result: of the whole copy, or of the journal of the log directory (`commit_journal`).

So a process that dies leaves the directory as it was, or repaired.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING

from brokerless.arguments import check_several
from brokerless.checking.check import DirectoriesToCheck, check, check_directories, topic_configs
from brokerless.checking.directories import known_cluster
from brokerless.checking.logs import LogCheck
from brokerless.errors import BrokerlessError, CorruptRecordError, LogInUseError
from brokerless.healing.lost_directory import lost_directory, lost_files
from brokerless.healing.partition_files import write_partition
from brokerless.healing.salvage import damaged_bytes, dropped_files, known_start, replaced_files, salvage
from brokerless.io import disk, storage
from brokerless.io.remote import is_remote
from brokerless.io.runner import Threads
from brokerless.layout import checkpoints, commit_journal, file_names, restored_topics, streaming_epochs
from brokerless.layout.lock import Lock
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.layout.topic_config import TopicConfig
from brokerless.log_dir import transactional_ids
from brokerless.log_dir.copying import StagedCopy, check_at_rest, copy_file
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.notes import collected
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from brokerless.checking.check import Known
    from brokerless.checking.finding import Finding
    from brokerless.healing.damaged_range import DamagedRange
    from brokerless.healing.salvage import Salvage
    from brokerless.log.log import Log
    from brokerless.recovery.load_result import Loaded

_ROOT_FILES = (
    checkpoints.META_PROPERTIES,
    checkpoints.BOOTSTRAP,
    transactional_ids.FILE,
    streaming_epochs.FILE,
    restored_topics.FILE,
)
_BLOCK = 4 << 20
# With another one, a controller would count a broker that lost records as in sync (KIP-966).
_NO_EPOCH = checkpoints.format_clean_shutdown(None)


@dataclass
class Repair:
    """What a repair did, or what it would do.

    Attributes:
        path: the damaged log directory or partition directory.
        to: where the repaired one is: another directory, or the same.
        lost_path: the directory with the bytes that were left out, and the report; None: nothing was left out.
        partitions: how many partitions were looked at.
        repaired: what was done to each partition that was not sound, by its name.
        ranges: the damaged ranges of offsets, and what became of them.
        left: the findings that are still true of the result.
        doubts: the transactions of which it is not known whether they were committed, a sentence each.
        findings: how many findings of each code there were.

    >>> import brokerless as bl
    >>> bl.repair(SAMPLE_DIR, dry_run=True).ranges
    []
    """

    path: str
    to: str
    lost_path: str | None = None
    partitions: int = 0
    repaired: dict[str, list[str]] = field(default_factory=dict)
    ranges: list[DamagedRange] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    findings: dict[str, int] = field(default_factory=dict)

    @property
    def lost(self) -> list[DamagedRange]:
        """The ranges of offsets that are lost."""
        return [one for one in self.ranges if one.state == "lost"]

    @property
    def is_clean(self) -> bool:
        """Whether the result has no error and no warning."""
        return all(one.severity == "note" for one in self.left)

    def to_dict(self) -> dict[str, object]:
        """Return it as a dict for JSON."""
        return {
            "path": self.path,
            "to": self.to,
            "lost_path": self.lost_path,
            "partitions": self.partitions,
            "repaired": self.repaired,
            "ranges": [one.to_dict() for one in self.ranges],
            "left": [one.to_dict() for one in self.left],
            "doubts": self.doubts,
            "findings": self.findings,
        }


def repair(
    path: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    *,
    in_place: bool = False,
    sources: Iterable[str | os.PathLike[str]] = (),
    topics: Iterable[str] | None = None,
    keep_suspect: bool = False,
    indexes_only: bool = False,
    lost_path: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Repair:
    """Write a log directory, or a partition's directory, without its faults.

    Every sound batch is kept on both sides of damage, with its offsets. What is lost is taken from other replicas of
    the same history. Indexes, producer snapshots, leader epochs and checkpoints are made again.

    Args:
        path: the log directory of one broker, or a partition's directory. It must not be in use.
        to: the new directory for the result; None: with `in_place` or `dry_run`.
        in_place: put the result in the place of the damaged partitions.
        sources: directories with other replicas, the best first.
        topics: only these topics; None: all.
        keep_suspect: keep a batch with a wrong checksum if all its records can be decoded, with a new checksum.
        indexes_only: leave logs with damaged batches as they are, and repair the files beside the batches.
        lost_path: the new directory for bytes that are left out, and the report; by default the name of the result with
            ".lost" behind it, and a number if that exists.
        dry_run: change nothing, and return what would be done.
        progress: called with the bytes that were checked, and with those that were written, from any thread.

    Raises:
        FileExistsError: `to` or `lost_path` exists.
        FileNotFoundError: `path`, or the parent of `to`, does not exist.
        LogInUseError: a broker, or another writer, has the directory open.
        CorruptRecordError: the directory's ids cannot be read, so that it is not known whose it is; or a repaired
            partition has another fault, and nothing is changed.
        ValueError: the arguments contradict each other, or a topic does not exist.
    """
    given = os.fspath(path)
    if not dry_run and (to is None) != in_place:
        raise ValueError(f"give either a directory for the result ({option('to')}), or {option('in_place')}")
    check_several("topics", topics)
    if not storage.exists(given):
        raise FileNotFoundError(errno.ENOENT, "no such directory", given)
    is_partition = file_names.is_partition_directory(storage.list_directory(given))
    if in_place and is_partition:
        raise ValueError(f"{given} is one partition's directory: repair the log directory around it in place")
    others = [os.fspath(source) for source in sources]
    if indexes_only and (others or keep_suspect):
        raise ValueError(
            f"{option('indexes_only')} leaves damaged batches alone: it goes with neither {option('sources')} nor "
            f"{option('keep_suspect')}"
        )
    target = os.path.abspath(given if to is None else os.fspath(to))
    lost_to = "" if dry_run else lost_directory(target, lost_path)
    if lost_to == target:
        raise ValueError(f"what is lost needs a place of its own, not {target}")
    _finish_commit(given, is_allowed=in_place and not dry_run)
    if not is_remote(given):
        check_at_rest(LogDirFiles(os.path.dirname(os.path.abspath(given)) if is_partition else given))
    job = _Job(given, others, topics, keep_suspect=keep_suspect, indexes_only=indexes_only, progress=progress)
    job.result.to = target
    if dry_run:
        return job.foreseen()
    if not in_place:
        with collected():
            return job.copy(target, lost_to, is_partition=is_partition)
    with collected(), _locked(given):
        job.replace(lost_to)
    return job.verified()


def _finish_commit(path: str, *, is_allowed: bool) -> None:
    """Finish a write that was interrupted behind its commit: its files are in force already."""
    if not storage.exists(f"{path}/{commit_journal.NAME}"):
        return
    if not is_allowed:
        raise ValueError(f"a write to {path} was interrupted behind its commit: `brokerless recover` finishes it")
    with _locked(path):
        commit_journal.roll_forward(path)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    lock = Lock(f"{path}/{checkpoints.LOCK}")
    try:
        yield
    finally:
        lock.release()


def _sizes(path: str) -> dict[str, tuple[int, int]]:
    """Return the size and the time of each file in a log directory and its partitions."""
    if is_remote(path):
        return {}
    found = {}
    for directory in (path, *(f"{path}/{name}" for name in storage.list_subdirectories(path))):
        for name in storage.list_directory(directory):
            file = f"{directory}/{name}"
            if name != checkpoints.LOCK and storage.is_file(file):
                found[file] = storage.size(file), storage.modified_ns(file)
    return found


RECOVERED = "recovered as by a broker that starts"
"""What is done with a partition of a directory that was not shut down cleanly, if nothing is damaged."""


class _Job:
    """A repair: its plan, and the ways to carry it out."""

    def __init__(
        self,
        path: str,
        sources: Iterable[str | os.PathLike[str]],
        topics: Iterable[str] | None,
        *,
        keep_suspect: bool,
        indexes_only: bool,
        progress: Callable[[int], None],
    ) -> None:
        self._path, self._topics, self._progress = path, topics, progress
        # What is found and planned holds only for these files.
        self._sizes = _sizes(path)
        self._is_whole = topics is None
        with collected():
            found = LogDirs(path)
            logs = found.logs(topics, all_replicas=True)
            moving = found.moving(topics)
            self._root = found.roots[0]
            self._root_path = os.path.abspath(self._root.path)
            known = known_cluster([path]) if self._root.is_there else ValueError("a partition alone")
            self._configs = topic_configs(known, [self._root])
            others = _others(sources)
            self._ids = _topic_ids(known, found.logs(all_replicas=True))
        result = self.result = Repair(path, path, partitions=len(logs))

        def examine(log: Log) -> Salvage:
            donors = [other for other in others.get((log.topic, log.partition), ()) if _is_same_topic(log, other)]
            return salvage(
                log,
                donors,
                config=self._configs.get(str(log.topic)),
                log_start_offset=_start_of(log, donors),
                keeps_suspect=keep_suspect,
                progress=progress,
            )

        def faults(log: Log) -> list[Finding]:
            check = LogCheck(log, "deep", progress)
            return [*check.of_segments(), *check.of_log(self._configs.get(str(log.topic)))]

        with collected(), Threads() as threads:
            self._salvages = list(threads.map(examine, logs))
            self._note_moving(zip(moving, threads.map(faults, moving), strict=True))
        for one in self._salvages:
            if one.log.topic == file_names.METADATA_TOPIC and one.lost:
                one.unusable = "the cluster's metadata log lacks records: `brokerless rescue` makes a cluster of it"
            if indexes_only and one.has_damaged_batches:
                one.unusable = "its batches are damaged"
            if one.unusable:
                one.ranges, one.doubts, one.left = [], [], [found for found in one.findings if found.severity != "note"]
            if one.is_changed:
                result.repaired[one.log.name] = _done(one)
            result.ranges += one.ranges
            result.left += one.left
            result.doubts += [f"{one.log.name}: {doubt}" for doubt in one.doubts]
            result.doubts += _doubts_on_start(one)
            for found_here in one.findings:
                result.findings[found_here.code] = result.findings.get(found_here.code, 0) + 1

    def _note_moving(self, moving: Iterable[tuple[Log, list[Finding]]]) -> None:
        """Leave out damaged replicas that are being moved here: they would take the place of the present ones."""
        self._left_out: list[str] = []
        for log, findings in moving:
            errors = [one for one in findings if one.severity == "error"]
            if errors:
                name = os.path.basename(log.path)
                self._left_out.append(name)
                self.result.repaired[name] = [
                    f"left out: a replica on its way here is damaged, {errors[0]}; the present one stays: move it again"
                ]
            for one in errors:
                self.result.findings[one.code] = self.result.findings.get(one.code, 0) + 1

    @property
    def _changed(self) -> list[Salvage]:
        return [one for one in self._salvages if one.is_changed]

    def _check_unchanged(self) -> None:
        if _sizes(self._path) != self._sizes:
            raise LogInUseError(
                f"changed while it was checked: {self._path}; stop what writes there, and repair it again"
            )

    def copy(self, to: str, lost_to: str, *, is_partition: bool) -> Repair:
        """Write the repaired directory to a new place."""
        result = self.result
        disk.check_local(to)
        with StagedCopy(to, is_partition=is_partition) as copy:
            ends: dict[tuple[str, int], Loaded] = {}
            for one in self._salvages:
                name = os.path.basename(os.path.abspath(one.log.path))
                directory = copy.path if is_partition else f"{copy.path}/{name}"
                if one.is_changed:
                    ends[_key(one.log)] = self._write(one, directory, links=False)
                else:
                    copy.add_partition(one.log.path, directory, self._progress)
            if not is_partition:
                self._copy_root(copy.path, ends)
            self._verify(copy.path, to, is_partition=is_partition)
            self._check_unchanged()
            with self._lost_files(lost_to, copy.path):
                copy.publish()
        return result

    def replace(self, lost_to: str) -> None:
        """Put the repaired partitions in the place of the damaged ones. The caller holds the lock."""
        root, changed = self._root_path, self._changed
        self._check_unchanged()
        for one in changed:
            if storage.is_link(one.log.path):
                raise ValueError(
                    f"{one.log.path} is a link, which would be replaced: repair to a new directory ({option('to')})"
                )
        damaged_files = self._root_findings()
        if not changed and not damaged_files and not self._left_out:
            return
        unique = uuid.uuid4().hex
        staging = file_names.leftover_directory_name("brokerless", 0, "delete", unique)
        directory = f"{root}/{staging}"
        disk.make_directory(directory)
        marker = f"{root}/{checkpoints.CLEAN_SHUTDOWN}"
        was_clean = storage.exists(marker)
        try:
            ends = {}
            for one in changed:
                name = os.path.basename(os.path.abspath(one.log.path))
                ends[_key(one.log)] = self._write(one, f"{directory}/{name}", links=True)
            self._write_checkpoints(directory, ends)
            disk.sync_directory(directory)
            with self._lost_files(lost_to, directory):
                if was_clean and self.result.lost:
                    disk.atomic_write(marker, _NO_EPOCH)
                commit_journal.commit(root, staging, unique=unique, gone=self._left_out)
        except BaseException:
            if storage.exists(directory):
                disk.remove_tree(directory)
            raise
        commit_journal.roll_forward(root)
        if not was_clean and self._is_whole and not self._has_unusable:
            disk.atomic_write(marker, _NO_EPOCH)

    def foreseen(self) -> Repair:
        """Add what a check of the result would still find around the logs, and return what would be done."""
        if self._is_whole and self._root.is_there:
            with contextlib.suppress(BrokerlessError, OSError):
                for one in check_directories(DirectoriesToCheck((self._path,))):
                    name = f"{one.topic}-{one.partition}"
                    if one.severity != "note" and not one.kind.is_cured and name not in self._left_out:
                        self.result.left.append(one)
        return self.result

    def verified(self) -> Repair:
        """Check what is in place now, and return the result. The lock is free: a check asks who holds it."""
        self._verify(self._root_path, self._root_path, is_partition=False)
        return self.result

    def _write(self, one: Salvage, directory: str, *, links: bool) -> Loaded:
        key = _key(one.log)
        loaded = write_partition(
            one,
            directory,
            config=self._configs.get(key[0]) or TopicConfig(),
            topic_id=self._ids.get(key[0]),
            log_start_offset=one.log_start_offset,
            high_watermark=self._root.high_watermarks.get(key),
            first_dirty_offset=self._root.first_dirty_offsets.get(key),
            links=links,
            progress=self._progress,
        )
        expected = {found.code for found in one.left}
        for found in check(directory):
            if found.severity == "error" and found.code not in expected:
                raise CorruptRecordError(f"the repaired partition would have a fault: {found}; nothing is changed")
        return loaded

    def _copy_root(self, to: str, ends: dict[tuple[str, int], Loaded]) -> None:
        """Copy the log directory's own files, and partitions that are being moved or have no topic."""
        names = set(storage.list_directory(self._root_path))
        for name in _ROOT_FILES:
            if name in names:
                copy_file(f"{self._root_path}/{name}", f"{to}/{name}")
        for name in sorted(storage.list_subdirectories(self._root_path)) if self._is_whole else ():
            with contextlib.suppress(ValueError):
                is_kept = file_names.parse_directory_name(name).leftover in ("stray", "future")
                if is_kept and name not in self._left_out:
                    disk.make_directory(f"{to}/{name}")
                    for file in sorted(storage.list_directory(f"{self._root_path}/{name}")):
                        if storage.is_file(f"{self._root_path}/{name}/{file}"):
                            copy_file(f"{self._root_path}/{name}/{file}", f"{to}/{name}/{file}")
                    disk.sync_directory(f"{to}/{name}")
        self._write_checkpoints(to, ends)
        marker = f"{self._root_path}/{checkpoints.CLEAN_SHUTDOWN}"
        if storage.exists(marker) and not self.result.lost:
            copy_file(marker, f"{to}/{checkpoints.CLEAN_SHUTDOWN}")
        elif storage.exists(marker) or not self._has_unusable:
            disk.atomic_write(f"{to}/{checkpoints.CLEAN_SHUTDOWN}", _NO_EPOCH)

    @property
    def _has_unusable(self) -> bool:
        """Whether a log is left as it is: after a crash, a broker has to recover it.

        So is a replica that is being moved here. Without a recovery, zeros in its preallocated indexes make its
        segments ages old, and retention deletes them.
        """
        names = set(storage.list_subdirectories(self._root_path)).difference(self._left_out)
        if any(name.endswith("-future") for name in names):
            return True
        return any(one.unusable and one.log.topic != file_names.METADATA_TOPIC for one in self._salvages)

    def _write_checkpoints(self, to: str, ends: dict[tuple[str, int], Loaded]) -> None:
        """Write the checkpoints, with the offsets of the repaired logs."""
        root = self._root
        with collected():
            points, starts = dict(root.recovery_points), dict(root.log_start_offsets)
            watermarks, dirty = dict(root.high_watermarks), dict(root.first_dirty_offsets)
        for one in self._salvages:
            if one.log_start_offset is not None and one.log_start_offset > one.log.local_log_start_offset:
                starts[_key(one.log)] = one.log_start_offset
        for key, loaded in ends.items():
            if key[0] == file_names.METADATA_TOPIC:
                continue
            end = loaded.log_end_offset
            points[key] = end
            # An entry that says what the first segment's name says is left out, as in LogManager.
            starts.pop(key, None)
            if loaded.log_start_offset != loaded.base_offsets[0]:
                starts[key] = loaded.log_start_offset
            for offsets in (watermarks, dirty):
                if key in offsets:
                    offsets[key] = min(offsets[key], end)
        # A copy of some topics has no entries of others.
        kept = {(one.log.topic, one.log.partition) for one in self._salvages}
        is_part = not self._is_whole and self._root_path != self.result.to
        for name, known in (
            (checkpoints.RECOVERY_POINTS, points),
            (checkpoints.LOG_START_OFFSETS, starts),
            (checkpoints.HIGH_WATERMARKS, watermarks),
            (checkpoints.FIRST_DIRTY_OFFSETS, dirty),
        ):
            offsets = {key: offset for key, offset in known.items() if key in kept or not is_part}
            if offsets or storage.exists(f"{self._root_path}/{name}"):
                disk.atomic_write(f"{to}/{name}", checkpoints.format_offset_checkpoint(offsets))

    def _root_findings(self) -> list[str]:
        """Return the checkpoints that cannot be read."""
        damaged = []
        for name in checkpoints.OFFSET_CHECKPOINTS:
            path = f"{self._root_path}/{name}"
            if storage.exists(path):
                try:
                    checkpoints.parse_offset_checkpoint(storage.read_all(path))
                except CorruptRecordError:
                    damaged.append(path)
        return damaged

    def _verify(self, built: str, to: str, *, is_partition: bool) -> None:
        """Check the result, and keep what is still found."""
        topics = None if self._is_whole else self._topics
        found = [
            with_fields(one, path=one.path.replace(built, to, 1), message=one.message.replace(built, to))
            for one in check(built, topics=None if is_partition else topics)
        ]
        known = {(one.code, one.topic, one.partition) for one in found}
        self.result.left = [
            *found,
            *(
                one
                for one in self.result.left
                if (one.code, one.topic, one.partition) not in known and one.kind.level == "deep"
            ),
        ]

    @contextlib.contextmanager
    def _lost_files(self, to: str, staged: str) -> Iterator[None]:
        """Write the bytes that are left out, and the report, before a block that publishes the result."""
        dropped = [(one.log.name, *place) for one in self._changed for place in damaged_bytes(one)]
        files = [path for one in self._changed for path in dropped_files(one)] + self._root_findings()
        files += [path for one in self._changed if one.lost for path in replaced_files(one.log)]
        if self._root_path == self.result.to:
            moving = [f"{self._root_path}/{name}" for name in self._left_out]
            inside = [f"{path}/{name}" for path in moving for name in sorted(storage.list_directory(path))]
            files += [path for path in inside if storage.is_file(path)]
        if not dropped and not files and not self.result.ranges:
            yield
            return

        def fill(directory: str) -> None:
            directories = {name for name, *_ in dropped} | {self._around(path) for path in files} - {""}
            for name in sorted(directories):
                disk.make_directory(f"{directory}/{name}")
            for name, path, start, end in dropped:
                _save(path, start, end, f"{directory}/{name}/{os.path.basename(path)}@{start}")
            for path in files:
                _save(path, 0, storage.size(path), f"{directory}/{self._around(path)}/{os.path.basename(path)}")
            for name in ("", *directories):
                disk.sync_directory(f"{directory}/{name}")

        self.result.lost_path = to
        with lost_files(to, self.result.to_dict(), staged, fill):
            yield

    def _around(self, path: str) -> str:
        """Return the name of the directory around a file; "" for the log directory's own files."""
        around = os.path.dirname(os.path.abspath(path))
        return "" if around == self._root_path else os.path.basename(around)


def _save(path: str, start: int, end: int, to: str) -> None:
    with storage.File(path) as source, disk.create(to) as output:
        while content := source.read(start, min(_BLOCK, end - start)):
            output.append(content)
            start += len(content)
        output.sync()


def _key(log: Log) -> tuple[str, int]:
    return log.topic or "", log.partition or 0


def _others(sources: Iterable[str | os.PathLike[str]]) -> dict[tuple[str | None, int | None], list[Log]]:
    others: dict[tuple[str | None, int | None], list[Log]] = {}
    for source in sources:
        for log in LogDirs(source).logs(all_replicas=True):
            others.setdefault((log.topic, log.partition), []).append(log)
    return others


def _is_same_topic(log: Log, other: Log) -> bool:
    """Return whether two logs are of the same topic: one that was created again has another id."""
    try:
        return None in (log.topic_id, other.topic_id) or log.topic_id == other.topic_id
    except CorruptRecordError:
        return True


def _start_of(log: Log, donors: Iterable[Log]) -> int | None:
    """Return the log start offset; where no checkpoint of the directory tells, also by the other replicas."""
    start = known_start(log)
    if log.root.has_log_start_offsets or not log.root.is_there:
        return start
    others = (known_start(one) or 0 for one in donors)
    highest = max((one for one in others if one <= log.files.extent.next_offset), default=0)
    return highest if highest > (start or log.local_log_start_offset) else start


def _doubts_on_start(one: Salvage) -> list[str]:
    """Return what is not known of deleted records, if the directory's checkpoint does not tell."""
    root, start = one.log.root, one.log_start_offset
    if start is None or root.has_log_start_offsets or start <= one.log.local_log_start_offset:
        return []
    why = f"{checkpoints.LOG_START_OFFSETS} does not tell, and the leader epochs, or another replica, begin there"
    what = f"whether the records below offset {start} were deleted"
    return [f"{one.log.name}: {what}: {why}. They stay in the file, and are not shown"]


def _topic_ids(known: Known, logs: Iterable[Log]) -> dict[str, str]:
    """Return the topic ids: by the cluster's metadata, or by the partitions that have one."""
    ids = {} if isinstance(known, Exception) else {row["topic"]: row["topic_id"] for row in known.rows("topics")}
    for log in logs:
        with contextlib.suppress(CorruptRecordError):
            if log.topic not in (None, file_names.METADATA_TOPIC) and log.topic_id is not None:
                ids.setdefault(log.topic, log.topic_id)
    return ids


def _done(one: Salvage) -> list[str]:
    """Describe the repair of a partition, a line for each thing."""
    done = [str(found) for found in one.ranges]
    if one.epochs:
        done.append(f"{one.epochs} batches get another leader epoch")
    if one.markers:
        done.append(f"{one.markers} lost markers of aborted transactions are written again")
    done += [
        f"made anew from offset {found.start_offset} on: {found.message}"
        for found in one.findings
        if found.code == "offset-overlap"
    ]
    done += [f"not known: {doubt}" for doubt in one.doubts]
    done += [f"made again: {os.path.basename(path)}" for path in dropped_files(one)]
    return done or [RECOVERED]
