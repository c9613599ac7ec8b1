"""The files of the active segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.io import disk, storage
from brokerless.layout import file_names

if TYPE_CHECKING:
    from typing_extensions import Buffer

_INDEXES = (file_names.INDEX, file_names.TIMEINDEX, file_names.TXNINDEX)
# The maximum bytes of index entries that wait in memory. A crash may lose them, because recovery rebuilds the indexes.
_MAX_WAITING = 1 << 16


class ActiveSegment:
    """The `.log` and the indexes of one segment, open for writing.

    Args:
        directory: the partition's directory.
        base_offset: the segment's base offset.
        preallocate: the length to preallocate for a new `.log`; 0 for no preallocation. `finish` cuts off the unused
            part.

    Attributes:
        path: the `.log`.
        size: the size of its batches, in bytes.
    """

    def __init__(self, directory: str, base_offset: int, *, preallocate: int = 0) -> None:
        self.base_offset = base_offset
        self._directory = directory
        self._log = self._open(file_names.LOG)
        self.path = self._log.path
        self.size = self._log.size()
        self._is_preallocated = bool(preallocate) and self.size == 0
        if self._is_preallocated:
            self._log.truncate(preallocate)
        self._waiting = {kind: bytearray() for kind in _INDEXES}
        self._unsynced: set[int] = set()
        for kind in (file_names.INDEX, file_names.TIMEINDEX):
            with self._open(kind) as index:
                # Without batches, entries can only be the preallocated zeros in a copy of a running broker's file.
                if self.size == 0 and index.size():
                    index.truncate(0)
            self._unsynced.add(kind)

    def append(self, batches: Buffer, index: Buffer, timeindex: Buffer, txnindex: Buffer) -> None:
        """Append batches and their index entries."""
        length = memoryview(batches).nbytes
        self._log.write_at(self.size, batches)
        self.size += length
        for kind, entries in zip(_INDEXES, (index, timeindex, txnindex), strict=True):
            self._waiting[kind] += memoryview(entries)
        if sum(map(len, self._waiting.values())) > _MAX_WAITING:
            self._write_entries()

    def take(self, path: str, headers: Buffer, index: Buffer, timeindex: Buffer, txnindex: Buffer) -> None:
        """Replace the `.log`, which must not have batches yet, by a file of batches.

        Args:
            path: the file of batches, which is moved. Bytes after its batches are cut off.
            headers: the new headers of its batches.
            index: the entries of the offset index.
            timeindex: the entries of the time index.
            txnindex: the entries of the transaction index.
        """
        self._log.close()
        disk.rename(path, self.path)
        self._log = self._open(file_names.LOG)
        starts, end = _native.place_headers(headers)
        self._log.write_each(starts)
        self._log.truncate(end)
        self._is_preallocated = False
        self.size = end
        self.append(b"", index, timeindex, txnindex)

    def sync(self) -> None:
        """Make the content of the files durable. A sync of the directory makes their names durable."""
        self._log.sync()
        self._write_entries()
        for kind in sorted(self._unsynced):
            with self._open(kind) as file:
                file.sync()
        self._unsynced.clear()

    def finish(self, final_time_entry: Buffer = b"") -> None:
        """Add the last time index entry, cut off preallocated space, make the files durable, and close them."""
        if self._is_preallocated:
            self._log.truncate(self.size)
        self._waiting[file_names.TIMEINDEX] += memoryview(final_time_entry)
        self.sync()
        self.abandon()

    def abandon(self) -> None:
        """Close the files without a change."""
        self._log.close()

    def _write_entries(self) -> None:
        for kind, entries in self._waiting.items():
            if entries:
                with self._open(kind) as file:
                    file.append(bytes(entries))
                entries.clear()
                self._unsynced.add(kind)

    def _open(self, kind: int) -> disk.Output:
        path = f"{self._directory}/{file_names.segment_file(self.base_offset, kind)}"
        return disk.open_existing(path) if storage.exists(path) else disk.create(path)
