"""`RepairPlan`: the steps of a repair of a log directory, and their execution beside the directory or in its place."""

from __future__ import annotations

import contextlib
import os
import uuid
from dataclasses import dataclass
from dataclasses import replace as with_fields
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from brokerless.checking.check import DirectoriesToCheck, check, check_directories, topic_configs
from brokerless.checking.directories import known_cluster
from brokerless.checking.logs import LogCheck
from brokerless.errors import BrokerlessError, CorruptRecordError
from brokerless.healing.groups_ahead import groups_ahead
from brokerless.healing.log_repair import Step, known_start, salvage
from brokerless.healing.lost_directory import lost_files, write_report
from brokerless.healing.report import RECOVERED, RepairReport
from brokerless.healing.write_partition import write_partition
from brokerless.io import disk, interrupts, storage
from brokerless.io.runner import Threads
from brokerless.layout import checkpoints, commit_journal, file_names, restored_topics, streaming_epochs
from brokerless.layout.topic_config import TopicConfig
from brokerless.log_dir import transactional_ids
from brokerless.log_dir.copying import FilesAtRest, StagedCopy, copy_file
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.log_dir.start_faults import remark_on
from brokerless.notes import collected
from brokerless.recovery.file_changes import Slice
from brokerless.remarks import Remark
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from brokerless.checking.check import Known
    from brokerless.checking.finding import Finding
    from brokerless.healing.log_repair import LogRepair
    from brokerless.io.runner import Progress
    from brokerless.layout.log_dir_files import LogDirFiles
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
UNREADABLE = "it cannot be read"
"""Why a checkpoint of the log directory is written again."""
# With a broker epoch in the marker, a controller would count a broker that lost records as in sync (KIP-966).
_NO_EPOCH = checkpoints.format_clean_shutdown(None)


@dataclass(frozen=True, kw_only=True)
class RepairPlan:
    """The plan of a repair. As text, the plan has one line per step.

    Attributes:
        path: the log directory, or the partition's directory.
        root: the log directory.
        logs: the plan for each log.
        moving: the damaged replicas that a broker was moving here, by directory. The result does not have them, because
            a broker would replace the current replicas with them.
        topics: the topics that are repaired; None: all.
        configs: the settings of topics.
        topic_ids: the ids of topics.
        at_rest: the state of the files. The plan is valid only while no process changes them.
        progress: see `repair`.

    >>> plan = RepairPlan.of(SAMPLE_DIR)
    >>> sorted({step.verb for _, step in plan.steps()}), plan.report("repaired").lost
    ([], [])
    """

    path: str
    root: LogDirFiles
    logs: Sequence[LogRepair]
    moving: Mapping[str, Sequence[Finding]]
    topics: Iterable[str] | None
    configs: Mapping[str, TopicConfig]
    topic_ids: Mapping[str, str]
    at_rest: FilesAtRest
    progress: Progress

    @classmethod
    def of(
        cls,
        path: str,
        sources: Iterable[str | os.PathLike[str]] = (),
        topics: Iterable[str] | None = None,
        *,
        keep_suspect: bool = False,
        indexes_only: bool = False,
        progress: Progress = lambda _name, _size: None,
    ) -> RepairPlan:
        """Check a directory, and plan its repair. For the arguments see `repair`."""
        at_rest = FilesAtRest([path])
        with collected(), Threads() as threads:
            found = LogDirs(path)
            logs, moving = found.logs(topics, all_replicas=True), found.moving(topics)
            root = found.roots[0]
            known = known_cluster([path]) if root.is_there else ValueError("a partition alone")
            configs = topic_configs(known, [root])
            others = _others(sources)

            def planned(log: Log) -> LogRepair:
                donors = [other for other in others.get(_key(log), ()) if _is_same_topic(log, other)]
                repair = salvage(
                    log,
                    donors,
                    config=configs.get(str(log.topic)),
                    log_start_offset=_start_of(log, donors),
                    keeps_suspect=keep_suspect,
                    progress=partial(progress, log.name),
                )
                if repair.unusable:
                    return repair
                if log.topic == file_names.METADATA_TOPIC and repair.lost:
                    why = (
                        "the cluster's metadata log lacks records, and a repair cannot restore them: `brokerless "
                        "rescue` makes a new cluster"
                    )
                    return repair.left_alone(Remark("metadata-log", why))
                is_left = indexes_only and repair.has_damaged_batches
                return repair.left_alone(Remark("batches-damaged", "its batches are damaged")) if is_left else repair

            def faults(log: Log) -> list[Finding]:
                check = LogCheck(log, "deep", partial(progress, log.name))
                found = [*check.of_segments(), *check.of_log(configs.get(str(log.topic)))]
                return [one for one in found if one.severity == "error"]

            repairs = list(threads.map(partial(storage.despite_disk_errors, planned), logs))
            of_moving = {
                os.path.basename(log.path): findings
                for log, findings in zip(
                    moving, threads.map(partial(storage.despite_disk_errors, faults), moving), strict=True
                )
            }
            return cls(
                path=path,
                root=root,
                logs=repairs,
                moving={name: errors for name, errors in of_moving.items() if errors},
                topics=topics,
                configs=configs,
                topic_ids=_topic_ids(known, found.logs(all_replicas=True)),
                at_rest=at_rest,
                progress=progress,
            )

    def steps(self) -> Iterator[tuple[str, Step]]:
        """Yield the steps, each with the name of its partition's directory; "" for files outside partitions."""
        for repair in self.logs:
            yield from ((repair.log.name, step) for step in repair.steps(self.topic_ids.get(_key(repair.log)[0])))
        for name, errors in self.moving.items():
            found = f"{errors[0].code}: {errors[0].message}"
            why = (
                f"this copy of a replica that is being moved to this directory is damaged ({found}). The replica that "
                "is moved stays in its place: move it again"
            )
            yield name, Step("drop", name, "", why)
        damaged = {os.path.basename(path) for path in self._damaged_checkpoints()}
        for name, content in self._checkpoints(self.path, {}):
            if name in damaged or self._changed:
                why = UNREADABLE if name in damaged else "the logs have changed"
                yield "", Step("write", name, content, why)

    def __str__(self) -> str:
        return "\n".join(f"{name}: {step}" if name else str(step) for name, step in self.steps())

    def report(self, to: str) -> RepairReport:
        """Return the report of the finished repair, with the findings that remain."""
        result = RepairReport(path=self.path, output=to, partitions=len(self.logs))
        for repair in self.logs:
            name = repair.log.name
            if repair.is_changed:
                is_recovered = not (repair.ranges or repair.doubts)
                told = repair.told(self.topic_ids.get(_key(repair.log)[0]))
                result.repaired[name] = told or ([RECOVERED] if is_recovered else [])
            if repair.unusable:
                result.left_alone[name] = repair.unusable.of(
                    "", topic=repair.log.topic, partition=repair.log.partition, path=repair.log.path
                )
            result.ranges += repair.ranges
            result.left += repair.left
            result.doubts += [
                doubt.of(
                    f"{repair.log.name}: ", topic=repair.log.topic, partition=repair.log.partition, path=repair.log.path
                )
                for doubt in repair.doubts
            ]
            result.doubts += _doubts_on_start(repair)
        for name, step in self.steps():
            if name in self.moving:
                result.left_out[name] = remark_on(self.moving[name][0].code, step.why, f"{self.path}/{name}")
            elif not name and step.why == UNREADABLE:
                result.checkpoints.append(step.name)
        for finding in [*(one for repair in self.logs for one in repair.findings), *chain(*self.moving.values())]:
            result.findings[finding.code] = result.findings.get(finding.code, 0) + 1
        return result

    @property
    def _changed(self) -> list[LogRepair]:
        return [one for one in self.logs if one.is_changed]

    @property
    def _root_path(self) -> str:
        return os.path.abspath(self.root.path)

    def copy(self, to: str, lost_to: str, *, is_partition: bool) -> RepairReport:
        """Write the repaired directory to a new place."""
        disk.check_local(to)
        self.at_rest.check()
        result = self.report(to)
        like = [one.log.path for one in self.logs] if is_partition else [self._root_path]
        with StagedCopy(to, is_partition=is_partition, like=like) as copy:
            ends: dict[tuple[str, int], Loaded] = {}
            for one in self.logs:
                name = os.path.basename(os.path.abspath(one.log.path))
                directory = copy.path if is_partition else f"{copy.path}/{name}"
                if one.is_changed:
                    ends[_key(one.log)] = self._write(one, directory, links=False)
                else:
                    copy.add_partition(one.log.path, directory, partial(self.progress, one.log.name))
            if not is_partition:
                self._copy_root(result, copy.path, ends)
            self._verify(result, copy.path, is_partition=is_partition)
            self.at_rest.check()
            with self._lost_files(result, lost_to, copy.path):
                copy.publish()
        return result

    def replace(self, lost_to: str) -> RepairReport:
        """Put the repaired partitions in the place of the damaged ones. The caller must hold the lock."""
        root, changed = self._root_path, self._changed
        self.at_rest.check()
        result = self.report(root)
        _check_replaceable(changed)
        damaged_files = self._damaged_checkpoints()
        if not changed and not damaged_files and not self.moving:
            return result
        unique = uuid.uuid4().hex
        staging = file_names.leftover_directory_name("brokerless", 0, "delete", unique)
        directory = f"{root}/{staging}"
        marker = f"{root}/{checkpoints.CLEAN_SHUTDOWN}"
        was_clean = storage.exists(marker)
        with contextlib.ExitStack() as committing:
            try:
                disk.make_directory(directory)
                ends = {}
                for one in changed:
                    name = os.path.basename(os.path.abspath(one.log.path))
                    ends[_key(one.log)] = self._write(one, f"{directory}/{name}", links=True)
                for name, content in self._checkpoints(root, ends):
                    disk.atomic_write(f"{directory}/{name}", content)
                disk.sync_directory(directory)
                with self._lost_files(result, lost_to, directory):
                    committing.enter_context(interrupts.deferred())
                    if was_clean and result.lost:
                        disk.atomic_write(marker, _NO_EPOCH)
                    commit_journal.commit(root, staging, unique=unique, gone=list(self.moving))
            except BaseException:
                if storage.exists(directory):
                    disk.remove_tree(directory)
                raise
            commit_journal.roll_forward(root)
            if not was_clean and self.topics is None and not self._has_unusable:
                disk.atomic_write(marker, _NO_EPOCH)
        return result

    def foreseen(self, to: str) -> RepairReport:
        """Return the report of the planned repair, with the remaining findings about files outside partitions."""
        self.at_rest.check()
        result = self.report(to)
        result.dry_run = True
        result.doubts += self._groups_ahead(self._root_path)
        if self.topics is None and self.root.is_there and os.path.abspath(self.path) == self._root_path:
            with contextlib.suppress(BrokerlessError, OSError):
                for one in check_directories(DirectoriesToCheck((self.path,))):
                    name = f"{one.topic}-{one.partition}"
                    if one.severity != "note" and not one.kind.is_cured and name not in self.moving:
                        result.left.append(one)
        return result

    def verified(self, result: RepairReport) -> RepairReport:
        """Check the directory in its present state, and return the report with the findings."""
        self._verify(result, self._root_path, is_partition=False)
        if result.lost_path is not None:
            # The report was written before the commit, so that a crash behind it keeps the ranges.
            write_report(result.lost_path, result.to_dict())
        return result

    def _write(self, one: LogRepair, directory: str, *, links: bool) -> Loaded:
        key = _key(one.log)
        loaded = write_partition(
            one,
            directory,
            config=self.configs.get(key[0]) or TopicConfig(),
            topic_id=self.topic_ids.get(key[0]),
            log_start_offset=one.log_start_offset,
            high_watermark=self.root.high_watermarks.get(key),
            first_dirty_offset=self.root.first_dirty_offsets.get(key),
            links=links,
            progress=partial(self.progress, one.log.name),
        )
        expected = {found.code for found in one.left}
        for found in check(directory):
            if found.severity == "error" and found.code not in expected:
                what = f"{found.code} at {found.path}: {found.message}"
                raise CorruptRecordError(f"nothing is changed, because the repaired partition has a fault: {what}")
        return loaded

    def _copy_root(self, result: RepairReport, to: str, ends: dict[tuple[str, int], Loaded]) -> None:
        """Copy the files of the log directory itself, and the partitions that are being moved or have no topic."""
        names = set(storage.list_files(self._root_path))
        for name in _ROOT_FILES:
            if name in names:
                copy_file(f"{self._root_path}/{name}", f"{to}/{name}")
        for name in sorted(storage.list_subdirectories(self._root_path)) if self.topics is None else ():
            with contextlib.suppress(ValueError):
                is_kept = file_names.parse_directory_name(name).leftover in ("stray", "future")
                if is_kept and name not in self.moving:
                    disk.make_directory(f"{to}/{name}")
                    for file in sorted(storage.list_directory(f"{self._root_path}/{name}")):
                        if storage.is_file(f"{self._root_path}/{name}/{file}"):
                            copy_file(f"{self._root_path}/{name}/{file}", f"{to}/{name}/{file}")
                    disk.sync_directory(f"{to}/{name}")
        for name, content in self._checkpoints(result.output, ends):
            disk.atomic_write(f"{to}/{name}", content)
        marker = f"{self._root_path}/{checkpoints.CLEAN_SHUTDOWN}"
        if storage.is_file(marker) and not result.lost:
            copy_file(marker, f"{to}/{checkpoints.CLEAN_SHUTDOWN}")
        elif storage.exists(marker) or not self._has_unusable:
            disk.atomic_write(f"{to}/{checkpoints.CLEAN_SHUTDOWN}", _NO_EPOCH)

    @property
    def _has_unusable(self) -> bool:
        """True if a log is left unchanged, or a replica is being moved here.

        After a crash, a broker must recover these logs, so the result gets no new clean-shutdown marker. Without a
        recovery, the zeros in the preallocated indexes of a moving replica would make its segments seem very old, and
        retention would delete them.
        """
        names = set(storage.list_subdirectories(self._root_path)).difference(self.moving)
        if any(name.endswith("-future") for name in names):
            return True
        return any(one.unusable and one.log.topic != file_names.METADATA_TOPIC for one in self.logs)

    def _checkpoints(self, to: str, ends: Mapping[tuple[str, int], Loaded]) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the content of each checkpoint of the result, with the offsets of the repaired logs."""
        root = self.root
        with collected():
            points, starts = dict(root.recovery_points), dict(root.log_start_offsets)
            watermarks, dirty = dict(root.high_watermarks), dict(root.first_dirty_offsets)
        for one in self.logs:
            if one.log_start_offset is not None and one.log_start_offset > one.log.local_log_start_offset:
                starts[_key(one.log)] = one.log_start_offset
        for key, loaded in ends.items():
            if key[0] == file_names.METADATA_TOPIC:
                continue
            end = loaded.log_end_offset
            points[key] = end
            # As in LogManager, an entry is left out if it equals the base offset of the first segment.
            starts.pop(key, None)
            if loaded.log_start_offset != loaded.base_offsets[0]:
                starts[key] = loaded.log_start_offset
            for offsets in (watermarks, dirty):
                if key in offsets:
                    offsets[key] = min(offsets[key], end)
        # A copy of some topics has no entries for other topics.
        kept = {(one.log.topic, one.log.partition) for one in self.logs}
        is_part = self.topics is not None and self._root_path != to
        for name, known in (
            (checkpoints.RECOVERY_POINTS, points),
            (checkpoints.LOG_START_OFFSETS, starts),
            (checkpoints.HIGH_WATERMARKS, watermarks),
            (checkpoints.FIRST_DIRTY_OFFSETS, dirty),
        ):
            offsets = {key: offset for key, offset in known.items() if key in kept or not is_part}
            if offsets or storage.exists(f"{self._root_path}/{name}"):
                yield name, checkpoints.format_offset_checkpoint(offsets)

    def _damaged_checkpoints(self) -> list[str]:
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

    def _groups_ahead(self, directory: str) -> list[Remark]:
        """Return the doubts about groups whose offsets the repaired logs lack; none for a partition alone."""
        with collected():
            return groups_ahead(directory, _shortened(self._changed)) if self.root.is_there else []

    def _verify(self, result: RepairReport, built: str, *, is_partition: bool) -> None:
        """Check the result, and update its remaining findings and its doubts about groups."""
        # The built directory has the repaired `__consumer_offsets`, unless only other topics are repaired.
        is_all = self.topics is None and not is_partition
        result.doubts += self._groups_ahead(built if is_all else self._root_path)
        found = [
            with_fields(
                one, path=one.path.replace(built, result.output, 1), message=one.message.replace(built, result.output)
            )
            for one in check(built, topics=None if is_partition else self.topics)
        ]
        known = {(one.code, one.topic, one.partition) for one in found}
        result.left = [
            *found,
            *(
                one
                for one in result.left
                if (one.code, one.topic, one.partition) not in known and one.kind.level == "deep"
            ),
        ]

    @contextlib.contextmanager
    def _lost_files(self, result: RepairReport, to: str, staged: str) -> Iterator[None]:
        """Write the left-out bytes and the report, then run the `with` block, which publishes the result."""
        gone = [(step.to, ":" in step.name) for one in self._changed for step in one.gone if isinstance(step.to, Slice)]
        files = self._damaged_checkpoints()
        if self._root_path == result.output:
            moving = [f"{self._root_path}/{name}" for name in self.moving]
            inside = [f"{path}/{name}" for path in moving for name in sorted(storage.list_directory(path))]
            files += [path for path in inside if storage.is_file(path)]
        gone += [(Slice(path, 0, storage.size(path)), False) for path in files]
        if not gone and not result.ranges:
            yield
            return

        def fill(directory: str) -> None:
            directories = {self._around(content.path) for content, _ in gone} - {""}
            for name in sorted(directories):
                disk.make_directory(f"{directory}/{name}")
            for content, is_part in gone:
                name = f"{os.path.basename(content.path)}{f'@{content.start}' if is_part else ''}"
                _save(content, f"{directory}/{self._around(content.path)}/{name}")
            for name in ("", *directories):
                disk.sync_directory(f"{directory}/{name}")

        result.lost_path = to
        with lost_files(to, result.to_dict(), staged, fill, like=[self._root_path]):
            yield

    def _around(self, path: str) -> str:
        """Return the name of the partition's directory around a file; "" for files outside partitions."""
        around = os.path.dirname(os.path.abspath(path))
        return "" if around == self._root_path else os.path.basename(around)


def _save(content: Slice, to: str) -> None:
    # Only a regular file has bytes to keep.
    if not storage.is_file(content.path):
        return
    with storage.bridged(every=True), storage.File(content.path) as source, disk.create(to) as output:
        for position in range(content.start, content.end, _BLOCK):
            output.append(source.read(position, min(_BLOCK, content.end - position)))
        output.sync()


def _check_replaceable(changed: Iterable[LogRepair]) -> None:
    """Refuse a repair in place of a partition that is a link, or that has bytes which another read may still get."""
    for one in changed:
        if storage.is_link(one.log.path):
            raise ValueError(
                f"{one.log.path} is a link, and a repair in place would replace it by a directory: repair to a new "
                f"directory ({option('output')})"
            )
        unread = next((found for found in one.findings if found.code == "disk-unreadable"), None)
        if unread is not None:
            raise ValueError(f"{unread.path}: {unread.message}, or repair to a new directory ({option('output')})")


def _key(log: Log) -> tuple[str, int]:
    return log.topic or "", log.partition or 0


def _others(sources: Iterable[str | os.PathLike[str]]) -> dict[tuple[str, int], list[Log]]:
    others: dict[tuple[str, int], list[Log]] = {}
    for source in sources:
        for log in LogDirs(source).logs(all_replicas=True):
            others.setdefault(_key(log), []).append(log)
    return others


def _is_same_topic(log: Log, other: Log) -> bool:
    """Return whether two logs belong to the same topic. A topic that was created again has another id."""
    try:
        return None in (log.topic_id, other.topic_id) or log.topic_id == other.topic_id
    except CorruptRecordError:
        return True


def _start_of(log: Log, donors: Iterable[Log]) -> int | None:
    """Return the log start offset. If no checkpoint of the directory has it, the other replicas may give it."""
    start = known_start(log)
    if log.root.has_log_start_offsets or not log.root.is_there:
        return start
    others = (known_start(one) or 0 for one in donors)
    highest = max((one for one in others if one <= log.files.extent.next_offset), default=0)
    return highest if highest > (start or log.local_log_start_offset) else start


def _shortened(repairs: Iterable[LogRepair]) -> dict[str, int]:
    """Return the new end of each log that loses its end, by path."""
    return {
        one.log.path: one.end_offset
        for one in repairs
        if any(lost.end_offset is None or lost.end_offset > one.end_offset for lost in one.lost)
    }


def _doubts_on_start(one: LogRepair) -> list[Remark]:
    """Return the uncertainties about deleted records, if the directory has no checkpoint of log start offsets."""
    root, start = one.log.root, one.log_start_offset
    if start is None or root.has_log_start_offsets or start <= one.log.local_log_start_offset:
        return []
    why = (
        f"{checkpoints.LOG_START_OFFSETS} has no log start offset for it, but its leader epochs or another replica "
        f"begin at offset {start}"
    )
    what = f"it is not known whether the records below offset {start} were deleted"
    said = f"{one.log.name}: {what}. {why}. These records stay in the file, but readers do not see them"
    return [Remark("log-start-doubtful", said, topic=one.log.topic, partition=one.log.partition, path=one.log.path)]


def _topic_ids(known: Known, logs: Iterable[Log]) -> dict[str, str]:
    """Return the topic ids from the cluster's metadata, or from the partitions that have one."""
    ids = {} if isinstance(known, Exception) else {row["topic"]: row["topic_id"] for row in known.rows("topics")}
    for log in logs:
        with contextlib.suppress(CorruptRecordError):
            if log.topic not in (None, file_names.METADATA_TOPIC) and log.topic_id is not None:
                ids.setdefault(log.topic, log.topic_id)
    return ids
