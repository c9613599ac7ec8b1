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
from brokerless.errors import CorruptRecordError, UnsupportedFormatError, located
from brokerless.log.damage import Finding, by_offset, survey
from brokerless.log.segment import NO_END

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.io.storage import File
    from brokerless.log.log import Log
    from brokerless.log.segment import Segment
    from brokerless.log.split import Missing

# Where a batch's header has its format.
_MAGIC = 16

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

    Without an answer, `start_offset` is that of damage at the end of the log, if there is some, and else None; `lost`
    are the records missing there.
    """

    answer: OffsetAndTimestamp
    start_offset: int | None
    lost: Missing | None = None


def answer(log: Log, timestamp: int, end: int) -> OffsetAndTimestamp:
    """Answer as `Log.offsets_for_times`, with nothing at or above `end`."""
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
    if timestamp == MAX_TIMESTAMP:
        found = _latest(log)
    else:
        found, _, lost = since(log, timestamp, skips=False)
        if lost is not None:
            raise _error(lost)
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
        skips: pass over damage; else it is an error where the answer may be in it: directly before the answer, or at
            the log's end if there is none. Times rise in most logs; where they do not, earlier damage may have hidden
            another answer.

    Raises:
        CorruptRecordError: damage, or missing records, where the answer may be.
        UnsupportedFormatError: batches before it that are not read here.
    """
    # What is lost directly before the segment that is looked at.
    lost = log.missing_before
    lost_from = None if lost is None else lost.start_offset
    for segment, end in _segments(log):
        found = None
        with segment.open() as file:
            try:
                found = _first_in(log, segment, file, end, timestamp)
                is_next = lost_from is not None and _is_first(segment, file, 0, end, found, log.log_start_offset)
                if found is not None and is_next and lost is not None and not skips:
                    raise _error(lost)
            except (CorruptRecordError, UnsupportedFormatError):
                if segment.limit_offset <= log.log_start_offset:
                    continue
                if not skips:
                    raise
                lost_from, found, is_next = _first_of_sound(log, segment, file, end, timestamp, lost_from)
        if found is not None:
            # No answer: a segment without timestamps, or without records, is as late as its file.
            offset = None if found is NONE else found.offset
            return Since(found, lost_from if is_next else offset)
        if not is_next:
            lost, lost_from = None, None
        for missing in log.missing_after(segment):
            lost = missing
            lost_from = missing.start_offset if lost_from is None else lost_from
    return Since(NONE, lost_from, lost)


def _error(missing: Missing) -> CorruptRecordError:
    return CorruptRecordError(missing.reason, path=missing.path, position=missing.position)


def _first_in(log: Log, segment: Segment, file: File, end: int, timestamp: int) -> OffsetAndTimestamp | None:
    """Look a time up in a segment, if it is the one to look in; None: it is not, and a later one may be.

    Raises:
        CorruptRecordError: damage where the answer may be.
        UnsupportedFormatError: likewise.
    """
    largest = max_timestamp(segment, file, end, _limit(log, segment), enough=timestamp)
    if (largest if largest >= 0 else segment.modified) < timestamp:
        return None
    return _find(log, segment, file, end, timestamp, log.log_start_offset, exact=False)


def _first_of_sound(
    log: Log, segment: Segment, file: File, end: int, timestamp: int, lost_from: int | None
) -> tuple[int | None, OffsetAndTimestamp | None, bool]:
    """Look a time up in the sound batches of a damaged segment.

    Returns:
        The first offset that may be lost directly before the answer, or, if there is none, at the segment's end; the
        answer; whether such an offset is.
    """
    found = survey(
        file,
        segment.path,
        segment.base_offset,
        segment.next_base_offset,
        end,
        limit_offset=log.limit_offset if segment.is_last else None,
    )
    start_offset = log.log_start_offset
    for part in by_offset(file, found):
        if isinstance(part, Finding):
            lost_from = part.start_offset if lost_from is None else min(lost_from, part.start_offset)
            continue
        answer = _search(segment, file, part.position, part.end_position, None, timestamp, start_offset)
        is_next = lost_from is not None and _is_first(
            segment, file, part.position, part.end_position, answer, start_offset
        )
        if answer is not None:
            return lost_from, answer, is_next
        lost_from = lost_from if is_next else None
    return lost_from, None, lost_from is not None


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
        return _find(log, best[0], file, best[1], largest, 0, exact=True)


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
) -> OffsetAndTimestamp:
    earlier = _entry_before(segment, file, timestamp)
    skip = max(start_offset, segment.base_offset if earlier is None else earlier)
    start = segment.position_before(file, skip)
    order = segment.base_offset, _limit(log, segment)
    return _search(segment, file, start, end, order, timestamp, start_offset, exact=exact) or NONE


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
            first = _base_offset(file, at + len(data)) if at + len(data) < end else None
            if order is not None and first is not None and first < (walk.next_offset or 0):
                reason = f"offset {first} is below {walk.next_offset}, where the segment goes on"
                raise CorruptRecordError(reason, path=segment.path, position=at + len(data))
            timestamp, offset, leader_epoch = found
            return OffsetAndTimestamp(offset, timestamp, None if leader_epoch < 0 else leader_epoch)
        if wanted >= end:
            break
    return None


def _base_offset(file: File, position: int) -> int | None:
    """Return the base offset of the batch at `position`; None: a wrapper's, which only its messages tell."""
    header = bytes(file.read(position, _MAGIC + 1))
    return int.from_bytes(header[:8], "big", signed=True) if header[_MAGIC:] >= b"\2" else None


def _is_first(
    segment: Segment, file: File, position: int, end: int, found: OffsetAndTimestamp | None, start_offset: int
) -> bool:
    """Return whether the record found is the first one; if none was found, whether there are no records at all."""
    first = _search(segment, file, position, end, None, -1, start_offset)
    return first is None or (found is not None and first.offset == found.offset)


def _entry_before(segment: Segment, file: File, timestamp: int) -> int | None:
    """Return an offset up to which all batches are earlier than `timestamp`, by a time index entry that holds."""
    index = segment.time_index()
    if index is None or not len(index):
        return None
    earlier, offset = index.lookup(timestamp - 1)
    return offset if _is_of(segment, file, earlier, offset) is not None else None


def _is_of(segment: Segment, file: File, timestamp: int, offset: int) -> int | None:
    """Return where the batch of a time index entry ends, None if it is not a batch of that time."""
    beyond = segment.end_offset(1 << 63)
    if timestamp < 0 or not segment.base_offset <= offset < beyond:
        return None
    batch = segment.batch_of(file, offset)
    if batch is None or batch["max_timestamp"] != timestamp:
        return None
    return int(batch["position"]) + int(batch["size"])


def _walk(segment: Segment, limit: int) -> _native.HeaderWalk:
    """Return a walk that wants the offsets of a segment, in rising order."""
    walk = _native.HeaderWalk()
    walk.start_file((segment.base_offset, limit))
    return walk


def max_timestamp(segment: Segment, file: File, end: int, limit: int = NO_END, *, enough: int | None = None) -> int:
    """Return the largest timestamp of a segment's batches, -1 for none: by its last index entry and what is behind.

    A segment that is closed has its largest timestamp in its last index entry, so there the headers behind it need no
    checksum unless they say otherwise.

    Args:
        segment: the segment.
        file: its `.log`.
        end: where its batches end.
        limit: the first offset that none of them has.
        enough: any timestamp from this one on will do.

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
    if enough is not None and timestamp >= enough:
        return timestamp
    if timestamp >= 0 and not segment.is_last:
        walk = _walk(segment, limit)
        segment.walk(walk, file, position, end)
        if walk.max_timestamp <= timestamp and walk.end_position >= end:
            return timestamp
    walk = _walk(segment, limit)
    for _ in segment.sound_batches(file, position, end, walk):
        if enough is not None and walk.max_timestamp >= enough:
            return walk.max_timestamp
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
