"""Offsets for times, with the answers a broker gives (ListOffsets).

A time is looked up in one segment only: the first whose largest timestamp is not below it. A segment without
timestamps counts its file's modification time as its largest, so a copy has to keep modification times; transaction
markers count although no consumer sees them. Both surprise, and both are what a broker does.

Indexes only save time. A time index entry says: no batch before this one is later than t, and this one is t. It is
used where that batch is found to be t, and only to skip batches that are *earlier* than the time looked for, so that
an entry moved among equal timestamps misleads nobody.

A broker looks at headers alone. Here what no index entry speaks for is checksummed: a flipped bit in a time would
otherwise move the start of a read, and no row would be missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError, check_time, located
from brokerless.log.segment import NO_END
from brokerless.log.survey import Finding, survey
from brokerless.log.window import MAX_BATCH, batch_at

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


class Since(NamedTuple):
    """The first record since a time, and the first offset that may be one: lower where damage is directly before it.

    Without an answer, `start_offset` is that of damage at the end of the log, if there is some, and else None.
    """

    answer: OffsetAndTimestamp
    start_offset: int | None


class _Found(NamedTuple):
    """An answer, and whether it is the first record of what was searched."""

    answer: OffsetAndTimestamp
    is_first: bool


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
    found = _latest(log) if timestamp == MAX_TIMESTAMP else since(log, timestamp, skips=False).answer
    return found if found.offset < end else NONE


def pending_upload_unknown(log: Log) -> ValueError:
    """Return the refusal of what only the remote storage's metadata tell."""
    return ValueError(
        f"{log.name} is tiered: which of its segments from offset {log.local_log_start_offset} on are yet to be "
        "uploaded is not known here, but to its broker"
    )


def since(log: Log, timestamp: int, *, skips: bool) -> Since:
    """Find the first record that is at or after a time, in what is sound of the log.

    Args:
        log: the log.
        timestamp: ms since the epoch.
        skips: pass over damage; else it is an error where the answer may be in it.

    Raises:
        CorruptRecordError: damage, or missing records, before the answer.
        UnsupportedFormatError: batches before it that are not read here.
    """
    # What is lost directly before the batch that is looked at.
    lost = [log.missing_before] if log.missing_before is not None else []
    lost_from = lost[0].start_offset if lost else None
    for segment, end in _segments(log):
        with segment.open() as file:
            try:
                found = _first_in(log, segment, file, end, timestamp)
                if found is not None and found.is_first and lost and not skips:
                    raise CorruptRecordError(lost[-1].reason, path=lost[-1].path, position=lost[-1].position)
            except (CorruptRecordError, UnsupportedFormatError):
                if segment.limit_offset <= log.log_start_offset:
                    continue
                if not skips:
                    raise
                lost_from, found = _first_of_sound(log, segment, file, end, timestamp, lost_from)
                if found is None:
                    continue
            if found is not None and found.answer is NONE:
                # As where a segment without timestamps is as late as its file.
                return Since(NONE, None)
            if found is not None:
                is_next = found.is_first and lost_from is not None
                return Since(found.answer, lost_from if is_next else found.answer.offset)
        lost = log.missing_after(segment)
        lost_from = lost[0].start_offset if lost else None
    return Since(NONE, lost_from)


def _first_in(log: Log, segment: Segment, file: File, end: int, timestamp: int) -> _Found | None:
    """Look a time up in a segment, if it is the one to look in; None: it is not, and a later one may be.

    Raises:
        CorruptRecordError: damage where the answer may be.
        UnsupportedFormatError: likewise.
    """
    largest = max_timestamp(segment, file, end, _limit(log, segment))
    if (largest if largest >= 0 else segment.modified) < timestamp:
        return None
    return _find(log, segment, file, end, timestamp, log.log_start_offset, exact=False)


def _first_of_sound(
    log: Log, segment: Segment, file: File, end: int, timestamp: int, lost_from: int | None
) -> tuple[int | None, _Found | None]:
    """Look a time up in the sound batches of a damaged segment.

    Returns:
        The first offset that may be lost directly before the answer, or, if there is none, at the segment's end; and
        the answer.
    """
    found = survey(
        file,
        segment.path,
        segment.base_offset,
        segment.next_base_offset,
        end,
        limit_offset=log.limit_offset if segment.is_last else None,
    )
    for part in found.parts:
        if isinstance(part, Finding):
            lost_from = part.start_offset if lost_from is None else min(lost_from, part.start_offset)
            continue
        answer = _search(segment, file, part.position, part.end_position, None, timestamp, log.log_start_offset)
        if answer is not None:
            return lost_from, _Found(answer, _is_first(file, part.position, answer))
        lost_from = None
    return lost_from, None


def _latest(log: Log) -> OffsetAndTimestamp:
    """Find the first record with the largest timestamp: in the first segment that has it, below the log start too."""
    best, largest = None, -2
    for segment, end in _segments(log):
        with segment.open() as file:
            timestamp = max_timestamp(segment, file, end, _limit(log, segment))
        if timestamp > largest:
            best, largest = (segment, end), timestamp
    if best is None:
        return NONE
    with best[0].open() as file:
        return _find(log, best[0], file, best[1], largest, 0, exact=True).answer


def _segments(log: Log) -> Iterator[tuple[Segment, int]]:
    for segment in log.segments:
        yield segment, log.extent.end_position if segment.is_last else segment.size


def _limit(log: Log, segment: Segment) -> int:
    """Return the first offset that no batch of a segment has."""
    if segment.is_last:
        return NO_END if log.extent.damage else log.extent.next_offset
    # A live broker's cleaner may have put the next segment into this one since they were listed.
    return NO_END if log.root.is_locked else segment.limit_offset


def _epoch_of(log: Log, offset: int) -> int | None:
    return next((epoch.epoch for epoch in reversed(log.leader_epochs) if epoch.start_offset <= offset), None)


def _find(
    log: Log, segment: Segment, file: File, end: int, timestamp: int, start_offset: int, *, exact: bool
) -> _Found:
    earlier = _entry_before(segment, file, timestamp)
    skip = max(start_offset, segment.base_offset if earlier is None else earlier)
    start = segment.position_before(file, skip)
    order = segment.base_offset, _limit(log, segment)
    found = _search(segment, file, start, end, order, timestamp, start_offset, exact=exact)
    if found is None:
        return _Found(NONE, False)
    return _Found(found, not start and _is_first(file, 0, found))


def _search(
    segment: Segment,
    file: File,
    position: int,
    end: int,
    order: tuple[int, int] | None,
    timestamp: int,
    start_offset: int,
    *,
    exact: bool = False,
) -> OffsetAndTimestamp | None:
    """Search sound batches; `order`: the offsets that they have, in rising order, the batch behind the answer too.

    Raises:
        CorruptRecordError: one of them is damaged, or out of order.
        UnsupportedFormatError: one is not read here.
    """
    walk = _native.HeaderWalk()
    walk.start_file(order)
    for data, at in segment.sound_batches(file, position, end, walk):
        with located(segment.path):
            found, wanted = _native.find_timestamp(data, at, end, timestamp, start_offset, exact)
        if found is not None:
            following = batch_at(file, at + len(data), max_bytes=MAX_BATCH) if at + len(data) < end else None
            first = None if following is None else following["base_offset"]
            if order is not None and first is not None and first < (walk.next_offset or 0):
                reason = f"offset {first} is below {walk.next_offset}, where the segment goes on"
                raise CorruptRecordError(reason, path=segment.path, position=at + len(data))
            timestamp, offset, leader_epoch = found
            return OffsetAndTimestamp(offset, timestamp, None if leader_epoch < 0 else leader_epoch)
        if wanted >= end:
            break
    return None


def _is_first(file: File, position: int, found: OffsetAndTimestamp) -> bool:
    """Tell whether the answer is the first record of the batch at `position`."""
    batch = batch_at(file, position, max_bytes=MAX_BATCH)
    return batch is not None and batch["base_offset"] == found.offset


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


def max_timestamp(segment: Segment, file: File, end: int, limit: int = NO_END) -> int:
    """Return the largest timestamp of a segment's batches, -1 for none: by its last index entry and what is behind.

    Args:
        segment: the segment.
        file: its `.log`.
        end: where its batches end.
        limit: the first offset that none of them has.

    Raises:
        CorruptRecordError: a batch that no index entry speaks for is damaged.
        UnsupportedFormatError: such a batch is not read here.
    """
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
    walk.start_file((segment.base_offset, limit))
    for _ in segment.sound_batches(file, position, end, walk):
        pass
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
