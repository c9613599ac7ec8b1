"""The contents of logs by topic, from one read of each segment: sums, batch sizes, distinct keys, findings of a check.

A pass works on some logs, in any process, and returns a `Contents`. Contents of several passes are merged, in any
order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.checking.check import check_directories, check_log
from brokerless.inspection.profile import COLUMNS, SCHEMA, combined, of_batches, of_records
from brokerless.io.chunking import in_shares
from brokerless.reporting.intervals import Intervals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from brokerless.checking.check import DirectoriesToCheck, LogToCheck
    from brokerless.checking.finding import Finding
    from brokerless.layout.log_dir_files import LogDirFiles

# A damaged disk may have millions of findings. A page shows the first ones of the worst severity.
MAX_FINDINGS = 500

SEVERITIES = ("error", "warning", "note")
"""The severities of findings, the worst first."""

# The size of a pass, so that progress shows and all cores have work.
_PASS_BYTES = 64 << 20
# One process merges the results of all passes.
_MOST_PASSES = 2000
# The most rows of sums for a topic. With more, hours become days, weeks and years.
_MOST_SUMS = 50_000
_COARSER = (24, 168, 8766)
# Hours in the years 1970 to 2200; others count as no hour.
_LAST_HOUR = 8766 * 230
_OPEN_COST = 1 << 20
# Partial sums are combined after this many.
_MAX_WAITING = 64
# Rows wait for others up to this size. A pass may have many topics, each with rows that wait.
_WAITING_BYTES = 256 << 10
_BATCH_SIZES = pa.schema([("size", pa.int64()), ("batches", pa.int64()), ("bytes", pa.int64())])

_TIMES = pa.schema(
    [("partition", pa.int32()), ("records", pa.int64()), ("first_time", pa.int64()), ("last_time", pa.int64())]
)


class Piece(NamedTuple):
    """A log to read.

    Attributes:
        log: the log.
        counts: whether reads use this replica. Other replicas are only checked, and their records are not counted.
    """

    log: LogToCheck
    counts: bool


class PartitionContents(NamedTuple):
    """The contents of one partition.

    Attributes:
        records: the number of records.
        first_time: the smallest timestamp in ms; None if no record has one.
        last_time: the largest timestamp in ms; None if no record has one.
    """

    records: int
    first_time: int | None
    last_time: int | None


@dataclass
class TopicContents:
    """The contents of a topic's segments.

    Attributes:
        sums: the sums that `inspection.profile` computes.
        batch_sizes: the number of batches and their bytes, by the power of two at or below their size.
        keys: a sketch of the keys of each partition, as bytes.
        partitions: the contents of each partition.
        intervals: the records and bytes in short intervals of time.
    """

    sums: pa.Table = field(default_factory=SCHEMA.empty_table)
    batch_sizes: pa.Table = field(default_factory=_BATCH_SIZES.empty_table)
    keys: dict[int, bytes] = field(default_factory=dict)
    partitions: dict[int, PartitionContents] = field(default_factory=dict)
    intervals: Intervals = field(default_factory=Intervals)


@dataclass
class Contents:
    """The contents of logs.

    Attributes:
        topics: the contents of each topic, by name.
        findings: the first findings of a check, errors first.
        kinds: the number of all findings, by topic and code.
        by_partition: the number of all findings, by topic, partition and severity; with "damage" as severity, those
            of lost or wrong batches and records.
        notes: one sentence for each file that could not be read.
    """

    topics: dict[str, TopicContents] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_partition: Counter[tuple[str, int, str]] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def add(self, findings: Iterable[Finding]) -> None:
        """Count findings, and keep the first findings of each severity."""
        kept = Counter(finding.severity for finding in self.findings)
        for finding in findings:
            self.kinds[finding.topic or "", finding.code] += 1
            if finding.partition is not None:
                self.by_partition[finding.topic or "", finding.partition, finding.severity] += 1
                if finding.severity == "error" and finding.kind.subject in ("batch", "records"):
                    self.by_partition[finding.topic or "", finding.partition, "damage"] += 1
            if kept[finding.severity] < MAX_FINDINGS:
                kept[finding.severity] += 1
                self.findings.append(finding)


def passes(logs: Iterable[LogToCheck], read: Iterable[str]) -> list[tuple[Piece, ...]]:
    """Divide logs into passes. A log is read by one pass, since its segments are checked against each other.

    Args:
        logs: all replicas.
        read: the paths of the replicas that reads use.
    """
    counted = set(read)
    found = [Piece(log, log.path in counted) for log in logs]
    total = sum(piece.log.size + _OPEN_COST for piece in found)
    return in_shares(found, lambda piece: piece.log.size + _OPEN_COST, max(_PASS_BYTES, total // _MOST_PASSES))


def around(directories: DirectoriesToCheck) -> Contents:
    """Check log directories, except for their logs."""
    found = Contents()
    found.add(check_directories(directories))
    return found


def read(pieces: Iterable[Piece], progress: Callable[[int], None] = lambda _: None) -> Contents:
    """Read logs whole: collect the findings of a check, and count the sound contents.

    Args:
        pieces: the logs.
        progress: gets the bytes of each segment that was read.
    """
    found = Contents()
    taken: defaultdict[str, _Topic] = defaultdict(_Topic)
    roots: dict[str, LogDirFiles] = {}

    def gone(path: str, error: FileNotFoundError) -> None:
        # A running broker deletes segments.
        found.notes.append(f"{error.filename or path} was not read, because it no longer exists")

    for log, counts in pieces:
        contents = taken[log.topic or ""].open(log.partition or 0) if counts else None
        try:
            found.add(check_log(log, "deep", roots, contents=contents, gone=partial(gone, log.path), progress=progress))
        except FileNotFoundError as error:
            gone(log.path, error)
    return merged([found, Contents({topic: contents.finish() for topic, contents in taken.items()})])


def merged(several: Iterable[Contents]) -> Contents:
    """Return the merged contents of several passes."""
    result = Contents()
    by_topic: defaultdict[str, list[TopicContents]] = defaultdict(list)
    for contents in several:
        for topic, of_topic in contents.topics.items():
            by_topic[topic].append(of_topic)
        result.findings += contents.findings
        result.kinds += contents.kinds
        result.by_partition += contents.by_partition
        result.notes += contents.notes
    result.topics = {topic: _merged(found) for topic, found in by_topic.items()}
    result.findings = sorted(result.findings, key=_place)[:MAX_FINDINGS]
    return result


def distinct_keys(sketches: Iterable[bytes]) -> int:
    """Return the approximate number of distinct keys in all the sketches."""
    union = _native.KeySketch()
    for sketch in sketches:
        union.merge(_native.KeySketch(sketch))
    return round(union.estimate())


def _merged(several: list[TopicContents]) -> TopicContents:
    if len(several) == 1:
        return several[0]
    sketches: defaultdict[int, list[bytes]] = defaultdict(list)
    for one in several:
        for partition, sketch in one.keys.items():
            sketches[partition].append(sketch)
    return TopicContents(
        _bounded(combined([one.sums for one in several])),
        _added([one.batch_sizes for one in several]),
        {partition: _union(found) for partition, found in sketches.items()},
        {partition: facts for one in several for partition, facts in one.partitions.items()},
        Intervals().merge(one.intervals for one in several),
    )


def _bounded(sums: pa.Table) -> pa.Table:
    """Return sums with a bounded number of rows, because records may have any time."""
    hour: Any = sums["hour"]
    is_sane: Any = pc.and_(pc.greater_equal(hour, pa.scalar(0)), pc.less_equal(hour, pa.scalar(_LAST_HOUR)))
    if not pc.all(is_sane).as_py():
        sums = combined([sums.set_column(0, "hour", pc.if_else(is_sane, hour, pa.scalar(None, pa.int64())))])
    for width in _COARSER:
        if sums.num_rows <= _MOST_SUMS:
            break
        hour = sums["hour"]
        start: Any = pc.multiply(pc.divide(hour, pa.scalar(width)), pa.scalar(width))
        sums = combined([sums.set_column(0, "hour", start)])
    return sums


def _union(sketches: list[bytes]) -> bytes:
    if len(sketches) == 1:
        return sketches[0]
    union = _native.KeySketch()
    for sketch in sketches:
        union.merge(_native.KeySketch(sketch))
    return union.to_bytes()


def _added(tables: list[pa.Table]) -> pa.Table:
    grouped = pa.concat_tables(tables).group_by("size").aggregate([("batches", "sum"), ("bytes", "sum")])
    return pa.table([grouped["size"], grouped["batches_sum"], grouped["bytes_sum"]], schema=_BATCH_SIZES)


def _place(finding: Finding) -> tuple[int, str, int, str, int]:
    position = -1 if finding.position is None else finding.position
    rank = SEVERITIES.index(finding.severity)
    return rank, finding.topic or "", finding.partition or 0, finding.path, position


class _Topic:
    """The contents of a topic's partitions in one pass, as far as they were read.

    An Arrow aggregation has a high cost per call, so the rows of small partitions are added up together.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, pa.RecordBatch]] = []
        self._batches: list[pa.RecordBatch] = []
        self._waiting = 0
        self._sums: list[pa.Table] = [SCHEMA.empty_table()]
        self._sizes: list[pa.Table] = [_BATCH_SIZES.empty_table()]
        self._times: list[pa.Table] = [_TIMES.empty_table()]
        self._keys: dict[int, _native.KeySketch] = {}
        self._intervals = Intervals()

    def open(self, partition: int) -> _Taken:
        """Return the receiver of the contents of a partition."""
        self._keys.setdefault(partition, _native.KeySketch())
        return _Taken(self, partition)

    def rows(self, partition: int, rows: pa.RecordBatch) -> None:
        self._keys[partition].push(rows["key"])
        self._rows.append((partition, rows))
        self._wait(rows)

    def batches(self, batches: pa.RecordBatch) -> None:
        self._batches.append(batches)
        self._wait(batches)

    def finish(self) -> TopicContents:
        self._add()
        times = _with_times(self._times)
        found = zip(*(times[name].to_pylist() for name in _TIMES.names), strict=True)
        partitions = dict.fromkeys(self._keys, PartitionContents(0, None, None))
        partitions |= {partition: PartitionContents(*facts) for partition, *facts in found}
        keys = {partition: sketch.to_bytes() for partition, sketch in self._keys.items()}
        return TopicContents(_bounded(combined(self._sums)), _added(self._sizes), keys, partitions, self._intervals)

    def _wait(self, rows: pa.RecordBatch) -> None:
        self._waiting += rows.get_total_buffer_size()
        if self._waiting > _WAITING_BYTES:
            self._add()

    def _add(self) -> None:
        if self._rows:
            for rows in _combined(rows for _, rows in self._rows):
                self._sums.append(of_records(rows))
                self._intervals.add_records(rows["timestamp"])
            self._times.append(_times_of(self._rows))
        for batches in _combined(self._batches):
            self._sums.append(of_batches(batches))
            self._intervals.add_batches(batches["max_timestamp"], batches["size"])
            size: Any = batches["size"]
            # The largest power of two that is not above the size.
            lower = pc.shift_left(pa.scalar(1, pa.int64()), pc.floor(pc.log2(size)).cast(pa.int64()))
            ones = pa.repeat(pa.scalar(1, pa.int64()), batches.num_rows)
            self._sizes.append(pa.table([lower, ones, size.cast(pa.int64())], schema=_BATCH_SIZES))
        self._rows, self._batches, self._waiting = [], [], 0
        if len(self._sums) > _MAX_WAITING:
            self._sums = [_bounded(combined(self._sums))]
            self._times = [_with_times(self._times)]
        if len(self._sizes) > _MAX_WAITING:
            self._sizes = [_added(self._sizes)]


class _Taken:
    """The receiver of the contents of one partition."""

    columns: ClassVar[Sequence[str]] = COLUMNS

    def __init__(self, topic: _Topic, partition: int) -> None:
        self._topic, self._partition = topic, partition

    def rows(self, rows: pa.RecordBatch) -> None:
        # A check that explains damage reads more columns.
        self._topic.rows(self._partition, rows.select(COLUMNS))

    def batches(self, batches: pa.RecordBatch) -> None:
        self._topic.batches(batches)


def _combined(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return the rows of several batches as few batches."""
    found = list(batches)
    return pa.Table.from_batches(found).combine_chunks().to_batches() if len(found) > 1 else found


def _times_of(found: list[tuple[int, pa.RecordBatch]]) -> pa.Table:
    """Return the number of records, and the smallest and the largest timestamp, of each partition."""
    numbers = [pa.repeat(pa.scalar(partition, pa.int32()), rows.num_rows) for partition, rows in found]
    times: Any = pa.chunked_array([rows["timestamp"].cast(pa.int64()) for _, rows in found])
    times = pc.if_else(pc.greater_equal(times, pa.scalar(0)), times, None)
    ones = pa.repeat(pa.scalar(1, pa.int64()), len(times))
    return _with_times([pa.table([pa.chunked_array(numbers), ones, times, times], schema=_TIMES)])


def _with_times(tables: list[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables)
    grouped = table.group_by("partition").aggregate([("records", "sum"), ("first_time", "min"), ("last_time", "max")])
    names = ("partition", "records_sum", "first_time_min", "last_time_max")
    return pa.table([grouped[name] for name in names], schema=_TIMES)
