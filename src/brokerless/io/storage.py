"""The read half of storage access: listings, sizes, times and range reads, of local files and of stores by URL.

Paths and URLs are `str`; `remote` implements URLs. Local files are read into the caller's buffer and never mapped: a
running broker truncates files, and a process that has mapped a truncated file is killed.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from typing import Self

from brokerless import _native
from brokerless.errors import CorruptRecordError
from brokerless.io import remote
from brokerless.io.remote import is_remote

# Preallocated index files hold a few entries, followed by up to 10 MiB of zeros. A block is a multiple of the sizes of
# an entry: 8 bytes in offset indexes, 12 in time indexes.
_BLOCK = 3 << 15
_ZEROS = bytes(_BLOCK)
# The limit for files that are read as a whole. In logs that a broker wrote, they are small: an index has 10 MiB by
# default. A hostile file must not make a read allocate any more.
_MAX_WHOLE = 64 << 20
# The errors that mean that something else is in the place of a file, not that the file may not be read.
_OBSTRUCTED = (errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO)


def absolute(path: str) -> str:
    """Return an absolute path, or a URL in normal form."""
    return remote.absolute(path) if is_remote(path) else os.path.abspath(path)


def as_given(path: str, *given: str) -> str:
    """Return an absolute path so that it begins like one of the given paths, if it is inside of that one.

    >>> import os
    >>> as_given(os.path.abspath("data/orders-0"), "data/")
    'data/orders-0'
    """
    for one in given:
        start, around = one.rstrip("/") or "/", absolute(one)
        if start != around and (path == around or path.startswith(f"{around}/")):
            return start + path[len(around) :]
    return path


def list_directory(path: str) -> list[str]:
    """Return the names in a directory, in no order.

    Raises:
        OSError: `path` does not exist, is not a directory, or may not be read.
    """
    return list(remote.list_directory(path)) if is_remote(path) else os.listdir(path)


def list_subdirectories(path: str) -> list[str]:
    """Return the names of the directories in a directory, sorted. For an object store, use its last listing."""
    if is_remote(path):
        return sorted(name for name, is_prefix in remote.list_directory(path, is_fresh=False).items() if is_prefix)
    with os.scandir(path) as entries:
        return sorted(entry.name for entry in entries if _is_directory(entry))


def list_files(path: str) -> list[str]:
    """Return the names of the files in a directory, in no order. Directories and broken links are left out.

    Raises:
        OSError: as for `list_directory`.
    """
    return files_and_broken_links(path)[0]


def files_and_broken_links(path: str) -> tuple[list[str], list[str]]:
    """Return the names of the files in a directory, and the names of broken or circular links.

    Raises:
        OSError: as for `list_directory`.
    """
    if is_remote(path):
        return [name for name, is_prefix in remote.list_directory(path).items() if not is_prefix], []
    with os.scandir(path) as entries:
        files = [entry for entry in entries if not _is_directory(entry)]
    broken = {entry.name for entry in files if entry.is_symlink() and not os.path.exists(entry.path)}
    return [entry.name for entry in files if entry.name not in broken], sorted(broken)


def subdirectory_ids(path: str) -> frozenset[tuple[str, int]]:
    """Return the name and inode of each directory in a local directory, to detect replaced directories."""
    with os.scandir(path) as entries:
        return frozenset((entry.name, entry.inode()) for entry in entries if _is_directory(entry))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    # Only a circular link fails. As in Java, it is not a directory.
    with contextlib.suppress(OSError):
        return entry.is_dir()
    return False


def is_directory(path: str) -> bool:
    """Return whether `path` is a directory."""
    return remote.is_directory(path) if is_remote(path) else os.path.isdir(path)


def is_file(path: str) -> bool:
    """Return whether `path` is a regular file or a link to one; for a URL, whether it is an object."""
    return remote.exists(path) and not remote.is_directory(path) if is_remote(path) else os.path.isfile(path)


def link_target(path: str) -> str | None:
    """Return the final target of a symbolic link; None if `path` is not a link."""
    return os.path.realpath(path) if is_link(path) else None


def exists(path: str) -> bool:
    """Return whether `path` exists."""
    return remote.exists(path) if is_remote(path) else os.path.exists(path)


def is_broken_link(path: str) -> bool:
    """Return whether `path` is a symbolic link whose target does not exist, or a circular link."""
    return is_link(path) and not os.path.exists(path)


def is_link_loop(path: str) -> bool:
    """Return whether `path` is a circular symbolic link, through which no file can be created."""
    if is_broken_link(path):
        try:
            os.stat(path)
        except OSError as error:
            return error.errno == errno.ELOOP
    return False


def size(path: str) -> int:
    """Return a file's length in bytes."""
    return remote.size(path) if is_remote(path) else os.stat(path).st_size


def modified(path: str) -> int:
    """Return a file's modification time, in ms since the epoch."""
    return modified_ns(path) // 1_000_000


def modified_ns(path: str) -> int:
    """Return the modification time of a file or a local directory, in ns since the epoch."""
    return remote.modified_ns(path) if is_remote(path) else os.stat(path).st_mtime_ns


def is_link(path: str) -> bool:
    """Return whether `path` is a symbolic link. Object stores have no links."""
    return not is_remote(path) and os.path.islink(path)


def read_all(path: str) -> bytes:
    """Return a small file's content.

    Raises:
        CorruptRecordError: a directory, a device or a circular link is in the place of the file.
        OSError: the file cannot be read, or is larger than 64 MiB.
    """
    try:
        with File(path) as file:
            return file.read(0, _bounded(file))
    except OSError as error:
        if error.errno not in _OBSTRUCTED:
            raise
        raise CorruptRecordError(f"cannot be read as a file: {error.strerror}", path=path) from error


def check_no_link(path: str) -> None:
    """Refuse a link in the place of a file or directory that brokerless creates. A link could lead elsewhere.

    Raises:
        CorruptRecordError: `path` is a link.
    """
    if is_link(path):
        raise CorruptRecordError(
            "a link is in the place of a file or directory that brokerless creates: remove the link", path=path
        )


def read_own(path: str) -> bytes:
    """Return the content of a small file that brokerless writes itself.

    Raises:
        CorruptRecordError: `path` is a link.
        OSError: as for `read_all`.
    """
    check_no_link(path)
    return read_all(path)


def read_until_zeros(path: str) -> bytes:
    """Return a file's content up to its first 96 KiB block of zeros, without the preallocated tail."""
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
    """Open a file for reading if it is a regular file. For example, a named pipe would block, and a device has no end.

    Raises:
        OSError: the file cannot be opened, or is not a regular file.
    """
    file = io.FileIO(path, opener=_open_without_waiting)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", path)
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    # The flag changes nothing for regular files. Windows has neither the flag nor named pipes in directories.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class File:
    """A file open for reading: a local file or an object. Not safe to share between threads.

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
        """Close the file. Idempotent."""
        self._file.close()

    def size(self) -> int:
        """Return the current length in bytes; for an object, the length when it was opened."""
        return self._file.size()

    @property
    def local(self) -> _native.LocalFile | None:
        """The file as the core reads it; None for an object."""
        return self._file.local if isinstance(self._file, _Local) else None

    def fileno(self) -> int:
        """Return the file descriptor, as the source of a copy. Do not read from the descriptor."""
        return self._file.fileno()

    def modified_ns(self) -> int:
        """Return the modification time in ns since the epoch."""
        return self._file.modified_ns()

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position` on, and return the number of bytes read: fewer only at the end of the file."""
        return self._file.read_into(position, buffer)

    def read(self, position: int, length: int) -> bytes:
        """Return at most `length` bytes from `position` on."""
        buffer = bytearray(length)
        count = self.read_into(position, memoryview(buffer))
        return bytes(memoryview(buffer)[:count])


class _Local:
    __slots__ = ("_file", "local")

    def __init__(self, path: str) -> None:
        self.local: _native.LocalFile | None = _native.LocalFile(path)
        # `local` owns the descriptor, and may outlive this object in a reader of the core.
        self._file = io.FileIO(self.local.fileno(), closefd=False)

    def close(self) -> None:
        self._file.close()
        self.local = None

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
