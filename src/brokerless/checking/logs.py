"""The check of one log: its batches, and its small files compared with the batches."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import deque
from contextlib import suppress
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from brokerless import _native
from brokerless.checking.batch_check import MOST, BatchCheck
from brokerless.checking.finding import Finding
from brokerless.checking.segments import SegmentReplay, check_segment
from brokerless.errors import (
    IMAGE_FIRST,
    BrokerlessError,
    CorruptRecordError,
    UnsupportedFormatError,
    is_disk_error,
    located,
)
from brokerless.inspection.findings import zeros_in_words
from brokerless.io import storage
from brokerless.io.clock import now_ms
from brokerless.layout import checkpoints, lost_offsets
from brokerless.layout.file_names import (
    COORDINATORS,
    LOG,
    METADATA_TOPIC,
    SET_ASIDE,
    STATES,
    TXNINDEX,
    broker_offset,
    is_fatal,
    live_base_offset,
    segment_file,
)
from brokerless.log.aborted_transactions import transactions
from brokerless.log.offsets_for_times import max_timestamp
from brokerless.log.segment import NO_END, transaction_index, walk_whole_batches
from brokerless.log.unlikely_times import unlikely_time
from brokerless.log_dir.start_faults import obstructed_files, partition_faults
from brokerless.metadata.directory import is_fatal_snapshot
from brokerless.notes import collected
from brokerless.recovery.clean_start import clean_start
from brokerless.recovery.segment_replay import feed
from brokerless.wording import counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from brokerless.inspection.findings import Count
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.aborted_transactions import Aborted
    from brokerless.log.log import Log
    from brokerless.log.segment import Segment

# The maximum length of a key in a message, which is meant for `brokerless erase`. Keys of groups and transactions are
# much shorter.
_MOST_OF_KEY = 1000
_FOR_EVER = (1 << 63) - 1
_UNREAD = "disk-unreadable"
_INDEXES = ("offset-index", "time-index", "transaction-index")
# The default of transaction.max.timeout.ms. The metadata do not have it, because brokers read it from
# server.properties.
_MAX_TIMEOUT_MS = 15 * 60_000
# transaction.abort.timed.out.transaction.cleanup.interval.ms: the interval at which a coordinator looks for
# transactions to end.
_LOOKS_EVERY_MS = 10_000
_SMALL_FILES = {checkpoints.LEADER_EPOCHS, checkpoints.PARTITION_METADATA, lost_offsets.FILE}
# Files beside the metadata log: the quorum state, and snapshots of the metadata.
_QUORUM_FILE = re.compile(rf"{checkpoints.QUORUM_STATE}|\d{{20}}-\d{{10}}(-\d+)?\.checkpoint(\.part|\.deleted)?")
_PRODUCER_COLUMNS = ("producer_id", "producer_epoch", "last_sequence", "coordinator_epoch", "current_txn_first_offset")


class LogCheck:
    """A check of one log: first its segments, then the log as a whole.

    Args:
        log: the log, with a new listing of its files.
        level: "quick", "default" or "deep".
        progress: called with the size of each segment that was checked, in bytes.
        count: called with each file and its runs of sound batches, unless the level is "quick".
        gone: called with the error for a segment that no longer exists; None: raise the error.
        goes_on: whether a file that cannot be read is a finding; otherwise, it is an error.
    """

    def __init__(
        self,
        log: Log,
        level: str,
        progress: Callable[[int], None],
        *,
        count: Count | None = None,
        gone: Callable[[FileNotFoundError], None] | None = None,
        goes_on: bool = False,
    ) -> None:
        self._log, self._level, self._progress = log, level, progress
        self._goes_on = goes_on
        self._unread: set[str] = set()
        self._count, self._gone = count, gone
        self._is_compacted = log.root.first_dirty_offsets.get((log.topic or "", log.partition or 0), 0) > 0
        self._is_damaged = self._has_transactions = False
        self._gaps: tuple[list[Finding], list[tuple[int, Finding]]] = ([], [])
        self._of_epochs: list[Finding] = []
        self._of_snapshots: list[Finding] = []

    @property
    def is_compacted(self) -> bool:
        """True if the log is compacted, according to its settings or its batches, so that offsets may be missing."""
        return self._is_compacted

    def of_segments(self) -> Iterator[Finding]:
        """Yield the findings on files, then the findings on batches in the order of the log."""
        is_loaded = False
        error: CorruptRecordError | None = None
        for found in map(self._after_a_crash, self._of_segments()):
            if found.kind.subject == "batch" and not is_loaded:
                is_loaded, error = True, self._load_error()
            if error is not None and found.code != _UNREAD and _is_cause(found, error):
                yield replace(found, code="batch-unloadable")
            else:
                yield found

    def _of_segments(self) -> Iterator[Finding]:
        yield from self._despite_errors(self._names)
        if not self._can_be_listed:
            return
        for look in (self._faults, self._offsets, self._missing):
            yield from self._despite_errors(look)
        if self._level == "quick":
            for segment in self._log.segments:
                yield from self._despite_errors(partial(self._headers, segment))
        else:
            yield from self._all_batches()

    def _all_batches(self) -> Iterator[Finding]:
        checks = BatchCheck(self._log)
        # The snapshots of a log with damage are not compared.
        snapshots = None if self._is_damaged else _Snapshots(self._log)
        for segment in self._log.segments:
            size = 0
            replay = None if self._is_damaged or snapshots is None else snapshots.before(segment)
            try:
                size = segment.size
                for found in self._despite_errors(partial(self._batches, segment, checks, replay)):
                    # A torn tail after a crash does not count, because the log before it is whole.
                    self._is_damaged |= found.kind.loses_records and found.severity != "note"
                    yield found
            except FileNotFoundError as error:
                if self._gone is None:
                    raise
                self._gone(error)
                # The missing segment is not a gap, and the small files cannot be compared with it.
                self._is_damaged = True
            if replay is not None and snapshots is not None and not self._is_damaged:
                snapshots.after(segment, replay, has_producers=checks.has_producers)
            self._progress(size)
        self._is_compacted |= checks.is_compacted
        self._has_transactions = checks.has_transactions
        self._of_epochs = list(self._despite_errors(partial(self._epochs, checks)))
        if snapshots is not None and not self._is_damaged:
            self._gaps = checks.offset_gaps, checks.sequence_gaps
            self._of_snapshots = list(snapshots.finish())

    def _batches(self, segment: Segment, checks: BatchCheck, replay: SegmentReplay | None) -> Iterator[Finding]:
        # A replay that a disk error ended cannot begin again.
        replay = None if self._is_damaged else replay
        is_deep = self._level == "deep"
        for found in check_segment(self._log, segment, checks, deep=is_deep, replay=replay, count=self._count):
            yield _with_unread(found, storage.unreadable_ranges(segment.path))

    def _despite_errors(self, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
        """Yield findings; if the check goes on despite errors, also those on files that cannot be read.

        If the disk cannot read bytes of a `.log`, look a second time, around these bytes.
        """
        if not self._goes_on:
            yield from look()
            return
        found: Iterable[Finding]
        try:
            try:
                found = list(look())
            except OSError as error:
                if not is_disk_error(error):
                    raise
                self._is_damaged = True
                with storage.bridged():
                    found = list(look())
        except FileNotFoundError:
            raise
        except OSError as error:
            self._is_damaged = True
            found = [unreadable(error, self._log)]
        yield from (one for one in found if one.code != "file-unreadable" or one.path not in self._unread)
        self._unread |= {one.path for one in found if one.code == "file-unreadable"}

    @property
    def _can_be_listed(self) -> bool:
        return not self._unread

    def of_log(self, config: TopicConfig | None) -> Iterator[Finding]:
        """Compare the log's small files with its batches, and yield the findings. Call this after `of_segments`.

        Args:
            config: the settings of the topic; None if not known.
        """
        return map(self._after_a_crash, self._despite_errors(partial(self._of_log, config)))

    def _of_log(self, config: TopicConfig | None) -> Iterator[Finding]:
        if self._level == "quick" or not self._can_be_listed:
            return
        self._is_compacted |= config is not None and config.is_compacted
        if not self._is_compacted:
            if config is not None and config.remote_storage_enable is False:
                yield from self._missing_head()
            yield from self._unexplained(*self._gaps)
        yield from self._of_epochs
        if self._level == "deep" and self._log.topic in COORDINATORS:
            yield from self._undecodable()
        if config is None or config.has_retention:
            yield from self._times()
        yield from self._overdue_transactions()
        if not self._is_damaged:
            yield from self._transaction_indexes()
        for found in self._of_snapshots:
            # A cleaner removes batches of producers that a snapshot still lists.
            if not self._is_compacted or found.code != "snapshot-differs":
                yield found

    def _load_error(self) -> CorruptRecordError | None:
        """Return the error of a broker that loads the log after a clean shutdown; None if it loads the log.

        A broker then truncates nothing. To find the log end, it reads the headers of the batches from the last index
        entry on. If there is no producer snapshot of the log end, it also reads the batches since the last snapshot.
        """
        try:
            # Other findings report what the notes say, and missing, unsupported and unreadable files.
            storage.despite_disk_errors(clean_start, self._log)
        except CorruptRecordError as error:
            return error
        return None

    def _after_a_crash(self, found: Finding) -> Finding:
        """Return a finding. Its code becomes `index-unflushed` if a broker will rebuild the index after a crash."""
        root = self._log.root
        # A running broker uses the index as it is.
        if found.code not in _INDEXES or root.is_clean or root.is_locked or root.node_id is None:
            return found
        base = live_base_offset(os.path.basename(found.path))
        at = bisect_right(self._log.segments, -1 if base is None else base, key=attrgetter("base_offset")) - 1
        end = self._log.segments[at].next_base_offset if at >= 0 else 0
        is_flushed = end is not None and end <= (self._log.recovery_point or 0)
        return found if is_flushed else replace(found, code="index-unflushed")

    def _times(self) -> Iterator[Finding]:
        """Yield segments with an unlikely largest timestamp, which retention would delete too early or never."""
        now, found = now_ms(), 0
        for segment in self._log.segments:
            with suppress(FileNotFoundError, CorruptRecordError, UnsupportedFormatError), segment.open() as file:
                extent = self._log.files.extent if segment.is_last else segment.extent(file)
                largest = max_timestamp(segment, file, extent.end_position)
                why = unlikely_time(largest, now)
                if why is not None and found < MOST:
                    found += 1
                    yield self._finding("timestamp-unlikely", segment.path, f"its largest timestamp {largest} is {why}")

    def _overdue_transactions(self) -> Iterator[Finding]:
        """Yield transactions that were open for longer than a broker allows when the last record was written."""
        log = self._log
        if not self._has_transactions or self._is_damaged or log.files.is_file:
            return
        # The log may have been removed, or have damage that other findings report.
        with suppress(FileNotFoundError, CorruptRecordError, UnsupportedFormatError):
            opened = transactions(log.files, log.log_start_offset, log.log_end_offset).open
            latest = max(map(_largest, log.segments), default=-1) if opened else -1
            begun = {producer: (first, _time_of(log, first)) for producer, first in opened}
            ages = {one: (first, latest - time) for one, (first, time) in begun.items() if time is not None}
            ages = {one: (first, age) for one, (first, age) in ages.items() if age > _LOOKS_EVERY_MS}
            known = self._timeouts(ages) if ages else {}
            for producer, (first, age) in ages.items():
                timeout = known.get(producer)
                limit = f"its transaction.timeout.ms is {timeout}"
                if timeout is None:
                    limit = f"the default of transaction.max.timeout.ms is {_MAX_TIMEOUT_MS}"
                if age > (_MAX_TIMEOUT_MS if timeout is None else timeout + _LOOKS_EVERY_MS):
                    message = (
                        f"the transaction of producer {producer} is open from offset {first} on. When the last record "
                        f"was written, it had been open for {duration(age)} ({age} ms), but {limit}"
                    )
                    yield self._finding("transaction-overdue", log.path, message, start_offset=first)

    def _timeouts(self, producers: Collection[int]) -> dict[int, int]:
        """Return the timeouts of producers, in ms, according to the coordinators' logs in the same log directory."""
        from brokerless.state.transactions import timeouts  # noqa: PLC0415 - Arrow is slow to import

        # Faults in these logs are findings of other logs.
        with suppress(BrokerlessError, OSError, ValueError), collected():
            return timeouts(self._log.root.path, producers)
        return {}

    def _finding(self, code: str, path: str, message: str, **fields: Any) -> Finding:  # noqa: ANN401 - those of a finding
        return Finding(
            code=code, topic=self._log.topic, partition=self._log.partition, path=path, message=message, **fields
        )

    def _path(self, name: str) -> str:
        return f"{self._log.path}/{name}"

    def _names(self) -> Iterator[Finding]:
        if self._log.files.is_file:
            return
        files, obstructed = set(storage.list_files(self._log.path)), set(obstructed_files(self._log.path))
        is_metadata = self._log.topic == METADATA_TOPIC
        for name in storage.list_directory(self._log.path):
            if (is_metadata and _QUORUM_FILE.fullmatch(name)) or name in _SMALL_FILES:
                continue
            path = self._path(name)
            if name in obstructed:
                continue
            if name not in files:
                yield self._finding("file-foreign", path, "a broker ignores it, because it is not a file")
            elif is_fatal(name) or name.startswith(SET_ASIDE) or (is_metadata and is_fatal_snapshot(name)):
                # Fatal names are reported below as faults, and set-aside files are brokerless's own.
                continue
            elif name.endswith(STATES):
                yield self._finding("leftover", path, "a deletion or a rewrite of the log has left this file")
            elif live_base_offset(name) is None:
                offset = broker_offset(name) if name.endswith(".log") else None
                if offset is not None and offset >= 0 and segment_file(offset, LOG) not in files:
                    message = f"a broker opens {segment_file(offset, LOG)} instead of this file"
                    yield self._finding("file-unpadded", path, message)
                else:
                    yield self._finding("file-foreign", path, "no file of a log has this name")

    def _faults(self) -> Iterator[Finding]:
        """Yield the faults that keep a broker from loading the log."""
        if self._log.files.is_file:
            return
        for fault in partition_faults(self._log.path):
            # `quorum_faults` finds a damaged id of the metadata log.
            if self._log.topic != METADATA_TOPIC or fault.code != "topic-id-damaged":
                yield self._finding(fault.code, fault.path, fault.finding)
        path = self._path(checkpoints.PARTITION_METADATA)
        # If a replica that is being moved here has no id, a broker renames it to `-stray`, and the partition stays in
        # its old directory.
        needs_id = self._log.topic not in (None, METADATA_TOPIC) and not self._log.path.endswith("-future")
        if self._log.root.is_kraft and needs_id and not storage.exists(path):
            yield self._finding("topic-id-missing", path, "the file is missing")

    def _offsets(self) -> Iterator[Finding]:
        """Yield a finding for each checkpoint with an offset above the end of the log."""
        log = self._log
        end = log.files.extent.next_offset
        if log.files.is_file or log.root.is_locked:
            return
        start = log.root.log_start_offsets.get((log.topic or "", log.partition or 0), 0)
        if start > end and log.segments:
            message = f"the log start offset is {start}, but the log ends at offset {end}"
            yield self._finding("log-start-ahead", f"{log.root.path}/{checkpoints.LOG_START_OFFSETS}", message)
        # After a clean shutdown, the same files prove that records are missing, which is another finding.
        expected = log.files.expected_end
        if expected is not None and not expected.is_certain and start <= end:
            yield self._finding("checkpoint-ahead", log.path, f"the log {expected.doubt}", start_offset=end)

    def _missing(self) -> Iterator[Finding]:
        """Yield the records that a log without segments should have."""
        for missing in () if self._log.segments else self._log.files.missing:
            yield Finding.of(missing, self._log.topic, self._log.partition)

    def _missing_head(self) -> Iterator[Finding]:
        """Yield the records missing before the first segment, if leader epochs begin below it; none for a tiered log.

        When retention deletes a segment, the broker removes its epochs from the file
        (LeaderEpochFileCache.truncateFromStart). After a crash, the file may still have these epochs, so it proves that
        records are missing only after a clean shutdown. In a compacted log, the file proves nothing, because compaction
        may have removed the first segment.
        """
        log = self._log
        if log.files.is_file or not log.segments or log.files.lost_before is not None or not log.root.is_clean:
            return
        start, first = log.log_start_offset, log.segments[0].base_offset
        if start < first:
            message = f"{checkpoints.LEADER_EPOCHS} begins at offset {start}, but the first segment at {first}"
            found = self._finding(
                "records-missing", log.segments[0].path, message, start_offset=start, end_offset=first
            )
            yield from self._unexplained([found], [])

    def _headers(self, segment: Segment) -> Iterator[Finding]:
        """Check the framing and the order of batches by their headers alone."""
        walk = _native.HeaderWalk()
        try:
            with segment.open() as file:
                extent, size = segment.extent(file), file.size()
                walk_whole_batches(segment, walk, file, 0, extent.end_position)
            if extent.damage is not None:
                raise extent.damage
            if segment.is_last:
                missing = self._log.files.claimed_lost_after(segment)
                for one in (one for one in missing if one.code == "records-missing"):
                    yield Finding.of(one, self._log.topic, self._log.partition)
            if self._log.root.is_clean and extent.end_position < size:
                message = zeros_in_words(extent.end_position, size)
                yield self._finding("tail-zeros", segment.path, message, position=extent.end_position)
        except (CorruptRecordError, UnsupportedFormatError) as error:
            code = "tail-torn" if segment.is_last and not self._log.root.is_clean else "batch-framing"
            yield self._finding(code, segment.path, str(error.args[0]), position=error.position)
        for start, end in storage.unreadable_ranges(segment.path):
            yield self._finding(_UNREAD, segment.path, _unread_in_words(start, end), position=start)
        self._progress(segment.size)

    def _unexplained(self, gaps: list[Finding], of_sequences: list[tuple[int, Finding]]) -> Iterator[Finding]:
        """Yield gaps in the offsets and in each producer's sequence numbers, except gaps that a repair has recorded."""
        lost: list[tuple[int, int]] = []
        if (gaps or of_sequences) and not self._log.files.is_file:
            try:
                lost = lost_offsets.recorded(self._log.path)
            except CorruptRecordError as error:
                yield self._finding("file-foreign", self._path(lost_offsets.FILE), str(error.args[0]))
        for gap in gaps:
            # Deleted records may be missing.
            start, end = max(gap.start_offset or 0, self._log.log_start_offset), gap.end_offset or NO_END
            if start < end and not any(low <= start and end <= high for low, high in lost):
                yield gap
        # After a recorded loss, each producer's first sequence number may skip some.
        explained: dict[int, int] = {}
        for producer, gap in of_sequences:
            before = bisect_right(lost, gap.start_offset or 0, key=lambda one: one[1])
            if before <= explained.get(producer, 0):
                yield gap
            explained[producer] = before

    def _epochs(self, checks: BatchCheck) -> Iterator[Finding]:
        path = self._path(checkpoints.LEADER_EPOCHS)
        if self._log.files.is_file:
            return
        try:
            stored = self._log.leader_epochs
        except CorruptRecordError:
            return
        start = self._log.log_start_offset
        # The next batch may begin inside the last one, if they overlap.
        ends = [*(first - 1 for _, first, _, _ in checks.epochs[1:]), NO_END]
        for (epoch, first, last, reached), end in zip(checks.epochs, ends, strict=False):
            # A broker forgets epochs below the log start, which may lie inside a batch. No other epoch begins inside a
            # batch.
            for offset in (max(first, start), max(last, start), min(reached, end)) if reached >= start else ():
                found = [entry.epoch for entry in stored if entry.start_offset <= offset]
                # DeleteRecords writes the epochs at once, but the log start only at the next checkpoint. A crash
                # between the two brings back records of the first epoch (UnifiedLog.maybeIncrementLogStartOffset).
                is_brought_back = not found and stored and stored[0].epoch == epoch
                if not is_brought_back and found[-1:] != [epoch]:
                    what = f"leader epoch {found[-1]}" if found else "no leader epoch"
                    says = f"the file says {what}" if stored else "the file is empty or missing"
                    message = f"the batch with offset {offset} has leader epoch {epoch}, but {says}"
                    yield self._finding("epochs-differ", path, message, start_offset=offset)
                    return
        corroborated = self._log.files.corroborated_end
        if corroborated is not None and stored and stored[-1].start_offset > corroborated:
            newest = stored[-1]
            message = (
                f"the file says that leader epoch {newest.epoch} begins at offset {newest.start_offset}, but the log "
                f"ended at {corroborated}"
            )
            yield self._finding("epochs-differ", path, message, start_offset=corroborated)

    def _undecodable(self) -> Iterator[Finding]:
        """Yield the first records that a coordinator cannot decode."""
        from brokerless.state.internal_topic import undecodable_records  # noqa: PLC0415 - Arrow is slow to import

        found = undecodable_records(self._log)
        for one in islice(found, MOST):
            key = "no key" if one.key is None else f"key {one.key[:_MOST_OF_KEY].hex() or 'of no bytes'} (hex)"
            offsets = {"start_offset": one.offset, "end_offset": one.offset + 1}
            message = f"the record at offset {one.offset} with {key} cannot be decoded: {one.why}"
            yield self._finding("state-record", self._log.path, message, **offsets)
        if more := sum(1 for _ in found):
            yield self._finding("state-record", self._log.path, f"{more} more records cannot be decoded")

    def _transaction_indexes(self) -> Iterator[Finding]:
        log = self._log
        # A cleaner drops markers, and the records of their transactions.
        if log.files.is_file or not log.segments or self._is_compacted:
            return
        aborted: list[Aborted] = []
        if self._has_transactions:
            try:
                aborted = transactions(log.files, log.segments[0].base_offset, log.log_end_offset, verify=True).aborted
            except (CorruptRecordError, UnsupportedFormatError) as error:
                path, message = error.path or log.path, f"a control batch has no valid marker: {error.args[0]}"
                yield self._finding("batch-records", path, message, position=error.position)
                return
        for segment in log.segments:
            path = segment.path_of(TXNINDEX)
            end = segment.end_offset(log.log_end_offset)
            expected = {one for one in aborted if segment.base_offset <= one[2] < end}
            try:
                index = transaction_index(segment)
                if index is not None:
                    index.sanity_check()
            except (CorruptRecordError, UnsupportedFormatError) as error:
                code = "transaction-version" if isinstance(error, UnsupportedFormatError) else "transaction-index"
                yield self._finding(code, path, str(error.args[0]), position=error.position)
                continue
            entries = [] if index is None else index.entries().to_pylist()
            if any(one["version"] for one in entries):
                yield self._finding("transaction-version", path, "the version of an entry is not 0")
                continue
            stored = {(one["producer_id"], one["first_offset"], one["last_offset"]) for one in entries}
            # Only the index knows transactions that began before the first segment.
            missing = {one for one in expected - stored if one[1] >= log.segments[0].base_offset}
            extra = {one for one in stored - expected if one[1] >= log.segments[0].base_offset}
            for (producer, first, last), what in chain(
                ((one, "is aborted, but is not in the file") for one in sorted(missing)),
                ((one, "is in the file, but no marker in the segment aborts it") for one in sorted(extra)),
            ):
                message = f"the transaction of producer {producer} from offset {first} to {last} {what}"
                yield self._finding("transaction-index", path, message, start_offset=first, end_offset=last + 1)
                break
            else:
                yield from self._stable_offsets(path, entries, aborted)

    def _stable_offsets(
        self, path: str, entries: Iterable[dict[str, int]], aborted: Iterable[Aborted]
    ) -> Iterator[Finding]:
        """Yield a finding for the first entry that may end a search too early, or is below the previous entry.

        A broker stops its search at an entry whose last stable offset is beyond the records that a fetch returns
        (TransactionIndex).
        """
        starting = deque(sorted((first, end) for _, first, end in aborted))
        open_ones: list[tuple[int, int]] = []
        before = -1
        for one in entries:
            last, stored = one["last_offset"], one["last_stable_offset"]
            while starting and starting[0][0] < last:
                heappush(open_ones, starting.popleft())
            while open_ones and open_ones[0][1] <= last:
                heappop(open_ones)
            # A follower may have appended the start of the next transaction in the same fetch (UnifiedLog.append).
            following = starting[0][0] if starting else self._log.log_end_offset
            highest = open_ones[0][0] if open_ones else following
            if stored > highest or last <= before:
                message = f"the last stable offset after offset {last} is {stored}, but it cannot be above {highest}"
                if last <= before:
                    message = (
                        f"the entry of the transaction that ends at offset {last} follows the entry of one that ends "
                        f"at {before}"
                    )
                yield self._finding(
                    "transaction-index", path, message, start_offset=one["first_offset"], end_offset=last + 1
                )
                return
            before = last


def unreadable(error: OSError, log: Log) -> Finding:
    """Return the finding for a file or a directory of a log that cannot be read."""
    path = log.path if error.filename is None else os.fsdecode(error.filename)
    message = f"it cannot be read: {error.strerror or error}"
    return Finding(code="file-unreadable", topic=log.topic, partition=log.partition, path=path, message=message)


def _with_unread(found: Finding, unreadable: Sequence[tuple[int, int]]) -> Finding:
    """Return a finding. A damaged batch with bytes that the disk cannot read becomes a finding of the disk."""
    position, end = found.position, found.next_position
    if found.kind.subject == "batch" and found.path.endswith(".log") and position is not None:
        for start, stop in unreadable:
            if start < (NO_END if end is None else end) and position < stop:
                return replace(found, code=_UNREAD, message=_unread_in_words(start, stop))
    return found


def _unread_in_words(start: int, end: int) -> str:
    return f"the disk cannot read bytes {start} to {end - 1}; {IMAGE_FIRST}"


def _largest(segment: Segment) -> int:
    """Return the largest timestamp of a segment's data. Ignore markers, because brokers give them their timestamp."""
    largest = -1
    for batches in segment.scan():
        columns = zip(batches["is_control"].to_pylist(), batches["max_timestamp"].to_pylist(), strict=True)
        largest = max([largest, *(time or -1 for is_control, time in columns if not is_control)])
    return largest


def _time_of(log: Log, offset: int) -> int | None:
    """Return the largest timestamp of the batch that contains an offset; None if no segment has the offset."""
    for segment in log.segments:
        if segment.base_offset <= offset < segment.end_offset(log.log_end_offset):
            with segment.open() as file:
                batch = segment.batch_of(file, offset)
            return None if batch is None else int(batch["max_timestamp"])
    return None


class _Snapshots:
    """A comparison of a log's producer snapshots with its producers, which are replayed segment by segment."""

    def __init__(self, log: Log) -> None:
        self._log = log
        end = log.log_end_offset
        self._left = [] if log.files.is_file else [offset for offset in log.snapshots if offset <= end]
        # A broker writes a snapshot when it closes a log. A broker that finds none after a clean shutdown reads no
        # batches (UnifiedLog.rebuildProducerState).
        self._is_missing = not (log.files.is_file or log.snapshots) and log.root.is_clean and not log.root.is_locked
        self._state: _native.Producers | None = _native.Producers()
        if not log.segments or (log.segments[0].base_offset > 0 and not self._is_missing):
            self._state = None
        self._found: list[Finding] = []

    def before(self, segment: Segment) -> SegmentReplay:
        """Compare the snapshots that lie before the end of a segment, and return the replay of the segment."""
        end = segment.end_offset(self._log.log_end_offset)
        while self._left and self._left[0] < end:
            self._compare(self._left.pop(0), segment)
        return SegmentReplay(self._state if self._left or self._is_missing else None)

    def after(self, segment: Segment, replay: SegmentReplay, *, has_producers: bool) -> None:
        """Add the producers of a segment."""
        if self._left or self._is_missing:
            is_done = replay.is_done or not has_producers
            self._state = replay.producers if is_done else _replayed(replay.producers, segment)

    def finish(self) -> list[Finding]:
        """Return the findings, after all segments have been added."""
        for offset in self._left:
            self._compare(offset, None)
        producers = [] if self._state is None or not self._is_missing else self._state.entries().to_pylist()
        if producers:
            path = self._log.files.snapshot_path(self._log.log_end_offset)
            count = f"{counted(len(producers), 'producer')}"
            message = f"the file is missing, and the log has {count}"
            self._add("snapshot-incomplete", path, message)
        return self._found

    def _compare(self, offset: int, segment: Segment | None) -> None:
        """Compare a snapshot with the producers before a segment, or in the whole log if `segment` is None."""
        path = self._log.files.snapshot_path(offset)
        try:
            with located(path):
                content = storage.read_all(path)
                stored = _native.Producers.from_snapshot(content, now=0, producer_id_expiration_ms=_FOR_EVER)
        except CorruptRecordError as error:
            self._add("snapshot-damaged", path, str(error.args[0]), error.position)
            return
        except PermissionError as error:
            self._found.append(unreadable(error, self._log))
            return
        is_at_boundary = segment is None or segment.base_offset >= offset
        # Compare the bytes first, because most snapshots equal the ones that brokerless would write.
        if self._state is not None and is_at_boundary and self._state.to_snapshot() != content:
            lacking, difference = self._lacking(stored, self._state), _difference(stored, self._state)
            if lacking:
                self._add("snapshot-incomplete", path, lacking)
            elif difference:
                self._add("snapshot-differs", path, difference)
            if lacking or difference:
                return
        self._state = stored if is_at_boundary else None

    def _lacking(self, stored: _native.Producers, computed: _native.Producers) -> str:
        """Describe the first open transaction that a snapshot lacks; "" if none. Brokers never expire these."""
        known = {row["producer_id"] for row in stored.entries().to_pylist()}
        for row in computed.entries().to_pylist():
            first = row["current_txn_first_offset"]
            if row["producer_id"] not in known and first >= self._log.log_start_offset:
                return (
                    f"the snapshot lacks producer {row['producer_id']}, whose transaction is open from offset {first} "
                    "on"
                )
        return ""

    def _add(self, code: str, path: str, message: str, position: int | None = None) -> None:
        log = self._log
        self._found.append(
            Finding(code=code, topic=log.topic, partition=log.partition, path=path, message=message, position=position)
        )


def _replayed(state: _native.Producers | None, segment: Segment) -> _native.Producers | None:
    if state is None:
        return None
    walk = _native.ProducerReplay(state, segment.base_offset)
    with segment.open() as file:
        feed(walk, file, end=segment.extent(file).end_position)
    return None if walk.ended == "failed" else state


def _difference(stored: _native.Producers, computed: _native.Producers) -> str:
    """Describe the first producer of a snapshot that differs; "" if none differs.

    Producers that are missing in the snapshot are ignored, because a broker forgets idle producers.
    """
    known = {row["producer_id"]: row for row in computed.entries().to_pylist()}
    for row in stored.entries().to_pylist():
        expected = known.get(row["producer_id"])
        if expected is None:
            return f"the snapshot has producer {row['producer_id']}, but the log has no batch of this producer"
        for name in _PRODUCER_COLUMNS:
            # A producer that returns after a broker forgot it has no coordinator epoch yet, and no sequence number
            # after only a marker.
            is_forgotten = name in ("coordinator_epoch", "last_sequence") and row[name] == -1
            if row[name] != expected[name] and not is_forgotten:
                producer = row["producer_id"]
                return (
                    f"the snapshot has {name} {row[name]} for producer {producer}, but it is {expected[name]} by the "
                    "batches before the snapshot"
                )
    return ""


def _is_cause(found: Finding, error: CorruptRecordError) -> bool:
    """Return whether a damaged batch is the cause of an error of `LogCheck._load_error`."""
    is_batch = found.kind.subject == "batch" and not found.kind.stops_broker and found.position is not None
    if not is_batch or error.position is None or os.path.basename(found.path) not in str(error.args[0]):
        return False
    start, end = found.position or 0, found.next_position
    return start <= error.position and (end is None or error.position < end)
