"""`RowRules`: a topic's rules for rows, checked before a producer accepts them.

The native appender checks rows when they are appended, and refuses a whole batch for one bad row. The appender's rules
are in:

- `rust/core/src/broker/validate.rs`: batches
- `rust/core/src/broker/validate/record_checks.rs`: records
- `rust/core/src/broker/append.rs` and `append/request_checks.rs`: batches with given offsets

This module applies the same rules to each row, by column. To check the size of a row that may be too large, it encodes
the row as a batch and measures the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from brokerless import _native
from brokerless.errors import (
    AppendError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnexpectedAppendOffsetError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerless.layout.topic_config import TopicConfig

_INT = (1 << 31) - 1
_LONG = (1 << 63) - 1
# The setting's default, which is no limit.
_ANY_RECORD = _INT - 8
# The most bytes of a record besides its key, value and headers.
_MOST_FRAMING = 36
# The most bytes of a header besides its key and value.
_MOST_HEADER_FRAMING = 10
# Further refused rows are counted, not listed.
_MOST_LISTED = 1 << 10
# The bytes before a message of magic 0 and 1.
_LOG_OVERHEAD = 12


class _Limit(NamedTuple):
    """The largest size of a batch of one row."""

    encoder: _native.Encoder
    bytes: int
    refusal: type[AppendError]
    # Bytes of the batch that do not count against the limit.
    overhead: int
    said: str


class RowRules:
    """The rules of one topic for rows.

    Args:
        config: the topic's settings.
        magic: the message format of the batches.
        compression: the codec of the batches.
        level: the codec's level.
        keep_offsets: True if rows keep their offsets, as in a copy of a log. The keys and timestamps of a copy are not
            checked, because a follower does not check them either.

    Raises:
        ValueError: the topic's codec does not exist in this message format.
    """

    def __init__(
        self, config: TopicConfig, *, magic: int, compression: str, level: int | None, keep_offsets: bool
    ) -> None:
        self._config = config
        self._needs_keys = config.is_compacted and not keep_offsets
        self._has_times = config.message_timestamp_type == "CreateTime" and magic > 0 and not keep_offsets

        def encoder(compression: str, level: int | None) -> _native.Encoder:
            return _native.Encoder(magic=magic, compression=compression, level=level, max_records=1)

        sent = stored = encoder(compression, level)
        topic_codec = config.compression_type.replace("uncompressed", "none")
        if topic_codec not in ("producer", compression) and not keep_offsets:
            stored = encoder(topic_codec, getattr(config, f"compression_{topic_codec}_level", None))
        self._limits = [_Limit(stored, config.segment_bytes, RecordBatchTooLargeError, 0, "segment_bytes")]
        if not keep_offsets:
            most = config.max_message_bytes, RecordTooLargeError, 0, "max_message_bytes"
            self._limits[:0] = [_Limit(found, *most) for found in dict.fromkeys((sent, stored))]
            most_record = config.max_decompressed_message_bytes
            if compression != "none" and most_record < _ANY_RECORD:
                # A varint has 7 bits per byte, and one bit is the sign.
                overhead = _LOG_OVERHEAD if magic < 2 else _native.BATCH_OVERHEAD + (most_record.bit_length() + 7) // 7
                said = "max_decompressed_message_bytes"
                self._limits.append(_Limit(encoder("none", None), most_record, InvalidRecordError, overhead, said))
        self._least_limit = min(limit.bytes for limit in self._limits)

    def check(self, rows: pa.RecordBatch, now: int) -> None:
        """Refuse rows unless the topic accepts each of them.

        Args:
            rows: rows as `batches_of` yields them.
            now: ms since the epoch.

        Raises:
            InvalidRecordError: a row has no key, and the topic is compacted; or a row is too large to be decompressed.
            InvalidTimestampError: a timestamp is outside the topic's range.
            RecordTooLargeError: a single row is too large for a batch.
            RecordBatchTooLargeError: a single row is too large for a segment.
        """
        if self._needs_keys:
            self._check_keys(rows)
        untimely = self._untimely(rows, now)
        if untimely is not None:
            raise self._untimely_error(rows, untimely, now)
        # Usually all rows together are too small for any one of them to be too large.
        if rows.nbytes + _MOST_FRAMING * rows.num_rows + _native.BATCH_OVERHEAD > self._least_limit // 2:
            self._check_sizes(rows, now)

    def timely(self, rows: pa.Table, now: int) -> tuple[pa.Table, InvalidRecordError | None]:
        """Return the rows whose timestamps the topic accepts, and the error for the others.

        Args:
            rows: rows that passed `check` earlier.
            now: ms since the epoch.
        """
        import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

        untimely = self._untimely(rows, now)
        if untimely is None:
            return rows, None
        error = self._untimely_error(rows, untimely, now)
        return rows.filter(pc.invert(untimely)), error

    def _check_keys(self, rows: pa.RecordBatch) -> None:
        import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

        keys: Any = rows["key"] if "key" in rows.schema.names else pa.nulls(rows.num_rows)
        if keys.null_count:
            raise _refusal(InvalidRecordError, pc.is_null(keys), lambda _: "null key, but a compacted topic needs keys")

    def _untimely(self, rows: pa.RecordBatch | pa.Table, now: int) -> Any:  # noqa: ANN401 - an array or None
        """Return a mask of the rows with a timestamp outside the topic's range; None if there is no such row."""
        if not self._has_times or "timestamp" not in rows.schema.names:
            return None
        import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

        first = now - self._config.message_timestamp_before_max_ms
        last = min(now + self._config.message_timestamp_after_max_ms, _LONG)
        extremes: Any = pc.min_max(rows["timestamp"])
        low, high = extremes["min"].value, extremes["max"].value
        if low is None or (low >= first and high <= last):
            return None
        times: Any = rows["timestamp"].cast(pa.int64())
        # -1 means no timestamp, which is always in range.
        is_early = pc.and_(pc.less(times, pa.scalar(max(first, -1), pa.int64())), pc.not_equal(times, pa.scalar(-1)))
        untimely = pc.or_(is_early, pc.greater(times, pa.scalar(last, pa.int64()))).fill_null(False)
        return untimely if pc.any(untimely).as_py() else None

    def _untimely_error(self, rows: pa.RecordBatch | pa.Table, untimely: Any, now: int) -> InvalidRecordError:  # noqa: ANN401
        before = self._config.message_timestamp_before_max_ms
        after = self._config.message_timestamp_after_max_ms
        times: Any = rows["timestamp"].cast(pa.int64())
        return _refusal(
            InvalidTimestampError,
            untimely,
            lambda row: (
                f"timestamp {times[row].as_py()} is not within {before} ms before and {after} ms after {now} "
                "(message_timestamp_before_max_ms, message_timestamp_after_max_ms)"
            ),
        )

    def _check_sizes(self, rows: pa.RecordBatch, now: int) -> None:
        import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

        # A codec makes incompressible data a little larger.
        safe = int((self._least_limit - 64) / 1.01) - _MOST_FRAMING - _native.BATCH_OVERHEAD
        if _most_bytes(rows) <= safe:
            return
        suspects = pc.indices_nonzero(pc.greater(_row_bytes(rows), pa.scalar(safe)))
        if not len(suspects):
            return
        suspected = rows.take(suspects)
        for limit in self._limits:
            batches, _ = _native.scan(limit.encoder.encode(suspected, timestamp=now))
            sizes = pc.subtract(batches["size"].cast(pa.int64()), pa.scalar(limit.overhead))
            large = pc.indices_nonzero(pc.greater(sizes, pa.scalar(limit.bytes)))
            if len(large):
                first, size = suspects[large[0].as_py()], sizes[large[0].as_py()]
                what = "bytes in a batch of its own" if not limit.overhead else "bytes decompressed"
                raise limit.refusal(
                    f"row {first}: the record takes {size} {what}, but {limit.said} is {limit.bytes}: send smaller "
                    "records, or raise this limit"
                )


def check_offsets(log: str, first: int, last: int, log_end_offset: int | None) -> None:
    """Refuse offsets that rows of one partition cannot keep.

    Args:
        log: the partition's name.
        first: the first offset.
        last: the last offset.
        log_end_offset: the log end offset; None if earlier rows were checked against it.

    Raises:
        UnexpectedAppendOffsetError: the first offset is below the log end offset.
        AppendError: the last offset leaves no offset for the log end.
    """
    error: AppendError | None = None
    if log_end_offset is not None and first < log_end_offset:
        error = UnexpectedAppendOffsetError(
            f"first offset {first} is below the log end offset {log_end_offset}: these offsets are in the log already"
        )
    elif last == _LONG:
        error = AppendError(
            f"last offset {last} is too large: it can be {_LONG - 1} at most, because the log end offset is above it"
        )
    if error is not None:
        error.log = log
        raise error


def _most_bytes(rows: pa.RecordBatch) -> int:
    """Return an upper bound for the bytes of a row: the sum of the longest value of every field."""
    import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

    def longest(column: Any) -> int:  # noqa: ANN401 - an array
        return pc.max(pc.binary_length(column)).as_py() or 0

    found = sum(longest(rows[name]) for name in ("key", "value") if name in rows.schema.names)
    if "headers" in rows.schema.names:
        lists: Any = rows["headers"]
        each = sum(map(longest, lists.flatten().flatten())) + _MOST_HEADER_FRAMING
        found += (pc.max(pc.list_value_length(lists)).as_py() or 0) * each
    return found


def _row_bytes(rows: pa.RecordBatch) -> Any:  # noqa: ANN401 - an array
    """Return the bytes of each row's key, value and headers, with the most framing that headers can have."""
    import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

    def length(column: Any) -> Any:  # noqa: ANN401 - arrays
        return pc.binary_length(column).fill_null(0).cast(pa.int64())

    found = length(rows["value"])
    if "key" in rows.schema.names:
        found = pc.add(found, length(rows["key"]))
    if "headers" in rows.schema.names:
        lists: Any = rows["headers"]
        keys, values = lists.flatten().flatten()
        sizes = pc.add(pc.add(length(keys), length(values)), pa.scalar(_MOST_HEADER_FRAMING))
        sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(sizes)])
        ends = pc.subtract(lists.offsets, lists.offsets[0])
        found = pc.add(found, pc.subtract(sums.take(ends[1:]), sums.take(ends[:-1])))
    return found


def _refusal(kind: type[InvalidRecordError], refused: Any, reason: Callable[[int], str]) -> InvalidRecordError:  # noqa: ANN401
    """Return the error for refused rows."""
    import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

    found: Any = pc.indices_nonzero(refused)
    listed = [(row, reason(row)) for row in found[:_MOST_LISTED].to_pylist()]
    row, why = listed[0]
    first = f"row {row}: {why}"
    message = first if len(found) == 1 else f"{len(found)} rows are refused; the first is {first}"
    return kind(message, record_errors=listed)
