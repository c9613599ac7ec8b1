"""The producers of each partition, from the newest producer snapshot and the batches behind it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.errors import CorruptRecordError
from brokerless.io import storage
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.recovery.segment_replay import feed
from brokerless.state.schema import TIME, schema

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from brokerless.log.log import Log

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
    *paths: str | os.PathLike[str], topics: Iterable[str] | None = None, partitions: Iterable[int] | None = None
) -> pa.Table:
    """Return the producers of partitions, as `kafka-transactions.sh describe-producers` lists them.

    Columns: `topic partition producer_id producer_epoch`; `last_sequence last_offset`, of its last data batch, null if
    none is known; `last_time`; `coordinator_epoch`, of its last transaction marker, null for none;
    `transaction_start_offset`, of its open transaction, null for none.

    A broker forgets an idle producer after a day (`producer.id.expiration.ms`). Such producers are listed as long as a
    snapshot or the batches behind it have them.

    Args:
        paths: log directories, or partition directories.
        topics: only these topics; None: all.
        partitions: only these partitions; None: all.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory, or a topic or partition does not exist.

    >>> import brokerless as bl
    >>> bl.producers(SAMPLE_DIR).num_rows
    0
    """
    tables = [producers_of(log) for log in LogDirs(*paths).logs(topics, partitions)]
    return pa.Table.from_batches(tables, SCHEMA)


def producers_of(log: Log) -> pa.RecordBatch:
    """Return the producers of one partition, with the schema `SCHEMA`. A warning tells what damage leaves out."""
    found = _state(log).entries()
    count = found.num_rows
    columns: list[pa.Array[Any]] = [
        pa.repeat(pa.scalar(log.topic, pa.string()), count),
        pa.repeat(pa.scalar(log.partition, pa.int32()), count),
        found["producer_id"],
        found["producer_epoch"],
        _known(found["last_sequence"]),
        _known(found["last_offset"]),
        _known(found["timestamp"]).cast(TIME),
        _known(found["coordinator_epoch"]),
        _known(found["current_txn_first_offset"]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _known(column: pa.Array[Any]) -> pa.Array[Any]:
    """Return the column with null in place of -1."""
    known: pa.Array[Any] = pc.if_else(pc.less(column, pa.scalar(0, column.type)), pa.scalar(None, column.type), column)
    return known


def _state(log: Log) -> _native.Producers:
    state, start = _snapshot(log)
    for segment in log.segments:
        if segment.end_offset(log.log_end_offset) <= start:
            continue
        with segment.open() as file:
            extent = segment.extent(file)
            why = None if extent.damage is None else extent.damage.args[0]
            walk = _native.ProducerReplay(state, start)
            end = feed(walk, file, end=extent.end_position)
            if walk.ended == "failed":
                why = walk.error
                # It has not changed the state. So what comes before the damage is replayed alone.
                feed(_native.ProducerReplay(state, start), file, end=end)
        if why is not None:
            warnings.warn(f"the producers of {log.name} may not be all: {segment.path} is damaged: {why}", stacklevel=2)
            break
    return state


def _snapshot(log: Log) -> tuple[_native.Producers, int]:
    """Return the producers in the newest readable snapshot, and its offset; none, and 0, without one."""
    for offset in reversed(log.snapshots):
        # Those at the start of a tiered log's local part count: what is before them is remote.
        if log.log_start_offset < offset <= log.log_end_offset:
            try:
                content = storage.read_all(log.snapshot_path(offset))
                state = _native.Producers.from_snapshot(content, now=0, producer_id_expiration_ms=_FOR_EVER)
            except (OSError, CorruptRecordError):
                continue
            return state, offset
    return _native.Producers(), 0
