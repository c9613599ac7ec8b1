"""The read half of storage access: listings, sizes, times and range reads, of local files and of stores by URL.

Paths and URLs are `str`; `remote` implements URLs. Local files are read into the caller's buffer and never mapped: a
running broker truncates files, and a process that has mapped a truncated file is killed.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self, TypeVar

from brokerless import _native
from brokerless.errors import CorruptRecordError, is_disk_error, read_error
from brokerless.io import remote
from brokerless.io.remote import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")
# Preallocated index files hold a few entries, followed by up to 10 MiB of zeros. A block is a multiple of the sizes of
# an entry: 8 bytes in offset indexes, 12 in time indexes.
_BLOCK = 3 << 15
_ZEROS = bytes(_BLOCK)
# The limit for files that are read as a whole. In logs that a broker wrote, they are small: an index has 10 MiB by
# default. A hostile file must not make a read allocate any more.
_MAX_WHOLE = 64 << 20
# The errors that mean that something else is in the place of a file, not that the file may not be read.
_OBSTRUCTED = (errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO)

# A disk that cannot read a byte loses at least one such block; the file system reads no smaller ones.
_DISK_BLOCK = 1 << 12
_SEGMENT = re.compile(r"\.log(\.\w+)?$")
_BRIDGED: ContextVar[_Unreadable | None] = ContextVar("brokerless.storage.bridged", default=None)


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
        CorruptRecordError: a directory, a device or a circular link is in the place of the file, or the disk cannot
            read it.
        OSError: the file cannot be read, or is larger than 64 MiB.
    """
    try:
        with File(path) as file:
            return file.read(0, _bounded(file))
    except OSError as error:
        if error.errno in _OBSTRUCTED:
            raise CorruptRecordError(f"cannot be read as a file: {error.strerror}", path=path) from error
        if is_disk_error(error):
            raise CorruptRecordError(f"cannot be read: {error.strerror}", path=path) from error
        raise


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
        self._file = remote.Object(path) if is_remote(path) else _local(path)

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
        """The file as the core reads it; None for a file that only `read_into` reads."""
        return self._file.local if type(self._file) is _Local else None

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
    __slots__ = ("_file", "_path", "local")

    def __init__(self, path: str) -> None:
        self._path = path
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
            try:
                count = self._file.readinto(buffer[filled:])
            except OSError as error:
                raise read_error(error.errno, self._path, position + filled) from error
            if not count:
                break
            filled += count
        return filled


def _local(path: str) -> _Local:
    unreadable = _BRIDGED.get()
    if unreadable is None or not (unreadable.every or _SEGMENT.search(path)):
        return _Local(path)
    return _Bridged(path, unreadable)


class _Unreadable:
    """The blocks of files that the disk could not read. `every`: files of all kinds are bridged, not only segments."""

    def __init__(self, *, every: bool) -> None:
        self.every = every
        self._blocks: dict[str, dict[int, int]] = {}

    def add(self, path: str, block: int, size: int) -> None:
        """Add a block of a file, by its number. The last block ends with the file, which has `size` bytes."""
        self._blocks.setdefault(path, {})[block] = min((block + 1) * _DISK_BLOCK, size)

    def has(self, path: str, block: int) -> bool:
        """Return whether the disk could not read a block of a file."""
        return block in self._blocks.get(path, ())

    def ranges(self, path: str) -> list[tuple[int, int]]:
        """Return the ranges of bytes of a file that the disk could not read, ascending."""
        found: list[tuple[int, int]] = []
        for block, end in sorted(self._blocks.get(path, {}).items()):
            start = block * _DISK_BLOCK
            found.append((found.pop()[0] if found and found[-1][1] == start else start, end))
        return found


@contextlib.contextmanager
def bridged(*, every: bool = False) -> Iterator[None]:
    """In the `with` block, read bytes of a `.log` that the disk cannot read as 0xff, and record where they are.

    No batch has such a header. Only checksums show that such bytes are in the body of a batch, so the block must verify
    them. It must not contain `yield`.

    Args:
        every: bridge such bytes in every `File`; otherwise, they are errors in files that are no `.log`.
    """
    token = _BRIDGED.set(_Unreadable(every=every))
    try:
        yield
    finally:
        _BRIDGED.reset(token)


def unreadable_ranges(path: str) -> list[tuple[int, int]]:
    """Return the ranges of bytes of a `.log` that the disk could not read so far, in the `bridged` block around."""
    unreadable = _BRIDGED.get()
    return [] if unreadable is None else unreadable.ranges(path)


def despite_disk_errors(call: Callable[..., _T], *arguments: object) -> _T:
    """Call a function; if the disk cannot read bytes, call it again, with `bridged`. Sound disks are read faster so."""
    try:
        return call(*arguments)
    except OSError as error:
        if not is_disk_error(error):
            raise
    with bridged():
        return call(*arguments)


class _Bridged(_Local):
    """A local file whose unreadable blocks are 0xff."""

    __slots__ = ("_unreadable",)

    def __init__(self, path: str, unreadable: _Unreadable) -> None:
        super().__init__(path)
        self._unreadable = unreadable

    def read_into(self, position: int, buffer: memoryview) -> int:
        try:
            return super().read_into(position, buffer)
        except OSError as error:
            if not is_disk_error(error):
                raise
        # Block by block, each read from the disk once: a damaged disk may take seconds for each attempt.
        end, filled = min(position + len(buffer), self.size()), 0
        while (at := position + filled) < end:
            length = min(end, (at // _DISK_BLOCK + 1) * _DISK_BLOCK) - at
            count = self._block_into(at, buffer[filled : filled + length])
            filled += count
            if count < length:  # truncated during the read
                break
        return filled

    def _block_into(self, position: int, buffer: memoryview) -> int:
        block = position // _DISK_BLOCK
        if not self._unreadable.has(self._path, block):
            try:
                return super().read_into(position, buffer)
            except OSError as error:
                if not is_disk_error(error):
                    raise
                self._unreadable.add(self._path, block, self.size())
        buffer[:] = b"\xff" * len(buffer)
        return len(buffer)
