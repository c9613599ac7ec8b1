"""`LogWriter`: a partition open for writing, for appends as its leader or as a follower.

For each append, `_native.Appender` determines the offsets, duplicates, rolls and index entries. `SegmentFiles` writes
the files. Between `open` and a complete `close`, the files are in the state of a running broker's files. So the log
directory must have no clean-shutdown marker during that time, and the files are recovered if the process is killed.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import pyarrow.compute as pc

from brokerless import _native
from brokerless.append.operation import LogState, check_known
from brokerless.append.segment_files import SegmentFiles
from brokerless.append.swap import check, discard, swap
from brokerless.errors import AppendError
from brokerless.io import interrupts, storage
from brokerless.io.clock import now_ms
from brokerless.layout import file_names
from brokerless.layout.replication import SOLE
from brokerless.log.segment import segments_in
from brokerless.recovery.file_changes import Changes
from brokerless.recovery.loader import load
from brokerless.recovery.truncate import truncate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Literal

    from typing_extensions import Buffer

    from brokerless.append.operation import Commit, Outcome, PlanT, Replacement, Report, ReportT, RewriteOperation
    from brokerless.layout.replication import Replication
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.expected_end import ExpectedEnd
    from brokerless.recovery.load_result import Loaded
    from brokerless.recovery.lost_batches import Cut
    from brokerless.remarks import Remark

    Origin = Literal["client", "coordinator", "replication"]

# The highest possible leader epoch.
_ANY_EPOCH = (1 << 31) - 1
_MAX_PRODUCER_EPOCH = (1 << 15) - 1
_TRANSACTION_VERSIONS = (0, 1, 2)
# The settings that the appender does not take, because they do not concern appends.
_NOT_OF_APPENDS = {
    "delete_retention_ms",
    "flush_messages",
    "min_cleanable_dirty_ratio",
    "min_compaction_lag_ms",
    "preallocate",
    "remote_storage_enable",
    "retention_bytes",
    "retention_ms",
    "sources",
    "are_guessed",
}
# The bytes that are handled at a time, so few that the processor's cache still holds them when they are written.
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The answer to an append.

    Attributes:
        first_offset: the offset of the first record; for a duplicate, the offset that was stored before. -1 without a
            batch. Also -1 for batches before format 2 that keep their offsets: their headers lack the first offset.
        last_offset: the offset of the last record; -1 without a batch.
        log_append_time: the time that the records were stamped with, ms; -1 if they keep their own. For a duplicate,
            the largest timestamp that was stored before.
        max_timestamp: the largest timestamp of the last accepted request, ms; -1 without one.
        is_duplicate: True if all batches were stored before, so that nothing changed.
        count: the number of accepted requests, duplicates included.
        duplicates: the number of duplicates among the accepted requests.
        consumed: the number of bytes accepted.

    >>> import brokerless as bl
    >>> with bl.create_log_dir(NEW) as log_dir, open(f"{SAMPLE}/00000000000000000000.log", "rb") as file:
    ...     topic_id = log_dir.create_topic("orders")
    ...     appended = log_dir.log("orders", 0).append_as_follower(file.read())
    >>> appended.first_offset, appended.last_offset, appended.duplicates
    (0, 119, 0)
    """

    first_offset: int
    last_offset: int
    log_append_time: int
    max_timestamp: int
    is_duplicate: bool
    count: int
    duplicates: int
    consumed: int

    @classmethod
    def of(cls, appended: _native.Appended) -> Self:
        """Return the answer for an `Appended`, without its writes."""
        return cls(*(getattr(appended, field.name) for field in fields(cls)))


class LogWriter:
    """A partition open for writing. `open` creates it. Do not share it between threads.

    While the bytes of an append are being written, the log is marked as broken (`_changing`). If the write fails, the
    mark stays: the appender is ahead of the files, and only a new load of the directory shows what the files contain.

    Attributes:
        directory: the partition's directory.
        config: the topic's settings.
        recovery: the changes made by opening the log.
        cuts: the parts of segments that opening the log cut off.
        expected_end: the log end offset according to other files when the log was opened; None unless the log ended
            below it.
        first_dirty_offset: the offset below which everything was cleaned (the cleaner checkpoint); None if unknown.
        is_tiered: True if older segments may be in remote storage, so that `truncate_to` refuses offsets below the
            first segment.
        is_closed: whether the log was closed completely.
        replication: the known state of other replicas.

    >>> import brokerless as bl
    >>> with bl.create_log_dir(NEW) as log_dir, open(f"{SAMPLE}/00000000000000000000.log", "rb") as file:
    ...     topic_id = log_dir.create_topic("orders")
    ...     log_dir.log("orders", 0).append_as_follower(file.read()).last_offset
    119
    """

    recovery: list[Remark]
    cuts: Sequence[Cut]
    expected_end: ExpectedEnd | None
    first_dirty_offset: int | None
    is_closed: bool
    replication: Replication = SOLE
    _appender: _native.Appender
    _files: SegmentFiles
    _is_broken: bool
    # Whether the last batch ends below the log end offset, because a truncation deleted the batch that contained it.
    _is_cut_short: bool
    _reserve_producer_id: Callable[[int], object]
    _before_truncation: Callable[[int], object]

    def __init__(
        self, directory: str, config: TopicConfig, loaded: Loaded, leader_epoch: int, now: Callable[[], int]
    ) -> None:
        self.directory = directory
        self.config = config
        self._leader_epoch = leader_epoch
        self._now = now
        self._process = os.getpid()
        self.is_tiered = loaded.is_tiered(config)
        self.is_closed = self._is_broken = False
        self._continue_from(loaded)

    @classmethod
    def open(
        cls,
        directory: str,
        *,
        config: TopicConfig,
        is_clean: bool,
        recovery_point: int = 0,
        log_start_offset: int | None = None,
        leader_epoch: int | None = None,
        first_dirty_offset: int | None = None,
        recover: bool = False,
        high_watermark: int | None = None,
        now: Callable[[], int] = now_ms,
        before_changes: Callable[[], object] = lambda: None,
        reserve_producer_id: Callable[[int], object] = lambda _: None,
        before_truncation: Callable[[int], object] = lambda _: None,
        replication: Replication = SOLE,
    ) -> Self:
        """Open a partition directory. Recover it first, unless it was closed cleanly.

        Args:
            directory: the partition's directory, which must exist. An empty directory becomes an empty log.
            config: the topic's settings.
            is_clean: whether the log directory had its clean-shutdown marker.
            recovery_point: the checkpointed recovery point.
            log_start_offset: the checkpointed log start offset; None if the checkpoint does not name the log.
            leader_epoch: the leader epoch for appended batches; None for the last known epoch, or 0 without one.
            first_dirty_offset: the log's offset in the cleaner checkpoint; None without one.
            recover: recover the log even if that loses sound batches after damage, or if the log lacks records to which
                other files of the log directory refer.
            high_watermark: the checkpointed high watermark; None if the checkpoint does not name the log.
            now: returns the time in ms since the epoch.
            before_changes: called before opening the log makes its first change, when all these changes are known.
            reserve_producer_id: called before the append of a batch whose producer id a cluster may also assign. The
                function must raise if the cluster may still assign the id (`LogDirWriter.reserve_producer_id`).
            before_truncation: called before the end of the log is deleted, with an offset that the log keeps. A
                checkpointed recovery point must not stay above it: after a crash, it would say that records are lost.
            replication: the known state of other replicas.

        Raises:
            CorruptRecordError: a broker would not start on the log, or would lose data silently; or, without `recover`,
                recovery would lose sound batches after damage, or records are missing.
        """
        loaded = load(
            directory,
            config,
            is_clean=is_clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now=now(),
            high_watermark=high_watermark,
            first_dirty_offset=first_dirty_offset,
        )
        if not recover:
            loaded.check_missing()
        loaded.check_losses(is_clean=is_clean)
        if not recover:
            loaded.check_cuts()
        before_changes()
        steps = [step.remark(loaded.changes.directory) for step in loaded.changes.steps]
        loaded.changes.apply()
        known = loaded.leader_epochs.entries()
        epoch = leader_epoch if leader_epoch is not None else known[-1][0] if known else 0
        writer = cls(directory, config, loaded, epoch, now)
        writer.recovery, writer.first_dirty_offset = steps, first_dirty_offset
        writer._reserve_producer_id, writer._before_truncation = reserve_producer_id, before_truncation
        writer.replication = replication
        writer.cuts, writer.expected_end = loaded.cuts, loaded.expected_end
        return writer

    @property
    def is_broken(self) -> bool:
        """True if a change failed halfway, so that the files' content is unknown until they are loaded again."""
        return self._is_broken

    @property
    def leader_epoch(self) -> int:
        """The leader epoch that appended batches get."""
        return self._leader_epoch

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is durable."""
        return self._files.recovery_point

    @property
    def first_segment_base_offset(self) -> int:
        """The base offset of the oldest segment."""
        return self._files.first_segment_base_offset

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers see."""
        return self._appender.log_start_offset

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that readers see and this directory holds. Older offsets may be in remote storage."""
        return max(self.log_start_offset, self.first_segment_base_offset)

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self._appender.log_end_offset

    @property
    def active_path(self) -> str:
        """The `.log` of the active segment."""
        return self._files.active_path

    @property
    def active_size(self) -> int:
        """The size of the batches in the active segment, in bytes."""
        return self._files.active_size

    @property
    def written_end_offset(self) -> int:
        """The log end offset of the files; after an error, the offset after their last whole batch."""
        return segments_in(self.directory)[-1].extent().next_offset if self._is_broken else self.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The high watermark, which is the log end offset for a log at rest."""
        return self._appender.high_watermark

    @property
    def replicated_end(self) -> int:
        """The offset up to which all other replicas have the log; without other replicas, the log end offset."""
        return self.replication.replicated_end(self.log_end_offset)

    @property
    def last_stable_offset(self) -> int:
        """The offset at which a `read_committed` read ends."""
        return self._appender.last_stable_offset

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "broken" if self._is_broken else f"log end offset {self.log_end_offset}"
        return f"<{type(self).__name__} {self.directory}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        try:
            self.close()
        except Exception as closing:
            if error is None:
                raise
            # The first error tells more. If it broke the log, it tells everything.
            if not self._is_broken:
                error.add_note(f"{self.directory} needs recovery: {closing}")

    def close(self) -> None:
        """Close the log as a clean shutdown does, durably: with complete indexes, and a producer snapshot at the end.

        Idempotent; does nothing in a forked child of the process that opened the log.

        Raises:
            ValueError: an earlier change failed, so that the files' content is unknown.
        """
        if self.is_closed or os.getpid() != self._process:
            return
        if self._is_broken:
            self._files.abandon()
        self._roll_if_cut_short()
        with self._changing():
            self._finish_files()
        self.is_closed = True

    def flush(self) -> None:
        """Make everything appended so far durable."""
        # A failed sync must break the log, because the system reports lost writes only once: a second sync would
        # succeed.
        with self._changing():
            self._files.sync(self.log_end_offset)

    def append(
        self,
        batches: Buffer,
        *,
        origin: Origin = "client",
        leader_epoch: int | None = None,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Append one produce request, as a broker does. The records are durable after `flush` or `close`.

        Args:
            batches: whole batches: one batch of magic 2 from a client, or any number from a leader ("replication").
            origin: the sender: "client", the transaction "coordinator", or "replication", whose batches keep their
                offsets.
            leader_epoch: the leader epoch that the batches get; None for the epoch of the log. For "replication", see
                `append_as_follower`.
            transaction_version: the version of a coordinator's markers. With 2, a marker needs a higher producer epoch
                than the batches of its transaction, which brokers check since 4.2.

        Returns:
            The assigned offsets; for a duplicate, the offsets that were assigned before.

        Raises:
            AppendError: the append is refused; the subclass corresponds to Kafka's error. The log is unchanged.
            CorruptRecordError: the bytes are not whole, sound batches. The log is unchanged.
            ValueError: the cluster may still assign the producer id to another producer
                (`LogDirWriter.reserve_producer_id`). The log is unchanged.
        """
        if transaction_version not in _TRANSACTION_VERSIONS:
            raise ValueError(f"transaction_version {transaction_version!r}: 0, 1 or 2 expected")
        self._reserve_producer_ids(batches)
        request = self._request(origin, leader_epoch) | {"transaction_version": transaction_version}
        return AppendResult.of(self._change(partial(self._appender.append, batches, may_be_cut=False, **request)))

    def append_as_follower(self, batches: Buffer, *, leader_epoch: int | None = None) -> AppendResult:
        """Append batches that keep their offsets, as a follower does. Use it, for example, to restore a log.

        Args:
            batches: any number of batches in the order of their offsets. No batch may be below the log end offset. Gaps
                between offsets stay.
            leader_epoch: the leader's epoch. The first batch of a later epoch, and all batches after it, are left out.
                With None, all batches are appended, and batches without an epoch get the log's last epoch, or 0.
                Kafka's cleaner makes such batches from messages of format 0 or 1, and Kafka's followers refuse them.

        Raises:
            UnexpectedAppendOffsetError: the first offset is below the log end offset.
            OffsetsOutOfOrderError: the offsets do not ascend.
        """
        return self.append(batches, origin="replication", leader_epoch=leader_epoch)

    def append_each(
        self,
        batches: Buffer,
        *,
        origin: Origin = "client",
        leader_epoch: int | None = None,
    ) -> AppendResult:
        """Append many complete batches, each as its own produce request, up to the first one that is refused.

        Args:
            batches: a few megabytes of batches, which are in memory twice until they are written. An incomplete batch
                at the end is not appended; pass it to the next call.
            origin: see `append`.
            leader_epoch: see `append`.

        Returns:
            The first and the last offset of all batches; `consumed` is the number of bytes accepted.

        Raises:
            AppendError: a batch was refused; the batches before it are in the log.
        """
        self._reserve_producer_ids(batches)
        return AppendResult.of(self._append_each(batches, self._request(origin, leader_epoch), is_encoded_here=False))

    def _append_encoded(self, batches: Buffer, *, origin: Origin, now: int | None = None) -> _native.Appended:
        """Append batches from `_native.Encoder`, as `append_each` does, but without reading their records.

        The records are trusted because the encoder wrote them. Batches from another source might hold unreadable
        records. The caller has chosen and reserved the producer id.

        Args:
            batches: the encoder's batches.
            origin: see `append`.
            now: the time against which the topic's limits for timestamps are checked; None for the current time.
        """
        request = self._request(origin, None) | ({} if now is None else {"now": now})
        return self._append_each(batches, request, is_encoded_here=True)

    def _append_in_place(self, path: str, headers: Buffer, *, origin: Origin = "client") -> None:
        """Make a file of batches the next segment, and write only the header changes that a broker would make.

        Args:
            path: the file of batches, which is moved. Bytes after its batches are cut off.
            headers: the headers of the batches (`_native.headers_alone`), whose checksums must be verified. The batches
                must be from `_native.Encoder`.
            origin: see `append`.

        Raises:
            AppendError: a broker would refuse a batch, read or change its records, or begin a segment with it. No batch
                is appended, and the file is unchanged. `append_each` distinguishes these cases, and appends as many
                batches as it can.
        """
        request = self._request(origin, None)
        self._change(partial(self._appender.append_in_place, headers, **request), path)

    def roll(self) -> None:
        """Begin a new segment. Appends also begin new segments when the settings require it."""
        self._change(partial(self._appender.roll, self._now()))

    def truncate_to(self, offset: int, *, replays_producers: bool = False) -> None:
        """Delete all records from an offset on, as a follower does if its log is longer than its leader's.

        A batch that contains the offset is deleted as a whole. The next append still starts at `offset`.

        Args:
            offset: the new log end offset, not negative.
            replays_producers: rebuild the producer state from snapshots and batches, including producers that have
                expired (after a day without a write). Transactions that were open at `offset` are then open again.

        Raises:
            ValueError: `offset` is negative, or below the first segment of a tiered log.

        >>> import brokerless as bl
        >>> with bl.Producer(NEW, "clicks") as producer:
        ...     producer.send([{"value": b"%d" % i} for i in range(5)])
        >>> with bl.open_log_dir(NEW) as log_dir:
        ...     log = log_dir.log("clicks", 0)
        ...     log.truncate_to(0)
        ...     log.log_end_offset
        0
        """
        self.flush()
        if offset < 0:
            raise ValueError(f"cannot truncate to {offset}: an offset is 0 or more")
        if self.is_tiered and offset < self.first_segment_base_offset:
            raise ValueError(
                f"cannot truncate {self.directory} to {offset}: offsets below {self.first_segment_base_offset} are in "
                "remote storage"
            )
        if offset >= self.log_end_offset and not replays_producers:
            return
        with self._changing():
            self._files.finish_active()
            loaded = truncate(
                self.directory,
                self.config,
                offset,
                log_start_offset=self.log_start_offset,
                recovery_point=self.recovery_point,
                producers=None if replays_producers else self._appender.producers,
                end_offset=self.log_end_offset,
                now=self._now(),
            )
            self._before_truncation(loaded.base_offsets[-1])
            loaded.changes.apply()
            self._continue_from(loaded)
        self._is_cut_short = segments_in(self.directory)[-1].extent().next_offset < offset
        if self.first_dirty_offset is not None:
            # The cleaner skips everything below its checkpoint, but batches that are appended from now on are dirty.
            self.first_dirty_offset = min(self.first_dirty_offset, loaded.base_offsets[-1])

    def truncate_to_end_of_epoch(self, leader_epoch: int) -> int:
        """Delete the batches of later leader epochs, as a follower does if its leader has no later epoch.

        Returns:
            The new log end offset.

        Raises:
            ValueError: the log knows neither this epoch nor an earlier one.
        """
        epochs = self._appender.leader_epochs
        _, end_offset = epochs.end_offset_for(leader_epoch, self.log_end_offset)
        if end_offset < 0:
            known = ", ".join(str(epoch) for epoch, _ in epochs.entries()) or "none"
            raise ValueError(f"unknown leader epoch {leader_epoch}: the log knows {known}")
        self.truncate_to(end_offset)
        return end_offset

    def highest_cluster_producer_id(self, since: int) -> int | None:
        """Return the highest producer id in the log that a cluster may also assign; None for no such id.

        Both the producer state and the batches are searched. The producer state includes producers whose batches were
        deleted, and the batches include producers that have expired.

        Args:
            since: segments that end at or below this offset are skipped.
        """
        known = self._appender.producers.highest_cluster_id
        highest = -1 if known is None else known
        for segment in segments_in(self.directory) if since < self.log_end_offset else ():
            if segment.limit_offset > since:
                for batches in segment.scan():
                    of_cluster = batches.filter(pc.field("producer_id") < _native.FIRST_OWN_PRODUCER_ID)
                    found = pc.max(of_cluster["producer_id"]).as_py()
                    highest = max(highest, -1 if found is None else found)
        return None if highest < 0 else highest

    def end_open_transactions(self, commits: Iterable[Commit] = (), at: int | None = None) -> int:
        """End all open transactions with markers, as their coordinator would, and return their number.

        Use this method if the log's transaction coordinator has lost its state. Without a marker, the transactions
        would stay open for ever, and `read_committed` reads would stop at the first of them.

        Args:
            commits: the transactions to end with COMMIT markers. The others get ABORT markers.
            at: the time of the markers in ms; None for the current time.
        """
        entries = self._appender.producers.entries().to_pylist()
        open_ones = [entry for entry in entries if entry["current_txn_first_offset"] >= 0]
        committed = {one.producer_id: one for one in commits}
        for entry in open_ones:
            commit = committed.get(entry["producer_id"])
            marker = _native.end_transaction_marker(
                commit=commit is not None,
                producer_id=entry["producer_id"],
                # The next epoch, as in a coordinator's fencing, so that the producer itself cannot continue (KIP-890,
                # KIP-1228).
                producer_epoch=min(entry["producer_epoch"] + 1, _MAX_PRODUCER_EPOCH)
                if commit is None
                else commit.producer_epoch,
                coordinator_epoch=max(entry["coordinator_epoch"], 0 if commit is None else commit.coordinator_epoch),
                timestamp=self._now() if at is None else at,
            )
            # The producer id needs no reservation, because the log has it already.
            request = self._request("coordinator", None)
            self._change(partial(self._appender.append, marker, may_be_cut=False, **request))
        return len(open_ones)

    def state(self) -> LogState:
        """Flush the log, and return the state from which an operation makes its plan."""
        self.flush()
        return LogState(
            directory=self.directory,
            config=self.config,
            segments=segments_in(self.directory),
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=self.replicated_end,
            others_from=self.replication.others_from,
            last_stable_offset=self.last_stable_offset,
            first_dirty_offset=self.first_dirty_offset,
            producers=self._appender.producers.to_snapshot(),
            now=self._now(),
            is_tiered=self.is_tiered,
        )

    def state_for(self, operation: RewriteOperation[PlanT, ReportT]) -> LogState:
        """Roll the log if the operation needs that, and return the state from which the operation makes its plan."""
        state = self.state()
        if not operation.needs_roll(state):
            return state
        self.roll()
        return self.state()

    def enforce(self, outcome: Outcome[Report]) -> None:
        """Apply the outcome of an operation to the log.

        Raises:
            ValueError: the log has other segments than the operation worked on, or would end at another offset. The log
                is unchanged.
        """
        if outcome.truncate_to is not None:
            # After its producers have expired, a log keeps old snapshots, in which transactions may be open that ended
            # later.
            self.truncate_to(outcome.truncate_to, replays_producers=True)
        if outcome.ends_open_transactions:
            self.end_open_transactions(outcome.commits, outcome.ended_at)
        self.replace_segments(
            outcome.replacements,
            has_producers=outcome.has_producers,
            has_leader_epochs=outcome.has_leader_epochs,
        )
        if outcome.log_start_offset is not None:
            self._start_at(outcome.log_start_offset)
        if outcome.deleted_segments:
            self.delete_segments(outcome.deleted_segments)
        if outcome.first_dirty_offset is not None:
            self.first_dirty_offset = outcome.first_dirty_offset

    def replace_segments(
        self, replacements: Sequence[Replacement], *, has_producers: bool = True, has_leader_epochs: bool = True
    ) -> None:
        """Replace old segments, which may include the active one, by new ones.

        Args:
            replacements: the replacements, ascending. Each is swapped in on its own.
            has_producers: False to forget the producers.
            has_leader_epochs: False to forget the leader epochs.

        Raises:
            ValueError: the replacements do not fit the log, or the log would end at another offset. The log is
                unchanged.
            FileNotFoundError: a new segment is missing. The log is unchanged.
        """
        self._check_usable()
        expected = self.log_end_offset
        found = check(self.directory, segments_in(self.directory), replacements)
        if found is not None and found != expected:
            raise ValueError(
                f"cannot replace segments of {self.directory}: the log would end at offset {found}, not at {expected}"
            )
        if not replacements:
            return
        self._roll_if_cut_short()
        with self._changing():
            self._finish_files()
            if not has_producers:
                # Do this before the swap: no snapshot may have an open transaction whose marker the new segments lack.
                self._files.remove_producer_snapshots()
            if not has_leader_epochs:
                self._files.write_leader_epochs([])
            for replacement in replacements:
                swap(self.directory, replacement)
            self._reload()

    def delete_segments(self, count: int) -> None:
        """Delete the oldest segments, as retention does. The log then starts after them.

        Args:
            count: the number of segments, not negative. If all are deleted, a new segment begins at the log end first.

        Raises:
            ValueError: `count` is negative.
        """
        if count < 0:
            raise ValueError(f"cannot delete {count} segments: the number must be 0 or more")
        base_offsets = [segment.base_offset for segment in segments_in(self.directory)]
        if count >= len(base_offsets):
            self.roll()
            # A roll of an empty active segment creates no other segment.
            base_offsets = [base for base in base_offsets if base < self.log_end_offset] + [self.log_end_offset]
            count = len(base_offsets) - 1
        self.flush()
        # Raise the start first, as a broker does: leader epochs that begin below the first segment suggest records in
        # remote storage.
        self._start_at(max(base_offsets[count], self.log_start_offset))
        changes = Changes(self.directory)
        # Each on its own: if the process ends between two deletions, the log is whole and starts after all these
        # segments.
        for base_offset, following in pairwise(base_offsets[: count + 1]):
            with self._changing():
                self._files.remove_segment(changes, base_offset, following)

    def start_at(self, offset: int) -> None:
        """Raise the log start offset, as a follower does when its leader has raised it. The cleanup policy is ignored.

        Records below the offset are hidden. A log that ends below the offset becomes empty, and continues at the
        offset.

        Args:
            offset: the new log start offset. An offset that is not above the present one changes nothing.
        """
        self._check_usable()
        if offset > self.log_end_offset:
            self._roll_if_cut_short()
            with self._changing():
                self._finish_files()
                self._files.remove_producer_snapshots()
                self._files.restart_at([segment.base_offset for segment in segments_in(self.directory)], offset)
                self._files.write_leader_epochs([])
                self._reload()
        elif offset > self.log_start_offset:
            self._start_at(offset)

    def run(self, operation: RewriteOperation[PlanT, ReportT]) -> ReportT:
        """Compact, convert, erase or delete, as `brokerless.rewrite` does. The log stays open.

        Args:
            operation: `Compaction`, `Conversion`, `Erasure`, `Retention` or `Truncation`, with its options.

        Returns:
            The operation's report.

        Raises:
            ValueError: the operation refuses the log. The message names the loss.
            OffsetOutOfRangeError: the operation has an offset beyond the high watermark.
            CorruptRecordError: a segment is damaged. The log is unchanged.

        >>> import brokerless as bl
        >>> with bl.Producer(NEW, "clicks") as producer:
        ...     producer.send([{"value": b"%d" % i} for i in range(5)])
        >>> with bl.open_log_dir(NEW) as log_dir:
        ...     log_dir.log("clicks", 0).run(bl.Retention(before_offset=3)).log_start_offset
        3
        """
        check_known(operation, self.config, self.directory)
        state = self.state_for(operation)
        try:
            outcome = operation.work(operation.plan(state), dry_run=False, progress=lambda _: None)
            self.enforce(outcome)
        except BaseException:
            if not self._is_broken:
                discard(self.directory)
            raise
        return outcome.report

    def _reserve_producer_ids(self, batches: Buffer) -> None:
        highest = _native.highest_cluster_producer_id(batches)
        if highest is not None:
            self._reserve_producer_id(highest)

    def _request(self, origin: Origin, leader_epoch: int | None) -> dict[str, Any]:
        if leader_epoch is None:
            leader_epoch = _ANY_EPOCH if origin == "replication" else self._leader_epoch
        return {"origin": origin, "leader_epoch": leader_epoch, "now": self._now()}

    def _append_each(self, batches: Buffer, request: dict[str, Any], *, is_encoded_here: bool) -> _native.Appended:
        append = partial(self._appender.append_each, is_encoded_here=is_encoded_here, **request)
        appended = self._append_pieces(append, memoryview(batches).cast("B"))
        if appended.error is not None:
            # Give the error no local name: its traceback refers to this frame, and the cycle would keep the batches in
            # memory.
            raise self._with_log_name(appended.error)
        return appended

    def _append_pieces(self, append: Callable[..., _native.Appended], data: memoryview) -> _native.Appended:
        """Append the data piece by piece, up to the first refused batch. Write each piece before the next decision."""
        whole: _native.Appended | None = None
        start, length = 0, _PIECE
        while True:
            piece = self._change(partial(append, data[start : start + length], position=start))
            whole = piece if whole is None else whole.followed_by(piece)
            if piece.error is not None or start + length >= len(data):
                return whole
            start += piece.consumed
            # A batch may be larger than a piece.
            length = _PIECE if piece.consumed else 2 * length

    def _change(self, decide: Callable[[], _native.Appended], moved_from: str | None = None) -> _native.Appended:
        """Call `decide` and write the change that it returns. For `moved_from` see `SegmentFiles.write`."""
        appended: _native.Appended
        with self._changing(decide) as appended:
            self._write(appended, moved_from)
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()
        return appended

    @contextmanager
    def _changing(self, decide: Callable[[], Any] = lambda: None) -> Iterator[Any]:
        """Ask the appender to decide on a change, which the `with` block then writes to the files.

        From the decision to the end of the block the log is marked as broken, so an error or interrupt leaves it
        broken. A refusal by the appender changes nothing, and leaves the log usable.
        """
        self._check_usable()
        with interrupts.deferred():
            # Set this before the call: an interrupt that does not wait may come when the appender has just decided.
            self._is_broken = True
            try:
                decision = decide()
            except Exception as error:
                # If memory ran out, the appender may have decided, with only its answer lost.
                self._is_broken = isinstance(error, MemoryError)
                self._with_log_name(error)
                raise
            yield decision
            self._is_broken = False

    def _check_usable(self) -> None:
        if os.getpid() != self._process:
            raise ValueError(f"log {self.directory} is open in process {self._process}, not in this one")
        if self.is_closed or self._is_broken:
            state = "closed" if self.is_closed else "broken by an earlier error: open its directory again to recover"
            raise ValueError(f"log {self.directory} is {state}")

    def _with_log_name(self, error: Exception) -> Exception:
        """Add the log's name to an error, so that a caller that writes to many logs knows which log refused."""
        if isinstance(error, AppendError):
            error.log = os.path.basename(self.directory)
        return error

    def _write(self, appended: _native.Appended, moved_from: str | None) -> None:
        if appended.has_new_epochs:
            self._write_leader_epochs()
        for write in appended.writes:
            self._files.write(write, moved_from)
            self._is_cut_short = False

    def _write_leader_epochs(self) -> None:
        self._files.write_leader_epochs(self._appender.leader_epochs.entries())

    def _roll_if_cut_short(self) -> None:
        """Roll the log if its last batch ends below the log end offset, so that a load finds that offset.

        A load finds the end from the last batch, or from the name of a segment without batches.
        """
        if self._is_cut_short:
            self.roll()

    def _finish_files(self) -> None:
        """Complete the files as a clean shutdown does. Call this within `_changing`."""
        self._files.finish(self._appender.close(), self.log_end_offset)

    def _reload(self) -> None:
        """Continue from files that were finished and then changed. Call this within `_changing`."""
        loaded = load(
            self.directory,
            self.config,
            is_clean=True,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start_offset,
            now=self._now(),
        )
        loaded.changes.apply()
        self._continue_from(loaded)

    def _continue_from(self, loaded: Loaded) -> None:
        """Open the files after a load, and create an appender that continues the log."""
        self._files = SegmentFiles(self.directory, self.config, loaded)
        settings = {field.name for field in fields(self.config)} - _NOT_OF_APPENDS
        self._appender = _native.Appender(
            segment=self._files.active_state(self._now(), loaded.max_timestamp),
            producers=loaded.producers,
            leader_epochs=loaded.leader_epochs,
            log_start_offset=loaded.log_start_offset,
            log_end_offset=loaded.log_end_offset,
            **{name: getattr(self.config, name) for name in settings},
        )
        self._is_cut_short = False

    def _start_at(self, offset: int) -> None:
        """Raise the log start offset to an offset that is not above the log end."""
        batch = None
        for segment in segments_in(self.directory):
            if segment.base_offset <= offset < segment.limit_offset:
                with segment.open() as file:
                    batch = segment.batch_of(file, offset)
        snapshots = file_names.snapshot_offsets(storage.list_directory(self.directory))
        batch_base_offset = None if batch is None else batch["base_offset"]
        decide = partial(self._appender.set_log_start_offset, offset, batch_base_offset, max(snapshots, default=None))
        with self._changing(decide) as has_new_epochs:
            if has_new_epochs:
                self._write_leader_epochs()
