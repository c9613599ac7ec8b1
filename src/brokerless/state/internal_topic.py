"""The records of an internal topic, as a coordinator loads them."""

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
from brokerless.metadata.log import cluster_image
from brokerless.metadata.records import decoded_records
from brokerless.notes import LeftOut, collected, note
from brokerless.wording import in_bytes, option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from brokerless.log.aborted_transactions import Aborted
    from brokerless.log.log import Log
    from brokerless.log_dir.log_dirs import LogDirs

OFFSETS_TOPIC = file_names.OFFSETS_TOPIC
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
MEMORY = 500_000_000
"""The default memory for a partition's records, in bytes.

One half is for the latest record of each key, the other half for the records that are decoded at a time.
"""
_ROW = ["key", "value", "offset", "timestamp"]
# What a coordinator does with a partition if it cannot decode a record (CoordinatorLoaderImpl,
# TransactionStateManager.loadTransactionMetadata). It skips records of an unknown type.
_UNLOADED = {
    OFFSETS_TOPIC: "a coordinator does not load the partition, so all groups in it are unavailable",
    TRANSACTIONS_TOPIC: "a coordinator loads only the records before this one",
}
_UNKNOWN_TYPE = "unknown type"
_SHOWN = {
    OFFSETS_TOPIC: "groups",
    TRANSACTIONS_TOPIC: "transactional ids",
    REMOTE_LOG_METADATA_TOPIC: "remote segments",
}
_MOST_NAMED = 3
# The memory that a large record needs per byte: four bytes may become an object and its part in a row.
_MEMORY_OF_BYTE = 2 * 75


class StateRecord(NamedTuple):
    """A record of the topic.

    Attributes:
        name: the name of the record type, such as `GroupMetadata` or `TransactionLog`.
        key: the key, as Kafka's JSON converters give it; None if the type has none.
        value: the value, in the same way; None if the record removes its key.
        partition: the partition of the topic that holds the record.
        offset: the record's offset.
        timestamp: the record's timestamp, in ms.
        memory: the approximate memory of the record and the objects made from it, in bytes.
    """

    name: str
    key: dict[str, Any]
    value: Any
    partition: int
    offset: int
    timestamp: int
    memory: int = 0


class RowMemory:
    """The memory that the rows of a result may take as Python objects. Several partitions share it.

    Args:
        memory: the memory of the whole call, in bytes; half of it is for rows.
    """

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory = memory
        self._left = memory // 2
        self._told: set[str] = set()

    def take(self, log: Log, size: int) -> bool:
        """Reserve the memory of a row. If too little is left, return False, and warn once for each partition."""
        if self._left >= size:
            self._left -= size
            return True
        if log.name not in self._told:
            self._told.add(log.name)
            what = _SHOWN.get(log.topic or "", "rows")
            note(
                LeftOut(
                    f"{log.name}: not all {what} are shown, because together they take more than "
                    f"{in_bytes(self._memory // 2)} of memory: {more_memory(2 * self._memory)}"
                )
            )
        return False


def logs_of(directories: LogDirs, topic: str) -> list[Log]:
    """Return the partitions of a topic, as `known_logs` does; an empty list if the directories do not have the topic.

    A warning names the partitions that are in none of the directories.
    """
    tell_absent(directories, topic)
    return known_logs(directories, [topic]) if topic in directories.topics() else []


def needed_logs_of(directories: LogDirs, topic: str) -> list[Log]:
    """Return the partitions of a topic as `logs_of` does, but refuse paths that are only partitions of other topics.

    A warning reports that no partition of the topic is present, unless the metadata show that the cluster has none.

    Raises:
        ValueError: all paths are partition directories or files, and none is a partition of the topic.
    """
    if not directories.given_roots and topic not in directories.topics():
        raise ValueError(f"no partition of {topic} in {directories.in_words()}")
    tell_absent(directories, topic, is_needed=True)
    return known_logs(directories, [topic]) if topic in directories.topics() else []


def tell_absent(directories: LogDirs, topic: str, *, is_needed: bool = False) -> None:
    """Warn about partitions of a topic that exist, but are in none of the directories.

    The metadata of a cluster name its partitions. Without metadata, all partitions below the highest partition in the
    directories are assumed to exist.

    Args:
        directories: the directories.
        topic: an internal topic.
        is_needed: also warn if no partition is known to exist, and no metadata prove that none exists.
    """
    what = _SHOWN.get(topic)
    given = directories.given_roots
    if what is None or not given:
        return
    here = {log.partition or 0 for log in directories.logs(all_replicas=True) if log.topic == topic}
    known = set(range(max(here, default=-1) + 1))
    has_metadata = False
    for root in given:
        # Other code reports damage of the metadata.
        with collected(), suppress(BrokerlessError, OSError):
            image = cluster_image(root.path)
            if image is not None:
                has_metadata = True
                known |= set(image.partitions_of(topic))
    absent = sorted(known - here)
    if is_needed and not known and not has_metadata:
        note(LeftOut(f"no partition of {topic} is in the paths: its {what} are not shown"))
    if absent:
        names = ", ".join(f"{topic}-{number}" for number in absent[:_MOST_NAMED])
        more = f" and {len(absent) - _MOST_NAMED} more" if len(absent) > _MOST_NAMED else ""
        are, its = ("is", "its") if len(absent) == 1 else ("are", "their")
        note(LeftOut(f"{names}{more} {are} in none of the paths: {its} {what} are not shown"))


def java_hash(text: str) -> int:
    """Return the absolute value of a string's Java hash code, as Kafka's `Utils.abs` computes it.

    A coordinator takes this hash modulo the topic's number of partitions to find the partition of a group or a
    transactional id.

    >>> java_hash("orders"), java_hash("polygenelubricants")
    (1008770331, 0)
    """
    found = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        found = (found * 31 + int.from_bytes(units[at : at + 2])) & 0xFFFFFFFF
    # The lowest int32 has no absolute value: Kafka uses 0.
    return found if found < 1 << 31 else (1 << 32) - found if found > 1 << 31 else 0


def known_logs(
    directories: LogDirs, topics: Iterable[str] | None = None, partitions: Iterable[int] | None = None
) -> list[Log]:
    """Return one log per partition, as `LogDirs.logs` does.

    A warning names each partition for which damage hides the replica to read, or the log start offset.
    """
    found = []
    of_all = directories.logs(topics, partitions, all_replicas=True)
    for (name, _), replicas in groupby(of_all, lambda log: (log.name, log.path if log.files.is_file else "")):
        try:
            log = sorted_replicas(list(replicas))[0]
            # Evaluated here because it needs the checkpoints, which may be damaged. The log caches it for its readers.
            log.log_end_offset  # noqa: B018
        except BrokerlessError as error:
            note(f"{name} is left out, because it cannot be read: {error}")
        else:
            found.append(log)
    return found


def committed_rows(
    log: Log, *, as_of: int | None = None, pending: _native.LatestRecords | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records outside of transactions, and the records of committed transactions.

    A coordinator loads a topic to its end. So an open transaction hides only its own records, not later ones. Warnings
    name the records that are left out because of damage.

    Args:
        log: a partition of the topic.
        as_of: use only records up to this time, in ms, and transactions that were committed by then; None: all.
        pending: receives the records of open transactions.

    Yields:
        Rows with the columns `key value offset timestamp`, the last as int64 in ms.
    """
    end = None if as_of is None else as_of + 1
    reader = log.read(end_timestamp=end, on_corrupt="skip", columns=[*_ROW, "producerId", "isTransactional"])
    unsettled: _Unsettled | None = None
    for rows in reader:
        kept = rows
        if pc.any(rows["isTransactional"]).as_py() is True:
            unsettled = unsettled or _Unsettled.of(log, as_of)
            is_open = _is_in(rows, unsettled.open)
            if pending is not None and pc.any(is_open).as_py():
                _push(pending, _plain(rows.filter(is_open)))
            kept = rows.filter(pc.invert(pc.or_(is_open, _is_in(rows, unsettled.left_out))))
        yield _plain(kept)
    for doubt in () if unsettled is None else unsettled.doubts:
        note(f"{log.name}: the content of these records is not known: {doubt}")
    for lost in reader.lost:
        note(f"{log.name}: the content of these records is not known: {lost}")


class _Unsettled(NamedTuple):
    """The transactions of a log whose records are ignored, as producer id, first and last offset.

    If the outcome of a transaction is not known, its records are ignored, and `doubts` gives the reason.
    """

    left_out: list[Aborted]
    open: list[Aborted]
    doubts: list[str]

    @classmethod
    def of(cls, log: Log, as_of: int | None) -> _Unsettled:
        end = log.log_end_offset
        # If damage hides the log end offset at that time, transactions that were committed later count, too.
        with suppress(CorruptRecordError, UnsupportedFormatError):
            end = end if as_of is None else end_offsets(log.files, pa.array([as_of], pa.int64()))[0].as_py()
        found = transactions(log.files, log.log_start_offset, end)
        doubtful = [
            (doubt.producer_id, doubt.first_offset, (doubt.end_offset or log.log_end_offset + 1) - 1)
            for doubt in found.doubts
        ]
        unfinished = [(producer, first, log.log_end_offset) for producer, first in found.open]
        return cls(found.aborted + doubtful, unfinished, [doubt.reason for doubt in found.doubts])


def _is_in(rows: pa.RecordBatch, transactions: list[Aborted]) -> pa.Array[Any]:
    """Return, for each row, whether it belongs to one of the transactions."""
    first, last = rows["offset"][0].as_py(), rows["offset"][-1].as_py()
    found = pa.repeat(pa.scalar(False), rows.num_rows)
    for producer, begin, end in transactions:
        if begin <= last and end >= first:
            is_within = pc.and_(
                pc.greater_equal(rows["offset"], pa.scalar(begin)), pc.less_equal(rows["offset"], pa.scalar(end))
            )
            is_of = pc.and_(pc.equal(rows["producerId"], pa.scalar(producer)), rows["isTransactional"])
            # For rows without a producer, the result is null.
            found = pc.or_(found, pc.fill_null(pc.and_(is_within, is_of), pa.scalar(False)))
    return found


def _plain(rows: pa.RecordBatch) -> pa.RecordBatch:
    times = rows["timestamp"].view(pa.int64())
    return pa.RecordBatch.from_arrays([rows["key"], rows["value"], rows["offset"], times], _ROW)


def _push(latest: _native.LatestRecords, rows: pa.RecordBatch) -> None:
    latest.push(rows["key"], rows["value"], rows["offset"], rows["timestamp"])


def latest_records(
    log: Log, *, as_of: int | None = None, pending: _native.LatestRecords | None = None, memory: int = MEMORY
) -> _native.LatestRecords:
    """Return the latest record of each key that is not removed. For the arguments see `committed_rows`.

    A warning names the records that are left out because they take more memory than is allowed.
    """
    latest = _native.LatestRecords(memory // 2)
    try:
        for rows in committed_rows(log, as_of=as_of, pending=pending):
            _push(latest, rows)
    except UnsupportedFormatError as error:
        note(LeftOut(f"the content of {log.name} is left out: {error.args[0]}: {more_memory(2 * memory)}"))
        return _native.LatestRecords()
    for offset, size in latest.too_large():
        note(
            LeftOut(
                f"{log.name}: the record at offset {offset} is left out. It has {in_bytes(size)}, and takes more than "
                f"{in_bytes(memory // 2)} of memory when it is decoded: {more_memory(_MEMORY_OF_BYTE * size)}"
            )
        )
    return latest


def more_memory(needed: int) -> str:
    """Return the remedy for records that take more memory than is allowed.

    >>> more_memory(2_300_000_000)
    'allow about 2300 MB with memory'
    """
    return f"allow about {in_bytes(needed)} with {option('memory')}"


def understood_records(
    log: Log, rows: pa.RecordBatch, *, memory: int = MEMORY
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield the rows that can be decoded, with their decoded records.

    Warnings name the records that cannot be decoded, and the records that take more memory than is allowed.

    Yields:
        Rows with the columns `key value offset timestamp`, and the same number of rows with the columns `name key value
        memory`.
    """
    unknown: Counter[str] = Counter()
    firsts: dict[str, int] = {}
    for part, decoded in decoded_records(log.topic or "", rows, memory=memory // 2):
        is_known = pc.and_(pc.is_null(decoded["unknown"]), pc.invert(decoded["is_too_large"]))
        if not pc.all(is_known).as_py():
            reasons: Any = decoded["unknown"]
            for why, offset in zip(reasons.to_pylist(), part["offset"].to_pylist(), strict=True):
                if why is not None:
                    unknown[why] += 1
                    firsts.setdefault(why, offset or 0)
            _tell_too_large(log, part, decoded, memory)
        yield part.filter(is_known), decoded.select(["name", "key", "value", "memory"]).filter(is_known)
    for why, count in unknown.items():
        note(f"{log.name}: {not_understood(log, 'records', count, firsts[why], why)}")


class Undecodable(NamedTuple):
    """A record that keeps a coordinator from loading its partition.

    Attributes:
        offset: the record's offset.
        key: the record's key.
        why: the reason why it cannot be decoded.
    """

    offset: int
    key: bytes | None
    why: str


def undecodable_records(log: Log) -> Iterator[Undecodable]:
    """Yield the records of a partition that its coordinator cannot decode (CoordinatorLoaderImpl).

    A coordinator skips keys of an unknown type. Records of aborted transactions are included, because a coordinator
    decodes a record before it knows the outcome.
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


def not_understood(log: Log, what: str, count: int, offset: int, why: str) -> str:
    """Return a text about records that cannot be decoded: the first offset, the reason, and the effect on a broker."""
    follows = None if why.startswith(_UNKNOWN_TYPE) else _UNLOADED.get(log.topic or "")
    first = f"{count} {what} cannot be decoded, the first of them at offset {offset}: {why}"
    return first if follows is None else f"{first}; {follows}"


def _tell_too_large(log: Log, part: pa.RecordBatch, decoded: pa.RecordBatch, memory: int) -> None:
    is_too_large: Any = pc.and_(pc.is_null(decoded["unknown"]), decoded["is_too_large"])
    count = pc.sum(is_too_large).as_py() or 0
    if count:
        offset = part["offset"].filter(is_too_large)[0].as_py()
        needed = pc.max(decoded["memory"].filter(is_too_large)).as_py()
        records = f"the record at offset {offset} is" if count == 1 else f"{count} records from offset {offset} on are"
        note(
            LeftOut(
                f"{log.name}: {records} left out. Such a record takes about {in_bytes(needed)} of memory when it is "
                f"decoded, but only {in_bytes(memory // 2)} are allowed: {more_memory(2 * needed)}"
            )
        )


def state_records(log: Log, rows: pa.RecordBatch, *, memory: int = MEMORY) -> Iterator[StateRecord]:
    """Decode rows. A warning names each unknown type and version."""
    for part, decoded in understood_records(log, rows, memory=memory):
        columns = (
            *(decoded[name] for name in ("name", "key", "value")),
            part["offset"],
            part["timestamp"],
            decoded["memory"],
        )
        for name, key, value, offset, timestamp, taken in zip(*(column.to_pylist() for column in columns), strict=True):
            yield StateRecord(
                name,
                json.loads(key or "null"),
                json.loads(value or "null"),
                log.partition or 0,
                offset,
                timestamp or 0,
                taken,
            )
