"""`Producer`: rows to the partitions of a topic, as Kafka's producer sends them.

Rows wait until there are enough of them, are divided among the partitions, become batches of about `batch_size`, and
are appended as produce requests: every check of a broker applies. What was appended is durable after `flush` or
`close`.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, Never, Self

import pyarrow as pa

from brokerless import _native
from brokerless.errors import AppendError, BrokerlessError, InvalidProducerEpochError
from brokerless.log import files
from brokerless.log.open_log import now_ms
from brokerless.log.transactional_ids import new_producer_id
from brokerless.log_dir_writer import LogDirWriter, open_or_create
from brokerless.partitioner import Partitioner, join, without_views
from brokerless.sent_rows import batches_of, check_times
from brokerless.written_topics import NewTopic, check_settings

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from brokerless.log.writer import LogWriter
    from brokerless.sent_rows import Rows

# Rows wait up to this many bytes, so that sending them one by one makes the same batches as sending them together.
_MAX_WAITING = 4 << 20


class Producer:
    """Sends rows to one topic of a log directory, which must not be in use by a broker. Not for several threads.

    A row's partition is that of its `partition` column, or else the one that Kafka's murmur2 gives its key; rows
    without a key go to one partition after the other, a batch each.

    Args:
        path: a log directory, made if there is nothing yet; or one that is open for writing, which is left open.
        topic: made if it is not there.
        partitions: how many a new topic has; checked against one that is there.
        compression: "none", "gzip", "snappy", "lz4" or "zstd".
        compression_level: None for Kafka's default.
        batch_size: bytes at which a batch is closed. A record larger than that has a batch of its own.
        idempotent: give batches a producer id and sequences, so that a broker knows one it has.
        transactional_id: makes the producer transactional, and idempotent: rows are sent between `begin` and `commit`.
            The id stands for one producer id; a new producer with it fences the one before and aborts what that left
            open.
        producer_id: None for a random one in [2^62, 2^63): a broker counts its own from 0, and must never meet ours.
        keep_offsets: rows keep their `offset`, `leaderEpoch` and `timestampType`, gaps too: a copy of a log, taken over
            as a follower does. They need an `offset` and, with several partitions, a `partition` column.
        magic: the message format of the batches: 2, or 1 and 0 for logs of Kafka 2.8 and older.
        topic_id: of a new topic, where a cluster has given it one; checked against that of one that is there.
        sole_replica: no other broker has a replica: do not warn of it (`LogDir.open`).
        settings: the topic's, as keywords (`TopicSettings`); those of one that is there have to be these, where the
            directory tells them.

    Attributes:
        topic: as given.
        transactional_id: likewise.
        records: how many have been appended. Not those that wait, nor those of a transaction that was aborted.

    Raises:
        LogInUseError: a broker, or another process, has the directory.
        ValueError: impossible arguments.

    >>> with Producer(NEW_DIR, "orders", partitions=2, compression="zstd") as producer:
    ...     producer.send([{"key": b"a", "value": b"1"}, {"key": b"b", "value": b"2"}])
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | LogDirWriter,
        topic: str,
        *,
        partitions: int | None = None,
        compression: str = "none",
        compression_level: int | None = None,
        batch_size: int = 16384,
        idempotent: bool = False,
        transactional_id: str | None = None,
        producer_id: int | None = None,
        keep_offsets: bool = False,
        magic: int = 2,
        topic_id: str | None = None,
        sole_replica: bool = False,
        **settings: Any,  # noqa: ANN401 - each of its own type: see TopicSettings
    ) -> None:
        if keep_offsets and (idempotent or transactional_id is not None):
            raise ValueError("rows that keep their offsets are a copy: no sequence or transaction is given to them")
        if producer_id is not None and not idempotent and transactional_id is None:
            raise ValueError("a producer_id is for idempotent or transactional producers")
        if "message_format" in settings:
            raise ValueError("message_format of a producer's topic is its magic: give that")
        _check_numbers(producer_id, batch_size)
        has_producer = idempotent or transactional_id is not None
        self._encoding: dict[str, Any] = {
            "magic": magic,
            "compression": compression,
            "level": compression_level,
            "keep_offsets": keep_offsets,
            "partition_leader_epoch": 0 if keep_offsets else -1,
            "batch_size": batch_size,
            "base_sequence": 0 if has_producer else -1,
            "is_transactional": transactional_id is not None,
        }
        # What it does not take is refused before anything is made.
        placeholder = 0 if has_producer else -1
        _native.Encoder(producer_id=placeholder, producer_epoch=placeholder, **self._encoding)
        files.check_topic_name(topic)
        files.check_writable_topic(topic, is_copy=keep_offsets)
        NewTopic(partitions=partitions, topic_id=topic_id, settings=settings)
        self.topic = topic
        self.transactional_id = transactional_id
        self._owns_dir = not isinstance(path, LogDirWriter)
        self._dir = path if isinstance(path, LogDirWriter) else open_or_create(path, sole_replica=sole_replica)
        try:
            known = [number for name, number in self._dir.partitions() if name == topic]
            if not known:
                self._dir.create_topic(topic, partitions or 1, topic_id=topic_id, message_format=magic, **settings)
                known = list(range(partitions or 1))
            elif partitions is not None and partitions != len(known):
                raise ValueError(f"topic {topic!r} has {len(known)} partitions, not {partitions}")
            elif topic_id not in (None, held := self._dir.topic_id(topic)):
                raise ValueError(f"topic {topic!r} has the id {held}, not {topic_id}")
            else:
                check_settings(self._dir.path, self._dir.node_id, topic, settings)
            self._partitioner = Partitioner(topic, known, batch_size)
            self._producer_id, self._epoch = -1, -1
            if transactional_id is not None:
                self._producer_id, self._epoch = self._dir.transactional_ids.start(transactional_id, producer_id)
            elif idempotent:
                self._producer_id, self._epoch = new_producer_id() if producer_id is None else producer_id, 0
        except BaseException:
            with self._own_dir():
                raise
        self._keep_offsets = keep_offsets
        self._has_times: bool | None = None
        # The format goes on in an older one only if it is asked for again: a topic's own says 2.
        self._log_settings = settings | ({"message_format": magic} if magic < 2 else {})
        self._encoders: dict[int, _native.Encoder] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._is_in_transaction = False
        self._touched: set[int] = set()
        self.records = 0
        self._before_transaction = 0
        self._failure: BaseException | None = None
        self._is_closed = False

    def __reduce__(self) -> Never:
        raise TypeError("a producer cannot be pickled or copied: two would write over each other")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        if error is None:
            self.close()
            return
        if self._is_in_transaction:
            self._abort_after(error)
        try:
            self.close()
        except (BrokerlessError, OSError, ValueError) as closing:
            # What went wrong first says more.
            error.add_note(f"the producer could not be closed: {closing}")

    @property
    def producer_id(self) -> int | None:
        """Its id, None without idempotence."""
        return None if self._producer_id < 0 else self._producer_id

    def send(self, rows: Rows) -> None:
        """Send rows: an Arrow table or batch, an iterable of Arrow batches, or one of dicts.

        Columns are `key`, `value`, `headers`, `timestamp` and `partition`; all but `value` may be missing.
        A row without a timestamp gets the present time; where rows keep their offsets, none has a time or each.

        Raises:
            AppendError: a broker would refuse a batch. Nothing later was appended, and the producer is of no more use.
            ValueError: a column of a type that cannot be sent, an unknown partition, or no transaction was begun.
        """
        self._check_usable()
        if self.transactional_id is not None and not self._is_in_transaction:
            raise ValueError("a transactional producer sends in a transaction: call begin first")
        for batch in map(without_views, batches_of(rows)):
            if self._keep_offsets:
                self._has_times = check_times(batch, before=self._has_times)
            if batch.num_rows:
                self._waiting.append(batch)
                self._waiting_bytes += batch.nbytes
            if self._waiting_bytes >= _MAX_WAITING:
                self._send_waiting()

    def flush(self) -> None:
        """Append what waits, and make all of it durable."""
        self._check_usable()
        self._send_waiting()
        with self._failing():
            for partition in self._encoders:
                self._log(partition).flush()

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            InvalidProducerEpochError: a newer producer has the transactional id.
        """
        self._check_usable()
        if self.transactional_id is None:
            raise ValueError("not a transactional producer: give it a transactional_id")
        if self._is_in_transaction:
            raise ValueError("a transaction is open already: commit or abort it first")
        self._check_epoch()
        self._is_in_transaction = True
        self._before_transaction = self.records

    def commit(self) -> None:
        """End the transaction with a COMMIT marker in each partition that it touched, all durable."""
        self._end(is_commit=True)

    def abort(self) -> None:
        """End the transaction with ABORT markers. Rows that were not yet appended are dropped.

        It is still possible after `send` or `flush` has failed, and all that is.
        """
        self._end(is_commit=False)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin a transaction, commit it at the end of the block, abort it on an exception.

        >>> with Producer(NEW_DIR, "orders", transactional_id="loader") as producer:
        ...     with producer.transaction():
        ...         producer.send([{"key": b"a", "value": b"1"}])
        """
        self.begin()
        try:
            yield self
        except BaseException as error:
            if self._is_in_transaction:
                self._abort_after(error)
            raise
        self.commit()

    def close(self) -> None:
        """Append what waits, abort an open transaction, and close the directory if it was opened here."""
        if self._is_closed:
            return
        with self._own_dir():
            try:
                if self._is_in_transaction:
                    self.abort()
                if self._failure is None:
                    self.flush()
            finally:
                self._is_closed = True

    def _own_dir(self) -> AbstractContextManager[object]:
        """Close the directory at the end of a block, if it was opened here."""
        return self._dir if self._owns_dir else nullcontext()

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ValueError("the producer is closed")
        if self._failure is not None:
            raise ValueError("the producer failed before: make a new one") from self._failure

    def _check_epoch(self) -> None:
        if self.transactional_id is not None:
            newest = self._dir.transactional_ids.epoch(self.transactional_id)
            if newest != (self._producer_id, self._epoch):
                raise InvalidProducerEpochError(
                    f"transactional id {self.transactional_id!r} is in use by a newer producer: epoch {self._epoch}, "
                    f"now {newest[1]}"
                )

    def _abort_after(self, error: BaseException) -> None:
        try:
            self.abort()
        except (BrokerlessError, OSError, ValueError) as aborting:
            error.add_note(f"the transaction could not be aborted: {aborting}")

    def _end(self, *, is_commit: bool) -> None:
        if is_commit or self._is_closed:
            self._check_usable()
        if not self._is_in_transaction:
            raise ValueError("no transaction is open: call begin first")
        assert self.transactional_id is not None
        self._check_epoch()
        if is_commit:
            self.flush()
        else:
            self._waiting, self._waiting_bytes = [], 0
            self.records = self._before_transaction
        with self._failing():
            try:
                self._dir.transactional_ids.end(self.transactional_id, is_commit=is_commit)
            finally:
                # Decided, if not carried out: that is done when the id is taken again, or the directory opened.
                self._touched = set()
                self._is_in_transaction = False

    def _send_waiting(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting:
            return
        self._check_epoch()
        with self._failing():
            for partition, part in self._partitioner.divide(join(waiting)):
                self._append(partition, part)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            # a sequence was used up, or rows are lost between batches: what follows would be refused, or out of order
            self._failure = error
            raise

    def _append(self, partition: int, rows: pa.RecordBatch) -> None:
        if self.transactional_id is not None and partition not in self._touched:
            self._dir.transactional_ids.add(self.transactional_id, self.topic, partition)
            self._touched.add(partition)
        if partition not in self._encoders:
            self._encoders[partition] = _native.Encoder(
                producer_id=self._producer_id, producer_epoch=self._epoch, **self._encoding
            )
        batches = self._encoders[partition].encode(rows, timestamp=now_ms())
        origin: Literal["client", "replication"] = "replication" if self._keep_offsets else "client"
        log = self._log(partition)
        before = log.log_end_offset
        try:
            appended = log.append_each(batches, origin=origin, is_encoded_here=True)
        finally:
            # Also of a request that failed in its middle: what was appended until then stays.
            self.records += self._taken(rows, max(before, log.written_end_offset), before)
        if appended.duplicates:
            # Nothing is ever sent twice here.
            raise AppendError(
                f"producer id {self._producer_id} has sent to {self.topic}-{partition} before, and "
                f"{appended.duplicates} batches were taken for those and not stored: leave producer_id out, or give "
                "another one"
            )

    def _taken(self, rows: pa.RecordBatch, end: int, before: int) -> int:
        """Return how many of the rows the log has taken that ended at `before`, and ends at `end`."""
        if not self._keep_offsets:
            return end - before
        import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

        offsets: Any = rows["offset"]
        bounds = pa.scalar(before, pa.int64()), pa.scalar(end, pa.int64())
        taken = pc.and_(pc.greater_equal(offsets, bounds[0]), pc.less(offsets, bounds[1]))
        return int(pc.sum(taken).as_py() or 0)

    def _log(self, partition: int) -> LogWriter:
        return self._dir.log(self.topic, partition, **self._log_settings)


def _check_numbers(producer_id: int | None, batch_size: int) -> None:
    if producer_id is not None and not 0 <= producer_id < 1 << 63:
        raise ValueError(f"not a producer id: {producer_id}; 0 to {(1 << 63) - 1} expected")
    if batch_size < 1:
        raise ValueError(f"batch_size {batch_size}: at least 1 needed")
