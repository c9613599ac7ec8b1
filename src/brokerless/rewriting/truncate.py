"""Truncating a log to its state at an earlier time or offset.

Kafka truncates by offset only. The same rules apply here as for a follower that has more records than its leader.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from brokerless.append.operation import Outcome, PlainOperation
from brokerless.arguments import check_number, listed_few, to_ms
from brokerless.errors import CorruptRecordError, LogInUseError
from brokerless.io.runner import Threads
from brokerless.log.survey import tuples
from brokerless.recovery.truncate import truncate
from brokerless.rewriting.retain import largest_timestamp
from brokerless.rewriting.whole_transactions import Cut, keep_whole
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from brokerless.append.operation import Commit, LogState, Progress
    from brokerless.arguments import Time
    from brokerless.log.segment import Segment

_COLUMNS = ("position", "base_offset", "last_offset", "max_timestamp", "is_valid")


@dataclass(frozen=True)
class EndedTransaction:
    """A transaction that was open at a cut.

    Attributes:
        producer_id: its producer.
        first_offset: its first offset.
        is_committed: True if it ends with a COMMIT marker, because the commit was decided before the cut and all
            batches of the transaction are kept. Otherwise it ends with an ABORT marker, or is left out.
    """

    producer_id: int
    first_offset: int
    is_committed: bool


@dataclass(frozen=True)
class TruncationReport:
    """The effect of truncation on one log.

    Attributes:
        end_before: the present log end offset.
        log_end_offset: the new log end offset: no record at or above it is left.
        size: the size of all batches before, in bytes.
        cut_size: the size of the deleted batches, in bytes.
        open_transactions: the number of transactions open at the cut. Their coordinator no longer knows these
            transactions. Without a marker, read_committed consumers would wait there for ever.
        are_aborted: ABORT markers end the open transactions; False if the log ends before the first of them, or if
            COMMIT markers end all of them.
        ended: the transactions that are ended with markers.
        left_out: the transactions that are cut off together with all records after the first of them: the open
            transactions, and those whose marker came after the start of the first open one.
        whole_from: the first planned end of the log, if the log now ends earlier to keep transactions whole. The new
            end is then before the COMMIT marker of a transaction of which other logs lack a part. None if the log keeps
            its planned end.
    """

    end_before: int
    log_end_offset: int
    size: int
    cut_size: int
    open_transactions: int = 0
    are_aborted: bool = False
    ended: tuple[EndedTransaction, ...] = ()
    left_out: tuple[EndedTransaction, ...] = ()
    whole_from: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the report as a dict for JSON."""
        return asdict(self)

    def lines(self, *, dry_run: bool = False) -> list[str]:
        """Return the report in words. For a dry run, the words describe the plan."""
        if self.log_end_offset == self.end_before:
            lines = [f"nothing is cut: the log ends at {self.end_before}"]
        else:
            ends = "would end" if dry_run else "ends"
            sizes = f"{self.cut_size:,} of {self.size:,} bytes {'would be cut' if dry_run else 'cut'}"
            lines = [f"{ends} at {self.log_end_offset}, not at {self.end_before}: {sizes}"]
        if self.whole_from is not None:
            be = "would be" if dry_run else "is"
            lines.append(
                f"it {be} cut at {self.log_end_offset} and not at {self.whole_from}: the COMMIT marker there is of a "
                "transaction that is incomplete in other partitions"
            )
        for is_committed, what in ((True, "committed"), (False, "aborted")):
            ended = [one for one in self.ended if one.is_committed is is_committed]
            if ended:
                lines.append(f"{_in_words(ended, dry_run=dry_run)} {what}, with markers at the end")
        if self.left_out:
            lines.append(
                f"{_in_words(self.left_out, dry_run=dry_run)} left out, with all records from the first of these "
                "offsets on"
            )
        return lines


def _in_words(transactions: Sequence[EndedTransaction], *, dry_run: bool) -> str:
    several = "s" if len(transactions) > 1 else ""
    be = "would be" if dry_run else "are" if several else "is"
    each = [f"{one.producer_id} (from offset {one.first_offset})" for one in sorted(transactions, key=_by_producer)]
    return f"the open transaction{several} of producer{several} {listed_few(each)} {be}"


def _by_producer(transaction: EndedTransaction) -> tuple[int, int]:
    return transaction.producer_id, transaction.first_offset


@dataclass(frozen=True, kw_only=True)
class Truncation(PlainOperation):
    """Delete everything that was appended to a log since a time or an offset. Meant for a copy.

    Over several logs, each transaction is kept as a whole, or not at all. If the commit of a transaction was decided
    before the cut, and the cut deletes none of its batches, the transaction ends with COMMIT markers. A log that has
    the COMMIT marker of any other halved transaction is cut further, before this marker.

    Attributes:
        timestamp: the time: ms since 1970, a datetime or ISO 8601 text. The first batch with a record of that time or
            later is deleted, with all following batches.
        offset: the new log end offset, instead of a time. A batch that contains it is deleted as a whole.
        open_transactions: the treatment of transactions that are open at the cut. "abort": end them with ABORT markers
            after the cut. "cut": cut before the first of them, which may also delete decided records. Whole
            transactions that were decided before the cut are committed in both cases.
        sole_replica: True if no other broker has a replica that matters. Otherwise the cluster's own log, unlike a
            copy, is not cut below its high watermark.

    Raises:
        ValueError: neither or both of `timestamp` and `offset` are given, or one is negative.
        TypeError: `timestamp` is no time, or `offset` is not an integer.

    >>> import brokerless as bl
    >>> truncation = Truncation(offset=100)
    >>> [done.report.log_end_offset for done in bl.rewrite(truncation, CLUSTER_DIR, topics=["orders"], dry_run=True)]
    [80, 80, 80]
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
            raise ValueError(f"{option('open_transactions')} is {self.open_transactions!r}: abort or cut expected")

    def plan(self, state: LogState) -> LogState:
        """Return the state: only `work` can refuse the log."""
        return state

    def work(
        self, plan: LogState, *, dry_run: bool, progress: Progress, output: str | None = None
    ) -> Outcome[TruncationReport]:
        """Find where to cut the log, regardless of other logs; write nothing.

        Raises:
            CorruptRecordError: batches in the segment with the cut are out of order, or the first deleted batch is
                damaged.
            ValueError: a segment without timestamps (magic 0) was modified after the time. Or the cut is in a part that
                remote storage or other replicas may have.
        """
        (decided,) = self.together({"": (("", 0), plan)}, lambda _, count: progress(count)).values()
        return decided.work(plan, dry_run=dry_run, progress=lambda _: None, output=output)

    def together(
        self, states: Mapping[str, tuple[tuple[str, int], LogState]], progress: Callable[[str, int], None]
    ) -> dict[str, DecidedTruncation]:
        """Find where to cut several logs, so that each transaction is whole in all of them, or in none.

        For the errors see `work`.
        """
        logs = [_LogToCut(name, state, directory) for directory, (name, state) in states.items()]
        with Threads() as threads:
            list(threads.map(lambda log: log.begin(self, progress), logs))
        while True:
            cuts = [Cut(log.state, log.name, log.end, log.open) for log in logs]
            verdict = keep_whole(cuts, cast("int | None", self.timestamp))
            is_changed = False
            for number, log in enumerate(logs):
                log.commits = tuple(verdict.commits.get(number, ()))
                end = verdict.ends.get(number, log.end)
                log.whole_from = log.first_end if end < log.end and log.whole_from is None else log.whole_from
                committed = {one.producer_id for one in log.commits}
                undecided = [first for producer, first in log.open if producer not in committed]
                if self.open_transactions == "cut" and undecided:
                    # A transaction begins with a batch, so this cuts no batch. But it may delete the marker of an
                    # earlier one.
                    end = min(end, *undecided)
                if end < log.end:
                    log.cut_at(end)
                    is_changed = True
            if not is_changed:
                now = max((log.state.now for log in logs), default=0)
                return {log.directory: log.decided(self, now) for log in logs}


class _LogToCut:
    """A log whose cut is being determined.

    Attributes:
        name: topic and partition.
        state: the log.
        directory: its directory.
        first_end: the first end that was found.
        end: the offset of the cut: the new log end offset.
        open: the transactions open at the cut: producer id and first offset.
        commits: the open transactions that were committed.
        whole_from: see `TruncationReport`.
    """

    def __init__(self, name: tuple[str, int], state: LogState, directory: str) -> None:
        self.name, self.state, self.directory = name, state, directory
        self.commits: tuple[Commit, ...] = ()
        self.whole_from: int | None = None
        self._seen: set[tuple[int, int]] = set()
        self._sizes = [segment.extent().end_position for segment in state.segments]

    def begin(self, options: Truncation, progress: Callable[[str, int], None]) -> None:
        """Find the cut at the time or offset of the options."""
        found = _find_cut(
            self.state,
            self._sizes,
            partial(progress, self.directory),
            cast("int | None", options.timestamp),
            options.offset,
        )
        self._take(found)
        self.first_end, self._first_open = self.end, self.open

    def cut_at(self, offset: int) -> None:
        """Cut the log further, at an offset."""
        self._take(_find_cut(self.state, self._sizes, lambda _: None, None, offset))

    def _take(self, found: tuple[int, int, int]) -> None:
        self._number, self.end, self._position = found
        self.open = _open_transactions(self.state, self.end)
        self._seen.update(self.open)

    def decided(self, options: Truncation, now: int) -> DecidedTruncation:
        """Return the decided truncation of the log."""
        state, end = self.state, self.end
        committed = {one.producer_id for one in self.commits}
        ended = tuple(EndedTransaction(producer, first, producer in committed) for producer, first in self.open)
        left_out = tuple(
            EndedTransaction(producer, first, is_committed=False)
            for producer, first in sorted(self._seen - set(self.open))
            if first >= end
        )
        cut_size = sum(self._sizes[self._number :]) - self._position
        report = TruncationReport(
            state.log_end_offset,
            end,
            sum(self._sizes),
            cut_size,
            len(self.open if options.open_transactions == "abort" else self._first_open),
            any(not one.is_committed for one in ended),
            ended,
            left_out,
            self.whole_from,
        )
        return DecidedTruncation(report, self._number, self.commits, now, sole_replica=options.sole_replica)


@dataclass(frozen=True)
class DecidedTruncation(PlainOperation):
    """The part of a `Truncation` for one log.

    Attributes:
        report: the report.
        number: the number of the segment with the cut.
        commits: the open transactions that are committed.
        now: the time of the markers, ms.
        sole_replica: see `Truncation`.
    """

    state_name: ClassVar[str] = Truncation.state_name

    report: TruncationReport
    number: int
    commits: tuple[Commit, ...]
    now: int
    sole_replica: bool

    def plan(self, state: LogState) -> LogState:
        """Return the state: only `work` can refuse the log."""
        return state

    def work(
        self,
        plan: LogState,
        *,
        dry_run: bool,
        progress: Progress,  # noqa: ARG002
        output: str | None = None,  # noqa: ARG002
    ) -> Outcome[TruncationReport]:
        """Check that the log may be cut there; write nothing."""
        state, report = plan, self.report
        end = report.log_end_offset
        # A dry run may look at the log of a running broker.
        if state.log_end_offset != report.end_before and not dry_run:
            raise LogInUseError(f"{state.directory} was changed meanwhile: stop what writes there, and start again")
        if end < state.log_end_offset and state.is_tiered:
            is_local = self.number == len(state.segments) - 1 and (self.number or state.remote_offsets is None)
            if not is_local:
                raise ValueError(
                    f"cannot cut {state.directory} at {end}, because the log is tiered, and remote storage may have "
                    f"later offsets. Cut above {state.segments[-1].base_offset}, in the active segment, which is never "
                    "in remote storage"
                )
        if end < state.high_watermark and state.is_original and state.others_from is not None and not self.sole_replica:
            raise ValueError(
                f"cannot cut {state.directory} at {end}: other brokers may have replicas with the records below "
                f"the high watermark {state.high_watermark}. Cut a copy ({option('output')}), or give "
                f"{option('sole_replica')} if no other replica matters"
            )
        truncate_to = end if end < state.log_end_offset or report.ended else None
        if truncate_to == state.log_end_offset:
            _check_order(state, state.segments[self.number])
        return Outcome(
            report=report,
            truncate_to=truncate_to,
            ends_open_transactions=bool(report.ended),
            commits=self.commits,
            ended_at=self.now,
            unread_from=0,
        )


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
    """Return the offset after the last batch that stays, and its position, if the cut is in this segment."""
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
                    reason = f"offset {last_offset} is below {end}, where the segment continues"
                    raise CorruptRecordError(reason, path=segment.path, position=position)
                if is_since and found is None:
                    is_above = offset is not None and base_offset is not None and base_offset >= offset
                    if not is_valid and not is_above:
                        raise CorruptRecordError(
                            f"crc mismatch: the batch with last offset {last_offset} may or may not be after the cut",
                            path=segment.path,
                            position=position,
                        )
                    found = end, position
                end = last_offset + 1
    if found is None and timestamp is not None:
        raise ValueError(
            f"cannot find the end of {segment.path} at that time, because its records have no timestamps, and records "
            "were appended after that time: give an offset instead"
        )
    return found


def _check_order(state: LogState, segment: Segment) -> None:
    """Refuse a segment whose batches are out of order, because their offsets determine the position of the cut."""
    end_offset = segment.end_offset(state.log_end_offset)
    end = segment.base_offset
    with segment.open() as file:
        for batches in segment.batches_since(file, segment.base_offset):
            for position, last in zip(
                *(batches[name].to_pylist() for name in ("position", "last_offset")), strict=True
            ):
                if not end <= last < end_offset:
                    reason = f"offset {last} is not between {end}, where the segment continues, and {end_offset}"
                    raise CorruptRecordError(reason, path=segment.path, position=position)
                end = last + 1


def _open_transactions(state: LogState, end: int) -> list[tuple[int, int]]:
    """Return the transactions that are open at an offset: producer id and first offset."""
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
    entries = tuples(cut.producers.entries(), "producer_id", "current_txn_first_offset")
    return [(producer, first) for producer, first in entries if first is not None and first >= 0]
