"""Splits: a read cut into pieces that can be done anywhere, in any order, without reading a record to cut it.

A boundary inside a segment comes from an entry (o, p) of its offset index: p starts a batch that ends at o. Since
the index may be wrong, whoever reads the split looks first. If no such batch is at p, then of a boundary between two
splits the bytes still count: headers are walked from the segment's start to the first batch that starts at or behind
p. But of a boundary that was to skip the batches below the first offset, nothing does: then they are all read. A
split holds the batches that *start* in [position, end_position), so each batch is in one split wherever the
boundaries fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from brokerless.io.remote import is_remote
from brokerless.log.expected_records import cut_short_in_words
from brokerless.log.segment import NO_END
from brokerless.log.transactions import overlapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless import _native
    from brokerless.io.storage import File
    from brokerless.log.segment import Segment
    from brokerless.log.transactions import Aborted

OnCorrupt = Literal["raise", "skip"]


class Missing(NamedTuple):
    """Records that a directory's own files tell of, unless a segment reaches behind `start_offset`.

    They are those of [start_offset, end_offset); None: to an end that is not known. `path` is the file that lacks
    them, or where damage hides what they are.
    """

    path: str
    start_offset: int
    end_offset: int | None
    reason: str
    position: int = 0


def cut_short(segment: Segment, next_offset: int | None, size: int) -> Iterator[Missing]:
    """Yield the records that an older segment's index tells of behind the end of its `.log`, which is sound.

    Args:
        segment: of a log at rest.
        next_offset: the one behind the last batch; None: there is no batch.
        size: the length of the `.log`.
    """
    start = segment.base_offset if next_offset is None else next_offset
    entry = segment.entry_behind(start, size)
    if entry is not None:
        yield Missing(segment.path, start, segment.next_base_offset, cut_short_in_words(size, entry))


@dataclass(frozen=True, slots=True)
class Split:
    """A stretch of one `.log` file, to be read by `read_split`. Small and picklable.

    Attributes:
        path: the file.
        topic: None for a lone file outside a topic directory.
        partition: likewise.
        base_offset: of the segment.
        position: bytes from which batches are read.
        end_position: batches that start here or behind it are another split's.
        start_offset: rows below it are left out.
        end_offset: rows from it on are left out.
        following_offset: that of the batch behind the segment, None if that is not known.
        entry: what is to be found at `position`: a batch that ends above entry[0] and not above entry[1]. None at 0.
        fallback_position: where to start if it is not: with the first batch at or behind this.
        file_size: of the file that was planned; None for the active segment, which grows.
        last_batch: of the active segment: where the last one started, and with which bytes.
        aborted: transactions to leave out: (producer_id, first_offset, last_offset).
        on_corrupt: "raise" or "skip".
        limit_offset: no batch of the file reaches it; None: not known, a live broker's cleaner may merge segments.
        ends_segment: no other split goes on with the segment.
        missing: records that are missing behind the split.
        trusts_index: what the segment's index tells of behind the end of the file is missing, too.

    >>> import brokerless as bl
    >>> [(split.position, split.end_position) for split in bl.Log(SAMPLE).plan(target_bytes=8192)]
    [(0, 8899), (8899, 16235), (0, 8190)]
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
    missing: tuple[Missing, ...] = ()
    trusts_index: bool = True

    def is_of(self, file: File) -> bool:
        """Tell whether an open file is the one that was planned: the log cleaner puts another one under its name.

        Of what was the active segment, too: it is rolled at any moment, and cleaned together with those before it.
        """
        size = file.size()
        if self.file_size is not None:
            return size == self.file_size
        # A store's objects do not grow, and each look at one is a request.
        position, start = (0, b"") if self.last_batch is None or is_remote(self.path) else self.last_batch
        return size >= self.end_position and file.read(position, len(start)) == start

    @property
    def is_whole(self) -> bool:
        """Whether it is all of a segment as it was planned, or all from where its first offset is looked for."""
        is_known = self.file_size is not None or self.last_batch is not None
        return self.fallback_position == 0 and is_known and self.ends_segment

    @property
    def is_absent(self) -> bool:
        """Whether there is no file to read, and only records that are missing."""
        return bool(self.missing) and not self.end_position

    @property
    def is_bounded(self) -> bool:
        """Whether reading stops at `end_offset`.

        If that is only where the segment's offsets end, all bytes are read: what stands behind the last batch of an
        older segment is damage.
        """
        if self.following_offset is None:
            return self.end_offset != NO_END
        return self.end_offset < self.following_offset


class Stretch(NamedTuple):
    """What of a segment is read; the names are those of `Split`."""

    segment: Segment
    end_position: int
    end_offset: int
    following_offset: int | None
    last_batch: tuple[int, bytes] | None = None
    limit_offset: int | None = None
    missing: tuple[Missing, ...] = ()
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
    """Cut stretches of segments into splits of about `target_bytes`."""
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
    """Return where splits start. With "skip" only at 0: what is lost must not depend on where the cuts are."""
    segment, end_position, end_offset, *_ = stretch
    is_large = _pieces(end_position, target_bytes) > 1
    if on_corrupt == "skip" or not (is_large or segment.base_offset < start_offset):
        return [(0, None)]
    index = segment.offset_index()
    if index is None:
        return [(0, None)]
    cuts = [(0, None) if segment.base_offset >= start_offset else _cut(segment, index, start_offset, end_position)]
    while (pieces := _pieces(left := end_position - cuts[-1][0], target_bytes)) > 1:
        offset = index.upper_bound(cuts[-1][0], left // pieces)
        # Behind `end_offset` nothing is read, so cutting there is of no use. Relying on the index to leave it out
        # would be: a wrong one would lose rows.
        if offset is None or offset >= end_offset:
            break
        cut = _cut(segment, index, offset, end_position)
        if cut[0] <= cuts[-1][0]:
            break
        cuts.append(cut)
    return cuts


def _pieces(length: int, target_bytes: int | None) -> int:
    """Return into how many pieces, all alike, so many bytes are cut: a tenth too large is better than a tiny rest."""
    return 1 if target_bytes is None else -(-length * 10 // (target_bytes * 11))


def _cut(segment: Segment, index: _native.OffsetIndex, offset: int, end_position: int) -> _Cut:
    entry = segment.entry(offset, index)
    if entry is None or entry.position >= end_position:
        return (0, None)
    return (entry.position, (entry.before, entry.offset))
