"""The records around other records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from brokerless.log.read_options import Plannable

# By how much a read goes back further, if it has found too few records.
_FURTHER = 8


class Read(Protocol):
    """Reads the records of a log from one offset to another, or to the end of a read."""

    def __call__(
        self, log: Plannable, start_offset: int, end_offset: int | None, *, limit: int | None = None
    ) -> pa.RecordBatch: ...


class Surroundings:
    """Adds to records those around them.

    Args:
        logs: the logs of the records.
        read: reads records of a log.
        count: the number of records before and after each one.

    Raises:
        ValueError: two logs have the same topic and partition.
    """

    def __init__(self, logs: Sequence[Plannable], read: Read, count: int) -> None:
        self._logs = {(log.topic, log.partition): log for log in logs}
        if len(self._logs) < len(logs):
            raise ValueError("the records around a match are read by topic and partition, which two logs here share")
        self._read, self._count = read, count

    def add(self, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, bool]]:
        """Yield rows, which ascend in each log, and those around them. The bool is true for the given ones.

        A record that is around several of them is yielded once.
        """
        log: Plannable | None = None
        shown_to = 0
        for given in _single(rows):
            topic, partition, offset = (given[name][0].as_py() for name in ("topic", "partition", "offset"))
            of_row = self._logs[topic, partition]
            if log is not None:
                after = self._after(log, shown_to, offset if of_row is log else None)
                yield after, False
                shown_to = _end(after, shown_to)
            if of_row is not log:
                log, shown_to = of_row, of_row.local_log_start_offset
            yield self._before(log, shown_to, offset), False
            yield given, True
            shown_to = offset + 1
        if log is not None:
            yield self._after(log, shown_to, None), False

    def _after(self, log: Plannable, start: int, end: int | None) -> pa.RecordBatch:
        return self._read(log, start, end, limit=self._count)

    def _before(self, log: Plannable, floor: int, end: int) -> pa.RecordBatch:
        """Return the last records before an offset. Offsets may be missing, so the first look may be too short."""
        length = self._count
        while True:
            start = max(floor, end - length)
            rows = self._read(log, start, end)
            if rows.num_rows >= self._count or start == floor:
                return rows.slice(max(0, rows.num_rows - self._count))
            length *= _FURTHER


def _single(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        for row in range(batch.num_rows):
            yield batch.slice(row, 1)


def _end(rows: pa.RecordBatch, otherwise: int) -> int:
    """Return the offset after the last row."""
    return int(rows["offset"][rows.num_rows - 1].as_py()) + 1 if rows.num_rows else otherwise
