"""The bytes that recovery cuts off a log, from the damage on, and the sound batches among them.

After a crash, a starting broker cuts a log at its first invalid batch, even if valid batches follow. If the crash
interrupted the write of that batch, nothing is lost. But sound batches after damage are lost, although they can still
be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from brokerless.io.file_window import is_zero_from
from brokerless.log.defect import Defect
from brokerless.log.segment import whole_batches
from brokerless.log.survey import Run, survey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.recovery.file_changes import View

_COLUMNS = ("base_offset", "last_offset", "records_count", "is_control")


class Cut(NamedTuple):
    """The end of one file that recovery cuts off.

    Attributes:
        name: the file's name.
        position: the position of the cut.
        size: the number of bytes cut off.
        why: the reason, in words.
        is_damage: True if the bytes are neither only zeros nor only an incomplete batch.
        batches: the number of sound batches in the bytes.
        records: the number of records in these batches, without markers.
        offsets: the first and the last offset of these batches; None without batches.
        ends_damaged: whether damage follows these batches, so that they do not show where the log ended.
    """

    name: str
    position: int
    size: int
    why: str
    is_damage: bool
    batches: int = 0
    records: int = 0
    offsets: tuple[int, int] | None = None
    ends_damaged: bool = False

    def __str__(self) -> str:
        cut_off = f"{self.name} from byte {self.position} on ({self.size} bytes: {self.why})"
        if self.offsets is None:
            return cut_off
        first, last = self.offsets
        return f"{cut_off}, with {self.records} records of sound batches, offsets {first} to {last}"

    def to_dict(self, directory: str) -> dict[str, object]:
        """Return the cut of a file in a directory as a dict for JSON. Sound batches have the offsets [start, end)."""
        first, last = (None, None) if self.offsets is None else self.offsets
        return {
            "path": f"{directory}/{self.name}",
            "position": self.position,
            "size": self.size,
            "batches": self.batches,
            "records": self.records,
            "start_offset": first,
            "end_offset": None if last is None else last + 1,
            "message": self.why,
        }


def cut(name: str, file: View, position: int, why: str, *, base_offset: int, start_offset: int, is_damage: bool) -> Cut:
    """Describe what the cut of a file loses.

    Args:
        name: the file's name.
        file: the whole file, open.
        position: the position of the cut.
        why: the reason, in words.
        base_offset: the segment's base offset.
        start_offset: the log start offset; batches below it are deleted already.
        is_damage: True if the bytes are certainly damaged. An incomplete batch with a sound batch after it is damaged,
            too: its length must be wrong.
    """
    found = Cut(name, position, file.size() - position, why, is_damage)
    if is_zero_from(file, position):
        return found._replace(is_damage=False)
    parts = survey(file, name, base_offset, None, file.size()).parts
    last = parts[-1] if parts else None
    lost = [batch for batch in _sound(parts, file, position, base_offset) if batch.last_offset >= start_offset]
    return found._replace(
        is_damage=is_damage or bool(lost),
        batches=len(lost),
        records=sum(batch.records for batch in lost),
        offsets=(lost[0].first_offset, lost[-1].last_offset) if lost else None,
        ends_damaged=isinstance(last, Defect) and not is_zero_from(file, last.position),
    )


class _Sound(NamedTuple):
    first_offset: int
    last_offset: int
    records: int


def _sound(parts: list[Run | Defect], file: View, position: int, base_offset: int) -> Iterator[_Sound]:
    """Yield the batches after a position that a read that skips damage would return."""
    next_offset = base_offset
    for run in parts:
        if not isinstance(run, Run) or run.end_position <= position:
            continue
        for rows, _ in whole_batches(file, max(position, run.position), run.end_position):
            columns = (rows[column].to_pylist() for column in _COLUMNS)
            for base, last, count, is_control in zip(*columns, strict=True):
                # The first offset of a wrapper is inside it. It is at least the end of the previous batch.
                first = next_offset if base is None else base
                yield _Sound(first, last, 0 if is_control else last - first + 1 if count is None else count)
                next_offset = last + 1
