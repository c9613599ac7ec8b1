"""The lag of groups over time: in each interval, the sum over partitions of the highest lag at a commit."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.metadata.schema import TIME, schema

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA = schema(group=pa.string(), time=TIME, lag=pa.int64())
COLUMNS = ("group", "topic", "partition", "time", "lag")
"""The columns of the rows of a `LagOverTime`: `lag` at `time`, in ms."""

_EMPTY = schema(
    group=pa.string(), topic=pa.string(), partition=pa.int32(), time=pa.int64(), lag=pa.int64()
).empty_table()
_GROUPED = ["group", "topic", "partition", "time"]
_MOST_INTERVALS = 200
# More intervals than this are not kept until the range of all commits is known.
_MOST_KEPT = 4096
# Above this, intervals become longer.
_MOST_ROWS = 1 << 20
_WAITING = 64
# The years 2010 and 2200, in ms.
_FIRST, _LAST = 1_262_304_000_000, 7_258_118_400_000
# Sums of such lags over all partitions fit into 64 bits.
_MOST_LAG = 1 << 44
_SECOND = 1000


class LagOverTime:
    """The lag of groups over time, in bounded memory. The more commits there are, the longer are the intervals.

    Args:
        width: the shortest interval, in ms.
    """

    def __init__(self, width: int = _SECOND) -> None:
        self._width = width
        self._waiting: list[pa.Table] = []

    def push(self, commits: pa.RecordBatch) -> None:
        """Add commits: a batch with the columns of `brokerless.commits`. Commits without a known lag are ignored."""
        known: Any = pc.and_(pc.is_valid(commits["lag_then"]), pc.is_valid(commits["commit_time"]))
        kept = commits.filter(known)
        times: Any = kept["commit_time"].cast(pa.int64())
        columns = [kept["group"], kept["topic"], kept["partition"], times, bounded(kept["lag_then"])]
        rows = pa.table(columns, list(COLUMNS))
        # Commits have the coordinator's time. A time that no broker can have had would stretch all intervals.
        is_sane: Any = pc.and_(pc.greater_equal(times, pa.scalar(_FIRST)), pc.less_equal(times, pa.scalar(_LAST)))
        self.add(rows.filter(is_sane))

    def add(self, rows: pa.Table) -> None:
        """Add rows with the columns `COLUMNS`."""
        self._waiting.append(self._highest(rows))
        if len(self._waiting) > _WAITING:
            self._combine()

    def rows(self) -> pa.Table:
        """Return the highest lag of each partition in each interval, with the columns `COLUMNS`."""
        self._combine()
        return self._waiting[0] if self._waiting else _EMPTY

    def finish(self) -> pa.Table:
        """Return a row with `group time lag` for each interval in which a group committed; `time` is its start."""
        rows = self.rows()
        if not rows.num_rows:
            return SCHEMA.empty_table()
        ends: Any = pc.min_max(rows["time"]).as_py()
        while (ends["max"] - ends["min"]) // self._width > _MOST_INTERVALS:
            self._width *= 2
        rows = self._highest(rows).sort_by([("group", "ascending"), ("time", "ascending")])
        return _summed(rows)

    def _combine(self) -> None:
        if not self._waiting:
            return
        rows = self._highest(pa.concat_tables(self._waiting))
        ends: Any = pc.min_max(rows["time"]).as_py()
        span = (ends["max"] or 0) - (ends["min"] or 0)
        while span // self._width > _MOST_KEPT or (rows.num_rows > _MOST_ROWS and self._width <= span):
            self._width *= 2
            rows = self._highest(rows)
        self._waiting = [rows]

    def _highest(self, rows: pa.Table) -> pa.Table:
        width = pa.scalar(self._width, pa.int64())
        start: Any = pc.multiply(pc.divide(rows["time"], width), width)
        rows = rows.set_column(rows.schema.get_field_index("time"), "time", start)
        grouped = rows.group_by(_GROUPED).aggregate([("lag", "max")])
        return pa.table([*(grouped[name] for name in _GROUPED), grouped["lag_max"]], list(COLUMNS))


def bounded(lags: Any) -> Any:  # noqa: ANN401 - arrays
    """Return lags within bounds, so that their sum cannot overflow. A forged commit may have an offset far below zero.

    A commit beyond the end of its log has a lag of 0, and does not reduce the lag of others.
    """
    least = pc.max_element_wise(lags, pa.scalar(0, pa.int64()), skip_nulls=False)
    return pc.min_element_wise(least, pa.scalar(_MOST_LAG, pa.int64()), skip_nulls=False)


def _summed(rows: pa.Table) -> pa.Table:
    """Return the sum over partitions at each time. A partition keeps its lag until the group's next commit for it."""
    lags: defaultdict[str, dict[tuple[str, int], int]] = defaultdict(dict)
    totals: dict[tuple[str, int], int] = {}
    total: defaultdict[str, int] = defaultdict(int)
    for batch in rows.to_batches():
        for group, topic, partition, time, lag in zip(*(batch[name].to_pylist() for name in COLUMNS), strict=True):
            place = (topic, partition)
            total[group] += lag - lags[group].get(place, 0)
            lags[group][place] = lag
            totals[group, time] = total[group]
    columns: list[Iterable[Any]] = [
        [group for group, _ in totals],
        [time for _, time in totals],
        list(totals.values()),
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
