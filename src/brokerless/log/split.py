"""Splits: parts of a read that can run anywhere and in any order. Dividing a read into splits reads no records.

A boundary inside a segment comes from an entry (o, p) of its offset index: a batch that ends at offset o starts at
position p. The index may be wrong, so the reader of a split checks for that batch first. If it is not there:

- at a boundary between two splits, the reader walks the headers from the segment's start to the first batch that starts
  at p or later;
- at a boundary that should skip the batches below the first offset, the reader reads these batches too.

A split holds the batches that *start* in [position, end_position). So each batch is in exactly one split, wherever the
boundaries fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from brokerless.io.remote import is_remote
from brokerless.log.aborted_transactions import overlapping
from brokerless.log.segment import NO_END, index_entry, offset_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless import _native
    from brokerless.io.storage import File
    from brokerless.log.aborted_transactions import Aborted
    from brokerless.log.defect import Defect
    from brokerless.log.segment import Segment

OnCorrupt = Literal["raise", "skip"]


@dataclass(frozen=True, slots=True)
class Split:
    """A part of one `.log` file, read by `read_split`. Small and picklable, so workers can read splits in parallel.

    Get splits from `Log.plan`.

    Attributes:
        path: the file.
        topic: the topic; None for a file outside a partition directory.
        partition: the partition; None for a file outside a partition directory.
        base_offset: the segment's base offset.
        position: the byte position of the first batch.
        end_position: batches that start here or later belong to another split.
        start_offset: rows below this offset are left out.
        end_offset: rows at this offset and above are left out.
        following_offset: the offset of the first batch after the segment; None if it is not known.
        entry: bounds of the last offset of the batch expected at `position`: above entry[0], at most entry[1]. None if
            `position` is 0.
        fallback_position: if another batch is at `position`, reading starts with the first batch at this position or
            later.
        file_size: the planned size of the file; None for the active segment, which grows.
        last_batch: for the active segment: the position and the first bytes of its last batch.
        aborted: transactions to leave out: (producer_id, first_offset, last_offset).
        on_corrupt: "raise" or "skip".
        limit_offset: every batch of the file ends below this offset. None if it is not known, because a live broker's
            cleaner may merge segments.
        ends_segment: whether this is the last split of the segment.
        missing: records that are missing after the split.
        trusts_index: whether to report records as missing if the segment's index lists them after the end of the file.

    >>> import brokerless as bl
    >>> [(split.position, split.end_position) for split in bl.Log(SAMPLE).plan(target_bytes=8192)]
    [(0, 12914), (12914, 25239), (25239, 38069), (38069, 44630), (44630, 47775)]
    """

    path: str
    topic: str | None
    partition: int | None
    base_offset: int
    position: int
    end_position: int
    start_offset: int
    end_offset: int
    following_offset: int | None = None
    entry: tuple[int, int] | None = None
    fallback_position: int = 0
    file_size: int | None = None
    last_batch: tuple[int, bytes] | None = None
    aborted: tuple[Aborted, ...] = ()
    on_corrupt: OnCorrupt = "raise"
    limit_offset: int | None = None
    ends_segment: bool = True
    missing: tuple[Defect, ...] = ()
    trusts_index: bool = True

    def is_of(self, file: File) -> bool:
        """Return whether an open file is the planned file. The log cleaner may put another file in its place.

        The check includes the active segment: a broker may roll it at any time and then clean it.
        """
        size = file.size()
        if self.file_size is not None:
            return size == self.file_size
        # Objects in a store do not grow, and each read costs a request.
        position, start = (0, b"") if self.last_batch is None or is_remote(self.path) else self.last_batch
        return size >= self.end_position and file.read(position, len(start)) == start

    @property
    def is_whole(self) -> bool:
        """True if the split covers the whole planned segment, or all of it from the first wanted offset on."""
        is_known = self.file_size is not None or self.last_batch is not None
        return self.fallback_position == 0 and is_known and self.ends_segment

    @property
    def is_absent(self) -> bool:
        """True if the split has no file to read and only reports missing records."""
        return bool(self.missing) and not self.end_position


class Stretch(NamedTuple):
    """The part of a segment that a read covers. For the attributes see `Split`."""

    segment: Segment
    end_position: int
    end_offset: int
    following_offset: int | None
    last_batch: tuple[int, bytes] | None = None
    limit_offset: int | None = None
    missing: tuple[Defect, ...] = ()
    trusts_index: bool = True


def make_splits(
    stretches: Sequence[Stretch],
    *,
    topic: str | None,
    partition: int | None,
    start_offset: int,
    aborted: list[Aborted],
    target_bytes: int | None,
    on_corrupt: OnCorrupt,
) -> list[Split]:
    """Divide parts of segments into splits of about `target_bytes`."""
    bounds = [
        (max(start_offset, stretch.segment.base_offset), min(stretch.end_offset, stretch.following_offset or NO_END))
        for stretch in stretches
    ]
    splits = []
    for stretch, ranges in zip(stretches, overlapping(aborted, bounds), strict=True):
        segment = stretch.segment
        cuts = _cuts(stretch, start_offset, target_bytes, on_corrupt)
        for i, (position, entry) in enumerate(cuts):
            splits.append(
                Split(
                    path=segment.path,
                    topic=topic,
                    partition=partition,
                    base_offset=segment.base_offset,
                    position=position,
                    end_position=cuts[i + 1][0] if i + 1 < len(cuts) else stretch.end_position,
                    start_offset=start_offset,
                    end_offset=stretch.end_offset,
                    following_offset=stretch.following_offset,
                    entry=entry,
                    fallback_position=position if i else 0,
                    file_size=None if segment.is_last else stretch.end_position,
                    last_batch=stretch.last_batch,
                    aborted=ranges,
                    on_corrupt=on_corrupt,
                    limit_offset=stretch.limit_offset,
                    ends_segment=i + 1 == len(cuts),
                    missing=stretch.missing if i + 1 == len(cuts) else (),
                    trusts_index=stretch.trusts_index,
                )
            )
    return splits


_Cut = tuple[int, tuple[int, int] | None]


def _cuts(stretch: Stretch, start_offset: int, target_bytes: int | None, on_corrupt: OnCorrupt) -> list[_Cut]:
    """Return where splits start. With "skip", return only 0, because lost offsets must not depend on the boundaries."""
    segment, end_position, end_offset, *_ = stretch
    is_large = _pieces(end_position, target_bytes) > 1
    if on_corrupt == "skip" or not (is_large or segment.base_offset < start_offset):
        return [(0, None)]
    index = offset_index(segment)
    if index is None:
        return [(0, None)]
    cuts = [(0, None) if segment.base_offset >= start_offset else _cut(segment, index, start_offset, end_position)]
    while (pieces := _pieces(left := end_position - cuts[-1][0], target_bytes)) > 1:
        offset = index.upper_bound(cuts[-1][0], left // pieces)
        # Splits beyond `end_offset` would read nothing. Do not end the stretch here, though: a wrong index would then
        # lose rows.
        if offset is None or offset >= end_offset:
            break
        cut = _cut(segment, index, offset, end_position)
        if cut[0] <= cuts[-1][0]:
            break
        cuts.append(cut)
    return cuts


def _pieces(length: int, target_bytes: int | None) -> int:
    """Return the number of equal pieces for `length` bytes. A piece may be a tenth too large, to avoid tiny pieces."""
    return 1 if target_bytes is None else -(-length * 10 // (target_bytes * 11))


def _cut(segment: Segment, index: _native.OffsetIndex, offset: int, end_position: int) -> _Cut:
    entry = index_entry(segment, offset, index)
    if entry is None or entry.position >= end_position:
        return (0, None)
    return (entry.position, (entry.before, entry.offset))
