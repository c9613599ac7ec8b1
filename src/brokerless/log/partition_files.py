"""The files of one partition, and where its log starts and ends according to them.

The segments, the checkpoints, the producer snapshots and the indexes each give an end of the log. Names of these ends:

| name | meaning |
|---|---|
| `extent` | the end of the last segment: offset and byte position after its last sound batch |
| `log_end_offset` | the offset of `extent`, at least the log start offset |
| `damage_at_end` | the records lost to damage after the last sound batch |
| `expected_end` | the highest end offset in other files, if the log ends below it |
| `lost_at_end` | the records certainly lost: `damage_at_end`, or up to an `expected_end` that is certain |
| `corroborated_end` | the end offset on which the recovery point and the newest snapshot agree after a clean shutdown |
| `lone_claim` | the last batch, if offsets are missing before it and no other file confirms its own offsets |
| `exceeded_end` | the end of the log, if the last batch reaches beyond it: its base offset was changed |

For the reliability of the other files after a clean shutdown and after a crash, see expected_end.py.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.errors import BrokerlessError, CorruptRecordError, UnsupportedFormatError, located
from brokerless.io import storage
from brokerless.io.file_window import batch_at
from brokerless.io.remote import is_remote
from brokerless.layout import checkpoints, commit_journal, file_names, lost_offsets
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.layout.tiering import log_start_offset
from brokerless.log.defect import Defect
from brokerless.log.expected_end import LOST, EndEvidence
from brokerless.log.segment import Extent, Segment, cut_batch, walk_headers, walk_whole_batches
from brokerless.log.survey import cut_short, is_lost, survey
from brokerless.notes import note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerless.layout.checkpoints import LeaderEpoch
    from brokerless.log.expected_end import ExpectedEnd, LoneClaim


class PartitionFiles:
    """The files of a partition directory, or of one `.log` file. For the arguments and errors see `Log`.

    Directory listings and small files are cached. Properties that `Log` also has are documented there.

    Attributes:
        path: the path as given.
        is_file: whether `path` is a single file.
        topic: the topic; None if the directory name has none.
        partition: the partition number; None if the directory name has none.
        root: the log directory that holds the partition directory.
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
        # If the topic was deleted and created again, the checkpoints describe the new partition of that name.
        self._is_former = leftover in ("delete", "stray") or (
            # A `-future` beside the partition itself: no broker leaves a replica that it moves here in that state.
            leftover == "future" and storage.is_directory(f"{os.path.dirname(absolute)}/{self.topic}-{self.partition}")
        )
        around = os.path.dirname(os.path.dirname(given) if self.is_file else given)
        if root is None and is_remote(around):
            # On an object store, the last listing answers whether a checkpoint exists. Renew that listing.
            with contextlib.suppress(OSError):
                storage.list_directory(around)
        self.root = root or LogDirFiles(around)

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
        """The entries of the leader-epoch-checkpoint; empty if the file is absent. Logs of magic 0 and 1 have none."""
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
                note(f"{self.name} has indexes, but the .log files of these are missing, from {first} on")
            return segments
        own = [segment for segment in segments if os.path.basename(segment.path) == self._file_name]
        if own and self.topic is not None:
            return own
        lone = self._lone_segment()
        # If the batches confirm the offset in the file name, its indexes are used, too.
        return own if own and own[0].base_offset == lone.base_offset else [lone]

    @cached_property
    def whole(self) -> PartitionFiles:
        """The files of the whole partition; this object for a file that is not one of its directory's segments."""
        if not self.is_file or self.topic is None:
            return self
        whole = PartitionFiles(self._directory, root=self.root)
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
        """The end of the last segment; with damage there, the end of its last sound batch. See `Segment.extent`."""
        return self._survey_of_end[0]

    @cached_property
    def _unlimited_extent(self) -> Extent:
        """The end of the last segment according to its batches alone: no other file limits their offsets."""
        return self.segments[-1].extent(is_clean=self.root.is_clean)

    @cached_property
    def _survey_of_end(self) -> tuple[Extent, Defect | None]:
        """Return where the last segment ends, and the records lost to damage after its last sound batch."""
        if not self.segments:
            return Extent(0, 0), None
        segment = self.segments[-1]
        if self.exceeded_end is None and self._unlimited_extent.damage is None:
            return self._unlimited_extent, None
        with segment.open() as file:
            extent = segment.extent(file, is_clean=self.root.is_clean, limit_offset=self.exceeded_end)
            if extent.damage is None:
                return extent, None
            found = survey(
                file, segment.path, segment.base_offset, None, extent.end_position, limit_offset=self.exceeded_end
            )
        last = found.parts[-1] if found.parts else None
        lost = None
        if isinstance(last, Defect) and last.end_offset is None:
            lost = last._replace(start_offset=found.next_offset)
        return extent._replace(next_offset=found.next_offset), lost

    @property
    def damage_at_end(self) -> Defect | None:
        """The records lost to damage after the last sound batch; None if the log ends with that batch."""
        return self._survey_of_end[1]

    @property
    def lost_at_end(self) -> Defect | None:
        """The records certainly lost at the end: by damage, or because the log ends below its end at shutdown."""
        expected = self.expected_end
        if self.damage_at_end is not None or expected is None or not expected.is_certain:
            return self.damage_at_end
        path = self.segments[-1].path if self.segments else self._directory
        return Defect(path, 0, self.log_end_offset, expected.offset, str(expected), "records-missing")

    @property
    def corroborated_end(self) -> int | None:
        """The log end offset on which the other files of a log at rest agree: see `EndEvidence.corroborated_end`."""
        return None if not self.root.is_clean or self.root.is_locked else self._agreed_end

    @property
    def _agreed_end(self) -> int | None:
        """`corroborated_end`, even if a broker has changed some of the files meanwhile."""
        if not self.root.is_clean:
            return None
        return EndEvidence(self.recovery_point, self.high_watermark, self.snapshots, ()).corroborated_end

    @cached_property
    def lone_claim(self) -> LoneClaim | None:
        """The last batch if offsets are missing before it and no other file confirms its own offsets."""
        recorded: list[tuple[int, int]] = []
        with contextlib.suppress(CorruptRecordError, OSError):
            recorded = lost_offsets.recorded(self._directory)
        with contextlib.suppress(BrokerlessError, OSError):
            if self.segments:
                return self.evidence.lone_claim(*self.segments[-1].last_batch(), recorded)
        return None

    @property
    def evidence(self) -> EndEvidence:
        """The end offsets of the log according to its other files."""
        starts: list[int] = []
        # A read works without epochs.
        with contextlib.suppress(CorruptRecordError, OSError):
            starts = [epoch.start_offset for epoch in self.leader_epochs]
        return EndEvidence(self.recovery_point, self.high_watermark, self.snapshots, starts)

    @property
    def _ends_before_last_batch(self) -> bool:
        """True if other files give an end before the last batch of the last segment, and none at its end or above."""
        next_offset, _, damage, last_batch = self._unlimited_extent
        if damage is not None or last_batch is None:
            return False
        # A batch of any format begins with its base offset.
        base, known = int.from_bytes(last_batch[1][:8], "big"), self.evidence.known
        return max(known) < next_offset and any(self.segments[-1].base_offset < end < base for end in known)

    @cached_property
    def exceeded_end(self) -> int | None:
        """The end of a log at rest, if the last batch reaches beyond that end; else None.

        No checksum covers base offsets, so a flipped bit in the last one moves the end of the log. The true end is
        `corroborated_end`. If that is None, another file may give an end inside the gap before the last batch. Such an
        end proves that the batch was moved, because no log ends inside a gap.
        """
        if self.is_file:
            return None if self.whole is self else self.whole.exceeded_end
        if not self.segments:
            return None
        # Most logs end at the agreed end, so that nobody needs to know whether a broker runs.
        agreed, extent = self._agreed_end, self._unlimited_extent
        if agreed is not None and extent.damage is None and extent.next_offset <= agreed:
            return None
        if self.root.is_locked:
            return None
        if agreed is None:
            # On an object store, a look at the batch before the last one costs requests for each log.
            is_possible = self._ends_before_last_batch and not is_remote(self._directory)
            return self.lone_claim.expected_end if is_possible and self.lone_claim is not None else None
        # A broker may have started since some of the files were read: read all of them again.
        return self._read_again().corroborated_end

    @cached_property
    def log_start_offset(self) -> int:
        """The lowest offset of the log: the checkpointed one, or the first segment's base offset.

        This offset may lie inside a batch. It is below the local segments if older segments were moved to remote
        storage.
        """
        checkpointed = self._of_partition(self.root.log_start_offsets)
        if not self.segments:
            return checkpointed or 0
        first = self.segments[0].base_offset
        # The segments before a single file lie beside it: they were not moved to remote storage.
        epochs: list[checkpoints.LeaderEpoch] = []
        if (checkpointed or 0) < first and not self.is_file:
            # A read works without epochs: the log then starts at its first local segment.
            with contextlib.suppress(CorruptRecordError, OSError):
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

    @property
    def missing_in_words(self) -> str | None:
        """The note on `missing_offsets`; None without any."""
        if self.missing_offsets is None:
            return None
        first, end = self.missing_offsets
        return f"{self.name} has no offsets {first} to {end - 1} here: they are in remote storage, or were deleted"

    @cached_property
    def log_end_offset(self) -> int:
        """The offset after the last batch; if the end of the log is damaged, after the last batch before the damage."""
        is_below = self.extent.end_position > 0 and self.extent.next_offset < self.log_start_offset
        # No warning in three cases: a read reports damage itself; a running broker may delete records meanwhile; a
        # single file may end below the log start offset.
        if is_below and not self.extent.damage and not self.is_file and not self.root.is_locked:
            note(
                f"{self.name} ends at {self.extent.next_offset}, below its start offset {self.log_start_offset} in "
                f"{self.root.path}/{checkpoints.LOG_START_OFFSETS}: a read returns no row, and a broker deletes all "
                "segments when it starts"
            )
        return max(self.log_start_offset, self.extent.next_offset)

    @property
    def high_watermark(self) -> int | None:
        """The last checkpointed high watermark, or None. This offset may lie outside the log's current offsets."""
        return self._of_partition(self.root.high_watermarks)

    @property
    def recovery_point(self) -> int | None:
        """The last checkpointed recovery point (the first offset that may not have been flushed), or None."""
        return self._of_partition(self.root.recovery_points)

    @cached_property
    def expected_end(self) -> ExpectedEnd | None:
        """The log end offset according to the directory's other files, if the log ends below it; else None.

        The files of a live broker are not compared, because they change one after the other.
        """
        if self.is_file:
            whole = self.whole
            is_end = whole is not self and self.segments[0].path == whole.segments[-1].path
            return whole.expected_end if is_end else None
        if self._claimed_end is None or self.root.is_locked:
            return None
        # A broker may have written or stopped since some of the files were read: read all of them again. A broker that
        # stops writes the checkpoints before it releases the lock.
        again = self._read_again()
        return None if again.root.is_locked else again._claimed_end  # noqa: SLF001 - its own

    @property
    def _claimed_end(self) -> ExpectedEnd | None:
        """`expected_end`, even if a broker has changed some of the files meanwhile."""
        return self.evidence.above(self.log_end_offset, name=self.name, is_clean=self.root.is_clean)

    def _read_again(self) -> PartitionFiles:
        return PartitionFiles(self._directory, root=type(self.root)(self.root.path))

    @cached_property
    def lost_before(self) -> Defect | None:
        """The records missing before the first segment, or from a log without segments, according to other files."""
        if self.is_file or self.root.is_locked:
            return None
        first = self.segments[0].base_offset if self.segments else None
        start = self._of_partition(self.root.log_start_offsets) or 0
        expected = self.expected_end
        end = expected.offset if first is None and expected is not None and expected.is_certain else first
        for base in self._live.lost:
            path = Segment(self._directory, base).path
            if (first is None or (base < first and start < first)) and is_lost(path):
                return Defect(path, 0, base, end, LOST, "segment-missing")
        return (
            None
            if first is not None or end is None
            else Defect(self._directory, 0, self.log_end_offset, end, str(expected), "records-missing")
        )

    @property
    def missing(self) -> list[Defect]:
        """The ranges of records that the directory lacks, although its other files refer to them."""
        found = [] if self.lost_before is None else [self.lost_before]
        for segment in self.segments:
            found += self.lost_after(segment)
        return found

    def lost_after(self, segment: Segment) -> list[Defect]:
        """Return the records missing at the end of a segment, and between this segment and the next one."""
        if segment.limit_offset <= self.log_start_offset:
            # Deleted records are not missing.
            return []
        found = []
        for missing in self.claimed_lost_after(segment):
            if segment.lost == missing.start_offset:
                # A cleaner may have merged the lost segment with this one.
                walk = _native.HeaderWalk()
                with segment.open() as file, contextlib.suppress(CorruptRecordError, UnsupportedFormatError):
                    walk_headers(segment, walk, file, 0, file.size())
                if (walk.next_offset or 0) > missing.start_offset:
                    continue
            found.append(missing)
        return [*found, *self._cut_short(segment)]

    def _cut_short(self, segment: Segment) -> Iterator[Defect]:
        """Yield the records missing at the end of an older segment's `.log`, according to its index."""
        # On an object store, this check costs a request for each segment.
        if is_remote(segment.path):
            return
        try:
            is_behind = segment.entry_behind(0, segment.size) is not None
        except FileNotFoundError:
            # A running broker deletes segments.
            is_behind = True
        if not is_behind or not self.trusts_index(segment):
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
        """Return a message for each range of records that the log lacks, or may lack, according to its other files."""
        found = [f"{missing.path}: {missing.reason}" for missing in self.missing]
        expected = self.expected_end
        return found if expected is None or expected.is_certain else [*found, str(expected)]

    def claimed_lost_after(self, segment: Segment) -> tuple[Defect, ...]:
        """Return the records missing between a segment and the next one, according to the directory's other files.

        The segment itself may hold these records. A read and `lost_after` find out whether it does.
        """
        found = []
        expected = self.expected_end if segment.is_last else None
        certain = expected if expected is not None and expected.is_certain else None
        if certain is not None and not certain.is_clean and self.extent.damage is not None:
            # After a crash, the damage at the end explains it.
            certain = None
        is_deleted = segment.limit_offset <= self.log_start_offset
        if segment.lost is not None and not self.root.is_locked and not is_deleted:
            path = Segment(self._directory, segment.lost).path
            if is_lost(path):
                end = segment.next_base_offset if certain is None else certain.offset
                found.append(Defect(path, 0, segment.lost, end, LOST, "segment-missing"))
        # If the newest segment is gone, its indexes and the expected end report the same records.
        if certain is not None and not (found and segment.lost == self.log_end_offset):
            found.append(Defect(segment.path, 0, self.log_end_offset, certain.offset, str(certain), "records-missing"))
        return tuple(found)

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
        names, broken = commit_journal.in_force(self._directory, storage.files_and_broken_links)
        # A broken symbolic link to a `.log` proves, as indexes do, that there was a segment.
        names += [f"{name.removesuffix('.log')}.index" for name in broken if name.endswith(".log")]
        if self.topic is None and self.is_file:
            # Other files beside a single file may belong to other partitions.
            own = self._file_name.partition(".")[0] + "."
            names = [name for name in names if name.startswith(own)]

        def next_offset_of(name: str) -> int:
            return Segment(self._directory, file_names.base_offset(name), name=name).extent().next_offset

        return file_names.live_files(names, next_offset_of)

    def _lone_segment(self) -> Segment:
        """Return the segment of a single file. A wrong base offset in the file's name must not hide its rows."""
        named = file_names.live_base_offset(self._file_name)
        with storage.File(f"{self._directory}/{self._file_name}") as file:
            first = batch_at(file, 0)
        begins = None if first is None else first["base_offset"]
        known = [offset for offset in (named, begins) if offset is not None]
        return Segment(self._directory, max(0, min(known, default=0)), name=self._file_name)


def header_walk(files: PartitionFiles) -> _native.HeaderWalk:
    """Walk all batch headers and return their summary: formats, codecs, times, transactions.

    Raises:
        CorruptRecordError: the framing is broken, or the last batch of an older segment is cut.
    """
    walk = _native.HeaderWalk()
    for segment in files.segments:
        with segment.open() as file:
            end = files.extent.end_position if segment.is_last else file.size()
            walk_whole_batches(segment, walk, file, 0, end)
        if segment.is_last and files.extent.damage and walk.end_position < end:
            with located(segment.path):
                raise cut_batch(walk.end_position, end)
        walk.start_file()
    return walk
