"""What logs hold, by topic, from one pass over each segment: sums, batch sizes, distinct keys and findings.

A pass works on some segments, in any process, and returns a `Contents`. Contents of several passes are merged, in any
order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless import _native
from brokerless.inspection.findings import findings
from brokerless.inspection.profile import COLUMNS, SCHEMA, combined, of_batches, of_records
from brokerless.io.chunking import in_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from brokerless.log.log import Log
    from brokerless.log.segment import Segment

# A damaged disk may have millions of findings. A page shows the first ones.
MAX_FINDINGS = 500
# What a pass works on, so that progress shows and all cores have work.
_PASS_BYTES = 64 << 20
# One process merges the results of all passes.
_MOST_PASSES = 2000
# A topic has no more rows of sums. With more, hours become days, weeks and years.
_MOST_SUMS = 50_000
_COARSER = (24, 168, 8766)
# Hours in the years 1970 to 2200; others count as none.
_LAST_HOUR = 8766 * 230
_OPEN_COST = 1 << 20
# Partial sums are combined after this many.
_MAX_WAITING = 64
_BATCH_SIZES = pa.schema([("size", pa.int64()), ("batches", pa.int64()), ("bytes", pa.int64())])


class Piece(NamedTuple):
    """A segment to read.

    Attributes:
        topic: its topic; "" without one.
        partition: its partition.
        segment: the segment.
        size: its size in bytes, when it was listed.
        is_clean: whether its log directory was shut down cleanly.
        counts: whether its replica is the one that reads use. Others are checked only.
    """

    topic: str
    partition: int
    segment: Segment
    size: int
    is_clean: bool
    counts: bool


@dataclass
class TopicContents:
    """What the segments of a topic hold.

    Attributes:
        sums: sums as `inspection.profile` makes them.
        batch_sizes: the number of batches and their bytes, by the power of two at or below their size.
        keys: a sketch of the keys of each partition, as bytes.
    """

    sums: pa.Table = field(default_factory=SCHEMA.empty_table)
    batch_sizes: pa.Table = field(default_factory=_BATCH_SIZES.empty_table)
    keys: dict[int, bytes] = field(default_factory=dict)


@dataclass
class Contents:
    """What segments hold.

    Attributes:
        topics: by topic.
        findings: the first findings of a check, as dicts.
        kinds: the number of all findings, by topic and kind.
        notes: what could not be read.
    """

    topics: dict[str, TopicContents] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def passes(logs: Iterable[Log], read: Iterable[Log]) -> list[tuple[Piece, ...]]:
    """Divide the segments of logs into passes.

    Args:
        logs: all replicas.
        read: the replicas that reads use.
    """
    counted = {log.path for log in read}
    pieces = (
        Piece(log.topic or "", log.partition or 0, segment, segment.size, log.root.is_clean, log.path in counted)
        for log in logs
        for segment in log.segments
    )
    found = list(pieces)
    total = sum(piece.size + _OPEN_COST for piece in found)
    return in_shares(found, lambda piece: piece.size + _OPEN_COST, max(_PASS_BYTES, total // _MOST_PASSES))


def read(pieces: Iterable[Piece], progress: Callable[[int], None] = lambda _: None) -> Contents:
    """Read segments whole. Damage becomes findings; what is sound counts.

    Args:
        pieces: the segments.
        progress: gets the bytes of each segment that was read.
    """
    found = Contents()
    taken: dict[tuple[str, int], _Taken] = {}
    for piece in pieces:
        contents = taken.setdefault((piece.topic, piece.partition), _Taken()) if piece.counts else None
        try:
            for finding in findings(piece.segment, is_clean=piece.is_clean, contents=contents):
                found.kinds[piece.topic, finding.kind] += 1
                if len(found.findings) < MAX_FINDINGS:
                    place = {"topic": piece.topic or None, "partition": piece.partition if piece.topic else None}
                    found.findings.append({**place, **finding._asdict()})
        except FileNotFoundError as error:
            # A running broker deletes segments.
            found.notes.append(f"not read: {error.filename or piece.segment.path}: it no longer exists")
        progress(piece.size)
    counted = [Contents({topic: contents.finish(partition)}) for (topic, partition), contents in taken.items()]
    return merged([found, *counted])


def merged(several: Iterable[Contents]) -> Contents:
    """Return the contents of several passes as one."""
    result = Contents()
    by_topic: defaultdict[str, list[TopicContents]] = defaultdict(list)
    for contents in several:
        for topic, of_topic in contents.topics.items():
            by_topic[topic].append(of_topic)
        result.findings += contents.findings
        result.kinds += contents.kinds
        result.notes += contents.notes
    result.topics = {topic: _merged(found) for topic, found in by_topic.items()}
    result.findings = sorted(result.findings, key=_place)[:MAX_FINDINGS]
    return result


def distinct_keys(sketches: Iterable[bytes]) -> int:
    """Return about how many keys the sketches have counted together."""
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
    )


def _bounded(sums: pa.Table) -> pa.Table:
    """Return sums with a bounded number of rows: records may have any time."""
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


def _place(finding: dict[str, Any]) -> tuple[str, int, str, int]:
    return finding["topic"] or "", finding["partition"] or 0, finding["path"], finding["position"]


class _Taken:
    """The contents of a partition, as far as they were read."""

    columns: ClassVar[Sequence[str]] = COLUMNS

    def __init__(self) -> None:
        self._sums: list[pa.Table] = [SCHEMA.empty_table()]
        self._sizes: list[pa.Table] = [_BATCH_SIZES.empty_table()]
        self._keys = _native.KeySketch()

    def rows(self, rows: pa.RecordBatch) -> None:
        self._sums.append(of_records(rows))
        self._keys.push(rows["key"])
        self._combine()

    def batches(self, batches: pa.RecordBatch) -> None:
        self._sums.append(of_batches(batches))
        size: Any = batches["size"]
        # The largest power of two that is not above the size.
        lower = pc.shift_left(pa.scalar(1, pa.int64()), pc.floor(pc.log2(size)).cast(pa.int64()))
        ones = pa.repeat(pa.scalar(1, pa.int64()), batches.num_rows)
        self._sizes.append(pa.table([lower, ones, size.cast(pa.int64())], schema=_BATCH_SIZES))
        self._combine()

    def finish(self, partition: int) -> TopicContents:
        return TopicContents(_bounded(combined(self._sums)), _added(self._sizes), {partition: self._keys.to_bytes()})

    def _combine(self) -> None:
        if len(self._sums) > _MAX_WAITING:
            self._sums = [_bounded(combined(self._sums))]
        if len(self._sizes) > _MAX_WAITING:
            self._sizes = [_added(self._sizes)]
