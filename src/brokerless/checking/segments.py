"""The batches of a log, one segment after the other, and the indexes of each segment against them."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.checking.finding import Finding
from brokerless.errors import CorruptRecordError, UnsupportedFormatError, located
from brokerless.inspection.findings import findings, limit_offset, missing_records
from brokerless.io import storage
from brokerless.layout.file_names import INDEX, TIMEINDEX, segment_file
from brokerless.log.damage import Finding as SurveyFinding
from brokerless.log.damage import Run, Survey
from brokerless.log.segment import offset_index, time_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.io.storage import File
    from brokerless.log.log import Log
    from brokerless.log.segment import Segment

# No more of one kind in a segment: where one entry of an index is wrong, mostly all behind it are.
_MOST = 10
# No more gaps of one kind, and changes of the leader epoch, of a log are kept.
_MOST_GAPS = 10 * _MOST
_MOST_EPOCHS = 100_000


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
        self.is_compacted = self.has_producers = self.has_transactions = False
        self._log = log
        self._path = ""
        self._next_offset: int | None = None
        self._epoch = -1
        # That of the batch before, in this segment.
        self._epoch_before: int | None = None
        self._sequences = _native.ProducerSequences()
        self._offset_gaps: list[Finding] = []
        self._sequence_gaps: list[Finding] = []
        self._found: list[Finding] = []
        self._indexes: _Indexes | None = None
        self._of_records: dict[int, int] = {}

    @property
    def gaps(self) -> list[Finding]:
        """The findings for missing offsets, then those for missing sequences."""
        return self._offset_gaps + self._sequence_gaps

    def start(self, segment: Segment) -> Iterator[Finding]:
        """Start a segment. Yield findings for indexes that cannot be read."""
        self._path = segment.path
        self._epoch_before = None
        self._of_records = {}
        self._indexes = _Indexes(self._log, segment)
        yield from self._indexes.unreadable

    def take_plain(
        self,
        segment: Segment,
        file: File,
        size: int,
        limit_offset: int | None,
        *,
        decodes: bool,
        producers: _native.Producers | None,
    ) -> _native.PlainSegment | None:
        """Check a whole segment in one pass if it is plain, so that no finding has to be explained.

        Returns:
            What was taken; None if the segment is not plain. Then nothing was taken.
        """
        indexes = self._indexes
        if indexes is None:
            return None
        with located(segment.path):
            found = _native.check_segment(
                file,
                size,
                segment.base_offset,
                sequences=self._sequences,
                limit_offset=segment.next_base_offset or limit_offset,
                offset_index=indexes.offsets,
                time_index=indexes.times,
                decodes=decodes,
                log_offset=self._next_offset,
                leader_epoch=self._epoch,
                producers=producers,
            )
        if found is None:
            return None
        if size:
            self._next_offset = found.next_offset
        self._epoch = found.leader_epoch
        for epoch in found.epochs:
            self._take_epoch(*epoch)
        for position, start, end in found.offset_gaps:
            self._offset_gap(position, start, end)
        for gap in found.sequence_gaps:
            self._sequence_gap(*gap)
        self.is_compacted |= found.is_compacted
        self.has_producers |= found.has_producers
        self.has_transactions |= found.has_transactions
        return found

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

    def _finding(self, code: str, position: int, message: str, **fields: Any) -> Finding:  # noqa: ANN401 - those of a finding
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
        for row in _rows(gap)[:_MOST_GAPS]:
            start, end = before[row].as_py() + 1, batches["base_offset"][row].as_py()
            self._offset_gap(batches["position"][row].as_py(), start, end)
        self._next_offset = batches["last_offset"][-1].as_py() + 1

    def _check_epochs(self, batches: pa.RecordBatch) -> None:
        epochs: Any = batches["partition_leader_epoch"]
        # Where they change, and the end.
        starts = _rows(pc.fill_null(pc.not_equal(epochs, _shifted(epochs, self._epoch_before)), pa.scalar(True)))
        if not starts or starts[0] > 0:
            starts = [0, *starts]
        for row, following in pairwise([*starts, batches.num_rows]):
            epoch, last = epochs[row].as_py(), batches["last_offset"][following - 1].as_py()
            if epoch < 0:
                continue
            if epoch < self._epoch:
                if row or epoch != self._epoch_before:
                    offset = batches["base_offset"][row].as_py()
                    message = f"the batch at offset {offset} has leader epoch {epoch}, one before it has {self._epoch}"
                    position = batches["position"][row].as_py()
                    self._add(self._finding("epoch-order", position, message, start_offset=offset))
                continue
            self._take_epoch(epoch, batches["last_offset"][row].as_py(), last)
            self._epoch = epoch
        self._epoch_before = epochs[-1].as_py()

    def _take_epoch(self, epoch: int, first_offset: int, last_offset: int) -> None:
        """Take neighbouring batches of a leader epoch that is not below those before."""
        if self.epochs and self.epochs[-1][0] == epoch:
            self.epochs[-1] = (epoch, self.epochs[-1][1], last_offset)
        elif len(self.epochs) < _MOST_EPOCHS:
            self.epochs.append((epoch, first_offset, last_offset))

    def _check_sequences(self, batches: pa.RecordBatch) -> None:
        has: Any = pc.and_(
            pc.greater_equal(batches["producer_id"], pa.scalar(0, pa.int64())),
            pc.greater_equal(batches["base_sequence"], pa.scalar(0, pa.int32())),
        )
        self.has_transactions |= bool(pc.any(batches["is_transactional"], min_count=0).as_py())
        rows = _rows(has)
        self.has_producers |= bool(rows) or self.has_transactions
        columns = ("position", "base_offset", "producer_id", "producer_epoch", "base_sequence", "last_sequence")
        for position, offset, producer, epoch, first, last in zip(
            *(batches[name].take(pa.array(rows, pa.int64())).to_pylist() for name in columns), strict=True
        ):
            expected = self._sequences.expected(producer, epoch)
            if expected is not None and first != expected:
                self._sequence_gap(position, offset, producer, first, expected)
            self._sequences.insert(producer, epoch, last)

    def _offset_gap(self, position: int, start: int, end: int) -> None:
        if len(self._offset_gaps) < _MOST_GAPS:
            message = f"the batch begins at offset {end}, the one before it ends at {start - 1}"
            gap = self._finding("offset-gap", position, message, start_offset=start, end_offset=end)
            self._offset_gaps.append(gap)

    def _sequence_gap(self, position: int, offset: int, producer: int, first: int, expected: int) -> None:
        if len(self._sequence_gaps) < _MOST_GAPS:
            what = f"the batch at offset {offset} of producer {producer}"
            message = f"{what} begins with sequence {first}, expected {expected}"
            self._sequence_gaps.append(self._finding("sequence-gap", position, message, start_offset=offset))

    def _check_timestamps(self, batches: pa.RecordBatch) -> None:
        if not self._of_records:
            return
        columns = ("position", "max_timestamp", "magic", "timestamp_type", "is_control")
        for position, stored, magic, kind, is_control in zip(
            *(batches[name].to_pylist() for name in columns), strict=True
        ):
            found = self._of_records.pop(position, None)
            if found is None or is_control or magic < 2:
                continue
            if kind == "CreateTime" and found != stored:
                message = f"the header says a largest timestamp of {stored}, that of the records is {found}"
                self._add(self._finding("batch-timestamp", position, message))


class _Indexes:
    """The offset and time index of a segment, checked as its batches come."""

    def __init__(self, log: Log, segment: Segment) -> None:
        self._log, self._segment = log, segment
        # Each with the position to which its entry leads.
        self._found: list[tuple[Finding, int | None]] = []
        self.unreadable: list[Finding] = []
        self.offsets: _native.OffsetIndex | None = self._sound(INDEX, "offset-index")
        self.times: _native.TimeIndex | None = self._sound(TIMEINDEX, "time-index")
        # Their entries, made when the first batches come.
        self._tables: tuple[pa.RecordBatch | None, pa.RecordBatch | None] | None = None
        self._highest, self._before = -1, segment.base_offset - 1
        self._end = 0

    def _sound(self, kind: int, code: str) -> Any:  # noqa: ANN401 - an index of either kind
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
        return index

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
        if self._tables is None:
            offset_index, time_index = self.offsets, self.times
            self._tables = (
                None if offset_index is None else offset_index.entries(),
                None if time_index is None else time_index.entries(),
            )
        offsets, times = self._tables
        if offsets is not None:
            self._check_offsets(offsets, batches, start)
        if times is not None:
            self._check_times(times, batches)
        self._highest = max(self._highest, pc.max(batches["max_timestamp"]).as_py())
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


class SegmentReplay:
    """The producer state of a log, advanced by a segment that is checked in one pass."""

    def __init__(self, producers: _native.Producers | None) -> None:
        self.producers = producers
        self.is_done = producers is None

    def take(self, *, replays: bool) -> None:
        """Note that the segment's producers have been replayed, and whether a broker would start on them."""
        self.is_done = True
        self.producers = self.producers if replays else None


def _shifted(column: Any, first: int | None) -> Any:  # noqa: ANN401 - arrays
    """Return for each row the value of the row before it."""
    return pa.concat_arrays([pa.array([first], column.type), column[:-1]])


def _rows(condition: Any) -> list[int]:  # noqa: ANN401 - arrays
    rows: list[int] = pc.indices_nonzero(pc.fill_null(condition, pa.scalar(False))).to_pylist()
    return rows


def check_segment(
    log: Log,
    segment: Segment,
    checks: BatchCheck,
    *,
    deep: bool,
    replay: SegmentReplay | None = None,
) -> Iterator[Finding]:
    """Check a segment, and yield findings.

    Args:
        log: the log.
        segment: one of its segments. They are checked in order.
        checks: the check of the log's batches.
        deep: whether to decode records.
        replay: takes the segment's producers.
    """
    yield from checks.start(segment)
    damaged: list[tuple[int, int | None]] = []
    try:
        for found in _findings(log, segment, checks, replay, deep=deep):
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


def _findings(
    log: Log, segment: Segment, checks: BatchCheck, replay: SegmentReplay | None, *, deep: bool
) -> Iterator[SurveyFinding]:
    """Check the batches of a segment: in one pass if it is plain, else in the way that explains each finding."""
    producers = None if replay is None else replay.producers
    with segment.open() as file:
        size, limit = file.size(), limit_offset(segment, log)
        plain = checks.take_plain(segment, file, size, limit, decodes=deep, producers=producers)
    if plain is None:
        yield from findings(segment, is_clean=log.root.is_clean, contents=checks, decodes=deep, log=log)
        return
    if replay is not None:
        replay.take(replays=plain.replays)
    found = Survey([Run(0, size, segment.base_offset, plain.next_offset)] if size else [], plain.next_offset)
    yield from missing_records(segment, found, size, log)
