"""`OpenLog`: what a `LogWriter` works with: the appender that decides, the files that it is put into.

Between a decision and the last byte of it in the files the log counts as broken: what fails in between leaves an
appender that is ahead of the files, and only opening the directory again tells what these hold.
"""

from __future__ import annotations

import os
import time
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from brokerless import _native
from brokerless.append.active_segment import ActiveSegment
from brokerless.errors import AppendError, located
from brokerless.io import disk, storage
from brokerless.io.file_window import batch_at
from brokerless.layout import checkpoints, file_names
from brokerless.layout.replication import SOLE
from brokerless.log.segment import segments_in
from brokerless.recovery.directory_plan import Changes
from brokerless.recovery.loader import load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    from brokerless.layout.replication import Replication
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.recovery.load_result import Loaded

_T = TypeVar("_T")

# The settings that are not about what an append does.
_OURS = {
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

# What is decided on, and written, at a time: what the processor's cache still holds when it is written.
_PIECE = 1 << 20


def now_ms() -> int:
    """Tell the time, ms since the epoch."""
    return time.time_ns() // 1_000_000


class OpenLog:
    """The files of a partition that is open for writing, and the appender that decides what goes into them.

    Attributes:
        directory: the partition's.
        config: the topic's.
        recovery_point: what is below is durable.
        first_segment_base_offset: of the oldest segment.
        is_tiered: older segments may be in remote storage: what is below the first segment is not for us to drop.
        is_closed: it was closed, completely.
        replication: what is known of other replicas.
    """

    recovery_point: int
    first_segment_base_offset: int
    is_closed: bool
    replication: Replication = SOLE
    _active: ActiveSegment
    _appender: _native.Appender
    _is_broken: bool
    # Whether the last batch ends below the log end offset: a batch was dropped that the log had been cut in.
    _is_cut_short: bool

    def __init__(
        self, directory: str, config: TopicConfig, loaded: Loaded, leader_epoch: int, now: Callable[[], int]
    ) -> None:
        self.directory = directory
        self.config = config
        self._leader_epoch = leader_epoch
        self._now = now
        self._process = os.getpid()
        self.is_tiered = loaded.is_tiered(config)
        self._resume(loaded)

    @property
    def is_broken(self) -> bool:
        """Whether a change failed halfway: what the files hold is known only when they are loaded again."""
        return self._is_broken

    @property
    def leader_epoch(self) -> int:
        """What appended batches are stamped with."""
        return self._leader_epoch

    @property
    def log_start_offset(self) -> int:
        """The first offset that counts."""
        return self._appender.log_start_offset

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that counts and is here: older ones may be in remote storage."""
        return max(self.log_start_offset, self.first_segment_base_offset)

    @property
    def log_end_offset(self) -> int:
        """The next offset to be given."""
        return self._appender.log_end_offset

    @property
    def active_path(self) -> str:
        """The `.log` that is written to."""
        return self._active.path

    @property
    def active_size(self) -> int:
        """Bytes of batches in the segment that is written to."""
        return self._active.size

    @property
    def written_end_offset(self) -> int:
        """The log end offset, as far as the files have got: after an error, behind the last whole batch in them."""
        return segments_in(self.directory)[-1].extent().next_offset if self._is_broken else self.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Where the replicated part ends: at rest, the log end offset."""
        return self._appender.high_watermark

    @property
    def replicated_end(self) -> int:
        """Where the part ends that other replicas have, too; the log end offset if there are none."""
        return self.replication.replicated_end(self.log_end_offset)

    @property
    def last_stable_offset(self) -> int:
        """Where `read_committed` ends."""
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
            # What went wrong first says more, and all where it is what broke the log.
            if not self._is_broken:
                error.add_note(f"{self.directory} is left to be recovered: {closing}")

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
        self._settle()
        self.is_closed = True

    def flush(self) -> None:
        """Make everything appended so far durable."""
        self._check_usable()
        # The system reports what it could not write once: a second fsync would say that all is well.
        self._is_broken = True
        self._active.sync()
        disk.sync_directory(self.directory)
        self._is_broken = False
        self.recovery_point = self.log_end_offset

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
            segment=self._segment_state(base_offset, loaded.max_timestamp),
            producers=loaded.producers,
            leader_epochs=loaded.leader_epochs,
            log_start_offset=loaded.log_start_offset,
            log_end_offset=loaded.log_end_offset,
            **{
                field.name: getattr(self.config, field.name) for field in fields(self.config) if field.name not in _OURS
            },
        )
        self.is_closed = self._is_broken = self._is_cut_short = False

    def _segment_state(self, base_offset: int, max_timestamp: tuple[int, int] | None) -> _native.SegmentState:
        def content(kind: int) -> bytes | None:
            path = f"{self.directory}/{file_names.segment_file(base_offset, kind)}"
            return storage.read_all(path) if storage.exists(path) else None

        path = f"{self.directory}/{file_names.segment_file(base_offset, file_names.LOG)}"
        with storage.File(path) as file, located(path):
            first = batch_at(file, 0)
        return _native.SegmentState(
            base_offset,
            created_ms=self._now(),
            size=self._active.size,
            first_timestamp=None if first is None else first["max_timestamp"],
            index=content(file_names.INDEX),
            timeindex=content(file_names.TIMEINDEX),
            txnindex=content(file_names.TXNINDEX),
            max_timestamp=max_timestamp,
        )

    def _open_segment(self, base_offset: int) -> ActiveSegment:
        preallocate = self.config.segment_bytes if self.config.preallocate else 0
        return ActiveSegment(self.directory, base_offset, preallocate=preallocate)

    def _write(self, appended: _native.Appended, taken: str | None = None) -> _native.Appended:
        """Do what was decided; with `taken`, the batches are in that file."""
        if appended.has_new_epochs:
            self._write_epochs(self._appender.leader_epochs.entries())
        for write in appended.writes:
            if write.is_new:
                self._roll(write)
            add = self._active.append if taken is None else partial(self._active.take, taken)
            add(write.log, write.index, write.timeindex, write.txnindex)
            self._is_cut_short = False
        self._is_broken = False
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()
        return appended

    def _decide(self, change: Callable[[], _T]) -> _T:
        self._check_usable()
        # From here until the files have what the appender knows. An interrupt comes when the call is just over.
        self._is_broken = True
        try:
            return change()
        except Exception as error:
            # Refused, and nothing has changed; but for an answer that there was no memory for.
            self._is_broken = isinstance(error, MemoryError)
            self._named(error)
            raise

    def _named(self, error: Exception) -> Exception:
        """Let a refusal say which log it is of: whoever writes to many does not know."""
        if isinstance(error, AppendError):
            error.log = os.path.basename(self.directory)
        return error

    def _append_pieces(self, append: Callable[..., _native.Appended], data: memoryview) -> _native.Appended:
        """Decide on a piece, write it, go on with the next, up to one that is refused; return the answers as one."""
        whole: _native.Appended | None = None
        start, length = 0, _PIECE
        while True:
            piece = self._write(self._decide(partial(append, data[start : start + length], position=start)))
            whole = piece if whole is None else whole.followed_by(piece)
            if piece.error is not None or start + length >= len(data):
                return whole
            start += piece.consumed
            # A batch may be longer than a piece.
            length = _PIECE if piece.consumed else 2 * length

    def _roll(self, write: _native.SegmentWrite) -> None:
        self._active.finish(write.final_time_entry)
        if write.snapshot is not None:
            self._snapshot(write.base_offset, write.snapshot)
        self._active = self._open_segment(write.base_offset)
        disk.sync_directory(self.directory)
        self.recovery_point = write.base_offset

    def _settle(self) -> None:
        """Leave the files as a clean shutdown does."""
        self._check_usable()
        if self._is_cut_short:
            # Whoever opens the log finds its end by the last batch, or by the name of a segment without any.
            self._write(self._decide(partial(self._appender.roll, self._now())))
        self._is_broken = True
        closing = self._appender.close()
        self._active.finish(closing.final_time_entry)
        if closing.snapshot is not None:
            self._snapshot(self.log_end_offset, closing.snapshot)
        disk.sync_directory(self.directory)
        self.recovery_point = self.log_end_offset
        self._is_broken = False

    def _reload(self) -> None:
        """Go on from files that were settled, and changed since."""
        loaded = load(
            self.directory,
            self.config,
            is_clean=True,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start_offset,
            now=self._now(),
        )
        loaded.changes.apply()
        self._resume(loaded)

    def _start_at(self, offset: int) -> None:
        batch = None
        for segment in segments_in(self.directory):
            if segment.base_offset <= offset and (segment.is_last or offset < (segment.next_base_offset or 0)):
                with segment.open() as file:
                    batch = segment.batch_of(file, offset)
        snapshots = file_names.snapshot_offsets(storage.list_directory(self.directory))
        batch_base_offset = None if batch is None else batch["base_offset"]
        change = partial(self._appender.set_log_start_offset, offset, batch_base_offset, max(snapshots, default=None))
        if self._decide(change):
            self._write_epochs(self._appender.leader_epochs.entries())
        self._is_broken = False

    def _forget_producers(self) -> None:
        changes = Changes(self.directory)
        for name in changes.names():
            if name.endswith(".snapshot"):
                changes.remove(name, "the log holds no producer's batches")
        changes.apply()

    def _snapshot(self, offset: int, content: Buffer) -> None:
        path = f"{self.directory}/{file_names.segment_file(offset, file_names.SNAPSHOT)}"
        disk.atomic_write(path, bytes(content))

    def _write_epochs(self, entries: Sequence[tuple[int, int]]) -> None:
        disk.atomic_write(f"{self.directory}/{checkpoints.LEADER_EPOCHS}", checkpoints.format_leader_epochs(entries))
