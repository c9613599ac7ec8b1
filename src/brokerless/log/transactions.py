"""Which transactions were aborted, and which are still open: what `read_committed` leaves out.

A broker keeps both: aborted transactions in `.txnindex` files, open ones in producer snapshots. The index has no
checksum and an absent one means no aborts, so it is believed only after a clean shutdown and if its entries fit the
segment. Otherwise the markers tell: a walk over the batch headers of the log.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless import _native, storage
from brokerless.errors import BrokerlessError, CorruptRecordError, UnsupportedFormatError
from brokerless.log.segment import NO_END

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from brokerless.log.log import Log
    from brokerless.log.segment import Segment

Aborted = tuple[int, int, int]
"""(producer_id, first_offset, last_offset): the last is that of the ABORT marker."""
_Open = list[tuple[int, int]]

_SMALLEST_BATCH = 61
_OPENING_FIELDS = ("base_offset", "last_offset", "producer_id", "is_transactional", "is_control", "is_valid")


class Transactions(NamedTuple):
    """What a read needs to know: the aborted transactions, and the offset where the first open one starts (or None)."""

    aborted: list[Aborted]
    first_unstable_offset: int | None


def transactions(log: Log, start_offset: int, end_offset: int, *, verify: bool = False) -> Transactions:
    """Find the transactions that matter to a read of [start_offset, end_offset).

    Args:
        log: the log.
        start_offset: the first offset wanted.
        end_offset: batches from here on count as not written: those still to be replicated.
        verify: walk the headers of the whole log even after a clean shutdown.
    """
    if log.root.is_clean and not verify:
        indexed = _indexed(log, start_offset)
        if indexed is not None:
            return Transactions(indexed, _first_unstable(log, _open_at(log, end_offset)))
    segments = log.segments
    first = 0 if verify else _floor(segments, start_offset)
    open_transactions = _snapshot(log, segments[first].base_offset) if segments else []
    while open_transactions is None and first > 0:
        first -= 1
        open_transactions = _snapshot(log, segments[first].base_offset)
    aborted, still_open = _walk(log, first, open_transactions or [], end_offset)
    # A later snapshot may know of one that began before all that was walked.
    return Transactions(aborted, _first_unstable(log, still_open + _open_at(log, end_offset)))


def first_unstable_offset(log: Log, end_offset: int) -> int | None:
    """Find where the first transaction open at `end_offset` starts: from the newest snapshot and what follows it."""
    return _first_unstable(log, _open_at(log, end_offset))


def overlapping(aborted: list[Aborted], bounds: Iterable[tuple[int, int]]) -> list[tuple[Aborted, ...]]:
    """Sort aborted transactions into ascending offset ranges [start, end): a long one is in several."""
    by_start = sorted(aborted, key=lambda transaction: transaction[1])
    running: list[tuple[int, Aborted]] = []  # a heap by last offset
    sorted_in = []
    begun = 0
    for start, end in bounds:
        while begun < len(by_start) and by_start[begun][1] < end:
            heappush(running, (by_start[begun][2], by_start[begun]))
            begun += 1
        while running and running[0][0] < start:
            heappop(running)
        sorted_in.append(tuple(transaction for _, transaction in sorted(running)))
    return sorted_in


def _indexed(log: Log, start_offset: int) -> list[Aborted] | None:
    """Return the aborted transactions that end at or behind `start_offset` by the indexes; None: not to be believed."""
    aborted: list[Aborted] = []
    segments = log.segments
    for segment in segments[_floor(segments, start_offset) :]:
        if segment.has_transaction_index:
            found = fitting(segment)
            if found is None:
                return None
            aborted += found
    return aborted


def fitting(segment: Segment) -> list[Aborted] | None:
    """Return the aborted transactions by a segment's index; None: it cannot be of this segment, or cannot be read."""
    import pyarrow.compute as pc  # noqa: PLC0415 - costs every start of the command

    try:
        index = segment.transaction_index()
        if index is None or not len(index):
            return []
        # Each entry has its marker in the segment: more of them than there is room for are not even looked at.
        if len(index) * _SMALLEST_BATCH > segment.size:
            return None
        entries = index.entries()
    except (OSError, BrokerlessError):
        return None
    producer_id, first, last = (entries[name] for name in ("producer_id", "first_offset", "last_offset"))
    end = NO_END if segment.next_base_offset is None else segment.next_base_offset
    checks = (
        pc.less(first, last),
        pc.less(last[:-1], last[1:]),
    )
    # held as Arrow until they are known to fit: as Python objects they take ten times the room
    if not (segment.base_offset <= last[0].as_py() and last[-1].as_py() < end):
        return None
    if min(pc.min(producer_id).as_py(), pc.min(first).as_py()) < 0:
        return None
    if not all(pc.all(check, min_count=0).as_py() for check in checks):
        return None
    return _tuples(entries, "producer_id", "first_offset", "last_offset")


def _open_at(log: Log, end_offset: int) -> _Open:
    """Return the transactions open at `end_offset`: the newest readable snapshot before it, then the batches behind."""
    segments = log.segments
    if not segments:
        return []
    if log.root.is_clean and not log.snapshots:
        # Kafka's own short cut: a clean directory without snapshots is loaded as one without producers.
        return []
    for offset in reversed(log.snapshots):
        if log.local_log_start_offset < offset <= end_offset:
            open_transactions = _snapshot(log, offset)
            if open_transactions is not None:
                return _walk(log, _floor(segments, offset), open_transactions, end_offset, offset)[1]
    return _walk(log, 0, _snapshot(log, segments[0].base_offset) or [], end_offset)[1]


def _walk(
    log: Log, first: int, open_transactions: _Open, end_offset: int, start_offset: int | None = None
) -> tuple[list[Aborted], _Open]:
    """Walk the headers of the segments from the `first` on, and return the aborted and the still open transactions.

    Damage does not end it, since rows before the damage are still to be read: what the rest of that segment held is
    taken from its index and from the snapshot at its end.
    """
    aborted: list[Aborted] = []
    walk = _native.HeaderWalk(open_transactions)
    for segment in log.segments[first:]:
        if segment.base_offset >= end_offset:
            break
        end = segment.next_base_offset
        with segment.open() as file:
            position, size = 0, log.extent.end_position if end is None else file.size()
            try:
                if start_offset is not None and segment.base_offset < start_offset:
                    position = _position_of(segment, file, start_offset, size)
                if end_offset < (log.extent.next_offset if end is None else end):
                    size = _position_of(segment, file, end_offset, size)
                segment.walk_whole(walk, file, position, size)
            except (CorruptRecordError, UnsupportedFormatError):
                aborted += walk.aborted
                aborted += fitting(segment) or []
                known = None if end is None else _snapshot(log, end)
                walk = _native.HeaderWalk(walk.open_transactions if known is None else known)
        walk.start_file()
    return aborted + walk.aborted, walk.open_transactions


def _position_of(segment: Segment, file: storage.File, offset: int, end: int) -> int:
    batch = segment.batch_of(file, offset)
    return end if batch is None else min(end, batch["position"])


def _snapshot(log: Log, offset: int) -> _Open | None:
    """Return the transactions open at `offset` by the snapshot taken there; None if it cannot be read."""
    import pyarrow as pa  # noqa: PLC0415 - costs every start of the command
    import pyarrow.compute as pc  # noqa: PLC0415 - likewise

    at = bisect_left(log.snapshots, offset)
    if log.snapshots[at : at + 1] != [offset]:
        return None
    try:
        producers = _native.producer_snapshot(storage.read_all(log.snapshot_path(offset)))
    except (OSError, BrokerlessError):
        return None
    producers = producers.filter(pc.greater_equal(producers["current_txn_first_offset"], pa.scalar(0, pa.int64())))
    return _tuples(producers, "producer_id", "current_txn_first_offset")


def _first_unstable(log: Log, open_transactions: _Open) -> int | None:
    first = _first_begun(log, open_transactions) if open_transactions else None
    if first is None or first >= log.local_log_start_offset:
        return first
    # Below the log start Kafka takes the start of the batch that the log start lies in.
    segment = log.segments[_floor(log.segments, log.local_log_start_offset)]
    with segment.open() as file:
        try:
            batch = segment.batch_of(file, log.local_log_start_offset)
        except (CorruptRecordError, UnsupportedFormatError):
            batch = None
    return log.local_log_start_offset if batch is None or batch["base_offset"] is None else int(batch["base_offset"])


def _first_begun(log: Log, open_transactions: _Open) -> int | None:
    """Return where the first open transaction starts.

    Headers were walked without their checksums, and a damaged one may claim a transaction that never was. A batch whose
    checksum is wrong therefore opens none: the read is to meet it, not to end in front of it. The next sound batch of
    an open producer does.
    """
    begins: dict[int, int] = {}
    for producer_id, offset in open_transactions:
        begins[producer_id] = min(offset, begins.get(producer_id, offset))
    first = min(begins.values())
    if first < log.segments[0].base_offset:
        return first
    is_met = False
    for segment in log.segments[_floor(log.segments, first) :]:
        with segment.open() as file, suppress(CorruptRecordError, UnsupportedFormatError):
            for batches in segment.batches_since(file, first, check_crcs=True):
                for batch in _tuples(batches, *_OPENING_FIELDS):
                    base_offset, last_offset, producer_id, is_transactional, is_control, is_valid = batch
                    if last_offset is None or last_offset < first:
                        continue
                    if not is_met and (is_valid or (base_offset or 0) > first):
                        return first
                    is_met = True
                    is_data = is_valid and is_transactional and not is_control
                    if is_data and base_offset >= begins.get(producer_id, NO_END):
                        return int(base_offset)
    return None if is_met else first


def _tuples(columns: pa.RecordBatch, *names: str) -> list[Any]:
    return list(zip(*(columns[name].to_pylist() for name in names), strict=True))


def _floor(segments: Sequence[Segment], offset: int) -> int:
    """Return the index of the segment that holds `offset`: the first one if it is below all."""
    low, high = 0, len(segments)
    while low + 1 < high:
        middle = (low + high) // 2
        if segments[middle].base_offset <= offset:
            low = middle
        else:
            high = middle
    return low
