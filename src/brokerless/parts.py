"""Parts of a write: what one task makes of its rows, a file of batches for each partition, with offsets from 0.

Parts are written into the staging directory of the write, in whatever process and on whatever machine that sees it.
Each attempt at a task has files of its own, and a producer id of its own if it has one. The commit takes the parts that
it is told of and no other (`brokerless.committing`).
"""

from __future__ import annotations

import socket
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from brokerless import _native, disk, storage
from brokerless.log.transactional_ids import new_producer_id
from brokerless.partitioner import Partitioner, join

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

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
        partition: where it goes.
        size: bytes.
        records: how many.
        producer_id: whose; -1: nobody's.
        first_offset: of the first row; -1: offsets are assigned by the commit.
        last_offset: likewise, of the last row.
    """

    path: str
    partition: int
    size: int = 0
    records: int = 0
    producer_id: int = -1
    first_offset: int = -1
    last_offset: int = -1


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


class PartWriter:
    """Writes the parts of one attempt at a task.

    Args:
        staging: the staging directory.
        token: the name of a file there that only this write has.
        topic: for messages.
        partitions: those of the topic, ascending.
        encoding: how rows become batches.

    Raises:
        ValueError: the directory is not visible here, or is that of another write.
    """

    def __init__(self, staging: str, *, token: str, topic: str, partitions: Sequence[int], encoding: Encoding) -> None:
        if not storage.exists(f"{staging}/{DIRECTORY}/{token}"):
            raise ValueError(
                f"{staging} is not to be seen on {socket.gethostname()}: the path has to be a directory that the "
                "driver and all executors share; or a broker was started on it, which deletes what is not whole"
            )
        self._prefix = f"{staging}/{DIRECTORY}/{uuid.uuid4().hex}"
        self._encoding = encoding
        self._producer_id = new_producer_id() if encoding.has_producer else -1
        self._partitioner = Partitioner(topic, partitions, encoding.batch_size)
        self._encoders: dict[int, _native.Encoder] = {}
        self._parts: dict[int, Part] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0

    def send(self, rows: pa.RecordBatch) -> None:
        """Take rows, with the columns that `Producer.send` takes.

        Raises:
            ValueError: rows that cannot be sent, or, if they keep their offsets, that do not ascend.
        """
        if rows.num_rows:
            self._waiting.append(rows)
            self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= _MAX_WAITING:
            self._write()

    def finish(self) -> tuple[Part, ...]:
        """Write what waits, and return the parts, by partition."""
        self._write()
        return tuple(self._parts[partition] for partition in sorted(self._parts))

    def _write(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if waiting:
            for partition, rows in self._partitioner.divide(join(waiting)):
                self._append(partition, rows)

    def _append(self, partition: int, rows: pa.RecordBatch) -> None:
        part = self._parts.get(partition)
        if part is None:
            part = Part(path=f"{self._prefix}-{partition}", partition=partition, producer_id=self._producer_id)
            self._encoders[partition] = self._encoding.encoder(self._producer_id)
            disk.create(part.path).close()
        first, last = part.first_offset, part.last_offset
        if self._encoding.keep_offsets:
            bounds: Any = pc.min_max(rows["offset"])
            least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
            if least is None:
                raise ValueError("rows that keep their offsets need an offset each, and there is a null")
            if part.records and least <= last:
                raise ValueError(f"offset {least} of partition {partition} after offset {last}: {_SORT}")
            first, last = least if first < 0 else first, greatest
            if pc.any(pc.less_equal(rows["offset"][1:], rows["offset"][:-1])).as_py():
                raise ValueError(f"offsets of partition {partition} do not rise: {_SORT}")
        batches = self._encoders[partition].encode(rows, timestamp=time.time_ns() // 1_000_000)
        # Not kept open: a task may write to more partitions than a process may have files.
        with disk.open_existing(part.path) as output:
            output.append(batches)
        self._parts[partition] = Part(
            path=part.path,
            partition=partition,
            size=part.size + memoryview(batches).nbytes,
            records=part.records + rows.num_rows,
            producer_id=self._producer_id,
            first_offset=first,
            last_offset=last,
        )
