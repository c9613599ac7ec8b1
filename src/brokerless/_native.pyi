"""Bytes: the compiled core's face. Bytes in, Arrow out, never a path.

Every `data` argument is any contiguous buffer: bytes, bytearray, memoryview, pyarrow.Buffer. The interpreter lock is
released while the work is done: do not write to a buffer that is being read. `position` is the place of data[0] in
its file and appears in errors and in the `position` column.

Raises everywhere: `brokerless.errors.CorruptRecordError` and `UnsupportedFormatError` with `position`, `base_offset`
and `next_position` set and `path` None (see `brokerless.errors.located`); ValueError for an impossible argument. No
bytes make it panic or take memory beyond a stated cap.

The file is long because a compiled module has one stub.
"""

from collections.abc import Sequence
from typing import Any, Literal, Self, TypeAlias, final

import pyarrow as pa
from typing_extensions import Buffer

__all__ = [
    "BATCH_OVERHEAD",
    "CODECS",
    "DEFAULT_MAX_BATCH_BYTES",
    "FIRST_OWN_PRODUCER_ID",
    "ROW_COLUMNS",
    "Appended",
    "Appender",
    "Closing",
    "CompactionRewrite",
    "CompactionScan",
    "Decoder",
    "Encoder",
    "ErasedRecords",
    "ErasureScan",
    "HeaderWalk",
    "JsonDump",
    "LeaderEpochs",
    "LogDump",
    "OffsetIndex",
    "ProducerReplay",
    "Producers",
    "RecordRows",
    "SegmentConversion",
    "SegmentEnd",
    "SegmentErasure",
    "SegmentOutput",
    "SegmentRecovery",
    "SegmentState",
    "SegmentVerdicts",
    "SegmentWrite",
    "Soundness",
    "SpaceEstimate",
    "TimeIndex",
    "TransactionIndex",
    "batch_schema",
    "empty_batch",
    "end_transaction_marker",
    "find_batch",
    "find_timestamp",
    "headers_alone",
    "highest_cluster_producer_id",
    "json_lines",
    "json_rows",
    "kraft_snapshot",
    "partition_for_keys",
    "place_headers",
    "producer_snapshot",
    "row_schema",
    "scan",
]

_Data: TypeAlias = Buffer | pa.Buffer
_Origin: TypeAlias = Literal["client", "coordinator", "replication", "raft_leader"]

BATCH_OVERHEAD: int
"""Bytes of the header of a batch of format 2, and so of the smallest batch: 61. Older formats have shorter headers."""

CODECS: tuple[str, ...]
"""What a batch is compressed with, by Kafka's names and in the order of its ids; the first is "none"."""

DEFAULT_MAX_BATCH_BYTES: int
"""The default cap on the decompressed size of one batch: 256 MiB."""

FIRST_OWN_PRODUCER_ID: int
"""Where the producer ids begin that no cluster gives: it counts from 0 and never gets there. Ours are among them."""

ROW_COLUMNS: tuple[str, ...]
"""All columns that rows can have: `key value topic partition offset timestamp timestampType headers`, the columns of
Spark's Kafka source, and the lineage `leaderEpoch baseOffset position magic compression producerId producerEpoch
sequence isTransactional`."""

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
    """Bytes -> rows. One per stretch of a log: it keeps scratch memory and its place from call to call.

    Control records are never rows. With `aborted` (read_committed), transactional batches of an aborted producer are
    left out. Not for use by two threads at once.

    Args:
        columns: which, in which order; what is not asked for costs nothing.
        topic: the constant of that column, or null.
        partition: the constant of that column, or null.
        start_offset: rows below it are left out.
        end_offset: rows from it on are left out.
        aborted: (producer_id, first_offset, last_offset of its ABORT marker) in any order.
        check_crcs: verify the CRC of each batch (of each message in v0 and v1).
        max_rows: rows after which a call returns, looked at after each Kafka batch.
        max_bytes: likewise, in bytes of Arrow data.
        max_batch_bytes: cap on one batch's decompressed size; beyond it UnsupportedFormatError.
        spark: Spark's types: timestamp in us and null where beyond its range, headers null where there are none.
        order: the lowest offset that the first batch may have, and the first that none may have: what does not rise
            between them is an error.
    """

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def needed(self) -> int:
        """Bytes that the batch at the end of the last call's consumed bytes takes; 0 if not even that can be known."""
    @property
    def next_offset(self) -> int:
        """The offset after the last batch consumed, by its header; -1 before any."""
    @property
    def null_timestamps(self) -> int:
        """With `spark`: timestamps that became null so far."""

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
    def check_order(self, data: _Data, position: int, first_offset: int | None = None) -> None:
        """Check by `order` that the batch that `data` starts with goes on where the last one ended.

        `first_offset` is that of its first record; of a wrapper the header does not tell it.

        Raises:
            CorruptRecordError: it does not.
        """

    def decode(self, data: _Data, position: int = 0) -> tuple[pa.RecordBatch | None, int]:
        """Decode whole batches from the start of `data`, which must be a batch boundary.

        Returns:
            Rows (None if there are none) and the number of bytes consumed. `(None, 0)`: not one batch fits, see
            `needed`. Rows may exceed `max_rows` by one Kafka batch. One of more than 262,144 records comes in parts:
            rows with 0 bytes consumed, until the last part; call again with the same bytes.

        Raises:
            CorruptRecordError: the damage is at the start of `data`; rows before it came from the call before.
        """

@final
class Encoder:
    """Rows -> batches of one partition, byte for byte as Kafka's own builder makes them if they are not compressed.

    One per partition and producer session: it keeps scratch memory, and sequences go on from batch to batch (after
    2147483647 comes 0). A batch ends before the record that would make it larger than `batch_size`, by Kafka's
    estimate where it is compressed; a record is never split, and a batch of one may be larger. Not for use by two
    threads at once.

        encoder = Encoder(compression="zstd", producer_id=4001, producer_epoch=0, base_sequence=0)
        batches = encoder.encode(rows, timestamp=1_700_000_000_000)

    Args:
        magic: 2; 1 and 0 are the formats of Kafka before 0.11 and 0.10: no headers, producers or zstd, in 0 no times.
        compression: "none", "gzip", "snappy", "lz4" or "zstd".
        level: gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22; None is Kafka's default (6, 9, 3).
        batch_size: bytes, as the producer's `batch.size`.
        max_records: also end a batch after so many; None: no such bound.
        keep_offsets: see `encode`.
        timestamp_type: "CreateTime", or "LogAppendTime": `log_append_time` then counts in place of the rows' times.
        log_append_time: ms; -1 by default.
        base_offset: of every batch. 0 is what a producer sends: whoever appends the batches assigns offsets.
        partition_leader_epoch: of every batch. The default -1, unknown, is what a producer sends.
        producer_id: the default -1 is no producer. With one, the epoch and the sequence must not be negative.
        producer_epoch: that of the id.
        base_sequence: of the first record.
        is_transactional: the batches are part of a transaction.

    Raises:
        ValueError: a combination that Kafka refuses, or an argument out of its range.
    """

    @property
    def next_sequence(self) -> int:
        """The sequence of the next record; -1 without a producer."""

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
        """Encode all rows; the buffer holds whole batches, and nothing for no rows.

        Columns are found by name, others are left alone. `key` and `value`: binary or string of any width, taken as the
        bytes they are; a null is Kafka's null. `headers`: list<struct<key, value>>, a null list has none. `timestamp`:
        any timestamp, cut to ms, or int64 ms; -1 ms is Kafka's "none". Only `value` must be there.

        With `keep_offsets` also `offset` (int64) must be there, rising. Gaps stay as they are: a batch ends only where
        an offset is more than 2147483647 above its first. `leaderEpoch` (int32; null: `partition_leader_epoch`) and
        `timestampType` (int32 as in rows; null: `timestamp_type`) are those of a batch: it ends where they change, and
        under LogAppendTime where the timestamp does. Magic 0 keeps NoTimestampType and no other, 1 and 2 the others.

        Args:
            rows: any number.
            timestamp: ms, for rows that have none.

        Raises:
            TypeError: not a `pyarrow.RecordBatch`.
            ValueError: a column of a type that does not fit, "row 17: ..." for what Kafka refuses in a record, or for
                damage: a place outside of the memory that pyarrow has for the column. No row is encoded then, and no
                sequence used.
        """

def empty_batch(offset: int, leader_epoch: int) -> bytes:
    """Return a batch of format 2 that takes one offset and has no record, as compaction leaves one: 61 bytes."""

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
        commit: else abort.
        producer_id: whose.
        producer_epoch: that of the id.
        timestamp: ms.
        coordinator_epoch: of the transaction coordinator that decided.
        base_offset: of the marker; whoever appends it assigns it.
        partition_leader_epoch: likewise; -1, unknown, by default.

    Raises:
        ValueError: no producer id or epoch.
    """

def partition_for_keys(keys: pa.Array[Any], partitions: int) -> pa.Int32Array:
    """Return the partition to which Kafka's producers send each key: murmur2, modulo the number of partitions.

    Args:
        keys: binary or string.
        partitions: how many there are.

    Returns:
        0 to partitions - 1; -1 for a null key, whose partition is the sender's choice.

    Raises:
        ValueError: no partitions, keys of another type, or damage: a key outside of the memory that pyarrow has.
    """

def scan(
    data: _Data, position: int = 0, check_crcs: bool = False, max_batches: int = ...
) -> tuple[pa.RecordBatch, int]:
    """Read the headers of whole batches from the start of `data`; of `max_batches` at most.

    Columns: `position size base_offset last_offset batch_length partition_leader_epoch magic crc attributes
    compression timestamp_type is_transactional is_control delete_horizon_ms last_offset_delta base_timestamp
    max_timestamp producer_id producer_epoch base_sequence last_sequence records_count`, and `is_valid` with
    `check_crcs`. Values are those of Kafka's accessors: a v0 or v1 entry has no producer (-1) and no records_count
    (null).

    Returns:
        One row a batch, and the number of bytes consumed.

    Raises:
        CorruptRecordError: damage, if it is the first batch in `data`.
    """

@final
class RecordRows:
    """An iterator over rows of any Arrow types, checked, as batches of one schema of which an `Encoder` makes records.

    Nothing of the batch is believed but that pyarrow has the memory that it says: values outside of it are refused, and
    whatever no record can have. A column that is as it should be is shared. Others are copied, in pieces of some 32 MB:
    views and dictionaries may stand for more than memory holds.

    `key` and `value` become binary, `headers` list<struct<key: binary, value: binary>>, `timestamp` timestamp[ms, UTC],
    `partition` int32; where they come from lists or views of any width, dictionaries, maps, timestamps of any unit and
    zone, int64 ms, integers of any width. Other columns are left out.

        rows = pa.table({"value": pa.array(["a", "b"]).dictionary_encode()}).to_batches()[0]
        for batch in RecordRows(rows):
            ...                                 # batch["value"] is binary

    Args:
        rows: some; all columns but `value` may be missing.
        magic: the format they will be of.
        keep_offsets: require `offset`, and keep it as int64, `leaderEpoch` and `timestampType` as int32.
        topic: require `topic`, and keep it as string.

    Raises:
        ValueError: a column of a type that does not fit, a value outside of its memory, or one that no record can have.
    """

    def __new__(
        cls, rows: pa.RecordBatch, *, magic: int = 2, keep_offsets: bool = False, topic: bool = False
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> pa.RecordBatch: ...

@final
class ErasedRecords:
    """What is to be erased of a segment.

    `bits` has a bit for each record by its number, set if it goes, least significant first; those behind the last byte
    stay. `records` go, `bytes` of keys and values; `examined` were looked at. `ranges` are first and last offset of
    each run of them.
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
    """Finds the records of a segment that match: by a whole key, by what keys start with, or by a header.

    Args:
        keys: whole keys.
        key_prefixes: their beginnings.
        headers: (name, value).
        blank: only values go: records that have none, or an empty one, do not count.
        max_batch_bytes: the most that one batch may decompress to.
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
        """Go on with a segment whose offsets lie from `base_offset` to below `limit`."""

    def feed(self, data: _Data, position: int) -> int:
        """Look at the whole batches that `data`, at `position` of the segment, starts with; return their bytes."""

    def take(self) -> ErasedRecords:
        """Return what was found in the segment; the next one begins."""

    @property
    def needed(self) -> int:
        """Bytes that the batch at the last `consumed` needs; 0: cannot be told."""

@final
class HeaderWalk:
    """Batch headers in log order, with what they say together: bodies are skipped without being read.

    Only transaction markers are looked into. Feed one file after the other, `start_file` between them.

    Args:
        open_transactions: (producer_id, first_offset) of the transactions open before the first byte.
    """

    @property
    def done(self) -> bool:
        """The file has ended: at `end`, or at an incomplete batch."""
    @property
    def end_position(self) -> int:
        """Where the last whole batch of the file ends."""
    @property
    def next_offset(self) -> int | None:
        """The offset after the last batch."""
    @property
    def first_offset(self) -> int | None:
        """The base offset of the first batch."""
    @property
    def last_batch(self) -> tuple[int, bytes] | None:
        """Where the last batch starts, and its first bytes, a checksum among them, by which it is told from others."""
    @property
    def leader_epoch(self) -> int:
        """The greatest in any header, -1 if none."""
    @property
    def max_timestamp(self) -> int:
        """The largest in any header, ms; -1 if none."""
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
        """(producer_id, first_offset) of those without a marker."""
    @property
    def aborted(self) -> list[tuple[int, int, int]]:
        """(producer_id, first_offset, last_offset of the ABORT marker)."""

    def __new__(cls, open_transactions: Sequence[tuple[int, int]] = ...) -> Self: ...
    def feed(self, data: _Data, position: int, end: int) -> int:
        """Take what the bytes of the file at `position` tell; `end` is the file's size.

        Returns:
            The next position wanted. It may lie beyond the data: read on from there. Where it lies within and the
            file goes on, the batch there needs more than is left: feed again from it, with more bytes if the position
            did not move.

        Raises:
            CorruptRecordError: the framing is broken.
        """

    def start_file(self, order: tuple[int, int] | None = None) -> None:
        """Say that the next feed is the start of another segment, or of another part of one.

        Args:
            order: the lowest offset that its first batch may have, and the first that none may have: then batches that
                do not rise between them are errors, and so is a wrong checksum where a marker may be.
        """

@final
class Soundness:
    """Checks which batches of a segment are sound: framed, summed, in the order of their offsets. Looks at no record.

    Args:
        base_offset: the segment's.
        limit: no offset of the segment reaches it.
        check_crcs: verify checksums.
        collects: remember each batch, for `rising`.
    """

    def __new__(cls, base_offset: int, limit: int, *, check_crcs: bool = True, collects: bool = False) -> Self: ...
    def check(self, data: _Data, position: int) -> int:
        """Take the sound batches that `data`, at `position` of the file, starts with; return how many bytes they take.

        Raises:
            CorruptRecordError: the first one is bad. `next_position` is where its header says that it ends.
            UnsupportedFormatError: likewise.
        """

    def start_run(self) -> None:
        """Start a run of batches: `first_offset` is that of the next one."""

    @property
    def needed(self) -> int:
        """Bytes that the batch behind the last one takes; 0 if that cannot be known."""
    @property
    def first_offset(self) -> int | None:
        """The lowest offset that the first batch since `start_run` tells."""
    @property
    def next_offset(self) -> int:
        """After the last sound batch."""
    @property
    def is_rising(self) -> bool:
        """No batch so far contradicts another one, or leaves the segment's range."""
    def rising(
        self, *, is_limited: bool
    ) -> tuple[list[tuple[int, int, int, int]], list[tuple[int, int, int, int, bool]], list[tuple[int, int]]]:
        """Divide the batches into as many as possible whose offsets rise, neighbours put together, and the others.

        Args:
            is_limited: the limit is where the segment ends, and not only where it has to.

        Returns:
            Of each: position, end position, first offset, next offset; of the others, whether some of these offsets are
            missing from those that stay. And the ranges [first, next) of offsets that stay.
        """

def find_batch(data: _Data, position: int, end: int, next_offset: int, limit: int) -> tuple[int, int] | None:
    """Look for the first place in `data`, at `position` of a file of `end` bytes, where a batch may start.

    Its offsets are in `next_offset` to `limit`, and its lengths and counts agree with each other and with the file. No
    checksum is looked at. What claims more than 16 MiB, or has a header (of 61 bytes at most) that does not end in
    `data`, is passed over.

    Returns:
        The batch's position and size.
    """

def find_timestamp(
    data: _Data, position: int, end: int, target: int, start_offset: int, exact: bool = False
) -> tuple[tuple[int, int, int] | None, int]:
    """Look for the first record (control records count) with timestamp >= `target` and offset >= `start_offset`.

    With `exact`: the first record whose timestamp is `target`, in the first batch whose max_timestamp is.

    Returns:
        (timestamp, offset, leader_epoch) or None, and the next position wanted (as `HeaderWalk.feed`). None and a
        position at or beyond `end`: there is none.
    """

def headers_alone(data: _Data) -> tuple[bytes, int]:
    """Return the headers of whole batches of magic 2, without their records, and how many bytes these batches are.

    It is what an append in place needs, which looks at no checksum: it is done here.

    Raises:
        CorruptRecordError: a checksum, or bytes that are no batch.
        ValueError: another magic.
    """

def place_headers(headers: _Data) -> tuple[list[tuple[int, bytes]], int]:
    """Say where batches start that stand one behind the other from position 0 on, given their headers alone.

    Returns:
        For each its position and first bytes, those that no checksum covers; and where the last one ends.

    Raises:
        CorruptRecordError: bytes that are no header.
    """

@final
class OffsetIndex:
    """A `.index`: (offset, position) entries. Stops at the first slot i > 0 that is zero; `raw` keeps those too."""

    @property
    def last_offset(self) -> int:
        """Of the last entry; the base offset if there is none."""

    def __new__(cls, data: _Data, base_offset: int, raw: bool = False) -> Self: ...
    def __len__(self) -> int: ...
    def lookup(self, offset: int) -> tuple[int, int]:
        """Return the greatest entry with offset <= `offset`, (base_offset, 0) if there is none."""

    def upper_bound(self, position: int, size: int) -> int | None:
        """Return the offset of the first entry whose position is >= `position` + `size`."""

    def entries(self) -> pa.RecordBatch:
        """Return all entries: `offset` int64, `position` int32."""

    def length_below(self, offset: int) -> int:
        """Return how many bytes of the file are left once the entries from `offset` on are dropped."""

    def sanity_check(self) -> None:
        """Apply Kafka's own check.

        Raises:
            CorruptRecordError: it fails.
        """

@final
class SpaceEstimate:
    """What records would take in each message format and codec: every batch is built in every form.

    Args:
        max_batch_bytes: the most that one batch may decompress to.
    """

    def __new__(cls, *, max_batch_bytes: int = ...) -> Self: ...
    def feed(self, data: _Data, position: int) -> int:
        """Measure the whole batches that `data`, at `position` of a segment, starts with; return their bytes."""

    def finish(self) -> None:
        """Close the batch that messages which stand alone wait in. The next data may be from elsewhere."""

    @property
    def needed(self) -> int:
        """Bytes that the batch at the last `consumed` needs; 0: cannot be told."""
    @property
    def records(self) -> int:
        """Records so far."""

    def space(self, magic: int, compression: str) -> tuple[int, int] | None:
        """Return the bytes of all batches in a form, and of their content, compressed by itself.

        Content is keys and values, in magic 2 with headers. None: the magic does not know the codec.
        """

@final
class TimeIndex:
    """A `.timeindex`: (timestamp, offset) entries. Stops at the first slot i > 0 whose offset is zero."""

    @property
    def last_offset(self) -> int: ...
    @property
    def last_entry(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (-1, base offset) if there is none."""

    def __new__(cls, data: _Data, base_offset: int, raw: bool = False) -> Self: ...
    def __len__(self) -> int: ...
    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Return the greatest entry with timestamp <= `timestamp`, (-1, base_offset) if there is none."""

    def entries(self) -> pa.RecordBatch:
        """Return all entries: `timestamp` int64, `offset` int64."""

    def length_below(self, offset: int) -> int:
        """Return how many bytes of the file are left once the entries from `offset` on are dropped."""

    def sanity_check(self) -> None:
        """Apply Kafka's own check.

        Raises:
            CorruptRecordError: it fails.
        """

@final
class TransactionIndex:
    """A `.txnindex`: the aborted transactions whose marker lies in this segment."""

    def __new__(cls, data: _Data, base_offset: int) -> Self: ...
    def __len__(self) -> int: ...
    def entries(self) -> pa.RecordBatch:
        """Return all entries: `version producer_id first_offset last_offset last_stable_offset`."""

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[tuple[int, int, int]], bool]:
        """Return the (producer_id, first_offset, last_offset) that a read needs, and True if these are all.

        The read is from `fetch_offset` to `upper_bound`; False: later segments may hold more.
        """

    def length_below(self, offset: int) -> int:
        """Return how many bytes of the file are left once the transactions whose marker is not below `offset` go."""

    def sanity_check(self) -> None:
        """Apply Kafka's own check.

        Raises:
            CorruptRecordError: it fails.
        """

def producer_snapshot(data: _Data) -> pa.RecordBatch:
    """Read a `.snapshot`.

    Returns:
        `producer_id producer_epoch last_sequence last_offset offset_delta timestamp coordinator_epoch
        current_txn_first_offset`, one row a producer.

    Raises:
        CorruptRecordError: version, CRC or length is wrong.
    """

def json_rows(data: _Data, bytes: str = "utf8", first_line: int = 1) -> pa.RecordBatch:
    """Read JSON lines as `json_lines` writes them; what a line lacks is null.

    Args:
        data: whole lines; empty ones are passed over.
        bytes: how key, value and header values are written: see `json_lines`. `{"base64": ...}` is understood in any.
        first_line: the number of the first line, for errors.

    Returns:
        `topic partition offset timestamp timestampType leaderEpoch key value headers`, types as of rows.

    Raises:
        ValueError: a line is no such object; the message has its number.
    """

def highest_cluster_producer_id(data: _Data) -> int | None:
    """Return the highest producer id in whole batches that a cluster may give to a producer of its own, too.

    What follows bytes that are no batch is not looked at. None: no batch has such an id.
    """

def json_lines(rows: pa.RecordBatch, bytes: str = "utf8") -> bytes:
    """Write rows as JSON lines: column names as keys, timestamps in ms, timestampType by name.

    `bytes` is how key, value and header values are written: "utf8" (what is not UTF-8 becomes `{"base64": ...}`),
    "base64" or "hex".
    """

@final
class LogDump:
    """The text of `kafka-dump-log` for a `.log` file."""

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """(offset, next offset) where offsets are not consecutive."""

    def __new__(
        cls,
        *,
        deep_iteration: bool = False,
        print_data_log: bool = False,
        skip_record_metadata: bool = False,
        escape_controls: bool = False,
    ) -> Self: ...
    def feed(self, data: _Data, position: int) -> tuple[bytes, int]:
        """Return the lines of the whole batches in `data`, and how many bytes they took.

        A call stops at the first batch behind 4 MiB of text. Text without progress is what can be shown of a batch
        whose damage the next call raises.
        """

@final
class JsonDump:
    """One JSON object a batch, with its records on request."""

    def __new__(cls, *, records: bool = False, bytes: str = "utf8") -> Self: ...
    def feed(self, data: _Data, position: int) -> tuple[bytes, int]:
        """Return the lines of the whole batches in `data`, and how many bytes they took (see `LogDump.feed`).

        A batch whose records are damaged has `"records": null`; the next call raises.
        """

def kraft_snapshot(records: Sequence[_Data], timestamp: int) -> bytes:
    """Frame metadata records as a KRaft snapshot that covers nothing else (`bootstrap.checkpoint`).

    Args:
        records: one metadata record each, as bytes (`brokerless.layout.bootstrap_metadata`).
        timestamp: ms, of every record.
    """

@final
class LeaderEpochs:
    """Which leader epoch began at which offset (LeaderEpochFileCache): `leader-epoch-checkpoint`, and its rules.

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
        """Say that the epoch began there; what contradicts it is dropped. True: something changed.

        Raises:
            ValueError: a negative epoch or offset.
        """

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop the epochs that began at `end_offset` or later. True: there were some."""

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drop the epochs that ended by `start_offset`; the one around it then starts there. True: that was news."""

    def clear(self) -> bool:
        """Drop all. True: there were some."""

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the greatest epoch not above `epoch` and the offset after its last record; (-1, -1) if unknown."""

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch that the offset was written in."""

@final
class Producers:
    """What a log knows of its producers (ProducerStateManager): sequences, epochs, open transactions."""

    @property
    def is_empty(self) -> bool:
        """No producer is known."""
    @property
    def highest_cluster_id(self) -> int | None:
        """The highest producer id that a cluster may give to a producer of its own, too; None: there is none."""
    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction begins that is open, or ended and not forgotten."""

    def __new__(cls) -> Self: ...
    @staticmethod
    def from_snapshot(data: _Data, *, now: int, producer_id_expiration_ms: int) -> Producers:
        """Read a `.snapshot`. Producers idle for that long at `now` (ms), with no transaction open, are left out.

        Raises:
            CorruptRecordError: version, CRC or length is wrong.
        """

    def to_snapshot(self) -> bytes:
        """Write a `.snapshot`, the producers by their ids."""

    def entries(self) -> pa.RecordBatch:
        """Return the columns of `producer_snapshot`, by producer id."""

@final
class SegmentState:
    """The segment that is appended to, as loading the log left it.

    Args:
        base_offset: in its name.
        created_ms: when it was made or opened.
        size: bytes of the `.log`.
        first_timestamp: max_timestamp of its first batch, None if it is empty.
        index: the `.index`; zeros behind the entries are ignored.
        timeindex: the `.timeindex`; likewise.
        txnindex: the `.txnindex`.
        max_timestamp: the segment's largest and the last offset of the first batch that has it; None: the last entry of
            the time index, as after a load.
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
    """What is to be written to one segment: all of it at the ends of its files. A `pa.Buffer` where it is much."""

    @property
    def base_offset(self) -> int:
        """The segment."""
    @property
    def is_new(self) -> bool:
        """A roll comes first: `final_time_entry`, the snapshot, and this segment's files, made anew.

        Files of these names that are there already are old, or those of an empty active segment.
        """
    @property
    def snapshot(self) -> bytes | pa.Buffer | None:
        """At a roll: the producer snapshot named by `base_offset`; None if it is there already."""
    @property
    def final_time_entry(self) -> bytes | pa.Buffer:
        """At a roll: the last bytes for the time index of the segment left behind."""
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
    """The answer to an append, and what it leaves to be written."""

    @property
    def first_offset(self) -> int:
        """Of the first record (of a duplicate: as it was stored); -1 if there was no batch, or no v2 one to say."""
    @property
    def last_offset(self) -> int:
        """Of the last record; -1 if there was no batch."""
    @property
    def log_append_time(self) -> int:
        """What the records were stamped with, -1 if nothing; of a duplicate the max timestamp stored before."""
    @property
    def max_timestamp(self) -> int:
        """The largest of the last request taken, -1 if none."""
    @property
    def is_duplicate(self) -> bool:
        """All of it was stored before, and nothing changed."""
    @property
    def count(self) -> int:
        """Requests taken, duplicates included."""
    @property
    def duplicates(self) -> int:
        """Duplicates among them."""
    @property
    def consumed(self) -> int:
        """Bytes of `data` taken."""
    @property
    def has_new_epochs(self) -> bool:
        """The leader epochs changed: their checkpoint is to be written before the log."""
    @property
    def writes(self) -> list[SegmentWrite]:
        """In this order."""
    @property
    def error(self) -> Exception | None:
        """Of `append_each`: why the next request was refused, as a new exception each time.

        What came before is to be written all the same.
        """

    def followed_by(self, next: Appended) -> Appended:
        """Return both as one answer; what they leave to be written is not in it."""

@final
class Closing:
    """What a clean close leaves to be written."""

    @property
    def final_time_entry(self) -> bytes | pa.Buffer:
        """The last bytes for the active segment's time index."""
    @property
    def snapshot(self) -> bytes | pa.Buffer | None:
        """The producer snapshot named by the log end offset; None if it is there already."""

@final
class Appender:
    """The broker on produce, for one log: it decides everything about an append and touches no file.

    A refused append leaves it as it was, leader epochs and segments included (Kafka's own has assigned the epoch and
    rolled by then). The settings are the topic's, under Kafka's names; sizes in bytes, times in ms. Not for use by two
    threads at once.

    Args:
        segment: the active one.
        producers: the state at the log end; copied.
        leader_epochs: likewise.
        log_start_offset: the first offset that counts.
        log_end_offset: the next offset to be given.
        segment_jitter_seed: with a base offset it gives that segment's share of `segment_jitter_ms`.
        max_batch_bytes: cap on one batch's decompressed size.

    Raises:
        ValueError: a setting that cannot be.
    """

    @property
    def producers(self) -> Producers:
        """A copy."""
    @property
    def leader_epochs(self) -> LeaderEpochs:
        """A copy."""
    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset that is undecided for consumers that read committed."""
    @property
    def last_stable_offset(self) -> int:
        """Where they must stop."""
    @property
    def segment_base_offset(self) -> int:
        """Of the active segment."""
    @property
    def segment_size(self) -> int:
        """Of its `.log`."""
    @property
    def max_timestamp(self) -> tuple[int, int]:
        """Its largest, and the last offset of the first batch that has it."""

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
        """Take one produce request: the whole batches in `data`, all or none.

        Args:
            data: from a client one batch of magic 2 with base offset 0; with given offsets ("replication") any number.
            leader_epoch: what a leader stores in the batches; with given offsets, batches of a higher one are left out.
                With 2^31 - 1, none is, and a batch without an epoch gets the one before it.
            now: the clock, ms.
            origin: who appends; what is checked depends on it.
            may_be_cut: a batch that is cut at the end is left out, as a broker does.
            transaction_version: of a coordinator's markers.

        Raises:
            AppendError: the leaf for Kafka's own answer.
            CorruptRecordError: checksum or framing.
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
        """Take each batch in `data` as a request of its own, up to the first that is refused: see `Appended.error`.

        That says where it lies, counted from `position`, where `data` does.

        Args:
            data: as of `append`; a cut batch at the end is ignored.
            leader_epoch: likewise.
            now: likewise.
            origin: likewise.
            position: see above.
            is_encoded_here: `Encoder` made them: what headers say of records is true. Headers and checksums are looked
                at; records only where the topic's settings ask for what headers do not tell.
        """

    def append_in_place(self, headers: _Data, *, leader_epoch: int, now: int, origin: _Origin = "client") -> Appended:
        """Take the batches that the next segment's file is to hold, or the active one's, if it is empty so far.

        All are taken or none. `SegmentWrite.log` has their headers as they are to be.

        Args:
            headers: theirs alone (`headers_alone`); `Encoder` made the batches.
            leader_epoch: as of `append`.
            now: likewise.
            origin: likewise.

        Raises:
            AppendError: one is refused, or more than headers would change, records are to be looked at, or the batches
                would be divided.
            CorruptRecordError: framing.
        """

    def roll(self, now: int) -> Appended:
        """Begin a new segment at the log end offset."""

    def close(self) -> Closing:
        """Return what a clean close writes."""

    def set_log_start_offset(
        self, offset: int, batch_base_offset: int | None = None, snapshot_offset: int | None = None
    ) -> bool:
        """Move the log start offset up. True: the leader epochs changed.

        Args:
            offset: the new one.
            batch_base_offset: of the batch which holds it; None if it starts one.
            snapshot_offset: of the newest producer snapshot that is there; None if there is none.

        Raises:
            ValueError: it is above the high watermark.
        """

    def set_high_watermark(self, offset: int | None) -> None:
        """Pin the high watermark, within log start and end. None: it follows the log end, as with a single replica."""

    def remove_expired_producers(self, now: int) -> list[int]:
        """Forget producers idle for `producer_id_expiration_ms`; return their ids."""

@final
class CompactionScan:
    """A log read for the records that compaction keeps, of the keys whose hashes are in a range.

    First the clean segments, for their transactions only ("follow"), then the dirty ones ("dirty"); then `newest` tells
    of these, and the clean ones are read once more ("clean").

    Args:
        txnindexes: the content of each `.txnindex` of the log.
        log_start_offset: the log's: transactions that were aborted below it are not followed.
        first_dirty_offset: where the dirty part begins.
        now: ms since the epoch; tombstones and markers whose delete horizon is not later go.
        hash_key: of the hash of keys: a secret of the run.
        hash_range: first hash, and how many; (0, 0) for all.
        max_bytes: memory for keys; where it is too little, the range shrinks.
        max_batch_bytes: cap on one batch's decompressed size.
        threads: how many decompress and hash.

    Raises:
        UnsupportedFormatError: a transaction index of an unknown version.
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
        """Go on with the next segment. The flag is about tombstones of magic 0 and 1, which have no delete horizon."""

    def feed(self, data: Buffer, position: int) -> int:
        """Take the whole batches that `data` starts with, at `position` of the file; return how many bytes they are.

        Raises:
            CorruptRecordError: a batch is damaged.
            UnsupportedFormatError: a magic or codec that is not known, or a batch beyond `max_batch_bytes`.
        """

    def finish(self) -> SegmentVerdicts:
        """Return what was found out about the segment."""

    def newest(self, first: int, end: int) -> tuple[bytes, bytes, bytes]:
        """Return bits for the dirty records numbered `first` to `end` that are the newest with their key.

        They stay; stay and ask for a delete horizon; are tombstones and go.
        """

    @property
    def needed(self) -> int:
        """Bytes that the batch behind the last one taken has; 0 if not even that can be known."""
    @property
    def keys(self) -> int:
        """Keys of the dirty part, in this range."""
    @property
    def next_hash_range(self) -> tuple[int, int] | None:
        """Where another scan goes on; None: all hashes are done."""

@final
class SegmentVerdicts:
    """What a `CompactionScan` found out about one segment, but for the keys of its dirty records."""

    @property
    def first_number(self) -> int:
        """Number of its first record among those of all dirty segments: a multiple of 8."""
    @property
    def keep(self) -> bytes:
        """A bit for each record that stays: markers, and records of the clean part."""
    @property
    def stamp(self) -> bytes:
        """A bit for each of these that asks for a delete horizon."""
    @property
    def txnindex(self) -> bytes:
        """Entries of the aborted transactions whose marker is still needed."""
    @property
    def records(self) -> int:
        """In the segment."""
    @property
    def aborted(self) -> int:
        """Records of aborted transactions."""
    @property
    def control(self) -> int:
        """Control records that stay."""
    @property
    def discarded(self) -> int:
        """Control records that go."""
    @property
    def unkeyed(self) -> int:
        """Records without a key, aborted ones aside."""
    @property
    def first_unkeyed(self) -> int | None:
        """Offset of the first of these."""
    @property
    def tombstones(self) -> int:
        """Records with a key and a null value, aborted ones aside."""
    @property
    def expired(self) -> int:
        """Tombstones of the clean part that go though no newer record has their key."""

@final
class CompactionRewrite:
    """Old segments, and what was decided about their records, into new ones.

    Args:
        producers: the producer state at the log end, as the content of a `.snapshot`.
        end_offset: the batch that ends here stays, be it empty.
        delete_horizon_ms: for the batches that get one.
        max_batch_bytes: cap on one batch's decompressed size.
        threads: how many decompress and build batches.
    """

    def __new__(
        cls, producers: Buffer, *, end_offset: int, delete_horizon_ms: int, max_batch_bytes: int, threads: int = 1
    ) -> Self: ...
    def begin(self, keep: Buffer, stamp: Buffer, txnindex: Buffer) -> None:
        """Go on with a segment, by its verdict; the transaction index entries move along with their markers."""

    def feed(self, data: Buffer, position: int, output: SegmentOutput) -> int:
        """Push what is left of the whole batches that `data` starts with; return how many bytes they are.

        Where `is_full`, what has no room waits: call again, with an output based where the full one ends.

        Raises:
            CorruptRecordError: a batch is damaged, or begins below the end of the one before it.
            UnsupportedFormatError: as of `CompactionScan.feed`; or a message of magic 0 or 1 is the last of the range
                and goes.
        """

    def finish(self, output: SegmentOutput) -> None:
        """End a segment of which nothing waits."""

    @property
    def is_full(self) -> bool:
        """An index of the output has no slot for the batch that waits."""
    @property
    def needed(self) -> int:
        """Bytes that the batch behind the last one taken has; 0 if not even that can be known."""
    @property
    def records(self) -> int:
        """Records of the segment so far."""
    @property
    def kept(self) -> int:
        """Those of them that stayed."""

@final
class SegmentConversion:
    """Old segments into new ones of another magic or codec. Offsets do not change.

    `begin` each old segment, `feed` it, then `finish` it. Where `is_full`, go on with an output based where it ends.

    Args:
        magic: 0, 1 or 2; None: what batches are.
        compression: a codec's name, or none; None: what batches have.
        compression_level: of batches that are made anew; None: Kafka's default.
        recompress: compress again also what has the codec.
        batch_size: join neighbours up to so many bytes where nobody could tell; None: only messages that stand alone.
        join_below: join only what lies below this offset: another replica may end between batches that do not.
        drop_headers: where the magic has none. Else they are refused.
        drop_producers: whatever the magic, with control batches, `aborted` transactions, and all from
            `last_stable_offset` on.
        aborted: (producer_id, first_offset, last_offset) of the whole log.
        last_stable_offset: of the log.
        log_end_offset: of the log: what is not below it is damage.
        max_batch_bytes: the most that one batch may decompress to.
        threads: how many share the work.

    Raises:
        ValueError: it cannot be, here and in `feed`: what would be lost is named.
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
        """Go on with an old segment, whose transaction index moves along; new ones grow up to so many bytes."""

    def feed(self, data: _Data, position: int, output: SegmentOutput) -> int:
        """Take the whole batches that `data`, at `position` of the old segment, starts with; return their bytes.

        Nothing is taken only where `output` is full, or `needed` bytes are.
        """

    def finish(self, output: SegmentOutput) -> bool:
        """Put out what waits at the end of the old segment. False: `output` is full, call again with another."""

    @property
    def needed(self) -> int:
        """Bytes that the batch at the last `consumed` needs; 0: cannot be told."""
    @property
    def is_full(self) -> bool:
        """The output has no room for the next batch."""
    @property
    def changed(self) -> int:
        """Batches so far that did not stay as they were."""
    @property
    def converted(self) -> dict[str, int]:
        """What was done so far.

        `batches`, and how many `changed`; records that lost their `headers` or `timestamps`; batches that lost their
        `producers`; left out: `control_batches`, and `aborted` and `undecided` records.
        """

@final
class SegmentErasure:
    """Old segments into new ones without the records that a scan found, or without their values.

    Offsets and control batches stay. A batch of magic 2 that lost all its records stays as a header; a message of
    magic 0 or 1 goes, and a wrapper of which only some stay becomes a batch of magic 2, as in Kafka's cleaner.

    Args:
        blank: records stay, with an empty value.
        max_batch_bytes: the most that one batch may decompress to.
    """

    def __new__(cls, *, blank: bool = False, max_batch_bytes: int = ...) -> Self: ...
    def begin(self, erased: _Data, txnindex: _Data, max_segment_bytes: int) -> None:
        """Go on with an old segment, of which the records with these bits go; see `SegmentConversion.begin`."""

    def feed(self, data: _Data, position: int, output: SegmentOutput) -> int:
        """As of `SegmentConversion`."""

    def finish(self, output: SegmentOutput) -> bool:
        """As of `SegmentConversion`."""

    @property
    def needed(self) -> int:
        """Bytes that the batch at the last `consumed` needs; 0: cannot be told."""
    @property
    def is_full(self) -> bool:
        """The output has no room for the next batch."""

@final
class SegmentOutput:
    """A new segment that takes the place of old ones. Rewriters push batches into it; `take` hands them to the files.

    Index entries are those that appends of the same batches would have left.
    """

    def __new__(cls, base_offset: int, *, index_interval_bytes: int, segment_index_bytes: int) -> Self: ...
    def take(self) -> tuple[pa.Buffer, bytes, bytes, bytes]:
        """Return what is to go to the ends of the `.log`, `.index`, `.timeindex` and `.txnindex` files, once."""

    def finish(self) -> None:
        """Add the final entry of the time index. Nothing is pushed any more."""

    @property
    def size(self) -> int:
        """Bytes of batches so far, the taken ones among them."""
    @property
    def pending_bytes(self) -> int:
        """Bytes of batches that `take` would return."""
    @property
    def next_offset(self) -> int:
        """After the last batch; the base offset if there is none."""

@final
class SegmentRecovery:
    """A segment read after a crash, as a broker's load does: what of it is valid, and its indexes made anew.

    Feed it the file in order. It brings `producers` and `epochs` forward.

    Args:
        base_offset: in the segment's name.
        producers: the state at its first batch; changed.
        epochs: the leader epochs; changed.
        index_interval_bytes: the topic's.
        segment_index_bytes: the topic's.
    """

    @property
    def ended(self) -> Literal["whole", "cut", "emptied", "split", "failed"] | None:
        """None: feed on. Else what Kafka's load does.

        "whole" and "cut": the file is cut to `valid_bytes`, behind its last whole batch or before a bad one. "emptied":
        the offsets do not increase, nothing stays. "split": they are too far apart, the segment becomes several.
        "failed": the broker does not start.
        """
    @property
    def error(self) -> str | None:
        """Why, where it is not "whole"."""
    @property
    def needed(self) -> int:
        """Bytes from the end of the last call's consumed bytes on that the next batch takes; 0: unknown."""
    @property
    def valid_bytes(self) -> int: ...
    @property
    def next_offset(self) -> int:
        """The offset after the last valid batch; the base offset if there is none."""
    @property
    def highest_next_offset(self) -> int:
        """The highest offset after any valid batch: above `next_offset` where batches are out of order."""
    @property
    def producers_end(self) -> int | None:
        """The offset after the last valid batch of magic 2; None: there is none, and so nothing of producers."""
    @property
    def batches(self) -> int:
        """Valid ones."""
    @property
    def index(self) -> bytes:
        """The whole `.index`, as are the next two of their kind."""
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
        """Take the bytes of the file at `position`, where the last call stopped; `end` is the file's size.

        Returns:
            How many were consumed. Fewer than there are: more are `needed`, unless it has `ended`.

        Raises:
            ValueError: it is not at that position.
        """

@final
class SegmentEnd:
    """Where a segment ends for a load, by its framing alone: neither magic nor checksum is refused.

    Args:
        position: of the first batch fed.
    """

    @property
    def position(self) -> int:
        """Where the last whole batch ends."""
    @property
    def next_offset(self) -> int | None:
        """The offset behind it; None: there is no batch."""
    @property
    def ended(self) -> Literal["whole", "failed"] | None:
        """None: feed on. "failed": the broker does not start."""
    @property
    def error(self) -> str | None:
        """Why it failed."""
    @property
    def needed(self) -> int:
        """As in `SegmentRecovery`."""

    def __new__(cls, position: int) -> Self: ...
    def feed(self, data: _Data, position: int, end: int) -> int:
        """As `SegmentRecovery.feed`."""

@final
class ProducerReplay:
    """A segment read for its producers only, as a load does behind the newest snapshot. Checksums are not looked at.

    Args:
        producers: the state to be brought forward; changed at the end.
        start_offset: batches that end below are passed over.
    """

    @property
    def ended(self) -> Literal["whole", "failed"] | None:
        """None: feed on. "failed": the broker does not start, and `producers` is as it was."""
    @property
    def error(self) -> str | None:
        """Why it failed."""
    @property
    def needed(self) -> int:
        """As in `SegmentRecovery`."""

    def __new__(cls, producers: Producers, start_offset: int) -> Self: ...
    def feed(self, data: _Data, position: int, end: int) -> int:
        """As `SegmentRecovery.feed`."""
