"""`Defect`: a fault at one place of a log, and the offsets that it costs."""

from __future__ import annotations

from typing import NamedTuple


class Defect(NamedTuple):
    """A defect at one place of a log.

    Attributes:
        path: the damaged file, or the file that lacks the records.
        position: the byte position in that file.
        start_offset: the first offset that may be lost.
        end_offset: the offset after the last one that may be lost. Equal to `start_offset` if no offset is lost; None
            if the end of the log is not known.
        reason: the explanation.
        code: the code of the finding: see `brokerless finding CODE`.
        base_offset: the base offset field at that position; None if it cannot be read.
        next_position: the byte position at which the file is sound again; None if the rest of the file is lost.

    >>> str(Defect("orders-0/00000000000000000000.log", 78, 3, 5, "record batch crc mismatch", "batch-crc"))
    'lost: offsets 3 to 4 at orders-0/00000000000000000000.log:78: record batch crc mismatch'
    """

    path: str
    position: int
    start_offset: int
    end_offset: int | None
    reason: str
    code: str
    base_offset: int | None = None
    next_position: int | None = None

    def __str__(self) -> str:
        return f"{lost_in_words(self.start_offset, self.end_offset)} at {self.path}:{self.position}: {self.reason}"


def lost_in_words(start_offset: int, end_offset: int | None) -> str:
    """Return a phrase for the offsets that may be lost. For the arguments see `Defect`.

    >>> lost_in_words(3, 5)
    'lost: offsets 3 to 4'
    """
    if end_offset is None:
        return f"lost: offset {start_offset} and all later ones"
    return f"lost: offsets {start_offset} to {end_offset - 1}" if end_offset > start_offset else "lost: no offset"
