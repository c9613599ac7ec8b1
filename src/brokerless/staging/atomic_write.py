"""A write by many tasks to topics of a log directory: all rows take effect, or none.

`AtomicWrite.begin` makes a staging directory, and tasks write parts there (`brokerless.staging.parts`).
`AtomicWrite.commit` then takes these steps:

1. `_lock_and_open`: open the log directory for writing, which locks it. Stop here if an earlier attempt has committed
   the rows.
2. `_prepare_staging`: refuse a staging directory that is gone or changed.
3. `_plan`: decide which topics are new, and which parts each partition gets.
4. `_stage_topics`: write the files of the log directory that describe the new topics.
5. `_stage_logs`: append the parts of each partition to a copy of its directory (`brokerless.staging.staged_logs`).
6. `_stage_origin`: write the files that show that this streaming epoch, or this restore, is committed.
7. `_check_staged`: make the staging directory durable, and refuse it if it holds other files than were staged.
8. `_replace_logs`: rename the staging directory, which makes all rows visible at once
   (`brokerless.layout.commit_journal`).
9. `_clean_up`: close the log directory, and remove the leftovers of this write and earlier ones.

A crash or an error before step 8 leaves a directory that brokers delete, and nothing else. After step 8 an error is
only a warning, because the rows are committed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from brokerless.arguments import listed_few
from brokerless.errors import LogInUseError
from brokerless.io import disk, storage
from brokerless.io.runner import Threads
from brokerless.layout import checkpoints, commit_journal, file_names, streaming_epochs
from brokerless.layout.lock import Lock
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.log_dir.topics import (
    by_topic,
    check_new_id,
    check_present,
    needs_ids,
    partitions_of,
    stage_topics,
    topics_by_id,
)
from brokerless.log_dir.writer import LogDirWriter, open_or_create
from brokerless.notes import note
from brokerless.staging.parts import DIRECTORY, Encoding, Staging, check_divided, check_replaceable, claim
from brokerless.staging.staged_logs import append_parts, copied_log, gone_directories, new_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from brokerless.layout.streaming_epochs import Epoch
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log_dir.restoration import Restoration
    from brokerless.log_dir.topics import NewTopic
    from brokerless.staging.parts import Part

_T = TypeVar("_T")

# Seconds between two attempts to lock a log directory that another writer has.
_PAUSE = 0.05
# The topic in a staging directory's name. A broker looks at the end of the name only.
_STAGING = "brokerless"
# The file with the `Staging` of a write that can be resumed.
_DESCRIPTION = "staging.json"


class _CommitPlan(NamedTuple):
    """The changes of a commit.

    Attributes:
        new_topics: the topics that are created or overwritten.
        partitions: the partitions that each written topic has, or will have.
        parts: the parts that each changed partition gets, in order.
    """

    new_topics: dict[str, NewTopic]
    partitions: dict[str, tuple[int, ...]]
    parts: dict[tuple[str, int], list[Part]]


@dataclass(frozen=True, kw_only=True)
class AtomicWrite:
    """A write by many tasks. Picklable; reads and changes nothing before `begin`.

    Attributes:
        path: a log directory; created if it does not exist.
        topics: the topics to which rows are written; missing topics are created. With one topic and no `others`, rows
            need no column `topic`.
        others: the properties of other new topics that rows name in their column `topic`; None to refuse such rows.
        overwrite: create the topics again even if they exist, with new ids, from offset 0.
        only_new: refuse topics that exist; without `topics`, refuse a log directory that has any topic.
        encoding: the encoding of rows as batches.
        sole_replica: see `LogDirWriter`.
        owner: a name for a sequence of writes that no other sequence may have. A later write of the sequence removes
            the staging directories of earlier writes that never committed. Empty for no owner. Streaming epochs need no
            owner, because their tasks mark the staging directory as the query's (`Staging.writer`).
        attempt: 32 hex digits that are unique to this write.
        resumes: resume an uncommitted write of the same attempt, and keep its parts.

    Raises:
        ValueError: the arguments do not fit together.

    >>> from brokerless.log_dir.topics import NewTopic
    >>> write = AtomicWrite(path=NEW, topics={"orders": NewTopic(partitions=2)})
    >>> task = write.begin().writer()
    >>> import pyarrow as pa
    >>> task.send(pa.RecordBatch.from_pylist([{"key": b"a", "value": b"1"}, {"key": b"b", "value": b"2"}]))
    >>> write.commit(task.finish())
    >>> sum(len(rows) for log in LogDirs(NEW).logs() for rows in log.read())
    2
    """

    path: str
    topics: Mapping[str, NewTopic] = field(default_factory=dict)
    others: NewTopic | None = None
    overwrite: bool = False
    only_new: bool = False
    encoding: Encoding = field(default_factory=Encoding)
    sole_replica: bool = False
    owner: str = ""
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex)
    resumes: bool = False

    def __post_init__(self) -> None:
        disk.check_local(self.path)
        file_names.check_topic_names(self.topics)
        for topic in self.topics:
            file_names.check_writable_topic(topic, is_copy=self.encoding.keep_offsets)
        given = [new.topic_id for new in self.topics.values() if new.topic_id is not None]
        if len(given) > len(set(given)):
            raise ValueError("two topics have the same id: a broker would load only one of them")
        if self.others is None and not self.topics:
            raise ValueError("the write has no topic: name one, or allow others")
        if self.others is not None and self.overwrite:
            raise ValueError("cannot overwrite topics that rows name: name the topics of the write instead")
        if self.others is not None and self.others.topic_id is not None:
            raise ValueError(f"topic id {self.others.topic_id} belongs to one topic: name that topic")

    @property
    def staging(self) -> str:
        """The name of the staging directory, which a broker would delete."""
        return file_names.leftover_directory_name(_STAGING, 0, "delete", self._owned + self.attempt[len(self._owned) :])

    @property
    def _staging_path(self) -> str:
        return f"{self.path}/{self.staging}"

    @property
    def _parts_path(self) -> str:
        return f"{self._staging_path}/{DIRECTORY}"

    def begin(self, *, query: str = "", patience: float = 0) -> Staging:
        """Check the topics, make the staging directory, and return the `Staging` with which tasks write parts.

        Args:
            query: the streaming query whose epoch is written, if known. Leftovers of its earlier epochs are removed.
            patience: seconds to wait for another writer.

        Raises:
            FileExistsError: `only_new` refuses an existing topic.
            LogInUseError: a broker or another writer uses the log directory.
            ValueError: the existing topics do not fit the write.
        """
        lock = _with_patience(patience, self._lock)
        try:
            description = f"{self._parts_path}/{_DESCRIPTION}"
            if self.resumes and storage.exists(description):
                return Staging.from_json(storage.read_all(description))
            staging = self._describe_staging()
            with contextlib.suppress(OSError):
                # A task that is still being killed may write there. A later epoch then removes the directory.
                self._remove_leftovers("", query)
            if self.resumes:
                # A crash may have left the directory without its description.
                self.abort()
            disk.make_directory(staging.path)
            disk.make_directory(self._parts_path)
            disk.create(f"{self._parts_path}/{staging.token}").close()
            if self.resumes:
                disk.atomic_write(description, staging.to_json())
        finally:
            lock.release()
        return staging

    def commit(
        self,
        parts: Iterable[Part],
        *,
        epoch: Epoch | None = None,
        restoration: Restoration | None = None,
        threads: int | None = None,
        patience: float = 0,
    ) -> None:
        """Commit all rows of these parts, in all topics at once.

        Once the rows are committed, a failure is only a warning, because after an error the caller would write the rows
        again. After a failure before that point, parts that were already appended are lost, unless the write can be
        resumed (`resumes`).

        Args:
            parts: the parts, in the order of their rows; parts that keep their offsets in any order.
            epoch: the streaming epoch that wrote the rows; None for any other write. If the epoch is committed already,
                nothing is done.
            restoration: the restore that wrote the rows. If the restore is committed already, nothing is done.
            threads: the number of partitions to work on at a time; None for the number of cores.
            patience: seconds to wait for another writer.

        Raises:
            AppendError: a broker would refuse a batch.
            FileExistsError: `only_new` refuses a topic that was created since the write began.
            LogInUseError: a broker or another writer uses the log directory.
            ValueError: rows were divided among other partitions than a topic has now, or offsets do not fit.
        """
        directory = self._lock_and_open(patience)
        with contextlib.ExitStack() as failing:
            failing.push(directory)
            if not self._is_in_force(epoch, restoration):
                self._put_into_force(directory, list(parts), epoch, restoration, threads)
            failing.pop_all()
        # If the directory was closed after its journal was written, the next writer finishes the commit.
        if not directory.is_closed:
            self._clean_up(directory, epoch)

    def abort(self) -> None:
        """Remove the staging directory; do nothing if it does not exist, or once it is committed."""
        if storage.exists(self._staging_path):
            self._remove(self.staging)

    def _put_into_force(
        self,
        directory: LogDirWriter,
        parts: list[Part],
        epoch: Epoch | None,
        restoration: Restoration | None,
        threads: int | None,
    ) -> None:
        """Take the steps 2 to 8 of a commit."""
        self._prepare_staging()
        plan = self._plan(directory, parts)
        if not plan.parts and epoch is None and restoration is None:
            return
        if restoration is not None:
            restoration.check_empty(directory)
        topics = self._stage_topics(directory, plan)
        staged = self._stage_logs(directory, plan, topics, is_epoch=epoch is not None, threads=threads)
        self._stage_origin(directory, topics, epoch, restoration)
        self._check_staged(staged)
        self._replace_logs(directory, plan, staged)

    def _lock_and_open(self, patience: float) -> LogDirWriter:
        return _with_patience(patience, lambda: LogDirWriter(self.path, sole_replica=self.sole_replica))

    def _is_in_force(self, epoch: Epoch | None, restoration: Restoration | None) -> bool:
        if restoration is not None:
            return restoration.done(LogDirs(self.path)) == restoration.digests.keys()
        return epoch is not None and streaming_epochs.is_committed(self.path, epoch)

    def _lock(self) -> Lock:
        """Lock the log directory, so that it does not change while it is checked. Create it if it does not exist."""
        if not storage.exists(self.path) or not LogDirFiles.is_root(storage.list_directory(self.path)):
            open_or_create(self.path).close()
        return Lock(f"{self.path}/{checkpoints.LOCK}")

    def _describe_staging(self) -> Staging:
        found = LogDirs(self.path)
        partitions = self._partitions(found, self.topics)
        if self.others is not None:
            partitions = {**partitions_of(found), **partitions}
        return Staging(
            path=os.path.abspath(self._staging_path),
            token=uuid.uuid4().hex,
            topic=next(iter(self.topics)) if len(self.topics) == 1 and self.others is None else None,
            partitions=partitions,
            others=None if self.others is None or needs_ids(found) else len(self.others.numbers()),
            encoding=self.encoding,
        )

    def _partitions(self, found: LogDirs, topics: Mapping[str, NewTopic]) -> dict[str, tuple[int, ...]]:
        """Return the partitions that topics have, or will have.

        Raises:
            FileExistsError: `only_new` refuses an existing topic.
            ValueError: a topic cannot be created, or exists with other properties.
        """
        before = partitions_of(found)
        self._check_only_new(before)
        ids = topics_by_id(found) if any(new.topic_id for new in topics.values()) else {}
        needs_id = needs_ids(found)
        file_names.check_topic_names([topic for topic in topics if self.overwrite or topic not in before], before)
        partitions = {}
        for topic, new in topics.items():
            if self.overwrite or topic not in before:
                check_new_id(found, topic, new, ids, needs_id=needs_id)
                partitions[topic] = new.numbers(before.get(topic, ()))
            else:
                if topic in self.topics:
                    check_present(found, topic, new, before[topic])
                partitions[topic] = before[topic]
            # Check new partitions, too, and those that an overwritten topic loses.
            check_replaceable(self.path, topic, {*before.get(topic, ()), *partitions[topic]})
        return partitions

    def _check_only_new(self, before: Iterable[str]) -> None:
        existing = sorted(set(before) & self.topics.keys() if self.topics else before) if self.only_new else []
        if existing:
            raise FileExistsError(
                f"{self.path} has topic {listed_few(existing)} already, and this write may only create topics. "
                "Append to existing topics, overwrite them, or choose another path or topic"
            )

    def _prepare_staging(self) -> None:
        """If the write resumes, remove the files of an interrupted commit. Refuse a staging directory with other files.

        Raises:
            ValueError: the staging directory is gone or changed.
        """
        if self.resumes:
            self._remove_staged()
        # A broker creates files in a directory that it is about to delete.
        if not storage.exists(self._staging_path) or storage.list_directory(self._staging_path) != [DIRECTORY]:
            raise ValueError(
                f"{self._staging_path} is gone or changed: a broker was started meanwhile and deleted it, or the "
                "streaming query was started a second time; write again"
            )

    def _remove_staged(self) -> None:
        """Remove all files except the parts. The lock prevents any other commit."""
        for name in storage.list_directory(self._staging_path) if storage.exists(self._parts_path) else ():
            if name != DIRECTORY:
                path = f"{self._staging_path}/{name}"
                (disk.remove_tree if storage.is_directory(path) else disk.remove)(path)

    def _plan(self, directory: LogDirWriter, parts: list[Part]) -> _CommitPlan:
        """Decide which topics are new, and which parts each partition gets.

        Raises:
            ValueError: rows were divided among other partitions than a topic has now.
        """
        present = by_topic(directory.partitions())
        topics = self._topics(parts)
        for topic in topics:
            file_names.check_writable_topic(topic, is_copy=self.encoding.keep_offsets)
        partitions = self._partitions(LogDirs(self.path), topics)
        check_divided(parts, partitions)
        new_topics = {topic: new for topic, new in topics.items() if self.overwrite or topic not in present}
        # New partitions without rows are staged, too.
        of_partitions: dict[tuple[str, int], list[Part]] = {
            (topic, number): [] for topic in new_topics for number in partitions[topic]
        }
        for part in parts:
            of_partitions.setdefault((part.topic, part.partition), []).append(part)
        return _CommitPlan(new_topics, partitions, of_partitions)

    def _topics(self, parts: Iterable[Part]) -> dict[str, NewTopic]:
        """Return the topics of the write, including those without rows and those that only rows name."""
        if self.others is None:
            return dict(self.topics)
        return {**{part.topic: self.others for part in parts}, **self.topics}

    def _stage_topics(self, directory: LogDirWriter, plan: _CommitPlan) -> dict[str, tuple[str | None, TopicConfig]]:
        """Stage the files that describe the new topics, and return the id and the settings of each."""
        return stage_topics(directory, self._staging_path, plan.new_topics, plan.partitions)

    def _stage_logs(
        self,
        directory: LogDirWriter,
        plan: _CommitPlan,
        new_topics: Mapping[str, tuple[str | None, TopicConfig]],
        *,
        is_epoch: bool,
        threads: int | None,
    ) -> dict[str, list[str]]:
        """Stage the partitions' directories with the parts appended, and return the names of the files in each."""
        # Opened one after the other: a log directory does not support several threads.
        config: dict[str, Mapping[str, Any]] = {topic: new.config for topic, new in self.topics.items()}
        present = {key: directory.log(*key, **config.get(key[0], {})) for key in plan.parts if key[0] not in new_topics}
        for log in present.values():
            log.close()

        def stage(key: tuple[str, int]) -> tuple[str, list[str]]:
            to = f"{self._staging_path}/{key[0]}-{key[1]}"
            if key in present:
                log = copied_log(present[key], to, plan.parts[key], is_epoch=is_epoch)
            else:
                log = new_log(to, *new_topics[key[0]])
            with log:
                append_parts(log, plan.parts[key], self.encoding, keep=self.resumes)
            return os.path.basename(to), sorted(storage.list_directory(to))

        if threads == 1:
            return dict(map(stage, plan.parts))
        with Threads(threads) as pool:
            return dict(pool.map(stage, plan.parts))

    def _stage_origin(
        self,
        directory: LogDirWriter,
        topics: Mapping[str, tuple[str | None, TopicConfig]],
        epoch: Epoch | None,
        restoration: Restoration | None,
    ) -> None:
        """Stage the files by which a repeated streaming epoch or restore is recognised as committed."""
        if restoration is not None:
            ids = {topic: topic_id for topic, (topic_id, _) in topics.items()}
            restoration.stage(directory, self._staging_path, ids)
        if epoch is not None:
            path = f"{self._staging_path}/{streaming_epochs.FILE}"
            disk.atomic_write(path, streaming_epochs.content_with(self.path, epoch))

    def _check_staged(self, staged: Mapping[str, list[str]]) -> None:
        """Make the names in the staging directory durable, and refuse files that were not staged.

        Args:
            staged: the names of the files in each staged partition directory.

        Raises:
            ValueError: files are missing, or were added.
        """
        disk.sync_directory(self._staging_path)
        names = set(storage.list_directory(self._staging_path))
        found = {
            name: sorted(storage.list_directory(f"{self._staging_path}/{name}")) if name in names else None
            for name in staged
        }
        if (
            found != staged
            or not names - {DIRECTORY}
            or names - staged.keys() - {DIRECTORY, *commit_journal.ROOT_FILES}
        ):
            raise ValueError(f"{self._staging_path} has changed during its commit: another process works in it")

    def _replace_logs(self, directory: LogDirWriter, plan: _CommitPlan, staged: Mapping[str, list[str]]) -> None:
        """Replace the present directories with the staged ones: the commit point."""
        gone = gone_directories(self.path, plan.new_topics, staged)
        directory.commit(self.staging, unique=uuid.uuid4().hex, gone=gone)

    def _clean_up(self, directory: LogDirWriter, epoch: Epoch | None) -> None:
        """Remove this write's staging directory and earlier ones. Close the log directory even if that fails."""
        query = "" if epoch is None else epoch.query
        with contextlib.ExitStack() as closing:
            # The last callback runs first, and each runs even if the one before is interrupted.
            for finish in (directory.close, partial(self._remove_leftovers, self.owner, query), self.abort):
                closing.callback(self._finish, finish)

    def _finish(self, finish: Callable[[], None]) -> None:
        try:
            finish()
        except Exception as error:  # noqa: BLE001 - whatever it is, the rows are in force
            note(f"the rows written to {self.path} are in force, but cleaning up failed: {error}")

    @property
    def _owned(self) -> str:
        """The digits with which the names of the owner's staging directories begin."""
        return hashlib.sha256(self.owner.encode()).hexdigest()[:16] if self.owner else ""

    def _remove_leftovers(self, owner: str, query: str) -> None:
        """Remove the staging directories of earlier writes of an owner or a query. Needs the lock.

        If such an earlier write is still running, its commit then fails.
        """
        failed: OSError | None = None
        for name in storage.list_subdirectories(self.path) if owner or query else ():
            if name.startswith(f"{_STAGING}-0.") and name.endswith("-delete"):
                is_owned = bool(owner) and name.startswith(f"{_STAGING}-0.{self._owned}")
                if is_owned or (query and storage.exists(claim(f"{self.path}/{name}", query))):
                    try:
                        self._remove(name)
                    except OSError as error:
                        failed = failed or error
        if failed is not None:
            raise failed

    def _remove(self, staging: str) -> None:
        """Remove a staging directory, in which tasks that are being killed may still make and remove parts.

        A rename first hides it from these tasks. The new name belongs to the same owner or query. So after a crash, the
        next write of that owner or query removes the directory; without such a write, a broker removes it.
        """
        path = f"{self.path}/{staging}"
        removed = f"{path[: -len('-delete') - 16]}{uuid.uuid4().hex[:16]}-delete"
        try:
            disk.rename(path, removed)
        except FileNotFoundError:
            # The next write was faster.
            return
        except OSError:
            # Some file systems rename no directory with open files.
            removed = path
        disk.remove_tree(removed)


def _with_patience(seconds: float, call: Callable[[], _T]) -> _T:
    """Retry a call while another writer has the log directory, for this many seconds."""
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except LogInUseError:
            if time.monotonic() >= end:
                raise
            time.sleep(_PAUSE)
