"""Offsets for times, with the answers a broker gives (ListOffsets).

A time is looked up in one segment only: the first whose largest timestamp is not below it. A segment without
timestamps counts its file's modification time as its largest, so a copy has to keep modification times; transaction
markers count although no consumer sees them. Both surprise, and both are what a broker does.

Indexes only save time. A time index entry says: no batch before this one is later than t, and this one is t. It is
used where that batch is found to be t, and only to skip batches that are *earlier* than the time looked for, so that
an entry moved among equal timestamps misleads nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from brokerless import _native
from brokerless.errors import check_time, located
from brokerless.log.window import sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.log.log import Log
    from brokerless.log.segment import Segment
    from brokerless.storage import File

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6


class OffsetAndTimestamp(NamedTuple):
    """A broker's answer: `offset` -1 for none, `timestamp` in ms or -1, `leader_epoch` None where unknown.

    >>> import brokerless as bl
    >>> bl.Log(SAMPLE).offsets_for_times(0)
    OffsetAndTimestamp(offset=0, timestamp=1701000107992, leader_epoch=0)
    """

    offset: int
    timestamp: int = -1
    leader_epoch: int | None = None


NONE = OffsetAndTimestamp(-1)


def answer(log: Log, timestamp: int, end: int) -> OffsetAndTimestamp:
    """Answer as `Log.offsets_for_times`, with nothing at or above `end`."""
    check_time("timestamp", timestamp)
    epochs = log.leader_epochs
    if timestamp == LATEST:
        return OffsetAndTimestamp(end, -1, epochs[-1].epoch if epochs else 0)
    if timestamp == EARLIEST:
        return OffsetAndTimestamp(log.log_start_offset, -1, _epoch_of(log, log.log_start_offset))
    if timestamp == EARLIEST_LOCAL:
        return OffsetAndTimestamp(log.local_log_start_offset, -1, _epoch_of(log, log.local_log_start_offset))
    if timestamp == LATEST_TIERED:
        tiered = log.missing_offsets[1] - 1 if log.missing_offsets else -1
        return OffsetAndTimestamp(tiered, -1, _epoch_of(log, tiered))
    if timestamp == EARLIEST_PENDING_UPLOAD:
        if log.missing_offsets:
            raise pending_upload_unknown(log)
        return NONE
    if timestamp < MAX_TIMESTAMP:
        raise ValueError(f"not a time: {timestamp} is neither ms since the epoch nor one of -1 to -6")
    found = _latest(log) if timestamp == MAX_TIMESTAMP else _first_since(log, timestamp)
    return found if found.offset < end else NONE


def pending_upload_unknown(log: Log) -> ValueError:
    """Return the refusal of what only the remote storage's metadata tell."""
    return ValueError(
        f"{log.name} is tiered: which of its segments from offset {log.local_log_start_offset} on are yet to be "
        "uploaded is not known here, but to its broker"
    )


def _first_since(log: Log, timestamp: int) -> OffsetAndTimestamp:
    for segment, end in _segments(log):
        with segment.open() as file:
            largest = max_timestamp(segment, file, end)
            if (largest if largest >= 0 else segment.modified) >= timestamp:
                return _find(segment, file, end, timestamp, log.log_start_offset, exact=False)
    return NONE


def _latest(log: Log) -> OffsetAndTimestamp:
    """Find the first record with the largest timestamp: in the first segment that has it, below the log start too."""
    best, largest = None, -2
    for segment, end in _segments(log):
        with segment.open() as file:
            timestamp = max_timestamp(segment, file, end)
        if timestamp > largest:
            best, largest = (segment, end), timestamp
    if best is None:
        return NONE
    with best[0].open() as file:
        return _find(best[0], file, best[1], largest, 0, exact=True)


def _segments(log: Log) -> Iterator[tuple[Segment, int]]:
    for segment in log.segments:
        yield segment, log.extent.end_position if segment.is_last else segment.size


def _epoch_of(log: Log, offset: int) -> int | None:
    return next((epoch.epoch for epoch in reversed(log.leader_epochs) if epoch.start_offset <= offset), None)


def _find(
    segment: Segment, file: File, end: int, timestamp: int, start_offset: int, *, exact: bool
) -> OffsetAndTimestamp:
    found: tuple[int, int, int] | None = None

    def step(data: memoryview, position: int, end: int) -> int:
        nonlocal found
        found, wanted = _native.find_timestamp(data, position, end, timestamp, start_offset, exact)
        return wanted if found is None else end

    earlier = _entry_before(segment, file, timestamp)
    skip = max(start_offset, segment.base_offset if earlier is None else earlier)
    with located(segment.path):
        sweep(file, segment.position_before(file, skip), end, step)
    if found is None:
        return NONE
    timestamp, offset, leader_epoch = found
    return OffsetAndTimestamp(offset, timestamp, None if leader_epoch < 0 else leader_epoch)


def _entry_before(segment: Segment, file: File, timestamp: int) -> int | None:
    """Return an offset up to which all batches are earlier than `timestamp`, by a time index entry that holds."""
    index = segment.time_index()
    if index is None or not len(index):
        return None
    earlier, offset = index.lookup(timestamp - 1)
    return offset if _is_of(segment, file, earlier, offset) is not None else None


def _is_of(segment: Segment, file: File, timestamp: int, offset: int) -> int | None:
    """Return where the batch of a time index entry ends, None if it is not a batch of that time."""
    beyond = 1 << 63 if segment.next_base_offset is None else segment.next_base_offset
    if timestamp < 0 or not segment.base_offset <= offset < beyond:
        return None
    batch = segment.batch_of(file, offset)
    if batch is None or batch["max_timestamp"] != timestamp:
        return None
    return int(batch["position"]) + int(batch["size"])


def max_timestamp(segment: Segment, file: File, end: int) -> int:
    """Return the largest timestamp of a segment's batches, -1 for none: by its last index entry and what is behind."""
    if not end:
        return -1
    timestamp, position = -1, None
    index = segment.time_index()
    # Without an offset index entry on the way to it, a time index entry spares nothing.
    if index is not None and len(index) and segment.entry(index.last_entry[1]) is not None:
        timestamp, offset = index.last_entry
        position = _is_of(segment, file, timestamp, offset)
    if position is None:
        timestamp, position = -1, 0
    walk = _native.HeaderWalk()
    segment.walk(walk, file, position, end)
    largest = max(timestamp, walk.max_timestamp)
    return largest if largest >= 0 or index is None else _stamped(segment, file, index)


def _stamped(segment: Segment, file: File, index: _native.TimeIndex) -> int:
    """Return the time at which a broker appended a message of magic 0, -1 for none: only the index has it.

    That is so in topics of that format with LogAppendTime, and every broker goes by it.
    """
    if not len(index) or index.last_entry[1] < segment.base_offset:
        return -1
    timestamp, offset = index.last_entry
    batch = segment.batch_of(file, offset)
    return timestamp if batch is not None and batch["magic"] == 0 else -1
