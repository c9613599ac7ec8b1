"""Aborted and open transactions: the records that `read_committed` leaves out.

A walk over batch headers finds the markers in the log. A broker also keeps an index of aborted transactions. The index
has no checksum, so it is used only where damage hides a marker. A producer snapshot has a checksum, and lists the
transactions that are open at its offset.

A transaction is in doubt if damage may hide its marker, and neither an index nor a snapshot shows its outcome.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless import _native
from brokerless.errors import BrokerlessError, CorruptRecordError, UnsupportedFormatError, located
from brokerless.io import storage
from brokerless.io.file_window import MAX_BATCH, batch_at
from brokerless.layout import file_names
from brokerless.log.defect import Defect
from brokerless.log.segment import NO_END, transaction_index, walk_headers, walk_whole_batches
from brokerless.log.survey import Run, by_offset, position_in, survey, tuples
from brokerless.notes import note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from brokerless.log.partition_files import PartitionFiles
    from brokerless.log.segment import Segment

Aborted = tuple[int, int, int]
"""(producer_id, first_offset, last_offset). The last offset is the offset of the ABORT marker."""
_Open = list[tuple[int, int]]

_ENTRY = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
# Kafka's markers take 78 bytes. Later releases may add fields.
_MAX_MARKER = 128


class Doubt(NamedTuple):
    """A transaction whose marker may lie in damage, so that its rows may be aborted.

    Attributes:
        producer_id: the producer.
        first_offset: the first offset of the transaction.
        damage: the damage that may hide the marker. The transaction's rows below the end of the damage are in doubt.
    """

    producer_id: int
    first_offset: int
    damage: Defect

    @property
    def end_offset(self) -> int | None:
        """The offset after the damage; None if no sound batch follows it."""
        return self.damage.end_offset

    @property
    def reason(self) -> str:
        """The explanation for errors and reports."""
        return (
            f"it is not known whether the transaction of producer {self.producer_id} from offset {self.first_offset} "
            f"on was committed: its marker may be in the damaged range ({self.damage.reason})"
        )


class Transactions(NamedTuple):
    """The transactions that a read needs.

    Attributes:
        aborted: the aborted transactions.
        open: the transactions without a marker, each as (producer_id, first_offset).
        first_unstable_offset: the first offset of the earliest open transaction; None if none is open.
        doubts: the transactions in doubt.
    """

    aborted: list[Aborted]
    open: list[tuple[int, int]]
    first_unstable_offset: int | None
    doubts: list[Doubt]


def transactions(files: PartitionFiles, start_offset: int, end_offset: int, *, verify: bool = False) -> Transactions:
    """Find the transactions that matter to a read of [start_offset, end_offset).

    Args:
        files: the partition's files.
        start_offset: the first offset of the read.
        end_offset: batches from this offset on are ignored, because they are not replicated yet.
        verify: walk from the first segment and ignore snapshots.
    """
    segments = files.segments
    first = 0 if verify else _floor(segments, start_offset)
    open_transactions = _snapshot(files, segments[first].base_offset) if segments else []
    while open_transactions is None and first > 0:
        first -= 1
        open_transactions = _snapshot(files, segments[first].base_offset)
    walked = _walk(files, first, open_transactions or [], end_offset)
    at_end = _open_at(files, end_offset, walked if first == 0 else None)
    # A later snapshot may list an open transaction that began before the first walked segment.
    still_open = at_end.open if files.root.is_clean and not verify else walked.open + at_end.open
    if files.root.is_clean and not (verify or files.snapshots or files.root.is_locked) and walked.open:
        # A check reports the snapshot as `snapshot-incomplete`.
        first_open = min(offset for _, offset in walked.open)
        note(
            f"{files.name} has no producer snapshot: a broker that starts knows no open transaction, and serves the "
            f"records of one that is open from offset {first_open} on as committed, and so does this read"
        )
    doubts = {(doubt.producer_id, doubt.first_offset): doubt for doubt in at_end.doubts + walked.doubts}
    found = [doubt for doubt in doubts.values() if doubt.end_offset is None or doubt.end_offset > start_offset]
    return Transactions(walked.aborted, still_open, _first_unstable(files, still_open), found)


def first_unstable_offset(files: PartitionFiles, end_offset: int, *, skips: bool = False) -> int | None:
    """Find where the first transaction open at `end_offset` starts, from the newest snapshot and the batches after it.

    Raises:
        CorruptRecordError: damage may hide a marker. With `skips`, no error is raised, and the transaction whose marker
            may be hidden is treated as ended.
    """
    found = _open_at(files, end_offset, None)
    for doubt in () if skips else found.doubts:
        raise CorruptRecordError(doubt.reason, path=doubt.damage.path, position=doubt.damage.position)
    return _first_unstable(files, found.open)


def overlapping(aborted: list[Aborted], bounds: Iterable[tuple[int, int]]) -> list[tuple[Aborted, ...]]:
    """Return the aborted transactions that overlap each of the ascending offset ranges [start, end)."""
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


def aborted_in(segments: Iterable[Segment], log_end_offset: int, *, below: int = NO_END) -> list[Aborted]:
    """Find the aborted transactions of a whole log by their markers, the only reliable source.

    Args:
        segments: all segments of the log.
        log_end_offset: the log end offset.
        below: ignore transactions that begin at this offset or above.

    Raises:
        CorruptRecordError: a segment is damaged where a needed marker may be.
    """
    walk = _native.HeaderWalk()
    for segment in segments:
        end_offset = segment.end_offset(log_end_offset)
        walk.start_file((segment.base_offset, end_offset))
        try:
            with segment.open() as file, located(segment.path):
                walk_whole_batches(segment, walk, file, 0, segment.extent().end_position)
        except (CorruptRecordError, UnsupportedFormatError):
            if segment.base_offset < below or any(first < below for _, first in walk.open_transactions):
                raise
            break
    return walk.aborted


def aborted_index(segments: Sequence[Segment], log_end_offset: int, *, below: int) -> bytes:
    """Return one transaction index for a whole log, built from its markers and the segments' own indexes.

    Entries without a marker are dropped, and missing ones are added. A cleaner that trusts a damaged index drops
    committed records, or keeps aborted ones.

    Raises:
        CorruptRecordError: a segment is damaged where a marker may be.
    """
    known = {(entry[0], entry[2]): entry for segment in segments for entry in _index_entries(segment)}
    content = bytearray()
    for producer_id, first, last in aborted_in(segments, log_end_offset, below=below):
        # The index entry gives the transaction's first offset even if its first batches were compacted away.
        entry = known.get((producer_id, last), (producer_id, NO_END, last, 0))
        if entry[1] > first or (entry[1] < first and _ends_within(segments, producer_id, entry[1], first)):
            # A last stable offset of 0 never ends a search.
            entry = (producer_id, first, last, 0)
        content += struct.pack(">hqqqq", 0, *entry)
    return bytes(content)


def _index_entries(segment: Segment) -> list[Any]:
    """Return the entries of a segment's transaction index as tuples of `_ENTRY`; none if it cannot be read."""
    try:
        index = transaction_index(segment)
        return [] if index is None else tuples(index.entries(), *_ENTRY)
    except (OSError, BrokerlessError):
        return []


def _ends_within(segments: Iterable[Segment], producer_id: int, start: int, end: int) -> bool:
    """Return whether a transaction of the producer ends within [start, end)."""
    return any(
        (producer, is_control) == (producer_id, True) and start <= last < end
        for segment in segments
        if segment.base_offset < end and start < segment.limit_offset
        for batches in segment.scan()
        for producer, is_control, last in tuples(batches, "producer_id", "is_control", "last_offset")
    )


def fitting(segment: Segment) -> list[Aborted] | None:
    """Return the aborted transactions in a segment's index; None if it is unreadable or belongs to another segment."""
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import at every start of the command

    try:
        index = transaction_index(segment)
        if index is None or not len(index):
            return []
        # Each entry has a marker in the segment. An index with more entries than markers would fit is not decoded.
        if len(index) * _native.BATCH_OVERHEAD > segment.size:
            return None
        entries = index.entries()
    except (OSError, BrokerlessError):
        return None
    producer_id, first, last = (entries[name] for name in ("producer_id", "first_offset", "last_offset"))
    end = segment.limit_offset
    checks = (
        pc.less(first, last),
        pc.less(last[:-1], last[1:]),
    )
    # Check the entries as Arrow: as Python objects they take ten times the memory.
    if not (segment.base_offset <= last[0].as_py() and last[-1].as_py() < end):
        return None
    if min(pc.min(producer_id).as_py(), pc.min(first).as_py()) < 0:
        return None
    if not all(pc.all(check, min_count=0).as_py() for check in checks):
        return None
    return tuples(entries, "producer_id", "first_offset", "last_offset")


class _Walked(NamedTuple):
    """The result of a walk over headers: aborted and still open transactions, and those in doubt."""

    aborted: list[Aborted]
    open: _Open
    doubts: list[Doubt]


def _open_at(files: PartitionFiles, end_offset: int, walked: _Walked | None) -> _Walked:
    """Find the transactions open at `end_offset`, from the newest readable snapshot before it and the batches after it.

    `walked` is the result of a walk from the first segment to `end_offset`, if there was one.
    """
    segments = files.segments
    if not segments or (files.root.is_clean and not files.snapshots):
        # Kafka does the same: it loads a clean directory without snapshots as one without producers.
        return _Walked([], [], [])
    for offset in reversed(files.snapshots):
        # In a tiered log, the snapshot at the local log start counts too: the records before it are in remote storage.
        if files.log_start_offset < offset <= end_offset:
            open_transactions = _snapshot(files, offset)
            if open_transactions == [] and offset == end_offset and files.extent.damage is None:
                # As after a clean shutdown: no batch follows the snapshot.
                return _Walked([], [], [])
            if open_transactions is not None:
                return _walk(files, _floor(segments, offset), open_transactions, end_offset, offset)
    return walked or _walk(files, 0, _snapshot(files, segments[0].base_offset) or [], end_offset)


def _walk(
    files: PartitionFiles, first: int, open_transactions: _Open, end_offset: int, start_offset: int | None = None
) -> _Walked:
    """Walk the headers of the segments from `first` on. Continue after damage, because a read needs the rows there."""
    aborted: list[Aborted] = []
    doubts: list[Doubt] = []
    for segment in files.segments[first:]:
        # A last segment without a batch begins at the end, and the records that it lost may have had markers.
        is_harmed = files.extent.damage is not None or files.lost_at_end is not None
        is_met = is_harmed and end_offset >= files.extent.next_offset
        if segment.base_offset >= end_offset and not is_met:
            break
        low = None if start_offset is None or segment.base_offset >= start_offset else start_offset
        high = None if end_offset >= _end_of(files, segment) else end_offset
        with segment.open() as file:
            size = files.extent.end_position if segment.is_last else file.size()
            walk = _native.HeaderWalk(open_transactions)
            # A live broker's cleaner may have merged the next segment into this one since they were listed.
            is_limited = not (segment.is_last or files.root.is_locked)
            walk.start_file((segment.base_offset, _end_of(files, segment) if is_limited else NO_END))
            try:
                position = 0 if low is None else _position_of(segment, file, low, size)
                end = size if high is None else _position_of(segment, file, high, size)
                walk_headers(segment, walk, file, position, end)
                found = _Walked(walk.aborted, walk.open_transactions, [])
                begun = {offset for _, offset in found.open if offset >= segment.base_offset}
                # The walk does not verify the checksums of large batches, so a damaged batch may claim a transaction.
                is_sound = all(_is_sound(segment, file, offset) for offset in begun)
                is_sound &= not segment.is_last or files.extent.damage is None
                if not is_sound or (position < end and walk.end_position < end):
                    found = _past_damage(files, segment, file, size, open_transactions, (low or 0, high or NO_END))
            except (CorruptRecordError, UnsupportedFormatError):
                found = _past_damage(files, segment, file, size, open_transactions, (low or 0, high or NO_END))
            known = _snapshot(files, _end_of(files, segment)) if high is None else None
            if known is not None and any(_ended(files, found.open, known)):
                # The snapshot says that a transaction ended, but its marker was not found: headers may be damaged.
                found = _past_damage(files, segment, file, size, open_transactions, (low or 0, NO_END))
        aborted += found.aborted
        doubts += found.doubts
        open_transactions = found.open
        if known is not None:
            # A transaction that ended has a marker, and compaction keeps the marker as long as any of the batches.
            name = file_names.segment_file(_end_of(files, segment), file_names.SNAPSHOT)
            cause = f"no marker was found up to offset {_end_of(files, segment)}, but {name} says that it has ended"
            doubts += [
                Doubt(producer, begun, Defect(segment.path, 0, begun, _end_of(files, segment), cause, "batch-framing"))
                for producer, begun in _ended(files, open_transactions, known)
            ]
            open_transactions = known
        for missing in files.lost_after(segment) if open_transactions and high is None else ():
            # Their markers may be among the missing records.
            hidden = [Doubt(producer, begun, missing) for producer, begun in open_transactions]
            open_transactions, _, left = _resolved(files, None, hidden, missing.start_offset)
            doubts += left
    return _Walked(aborted, open_transactions, doubts)


def _is_sound(segment: Segment, file: storage.File, offset: int) -> bool:
    """Return whether the checksum of the batch at an offset is right."""
    for batches in segment.batches_since(file, offset, check_crcs=True):
        for last_offset, is_valid in tuples(batches, "last_offset", "is_valid"):
            if last_offset >= offset:
                return bool(is_valid)
    return False


def _ended(files: PartitionFiles, open_transactions: _Open, known: _Open) -> Iterator[tuple[int, int]]:
    """Yield the transactions without a marker that a snapshot nevertheless does not list as open."""
    begins = dict(known)
    for producer, begun in open_transactions:
        if begins.get(producer, NO_END) > begun >= files.log_start_offset:
            yield producer, begun


def _end_of(files: PartitionFiles, segment: Segment) -> int:
    return segment.end_offset(files.extent.next_offset)


def _past_damage(
    files: PartitionFiles,
    segment: Segment,
    file: storage.File,
    size: int,
    open_transactions: _Open,
    offsets: tuple[int, int],
) -> _Walked:
    """Walk the sound batches of a damaged segment, and resolve the transactions that the damage may have ended."""
    aborted: list[Aborted] = []
    doubts: list[Doubt] = []
    found = survey(file, segment.path, segment.base_offset, segment.next_base_offset, size)
    moved = {part.position for part in found.parts if isinstance(part, Defect) and part.code == "batch-order"}
    for part in by_offset(file, found):
        if isinstance(part, Run):
            walk = _native.HeaderWalk(open_transactions)
            position, end = (position_in(file, part, offset) for offset in offsets)
            if position < end:
                walk_headers(segment, walk, file, position, end)
            aborted += walk.aborted
            open_transactions = walk.open_transactions
        elif offsets[0] <= part.start_offset < offsets[1] and _may_hide_marker(file, part, is_alone=len(moved) == 1):
            hidden = [Doubt(producer, begun, part) for producer, begun in open_transactions]
            open_transactions, ended, left = _resolved(files, segment, hidden, part.start_offset)
            aborted += ended
            doubts += left
    return _Walked(aborted, open_transactions, doubts)


def _may_hide_marker(file: storage.File, defect: Defect, *, is_alone: bool) -> bool:
    """Return whether damage may hide a transaction's marker.

    Damage hides no marker in these cases:

    - No offset is missing.
    - The damage is a single batch that is larger than a marker.
    - The damage is a moved batch that is not a marker, and no other batch of the segment was moved (`is_alone`).
    """
    if defect.end_offset is not None and defect.end_offset <= defect.start_offset:
        return False
    batch = batch_at(file, defect.position, max_bytes=MAX_BATCH)
    is_single = batch is not None and batch["position"] + batch["size"] == defect.next_position
    if batch is None or not is_single:
        return True
    if defect.code == "batch-order":
        # If two batches were swapped, the other batch belongs here, and it may be a marker.
        return bool(batch["is_control"]) or not is_alone
    return int(batch["size"]) <= _MAX_MARKER


def _resolved(
    files: PartitionFiles, segment: Segment | None, doubts: list[Doubt], start_offset: int
) -> tuple[_Open, list[Aborted], list[Doubt]]:
    """Resolve transactions that damage from `start_offset` on may have ended, from an index and later snapshots.

    Returns:
        The transactions still open after the damage, the transactions aborted in it, and those that remain in doubt.
    """
    still_open: _Open = []
    ended: list[Aborted] = []
    left = []
    indexed = (fitting(segment) or []) if doubts and segment is not None else []
    end = doubts[0].end_offset if doubts else None
    later = [offset for offset in files.snapshots if offset >= (start_offset + 1 if end is None else end)]
    known = next((found for offset in later if (found := _snapshot(files, offset)) is not None), [])
    for doubt in doubts:
        transaction = doubt.producer_id, doubt.first_offset
        entry = next((entry for entry in indexed if entry[:2] == transaction and entry[2] >= start_offset), None)
        if entry is not None and (end is None or entry[2] < end):
            ended.append(entry)
        elif entry is not None or transaction in known:
            still_open.append(transaction)
        else:
            left.append(doubt)
    return still_open, ended, left


def _position_of(segment: Segment, file: storage.File, offset: int, end: int) -> int:
    batch = segment.batch_of(file, offset)
    return end if batch is None else min(end, batch["position"])


def _snapshot(files: PartitionFiles, offset: int) -> _Open | None:
    """Return the transactions open at `offset` from the snapshot of that offset; None if it is absent or unreadable."""
    at = bisect_left(files.snapshots, offset)
    if files.snapshots[at : at + 1] != [offset]:
        return None
    try:
        return _native.open_transactions(storage.read_all(files.snapshot_path(offset)))
    except (OSError, BrokerlessError):
        return None


def _first_unstable(files: PartitionFiles, open_transactions: _Open) -> int | None:
    first = min((begun for _, begun in open_transactions), default=None)
    start = files.log_start_offset
    if first is None or first >= start:
        return first
    if start < files.local_log_start_offset:
        return start
    # If the transaction began below the log start, Kafka uses the base offset of the batch at the log start.
    segment = files.segments[_floor(files.segments, start)]
    with segment.open() as file:
        try:
            batch = segment.batch_of(file, start)
        except (CorruptRecordError, UnsupportedFormatError):
            batch = None
    return start if batch is None or batch["base_offset"] is None else int(batch["base_offset"])


def _floor(segments: Sequence[Segment], offset: int) -> int:
    """Return the index of the segment that holds `offset`; 0 if the offset is below all segments."""
    low, high = 0, len(segments)
    while low + 1 < high:
        middle = (low + high) // 2
        if segments[middle].base_offset <= offset:
            low = middle
        else:
            high = middle
    return low
