"""The comparison of two copies of a partition: equal, one a prefix of the other, or diverged from some offset on.

Batches are compared by their offsets, leader epochs and checksums, without decompression. Each checksum is verified, so
that equal checksums mean equal bytes. The core compares equal batches in lockstep. Where this comparison stops,
`differences.py` finds the reason.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Self

from brokerless import _native
from brokerless.arguments import some_or_all
from brokerless.checking.comparison import Comparison, Difference, Place
from brokerless.errors import located
from brokerless.io.runner import Threads
from brokerless.layout.file_names import is_chosen
from brokerless.log_dir.log_dirs import LogDirs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from brokerless.checking.comparison import Status
    from brokerless.io.storage import File
    from brokerless.log.log import Log


_MEMORY = 500_000_000


def compare(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    *,
    topics: Iterable[str] | None = None,
    records: bool = False,
    memory: int = _MEMORY,
) -> Iterator[Comparison]:
    """Compare the partitions of two directories, and yield one result per partition, by topic and partition.

    Args:
        first: a log directory, or a partition directory.
        second: another directory of the same kind, such as a replica, a backup or a copy.
        topics: only these topics; None: all topics of either directory.
        records: compare the latest record of each key instead of batches. Copies that were compacted at different times
            have only these records in common.
        memory: the approximate number of bytes for the latest records, in addition to one batch. If they take more, the
            logs are read several times, each time for a share of the keys.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory, or a topic is in neither directory.

    >>> import brokerless as bl
    >>> [(found.status, found.offset) for found in bl.compare(SAMPLE, SAMPLE)]
    [('equal', None)]
    """
    names = some_or_all("topics", topics)
    here, there = ({(log.topic, log.partition): log for log in _logs(LogDirs(path))} for path in (first, second))
    places = sorted({*here, *there}, key=lambda place: (str(place[0]), place[1] or 0))
    for name in names or ():
        if not any(is_chosen(topic, [name]) for topic, _ in places):
            raise ValueError(f"topic {name!r} is in neither directory")
    # With several threads, the latest records of several partitions would take memory at the same time.
    with Threads(1 if records else None) as threads:
        pairs = (
            (place, here.get(place), there.get(place))
            for place in places
            if names is None or is_chosen(place[0], names)
        )
        of_pair = partial(
            _compared, first=os.fspath(first), second=os.fspath(second), memory=memory if records else None
        )
        yield from threads.map(of_pair, pairs, ahead=2 * threads.jobs)


def _logs(directories: LogDirs) -> list[Log]:
    return directories.logs(all_replicas=True)


def _compared(
    pair: tuple[tuple[str | None, int | None], Log | None, Log | None], *, first: str, second: str, memory: int | None
) -> Comparison:
    (topic, partition), log, other = pair
    if log is None or other is None:
        status: Status = "missing" if log is None else "extra"
        there = log or other
        path, other_path = (None, there.path) if log is None and there else (there.path if there else None, None)
        has, lacks = (first, second) if other is None else (second, first)
        message = f"{has} has the partition, and {lacks} does not"
        return Comparison(topic, partition, status, path, other_path, message=message)
    start = max(_start(log), _start(other))
    found = _batches(log, other, start) if memory is None else _records(log, other, start, memory)
    return Comparison(
        topic=topic, partition=partition, path=log.path, other=other.path, start_offset=start, **found._asdict()
    )


def _start(log: Log) -> int:
    return max(log.log_start_offset, log.segments[0].base_offset if log.segments else log.log_start_offset)


def _records(log: Log, other: Log, start: int, memory: int) -> Difference:
    from brokerless.checking.differences import of_records  # noqa: PLC0415 - Arrow is slow to import

    return of_records(log, other, start, memory)


def _batches(log: Log, other: Log, start: int) -> Difference:
    """Compare batches: equal batches in lockstep, other batches as columns."""
    with _Lockstep(log, start) as one, _Lockstep(other, start) as two:
        end = start
        while one.cursor is not None and two.cursor is not None:
            equal = _native.skip_equal(one.cursor, two.cursor)
            end = end if equal is None else equal
            if not (one.pass_segment() | two.pass_segment()):
                break
        if one.is_done and two.is_done:
            return Difference("equal")
        from brokerless.checking.differences import of_batches  # noqa: PLC0415 - Arrow is slow to import

        return of_batches(log, other, start, (Place(*one.place), Place(*two.place)), end)


class _Lockstep:
    """One of two logs that are compared, segment by segment.

    Attributes:
        cursor: the place in the open segment; None at the end of the log, or at damage that ends it.
        is_done: whether all batches have been compared, and no damage follows them.
    """

    def __init__(self, log: Log, start: int) -> None:
        self._log, self._start = log, start
        self._number = -1
        self._file: File | None = None
        self._has_damage = False
        self.cursor: _native.BatchCursor | None = None
        self.is_done = False

    def __enter__(self) -> Self:
        self._open_next()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def place(self) -> tuple[int, int]:
        """The index of the segment, and the position of the next batch in it."""
        return self._number, 0 if self.cursor is None else self.cursor.position

    def pass_segment(self) -> bool:
        """Move to the next segment if the current one has ended, and return whether it had."""
        if self.cursor is None or not self.cursor.is_at_end or self._has_damage:
            return False
        self._open_next()
        return True

    def _open_next(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self.cursor = None
        while True:
            self._number += 1
            if self._number >= len(self._log.segments):
                self.is_done = True
                return
            segment = self._log.segments[self._number]
            if segment.end_offset(self._log.log_end_offset) > self._start:
                break
        self._file = segment.open()
        with located(segment.path):
            extent = segment.extent(self._file)
            self._has_damage = extent.damage is not None
            self.cursor = _native.BatchCursor(self._file, 0, extent.end_position, self._start)
