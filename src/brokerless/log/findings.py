"""Damage in a segment, all of it: checksums, framing, offsets and every record are checked, and the walk goes on.

Where a bad batch is framed, the next one is behind it. Where the framing is lost, the next one is looked for byte by
byte: what has a right checksum, and offsets that fit. Such a search is given up where bytes are made to prolong it.

What a crash leaves is told from damage: at the end of the newest segment, with no good batch behind it, a broker cuts
it off when it starts after an unclean shutdown. Zeros there were preallocated, and nothing is wrong.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native, storage
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.log import files
from brokerless.log.segment import NO_END, Segment, cut_batch
from brokerless.log.window import SIZE, Window, batch_at, is_zero_from

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.storage import File

    Kind = Literal["damage", "order", "tail", "unsupported"]

# Headers are looked into only where they are asked for; keys and values need not be copied.
_COLUMNS = ("offset", "position", "headers")
# After damage so much is read at a time: more may be near.
_NEAR = 1 << 18
# A batch is looked for in so many bytes at a time, which overlap by what a header takes at most.
_MIN_BLOCK, _BLOCK, _MAX_HEADER = 1 << 14, 1 << 20, 61
# To find batches so many bytes of a segment are gone through in all, and so many for each byte that it has. Bytes can
# be made to look like a large batch at every place; each would be checksummed to its end.
_SEARCHED, _SEARCHED_PER_BYTE = 64 << 20, 8
# What a try costs however small the batch.
_TRY = 1 << 12
# Offsets of one segment are 32 bits above its base.
_SPAN = 1 << 31


class Finding(NamedTuple):
    """One place in a segment where something is wrong.

    Attributes:
        kind: "damage"; "tail": what a broker cuts off when it starts; "unsupported": legal Kafka that is not read here;
            "order": offsets that do not rise, or leave the segment's range: batches can be read, and not be found.
        path: the file.
        position: where the bad bytes start.
        base_offset: what stands there for one; None: not even that.
        next_position: where reading goes on; None: not in this file.
        start_offset: the first one that may be missing.
        end_offset: behind the last one that may be missing; None: not known, the log ends here.
        reason: in words.
    """

    kind: Kind
    path: str
    position: int
    base_offset: int | None
    next_position: int | None
    start_offset: int
    end_offset: int | None
    reason: str


def findings(segment: Segment, *, is_clean: bool) -> Iterator[Finding]:
    """Check all of a segment, and yield what is wrong with it, in the order of the file.

    Args:
        segment: of the log as it is now.
        is_clean: its log directory was shut down cleanly: then a broker cuts nothing off.

    >>> from brokerless.log.log import Log
    >>> [finding for segment in Log(SAMPLE).segments for finding in findings(segment, is_clean=True)]
    []
    """
    with segment.open() as file:
        walk = _Walk(segment, file)
        while walk.position < walk.end:
            try:
                yield from walk.go_on()
            except (CorruptRecordError, UnsupportedFormatError) as error:
                if segment.is_last and is_zero_from(file, walk.position):
                    return
                finding = walk.pass_over(error, is_clean=is_clean)
                yield finding
                if finding.next_position is None:
                    return
    # Where a cleaner has merged it with this one, or this one was written on, its offsets are here.
    if segment.lost is not None and walk.next_offset <= segment.lost:
        path = Segment(os.path.dirname(segment.path), segment.lost).path
        if _is_lost(path):
            reason = "the file is not here, and indexes of it are: a broker starts without what it held"
            yield Finding("damage", path, 0, None, None, segment.lost, segment.next_base_offset, reason)


def _is_lost(path: str) -> bool:
    """Tell whether there still are only indexes: a broker made the `.log`, or deleted all, while they were listed.

    It makes the file before the indexes, and renames it before them.
    """
    # in this order: nothing that a broker does in between looks like a loss
    stem = path.removesuffix("log")
    has_index = storage.exists(f"{stem}index") or storage.exists(f"{stem}timeindex")
    return has_index and not (storage.exists(path) or storage.exists(path + files.DELETED))


class _Place(NamedTuple):
    """Where a good batch is."""

    position: int
    base_offset: int


class _Walk:
    """A way through a segment from one good batch to the next.

    Attributes:
        position: up to here the file is good, or was passed over.
        end: where the file ends.
        next_offset: no good batch from here on has a lower one.
    """

    def __init__(self, segment: Segment, file: File) -> None:
        self._segment = segment
        self._file = file
        self.position = 0
        self.end = file.size()
        self.next_offset = segment.base_offset
        following = segment.next_base_offset
        self._limit = min(segment.base_offset + _SPAN, NO_END) if following is None else following
        self._length = SIZE
        self._budget = _SEARCHED + _SEARCHED_PER_BYTE * self.end
        # From where the last search was made, at which `next_offset`, and what it found.
        self._last_search: tuple[int, int, _Place | None] | None = None

    def go_on(self) -> Iterator[Finding]:
        """Check from `position` on, to the end or to what is bad, and yield where offsets do not fit.

        Raises:
            CorruptRecordError: what is at `position` is bad.
            UnsupportedFormatError: likewise.
        """
        decoder = _native.Decoder(_COLUMNS)
        window = Window(self._file, self.position, self.end, self._length)
        while self.position < self.end:
            rows, consumed = decoder.decode(window.data, self.position)
            if rows is None and not consumed:
                if not window.fill(decoder.needed):
                    raise cut_batch(self.position, self.end)
                continue
            found = [] if rows is None else list(self._of_records(rows))
            if consumed:
                batches, _ = _native.scan(window.data[:consumed], self.position)
                found += self._of_batches(batches)
                window.advance(consumed)
                self.position = window.position
            yield from sorted(found, key=lambda finding: finding.position)

    def _of_batches(self, batches: pa.RecordBatch) -> Iterator[Finding]:
        """Follow the offsets of batches, and yield those that do not fit."""
        fields = (batches[name].to_pylist() for name in ("position", "size", "base_offset", "last_offset"))
        for position, size, base_offset, last_offset in zip(*fields, strict=True):
            # The first offset of a wrapper is inside, and is not known where it is empty or too large.
            first = last_offset if base_offset is None else base_offset
            reason = None
            if last_offset >= self._limit:
                reason = f"offset {last_offset} is not below {self._limit}, where the segment has to end"
            elif first < self.next_offset:
                reason = f"offset {first} is below {self.next_offset}, where the segment goes on"
            if reason is not None:
                yield self._out_of_order(position, first, position + size, reason)
            if last_offset < self._limit:
                self.next_offset = last_offset + 1

    def _of_records(self, rows: pa.RecordBatch) -> Iterator[Finding]:
        """Yield the batches with records whose offsets do not rise."""
        offsets, positions = rows["offset"], rows["position"]
        is_wrong = pc.and_(pc.less_equal(offsets[1:], offsets[:-1]), pc.equal(positions[1:], positions[:-1]))
        if pc.any(is_wrong).as_py():
            columns = {"position": positions[1:], "offset": offsets[1:], "before": offsets[:-1]}
            wrong = pa.table(columns).filter(is_wrong).to_pylist()
            for first in {row["position"]: row for row in reversed(wrong)}.values():
                reason = f"record {first['offset']} is behind record {first['before']}"
                yield self._out_of_order(first["position"], first["offset"], first["position"], reason)

    def _out_of_order(self, position: int, offset: int, next_position: int, reason: str) -> Finding:
        # Nothing is lost: the batch is read.
        start = end = self.next_offset
        return Finding("order", self._segment.path, position, offset, next_position, start, end, reason)

    def pass_over(self, error: CorruptRecordError | UnsupportedFormatError, *, is_clean: bool) -> Finding:
        """Say what is bad at `position`, and move behind it."""
        position, start_offset = self.position, self.next_offset
        kind: Kind = "damage" if isinstance(error, CorruptRecordError) else "unsupported"
        reason = str(error.args[0])
        framed = error.next_position
        is_given_up = False
        if framed is not None and self._is_good(framed):
            next_good: int | None = framed
        else:
            found = self._search(position + 1)
            next_good, is_given_up = None if found is None else found.position, found is None and self._budget <= 0
        next_position = next_good if framed is None or framed >= self.end else framed
        if is_given_up:
            if next_position is None:
                reason += "; the search for a good batch behind it was given up: too much there looks like one"
        elif next_good is None and self._segment.is_last and not is_clean:
            kind, next_position = "tail", None
        self._length = _NEAR
        end_offset = self._segment.next_base_offset
        if next_position is not None:
            following = batch_at(self._file, next_position)
            base_offset = None if following is None else following["base_offset"]
            # Where the next batch is bad as well, what it takes away is its own finding.
            end_offset = start_offset if base_offset is None else max(start_offset, min(base_offset, self._limit))
            self.position, self.next_offset = next_position, end_offset
        path, base_offset = self._segment.path, error.base_offset
        return Finding(kind, path, position, base_offset, next_position, start_offset, end_offset, reason)

    def _search(self, position: int) -> _Place | None:
        """Find the first good batch that starts at or behind `position`, unless the last search tells.

        Where many batches in a row are bad, each asks for the same one.
        """
        if self._last_search is not None:
            start, next_offset, found = self._last_search
            # A good batch in between would have been found, if offsets as low as now were good then.
            if start <= position and next_offset <= self.next_offset:
                if found is None:
                    return None
                if position <= found.position:
                    if found.base_offset >= self.next_offset:
                        return found
                    position = found.position + 1
        found = self._find(position)
        if found is not None or self._budget > 0:
            self._last_search = (position, self.next_offset, found)
        return found

    def _find(self, position: int) -> _Place | None:
        """Find the first good batch that starts at or behind `position`; None, too, where the budget is used up."""
        length = _MIN_BLOCK
        while self._budget > 0:
            block = memoryview(self._file.read(position, length))
            at = position
            while place := _native.find_batch(block[at - position :], at, self.end, self.next_offset, self._limit):
                at, size = place
                self._budget -= size + _TRY
                base_offset = self._good_base_offset(self._batch(at, size))
                if base_offset is not None:
                    return _Place(at, base_offset)
                if self._budget <= 0:
                    return None
                at += 1
            if len(block) < length:
                return None
            self._budget -= length
            position = max(at, position + length - _MAX_HEADER + 1)
            length = min(4 * length, _BLOCK)
        return None

    def _batch(self, position: int, size: int) -> dict[str, Any] | None:
        """Return what `batch_at` does, where the size is known."""
        try:
            batches, consumed = _native.scan(self._file.read(position, size), position, check_crcs=True)
        except (CorruptRecordError, UnsupportedFormatError):
            return None
        return batches.slice(0, 1).to_pylist()[0] if consumed else None

    def _is_good(self, position: int) -> bool:
        """Tell whether there is a batch whose checksum is right and whose offsets fit."""
        return self._good_base_offset(batch_at(self._file, position, check_crcs=True)) is not None

    def _good_base_offset(self, batch: dict[str, Any] | None) -> int | None:
        """Return the base offset of a batch whose checksum is right and whose offsets fit."""
        if batch is None or not batch["is_valid"] or batch["base_offset"] is None:
            return None
        fits = self.next_offset <= batch["base_offset"] <= batch["last_offset"] < self._limit
        return int(batch["base_offset"]) if fits else None
