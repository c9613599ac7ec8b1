"""Offsets for times, with the answers a broker gives (ListOffsets).

A time is looked up in one segment only: the first whose largest timestamp is not below it. Brokers follow two
surprising rules. First, if a segment has no timestamps, the broker uses the modification time of its file as the
largest timestamp, so copies must keep modification times. Second, the result may be a transaction marker, although no
consumer sees markers.

Indexes only make the lookup faster. A time index entry states that its batch has timestamp t, and that no batch before
it is later. The entry is used only if the batch has timestamp t, and only to skip batches *earlier* than the wanted
time. So an entry that points to another batch with the same timestamp does no harm.

A broker reads only headers. brokerless also verifies checksums, except for batches that an index entry confirms.
Without this, a flipped bit in a timestamp would move the start of a read, and nobody would notice the missing rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError, located
from brokerless.log.defect import Defect
from brokerless.log.segment import NO_END, index_entry, sound_batches, time_index, walk_headers
from brokerless.log.survey import by_offset, survey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.io.storage import File
    from brokerless.log.partition_files import PartitionFiles
    from brokerless.log.segment import Segment

# The position of the magic byte in a batch header.
_MAGIC = 16

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6


class OffsetAndTimestamp(NamedTuple):
    """The answer to `Log.offsets_for_times`, as a broker gives it (ListOffsets).

    Attributes:
        offset: the offset; -1 if there is no answer.
        timestamp: the record's timestamp in ms; -1 unless a time or the largest timestamp was requested.
        leader_epoch: the leader epoch of the record; None if it is not known.

    >>> import brokerless as bl
    >>> bl.Log(SAMPLE).offsets_for_times(0)
    OffsetAndTimestamp(offset=0, timestamp=1701000082167, leader_epoch=0)
    """

    offset: int
    timestamp: int = -1
    leader_epoch: int | None = None


NONE = OffsetAndTimestamp(-1)


class Since(NamedTuple):
    """The first record at or after a time.

    Attributes:
        answer: the record.
        start_offset: the first offset that may hold such a record. It is below the answer's offset if damage lies
            directly before the answer. Without an answer, it is where damage at the end of the log starts, or None
            without damage.
        lost: without an answer, the records missing at the end of the log.
    """

    answer: OffsetAndTimestamp
    start_offset: int | None
    lost: Defect | None = None


def answer(files: PartitionFiles, timestamp: int, end: int) -> OffsetAndTimestamp:
    """Return the answer of `Log.offsets_for_times`. An answer to a time is always below `end`."""
    epochs = files.leader_epochs
    if timestamp == LATEST:
        return OffsetAndTimestamp(end, -1, epochs[-1].epoch if epochs else 0)
    if timestamp == EARLIEST:
        return OffsetAndTimestamp(files.log_start_offset, -1, _epoch_of(files, files.log_start_offset))
    if timestamp == EARLIEST_LOCAL:
        return OffsetAndTimestamp(files.local_log_start_offset, -1, _epoch_of(files, files.local_log_start_offset))
    if timestamp == LATEST_TIERED:
        tiered = files.missing_offsets[1] - 1 if files.missing_offsets else -1
        return OffsetAndTimestamp(tiered, -1, _epoch_of(files, tiered))
    if timestamp == EARLIEST_PENDING_UPLOAD:
        if files.missing_offsets:
            raise pending_upload_unknown(files)
        return NONE
    if timestamp < MAX_TIMESTAMP:
        raise ValueError(f"not a time: {timestamp} is neither ms since the epoch nor one of -1 to -6")
    is_time = timestamp != MAX_TIMESTAMP
    found = _whole(since(files, timestamp, skips=False, as_broker=True)) if is_time else _latest(files)
    return found if found.offset < end else NONE


def first_record_at(files: PartitionFiles, timestamp: int) -> OffsetAndTimestamp:
    """Return the first record of the log at or after a time, in ms; offset -1 if none exists.

    Raises the errors of `since`.
    """
    return _whole(since(files, timestamp, skips=False))


def _whole(found: Since) -> OffsetAndTimestamp:
    if found.lost is not None:
        raise _error(found.lost)
    return found.answer


def pending_upload_unknown(files: PartitionFiles) -> ValueError:
    """Build the error for a question that only the remote storage's metadata can answer."""
    return ValueError(
        f"{files.name} is tiered: only its broker knows which segments from offset {files.local_log_start_offset} on "
        "are not uploaded yet"
    )


def since(files: PartitionFiles, timestamp: int, *, skips: bool, as_broker: bool = False) -> Since:
    """Find the first record at or after a time, in the sound batches of the log.

    Args:
        files: the partition's files.
        timestamp: ms since the epoch.
        skips: skip damage. If False, damage that may hide the answer is an error. This is damage directly before the
            answer or, without an answer, at the log's end. In a log whose timestamps do not rise, earlier damage may
            hide the answer too, but is no error.
        as_broker: look into one segment only, as a broker does: the first whose largest timestamp is late enough. There
            is then no answer if its latest records are below the log start, or if it has no timestamps and only its
            file's modification time is late.

    Raises:
        CorruptRecordError: damage or missing records may hide the answer.
        UnsupportedFormatError: batches before the answer have an unsupported format.
    """
    # The records lost directly before the current segment.
    lost = files.lost_before
    lost_from = None if lost is None else lost.start_offset
    for segment, end in _segments(files):
        found = None
        with segment.open() as file:
            try:
                found = _first_in(files, segment, file, end, timestamp)
                found = None if found is NONE and not as_broker else found
                is_next = lost_from is not None and _is_first(segment, file, 0, end, found, files.log_start_offset)
                if found is not None and is_next and lost is not None and not skips:
                    raise _error(lost)
            except (CorruptRecordError, UnsupportedFormatError):
                if segment.limit_offset <= files.log_start_offset:
                    continue
                if not skips:
                    raise
                lost_from, found, is_next = _first_of_sound(files, segment, file, end, timestamp, lost_from)
        if found is not None:
            offset = None if found is NONE else found.offset
            return Since(found, lost_from if is_next else offset)
        if not is_next:
            lost, lost_from = None, None
        for missing in files.lost_after(segment):
            lost = missing
            lost_from = missing.start_offset if lost_from is None else lost_from
    return Since(NONE, lost_from, lost)


def _error(missing: Defect) -> CorruptRecordError:
    return CorruptRecordError(missing.reason, path=missing.path, position=missing.position)


def _first_in(
    files: PartitionFiles, segment: Segment, file: File, end: int, timestamp: int
) -> OffsetAndTimestamp | None:
    """Look a time up in a segment; return None if the segment is too early, so that a later segment must be searched.

    Raises:
        CorruptRecordError: damage may hide the answer.
        UnsupportedFormatError: a batch that may hold the answer has an unsupported format.
    """
    largest = max_timestamp(segment, file, end, _limit(files, segment), enough=timestamp)
    if (largest if largest >= 0 else segment.modified) < timestamp:
        return None
    return _find(files, segment, file, end, timestamp, files.log_start_offset, exact=False)


def _first_of_sound(
    files: PartitionFiles, segment: Segment, file: File, end: int, timestamp: int, lost_from: int | None
) -> tuple[int | None, OffsetAndTimestamp | None, bool]:
    """Look a time up in the sound batches of a damaged segment.

    Returns:
        The first offset that may be lost directly before the answer or, without one, at the segment's end; the answer;
        and whether any offset is lost there.
    """
    found = survey(
        file,
        segment.path,
        segment.base_offset,
        segment.next_base_offset,
        end,
        limit_offset=files.exceeded_end if segment.is_last else None,
    )
    start_offset = files.log_start_offset
    for part in by_offset(file, found):
        if isinstance(part, Defect):
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


def _latest(files: PartitionFiles) -> OffsetAndTimestamp:
    """Find the first record with the largest timestamp, in the first segment that has it, even below the log start."""
    best, largest = None, -2
    for segment, end in _segments(files):
        with segment.open() as file:
            timestamp = max_timestamp(segment, file, end, _limit(files, segment))
        if timestamp > largest:
            best, largest = (segment, end), timestamp
    if best is None:
        return NONE
    with best[0].open() as file:
        return _find(files, best[0], file, best[1], largest, 0, exact=True)


def _segments(files: PartitionFiles) -> Iterator[tuple[Segment, int]]:
    for segment in files.segments:
        yield segment, files.extent.end_position if segment.is_last else segment.size


def _limit(files: PartitionFiles, segment: Segment) -> int:
    """Return the offset below which all batches of a segment must end."""
    if segment.is_last:
        return NO_END if files.extent.damage else files.extent.next_offset
    # A live broker's cleaner may have merged the next segment into this one since they were listed.
    return NO_END if files.root.is_locked else segment.limit_offset


def _epoch_of(files: PartitionFiles, offset: int) -> int | None:
    return next((epoch.epoch for epoch in reversed(files.leader_epochs) if epoch.start_offset <= offset), None)


def _find(
    files: PartitionFiles, segment: Segment, file: File, end: int, timestamp: int, start_offset: int, *, exact: bool
) -> OffsetAndTimestamp:
    earlier = entry_before(segment, file, timestamp)
    skip = max(start_offset, segment.base_offset if earlier is None else earlier)
    start = segment.position_before(file, skip)
    order = segment.base_offset, _limit(files, segment)
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
    """Search batches for the first record at or after a time.

    `order` is the range in which offsets must increase, up to and including the batch after the answer; None allows any
    order.

    Raises:
        CorruptRecordError: a batch is damaged or out of order.
        UnsupportedFormatError: a batch has an unsupported format.
    """
    walk = _native.HeaderWalk()
    walk.start_file(order)
    batches = sound_batches(segment, file, position, end, walk)
    for data, at in batches:
        with located(segment.path):
            found, wanted = _native.find_timestamp(data, at, end, timestamp, start_offset, exact)
        if found is not None:
            first = _base_offset(file, at + len(data)) if at + len(data) < end else None
            if order is not None and first is not None and first < (walk.next_offset or 0):
                # It overlaps the batch before it, or raises an error.
                next(batches, None)
            timestamp, offset, leader_epoch = found
            return OffsetAndTimestamp(offset, timestamp, None if leader_epoch < 0 else leader_epoch)
        if wanted >= end:
            break
    return None


def _base_offset(file: File, position: int) -> int | None:
    """Return the base offset of the batch at `position`; None for a message of magic 0 or 1, which may be a wrapper."""
    header = bytes(file.read(position, _MAGIC + 1))
    return int.from_bytes(header[:8], "big", signed=True) if header[_MAGIC:] >= b"\2" else None


def _is_first(
    segment: Segment, file: File, position: int, end: int, found: OffsetAndTimestamp | None, start_offset: int
) -> bool:
    """Return whether `found` is the first record in the range; if `found` is None, whether the range has no record."""
    first = _search(segment, file, position, end, None, -1, start_offset)
    return first is None or (found is not None and first.offset == found.offset)


def entry_before(segment: Segment, file: File, timestamp: int) -> int | None:
    """Return an offset up to which all batches are earlier than `timestamp`, from a confirmed time index entry."""
    index = time_index(segment)
    if index is None or not len(index):
        return None
    earlier, offset = index.lookup(timestamp - 1)
    return offset if _is_of(segment, file, earlier, offset) is not None else None


def _is_of(segment: Segment, file: File, timestamp: int, offset: int) -> int | None:
    """Return the byte position after the batch of a time index entry; None if the batch has another timestamp."""
    beyond = segment.end_offset(1 << 63)
    if timestamp < 0 or not segment.base_offset <= offset < beyond:
        return None
    batch = segment.batch_of(file, offset)
    if batch is None or batch["max_timestamp"] != timestamp:
        return None
    return int(batch["position"]) + int(batch["size"])


def _walk(segment: Segment, limit: int) -> _native.HeaderWalk:
    """Return a header walk that requires rising offsets within the segment's range."""
    walk = _native.HeaderWalk()
    walk.start_file((segment.base_offset, limit))
    return walk


def max_timestamp(segment: Segment, file: File, end: int, limit: int = NO_END, *, enough: int | None = None) -> int:
    """Return the largest timestamp of a segment's batches, or -1, from its last index entry and the batches after it.

    In a closed segment, the last time index entry has the segment's largest timestamp. The checksums of the batches
    after this entry are verified only if their headers contradict the entry.

    Args:
        segment: the segment.
        file: its `.log`.
        end: the byte position where its batches end.
        limit: the offset below which all its batches must end.
        enough: stop at the first timestamp that is at least this one.

    Raises:
        CorruptRecordError: one of the batches whose checksums are verified is damaged.
        UnsupportedFormatError: one of these batches has an unsupported format.
    """
    if not end:
        return -1
    timestamp, position = -1, None
    index = time_index(segment)
    # A time index entry saves nothing unless an offset index entry leads to its batch.
    if index is not None and len(index) and index_entry(segment, index.last_entry[1]) is not None:
        timestamp, offset = index.last_entry
        position = _is_of(segment, file, timestamp, offset)
    if position is None:
        timestamp, position = -1, 0
    if enough is not None and timestamp >= enough:
        return timestamp
    if timestamp >= 0 and not segment.is_last:
        walk = _walk(segment, limit)
        walk_headers(segment, walk, file, position, end)
        if walk.max_timestamp <= timestamp and walk.end_position >= end:
            return timestamp
    walk = _walk(segment, limit)
    for _ in sound_batches(segment, file, position, end, walk):
        if enough is not None and walk.max_timestamp >= enough:
            return walk.max_timestamp
    largest = max(timestamp, walk.max_timestamp)
    return largest if largest >= 0 or index is None else _stamped(segment, file, index)


def _stamped(segment: Segment, file: File, index: _native.TimeIndex) -> int:
    """Return the time at which a broker appended the last message of magic 0; -1 if it is not known.

    Messages of magic 0 have no timestamp. In topics with LogAppendTime, a broker stores the time of their append only
    in the time index, and uses it for lookups by time.
    """
    if not len(index) or index.last_entry[1] < segment.base_offset:
        return -1
    timestamp, offset = index.last_entry
    batch = segment.batch_of(file, offset)
    return timestamp if batch is not None and batch["magic"] == 0 else -1
