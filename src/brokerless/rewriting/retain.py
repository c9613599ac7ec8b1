"""Which of a log's oldest segments go, by a broker's rules (UnifiedLog.deleteOldSegments), and DeleteRecords.

A broker has limits for every topic, a week if nobody set one. Here a limit is what the caller gives: a backup is older
than a week, and would be gone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from brokerless.append.operation import Outcome
from brokerless.arguments import check_number
from brokerless.errors import OffsetOutOfRangeError
from brokerless.layout.release import NEWEST, Release
from brokerless.layout.topic_config import TopicConfig, settings_line
from brokerless.log.timestamps import max_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from brokerless.append.operation import LogState, Progress
    from brokerless.append.writer import LogWriter
    from brokerless.layout.topic_config import Setting
    from brokerless.log.segment import Segment


@dataclass(frozen=True)
class RetainReport:
    """What retention does to one log.

    Attributes:
        segments: how many the log had.
        size: bytes of their batches.
        deleted_segments: how many of the oldest go.
        deleted_size: bytes of their batches.
        log_start_offset: where the log starts then.
        log_end_offset: where it ends.
        is_compacted_only: limits by time and size do not apply: the topic's policy is without delete.
        settings: those by which it was decided, each with its source.
    """

    segments: int
    size: int
    deleted_segments: int
    deleted_size: int
    log_start_offset: int
    log_end_offset: int
    is_compacted_only: bool
    settings: Mapping[str, Setting]

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON takes it."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return it in words."""
        words = [
            f"{self.deleted_segments} of {self.segments} segments go, {self.deleted_size:,} of {self.size:,} bytes",
            f"the log starts at {self.log_start_offset}, and ends at {self.log_end_offset}",
        ]
        if self.is_compacted_only:
            words.append("cleanup.policy is without delete: limits of time and size do not apply")
        return [*words, settings_line(self.settings)]


@dataclass(frozen=True, kw_only=True)
class Retain:
    """Delete the oldest segments of a log.

    Attributes:
        retention_ms: segments whose largest timestamp is older than that by now go, as far as no younger one is before
            them; None: no limit.
        retention_bytes: segments go as long as those that stay have at least so many bytes; None: no limit.
        before_offset: the log starts here, and segments that end below go (DeleteRecords); -1: at the high watermark;
            None: where it does.
        cleanup_policy: in place of the topic's: "delete", "compact" or "compact,delete".
        release: the Kafka whose rules count: before 4.2, no `before_offset` where cleanup.policy is empty.

    Raises:
        ValueError: a limit is negative, or the policy or the release is none.

    >>> import brokerless as bl
    >>> [done.report.log_start_offset for done in bl.rewrite(Retain(retention_bytes=1), SAMPLE, dry_run=True)]
    [102]
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
                check_number(name, value, lowest, "; left out, there is no limit")
        TopicConfig().with_keywords(self._given)

    @property
    def decided_by(self) -> tuple[str, ...]:
        """The topic's policy: without delete in it, limits of time and size do not apply."""
        return ("cleanup_policy",) if self._limits and self.cleanup_policy is None else ()

    def prepare(self, log: LogWriter) -> None:
        """Nothing comes before."""

    def plan(self, state: LogState) -> LogState:
        """Check what the log's policy and offsets allow.

        Raises:
            ValueError: `before_offset` in a topic that is only compacted, or until 4.2 has no policy: a broker refuses,
                too. Or limits of time or size for a tiered log.
            OffsetOutOfRangeError: `before_offset` is beyond the high watermark.
        """
        if state.is_tiered and self._limits:
            raise ValueError(
                f"{state.directory} is tiered: a broker deletes its segments by age and size here once they are "
                "uploaded, and then in remote storage, which is not looked into; give before_offset alone, or leave it "
                "to the broker"
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
                    f"{config.cleanup_policy}, without delete"
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
    ) -> Outcome[RetainReport]:
        """Find what goes. Only indexes, and the batches behind their last entries, are read, and nothing is written."""
        state = plan
        wanted = state.high_watermark if self.before_offset == -1 else self.before_offset
        start = state.log_start_offset if wanted is None else max(wanted, state.log_start_offset)
        # What was preallocated of the active segment does not count.
        sizes = [segment.extent().end_position for segment in state.segments]
        left = list(state.segments)
        count = _leading(left, state, lambda segment: not segment.is_last and segment.extent().next_offset <= start)
        if state.config.has_retention:
            count += _leading(left[count:], state, self._is_too_much(sizes[count:]))
            count += _leading(left[count:], state, lambda segment: self._is_too_old(segment, state.now))
        for size in sizes:
            progress(size)
        # Where nothing is deleted, what is below the first segment stays in remote storage.
        first = start if not count else left[count].base_offset if count < len(left) else state.log_end_offset
        report = RetainReport(
            segments=len(left),
            size=sum(sizes),
            deleted_segments=count,
            deleted_size=sum(sizes[:count]),
            log_start_offset=max(start, first),
            log_end_offset=state.log_end_offset,
            is_compacted_only=not state.config.has_retention,
            settings=state.config.used(("cleanup_policy", *self._limits)),
        )
        return Outcome(report=report, deleted_segments=count, log_start_offset=report.log_start_offset, unread_from=0)

    @property
    def _given(self) -> dict[str, object]:
        """The settings that were given."""
        policy = {} if self.cleanup_policy is None else {"cleanup_policy": self.cleanup_policy}
        return {**self._limits, **policy}

    @property
    def _limits(self) -> dict[str, object]:
        """The limits of time and size that were given."""
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


def largest_timestamp(segment: Segment) -> int:
    """Return what a broker takes for a segment's age: its largest timestamp, or its file's where it has none; ms."""
    with segment.open() as file:
        largest = max_timestamp(segment, file, segment.extent().end_position)
    return largest if largest >= 0 else segment.modified


def _leading(segments: Sequence[Segment], state: LogState, predicate: Callable[[Segment], bool]) -> int:
    """Count the segments from the oldest on that are to go: none behind one that is not, none above the watermark."""
    for count, segment in enumerate(segments):
        end = segment.end_offset(state.log_end_offset)
        is_empty_last = segment.is_last and not segment.extent().end_position
        if is_empty_last or state.high_watermark < end or not predicate(segment):
            return count
    return len(segments)
