"""The producers of each partition, from the newest producer snapshot and the batches after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.arguments import check_paths, to_ms
from brokerless.errors import BrokerlessError, CorruptRecordError, UnsupportedFormatError
from brokerless.io import storage
from brokerless.log.end_offsets import end_offsets
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.metadata.schema import TIME, schema
from brokerless.notes import note
from brokerless.recovery.segment_replay import feed
from brokerless.state.internal_topic import known_logs

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from brokerless.arguments import Time
    from brokerless.io.storage import File
    from brokerless.log.log import Log
    from brokerless.log.segment import Segment

SCHEMA = schema(
    topic=pa.string(),
    partition=pa.int32(),
    producer_id=pa.int64(),
    producer_epoch=pa.int16(),
    last_sequence=pa.int32(),
    last_offset=pa.int64(),
    last_time=TIME,
    coordinator_epoch=pa.int32(),
    transaction_start_offset=pa.int64(),
)
_FOR_EVER = (1 << 63) - 1


def producers(
    *paths: str | os.PathLike[str],
    topics: Iterable[str] | None = None,
    partitions: Iterable[int] | None = None,
    as_of: Time | None = None,
    as_of_offset: int | None = None,
) -> pa.Table:
    """Return the producers of partitions, as `kafka-transactions.sh describe-producers` lists them.

    Columns: `topic partition producer_id producer_epoch`; `last_sequence last_offset` of the producer's last data
    batch, null if none is known; `last_time`; `coordinator_epoch` of its last transaction marker, null without a
    marker; `transaction_start_offset` of its open transaction, null without one.

    A broker forgets an idle producer after a day (`producer.id.expiration.ms`). This table lists such a producer as
    long as it is in the snapshot or in the batches after the snapshot.

    The state at a past point comes from the newest snapshot before it and the batches up to it. The end of a log at a
    past time comes from the timestamps of its records. If the log of a partition starts after the point, the table has
    no rows for it, and a warning names the partition.

    Args:
        paths: log directories, or partition directories.
        topics: only these topics; None: all.
        partitions: only these partitions; None: all.
        as_of: return the producers at this time; None: at the end.
        as_of_offset: return the producers before this offset of each partition.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is not a log directory, a topic or partition does not exist, or both `as_of` and
            `as_of_offset` are given.

    >>> import brokerless as bl
    >>> bl.producers(SAMPLE_DIR).num_rows
    9
    """
    check_paths("producers", paths)
    if as_of is not None and as_of_offset is not None:
        raise ValueError("as_of and as_of_offset both give a point: give one of them")
    until = None if as_of is None else to_ms("as_of", as_of)
    logs = known_logs(LogDirs(*paths), topics, partitions)
    return as_table((log, entries_of(log, as_of=until, as_of_offset=as_of_offset)) for log in logs)


def producers_of(log: Log, *, as_of: int | None = None, as_of_offset: int | None = None) -> pa.Table:
    """Return the producers of one partition, with the schema `SCHEMA`. For the arguments see `entries_of`."""
    return as_table([(log, entries_of(log, as_of=as_of, as_of_offset=as_of_offset))])


def entries_of(log: Log, *, as_of: int | None = None, as_of_offset: int | None = None) -> pa.RecordBatch:
    """Return the entries of the producers of one partition, for `as_table`. Warnings describe the gaps.

    Args:
        log: the partition.
        as_of: the time in ms; None: the end.
        as_of_offset: the producers before this offset; None: at the end.
    """
    try:
        end = as_of_offset if as_of is None else _end_at(log, as_of)
        return _state(log, log.log_end_offset if end is None else min(end, log.log_end_offset)).entries()
    except _UnknownError as error:
        note(f"the producers of {log.name} are not known: {error}")
        return _native.Producers().entries()


def as_table(found: Iterable[tuple[Log, pa.RecordBatch]]) -> pa.Table:
    """Return the entries of partitions, as `entries_of` returned them, as one table with the schema `SCHEMA`."""
    logs = [*found]
    if not logs:
        return SCHEMA.empty_table()
    topics: list[pa.Array[Any]] = [pa.repeat(pa.scalar(log.topic, pa.string()), one.num_rows) for log, one in logs]
    numbers: list[pa.Array[Any]] = [pa.repeat(pa.scalar(log.partition, pa.int32()), one.num_rows) for log, one in logs]
    entries = pa.Table.from_batches([one for _, one in logs])
    columns: list[Any] = [
        pa.chunked_array(topics),
        pa.chunked_array(numbers),
        entries["producer_id"],
        entries["producer_epoch"],
        _known(entries["last_sequence"]),
        _known(entries["last_offset"]),
        _known(entries["timestamp"]).cast(TIME),
        _known(entries["coordinator_epoch"]),
        _known(entries["current_txn_first_offset"]),
    ]
    return pa.table(columns, schema=SCHEMA)


def _known(column: Any) -> Any:  # noqa: ANN401 - a column
    """Return the column with null in place of -1."""
    known: Any = pc.if_else(pc.less(column, pa.scalar(0, column.type)), pa.scalar(None, column.type), column)
    return known


class _UnknownError(Exception):
    """The snapshot or the batches from which the producers at a point are built are not in the directory."""


def _end_at(log: Log, time: int) -> int:
    """Return the end of a log at a time in ms."""
    try:
        end: int = end_offsets(log.files, pa.array([time], pa.int64()))[0].as_py()
    except BrokerlessError as error:
        raise _UnknownError(error) from error
    if end <= log.local_log_start_offset and log.local_log_start_offset > 0:
        raise _UnknownError(
            f"the first record in this directory, at offset {log.local_log_start_offset}, is later than {time}"
        )
    return end


def _state(log: Log, end: int) -> _native.Producers:
    """Return the producers before an offset."""
    first = log.segments[0].base_offset if log.segments else log.log_end_offset
    state, start = _snapshot(log, end)
    if end < max(first, start):
        raise _UnknownError(f"the log begins at offset {first}, and has no producer snapshot up to offset {end}")
    if start < first and end < log.log_end_offset:
        note(
            f"the list of producers of {log.name} may be incomplete: the log begins at offset {first}, and no producer "
            f"snapshot up to offset {end} has the producers of earlier records"
        )
    for segment in log.segments:
        if segment.end_offset(log.log_end_offset) <= start:
            continue
        if segment.base_offset >= end:
            break
        with segment.open() as file:
            extent = segment.extent(file)
            why = None if extent.damage is None else extent.damage.args[0]
            limit = extent.end_position
            if end < segment.end_offset(log.log_end_offset):
                limit = _position_of(segment, file, end, limit)
            walk = _native.ProducerReplay(state, start)
            position = feed(walk, file, end=limit)
            if walk.ended == "failed":
                why = walk.error
                # The failed replay has not changed the state, so replay the part before the damage alone.
                feed(_native.ProducerReplay(state, start), file, end=position)
        if why is not None:
            note(f"the list of producers of {log.name} may be incomplete: {segment.path} is damaged ({why})")
            break
    return state


def _position_of(segment: Segment, file: File, offset: int, end: int) -> int:
    """Return the position of the first batch that ends at an offset or above; `end` if none does or damage hides it."""
    try:
        batch = segment.batch_of(file, offset)
    except (CorruptRecordError, UnsupportedFormatError):
        return end
    return end if batch is None else min(end, int(batch["position"]))


def _snapshot(log: Log, end: int) -> tuple[_native.Producers, int]:
    """Return the producers in the newest readable snapshot up to an offset, and its offset; without one, none and 0."""
    # At the log end, a broker has no producers from before the log start. But at a point in the past, it had them.
    least = log.log_start_offset + (end >= log.log_end_offset)
    for offset in reversed(log.snapshots):
        # In a tiered log, a snapshot at the local log start counts: the records before it are in remote storage.
        if least <= offset <= end:
            try:
                content = storage.read_all(log.files.snapshot_path(offset))
                state = _native.Producers.from_snapshot(content, now=0, producer_id_expiration_ms=_FOR_EVER)
            except (OSError, CorruptRecordError):
                continue
            return state, offset
    return _native.Producers(), 0
