"""`DamagedRange`: an offset range that a repair could not copy unchanged, with its state in the result."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from brokerless.checking.finding import Finding
    from brokerless.healing.pieces import Piece
    from brokerless.log.log import Log

State = Literal["lost", "recovered", "suspect"]
"""The state of a range in the result.

- lost: no source has it.
- recovered: it is taken from another replica, or kept with its header mended.
- suspect: it is kept, although its checksum is wrong.
"""


@dataclass(frozen=True, kw_only=True)
class DamagedRange:
    """A range of offsets that damage affects.

    Attributes:
        topic: the topic.
        partition: the partition.
        state: "lost", "recovered" (taken from another replica, or kept with its header mended) or "suspect" (kept,
            although its checksum is wrong).
        start_offset: the first offset.
        end_offset: the offset after the last one; None if the range extends to the end of the log, which is not known.
        code: the code of the finding: see `brokerless finding CODE`.
        message: the fault, with the stored and the computed value.
        path: the damaged file.
        position: the byte position of the damage; None if the file lacks the records.
        source: for a recovered range, the file that holds its batches.
    """

    topic: str | None
    partition: int | None
    state: State
    start_offset: int
    end_offset: int | None
    code: str
    message: str
    path: str
    position: int | None = None
    source: str | None = None

    @classmethod
    def of(cls, log: Log, finding: Finding, state: State, **offsets: Any) -> DamagedRange:  # noqa: ANN401 - the two offsets
        """Return the range that a finding reports."""
        return cls(
            topic=log.topic,
            partition=log.partition,
            state=state,
            code=finding.code,
            message=finding.message,
            path=finding.path,
            position=finding.position,
            **offsets,
        )

    @classmethod
    def lost(
        cls, log: Log, code: str, message: str, path: str, position: int | None, offsets: tuple[int, int]
    ) -> DamagedRange:
        """Return a lost range [start, end) that no finding of a check reports."""
        start, end = offsets
        return cls(
            topic=log.topic,
            partition=log.partition,
            state="lost",
            start_offset=start,
            end_offset=end,
            code=code,
            message=message,
            path=path,
            position=position,
        )

    def meets(self, start: int, end: int | None) -> bool:
        """Return whether the range overlaps [start, end), or is empty and inside it. An `end` of None sets no limit."""
        is_before = end is not None and self.start_offset >= end
        is_behind = self.end_offset is not None and max(self.end_offset, self.start_offset + 1) <= start
        return not (is_before or is_behind)

    def __str__(self) -> str:
        offsets = f"from {self.start_offset} on"
        if self.end_offset is not None:
            offsets = f"offsets {self.start_offset} to {self.end_offset - 1}"
        if self.end_offset == self.start_offset + 1:
            offsets = f"offset {self.start_offset}"
        source = f" from {self.source}" if self.state == "recovered" else ""
        place = self.path if self.position is None else f"{self.path}:{self.position}"
        return f"{self.topic}-{self.partition}: {offsets} {self.state}{source}: {self.code} at {place}: {self.message}"

    def to_dict(self) -> dict[str, object]:
        """Return the range as a dict for JSON."""
        return asdict(self)


def covered(
    ranges: Iterable[DamagedRange],
    pieces: Sequence[Piece],
    state: State,
    source: str,
    finding: Finding | None = None,
) -> list[DamagedRange]:
    """Remove the offsets of new pieces from the lost ranges, and add ranges in another state for them."""
    found: list[DamagedRange] = []
    for one in ranges:
        inside = [piece for piece in pieces if one.state == "lost" and one.meets(piece.first_offset, piece.next_offset)]
        if not inside:
            found.append(one)
            continue
        start = one.start_offset
        for piece in inside:
            if start < piece.first_offset:
                found.append(replace(one, end_offset=piece.first_offset, start_offset=start))
            kept = replace(one, start_offset=max(start, piece.first_offset), end_offset=piece.next_offset, state=state)
            if finding is not None:
                kept = replace(kept, code=finding.code, message=finding.message, position=finding.position)
            found.append(replace(kept, source=source))
            start = piece.next_offset
        if one.end_offset is None or start < one.end_offset:
            found.append(replace(one, start_offset=start))
    return found
