"""The write half of storage access: every change that the package makes to a file system.

`storage` reads, this module writes, and no other module touches files. So a test can replace this module by a simulated
disk that fails at any call, and check the state that a power failure leaves. Callers use the module's name
(`disk.remove(path)`) and import nothing from it, so that a replacement takes effect everywhere. Paths are `str`.

Nothing is durable by itself. `Output.sync` makes a file's content durable. `sync_directory` makes created, removed and
renamed names in a directory durable. `atomic_write` does both, in an order that leaves the old content or the new.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Self

from brokerless.io import interrupts, remote
from brokerless.io.access import Access
from brokerless.io.remote import is_remote

if sys.platform == "darwin":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO

    from typing_extensions import Buffer


# After this many bytes, the system is asked to start writing them, so that the final sync is short. On its own, Linux
# waits half a minute.
_EAGER = 16 << 20
# The number of files removed at the same time.
_REMOVERS = 4


class Output:
    r"""A file open for writing; see `create` and `open_existing`. Not safe to share between threads.

    Attributes:
        path: the name by which the file was opened.

    >>> with create(NEW) as output:
    ...     output.append(b"0\n0\n")
    ...     output.sync()
    """

    __slots__ = ("_descriptor", "_waiting", "path")

    def __init__(self, path: str, flags: int, mode: int = 0o600) -> None:
        self.path = path
        self._waiting = 0
        self._descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0), mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor, for locks. Do not write to it."""
        return self._descriptor

    def size(self) -> int:
        """Return the file's current length in bytes."""
        return os.fstat(self._descriptor).st_size

    def append(self, content: Buffer) -> None:
        """Write at the end. After an error, any prefix of `content` may have been written."""
        self.write_at(self.size(), content)

    def write_at(self, position: int, content: Buffer) -> None:
        """Write at `position` and replace existing bytes. A gap before `position` reads as zeros."""
        os.lseek(self._descriptor, position, os.SEEK_SET)
        left = memoryview(content).cast("B")
        with self._named():
            while left:
                left = left[os.write(self._descriptor, left) :]
        length = memoryview(content).nbytes
        self._begin_sync(position + length, length)

    def write_each(self, pieces: Iterable[tuple[int, bytes]]) -> None:
        """Write small pieces, each at a position. For many pieces this is faster than `write_at`."""
        with self._named():
            for position, content in pieces:
                os.lseek(self._descriptor, position, os.SEEK_SET)
                if os.write(self._descriptor, content) < len(content):
                    self.write_at(position, content)

    def copy_from(self, source: int, position: int, length: int) -> int:
        """Copy a part of another file to the same position in this one, by a system call. The files may share blocks.

        Args:
            source: the other file's descriptor.
            position: the position in both files.
            length: the number of bytes.

        Returns:
            The number of bytes copied. If it is 0, the system does not support the call, and the caller must copy the
            bytes itself.
        """
        try:
            copied = os.copy_file_range(source, self._descriptor, length, position, position)
        except (AttributeError, OSError):
            return 0
        self._begin_sync(position + copied, copied)
        return copied

    def truncate(self, length: int) -> None:
        """Set the file's length: truncate it, or extend it with zeros, as Kafka preallocates."""
        os.ftruncate(self._descriptor, length)

    def set_modified(self, nanoseconds: int) -> None:
        """Set the modification time in ns since the epoch. Kafka uses it as the time of records without a timestamp."""
        os.utime(self._descriptor, ns=(nanoseconds, nanoseconds))

    def sync(self) -> None:
        """Sync the content to disk. To make the name of a new file durable, call `sync_directory`."""
        _sync(self._descriptor)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Name the file in the errors of a write. The system does not, and users must know which disk is full."""
        try:
            yield
        except OSError as error:
            error.filename = error.filename or self.path
            raise

    def _begin_sync(self, end: int, length: int) -> None:
        self._waiting += length
        if self._waiting >= _EAGER:
            begin, self._waiting = max(0, end - self._waiting), 0
            # For dirty pages, this call starts the write and keeps the pages.
            with contextlib.suppress(AttributeError, OSError):
                os.posix_fadvise(self._descriptor, begin, end - begin, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Close the file without a sync. Idempotent."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


def check_local(path: str, what: str = "write to") -> None:
    """Refuse a URL: logs in object stores are read-only.

    Args:
        path: a path that a caller gave.
        what: the operation that is not possible with a URL, for the message.

    Raises:
        ValueError: `path` is a URL.
    """
    if is_remote(path):
        cure = (
            "name a local path, and copy the result from there"
            if what == "write to"
            else "copy it to a local directory"
        )
        raise ValueError(f"cannot {what}: {path} is in an object store, which brokerless only reads: {cure}")


def create(path: str) -> Output:
    """Create an empty file, for those who may use the directory around it.

    Raises:
        FileExistsError: `path` exists.
    """
    access = Access.around(path)
    output = Output(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, access.of_files)
    access.give(output.fileno())
    return output


def open_existing(path: str) -> Output:
    """Open an existing file and keep its content.

    Raises:
        FileNotFoundError: `path` does not exist.
    """
    return Output(path, os.O_RDWR)


def make_directory(path: str, access: Access | None = None) -> None:
    """Create a directory in an existing one.

    Args:
        path: the new directory.
        access: for whom; None: for those who may use the directory around it.

    Raises:
        FileExistsError: `path` exists.
    """
    access = access or Access.around(path)
    os.mkdir(path, access.of_directories)
    access.give_directory(path)


def remove_directory(path: str) -> None:
    """Remove an empty directory."""
    os.rmdir(path)


def remove_tree(path: str) -> None:
    """Remove a directory and its content. Links, including `path` itself, are removed without their targets."""
    if os.path.islink(path):
        remove(path)
        return
    with os.scandir(path) as entries:
        found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    for name, is_directory in found:
        (remove_tree if is_directory else remove)(f"{path}/{name}")
    remove_directory(path)


def rename(path: str, to: str) -> None:
    """Rename a file or a directory. An existing file of the new name is replaced atomically."""
    os.replace(path, to)


def link(path: str, to: str) -> None:
    """Create a hard link `to` for the file `path`, on the same file system. Both names then share their content.

    Raises:
        FileExistsError: `to` exists.
        OSError: the file system does not support hard links.
    """
    os.link(path, to)


def remove(path: str) -> None:
    """Remove a file.

    Raises:
        FileNotFoundError: `path` does not exist.
    """
    os.unlink(path)


def remove_all(paths: Iterable[str]) -> None:
    """Remove files in any order, several at a time, because it takes long to free the cached pages of a large file.

    Raises:
        FileNotFoundError: one of the files does not exist. The others are removed.
    """
    from brokerless.io.runner import Threads  # noqa: PLC0415 - slow to import at every start of the command

    with Threads(_REMOVERS) as removers:
        errors = [removal.exception() for removal in [removers.start(remove, path) for path in paths]]
    for error in errors:
        if error is not None:
            raise error


def sync_directory(path: str) -> None:
    """Sync the names in a directory to disk."""
    # Windows cannot open directories and needs no sync: Kafka does none there either.
    if os.name != "nt":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":
        # There, fsync leaves the content in the cache of the disk. Java, too, asks for the full sync first.
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


@interrupts.deferred()
def atomic_write(path: str, content: bytes) -> None:
    """Write a small file as Kafka writes its checkpoints: a crash leaves either the old or the new content.

    A `.tmp` file from an earlier crash is overwritten, and a full disk keeps none. When the call returns, the new
    content is durable.
    """
    temporary = f"{path}.tmp"
    with contextlib.suppress(FileNotFoundError):
        remove(temporary)
    try:
        with create(temporary) as output:
            output.append(content)
            output.sync()
        rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            remove(temporary)
        raise
    sync_directory(os.path.dirname(path) or ".")


@contextlib.contextmanager
def stored(url: str) -> Iterator[IO[bytes]]:
    """Yield a local file to write. After the `with` block, store the file as one object, unless the block raised."""
    import tempfile  # noqa: PLC0415 - slow to import at every start of the command

    with tempfile.NamedTemporaryFile() as local:
        yield local
        local.flush()
        remote.put(local.name, url)
