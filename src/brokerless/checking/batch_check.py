"""The check of a log's batches, which compares them with each other across segments, and the indexes of a segment.

The core checks a plain segment in one pass. Any other segment is checked as columns (`batch_columns.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokerless import _native
from brokerless.checking.finding import Finding
from brokerless.errors import CorruptRecordError, UnsupportedFormatError, located
from brokerless.io import storage
from brokerless.layout.file_names import INDEX, METADATA_TOPIC, TIMEINDEX
from brokerless.log.segment import offset_index, time_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brokerless.io.storage import File
    from brokerless.log.log import Log
    from brokerless.log.segment import Segment

MOST = 10
"""The maximum number of findings per code and segment: if one index entry is wrong, usually all later entries are."""
MOST_GAPS = 10 * MOST
"""The maximum number of gaps of each kind that are kept per log."""
# The maximum number of changes of the leader epoch that are kept per log.
_MOST_EPOCHS = 100_000


class BatchCheck:
    """A check that compares the sound batches of a log with each other, across segments.

    Args:
        log: the log.

    Attributes:
        epochs: the leader epochs in the batches, each with the base offsets of its first and last batch, and its last
            offset.
        is_compacted: whether a batch lacks records that it once had.
        has_producers: whether a batch has a producer.
        has_transactions: whether a batch is in a transaction.
        next_offset: the offset after the last batch, or the first offset of the log; None if not known.
        leader_epoch: the highest leader epoch so far; -1 if none.
        sequences: the last sequence numbers of the most recent producers.
        offset_gaps: findings for missing offsets. Like `sequence_gaps`, they are reported only if the log is not
            compacted.
        sequence_gaps: findings for missing sequence numbers, each with the producer.
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

    def start(self, segment: Segment) -> Iterator[Finding]:
        """Start a segment. Yield findings for indexes that cannot be read."""
        self._path = segment.path
        self.indexes = Indexes(self._log, segment)
        yield from self.indexes.unreadable

    def finish(self, of_indexes: Sequence[Finding]) -> Iterator[Finding]:
        """Yield the findings in the segment, then those in its indexes, but at most `MOST` of each code."""
        found = [*self._found, *of_indexes]
        for kind in dict.fromkeys(one.code for one in found):
            yield from [one for one in found if one.code == kind][:MOST]
        self._found = []

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
        """Check a whole segment in one pass if it is plain, which means that it causes no finding.

        Returns:
            The result of the pass; None if the segment is not plain. If it is not plain, the check is unchanged.
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
        """Add a finding, unless `MOST` findings with its code were added before."""
        if sum(found.code == finding.code for found in self._found) < MOST:
            self._found.append(finding)

    def take_epoch(self, epoch: int, base_offset: int, last_base_offset: int, last_offset: int) -> None:
        """Add adjacent batches of one leader epoch. The epoch must not be below an earlier one."""
        if self.epochs and self.epochs[-1][0] == epoch:
            self.epochs[-1] = (epoch, self.epochs[-1][1], last_base_offset, last_offset)
        elif len(self.epochs) < _MOST_EPOCHS:
            self.epochs.append((epoch, base_offset, last_base_offset, last_offset))

    def offset_gap(self, position: int, start: int, end: int) -> None:
        """Note that offsets [start, end) are missing before the batch at a position."""
        if len(self.offset_gaps) < MOST_GAPS:
            before = f"the batch before it ends at offset {start - 1}"
            if start == self._start_offset:
                before = f"the log begins at offset {start}"
            message = f"the batch begins at offset {end}, but {before}"
            gap = self.finding("offset-gap", position, message, start_offset=start, end_offset=end)
            self.offset_gaps.append(gap)

    def sequence_gap(self, position: int, offset: int, producer: int, first: int, expected: int) -> None:
        """Note that the batch at a position does not begin with its producer's next sequence number."""
        if len(self.sequence_gaps) < MOST_GAPS:
            what = f"the batch at offset {offset} of producer {producer}"
            message = f"{what} begins with sequence number {first}, not with the expected {expected}"
            gap = self.finding("sequence-gap", position, message, start_offset=offset)
            self.sequence_gaps.append((producer, gap))


class Indexes:
    """The offset index and time index of a segment, if they can be read.

    Attributes:
        offsets: the `.index`; None if it is missing or unreadable.
        times: the `.timeindex`; None if it is missing or unreadable.
        unreadable: findings for indexes that cannot be read.
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
        """True if a broker has closed the indexes and will not rebuild them. A broker reads zeros there as entries.

        The indexes of the active segment are preallocated, with zeros after the entries. A node recovers its metadata
        log at each start (KafkaMetadataLog), so the indexes of that log are never treated as closed.
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
        return self._segment.path_of(kind)
