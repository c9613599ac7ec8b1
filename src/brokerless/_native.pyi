"""The compiled core: it reads bytes, or an open file, and returns Arrow.

A `data` argument is any contiguous buffer: bytes, bytearray, memoryview or pyarrow.Buffer. The interpreter lock is
released during the work, so do not write to a buffer that is being read. `position` is the byte position of data[0] in
its file, to which positions in errors and in the column `position` refer.

All functions may raise `brokerless.errors.CorruptRecordError` and `UnsupportedFormatError`, with `position`,
`base_offset` and `next_position` set and `path` None (see `brokerless.errors.located`), and ValueError for an invalid
argument. No input makes the core panic or use more memory than a documented cap.

This file is long because a compiled module has only one stub.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Self, TypeAlias, final

import pyarrow as pa
from typing_extensions import Buffer

from brokerless.io.file_window import Readable
from brokerless.log.defect import Defect
from brokerless.log.search import Criterion
from brokerless.log.split import Split

__all__ = [
    "BATCH_OVERHEAD",
    "CODECS",
    "DEFAULT_MAX_BATCH_BYTES",
    "FIRST_OWN_PRODUCER_ID",
    "ROW_COLUMNS",
    "Appended",
    "Appender",
    "BatchCursor",
    "Closing",
    "CompactionRewrite",
    "CompactionScan",
    "Decoder",
    "Encoder",
    "EndOffsets",
    "ErasedRecords",
    "ErasureScan",
    "HeaderWalk",
    "JsonDump",
    "KeySketch",
    "LatestRecords",
    "LeaderEpochs",
    "LocalFile",
    "LogDump",
    "OffsetCommits",
    "OffsetIndex",
    "Partitioner",
    "PlainSegment",
    "ProducerReplay",
    "ProducerSequences",
    "Producers",
    "Profile",
    "RecordRows",
    "RunReader",
    "SchemaDecoder",
    "Search",
    "SegmentConversion",
    "SegmentEnd",
    "SegmentErasure",
    "SegmentOutput",
    "SegmentRecovery",
    "SegmentState",
    "SegmentVerdicts",
    "SegmentWrite",
    "Server",
    "Soundness",
    "SpaceEstimate",
    "SplitReader",
    "TimeIndex",
    "TransactionIndex",
    "ValueEncoder",
    "batch_offsets_at",
    "batch_schema",
    "binary_columns",
    "check_segment",
    "crc32c",
    "cut_short_in_words",
    "decode_plain",
    "embedded_json",
    "empty_batch",
    "end_of_transaction",
    "end_transaction_marker",
    "find_batch",
    "find_timestamp",
    "headers_alone",
    "highest_cluster_producer_id",
    "json_lines",
    "json_rows",
    "kraft_snapshot",
    "metadata_record",
    "murmur2",
    "open_transactions",
    "place_headers",
    "producer_snapshot",
    "row_schema",
    "scan",
    "schema_ids",
    "segment_files",
    "skip_equal",
    "state_records",
    "survey",
]

_Data: TypeAlias = Buffer | pa.Buffer
_Origin: TypeAlias = Literal["client", "coordinator", "replication", "raft_leader"]

BATCH_OVERHEAD: int
"""Bytes of the header of a batch of format 2, the smallest batch: 61. Older formats have shorter headers."""

CODECS: tuple[str, ...]
"""Kafka's names of the codecs, in the order of their ids. The first is "none"."""

DEFAULT_MAX_BATCH_BYTES: int
"""The default cap on the decompressed size of one batch: 256 MiB."""

FIRST_OWN_PRODUCER_ID: int
"""The lowest producer id that brokerless assigns. A cluster assigns its ids upwards from 0 and never reaches it."""

ROW_COLUMNS: tuple[str, ...]
"""All columns of rows: the columns of Spark's Kafka source, and the lineage of a row.

The first are `key value topic partition offset timestamp timestampType headers`. The lineage is `leaderEpoch
baseOffset position magic compression producerId producerEpoch sequence isTransactional`.
"""

def row_schema(columns: Sequence[str], spark: bool = False) -> pa.Schema:
    """Return the Arrow schema of rows with these columns, in this order.

    `timestamp` is timestamp[ms, UTC] (Spark: us), `timestampType` int32 (-1 NoTimestampType, 0 CreateTime,
    1 LogAppendTime), `key` and `value` binary, `headers` list<struct<key: string, value: binary>>.

    Raises:
        ValueError: an unknown column.
    """

def batch_schema(check_crcs: bool = False) -> pa.Schema:
    """Return the Arrow schema of `scan`."""

@final
class Decoder:
    """A decoder that turns the bytes of a log into rows. Between calls, it keeps scratch memory and its offset.

    Control records never become rows. If `aborted` is given, as for a read_committed read, the batches of aborted
    transactions are left out. Not thread-safe.

    Args:
        columns: the columns to return, in this order. Columns that are not listed cost nothing.
        topic: the value of the column `topic`; None for null.
        partition: the value of the column `partition`; None for null.
        start_offset: rows below this offset are left out.
        end_offset: rows at this offset and above are left out.
        aborted: (producer_id, first_offset, offset of the ABORT marker) of each aborted transaction, in any order.
        check_crcs: verify the CRC of each batch (of each message in v0 and v1).
        max_rows: a call returns after the Kafka batch with which it has this many rows.
        max_bytes: a call also returns after the Kafka batch with which it has this many bytes of Arrow data.
        max_batch_bytes: the cap on one batch's decompressed size. A larger batch raises UnsupportedFormatError.
        spark: use Spark's types: timestamps in us (null if out of range), and null for absent headers.
        order: the lowest allowed offset of the first batch, and the offset below which all batches must end. Offsets
            that do not rise within these bounds are errors.
    """

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def needed(self) -> int:
        """The size in bytes of the batch after the bytes that the last call consumed; 0 if unknown."""
    @property
    def next_offset(self) -> int:
        """The offset after the last consumed batch, according to its header; -1 before the first batch."""
    @property
    def null_timestamps(self) -> int:
        """The number of timestamps that became null because of `spark`."""

    def __new__(
        cls,
        columns: Sequence[str],
        *,
        topic: str | None = None,
        partition: int | None = None,
        start_offset: int = ...,
        end_offset: int = ...,
        aborted: Sequence[tuple[int, int, int]] = ...,
        check_crcs: bool = True,
        max_rows: int = 65536,
        max_bytes: int = ...,
        max_batch_bytes: int = ...,
        spark: bool = False,
        order: tuple[int, int] | None = None,
    ) -> Self: ...
    def decode(self, data: _Data, position: int = 0) -> tuple[pa.RecordBatch | None, int]:
        """Decode whole batches from the start of `data`, which must be a batch boundary.

        Returns:
            The rows, if any, or None, and the number of bytes consumed. `(None, 0)` means that `data` holds no whole
            batch: see `needed`. Rows may exceed `max_rows` by one Kafka batch. The rows of a batch of more than 262,144
            records are returned by several calls. All these calls except the last one return 0 bytes consumed: call
            again with the same bytes.

        Raises:
            CorruptRecordError: the batch at the start of `data` is damaged. Earlier calls returned all rows before it.
        """

@final
class Encoder:
    """An encoder of rows to batches, for one partition and producer session.

    Uncompressed batches equal the batches of Kafka's own builder byte for byte. Sequence numbers continue from batch to
    batch, and 0 follows 2147483647. A batch ends before the record that would make it larger than `batch_size`. For a
    compressed batch, this size is Kafka's estimate. A record is never split, so a batch of one record may be larger.
    Not thread-safe.

        encoder = Encoder(compression="zstd", producer_id=4001, producer_epoch=0, base_sequence=0)
        batches = encoder.encode(rows, timestamp=1_700_000_000_000)

    Args:
        magic: the message format: 2, 1 (used before Kafka 0.11) or 0 (used before Kafka 0.10). Formats 1 and 0 have no
            headers, producers or zstd; format 0 has no timestamps either.
        compression: "none", "gzip", "snappy", "lz4" or "zstd".
        level: gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22; None is Kafka's default (6, 9, 3).
        batch_size: the size limit of a batch in bytes, as the producer's `batch.size`.
        max_records: the maximum number of records in a batch; None for no limit.
        keep_offsets: see `encode`.
        timestamp_type: "CreateTime" or "LogAppendTime". With "LogAppendTime", `log_append_time` replaces the rows'
            timestamps.
        log_append_time: the time in ms; -1 by default.
        base_offset: the base offset of every batch. A producer sends 0, because the append assigns offsets.
        partition_leader_epoch: the leader epoch of every batch. A producer sends -1 (unknown), the default.
        producer_id: the producer's id; -1, the default, for no producer. With an id, `producer_epoch` and
            `base_sequence` must not be negative.
        producer_epoch: the producer's epoch.
        base_sequence: the sequence number of the first record.
        is_transactional: True if the batches are part of a transaction.

    Raises:
        ValueError: Kafka refuses the combination, or an argument is out of its range.
    """

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next record; -1 without a producer."""

    def __new__(
        cls,
        *,
        magic: int = 2,
        compression: str = "none",
        level: int | None = None,
        batch_size: int = 16384,
        max_records: int | None = None,
        keep_offsets: bool = False,
        timestamp_type: str = "CreateTime",
        log_append_time: int = ...,
        base_offset: int = 0,
        partition_leader_epoch: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        base_sequence: int = ...,
        is_transactional: bool = False,
    ) -> Self: ...
    def encode(self, rows: pa.RecordBatch, *, timestamp: int) -> pa.Buffer:
        """Encode all rows as whole batches. If there are no rows, the buffer is empty.

        Columns are found by name. Unknown columns are ignored. Only `value` is required:

        - `key`, `value`: binary or string of any width, stored as bytes. A null is stored as null.
        - `headers`: list<struct<key, value>>. If the list is null, the record has no headers.
        - `timestamp`: any timestamp type, truncated to ms, or int64 ms. -1 ms means that the record has no timestamp.

        With `keep_offsets`, an `offset` (int64) that rises from row to row is also required. A gap between offsets does
        not end a batch, unless an offset is more than 2147483647 above the batch's first offset. All records of a batch
        share `leaderEpoch` (int32; null: `partition_leader_epoch`) and `timestampType` (int32 as in rows; null:
        `timestamp_type`), so a batch ends where one of them changes. Under LogAppendTime, they also share the
        timestamp. Magic 0 allows only NoTimestampType, magic 1 and 2 allow only the other types.

        Args:
            rows: any number of rows.
            timestamp: the time in ms for rows without a timestamp.

        Raises:
            TypeError: not a `pyarrow.RecordBatch`.
            ValueError: a column has an unsuitable type, Kafka refuses a record, or a value lies outside the buffer of
                its column. A message about one row begins with its index ("row 17: ..."). No row is encoded, and no
                sequence number is used.
        """

def crc32c(data: _Data) -> int:
    """Return the CRC-32C (Castagnoli) of `data`. A batch of magic 2 stores this checksum of its bytes 21 and later."""

def empty_batch(offset: int, leader_epoch: int) -> bytes:
    """Return an empty batch of format 2 that covers one offset (61 bytes). Compaction leaves the same batch."""

def end_of_transaction(batch: Buffer) -> tuple[bool, int] | None:
    """Return the contents of a transaction marker: True for a COMMIT, and the coordinator's epoch.

    Return None if the batch is not a marker, or if the cleaner emptied it.

    Raises:
        CorruptRecordError: the batch is damaged.
    """

def end_transaction_marker(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    coordinator_epoch: int = 0,
    base_offset: int = 0,
    partition_leader_epoch: int = ...,
) -> bytes:
    """Return the batch that commits or aborts a producer's transaction in a partition: 78 bytes.

    Args:
        commit: True to commit, False to abort.
        producer_id: the producer's id.
        producer_epoch: the producer's epoch.
        timestamp: the time in ms.
        coordinator_epoch: the epoch of the transaction coordinator that decided.
        base_offset: the offset of the marker. An append assigns it.
        partition_leader_epoch: the leader epoch of the marker. An append assigns it; -1, unknown, by default.

    Raises:
        ValueError: the producer id or epoch is missing.
    """

@final
class Partitioner:
    """A partitioner of one topic: see `brokerless.produce.partitioner.Partitioner`. Not thread-safe.

    Args:
        topic: the topic's name, for error messages.
        partitions: the topic's partitions in this directory, ascending.
        batch_size: the size of a full batch in bytes.
        seed: determines the order in which partitions get rows without a key.

    Raises:
        ValueError: there are no partitions.
    """

    def __new__(cls, topic: str, partitions: Sequence[int], batch_size: int, seed: int) -> Self: ...
    def check(self, partitions: pa.Array[Any] | None, keys: pa.Array[Any] | None) -> None:
        """Refuse rows for which `choose` would find no partition.

        Args:
            partitions: int32, the partitions that rows name; None if no row names one.
            keys: binary or string; None if no row has a key.

        Raises:
            ValueError: a partition is not in this directory; or a key determines the partition, but some partitions of
                the topic are not in this directory; or a column has another type or extends beyond its buffer.
        """

    def choose(
        self, partitions: pa.Array[Any] | None, keys: pa.Array[Any] | None, rows: int, row_bytes: int
    ) -> pa.Int32Array:
        """Choose the partition of each row.

        A row that names a partition goes to that partition. Another row with a key goes to the partition that the key's
        murmur2 hash selects. All other rows go to the partition whose batch is being filled.

        Args:
            partitions: see `check`.
            keys: see `check`.
            rows: the number of rows.
            row_bytes: the approximate number of bytes that a row fills in a batch.

        Raises:
            ValueError: see `check`.
        """

def scan(
    data: _Data, position: int = 0, check_crcs: bool = False, max_batches: int = ...
) -> tuple[pa.RecordBatch, int]:
    """Read the headers of up to `max_batches` whole batches from the start of `data`.

    Columns: `position size base_offset last_offset batch_length partition_leader_epoch magic crc attributes
    compression timestamp_type is_transactional is_control delete_horizon_ms last_offset_delta base_timestamp
    max_timestamp producer_id producer_epoch base_sequence last_sequence records_count`, and `is_valid` with
    `check_crcs`. The values equal what Kafka's accessors return: for a batch of v0 or v1, producer_id is -1 and
    records_count is null.

    Returns:
        One row for each batch, and the number of bytes consumed.

    Raises:
        CorruptRecordError: the first batch in `data` is damaged.
    """

@final
class RecordRows:
    """An iterator that checks rows of many Arrow types, and returns them as batches of one schema for an `Encoder`.

    The iterator trusts only the sizes of pyarrow's buffers. It refuses values outside these buffers, and values that a
    record cannot hold. A column of the right type is not copied. Other columns are converted in pieces of about 32 MB,
    because a view or a dictionary may represent more data than fits into memory.

    `key` and `value` become binary, `headers` list<struct<key: binary, value: binary>>, `timestamp` timestamp[ms, UTC]
    and `partition` int32. The input columns may be lists or views of any width, dictionaries, maps, timestamps of any
    unit and zone, int64 ms, and integers of any width. Other columns are left out.

        rows = pa.table({"value": pa.array(["a", "b"]).dictionary_encode()}).to_batches()[0]
        for batch in RecordRows(rows):
            ...                                 # batch["value"] is binary

    Args:
        rows: any rows. All columns except `value` may be missing.
        magic: the format of the records to be encoded.
        keep_offsets: require `offset`, and keep it as int64, `leaderEpoch` and `timestampType` as int32.
        topic: require `topic`, and keep it as string.

    Raises:
        ValueError: a column has an unsuitable type, or a value is outside its buffer or cannot be in a record.
    """

    def __new__(
        cls, rows: pa.RecordBatch, *, magic: int = 2, keep_offsets: bool = False, topic: bool = False
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> pa.RecordBatch: ...

@final
class EndOffsets:
    """The search for the log end offset at given times, from batch headers.

    A batch was in the log at a time if neither its largest timestamp nor that of an earlier batch is above the time.

    Args:
        times: ms, int64, ascending.

    Raises:
        ValueError: a time is null, or earlier than the previous one.
    """

    @property
    def next_time(self) -> int | None:
        """The first time whose end offset is not known yet."""

    def __new__(cls, times: pa.Array[Any]) -> Self: ...
    def seek(self, offset: int) -> None:
        """Skip batches that end below `offset`. None of them may have a timestamp above `next_time`."""

    def feed(self, data: _Data, position: int) -> int:
        """Read the whole batches at the start of `data`, and return their size in bytes.

        Stop before a batch that is later than all times.
        """

    def finish(self, end: int) -> pa.Array[Any]:
        """Return the end offset for each time. If no batch is later than a time, its end offset is `end`."""

@final
class ErasedRecords:
    """The records to erase in a segment.

    `bits` has one bit per record, in record order, least significant bit first. A set bit marks an erased record.
    Records for which `bits` is too short stay. `records` is the number of erased records, and `bytes` the size of their
    keys and values. `examined` is the number of records compared. `ranges` holds the first and last offset of each run
    of erased records.
    """

    @property
    def bits(self) -> bytes: ...
    @property
    def records(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def ranges(self) -> list[tuple[int, int]]: ...
    @property
    def examined(self) -> int: ...

@final
class ErasureScan:
    """A search for the records of segments that match any of the given keys, key prefixes and headers.

    Args:
        keys: whole keys.
        key_prefixes: prefixes of keys.
        headers: headers as (name, value).
        blank: erase values only. Records whose value is null or empty then do not match.
        max_batch_bytes: the cap on one batch's decompressed size.
    """

    def __new__(
        cls,
        *,
        keys: Sequence[bytes] = ...,
        key_prefixes: Sequence[bytes] = ...,
        headers: Sequence[tuple[bytes, bytes]] = ...,
        blank: bool = False,
        max_batch_bytes: int = ...,
    ) -> Self: ...
    def begin(self, base_offset: int, limit: int) -> None:
        """Start a segment whose offsets lie in [base_offset, limit)."""

    def feed(self, data: _Data, position: int) -> int:
        """Scan the whole batches at the start of `data`, which lies at `position`; return their size in bytes."""

    def take(self) -> ErasedRecords:
        """Return the result for the segment, and start the next one."""

    @property
    def needed(self) -> int:
        """The size in bytes of the next batch, which starts after the consumed bytes; 0 if unknown."""

@final
class HeaderWalk:
    """A scan over the batch headers of a log. It reads no records except transaction markers.

    Feed one file after the other, and call `start_file` between them.

    Args:
        open_transactions: (producer_id, first_offset) of the transactions that are open before the first byte.
    """

    @property
    def done(self) -> bool:
        """True if the file has ended: at `end`, or at an incomplete batch."""
    @property
    def end_position(self) -> int:
        """The position at which the last whole batch of the file ends."""
    @property
    def next_offset(self) -> int | None:
        """The offset after the last batch."""
    @property
    def first_offset(self) -> int | None:
        """The base offset of the first batch."""
    @property
    def last_batch(self) -> tuple[int, bytes] | None:
        """The position and the first bytes of the last batch. The bytes identify it, as they include a checksum."""
    @property
    def leader_epoch(self) -> int:
        """The highest leader epoch in any header; -1 if none."""
    @property
    def max_timestamp(self) -> int:
        """The largest max timestamp in any header, in ms; -1 if none."""
    @property
    def batches(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def magics(self) -> list[int]: ...
    @property
    def compressions(self) -> list[str]: ...
    @property
    def open_transactions(self) -> list[tuple[int, int]]:
        """(producer_id, first_offset) of the transactions without a marker."""
    @property
    def aborted(self) -> list[tuple[int, int, int]]:
        """(producer_id, first_offset, last_offset of the ABORT marker)."""

    def __new__(cls, open_transactions: Sequence[tuple[int, int]] = ...) -> Self: ...
    def feed(self, data: _Data, position: int, end: int) -> int:
        """Scan the bytes of the file at `position`; `end` is the file's size.

        Returns:
            The position at which the next feed must start. If this position lies inside the data and the file
            continues, the data contain only a part of the batch there. If the position did not move, feed more bytes.

        Raises:
            CorruptRecordError: the framing is broken.
        """

    def start_file(self, order: tuple[int, int] | None = None) -> None:
        """Make the next feed start another segment, or another part of the same segment.

        Args:
            order: the lowest offset that a batch may have, and the offset below which all batches must end. If `order`
                is given, the scan also raises if offsets do not rise within this range, or if the checksum of a batch
                that may be a marker is wrong.
        """

@final
class LocalFile:
    """A regular file open for reading. The core reads the file itself, so its bytes do not pass through Python.

    Raises:
        OSError: the file cannot be opened, or is not a regular file.
    """

    def __new__(cls, path: str) -> Self: ...
    def fileno(self) -> int:
        """Return the file descriptor, which is closed when the last object that uses the file is deleted."""

@final
class RunReader:
    """An iterator over a run of sound batches. It yields rows, and a finding for each malformed record.

    A finding has the fields of `Finding` except the path.

    Args:
        file: the open `.log`.
        run: a `brokerless.log.survey.Run`.
        decoder: decodes the rows. Use the same decoder for all runs of a segment.
    """

    def __new__(cls, file: Readable, run: tuple[int, int, int, int], decoder: Decoder) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> pa.RecordBatch | tuple[Any, ...]: ...

@final
class Search:
    """The criteria of the records that are sought, and the progress of the search. Several readers may share it.

    Args:
        criteria: a record meets all of them.
        is_inverted: find the records that do not meet all criteria.
        producer_ids: the ids of the producers whose records are searched; empty: all.

    Raises:
        ValueError: a pattern does not compile, or there are too many texts.
    """

    def __new__(
        cls, criteria: Sequence[Criterion], *, is_inverted: bool = False, producer_ids: Sequence[int] = ...
    ) -> Self: ...
    @property
    def progress(self) -> tuple[int, int]:
        """The number of records, and of bytes of files, searched so far."""

    def stop(self) -> None:
        """End all readers of this search soon."""

@final
class SplitReader:
    """An iterator over the rows of a split. Between rows, it yields the fields of each `Defect` as a tuple.

    The path of a defect is None if the defect is in the split's own file.

    Args:
        split: the split. Its `on_corrupt` decides whether damage is an error or a lost range.
        file: the open `.log`; None for an absent split.
        columns: the wanted columns in their order.
        is_planned: whether `file` is the file for which the split was planned.
        cut_short: called with the offset after the file's last batch. It returns the range of records that are missing
            if the segment's index has entries beyond the end of the file.
        check_crcs: verify checksums.
        max_rows: an iteration step ends after the Kafka batch with which it has this many rows.
        max_bytes: a step also ends after the Kafka batch with which it has this many bytes of Arrow data.
        spark: use Spark's types; see `Decoder`.
        search: the records to return; None: all.
        by_headers: make rows from the headers of batches, if these have all columns. The records are then not parsed.

    Raises:
        CorruptRecordError: raised at the damage, after all rows before it were returned.
        OSError: the file cannot be read.
    """

    def __new__(
        cls,
        split: Split,
        file: Readable | None,
        columns: Sequence[str],
        *,
        is_planned: bool,
        cut_short: Callable[[int], Defect | None],
        check_crcs: bool = True,
        max_rows: int = 65536,
        max_bytes: int = ...,
        spark: bool = False,
        search: Search | None = None,
        by_headers: bool = False,
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> pa.RecordBatch | tuple[Any, ...]: ...
    @property
    def null_timestamps(self) -> int:
        """The number of timestamps that became null because of `spark`."""

@final
class Soundness:
    """A check for the sound batches of a segment: those with correct framing and checksum. It reads no records.

    Args:
        base_offset: the segment's base offset.
        limit: all offsets of the segment are below it.
    """

    def __new__(cls, base_offset: int, limit: int) -> Self: ...
    def check(self, data: _Data, position: int) -> int:
        """Check batches from the start of `data`, which lies at `position`. Return the bytes of the sound batches.

        Raises:
            CorruptRecordError: the first batch is damaged. `next_position` is the end of the batch according to its
                header.
            UnsupportedFormatError: the first batch has an unknown magic.
        """

    @property
    def needed(self) -> int:
        """The size in bytes of the batch after the checked ones; 0 if unknown."""

def survey(
    file: Readable,
    base_offset: int,
    following_offset: int | None,
    end: int,
    *,
    check_crcs: bool = True,
    is_clean: bool = True,
    limit_offset: int | None = None,
) -> tuple[list[tuple[Any, ...]], int]:
    """Do the work of `brokerless.log.survey.survey`, which describes the arguments.

    Returns:
        The fields of `Run` and of `Defect` (whose path is None), in the order of the file; the offset after the last
        run.

    Raises:
        OSError: the file cannot be read.
    """

@final
class ProducerSequences:
    """The last sequence of each producer and epoch in a log, for at least the 131,072 producers that appeared last."""

    def __new__(cls) -> Self: ...
    def expected(self, producer_id: int, producer_epoch: int) -> int | None:
        """Return the first sequence number of the producer's next batch; None if the producer is not known."""

    def insert(self, producer_id: int, producer_epoch: int, last_sequence: int) -> None:
        """Add the last sequence number of a batch."""

@final
class PlainSegment:
    """The facts that `check_segment` collects from the batches of a plain segment."""

    @property
    def next_offset(self) -> int:
        """The offset after the last batch."""
    @property
    def leader_epoch(self) -> int:
        """The highest leader epoch so far; -1 if none."""
    @property
    def epochs(self) -> list[tuple[int, int, int, int]]:
        """The leader epochs, each with the base offsets of its first and last batch, and its last offset."""
    @property
    def offset_gaps(self) -> list[tuple[int, int, int]]:
        """The first 100 gaps: the position of the batch after the gap, and the missing offsets [start, end)."""
    @property
    def sequence_gaps(self) -> list[tuple[int, int, int, int, int]]:
        """The first 100 batches that do not begin with their producer's next sequence number.

        `position base_offset producer_id base_sequence expected`.
        """
    @property
    def is_compacted(self) -> bool:
        """True if a batch lacks records that it once had."""
    @property
    def has_producers(self) -> bool:
        """True if a batch has a producer."""
    @property
    def has_transactions(self) -> bool:
        """True if a batch is in a transaction."""
    @property
    def replays(self) -> bool:
        """True if a broker could rebuild its producer state from the segment. If False, the broker would not start."""

def check_segment(
    file: Readable,
    size: int,
    base_offset: int,
    *,
    sequences: ProducerSequences,
    limit_offset: int | None = None,
    offset_index: OffsetIndex | None = None,
    time_index: TimeIndex | None = None,
    is_closed: bool = False,
    decodes: bool = False,
    log_offset: int | None = None,
    leader_epoch: int = ...,
    producers: Producers | None = None,
) -> PlainSegment | None:
    """Check a segment in one pass, if it is plain: all batches are sound, of magic 2 and in order, and the indexes fit.

    Args:
        file: the open `.log`.
        size: its length.
        base_offset: the lowest offset that a batch may have.
        sequences: the producers' sequences before the segment. The call adds the segment's sequences.
        limit_offset: all batches must end below this offset. None: their offsets must only be low enough for the
            indexes, which store offsets relative to `base_offset`.
        offset_index: the `.index`, if any.
        time_index: the `.timeindex`, if any.
        is_closed: whether a broker has closed the indexes. If so, the last entry of the time index must have the
            largest timestamp.
        decodes: whether to decode the records, and to check their offsets and their largest timestamp.
        log_offset: the offset after the previous segment; None for the first segment.
        leader_epoch: the highest leader epoch in the previous segments; -1, the default, for none.
        producers: the producer state before the segment. The call adds the segment's batches.

    Returns:
        The facts from the batches; None if the segment is not plain. If it is not plain, the call changes no argument.

    Raises:
        OSError: the file cannot be read.
    """

def batch_offsets_at(file: Readable, position: int) -> tuple[int, int] | None:
    """Return the first and the last offset of the sound batch at a position, if one of at most 16 MiB starts there."""

@final
class BatchCursor:
    """A position between the batches of a segment, for `skip_equal`.

    Args:
        file: the open `.log`.
        position: the position where a batch starts.
        end: the position where the last batch ends.
        start_offset: batches that end below this offset are skipped.
    """

    def __new__(cls, file: Readable, position: int, end: int, start_offset: int) -> Self: ...
    @property
    def position(self) -> int:
        """The position of the next batch."""
    @property
    def is_at_end(self) -> bool:
        """True if no batch follows."""

def skip_equal(one: BatchCursor, other: BatchCursor) -> int | None:
    """Skip sound batches of magic 2 that are in both segments, with equal offsets, leader epochs and checksums.

    Both cursors stop at the end of a segment, or before batches that differ, are damaged or have another magic.

    Returns:
        The offset after the last equal batch; None if no batch is equal.

    Raises:
        OSError: a file cannot be read.
    """

def cut_short_in_words(size: int, offset: int, position: int) -> str:
    """Explain that a `.log` of `size` bytes ends before the last entry (offset, position) of its index."""

def find_batch(data: _Data, position: int, end: int, next_offset: int, limit: int) -> tuple[int, int] | None:
    """Find the first plausible batch in `data`, which starts at `position` in a file of `end` bytes.

    Its offsets lie between `next_offset` and `limit`, and its lengths and counts agree with each other and with the
    file. Checksums are not verified. The search skips batches above 16 MiB, and a header (at most 61 bytes) that
    extends beyond `data`.

    Returns:
        The batch's position and size.
    """

def find_timestamp(
    data: _Data, position: int, end: int, target: int, start_offset: int, exact: bool = False
) -> tuple[tuple[int, int, int] | None, int]:
    """Find the first record, even a control record, with timestamp >= `target` and offset >= `start_offset`.

    With `exact`, find the first record whose timestamp equals `target`, in the first batch with that max_timestamp.

    Returns:
        (timestamp, offset, leader_epoch) or None, and the position to continue at (as from `HeaderWalk.feed`). None
        with a position at or beyond `end` means that there is no such record.
    """

def headers_alone(data: _Data) -> tuple[bytes, int]:
    """Return the headers of whole batches of magic 2, without their records, and the size of these batches in bytes.

    `Appender.append_in_place` needs these headers. It cannot verify checksums without the records, so this function
    verifies them.

    Raises:
        CorruptRecordError: a checksum is wrong, or bytes are not a batch.
        ValueError: a batch has another magic.
    """

def place_headers(headers: _Data) -> tuple[list[tuple[int, bytes]], int]:
    """Return the start positions of successive batches, given only their headers. The first position is 0.

    Returns:
        For each batch, its position and the header bytes that its checksum does not cover; and the end of the last
        batch.

    Raises:
        CorruptRecordError: bytes are not a header.
    """

def schema_ids(
    payloads: pa.Array[Any], headers: pa.Array[Any] | None = None, *, is_key: bool = False
) -> pa.RecordBatch:
    """Return how keys or values name their schemas, in the framing of schema registries.

    Args:
        payloads: the keys or values, as bytes.
        headers: the headers of the same rows, as `Log.read` returns them; None: there are none.
        is_key: look for the header `__key_schema_id`, not `__value_schema_id`. The last header of this name decides,
            before the first bytes of the payload.

    Returns:
        A row for each payload: `framing` ("none", "prefix-v0", "prefix-v1" or "header"), `schemaId` (int32) and
        `schemaGuid` (text). All three are null where the payload is null.
    """

def decode_plain(payloads: pa.Array[Any], form: str) -> pa.RecordBatch:
    """Decode keys or values of the serializers that Kafka ships.

    Args:
        payloads: the keys or values, as bytes.
        form: "utf8", "json", "int32", "int64", "float32", "float64", "uuid" or "hex".

    Returns:
        A row for each payload: `decoded`, in the type of the form; `bytes` and `error`, which are null where the
        payload is decoded or null. The field of JSON texts has the metadata `content-type: application/json`.
    """

@final
class SchemaDecoder:
    """A decoder of the keys or values of a topic, with the schemas that they name. It remembers each schema.

    Args:
        resolve: returns, for an id or the text of a GUID, the schema's type, text, references (name and text of each,
            after those that it refers to), id, subject and version; the last two may be None. It raises ValueError for
            an unknown id, with the message that the rows get.
        is_key: whether keys are decoded: they have another header.
        reader: the type, text and references of the schema that all others are resolved to. Without it and `union`,
            decoded keys and values are JSON text.
        union: the same of several schemas: decoded keys and values have the fields of all of them.
        message: the full name of the Protobuf message that typed values are; None: the first one of the schema.

    Raises:
        ValueError: a schema of `reader` or `union` is not valid.
    """

    @property
    def left_over(self) -> int:
        """The number of decoded rows with bytes after the end of the body."""

    @property
    def of_glue(self) -> int:
        """The number of rows that begin as those of the AWS Glue Schema Registry do. They are not decoded."""

    def __new__(
        cls,
        resolve: Callable[[int | str], tuple[str, str, list[tuple[str, str]], int, str | None, int | None]],
        *,
        is_key: bool = False,
        reader: tuple[str, str, list[tuple[str, str]]] | None = None,
        union: list[tuple[str, str, list[tuple[str, str]]]] | None = None,
        message: str | None = None,
    ) -> Self: ...
    def decode(self, payloads: pa.Array[Any], headers: pa.Array[Any] | None = None) -> pa.RecordBatch:
        """Decode the first rows: all of them, or fewer if they take much memory.

        Returns:
            A row for each of these payloads: `decoded`; `bytes`, null where the payload is decoded or
            null; `framing`, `schemaId`, `subject`, `version`; and `error`, null where the payload is decoded, null or
            not framed.
        """

@final
class ValueEncoder:
    """An encoder of the keys or values of rows.

    Args:
        part: "key" or "value".
        form: a form of `decode_plain`, without a schema.
        schema: the id, type, text and references of the schema that is written.
        message: the full name of the message of a Protobuf schema; None: the first one.
        guid: the GUID of the schema, which the header of the part gets; None: the id is before each key or value.

    Raises:
        ValueError: the schema is not valid, or does not have the message.
    """

    def __new__(
        cls,
        part: str,
        form: str,
        schema: tuple[int, str, str, list[tuple[str, str]]] | None = None,
        *,
        message: str | None = None,
        guid: bytes | None = None,
    ) -> Self: ...
    def encode(self, rows: pa.RecordBatch, headers: pa.Array[Any] | None = None, first_row: int = 0) -> pa.RecordBatch:
        """Encode the column of the part: values of the types that decoding gives, or JSON texts.

        For a null, the bytes are those of the column `keyBytes` or `valueBytes`.

        Returns:
            The part as bytes; and `headers`, if there are any. Those of an encoded key or value have the id of its
            schema, or none.

        Raises:
            ValueError: a value does not fit. The message has its row, counted from `first_row`, and its place.
        """

@final
class OffsetCommits:
    """A decoder of the offset commits among records of `__consumer_offsets`. It keeps the key of each commit in memory.

    Args:
        memory: the maximum number of bytes that the keys may take; 250 MB by default.
    """

    @property
    def failed(self) -> tuple[int, int, str] | None:
        """The number of commits that could not be decoded, and the row index and error of the first one; or None."""

    def __new__(cls, memory: int = ...) -> Self: ...
    def decode(self, keys: pa.Array[Any], values: pa.Array[Any]) -> pa.RecordBatch:
        """Decode records that follow all records decoded before.

        Records of other types are left out. Commits that cannot be decoded are left out too: see `failed`.

        Returns:
            One row per commit: `row group topic partition is_removed offset previous_offset previous_commit_time
            leader_epoch metadata commit_time expire_time topic_id`. `row` is the index of the record. `previous_offset`
            is the offset of the group's previous commit, even if that commit was removed, and `previous_commit_time` is
            its time. Both are null if unknown. For a removed offset, the other columns from `offset` on are null.

        Raises:
            UnsupportedFormatError: a column takes more than 1 GiB, or the keys more memory than is allowed.
        """

@final
class OffsetIndex:
    """The (offset, position) entries of a `.index`, up to the first zero slot after slot 0; `raw` keeps all slots."""

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; the base offset for an empty index."""

    def __new__(cls, data: _Data, base_offset: int, raw: bool = False) -> Self: ...
    def __len__(self) -> int: ...
    def lookup(self, offset: int) -> tuple[int, int]:
        """Return the last entry with offset <= `offset`, or (base_offset, 0) if no entry matches."""

    def upper_bound(self, position: int, size: int) -> int | None:
        """Return the offset of the first entry whose position is >= `position` + `size`."""

    def entries(self) -> pa.RecordBatch:
        """Return all entries: `offset` int64, `position` int32."""

    def length_below(self, offset: int) -> int:
        """Return the length of the file without the entries from `offset` on."""

    def sanity_check(self) -> None:
        """Run Kafka's sanity check of the index.

        Raises:
            CorruptRecordError: the check fails.
        """

@final
class SpaceEstimate:
    """An estimate of the size of records in each message format and codec. To measure it, each batch is built in all.

    Args:
        max_batch_bytes: the cap on one batch's decompressed size.
        batch_sizes: the values of `batch.size` to measure.
    """

    def __new__(cls, *, max_batch_bytes: int = ..., batch_sizes: Sequence[int] = ...) -> Self: ...
    def feed(self, data: _Data, position: int) -> int:
        """Measure the whole batches at the start of `data`, which lies at `position`; return their size in bytes."""

    def finish(self) -> None:
        """Close the batch that collects single messages. The next data may come from another segment."""

    @property
    def needed(self) -> int:
        """The size in bytes of the next batch, which starts after the consumed bytes; 0 if unknown."""
    @property
    def records(self) -> int:
        """The number of records."""

    def space(self, magic: int, compression: str) -> tuple[int, int] | None:
        """Return the size of all batches in a format and codec, and the size of their content compressed on its own.

        The content is keys and values, in magic 2 also headers. Return None if the magic does not support the codec.
        """

    def filled(self, compression: str, batch_size: int) -> int | None:
        """Return the size of all records in batches of magic 2 that are filled up to `batch_size`; None if unknown."""

@final
class TimeIndex:
    """The (timestamp, offset) entries of a `.timeindex`, up to the first slot after slot 0 whose offset is zero."""

    @property
    def last_offset(self) -> int: ...
    @property
    def last_entry(self) -> tuple[int, int]:
        """The (timestamp, offset) of the last entry; (-1, base offset) for an empty index."""

    def __new__(cls, data: _Data, base_offset: int, raw: bool = False) -> Self: ...
    def __len__(self) -> int: ...
    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Return the last entry with timestamp <= `timestamp`, or (-1, base_offset) if no entry matches."""

    def entries(self) -> pa.RecordBatch:
        """Return all entries: `timestamp` int64, `offset` int64."""

    def length_below(self, offset: int) -> int:
        """Return the length of the file without the entries from `offset` on."""

    def sanity_check(self) -> None:
        """Run Kafka's sanity check of the index.

        Raises:
            CorruptRecordError: the check fails.
        """

@final
class TransactionIndex:
    """The entries of a `.txnindex`: the aborted transactions whose marker lies in the segment."""

    def __new__(cls, data: _Data, base_offset: int) -> Self: ...
    def __len__(self) -> int: ...
    def entries(self) -> pa.RecordBatch:
        """Return all entries: `version producer_id first_offset last_offset last_stable_offset`."""

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[tuple[int, int, int]], bool]:
        """Return (producer_id, first_offset, last_offset) for a read from `fetch_offset` to `upper_bound`.

        Also return whether the list is complete. If not, later segments may have more.
        """

    def length_below(self, offset: int) -> int:
        """Return the length of the file without the transactions whose marker is at or above `offset`."""

    def sanity_check(self) -> None:
        """Run Kafka's sanity check of the index.

        Raises:
            CorruptRecordError: the check fails.
        """

def open_transactions(data: _Data) -> list[tuple[int, int]]:
    """Return the producer and the first offset of each transaction that is open in a `.snapshot`.

    Raises:
        CorruptRecordError: version, CRC or length is wrong.
    """

def segment_files(names: list[str], kinds: dict[str, int]) -> tuple[dict[int, int], list[str]]:
    """Return the kinds of files of each segment, by ascending base offset, and the names that belong to no segment.

    Args:
        names: the names in a partition directory.
        kinds: the bit for each extension; extensions have no dot. The kinds of a segment's files are a sum of bits.
    """

def producer_snapshot(data: _Data) -> pa.RecordBatch:
    """Return the producers in a `.snapshot`.

    Returns:
        `producer_id producer_epoch last_sequence last_offset offset_delta timestamp coordinator_epoch
        current_txn_first_offset`, one row for each producer.

    Raises:
        CorruptRecordError: version, CRC or length is wrong.
    """

def json_rows(
    data: _Data, bytes: str = "utf8", first_line: int = 1, json: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Read JSON lines in the form that `json_lines` writes. Missing fields are null.

    Args:
        data: whole lines. Empty ones are skipped.
        bytes: how key, value and header values are written (see `json_lines`). `{"base64": ...}` is always accepted.
        first_line: the number of the first line, for errors.
        json: "key", "value" or both, whose column has the JSON text of any value. `keyBytes` and `valueBytes` then
            follow it: the bytes of what was not decoded.

    Returns:
        `topic partition offset timestamp timestampType leaderEpoch key value headers`, types as of rows.

    Raises:
        ValueError: a line is not such an object. The message gives the line number.
    """

def highest_cluster_producer_id(data: _Data) -> int | None:
    """Return the highest producer id in whole batches that a cluster may also assign; None for no such id.

    Bytes that are not a batch end the search.
    """

def json_lines(rows: pa.RecordBatch, bytes: str = "utf8", objects: Sequence[str] | None = None) -> bytes:
    """Write rows as JSON lines: column names as keys, timestamps in ms, timestampType by name.

    Args:
        rows: the rows. A column of strings whose field has the metadata `content-type: application/json` holds JSON.
        bytes: how keys, values and header values are written: "utf8" (bytes that are not UTF-8 become
            `{"base64": ...}`), "base64" or "hex".
        objects: the columns whose bytes are all written as `{"base64": ...}`.
    """

def binary_columns(rows: pa.RecordBatch) -> list[str]:
    """Return the names of the columns with bytes that are not all UTF-8."""

@final
class LogDump:
    """The text of `kafka-dump-log` for a `.log` file."""

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """(offset, next offset) wherever offsets are not consecutive."""

    def __new__(
        cls,
        *,
        deep_iteration: bool = False,
        print_data_log: bool = False,
        skip_record_metadata: bool = False,
        escape_controls: bool = False,
    ) -> Self: ...
    def feed(self, data: _Data, position: int) -> tuple[bytes, int]:
        """Return the lines of the whole batches in `data`, and the size of these batches in bytes.

        A call returns after the batch with which its text reaches 4 MiB. If the size is 0 but there is text, a batch is
        damaged: the text is its readable part, and the next call raises the error.
        """

@final
class JsonDump:
    """A dump with one JSON object for each batch, with its records on request."""

    def __new__(cls, *, records: bool = False, bytes: str = "utf8") -> Self: ...
    def feed(self, data: _Data, position: int) -> tuple[bytes, int]:
        """Return the lines of the whole batches in `data`, and the size of these batches (see `LogDump.feed`).

        A batch whose records are damaged has `"records": null`. The next call raises the error.
        """

def kraft_snapshot(records: Sequence[_Data], timestamp: int, controls: Sequence[tuple[int, _Data]] = ...) -> bytes:
    """Return a KRaft snapshot of these metadata records only (`bootstrap.checkpoint`).

    Args:
        records: the metadata records as bytes (see `metadata_record`).
        timestamp: the timestamp of every record, ms.
        controls: control records after the header, each with its type (`ControlRecordType`) and its value as JSON.
    """

def metadata_record(name: str, version: int, json: _Data) -> bytes:
    """Return a record of `__cluster_metadata`, as `state_records` decodes it.

    Args:
        name: the name in the message's definition.
        version: the version of the message.
        json: the message. Only tagged fields may be omitted. An omitted field gets its default.

    Raises:
        ValueError: no record type has this name, or the JSON does not fit its definition.
        UnsupportedFormatError: the version is not known.

    >>> metadata_record("RemoveTopicRecord", 0, b'{"topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}').hex()
    '0109000000000000000000000000000000000100'
    """

def murmur2(data: _Data) -> int:
    """Return the hash from which Kafka computes a key's partition (`Utils.murmur2`), a signed 32-bit number.

    >>> murmur2(b"21")
    -973932308
    """

def state_records(topic: str, keys: pa.Array[Any], values: pa.Array[Any], memory: int = ...) -> pa.RecordBatch:
    """Decode records of a topic that holds Kafka's own state: as many as fit into the memory, but at least one.

    A key or value of an unknown or malformed type becomes a JSON string of base64. `unknown` then gives the reason.

    Args:
        topic: `__consumer_offsets`, `__transaction_state`, `__share_group_state`, `__remote_log_metadata` or
            `__cluster_metadata`.
        keys: the records' keys, binary.
        values: the records' values, binary.
        memory: the maximum memory of one record in bytes, including the Python objects of its JSON and their rows in a
            table; 250 MB by default. If a call decodes several records, they take at most a quarter of it together.

    Returns:
        One row per record: `type name version key value unknown memory is_too_large`. `type` and `name`, the number and
        the name of its type, are null if unknown. `version` is the version of its value. Key and value are JSON as
        Kafka's `*JsonConverter` classes write it, and null for a record without key or value. `memory` is the
        approximate memory of the record in bytes. Key and value of a record that is too large are not decoded.

    Raises:
        ValueError: `topic` is not one of these topics.
        UnsupportedFormatError: a column takes more than 1 GiB.
    """

def embedded_json(name: str, data: _Data, version: int | None = None) -> bytes:
    """Decode a message that a record contains as bytes, and return it as JSON.

    Args:
        name: `ConsumerProtocolAssignment` or `ConsumerProtocolSubscription`.
        data: the message.
        version: its version; None if the version precedes the message.

    Raises:
        CorruptRecordError: the message is cut or malformed.
        UnsupportedFormatError: the version is not known.
        ValueError: the name is not known.

    >>> embedded_json("ConsumerProtocolAssignment", bytes([0, 0, 0, 0, 0, 0, 0, 0]), 0)
    b'{"assignedPartitions":[],"userData":""}'
    """

@final
class KeySketch:
    """A HyperLogLog sketch of the distinct keys of records. Its standard error is 1.6 %.

    Args:
        serialized: the result of `to_bytes`; None for an empty sketch.

    Raises:
        ValueError: `serialized` is not a sketch.
    """

    def __new__(cls, serialized: bytes | None = None) -> Self: ...
    def merge(self, other: KeySketch) -> None:
        """Count the keys of another sketch too."""

    def estimate(self) -> float:
        """Return the approximate number of distinct keys."""

    def to_bytes(self) -> bytes:
        """Return the sketch, for `KeySketch(serialized)`."""

@final
class Profile:
    """Sums of records and batches by time, magic and codec.

    A record counts at its timestamp, a batch at its largest timestamp. Without a timestamp, the time is null. All
    records on disk count; control records have a sum of their own.

    Args:
        serialized: the result of `to_bytes`; None for an empty profile.
        is_bounded: keep few groups, and add short intervals. If there are too many hours, they become days, weeks and
            years. Times after the year 2200 count as none.

    Raises:
        ValueError: `serialized` is not a profile.
        CorruptRecordError: `serialized` is cut.
    """

    def __new__(cls, serialized: bytes | None = None, *, is_bounded: bool = False) -> Self: ...
    def feed(
        self,
        file: Readable,
        position: int,
        end: int,
        *,
        first_offset: int | None = None,
        keys: KeySketch | None = None,
    ) -> None:
        """Count the batches of a file from `position` to `end`.

        Args:
            file: the open `.log`.
            position: the byte position of the first batch.
            end: the byte position after the last batch.
            first_offset: the first offset of a run of a survey: rows below it do not count, and of batches with
                malformed records only the headers count. Runs must come in order. None: the batches must be sound and
                whole.
            keys: gets the keys.

        Raises:
            CorruptRecordError: without `first_offset`, a batch is damaged or cut.
        """

    def merge(self, other: Profile) -> None:
        """Add another profile."""

    def groups(self) -> pa.RecordBatch:
        """Return the groups in order: `time` (the start of the hour in ms), `magic`, `compression`, and the sums."""

    @property
    def records(self) -> int: ...
    @property
    def first_timestamp(self) -> int | None: ...
    @property
    def last_timestamp(self) -> int | None: ...
    @property
    def interval_width(self) -> int | None:
        """The width of the intervals in ms, from 10 to 600,000; None if there are too many, or it is not bounded."""

    def intervals(self) -> pa.RecordBatch:
        """Return `time` (the start in ms), `records` and `bytes` of each interval, in order."""

    def batch_sizes(self) -> list[tuple[int, int, int]]:
        """Return the batches by size: the power of two at or below it, their number and their bytes."""

    def to_bytes(self) -> bytes:
        """Return the profile, for `Profile(serialized)`."""

@final
class LatestRecords:
    """The latest record of each key, as a coordinator keeps it when it loads its topic.

    It keeps each key in memory until a record without a value removes the key.

    Args:
        memory: the maximum memory of the records in bytes; no limit by default. One record may take at most an eighth
            of it.
        share: (number, count): the hash divides all keys into `count` equal shares. Keep only the keys of share
            `number`.
    """

    def __new__(cls, memory: int = ..., *, share: tuple[int, int] = ...) -> Self: ...
    def push(
        self, keys: pa.Array[Any], values: pa.Array[Any], offsets: pa.Array[Any], timestamps: pa.Array[Any]
    ) -> None:
        """Add records that come after all earlier ones. A record without a value removes its key.

        Args:
            keys: binary. Records without a key are ignored.
            values: binary.
            offsets: int64.
            timestamps: int64, ms.

        Raises:
            ValueError: the arrays differ in length, or have other types.
            UnsupportedFormatError: the records take more memory than is allowed.
        """

    def take_commit_groups(self) -> dict[str, int]:
        """Remove the offset commits of `__consumer_offsets`, and return their groups with the newest timestamp of each.

        Commits that cannot be decoded stay.
        """

    def too_large(self) -> list[tuple[int, int]]:
        """Return the offset of each latest record that is too large to keep, and the size of its key and value."""

    def take(self, *, by_group: bool = False) -> Iterator[pa.RecordBatch]:
        """Remove the records and return them in the order of the log, in one or more batches.

        Args:
            by_group: return the records of each group of `__consumer_offsets` one after the other.

        Yields:
            `key value offset timestamp`.
        """

@final
class LeaderEpochs:
    """The leader epochs of a log and their start offsets (LeaderEpochFileCache), as in `leader-epoch-checkpoint`.

    Args:
        entries: (epoch, start_offset), in any order.

    >>> epochs = LeaderEpochs([(0, 0), (2, 10)])
    >>> epochs.assign(3, 25), epochs.end_offset_for(2, 40)
    (True, (2, 25))
    """

    def __new__(cls, entries: Sequence[tuple[int, int]] = ...) -> Self: ...
    def entries(self) -> list[tuple[int, int]]:
        """Return (epoch, start_offset), ascending."""

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Assign the epoch's start offset, and drop entries that contradict it. Return whether anything changed.

        Raises:
            ValueError: the epoch or the offset is negative.
        """

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop the epochs that began at `end_offset` or later. Return whether there were any."""

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drop the epochs that ended at or before `start_offset`. Return whether anything changed.

        The epoch that contains `start_offset` then starts there.
        """

    def clear(self) -> bool:
        """Drop all epochs. Return whether there were any."""

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the highest epoch not above `epoch`, and the offset after its last record; (-1, -1) if unknown."""

@final
class Producers:
    """The producer state of a log (ProducerStateManager): sequences, epochs, open transactions."""

    @property
    def is_empty(self) -> bool:
        """True if no producer is known."""
    @property
    def highest_cluster_id(self) -> int | None:
        """The highest producer id that a cluster may also assign, or None."""
    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest transaction that is open, or whose marker is not replicated yet."""

    def __new__(cls) -> Self: ...
    @staticmethod
    def from_snapshot(data: _Data, *, now: int, producer_id_expiration_ms: int) -> Producers:
        """Read a `.snapshot`. Leave out producers that have expired at `now` (ms) and have no open transaction.

        Raises:
            CorruptRecordError: version, CRC or length is wrong.
        """

    def to_snapshot(self) -> bytes:
        """Return the content of a `.snapshot`, ordered by producer id."""

    def entries(self) -> pa.RecordBatch:
        """Return the producers with the columns of `producer_snapshot`, ordered by producer id."""

@final
class SegmentState:
    """The active segment, as the load of the log left it.

    Args:
        base_offset: the offset in its file name.
        created_ms: the time in ms at which it was created or opened.
        size: the size of the `.log` in bytes.
        first_timestamp: the max_timestamp of its first batch; None if it is empty.
        index: the content of the `.index`. If zeros follow the entries, the index counts as full, as in Kafka.
        timeindex: the content of the `.timeindex`. If zeros follow the entries, the index counts as full, as in Kafka.
        txnindex: the content of the `.txnindex`.
        max_timestamp: the segment's largest timestamp, and the last offset of the first batch that has it. None: use
            the last entry of the time index, as a load does.
    """

    def __new__(
        cls,
        base_offset: int,
        *,
        created_ms: int,
        size: int = 0,
        first_timestamp: int | None = None,
        index: _Data | None = None,
        timeindex: _Data | None = None,
        txnindex: _Data | None = None,
        max_timestamp: tuple[int, int] | None = None,
    ) -> Self: ...

@final
class SegmentWrite:
    """Bytes to append to the files of one segment. Large contents are a `pa.Buffer`."""

    @property
    def base_offset(self) -> int:
        """The base offset of the segment."""
    @property
    def is_new(self) -> bool:
        """True if the log rolls before this write.

        For a roll, write `final_time_entry` and the snapshot, and create the files of this segment. If files with these
        names exist, replace them: they are stale, or belong to an empty active segment.
        """
    @property
    def snapshot(self) -> bytes | pa.Buffer | None:
        """At a roll: the producer snapshot named by `base_offset`; None if the file exists."""
    @property
    def final_time_entry(self) -> bytes | pa.Buffer:
        """At a roll: the last bytes for the time index of the previous segment."""
    @property
    def log(self) -> bytes | pa.Buffer: ...
    @property
    def index(self) -> bytes | pa.Buffer: ...
    @property
    def timeindex(self) -> bytes | pa.Buffer: ...
    @property
    def txnindex(self) -> bytes | pa.Buffer: ...

@final
class Appended:
    """The result of an append, and the bytes to write."""

    @property
    def first_offset(self) -> int:
        """The offset of the first record; for a duplicate, the offset that was stored before.

        -1 if there was no batch. Also -1 for v0 and v1 with given offsets, because their headers lack the first offset.
        """
    @property
    def last_offset(self) -> int:
        """The offset of the last record; -1 if there was no batch."""
    @property
    def log_append_time(self) -> int:
        """The timestamp that the records got, or -1; for a duplicate, the max timestamp of the stored batch."""
    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of the last accepted request; -1 without one."""
    @property
    def is_duplicate(self) -> bool:
        """True if the whole request was stored before, so that nothing changed."""
    @property
    def count(self) -> int:
        """The number of accepted requests, including duplicates."""
    @property
    def duplicates(self) -> int:
        """The number of duplicates among the accepted requests."""
    @property
    def consumed(self) -> int:
        """The number of bytes of `data` that were accepted."""
    @property
    def has_new_epochs(self) -> bool:
        """True if the leader epochs changed: their checkpoint must be written before the log."""
    @property
    def writes(self) -> list[SegmentWrite]:
        """The writes, in the order in which they must be done."""
    @property
    def error(self) -> Exception | None:
        """The reason why `append_each` refused the next request, as a new exception on each access.

        The requests before it are accepted and must be written.
        """

    def followed_by(self, next: Appended) -> Appended:
        """Return this result and a later one combined, without their writes."""

@final
class Closing:
    """The bytes to write for a clean close."""

    @property
    def final_time_entry(self) -> bytes | pa.Buffer:
        """The last bytes for the active segment's time index."""
    @property
    def snapshot(self) -> bytes | pa.Buffer | None:
        """The producer snapshot named by the log end offset; None if the file exists."""

@final
class Appender:
    """An appender to one log. It checks appends as a broker does, and computes the bytes to write. It writes no file.

    A refused append changes nothing, not even leader epochs and segments. (Kafka assigns the epoch and rolls the
    segment before it refuses.) The arguments that are not listed here are settings of the topic, under Kafka's names.
    Sizes are in bytes, times in ms. Not thread-safe.

    Args:
        segment: the active segment.
        producers: the producer state at the log end, which is copied.
        leader_epochs: the leader epochs at the log end, which are copied.
        log_start_offset: the first offset of the log.
        log_end_offset: the next offset to be assigned.
        segment_jitter_seed: determines, together with a segment's base offset, the share of `segment_jitter_ms` for
            that segment.
        max_batch_bytes: the cap on one batch's decompressed size.

    Raises:
        ValueError: a setting is invalid.
    """

    @property
    def producers(self) -> Producers:
        """A copy of the producer state."""
    @property
    def leader_epochs(self) -> LeaderEpochs:
        """A copy of the leader epochs."""
    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset whose outcome `read_committed` consumers wait for, or None."""
    @property
    def last_stable_offset(self) -> int:
        """The offset at which `read_committed` consumers stop."""
    @property
    def segment_base_offset(self) -> int:
        """The base offset of the active segment."""
    @property
    def segment_size(self) -> int:
        """The size of the active segment's `.log`."""
    @property
    def max_timestamp(self) -> tuple[int, int]:
        """The active segment's largest timestamp, and the last offset of the first batch that has it."""

    def __new__(
        cls,
        *,
        segment: SegmentState,
        producers: Producers,
        leader_epochs: LeaderEpochs,
        log_start_offset: int,
        log_end_offset: int,
        segment_bytes: int,
        segment_ms: int,
        segment_jitter_ms: int,
        segment_index_bytes: int,
        index_interval_bytes: int,
        max_message_bytes: int,
        max_decompressed_message_bytes: int,
        compression_type: str,
        compression_gzip_level: int,
        compression_lz4_level: int,
        compression_zstd_level: int,
        message_timestamp_type: str,
        message_timestamp_before_max_ms: int,
        message_timestamp_after_max_ms: int,
        cleanup_policy: str,
        max_compaction_lag_ms: int,
        producer_id_expiration_ms: int,
        message_format: int,
        segment_jitter_seed: int = 0,
        max_batch_bytes: int = ...,
    ) -> Self: ...
    def append(
        self,
        data: _Data,
        *,
        leader_epoch: int,
        now: int,
        origin: _Origin = "client",
        may_be_cut: bool = True,
        transaction_version: int = 0,
    ) -> Appended:
        """Append one produce request: all whole batches in `data`, or none.

        Args:
            data: from a client, one batch of magic 2 with base offset 0. With given offsets ("replication"), any number
                of batches.
            leader_epoch: the leader epoch that a leader stores in the batches. With given offsets, batches of a higher
                leader epoch are left out. With 2^31 - 1, no batch is left out, and a batch without a leader epoch gets
                that of the previous batch.
            now: the clock, ms.
            origin: who appends, which determines the checks.
            may_be_cut: leave out an incomplete last batch, as a broker does. If False, an incomplete batch is an error.
            transaction_version: the version of a coordinator's markers.

        Raises:
            AppendError: the append is refused. The subclass has the name of Kafka's error.
            CorruptRecordError: a checksum is wrong, or the framing is broken.
        """

    def append_each(
        self,
        data: _Data,
        *,
        leader_epoch: int,
        now: int,
        origin: _Origin = "client",
        position: int = 0,
        is_encoded_here: bool = False,
    ) -> Appended:
        """Append each batch in `data` as its own request, up to the first that is refused (see `Appended.error`).

        Args:
            data: as in `append`. An incomplete last batch is ignored.
            leader_epoch: as in `append`.
            now: as in `append`.
            origin: as in `append`.
            position: the position of `data` in its file, which is added to the positions in errors.
            is_encoded_here: True only if the batches are from an `Encoder`, because their headers must describe their
                records correctly. Headers and checksums are checked. Records are read only if the topic's settings need
                more than the headers.
        """

    def append_in_place(self, headers: _Data, *, leader_epoch: int, now: int, origin: _Origin = "client") -> Appended:
        """Append all batches of a file that becomes the `.log` of a segment. Either all batches are appended or none.

        If the active segment is empty, the file becomes its `.log`. Otherwise, it becomes the `.log` of a new segment.
        `SegmentWrite.log` has the headers to be written.

        Args:
            headers: the batches' headers (`headers_alone`). The batches must be from an `Encoder`.
            leader_epoch: as in `append`.
            now: as in `append`.
            origin: as in `append`.

        Raises:
            AppendError: a batch is refused; or the append would change more than headers, would need the records,
                or would begin a new segment between two of the batches.
            CorruptRecordError: the framing is broken.
        """

    def roll(self, now: int) -> Appended:
        """Begin a new segment at the log end offset."""

    def close(self) -> Closing:
        """Return the bytes of a clean close."""

    def set_log_start_offset(
        self, offset: int, batch_base_offset: int | None = None, snapshot_offset: int | None = None
    ) -> bool:
        """Raise the log start offset, and return True if the leader epochs changed.

        Args:
            offset: the new log start offset.
            batch_base_offset: the base offset of the batch that contains `offset`; None if a batch starts at `offset`.
            snapshot_offset: the offset of the newest producer snapshot, or None.

        Raises:
            ValueError: the offset is above the high watermark.
        """

    def set_high_watermark(self, offset: int | None) -> None:
        """Set the high watermark, between log start and log end. With None, it is always the log end."""

    def remove_expired_producers(self, now: int) -> list[int]:
        """Remove producers that are idle for `producer_id_expiration_ms`; return their ids."""

@final
class CompactionScan:
    """A scan of a log for the records that compaction keeps. It covers only keys whose hashes lie in a range.

    First feed the clean segments, for their transactions only ("follow"), then the dirty segments ("dirty"). After
    that, `newest` returns the verdicts on the dirty records. Finally, feed the clean segments again ("clean").

    Args:
        txnindexes: the content of each `.txnindex` of the log.
        log_start_offset: transactions that were aborted below this offset are ignored.
        first_dirty_offset: the first offset of the dirty part.
        now: ms since the epoch. Tombstones and markers with a delete horizon at or before this time are dropped.
        hash_key: the key of the hash function, a secret value for this run.
        hash_range: the first hash and the number of hashes; (0, 0) for all.
        max_bytes: the memory for keys. If it is not enough, the hash range shrinks.
        max_batch_bytes: the cap on one batch's decompressed size.
        threads: the number of threads that decompress and hash.

    Raises:
        UnsupportedFormatError: a transaction index has an unknown version.
    """

    def __new__(
        cls,
        txnindexes: Sequence[Buffer],
        *,
        log_start_offset: int,
        first_dirty_offset: int,
        now: int,
        hash_key: tuple[int, int],
        hash_range: tuple[int, int],
        max_bytes: int,
        max_batch_bytes: int,
        threads: int = 1,
    ) -> Self: ...
    def begin(self, phase: Literal["follow", "dirty", "clean"], *, keeps_legacy_tombstones: bool = True) -> None:
        """Start the next segment.

        `keeps_legacy_tombstones` is for tombstones of magic 0 and 1, which have no delete horizon.
        """

    def feed(self, data: Buffer, position: int) -> int:
        """Scan the whole batches at the start of `data`, which lies at `position`; return their size in bytes.

        Raises:
            CorruptRecordError: a batch is damaged.
            UnsupportedFormatError: a magic or codec is unknown, or a batch exceeds `max_batch_bytes`.
        """

    def finish(self) -> SegmentVerdicts:
        """End the segment, and return the verdicts on it."""

    def newest(self, first: int, end: int) -> tuple[bytes, bytes, bytes]:
        """Return the verdicts on the dirty records with the indexes [first, end) that are the newest with their key.

        Returns:
            Three bit sets: records that stay; records that stay and need a delete horizon; tombstones that are dropped.
        """

    @property
    def needed(self) -> int:
        """The size in bytes of the next batch, which starts after the consumed bytes; 0 if unknown."""
    @property
    def keys(self) -> int:
        """The number of keys of the dirty part in this hash range."""
    @property
    def next_hash_range(self) -> tuple[int, int] | None:
        """The range for the next scan; None if all hashes are covered."""

@final
class SegmentVerdicts:
    """The verdicts of a `CompactionScan` on one segment, except those on dirty records with keys."""

    @property
    def first_number(self) -> int:
        """The index of the segment's first record among the records of all dirty segments: a multiple of 8."""
    @property
    def keep(self) -> bytes:
        """One bit per record of the segment. It is set for each marker and each record of the clean part that stays."""
    @property
    def stamp(self) -> bytes:
        """One bit per record, as in `keep`. It is set for those that stay and need a delete horizon."""
    @property
    def txnindex(self) -> bytes:
        """The entries of aborted transactions whose marker is still needed."""
    @property
    def records(self) -> int:
        """The number of records in the segment."""
    @property
    def aborted(self) -> int:
        """The number of records of aborted transactions."""
    @property
    def control(self) -> int:
        """The number of control records that stay."""
    @property
    def discarded(self) -> int:
        """The number of control records that are dropped."""
    @property
    def unkeyed(self) -> int:
        """The number of records without a key. Aborted records are not counted."""
    @property
    def first_unkeyed(self) -> int | None:
        """The offset of the first record without a key."""
    @property
    def tombstones(self) -> int:
        """The number of records with a key and a null value. Aborted records are not counted."""
    @property
    def expired(self) -> int:
        """The number of tombstones of the clean part that are dropped although no newer record has their key."""

@final
class CompactionRewrite:
    """A rewrite of old segments to new ones, by the verdicts on their records.

    Args:
        producers: the producer state at the log end, as the content of a `.snapshot`.
        end_offset: the batch that ends at this offset stays, even without records.
        delete_horizon_ms: the delete horizon for batches that get one.
        max_batch_bytes: the cap on one batch's decompressed size.
        threads: the number of threads that decompress and build batches.
    """

    def __new__(
        cls, producers: Buffer, *, end_offset: int, delete_horizon_ms: int, max_batch_bytes: int, threads: int = 1
    ) -> Self: ...
    def begin(self, keep: Buffer, stamp: Buffer, txnindex: Buffer) -> None:
        """Start a segment with its verdicts. Each transaction index entry moves together with its marker."""

    def feed(self, data: Buffer, position: int, output: SegmentOutput) -> int:
        """Rewrite the whole batches at the start of `data`, which lies at `position`; return their size in bytes.

        If `is_full`, the waiting batches do not fit. Call again with a new output. Its base offset must be the end
        offset of the full output.

        Raises:
            CorruptRecordError: a batch is damaged, or begins below the end of the previous batch.
            UnsupportedFormatError: as from `CompactionScan.feed`; or a message of magic 0 or 1 is the last of the range
                and is dropped.
        """

    def finish(self, output: SegmentOutput) -> bool:
        """End a segment, as `SegmentConversion.finish` does."""

    @property
    def is_full(self) -> bool:
        """True if the output is full while batches wait."""
    @property
    def needed(self) -> int:
        """The size in bytes of the next batch, which starts after the consumed bytes; 0 if unknown."""
    @property
    def records(self) -> int:
        """The number of records of the segment so far."""
    @property
    def kept(self) -> int:
        """The number of records of the segment so far that stayed."""

@final
class SegmentConversion:
    """A conversion of old segments to new ones of another magic or codec. Offsets do not change.

    For each old segment, call `begin`, `feed` and `finish`. If `is_full`, continue with a new output, whose base offset
    is the `next_offset` of the full one.

    Args:
        magic: 0, 1 or 2; None keeps the magic of each batch.
        compression: the name of a codec, or "none"; None keeps the codec of each batch.
        compression_level: the level of batches that are built anew; None for Kafka's default.
        recompress: also recompress batches that already have the codec.
        batch_size: join neighbouring batches up to this many uncompressed bytes, if readers see no difference. None to
            join single messages only.
        join_below: join only below this offset. Above it, another replica may end between two batches that are joined.
        drop_headers: drop headers that the magic cannot store. If False, headers are an error for such a magic.
        drop_producers: drop producer ids, even if the magic supports them. Also drop control batches, the records of
            `aborted` transactions, and all records from `last_stable_offset` on.
        aborted: (producer_id, first_offset, last_offset) of the aborted transactions of the log.
        last_stable_offset: the last stable offset of the log.
        log_end_offset: the log end offset. A batch at this offset or above is reported as damage.
        max_batch_bytes: the cap on one batch's decompressed size.
        threads: the number of threads that share the work.

    Raises:
        ValueError: the conversion is impossible, or would lose data that the message names. `feed` also raises this
            error.
    """

    def __new__(
        cls,
        *,
        magic: int | None = None,
        compression: str | None = None,
        compression_level: int | None = None,
        recompress: bool = False,
        batch_size: int | None = None,
        join_below: int | None = None,
        drop_headers: bool = False,
        drop_producers: bool = False,
        aborted: Sequence[tuple[int, int, int]] = ...,
        last_stable_offset: int = ...,
        log_end_offset: int = ...,
        max_batch_bytes: int = ...,
        threads: int = 1,
    ) -> Self: ...
    def begin(self, txnindex: _Data, max_segment_bytes: int) -> None:
        """Start an old segment. The new ones get its transaction index, and grow up to `max_segment_bytes`."""

    def feed(self, data: _Data, position: int, output: SegmentOutput) -> int:
        """Rewrite whole batches at the start of `data`, which lies at `position`; return their size in bytes.

        The size is 0 only if `output` is full, or if `data` is shorter than the next batch, whose size is `needed`.
        """

    def finish(self, output: SegmentOutput) -> bool:
        """Push the waiting batches at the end of the old segment.

        Returns:
            True if all batches are pushed. False if `output` is full; in that case, call again with another output.
        """

    @property
    def needed(self) -> int:
        """The size in bytes of the next batch, which starts after the consumed bytes; 0 if unknown."""
    @property
    def is_full(self) -> bool:
        """True if the output has no room for the next batch."""
    @property
    def changed(self) -> int:
        """The number of batches that changed so far."""
    @property
    def converted(self) -> dict[str, int]:
        """The counts so far, by name.

        - `batches`: all batches.
        - `changed`: batches that changed.
        - `apart`: batches that were not joined because of `join_below`.
        - `headers`, `timestamps`: records that lost their headers, or their timestamp.
        - `producers`: batches that lost their producer.
        - `control_batches`: dropped control batches.
        - `aborted`: dropped records of aborted transactions.
        - `undecided`: dropped records from `last_stable_offset` on.
        """

@final
class SegmentErasure:
    """A rewrite of old segments to new ones without the records that a scan found, or without their values.

    Offsets and control batches stay. A batch of magic 2 that loses all its records stays as a header. A message of
    magic 0 or 1 is dropped, and a wrapper that keeps some messages becomes a batch of magic 2, as in Kafka's cleaner.

    Args:
        blank: keep the records, with an empty value.
        max_batch_bytes: the cap on one batch's decompressed size.
    """

    def __new__(cls, *, blank: bool = False, max_batch_bytes: int = ...) -> Self: ...
    def begin(self, erased: _Data, txnindex: _Data, max_segment_bytes: int) -> None:
        """Start an old segment. Records with a set bit in `erased` are erased. See `SegmentConversion.begin`."""

    def feed(self, data: _Data, position: int, output: SegmentOutput) -> int:
        """Rewrite whole batches, as `SegmentConversion.feed` does."""

    def finish(self, output: SegmentOutput) -> bool:
        """Push the waiting batches, as `SegmentConversion.finish` does."""

    @property
    def needed(self) -> int:
        """The size in bytes of the next batch, which starts after the consumed bytes; 0 if unknown."""
    @property
    def is_full(self) -> bool:
        """True if the output has no room for the next batch."""

@final
class SegmentOutput:
    """A new segment that replaces old ones. Rewrites push batches into it, and `take` returns the bytes for its files.

    The index entries are the same as after appends of the same batches.
    """

    def __new__(cls, base_offset: int, *, index_interval_bytes: int, segment_index_bytes: int) -> Self: ...
    def take(self) -> tuple[pa.Buffer, bytes, bytes, bytes]:
        """Return the bytes to append to the `.log`, `.index`, `.timeindex` and `.txnindex` files."""

    def finish(self) -> None:
        """Add the final entry of the time index. No batch may follow."""

    @property
    def size(self) -> int:
        """The size of all batches in bytes, including those that were taken."""
    @property
    def pending_bytes(self) -> int:
        """The size of the batches that `take` would return, in bytes."""
    @property
    def next_offset(self) -> int:
        """The offset after the last batch; the base offset without batches."""

@final
class Server:
    """A server of Kafka's protocol, which runs on its own threads until `stop`.

    Args:
        directory: the object that answers questions about a log directory (`serving.directory.ServedDirectory`).
            Several threads call it.
        listen: host and port; port 0 selects a free port.
        node_id: the id of the one broker that clients see.
        advertised: the server's host, or host and port, in its metadata responses; None for the address at which the
            client connects.
        commits: a file for the groups' commits; None to keep them in memory.
        tls: the files of a certificate and its key; None for no encryption.
        users: the users with their passwords; None for no authentication.
        read_log: a file for lines that record each read and its user; None for no such file.
        as_v2: True to send records of v0 and v1 as v2.
        only_committed: True to send committed records only to all clients.
        max_connections: the maximum number of connections at a time; None for 2000.
        max_connections_per_address: the maximum number of connections at a time from one address; None for 500.
        max_memory_bytes: the maximum memory for all requests and replies, in bytes; None for 128 MiB.

    Raises:
        OSError: the server cannot listen at this address, or a file cannot be used.
    """

    def __new__(
        cls,
        directory: object,
        listen: str,
        *,
        node_id: int,
        advertised: str | None = None,
        commits: str | None = None,
        tls: tuple[str, str] | None = None,
        users: list[tuple[str, str]] | None = None,
        read_log: str | None = None,
        as_v2: bool = False,
        only_committed: bool = False,
        max_connections: int | None = None,
        max_connections_per_address: int | None = None,
        max_memory_bytes: int | None = None,
    ) -> Self: ...
    def counts(self) -> list[tuple[str, str, bool, tuple[str, str] | None, int]]:
        """Return the server's counters.

        Each counter has a name, a help text, True for a gauge (which may fall), a label with its value, and its number.
        """
    def commits(self) -> list[tuple[str, str, int, int, int, str]]:
        """Return the commits made to the server: group, topic, partition, offset, leader epoch, metadata."""
    @property
    def host(self) -> str:
        """The address at which the server listens."""
    @property
    def port(self) -> int:
        """The port at which the server listens."""
    def stop(self) -> None:
        """Close all connections, and wait for the threads."""

@final
class SegmentRecovery:
    """The recovery of a segment after a crash, as in a broker's load. It finds the valid part, and builds new indexes.

    Feed the bytes of the `.log` in order.

    Args:
        base_offset: the offset in the segment's name.
        producers: the producer state before the first batch. The recovery updates it.
        epochs: the leader epochs. The recovery updates them.
        index_interval_bytes: the topic's setting.
        segment_index_bytes: the topic's setting.
    """

    @property
    def ended(self) -> Literal["whole", "cut", "emptied", "split", "failed"] | None:
        """The way in which Kafka's load treats the segment; None if more of the file must be fed.

        - "whole": Kafka truncates the file to `valid_bytes`, after its last whole batch.
        - "cut": Kafka truncates the file to `valid_bytes`, before an invalid batch.
        - "emptied": the offsets do not increase, so Kafka empties the segment.
        - "split": the offsets are too far apart for one segment, so Kafka splits the segment.
        - "failed": the broker does not start.
        """
    @property
    def error(self) -> str | None:
        """The reason for the value of `ended`, unless that is "whole"."""
    @property
    def needed(self) -> int:
        """The size in bytes of the next batch, which starts after the consumed bytes; 0 if unknown."""
    @property
    def valid_bytes(self) -> int: ...
    @property
    def next_offset(self) -> int:
        """The offset after the last valid batch; the base offset without valid batches."""
    @property
    def highest_next_offset(self) -> int:
        """The highest offset after any valid batch. This is above `next_offset` if batches are out of order."""
    @property
    def producers_end(self) -> int | None:
        """The offset after the last valid batch of magic 2, or None. Only these batches concern producers."""
    @property
    def batches(self) -> int:
        """The number of valid batches."""
    @property
    def index(self) -> bytes:
        """The content of the new `.index`."""
    @property
    def timeindex(self) -> bytes: ...
    @property
    def txnindex(self) -> bytes: ...
    def __new__(
        cls,
        base_offset: int,
        *,
        producers: Producers,
        epochs: LeaderEpochs,
        index_interval_bytes: int,
        segment_index_bytes: int,
    ) -> Self: ...
    def feed(self, data: _Data, position: int, end: int) -> int:
        """Recover from the bytes of the file at `position`, where the last call stopped; `end` is the file's size.

        Returns:
            The number of bytes consumed. If some bytes are left and `ended` is None, they are an incomplete batch: feed
            `needed` bytes from its start.

        Raises:
            ValueError: the last call did not stop at this position.
        """

@final
class SegmentEnd:
    """The end of a segment as a load finds it, by the framing of batches alone: magic and checksums are not checked.

    Args:
        position: the start of the first batch to feed.
    """

    @property
    def position(self) -> int:
        """The position at which the last whole batch ends."""
    @property
    def next_offset(self) -> int | None:
        """The offset after the last whole batch; None if there is no batch."""
    @property
    def ended(self) -> Literal["whole", "failed"] | None:
        """The result: None if more of the file must be fed; "failed" if the broker does not start on this segment."""
    @property
    def error(self) -> str | None:
        """The reason why `ended` is "failed"; otherwise None."""
    @property
    def needed(self) -> int:
        """The size in bytes of the next batch, which starts after the consumed bytes; 0 if unknown."""

    def __new__(cls, position: int) -> Self: ...
    def feed(self, data: _Data, position: int, end: int) -> int:
        """Continue as `SegmentRecovery.feed` does."""

@final
class ProducerReplay:
    """A replay of a segment for its producers only, as a load does after the newest snapshot.

    Checksums are not verified.

    Args:
        producers: the producer state. The replay updates it when it ends.
        start_offset: batches that end below it are skipped.
    """

    @property
    def ended(self) -> Literal["whole", "failed"] | None:
        """None if more of the file must be fed; "failed" if the broker does not start."""
    @property
    def error(self) -> str | None:
        """The reason why `ended` is "failed"; otherwise None."""
    @property
    def needed(self) -> int:
        """The size in bytes of the next batch, which starts after the consumed bytes; 0 if unknown."""

    def __new__(cls, producers: Producers, start_offset: int) -> Self: ...
    def feed(self, data: _Data, position: int, end: int) -> int:
        """Continue as `SegmentRecovery.feed` does."""
