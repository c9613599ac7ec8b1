"""The files of a partition that is open for writing. `LogWriter` decides their content."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.append.active_segment import ActiveSegment
from brokerless.errors import located
from brokerless.io import disk, storage
from brokerless.io.file_window import batch_at
from brokerless.layout import checkpoints, file_names
from brokerless.recovery.file_changes import Changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from brokerless.layout.topic_config import TopicConfig
    from brokerless.recovery.load_result import Loaded


class SegmentFiles:
    """The segments, producer snapshots and leader epochs of a partition that is open for writing.

    Args:
        directory: the partition's directory.
        config: the topic's settings.
        loaded: the result of loading the log.

    Attributes:
        first_segment_base_offset: the base offset of the oldest segment.
        recovery_point: the offset below which everything is durable.
    """

    def __init__(self, directory: str, config: TopicConfig, loaded: Loaded) -> None:
        self._directory = directory
        self._preallocate = config.segment_bytes if config.preallocate else 0
        self.first_segment_base_offset = loaded.base_offsets[0]
        self.recovery_point = loaded.recovery_point
        self._active = self._open_segment(loaded.base_offsets[-1])

    @property
    def active_path(self) -> str:
        """The `.log` of the active segment."""
        return self._active.path

    @property
    def active_size(self) -> int:
        """The size of the batches in the active segment, in bytes."""
        return self._active.size

    def active_state(self, created_ms: int, max_timestamp: tuple[int, int] | None) -> _native.SegmentState:
        """Return the active segment in the form from which an appender continues.

        Args:
            created_ms: the time at which the segment was opened, in ms since the epoch.
            max_timestamp: see `Loaded.max_timestamp`.
        """
        base_offset = self._active.base_offset

        def content(kind: int) -> bytes | None:
            path = self._path(base_offset, kind)
            return storage.read_all(path) if storage.exists(path) else None

        with storage.File(self.active_path) as file, located(self.active_path):
            first = batch_at(file, 0)
        return _native.SegmentState(
            base_offset,
            created_ms=created_ms,
            size=self._active.size,
            first_timestamp=None if first is None else first["max_timestamp"],
            index=content(file_names.INDEX),
            timeindex=content(file_names.TIMEINDEX),
            txnindex=content(file_names.TXNINDEX),
            max_timestamp=max_timestamp,
        )

    def write(self, write: _native.SegmentWrite, moved_from: str | None = None) -> None:
        """Write the bytes that an appender decided for one segment, which may be a new one.

        Args:
            write: the batches and the index entries.
            moved_from: the file that holds the batches and becomes the `.log`. `write` then has only their headers.
        """
        if write.is_new:
            self._roll(write)
        put = self._active.append if moved_from is None else partial(self._active.take, moved_from)
        put(write.log, write.index, write.timeindex, write.txnindex)

    def sync(self, log_end_offset: int) -> None:
        """Make everything up to the log end offset durable."""
        self._active.sync()
        disk.sync_directory(self._directory)
        self.recovery_point = log_end_offset

    def finish(self, closing: _native.Closing, log_end_offset: int) -> None:
        """Complete the files as a clean shutdown does, and close them."""
        self.finish_active(closing.final_time_entry)
        if closing.snapshot is not None:
            self._write_snapshot(log_end_offset, closing.snapshot)
        disk.sync_directory(self._directory)
        self.recovery_point = log_end_offset

    def finish_active(self, final_time_entry: Buffer = b"") -> None:
        """Complete the active segment alone, and close it."""
        self._active.finish(final_time_entry)

    def abandon(self) -> None:
        """Close the files without a change."""
        self._active.abandon()

    def write_leader_epochs(self, entries: Sequence[tuple[int, int]]) -> None:
        """Replace the checkpoint of leader epochs."""
        disk.atomic_write(f"{self._directory}/{checkpoints.LEADER_EPOCHS}", checkpoints.format_leader_epochs(entries))

    def remove_producer_snapshots(self) -> None:
        """Remove all producer snapshots."""
        changes = Changes(self._directory)
        for name in changes.names():
            if name.endswith(".snapshot"):
                changes.remove(name, "the log holds no producer's batches")
        changes.apply()

    def remove_segment(self, changes: Changes, base_offset: int, following: int) -> None:
        """Remove the oldest segment.

        Args:
            changes: a view of the partition's directory. Callers reuse it for many segments, because a new one lists
                all files.
            base_offset: the base offset of the segment.
            following: the base offset of the next segment.
        """
        changes.delete_segment(base_offset, f"below {following}, where the log starts now")
        changes.apply()
        self.first_segment_base_offset = following

    def restart_at(self, base_offsets: Sequence[int], offset: int) -> None:
        """Replace all segments by an empty one.

        Args:
            base_offsets: the base offsets of all segments, ascending.
            offset: the base offset of the new segment, beyond all others.
        """
        changes = Changes(self._directory)
        why = f"the log starts at offset {offset}, beyond its end"
        for base_offset in reversed(base_offsets):
            changes.delete_segment(base_offset, why)
        for kind in (file_names.LOG, file_names.INDEX, file_names.TIMEINDEX):
            changes.write(file_names.segment_file(offset, kind), b"", why)
        changes.apply()

    def _roll(self, write: _native.SegmentWrite) -> None:
        self.finish_active(write.final_time_entry)
        if write.snapshot is not None:
            self._write_snapshot(write.base_offset, write.snapshot)
        self._active = self._open_segment(write.base_offset)
        disk.sync_directory(self._directory)
        self.recovery_point = write.base_offset

    def _open_segment(self, base_offset: int) -> ActiveSegment:
        return ActiveSegment(self._directory, base_offset, preallocate=self._preallocate)

    def _write_snapshot(self, offset: int, content: Buffer) -> None:
        disk.atomic_write(self._path(offset, file_names.SNAPSHOT), bytes(content))

    def _path(self, offset: int, kind: int) -> str:
        return f"{self._directory}/{file_names.segment_file(offset, kind)}"
