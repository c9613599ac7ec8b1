"""The check of a segment that is not plain. It reads batch headers as columns, and explains each finding.

This check defines the findings. `_native.check_segment` accepts only segments in which this check finds nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.checking.batch_check import MOST, MOST_GAPS
from brokerless.layout.file_names import INDEX, TIMEINDEX
from brokerless.layout.topic_config import TopicConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.checking.batch_check import BatchCheck, Indexes
    from brokerless.checking.finding import Finding
    from brokerless.log.segment import Segment


# Relative offsets in indexes are signed 32-bit numbers.
_MOST_OFFSETS = (1 << 31) - 1
# RecordBatch.NO_PARTITION_LEADER_EPOCH
_NO_EPOCH = -1


class BatchColumns:
    """A check of the sound contents of a segment.

    Args:
        checks: the check of the log.
        segment: the segment.
    """

    columns: ClassVar[Sequence[str]] = ("offset", "timestamp", "position")

    def __init__(self, checks: BatchCheck, segment: Segment) -> None:
        self._checks, self._base_offset = checks, segment.base_offset
        self._entries = None if checks.indexes is None else _Entries(checks.indexes, segment)
        # The leader epoch of the previous batch.
        self._epoch_before: int | None = None
        # The largest timestamp of the records in each of the last batches, by the batch's position.
        self._of_records: dict[int, int] = {}

    def of_indexes(self, damaged: Sequence[tuple[int, int | None]]) -> list[Finding]:
        """Return the findings in indexes, except those for entries that lead to one of the `damaged` positions."""
        return [] if self._entries is None else self._entries.finish(damaged)

    def rows(self, rows: pa.RecordBatch) -> None:
        """Add records, to find the largest timestamp of each batch."""
        table = pa.table([rows["position"], rows["timestamp"].cast(pa.int64())], ["position", "timestamp"])
        grouped = table.group_by("position").aggregate([("timestamp", "max")])
        columns: list[Any] = [grouped["position"].to_pylist(), grouped["timestamp_max"].to_pylist()]
        for position, highest in zip(*columns, strict=True):
            self._of_records[position] = max(self._of_records.get(position, -1), -1 if highest is None else highest)

    def batches(self, batches: pa.RecordBatch) -> None:
        """Add the headers of batches, in the order of the file."""
        if not batches.num_rows:
            return
        if self._entries is not None:
            self._entries.take(batches)
        self._check_offsets(batches)
        self._check_epochs(batches)
        self._check_sequences(batches)
        self._check_timestamps(batches)

    def _check_offsets(self, batches: pa.RecordBatch) -> None:
        counts: Any = batches["records_count"]
        spans: Any = pc.add(pc.subtract(batches["last_offset"], batches["base_offset"]), 1)
        # The first offset of a wrapper is inside it.
        is_exact: Any = pc.equal(batches["magic"], pa.scalar(2, batches["magic"].type))
        fewer: Any = pc.and_(is_exact, pc.less(counts.cast(pa.int64()), spans))
        self._checks.is_compacted |= bool(pc.any(fewer, min_count=0).as_py())
        before = _shifted(
            batches["last_offset"], None if self._checks.next_offset is None else self._checks.next_offset - 1
        )
        # Unknown if a wrapper cannot be decompressed.
        gap: Any = pc.greater(batches["base_offset"], pc.add(before, 1))
        for row in _rows(gap)[:MOST_GAPS]:
            start, end = before[row].as_py() + 1, batches["base_offset"][row].as_py()
            self._checks.offset_gap(batches["position"][row].as_py(), start, end)
        self._checks.next_offset = batches["last_offset"][-1].as_py() + 1
        above: Any = pc.greater(batches["last_offset"], pa.scalar(self._base_offset + _MOST_OFFSETS, pa.int64()))
        for row in _rows(above)[:1]:
            offset = batches["last_offset"][row].as_py()
            message = (
                f"offset {offset} is more than {_MOST_OFFSETS} above the segment's base offset {self._base_offset}"
            )
            self._checks.add(self._checks.finding("offset-overflow", batches["position"][row].as_py(), message))

    def _check_epochs(self, batches: pa.RecordBatch) -> None:
        epochs: Any = batches["partition_leader_epoch"]
        # The rows at which the epoch changes, and the end.
        starts = _rows(pc.fill_null(pc.not_equal(epochs, _shifted(epochs, self._epoch_before)), pa.scalar(True)))
        if not starts or starts[0] > 0:
            starts = [0, *starts]
        for row, following in pairwise([*starts, batches.num_rows]):
            epoch, last = epochs[row].as_py(), following - 1
            if epoch < 0:
                if epoch < _NO_EPOCH:
                    offset, position = batches["base_offset"][row].as_py(), batches["position"][row].as_py()
                    message = f"the batch at offset {offset} has leader epoch {epoch}"
                    self._checks.add(self._checks.finding("epoch-order", position, message, start_offset=offset))
                continue
            if epoch < self._checks.leader_epoch:
                if row or epoch != self._epoch_before:
                    offset = batches["base_offset"][row].as_py()
                    what = f"the batch at offset {offset} has leader epoch {epoch}"
                    message = f"{what}, but a batch before it has {self._checks.leader_epoch}"
                    position = batches["position"][row].as_py()
                    self._checks.add(self._checks.finding("epoch-order", position, message, start_offset=offset))
                continue
            first, base = (batches["base_offset"][at].as_py() for at in (row, last))
            self._checks.take_epoch(epoch, first, base, batches["last_offset"][last].as_py())
            self._checks.leader_epoch = epoch
        self._epoch_before = epochs[-1].as_py()

    def _check_sequences(self, batches: pa.RecordBatch) -> None:
        has: Any = pc.and_(
            pc.greater_equal(batches["producer_id"], pa.scalar(0, pa.int64())),
            pc.greater_equal(batches["base_sequence"], pa.scalar(0, pa.int32())),
        )
        self._checks.has_transactions |= bool(pc.any(batches["is_transactional"], min_count=0).as_py())
        rows = _rows(has)
        self._checks.has_producers |= bool(rows) or self._checks.has_transactions
        columns = ("position", "base_offset", "producer_id", "producer_epoch", "base_sequence", "last_sequence")
        for position, offset, producer, epoch, first, last in zip(
            *(batches[name].take(pa.array(rows, pa.int64())).to_pylist() for name in columns), strict=True
        ):
            expected = self._checks.sequences.expected(producer, epoch)
            if expected is not None and first != expected:
                self._checks.sequence_gap(position, offset, producer, first, expected)
            self._checks.sequences.insert(producer, epoch, last)

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
                message = f"the largest timestamp is {stored} in the header, but {found} in the records"
                self._checks.add(self._checks.finding("batch-timestamp", position, message))


class _WrongEntry(NamedTuple):
    """An entry of an index that contradicts the sound batches.

    Attributes:
        finding: the finding for the entry.
        position: the byte position that the entry leads to; None if that is not in the log.
        is_in_doubt: whether the entry may be right if batches are damaged.
    """

    finding: Finding
    position: int | None
    is_in_doubt: bool


class _Entries:
    """The entries of a segment's indexes, checked while its batches are read."""

    def __init__(self, indexes: Indexes, segment: Segment) -> None:
        self._indexes = indexes
        # By the kind of index and the row of the entry.
        self._found: dict[tuple[int, int], _WrongEntry] = {}
        self._offsets: Any = None if indexes.offsets is None else indexes.offsets.entries()
        self._times: Any = None if indexes.times is None else indexes.times.entries()
        self._highest, self._before = -1, segment.base_offset - 1
        self._last = self._end = 0
        self._check_order(segment.base_offset)

    def take(self, batches: pa.RecordBatch) -> None:
        """Check the entries that lead to these batches."""
        start, self._end = self._end, batches["position"][-1].as_py() + batches["size"][-1].as_py()
        if self._offsets is not None:
            self._check_offsets(self._offsets, batches, start)
        if self._times is not None:
            self._check_times(self._times, batches)
        self._highest = max(self._highest, pc.max(batches["max_timestamp"]).as_py())
        self._before = batches["last_offset"][-1].as_py()
        self._last = batches["position"][-1].as_py()

    def finish(self, damaged: Sequence[tuple[int, int | None]]) -> list[Finding]:
        """Return the findings, except those for entries that lead into damage."""

        def is_in(position: int) -> bool:
            return any(start <= position and (end is None or position < end) for start, end in damaged)

        self._check_end()
        return [
            one.finding
            for one in self._found.values()
            if not (damaged and one.is_in_doubt) and not (one.position is not None and is_in(one.position))
        ]

    def _wrong_offset(self, row: int, why: str, *, is_in_doubt: bool = False) -> None:
        """Add a finding for an entry of the offset index."""
        offset, position = self._offsets["offset"][row].as_py(), self._offsets["position"][row].as_py()
        message = f"the entry for offset {offset} points to byte {position}, {why}"
        found = self._indexes.finding("offset-index", self._indexes.path(INDEX), 8 * row, message)
        self._found.setdefault((INDEX, row), _WrongEntry(found, position, is_in_doubt))

    def _wrong_time(self, row: int, why: str, *, is_in_doubt: bool = False) -> None:
        """Add a finding for an entry of the time index."""
        offset, time = self._times["offset"][row].as_py(), self._times["timestamp"][row].as_py()
        message = f"the entry for timestamp {time} points to offset {offset}, {why}"
        found = self._indexes.finding("time-index", self._indexes.path(TIMEINDEX), 12 * row, message)
        self._found.setdefault((TIMEINDEX, row), _WrongEntry(found, None, is_in_doubt))

    def _check_order(self, base_offset: int) -> None:
        """Check that entries ascend from the start of the segment on, because brokers search an index by bisection."""
        if self._offsets is not None:
            offsets, values = self._offsets["offset"], self._offsets["position"]
            is_low: Any = pc.or_(
                pc.less(offsets, pa.scalar(base_offset, pa.int64())), pc.less(values, pa.scalar(0, pa.int32()))
            )
            for row in _rows(is_low)[:MOST]:
                self._wrong_offset(row, "but the offset or the position is below the start of the segment")
            falls: Any = pc.or_(pc.less_equal(offsets[1:], offsets[:-1]), pc.less_equal(values[1:], values[:-1]))
            for row in _rows(falls)[:MOST]:
                why = f"but the entry before it has offset {offsets[row].as_py()} at byte {values[row].as_py()}"
                self._wrong_offset(row + 1, why)
        if self._times is not None:
            offsets, values = self._times["offset"], self._times["timestamp"]
            for row in _rows(pc.less(offsets, pa.scalar(base_offset, pa.int64())))[:MOST]:
                self._wrong_time(row, "which is below the start of the segment")
            falls = pc.or_(pc.less(offsets[1:], offsets[:-1]), pc.less_equal(values[1:], values[:-1]))
            for row in _rows(falls)[:MOST]:
                self._wrong_time(
                    row + 1,
                    f"but the entry before it has timestamp {values[row].as_py()} and offset {offsets[row].as_py()}",
                )

    def _check_end(self) -> None:
        """Check that no entry leads beyond the last batch, and that the time index has the last timestamps.

        A starting broker reads the end of its log from the last entry of the offset index (LogSegment.readNextOffset).
        Retention reads the segment's largest timestamp from the time index.
        """
        last = self._before
        if self._offsets is not None:
            beyond: Any = pc.greater_equal(self._offsets["position"].cast(pa.int64()), pa.scalar(self._end, pa.int64()))
            for row in _rows(beyond)[:MOST]:
                # A first slot of zeros leads to the start of the segment, even of an empty one.
                if row or self._offsets["position"][row].as_py():
                    self._wrong_offset(row, f"but the batches end at byte {self._end}")
            above: Any = pc.and_not(pc.greater(self._offsets["offset"], pa.scalar(last, pa.int64())), beyond)
            for row in _rows(above)[:MOST]:
                self._wrong_offset(row, f"but the last batch ends at offset {last}", is_in_doubt=True)
            if self._indexes.is_closed and not self._offsets.num_rows and self._last > TopicConfig.index_interval_bytes:
                message = f"the index is empty, but the last batch begins at byte {self._last}"
                self._lacks(INDEX, "offset-index-missing", message)
        if self._times is not None:
            for row in _rows(pc.greater(self._times["offset"], pa.scalar(last, pa.int64())))[:MOST]:
                self._wrong_time(row, f"but the last batch ends at offset {last}", is_in_doubt=True)
            rows = self._times.num_rows
            latest = self._times["timestamp"][-1].as_py() if rows else -1
            largest = f"the largest timestamp in the segment is {self._highest}"
            if self._indexes.is_closed and rows and latest < self._highest:
                self._wrong_time(rows - 1, f"and is the last entry, but {largest}")
            elif self._indexes.is_closed and latest < self._highest:
                self._lacks(TIMEINDEX, "time-index", f"the index has no entry, but {largest}")

    def _lacks(self, kind: int, code: str, message: str) -> None:
        """Add a finding for entries that an index lacks."""
        found = self._indexes.finding(code, self._indexes.path(kind), None, message)
        self._found.setdefault((kind, -1), _WrongEntry(found, None, is_in_doubt=False))

    def _check_offsets(self, entries: pa.RecordBatch, batches: pa.RecordBatch, start: int) -> None:
        """Check that each entry leads to a batch, and that no earlier batch has the entry's offset or a later one."""
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
        # At position 0, any offset is harmless, because a search without an entry also begins there.
        late: Any = pc.and_(
            pc.less_equal(offsets, before), pc.greater(positions.take(wanted), pa.scalar(0, pa.int64()))
        )
        early: Any = pc.and_(is_new, pc.less(offsets, first))
        wrong: Any = pc.or_kleene(pc.is_null(places), pc.or_kleene(late, early))
        for at in _rows(wrong)[: 10 * MOST]:
            if places[at].as_py() is None:
                why = "where no batch begins"
            elif offsets[at].as_py() <= before[at].as_py() and positions[rows[at]].as_py():
                why = f"but the batch before this position ends at offset {before[at].as_py()}"
            else:
                why = f"where the batch of offset {first[at].as_py()} begins"
            self._wrong_offset(rows[at], why)

    def _check_times(self, entries: pa.RecordBatch, batches: pa.RecordBatch) -> None:
        """Check that each entry has the largest timestamp up to its offset, including the batch of that offset."""
        offsets: Any = entries["offset"]
        last: Any = batches["last_offset"]
        here: Any = pc.and_(pc.greater(offsets, pa.scalar(self._before, pa.int64())), pc.less_equal(offsets, last[-1]))
        rows = _rows(here)
        if not rows:
            return
        wanted = pa.array(rows, pa.int64())
        times: Any = entries["timestamp"].take(wanted)
        # The batch that contains the offset, or the first batch after the offset.
        lasts = last.to_pylist()
        places = pa.array([bisect_left(lasts, offset) for offset in offsets.take(wanted).to_pylist()], pa.int64())
        highest: Any = pc.max_element_wise(
            _shifted(pc.cumulative_max(batches["max_timestamp"]), self._highest), pa.scalar(self._highest, pa.int64())
        )
        # The first offset of a wrapper is inside it.
        is_there: Any = pc.fill_null(
            pc.less_equal(batches["base_offset"].take(places), offsets.take(wanted)), pa.scalar(True)
        )
        own: Any = pc.if_else(is_there, batches["max_timestamp"].take(places), pa.scalar(-1, pa.int64()))
        known: Any = pc.max_element_wise(highest.take(places), own)
        for at in _rows(pc.not_equal(known, times))[:MOST]:
            largest = known[at].as_py()
            is_early = times[at].as_py() < largest
            self._wrong_time(
                rows[at], f"but the largest timestamp up to this offset is {largest}", is_in_doubt=not is_early
            )


def _shifted(column: Any, first: int | None) -> Any:  # noqa: ANN401 - arrays
    """Return, for each row, the value of the previous row."""
    return pa.concat_arrays([pa.array([first], column.type), column[:-1]])


def _rows(condition: Any) -> list[int]:  # noqa: ANN401 - arrays
    rows: list[int] = pc.indices_nonzero(pc.fill_null(condition, pa.scalar(False))).to_pylist()
    return rows
