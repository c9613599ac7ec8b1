"""The two halves of a compaction: decide which records stay, then rewrite the segments (Kafka's Cleaner).

`decide` reads the log and decides the records whose keys hash into a range; with little memory, several ranges are
needed. `rewrite` makes one new segment of a group of old ones. It follows the verdicts and needs no keys. Plans and
verdicts are picklable and the log itself is not changed, so any process may do a part of the work.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from brokerless import _native
from brokerless.append.operation import Replacement
from brokerless.errors import CorruptRecordError, located
from brokerless.io.cores import log_threads
from brokerless.io.file_window import Window
from brokerless.log.segment import cut_batch
from brokerless.rewriting.compact.record_selection import count
from brokerless.rewriting.compact.report import Counts, SegmentReport
from brokerless.rewriting.segment_rewrite import NewSegments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Literal, TypeAlias

    from brokerless.append.operation import Progress
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.segment import Segment
    from brokerless.rewriting.compact.plan import Cleanable
    from brokerless.rewriting.compact.record_selection import Verdicts
    from brokerless.rewriting.compact.report import SkipReason

    _Walk: TypeAlias = _native.CompactionScan | _native.CompactionRewrite

# Verdicts, a bit or two per record, get 1/VERDICTS_SHARE of the memory. The overhead is the same for every log. The
# rest is for keys, 24 bytes each.
VERDICTS_SHARE = 8
_OVERHEAD = 160 << 20
# How many records are looked up in the map of keys at a time.
_RECORDS_AT_ONCE = 1 << 26
ALL_HASHES = (0, 0)
# How much of a file is read at a time: enough that each of several threads has many batches.
_WINDOW = 4 << 20
# The latest timestamp that Kafka has.
_LATEST = (1 << 63) - 1
# How many bytes wait before they are written.
_PENDING = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of one log's compaction. Picklable.

    Attributes:
        directory: the partition's directory.
        config: the topic's settings.
        found: the cleanable part of the log.
        groups: the groups of segments; each group becomes one segment.
        aborted: the aborted transactions, as one transaction index for all segments.
        log_start_offset: the log start offset.
        producers: the producer state at the log end, as the content of a `.snapshot`.
        kept_end_offset: the batch that ends at this offset stays, even without records.
        hash_key: the random key for hashing the records' keys. Each plan has another one, so that nobody can construct
            records whose keys collide.
        now: the time of the run, ms since the epoch.
        delete_retention_ms: the time in ms for which tombstones and markers stay once they have a delete horizon.
        is_due: True if a broker's cleaner would clean the log.
        skip_reason: why the log is skipped; None if it is not.
        bytes: the size of all segments.
        active: the base offset and size of the active segment, which does not change.
        is_rolled: True if the plan treats the active segment as rolled. A dry run does not roll it.
    """

    directory: str
    config: TopicConfig
    found: Cleanable
    groups: tuple[tuple[Segment, ...], ...]
    aborted: bytes = field(repr=False)
    log_start_offset: int
    producers: bytes
    kept_end_offset: int
    hash_key: tuple[int, int] = field(repr=False)
    now: int
    delete_retention_ms: int
    is_due: bool
    skip_reason: SkipReason | None
    bytes: int
    active: tuple[int, int]
    is_rolled: bool

    @property
    def delete_horizon_ms(self) -> int:
        """The delete horizon for tombstones and markers; for an endless retention, the latest possible time."""
        return min(self.now + self.delete_retention_ms, _LATEST)


class Decision(NamedTuple):
    """The result of one pass, for the keys of a range of hashes.

    Attributes:
        counts: the counts of each segment's records, by base offset.
        keys: the number of different keys in the dirty part.
        next_hash_range: the range left to decide, as (first hash, number of hashes); None if nothing is left.
    """

    counts: dict[int, Counts]
    keys: int
    next_hash_range: tuple[int, int] | None


def decide(
    plan: Plan,
    verdicts: Verdicts,
    hash_range: tuple[int, int] = ALL_HASHES,
    *,
    memory: int,
    progress: Progress = lambda _: None,
) -> Decision:
    """Decide which records stay, for the keys whose hashes are in a range.

    Args:
        plan: the plan of the compaction.
        verdicts: the verdicts of this range are added to it; its verdicts of other ranges stay.
        hash_range: (first hash, number of hashes). The pass decides as many of them as fit into the memory.
        memory: the number of bytes that the process may take.
        progress: called with the number of bytes read since the last call.
    """
    scan = _native.CompactionScan(
        [plan.aborted],
        log_start_offset=plan.log_start_offset,
        first_dirty_offset=plan.found.first_dirty_offset,
        now=plan.now,
        hash_key=plan.hash_key,
        hash_range=hash_range,
        max_bytes=max(memory // 2, memory - memory // VERDICTS_SHARE - _OVERHEAD),
        max_batch_bytes=_native.DEFAULT_MAX_BATCH_BYTES,
        threads=log_threads(),
    )
    clean, straddling, dirty = _divide_at_first_dirty_offset(plan.found)
    one_pass = _Pass(plan, verdicts, scan, progress)
    one_pass.follow_transactions(clean)
    one_pass.decide_dirty_records(straddling + dirty)
    one_pass.decide_clean_records(clean + straddling)
    return Decision(one_pass.counts, scan.keys, scan.next_hash_range)


def _divide_at_first_dirty_offset(found: Cleanable) -> tuple[list[Segment], list[Segment], list[Segment]]:
    """Return the clean segments, the segment with a clean and a dirty part (if any), and the dirty segments."""
    clean, straddling, dirty = [], [], []
    for segment in found.segments:
        if segment.end_offset(found.first_uncleanable_offset) <= found.first_dirty_offset:
            clean.append(segment)
        elif segment.base_offset < found.first_dirty_offset:
            straddling.append(segment)
        else:
            dirty.append(segment)
    return clean, straddling, dirty


class _Pass:
    """One pass over the log in three phases, in this order.

    1. `follow_transactions` of the clean part: transactions may continue in the dirty part.
    2. `decide_dirty_records`, which fills the map of keys.
    3. `decide_clean_records`: a clean record is removed if the map has its key.

    Attributes:
        counts: the counts of each segment's records, by base offset.
    """

    def __init__(self, plan: Plan, verdicts: Verdicts, scan: _native.CompactionScan, progress: Progress) -> None:
        self._plan = plan
        self._verdicts = verdicts
        self._scan = scan
        self._progress = progress
        self.counts: dict[int, Counts] = {}

    def follow_transactions(self, segments: Iterable[Segment]) -> None:
        """Read the segments for their transactions only."""
        for segment in segments:
            self._scan.begin("follow")
            _feed(self._scan, segment, self._scan.feed, self._progress)

    def decide_dirty_records(self, segments: Iterable[Segment]) -> None:
        """Decide the dirty records: the newest record of each key stays. Call this after all were read."""
        scanned = [(segment, self._scan_records(segment, "dirty")) for segment in segments]
        for neighbours in _looked_up_together(scanned):
            first, last = neighbours[0][1], neighbours[-1][1]
            newest = self._scan.newest(first.first_number, last.first_number + last.records)
            for segment, found in neighbours:
                start = (found.first_number - first.first_number) // 8
                own_bytes = slice(start, start + -(-found.records // 8))
                keep, stamp, expired = (bits[own_bytes] for bits in newest)
                self._verdicts.add(segment.base_offset, found.keep, found.stamp, found.txnindex)
                self._verdicts.add(segment.base_offset, keep, stamp)
                self.counts[segment.base_offset] = Counts.of(found, expired=count(expired))

    def decide_clean_records(self, segments: Iterable[Segment]) -> None:
        """Decide the clean records: a record stays if no dirty record has its key."""
        for segment in segments:
            found = self._scan_records(segment, "clean")
            dirty_counts = self.counts.get(segment.base_offset)
            # The dirty part of a segment has already given its transaction index.
            txnindex = found.txnindex if dirty_counts is None else b""
            self._verdicts.add(segment.base_offset, found.keep, found.stamp, txnindex)
            clean_counts = Counts.of(found, expired=found.expired)
            self.counts[segment.base_offset] = (dirty_counts or Counts()) + clean_counts

    def _scan_records(self, segment: Segment, phase: Literal["dirty", "clean"]) -> _native.SegmentVerdicts:
        self._scan.begin(phase, keeps_legacy_tombstones=segment.modified > legacy_horizon(self._plan))
        _feed(self._scan, segment, self._scan.feed, self._progress)
        return self._scan.finish()


def _looked_up_together(
    scanned: Iterable[tuple[Segment, _native.SegmentVerdicts]],
) -> Iterator[list[tuple[Segment, _native.SegmentVerdicts]]]:
    """Yield groups of neighbouring segments with at most `_RECORDS_AT_ONCE` records; a larger segment is alone."""
    neighbours: list[tuple[Segment, _native.SegmentVerdicts]] = []
    for segment, found in scanned:
        end_number = found.first_number + found.records
        if neighbours and end_number - neighbours[0][1].first_number > _RECORDS_AT_ONCE:
            yield neighbours
            neighbours = []
        neighbours.append((segment, found))
    if neighbours:
        yield neighbours


class Decided(NamedTuple):
    """The result of several passes, each for its own range of hashes.

    Attributes:
        counts: the counts of each segment's records, by base offset.
        keys: the number of different keys in the dirty part.
        passes: the number of passes.
        next_hash_range: the range left to decide; None if nothing is left.
        place: the directory with the verdicts, if they were saved.
    """

    counts: dict[int, Counts]
    keys: int
    passes: int
    next_hash_range: tuple[int, int] | None = None
    place: str = ""


def merged(decided: Iterable[Decided]) -> Decided:
    """Merge the results of passes. Sum the keys and the expired tombstones; all passes have the same other counts."""
    counts: dict[int, Counts] = {}
    keys = passes = 0
    for result in decided:
        counts = {base: of.with_expired(result.counts[base].expired) for base, of in counts.items()} or result.counts
        keys, passes = keys + result.keys, passes + result.passes
    return Decided(counts, keys, passes)


def decide_all(
    plan: Plan,
    verdicts: Verdicts,
    hash_range: tuple[int, int],
    *,
    memory: int,
    progress: Progress,
    passes: int | None = None,
) -> Decided:
    """Decide a range of hashes in as many passes as the memory requires, or at most `passes`; see `decide`."""
    decided: list[Decided] = []
    remaining: tuple[int, int] | None = hash_range
    while remaining is not None and (passes is None or len(decided) < passes):
        decision = decide(plan, verdicts, remaining, memory=memory, progress=progress)
        decided.append(Decided(decision.counts, decision.keys, 1))
        remaining = decision.next_hash_range
    return merged(decided)._replace(next_hash_range=remaining)


def rewrite(
    plan: Plan,
    group: Sequence[Segment],
    verdicts: Verdicts,
    counts: dict[int, Counts],
    *,
    dry_run: bool = False,
    progress: Progress = lambda _: None,
    output: str | None = None,
) -> tuple[Replacement, list[SegmentReport]]:
    """Write a new segment for a group of old ones, durably, under names that a load deletes.

    When an index of the new segment is full, another segment continues it. Kafka's cleaner fails there.

    Args:
        plan: the plan of the compaction.
        group: one of the plan's groups.
        verdicts: the verdicts of all hashes.
        counts: the counts of all hashes.
        dry_run: measure the new segment, and write nothing.
        progress: called with the number of bytes read since the last call.
        output: the directory for the new segment; None for the directory of the old ones.
    """
    native = _native.CompactionRewrite(
        plan.producers,
        end_offset=plan.kept_end_offset,
        delete_horizon_ms=plan.delete_horizon_ms,
        max_batch_bytes=_native.DEFAULT_MAX_BATCH_BYTES,
        threads=log_threads(),
    )
    modified_ns = group[-1].modified * 1_000_000
    directory = output or plan.directory
    new = NewSegments(directory, group[0].base_offset, plan.config, modified_ns, dry_run=dry_run)
    reports = []
    try:
        for segment in group:
            before, base_offset = new.size + new.output.size, new.base_offsets[-1]
            known = counts[segment.base_offset]
            native.begin(*verdicts.of(segment.base_offset))
            _feed(native, segment, partial(_push, native, new), progress)
            native.finish(new.output)
            if native.records != known.records_in_file:
                raise CorruptRecordError(
                    f"the segment has {native.records} records, and had {known.records_in_file} when they were "
                    "decided: another process writes to it",
                    path=segment.path,
                )
            kept_bytes = new.size + new.output.size - before
            reports.append(SegmentReport.of(segment, base_offset, known, native.kept, kept_bytes))
        new.finish()
    except BaseException:
        new.abandon()
        raise
    return Replacement(tuple(new.base_offsets), tuple(segment.base_offset for segment in group)), reports


def legacy_horizon(plan: Plan) -> int:
    """Return the file time up to which tombstones of magic 0 and 1 are removed. They have no delete horizon."""
    clean = [segment for segment in plan.found.segments if segment.base_offset < plan.found.first_dirty_offset]
    return clean[-1].modified - plan.delete_retention_ms if clean else 0


def _feed(native: _Walk, segment: Segment, walk: Callable[[memoryview, int], int], progress: Progress) -> None:
    """Feed a whole segment to a native walk.

    Raises:
        CorruptRecordError: the segment is damaged, or its last batch is incomplete.
    """
    with segment.open() as file, located(segment.path):
        size = file.size()
        window = Window(file, 0, size, _WINDOW if isinstance(native, _native.CompactionScan) else _WINDOW // 2)
        window.fill(0)
        while window.position < size:
            taken = walk(window.data, window.position)
            window.advance(taken)
            progress(taken)
            if window.position < size and not window.fill(native.needed):
                raise cut_batch(window.position, size)


def _push(native: _native.CompactionRewrite, new: NewSegments, data: memoryview, position: int) -> int:
    taken = new.feed(native, data, position)
    new.write(at_least=_PENDING)
    return taken
