"""`Piece`: whole batches of a file; and functions that find the sound pieces of a log from the findings of a check."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from brokerless import _native
from brokerless.errors import CorruptRecordError
from brokerless.io import storage
from brokerless.io.file_window import is_zero_from
from brokerless.log.segment import NO_END, whole_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from brokerless.checking.finding import Finding
    from brokerless.log.log import Log
    from brokerless.log.segment import Segment

# The largest batch that the encoder builds.
_MAX_BATCH = (1 << 31) - 1


class Piece(NamedTuple):
    """Whole batches of a file, which hold the offsets [first_offset, next_offset).

    Attributes:
        path: the file.
        position: the byte position where the batches begin.
        end_position: the byte position where the batches end.
        first_offset: the first offset; for messages of magic 0 and 1, the lowest possible one.
        next_offset: the offset after the last batch.
        patches: new bytes, each with the position in the file of the bytes that they replace. Patches outside the piece
            are for other pieces.
        content: the bytes themselves, if they differ from those in the file.
        verb: "keep"; "fill" (from another replica); "mend" (with another magic and length in the header); "reseal"
            (with a new checksum); "trim" (rebuilt without records that another batch has); or "mark" (a new marker in
            the place of a lost ABORT marker).
    """

    path: str
    position: int
    end_position: int
    first_offset: int
    next_offset: int
    patches: tuple[tuple[int, bytes], ...] = ()
    content: bytes = b""
    verb: str = "keep"

    def __str__(self) -> str:
        last = self.next_offset - 1
        offsets = f"offsets {self.first_offset} to {last}" if last > self.first_offset else f"offset {last}"
        source = f" from {self.path}" if self.verb == "fill" else ""
        # A new checksum is a patch, too.
        epochs = len(self.own_patches) - (self.verb == "reseal")
        restamped = f" with another leader epoch in {epochs} batch{'es' * (epochs > 1)}" if epochs else ""
        return f"{self.verb} {offsets}{source}{restamped}"

    @property
    def own_patches(self) -> list[tuple[int, bytes]]:
        """The patches that lie inside the piece."""
        return [patch for patch in self.patches if self.position <= patch[0] < self.end_position]

    @property
    def is_file(self) -> bool:
        """True if the piece is a whole file, unchanged."""
        is_plain = not (self.patches or self.content) and self.position == 0
        return is_plain and self.end_position == storage.size(self.path)


class Gaps:
    """The missing offsets that divide a log into pieces. Offsets that compaction removed do not divide the log.

    Args:
        ranges: the ranges of offsets, ascending; None if all missing offsets are gaps.
    """

    def __init__(self, ranges: Sequence[tuple[int, int]] | None) -> None:
        self._ranges = ranges
        self._ends = [end for _, end in ranges or ()]

    @property
    def can_be(self) -> bool:
        """True if gaps are possible."""
        return self._ranges is None or bool(self._ranges)

    def between(self, start: int, end: int) -> bool:
        """Return whether missing offsets [start, end) are a gap."""
        if self._ranges is None or start >= end:
            return start < end
        place = bisect_right(self._ends, start)
        return place < len(self._ends) and self._ranges[place][0] < end


def is_damage(finding: Finding) -> bool:
    """Return whether the bytes at a finding's position are not a sound batch."""
    return finding.kind.subject == "batch"


def sound_pieces(log: Log, findings: Iterable[Finding], gaps: Gaps) -> list[Piece]:
    """Return the bytes of each segment outside the damaged ranges, with their offsets.

    Args:
        log: the log.
        findings: the findings of a deep check.
        gaps: the missing offsets that end a piece.
    """
    damaged: dict[str, list[tuple[int, int]]] = {}
    for one in findings:
        if is_damage(one) and one.position is not None:
            end = NO_END if one.next_position is None else one.next_position
            damaged.setdefault(one.path, []).append((one.position, end))
    pieces: list[Piece] = []
    for segment in log.segments:
        with segment.open() as file:
            size = file.size()
            position = 0
            for start, end in [*sorted(damaged.get(segment.path, [])), (size, size)]:
                if position < start:
                    pieces += _pieces(segment, file, position, min(start, size), gaps)
                position = max(position, min(end, size))
    for one in findings:
        if one.code == "offset-overlap" and one.position is not None and one.start_offset is not None:
            pieces = [
                part for piece in pieces for part in _without_overlap(piece, one.path, one.position, one.start_offset)
            ]
    return pieces


def _without_overlap(piece: Piece, path: str, position: int, offset: int) -> Iterator[Piece]:
    """Yield a piece in parts. The batch at `position` is rebuilt from its records at `offset` and above."""
    if piece.content or piece.path != path or not piece.position <= position < piece.end_position:
        yield piece
        return
    batch = next(batch for batch in piece_batches(piece) if batch["position"] == position)
    end, next_offset = position + batch["size"], batch["last_offset"] + 1
    if position > piece.position:
        yield piece._replace(end_position=position, next_offset=offset)
    yield Piece(path, position, end, offset, next_offset, content=_made_anew(path, batch, offset), verb="trim")
    if end < piece.end_position:
        yield piece._replace(position=end, first_offset=next_offset)


def _made_anew(path: str, batch: Batch, offset: int) -> bytes:
    """Return a new batch of format 2 with the records of a batch at `offset` and above."""
    with storage.File(path) as file:
        content = file.read(batch["position"], batch["size"])
    decoder = _native.Decoder(["offset", "timestamp", "key", "value", "headers"], start_offset=offset)
    is_appended = batch["timestamp_type"] == "LogAppendTime"
    sequence = batch["base_sequence"]
    encoder = _native.Encoder(
        compression=batch["compression"],
        batch_size=_MAX_BATCH,
        keep_offsets=True,
        timestamp_type=batch["timestamp_type"],
        log_append_time=batch["max_timestamp"] if is_appended else -1,
        partition_leader_epoch=batch["partition_leader_epoch"],
        producer_id=batch["producer_id"],
        producer_epoch=batch["producer_epoch"],
        # Sequence numbers wrap around from 2147483647 to 0.
        base_sequence=sequence if sequence < 0 else (sequence + offset - batch["base_offset"]) % (1 << 31),
        is_transactional=batch["is_transactional"],
    )
    made, consumed = bytearray(), 0
    while not consumed:
        rows, consumed = decoder.decode(content)
        if rows is not None:
            made += encoder.encode(rows, timestamp=batch["max_timestamp"])
    return bytes(made)


def _pieces(segment: Segment, file: storage.File, position: int, end: int, gaps: Gaps) -> Iterator[Piece]:
    """Yield whole batches, as one piece per stretch without a gap."""
    piece: Piece | None = None
    for batches, done in _whole_batches(file, position, end):
        first, last = batches["base_offset"], batches["last_offset"]
        skips: Any = pc.greater(first[1:], pc.add(last[:-1], 1))
        rows: list[Any] = pc.indices_nonzero(pc.fill_null(skips, False)).to_pylist() if gaps.can_be else []
        starts = [0, *(row + 1 for row in rows if gaps.between(last[row].as_py() + 1, first[row + 1].as_py()))]
        positions = [batches["position"][row].as_py() for row in starts]
        for row, start, following, stop in zip(
            starts, positions, [*starts[1:], batches.num_rows], [*positions[1:], done], strict=True
        ):
            base, next_offset = first[row].as_py(), last[following - 1].as_py() + 1
            if piece is not None and (base is None or not gaps.between(piece.next_offset, base)):
                piece = piece._replace(end_position=stop, next_offset=next_offset)
                continue
            if piece is not None:
                yield piece
            piece = Piece(segment.path, start, stop, segment.base_offset if base is None else base, next_offset)
    if piece is not None:
        yield piece


def _whole_batches(file: storage.File, position: int, end: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield as `whole_batches` does, but stop at the zeros of a preallocated file, which are not damage."""
    try:
        for batches, done in whole_batches(file, position, end):
            yield batches, done
            position = done
    except CorruptRecordError:
        if not is_zero_from(file, position):
            raise


Batch = dict[str, Any]
"""The fields of a batch's header."""


def piece_batches(piece: Piece) -> Iterator[Batch]:
    """Yield the headers of a piece's batches; none if its content is not from a file."""
    if piece.content:
        return
    with storage.File(piece.path) as file:
        for batches, _ in whole_batches(file, piece.position, piece.end_position):
            yield from batches.to_pylist()


def first_batch(piece: Piece) -> Batch | None:
    return next(piece_batches(piece), None)


def last_batch(piece: Piece) -> Batch | None:
    return next(reversed(last_batches(piece)), None)


def last_batches(piece: Piece) -> list[Batch]:
    """Return the headers of a piece's last two batches, or of its only one; none if its content is not from a file."""
    last: list[Batch] = []
    if not piece.content:
        with storage.File(piece.path) as file:
            for batches, _ in whole_batches(file, piece.position, piece.end_position):
                last = [*last, *batches.slice(max(0, batches.num_rows - 2)).to_pylist()][-2:]
    return last


def divided(piece: Piece, offsets: Sequence[int]) -> Iterator[Piece]:
    """Yield the parts of a piece between ascending offsets: a batch at one of these offsets begins a new part."""
    low = bisect_right(offsets, piece.first_offset)
    cuts = offsets[low : bisect_left(offsets, piece.next_offset, low)]
    for batch in piece_batches(piece) if cuts else ():
        first = batch["last_offset"] if batch["base_offset"] is None else batch["base_offset"]
        place = bisect_right(cuts, first)
        if place and batch["position"] > piece.position:
            yield piece._replace(end_position=batch["position"], next_offset=max(piece.first_offset, cuts[place - 1]))
            piece = piece._replace(position=batch["position"], first_offset=first)
        cuts = cuts[place:]
    yield piece


def spans(path: str, batches: pa.RecordBatch, gaps: Gaps) -> Iterator[Piece]:
    """Yield one piece of another replica for each stretch of adjacent batches; see `joined`."""
    columns: list[list[Any]] = [
        batches[name].to_pylist() for name in ("position", "size", "base_offset", "last_offset")
    ]
    pieces: list[Piece] = []
    for position, size, first, last in zip(*columns, strict=True):
        # The first offset of a wrapper is inside it.
        known = (pieces[-1].next_offset if pieces else last) if first is None else first
        pieces.append(Piece(path, position, position + size, known, last + 1, verb="fill"))
    yield from joined(pieces, gaps)


def joined(pieces: Iterable[Piece], gaps: Gaps) -> list[Piece]:
    """Join pieces that are adjacent in a file, and neither overlap nor have a gap between them."""
    joined: list[Piece] = []
    for piece in pieces:
        before = joined[-1] if joined else None
        if before is None or before.path != piece.path or before.end_position != piece.position:
            joined.append(piece)
        elif before.next_offset <= piece.first_offset and not gaps.between(before.next_offset, piece.first_offset):
            joined[-1] = before._replace(end_position=piece.end_position, next_offset=piece.next_offset)
        else:
            joined.append(piece)
    return joined


def without_overlaps(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the pieces. If a piece begins below the end of the piece before it, its first batch is rebuilt."""
    end = 0
    for piece in pieces:
        batch = first_batch(piece) if piece.first_offset < end else None
        if batch is None or batch["magic"] < 2:
            yield piece
        else:
            yield from _without_overlap(piece, piece.path, piece.position, end)
        end = piece.next_offset
