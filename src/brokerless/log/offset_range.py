"""The offset range of a read: words, numbers and times resolved to offsets, and the transactions to leave out."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from brokerless.arguments import to_ms, unknown
from brokerless.errors import OffsetOutOfRangeError
from brokerless.log import offsets_for_times
from brokerless.log.aborted_transactions import first_unstable_offset, transactions
from brokerless.log.segment import NO_END
from brokerless.log.split import Stretch
from brokerless.wording import option

if TYPE_CHECKING:
    from brokerless.arguments import Time
    from brokerless.log.aborted_transactions import Aborted, Doubt
    from brokerless.log.partition_files import PartitionFiles

IsolationLevel = Literal["read_uncommitted", "read_committed"]
StartOffset = int | Literal["earliest", "latest"]
EndOffset = int | Literal["latest", "high-watermark"]
_Offset = TypeVar("_Offset", StartOffset | None, EndOffset | None)


class Bounds(NamedTuple):
    """The rows of a read: the offsets [start_offset, end_offset), without the rows of the `aborted` transactions.

    Attributes:
        start_offset: the first offset to read.
        end_offset: the offset to stop before.
        limit: the lowest requested end. If it is above the log end offset, the read includes damage at the end.
        aborted: the transactions to leave out.
        doubts: transactions that may be committed or aborted. A read that does not skip them ends at the first of them.
        is_to_end: whether the read would also cover records after the present log end.
    """

    start_offset: int
    end_offset: int
    limit: int
    aborted: list[Aborted]
    doubts: list[Doubt]
    is_to_end: bool

    def stretches(self, files: PartitionFiles) -> list[Stretch]:
        """Return the parts of segments that the read covers."""
        found = []
        next_offset, end, damage, last_batch = files.extent
        # The log may continue after damage, but not beyond the end that its other files prove.
        known, limit_offset = (None, files.exceeded_end) if damage else (next_offset, next_offset)
        is_open = self.limit > files.log_end_offset or self.limit == NO_END
        for segment in files.segments:
            following, missing = segment.next_base_offset, files.claimed_lost_after(segment)
            if following is not None:
                if following > self.start_offset and segment.base_offset < self.end_offset:
                    end_offset = min(self.end_offset, following)
                    # A live broker's cleaner may have merged the next segment into this one since they were listed.
                    limit = None if files.root.is_locked else following
                    trusts = files.trusts_index(segment)
                    found.append(Stretch(segment, segment.size, end_offset, following, None, limit, missing, trusts))
            elif is_open:
                found.append(Stretch(segment, end, self.limit, known, last_batch, limit_offset, missing))
            elif max(self.start_offset, segment.base_offset) < self.end_offset:
                found.append(Stretch(segment, end, self.end_offset, known, last_batch, limit_offset))
        return found


def bounds(
    files: PartitionFiles,
    start_offset: StartOffset | None,
    end_offset: EndOffset | None,
    *,
    start_timestamp: Time | None,
    end_timestamp: Time | None,
    isolation_level: IsolationLevel,
    verify_transactions: bool,
    skips: bool,
) -> Bounds:
    """Resolve the arguments of `Log.plan` to offsets."""
    check_word("isolation_level", isolation_level, ("read_uncommitted", "read_committed"))
    start_timestamp = None if start_timestamp is None else to_ms("start_timestamp", start_timestamp)
    end_timestamp = None if end_timestamp is None else to_ms("end_timestamp", end_timestamp)
    start_offset, end_offset = _plain(start_offset), _plain(end_offset)
    is_committed = isolation_level == "read_committed"
    visible = visible_end(files, end_offset)
    limits = [visible] if visible < files.log_end_offset or end_offset == "high-watermark" else []
    if isinstance(end_offset, int):
        limits.append(end_offset)
    if end_timestamp is not None:
        found = end_at(files, end_timestamp, isolation_level, end_offset, skips=skips)
        limits += [] if found is None else [found]
    asked = [] if start_timestamp is not None and start_offset in (None, "earliest") else [start_offset]
    # If the log has lost records at its end, its high watermark may be above the log end offset.
    latest = min(visible, files.log_end_offset)
    starts = [_start(files, offset, latest) for offset in asked]
    if start_timestamp is not None:
        since = start_at(files, start_timestamp, isolation_level, end_offset, skips=skips)
        starts.append(latest if since is None else since)
    start = max(starts)
    aborted: list[Aborted] = []
    doubts: list[Doubt] = []
    is_to_end = end_timestamp is None and not isinstance(end_offset, int)
    if is_committed:
        end = visible_end(files.whole, end_offset)
        aborted, _, unstable, doubts = transactions(files.whole, start, end, verify=verify_transactions)
        # A marker appended after the present log end would let the read continue.
        is_to_end |= unstable is not None and unstable < min(limits, default=NO_END)
        limits += [] if unstable is None else [unstable]
        doubts = [doubt for doubt in doubts if doubt.first_offset < min(limits, default=NO_END)]
    if skips:
        aborted += [(doubt.producer_id, doubt.first_offset, doubt.end_offset or NO_END) for doubt in doubts]
    else:
        limits += [max(start, doubt.first_offset) for doubt in doubts]
    limit = min(limits, default=NO_END)
    return Bounds(start, min(files.log_end_offset, limit), limit, aborted, doubts, is_to_end)


def visible_end(files: PartitionFiles, end_offset: EndOffset | None = None) -> int:
    """Return where a `read_uncommitted` read ends; for an `end_offset` given as a number, the log end offset.

    Raises:
        ValueError: an unknown word, a negative number, or "high-watermark" without a checkpointed one.
    """
    if isinstance(end_offset, int):
        if end_offset < 0:
            raise ValueError(f"{option('end_offset')} {end_offset} is negative: expected 0 or more")
        return files.log_end_offset
    if end_offset is None:
        is_live = files.root.is_locked and files.high_watermark is not None
        return _high_watermark(files) if is_live else files.log_end_offset
    check_word("end_offset", end_offset, ("latest", "high-watermark"))
    if end_offset == "latest":
        return files.log_end_offset
    return _high_watermark(files)


def _high_watermark(files: PartitionFiles) -> int:
    """Return the checkpointed high watermark, limited to the log's range unless records at the log's end are lost."""
    if files.high_watermark is None:
        raise ValueError(f"the high watermark of {files.name} is not known: {files.root.path} has no checkpoint of it")
    high_watermark = max(files.high_watermark, files.log_start_offset)
    return min(high_watermark, files.log_end_offset) if files.lost_at_end is None else high_watermark


def stable_end(files: PartitionFiles, end_offset: EndOffset | None = None, *, skips: bool = False) -> int:
    """Return where a `read_committed` read ends; an `end_offset` given as a number sets no limit.

    Raises:
        CorruptRecordError: damage may hide the marker of a transaction. With `skips`, no error is raised, and the
            transaction is treated as ended at the damage.
    """
    unstable = first_unstable_offset(files.whole, visible_end(files.whole, end_offset), skips=skips)
    end = visible_end(files, end_offset)
    return end if unstable is None else min(unstable, end)


def _plain(offset: _Offset) -> _Offset:
    """Convert integers of other libraries, such as NumPy's, to `int`."""
    return offset if offset is None or isinstance(offset, str) else operator.index(offset)


def check_word(name: str, word: str, known: tuple[str, ...]) -> None:
    """Refuse an unknown word, and name the nearest known one."""
    if word not in known:
        raise unknown(option(name), str(word), known)


def _start(files: PartitionFiles, start_offset: StartOffset | None, visible: int) -> int:
    first, end = files.local_log_start_offset, files.log_end_offset
    if isinstance(start_offset, int):
        if start_offset < 0:
            return max(first, visible + start_offset)
        if first <= start_offset <= end:
            return start_offset
        held = f"which has offsets {first} to {end - 1} here" if end > first else f"which is empty here, at {first}"
        raise OffsetOutOfRangeError(
            f"offset {start_offset} is not in the log {files.name}, {held}",
            log_start_offset=first,
            log_end_offset=end,
        )
    if start_offset is None:
        return first
    check_word("start_offset", start_offset, ("earliest", "latest"))
    return first if start_offset == "earliest" else visible


def start_at(
    files: PartitionFiles,
    timestamp: int,
    isolation_level: IsolationLevel,
    end_offset: EndOffset | None = None,
    *,
    skips: bool,
) -> int | None:
    """Return the offset at which a read from `timestamp` on starts; None if no record is that late.

    Raises:
        CorruptRecordError: damage or missing records may hide the first such record. With `skips`, no error is raised.
            If the damage lies directly before the first record found, the read starts at the damage.
        ValueError: a negative time.
    """
    found = _since(files, timestamp, skips=skips)
    is_answer = found.answer.offset < _end_of_answers(files, isolation_level, end_offset)
    return found.start_offset if is_answer else None


def end_at(
    files: PartitionFiles,
    timestamp: int,
    isolation_level: IsolationLevel,
    end_offset: EndOffset | None = None,
    *,
    skips: bool,
) -> int | None:
    """Return the offset at which a read up to `timestamp` ends; None if no record is that late.

    Raises the errors of `start_at`.
    """
    offset = _since(files, timestamp, skips=skips).answer.offset
    return offset if 0 <= offset < _end_of_answers(files, isolation_level, end_offset) else None


def _since(files: PartitionFiles, timestamp: int, *, skips: bool) -> offsets_for_times.Since:
    if timestamp < 0:
        raise ValueError(f"not a time: {timestamp} is negative; expected ms since 1970")
    return offsets_for_times.since(files, timestamp, skips=skips)


def _end_of_answers(files: PartitionFiles, isolation_level: IsolationLevel, end_offset: EndOffset | None) -> int:
    """Return the offset below which a lookup by time must find its record. Ignore transactions that are in doubt."""
    is_committed = isolation_level == "read_committed"
    return stable_end(files, end_offset, skips=True) if is_committed else visible_end(files, end_offset)
