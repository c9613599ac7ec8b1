"""Splits cut by offset, so that a task has at most `maxRecordsPerPartition` records.

All pieces of a split read the same bytes, and skip batches of other pieces by their headers. The cuts are estimates, so
a piece may get more or fewer records. No offset is left out, because the first and the last piece reach as far as the
split.

The number of offsets may differ from the number of records: after compaction or in a damaged log, a few batches may
spread over most of 2^63 offsets. If a split has more offsets than its bytes can hold records, the cuts are taken from
its batch headers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from itertools import islice, pairwise, zip_longest
from typing import TYPE_CHECKING, Any

from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.spark.source.tasks import WorkItem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.log.segment import Segment
    from brokerless.log.split import Split

_HEADER = ["base_offset", "last_offset", "records_count", "compression"]
# A record without key, value and headers. A compressed one may be smaller: then the batch headers decide.
_SMALLEST_RECORD = 7
# A header can claim any number of offsets and records, so the cuts of a batch and of a file are limited.
_MOST_OF_BATCH = 1 << 12
_MOST_OF_FILE = 1 << 16


def cut(
    splits: Sequence[Split], segments: Sequence[Segment], log_end_offset: int, most: int
) -> Iterator[WorkItem[Split]]:
    """Yield the pieces of splits, in order, each with at most `most` records."""
    by_path = {segment.path: segment for segment in segments}
    known: dict[str, list[int]] = {}
    yield from (WorkItem(split, 0) for split in splits if split.is_absent)
    present = [split for split in splits if not split.is_absent]
    for split, following in zip_longest(present, present[1:]):
        size = split.end_position - split.position
        low = max(split.start_offset, split.base_offset if split.entry is None else split.entry[0] + 1)
        high = min(split.end_offset, log_end_offset)
        if following is not None:
            high = min(high, following.base_offset if following.entry is None else following.entry[1])
        inner: Sequence[int] = range(low + most, high, most)
        if high - low > most * (1 + size // _SMALLEST_RECORD):
            if split.path not in known:
                known = {split.path: list(islice(_cuts_by_headers(by_path[split.path], most), _MOST_OF_FILE))}
            cuts = known[split.path]
            inner = cuts[bisect_right(cuts, low) : bisect_left(cuts, high)]
        for start, end in pairwise([split.start_offset, *inner, split.end_offset]):
            offsets = max(0, min(end, high) - max(start, low))
            piece = replace(split, start_offset=start, end_offset=end)
            yield WorkItem(piece, size, min(offsets, most))


def _cuts_by_headers(segment: Segment, most: int) -> Iterator[int]:
    """Yield ascending offsets with at most `most` records between two neighbors; stop at damage."""
    held = 0
    following = segment.base_offset
    try:
        for headers in segment.scan():
            for batch in headers.select(_HEADER).to_pylist():
                last = batch["last_offset"]
                if last is None or last < following:
                    continue
                first, count = _first_and_count(batch, following)
                if held and held + count > most:
                    yield first
                    held = 0
                if count > most:
                    start = max(first, last + 1 - most * _MOST_OF_BATCH)
                    yield from range(start + most, last + 1, most)
                    count = most
                held += count
                following = last + 1
    except (CorruptRecordError, UnsupportedFormatError):
        return


def _first_and_count(batch: dict[str, Any], following: int) -> tuple[int, int]:
    """Return the lowest offset and the maximum number of records that a batch can hold."""
    last = batch["last_offset"]
    if batch["records_count"] is not None:
        first = min(max(following, batch["base_offset"]), last)
        return first, min(max(batch["records_count"], 0), last - first + 1)
    if batch["compression"] == "none":
        return last, 1
    # A wrapper message of magic 0 or 1 does not record its first offset.
    return following, last - following + 1
