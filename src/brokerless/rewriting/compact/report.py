"""What a compaction did, or would do, segment by segment."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Self

from brokerless.layout.topic_config import settings_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from brokerless import _native
    from brokerless.layout.topic_config import Setting
    from brokerless.log.segment import Segment


@dataclass(frozen=True)
class Counts:
    """What was counted of a segment's records before it was rewritten.

    Attributes:
        records_in_file: all of them, the same whichever were looked at.
        aborted: of aborted transactions; they go.
        control: control records that stay.
        discarded: control records that go.
        unkeyed: without a key; they go.
        first_unkeyed: offset of the first of these.
        tombstones: with a null value.
        expired: of these, the newest of their key whose time has come; they go.
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
        """Take over what a scan has counted."""
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
        """Put together what was counted of the clean and of the dirty part."""
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
        """Count expired tombstones of other keys, too."""
        return replace(self, expired=self.expired + more)


@dataclass(frozen=True, kw_only=True)
class SegmentReport:
    """One old segment.

    Attributes:
        base_offset: its own.
        cleaned_base_offset: of the new segment that stands for it, and perhaps for others.
        bytes: of its `.log`.
        cleaned_bytes: what of the new segment comes from it.
        records: in it, control records among them.
        kept: of these, those that stay.
        superseded: a newer record has their key; they go.
        tombstones: with a null value, whether they stay or not.
        expired: tombstones that go although they are the newest with their key.
        aborted: of aborted transactions; they go.
        unkeyed: without a key; they go.
        markers: control records that stay.
        discarded_markers: control records that go.
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
        """Put together what was counted before and after."""
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
    """One log. Sizes in bytes.

    Attributes:
        skip_reason: why it was left alone; empty: it was not.
        bytes_before: of all its segments' `.log` files, the active one's too.
        bytes_after: likewise.
        first_dirty_offset: where the part begins that was not compacted before.
        first_uncleanable_offset: what is from here on stays as it is.
        limit: why it ends there.
        clean_bytes: in segments that begin below the first dirty offset.
        cleanable_bytes: in segments with dirty records.
        dirty_ratio: their share.
        is_due: a broker's cleaner would take it up.
        active_base_offset: of the active segment, which is never cleaned.
        active_bytes: in it.
        is_rolled: it is counted as if it were rolled, which a dry run does not do.
        passes: over the log, each for a part of the keys; 0: nothing was to be done.
        keys: different ones in the dirty part.
        segments: the old ones.
        settings: those by which it was decided, each with its source.
    """

    skip_reason: str
    bytes_before: int
    bytes_after: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    limit: str
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
        """Return it as JSON takes it."""
        return {**asdict(self), "segments": [asdict(segment) for segment in self.segments]}

    def lines(self, *, dry_run: bool = False) -> list[str]:
        """Return it in words, the most important line first; of a dry run, what would be done."""
        if self.skip_reason:
            lines = [self.skip_reason]
        else:
            before, after = self.total("bytes"), self.total("cleaned_bytes")
            records = f"{self.total('records')} records to {self.total('kept')}, {self.keys} keys"
            until = f"up to offset {self.first_uncleanable_offset}: {self.limit}"
            to = "would become" if dry_run else "to"
            lines = [f"{before} bytes {to} {after}, {records}, {until}", *map(_line, self.segments)]
        if self.active_bytes and not self.is_rolled:
            active = f"the active segment {self.active_base_offset} stays as it is"
            lines.append(f"{active}: {self.active_bytes} bytes, which a roll (--roll) would add")
        return [*lines, settings_line(self.settings)]


def _line(segment: SegmentReport) -> str:
    parts = [
        f"{getattr(segment, name)} {name.replace('_', ' ')}"
        for name in ("superseded", "expired", "aborted", "unkeyed", "discarded_markers", "tombstones", "markers")
        if getattr(segment, name)
    ]
    sizes = f"{segment.bytes} bytes to {segment.cleaned_bytes}, {segment.records} records to {segment.kept}"
    return f"segment {segment.base_offset}: {': '.join([sizes, ', '.join(parts)] if parts else [sizes])}"
