"""Truncating a log to its state at an earlier time or offset.

Kafka has truncation only: the rules are those of a follower that had more than its leader.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from brokerless.append.operation import Outcome
from brokerless.arguments import check_number, to_ms
from brokerless.errors import CorruptRecordError
from brokerless.recovery.truncate import truncate
from brokerless.rewriting.retain import largest_timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.append.operation import LogState, Progress
    from brokerless.append.writer import LogWriter
    from brokerless.arguments import Time
    from brokerless.log.segment import Segment

_COLUMNS = ("position", "base_offset", "last_offset", "max_timestamp", "is_valid")


@dataclass(frozen=True)
class TruncateReport:
    """What truncation does to one log.

    Attributes:
        end_before: the present log end offset.
        log_end_offset: the new log end offset: no record from here on is left.
        size: the size of all batches before, in bytes.
        cut_size: the size of the deleted batches, in bytes.
        open_transactions: the number of transactions open at the cut. Their coordinator no longer knows them, so nobody
            would end them, and `read_committed` would stop there for ever.
        are_aborted: ABORT markers end the open transactions; False if the log ends before the first of them.
    """

    end_before: int
    log_end_offset: int
    size: int
    cut_size: int
    open_transactions: int = 0
    are_aborted: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the report as a dict for JSON."""
        return asdict(self)

    def lines(self, *, dry_run: bool = False) -> list[str]:
        """Return the report in words; for a dry run, what would be done."""
        if self.log_end_offset == self.end_before:
            lines = [f"nothing is cut: the log ends at {self.end_before}"]
        else:
            ends = "would end" if dry_run else "ends"
            sizes = f"{self.cut_size:,} of {self.size:,} bytes {'would be cut' if dry_run else 'cut'}"
            lines = [f"{ends} at {self.log_end_offset}, not at {self.end_before}: {sizes}"]
        if self.open_transactions:
            ended = "ended with ABORT markers" if self.are_aborted else "left out, with all behind the first of them"
            lines.append(f"open transactions at that moment: {self.open_transactions}, {ended}")
        return lines


@dataclass(frozen=True, kw_only=True)
class TruncateTo:
    """Delete everything that was appended to a log since a time or an offset. Meant for a copy.

    Attributes:
        timestamp: ms since 1970, a datetime or ISO 8601 text. Delete the first batch with a record of that time or
            later, and all behind it.
        offset: the new log end offset, instead of a time. A batch that it lies in is deleted as a whole.
        open_transactions: how to treat transactions that are open at the cut. "abort": end them with ABORT markers
            behind the cut. "cut": cut before the first of them, which may delete decided records, too.
        sole_replica: no other broker has a replica that matters. Otherwise the cluster's own log, unlike a copy, is not
            cut below its high watermark.

    Raises:
        ValueError: neither or both of `timestamp` and `offset` are given, or one is negative.
        TypeError: `timestamp` is no time, or `offset` is not an integer.

    >>> import brokerless as bl
    >>> [done.report.log_end_offset for done in bl.rewrite(TruncateTo(offset=100), SAMPLE, dry_run=True)]
    [99]
    """

    state_name: ClassVar[str] = "Until"

    timestamp: Time | None = None
    offset: int | None = None
    open_transactions: Literal["abort", "cut"] = "abort"
    sole_replica: bool = False

    def __post_init__(self) -> None:
        if (self.timestamp is None) == (self.offset is None):
            raise ValueError("give either a timestamp or an offset to truncate to")
        if self.timestamp is not None:
            object.__setattr__(self, "timestamp", to_ms("timestamp", self.timestamp))
        for name, value in (("timestamp", self.timestamp), ("offset", self.offset)):
            if value is not None:
                check_number(name, value, 0)
        if self.open_transactions not in ("abort", "cut"):
            raise ValueError(f"open_transactions is {self.open_transactions!r}: abort or cut expected")

    @property
    def decided_by(self) -> tuple[str, ...]:
        """No setting: the options alone decide."""
        return ()

    def prepare(self, log: LogWriter) -> None:
        """Change nothing: the plan needs no preparation."""

    def plan(self, state: LogState) -> LogState:
        """Return the state: only `work` can refuse the log."""
        return state

    def work(
        self,
        plan: LogState,
        *,
        dry_run: bool,  # noqa: ARG002
        progress: Progress,
        output: str | None = None,  # noqa: ARG002
    ) -> Outcome[TruncateReport]:
        """Find where to cut the log; write nothing.

        Raises:
            CorruptRecordError: batches in the segment with the cut are out of order, or the first deleted one is
                damaged.
            ValueError: a segment without timestamps (magic 0) was written to since. Or the cut is in a part that remote
                storage or other replicas may have.
        """
        state = plan
        sizes = [segment.extent().end_position for segment in state.segments]
        number, end, position = _find_cut(state, sizes, progress, cast("int | None", self.timestamp), self.offset)
        unstable = still_open = _open_transactions(state, end)
        while still_open and self.open_transactions == "cut":
            # A transaction begins with a batch, so this cuts no batch. But it may delete the marker of an earlier one.
            number, end, position = _find_cut(state, sizes, lambda _: None, None, min(still_open))
            still_open = _open_transactions(state, end)
        if end < state.log_end_offset and state.is_tiered:
            is_local = number == len(sizes) - 1 and (number or state.remote_offsets is None)
            if not is_local:
                raise ValueError(
                    f"cannot cut {state.directory} at {end}: it is tiered, and remote storage may have later offsets; "
                    f"cut above {state.segments[-1].base_offset}, in the active segment, which is never remote"
                )
        if end < state.high_watermark and state.is_original and state.others_from is not None and not self.sole_replica:
            raise ValueError(
                f"cannot cut {state.directory} at {end}: other brokers may have replicas with the records below "
                f"{state.high_watermark}; cut a copy (to), or give sole_replica if no other replica matters"
            )
        are_aborted = bool(unstable) and self.open_transactions == "abort"
        cut_size = sum(sizes[number:]) - position
        report = TruncateReport(state.log_end_offset, end, sum(sizes), cut_size, len(unstable), are_aborted)
        truncate_to = end if end < state.log_end_offset or are_aborted else None
        if truncate_to == state.log_end_offset:
            _check_order(state, state.segments[number])
        return Outcome(report=report, truncate_to=truncate_to, aborts_open_transactions=are_aborted, unread_from=0)


def _find_cut(
    state: LogState, sizes: Sequence[int], progress: Progress, timestamp: int | None, offset: int | None
) -> tuple[int, int, int]:
    """Return where to cut the log: the number of the segment, the offset, and the position in the segment."""
    for number, segment in enumerate(state.segments):
        progress(sizes[number])
        found = _find_cut_in(segment, state, timestamp, offset)
        if found is not None:
            return number, max(found[0], state.log_start_offset), found[1]
    return len(sizes) - 1, state.log_end_offset, sizes[-1]


def _find_cut_in(
    segment: Segment, state: LogState, timestamp: int | None, offset: int | None
) -> tuple[int, int] | None:
    """Return the offset behind the last batch that stays, and its position, if the cut is in this segment."""
    next_base = segment.end_offset(state.log_end_offset)
    if offset is not None and next_base <= offset:
        return None
    is_empty = not segment.extent().end_position
    if timestamp is not None and (is_empty or largest_timestamp(segment) < timestamp):
        return None
    end = segment.base_offset
    found = None
    with segment.open() as file:
        for batches in segment.batches_since(file, segment.base_offset, check_crcs=True):
            columns = (batches[name].to_pylist() for name in _COLUMNS)
            for position, base_offset, last_offset, max_timestamp, is_valid in zip(*columns, strict=True):
                is_since = max_timestamp >= timestamp if timestamp is not None else last_offset >= offset
                if last_offset < end:
                    # Offsets decide where to cut, and no checksum covers them. So check the deleted part, too.
                    reason = f"offset {last_offset} is below {end}, where the segment goes on"
                    raise CorruptRecordError(reason, path=segment.path, position=position)
                if is_since and found is None:
                    is_above = offset is not None and base_offset is not None and base_offset >= offset
                    if not is_valid and not is_above:
                        raise CorruptRecordError(
                            f"crc mismatch: the batch with last offset {last_offset} may or may not be behind the cut",
                            path=segment.path,
                            position=position,
                        )
                    found = end, position
                end = last_offset + 1
    if found is None and timestamp is not None:
        raise ValueError(
            f"cannot find the end of {segment.path} at that time: it was written to since, and has no timestamps; "
            "give an offset instead"
        )
    return found


def _check_order(state: LogState, segment: Segment) -> None:
    """Refuse a segment whose batches are out of order: their offsets decide where it is truncated."""
    end_offset = segment.end_offset(state.log_end_offset)
    end = segment.base_offset
    with segment.open() as file:
        for batches in segment.batches_since(file, segment.base_offset):
            for position, last in zip(
                *(batches[name].to_pylist() for name in ("position", "last_offset")), strict=True
            ):
                if not end <= last < end_offset:
                    reason = f"offset {last} is not between {end}, where the segment goes on, and {end_offset}"
                    raise CorruptRecordError(reason, path=segment.path, position=position)
                end = last + 1


def _open_transactions(state: LogState, end: int) -> list[int]:
    """Return the first offsets of the transactions that are open at an offset."""
    cut = truncate(
        state.directory,
        state.config,
        end,
        log_start_offset=state.log_start_offset,
        recovery_point=0,
        producers=None,
        end_offset=state.log_end_offset,
        now=state.now,
    )
    first_offsets = cut.producers.entries()["current_txn_first_offset"].to_pylist()
    return [offset for offset in first_offsets if offset is not None and offset >= 0]
