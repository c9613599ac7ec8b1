"""`Producer`: sends rows to the partitions of a topic, as Kafka's producer does.

Rows are buffered, partitioned, encoded in batches of about `batch_size`, and appended as produce requests: every check
of a broker applies. Appended rows are durable after `flush` or `close`.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Never, Self

import pyarrow as pa

from brokerless import _native
from brokerless.errors import (
    AppendError,
    BrokerlessError,
    InvalidProducerEpochError,
    InvalidRecordError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
)
from brokerless.io import storage
from brokerless.io.clock import now_ms
from brokerless.layout import file_names
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.log_dir.topics import NewTopic, check_config
from brokerless.log_dir.transactional_ids import new_producer_id
from brokerless.log_dir.writer import LogDirWriter, open_or_create
from brokerless.produce.partitioner import Partitioner, join
from brokerless.produce.row_rules import RowRules, check_offsets
from brokerless.produce.rows import batches_of, check_rising, check_times
from brokerless.schemas.registration import records_of, registered
from brokerless.schemas.schema import SCHEMAS_TOPIC
from brokerless.schemas.store import SchemaStore, changed
from brokerless.values.encoding import Encoding
from brokerless.values.forms import REGISTRY, SCHEMA_TYPES
from brokerless.values.resolution import subject_of
from brokerless.values.row_encoder import RowEncoder
from brokerless.wording import counted, option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from brokerless.append.writer import LogWriter
    from brokerless.metadata.topic_settings import Path
    from brokerless.produce.rows import Rows
    from brokerless.schemas.schema import SchemaVersion

# Rows are buffered up to this many bytes, so that sending them one by one makes the same batches as one `send`.
_MAX_WAITING = 4 << 20


class Producer:
    """A producer for one topic of a log directory. No broker may have the directory open. Not thread-safe.

    A row goes to the partition in its `partition` column. If this column has no value, Kafka's murmur2 hash of the
    row's key determines the partition. Rows without a key fill a batch of one partition, then a batch of another
    partition.

    Args:
        path: a log directory, created if it does not exist; or an open `LogDirWriter`, which stays open.
        topic: the topic, created if it does not exist.
        partitions: the number of partitions of a new topic; an existing topic must have this number.
        compression: "none", "gzip", "snappy", "lz4" or "zstd".
        compression_level: the codec's level; None: Kafka's default.
        batch_size: a batch is closed at this many bytes. A larger record gets its own batch.
        idempotent: give batches a producer id and sequence numbers, so that a broker detects duplicates.
        transactional_id: make the producer transactional, and idempotent: rows are sent between `begin` and `commit`.
            Each transactional id has one producer id. A new producer with the same transactional id fences the old
            one and aborts its open transaction.
        producer_id: the producer id; None: a random id in [2^62, 2^63). Brokers allocate ids from 0, and so never
            allocate the same id. A lower id is reserved in the directory (`LogDirWriter.reserve_producer_id`).
        keep_offsets: keep the `offset`, `leaderEpoch` and `timestampType` of rows, gaps included. This copies a log as
            a follower does. Rows need an `offset` column and, with several partitions, a `partition` column.
        magic: the message format of the batches: 2, or 1 and 0 for logs of Kafka 2.8 and older.
        topic_id: the id that the cluster gave a new topic; an existing topic must have this id.
        sole_replica: True if no other broker has a replica: do not warn about replicas (`open_log_dir`).
        broker_config: the broker's configuration file, for settings that the topic does not override (`open_log_dir`).
        metadata: the directory of the cluster's metadata log, if it is not `path` (`open_log_dir`).
        release: the oldest Kafka release that can serve a new log directory (`create_log_dir`).
        encode: how keys and values are encoded: an `Encoding`, or the same as a dict or as text, such as
            "value=registry,key=utf8"; or what `row_encoder` returns. Rows then have them as a read with `decode` gives
            them. None: they are bytes.
        config: the topic's settings, as keywords (`TopicConfig`). An existing topic must have these values, as far as
            the directory records them.

    Attributes:
        topic: the topic, as given.
        transactional_id: the transactional id, as given.
        records: the number of appended records, without buffered rows, and without the rows of aborted transactions.

    Raises:
        LogInUseError: a broker, or another process, has the directory open.
        ValueError: an argument is invalid, contradicts another, or does not match the existing topic.

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
        broker_config: Path | None = None,
        metadata: Path | None = None,
        release: str | None = None,
        encode: Encoding | RowEncoder | Mapping[str, object] | str | None = None,
        **config: Any,  # noqa: ANN401 - each of its own type: see TopicConfig
    ) -> None:
        has_producer = idempotent or transactional_id is not None
        _check_arguments(has_producer=has_producer, producer_id=producer_id, keep_offsets=keep_offsets, config=config)
        _check_numbers(producer_id, batch_size)
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
        # Refuse invalid arguments before anything is created.
        placeholder = 0 if has_producer else -1
        _native.Encoder(producer_id=placeholder, producer_epoch=placeholder, **self._encoding)
        file_names.check_topic_name(topic)
        file_names.check_writable_topic(topic, is_copy=keep_offsets)
        if not isinstance(encode, RowEncoder | None):
            encode = row_encoder(Encoding.of(encode), path, topic)
        self._row_encoder = encode
        new = NewTopic(partitions=partitions, topic_id=topic_id, config=config)
        self.topic = topic
        self.transactional_id = transactional_id
        elsewhere = {"broker_config": broker_config, "metadata": metadata}
        self._owns_dir = not isinstance(path, LogDirWriter)
        self._dir = _opened(path, sole_replica=sole_replica, release=release, **elsewhere)
        try:
            known = self._partitions_of(new, magic, elsewhere)
            # An older format must be asked for again each time: the topic's own settings say 2.
            self._log_settings = config | ({"message_format": magic} if magic < 2 else {})
            self._partitioner = Partitioner(topic, known, batch_size)
            # All partitions have the topic's settings, except for logs that the caller opened with others.
            self._rules = RowRules(
                self._dir.config_of(topic, known[0]).with_keywords(self._log_settings),
                magic=magic,
                compression=compression,
                level=compression_level,
                keep_offsets=keep_offsets,
            )
            self._producer_id, self._epoch = self._identity(producer_id) if has_producer else (-1, -1)
            if encode is not None and encode.new_version is not None:
                _register(self._dir, encode.new_version)
        except BaseException:
            with self._own_dir():
                raise
        self._keep_offsets = keep_offsets
        self._has_times: bool | None = None
        # The last offset of each partition, of rows that keep their offsets.
        self._last_offsets: dict[int, int] = {}
        self._encoders: dict[int, _native.Encoder] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._is_in_transaction = False
        self._touched: set[int] = set()
        self.records = 0
        self._before_transaction = 0
        # The text, not the error: its traceback would keep the rows in memory.
        self._failure: str | None = None
        self._is_closed = False

    def _partitions_of(self, new: NewTopic, magic: int, elsewhere: dict[str, Path | None]) -> list[int]:
        """Return the topic's partitions; create the topic if it does not exist.

        Raises:
            ValueError: the existing topic differs from the caller's arguments.
        """
        known = [number for name, number in self._dir.partitions() if name == self.topic]
        if not known:
            count, config = new.partitions or 1, dict[str, Any](new.config)
            self._dir.create_topic(self.topic, count, topic_id=new.topic_id, message_format=magic, **config)
            return list(range(count))
        if new.partitions is not None and new.partitions != len(known):
            raise ValueError(f"topic {self.topic!r} has {counted(len(known), 'partition')}, not {new.partitions}")
        held = self._dir.topic_id(self.topic)
        if new.topic_id not in (None, held):
            raise ValueError(f"topic {self.topic!r} has the id {held}, not {new.topic_id}")
        check_config(self._dir.path, self._dir.node_id, self.topic, new.config, **elsewhere)
        return known

    def _identity(self, producer_id: int | None) -> tuple[int, int]:
        """Return the producer id and the producer epoch of this producer."""
        if producer_id is not None:
            self._dir.reserve_producer_id(producer_id)
        if self.transactional_id is not None:
            return self._dir.transactional_ids.start(self.transactional_id, producer_id)
        return new_producer_id() if producer_id is None else producer_id, 0

    def __repr__(self) -> str:
        return f"<Producer of {self.topic} in {self._dir.path}>"

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
            # The first error says more.
            error.add_note(f"the producer could not be closed: {closing}")

    @property
    def producer_id(self) -> int | None:
        """The producer id; None if the producer is not idempotent."""
        return None if self._producer_id < 0 else self._producer_id

    def send(self, rows: Rows) -> None:
        """Send rows: Arrow data, data frames or dicts.

        The columns are `key`, `value`, `headers`, `timestamp` and `partition`; only `value` is required. Types:

        - `key` and `value`: binary or string
        - `headers`: a map, or a list of structs of key and value
        - `timestamp`: any unit and time zone. A row without one gets the current time. With `keep_offsets`, either
          all rows have a timestamp or none has.

        Binary, string and list types may have any width, or be views or dictionaries. With `encode`, `key` and `value`
        are what the schema or form takes: dicts, numbers, text, or columns of these.

        Rows are checked before they are accepted. If a row is refused, no row of the call is accepted. Rows of earlier
        calls stay accepted, and the producer remains usable. A call with more than 4 MiB of rows is appended in
        portions. If a portion is refused, earlier portions stay accepted, and the error reports how many rows they
        have.

        Args:
            rows: an object with Arrow's PyCapsule protocol (pyarrow tables, batches and readers, pandas and Polars
                frames, DuckDB relations), an iterable of such objects, or an iterable of dicts.

        Raises:
            InvalidRecordError: the topic is compacted, and a row has no key.
            InvalidTimestampError: a timestamp is outside the topic's range.
            RecordTooLargeError: a row is larger than the topic's largest batch.
            UnexpectedAppendOffsetError: an offset to keep is below the log end offset.
            AppendError: a broker would refuse a batch of rows that were accepted before. Nothing later was appended to
                that partition, and the producer is no longer usable.
            TypeError: `rows` has none of the supported types.
            ValueError: a column's type is not supported, a partition does not exist, or no transaction is open.

        >>> import pyarrow as pa
        >>> with Producer(NEW_DIR, "orders") as producer:
        ...     producer.send(pa.table({"key": ["a", "b"], "value": ["1", "2"]}))
        ...     producer.flush()
        ...     producer.records
        2
        """
        self._check_usable()
        if self.transactional_id is not None and not self._is_in_transaction:
            raise ValueError("a transactional producer sends in a transaction: call begin first")
        for part, size in self._checked(rows):
            self._waiting += part
            self._waiting_bytes += size
            if self._waiting_bytes >= _MAX_WAITING:
                self._send_waiting()

    def _checked(self, rows: Rows) -> Iterator[tuple[list[pa.RecordBatch], int]]:
        """Check rows, and yield them with their size in bytes: all rows together, or in parts that fill the buffer."""
        part: list[pa.RecordBatch] = []
        size, accepted = 0, 0
        has_times, last_offsets = self._has_times, self._last_offsets
        try:
            form: dict[str, Any] = {"magic": self._encoding["magic"], "keep_offsets": self._keep_offsets}
            for batch in batches_of(rows, encoder=self._row_encoder, **form):
                self._partitioner.check(batch)
                if self._keep_offsets:
                    has_times = check_times(batch, before=has_times)
                    last_offsets = last_offsets | self._check_offsets(batch, last_offsets)
                self._rules.check(batch, now_ms())
                part.append(batch)
                size += batch.nbytes
                if self._waiting_bytes + size >= _MAX_WAITING:
                    self._has_times, self._last_offsets = has_times, last_offsets
                    yield part, size
                    accepted += sum(batch.num_rows for batch in part)
                    part, size = [], 0
        except Exception as error:
            if accepted:
                error.add_note(f"{accepted} rows of this call, before the invalid rows, were accepted")
            raise
        self._has_times, self._last_offsets = has_times, last_offsets
        yield part, size

    def flush(self) -> None:
        """Append buffered rows, and make all appended rows durable."""
        self._check_usable()
        self._send_waiting()
        with self._failing():
            for partition in self._encoders:
                self._log(partition).flush()

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            InvalidProducerEpochError: a newer producer has the transactional id.

        >>> with Producer(NEW_DIR, "orders", transactional_id="loader") as producer:
        ...     producer.begin()
        ...     producer.send([{"value": b"1"}])
        ...     producer.commit()
        ...     producer.records
        1
        """
        self._check_usable()
        if self.transactional_id is None:
            raise ValueError(f"not a transactional producer: give it a transactional id ({option('transactional_id')})")
        if self._is_in_transaction:
            raise ValueError("a transaction is open already: commit or abort it first")
        self._check_epoch()
        self._is_in_transaction = True
        self._before_transaction = self.records

    def commit(self) -> None:
        """Commit the transaction: write a durable COMMIT marker to each partition that it wrote to."""
        self._end(is_commit=True)

    def abort(self) -> None:
        """End the transaction with ABORT markers, and drop buffered rows.

        After a failed `send` or `flush`, `abort` is the only allowed call.
        """
        self._end(is_commit=False)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin a transaction, commit it at the end of the block, and abort it on an exception.

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
        """Append buffered rows, abort an open transaction, and close the directory if the producer opened it."""
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
        """Close the directory at the end of a block, if the producer opened it."""
        return self._dir if self._owns_dir else nullcontext()

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ValueError("the producer is closed")
        if self._failure is not None:
            raise ValueError(f"the producer failed earlier: {self._failure}; make a new one")

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
                # The outcome is decided. If markers are missing, the id's next producer or the next open writes them.
                self._touched = set()
                self._is_in_transaction = False

    def _check_offsets(self, rows: pa.RecordBatch, last: dict[int, int]) -> dict[int, int]:
        """Refuse offsets that do not continue each partition's last offset; return the new last offsets."""
        import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

        partitions = self._partitioner.partitions
        offsets = {partitions[0]: rows["offset"]}
        if len(partitions) > 1:
            numbers: Any = rows["partition"] if "partition" in rows.schema.names else pa.nulls(rows.num_rows)
            if numbers.null_count:
                raise ValueError(
                    f"{numbers.null_count} rows that keep their offsets have no partition, and topic {self.topic!r} "
                    f"has {len(partitions)}: give each row its own"
                )
            offsets = {
                number: rows["offset"].filter(pc.equal(numbers, pa.scalar(number, pa.int32())))
                for number in pc.unique(numbers).to_pylist()
            }
        hint = "sort the rows of each partition by offset"
        found = {}
        for number, kept in offsets.items():
            log = f"{self.topic}-{number}"
            first, found[number] = check_rising(kept, log, after=last.get(number, -1), hint=hint)
            end = None if number in last else self._log(number).log_end_offset
            check_offsets(log, first, found[number], end)
        return found

    def _send_waiting(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting:
            return
        self._check_epoch()
        now = now_ms()
        with self._failing():
            # Buffered rows may have become too old for the topic.
            rows, untimely = self._rules.timely(join(waiting), now)
            self._append_each(rows, now)
            if untimely is not None:
                raise untimely

    def _append_each(self, rows: pa.Table, now: int) -> None:
        """Append the rows of each partition. A refused partition does not stop the others."""
        refused: dict[int, AppendError] = {}
        for partition, part in self._partitioner.divide(rows):
            try:
                if partition not in refused:
                    self._append(partition, part, now)
            except AppendError as error:
                refused[partition] = error
        first = next(iter(refused.values()), None)
        try:
            if first is not None:
                raise first
        finally:
            # The error's traceback holds this frame, and the cycle would keep the rows until a garbage collection.
            del first, refused

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            # a sequence was used up, or rows between batches are lost: later rows would be refused or out of order
            self._failure = str(error) or type(error).__name__
            raise

    def _append(self, partition: int, rows: pa.RecordBatch, now: int) -> None:
        if self.transactional_id is not None and partition not in self._touched:
            self._dir.transactional_ids.add(self.transactional_id, self.topic, partition)
            self._touched.add(partition)
        if partition not in self._encoders:
            self._encoders[partition] = self._encoder(**self._encoding)
        self._append_batches(partition, rows, self._encoders[partition], now)

    def _encoder(self, **encoding: Any) -> _native.Encoder:  # noqa: ANN401 - those of `Encoder`
        return _native.Encoder(producer_id=self._producer_id, producer_epoch=self._epoch, **encoding)

    def _append_batches(self, partition: int, rows: pa.RecordBatch, encoder: _native.Encoder, now: int) -> None:
        """Append rows of one partition, in the batches that an encoder makes.

        The topic accepts each row in a batch of its own (`RowRules`). A batch of several rows can still be too large:
        because it compresses worse than the batches before it, or because the topic stores it in another codec. Such a
        batch is split, and keeps its sequences, as in Kafka's producer.
        """
        sequence = encoder.next_sequence
        batches = memoryview(encoder.encode(rows, timestamp=now)).cast("B")
        origin: Literal["client", "replication"] = "replication" if self._keep_offsets else "client"
        log = self._log(partition)
        while len(batches):
            before, duplicates, size, split = log.log_end_offset, 0, len(batches), 0
            try:
                duplicates = log._append_encoded(batches, origin=origin, now=now).duplicates
            except (InvalidRecordError, RecordTooLargeError, RecordBatchTooLargeError) as error:
                batches = batches[error.position or 0 :]
                size, last_offset = _first_batch(batches)
                split = self._taken(rows, last_offset + 1, log.log_end_offset if self._keep_offsets else 0)
                if split < 2:
                    raise
            finally:
                # A request that failed halfway keeps the batches appended so far.
                taken = self._taken(rows, max(before, log.written_end_offset), before)
                self.records += taken
            if duplicates:
                # This producer never sends a batch twice.
                raise AppendError(
                    f"producer id {self._producer_id} has already been used for {self.topic}-{partition}, so "
                    f"{duplicates} batches were treated as duplicates and not stored. Leave producer_id out, or give "
                    "another one"
                )
            if split:
                at = -1 if sequence < 0 else (sequence + taken) % (1 << 31)
                encoding = {**self._encoding, "base_sequence": at, "max_records": (split + 1) // 2}
                self._append_batches(partition, rows.slice(taken, split), self._encoder(**encoding), now)
                sequence = at if at < 0 else (at + split) % (1 << 31)
            rows, batches = rows.slice(taken + split), batches[size:]

    def _taken(self, rows: pa.RecordBatch, end: int, before: int) -> int:
        """Return the number of rows that are in a log that ended at `before` and now ends at `end`."""
        if not self._keep_offsets:
            return end - before
        import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

        offsets: Any = rows["offset"]
        bounds = pa.scalar(before, pa.int64()), pa.scalar(end, pa.int64())
        taken = pc.and_(pc.greater_equal(offsets, bounds[0]), pc.less(offsets, bounds[1]))
        return int(pc.sum(taken).as_py() or 0)

    def _log(self, partition: int) -> LogWriter:
        return self._dir.log(self.topic, partition, **self._log_settings)


def _first_batch(batches: memoryview) -> tuple[int, int]:
    """Return the size and the last offset of the first batch."""
    size = 12 + int.from_bytes(batches[8:12])
    header, _ = _native.scan(batches[:size])
    return size, header["last_offset"][0].as_py()


def row_encoder(encode: Encoding, path: str | os.PathLike[str] | LogDirWriter, topic: str) -> RowEncoder:
    """Return the encoder of a topic's rows. Without other schemas, it has those of the log directory.

    Raises:
        ValueError: a schema is not known, or cannot be used.
    """
    place = path.path if isinstance(path, LogDirWriter) else os.fspath(path)
    if encode.register is not None:
        return _encoder_of_new_schema(encode, place, topic)
    if encode.needs_schemas and not storage.exists(place):
        raise ValueError(f"{place} has no schemas: it does not exist. Name them with {option('schemas')}")
    return RowEncoder(LogDirs(place).with_schemas(encode) if encode.needs_schemas else encode, topic)


def _encoder_of_new_schema(encode: Encoding, place: str, topic: str) -> RowEncoder:
    """Return an encoder with the schema to register. Nothing is written yet."""
    store = _schemas_in(place)
    subject = str(subject_of(encode, [topic], "value"))
    try:
        version = registered(store, subject, SCHEMA_TYPES[str(encode.value)], str(encode.register))
        encode = replace(encode, register=None, schemas=changed(store, [version]), schema=version.schema.id)
        return RowEncoder(encode, topic, new_version=None if version in store.versions else version)
    except ValueError as error:
        raise ValueError(f"{option('register')}: {error}") from error


def _schemas_in(place: str) -> SchemaStore:
    """Return the schemas of a log directory; none, if it or its topic of schemas does not exist."""
    if storage.exists(place) and SCHEMAS_TOPIC in (log_dirs := LogDirs(place)).topics():
        found = log_dirs.with_schemas(Encoding(value=REGISTRY)).schemas
        assert found is not None
        return found
    return SchemaStore(place)


def _register(log_dir: LogDirWriter, version: SchemaVersion) -> None:
    """Add a version of a subject to the topic of schemas, as a registry does. It is durable at the end.

    Raises:
        ValueError: the schemas have changed since the version was chosen, or the topic is missing and cannot be made.
    """
    store, schema = _schemas_in(log_dir.path), version.schema
    if registered(store, version.subject, schema.schema_type, schema.text) != version:
        raise ValueError(f"the schemas of {log_dir.path} have just been changed by another program: try again")
    if (SCHEMAS_TOPIC, 0) not in log_dir.partitions():
        try:
            log_dir.create_topic(SCHEMAS_TOPIC, cleanup_policy="compact")
        except ValueError as error:
            raise ValueError(
                f"{option('register')}: {log_dir.path} has no topic {SCHEMAS_TOPIC}. Its cluster must create it, with "
                f"1 partition and cleanup.policy=compact, as a registry does when it starts: {error}"
            ) from error
    with Producer(log_dir, SCHEMAS_TOPIC, partitions=1) as producer:
        producer.send(records_of(store, version))


def _opened(
    path: str | os.PathLike[str] | LogDirWriter, *, sole_replica: bool, release: str | None, **elsewhere: Path | None
) -> LogDirWriter:
    """Return an open log directory: the caller's, or the one at a path, created if it does not exist."""
    if not isinstance(path, LogDirWriter):
        return open_or_create(path, sole_replica=sole_replica, release=release, **elsewhere)
    if release is not None:
        raise ValueError(f"release {release}: {path.path} exists, and its release cannot be changed: leave release out")
    return path


def _check_arguments(
    *, has_producer: bool, producer_id: int | None, keep_offsets: bool, config: Mapping[str, object]
) -> None:
    if keep_offsets and has_producer:
        raise ValueError("rows that keep their offsets are a copy, and cannot get a sequence or a transaction")
    if producer_id is not None and not has_producer:
        raise ValueError("a producer_id is for idempotent or transactional producers")
    if "message_format" in config:
        raise ValueError(
            f"{option('message_format')} of a producer's topic is the producer's magic: give magic instead"
        )


def _check_numbers(producer_id: int | None, batch_size: int) -> None:
    if producer_id is not None and not 0 <= producer_id < 1 << 63:
        raise ValueError(f"not a producer id: {producer_id}; 0 to {(1 << 63) - 1} expected")
    if batch_size < 1:
        raise ValueError(f"{option('batch_size')} {batch_size}: at least 1 needed")
