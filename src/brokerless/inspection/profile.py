"""Statistics of segments: sums by hour, message format and codec, which can be added up to coarser sums.

A record is counted in the hour of its timestamp, a batch in the hour of its largest timestamp. All records on disk are
counted, including aborted records and records below the log start offset.
The core does the sums: `rust/core/src/read/profile.rs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.errors import located

if TYPE_CHECKING:
    from brokerless.log.segment import Segment

FACTS = {
    "batches": "sum",
    "bytes": "sum",
    "min_batch_bytes": "min",
    "max_batch_bytes": "max",
    "control_records": "sum",
    "records": "sum",
    "key_bytes": "sum",
    "value_bytes": "sum",
    "null_keys": "sum",
    "tombstones": "sum",
    "headers": "sum",
    "first_offset": "min",
    "last_offset": "max",
    "first_timestamp": "min",
    "last_timestamp": "max",
}
"""The statistics, each with the function that combines two values. `bytes` counts whole batches, as stored."""

MS_PER_HOUR = 3_600_000


def profile(*segments: Segment) -> pa.Table:
    """Return the sums of segments by hour, magic and compression, with one column per entry of `FACTS`.

    `hour` is the number of hours since 1970, and null without timestamps. Times are in ms. A minimum or maximum is null
    if there are no values.

    Raises:
        CorruptRecordError: a segment is damaged, or the last batch of an older segment is cut.

    >>> from brokerless.log.log import Log
    >>> sums = profile(*Log(SAMPLE).segments)
    >>> sum(sums["records"].to_pylist())
    120
    """
    found = _native.Profile()
    for segment in segments:
        with segment.open() as file, located(segment.path):
            found.feed(file, 0, segment.extent(file).end_position)
    return by_hour(found)


def by_hour(found: _native.Profile) -> pa.Table:
    """Return the groups of a profile, with hours in place of times."""
    groups = pa.Table.from_batches([found.groups()])
    hours: Any = pc.divide(groups["time"], pa.scalar(MS_PER_HOUR))
    return groups.set_column(0, "hour", hours)
