"""Damaged batches whose records are there: only the header is wrong, or only the checksum."""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.healing.damaged_range import covered
from brokerless.healing.pieces import Piece
from brokerless.io import storage
from brokerless.log.segment import NO_END

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokerless.checking.finding import Finding
    from brokerless.healing.damaged_range import DamagedRange, State
    from brokerless.healing.pieces import Batch

# The most bytes of a suspect batch, because it is decoded in memory.
_MAX_BATCH = 64 << 20
_LENGTH_FROM, _MAGIC_AT, _CRC_AT, _CRC_FROM = 12, 16, 17, 21


def with_mended(
    pieces: list[Piece], ranges: list[DamagedRange], findings: Iterable[Finding]
) -> tuple[list[Piece], list[DamagedRange]]:
    """Add the batches that are sound once their magic is 2 and their length is right. No checksum covers these two."""
    pieces, ranges = list(pieces), list(ranges)
    for one in findings:
        if (
            one.position is not None
            and one.kind.subject == "batch"
            and one.code not in ("batch-payload", "batch-records", "batch-order")
        ):
            _add(pieces, ranges, one, _mended(one), "recovered")
    return pieces, ranges


def with_suspects(
    pieces: list[Piece], ranges: list[DamagedRange], findings: Iterable[Finding]
) -> tuple[list[Piece], list[DamagedRange]]:
    """Add the batches with a wrong checksum whose records can all be decoded, and give them a new checksum."""
    pieces, ranges = list(pieces), list(ranges)
    for one in findings:
        if one.code == "batch-crc" and one.next_position is not None:
            _add(pieces, ranges, one, _suspect(one), "suspect")
    return pieces, ranges


def _add(pieces: list[Piece], ranges: list[DamagedRange], finding: Finding, piece: Piece | None, state: State) -> None:
    """Add a piece that overlaps no other one, and give its offsets a state."""
    place = bisect_right(pieces, piece.first_offset, key=lambda other: other.first_offset) if piece else 0
    if piece is None or (place and pieces[place - 1].next_offset > piece.first_offset):
        return
    if place < len(pieces) and pieces[place].first_offset < piece.next_offset:
        return
    pieces.insert(place, piece)
    # A log may start inside a batch.
    at = max(0, bisect_right(ranges, piece.first_offset, key=lambda other: other.start_offset) - 1)
    ranges[at : at + 1] = covered(ranges[at : at + 1], [piece], state, finding.path, finding)


def _content(finding: Finding) -> bytes | None:
    """Return the bytes from a finding to the next batch, or to the end of the file; None if there are too many."""
    position = finding.position or 0
    with storage.File(finding.path) as file:
        end = file.size() if finding.next_position is None else finding.next_position
        return file.read(position, end - position) if 0 < end - position <= _MAX_BATCH else None


def _mended(finding: Finding) -> Piece | None:
    content = _content(finding)
    if content is None or len(content) < _native.BATCH_OVERHEAD:
        return None
    header = struct.pack(">q i", *struct.unpack_from(">q", content), len(content) - _LENGTH_FROM)
    mended = header + content[_LENGTH_FROM:_MAGIC_AT] + b"\2" + content[_MAGIC_AT + 1 :]
    batch = None if mended == content else _decoded(mended, finding, check_crcs=True)
    if batch is None:
        return None
    first, following = batch["base_offset"], batch["last_offset"] + 1
    position = finding.position or 0
    return Piece(finding.path, position, position + len(mended), first, following, content=mended, verb="mend")


def _suspect(finding: Finding) -> Piece | None:
    content = _content(finding)
    batch = None if content is None else _decoded(content, finding, check_crcs=False)
    if content is None or batch is None:
        return None
    position = finding.position or 0
    seal = struct.pack(">I", _native.crc32c(content[_CRC_FROM:]))
    patches = ((position + _CRC_AT, seal),)
    end, following = position + len(content), batch["last_offset"] + 1
    return Piece(finding.path, position, end, batch["base_offset"], following, patches, verb="reseal")


def _decoded(content: bytes, finding: Finding, *, check_crcs: bool) -> Batch | None:
    """Return the header of a batch of magic 2 within the finding's offsets if all its records can be decoded."""
    position = finding.position or 0
    try:
        batches, _ = _native.scan(content, position)
        if batches.num_rows != 1 or batches["size"][0].as_py() != len(content) or batches["magic"][0].as_py() != 2:
            return None
        batch: Batch = batches.to_pylist()[0]
        order = (finding.start_offset or 0, NO_END if finding.end_offset is None else finding.end_offset)
        decoder = _native.Decoder(["offset"], check_crcs=check_crcs, order=order)
        count = 0
        consumed = 0
        while not consumed:
            rows, consumed = decoder.decode(content, position)
            count += 0 if rows is None else rows.num_rows
            if rows is None and not consumed:
                return None
    except (CorruptRecordError, UnsupportedFormatError):
        return None
    return batch if batch["is_control"] or count == batch["records_count"] else None
