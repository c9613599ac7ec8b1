"""Deleting a log's oldest segments by a broker's rules (UnifiedLog.deleteOldSegments), and DeleteRecords.

A broker applies the topic's retention, which is a week by default. This module applies only the caller's limits,
because the default would delete any backup that is older than a week.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from brokerless.append.operation import Outcome
from brokerless.arguments import check_number
from brokerless.errors import OffsetOutOfRangeError
from brokerless.io.clock import now_ms
from brokerless.layout.release import NEWEST, Release
from brokerless.layout.topic_config import TopicConfig, settings_line
from brokerless.log.offsets_for_times import max_timestamp
from brokerless.log.unlikely_times import unlikely_time
from brokerless.wording import counted, moment, option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from brokerless.append.operation import LogState, Progress
    from brokerless.layout.topic_config import Setting
    from brokerless.log.segment import Segment


@dataclass(frozen=True)
class RetentionReport:
    """The effect of retention on one log.

    Attributes:
        segments: the number of segments before.
        size: the size of their batches, in bytes.
        deleted_segments: the number of deleted segments.
        deleted_size: the size of their batches, in bytes.
        log_start_offset: the new log start offset.
        log_end_offset: the log end offset.
        is_compacted_only: True if limits of time and size do not apply, because cleanup.policy lacks "delete".
        settings: the settings that decided, each with its source.
        deleted_until: the time, in ms, of the last segment that was too old: its largest timestamp or, without
            timestamps, the modification time of its file. None if no segment was too old.
        kept_from: the time (as in `deleted_until`) of the first segment that is not too old, or None.
        deleted_by_mtime: True if `deleted_until` is the modification time of a file.
        kept_by_mtime: True if `kept_from` is the modification time of a file.
    """

    segments: int
    size: int
    deleted_segments: int
    deleted_size: int
    log_start_offset: int
    log_end_offset: int
    is_compacted_only: bool
    settings: Mapping[str, Setting]
    deleted_until: int | None = None
    kept_from: int | None = None
    deleted_by_mtime: bool = False
    kept_by_mtime: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the report as a dict for JSON."""
        return asdict(self)

    def lines(self, *, dry_run: bool = False) -> list[str]:
        """Return the report in words. For a dry run, the words describe the plan."""
        deleted, starts = ("would be deleted", "would start") if dry_run else ("deleted", "starts")
        sizes = f"{self.deleted_size:,} of {self.size:,} bytes"
        words = [
            f"{self.deleted_segments} of {counted(self.segments, 'segment')} {deleted}, {sizes}",
            f"the log {starts} at {self.log_start_offset}, and ends at {self.log_end_offset}",
        ]
        if self.is_compacted_only:
            words.append('cleanup.policy does not include "delete": limits of time and size do not apply')
        for what, time, is_mtime in (
            ("deletes segments up to", self.deleted_until, self.deleted_by_mtime),
            ("keeps those from", self.kept_from, self.kept_by_mtime),
        ):
            if time is not None:
                words.append(f"its limit of time {what} {_in_words(time, is_mtime=is_mtime)}")
        return [*words, settings_line(self.settings)]


@dataclass(frozen=True, kw_only=True)
class Retention:
    """Delete the oldest segments of a log.

    Attributes:
        retention_ms: delete segments whose largest timestamp is older than this duration, and stop at the first younger
            segment; None for no limit.
        retention_bytes: delete segments as long as the remaining ones have at least this many bytes; None for no limit.
        before_offset: the new log start offset: delete segments that end below it (DeleteRecords). -1 for the high
            watermark, None for the present log start offset.
        cleanup_policy: overrides the topic's policy: "delete", "compact" or "compact,delete".
        release: the Kafka release whose rules apply: before 4.2, an empty cleanup.policy does not allow
            `before_offset`.

    Raises:
        ValueError: a limit is negative, or the policy or the release does not exist.

    >>> import brokerless as bl
    >>> retention = Retention(retention_bytes=1 << 40)
    >>> [done.report.log_start_offset for done in bl.rewrite(retention, CLUSTER_DIR, topics=["orders"], dry_run=True)]
    [0, 0, 0]
    """

    state_name: ClassVar[str] = "Retain"

    retention_ms: int | None = None
    retention_bytes: int | None = None
    before_offset: int | None = None
    cleanup_policy: str | None = None
    release: str = str(NEWEST)

    def __post_init__(self) -> None:
        Release.parse(self.release)
        for name, lowest in (("retention_ms", 0), ("retention_bytes", 0), ("before_offset", -1)):
            value = getattr(self, name)
            if value is not None:
                check_number(name, value, lowest, "; to set no limit, leave it out")
        TopicConfig().with_keywords(self._given)

    @property
    def decided_by(self) -> tuple[str, ...]:
        """The topic's policy: unless it includes "delete", limits of time and size do not apply."""
        return ("cleanup_policy",) if self._limits and self.cleanup_policy is None else ()

    @property
    def consent(self) -> Mapping[str, str]:
        """None: `decided_by` has the policy."""
        return {}

    def needs_roll(self, state: LogState) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def plan(self, state: LogState) -> LogState:
        """Check that the log's policy and offsets allow the deletion.

        Raises:
            ValueError: `before_offset` is given, but the topic is only compacted, or its policy is empty and the
                release is before 4.2. A broker also refuses this. Or the log is tiered, and a limit of time or size is
                given.
            OffsetOutOfRangeError: `before_offset` is beyond the high watermark.
        """
        if state.is_tiered and self._limits:
            raise ValueError(
                f"cannot apply limits of age and size to {state.directory}, because the log is tiered, and the "
                f"segments in remote storage cannot be read here. Give only {option('before_offset')}, or leave the "
                "deletion to the broker"
            )
        config, release = state.config.with_keywords(self._given), Release.parse(self.release)
        if self.before_offset is not None:
            is_without_policy = not (config.has_retention or config.is_compacted)
            if is_without_policy and not release.deletes_records_without_policy:
                raise ValueError(
                    f"records of {state.directory} cannot be deleted: its cleanup.policy is empty, and brokers of "
                    f"{release} refuse that"
                )
            if config.is_compacted and not config.has_retention:
                raise ValueError(
                    f"records of {state.directory} cannot be deleted: its cleanup.policy is "
                    f'{config.cleanup_policy}, which does not include "delete"'
                )
            if self.before_offset > state.high_watermark:
                raise OffsetOutOfRangeError(
                    f"cannot delete records before offset {self.before_offset}: {state.directory} has "
                    f"{state.log_start_offset} to {state.high_watermark}",
                    log_start_offset=state.log_start_offset,
                    log_end_offset=state.high_watermark,
                )
        return replace(state, config=config)

    def work(
        self,
        plan: LogState,
        *,
        dry_run: bool,  # noqa: ARG002
        progress: Progress,
        output: str | None = None,  # noqa: ARG002
    ) -> Outcome[RetentionReport]:
        """Find the segments to delete. Read only indexes, and the batches after their last entries; write nothing."""
        state = plan
        wanted = state.high_watermark if self.before_offset == -1 else self.before_offset
        start = state.log_start_offset if wanted is None else max(wanted, state.log_start_offset)
        # The preallocated zeros of the active segment do not count.
        sizes = [segment.extent().end_position for segment in state.segments]
        segments = list(state.segments)
        count = _leading(segments, state, lambda segment: not segment.is_last and segment.extent().next_offset <= start)
        deleted = kept = _Judged()
        if state.config.has_retention:
            count += _leading(segments[count:], state, self._is_too_much(sizes[count:]))
            by_others = count
            count += _leading(segments[count:], state, lambda segment: self._is_too_old(segment, state.now))
            if self.retention_ms is not None:
                deleted = _judged(segments[count - 1]) if count > by_others else deleted
                kept = _judged(segments[count]) if count < len(segments) else kept
        for size in sizes:
            progress(size)
        # Without a deletion, the first segment does not count: remote storage may have records below it.
        first = start if not count else segments[count].base_offset if count < len(segments) else state.log_end_offset
        report = RetentionReport(
            segments=len(segments),
            size=sum(sizes),
            deleted_segments=count,
            deleted_size=sum(sizes[:count]),
            log_start_offset=max(start, first),
            log_end_offset=state.log_end_offset,
            is_compacted_only=not state.config.has_retention,
            settings=state.config.used(("cleanup_policy", *self._limits)),
            deleted_until=deleted.time,
            kept_from=kept.time,
            deleted_by_mtime=deleted.is_mtime,
            kept_by_mtime=kept.is_mtime,
        )
        return Outcome(report=report, deleted_segments=count, log_start_offset=report.log_start_offset, unread_from=0)

    @property
    def _given(self) -> dict[str, object]:
        """The settings that the caller gave."""
        policy = {} if self.cleanup_policy is None else {"cleanup_policy": self.cleanup_policy}
        return {**self._limits, **policy}

    @property
    def _limits(self) -> dict[str, object]:
        """The limits of time and size that the caller gave."""
        limits = {"retention_ms": self.retention_ms, "retention_bytes": self.retention_bytes}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def _is_too_much(self, sizes: Sequence[int]) -> Callable[[Segment], bool]:
        excess = -1 if self.retention_bytes is None else sum(sizes) - self.retention_bytes

        def is_too_much(segment: Segment) -> bool:
            nonlocal excess
            excess -= segment.extent().end_position
            return excess >= 0

        return is_too_much

    def _is_too_old(self, segment: Segment, now: int) -> bool:
        return self.retention_ms is not None and now - largest_timestamp(segment) > self.retention_ms


def _in_words(timestamp: int, *, is_mtime: bool) -> str:
    why = unlikely_time(timestamp, now_ms())
    source = "the modification time of a file without timestamps," if is_mtime else "largest timestamp"
    return f"{source} {moment(timestamp)}" if why is None else f"{source} {timestamp}, {why}"


class _Judged(NamedTuple):
    """The time that decides a segment's age, in ms, and whether it is the modification time of its file."""

    time: int | None = None
    is_mtime: bool = False


def _judged(segment: Segment) -> _Judged:
    with segment.open() as file:
        largest = max_timestamp(segment, file, segment.extent().end_position)
    return _Judged(largest) if largest >= 0 else _Judged(segment.modified, is_mtime=True)


def largest_timestamp(segment: Segment) -> int:
    """Return the time in ms that gives a segment's age on a broker: its largest timestamp, or its file's time."""
    return _judged(segment).time or 0


def _leading(segments: Sequence[Segment], state: LogState, predicate: Callable[[Segment], bool]) -> int:
    """Count the oldest segments that meet the condition and end at or below the high watermark."""
    for count, segment in enumerate(segments):
        end = segment.end_offset(state.log_end_offset)
        is_empty_last = segment.is_last and not segment.extent().end_position
        if is_empty_last or state.high_watermark < end or not predicate(segment):
            return count
    return len(segments)
