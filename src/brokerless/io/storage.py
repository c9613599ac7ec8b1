"""The one seam to storage: list a directory, a file's size and time, read a range. Local files, or a store by its URL.

Paths and URLs are `str`; `remote` has what is behind the latter. Local files are read into the caller's buffer, never
mapped: a file that is truncated under a mapping kills the process, and a running broker truncates.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import Self

from brokerless.io import remote
from brokerless.io.remote import is_remote

# Preallocated index files are 10 MiB of zeros behind a few entries.
_BLOCK = 1 << 16
_ZEROS = bytes(_BLOCK)
# What is read as a whole is small in any log that a broker wrote (an index has 10 MiB unless configured otherwise); a
# hostile one must not make us take its size.
_MAX_WHOLE = 64 << 20


def absolute(path: str) -> str:
    """Return a path that does not depend on the working directory; a URL in its one form."""
    return remote.absolute(path) if is_remote(path) else os.path.abspath(path)


def list_directory(path: str) -> list[str]:
    """Return the names in a directory, in no order.

    Raises:
        OSError: it does not exist, is no directory, or may not be read.
    """
    return list(remote.list_directory(path)) if is_remote(path) else os.listdir(path)


def list_subdirectories(path: str) -> list[str]:
    """Return the names of the directories in a directory, sorted. A store is not asked again."""
    if is_remote(path):
        return sorted(name for name, is_prefix in remote.list_directory(path, is_fresh=False).items() if is_prefix)
    with os.scandir(path) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir())


def subdirectory_ids(path: str) -> frozenset[tuple[str, int]]:
    """Return what tells the directories in a local one from others of the same names: each name and inode."""
    with os.scandir(path) as entries:
        return frozenset((entry.name, entry.inode()) for entry in entries if entry.is_dir())


def is_directory(path: str) -> bool:
    """Tell whether `path` is a directory."""
    return remote.is_directory(path) if is_remote(path) else os.path.isdir(path)


def is_file(path: str) -> bool:
    """Tell whether `path` is a regular file, or a link that leads to one; of what is there in a store: no directory."""
    return not remote.is_directory(path) if is_remote(path) else os.path.isfile(path)


def link_target(path: str) -> str | None:
    """Return where `path` leads in the end if it is a symbolic link; None: it is none."""
    return os.path.realpath(path) if is_link(path) else None


def exists(path: str) -> bool:
    """Tell whether there is something at `path`."""
    return remote.exists(path) if is_remote(path) else os.path.exists(path)


def size(path: str) -> int:
    """Return a file's length in bytes."""
    return remote.size(path) if is_remote(path) else os.stat(path).st_size


def modified(path: str) -> int:
    """Return a file's modification time, in ms since the epoch."""
    return modified_ns(path) // 1_000_000


def modified_ns(path: str) -> int:
    """Return a file's modification time, or that of a local directory, in ns since the epoch."""
    return remote.modified_ns(path) if is_remote(path) else os.stat(path).st_mtime_ns


def is_link(path: str) -> bool:
    """Tell whether `path` is a symbolic link; stores have none."""
    return not is_remote(path) and os.path.islink(path)


def read_all(path: str) -> bytes:
    """Return a small file's content.

    Raises:
        OSError: it cannot be read, is no regular file, or is beyond 64 MiB.
    """
    with File(path) as file:
        return file.read(0, _bounded(file))


def read_until_zeros(path: str) -> bytes:
    """Return a file's content up to its first 64 KiB block that is all zeros: a preallocated tail is not read."""
    content = bytearray()
    with File(path) as file:
        _bounded(file)
        while block := file.read(len(content), _BLOCK):
            if block == _ZEROS[: len(block)]:
                break
            content += block
    return bytes(content)


def _bounded(file: File) -> int:
    length = file.size()
    if length > _MAX_WHOLE:
        what = f"too large to be read as a whole ({length} bytes, at most {_MAX_WHOLE})"
        raise OSError(errno.EFBIG, what, file.path)
    return length


def open_regular(path: str) -> io.FileIO:
    """Open a regular file to read it, and nothing else: a named pipe would be waited for, a device has no end.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    file = io.FileIO(path, opener=_open_without_waiting)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", path)
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    # Of a regular file the flag changes nothing; Windows has neither it nor named pipes in directories.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class File:
    """One open file. Not shared between threads.

    >>> with File(__file__) as file:
    ...     file.read(0, 3)
    b'\"\"\"'
    """

    __slots__ = ("_file", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = remote.Object(path) if is_remote(path) else _Local(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; a second time is harmless."""
        self._file.close()

    def size(self) -> int:
        """Return its length in bytes, now; of a store's object, when it was opened."""
        return self._file.size()

    def fileno(self) -> int:
        """Return the descriptor: to copy from, not to read."""
        return self._file.fileno()

    def modified_ns(self) -> int:
        """Return its modification time, in ns since the epoch."""
        return self._file.modified_ns()

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position` on and return how many bytes there were: fewer only at the end of the file."""
        return self._file.read_into(position, buffer)

    def read(self, position: int, length: int) -> bytes:
        """Return at most `length` bytes from `position` on."""
        buffer = bytearray(length)
        count = self.read_into(position, memoryview(buffer))
        return bytes(memoryview(buffer)[:count])


class _Local:
    __slots__ = ("_file",)

    def __init__(self, path: str) -> None:
        self._file = open_regular(path)

    def close(self) -> None:
        self._file.close()

    def fileno(self) -> int:
        return self._file.fileno()

    def size(self) -> int:
        return os.fstat(self.fileno()).st_size

    def modified_ns(self) -> int:
        return os.fstat(self.fileno()).st_mtime_ns

    def read_into(self, position: int, buffer: memoryview) -> int:
        self._file.seek(position)
        filled = 0
        while filled < len(buffer):
            count = self._file.readinto(buffer[filled:])
            if not count:
                break
            filled += count
        return filled
