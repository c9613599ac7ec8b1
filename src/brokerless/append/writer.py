"""`LogWriter`: one partition's log being written, as its leader or a follower would.

Everything that is decided about an append (offsets, duplicates, rolls, index entries) is decided by
`_native.Appender`; here it is put into files. Between opening and a complete `close` the files are those of a running
broker: only a log directory without its clean-shutdown marker may hold them, so that after a kill they are recovered.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import pyarrow.compute as pc

from brokerless import _native
from brokerless.append.open_log import OpenLog, now_ms
from brokerless.append.operation import LogState, perform
from brokerless.append.swap import check, swap
from brokerless.layout import file_names
from brokerless.layout.replication import SOLE
from brokerless.log.segment import segments_in
from brokerless.recovery.directory_plan import Changes
from brokerless.recovery.loader import load
from brokerless.recovery.truncate import truncate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from typing_extensions import Buffer

    from brokerless.append.operation import Outcome, PlanT, Report, ReportT, RewriteOperation
    from brokerless.append.swap import Replacement
    from brokerless.layout.replication import Replication
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log.expected_records import Promise
    from brokerless.recovery.lost_batches import Cut

    Origin = Literal["client", "coordinator", "replication"]


# No batch has a later one.
_ANY_EPOCH = (1 << 31) - 1
_MAX_PRODUCER_EPOCH = (1 << 15) - 1
_TRANSACTION_VERSIONS = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class Appended:
    """The answer to an append.

    Attributes:
        first_offset: of the first record (of a duplicate: as it was stored); -1 without a batch, or without one of
            format 2 to tell it.
        last_offset: of the last record; -1 without a batch.
        log_append_time: what the records were stamped with, ms; -1: they keep their own. Of a duplicate the largest
            timestamp stored before.
        max_timestamp: the largest of the last request taken, ms; -1 without one.
        is_duplicate: all of it was stored before, and nothing changed.
        count: requests taken, duplicates included.
        duplicates: duplicates among them.
        consumed: bytes taken.
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
        """Return the answer without what it left to be written."""
        return cls(*(getattr(appended, field.name) for field in fields(cls)))


class LogWriter(OpenLog):
    """One partition directory, open for writing. Made by `open`; not shared between threads.

    Attributes:
        directory: the partition's.
        recovery_point: what is below is durable.
        first_segment_base_offset: of the oldest segment.
        recovery: what opening it changed, a line each.
        cuts: what opening it took off its segments.
        promise: the log end offset that other files told of when it was opened; None: it did not end below it.
        config: the topic's.
        first_dirty_offset: what is below was cleaned (the cleaner's checkpoint); None: nothing is known of it.
        is_closed: it was closed, completely.

    >>> import brokerless as bl
    >>> with bl.create_log_dir(NEW) as log_dir, open(f"{SAMPLE}/00000000000000000000.log", "rb") as file:
    ...     topic_id = log_dir.create_topic("orders")
    ...     log_dir.log("orders", 0).append_as_follower(file.read()).last_offset
    101
    """

    recovery: list[str]
    cuts: Sequence[Cut]
    promise: Promise | None
    first_dirty_offset: int | None
    _reserve_producer_id: Callable[[int], object]

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
        replication: Replication = SOLE,
    ) -> Self:
        """Open a partition directory, which is recovered first unless it was left clean.

        Args:
            directory: it exists; an empty one becomes an empty log.
            config: the topic's.
            is_clean: the log directory had its clean-shutdown marker.
            recovery_point: as checkpointed.
            log_start_offset: as checkpointed; None: the checkpoint does not name the log.
            leader_epoch: what appended batches are stamped with; None: the last one known, 0 if none is.
            first_dirty_offset: as the cleaner checkpointed it; None: it did not.
            recover: recover it even if sound batches behind damage are lost with that, or other files in the log
                directory tell of records that it lacks.
            high_watermark: as checkpointed; None: the checkpoint does not name the log.
            now: tells the time, ms since the epoch.
            before_changes: called once it is known what is to be done, and nothing is yet.
            reserve_producer_id: called before a batch is appended whose producer id a cluster may give, too. It raises
                where the cluster may yet do so (`LogDirWriter.reserve_producer_id`).
            replication: what is known of other replicas.

        Raises:
            CorruptRecordError: a broker would not start on it, or would lose data silently; without `recover`, also
                sound batches behind damage, or records are missing.
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
        steps = [str(step) for step in loaded.changes.steps]
        loaded.changes.apply()
        known = loaded.leader_epochs.entries()
        epoch = leader_epoch if leader_epoch is not None else known[-1][0] if known else 0
        writer = cls(directory, config, loaded, epoch, now)
        writer.recovery, writer.first_dirty_offset = steps, first_dirty_offset
        writer._reserve_producer_id, writer.replication = reserve_producer_id, replication
        writer.cuts, writer.promise = loaded.cuts, loaded.promise
        return writer

    def append(
        self,
        batches: Buffer,
        *,
        origin: Origin = "client",
        leader_epoch: int | None = None,
        transaction_version: int = 0,
    ) -> Appended:
        """Append one produce request, as a broker does. It is durable after `flush` or `close`.

        Args:
            batches: whole batches: one of magic 2 from a client, any number from a leader ("replication").
            origin: who sends: "client", the transaction "coordinator", or "replication", which gives the offsets.
            leader_epoch: what the batches are stamped with, if not that of the log; of "replication" as in
                `append_as_follower`.
            transaction_version: of the markers of a coordinator. With 2, a marker has to have a higher producer epoch
                than the batches of its transaction: brokers since 4.2 check that.

        Returns:
            The offsets given, or those given before if it is a duplicate.

        Raises:
            AppendError: the leaf for Kafka's own answer. The log is as it was.
            CorruptRecordError: the bytes are not whole, sound batches.
            ValueError: a producer id that the cluster may yet give to a producer of its own
                (`LogDirWriter.reserve_producer_id`); the log is as it was.
        """
        if transaction_version not in _TRANSACTION_VERSIONS:
            raise ValueError(f"transaction_version {transaction_version!r}: 0, 1 or 2 expected")
        self._reserve_producer_ids(batches)
        request = self._request(origin, leader_epoch) | {"transaction_version": transaction_version}
        return Appended.of(
            self._write(self._decide(partial(self._appender.append, batches, may_be_cut=False, **request)))
        )

    def append_as_follower(self, batches: Buffer, *, leader_epoch: int | None = None) -> Appended:
        """Append batches with the offsets they have, as a follower takes them over from its leader: to restore a log.

        Args:
            batches: any number, in the order of their offsets, none below the log end offset. Gaps stay.
            leader_epoch: the leader's; batches of a later epoch, and all behind them, are left out. Unless it is given
                all are taken, and one without an epoch, as Kafka's cleaner makes it of messages of format 0 or 1, gets
                the log's last one, or 0: Kafka's followers refuse it.

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
    ) -> Appended:
        """Append many ready batches, each a produce request of its own, up to the first that is refused.

        Args:
            batches: some megabytes of them: they are in memory a second time until they are written. A cut one at the
                end is left for the next call.
            origin: as of `append`.
            leader_epoch: as of `append`.

        Returns:
            As of `append`, first and last of all; `consumed` is how many bytes were taken.

        Raises:
            AppendError: a batch was refused; those before it are in the log.
        """
        self._reserve_producer_ids(batches)
        return Appended.of(self._append_each(batches, self._request(origin, leader_epoch), is_encoded_here=False))

    def _append_encoded(self, batches: Buffer, *, origin: Origin, now: int | None = None) -> _native.Appended:
        """Append as `append_each` does, without a look at the records: `_native.Encoder` made the batches.

        Their headers answer for their records: of other batches, records that nobody can read would be stored. Whoever
        encodes chooses the producer id, and has reserved it.

        Args:
            batches: the encoder's.
            origin: as of `append`.
            now: the time that the topic's limits for timestamps count from; None: the present.
        """
        request = self._request(origin, None) | ({} if now is None else {"now": now})
        return self._append_each(batches, request, is_encoded_here=True)

    def _append_each(self, batches: Buffer, request: dict[str, Any], *, is_encoded_here: bool) -> _native.Appended:
        append = partial(self._appender.append_each, is_encoded_here=is_encoded_here, **request)
        appended = self._append_pieces(append, memoryview(batches).cast("B"))
        if appended.error is not None:
            raise self._named(appended.error)
        return appended

    def _append_in_place(self, path: str, headers: Buffer, *, origin: Origin = "client") -> None:
        """Make a file of batches the next segment: a broker's changes to their headers are written, and nothing else.

        Args:
            path: the file, which is moved. What is behind its batches goes.
            headers: theirs (`_native.headers_alone`), whose checksums hold. `_native.Encoder` made the batches.
            origin: as of `append`.

        Raises:
            AppendError: a broker would refuse a batch, look into its records, change these, or begin a segment with it.
                No batch is appended, and the file is as it was: `append_each` says which, and does the others.
        """
        request = self._request(origin, None)
        self._write(self._decide(partial(self._appender.append_in_place, headers, **request)), path)

    def roll(self) -> None:
        """Begin a new segment: appends do so by themselves where the settings say."""
        self._write(self._decide(partial(self._appender.roll, self._now())))

    def truncate_to(self, offset: int, *, replays_producers: bool = False) -> None:
        """Drop everything from an offset on, as a follower does that had more than its leader.

        A batch that the offset lies in goes as a whole; the next append starts at `offset` all the same.

        Args:
            offset: not negative.
            replays_producers: find the producers of then in snapshots and batches, also if the log has forgotten all of
                them, as it does a day after they wrote: transactions that were open then are so again.
        """
        self.flush()
        if offset < 0:
            raise ValueError(f"cannot truncate to {offset}: an offset is 0 or more")
        if self.is_tiered and offset < self.first_segment_base_offset:
            raise ValueError(
                f"cannot truncate {self.directory} to {offset}: what is below {self.first_segment_base_offset} is in "
                "remote storage"
            )
        if offset < self.log_end_offset or replays_producers:
            self._is_broken = True
            self._active.finish()
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
            loaded.changes.apply()
            self._resume(loaded)
            self._is_cut_short = segments_in(self.directory)[-1].extent().next_offset < offset
            if self.first_dirty_offset is not None:
                # The cleaner takes what is below for cleaned; what is appended from now on is not.
                self.first_dirty_offset = min(self.first_dirty_offset, loaded.base_offsets[-1])

    def truncate_to_end_of_epoch(self, leader_epoch: int) -> int:
        """Drop what was written in later epochs than this one, as a follower does whose leader knows no later one.

        Returns:
            The offset truncated to.

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
        """Return the highest producer id in the log that a cluster may give too; None: there is none.

        The state has producers whose batches are gone, and the batches those that have expired.

        Args:
            since: batches of segments that end at this offset or below are passed over.
        """
        known = self._appender.producers.highest_cluster_id
        highest = -1 if known is None else known
        for segment in segments_in(self.directory) if since < self.log_end_offset else ():
            if segment.next_base_offset is None or segment.next_base_offset > since:
                for batches in segment.scan():
                    of_cluster = batches.filter(pc.field("producer_id") < _native.FIRST_OWN_PRODUCER_ID)
                    found = pc.max(of_cluster["producer_id"]).as_py()
                    highest = max(highest, -1 if found is None else found)
        return None if highest < 0 else highest

    def abort_open_transactions(self) -> int:
        """End all transactions that are open with ABORT markers, as their coordinator would; return how many.

        For a log whose coordinator knows nothing of them: else they stay open for ever, and `read_committed` stops at
        the first of them.
        """
        entries = self._appender.producers.entries().to_pylist()
        open_ones = [entry for entry in entries if entry["current_txn_first_offset"] >= 0]
        for entry in open_ones:
            marker = _native.end_transaction_marker(
                commit=False,
                producer_id=entry["producer_id"],
                # With the next epoch, as a coordinator fences: the producer itself cannot go on (KIP-890, KIP-1228).
                producer_epoch=min(entry["producer_epoch"] + 1, _MAX_PRODUCER_EPOCH),
                coordinator_epoch=max(entry["coordinator_epoch"], 0),
                timestamp=self._now(),
            )
            # No id to be reserved: the log has it already.
            request = self._request("coordinator", None)
            self._write(self._decide(partial(self._appender.append, marker, may_be_cut=False, **request)))
        return len(open_ones)

    def state(self) -> LogState:
        """Return the log as a verb plans from it. All of it is in the files."""
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

    def enforce(self, outcome: Outcome[Report]) -> None:
        """Make of the log what a verb's work says.

        Raises:
            ValueError: the log has other segments than the work was done on, or would end elsewhere; it is as it was.
        """
        if outcome.truncate_to is not None:
            # A log whose producers have expired keeps old snapshots, in which ended transactions may be open.
            self.truncate_to(outcome.truncate_to, replays_producers=True)
        if outcome.aborts_open_transactions:
            self.abort_open_transactions()
        self.replace_segments(
            outcome.replacements,
            has_producers=outcome.has_producers,
            has_leader_epochs=outcome.has_leader_epochs,
        )
        if outcome.deleted_segments:
            self.delete_segments(outcome.deleted_segments)
        if outcome.log_start_offset is not None:
            self._start_at(outcome.log_start_offset)
        if outcome.first_dirty_offset is not None:
            self.first_dirty_offset = outcome.first_dirty_offset

    def replace_segments(
        self, replacements: Sequence[Replacement], *, has_producers: bool = True, has_leader_epochs: bool = True
    ) -> None:
        """Put new segments in the place of old ones, the active one perhaps among them.

        Args:
            replacements: ascending; each is swapped in by itself.
            has_producers: False: forget the producers.
            has_leader_epochs: False: forget the leader epochs.

        Raises:
            ValueError: they do not fit the log, or it would end elsewhere; it is as it was.
            FileNotFoundError: a new segment is not there; the log is as it was.
        """
        self._check_usable()
        expected = self.log_end_offset
        found = check(self.directory, segments_in(self.directory), replacements)
        if found is not None and found != expected:
            raise ValueError(f"cannot replace segments of {self.directory}: it would end at {found}, not {expected}")
        if not replacements:
            return
        self._settle()
        self._is_broken = True
        if not has_producers:
            # First: a snapshot that knows of a transaction would never see its end in segments without markers.
            self._forget_producers()
        if not has_leader_epochs:
            self._write_epochs([])
        for replacement in replacements:
            swap(self.directory, replacement)
        self._reload()

    def delete_segments(self, count: int) -> None:
        """Delete the oldest segments, as retention does; the log starts behind them.

        Args:
            count: how many, not negative; for all of them, a new one begins at the log end first.
        """
        if count < 0:
            raise ValueError(f"{count} segments cannot be deleted")
        base_offsets = [segment.base_offset for segment in segments_in(self.directory)]
        if count >= len(base_offsets):
            self.roll()
            # An empty active segment is rolled into itself.
            base_offsets = [base for base in base_offsets if base < self.log_end_offset] + [self.log_end_offset]
            count = len(base_offsets) - 1
        self.flush()
        self._is_broken = True
        changes = Changes(self.directory)
        for base_offset in base_offsets[:count]:
            changes.delete_segment(base_offset, f"below {base_offsets[count]}, where the log starts now")
        changes.apply()
        self.first_segment_base_offset = base_offsets[count]
        self._is_broken = False
        self._start_at(base_offsets[count])

    def start_at(self, offset: int) -> None:
        """Move the log start offset up, as a follower takes it over from its leader, whatever the topic's policy is.

        Records below are hidden. A log that ends below has nothing left: it becomes empty, and goes on at the offset.

        Args:
            offset: one that is not above the present log start offset changes nothing.
        """
        self._check_usable()
        if offset > self.log_end_offset:
            self._settle()
            self._is_broken = True
            self._forget_producers()
            changes = Changes(self.directory)
            why = f"the log starts at offset {offset}, behind its end"
            for segment in reversed(segments_in(self.directory)):
                changes.delete_segment(segment.base_offset, why)
            for kind in (file_names.LOG, file_names.INDEX, file_names.TIMEINDEX):
                changes.write(file_names.segment_file(offset, kind), b"", why)
            changes.apply()
            self._write_epochs([])
            self._reload()
        elif offset > self.log_start_offset:
            self._start_at(offset)

    def run(self, operation: RewriteOperation[PlanT, ReportT]) -> ReportT:
        """Compact, convert, erase or delete, as `brokerless.rewrite` does, and go on with the log.

        Args:
            operation: `Compact`, `Convert`, `Erase`, `Retain` or `TruncateTo`, with its options.

        Returns:
            The operation's report.

        Raises:
            ValueError: the operation refuses the log; the message says what would be lost.
            OffsetOutOfRangeError: it names an offset beyond the high watermark.
            CorruptRecordError: a segment is damaged; the log is as it was.

        >>> import brokerless as bl
        >>> with bl.Producer(NEW, "clicks") as producer:
        ...     producer.send([{"value": b"%d" % i} for i in range(5)])
        >>> with bl.open_log_dir(NEW) as log_dir:
        ...     log_dir.log("clicks", 0).run(bl.Retain(before_offset=3)).log_start_offset
        3
        """
        return perform(operation, self)

    def _reserve_producer_ids(self, batches: Buffer) -> None:
        highest = _native.highest_cluster_producer_id(batches)
        if highest is not None:
            self._reserve_producer_id(highest)

    def _request(self, origin: Origin, leader_epoch: int | None) -> dict[str, Any]:
        if leader_epoch is None:
            leader_epoch = _ANY_EPOCH if origin == "replication" else self._leader_epoch
        return {"origin": origin, "leader_epoch": leader_epoch, "now": self._now()}
