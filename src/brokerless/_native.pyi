"""Bytes: the compiled core's face. Bytes in, Arrow out, never a path.

Every `data` argument is any contiguous buffer: bytes, bytearray, memoryview, pyarrow.Buffer. The interpreter lock is
released while the work is done: do not write to a buffer that is being read. `position` is the place of data[0] in
its file and appears in errors and in the `position` column.

Raises everywhere: `brokerless.errors.CorruptRecordError` and `UnsupportedFormatError` with `position`, `base_offset`
and `next_position` set and `path` None (see `brokerless.errors.located`); ValueError for an impossible argument. No
bytes make it panic or take memory beyond a stated cap.
"""

from collections.abc import Sequence
from typing import Self, TypeAlias, final

import pyarrow as pa
from typing_extensions import Buffer

__all__ = [
    "ROW_COLUMNS",
    "Decoder",
    "HeaderWalk",
    "JsonDump",
    "LogDump",
    "OffsetIndex",
    "TimeIndex",
    "TransactionIndex",
    "batch_schema",
    "crc32c",
    "find_timestamp",
    "json_lines",
    "producer_snapshot",
    "row_schema",
    "scan",
]

_Data: TypeAlias = Buffer | pa.Buffer

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
        start_timestamp: rows earlier than this (ms) are left out.
        end_timestamp: rows from this (ms) on are left out.
        aborted: (producer_id, first_offset, last_offset of its ABORT marker) in any order.
        check_crcs: verify the CRC of each batch (of each message in v0 and v1).
        max_rows: rows after which a call returns, looked at after each Kafka batch.
        max_bytes: likewise, in bytes of Arrow data.
        max_batch_bytes: cap on one batch's decompressed size; beyond it UnsupportedFormatError.
        spark: Spark's types: timestamp in us and null where beyond its range, headers null where there are none.
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
        start_timestamp: int | None = None,
        end_timestamp: int | None = None,
        aborted: Sequence[tuple[int, int, int]] = ...,
        check_crcs: bool = True,
        max_rows: int = 65536,
        max_bytes: int = ...,
        max_batch_bytes: int = ...,
        spark: bool = False,
    ) -> Self: ...
    def decode(self, data: _Data, position: int = 0) -> tuple[pa.RecordBatch | None, int]:
        """Decode whole batches from the start of `data`, which must be a batch boundary.

        Returns:
            Rows (None if there are none) and the number of bytes consumed. `(None, 0)`: not one batch fits, see
            `needed`. Rows may exceed `max_rows` by one Kafka batch. One of more than 262,144 records comes in parts:
            rows with 0 bytes consumed, until the last part; call again with the same bytes.

        Raises:
            CorruptRecordError: the damage is at the start of `data`; rows before it came from the call before.
        """

def scan(data: _Data, position: int = 0, check_crcs: bool = False) -> tuple[pa.RecordBatch, int]:
    """Read the headers of whole batches from the start of `data`.

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

    def start_file(self) -> None:
        """Say that the next feed is the start of another segment."""

def find_timestamp(
    data: _Data, position: int, end: int, target: int, start_offset: int, exact: bool = False
) -> tuple[tuple[int, int, int] | None, int]:
    """Look for the first record (control records count) with timestamp >= `target` and offset >= `start_offset`.

    With `exact`: the first record whose timestamp is `target`, in the first batch whose max_timestamp is.

    Returns:
        (timestamp, offset, leader_epoch) or None, and the next position wanted (as `HeaderWalk.feed`). None and a
        position at or beyond `end`: there is none.
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

    def sanity_check(self) -> None:
        """Apply Kafka's own check.

        Raises:
            CorruptRecordError: it fails.
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
        cls, *, deep_iteration: bool = False, print_data_log: bool = False, skip_record_metadata: bool = False
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

def crc32c(data: _Data) -> int:
    """Return the CRC-32C (Castagnoli) of `data`.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
