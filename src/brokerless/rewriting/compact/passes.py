"""The two halves of a compaction: which records stay, and the segments that are left (Cleaner).

`decide` reads the log and finds out which records stay, for the keys of a range of hashes: with little memory it takes
several of them. `rewrite` makes a new segment of a group of old ones by what was decided, and knows no keys. Plans and
verdicts are picklable, and nothing that counts is changed, so any process may do a part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from brokerless import _native
from brokerless.append.swap import Replacement
from brokerless.errors import CorruptRecordError, located
from brokerless.io.file_window import Window
from brokerless.io.workers import threads
from brokerless.log.segment import cut_batch
from brokerless.rewriting.compact.record_selection import count
from brokerless.rewriting.compact.report import Counts, SegmentReport
from brokerless.rewriting.segment_rewrite import NewSegments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Literal, TypeAlias

    from brokerless.append.operation import Progress
    from brokerless.layout.topic_config import TopicSettings
    from brokerless.log.segment import Segment
    from brokerless.rewriting.compact.plan import Cleanable
    from brokerless.rewriting.compact.record_selection import Verdicts

    _Walk: TypeAlias = _native.CompactionScan | _native.CompactionRewrite

# Of the memory, the share of what is decided, a bit or two a record; and what else is there, whatever the log. The rest
# is for keys, 24 bytes each.
VERDICTS_SHARE = 8
_OVERHEAD = 160 << 20
# Bits of so many records are looked up in the map of keys at a time.
_RECORDS_AT_ONCE = 1 << 26
ALL_HASHES = (0, 0)
# Of a file, for several threads: enough that each has many batches.
_WINDOW = 4 << 20
# Of Kafka's times.
_LATEST = (1 << 63) - 1
# What waits to be written.
_PENDING = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be compacted. Picklable.

    Attributes:
        directory: the partition's.
        settings: the topic's.
        found: what may be cleaned.
        groups: the segments that become one.
        aborted: the aborted transactions, as one transaction index for all segments.
        log_start_offset: the first offset that counts.
        producers: the producer state at the log end, as the content of a `.snapshot`.
        kept_end_offset: the batch that ends here stays, be it empty.
        hash_key: the key of the hash of keys: of this plan alone, so that nobody can make keys that collide.
        now: the clock, ms since the epoch.
        delete_retention_ms: how long tombstones and markers stay once they are stamped.
        is_due: whether a broker's cleaner would take it up.
        left: why it is to be left alone; empty: it is not.
        bytes: of all segments.
        active: base offset and size of the active segment, which stays as it is.
        is_rolled: the plan takes the active segment for rolled, which it is not: a dry run.
    """

    directory: str
    settings: TopicSettings
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
    left: str
    bytes: int
    active: tuple[int, int]
    is_rolled: bool

    @property
    def delete_horizon_ms(self) -> int:
        """What tombstones and markers are stamped with: of a retention without end, the latest time there is."""
        return min(self.now + self.delete_retention_ms, _LATEST)


class Decision(NamedTuple):
    """What was found out for the keys of a range of hashes.

    Attributes:
        counts: of the records of each segment, by base offset.
        keys: different ones, in the dirty part.
        next_hash_range: what is left to decide: (first hash, how many); None: nothing.
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
    """Find out which records stay, for the keys whose hashes are in a range.

    Args:
        plan: what is to be compacted.
        verdicts: where it is written down; what is there of other ranges stays.
        hash_range: (first hash, how many); of these, as many as fit into the memory are done.
        memory: bytes that the process may take.
        progress: called with the bytes that were read since the last call.
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
        threads=threads(),
    )
    segments, first_dirty = plan.found.segments, plan.found.first_dirty_offset
    clean = [segment for segment in segments if segment.base_offset < first_dirty]
    whole = [segment for segment in clean if _end(plan, segment) <= first_dirty]
    counts: dict[int, Counts] = {}
    for segment in whole:
        scan.begin("follow")
        _feed(scan, segment, scan.feed, progress)
    dirty = [(segment, _scan(plan, scan, segment, "dirty", progress)) for segment in segments if segment not in whole]
    for some in _some(dirty):
        first = some[0][1].first_number
        newest = scan.newest(first, some[-1][1].first_number + some[-1][1].records)
        for segment, found in some:
            start = (found.first_number - first) // 8
            part = slice(start, start + -(-found.records // 8))
            keep, stamp, expired = (bits[part] for bits in newest)
            verdicts.add(segment.base_offset, found.keep, found.stamp, found.txnindex)
            verdicts.add(segment.base_offset, keep, stamp)
            counts[segment.base_offset] = Counts.of(found, expired=count(expired))
    for segment in clean:
        found = _scan(plan, scan, segment, "clean", progress)
        # of a segment with a dirty part, the transaction index is known
        verdicts.add(segment.base_offset, found.keep, found.stamp, found.txnindex if segment in whole else b"")
        known = counts.get(segment.base_offset, Counts())
        counts[segment.base_offset] = known + Counts.of(found, expired=found.expired)
    return Decision(counts, scan.keys, scan.next_hash_range)


class Decided(NamedTuple):
    """What was found out in several passes, each for a range of hashes of its own.

    Attributes:
        counts: of the records of each segment, by base offset.
        keys: different ones, in the dirty part.
        passes: how many.
        next_hash_range: what is left to decide; None: nothing.
        place: the directory with the verdicts, if they were saved.
    """

    counts: dict[int, Counts]
    keys: int
    passes: int
    next_hash_range: tuple[int, int] | None = None
    place: str = ""


def together(decided: Iterable[Decided]) -> Decided:
    """Put together what was found out: expired tombstones are those of each range of keys, all else is the same."""
    counts: dict[int, Counts] = {}
    keys = passes = 0
    for one in decided:
        counts = {base: of.with_expired(one.counts[base].expired) for base, of in counts.items()} or one.counts
        keys, passes = keys + one.keys, passes + one.passes
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
    """Decide a range of hashes in as many passes as the memory asks for, or at most so many; see `decide`."""
    decided: list[Decided] = []
    left: tuple[int, int] | None = hash_range
    while left is not None and (passes is None or len(decided) < passes):
        decision = decide(plan, verdicts, left, memory=memory, progress=progress)
        decided.append(Decided(decision.counts, decision.keys, 1))
        left = decision.next_hash_range
    return together(decided)._replace(next_hash_range=left)


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
    """Make a new segment of a group of old ones, durably, under the names that a load drops.

    Where it has no slot left in an index, another one goes on. Kafka's cleaner fails there.

    Args:
        plan: what is to be compacted.
        group: one of the plan's.
        verdicts: what was decided, for all hashes.
        counts: what was counted, likewise.
        dry_run: make it, and throw it away.
        progress: called with the bytes that were read since the last call.
        output: the directory for it; None: that of the old ones.
    """
    native = _native.CompactionRewrite(
        plan.producers,
        end_offset=plan.kept_end_offset,
        delete_horizon_ms=plan.delete_horizon_ms,
        max_batch_bytes=_native.DEFAULT_MAX_BATCH_BYTES,
        threads=threads(),
    )
    modified_ns = group[-1].modified * 1_000_000
    directory = output or plan.directory
    new = NewSegments(directory, group[0].base_offset, plan.settings, modified_ns, dry_run=dry_run)
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
                    f"the segment has {native.records} records, {known.records_in_file} when it was looked at: "
                    "something else writes to it",
                    path=segment.path,
                )
            kept_bytes = new.size + new.output.size - before
            reports.append(SegmentReport.of(segment, base_offset, known, native.kept, kept_bytes))
        new.finish()
    except BaseException:
        new.abandon()
        raise
    return Replacement(tuple(new.base_offsets), tuple(segment.base_offset for segment in group)), reports


def _scan(
    plan: Plan, scan: _native.CompactionScan, segment: Segment, phase: Literal["dirty", "clean"], progress: Progress
) -> _native.SegmentVerdicts:
    scan.begin(phase, keeps_legacy_tombstones=segment.modified > legacy_horizon(plan))
    _feed(scan, segment, scan.feed, progress)
    return scan.finish()


def legacy_horizon(plan: Plan) -> int:
    """Return the file time up to which tombstones of magic 0 and 1 go: these formats know no delete horizon."""
    clean = [segment for segment in plan.found.segments if segment.base_offset < plan.found.first_dirty_offset]
    return clean[-1].modified - plan.delete_retention_ms if clean else 0


def _feed(native: _Walk, segment: Segment, walk: Callable[[memoryview, int], int], progress: Progress) -> None:
    """Let a native walk see all of a segment.

    Raises:
        CorruptRecordError: it is damaged, or its last batch is cut.
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
    taken = native.feed(data, position, new.output)
    while native.is_full:
        new.roll()
        taken += native.feed(data[taken:], position + taken, new.output)
    new.write(at_least=_PENDING)
    return taken


def _end(plan: Plan, segment: Segment) -> int:
    return segment.next_base_offset if segment.next_base_offset is not None else plan.found.first_uncleanable_offset


def _some(
    scanned: Sequence[tuple[Segment, _native.SegmentVerdicts]],
) -> Iterable[list[tuple[Segment, _native.SegmentVerdicts]]]:
    """Yield runs of segments whose bits are made at once; one by itself if it is that large."""
    some: list[tuple[Segment, _native.SegmentVerdicts]] = []
    for segment, found in scanned:
        if some and found.first_number + found.records - some[0][1].first_number > _RECORDS_AT_ONCE:
            yield some
            some = []
        some.append((segment, found))
    if some:
        yield some
