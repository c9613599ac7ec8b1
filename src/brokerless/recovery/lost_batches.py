"""What recovery takes off a log: the bytes from damage on, and the sound batches among them.

A broker that starts after a crash cuts a log at its first invalid batch, whatever follows. A batch that a crash has cut
short was never complete, and nothing is lost with it. Sound batches behind damage are another matter: they can still be
read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from brokerless.io.file_window import is_zero_from
from brokerless.log.damage import Run, survey
from brokerless.log.segment import whole_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.recovery.directory_plan import View

_COLUMNS = ("base_offset", "last_offset", "records_count", "is_control")


class Cut(NamedTuple):
    """What is taken off the end of one file.

    Attributes:
        name: the file's.
        position: from where on.
        size: how many bytes.
        why: in words.
        is_damage: there is more than the beginning of a batch that was never complete.
        batches: sound ones in it.
        records: in these, without markers.
        offsets: the first and the last of these; None: there are none.
    """

    name: str
    position: int
    size: int
    why: str
    is_damage: bool
    batches: int = 0
    records: int = 0
    offsets: tuple[int, int] | None = None

    def __str__(self) -> str:
        said = f"{self.name} from {self.position} on ({self.size} bytes: {self.why})"
        if self.offsets is None:
            return said
        first, last = self.offsets
        return f"{said}, with {self.records} records of sound batches, offsets {first} to {last}"


def cut(name: str, file: View, position: int, why: str, *, base_offset: int, start_offset: int, is_damage: bool) -> Cut:
    """Look at what is taken off a file.

    Args:
        name: the file's.
        file: all of it, open.
        position: from where on.
        why: in words.
        base_offset: the segment's.
        start_offset: the log start offset; batches below it are deleted already.
        is_damage: it is known to be damage. What seems to be the beginning of a batch is damage, too, where a sound one
            is behind it: then its length is wrong.
    """
    found = Cut(name, position, file.size() - position, why, is_damage)
    if is_zero_from(file, position):
        return found._replace(is_damage=False)
    lost = [batch for batch in _sound(name, file, position, base_offset) if batch.last_offset >= start_offset]
    return found._replace(
        is_damage=is_damage or bool(lost),
        batches=len(lost),
        records=sum(batch.records for batch in lost),
        offsets=(lost[0].first_offset, lost[-1].last_offset) if lost else None,
    )


class _Sound(NamedTuple):
    first_offset: int
    last_offset: int
    records: int


def _sound(name: str, file: View, position: int, base_offset: int) -> Iterator[_Sound]:
    """Yield the batches behind a position that a read which skips damage finds."""
    next_offset = base_offset
    for run in survey(file, name, base_offset, None, file.size()).parts:
        if not isinstance(run, Run) or run.end_position <= position:
            continue
        for rows, _ in whole_batches(file, max(position, run.position), run.end_position):
            columns = (rows[column].to_pylist() for column in _COLUMNS)
            for base, last, count, is_control in zip(*columns, strict=True):
                # A wrapper tells its first offset only inside: it is not below the end of the one before.
                first = next_offset if base is None else base
                yield _Sound(first, last, 0 if is_control else last - first + 1 if count is None else count)
                next_offset = last + 1
