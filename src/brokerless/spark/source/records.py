"""View `records`: the rows of Spark's Kafka source, with lineage columns on request."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from brokerless import _native
from brokerless.errors import OffsetOutOfRangeError
from brokerless.io.remote import is_remote
from brokerless.io.runner import Threads
from brokerless.log.offset_range import end_at, start_at
from brokerless.log.reader import KAFKA_COLUMNS, SparkReader
from brokerless.metadata.uncommitted import Uncommitted
from brokerless.notes import note
from brokerless.spark.source.cuts import cut
from brokerless.spark.source.spark_types import spark_rows
from brokerless.spark.source.tasks import (
    WorkItem,
    keep_modules,
    plan_consistently,
    records_tasks,
    select_logs,
    target_bytes,
)
from brokerless.values.row_decoder import default_columns as decoded_defaults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from brokerless.log.log import Log
    from brokerless.log.offset_range import EndOffset, StartOffset
    from brokerless.log.split import Split
    from brokerless.spark.source.options import Bound, Offset, Options, Partition
    from brokerless.spark.source.tasks import DecodedTask, Task

# Small batches are joined: passing one to Spark costs as much as some hundred rows.
_SMALL = 256 << 10
_HANDOVER = 2 << 20
# Concurrent requests to an object store.
_REQUESTS = 16
# Smaller splits than an index entry gain nothing: the rest is cut by offset.
_FINEST = 64 << 10

SCHEMA = _native.row_schema(_native.ROW_COLUMNS, spark=True)


def default_columns(options: Options) -> Sequence[str]:
    """Return the columns of Spark's Kafka source, with `headers` if option includeHeaders is true.

    A decoded read has also the columns that keep what does not decode.
    """
    columns = KAFKA_COLUMNS if options.include_headers else KAFKA_COLUMNS[:-1]
    return columns if options.decode is None else decoded_defaults(options.decode.decoding, columns)


def plan(options: Options) -> Sequence[Task[Split]]:
    """Plan the tasks. Reads records only to find a time.

    Raises:
        OffsetOutOfRangeError: an offset does not exist, unless failOnDataLoss is false.
        ValueError: a topic or partition does not exist, or offsets by partition do not name exactly the partitions of
            the read.
    """

    def planned() -> Sequence[Task[Split]]:
        logs = chosen(options)
        target = target_of(logs, options)
        return records_tasks(pieces_of_all(logs, options, target), target, options)

    return plan_consistently(options, planned)


def pieces_of_all(logs: Sequence[Log], options: Options, target: int) -> list[WorkItem[Split]]:
    """Cut logs into pieces, in order, as `pieces_of` does. In an object store, cut several logs at the same time."""
    pieces = partial(pieces_of, options=options, target=target)
    if any(is_remote(path) for path in options.paths):
        with Threads(_REQUESTS) as threads:
            by_log = list(threads.map(pieces, logs))
    else:
        by_log = [pieces(log) for log in logs]
    uncommitted = Uncommitted(logs, options.paths)
    for log, of_log in zip(logs, by_log, strict=True):
        for text in uncommitted.of(log, [piece.work for piece in of_log]):
            note(text)
    return [piece for of_log in by_log for piece in of_log]


def chosen(options: Options) -> list[Log]:
    """Return the logs to read.

    Raises:
        ValueError: a topic or partition does not exist, or offsets by partition do not name exactly the partitions of
            the read.
    """
    logs = select_logs(options)
    names = {name_of(log) for log in logs}
    for bound in (options.start, options.end):
        check_partitions("offsets", bound.offsets, names)
        check_partitions("times", bound.timestamps, names)
    return logs


def target_of(logs: Iterable[Log], options: Options) -> int:
    """Return the number of bytes of these logs that a task should read."""
    return target_bytes((segment.size for log in logs for segment in log.segments), options)


def read(task: Task[Split], options: Options, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, with small batches joined."""
    keep_modules()
    decoder = None
    if options.decoded is not None:
        decoder = options.decoded.decoder(wanted.names, cast("DecodedTask", task).changes)
    reader = SparkReader(task.work, wanted.names, check_crcs=options.check_crcs, decode=decoder)
    yield from _gathered(reader if decoder is None else (spark_rows(rows, wanted) for rows in reader if rows.num_rows))
    for text in () if decoder is None else decoder.notes():
        note(text)
    for lost in reader.lost:
        note(str(lost))
    if reader.null_timestamps:
        note(f"{reader.null_timestamps} timestamps are beyond Spark's range: null")


def _gathered(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        if batch.nbytes >= _SMALL and not held:
            yield batch
            continue
        held.append(batch)
        size += batch.nbytes
        if size >= _HANDOVER:
            yield _joined(held)
            held, size = [], 0
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def check_partitions(what: str, given: Mapping[Partition, object] | None, names: AbstractSet[Partition]) -> None:
    """Refuse offsets or times by partition that do not name exactly the partitions of the read."""
    if given is not None and given.keys() != names:
        missing = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(names - given.keys(), key=str))
        extra = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(given.keys() - names))
        problem = f"missing: {missing}" if missing else f"not read: {extra}"
        words = "; -2 stands for earliest, -1 for latest" if what == "offsets" else ""
        raise ValueError(f"{what} by partition must name every partition that is read and no other ({problem}){words}")


def pieces_of(log: Log, options: Options, target: int) -> list[WorkItem[Split]]:
    """Cut the range of a log that the options select into pieces of about `target` bytes.

    Raises:
        OffsetOutOfRangeError: an offset does not exist, unless failOnDataLoss is false.
    """
    return pieces(log, start_of(log, options), end_of(log, options), options, target)


def pieces(
    log: Log, start: StartOffset | None, end: EndOffset | None, options: Options, target: int
) -> list[WorkItem[Split]]:
    """Cut the range between two offsets of a log into pieces of about `target` bytes.

    Raises:
        OffsetOutOfRangeError: an offset does not exist, unless failOnDataLoss is false.
    """
    most = options.max_records_per_partition
    if most:
        size = sum(segment.size for segment in log.segments)
        offsets = log.log_end_offset - log.local_log_start_offset
        target = min(target, max(_FINEST, size * most // max(1, offsets)))
    try:
        splits = _plan(log, options, start, end, target)
    except OffsetOutOfRangeError as error:
        if options.fail_on_data_loss:
            raise
        note(f"some data may be lost (failOnDataLoss is false): {error}")
        low, high = error.log_start_offset, error.log_end_offset
        start = min(max(start, low), high) if isinstance(start, int) else start
        end = min(max(end, low), high) if isinstance(end, int) else end
        splits = _plan(log, options, start, end, target)
    if most:
        return list(cut(splits, log.segments, log.log_end_offset, most))
    return [WorkItem(split, split.end_position - split.position) for split in splits]


def _plan(log: Log, options: Options, start: StartOffset | None, end: EndOffset | None, target: int) -> list[Split]:
    if isinstance(end, int) and end > log.log_end_offset:
        raise OffsetOutOfRangeError(
            f"end offset {end} of {log.name} is beyond the log end offset {log.log_end_offset}",
            log_start_offset=log.local_log_start_offset,
            log_end_offset=log.log_end_offset,
        )
    return log.plan(
        start_offset=start,
        end_offset=end,
        isolation_level=options.isolation_level,
        target_bytes=target,
        on_corrupt=options.on_corrupt,
    )


def start_of(log: Log, options: Options) -> StartOffset | None:
    """Return the start of a read of this log: an offset, "earliest" or "latest", or None if the options give none.

    Raises:
        ValueError: no record is at or after the time that the options give.
    """
    timestamp = _timestamp(options.start, log)
    if timestamp is None:
        return cast("StartOffset | None", _offset(options.start, log))
    found = start_at(log.files, timestamp, options.isolation_level, skips=options.skips)
    if found is None and options.no_match == "error":
        raise ValueError(
            f"no record of {log.name} is at or after {timestamp}: "
            "startingOffsetsByTimestampStrategy=latest starts such a partition at its end"
        )
    if found is not None and found < log.local_log_start_offset:
        # The offset is among those missing before the first local record.
        return "earliest"
    return "latest" if found is None else found


def end_of(log: Log, options: Options) -> EndOffset | None:
    """Return the end of a read of this log; see `start_of`."""
    timestamp = _timestamp(options.end, log)
    if timestamp is None:
        return cast("EndOffset | None", _offset(options.end, log))
    found = end_at(log.files, timestamp, options.isolation_level, skips=options.skips)
    return "latest" if found is None else found


def _timestamp(bound: Bound, log: Log) -> int | None:
    return bound.timestamp if bound.timestamps is None else bound.timestamps[name_of(log)]


def _offset(bound: Bound, log: Log) -> Offset | None:
    return bound.offset if bound.offsets is None else bound.offsets[name_of(log)]


def name_of(log: Log | Split) -> Partition:
    """Return a partition's name. A file outside a partition directory has no name that an option could give."""
    return log.topic or "", log.partition or 0
