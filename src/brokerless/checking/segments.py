"""The batches of a log, one segment after the other, and the indexes of each segment against them.

A plain segment is checked by the core in one pass. Any other one is checked by its headers as columns
(`batch_columns.py`), which defines and explains what is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokerless import _native
from brokerless.checking.finding import Finding
from brokerless.errors import CorruptRecordError, UnsupportedFormatError, located
from brokerless.inspection.findings import exceeded_end, findings, missing_records
from brokerless.io import storage
from brokerless.layout.file_names import INDEX, METADATA_TOPIC, TIMEINDEX, segment_file
from brokerless.log.damage import Run, Survey
from brokerless.log.segment import offset_index, time_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from brokerless.checking.batch_columns import BatchColumns
    from brokerless.inspection.findings import Contents
    from brokerless.io.storage import File
    from brokerless.log.damage import Defect
    from brokerless.log.log import Log
    from brokerless.log.segment import Segment

MOST = 10
"""The most findings of one kind in a segment: where one entry of an index is wrong, mostly all behind it are."""
MOST_GAPS = 10 * MOST
"""The most gaps of one kind that are kept of a log."""
# The most changes of the leader epoch that are kept of a log.
_MOST_EPOCHS = 100_000


class BatchCheck:
    """Checks the sound batches of a log against each other, across segments.

    Args:
        log: the log.

    Attributes:
        epochs: the leader epochs in the batches, each with the base offsets of its first and last batch, and its last
            offset.
        is_compacted: whether a batch lacks records that its offsets once had.
        has_producers: whether a batch has a producer.
        has_transactions: whether a batch is in a transaction.
        next_offset: the offset after the last batch, or the log's first one; None: not known.
        leader_epoch: the greatest leader epoch so far; -1 for none.
        sequences: the last sequences of the producers that were met last.
        offset_gaps: findings for missing offsets. They, and the next ones, count only if the log is not compacted.
        sequence_gaps: findings for missing sequences, each with the producer.
        indexes: the indexes of the segment.
    """

    def __init__(self, log: Log) -> None:
        self.epochs: list[tuple[int, int, int, int]] = []
        self.is_compacted = self.has_producers = self.has_transactions = False
        self._start_offset = None if log.files.is_file or not log.segments else log.local_log_start_offset
        self.next_offset = self._start_offset
        self.leader_epoch = -1
        self.sequences = _native.ProducerSequences()
        self.indexes: Indexes | None = None
        self._log = log
        self._path = ""
        self.offset_gaps: list[Finding] = []
        self.sequence_gaps: list[tuple[int, Finding]] = []
        self._found: list[Finding] = []
        self._columns: BatchColumns | None = None

    def start(self, segment: Segment) -> Iterator[Finding]:
        """Start a segment. Yield findings for indexes that cannot be read."""
        self._path, self._columns = segment.path, None
        self.indexes = Indexes(self._log, segment)
        yield from self.indexes.unreadable

    def finish(self, damaged: Sequence[tuple[int, int | None]]) -> Iterator[Finding]:
        """Yield what was found in the segment. An entry that leads to one of the `damaged` positions may be right."""
        if self._columns is not None:
            self._found += self._columns.of_indexes(damaged)
        for kind in dict.fromkeys(found.code for found in self._found):
            yield from [found for found in self._found if found.code == kind][:MOST]
        self._found = []

    def as_columns(self, segment: Segment) -> BatchColumns:
        """Return what takes the contents of a segment that is not plain."""
        from brokerless.checking.batch_columns import BatchColumns  # noqa: PLC0415 - Arrow is slow to import

        self._columns = BatchColumns(self, segment)
        return self._columns

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
        indexes = self.indexes
        if indexes is None:
            return None
        with located(segment.path):
            found = _native.check_segment(
                file,
                size,
                segment.base_offset,
                sequences=self.sequences,
                limit_offset=segment.next_base_offset or limit_offset,
                offset_index=indexes.offsets,
                time_index=indexes.times,
                is_closed=indexes.is_closed,
                decodes=decodes,
                log_offset=self.next_offset,
                leader_epoch=self.leader_epoch,
                producers=producers,
            )
        if found is None:
            return None
        if size:
            self.next_offset = found.next_offset
        self.leader_epoch = found.leader_epoch
        for epoch in found.epochs:
            self.take_epoch(*epoch)
        for position, start, end in found.offset_gaps:
            self.offset_gap(position, start, end)
        for gap in found.sequence_gaps:
            self.sequence_gap(*gap)
        self.is_compacted |= found.is_compacted
        self.has_producers |= found.has_producers
        self.has_transactions |= found.has_transactions
        return found

    def finding(self, code: str, position: int, message: str, **fields: Any) -> Finding:  # noqa: ANN401 - those of a finding
        """Return a finding in the segment."""
        return Finding(
            code=code,
            topic=self._log.topic,
            partition=self._log.partition,
            path=self._path,
            position=position,
            message=message,
            **fields,
        )

    def add(self, finding: Finding) -> None:
        """Add a finding, unless there are many of its kind."""
        if sum(found.code == finding.code for found in self._found) < MOST:
            self._found.append(finding)

    def take_epoch(self, epoch: int, base_offset: int, last_base_offset: int, last_offset: int) -> None:
        """Take neighbouring batches of a leader epoch that is not below those before."""
        if self.epochs and self.epochs[-1][0] == epoch:
            self.epochs[-1] = (epoch, self.epochs[-1][1], last_base_offset, last_offset)
        elif len(self.epochs) < _MOST_EPOCHS:
            self.epochs.append((epoch, base_offset, last_base_offset, last_offset))

    def offset_gap(self, position: int, start: int, end: int) -> None:
        """Note that offsets [start, end) are missing before the batch at a position."""
        if len(self.offset_gaps) < MOST_GAPS:
            before = f"the one before it ends at {start - 1}"
            if start == self._start_offset:
                before = f"the log at offset {start}"
            message = f"the batch begins at offset {end}, {before}"
            gap = self.finding("offset-gap", position, message, start_offset=start, end_offset=end)
            self.offset_gaps.append(gap)

    def sequence_gap(self, position: int, offset: int, producer: int, first: int, expected: int) -> None:
        """Note that the batch at a position begins with a sequence that is not its producer's next one."""
        if len(self.sequence_gaps) < MOST_GAPS:
            what = f"the batch at offset {offset} of producer {producer}"
            message = f"{what} begins with sequence {first}, expected {expected}"
            gap = self.finding("sequence-gap", position, message, start_offset=offset)
            self.sequence_gaps.append((producer, gap))


class Indexes:
    """The offset and time index of a segment, as far as they can be read.

    Attributes:
        offsets: the `.index`; None if it is missing or unreadable.
        times: the `.timeindex`; None if it is missing or unreadable.
        unreadable: findings for those that are None.
    """

    def __init__(self, log: Log, segment: Segment) -> None:
        self._log, self._segment = log, segment
        self.unreadable: list[Finding] = []
        self.offsets: _native.OffsetIndex | None = self._sound(INDEX, "offset-index")
        self.times: _native.TimeIndex | None = self._sound(TIMEINDEX, "time-index")

    def _sound(self, kind: int, code: str) -> Any:  # noqa: ANN401 - an index of either kind
        path = self.path(kind)
        if not storage.exists(path):
            self.unreadable.append(self.finding(f"{code}-missing", path, None, "the file is missing"))
            return None
        try:
            index: Any = (offset_index if kind == INDEX else time_index)(self._segment, raw=self.is_closed)
            if index is None:
                return None
            index.sanity_check()
        except (CorruptRecordError, UnsupportedFormatError) as error:
            self.unreadable.append(self.finding(code, path, error.position, str(error.args[0])))
            return None
        return index

    @property
    def is_closed(self) -> bool:
        """Whether a broker has closed the indexes, and will not make them again: then it takes all slots for entries.

        The active segment's are preallocated, with zeros behind the entries. A node recovers its log of the metadata
        whenever it starts (KafkaMetadataLog).
        """
        if self._log.topic == METADATA_TOPIC:
            return False
        end = self._segment.next_base_offset
        return self._log.root.is_clean or (end is not None and end <= (self._log.recovery_point or 0))

    def finding(self, code: str, path: str, position: int | None, message: str) -> Finding:
        """Return a finding in an index."""
        return Finding(
            code=code,
            topic=self._log.topic,
            partition=self._log.partition,
            path=path,
            position=position,
            message=message,
        )

    def path(self, kind: int) -> str:
        """Return the path of an index."""
        return f"{self._log.path}/{segment_file(self._segment.base_offset, kind)}"


class SegmentReplay:
    """The producer state of a log, advanced by a segment that is checked in one pass."""

    def __init__(self, producers: _native.Producers | None) -> None:
        self.producers = producers
        self.is_done = producers is None

    def take(self, *, replays: bool) -> None:
        """Note that the segment's producers have been replayed, and whether a broker would start on them."""
        self.is_done = True
        self.producers = self.producers if replays else None


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
    log: Log,
    segment: Segment,
    checks: BatchCheck,
    *,
    deep: bool,
    replay: SegmentReplay | None = None,
    contents: Contents | None = None,
) -> Iterator[Finding]:
    """Check a segment, and yield findings.

    Args:
        log: the log.
        segment: one of its segments. They are checked in order.
        checks: the check of the log's batches.
        deep: whether to decode records.
        replay: takes the segment's producers.
        contents: takes what is sound, too.
    """
    yield from checks.start(segment)
    damaged: list[tuple[int, int | None]] = []
    try:
        for found in _findings(log, segment, checks, replay, contents, deep=deep):
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
    log: Log,
    segment: Segment,
    checks: BatchCheck,
    replay: SegmentReplay | None,
    contents: Contents | None,
    *,
    deep: bool,
) -> Iterator[Defect]:
    """Check the batches of a segment: in one pass if it is plain, else in the way that explains each finding."""
    plain = None
    if contents is None:
        producers = None if replay is None else replay.producers
        with segment.open() as file:
            size, limit = file.size(), exceeded_end(segment, log)
            plain = checks.take_plain(segment, file, size, limit, decodes=deep, producers=producers)
    if plain is None:
        columns = checks.as_columns(segment)
        taker = columns if contents is None else _Both(columns, contents)
        yield from findings(segment, is_clean=log.root.is_clean, contents=taker, decodes=deep, log=log)
        return
    if replay is not None:
        replay.take(replays=plain.replays)
    found = Survey([Run(0, size, segment.base_offset, plain.next_offset)] if size else [], plain.next_offset)
    yield from missing_records(segment, found, size, log)
