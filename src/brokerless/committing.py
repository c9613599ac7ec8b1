"""A write by many tasks to one topic of a log directory: all of its rows come into force, or none.

`begin` makes a staging directory, tasks write parts there (`brokerless.parts`), and `Write.commit` is the broker: it
appends the parts of each partition to a copy of the partition's directory, and puts all copies in the place of the old
ones at one instant (`brokerless.log.journal`). A copy is cheap: segments that do not change are hard links, and of the
active one only what is small is copied; parts that are large begin a segment of their own.

A crash before the commit point leaves a directory that brokers delete, and nothing else.
"""

from __future__ import annotations

import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brokerless import _native, disk, storage
from brokerless.cluster_metadata import bootstrap, topic_settings
from brokerless.copying import check_at_rest, copy_file
from brokerless.kraft import Topic
from brokerless.log import files, texts
from brokerless.log.journal import ROOT_FILES
from brokerless.log.open_log import now_ms
from brokerless.log.root import Root
from brokerless.log.segment import segments_in
from brokerless.log.settings import TopicSettings
from brokerless.log.writer import LogWriter
from brokerless.log_dir import LogDir
from brokerless.log_dir_writer import METADATA_TOPIC, LogDirWriter, open_or_create
from brokerless.parts import DIRECTORY, Encoding, PartWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from brokerless.log.writer import Origin
    from brokerless.parts import Part

# A part is read so much at a time; more where a batch is larger.
_BLOCK = 8 << 20
# Parts of at least this share of a segment begin a new one, and the active segment is not copied.
_LARGE = 4


@dataclass(frozen=True, kw_only=True)
class Write:
    """A write that was begun. Picklable: tasks call `writer`, and whoever has all their parts `commit`.

    Attributes:
        path: the log directory.
        topic: written to.
        partitions: those that the topic has, or will have.
        before: those that it had when the write was begun; none: it was not there.
        overwrite: the topic is made anew, with another id.
        encoding: how rows become batches.
        topic_id: of a new topic; None: a random one, or none, as `LogDirWriter.create_topic` has it.
        settings: of a new topic.
        sole_replica: as of `LogDirWriter`.
        unique: 32 hex digits.
    """

    path: str
    topic: str
    partitions: tuple[int, ...]
    before: tuple[int, ...]
    overwrite: bool
    encoding: Encoding
    topic_id: str | None
    settings: TopicSettings
    sole_replica: bool
    unique: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def staging(self) -> str:
        """The name of the staging directory: one that a broker deletes."""
        return files.leftover_directory_name(self.topic, 0, "delete", self.unique)

    @property
    def is_new(self) -> bool:
        """Whether the topic is made by this write."""
        return self.overwrite or not self.before

    def writer(self) -> PartWriter:
        """Return what one attempt at a task writes its parts with.

        Raises:
            ValueError: the staging directory is not visible here.
        """
        return PartWriter(
            f"{self.path}/{self.staging}",
            token=self.unique,
            topic=self.topic,
            partitions=self.partitions,
            encoding=self.encoding,
        )

    def commit(self, parts: Iterable[Part], *, threads: int | None = None) -> None:
        """Let all rows of these parts come into force.

        Args:
            parts: in the order in which their rows are to be; those that keep their offsets in any.
            threads: how many partitions are worked on at a time; None: as there are cores.

        Raises:
            AppendError: a broker would refuse a batch.
            LogInUseError: a broker, or another writer, is there.
            ValueError: the topic has changed since the write was begun, or offsets do not fit.
        """
        chosen: dict[int, list[Part]] = {partition: [] for partition in self.partitions} if self.is_new else {}
        for part in parts:
            chosen.setdefault(part.partition, []).append(part)
        root, staging = self.path, f"{self.path}/{self.staging}"
        with LogDirWriter(root, sole_replica=self.sole_replica) as directory:
            # A broker makes files in what it is about to delete.
            if not storage.exists(staging) or storage.list_directory(staging) != [DIRECTORY]:
                raise ValueError(f"{staging} is gone or changed: a broker was started meanwhile, which deletes it")
            present = tuple(number for topic, number in directory.partitions() if topic == self.topic)
            if present != self.before:
                raise ValueError(
                    f"topic {self.topic!r} had partitions {list(self.before)} when the write was begun, and has "
                    f"{list(present)} now: write again"
                )
            if not chosen:
                self.abort()
                return
            if self.is_new:
                topic_id = self._stage_topic(directory)
                opening = [self._new(partition, topic_id) for partition in chosen]
            else:
                opening = [
                    _continued(directory.log(self.topic, partition), self._staged(partition), wanted)
                    for partition, wanted in chosen.items()
                ]
            work = zip(opening, chosen.values(), strict=True)
            if threads == 1:
                for opened, wanted in work:
                    self._append_all(opened, wanted)
            else:
                with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
                    list(pool.map(lambda args: self._append_all(*args), work))
            disk.sync_directory(staging)
            gone = [f"{self.topic}-{number}" for number in self.before if self.is_new and number not in chosen]
            directory.commit(self.staging, unique=uuid.uuid4().hex, gone=gone)

    def abort(self) -> None:
        """Remove what was staged; harmless where nothing is, and once it was committed."""
        if storage.exists(f"{self.path}/{self.staging}"):
            disk.remove_tree(f"{self.path}/{self.staging}")

    def _staged(self, partition: int) -> str:
        return f"{self.path}/{self.staging}/{self.topic}-{partition}"

    def _stage_topic(self, directory: LogDirWriter) -> str | None:
        """Stage what the log directory's own files will say of the new topic; return its id."""
        staging = f"{self.path}/{self.staging}"
        topic_id = self.topic_id
        described = bootstrap(self.path, directory.node_id)
        if described is not None:
            others = {topic.topic_id for name, topic in described.topics.items() if name != self.topic}
            topic_id = topic_id or texts.random_id()
            if topic_id in others:
                raise ValueError(f"topic id {topic_id} is another topic's")
            epochs = dict.fromkeys(self.partitions, 0)
            described.topics[self.topic] = Topic(topic_id, self.settings.to_configs(), epochs)
            disk.atomic_write(f"{staging}/{texts.BOOTSTRAP}", described.format(timestamp=now_ms()))
        if self.before:
            # What is known of the old logs is not true of the new ones.
            directory.checkpoint()
            for name in ROOT_FILES:
                if name != texts.BOOTSTRAP and storage.exists(f"{self.path}/{name}"):
                    known = texts.parse_offset_checkpoint(storage.read_all(f"{self.path}/{name}"))
                    kept = {key: offset for key, offset in known.items() if key[0] != self.topic}
                    disk.atomic_write(f"{staging}/{name}", texts.format_offset_checkpoint(kept))
        return topic_id

    def _new(self, partition: int, topic_id: str | None) -> Callable[[], LogWriter]:
        def opened() -> LogWriter:
            to = self._staged(partition)
            disk.make_directory(to)
            if topic_id is not None:
                disk.atomic_write(f"{to}/{texts.PARTITION_METADATA}", texts.format_partition_metadata(topic_id))
            return LogWriter.open(to, settings=self.settings, is_clean=True, leader_epoch=0)

        return opened

    def _append_all(self, opened: Callable[[], LogWriter], parts: Sequence[Part]) -> None:
        with opened() as log:
            if self.encoding.keep_offsets:
                parts = sorted(parts, key=lambda part: part.first_offset)
            end = log.log_end_offset
            for part in parts:
                if self.encoding.keep_offsets:
                    if part.first_offset < end:
                        raise ValueError(
                            f"offsets {part.first_offset} to {part.last_offset} of {self.topic}-{part.partition} are "
                            f"to come behind {end - 1}: each task's offsets of a partition have to be apart from the "
                            "others', and behind what is there (repartition by partition, then sortWithinPartitions)"
                        )
                    end = part.last_offset + 1
                self._append(log, part)

    def _append(self, log: LogWriter, part: Part) -> None:
        position, wanted = 0, _BLOCK
        origin: Origin = "replication" if self.encoding.keep_offsets else "client"
        with storage.File(part.path) as file:
            if file.size() != part.size:
                raise ValueError(f"{part.path} has {file.size()} bytes, and its task wrote {part.size}")
            while position < part.size:
                content = file.read(position, wanted)
                appended = log.append_each(content, origin=origin)
                if appended.duplicates:
                    raise ValueError(f"producer id {part.producer_id} has written to {log.directory} before")
                wanted = _BLOCK if appended.consumed else 2 * wanted
                position += appended.consumed
                if not appended.consumed and len(content) == part.size - position:
                    raise ValueError(f"{part.path} ends in the middle of a batch")
        if self.encoding.transactional:
            marker = _native.end_transaction_marker(
                commit=True, producer_id=part.producer_id, producer_epoch=0, timestamp=now_ms()
            )
            log.append(marker, origin="coordinator")


def begin(
    path: str,
    topic: str,
    *,
    overwrite: bool = False,
    partitions: int | None = None,
    topic_id: str | None = None,
    segment_bytes: int | None = None,
    encoding: Encoding | None = None,
    sole_replica: bool = False,
) -> Write:
    """Begin a write to a topic: check what can be, and make the staging directory.

    Args:
        path: a log directory; made if there is nothing.
        topic: made if it is not there.
        overwrite: make it anew even if it is there, with another id, from offset 0.
        partitions: of a new topic, by default as many as it had, or 1; checked against one that is there.
        topic_id: of a new topic: needed where its cluster has been started on the directory.
        segment_bytes: of a new topic.
        encoding: how rows become batches.
        sole_replica: as of `LogDirWriter`.

    Raises:
        LogInUseError: a broker, or another writer, is there.
        ValueError: impossible arguments.

    >>> write = begin(NEW, "orders", partitions=2)
    >>> task = write.writer()
    >>> import pyarrow as pa
    >>> task.send(pa.RecordBatch.from_pylist([{"key": b"a", "value": b"1"}, {"key": b"b", "value": b"2"}]))
    >>> write.commit(task.finish())
    >>> sum(len(rows) for log in LogDir(NEW).logs() for rows in log.read())
    2
    """
    disk.check_local(path)
    if topic == METADATA_TOPIC:
        raise ValueError(f"{METADATA_TOPIC} is the Raft layer's: its records are not written here")
    if partitions is not None and partitions < 1:
        raise ValueError(f"{partitions} partitions: at least 1 needed")
    files.check_topic_name(topic)
    path = os.path.abspath(path)
    if not storage.exists(path) or not Root.is_root(storage.list_directory(path)):
        open_or_create(path).close()
    check_at_rest(Root(path))
    found = LogDir(path)
    before = _partitions(found, topic)
    settings = TopicSettings()
    if before:
        settings = topic_settings(path, Root(path).node_id).get(topic, settings)
    if overwrite or not before:
        _check_new(found, topic, topic_id)
        settings = settings.with_keywords({} if segment_bytes is None else {"segment_bytes": segment_bytes})
    elif partitions is not None and partitions != len(before):
        raise ValueError(f"topic {topic!r} has {len(before)} partitions, not {partitions}")
    elif topic_id is not None or segment_bytes is not None:
        raise ValueError(f"topic {topic!r} exists: a topic id and segment sizes are for one that is made now")
    write = Write(
        path=path,
        topic=topic,
        partitions=before if partitions is None and before else tuple(range(partitions or 1)),
        before=before,
        overwrite=overwrite,
        encoding=encoding or Encoding(),
        topic_id=topic_id,
        settings=settings,
        sole_replica=sole_replica,
    )
    staging = f"{path}/{write.staging}"
    disk.make_directory(staging)
    disk.make_directory(f"{staging}/{DIRECTORY}")
    disk.create(f"{staging}/{DIRECTORY}/{write.unique}").close()
    return write


def _partitions(found: LogDir, topic: str) -> tuple[int, ...]:
    """Return the partitions that a topic has here, or has by the metadata of a new cluster; none: it is not here."""
    known = {log.partition or 0 for log in found.logs([topic])} if topic in found.topics() else set()
    described = bootstrap(found.roots[0].path, found.roots[0].node_id)
    if described is not None and topic in described.topics:
        known.update(described.topics[topic].leader_epochs)
    return tuple(sorted(known))


def _check_new(found: LogDir, topic: str, topic_id: str | None) -> None:
    root = found.roots[0]
    files.check_topic_name(topic, set(found.topics()) - {topic})
    if topic_id is not None:
        texts.check_topic_id(topic_id)
        if topic in found.topics() and topic_id == found.logs([topic])[0].topic_id:
            raise ValueError(f"topic id {topic_id} is that of the old topic {topic!r}: the new one needs another")
    elif root.is_kraft and bootstrap(root.path, root.node_id) is None:
        raise ValueError(
            f"topic {topic!r} needs the id that it has in cluster {root.cluster_id}: create it there, and give its id; "
            "without it a broker renames the directory -stray"
        )


def _continued(log: LogWriter, to: str, parts: Sequence[Part]) -> Callable[[], LogWriter]:
    """Close a log, and return what opens a copy of it that can be appended to while the log stays as it is."""
    log.close()

    def opened() -> LogWriter:
        active = segments_in(log.directory)[-1]
        size = active.size
        is_large = sum(part.size for part in parts) * _LARGE >= log.settings.segment_bytes
        is_rolled = bool(size) and is_large
        disk.make_directory(to)
        for name in sorted(storage.list_directory(log.directory)):
            path = f"{log.directory}/{name}"
            if storage.is_directory(path):
                continue
            base_offset = files.live_base_offset(name)
            is_old = base_offset is not None and base_offset < active.base_offset
            # The active segment's indexes are written to even if its batches are not.
            if is_old or (is_rolled and name == files.segment_file(active.base_offset, files.LOG)):
                _link(path, f"{to}/{name}")
            else:
                copy_file(path, f"{to}/{name}")
        disk.sync_directory(to)
        copied = LogWriter.open(
            to,
            settings=log.settings,
            is_clean=True,
            recovery_point=log.recovery_point,
            log_start_offset=log.log_start_offset,
            leader_epoch=log.leader_epoch,
        )
        if is_rolled:
            copied.roll()
        return copied

    return opened


def _link(path: str, to: str) -> None:
    try:
        disk.link(path, to)
    except OSError:
        copy_file(path, to)
