"""`Log`: one topic-partition at rest, read with a consumer's semantics."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.arguments import to_ms
from brokerless.errors import BrokerlessError, CorruptRecordError, UnsupportedFormatError, located
from brokerless.io import storage
from brokerless.io.file_window import batch_at
from brokerless.io.remote import is_remote
from brokerless.layout import checkpoints, commit_journal, file_names
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.layout.tiering import log_start_offset
from brokerless.log import offsets_for_times
from brokerless.log.damage import Defect, is_lost, survey
from brokerless.log.expected_records import LOST, agreed_end, promised_end
from brokerless.log.offset_range import bounds, check_word, stable_end, visible_end
from brokerless.log.reader import Reader
from brokerless.log.segment import NO_END, Extent, Segment, cut_batch, walk_headers, walk_whole_batches
from brokerless.log.split import Missing, Split, cut_short, make_splits
from brokerless.notes import collected, note

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from brokerless.arguments import Time
    from brokerless.layout.checkpoints import LeaderEpoch
    from brokerless.log.expected_records import Promise
    from brokerless.log.offset_range import EndOffset, IsolationLevel, StartOffset
    from brokerless.log.offsets_for_times import OffsetAndTimestamp
    from brokerless.log.split import OnCorrupt

_TARGET_BYTES = 128 << 20


class Log:
    """A partition directory, or one `.log` file of it.

    The parent of a partition directory counts as the broker's log directory. Its checkpoints give the log start offset
    and the high watermark. A `.log` file is read as part of its partition. Outside a partition directory, its topic
    and partition are None.

    A log caches directory listings and small files. Create a new one to see later changes.

    Args:
        path: the partition directory or the `.log` file.
        root: the log directory around it, to share its cached files between logs; None: the parent directory.

    Attributes:
        path: the path as given.
        is_file: whether `path` is a single file.
        topic: the topic; None if the directory name has none.
        partition: the partition number; None if the directory name has none.
        root: the log directory around the partition directory.

    Raises:
        FileNotFoundError: `path` does not exist.
        ValueError: the directory is not a partition directory, or the file is not a `.log` file.

    >>> log = Log(SAMPLE)
    >>> log.name, log.log_start_offset, log.log_end_offset
    ('preallocated-0', 0, 150)
    """

    def __init__(self, path: str | os.PathLike[str], *, root: LogDirFiles | None = None) -> None:
        self.path = os.fspath(path)
        given = storage.absolute(self.path)
        absolute, is_directory = commit_journal.resolve(commit_journal.active_path(given) if root is None else given)
        self.is_file = not is_directory
        self._directory, self._file_name = os.path.split(absolute) if self.is_file else (absolute, "")
        if self.is_file and not storage.exists(absolute):
            raise FileNotFoundError(f"no such file or directory: {self.path!r}")
        if self.is_file and not self._file_name.endswith(tuple(f".log{state}" for state in ("", *file_names.STATES))):
            raise ValueError(f"not a segment: {self.path!r} is not a .log file")
        self.topic: str | None = None
        self.partition: int | None = None
        leftover = ""
        try:
            self.topic, self.partition, leftover = file_names.parse_directory_name(os.path.basename(self._directory))
        except ValueError as error:
            if not self.is_file and not file_names.is_partition_directory(storage.list_directory(absolute)):
                is_around = LogDirFiles.is_root(storage.list_directory(absolute))
                cure = f"; it is a log directory: LogDirs({self.path!r}) reads all its topics" if is_around else ""
                raise ValueError(f"not a partition directory: {self.path!r} holds no segment{cure}") from error
        # The topic may have been created again. The checkpoints then describe the new partition of that name.
        self._is_former = leftover in ("delete", "stray")
        around = os.path.dirname(os.path.dirname(given) if self.is_file else given)
        if root is None and is_remote(around):
            # On an object store, whether a checkpoint exists is answered from the last listing. Renew it.
            with contextlib.suppress(OSError):
                storage.list_directory(around)
        self.root = root or LogDirFiles(around)

    def __repr__(self) -> str:
        # A directory's name is foreign data: without its quotes, `repr` escapes what a terminal would obey.
        return f"<{' '.join(['Log', repr(self.name)[1:-1], *self._summary()])}>"

    def _repr_html_(self) -> str:
        import html  # noqa: PLC0415 - slow to import at every start of the command

        rows = "".join(f"<li>{html.escape(fact)}</li>" for fact in self._summary())
        return f"<b>{html.escape(self.name)}</b><ul>{rows}<li><code>{html.escape(self.path)}</code></li></ul>"

    def _summary(self) -> list[str]:
        """Return the offsets, segments and bytes; an empty list if the log cannot be read."""
        # Of a second `Log`: what is looked up once is noted once, and a display must not use that up.
        with contextlib.suppress(OSError, BrokerlessError, ValueError), collected() as notes:
            log = Log(self.path, root=self.root)
            start, end = log.log_start_offset, log.log_end_offset
            count = len(log.segments)
            size = sum(segment.size for segment in log.segments)
            facts = [f"offsets [{start}, {end})", f"{count} segment{'s'[: count != 1]}", f"{size:,} bytes"]
            return [*facts, "with warnings"] if notes else facts
        return []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.read())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.read().__arrow_c_stream__(requested_schema)

    def to_table(
        self,
        start_offset: StartOffset | None = None,
        end_offset: EndOffset | None = None,
        *,
        start_timestamp: Time | None = None,
        end_timestamp: Time | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        on_corrupt: OnCorrupt = "raise",
        verify_transactions: bool = False,
        columns: Sequence[str] | None = None,
        check_crcs: bool = True,
        limit: int | None = None,
    ) -> pa.Table:
        """Read rows into one table in memory. The arguments are those of `read`.

        With `on_corrupt="skip"`, a warning names each lost range.

        Raises:
            CorruptRecordError: the log is damaged, and `on_corrupt` is "raise".

        >>> Log(SAMPLE).to_table(columns=["offset", "key"], limit=3).to_pydict()["offset"]
        [0, 1, 2]
        """
        reader = self.read(
            start_offset,
            end_offset,
            start_timestamp=start_timestamp,
            end_timestamp=end_timestamp,
            isolation_level=isolation_level,
            on_corrupt=on_corrupt,
            verify_transactions=verify_transactions,
            columns=columns,
            check_crcs=check_crcs,
            limit=limit,
        )
        return reader.read_all()

    @property
    def name(self) -> str:
        """`topic-partition`, as Kafka writes it; the path if the topic is not known."""
        return self.path if self.topic is None else f"{self.topic}-{self.partition}"

    @cached_property
    def topic_id(self) -> str | None:
        """The topic id from partition.metadata (22 characters of URL-safe base64); None if the file is absent."""
        content = self._small_file(checkpoints.PARTITION_METADATA)
        if content is None:
            return None
        with located(f"{self._directory}/{checkpoints.PARTITION_METADATA}"):
            return checkpoints.parse_partition_metadata(content).topic_id

    @cached_property
    def leader_epochs(self) -> list[LeaderEpoch]:
        """The entries of the leader-epoch-checkpoint; empty without that file, as for magic 0 and 1."""
        content = self._small_file(checkpoints.LEADER_EPOCHS)
        if content is None:
            return []
        with located(f"{self._directory}/{checkpoints.LEADER_EPOCHS}"):
            return checkpoints.parse_leader_epochs(content)

    @cached_property
    def segments(self) -> list[Segment]:
        """The segments that a read covers, in offset order."""
        kinds, swapped, _, lost = self._live
        bases = list(kinds)
        following = [*bases[1:], None]
        lost_behind = {bisect_left(bases, offset) - 1: offset for offset in reversed(lost)}
        segments = [
            Segment(self._directory, base, following[i], kinds[base], swapped.get(base, 0), lost=lost_behind.get(i))
            for i, base in enumerate(bases)
        ]
        if not self.is_file:
            if lost and not segments:
                first = file_names.segment_file(lost[0], file_names.LOG)
                note(f"{self.name} has indexes, and no .log of them: {first} is the first")
            return segments
        own = [segment for segment in segments if os.path.basename(segment.path) == self._file_name]
        if own and self.topic is not None:
            return own
        lone = self._lone_segment()
        # If the batches confirm the offset in the file name, its indexes are used, too.
        return own if own and own[0].base_offset == lone.base_offset else [lone]

    @cached_property
    def whole(self) -> Log:
        """The log of the whole partition; this log itself for a file that is not one of its directory's segments."""
        if not self.is_file or self.topic is None:
            return self
        whole = Log(self._directory, root=self.root)
        own = self.segments[0].path
        return whole if any(segment.path == own for segment in whole.segments) else self

    @property
    def snapshots(self) -> list[int]:
        """The offsets of the producer snapshots that Kafka would keep, ascending."""
        return self._live.snapshots

    def snapshot_path(self, offset: int) -> str:
        """Return the path of a producer snapshot."""
        return f"{self._directory}/{file_names.segment_file(offset, file_names.SNAPSHOT)}"

    @property
    def extent(self) -> Extent:
        """The end of the last segment: see `Segment.extent`. With damage there, the end of its last sound batch."""
        return self._end[0]

    @cached_property
    def _end(self) -> tuple[Extent, Missing | None]:
        """Return where the last segment ends, and the records lost to damage after its last sound batch."""
        if not self.segments:
            return Extent(0, 0), None
        segment = self.segments[-1]
        with segment.open() as file:
            extent = segment.extent(file, is_clean=self.root.is_clean, limit_offset=self.limit_offset)
            if extent.damage is None:
                return extent, None
            found = survey(
                file, segment.path, segment.base_offset, None, extent.end_position, limit_offset=self.limit_offset
            )
        last = found.parts[-1] if found.parts else None
        lost = None
        if isinstance(last, Defect) and last.end_offset is None:
            lost = Missing(last.path, found.next_offset, None, last.reason, last.position)
        return extent._replace(next_offset=found.next_offset), lost

    @property
    def damaged_end(self) -> Missing | None:
        """The records lost to damage after the last sound batch; None if the log ends with that batch."""
        return self._end[1]

    @property
    def lost_end(self) -> Missing | None:
        """The records certainly lost at the end: by damage, or since the log ends below where it was closed."""
        promise = self.promised_end
        if self.damaged_end is not None or promise is None or not promise.is_certain:
            return self.damaged_end
        path = self.segments[-1].path if self.segments else self._directory
        return Missing(path, self.log_end_offset, promise.offset, str(promise))

    @cached_property
    def limit_offset(self) -> int | None:
        """The log end offset according to other files, if the last batch contradicts them; else None.

        No checksum covers base offsets: a flipped bit in the last one moves the end of the log.
        """
        if self.is_file:
            return None if self.whole is self else self.whole.limit_offset
        agreed = agreed_end(self)
        if agreed is None or not self.segments:
            return None
        extent = self.segments[-1].extent(is_clean=True)
        if extent.damage is None and extent.next_offset <= agreed:
            return None
        # A broker may have started since some of the files were read: read all of them again.
        return agreed_end(Log(self._directory, root=type(self.root)(self.root.path)))

    @cached_property
    def log_start_offset(self) -> int:
        """The lowest offset of the log: the checkpointed one, or the first segment's base offset.

        It may lie inside a batch. It lies below the local segments if older ones were moved to remote storage.
        """
        checkpointed = self._of_partition(self.root.log_start_offsets)
        if not self.segments:
            return checkpointed or 0
        first = self.segments[0].base_offset
        # The segments before a single file lie beside it: they were not moved to remote storage.
        epochs: list[checkpoints.LeaderEpoch] = []
        if (checkpointed or 0) < first and not self.is_file:
            # A read works without epochs: the log then starts at its first local segment.
            with contextlib.suppress(CorruptRecordError):
                epochs = self.leader_epochs
        return log_start_offset(checkpointed, first, epochs)

    @property
    def local_log_start_offset(self) -> int:
        """The lowest offset that can be read from this directory."""
        return max(self.log_start_offset, self.segments[0].base_offset) if self.segments else self.log_start_offset

    @property
    def missing_offsets(self) -> tuple[int, int] | None:
        """The range [start, end) that belongs to the log but not to this directory: in remote storage, or deleted."""
        if self.log_start_offset < self.local_log_start_offset:
            return self.log_start_offset, self.local_log_start_offset
        return None

    @cached_property
    def log_end_offset(self) -> int:
        """The offset after the last batch; with damage at the end, the offset after the last batch before it."""
        is_below = self.extent.end_position > 0 and self.extent.next_offset < self.log_start_offset
        # No warning in three cases: a read reports damage; a running broker may delete records meanwhile; a single
        # file may well end below the log start offset.
        if is_below and not self.extent.damage and not self.is_file and not self.root.is_locked:
            note(
                f"{self.name} ends at {self.extent.next_offset}, below its start offset {self.log_start_offset} in "
                f"{self.root.path}/{checkpoints.LOG_START_OFFSETS}: a read returns no row, and a broker deletes all "
                "segments when it starts"
            )
        return max(self.log_start_offset, self.extent.next_offset)

    @property
    def high_watermark(self) -> int | None:
        """The last checkpointed high watermark; None if there is none. It may lie outside the present log."""
        return self._of_partition(self.root.high_watermarks)

    @property
    def recovery_point(self) -> int | None:
        """The last checkpointed recovery point: the first offset that may not be flushed. None if there is none."""
        return self._of_partition(self.root.recovery_points)

    @cached_property
    def promised_end(self) -> Promise | None:
        """The log end offset according to the directory's other files, if the log ends below it; else None.

        The files of a live broker are not compared, because they change one after the other.
        """
        if self.is_file:
            whole = self.whole
            is_end = whole is not self and self.segments[0].path == whole.segments[-1].path
            return whole.promised_end if is_end else None
        if promised_end(self) is None:
            return None
        # A broker may have written or stopped since some of the files were read: read all of them again.
        return promised_end(Log(self._directory, root=type(self.root)(self.root.path)))

    @cached_property
    def missing_before(self) -> Missing | None:
        """The records missing before the first segment, or from a log without segments, according to other files."""
        if self.is_file or self.root.is_locked:
            return None
        first = self.segments[0].base_offset if self.segments else None
        start = self._of_partition(self.root.log_start_offsets) or 0
        promise = self.promised_end
        end = promise.offset if first is None and promise is not None and promise.is_certain else first
        for base in self._live.lost:
            path = Segment(self._directory, base).path
            if (first is None or (base < first and start < first)) and is_lost(path):
                return Missing(path, base, end, LOST)
        return (
            None
            if first is not None or end is None
            else Missing(self._directory, self.log_end_offset, end, str(promise))
        )

    @property
    def missing(self) -> list[Missing]:
        """The records that should be in the directory according to its other files, but are not."""
        found = [] if self.missing_before is None else [self.missing_before]
        for segment in self.segments:
            found += self.missing_after(segment)
        return found

    def missing_after(self, segment: Segment) -> list[Missing]:
        """Return the records missing at the end of a segment and between it and the next one."""
        if segment.limit_offset <= self.log_start_offset:
            # Deleted records are not missing.
            return []
        found = []
        for missing in self.missing_behind(segment):
            if segment.lost == missing.start_offset:
                # A cleaner may have merged the lost segment with this one.
                walk = _native.HeaderWalk()
                with segment.open() as file, contextlib.suppress(CorruptRecordError, UnsupportedFormatError):
                    walk_headers(segment, walk, file, 0, file.size())
                if (walk.next_offset or 0) > missing.start_offset:
                    continue
            found.append(missing)
        return [*found, *self._cut_short(segment)]

    def _cut_short(self, segment: Segment) -> Iterator[Missing]:
        """Yield the records that an older segment's index knows after the file's end. A read checks that on its own."""
        # On an object store, this check costs a request for each segment.
        if not self.trusts_index(segment) or is_remote(segment.path):
            return
        if segment.entry_behind(0, segment.size) is None:
            return
        walk = _native.HeaderWalk()
        with segment.open() as file, contextlib.suppress(CorruptRecordError, UnsupportedFormatError):
            size = file.size()
            walk_headers(segment, walk, file, 0, size)
            if walk.end_position == size:
                yield from cut_short(segment, walk.next_offset, size)

    def trusts_index(self, segment: Segment) -> bool:
        """Return whether a segment's index certainly belongs to its `.log`.

        A cleaner replaces both. A copy of a running broker's files may combine an old index with a new `.log`.
        """
        if self.root.is_locked:
            return False
        return self.root.is_clean or segment.base_offset >= (self._of_partition(self.root.first_dirty_offsets) or 0)

    def contradictions(self) -> list[str]:
        """Return a message for each range of records that the log lacks, or may lack, according to other files."""
        found = [f"{missing.path}: {missing.reason}" for missing in self.missing]
        promise = self.promised_end
        return found if promise is None or promise.is_certain else [*found, str(promise)]

    def missing_behind(self, segment: Segment) -> tuple[Missing, ...]:
        """Return the records missing between a segment and the next one, according to the directory's other files."""
        found = []
        promise = self.promised_end if segment.is_last else None
        certain = promise if promise is not None and promise.is_certain else None
        is_deleted = segment.limit_offset <= self.log_start_offset
        if segment.lost is not None and not self.root.is_locked and not is_deleted:
            path = Segment(self._directory, segment.lost).path
            if is_lost(path):
                end = segment.next_base_offset if certain is None else certain.offset
                found.append(Missing(path, segment.lost, end, LOST))
        # If the newest segment is gone, its indexes and the promised end report the same records.
        if certain is not None and not (found and segment.lost == self.log_end_offset):
            found.append(Missing(segment.path, self.log_end_offset, certain.offset, str(certain)))
        return tuple(found)

    @cached_property
    def last_stable_offset(self) -> int:
        """The end of a `read_committed` read: where the first open transaction starts, as if all were replicated."""
        return stable_end(self, "latest")

    def plan(
        self,
        start_offset: StartOffset | None = None,
        end_offset: EndOffset | None = None,
        *,
        start_timestamp: Time | None = None,
        end_timestamp: Time | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        target_bytes: int | None = _TARGET_BYTES,
        on_corrupt: OnCorrupt = "raise",
        verify_transactions: bool = False,
    ) -> list[Split]:
        """Divide a read into splits, which can be read anywhere and in any order: see `read_split`.

        Planning reads file names, small files and some batch headers. The headers are those at the end of the active
        segment and, for times and transactions, those that no index can replace. Planning reads records only to look
        up a time, and then only those of one batch.

        Args:
            start_offset: the first offset to read. The default, "earliest", is the lowest offset in this directory;
                "latest" is the end of the visible log.
            end_offset: the offset to stop before. "latest" is the log end offset, "high-watermark" the checkpointed
                high watermark. The default is "high-watermark" while a live broker holds the directory's lock and
                has checkpointed one, because records above it may still be truncated. Otherwise it is "latest".
            start_timestamp: start at the first record with this time or a later one, by the broker's look-up (ms
                since 1970, a datetime or ISO 8601 text; UTC by default); at the log end if there is none. The read
                includes damage directly before that record, because it may hide records of that time.
            end_timestamp: stop before the first record with this time or a later one; at the log end if there is
                none. If offsets are given, too, the narrower range counts.
            isolation_level: "read_uncommitted", or "read_committed" to skip aborted transactions and stop at the
                last stable offset.
            target_bytes: the approximate number of file bytes in a split; None: whole files.
            on_corrupt: "raise", or "skip" to leave out damaged batches and report them in `Reader.lost`. With "skip",
                splits are whole files, and each file is read twice: first to find all sound batches.
            verify_transactions: walk the markers from the first segment and ignore the producer snapshots.

        Raises:
            OffsetOutOfRangeError: `start_offset` is below the lowest local offset or above the log end offset.
            CorruptRecordError: damage or missing records may hide the record that a time looks for. With "skip", they
                are passed over, and reported if they lie directly before that record.
            ValueError: an unknown word, a negative time, `target_bytes` below 1, or "high-watermark" without a
                checkpointed high watermark.

        >>> [(split.start_offset, split.position) for split in Log(SAMPLE).plan(120)]
        [(120, 1941)]
        """
        check_word("on_corrupt", on_corrupt, ("raise", "skip"))
        if target_bytes is not None and target_bytes < 1:
            raise ValueError(f"target_bytes {target_bytes}: expected 1 or more")
        found = bounds(
            self,
            start_offset,
            end_offset,
            start_timestamp=start_timestamp,
            end_timestamp=end_timestamp,
            isolation_level=isolation_level,
            verify_transactions=verify_transactions,
            skips=on_corrupt == "skip",
        )
        if found.is_to_end and self.promised_end and not self.promised_end.is_certain:
            note(str(self.promised_end))
        splits = make_splits(
            found.stretches(self),
            topic=self.topic,
            partition=self.partition,
            start_offset=found.start_offset,
            aborted=found.aborted,
            target_bytes=target_bytes,
            on_corrupt=on_corrupt,
        )
        # The look-up of a time checks for missing records on its own.
        is_from_start = start_offset in (None, "earliest") and start_timestamp is None
        first = self.missing_before
        is_met = first is not None and (is_from_start or found.start_offset <= first.start_offset)
        missing = [first] if first is not None and is_met and first.start_offset < found.limit else []
        # A read reaches a transaction in doubt after the rows before it: it fails there or, with "skip", reports it.
        doubtful = [
            Missing(doubt.path, doubt.first_offset, doubt.end_offset, doubt.reason, doubt.position)
            for doubt in sorted(found.doubts, key=lambda doubt: doubt.first_offset)
        ]

        def absent(missing: Missing, start: int) -> Split:
            return Split(
                path=missing.path,
                topic=self.topic,
                partition=self.partition,
                base_offset=start,
                position=0,
                end_position=0,
                start_offset=start,
                end_offset=found.limit if on_corrupt == "skip" else NO_END,
                on_corrupt=on_corrupt,
                missing=(missing,),
            )

        before = [absent(records, records.start_offset) for records in missing]
        return [*before, *splits, *(absent(records, found.start_offset) for records in doubtful)]

    def read(
        self,
        start_offset: StartOffset | None = None,
        end_offset: EndOffset | None = None,
        *,
        start_timestamp: Time | None = None,
        end_timestamp: Time | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        on_corrupt: OnCorrupt = "raise",
        verify_transactions: bool = False,
        columns: Sequence[str] | None = None,
        check_crcs: bool = True,
        limit: int | None = None,
    ) -> Reader:
        """Read rows in offset order.

        Args:
            start_offset: see `plan`.
            end_offset: see `plan`.
            start_timestamp: see `plan`.
            end_timestamp: see `plan`.
            isolation_level: see `plan`.
            on_corrupt: see `plan`.
            verify_transactions: see `plan`.
            columns: see `read_split`.
            check_crcs: see `read_split`.
            limit: stop after this many rows.

        Returns:
            An iterator of `pyarrow.RecordBatch`, each of about 65,536 rows or 2 MB.

        Raises:
            CorruptRecordError: raised at the damage, after all rows before it were returned.

        >>> log = Log(SAMPLE)
        >>> sum(rows.num_rows for rows in log.read(start_offset=100, columns=["offset", "value"]))
        50
        """
        with collected(hands_on=True) as notes:
            splits = self.plan(
                start_offset,
                end_offset,
                start_timestamp=start_timestamp,
                end_timestamp=end_timestamp,
                isolation_level=isolation_level,
                target_bytes=None,
                on_corrupt=on_corrupt,
                verify_transactions=verify_transactions,
            )
        reader = Reader(splits, columns, check_crcs=check_crcs, limit=limit)
        reader.notes += notes
        return reader

    def scan(self, *, check_crcs: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the headers of all batches as Arrow, segment after segment, one row for each batch.

        The columns are `position size base_offset last_offset batch_length partition_leader_epoch magic crc attributes
        compression timestamp_type is_transactional is_control delete_horizon_ms last_offset_delta base_timestamp
        max_timestamp producer_id producer_epoch base_sequence last_sequence records_count`. Values are those of Kafka's
        accessors: a v0 or v1 entry has no producer (-1) and no records_count (null).

        Batches below the log start offset are included. `position` counts from the start of each segment's file. To
        scan one segment, call `scan` on an element of `segments`.

        Args:
            check_crcs: verify checksums and add the result as a column `is_valid`.

        Raises:
            CorruptRecordError: the framing is broken, or the last batch of an older segment is cut.

        >>> headers = next(Log(SAMPLE).scan())
        >>> headers["base_offset"][0].as_py(), headers["compression"][0].as_py()
        (0, 'none')
        """
        for segment in self.segments:
            yield from segment.scan(check_crcs=check_crcs)

    def offsets_for_times(
        self, timestamp: Time, isolation_level: IsolationLevel = "read_uncommitted"
    ) -> OffsetAndTimestamp:
        """Return the offset for a time, as a broker does (ListOffsets). Remote segments are not searched.

        Args:
            timestamp: ms since 1970, a datetime or ISO 8601 text; or one of Kafka's numbers: -1 latest, -2 earliest,
                -3 largest timestamp, -4 earliest local, -5 latest in remote storage (answered as the offset below the
                first local one), -6 earliest pending upload (none if the log has no remote segments).
            isolation_level: with "read_committed", only offsets below the last stable offset are answers.

        Returns:
            `(offset, timestamp, leader_epoch)`. The offset is -1 if there is no answer. The timestamp is -1 except
            for times and for -3. The epoch of "latest" is the last one known, or 0 if the log has none (magic 0 and 1).

        Raises:
            CorruptRecordError: damage or missing records directly before the answer, or at the log's end without one.
            ValueError: another negative number, or -6 for a log with remote segments.

        >>> Log(SAMPLE).offsets_for_times(-1).offset
        150
        """
        check_word("isolation_level", isolation_level, ("read_uncommitted", "read_committed"))
        end = stable_end(self) if isolation_level == "read_committed" else visible_end(self)
        return offsets_for_times.answer(self, to_ms("timestamp", timestamp), end)

    def _of_partition(self, checkpoint: dict[tuple[str, int], int]) -> int | None:
        if self.topic is None or self.partition is None or self._is_former:
            return None
        return checkpoint.get((self.topic, self.partition))

    def _small_file(self, name: str) -> bytes | None:
        try:
            return commit_journal.in_force(self._directory, lambda directory: storage.read_all(f"{directory}/{name}"))
        except FileNotFoundError:
            return None

    @cached_property
    def _live(self) -> file_names.LiveFiles:
        names = commit_journal.in_force(self._directory, storage.list_directory)
        if self.topic is None and self.is_file:
            # Other files beside a single file may belong to other partitions.
            own = self._file_name.partition(".")[0] + "."
            names = [name for name in names if name.startswith(own)]

        def next_offset_of(name: str) -> int:
            return Segment(self._directory, file_names.base_offset(name), name=name).extent().next_offset

        return file_names.live_files(names, next_offset_of)

    def _lone_segment(self) -> Segment:
        """Return the segment of a single file. A base offset in its name must not hide rows that it holds."""
        named = file_names.live_base_offset(self._file_name)
        with storage.File(f"{self._directory}/{self._file_name}") as file:
            first = batch_at(file, 0)
        begins = None if first is None else first["base_offset"]
        known = [offset for offset in (named, begins) if offset is not None]
        return Segment(self._directory, max(0, min(known, default=0)), name=self._file_name)


def header_walk(log: Log) -> _native.HeaderWalk:
    """Walk all batch headers and return their summary: formats, codecs, times, transactions.

    Raises:
        CorruptRecordError: the framing is broken, or the last batch of an older segment is cut.
    """
    walk = _native.HeaderWalk()
    for segment in log.segments:
        with segment.open() as file:
            end = log.extent.end_position if segment.is_last else file.size()
            walk_whole_batches(segment, walk, file, 0, end)
        if segment.is_last and log.extent.damage and walk.end_position < end:
            with located(segment.path):
                raise cut_batch(walk.end_position, end)
        walk.start_file()
    return walk
