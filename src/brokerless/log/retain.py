"""Which of a log's oldest segments go, by a broker's rules (UnifiedLog.deleteOldSegments), and DeleteRecords.

A broker has limits for every topic, a week if nobody set one. Here a limit is what the caller gives: a backup is older
than a week, and would be gone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from brokerless.errors import OffsetOutOfRangeError, check_number
from brokerless.log.times import max_timestamp
from brokerless.log.verb import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brokerless.log.segment import Segment
    from brokerless.log.verb import LogState, Progress
    from brokerless.log.writer import LogWriter


@dataclass(frozen=True)
class Retained:
    """What retention does to one log.

    Attributes:
        segments: how many the log had.
        size: bytes of their batches.
        deleted_segments: how many of the oldest go.
        deleted_size: bytes of their batches.
        log_start_offset: where the log starts then.
        log_end_offset: where it ends.
        is_compacted_only: limits by time and size do not apply: the topic's policy is without delete.
    """

    segments: int
    size: int
    deleted_segments: int
    deleted_size: int
    log_start_offset: int
    log_end_offset: int
    is_compacted_only: bool

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
        return words


@dataclass(frozen=True, kw_only=True)
class Retain:
    """Delete the oldest segments of a log.

    Attributes:
        retention_ms: segments whose largest timestamp is older than that by now go, as far as no younger one is before
            them; None: no limit.
        retention_bytes: segments go as long as those that stay have at least so many bytes; None: no limit.
        before_offset: the log starts here, and segments that end below go (DeleteRecords); -1: at the high watermark;
            None: where it does.

    Raises:
        ValueError: a limit is negative.

    >>> import brokerless as bl
    >>> [done.report.log_start_offset for done in bl.rewrite(Retain(retention_bytes=1), SAMPLE, dry_run=True)]
    [102]
    """

    retention_ms: int | None = None
    retention_bytes: int | None = None
    before_offset: int | None = None

    def __post_init__(self) -> None:
        for name, lowest in (("retention_ms", 0), ("retention_bytes", 0), ("before_offset", -1)):
            value = getattr(self, name)
            if value is not None:
                check_number(name, value, lowest, "; left out, there is no limit")

    def prepare(self, log: LogWriter) -> None:
        """Nothing comes before."""

    def plan(self, state: LogState) -> LogState:
        """Check what the log's policy and offsets allow.

        Raises:
            ValueError: `before_offset` in a topic that is only compacted: a broker refuses, too.
            OffsetOutOfRangeError: `before_offset` is beyond the high watermark.
        """
        if self.before_offset is not None:
            if not state.settings.has_retention:
                policy = state.settings.cleanup_policy or "none"
                raise ValueError(
                    f"records of {state.directory} cannot be deleted: its cleanup.policy is {policy}, without delete"
                )
            if self.before_offset > state.high_watermark:
                raise OffsetOutOfRangeError(
                    f"cannot delete records before offset {self.before_offset}: {state.directory} has "
                    f"{state.log_start_offset} to {state.high_watermark}",
                    log_start_offset=state.log_start_offset,
                    log_end_offset=state.high_watermark,
                )
        return state

    def work(
        self,
        plan: LogState,
        *,
        dry_run: bool,  # noqa: ARG002
        progress: Progress,
        output: str | None = None,  # noqa: ARG002
    ) -> Outcome[Retained]:
        """Find what goes. Only indexes, and the batches behind their last entries, are read, and nothing is written."""
        state = plan
        wanted = state.high_watermark if self.before_offset == -1 else self.before_offset
        start = state.log_start_offset if wanted is None else max(wanted, state.log_start_offset)
        # What was preallocated of the active segment does not count.
        sizes = [segment.extent().end_position for segment in state.segments]
        left = list(state.segments)
        count = _leading(left, state, lambda segment: not segment.is_last and segment.extent().next_offset <= start)
        if state.settings.has_retention:
            count += _leading(left[count:], state, self._is_too_much(sizes[count:]))
            count += _leading(left[count:], state, lambda segment: self._is_too_old(segment, state.now))
        for size in sizes:
            progress(size)
        first = left[count].base_offset if count < len(left) else state.log_end_offset
        report = Retained(
            segments=len(left),
            size=sum(sizes),
            deleted_segments=count,
            deleted_size=sum(sizes[:count]),
            log_start_offset=max(start, first),
            log_end_offset=state.log_end_offset,
            is_compacted_only=not state.settings.has_retention,
        )
        return Outcome(report=report, deleted_segments=count, log_start_offset=report.log_start_offset)

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
        end = state.log_end_offset if segment.next_base_offset is None else segment.next_base_offset
        is_empty_last = segment.is_last and not segment.extent().end_position
        if is_empty_last or state.high_watermark < end or not predicate(segment):
            return count
    return len(segments)
