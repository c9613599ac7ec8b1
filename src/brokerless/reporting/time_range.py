"""The times of most records, and the records whose times are far from them: of an unset clock, or in the future."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

_MS_PER_HOUR = 3_600_000
_DAY, _YEAR = 24, 8766
# Years of records are plausible, and so is a history that was imported.
_LONG = 10 * _YEAR


class TimeRange(NamedTuple):
    """The hours since 1970 of most records, both inclusive.

    Attributes:
        first: the first hour.
        last: the last hour.
        outside: the number of records outside, without those that have no time.
    """

    first: int
    last: int
    outside: int

    def has(self, ms: int) -> bool:
        """Return whether a time is inside."""
        return self.first <= ms // _MS_PER_HOUR <= self.last


def time_range(hours: pa.Table, now: int) -> TimeRange | None:
    """Return the hours of most records; None if no record has a time.

    Records of the first year after 1970, and of the time after tomorrow, are outside, unless most records are. If the
    others are of more than ten years, so are records that are far from the middle 99 % of the records.

    Args:
        hours: a table with the columns `hour` and `records`.
        now: the time of the report, in ms.
    """
    known = hours.filter(pc.and_(pc.is_valid(hours["hour"]), pc.greater(hours["records"], pa.scalar(0))))
    ordered = known.group_by("hour").aggregate([("records", "sum")]).sort_by("hour")
    if not ordered.num_rows:
        return None
    total = _records(ordered)
    # A coarse hour is the first one of its year.
    usual = _between(ordered, _YEAR, now // _MS_PER_HOUR + _DAY)
    kept = usual if 2 * _records(usual) >= total else ordered
    first, last = kept["hour"][0].as_py(), kept["hour"][-1].as_py()
    if last - first > _LONG:
        kept = _near_the_middle(kept)
        first, last = kept["hour"][0].as_py(), kept["hour"][-1].as_py()
    return TimeRange(first, last, total - _records(kept))


def _near_the_middle(ordered: pa.Table) -> pa.Table:
    """Return the rows in the range of the middle 99 % of the records, extended by its length on both sides."""
    total = _records(ordered)
    seen: Any = pc.cumulative_sum(ordered["records_sum"])
    before: Any = pc.subtract(seen, ordered["records_sum"])
    middle: Any = pc.and_(
        pc.greater(seen, pa.scalar(int(total * 0.005))), pc.less(before, pa.scalar(math.ceil(total * 0.995)))
    )
    ends: Any = pc.min_max(ordered.filter(middle)["hour"]).as_py()
    around = ends["max"] - ends["min"]
    return _between(ordered, ends["min"] - around, ends["max"] + around)


def _between(table: pa.Table, first: int, last: int) -> pa.Table:
    inside: Any = pc.and_(
        pc.greater_equal(table["hour"], pa.scalar(first)), pc.less_equal(table["hour"], pa.scalar(last))
    )
    return table.filter(inside)


def _records(ordered: pa.Table) -> int:
    return int(pc.sum(ordered["records_sum"]).as_py() or 0)
