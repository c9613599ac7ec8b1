"""Which records a log should have, by the files around it: checkpoints, producer snapshots, indexes without a `.log`.

After a clean shutdown all of them speak of the same log, so records are lost where it ends earlier. After a crash, or
in a copy of a running broker's files, they may be ahead of what was written. A broker goes by none of them: it serves
what there is, and writes them anew.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from brokerless.errors import CorruptRecordError
from brokerless.layout import checkpoints
from brokerless.layout.file_names import LOG, SNAPSHOT, segment_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.log.log import Log


LOST = "the file is not here, and indexes of it are: a broker starts without what it held"


class Promise(NamedTuple):
    """An end offset that files tell of, and where the log ends.

    `sources` are these files with what they say. `is_certain`: after a clean shutdown, so that records are lost.
    """

    name: str
    end_offset: int
    offset: int
    sources: tuple[str, ...]
    is_certain: bool

    @property
    def missing(self) -> str:
        """Say which offsets that makes missing, and by which files."""
        return (
            f"{self.name} ends at {self.end_offset}; {', '.join(self.sources)}: offsets {self.end_offset} to "
            f"{self.offset - 1} are lost"
        )

    def __str__(self) -> str:
        if self.is_certain:
            return f"{self.missing}, and on_corrupt=skip reads the others"
        then = "after a crash, or in a copy of a running broker's files, they may be ahead of the log"
        return f"{self.name} ends at {self.end_offset}; {', '.join(self.sources)}: {then}"


class Promises(NamedTuple):
    """The end offsets that files tell of; None, or none: they do not."""

    recovery_point: int | None
    high_watermark: int | None
    snapshots: Sequence[int]
    epoch_starts: Sequence[int]

    def above(self, end_offset: int, *, name: str, is_certain: bool) -> Promise | None:
        """Return the highest of them, None if a log that ends there does not end below it."""
        found = [(offset, source) for offset, source in self._ends() if offset > end_offset]
        if not found:
            return None
        sources = tuple(f"{source} {'say' if source.endswith('s') else 'says'} {offset}" for offset, source in found)
        return Promise(name, end_offset, max(offset for offset, _ in found), sources, is_certain)

    @property
    def agreed_end(self) -> int | None:
        """Where a log ends after a clean shutdown, if its recovery point and newest snapshot say the same; else None.

        A broker that shuts down writes both when it closes the log.
        """
        newest = self.snapshots[-1] if self.snapshots else None
        return newest if newest == self.recovery_point else None

    def _ends(self) -> Iterator[tuple[int, str]]:
        """Yield end offsets, and which file tells of each."""
        for offset, name in (
            (self.recovery_point, checkpoints.RECOVERY_POINTS),
            (self.high_watermark, checkpoints.HIGH_WATERMARKS),
        ):
            if offset is not None:
                yield offset, name
        if self.snapshots:
            yield self.snapshots[-1], segment_file(self.snapshots[-1], SNAPSHOT)
        if self.epoch_starts:
            yield self.epoch_starts[-1], checkpoints.LEADER_EPOCHS


def promised_end(log: Log) -> Promise | None:
    """Return the highest end offset that the files of a log at rest tell of, None if it does not end below it."""
    # A broker that stops writes the checkpoints before it lets go of the lock.
    if log.root.is_locked:
        return None
    is_clean = log.root.is_clean
    starts: list[int] = []
    # A read needs no epochs.
    with suppress(CorruptRecordError):
        starts = [epoch.start_offset for epoch in log.leader_epochs]
    promises = Promises(log.recovery_point, log.high_watermark, log.snapshots, starts)
    return promises.above(log.log_end_offset, name=log.name, is_certain=is_clean)


def agreed_end(log: Log) -> int | None:
    """Return where a log at rest ends by its files, if they are at one about that; see `Promises.agreed_end`."""
    if log.root.is_locked or not log.root.is_clean:
        return None
    return Promises(log.recovery_point, log.high_watermark, log.snapshots, ()).agreed_end


def above_in_words(end_offset: int, agreed: int) -> str:
    """Explain that a log ends above the offset at which it was closed."""
    return (
        f"its last batch ends at {end_offset}, and the log at {agreed}, by {checkpoints.RECOVERY_POINTS} and "
        f"{segment_file(agreed, SNAPSHOT)}: the batch was moved"
    )


def cut_short_in_words(size: int, entry: tuple[int, int]) -> str:
    """Say what the last entry of an offset index, an offset and a position, tells of behind the end of the `.log`.

    >>> cut_short_in_words(80, (5, 160))
    'the file ends at 80, and its index has offset 5 at 160: a broker starts without what was behind the end'
    """
    offset, position = entry
    return (
        f"the file ends at {size}, and its index has offset {offset} at {position}: a broker starts without what was "
        "behind the end"
    )


def lost_in_words(base_offset: int, following: int | None) -> str:
    """Say what is missing with a `.log`; `following`: the base offset of the segment behind it.

    >>> lost_in_words(4, 8)
    'offsets 4 to 7 are lost: 00000000000000000004.log is not here, and indexes of it are'
    """
    lost = (
        f"all from offset {base_offset} on is" if following is None else f"offsets {base_offset} to {following - 1} are"
    )
    return f"{lost} lost: {segment_file(base_offset, LOG)} is not here, and indexes of it are"
