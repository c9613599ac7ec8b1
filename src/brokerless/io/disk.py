"""The write half of the storage seam: every change that the package makes to a file system is made here.

`storage` reads, this writes, and nothing else touches files. So a test can put a disk that dies in its place, at any
call, and look at what a power failure would have left. Callers name the module (`disk.remove(path)`), never import
from it: what is replaced here is replaced everywhere. Paths are `str`.

Nothing is durable by itself. `Output.sync` makes a file's content so, `sync_directory` the names in a directory:
those that came, went or changed. `atomic_write` does both, in the order that leaves the old content or the new.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from brokerless.io import remote
from brokerless.io.remote import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO

    from typing_extensions import Buffer


# After so many bytes the system is asked to begin with them: a sync at the end then finds little left to do. By itself
# Linux waits for half a minute.
_EAGER = 16 << 20
# Files that are removed at a time.
_REMOVERS = 4


class Output:
    r"""One file open for writing (`create`, `open_existing`). Not shared between threads.

    Attributes:
        path: the file; the name it was opened by, if it is renamed meanwhile.

    >>> with create(NEW) as output:
    ...     output.append(b"0\n0\n")
    ...     output.sync()
    """

    __slots__ = ("_descriptor", "_waiting", "path")

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self._waiting = 0
        self._descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o644)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor: for locks, not for writing."""
        return self._descriptor

    def size(self) -> int:
        """Return the file's length in bytes, now."""
        return os.fstat(self._descriptor).st_size

    def append(self, content: Buffer) -> None:
        """Write at the end. After an error, any beginning of `content` may be there."""
        self.write_at(self.size(), content)

    def write_at(self, position: int, content: Buffer) -> None:
        """Write at `position`; what is there is replaced, a gap up to it reads as zeros."""
        os.lseek(self._descriptor, position, os.SEEK_SET)
        left = memoryview(content).cast("B")
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            # The system does not know the name: a full disk is one of several, perhaps.
            error.filename = self.path
            raise
        length = memoryview(content).nbytes
        self._begin_sync(position + length, length)

    def write_each(self, pieces: Iterable[tuple[int, bytes]]) -> None:
        """Write small pieces, each at its position: many of them cost less than by `write_at`."""
        for position, content in pieces:
            os.lseek(self._descriptor, position, os.SEEK_SET)
            if os.write(self._descriptor, content) < len(content):
                self.write_at(position, content)

    def copy_from(self, source: int, position: int, length: int) -> int:
        """Let the system copy a part of another file to the same place in this one; files may share blocks then.

        Args:
            source: the other file's descriptor.
            position: in both.
            length: bytes.

        Returns:
            How many it copied; 0 if it does not, and they are to be written.
        """
        try:
            copied = os.copy_file_range(source, self._descriptor, length, position, position)
        except (AttributeError, OSError):
            return 0
        self._begin_sync(position + copied, copied)
        return copied

    def truncate(self, length: int) -> None:
        """Make the file this long: cut it, or extend it with zeros, as Kafka preallocates."""
        os.ftruncate(self._descriptor, length)

    def set_modified(self, nanoseconds: int) -> None:
        """Set the modification time, ns since the epoch. Kafka takes it for the time of records that have none."""
        os.utime(self._descriptor, ns=(nanoseconds, nanoseconds))

    def sync(self) -> None:
        """Make the content durable. Its name is, when the directory is (`sync_directory`)."""
        os.fsync(self._descriptor)

    def _begin_sync(self, end: int, length: int) -> None:
        self._waiting += length
        if self._waiting >= _EAGER:
            begin, self._waiting = max(0, end - self._waiting), 0
            # Pages that still have to be written are not let go of, but begun with.
            with contextlib.suppress(AttributeError, OSError):
                os.posix_fadvise(self._descriptor, begin, end - begin, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Close it, nothing more; a second time is harmless."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


def check_local(path: str) -> None:
    """Refuse a URL: logs in object stores are only read.

    Raises:
        ValueError: it is one.
    """
    if is_remote(path):
        raise ValueError(f"cannot write to {path}: only local files are written; work on a copy")


def create(path: str) -> Output:
    """Make a new, empty file.

    Raises:
        FileExistsError: there is something at `path`.
    """
    return Output(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)


def open_existing(path: str) -> Output:
    """Open a file that is there, its content unchanged.

    Raises:
        FileNotFoundError: there is none.
    """
    return Output(path, os.O_RDWR)


def make_directory(path: str) -> None:
    """Make a directory in one that exists.

    Raises:
        FileExistsError: there is something at `path`.
    """
    os.mkdir(path)


def remove_directory(path: str) -> None:
    """Remove an empty directory."""
    os.rmdir(path)


def remove_tree(path: str) -> None:
    """Remove a directory and all that is in it; a link goes, itself or in it, and not what it points to."""
    if os.path.islink(path):
        remove(path)
        return
    with os.scandir(path) as entries:
        found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    for name, is_directory in found:
        (remove_tree if is_directory else remove)(f"{path}/{name}")
    remove_directory(path)


def rename(path: str, to: str) -> None:
    """Give a file or a directory another name; a file of that name is replaced, at one instant."""
    os.replace(path, to)


def link(path: str, to: str) -> None:
    """Give a file a second name, on the same file system: what is written by one shows under the other.

    Raises:
        FileExistsError: there is something at `to`.
        OSError: the file system has no such names.
    """
    os.link(path, to)


def remove(path: str) -> None:
    """Remove a file.

    Raises:
        FileNotFoundError: there is none.
    """
    os.unlink(path)


def remove_all(paths: Iterable[str]) -> None:
    """Remove files, in any order: several at a time, since the system takes long to let go of a large one's memory.

    Raises:
        FileNotFoundError: one of them is not there; the others are removed.
    """
    with ThreadPoolExecutor(_REMOVERS) as removers:
        removed = [removers.submit(remove, path) for path in paths]
    for one in removed:
        one.result()


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    # Windows opens no directories, and needs no such thing: Kafka leaves it out there too.
    if os.name != "nt":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def atomic_write(path: str, content: bytes) -> None:
    """Write a small file as Kafka writes its checkpoints: a crash leaves the old content or the new, whole.

    A `.tmp` that a crash left is overwritten. When the call returns, the new content is durable.
    """
    temporary = f"{path}.tmp"
    with contextlib.suppress(FileNotFoundError):
        remove(temporary)
    with create(temporary) as output:
        output.append(content)
        output.sync()
    rename(temporary, path)
    sync_directory(os.path.dirname(path) or ".")


@contextlib.contextmanager
def stored(url: str) -> Iterator[IO[bytes]]:
    """Give a local file to be written. At the end it is stored as an object, whole, if no exception comes before."""
    with tempfile.NamedTemporaryFile() as local:
        yield local
        local.flush()
        remote.put(local.name, url)
