"""Records and bytes in short intervals of time, for charts of logs that span less than a few days."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDTHS = (10, 100, 1000, 10_000, 60_000, 600_000)
"""The lengths of intervals in ms, from the shortest."""

# With more intervals, they become longer. A chart has at most 100 bars.
_MOST_INTERVALS = 200
# Runs shorter than this are counted by value.
_SHORT = 4
_FIRST_WAITING, _MOST_WAITING = 1 << 12, 1 << 16
# The year 2200, in ms; the sums by hour end there, too.
_LAST = 8766 * 230 * 3_600_000
_SCHEMA = pa.schema([("time", pa.int64()), ("records", pa.int64()), ("bytes", pa.int64())])
# `_SCHEMA.empty_table()` would import pandas, which Spark's workers need not have.
_EMPTY = pa.Table.from_batches([], _SCHEMA)


class Intervals:
    """Sums by short intervals, in bounded memory.

    The more intervals have records, the longer are the intervals. If there are too many intervals of the greatest
    length, there are no sums at all: sums by hour are as good then, and the rest of the read costs nothing more.

    Attributes:
        width: the length of the intervals in ms; None if there are no sums.
    """

    def __init__(self) -> None:
        self.width: int | None = WIDTHS[0]
        self._sums = _EMPTY
        # An Arrow aggregation has a high cost per call, so rows wait for others.
        self._times: list[Any] = []
        self._sizes: list[tuple[Any, Any]] = []
        self._others: list[pa.Table] = []
        self._waiting = 0

    def add_records(self, timestamps: Any) -> None:  # noqa: ANN401 - an array
        """Count records at their timestamps."""
        if self.width is not None and len(timestamps):
            self._times.append(timestamps)
            self._wait(len(timestamps))

    def add_batches(self, timestamps: Any, sizes: Any) -> None:  # noqa: ANN401 - arrays
        """Count the bytes of batches at their largest timestamps."""
        if self.width is not None:
            self._sizes.append((timestamps, sizes))
            self._wait(len(sizes))

    def merge(self, several: Iterable[Intervals]) -> Intervals:
        """Add other sums, and return these."""
        for other in several:
            sums = other.sums()
            self._widen(other.width)
            if self.width is not None:
                self._others.append(sums)
                self._wait(sums.num_rows)
        return self

    def sums(self) -> pa.Table:
        """Return a row with `time records bytes` for each interval; `time` is its start in ms."""
        self._combine()
        return self._sums

    def _wait(self, rows: int) -> None:
        self._waiting += rows
        # The first sums find a length that suits the topic.
        if self._waiting > (_MOST_WAITING if self._sums.num_rows else _FIRST_WAITING):
            self._combine()

    def _combine(self) -> None:
        if self.width is None or not self._waiting:
            return
        found = [self._sums, *self._others]
        if self._times:
            times = pa.chunked_array(self._times).cast(pa.int64())
            starts, counts = _runs(_starts(times.combine_chunks(), self.width))
            found.append(_table(starts, counts, _zeros(len(starts))))
        if self._sizes:
            times, sizes = (pa.chunked_array(one).cast(pa.int64()) for one in zip(*self._sizes, strict=True))
            found.append(_table(times, _zeros(len(sizes)), sizes))
        self._forget()
        self._sums = _added(pa.concat_tables(found), self.width)
        while self.width is not None and self._sums.num_rows > _MOST_INTERVALS:
            self._widen(next((width for width in WIDTHS if width > self.width), None))

    def _widen(self, width: int | None) -> None:
        if width is None:
            self.width, self._sums = None, _EMPTY
            self._forget()
        elif self.width is not None and width > self.width:
            self.width, self._sums = width, _added(self._sums, width)

    def _forget(self) -> None:
        self._times, self._sizes, self._others, self._waiting = [], [], [], 0


def _table(times: Any, records: Any, sizes: Any) -> pa.Table:  # noqa: ANN401 - arrays
    return pa.table([times, records, sizes], schema=_SCHEMA)


def _added(rows: pa.Table, width: int) -> pa.Table:
    """Return the sums of each interval of the years 1970 to 2200."""
    inside: Any = pc.and_(pc.greater_equal(rows["time"], pa.scalar(0)), pc.less_equal(rows["time"], pa.scalar(_LAST)))
    rows = rows.filter(inside)
    rows = rows.set_column(0, "time", _starts(rows["time"], width))
    grouped = rows.group_by("time").aggregate([("records", "sum"), ("bytes", "sum")])
    return pa.table([grouped[name] for name in ("time", "records_sum", "bytes_sum")], schema=_SCHEMA)


def _zeros(count: int) -> Any:  # noqa: ANN401 - an array
    return pa.repeat(pa.scalar(0, pa.int64()), count)


def _runs(starts: Any) -> tuple[Any, Any]:  # noqa: ANN401 - arrays
    """Return values with their counts: a row for each run of equal values, or for each value if runs are short."""
    encode: Any = vars(pc)["run_end_encode"]  # the stubs lack it
    runs = encode(starts)
    ends = runs.run_ends.cast(pa.int64())
    if _SHORT * len(ends) > len(starts):
        counts: Any = pc.value_counts(starts)
        return counts.field("values"), counts.field("counts")
    before = pa.concat_arrays([_zeros(1), ends.slice(0, len(ends) - 1)])
    return runs.values, pc.subtract(ends, before)


def _starts(times: Any, width: int) -> Any:  # noqa: ANN401 - arrays
    """Return the start of the interval of each time, which is at least 0 ms and at most in the year 2200.

    Other times become null or have any start outside of these years.
    """
    # Several times faster than the division of integers, and exact in these years.
    number = pc.floor(pc.divide(times.cast(pa.float64(), safe=False), pa.scalar(float(width))))
    return pc.multiply(number, pa.scalar(float(width))).cast(pa.int64(), safe=False)
