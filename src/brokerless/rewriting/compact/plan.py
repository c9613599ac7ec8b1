"""Finding the cleanable part of a log (LogCleanerManager), and grouping the segments that become one (Cleaner).

A log has three parts:

- The clean part is below the first dirty offset, which is the cleaner's checkpoint.
- The dirty part is between the clean and the uncleanable part.
- The uncleanable part begins at the first open transaction, at the first record within the compaction lag, or at the
  active segment.

Compacting the dirty part also rewrites the clean part, to drop records that newer records supersede.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from brokerless.errors import located
from brokerless.io import storage
from brokerless.io.file_window import batch_at
from brokerless.layout import file_names
from brokerless.rewriting.retain import largest_timestamp
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.append.operation import LogState
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.segment import Segment

_MAX_RELATIVE_OFFSET = (1 << 31) - 1

Limit = Literal["active_segment", "open_transaction", "high_watermark", "min_compaction_lag"]
"""Why the cleanable part of a log ends where it does.

- active_segment: the active segment begins there.
- open_transaction: a transaction is open from there on.
- high_watermark: records from the high watermark on may not be on other brokers yet.
- min_compaction_lag: records are younger than min.compaction.lag.ms.
"""

_LIMITS: Final[dict[Limit, str]] = {
    "active_segment": "the active segment begins there",
    "open_transaction": "a transaction is open from there on",
    "high_watermark": "records from the high watermark on may not be on other brokers yet",
    "min_compaction_lag": f"records are younger than {option('min_compaction_lag_ms')}",
}


def limit_in_words(limit: Limit) -> str:
    """Return why the cleanable part of a log ends, as text."""
    return _LIMITS[limit]


class Cleanable(NamedTuple):
    """The cleanable part of a log.

    Attributes:
        segments: the segments from the oldest up to the first uncleanable one.
        first_dirty_offset: the first offset of the dirty part.
        first_uncleanable_offset: the end of the dirty part: the base offset of the first segment that does not change.
        limit: why the dirty part ends at that offset.
        clean_bytes: the size of the segments that begin in the clean part.
        cleanable_bytes: the size of the segments with dirty records. A segment with both parts is included in both
            sizes.
        is_overdue: whether records have waited for max_compaction_lag_ms.
    """

    segments: tuple[Segment, ...]
    first_dirty_offset: int
    first_uncleanable_offset: int
    limit: Limit
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """The dirty part's share of the bytes."""
        return self.cleanable_bytes / max(1, self.clean_bytes + self.cleanable_bytes)

    def is_due(self, min_cleanable_dirty_ratio: float) -> bool:
        """Return whether a broker's cleaner would clean the log."""
        return self.cleanable_bytes > 0 and (self.is_overdue or self.dirty_ratio > min_cleanable_dirty_ratio)


def cleanable(
    state: LogState, *, active_base_offset: int, min_compaction_lag_ms: int, ignore_checkpoint: bool
) -> Cleanable:
    """Find the cleanable part of a log.

    Args:
        state: the state of the log.
        active_base_offset: the base offset of the active segment; the log end offset to treat it as rolled.
        min_compaction_lag_ms: the minimum age of a record, in ms. The first segment with a younger record and all
            following segments are uncleanable.
        ignore_checkpoint: ignore the cleaner's checkpoint and treat the whole log as dirty.
    """
    inactive = [segment for segment in state.segments if segment.base_offset < active_base_offset]
    checkpoint = state.first_dirty_offset
    first_dirty = state.log_start_offset
    if not ignore_checkpoint and checkpoint is not None and first_dirty <= checkpoint <= state.log_end_offset:
        first_dirty = checkpoint
    dirty = [segment for segment in inactive if segment.end_offset(active_base_offset) > first_dirty]
    limits: list[tuple[int, Limit]] = [
        (state.last_stable_offset, "open_transaction"),
        (state.high_watermark, "high_watermark"),
        (active_base_offset, "active_segment"),
    ]
    if min_compaction_lag_ms > 0:
        young = (segment for segment in dirty if largest_timestamp(segment) > state.now - min_compaction_lag_ms)
        limits += [(segment.base_offset, "min_compaction_lag") for segment in young][:1]
    offset, limit = min(limits, key=lambda found: found[0])
    offset = max(offset, first_dirty)
    behind = (segment for segment in inactive if segment.end_offset(active_base_offset) > offset)
    uncleanable = next((segment.base_offset for segment in behind), active_base_offset)
    if uncleanable == active_base_offset:
        limit = "active_segment"
    segments = tuple(segment for segment in inactive if segment.base_offset < uncleanable)
    # The segments with dirty records: none if the whole log is clean.
    dirty_from = min(first_dirty, uncleanable)
    cleaned = [segment for segment in segments if segment.end_offset(active_base_offset) > dirty_from]
    return Cleanable(
        segments,
        first_dirty,
        uncleanable,
        limit,
        sum(segment.size for segment in state.segments if segment.base_offset < first_dirty),
        sum(segment.size for segment in cleaned),
        _is_overdue(state, dirty),
    )


def groups(found: Cleanable, directory: str, config: TopicConfig) -> tuple[tuple[Segment, ...], ...]:
    """Group segments that fit into one by their sizes before the compaction (Cleaner.groupSegmentsBySize)."""
    grouped: list[list[Segment]] = []
    sizes = [0, 0, 0]
    ends = [*(segment.base_offset for segment in found.segments[1:]), found.first_uncleanable_offset]
    for segment, end in zip(found.segments, ends, strict=False):
        more = [_size(segment, directory, kind) for kind in (file_names.LOG, file_names.INDEX, file_names.TIMEINDEX)]
        group_sizes = [size + extra for size, extra in zip(sizes, more, strict=True)]
        if (
            grouped
            and group_sizes[0] <= config.segment_bytes
            and max(group_sizes[1:]) <= config.segment_index_bytes
            and (not more[0] or end - 1 - grouped[-1][0].base_offset <= _MAX_RELATIVE_OFFSET)
        ):
            grouped[-1].append(segment)
            sizes = group_sizes
        else:
            grouped.append([segment])
            sizes = more
    return tuple(map(tuple, grouped))


def _is_overdue(state: LogState, dirty: Sequence[Segment]) -> bool:
    if state.config.max_compaction_lag_ms >= state.now:
        return False
    first_timestamps = []
    for segment in dirty:
        with segment.open() as file, located(segment.path):
            first = batch_at(file, 0)
        if first is not None and first["max_timestamp"] > 0:
            first_timestamps.append(first["max_timestamp"])
    return min(first_timestamps, default=state.now) < state.now - state.config.max_compaction_lag_ms


def _size(segment: Segment, directory: str, kind: int) -> int:
    path = f"{directory}/{file_names.segment_file(segment.base_offset, kind)}"
    return storage.size(path) if storage.exists(path) else 0
