"""Parts of a write: what one task makes of its rows, a file of batches for each partition, with offsets from 0.

Parts are written into the staging directory of the write, in whatever process and on whatever machine that sees it.
Each attempt at a task has files of its own, and a producer id of its own if it has one. The commit takes the parts that
it is told of and no other (`brokerless.commit.atomic_write`).
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

DIRECTORY = "parts"
# Rows wait up to this many bytes, so that small Arrow batches make the same batches as large ones.
_MAX_WAITING = 4 << 20
_SORT = (
    "sort the rows of each task by partition and offset (repartition by partition, then sortWithinPartitions by both)"
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A file of batches for one partition. Picklable.

    Attributes:
        path: the file.
        topic: where it goes.
        partition: likewise.
        among: the `fingerprint` of the topic's partitions, among which rows were divided.
        size: bytes.
        records: how many.
        producer_id: whose; -1: nobody's.
        first_offset: of the first row; -1: offsets are assigned by the commit.
        last_offset: likewise, of the last row.
        leader_epoch: the greatest of rows that keep their offsets; -1: none has one.
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
    """How rows become batches. Picklable.

    Attributes:
        compression: "none", "gzip", "snappy", "lz4" or "zstd".
        batch_size: bytes at which a batch is closed.
        idempotent: batches have a producer id and sequences.
        transactional: they are part of a transaction, too.
        keep_offsets: rows keep their `offset`, and `leaderEpoch` and `timestampType` if they have them.

    Raises:
        ValueError: a combination that cannot be.
    """

    compression: str = "none"
    batch_size: int = 16384
    idempotent: bool = False
    transactional: bool = False
    keep_offsets: bool = False

    def __post_init__(self) -> None:
        if self.keep_offsets and self.has_producer:
            raise ValueError("rows that keep their offsets are a copy: no sequence or transaction is given to them")
        if self.batch_size < 1:
            raise ValueError(f"batch_size {self.batch_size}: at least 1 needed")
        self.encoder(0 if self.has_producer else -1)

    @property
    def has_producer(self) -> bool:
        """Whether batches have a producer id."""
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
    """Where the tasks of a write put their parts. Picklable: each attempt at a task calls `writer`.

    Attributes:
        path: the staging directory.
        token: the name of a file there that only this write has.
        topic: where rows without a column `topic` go; None: they need one.
        partitions: those that each topic has, or will have, ascending.
        others: how many partitions a topic gets that is in neither; None: rows cannot go to one.
        encoding: how rows become batches.
    """

    path: str
    token: str
    topic: str | None
    partitions: Mapping[str, tuple[int, ...]]
    others: int | None
    encoding: Encoding

    def to_json(self) -> bytes:
        """Return it as text."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Take such a text apart."""
        described = json.loads(content)
        described["partitions"] = {topic: tuple(numbers) for topic, numbers in described["partitions"].items()}
        return cls(**{**described, "encoding": Encoding(**described["encoding"])})

    def writer(self, query: str = "") -> PartWriter:
        """Return what one attempt at a task writes its parts with.

        Args:
            query: the streaming query whose epoch this is. A later commit of that query removes what is left of this
                write.

        Raises:
            ValueError: the staging directory is not visible here, or is that of another write.
        """
        writer = PartWriter(self)
        if query:
            with contextlib.suppress(FileExistsError):
                disk.create(claim(self.path, query)).close()
        return writer

    def partitions_of(self, topic: str) -> tuple[int, ...]:
        """Return the partitions that a topic has, or will have.

        Raises:
            ValueError: it is not there, and cannot be made; or it cannot be written to: `check_replaceable`.
        """
        if topic in self.partitions:
            check_replaceable(os.path.dirname(self.path), topic, self.partitions[topic])
            file_names.check_writable_topic(topic, is_copy=self.encoding.keep_offsets)
            return self.partitions[topic]
        file_names.check_topic_name(topic)
        if self.others is None or topic == file_names.METADATA_TOPIC:
            raise ValueError(
                f"rows cannot go to topic {topic!r}: it is not there, and this write does not make it; where a cluster "
                "has been started on the directory, create the topic there, and name it with its id"
            )
        file_names.check_writable_topic(topic, is_copy=self.encoding.keep_offsets)
        return tuple(range(self.others))


def fingerprint(partitions: Sequence[int]) -> str:
    """Return what tells a topic's partitions from others, and stays small: each part of each task has it."""
    digest = hashlib.sha256(",".join(map(str, partitions)).encode()).hexdigest()
    return f"{len(partitions)}-{digest[:16]}"


def check_divided(parts: Iterable[Part], partitions: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse rows of other partitions; a topic that another write has made as this one would is as good.

    Raises:
        ValueError: a topic has not the partitions that its rows were divided among.
    """
    for topic, among in {(part.topic, part.among) for part in parts}:
        if fingerprint(partitions[topic]) != among:
            raise ValueError(
                f"rows were divided among {among.partition('-')[0]} partitions of topic {topic!r}, and now there are "
                f"{len(partitions[topic])}, or others: it has changed since the write was begun; write again"
            )


def check_replaceable(root: str, topic: str, partitions: Iterable[int]) -> None:
    """Check that partitions of a log directory are no links: a commit puts directories in the place of theirs.

    Raises:
        ValueError: one is.
    """
    for partition in partitions:
        check_no_link(f"{root}/{topic}-{partition}")


def check_no_link(path: str) -> None:
    """Check that a partition directory that a commit replaces is no link.

    Raises:
        ValueError: it is one.
    """
    target = storage.link_target(path)
    if target is not None:
        raise ValueError(
            f"{path} is a symbolic link: a write would put a directory in its place, and leave {target} behind. "
            "Move that directory to where the link is; or append with a Producer (`brokerless produce`), which "
            "writes where the link leads"
        )


def claim(staging: str, query: str) -> str:
    """Return the path of the file that says that a staging directory is a streaming query's."""
    return f"{staging}/{DIRECTORY}/query-{hashlib.sha256(query.encode()).hexdigest()}"


class PartWriter:
    """Writes the parts of one attempt at a task: see `Staging.writer`."""

    def __init__(self, staging: Staging) -> None:
        if not storage.exists(f"{staging.path}/{DIRECTORY}/{staging.token}"):
            raise ValueError(
                f"{staging.path} is not to be seen on {socket.gethostname()}: the path has to be a directory that the "
                "driver and all executors share; or a broker was started on it, which deletes what is not whole"
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
        """Take rows, with the columns that `Producer.send` takes, and `topic`.

        Raises:
            ValueError: rows that cannot be sent, or, if they keep their offsets, that do not ascend.
        """
        keep_offsets = self._staging.encoding.keep_offsets
        for batch in _native.RecordRows(rows, keep_offsets=keep_offsets, topic="topic" in rows.schema.names):
            self._waiting.append(batch)
            self._waiting_bytes += batch.nbytes
            if self._waiting_bytes >= _MAX_WAITING:
                self._write()

    def finish(self) -> tuple[Part, ...]:
        """Write what waits, and return the parts, by topic and partition.

        Raises:
            ValueError: as of `send`, or the staging directory is gone.
        """
        self._write()
        return tuple(self._parts[key] for key in sorted(self._parts))

    def abort(self) -> None:
        """Remove what was written: no commit is told of it."""
        directory, prefix = os.path.split(self._prefix)
        # It may be gone, with its staging directory.
        with contextlib.suppress(FileNotFoundError):
            for name in storage.list_directory(directory):
                if name.startswith(prefix):
                    disk.remove(f"{directory}/{name}")

    def _write(self) -> None:
        try:
            self._write_waiting()
        except FileNotFoundError as error:
            raise ValueError(
                f"{self._staging.path} is gone: a broker was started meanwhile, which deletes it, or the streaming "
                "query a second time, which has gone on without this epoch; or the job was given up"
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
                raise ValueError("rows have no column topic, and the write is not to one topic")
            yield self._staging.topic, rows
            return
        topics: Any = rows["topic"].cast(pa.string())
        if topics.null_count:
            raise ValueError(f"{topics.null_count} rows have a null in column topic: each needs a topic")
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
        # Not kept open: a task may write to more partitions than a process may have files.
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
        # Numbered: a topic's name would not fit into that of a file.
        path = f"{self._prefix}-{len(self._parts)}"
        disk.create(path).close()
        self._encoders[topic, partition] = self._staging.encoding.encoder(self._producer_id)
        among = fingerprint(self._staging.partitions_of(topic))
        return Part(path=path, topic=topic, partition=partition, among=among, producer_id=self._producer_id)
