"""`LogWriter`: one partition's log being written, as its leader or a follower would.

Everything that is decided about an append (offsets, duplicates, rolls, index entries) is decided by
`_native.Appender`; here it is put into files. Between opening and a complete `close` the files are those of a running
broker: only a log directory without its clean-shutdown marker may hold them, so that after a kill they are recovered.
"""

from __future__ import annotations

import os
import time
from dataclasses import fields
from typing import TYPE_CHECKING, Self

from brokerless import _native, disk, storage
from brokerless.errors import CorruptRecordError, located
from brokerless.log import files, texts
from brokerless.log.active import ActiveSegment
from brokerless.log.load import load
from brokerless.log.truncate import truncate
from brokerless.log.window import batch_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Literal

    from typing_extensions import Buffer

    from brokerless.log.load import Loaded
    from brokerless.log.settings import TopicSettings

    Origin = Literal["client", "coordinator", "replication"]


# No batch has a later one.
_ANY_EPOCH = (1 << 31) - 1
# The settings that are not about what an append does.
_OURS = {"retention_ms", "retention_bytes", "preallocate", "flush_messages"}


def _now() -> int:
    return time.time_ns() // 1_000_000


class LogWriter:
    """One partition directory, open for writing. Made by `open`; not shared between threads.

    Attributes:
        directory: the partition's.
        recovery_point: what is below is durable.
        first_segment_base_offset: of the oldest segment.
        recovery: what opening it changed, a line each.
        is_closed: it was closed, completely.
        truncated_segment: the lowest base offset of a segment that truncation made the last one; None: there was none.
    """

    recovery: list[str]
    recovery_point: int
    first_segment_base_offset: int
    _active: ActiveSegment
    _appender: _native.Appender
    is_closed: bool
    _is_broken: bool

    def __init__(
        self, directory: str, settings: TopicSettings, loaded: Loaded, leader_epoch: int, now: Callable[[], int]
    ) -> None:
        self.directory = directory
        self._settings = settings
        self._leader_epoch = leader_epoch
        self._now = now
        self._process = os.getpid()
        self.truncated_segment: int | None = None
        self._resume(loaded)

    @classmethod
    def open(
        cls,
        directory: str,
        *,
        settings: TopicSettings,
        is_clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        leader_epoch: int | None = None,
        now: Callable[[], int] = _now,
    ) -> Self:
        """Open a partition directory, which is recovered first unless it was left clean.

        Args:
            directory: it exists; an empty one becomes an empty log.
            settings: the topic's.
            is_clean: the log directory had its clean-shutdown marker.
            recovery_point: as checkpointed.
            log_start_offset: as checkpointed.
            leader_epoch: what appended batches are stamped with; None: the last one known, 0 if none is.
            now: tells the time, ms since the epoch.

        Raises:
            CorruptRecordError: a broker would not start on it, or would lose data silently.
        """
        loaded = load(
            directory,
            settings,
            is_clean=is_clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now=now(),
        )
        if loaded.losses:
            losses = "; ".join(dict.fromkeys(loaded.losses))
            # Without the marker this is what recovering it comes to.
            cure = "; `brokerless recover` on the log directory brings it in order" if is_clean else ""
            raise CorruptRecordError(f"a broker would lose data here without a word: {losses}{cure}", path=directory)
        steps = [str(step) for step in loaded.changes.steps]
        loaded.changes.apply()
        known = loaded.leader_epochs.entries()
        epoch = leader_epoch if leader_epoch is not None else known[-1][0] if known else 0
        writer = cls(directory, settings, loaded, epoch, now)
        writer.recovery = steps
        return writer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def log_start_offset(self) -> int:
        """The first offset that counts."""
        return self._appender.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The next offset to be given."""
        return self._appender.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Where the replicated part ends: at rest, the log end offset."""
        return self._appender.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Where `read_committed` ends."""
        return self._appender.last_stable_offset

    def append(
        self, batches: Buffer, *, origin: Origin = "client", leader_epoch: int | None = None
    ) -> _native.Appended:
        """Append one produce request, as a broker does. It is durable after `flush` or `close`.

        Args:
            batches: whole batches: one of magic 2 from a client, any number from a leader ("replication").
            origin: who sends: "client", the transaction "coordinator", or "replication", which gives the offsets.
            leader_epoch: what the batches are stamped with, if not that of the log; of "replication" as in
                `append_as_follower`.

        Returns:
            The offsets given, or those given before if it is a duplicate.

        Raises:
            AppendError: the leaf for Kafka's own answer. The log is as it was.
            CorruptRecordError: the bytes are not whole, sound batches.
        """
        return self._append(self._appender.append, batches, origin, leader_epoch)

    def append_as_follower(self, batches: Buffer, *, leader_epoch: int | None = None) -> _native.Appended:
        """Append batches with the offsets they have, as a follower takes them over from its leader: to restore a log.

        Args:
            batches: any number, in the order of their offsets, none below the log end offset. Gaps stay.
            leader_epoch: the leader's; batches of a later epoch, and all behind them, are left out. All are taken
                unless it is given.

        Raises:
            UnexpectedAppendOffsetError: the first offset is below the log end offset.
            OffsetsOutOfOrderError: the offsets do not ascend.
        """
        return self.append(batches, origin="replication", leader_epoch=leader_epoch)

    def append_each(
        self, batches: Buffer, *, origin: Origin = "client", leader_epoch: int | None = None
    ) -> _native.Appended:
        """Append many ready batches, each a produce request of its own, up to the first that is refused.

        Args:
            batches: some megabytes of them: they are in memory a second time until they are written. A cut one at the
                end is left for the next call.
            origin: as of `append`.
            leader_epoch: likewise.

        Returns:
            As of `append`, first and last of all; `consumed` is how many bytes were taken.

        Raises:
            AppendError: a batch was refused; those before it are in the log.
        """
        appended = self._append(self._appender.append_each, batches, origin, leader_epoch)
        if appended.error is not None:
            raise appended.error
        return appended

    def roll(self) -> None:
        """Begin a new segment: appends do so by themselves where the settings say."""
        self._check_usable()
        self._write(self._appender.roll(self._now()))

    def flush(self) -> None:
        """Make everything appended so far durable."""
        self._check_usable()
        # The system reports what it could not write once: a second fsync would say that all is well.
        self._is_broken = True
        self._active.sync()
        disk.sync_directory(self.directory)
        self._is_broken = False
        self.recovery_point = self.log_end_offset

    def truncate_to(self, offset: int) -> None:
        """Drop everything from an offset on, as a follower does that had more than its leader.

        A batch that the offset lies in goes as a whole; the next append starts at `offset` all the same.
        """
        self.flush()
        if offset < 0:
            raise ValueError(f"cannot truncate to {offset}: an offset is 0 or more")
        if offset < self.log_end_offset:
            self._is_broken = True
            self._active.finish()
            loaded = truncate(
                self.directory,
                self._settings,
                offset,
                log_start_offset=self.log_start_offset,
                recovery_point=self.recovery_point,
                now=self._now(),
            )
            loaded.changes.apply()
            self._resume(loaded)
            last = loaded.base_offsets[-1]
            self.truncated_segment = last if self.truncated_segment is None else min(last, self.truncated_segment)

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

    def close(self) -> None:
        """Leave what a clean shutdown leaves: full indexes, a producer snapshot at the end, all of it durable.

        A second time is harmless, and so is a process that was forked from the one that opened it.

        Raises:
            ValueError: an earlier change failed, and with it what the files hold is not known.
        """
        if self.is_closed or os.getpid() != self._process:
            return
        if self._is_broken:
            self._active.abandon()
        self._check_usable()
        self._is_broken = True
        closing = self._appender.close()
        self._active.finish(closing.final_time_entry)
        if closing.snapshot is not None:
            self._snapshot(self.log_end_offset, closing.snapshot)
        disk.sync_directory(self.directory)
        self.recovery_point = self.log_end_offset
        self.is_closed, self._is_broken = True, False

    def _append(
        self, append: Callable[..., _native.Appended], batches: Buffer, origin: Origin, leader_epoch: int | None
    ) -> _native.Appended:
        self._check_usable()
        if leader_epoch is None:
            leader_epoch = _ANY_EPOCH if origin == "replication" else self._leader_epoch
        # From here until the files have what the appender knows. An interrupt comes when the call is just over.
        self._is_broken = True
        try:
            appended = append(batches, origin=origin, leader_epoch=leader_epoch, now=self._now())
        except Exception as error:
            # Refused, and nothing has changed; but for an answer that there was no memory for.
            self._is_broken = isinstance(error, MemoryError)
            raise
        return self._write(appended)

    def _check_usable(self) -> None:
        if os.getpid() != self._process:
            raise ValueError(f"log {self.directory} is open in process {self._process}, not in this one")
        if self.is_closed or self._is_broken:
            state = "closed" if self.is_closed else "broken by an earlier error: open its directory again to recover"
            raise ValueError(f"log {self.directory} is {state}")

    def _resume(self, loaded: Loaded) -> None:
        """Go on from what the files now hold."""
        self.first_segment_base_offset = loaded.base_offsets[0]
        self.recovery_point = loaded.recovery_point
        base_offset = loaded.base_offsets[-1]
        self._active = self._open_segment(base_offset)
        self._appender = _native.Appender(
            segment=self._segment_state(base_offset),
            producers=loaded.producers,
            leader_epochs=loaded.leader_epochs,
            log_start_offset=loaded.log_start_offset,
            log_end_offset=loaded.log_end_offset,
            **{
                field.name: getattr(self._settings, field.name)
                for field in fields(self._settings)
                if field.name not in _OURS
            },
        )
        self.is_closed = self._is_broken = False

    def _segment_state(self, base_offset: int) -> _native.SegmentState:
        def content(kind: int) -> bytes | None:
            path = f"{self.directory}/{files.segment_file(base_offset, kind)}"
            return storage.read_all(path) if storage.exists(path) else None

        path = f"{self.directory}/{files.segment_file(base_offset, files.LOG)}"
        with storage.File(path) as file, located(path):
            first = batch_at(file, 0)
        return _native.SegmentState(
            base_offset,
            created_ms=self._now(),
            size=self._active.size,
            first_timestamp=None if first is None else first["max_timestamp"],
            index=content(files.INDEX),
            timeindex=content(files.TIMEINDEX),
            txnindex=content(files.TXNINDEX),
        )

    def _open_segment(self, base_offset: int) -> ActiveSegment:
        preallocate = self._settings.segment_bytes if self._settings.preallocate else 0
        return ActiveSegment(self.directory, base_offset, preallocate=preallocate)

    def _write(self, appended: _native.Appended) -> _native.Appended:
        if appended.has_new_epochs:
            self._write_epochs()
        for write in appended.writes:
            if write.is_new:
                self._roll(write)
            self._active.append(write.log, write.index, write.timeindex, write.txnindex)
        self._is_broken = False
        if self.log_end_offset - self.recovery_point >= self._settings.flush_messages:
            self.flush()
        return appended

    def _roll(self, write: _native.SegmentWrite) -> None:
        self._active.finish(write.final_time_entry)
        if write.snapshot is not None:
            self._snapshot(write.base_offset, write.snapshot)
        self._active = self._open_segment(write.base_offset)
        disk.sync_directory(self.directory)
        self.recovery_point = write.base_offset

    def _snapshot(self, offset: int, content: Buffer) -> None:
        path = f"{self.directory}/{files.segment_file(offset, files.SNAPSHOT)}"
        disk.atomic_write(path, bytes(content))

    def _write_epochs(self) -> None:
        entries = self._appender.leader_epochs.entries()
        disk.atomic_write(f"{self.directory}/{texts.LEADER_EPOCHS}", texts.format_leader_epochs(entries))
