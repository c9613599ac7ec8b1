"""The batches of a log, one segment after the other, and the indexes of each segment against them."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.checking.finding import Finding
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.inspection.findings import findings
from brokerless.io import storage
from brokerless.layout.file_names import INDEX, TIMEINDEX, segment_file
from brokerless.log.segment import offset_index, time_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.inspection.findings import Contents
    from brokerless.log.log import Log
    from brokerless.log.segment import Segment

_MAX_SEQUENCE = (1 << 31) - 1
# No more of one kind in a segment: where one entry of an index is wrong, mostly all behind it are.
_MOST = 10


class BatchCheck:
    """Checks the sound batches of a log against each other, across segments.

    Args:
        log: the log.

    Attributes:
        epochs: the leader epochs in the batches, each with its first and last offset.
        gaps: findings for missing offsets and sequences. They count only if the log is not compacted.
        is_compacted: whether a batch lacks records that its offsets once had.
        has_producers: whether a batch has a producer.
        has_transactions: whether a batch is in a transaction.
    """

    columns: ClassVar[Sequence[str]] = ("offset", "timestamp", "position")

    def __init__(self, log: Log) -> None:
        self.epochs: list[tuple[int, int, int]] = []
        self.gaps: list[Finding] = []
        self.is_compacted = self.has_producers = self.has_transactions = False
        self._log = log
        self._path = ""
        self._next_offset: int | None = None
        self._epoch = -1
        self._sequences: dict[tuple[int, int], int] = {}
        self._found: list[Finding] = []
        self._indexes: _Indexes | None = None
        self._of_records: dict[int, int] = {}

    def start(self, segment: Segment) -> Iterator[Finding]:
        """Start a segment. Yield findings for indexes that cannot be read."""
        self._path = segment.path
        self._indexes = _Indexes(self._log, segment)
        yield from self._indexes.unreadable

    def finish(self, damaged: Sequence[tuple[int, int | None]]) -> Iterator[Finding]:
        """Yield what was found in the segment. An entry that leads to one of the `damaged` positions may be right."""
        if self._indexes is not None:
            self._found += self._indexes.finish(damaged)
        for kind in dict.fromkeys(found.code for found in self._found):
            yield from [found for found in self._found if found.code == kind][:_MOST]
        self._found = []

    def rows(self, rows: pa.RecordBatch) -> None:
        """Take records: the largest timestamp of each batch."""
        table = pa.table([rows["position"], rows["timestamp"].cast(pa.int64())], ["position", "timestamp"])
        grouped = table.group_by("position").aggregate([("timestamp", "max")])
        columns: list[Any] = [grouped["position"].to_pylist(), grouped["timestamp_max"].to_pylist()]
        for position, highest in zip(*columns, strict=True):
            self._of_records[position] = max(self._of_records.get(position, -1), -1 if highest is None else highest)

    def batches(self, batches: pa.RecordBatch) -> None:
        """Take the headers of batches, in the order of the file."""
        if not batches.num_rows:
            return
        if self._indexes is not None:
            self._indexes.take(batches)
        self._check_offsets(batches)
        self._check_epochs(batches)
        self._check_sequences(batches)
        self._check_timestamps(batches)

    def _finding(self, code: str, batches: pa.RecordBatch, row: int, message: str, **fields: Any) -> Finding:  # noqa: ANN401 - those of a finding
        position = batches["position"][row].as_py()
        return Finding(
            code=code,
            topic=self._log.topic,
            partition=self._log.partition,
            path=self._path,
            position=position,
            message=message,
            **fields,
        )

    def _add(self, finding: Finding) -> None:
        if sum(found.code == finding.code for found in self._found) < _MOST:
            self._found.append(finding)

    def _check_offsets(self, batches: pa.RecordBatch) -> None:
        counts: Any = batches["records_count"]
        spans: Any = pc.add(pc.subtract(batches["last_offset"], batches["base_offset"]), 1)
        # A wrapper has its first offset inside.
        is_exact: Any = pc.equal(batches["magic"], pa.scalar(2, batches["magic"].type))
        fewer: Any = pc.and_(is_exact, pc.less(counts.cast(pa.int64()), spans))
        self.is_compacted |= bool(pc.any(fewer, min_count=0).as_py())
        before = _shifted(batches["last_offset"], None if self._next_offset is None else self._next_offset - 1)
        gap: Any = pc.and_(is_exact, pc.greater(batches["base_offset"], pc.add(before, 1)))
        for row in _rows(gap):
            start, end = before[row].as_py() + 1, batches["base_offset"][row].as_py()
            message = f"the batch begins at offset {end}, the one before it ends at {start - 1}"
            self.gaps.append(self._finding("offset-gap", batches, row, message, start_offset=start, end_offset=end))
            if len(self.gaps) > 10 * _MOST:
                break
        self._next_offset = batches["last_offset"][-1].as_py() + 1

    def _check_epochs(self, batches: pa.RecordBatch) -> None:
        epochs: Any = batches["partition_leader_epoch"]
        # Where they change, and the end.
        starts = _rows(pc.not_equal(epochs, _shifted(epochs, self._epoch)))
        if not starts or starts[0] > 0:
            starts = [0, *starts]
        for row, following in pairwise([*starts, batches.num_rows]):
            epoch, last = epochs[row].as_py(), batches["last_offset"][following - 1].as_py()
            if epoch < 0:
                continue
            if epoch < self._epoch:
                offset = batches["base_offset"][row].as_py()
                message = f"the batch at offset {offset} has leader epoch {epoch}, one before it has {self._epoch}"
                self._add(self._finding("epoch-order", batches, row, message, start_offset=offset))
                continue
            first = batches["last_offset"][row].as_py()
            if epoch == self._epoch:
                first = self.epochs.pop()[1]
            self.epochs.append((epoch, first, last))
            self._epoch = epoch

    def _check_sequences(self, batches: pa.RecordBatch) -> None:
        has: Any = pc.and_(
            pc.greater_equal(batches["producer_id"], pa.scalar(0, pa.int64())),
            pc.greater_equal(batches["base_sequence"], pa.scalar(0, pa.int32())),
        )
        self.has_transactions |= bool(pc.any(batches["is_transactional"], min_count=0).as_py())
        rows = _rows(has)
        self.has_producers |= bool(rows) or self.has_transactions
        columns = ("producer_id", "producer_epoch", "base_sequence", "last_sequence", "base_offset")
        for row, (producer, epoch, first, last, offset) in zip(
            rows,
            zip(*(batches[name].take(pa.array(rows, pa.int64())).to_pylist() for name in columns), strict=True),
            strict=True,
        ):
            known = self._sequences.get((producer, epoch))
            expected = None if known is None else 0 if known == _MAX_SEQUENCE else known + 1
            if expected is not None and first != expected and len(self.gaps) <= 10 * _MOST:
                what = f"the batch at offset {offset} of producer {producer}"
                message = f"{what} begins with sequence {first}, expected {expected}"
                self.gaps.append(self._finding("sequence-gap", batches, row, message, start_offset=offset))
            self._sequences[producer, epoch] = last

    def _check_timestamps(self, batches: pa.RecordBatch) -> None:
        if not self._of_records:
            return
        columns = ("position", "max_timestamp", "magic", "timestamp_type", "is_control")
        for row, (position, stored, magic, kind, is_control) in enumerate(
            zip(*(batches[name].to_pylist() for name in columns), strict=True)
        ):
            found = self._of_records.pop(position, None)
            if found is None or is_control or magic < 2:
                continue
            if kind == "CreateTime" and found != stored:
                message = f"the header says a largest timestamp of {stored}, that of the records is {found}"
                self._add(self._finding("batch-timestamp", batches, row, message))


class _Indexes:
    """The offset and time index of a segment, checked as its batches come."""

    def __init__(self, log: Log, segment: Segment) -> None:
        self._log, self._segment = log, segment
        # Each with the position to which its entry leads.
        self._found: list[tuple[Finding, int | None]] = []
        self.unreadable: list[Finding] = []
        self._offsets = self._entries(INDEX, "offset-index")
        self._times = self._entries(TIMEINDEX, "time-index")
        self._highest, self._before = -1, segment.base_offset - 1
        self._end = 0

    def _entries(self, kind: int, code: str) -> pa.RecordBatch | None:
        path = f"{self._log.path}/{segment_file(self._segment.base_offset, kind)}"
        if not storage.exists(path):
            self.unreadable.append(self._finding(f"{code}-missing", path, None, "the file is missing"))
            return None
        try:
            index: Any = offset_index(self._segment) if kind == INDEX else time_index(self._segment)
            if index is None:
                return None
            index.sanity_check()
        except (CorruptRecordError, UnsupportedFormatError) as error:
            self.unreadable.append(self._finding(code, path, error.position, str(error.args[0])))
            return None
        entries: pa.RecordBatch = index.entries()
        return entries

    def _finding(self, code: str, path: str, position: int | None, message: str) -> Finding:
        return Finding(
            code=code,
            topic=self._log.topic,
            partition=self._log.partition,
            path=path,
            position=position,
            message=message,
        )

    def take(self, batches: pa.RecordBatch) -> None:
        """Check the entries that lead to these batches."""
        start, self._end = self._end, batches["position"][-1].as_py() + batches["size"][-1].as_py()
        if self._offsets is not None:
            self._check_offsets(self._offsets, batches, start)
        if self._times is not None:
            self._check_times(self._times, batches)
        self._highest = max(self._highest, pc.max(batches["max_timestamp"]).as_py() or -1)
        self._before = batches["last_offset"][-1].as_py()

    def finish(self, damaged: Sequence[tuple[int, int | None]]) -> list[Finding]:
        """Return what was found, but for entries that lead into damage."""

        def is_in(position: int) -> bool:
            return any(start <= position and (end is None or position < end) for start, end in damaged)

        return [finding for finding, position in self._found if position is None or not is_in(position)]

    def _check_offsets(self, entries: pa.RecordBatch, batches: pa.RecordBatch, start: int) -> None:
        """Check that each entry leads to a batch, and that no batch before it has the entry's offset or a later one."""
        positions: Any = entries["position"].cast(pa.int64())
        here: Any = pc.and_(
            pc.greater_equal(positions, pa.scalar(start, pa.int64())),
            pc.less(positions, pa.scalar(self._end, pa.int64())),
        )
        rows = _rows(here)
        if not rows:
            return
        wanted = pa.array(rows, pa.int64())
        places: Any = pc.index_in(positions.take(wanted), value_set=batches["position"].cast(pa.int64()))
        offsets: Any = entries["offset"].take(wanted)
        before: Any = _shifted(batches["last_offset"], self._before).take(places)
        first: Any = batches["base_offset"].take(places)
        is_new: Any = pc.equal(batches["magic"].take(places), pa.scalar(2, batches["magic"].type))
        # At position 0 the offset may be any: a search begins there without an entry, too.
        late: Any = pc.and_(
            pc.less_equal(offsets, before), pc.greater(positions.take(wanted), pa.scalar(0, pa.int64()))
        )
        early: Any = pc.and_(is_new, pc.less(offsets, first))
        wrong: Any = pc.or_kleene(pc.is_null(places), pc.or_kleene(late, early))
        path = f"{self._log.path}/{segment_file(self._segment.base_offset, INDEX)}"
        for at in _rows(wrong)[: 10 * _MOST]:
            offset, position = offsets[at].as_py(), positions[rows[at]].as_py()
            message = f"offset {offset} leads to {position}, "
            if places[at].as_py() is None:
                message += "where no batch begins"
            elif offset <= before[at].as_py() and position:
                message += f"and the batch before ends at {before[at].as_py()}"
            else:
                message += f"where the batch of offset {first[at].as_py()} begins"
            self._found.append((self._finding("offset-index", path, 8 * rows[at], message), position))

    def _check_times(self, entries: pa.RecordBatch, batches: pa.RecordBatch) -> None:
        """Check that each entry has the largest timestamp up to its offset, and of the batch that has the offset."""
        offsets: Any = entries["offset"]
        last: Any = batches["last_offset"]
        here: Any = pc.and_(pc.greater(offsets, pa.scalar(self._before, pa.int64())), pc.less_equal(offsets, last[-1]))
        rows = _rows(here)
        if not rows:
            return
        wanted = pa.array(rows, pa.int64())
        times: Any = entries["timestamp"].take(wanted)
        # The batch that has the offset, or follows it.
        lasts = last.to_pylist()
        places = pa.array([bisect_left(lasts, offset) for offset in offsets.take(wanted).to_pylist()], pa.int64())
        highest: Any = pc.max_element_wise(
            _shifted(pc.cumulative_max(batches["max_timestamp"]), self._highest), pa.scalar(self._highest, pa.int64())
        )
        earlier: Any = highest.take(places)
        own: Any = batches["max_timestamp"].take(places)
        path = f"{self._log.path}/{segment_file(self._segment.base_offset, TIMEINDEX)}"
        is_late: Any = pc.greater(earlier, times)
        is_alone: Any = pc.and_(pc.less(own, times), pc.less(earlier, times))
        for at in _rows(pc.or_(is_late, is_alone))[:_MOST]:
            message = f"time {times[at].as_py()} leads to offset {offsets[rows[at]].as_py()}, and "
            if is_late[at].as_py():
                message += f"a batch before it has {earlier[at].as_py()}"
            else:
                message += f"up to there no batch is later than {max(own[at].as_py(), earlier[at].as_py())}"
            self._found.append((self._finding("time-index", path, 12 * rows[at], message), None))


def _shifted(column: Any, first: int | None) -> Any:  # noqa: ANN401 - arrays
    """Return for each row the value of the row before it."""
    return pa.concat_arrays([pa.array([first], column.type), column[:-1]])


def _rows(condition: Any) -> list[int]:  # noqa: ANN401 - arrays
    rows: list[int] = pc.indices_nonzero(pc.fill_null(condition, pa.scalar(False))).to_pylist()
    return rows


class _Both:
    """Passes the contents of a segment on to two takers."""

    def __init__(self, *takers: Contents) -> None:
        self._takers = takers
        self.columns: Sequence[str] = tuple(dict.fromkeys(name for taker in takers for name in taker.columns))

    def rows(self, rows: pa.RecordBatch) -> None:
        for taker in self._takers:
            taker.rows(rows)

    def batches(self, batches: pa.RecordBatch) -> None:
        for taker in self._takers:
            taker.batches(batches)


def check_segment(
    log: Log, segment: Segment, checks: BatchCheck, *, deep: bool, contents: Contents | None = None
) -> Iterator[Finding]:
    """Check a segment, and yield findings.

    Args:
        log: the log.
        segment: one of its segments. They are checked in order.
        checks: the check of the log's batches.
        deep: whether to decode records.
        contents: takes what is sound, too.
    """
    takers = checks if contents is None else _Both(checks, contents)
    yield from checks.start(segment)
    damaged: list[tuple[int, int | None]] = []
    try:
        for found in findings(segment, is_clean=log.root.is_clean, contents=takers, decodes=deep):
            if found.position is not None and found.path == segment.path:
                damaged.append((found.position, found.next_position))
            yield Finding(
                code=found.code,
                topic=log.topic,
                partition=log.partition,
                path=found.path,
                position=found.position,
                start_offset=found.start_offset,
                end_offset=found.end_offset,
                next_position=found.next_position,
                message=found.reason,
            )
    except (CorruptRecordError, UnsupportedFormatError) as error:
        yield Finding(
            code="batch-framing",
            topic=log.topic,
            partition=log.partition,
            path=segment.path,
            position=error.position,
            message=str(error.args[0]),
        )
    yield from checks.finish(damaged)
