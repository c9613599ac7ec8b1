"""A log as it was at some moment: without what was appended since.

Kafka has no such thing, but truncation: the rules of what stays are those of a follower that had more than its leader.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from brokerless.errors import check_number
from brokerless.log.retain import largest_timestamp
from brokerless.log.verb import Outcome

if TYPE_CHECKING:
    from brokerless.log.segment import Segment
    from brokerless.log.verb import LogState, Progress
    from brokerless.log.writer import LogWriter


@dataclass(frozen=True)
class Cut:
    """What cutting the end off a log does.

    Attributes:
        end_before: the log end offset as it is.
        log_end_offset: the log end offset then: no record from here on is left.
        size: bytes of batches before.
        cut_size: bytes of the batches that go.
    """

    end_before: int
    log_end_offset: int
    size: int
    cut_size: int

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON takes it."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return it in words."""
        if self.log_end_offset == self.end_before:
            return [f"nothing is cut: the log ends at {self.end_before}"]
        return [f"ends at {self.log_end_offset}, not at {self.end_before}: {self.cut_size:,} of {self.size:,} bytes go"]


@dataclass(frozen=True, kw_only=True)
class Until:
    """Take from a log what was appended since some moment: it is as it was then. Meant for a copy.

    Attributes:
        timestamp: ms since the epoch; the first batch with a record of that time or later, and all behind it, go.
            A batch was appended as a whole, so it goes as a whole.
        offset: instead of a time: where the log ends then. A batch that it lies in goes as a whole.

    Raises:
        ValueError: not one of the two is given, or it is negative.
        TypeError: it is no integer.

    >>> import brokerless as bl
    >>> [done.report.log_end_offset for done in bl.rewrite(Until(offset=100), SAMPLE, dry_run=True)]
    [99]
    """

    timestamp: int | None = None
    offset: int | None = None

    def __post_init__(self) -> None:
        if (self.timestamp is None) == (self.offset is None):
            raise ValueError("until when: a timestamp or an offset is needed, and not both")
        for name, value in (("timestamp", self.timestamp), ("offset", self.offset)):
            if value is not None:
                check_number(f"until when: {name}", value, 0)

    def prepare(self, log: LogWriter) -> None:
        """Nothing comes before."""

    def plan(self, state: LogState) -> LogState:
        """Nothing is refused yet."""
        return state

    def work(
        self,
        plan: LogState,
        *,
        dry_run: bool,  # noqa: ARG002
        progress: Progress,
        output: str | None = None,  # noqa: ARG002
    ) -> Outcome[Cut]:
        """Find where the log is cut; nothing is written.

        Raises:
            ValueError: a segment without timestamps (magic 0) was written to since.
        """
        state = plan
        sizes = [segment.extent().end_position for segment in state.segments]
        for number, segment in enumerate(state.segments):
            progress(sizes[number])
            found = self._found(segment, state)
            if found is not None:
                end, position = max(found[0], state.log_start_offset), found[1]
                cut_size = sum(sizes[number:]) - position
                report = Cut(state.log_end_offset, end, sum(sizes), cut_size)
                return Outcome(report=report, truncate_to=end)
        return Outcome(report=Cut(state.log_end_offset, state.log_end_offset, sum(sizes), 0))

    def _found(self, segment: Segment, state: LogState) -> tuple[int, int] | None:
        """Return the offset behind the last batch that stays, and its position, if the cut is in this segment."""
        next_base = state.log_end_offset if segment.next_base_offset is None else segment.next_base_offset
        if self.offset is not None and next_base <= self.offset:
            return None
        is_empty = not segment.extent().end_position
        if self.timestamp is not None and (is_empty or largest_timestamp(segment) < self.timestamp):
            return None
        end = segment.base_offset
        with segment.open() as file:
            for batches in segment.batches_since(file, segment.base_offset):
                columns = (batches[name].to_pylist() for name in ("position", "last_offset", "max_timestamp"))
                for position, last_offset, timestamp in zip(*columns, strict=True):
                    is_since = timestamp >= self.timestamp if self.timestamp is not None else last_offset >= self.offset
                    if is_since:
                        return end, position
                    end = last_offset + 1
        if self.timestamp is not None:
            raise ValueError(
                f"cannot tell what {segment.path} held at that time: it was written to since, and has no timestamps; "
                "give an offset instead"
            )
        return None
