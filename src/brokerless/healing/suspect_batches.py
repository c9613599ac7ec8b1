"""Batches with a wrong checksum whose records can all be decoded."""

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
    from brokerless.healing.damaged_range import DamagedRange

# The most bytes of a suspect batch, because it is decoded in memory.
_MAX_BATCH = 64 << 20
_CRC_AT, _CRC_FROM = 17, 21


def with_suspects(
    pieces: list[Piece], ranges: list[DamagedRange], findings: Iterable[Finding]
) -> tuple[list[Piece], list[DamagedRange]]:
    """Add the batches with a wrong checksum whose records can all be decoded, and give them a new checksum."""
    pieces, ranges = list(pieces), list(ranges)
    for one in findings:
        if one.code != "batch-crc" or one.position is None or one.next_position is None:
            continue
        piece = _suspect(one)
        place = bisect_right(pieces, piece.first_offset, key=lambda other: other.first_offset) if piece else 0
        if piece is None or (place and pieces[place - 1].next_offset > piece.first_offset):
            continue
        if place < len(pieces) and pieces[place].first_offset < piece.next_offset:
            continue
        pieces.insert(place, piece)
        # A log may start inside a batch.
        at = max(0, bisect_right(ranges, piece.first_offset, key=lambda other: other.start_offset) - 1)
        ranges[at : at + 1] = covered(ranges[at : at + 1], [piece], "suspect", one.path, one)
    return pieces, ranges


def _suspect(finding: Finding) -> Piece | None:
    position, end = finding.position or 0, finding.next_position or 0
    if not 0 < end - position <= _MAX_BATCH:
        return None
    with storage.File(finding.path) as file:
        content = file.read(position, end - position)
    try:
        batches, _ = _native.scan(content, position)
        if batches.num_rows != 1 or batches["size"][0].as_py() != len(content) or batches["magic"][0].as_py() != 2:
            return None
        batch = batches.to_pylist()[0]
        order = (finding.start_offset or 0, NO_END if finding.end_offset is None else finding.end_offset)
        decoder = _native.Decoder(["offset"], check_crcs=False, order=order)
        count = 0
        consumed = 0
        while not consumed:
            rows, consumed = decoder.decode(content, position)
            count += 0 if rows is None else rows.num_rows
            if rows is None and not consumed:
                return None
    except (CorruptRecordError, UnsupportedFormatError):
        return None
    if count != batch["records_count"] and not batch["is_control"]:
        return None
    seal = struct.pack(">I", _native.crc32c(content[_CRC_FROM:]))
    patches = ((position + _CRC_AT, seal),)
    return Piece(finding.path, position, end, batch["base_offset"], batch["last_offset"] + 1, patches, verb="reseal")
