"""The work of a starting broker on a partition directory (LogLoader), planned on a view of the directory.

The steps and their order are the same as in Kafka, so a broker that opens the directory next changes nothing. If Kafka
would not start, a `CorruptRecordError` gives the reason and the remedy. If Kafka would lose data silently, the result
lists that under `losses`, and the caller decides.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerless import _native
from brokerless.errors import BrokerlessError, CorruptRecordError, UnsupportedFormatError, located
from brokerless.io.file_window import is_zero_from
from brokerless.layout import checkpoints, file_names, lost_offsets
from brokerless.layout.tiering import log_start_offset
from brokerless.log.expected_end import EndEvidence, above_in_words, cut_short_in_words, lost_in_words
from brokerless.log.segment import Segment, last_entry, limit_of
from brokerless.recovery.file_changes import Changes
from brokerless.recovery.load_result import Loaded
from brokerless.recovery.lost_batches import Cut, cut
from brokerless.recovery.producer_state import Snapshots
from brokerless.recovery.segment_replay import feed, headers
from brokerless.remarks import Remark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.io.file_window import Readable
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.recovery.file_changes import View

_INDEXES = (file_names.INDEX, file_names.TIMEINDEX, file_names.TXNINDEX)
_MAX_RELATIVE_OFFSET = (1 << 31) - 1


def load(
    directory: str,
    config: TopicConfig,
    *,
    is_clean: bool,
    recovery_point: int,
    log_start_offset: int | None,
    now: int,
    high_watermark: int | None = None,
    first_dirty_offset: int | None = None,
) -> Loaded:
    """Plan the changes made by opening a partition directory.

    Args:
        directory: the partition's directory.
        config: the topic's settings.
        is_clean: whether the log directory was shut down cleanly.
        recovery_point: the checkpointed recovery point; 0 without one.
        log_start_offset: the checkpointed log start offset; None if the checkpoint does not name the log.
        now: ms since the epoch, for the expiry of producers.
        high_watermark: the checkpointed high watermark; None if the checkpoint does not name the log.
        first_dirty_offset: the offset in the cleaner checkpoint; None if that does not name the log.

    Raises:
        CorruptRecordError: a broker would not start on the directory.
        OSError: a file cannot be read.
    """
    changes = Changes(directory)
    with located(directory):
        return _Loader(
            changes, config, is_clean, recovery_point, log_start_offset, now, high_watermark, first_dirty_offset
        ).load()


# Without the clean-shutdown marker, a broker would cut off the damage, and with it all evidence of the loss.
_REPAIR = "`brokerless repair` keeps every sound batch, and names what is lost"


class _Outcome(Enum):
    """The outcome of loading one segment or all of them."""

    LOADED = auto()
    """The segment is loaded, and cut if part of it was invalid."""
    OUT_OF_ORDER = auto()
    """The offsets do not ascend. A broker would empty the segment; here it is unchanged."""
    SPLIT = auto()
    """A segment was split into several, so that all segments have to be loaded again."""


class _Recovered(NamedTuple):
    """The result of recovering a segment; `reason` says why it did not end as `LOADED`."""

    outcome: _Outcome
    reason: str = ""


class _ShortSegment(NamedTuple):
    """A segment that ends before the last entry of its offset index.

    Attributes:
        base_offset: the segment's base offset.
        missing: the lost offsets, as text; None if a cleaner may have removed them.
    """

    base_offset: int
    missing: str | None


@dataclass
class _Loader:
    """Loads one log. The attributes hold the result so far.

    Attributes:
        segments: the base offsets of the loaded segments, ascending.
        short_segments: the base offsets of the segments whose index has entries beyond the end of the `.log`.
        highest_next_offsets: for each recovered segment, the offset after its highest offset.
        losses: the data that a broker would lose silently, a sentence each.
        cuts: the parts of segments that recovery cuts off.
        unseen_end: the end of the last segment, if a broker takes an earlier end from the segment's index; else 0.
    """

    changes: Changes
    config: TopicConfig
    is_clean: bool
    recovery_point: int
    checkpoint: int | None
    now: int
    high_watermark: int | None = None
    first_dirty_offset: int | None = None
    segments: list[int] = field(default_factory=list)
    short_segments: set[int] = field(default_factory=set)
    highest_next_offsets: dict[int, int] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    unseen_end: int = 0

    def _moved(self, evidence: EndEvidence) -> str:
        """Return the evidence that the last batch was moved: the log once ended inside the gap before this batch."""
        end, last = self.segments[-1], None
        if max(evidence.known) > end:
            # Ignore errors here: recovery handles unreadable files, and a segment may still have another name.
            with suppress(BrokerlessError, OSError):
                end, last = Segment(self.changes.directory, end).last_batch()
        recorded: list[tuple[int, int]] = []
        with suppress(CorruptRecordError, OSError):
            recorded = lost_offsets.recorded(self.changes.directory)
        claim = evidence.lone_claim(end, last, recorded)
        return "" if claim is None or claim.expected_end is None else f"{claim}, so its base offset is wrong"

    def load(self) -> Loaded:
        for name in filter(file_names.is_fatal, self.changes.names()):
            raise CorruptRecordError(
                f"a broker does not start: the name {name} does not begin with an offset: move the file out"
            )
        live = file_names.live_files(
            self.changes.names(), lambda name: self._next_offset(file_names.base_offset(name), file_names.SWAP)
        )
        short = list(self._short_segments(live))
        self.short_segments = {segment.base_offset for segment in short}
        missing = [Remark("segment-missing", said) for said in self._lost_segments(live)]
        missing += [Remark("segment-cut", segment.missing) for segment in short if segment.missing is not None]
        self._remove_leftovers()
        self._complete_swaps()
        self.epochs = self._read_epochs()
        starts = [start_offset for _, start_offset in self.epochs.entries()]
        evidence = EndEvidence(self.recovery_point, self.high_watermark, live.snapshots, starts)
        corroborated = evidence.corroborated_end if self.is_clean else None
        # The loop ends, because each split leaves more and smaller segments.
        while self._load_segments() is _Outcome.SPLIT:
            pass
        end_offset = self._end_offset()
        highest = self.highest_next_offsets.get(self.segments[-1], end_offset)
        if highest > end_offset:
            self._report_unreachable(self.segments[-1], end_offset, highest)
        # If all records of a log are deleted, the log begins and ends at the checkpointed log start offset.
        if corroborated is not None and end_offset > max(corroborated, self.checkpoint or 0):
            missing.append(Remark("records-missing", above_in_words(end_offset, corroborated)))
        recovery_point = end_offset if self.is_clean else min(self.recovery_point, end_offset)
        self.epochs.truncate_from_end(end_offset)
        self.epochs.truncate_from_start(self.checkpointed_start)
        self._write_epochs()
        start_offset = log_start_offset(
            self.checkpoint,
            self.segments[0],
            self.epochs.entries(),
            remote_storage_enable=self.config.remote_storage_enable,
        )
        snapshots = self._snapshots()
        snapshots.remove_strays(self.segments)
        snapshots.rebuild(self.segments, start_offset, end_offset, is_legacy=self._is_legacy, is_clean=self.is_clean)
        self.changes.drop_noops()
        return Loaded(
            self.changes,
            self.segments,
            start_offset,
            end_offset,
            recovery_point,
            self.epochs,
            snapshots.producers,
            self.losses,
            self.cuts,
            missing=missing,
            moved="" if self.is_clean else self._moved(evidence),
            expected_end=evidence.above(
                max(end_offset, self.unseen_end),
                name=os.path.basename(self.changes.directory),
                is_clean=self.is_clean,
            ),
        )

    @property
    def checkpointed_start(self) -> int:
        """The checkpointed log start offset, as a broker reads it: 0 without an entry."""
        return self.checkpoint or 0

    @property
    def _is_legacy(self) -> bool:
        return self.config.message_format < 2

    def _lost_segments(self, live: file_names.LiveFiles) -> Iterator[str]:
        """Yield a text for each segment that has indexes but no `.log`. A load removes these indexes."""
        for base_offset in live.lost:
            following = min((base for base in live.kinds if base > base_offset), default=None)
            before = max((base for base in live.kinds if base < base_offset), default=None)
            # Records are not missing if they were deleted, or if a cleaner merged them into the previous segment.
            is_deleted = following is not None and following <= self.checkpointed_start
            if not is_deleted and (before is None or self._end_of(before, live)[1] <= base_offset):
                yield lost_in_words(base_offset, following)

    def _short_segments(self, live: file_names.LiveFiles) -> Iterator[_ShortSegment]:
        """Yield the older segments that end before the last entry of their index.

        The rules are those of `Segment.entry_behind` and `PartitionFiles.trusts_index`. An index that fails these rules
        is rebuilt.
        """
        for base_offset, following in pairwise(sorted(live.kinds)):
            log, index = (file_names.segment_file(base_offset, kind) for kind in (file_names.LOG, file_names.INDEX))
            if following <= self.checkpointed_start or log not in self.changes or index not in self.changes:
                continue
            with self.changes.open(index) as file:
                entry = last_entry(file, base_offset)
            size = self.changes.size(log)
            if entry is None or entry[1] < size or entry[0] >= following:
                continue
            position, end_offset = self._end_of(base_offset, live)
            # If the segment ends inside a batch, recovery reports the loss.
            if position == size and end_offset <= entry[0]:
                is_missing = self.is_clean or base_offset >= (self.first_dirty_offset or 0)
                lost = f"offsets {end_offset} to {following - 1} are lost: {log}: {cut_short_in_words(size, entry)}"
                yield _ShortSegment(base_offset, lost if is_missing else None)

    def _end_of(self, base_offset: int, live: file_names.LiveFiles) -> tuple[int, int]:
        """Walk a whole segment, and return the position and the offset after the last batch."""
        suffix = file_names.SWAP if live.swapped.get(base_offset, 0) & file_names.LOG else ""
        walk = _native.SegmentEnd(0)
        with self.changes.open(file_names.segment_file(base_offset, file_names.LOG, suffix)) as file:
            feed(walk, file)
        return walk.position, base_offset if walk.next_offset is None else walk.next_offset

    def _remove_leftovers(self) -> None:
        changes = self.changes
        for name in changes.names():
            if name.endswith(file_names.DELETED) and not name.endswith(".checkpoint.deleted"):
                changes.remove(name, "scheduled for deletion")
        cleaned = [name for name in changes.names() if name.endswith(file_names.CLEANED)]
        lowest = min((file_names.broker_offset(name) or 0 for name in cleaned), default=1 << 63)
        for name in changes.names():
            if name.endswith(file_names.SWAP) and (file_names.broker_offset(name) or 0) >= lowest:
                changes.remove(name, "left by an interrupted split")
        for name in cleaned:
            changes.remove(name, "left by an interrupted cleaning")

    def _complete_swaps(self) -> None:
        """Finish an interrupted cleaning or split: the new files replace all old files in their offset range."""
        changes = self.changes
        swapped = [name for name in changes.names() if name.endswith(file_names.SWAP) and name[0] not in "+-"]
        logs = [name for name in swapped if name.endswith(f".log{file_names.SWAP}")]
        if logs:
            for name in logs:
                index = file_names.segment_file(file_names.base_offset(name), file_names.INDEX, file_names.SWAP)
                if index not in changes:
                    # A broker that opens the segment creates its index at full length.
                    changes.write(index, bytes(self.config.segment_index_bytes // 8 * 8), "missing beside its segment")
                    swapped.append(index)
            start = min(map(file_names.base_offset, logs))
            end = max(self._next_offset(file_names.base_offset(name), file_names.SWAP) for name in logs)
            for name in changes.names():
                offset = file_names.live_base_offset(name)
                if offset is not None and name not in swapped and start <= offset < end:
                    changes.remove(name, "replaced by a cleaned segment")
        for name in swapped:
            changes.rename(name, name.removesuffix(file_names.SWAP), "complete")

    def _load_segments(self) -> _Outcome:
        """Load all segments, and recover those that need it. Stop at the first segment that has to be split."""
        changes, self.segments = self.changes, []
        self._remove_orphans()
        for base_offset in sorted(self._base_offsets()):
            name = file_names.segment_file(base_offset, file_names.LOG)
            if name not in changes:
                changes.write(name, b"", "a broker opens only names of 20 digits")
                logs = (one for one in changes.names() if one.endswith(".log") and one != name)
                own = next((one for one in logs if file_names.broker_offset(one) == base_offset), name)
                self.losses.append(
                    f"a broker does not see the records in {own}, because the offset in the name does not have 20 "
                    f"digits: rename the file to {name}"
                )
            if not self._check_indexes(base_offset):
                recovered = self._recover(base_offset)
                if recovered.outcome is _Outcome.SPLIT:
                    return _Outcome.SPLIT
                if recovered.outcome is _Outcome.OUT_OF_ORDER:
                    raise CorruptRecordError(
                        f"a broker does not start: {name} has a fault ({recovered.reason}). {_REPAIR}"
                    )
            self.segments.append(base_offset)
        if not self.is_clean and self._recover_unflushed() is _Outcome.SPLIT:
            return _Outcome.SPLIT
        if not self.segments or self._end_offset() < self.checkpointed_start:
            self._restart_at_log_start()
        self._check_sizes(self.segments[-1])
        return _Outcome.LOADED

    def _restart_at_log_start(self) -> None:
        """Replace all segments by an empty one at the log start offset, because all of them end below it."""
        changes, start = self.changes, self.checkpointed_start
        if self.is_clean and any(changes.size(file_names.segment_file(base, file_names.LOG)) for base in self.segments):
            self.losses.append(
                f"a broker deletes the whole log, because the log ends below its start offset {start}: before it "
                f"starts, correct the offset in {checkpoints.LOG_START_OFFSETS}"
            )
        for base_offset in reversed(self.segments):
            changes.delete_segment(base_offset, f"all of the log is below its start offset {start}")
        if self.segments:
            self.epochs.truncate_from_end(0)
        self.segments = [start]
        for kind in (file_names.LOG, file_names.INDEX, file_names.TIMEINDEX):
            changes.write(file_names.segment_file(start, kind), b"", "the first segment")

    def _remove_orphans(self) -> None:
        for name in self.changes.names():
            offset = file_names.live_base_offset(name)
            is_index = name.endswith((".index", ".timeindex", ".txnindex")) and offset is not None
            if is_index and file_names.segment_file(offset or 0, file_names.LOG) not in self.changes:
                self.changes.remove(name, "an index without its segment")

    def _base_offsets(self) -> set[int]:
        """Return the base offsets of the segments, as a broker takes them from the names of their files."""
        found = (file_names.broker_offset(name) for name in self.changes.names() if name.endswith(".log"))
        # For a negative offset, a broker opens a segment that has no batches, so leave it out.
        return {offset for offset in found if offset is not None and offset >= 0}

    def _check_indexes(self, base_offset: int) -> bool:
        """Return whether the indexes exist. Like Kafka, do not check the content of the offset and time indexes."""
        index, time_index, txn_index = (file_names.segment_file(base_offset, kind) for kind in _INDEXES)
        if time_index not in self.changes and index in self.changes:
            self.changes.write(time_index, b"", "a time index that is missing alone stays empty")
        for name, entry in ((index, 8), (time_index, 12)):
            if name in self.changes:
                size = self.changes.size(name)
                # A broker appends after the last whole entry, and cuts off the incomplete one when it closes the file.
                self.changes.truncate(name, size - size % entry, f"{size % entry} bytes after its last entry")
        if txn_index in self.changes:
            found = _native.TransactionIndex(self.changes.read(txn_index), base_offset)
            try:
                found.sanity_check()
                versions: list[Any] = found.entries()["version"].to_pylist()
                if any(version > 0 for version in versions):
                    raise UnsupportedFormatError("the version of an entry is not 0")
            except CorruptRecordError:
                return False
            except UnsupportedFormatError as error:
                raise CorruptRecordError(
                    f"a broker does not start: {txn_index} cannot be read: {error}. Remove it and {index}: "
                    "a broker rebuilds both"
                ) from error
        # A broker keeps the index of a short segment. Its last entry would still point to lost records.
        return index in self.changes and base_offset not in self.short_segments

    def _check_sizes(self, base_offset: int) -> None:
        """Refuse indexes of the active segment that are larger than segment.index.bytes: a broker cannot map them."""
        limit = self.config.segment_index_bytes
        for kind, entry in ((file_names.INDEX, 8), (file_names.TIMEINDEX, 12)):
            name = file_names.segment_file(base_offset, kind)
            if name in self.changes and self.changes.size(name) > limit // entry * entry:
                raise CorruptRecordError(
                    f"a broker does not start: {name} has {self.changes.size(name)} bytes, more than "
                    f"segment.index.bytes={limit} allows. Remove the file: a broker rebuilds it"
                )

    def _recover_unflushed(self) -> _Outcome:
        """Recover the segments from the recovery point on. Once a segment has been cut, delete all later segments."""
        start = max((base for base in self.segments if base <= self.recovery_point), default=0)
        for base_offset in [base for base in self.segments if base >= start]:
            size = self.changes.size(file_names.segment_file(base_offset, file_names.LOG))
            before = len(self.changes.steps)
            outcome = self._recover(base_offset).outcome
            if outcome is _Outcome.SPLIT:
                return _Outcome.SPLIT
            if outcome is _Outcome.OUT_OF_ORDER:
                self._empty(base_offset)
            if self.changes.size(file_names.segment_file(base_offset, file_names.LOG)) < size:
                # Delete later segments first: a crash in between then leaves the damage, but no gap.
                with self.changes.insert_before(before):
                    for later in reversed([base for base in self.segments if base > base_offset]):
                        why = f"after the damage in segment {base_offset}"
                        self._cut_off(later, 0, why, keep=False)
                        self.changes.delete_segment(later, why)
                        self.segments.remove(later)
                break
        return _Outcome.LOADED

    def _recover(self, base_offset: int) -> _Recovered:
        """Recover one segment (LogSegment.recover), or split it. If offsets are out of order, leave it unchanged."""
        log = file_names.segment_file(base_offset, file_names.LOG)
        snapshots = self._snapshots()
        snapshots.rebuild(self.segments, self.checkpointed_start, base_offset, is_legacy=self._is_legacy)
        recovery = _native.SegmentRecovery(
            base_offset,
            producers=snapshots.producers,
            epochs=self.epochs,
            index_interval_bytes=self.config.index_interval_bytes,
            segment_index_bytes=self.config.segment_index_bytes,
        )
        with self.changes.open(log) as file:
            feed(recovery, file)
            is_lossy = self._is_lossy(base_offset, recovery, file)
        why = recovery.error or "an incomplete batch follows the last one"
        if recovery.ended == "split":
            self._split(base_offset)
            return _Recovered(_Outcome.SPLIT, why)
        # If the log was closed cleanly, only segments without an index are recovered.
        if self.is_clean and is_lossy:
            self.losses.append(f"a broker cuts {log}, which has no index, at byte {recovery.valid_bytes}: {why}")
        if recovery.ended == "emptied":
            return _Recovered(_Outcome.OUT_OF_ORDER, why)
        if recovery.ended == "failed":
            raise CorruptRecordError(
                f"a broker does not start: {log} has a fault ({why}). Truncate the log there",
                position=recovery.valid_bytes,
            )
        self._cut_off(base_offset, recovery.valid_bytes, why, is_damage=recovery.error is not None)
        self._write_rebuilt_indexes(base_offset, recovery)
        self.highest_next_offsets[base_offset] = recovery.highest_next_offset
        if recovery.producers_end is not None:
            snapshots.end_offset = recovery.producers_end
        snapshots.take()
        return _Recovered(_Outcome.LOADED)

    def _is_lossy(self, base_offset: int, recovery: _native.SegmentRecovery, file: View) -> bool:
        """Return whether recovery cuts off more than zeros, or than the incomplete last batch of the newest segment.

        A copy of a growing file can end with an incomplete batch.
        """
        newest = max(self._base_offsets())
        if base_offset < newest and recovery.valid_bytes < file.size():
            return True
        return recovery.error is not None and not is_zero_from(file, recovery.valid_bytes)

    def _write_rebuilt_indexes(self, base_offset: int, recovery: _native.SegmentRecovery) -> None:
        rebuilt = (recovery.index, recovery.timeindex, recovery.txnindex)
        # Write the offset index last: below the recovery point, a load checks the other indexes again only if it is
        # missing.
        for kind, content in reversed(list(zip(_INDEXES, rebuilt, strict=True))):
            name = file_names.segment_file(base_offset, kind)
            if content or name in self.changes or kind != file_names.TXNINDEX:
                self.changes.write(name, content, "rebuilt from the segment")

    def _report_unreachable(self, base_offset: int, end_offset: int, highest: int) -> None:
        """Report batches that no reader reaches, because the last batch has lower offsets, where the log then ends."""
        log = file_names.segment_file(base_offset, file_names.LOG)
        with self.changes.open(log) as file:
            spans = [(batch["base_offset"], batch["last_offset"]) for batch in headers(file)]
        records = sum(last - (last if first is None else first) + 1 for first, last in spans if last >= end_offset)
        why = (
            f"the last batch ends at offset {end_offset}, but batches before it reach up to {highest}, so no reader "
            "reaches their records above the end"
        )
        offsets = end_offset, highest - 1
        self.cuts.append(Cut(log, self.changes.size(log), 0, why, True, 1, records, offsets))

    def _cut_off(
        self,
        base_offset: int,
        position: int,
        why: str,
        *,
        is_damage: bool = True,
        keep: bool = True,
    ) -> None:
        """Cut a segment. Set aside the removed bytes, unless they are zeros or an incomplete batch.

        Args:
            base_offset: the segment's base offset.
            position: the position of the cut.
            why: the reason, in words.
            is_damage: whether the bytes are certainly damaged.
            keep: keep the segment even if it is then empty.
        """
        log = file_names.segment_file(base_offset, file_names.LOG)
        if position == self.changes.size(log):
            return
        with self.changes.open(log) as file:
            start = self.checkpointed_start
            found = cut(log, file, position, why, base_offset=base_offset, start_offset=start, is_damage=is_damage)
        self.cuts.append(found)
        if found.is_damage:
            self.changes.set_aside(log, position, why)
            if keep and not position:
                self.changes.write(log, b"", why)
        else:
            self.changes.truncate(log, position, why)

    def _empty(self, base_offset: int) -> None:
        """Empty a segment whose index offsets do not ascend, as Kafka does."""
        self._cut_off(base_offset, 0, "its offsets do not ascend")
        for kind in _INDEXES:
            name = file_names.segment_file(base_offset, kind)
            if name in self.changes:
                self.changes.write(name, b"", "its segment is empty")

    def _headers_to_split(self, log: str, file: Readable) -> Iterator[dict[str, Any]]:
        """Yield the headers of a segment's batches. A broker does not check for damage before it splits a segment."""
        try:
            yield from headers(file)
        except CorruptRecordError as error:
            why = f"{log} must be split, but is damaged: {error.args[0]}"
            raise CorruptRecordError(
                f"a broker does not start: {why}. Run `brokerless repair`", position=error.position
            ) from error

    def _split(self, base_offset: int) -> None:
        """Split a segment whose offsets are too far apart for one segment (LogLoader.splitOverflowedSegment)."""
        changes, log = self.changes, file_names.segment_file(base_offset, file_names.LOG)
        why = f"the offsets of segment {base_offset} are too far apart for one segment"
        limit = min((base for base in self._base_offsets() if base > base_offset), default=None)
        parts: list[tuple[int, int]] = []
        next_offset = base_offset
        with changes.open(log) as file:
            size = file.size()
            for batch in self._headers_to_split(log, file):
                first, last = batch["base_offset"], batch["last_offset"]
                if not parts or last - parts[-1][0] > _MAX_RELATIVE_OFFSET:
                    if first is None:
                        raise CorruptRecordError(
                            f"a broker does not start: it cannot split {log}: the batch that ends at offset "
                            f"{last} needs a new segment, but its first offset is in a payload that cannot be "
                            "decompressed. Truncate the log there",
                            position=batch["position"],
                        )
                    if last < first or last - first > _MAX_RELATIVE_OFFSET or (not parts and first < base_offset):
                        raise CorruptRecordError(
                            f"a broker does not start: it cannot split {log}: offset {last} does not fit into "
                            f"a segment with base offset {first}. Truncate the log there",
                            position=batch["position"],
                        )
                    parts.append((first, batch["position"]))
                if limit is not None and parts[-1][0] >= limit:
                    self._report_moved(log, batch, limit)
                elif limit is None and parts[-1][0] > next_offset + _MAX_RELATIVE_OFFSET:
                    # No cleaner has touched the newest segment, so it cannot have a gap this large.
                    self._report_moved(log, batch, limit_of(base_offset))
                next_offset = last + 1
        ends = [position for _, position in parts[1:]] + [size]
        names = [file_names.segment_file(first, file_names.LOG) for first, _ in parts]
        for name, (_, start), end in zip(names, parts, ends, strict=True):
            changes.copy(name + file_names.CLEANED, log, start, end, why)
            # Write no index: a broker rebuilds a missing index, and so does the next load of the segments.
        for name in reversed(names):
            changes.rename(name + file_names.CLEANED, name + file_names.SWAP, why)
        changes.delete_segment(base_offset, why)
        for name in names:
            changes.rename(name + file_names.SWAP, name, why)

    def _report_moved(self, log: str, batch: dict[str, Any], limit: int) -> None:
        """Report a batch that the split moves beyond the log's end. A flipped bit in its base offset causes this."""
        first, last = batch["base_offset"], batch["last_offset"]
        why = (
            f"offset {last} is not below {limit}, where the next segment begins: a broker moves the batch to a segment "
            "of its own"
        )
        count = last - first + 1
        self.cuts.append(Cut(log, batch["position"], batch["size"], why, True, 1, count, (first, last)))

    def _snapshots(self) -> Snapshots:
        expiration_ms = self.config.producer_id_expiration_ms
        return Snapshots(self.changes, now=self.now, producer_id_expiration_ms=expiration_ms)

    def _end_offset(self) -> int:
        """Return the end of the last segment as a broker finds it, from the last index entry on."""
        return self._next_offset(self.segments[-1])

    def _next_offset(self, base_offset: int, suffix: str = "") -> int:
        log = file_names.segment_file(base_offset, file_names.LOG) + suffix
        index_name = file_names.segment_file(base_offset, file_names.INDEX) + suffix
        content = self.changes.read(index_name) if index_name in self.changes else b""
        index = _native.OffsetIndex(content, base_offset, raw=True)
        last_offset = index.last_offset
        start = max(0, index.lookup(last_offset)[1])
        walk = _native.SegmentEnd(start)  # as LogSegment.translateOffset
        with self.changes.open(log) as file:
            size = file.size()
            feed(walk, file, start)
            whole = walk
            if start and (walk.ended == "failed" or walk.next_offset is None or walk.next_offset <= last_offset):
                whole = _native.SegmentEnd(0)
                feed(whole, file)
        leads = f"{index_name} has offset {last_offset} at byte {start}, but {log} has no such batch there"
        if walk.ended == "failed":
            if whole.ended != "failed":
                raise CorruptRecordError(f"a broker does not start: {leads}. Remove {index_name}: a broker rebuilds it")
            raise CorruptRecordError(
                f"a broker does not start: {log} is damaged after its last whole batch: {walk.error}. {_REPAIR}",
                position=walk.position,
            )
        next_offset = walk.next_offset
        reached = next_offset is not None and next_offset > last_offset
        if not suffix and self.is_clean and (walk.position < size if reached else size > 0):
            if not reached and whole.next_offset is not None and whole.ended != "failed":
                self.unseen_end = whole.next_offset
                offsets = f"offsets {base_offset} to {whole.next_offset - 1}"
                self.losses.append(
                    f"a broker does not see {offsets}, because {leads}. Remove {index_name}: a broker rebuilds it"
                )
            else:
                what = f"the {size - walk.position} bytes after the last whole batch" if reached else "the end"
                self.losses.append(f"a broker does not see {what} of {log}")
        return next_offset if reached and next_offset is not None else base_offset

    def _read_epochs(self) -> _native.LeaderEpochs:
        if checkpoints.LEADER_EPOCHS not in self.changes:
            return _native.LeaderEpochs([])
        try:
            return _native.LeaderEpochs(checkpoints.parse_leader_epochs(self.changes.read(checkpoints.LEADER_EPOCHS)))
        except CorruptRecordError as error:
            raise CorruptRecordError(
                f"a broker does not start: {checkpoints.LEADER_EPOCHS} cannot be read: {error}. Remove the "
                "file and recover the log, which rebuilds the leader epochs"
            ) from error

    def _write_epochs(self) -> None:
        entries = self.epochs.entries()
        is_missing = checkpoints.LEADER_EPOCHS not in self.changes
        if is_missing and not entries:
            self.changes.write(checkpoints.LEADER_EPOCHS, b"", "every log has one")
        elif is_missing or entries != checkpoints.parse_leader_epochs(self.changes.read(checkpoints.LEADER_EPOCHS)):
            self.changes.write(
                checkpoints.LEADER_EPOCHS, checkpoints.format_leader_epochs(entries), "the epochs of the log"
            )
