"""The parts of a write: one task's rows as files of batches, one for each partition, with offsets from 0.

Tasks write parts into the staging directory of the write, in any process on any machine that sees the directory. Each
attempt at a task has its own files, and its own producer id if batches have one. The commit appends only the parts that
its caller passes, and ignores all other parts (`brokerless.staging.atomic_write`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import uuid
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.io import disk, storage
from brokerless.io.clock import now_ms
from brokerless.layout import file_names
from brokerless.log_dir.transactional_ids import new_producer_id
from brokerless.produce.partitioner import Partitioner, join
from brokerless.produce.rows import check_rising, check_times
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

DIRECTORY = "parts"
# Up to this many bytes of rows are buffered, so that small Arrow batches become the same Kafka batches as large ones.
_MAX_WAITING = 4 << 20
_SORT = (
    "sort the rows of each task by partition and offset (repartition by partition, then sortWithinPartitions by both)"
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A file of batches for one partition. Picklable.

    Attributes:
        path: the file.
        topic: the topic of its rows.
        partition: the partition of its rows.
        among: the `fingerprint` of the partitions among which the topic's rows were divided.
        size: the size in bytes.
        records: the number of records.
        producer_id: the producer id of the batches; -1 without one.
        first_offset: the offset of the first row; -1 if the commit assigns the offsets.
        last_offset: the offset of the last row; -1 if the commit assigns the offsets.
        leader_epoch: the greatest leader epoch of rows that keep their offsets; -1 without one.
    """

    path: str
    topic: str
    partition: int
    among: str
    size: int = 0
    records: int = 0
    producer_id: int = -1
    first_offset: int = -1
    last_offset: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """The encoding of rows as batches. Picklable.

    Attributes:
        compression: "none", "gzip", "snappy", "lz4" or "zstd".
        batch_size: the size in bytes at which a batch is closed.
        idempotent: batches have a producer id and sequences.
        transactional: batches also belong to a transaction.
        keep_offsets: rows keep their `offset`, and `leaderEpoch` and `timestampType` if they have them.

    Raises:
        ValueError: the options do not fit together.
    """

    compression: str = "none"
    batch_size: int = 16384
    idempotent: bool = False
    transactional: bool = False
    keep_offsets: bool = False

    def __post_init__(self) -> None:
        if self.keep_offsets and self.has_producer:
            raise ValueError("rows that keep their offsets are a copy, and cannot get a sequence or a transaction")
        if self.batch_size < 1:
            raise ValueError(f"{option('batch_size')} {self.batch_size}: at least 1 needed")
        self.encoder(0 if self.has_producer else -1)

    @property
    def has_producer(self) -> bool:
        """True if batches have a producer id."""
        return self.idempotent or self.transactional

    def encoder(self, producer_id: int) -> _native.Encoder:
        """Return an encoder for one partition."""
        sequence = 0 if self.has_producer else -1
        return _native.Encoder(
            compression=self.compression,
            batch_size=self.batch_size,
            keep_offsets=self.keep_offsets,
            partition_leader_epoch=0 if self.keep_offsets else -1,
            producer_id=producer_id,
            producer_epoch=sequence,
            base_sequence=sequence,
            is_transactional=self.transactional,
        )


@dataclass(frozen=True, kw_only=True)
class Staging:
    """The staging directory of a write, for its tasks. Picklable: each attempt at a task calls `writer`.

    Attributes:
        path: the staging directory.
        token: the name of a file in `path` that is unique to this write.
        topic: the topic of rows without a column `topic`; None if rows need the column.
        partitions: the partitions that each topic has, or will have, ascending.
        others: the number of partitions that any other topic gets; None to refuse rows for other topics.
        encoding: the encoding of rows as batches.
    """

    path: str
    token: str
    topic: str | None
    partitions: Mapping[str, tuple[int, ...]]
    others: int | None
    encoding: Encoding

    def to_json(self) -> bytes:
        """Return this object as JSON, for `from_json`."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Parse the result of `to_json`."""
        described = json.loads(content)
        described["partitions"] = {topic: tuple(numbers) for topic, numbers in described["partitions"].items()}
        return cls(**{**described, "encoding": Encoding(**described["encoding"])})

    def writer(self, query: str = "") -> PartWriter:
        """Return the writer of one attempt at a task.

        Args:
            query: the streaming query whose epoch is written. A later commit of the query removes the staging directory
                if this write never commits.

        Raises:
            ValueError: the staging directory is not visible here, or belongs to another write.
        """
        writer = PartWriter(self)
        if query:
            with contextlib.suppress(FileExistsError):
                disk.create(claim(self.path, query)).close()
        return writer

    def partitions_of(self, topic: str) -> tuple[int, ...]:
        """Return the partitions that a topic has, or will have.

        Raises:
            ValueError: the topic does not exist and cannot be created, or cannot be written to (`check_replaceable`).
        """
        if topic in self.partitions:
            check_replaceable(os.path.dirname(self.path), topic, self.partitions[topic])
            file_names.check_writable_topic(topic, is_copy=self.encoding.keep_offsets)
            return self.partitions[topic]
        file_names.check_topic_name(topic)
        if self.others is None or topic == file_names.METADATA_TOPIC:
            raise ValueError(
                f"rows cannot go to topic {topic!r}: it does not exist, and this write does not create it; if a "
                "cluster has been started on the directory, create the topic there, and name it with its id"
            )
        file_names.check_writable_topic(topic, is_copy=self.encoding.keep_offsets)
        return tuple(range(self.others))


def fingerprint(partitions: Sequence[int]) -> str:
    """Return a short digest of a topic's partitions. It is in each part, so that a commit detects other partitions."""
    digest = hashlib.sha256(",".join(map(str, partitions)).encode()).hexdigest()
    return f"{len(partitions)}-{digest[:16]}"


def check_divided(parts: Iterable[Part], partitions: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse rows of a topic that another write has created meanwhile, with other partitions than these rows expect.

    Raises:
        ValueError: a topic does not have the partitions among which its rows were divided.
    """
    for topic, among in {(part.topic, part.among) for part in parts}:
        if fingerprint(partitions[topic]) != among:
            raise ValueError(
                f"rows were divided among {among.partition('-')[0]} partitions of topic {topic!r}, which now has "
                f"{len(partitions[topic])}, or others: the topic has changed since the write began; write again"
            )


def check_replaceable(root: str, topic: str, partitions: Iterable[int]) -> None:
    """Check that partitions of a log directory are not symbolic links, which a commit would replace by directories.

    Raises:
        ValueError: a partition is a link.
    """
    for partition in partitions:
        check_no_link(f"{root}/{topic}-{partition}")


def check_no_link(path: str) -> None:
    """Check that a partition directory is not a symbolic link, which a commit would replace by a directory.

    Raises:
        ValueError: the directory is a link.
    """
    target = storage.link_target(path)
    if target is not None:
        raise ValueError(
            f"{path} is a symbolic link: a write would replace the link by a directory, and {target} would not get the "
            "rows. Move that directory to the place of the link, or append with a Producer (`brokerless produce`), "
            "which follows the link"
        )


def claim(staging: str, query: str) -> str:
    """Return the path of the file that marks a staging directory as a streaming query's."""
    return f"{staging}/{DIRECTORY}/query-{hashlib.sha256(query.encode()).hexdigest()}"


class PartWriter:
    """Writes the parts of one attempt at a task; see `Staging.writer`."""

    def __init__(self, staging: Staging) -> None:
        if not storage.exists(f"{staging.path}/{DIRECTORY}/{staging.token}"):
            raise ValueError(
                f"{staging.path} is not visible on {socket.gethostname()}: the driver and all executors must share the "
                "directory; or a broker was started on it, and deleted the unfinished write"
            )
        self._staging = staging
        self._prefix = f"{staging.path}/{DIRECTORY}/{uuid.uuid4().hex}"
        self._producer_id = new_producer_id() if staging.encoding.has_producer else -1
        self._partitioners: dict[str, Partitioner] = {}
        self._encoders: dict[tuple[str, int], _native.Encoder] = {}
        self._parts: dict[tuple[str, int], Part] = {}
        self._has_times: bool | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0

    def send(self, rows: pa.RecordBatch) -> None:
        """Accept rows with the columns that `Producer.send` accepts, and `topic`.

        Raises:
            ValueError: a row cannot be sent, or rows that keep their offsets do not ascend.
        """
        keep_offsets = self._staging.encoding.keep_offsets
        for batch in _native.RecordRows(rows, keep_offsets=keep_offsets, topic="topic" in rows.schema.names):
            self._waiting.append(batch)
            self._waiting_bytes += batch.nbytes
            if self._waiting_bytes >= _MAX_WAITING:
                self._write()

    def finish(self) -> tuple[Part, ...]:
        """Write the waiting rows, and return the parts, by topic and partition.

        Raises:
            ValueError: see `send`; or the staging directory is gone.
        """
        self._write()
        return tuple(self._parts[key] for key in sorted(self._parts))

    def abort(self) -> None:
        """Remove the parts, so that no commit appends them."""
        directory, prefix = os.path.split(self._prefix)
        # The staging directory may be gone.
        with contextlib.suppress(FileNotFoundError):
            for name in storage.list_directory(directory):
                if name.startswith(prefix):
                    disk.remove(f"{directory}/{name}")

    def _write(self) -> None:
        try:
            self._write_waiting()
        except FileNotFoundError as error:
            raise ValueError(
                f"{self._staging.path} was deleted: a broker was started meanwhile and deleted it, or the streaming "
                "query was started a second time and continued without this streaming epoch, or the job was cancelled"
            ) from error

    def _write_waiting(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if waiting:
            for topic, of_topic in self._by_topic(join(waiting)):
                if topic not in self._partitioners:
                    partitions = self._staging.partitions_of(topic)
                    self._partitioners[topic] = Partitioner(topic, partitions, self._staging.encoding.batch_size)
                self._partitioners[topic].check(of_topic)
                for partition, rows in self._partitioners[topic].divide(of_topic):
                    self._append(topic, partition, rows)

    def _by_topic(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        if "topic" not in rows.column_names:
            if self._staging.topic is None:
                raise ValueError("rows have no column topic, which they need unless the write has exactly one topic")
            yield self._staging.topic, rows
            return
        topics: Any = rows["topic"].cast(pa.string())
        if topics.null_count:
            raise ValueError(f"{topics.null_count} rows have a null in column topic: each row needs a topic")
        for topic in sorted(pc.unique(topics).to_pylist()):
            yield topic, rows.filter(pc.equal(topics, topic)).drop_columns("topic")

    def _append(self, topic: str, partition: int, rows: pa.RecordBatch) -> None:
        part = self._parts.get((topic, partition)) or self._new_part(topic, partition)
        first, last, epoch = part.first_offset, part.last_offset, part.leader_epoch
        if self._staging.encoding.keep_offsets:
            self._has_times = check_times(rows, before=self._has_times)
            least, greatest = check_rising(rows["offset"], f"{topic}-{partition}", after=last, hint=_SORT)
            first, last = least if first < 0 else first, greatest
            if "leaderEpoch" in rows.schema.names:
                greatest_epoch: int | None = pc.max(rows["leaderEpoch"]).as_py()
                epoch = epoch if greatest_epoch is None else max(epoch, greatest_epoch)
        batches = self._encoders[topic, partition].encode(rows, timestamp=now_ms())
        # Closed each time: a task may write to more partitions than a process may have open files.
        with disk.open_existing(part.path) as output:
            output.append(batches)
        self._parts[topic, partition] = replace(
            part,
            size=part.size + memoryview(batches).nbytes,
            records=part.records + rows.num_rows,
            first_offset=first,
            last_offset=last,
            leader_epoch=epoch,
        )

    def _new_part(self, topic: str, partition: int) -> Part:
        # Numbered: a topic's name may be too long for a file's name.
        path = f"{self._prefix}-{len(self._parts)}"
        disk.create(path).close()
        self._encoders[topic, partition] = self._staging.encoding.encoder(self._producer_id)
        among = fingerprint(self._staging.partitions_of(topic))
        return Part(path=path, topic=topic, partition=partition, among=among, producer_id=self._producer_id)
