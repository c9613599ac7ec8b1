"""`LogRepair`: the steps of a repair for one log, and their planning (`salvage`).

Every sound batch on both sides of damage is kept, with its offsets. Damaged and missing batches are taken from other
replicas that have them. The findings of a deep check show which bytes of each segment are not sound batches. Nothing is
changed before `write_partition` executes the steps.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from brokerless.checking.finding import Finding
from brokerless.checking.logs import LogCheck
from brokerless.errors import BrokerlessError, CorruptRecordError
from brokerless.healing.abort_markers import with_markers
from brokerless.healing.damaged_range import DamagedRange
from brokerless.healing.leader_epochs import with_epochs
from brokerless.healing.pieces import Gaps, divided, is_damage, piece_batches, sound_pieces, without_overlaps
from brokerless.healing.replica_fill import OtherReplica
from brokerless.healing.suspect_batches import with_mended, with_suspects
from brokerless.io import storage
from brokerless.layout import checkpoints, file_names, lost_offsets
from brokerless.log.log import Log
from brokerless.log.segment import NO_END, whole_batches
from brokerless.recovery.file_changes import Slice
from brokerless.remarks import Remark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from brokerless.healing.pieces import Piece
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.expected_end import LoneClaim

# Positions in a segment are signed 32-bit numbers.
_MAX_SEGMENT = (1 << 31) - 1
_BLOCK = 1 << 20
_LOG = ".log"


class Step(NamedTuple):
    """A step for one file, with its reason. Unlike `recovery.file_changes.Step`, it writes into another directory.

    Attributes:
        verb: "keep"; "write"; "rebuild" (from the batches, by the recovery of the result); "replace" (another file
            takes the place of this one); or "drop" (bytes that are not a sound batch).
        name: the file's name; for dropped bytes, followed by their position.
        to: the path of a file to keep; the batches or bytes to write; the part of a file that the result lacks; or ""
            for a file that is already missing.
        why: the reason; "" if the file stays as it is.
    """

    verb: str
    name: str
    to: str | Sequence[Piece] | bytes | Slice
    why: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.name}{self.why and ': '}{self.why}"


@dataclass(frozen=True, kw_only=True)
class LogRepair:
    """The plan for one log: the parts to keep, and the other steps. See `salvage`.

    Attributes:
        log: the log.
        findings: the findings of a deep check.
        segments: the pieces of each segment of the repaired log, by base offset; empty if the log stays unchanged.
        ranges: the damaged ranges of offsets, with their states in the result.
        left: the findings that a repair does not cure.
        doubts: the uncertainties, such as a transaction whose outcome is unknown.
        recorded: the ranges of offsets that the repaired log lacks before its end, ascending.
        log_start_offset: the offset below which records are deleted; None if no checkpoint has it.
        snapshots_from: the highest offset of a producer snapshot that is kept. Later snapshots do not fit the batches
            of the repaired log.
        gone: the steps for present files, or parts of files, that the result will not have.
        unusable: why the log can only be copied as it is; None if it can be repaired.
    """

    log: Log
    findings: Sequence[Finding] = ()
    segments: Mapping[int, Sequence[Piece]] = field(default_factory=dict)
    ranges: Sequence[DamagedRange] = ()
    left: Sequence[Finding] = ()
    doubts: Sequence[Remark] = ()
    recorded: Sequence[tuple[int, int]] = ()
    log_start_offset: int | None = None
    snapshots_from: int = NO_END
    gone: Sequence[Step] = ()
    unusable: Remark | None = None

    def left_alone(self, why: Remark) -> LogRepair:
        """Return the plan that copies the log as it is."""
        left = [found for found in self.findings if found.severity != "note"]
        return replace(self, unusable=why, ranges=(), doubts=(), left=left)

    @property
    def is_changed(self) -> bool:
        """True if the repaired log differs from the damaged one."""
        return bool(self.segments) and not self.unusable

    @property
    def has_damaged_batches(self) -> bool:
        """True if batches are damaged or missing, or have wrong leader epochs."""
        return any(
            found.kind.subject == "records" or found.code == "epoch-order" or is_damage(found)
            for found in self.findings
        )

    @property
    def lost(self) -> list[DamagedRange]:
        """The ranges that are lost."""
        return [one for one in self.ranges if one.state == "lost"]

    @property
    def end_offset(self) -> int:
        """The offset after the last batch that is kept."""
        pieces = [piece for of_segment in self.segments.values() for piece in of_segment]
        return pieces[-1].next_offset if pieces else self.log.log_end_offset

    def steps(self, topic_id: str | None = None) -> Iterator[Step]:
        """Yield the steps for the files, in order; none for an unchanged log.

        Args:
            topic_id: the topic's id, for a log that has none; None if not known.
        """
        if not self.is_changed:
            return
        is_damaged = bool(self.ranges) or any(found.severity != "note" for found in self.findings)
        for base_offset, pieces in self.segments.items():
            name = file_names.segment_file(base_offset, file_names.LOG)
            is_told = is_damaged or any(piece.verb != "keep" or piece.patches for piece in pieces)
            is_kept = len(pieces) == 1 and pieces[0].is_file and os.path.basename(pieces[0].path) == name
            if is_kept and pieces[0].verb == "keep":
                yield Step("keep", name, pieces[0].path)
            else:
                yield Step("write", name, pieces, (", ".join(map(str, pieces)) or "empty") if is_told else "")
        directory = self.log.path
        names = [name for name in sorted(storage.list_directory(directory)) if storage.is_file(f"{directory}/{name}")]
        rebuilt = {step.name for step in self.gone}
        kept = [name for name in names if name not in rebuilt and self._is_kept(name)]
        yield from (Step("keep", name, f"{directory}/{name}") for name in kept)
        if topic_id is not None and checkpoints.PARTITION_METADATA not in kept:
            content = checkpoints.format_partition_metadata(topic_id)
            yield Step("write", checkpoints.PARTITION_METADATA, content, "no readable file names the topic's id")
        if self.recorded:
            yield Step("write", lost_offsets.FILE, lost_offsets.content(self.recorded))
        yield from self.gone

    def told(self, topic_id: str | None = None) -> list[Remark]:
        """Return the steps that change something, without those for dropped bytes that a range reports."""
        places = {(one.path, one.position) for one in self.ranges}
        return [
            Remark(step.verb, str(step), path=f"{self.log.path}/{step.name}")
            for step in self.steps(topic_id)
            if step.why and not (step.verb == "drop" and isinstance(step.to, Slice) and step.to[:2] in places)
        ]

    def _is_kept(self, name: str) -> bool:
        """Return whether a file that is no `.log` file is kept. Files that are not kept are rebuilt, or are useless."""
        if name.endswith((*file_names.STATES, ".tmp")):
            return False
        if name == lost_offsets.FILE or file_names.is_fatal(name):
            return False
        offset = file_names.live_base_offset(name)
        return offset is None or (name.endswith(".snapshot") and offset <= self.snapshots_from)


def salvage(
    log: Log,
    others: Sequence[Log] = (),
    *,
    config: TopicConfig | None = None,
    log_start_offset: int | None = None,
    keeps_suspect: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> LogRepair:
    """Plan the repair of a log.

    Args:
        log: the log, with a new listing of its files.
        others: other replicas, the best first.
        config: the settings of the topic; None if not known.
        log_start_offset: the offset below which records are deleted (see `known_start`); None if no checkpoint has it.
        keeps_suspect: whether to keep batches whose records can be decoded although their checksum is wrong.
        progress: called with the size of each segment that was checked, in bytes.
    """
    check = LogCheck(log, "deep", progress)
    findings = [*check.of_segments(), *check.of_log(config)]
    left = [one for one in findings if not one.kind.is_cured and one.code != "file-foreign" and not is_damage(one)]
    repair = LogRepair(log=log, findings=findings, left=left, log_start_offset=log_start_offset)
    known, unusable = _recorded(log, findings)
    if unusable:
        return repair.left_alone(unusable)
    claim = log.files.lone_claim
    if _is_sound(log, findings) and claim is None and not (known and others):
        return repair
    if claim is not None and claim.expected_end is not None:
        findings, claim = _with_moved(log, findings, claim), None
    # In a compacted log, a gap is no sign of loss unless a batch that is not trusted claims offsets in it.
    claimed = [*_claimed(findings), *([] if claim is None else [(claim.end_offset, claim.base_offset)])]
    gaps = lost_offsets.merged([*known, *claimed]) if check.is_compacted else None
    pieces = sound_pieces(log, findings, Gaps(gaps))
    start = _start(log, findings, log_start_offset)
    ranges = _ranges(log, start, pieces, findings, known, is_compacted=check.is_compacted)
    if claim is not None and not any(one.meets(claim.end_offset, claim.base_offset) for one in ranges):
        message = (
            f"the header of the last batch says that it begins at offset {claim.base_offset}, but no other file "
            "confirms this"
        )
        path, offsets = log.segments[-1].path, (claim.end_offset, claim.base_offset)
        ranges.append(DamagedRange.lost(log, "offset-gap", message, path, None, offsets))
        ranges.sort(key=lambda one: one.start_offset)
    doubted = ("epoch-order", "epochs-differ", "epochs-damaged")
    trusts_epochs = all(one.code not in doubted for one in findings)
    # Segments that a swap replaces hold batches of the same log.
    replaced = replaced_files(log)
    others = [*others, *(Log(path) for path in replaced if path.endswith(_LOG))]
    pieces, ranges = _filled(log, others, pieces, ranges, trusts_epochs=trusts_epochs, is_compacted=check.is_compacted)
    doubts: list[Remark] = []
    if claim is not None and check.is_compacted:
        ranges = _without_claim(claim, ranges, doubts)
    ranges = _with_ends(log, ranges, pieces, findings)
    # A sound batch of another replica is better than a suspect one.
    if keeps_suspect:
        pieces, ranges = with_suspects(pieces, ranges, findings)
    # No checksum covers leader epochs, not even those of other replicas. A rebuilt batch may begin later.
    is_anew = any(one.code == "offset-overlap" for one in findings)
    is_epochs_file_right = None
    if not trusts_epochs or is_anew or any(one.state == "recovered" for one in ranges):
        epochs = with_epochs(log, pieces, others)
        doubts += epochs.doubts
        pieces, is_epochs_file_right = epochs.pieces, epochs.by_file
        ranges += [_not_believed(log, piece) for piece in epochs.dropped]
        ranges.sort(key=lambda one: one.start_offset)
    pieces, ranges = with_mended(pieces, ranges, findings)
    # No marker is written at the end of the log, even if the end is known.
    last = pieces[-1].next_offset if pieces else 0
    open_ended = [replace(one, end_offset=None) if one.start_offset >= last else one for one in ranges]
    pieces, of_markers = with_markers(log, pieces, open_ended)
    doubts += of_markers
    # Ranges that an earlier repair recorded as lost are not reported again.
    ranges = [one for one in ranges if one.state != "lost" or not _is_known(one, known)]
    lost = [one for one in ranges if one.state == "lost"]
    end = pieces[-1].next_offset if pieces else log.log_start_offset
    still = lost_offsets.without(known, [(piece.first_offset, piece.next_offset) for piece in pieces])
    now = [(one.start_offset, one.end_offset) for one in lost if one.end_offset is not None]
    gone = [*_rebuilt(log, findings, is_epochs_file_right), *_dropped(findings, ranges), *_fatal(log)]
    if lost:
        # A producer's sequence numbers may skip lost records: the check of the result decides that.
        left = [one for one in left if one.code != "sequence-gap"]
        swapped = [path for path in replaced if not file_names.is_fatal(os.path.basename(path))]
        gone += [_without("replace", path, "a swap has its batches in another segment") for path in swapped]
    segments = _segments(log, others, pieces, log_start_offset=log_start_offset or 0, lost=lost)
    return replace(
        repair,
        findings=findings,
        segments=segments if ranges or not _is_sound(log, findings) else {},
        ranges=ranges,
        left=left,
        doubts=doubts,
        recorded=[(low, high) for low, high in (*still, *now) if high <= end],
        # Later snapshots lack the batches that came back, or still count batches that are gone.
        snapshots_from=min(
            (one.start_offset for one in ranges if one.state == "lost" or _is_known(one, known)), default=NO_END
        ),
        gone=gone,
    )


def _is_sound(log: Log, findings: Iterable[Finding]) -> bool:
    """Return whether a log can stay unchanged: it has no fault, and a broker closed it."""
    return log.root.is_clean and all(found.code in ("file-foreign", "file-unpadded") for found in findings)


def _recorded(log: Log, findings: Iterable[Finding]) -> tuple[list[tuple[int, int]], Remark | None]:
    """Return the ranges that earlier repairs recorded as lost, and why the log can only be copied as it is, or None."""
    unusable = [
        Remark(one.code, one.message, path=one.path)
        for one in findings
        if one.code == "batch-unsupported" and not is_damage(one)
    ]
    try:
        return [] if log.files.is_file else lost_offsets.recorded(log.path), unusable[-1] if unusable else None
    except CorruptRecordError as error:
        said = f"{error}. Move the file away: the next repair reports the losses that it recorded as new ones"
        return [], Remark("lost-offsets-damaged", said, path=f"{log.path}/{lost_offsets.FILE}")


def _with_moved(log: Log, findings: Sequence[Finding], claim: LoneClaim) -> list[Finding]:
    """Add a finding for a last batch whose base offset is above an offset at which the log is known to have ended."""
    if any(one.position == claim.position and is_damage(one) for one in findings):
        return list(findings)
    moved = Finding(
        code="batch-order",
        topic=log.topic,
        partition=log.partition,
        path=log.segments[-1].path,
        position=claim.position,
        start_offset=claim.end_offset,
        message=str(claim),
    )
    return [*(one for one in findings if (one.code, one.start_offset) != ("offset-gap", claim.end_offset)), moved]


def _without_claim(claim: LoneClaim, ranges: Sequence[DamagedRange], doubts: list[Remark]) -> list[DamagedRange]:
    """Remove the gap before the last batch of a compacted log from the ranges, because a cleaner may have made it."""
    gap = ("lost", "offset-gap", claim.end_offset, claim.base_offset)
    left = [one for one in ranges if (one.state, one.code, one.start_offset, one.end_offset) != gap]
    if len(left) < len(ranges):
        said = (
            f"the header of the last batch says that it begins at offset {claim.base_offset}, but no other file "
            "confirms this"
        )
        doubts.append(Remark("offset-doubtful", said))
    return left


def _filled(
    log: Log,
    others: Sequence[Log],
    pieces: list[Piece],
    ranges: list[DamagedRange],
    *,
    trusts_epochs: bool,
    is_compacted: bool,
) -> tuple[list[Piece], list[DamagedRange]]:
    """Take lost and untrusted batches from other replicas. Return the pieces, and the ranges with their states."""
    known: Sequence[tuple[int, int]] | None = None
    if not trusts_epochs:
        epochs = with_epochs(log, pieces)
        pieces, known = [one._replace(patches=()) for one in epochs.pieces], None if epochs.by_file else epochs.known
        ranges = sorted(
            [*ranges, *(_not_believed(log, piece) for piece in epochs.dropped)], key=lambda one: one.start_offset
        )
    for other in others if ranges else ():
        donor = OtherReplica(log, other, epochs=known, is_compacted=is_compacted)
        pieces, ranges = donor.fill(pieces, ranges)
    ranges = [one for one in ranges if one.state != "lost" or one.start_offset != one.end_offset]
    return list(without_overlaps(pieces)), ranges


def _claimed(findings: Iterable[Finding]) -> Iterator[tuple[int, int]]:
    """Yield the offset ranges of findings of damage."""
    for one in findings:
        if is_damage(one) and one.end_offset is not None and (one.start_offset or 0) < one.end_offset:
            yield one.start_offset or 0, one.end_offset


def _is_known(gap: DamagedRange, known: Sequence[tuple[int, int]]) -> bool:
    """Return whether an earlier repair recorded a gap, and no later damage lies in it."""
    place = bisect_right(known, gap.start_offset, key=lambda one: one[0])
    end = gap.end_offset
    return gap.code == "offset-gap" and end is not None and place > 0 and end <= known[place - 1][1]


def _with_ends(
    log: Log, ranges: Iterable[DamagedRange], pieces: Sequence[Piece], findings: Iterable[Finding]
) -> list[DamagedRange]:
    """Find out which records are lost at the end of the log.

    Missing records are lost if a broker had flushed them or the cluster had committed them. A torn tail above such
    records is no loss, because a broker would not have kept it either. If other replicas supply the batches at the end,
    records are lost only if the damaged range is larger than these batches.
    """
    expected = max(log.recovery_point or 0, log.high_watermark or 0)
    if log.files.expected_end is not None and log.files.expected_end.is_certain:
        expected = log.files.expected_end.offset
    own = {segment.path: segment.base_offset for segment in log.segments}
    found: list[DamagedRange] = []
    for one in ranges:
        if one.state != "lost" or one.end_offset is not None:
            found.append(one)
            continue
        is_rest = bool(found) and (found[-1].state, found[-1].end_offset) == ("recovered", one.start_offset)
        message = f"{one.message}; the other replicas end at {one.start_offset}" if is_rest else one.message
        is_end_known = log.root.is_clean and log.recovery_point is not None
        if expected > one.start_offset:
            found.append(replace(one, end_offset=expected, message=message))
        elif is_end_known and one.start_offset == log.recovery_point:
            continue
        elif one.code not in ("tail-torn", "checkpoint-ahead"):
            if is_rest and _damaged_bytes(one, own, findings) <= _bytes_since(_first(found), own, pieces):
                continue
            found.append(replace(one, message=message))
    return found


def _damaged_bytes(since: DamagedRange, own: Mapping[str, int], findings: Iterable[Finding]) -> int:
    """Return the number of damaged bytes in the log from the start of a range on."""
    first = own.get(since.path, -1), since.position or 0
    return sum(
        _content_end(*content) - content.start
        for _, content in _damaged(findings)
        if (own.get(content.path, -1), content.start) >= first
    )


def _bytes_since(offset: int, own: Mapping[str, int], pieces: Iterable[Piece]) -> int:
    """Return the number of bytes that other replicas supply from an offset on."""
    taken = [piece for piece in pieces if piece.path not in own and piece.first_offset >= offset]
    return sum(piece.end_position - piece.position for piece in taken)


def _first(ranges: Sequence[DamagedRange]) -> int:
    """Return the first offset of the recovered ranges at the end."""
    first = ranges[-1].start_offset
    for one in reversed(ranges):
        if one.state != "recovered" or one.end_offset is None or one.end_offset < first:
            break
        first = one.start_offset
    return first


def _ranges(
    log: Log,
    log_start_offset: int,
    pieces: Sequence[Piece],
    findings: Sequence[Finding],
    known: Sequence[tuple[int, int]],
    *,
    is_compacted: bool,
) -> list[DamagedRange]:
    """Return the ranges of offsets that no piece holds, each with the first finding that reports it.

    A range is empty if a batch is dropped and another batch has its offsets. Another replica may show which batch is
    right.
    """
    bad = [one for one in findings if one.kind.subject == "records" or one.code == "checkpoint-ahead" or is_damage(one)]
    ranges = [
        DamagedRange.of(log, one, "lost", start_offset=one.start_offset or 0, end_offset=one.end_offset)
        for one in bad
        if one.start_offset is not None
    ]
    # A finding of damage tells more than a finding of missing records.
    ranges.sort(key=lambda one: one.code == "checkpoint-ahead")
    empty = {one.start_offset: one for one in ranges if one.start_offset == one.end_offset}
    # All records may have been deleted, including those of the last batch.
    ends = [log_start_offset, *(max(log_start_offset, piece.next_offset) for piece in pieces)]
    starts: list[int | None] = [*(piece.first_offset for piece in pieces), None]
    met: dict[int, list[DamagedRange]] = {}
    for one in ranges:
        first = place = bisect_right(ends, one.start_offset, lo=1) - 1
        while place < len(ends) and (place == first or one.end_offset is None or ends[place] < one.end_offset):
            if one.meets(ends[place], starts[place]):
                met.setdefault(place, []).append(one)
            place += 1
    found = []
    for place, (start, end) in enumerate(zip(ends, starts, strict=True)):
        if end is not None and end <= start:
            found += [empty[start]] if start in empty else []
            continue
        here = met.get(place, [])
        if here:
            # Use the end if it is known. Otherwise it is determined after the search in other replicas.
            ends_here = [one.end_offset for one in here if one.end_offset is not None and one.end_offset > start]
            is_open = end is None and (not ends_here or any(one.end_offset is None for one in here))
            high = end if end is not None or is_open else max(ends_here)
            # A cleaner may have removed the other offsets. Where batches contradict each other, nothing tells which one
            # was moved: the one that is kept may be from anywhere in this hole.
            is_moved = any(one.code == "batch-order" for one in here)
            inside = list(_clipped(here, start, end)) if is_compacted and end is not None and not is_moved else []
            found += inside or [replace(here[0], start_offset=start, end_offset=high)]
        elif end is not None and place < len(pieces) and not log.files.is_file:
            gaps = [(start, end)] if not is_compacted else _inside(known, start, end)
            missing = [_gap(log, pieces[place], low, high) for low, high in gaps]
            before = None if is_compacted or place == 0 else pieces[place - 1]
            found = _with_moved_batch(found, before, missing, known) if before else found + missing
    return found


def _with_moved_batch(
    found: list[DamagedRange], before: Piece, gap: list[DamagedRange], known: Sequence[tuple[int, int]]
) -> list[DamagedRange]:
    """Add the gap after a piece to the ranges, or the damage before the piece if the piece took its offset.

    In a log that no cleaner has rewritten, damaged bytes have offsets, and batches follow each other without a gap. No
    checksum covers a base offset: the damage may have reached that of the only batch of the piece.
    """
    damage = found[-1] if found else None
    is_moved = (
        damage is not None
        and damage.start_offset == damage.end_offset == before.first_offset
        and damage.path == before.path
        and (damage.position or 0) < before.position
        and not any(_is_known(one, known) for one in gap)
        and len(list(islice(piece_batches(before), 2))) == 1
    )
    if damage is None or not is_moved:
        return found + gap
    return [*found[:-1], *(replace(damage, end_offset=one.end_offset) for one in gap)]


def _clipped(ranges: Iterable[DamagedRange], start: int, end: int) -> Iterator[DamagedRange]:
    """Yield the parts of ranges that lie in [start, end), without overlaps."""
    for one in sorted(ranges, key=lambda one: one.start_offset):
        high = end if one.end_offset is None else min(one.end_offset, end)
        if max(start, one.start_offset) < high:
            yield replace(one, start_offset=max(start, one.start_offset), end_offset=high)
            start = high


def _inside(known: Sequence[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges in [start, end) that an earlier repair recorded as lost.

    Gaps that no repair recorded are due to compaction, or lie below the log start.
    """
    for place in range(bisect_right(known, start, key=lambda one: one[1]), len(known)):
        low, high = known[place]
        if low >= end:
            break
        yield max(start, low), min(end, high)


def _gap(log: Log, behind: Piece, start: int, end: int) -> DamagedRange:
    message = f"no batch has the offsets {start} to {end - 1}"
    return DamagedRange.lost(log, "offset-gap", message, behind.path, behind.position, (start, end))


def known_start(log: Log) -> int | None:
    """Return the log start offset: from the checkpoint, or from the leader epochs; None if it is not known.

    A checkpointed offset above every known end of the log is ignored. An offset equal to the end is valid: all records
    were deleted. If the checkpoint is missing or unreadable, the leader epochs show which records were deleted: see
    `start_of_epochs`.
    """
    start = log.root.log_start_offsets.get((log.topic or "", log.partition or 0))
    if start is None:
        return start_of_epochs(log)
    ends = (log.files.extent.next_offset, log.recovery_point or 0, log.high_watermark or 0, *log.snapshots[-1:])
    return start if start <= max(ends) else None


def start_of_epochs(log: Log) -> int | None:
    """Return the first offset of the leader epochs if the log's first batch is below it; otherwise None.

    If a checkpoint of log start offsets exists, return None too. When a broker deletes records, it moves the start of
    the epochs to the log start (LeaderEpochFileCache.truncateFromStart).
    """
    if log.files.is_file or not log.root.is_there or log.root.has_log_start_offsets or not log.segments:
        return None
    with suppress(BrokerlessError, OSError):
        segment, starts = log.segments[0], [one.start_offset for one in log.leader_epochs]
        if starts and segment.base_offset < starts[0] <= log.files.extent.next_offset:
            with segment.open() as file:
                for batches, _ in whole_batches(file, 0, segment.extent(file).end_position):
                    first = batches.slice(0, 1).to_pylist()
                    return starts[0] if first and first[0]["partition_leader_epoch"] >= 0 else None
    return None


def _start(log: Log, findings: Iterable[Finding], log_start_offset: int | None) -> int:
    """Return the log start offset, even if the first segment, whose file name gives it, is missing."""
    gone = (one.start_offset or 0 for one in findings if one.code in ("segment-missing", "records-missing"))
    # The records below the first segment of a tiered log are in remote storage.
    first = log.segments[0].base_offset if log.segments else 0
    return max(min((first, *gone)), log_start_offset or 0)


def _not_believed(log: Log, piece: Piece) -> DamagedRange:
    message = (
        "the batches after the damage have an older leader epoch, and may be left over from an earlier use of the disk"
    )
    offsets = piece.first_offset, piece.next_offset
    return DamagedRange.lost(log, "epoch-order", message, piece.path, piece.position, offsets)


def _segments(
    log: Log, others: Iterable[Log], pieces: Sequence[Piece], *, log_start_offset: int, lost: Iterable[DamagedRange]
) -> dict[int, list[Piece]]:
    """Divide the pieces into segments: the log's own, and other replicas' segments for batches taken from them."""
    bases = {segment.path: segment.base_offset for one in (log, *others) for segment in one.segments}
    own = {segment.path for segment in log.segments}
    own_bases = [segment.base_offset for segment in log.segments]
    segments: dict[int, list[Piece]] = {}
    base, size, end = log.segments[0].base_offset if log.segments else 0, 0, 0
    for piece in chain.from_iterable([one] if one.path in own else divided(one, own_bases) for one in pieces):
        start, length = bases.get(piece.path, base), piece.end_position - piece.position
        if piece.path not in own:
            # A segment of another replica may begin inside a segment of this log, but must not reach into the next one.
            place = bisect_right(own_bases, piece.first_offset)
            natural = max(base, own_bases[place - 1]) if place else min(base, piece.first_offset)
            start = start if max(natural + 1, end) <= start <= piece.first_offset else natural
        # Offsets rise from segment to segment, so batches that follow a later segment of another replica stay in it.
        start = max(start, base) if segments else start
        if start in segments and size + length > _MAX_SEGMENT:
            start = piece.first_offset
        size = size + length if start in segments else length
        segments.setdefault(start, []).append(piece)
        base, end = start, piece.next_offset
    last = log.segments[-1].base_offset if log.segments else log.log_start_offset
    if not pieces or (last > base and pieces[-1].path in own and not _is_cut(lost, end, last, log_start_offset)):
        # Keep the last segment even if no batch of it is left, so that the log's end stays where it was.
        segments.setdefault(last, [])
    for first in log.segments[:1]:
        if first.size == 0 and max(first.base_offset, log_start_offset) < min(segments):
            # A log still starts at the base offset of its first segment after a cleaner has emptied that segment.
            segments = {first.base_offset: [], **segments}
    return segments


def _is_cut(lost: Iterable[DamagedRange], end: int, last: int, log_start_offset: int) -> bool:
    """Return whether offsets before the empty last segment are lost, so that a consumer would wait for them.

    If offsets are lost there, the log must end with its last batch, as it does after Kafka's recovery.
    """
    return log_start_offset < last and any(end <= one.start_offset < last for one in lost)


def _dropped(findings: Iterable[Finding], ranges: Iterable[DamagedRange]) -> Iterator[Step]:
    """Yield the steps for bytes that are not kept, unless the bytes are zeros."""
    suspect = {(one.path, one.position) for one in ranges if one.state == "suspect"}
    for one, content in _damaged(findings):
        if (content.path, content.start) not in suspect and content.start < _content_end(*content):
            yield Step("drop", f"{os.path.basename(content.path)}:{content.start}", content, one.code)


def _damaged(findings: Iterable[Finding]) -> Iterator[tuple[Finding, Slice]]:
    """Yield the bytes that are not sound batches, each with its finding."""
    done: set[tuple[str, int]] = set()
    for one in findings:
        if is_damage(one) and one.position is not None:
            size = storage.size(one.path)
            start, end = one.position, size if one.next_position is None else min(one.next_position, size)
            # Several findings may begin at the same position.
            if start < end and (one.path, start) not in done:
                done.add((one.path, start))
                yield one, Slice(one.path, start, end)


def replaced_files(log: Log) -> list[str]:
    """Return the segments that a finished swap replaces or a broker will delete. Reads ignore them."""
    if log.files.is_file:
        return []
    live = {os.path.basename(segment.path) for segment in log.segments}
    names = [name for name in sorted(storage.list_directory(log.path)) if name not in live]
    paths = [f"{log.path}/{name}" for name in names if name.endswith((_LOG, _LOG + file_names.DELETED))]
    return [path for path in paths if storage.is_file(path)]


def _rebuilt(log: Log, findings: Iterable[Finding], is_epochs_file_right: bool | None) -> list[Step]:
    """Return the steps for the files, other than `.log` files, that are rebuilt.

    Args:
        log: the log.
        findings: the findings of the check.
        is_epochs_file_right: whether the leader epoch checkpoint is right although batches contradict it; None if the
            findings decide.
    """
    paths = {
        one.path: one.code
        for one in findings
        if one.kind.subject in ("index", "state") or one.code == "topic-id-damaged"
    }
    if is_epochs_file_right is not None:
        path = f"{log.path}/{checkpoints.LEADER_EPOCHS}"
        code = paths.pop(path, "epochs-differ")
        paths |= {} if is_epochs_file_right else {path: code}
    # The topic id is not in the batches.
    verbs = {"topic-id-damaged": "drop"}
    return [_without(verbs.get(why, "rebuild"), path, why) for path, why in paths.items()]


def _fatal(log: Log) -> Iterator[Step]:
    """Yield the steps for files whose names keep a broker from starting."""
    for name in () if log.files.is_file else sorted(storage.list_directory(log.path)):
        if file_names.is_fatal(name) and storage.is_file(f"{log.path}/{name}"):
            yield _without("drop", f"{log.path}/{name}", "a broker does not start with that name")


def _without(verb: str, path: str, why: str) -> Step:
    """Return the step for a file that is missing, or is left out completely."""
    return Step(verb, os.path.basename(path), Slice(path, 0, storage.size(path)) if storage.exists(path) else "", why)


def _content_end(path: str, start: int, end: int) -> int:
    """Return where the zeros at the end of a range of bytes begin."""
    with storage.File(path) as file:
        while start < end:
            begin = max(start, end - _BLOCK)
            content = file.read(begin, end - begin).rstrip(b"\0")
            if content:
                return begin + len(content)
            end = begin
    return start
