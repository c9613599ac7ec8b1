"""The report of a compaction, segment by segment."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

from brokerless.layout.topic_config import settings_line
from brokerless.rewriting.compact.plan import limit_in_words
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from brokerless import _native
    from brokerless.layout.topic_config import Setting
    from brokerless.log.segment import Segment
    from brokerless.rewriting.compact.plan import Limit

SkipReason = Literal["nothing_cleanable", "cleanup_policy", "not_dirty"]
"""Why a log is not compacted.

- nothing_cleanable: the cleanable part is empty; `limit` says why it ends there.
- cleanup_policy: cleanup.policy does not include "compact", and `only_due` is set.
- not_dirty: `dirty_ratio` is not above min.cleanable.dirty.ratio, and `only_due` is set.
"""


@dataclass(frozen=True)
class Counts:
    """The counts of a segment's records before it is rewritten.

    Attributes:
        records_in_file: all records, even if only a part of the segment was decided.
        aborted: records of aborted transactions, which are removed.
        control: control records that stay.
        discarded: control records that are removed.
        unkeyed: records without a key, which are removed.
        first_unkeyed: the offset of the first record without a key.
        tombstones: records with a null value.
        expired: tombstones that are the newest of their key and are removed, because they have expired.
    """

    records_in_file: int = 0
    aborted: int = 0
    control: int = 0
    discarded: int = 0
    unkeyed: int = 0
    first_unkeyed: int | None = None
    tombstones: int = 0
    expired: int = 0

    @classmethod
    def of(cls, found: _native.SegmentVerdicts, *, expired: int) -> Self:
        """Return the counts of a scan."""
        return cls(
            found.records,
            found.aborted,
            found.control,
            found.discarded,
            found.unkeyed,
            found.first_unkeyed,
            found.tombstones,
            expired,
        )

    def __add__(self, other: Counts) -> Counts:
        """Add the counts of the clean and of the dirty part of a segment."""
        first = [offset for offset in (self.first_unkeyed, other.first_unkeyed) if offset is not None]
        return Counts(
            max(self.records_in_file, other.records_in_file),
            self.aborted + other.aborted,
            self.control + other.control,
            self.discarded + other.discarded,
            self.unkeyed + other.unkeyed,
            min(first, default=None),
            self.tombstones + other.tombstones,
            self.expired + other.expired,
        )

    def with_expired(self, more: int) -> Counts:
        """Return the counts with `more` expired tombstones, of other keys."""
        return replace(self, expired=self.expired + more)


@dataclass(frozen=True, kw_only=True)
class SegmentReport:
    """The effect of a compaction on one old segment. Values are numbers of records, unless stated otherwise.

    Attributes:
        base_offset: the segment's base offset.
        cleaned_base_offset: the base offset of the new segment that replaces this segment, and perhaps others.
        bytes: the size of its `.log`.
        cleaned_bytes: the bytes of the new segment that come from it.
        records: all records, including control records.
        kept: records that stay.
        superseded: records that are removed because a newer one has their key.
        tombstones: records with a null value, whether they stay or not.
        expired: tombstones that are removed although they are the newest of their key.
        aborted: records that are removed because their transaction was aborted.
        unkeyed: records that are removed because they have no key.
        markers: control records that stay.
        discarded_markers: control records that are removed.
    """

    base_offset: int
    cleaned_base_offset: int
    bytes: int
    cleaned_bytes: int
    records: int
    kept: int
    superseded: int
    tombstones: int
    expired: int
    aborted: int
    unkeyed: int
    markers: int
    discarded_markers: int

    @classmethod
    def of(cls, segment: Segment, cleaned_base_offset: int, counts: Counts, kept: int, cleaned_bytes: int) -> Self:
        """Return the report of a segment from its counts and the result of the rewrite."""
        gone = counts.aborted + counts.discarded + counts.unkeyed + counts.expired
        return cls(
            base_offset=segment.base_offset,
            cleaned_base_offset=cleaned_base_offset,
            bytes=segment.size,
            cleaned_bytes=cleaned_bytes,
            records=counts.records_in_file,
            kept=kept,
            superseded=counts.records_in_file - kept - gone,
            tombstones=counts.tombstones,
            expired=counts.expired,
            aborted=counts.aborted,
            unkeyed=counts.unkeyed,
            markers=counts.control,
            discarded_markers=counts.discarded,
        )


@dataclass(frozen=True, kw_only=True)
class CompactionReport:
    """The effect of a compaction on one log, done or planned. Sizes are in bytes.

    Attributes:
        skip_reason: why the log was skipped, see `SkipReason`; None if it was not.
        bytes_before: the size of all segments before, including the active one.
        bytes_after: the size of all segments after, including the active one.
        first_dirty_offset: the first offset of the part that was not compacted before.
        first_uncleanable_offset: the first offset of the part that does not change.
        limit: why the unchanged part begins at that offset, see `Limit`.
        clean_bytes: the size of the segments that begin below the first dirty offset.
        cleanable_bytes: the size of the segments with dirty records.
        dirty_ratio: `cleanable_bytes` / (`clean_bytes` + `cleanable_bytes`).
        is_due: whether a broker's cleaner would clean the log.
        active_base_offset: the base offset of the active segment, which is never cleaned.
        active_bytes: the size of the active segment.
        is_rolled: whether the report treats the active segment as rolled. A dry run does not roll it.
        passes: the number of passes over the log, each for a part of the keys; 0 if there was nothing to do.
        keys: the number of different keys in the dirty part.
        segments: the reports of the old segments.
        settings: the settings that decided, each with its source.
    """

    skip_reason: SkipReason | None
    bytes_before: int
    bytes_after: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    limit: Limit
    clean_bytes: int
    cleanable_bytes: int
    dirty_ratio: float
    is_due: bool
    active_base_offset: int
    active_bytes: int
    is_rolled: bool
    passes: int
    keys: int
    segments: tuple[SegmentReport, ...]
    settings: Mapping[str, Setting]

    def total(self, name: str) -> int:
        """Return the sum of a number over the segments."""
        return sum(int(getattr(segment, name)) for segment in self.segments)

    def to_dict(self) -> dict[str, object]:
        """Return the report as a dict for JSON."""
        return {**asdict(self), "segments": [asdict(segment) for segment in self.segments]}

    def lines(self, *, dry_run: bool = False) -> list[str]:
        """Return the report in words, the most important line first. For a dry run, the words describe the plan."""
        if self.skip_reason:
            lines = [self._skipped]
        else:
            before, after = self.total("bytes"), self.total("cleaned_bytes")
            records = f"{self.total('records'):,} records to {self.total('kept'):,}, {self.keys:,} keys"
            until = f"up to offset {self.first_uncleanable_offset}: {limit_in_words(self.limit)}"
            to = "would become" if dry_run else "to"
            lines = [f"{before:,} bytes {to} {after:,}, {records}, {until}", *map(_line, self.segments)]
        if self.active_bytes and not self.is_rolled:
            active = f"the active segment {self.active_base_offset} stays as it is"
            lines.append(f"{active}: {self.active_bytes:,} bytes, which {option('roll')} would add")
        return [*lines, settings_line(self.settings)]

    @property
    def _skipped(self) -> str:
        if self.skip_reason == "nothing_cleanable":
            limit = limit_in_words(self.limit)
            return f"nothing to compact below offset {self.first_uncleanable_offset}: {limit}"
        if self.skip_reason == "cleanup_policy":
            policy = self.settings["cleanup_policy"].value or "none"
            return f"not due: cleanup.policy is {policy}, as far as the log directory records it"
        wanted = f"above {self.settings['min_cleanable_dirty_ratio'].value:g}"
        return f"not due: {self.dirty_ratio:.2f} of its bytes are dirty, and a broker compacts only {wanted}"


def _line(segment: SegmentReport) -> str:
    parts = [
        f"{getattr(segment, name):,} {name.replace('_', ' ')}"
        for name in ("superseded", "expired", "aborted", "unkeyed", "discarded_markers", "tombstones", "markers")
        if getattr(segment, name)
    ]
    sizes = f"{segment.bytes:,} bytes to {segment.cleaned_bytes:,}, {segment.records:,} records to {segment.kept:,}"
    return f"segment {segment.base_offset}: {': '.join([sizes, ', '.join(parts)] if parts else [sizes])}"
