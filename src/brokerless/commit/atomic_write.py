"""A write by many tasks to topics of a log directory: all of its rows come into force, or none.

`AtomicWrite.begin` makes a staging directory, tasks write parts there (`brokerless.commit.parts`), and
`AtomicWrite.commit` is the broker: it appends the parts of each partition to a copy of the partition's directory
(`brokerless.commit.staged_logs`), and puts all copies in the place of the old ones at one instant
(`brokerless.layout.journal`).

A crash before the commit point leaves a directory that brokers delete, and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import uuid
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from brokerless.commit.parts import DIRECTORY, Encoding, Staging, check_divided, check_replaceable, claim
from brokerless.commit.staged_logs import append_parts, copied_log, gone_directories, new_log
from brokerless.errors import LogInUseError
from brokerless.io import disk, storage
from brokerless.layout import checkpoints, file_names, journal, streaming_epochs
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from brokerless.commit.parts import Part
    from brokerless.layout.streaming_epochs import Epoch
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log_dir.restoration import Restoration
    from brokerless.log_dir.topics import NewTopic

_T = TypeVar("_T")

# Seconds between two looks at a log directory that another writer has.
_PAUSE = 0.05
# The topic in a staging directory's name. A broker only looks at how the name ends.
_STAGING = "brokerless"
# What a write that is gone on with was begun with.
_DESCRIPTION = "staging.json"


@dataclass(frozen=True, kw_only=True)
class AtomicWrite:
    """What is to be written. Picklable; nothing is looked at or done before `begin`.

    Attributes:
        path: a log directory; made if there is nothing.
        topics: where rows go. A topic that is not there is made. Rows need no column `topic` if there is one only.
        others: what other topics are to be, which rows name in their column `topic`; None: they may name none.
        overwrite: the topics are made anew even if they are there, with other ids, from offset 0.
        encoding: how rows become batches.
        sole_replica: as of `LogDirWriter`.
        owner: of writes that come one after the other: what an earlier one left that never came to its commit is
            removed by a later one's. No other writes may have the name. "": nobody's. Epochs need none: their tasks
            say whose they are (`Staging.writer`).
        attempt: 32 hex digits that no other write has.
        resumes: a write of the same attempt that did not come to its commit is gone on with; its parts stay.

    Raises:
        ValueError: impossible arguments.

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
            raise ValueError("two topics with one id: of these, a broker loads one")
        if self.others is None and not self.topics:
            raise ValueError("a write to no topic")
        if self.others is not None and self.overwrite:
            raise ValueError("only topics that are named are overwritten: rows do not say which are to go")
        if self.others is not None and self.others.topic_id is not None:
            raise ValueError(f"topic id {self.others.topic_id} is one topic's: name the topic")

    @property
    def staging(self) -> str:
        """The name of the staging directory: one that a broker deletes."""
        return file_names.leftover_directory_name(_STAGING, 0, "delete", self._owned + self.attempt[len(self._owned) :])

    def begin(self, *, query: str = "", patience: float = 0) -> Staging:
        """Check what can be checked, make the staging directory, and return what tasks write with.

        Args:
            query: the streaming query whose epoch this is, if known. What its earlier epochs left is removed.
            patience: seconds to wait for another writer.

        Raises:
            LogInUseError: a broker, or another writer, is there.
            ValueError: what is there does not fit.
        """
        lock = _with_patience(patience, self._lock)
        try:
            description = f"{self.path}/{self.staging}/{DIRECTORY}/{_DESCRIPTION}"
            if self.resumes and storage.exists(description):
                return Staging.from_json(storage.read_all(description))
            staging = self._staging()
            with contextlib.suppress(OSError):
                # Of a task that is still being killed, maybe; then the next epoch does it.
                self._remove_left("", query)
            if self.resumes:
                # One that a crash ended before it was described.
                self.abort()
            disk.make_directory(staging.path)
            disk.make_directory(f"{staging.path}/{DIRECTORY}")
            disk.create(f"{staging.path}/{DIRECTORY}/{staging.token}").close()
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
        """Let all rows of these parts come into force, of all topics at one instant.

        Args:
            parts: in the order in which their rows are to be; those that keep their offsets in any.
            epoch: of a streaming query, whose rows these are. If it is in force already, nothing is done.
            restoration: these are the rows of a restore. If it is in force already, nothing is done.
            threads: how many partitions are worked on at a time; None: as there are cores.
            patience: seconds to wait for another writer.

        Raises:
            AppendError: a broker would refuse a batch.
            LogInUseError: a broker, or another writer, is there.
            ValueError: rows were divided among other partitions than a topic has now, or offsets do not fit.

        What goes wrong once the rows are in force is a warning: an error would have them written again. What goes wrong
        before takes with it the parts that were appended, unless the write can be gone on with (`resumes`).
        """
        directory = _with_patience(patience, lambda: LogDirWriter(self.path, sole_replica=self.sole_replica))
        with contextlib.ExitStack() as failing:
            failing.push(directory)
            if not self._is_in_force(epoch, restoration):
                self._commit(directory, list(parts), epoch, restoration, threads)
            failing.pop_all()
        if directory.is_closed:
            # The commit was cut short behind its journal: whoever opens the directory next finishes it.
            return
        remove_left = partial(self._remove_left, self.owner, "" if epoch is None else epoch.query)
        with contextlib.ExitStack() as closing:
            # The last one first, and each of them also if the one before is interrupted.
            for finish in (directory.close, remove_left, self.abort):
                closing.callback(self._finish, finish)

    def _finish(self, finish: Callable[[], None]) -> None:
        try:
            finish()
        except Exception as error:  # noqa: BLE001 - whatever it is, the rows are in force
            warnings.warn(f"what was written to {self.path} is in force; behind that: {error}", stacklevel=2)

    def abort(self) -> None:
        """Remove what was staged; harmless where nothing is, and once it was committed."""
        if storage.exists(f"{self.path}/{self.staging}"):
            disk.remove_tree(f"{self.path}/{self.staging}")

    def _is_in_force(self, epoch: Epoch | None, restoration: Restoration | None) -> bool:
        if restoration is not None:
            return restoration.done(LogDirs(self.path)) == restoration.digests.keys()
        return epoch is not None and streaming_epochs.is_committed(self.path, epoch)

    def _lock(self) -> Lock:
        """Lock the log directory, made if there is nothing: what is looked at must not change meanwhile."""
        if not storage.exists(self.path) or not LogDirFiles.is_root(storage.list_directory(self.path)):
            open_or_create(self.path).close()
        return Lock(f"{self.path}/{checkpoints.LOCK}")

    def _staging(self) -> Staging:
        found = LogDirs(self.path)
        partitions = self._partitions(found, self.topics)
        if self.others is not None:
            partitions = {**partitions_of(found), **partitions}
        return Staging(
            path=os.path.abspath(f"{self.path}/{self.staging}"),
            token=uuid.uuid4().hex,
            topic=next(iter(self.topics)) if len(self.topics) == 1 and self.others is None else None,
            partitions=partitions,
            others=None if self.others is None or needs_ids(found) else len(self.others.numbers()),
            encoding=self.encoding,
        )

    def _partitions(self, found: LogDirs, topics: Mapping[str, NewTopic]) -> dict[str, tuple[int, ...]]:
        """Return the partitions that topics have, or will have.

        Raises:
            ValueError: one cannot be made, or is not what it would be made.
        """
        before = partitions_of(found)
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
            # Also those that are yet to be made, and of an overwritten topic those that go.
            check_replaceable(self.path, topic, {*before.get(topic, ()), *partitions[topic]})
        return partitions

    def _commit(
        self,
        directory: LogDirWriter,
        parts: list[Part],
        epoch: Epoch | None,
        restoration: Restoration | None,
        threads: int | None,
    ) -> None:
        present = by_topic(directory.partitions())
        if self.resumes:
            self._remove_staged()
        self._check_begun()
        topics = self._topics(parts)
        partitions = self._partitions(LogDirs(self.path), topics)
        check_divided(parts, partitions)
        made = {topic: new for topic, new in topics.items() if self.overwrite or topic not in present}
        chosen: dict[tuple[str, int], list[Part]] = {
            (topic, number): [] for topic in made for number in partitions[topic]
        }
        for part in parts:
            chosen.setdefault((part.topic, part.partition), []).append(part)
        if not chosen and epoch is None and restoration is None:
            return
        if restoration is not None:
            restoration.check_empty(directory)
        described = stage_topics(directory, f"{self.path}/{self.staging}", made, partitions)
        staged = self._stage_logs(directory, chosen, described, is_epoch=epoch is not None, threads=threads)
        staging = f"{self.path}/{self.staging}"
        if restoration is not None:
            restoration.stage(directory, staging, {topic: found[0] for topic, found in described.items()})
        if epoch is not None:
            disk.atomic_write(f"{staging}/{streaming_epochs.FILE}", streaming_epochs.content_with(self.path, epoch))
        disk.sync_directory(staging)
        self._check_staged(staged)
        directory.commit(self.staging, unique=uuid.uuid4().hex, gone=gone_directories(self.path, made, staged))

    def _remove_staged(self) -> None:
        """Remove what an earlier commit staged that came to nothing. With the lock: no other commit is at it."""
        staging = f"{self.path}/{self.staging}"
        for name in storage.list_directory(staging) if storage.exists(f"{staging}/{DIRECTORY}") else ():
            if name != DIRECTORY:
                is_directory = storage.is_directory(f"{staging}/{name}")
                (disk.remove_tree if is_directory else disk.remove)(f"{staging}/{name}")

    def _check_staged(self, staged: Mapping[str, list[str]]) -> None:
        """Refuse to let less, or more, come into force than was staged."""
        staging = f"{self.path}/{self.staging}"
        names = set(storage.list_directory(staging))
        found = {
            name: sorted(storage.list_directory(f"{staging}/{name}")) if name in names else None for name in staged
        }
        if found != staged or not names - {DIRECTORY} or names - staged.keys() - {DIRECTORY, *journal.ROOT_FILES}:
            raise ValueError(f"{staging} has changed since its commit was begun: something else works in it")

    def _topics(self, parts: Iterable[Part]) -> dict[str, NewTopic]:
        """Return what the topics are to be: those that are named, even without rows, and those that rows name."""
        if self.others is None:
            return dict(self.topics)
        return {**{part.topic: self.others for part in parts}, **self.topics}

    def _check_begun(self) -> None:
        staging = f"{self.path}/{self.staging}"
        # A broker makes files in what it is about to delete.
        if not storage.exists(staging) or storage.list_directory(staging) != [DIRECTORY]:
            raise ValueError(
                f"{staging} is gone or changed: a broker was started meanwhile, which deletes it, or the streaming "
                "query a second time"
            )

    def _stage_logs(
        self,
        directory: LogDirWriter,
        chosen: Mapping[tuple[str, int], list[Part]],
        made: Mapping[str, tuple[str | None, TopicConfig]],
        *,
        is_epoch: bool,
        threads: int | None,
    ) -> dict[str, list[str]]:
        """Stage the partitions' directories, with the parts appended; return the names of the files in each."""
        # Opened here, one after the other: a log directory is not for several threads.
        config: dict[str, Mapping[str, Any]] = {topic: new.config for topic, new in self.topics.items()}
        continued = {key: directory.log(*key, **config.get(key[0], {})) for key in chosen if key[0] not in made}
        for log in continued.values():
            log.close()

        def stage(key: tuple[str, int]) -> tuple[str, list[str]]:
            to = f"{self.path}/{self.staging}/{key[0]}-{key[1]}"
            if key in continued:
                log = copied_log(continued[key], to, chosen[key], is_epoch=is_epoch)
            else:
                log = new_log(to, *made[key[0]])
            with log:
                append_parts(log, chosen[key], self.encoding, keep=self.resumes)
            return os.path.basename(to), sorted(storage.list_directory(to))

        if threads == 1:
            return dict(map(stage, chosen))
        with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
            return dict(pool.map(stage, chosen))

    @property
    def _owned(self) -> str:
        """The first digits of the names of an owner's staging directories."""
        return hashlib.sha256(self.owner.encode()).hexdigest()[:16] if self.owner else ""

    def _remove_left(self, owner: str, query: str) -> None:
        """Remove what earlier writes of an owner, or of a query, left; a commit of one that is still at it fails.

        With the lock.
        """
        failed: OSError | None = None
        for name in storage.list_subdirectories(self.path) if owner or query else ():
            if name.startswith(f"{_STAGING}-0.") and name.endswith("-delete"):
                is_owned = bool(owner) and name.startswith(f"{_STAGING}-0.{self._owned}")
                if is_owned or (query and storage.exists(claim(f"{self.path}/{name}", query))):
                    try:
                        disk.remove_tree(f"{self.path}/{name}")
                    except OSError as error:
                        failed = failed or error
        if failed is not None:
            raise failed


def _with_patience(seconds: float, call: Callable[[], _T]) -> _T:
    """Make a call again as long as another writer has the log directory."""
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except LogInUseError:
            if time.monotonic() >= end:
                raise
            time.sleep(_PAUSE)
