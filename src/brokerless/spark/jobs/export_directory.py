"""A directory into which many tasks write files: local, or in an object store. Each file appears whole or not at all.

A local file is written in `_temporary`, made durable, and renamed. For an object store it is written on the task's
machine, and stored as one object. Readers that treat the directory as a table skip names that begin with `_`.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import socket
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerless.io import disk, remote, storage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from typing_extensions import Buffer

_TEMPORARY = "_temporary"


@dataclass(frozen=True)
class ExportDirectory:
    """A directory for files of many tasks. Picklable.

    Attributes:
        path: an absolute path, or a URL.
    """

    path: str

    @property
    def is_remote(self) -> bool:
        """True if the directory is in an object store."""
        return remote.is_remote(self.path)

    def begin(self) -> None:
        """Create the directory and its parents, if they do not exist."""
        if not self.is_remote:
            _make_directories(f"{self.path}/{_TEMPORARY}")

    def finish(self, *directories: str) -> None:
        """Remove the files of failed tasks and the given directories. In an object store, delete nothing.

        On a local disk, an attempt of a task that is still running then fails when it finishes its file.
        """
        for name in () if self.is_remote else (*directories, _TEMPORARY):
            if storage.exists(f"{self.path}/{name}"):
                disk.remove_tree(f"{self.path}/{name}")

    def names(self, directory: str = "") -> list[str]:
        """Return the names in the directory or in a subdirectory; an empty list if it does not exist."""
        path = f"{self.path}/{directory}".rstrip("/")
        try:
            found = storage.list_directory(path)
        except FileNotFoundError:
            return []
        return sorted(name for name in found if name != _TEMPORARY)

    def holds(self, name: str) -> bool:
        """Return whether a file of this name exists."""
        return storage.exists(f"{self.path}/{name}")

    def size(self, name: str) -> int | None:
        """Return a file's length in bytes; None if it does not exist."""
        try:
            return storage.size(f"{self.path}/{name}")
        except FileNotFoundError:
            return None

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        with storage.File(f"{self.path}/{name}") as file:
            return file.read(0, file.size())

    def write(self, name: str, content: Buffer) -> None:
        """Write a small file, and replace an existing file."""
        with self.create(name) as file:
            file.write(content)

    def write_new(self, name: str, content: Buffer) -> None:
        """Write a small file that does not exist yet.

        Only one of several concurrent writers succeeds. In an object store, two may succeed, because the check for an
        existing file comes before the write.

        Raises:
            FileExistsError: the file exists.
        """
        if self.is_remote:
            if self.holds(name):
                raise FileExistsError(errno.EEXIST, "exists", f"{self.path}/{name}")
            self.write(name, content)
            return
        temporary = f"{self.path}/{_TEMPORARY}/{uuid.uuid4().hex}"
        with disk.create(temporary) as output:
            output.append(content)
            output.sync()
        try:
            disk.link(temporary, f"{self.path}/{name}")
        except FileExistsError:
            raise
        except OSError:
            # A file system without links: a crash can leave a partial file, which is refused later.
            with disk.create(f"{self.path}/{name}") as output:
                output.append(content)
                output.sync()
        finally:
            disk.remove(temporary)
        disk.sync_directory(self.path)

    def check_visible(self, name: str) -> None:
        """Check that the directory holds this file.

        Raises:
            ValueError: the file is not visible here, so this is not the driver's directory.
        """
        if not self.holds(name):
            raise ValueError(
                f"{self.path}/{name} is not visible on {socket.gethostname()}: the path must be a directory that "
                "the driver and all executors share, or a URL"
            )

    @contextlib.contextmanager
    def create(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file for writing. It gets its name at the end of the block, unless an exception is raised."""
        if self.is_remote:
            with disk.stored(f"{self.path}/{name}") as file:
                yield file
            return
        path = f"{self.path}/{name}"
        temporary = f"{self.path}/{_TEMPORARY}/{uuid.uuid4().hex}"
        with disk.create(temporary) as output:
            try:
                yield _Written(output)  # type: ignore[misc] # what stands for a file, is one
                output.sync()
                _make_directories(os.path.dirname(path))
                disk.rename(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    disk.remove(temporary)
                raise
        disk.sync_directory(os.path.dirname(path))


class _Written(io.RawIOBase):
    """A Python file that writes to an `Output` of `disk`."""

    def __init__(self, output: disk.Output) -> None:
        super().__init__()
        self._output = output
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, content: Buffer) -> int:
        length = memoryview(content).nbytes
        self._output.write_at(self._position, content)
        self._position += length
        return length


def _make_directories(path: str) -> None:
    """Create a directory and its parents, which other tasks may create at the same time."""
    if storage.is_directory(path):
        return
    parent = os.path.dirname(path)
    _make_directories(parent)
    with contextlib.suppress(FileExistsError):
        disk.make_directory(path)
    disk.sync_directory(parent)
