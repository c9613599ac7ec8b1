"""The records of a topic that Kafka keeps its own state in, as a coordinator that loads them takes them."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.errors import BrokerlessError, CorruptRecordError, UnsupportedFormatError
from brokerless.layout import file_names
from brokerless.log.aborted_transactions import transactions
from brokerless.log.end_offsets import end_offsets
from brokerless.log_dir.log_dirs import sorted_replicas
from brokerless.metadata.records import decoded_records
from brokerless.notes import note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from brokerless.log.aborted_transactions import Aborted
    from brokerless.log.log import Log
    from brokerless.log_dir.log_dirs import LogDirs

OFFSETS_TOPIC = file_names.OFFSETS_TOPIC
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
_ROW = ["key", "value", "offset", "timestamp"]


class StateRecord(NamedTuple):
    """A record of the topic.

    Attributes:
        name: the name of its type: `GroupMetadata`, `TransactionLog`.
        key: the key, as Kafka's JSON converters give it; None if the type has none.
        value: the value, in the same way; None if the record removes its key.
        partition: the partition of the topic that has it.
        offset: its offset there.
        timestamp: of the record, in ms.
    """

    name: str
    key: dict[str, Any]
    value: Any
    partition: int
    offset: int
    timestamp: int


def logs_of(directories: LogDirs, topic: str) -> list[Log]:
    """Return the partitions of a topic, as `known_logs` does; none if the directories do not have it."""
    return known_logs(directories, [topic]) if topic in directories.topics() else []


def known_logs(
    directories: LogDirs, topics: Iterable[str] | None = None, partitions: Iterable[int] | None = None
) -> list[Log]:
    """Return one log per partition, as `LogDirs.logs` does.

    A warning names each partition where damage hides which replica is the one to read, or where its log starts.
    """
    found = []
    of_all = directories.logs(topics, partitions, all_replicas=True)
    for (name, _), replicas in groupby(of_all, lambda log: (log.name, log.path if log.files.is_file else "")):
        try:
            log = sorted_replicas(list(replicas))[0]
            # It needs the checkpoints. What reads the log needs it, and keeps it.
            log.log_end_offset  # noqa: B018
        except BrokerlessError as error:
            note(f"what {name} says is not known: {error}")
        else:
            found.append(log)
    return found


def committed_rows(
    log: Log, *, at: int | None = None, pending: list[pa.RecordBatch] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records that count: those outside of transactions, and those of committed ones.

    A coordinator loads a topic up to its end. So an open transaction hides its own records only, not those behind it.
    A warning tells what damage leaves out.

    Args:
        log: a partition of the topic.
        at: only records up to this time in ms, and the transactions that were committed by then; None: all.
        pending: gets the rows of open transactions.

    Yields:
        Rows with the columns `key value offset timestamp`, the last as int64 in ms.
    """
    end = None if at is None else at + 1
    reader = log.read(end_timestamp=end, on_corrupt="skip", columns=[*_ROW, "producerId", "isTransactional"])
    unsettled: _Unsettled | None = None
    for rows in reader:
        kept = rows
        if pc.any(rows["isTransactional"]).as_py() is True:
            unsettled = unsettled or _Unsettled.of(log, at)
            is_open = _is_in(rows, unsettled.open)
            if pending is not None and pc.any(is_open).as_py():
                pending.append(_plain(rows.filter(is_open)))
            kept = rows.filter(pc.invert(pc.or_(is_open, _is_in(rows, unsettled.left_out))))
        yield _plain(kept)
    for doubt in () if unsettled is None else unsettled.doubts:
        note(f"{log.name}: what these records say is not known: {doubt}")
    for lost in reader.lost:
        note(f"{log.name}: what these records say is not known: {lost}")


class _Unsettled(NamedTuple):
    """The transactions of a log that do not count: producer id, first and last offset.

    Those are left out of which it is not known whether they were committed: `doubts` says why.
    """

    left_out: list[Aborted]
    open: list[Aborted]
    doubts: list[str]

    @classmethod
    def of(cls, log: Log, at: int | None) -> _Unsettled:
        end = log.log_end_offset
        # Where damage hides the end of then, what was committed later counts.
        with suppress(CorruptRecordError, UnsupportedFormatError):
            end = end if at is None else end_offsets(log.files, pa.array([at], pa.int64()))[0].as_py()
        found = transactions(log.files, log.log_start_offset, end)
        doubtful = [
            (doubt.producer_id, doubt.first_offset, (doubt.end_offset or log.log_end_offset + 1) - 1)
            for doubt in found.doubts
        ]
        unfinished = [(producer, first, log.log_end_offset) for producer, first in found.open]
        return cls(found.aborted + doubtful, unfinished, [doubt.reason for doubt in found.doubts])


def _is_in(rows: pa.RecordBatch, transactions: list[Aborted]) -> pa.Array[Any]:
    """Return for each row whether it belongs to one of the transactions."""
    first, last = rows["offset"][0].as_py(), rows["offset"][-1].as_py()
    found = pa.repeat(pa.scalar(False), rows.num_rows)
    for producer, begin, end in transactions:
        if begin <= last and end >= first:
            is_within = pc.and_(
                pc.greater_equal(rows["offset"], pa.scalar(begin)), pc.less_equal(rows["offset"], pa.scalar(end))
            )
            is_of = pc.and_(pc.equal(rows["producerId"], pa.scalar(producer)), rows["isTransactional"])
            # Rows without a producer have null.
            found = pc.or_(found, pc.fill_null(pc.and_(is_within, is_of), pa.scalar(False)))
    return found


def _plain(rows: pa.RecordBatch) -> pa.RecordBatch:
    times = rows["timestamp"].view(pa.int64())
    return pa.RecordBatch.from_arrays([rows["key"], rows["value"], rows["offset"], times], _ROW)


def latest_records(
    log: Log, *, at: int | None = None, pending: list[pa.RecordBatch] | None = None
) -> _native.LatestRecords:
    """Return the latest record of each key that is not removed. See `committed_rows` for the arguments."""
    latest = _native.LatestRecords()
    for rows in committed_rows(log, at=at, pending=pending):
        latest.push(rows["key"], rows["value"], rows["offset"], rows["timestamp"])
    return latest


def understood_records(log: Log, rows: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield the rows that are understood, with what they decode to. A warning names each type and version that is not.

    Yields:
        Rows with the columns `key value offset timestamp`, and as many with the columns `name key value`.
    """
    unknown: Counter[str] = Counter()
    for part, decoded in decoded_records(log.topic or "", rows):
        is_known = pc.is_null(decoded["unknown"])
        unknown.update(map(str, pc.drop_null(decoded["unknown"]).to_pylist()))
        yield part.filter(is_known), decoded.select(["name", "key", "value"]).filter(is_known)
    for why, count in unknown.items():
        note(f"{log.name}: {count} records are not understood: {why}")


class Undecodable(NamedTuple):
    """A record with which a coordinator does not load its partition.

    Attributes:
        offset: its offset.
        key: its key.
        why: why it cannot be decoded.
    """

    offset: int
    key: bytes | None
    why: str


def undecodable_records(log: Log) -> Iterator[Undecodable]:
    """Yield the records of a coordinator's partition that it cannot decode (CoordinatorLoaderImpl).

    It passes over keys of a type that it does not know. Transactions count for nothing: it decodes before it knows.
    """
    for rows in log.read(on_corrupt="skip", columns=["key", "value", "offset"]):
        for part, decoded in decoded_records(log.topic or "", rows):
            unknown = decoded["unknown"]
            if unknown.null_count < len(unknown):
                is_skipped: Any = pc.fill_null(pc.starts_with(unknown, "unknown type"), pa.scalar(True))
                is_bad: Any = pc.invert(is_skipped)
                found, whys = part.filter(is_bad), unknown.filter(is_bad).to_pylist()
                columns = found["offset"].to_pylist(), found["key"].to_pylist(), map(str, whys)
                yield from map(Undecodable._make, zip(*columns, strict=True))


def state_records(log: Log, rows: pa.RecordBatch) -> Iterator[StateRecord]:
    """Decode rows. A warning names each type and version that is not known."""
    for part, decoded in understood_records(log, rows):
        columns = (*(decoded[name] for name in ("name", "key", "value")), part["offset"], part["timestamp"])
        for name, key, value, offset, timestamp in zip(*(column.to_pylist() for column in columns), strict=True):
            yield StateRecord(
                name,
                json.loads(key or "null"),
                json.loads(value or "null"),
                log.partition or 0,
                offset,
                timestamp or 0,
            )
