"""A copy of some partitions of a log directory that a broker can start from.

The copy is built beside its target, under a `-delete` name: if the parent is a broker's log directory, the broker
deletes an unfinished copy. The finished copy is renamed to its target (`StagedCopy.publish`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from typing import TYPE_CHECKING, Self

from brokerless.errors import LogInUseError, located
from brokerless.io import disk, interrupts, storage
from brokerless.io.access import Access
from brokerless.io.remote import is_remote
from brokerless.layout import checkpoints, file_names, lock, streaming_epochs
from brokerless.layout.log_dir_files import LogDirFiles, check_outside
from brokerless.log_dir import transactional_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

_METADATA = f"{file_names.METADATA_TOPIC}-0"
_ROOT_FILES = (
    checkpoints.META_PROPERTIES,
    checkpoints.BOOTSTRAP,
    checkpoints.CLEAN_SHUTDOWN,
    transactional_ids.FILE,
    streaming_epochs.FILE,
)
# A load of a log deletes these files. It also deletes `.cleaned` files, but first uses them to detect missing `.swap`
# files.
_LEFTOVERS = (file_names.DELETED, ".tmp")
_BLOCK = 4 << 20


class StagedCopy:
    """An unpublished copy. As a context manager, it removes the copy at the end of the block unless it was published.

    Args:
        to: the path of the finished copy, which must not exist.
        is_partition: whether the copy is a partition directory, not a log directory.
        like: the copied directories: the copy permits no more than each of them, and has the owner of the first.

    Attributes:
        path: the path of the unfinished copy.

    Raises:
        FileExistsError: `to` exists.
        FileNotFoundError: the parent directory of `to` does not exist.
        ValueError: `to` is in a partition directory, or a broker would fail on it or mistake it for a partition.
    """

    def __init__(self, to: str, *, is_partition: bool, like: Iterable[str] = ()) -> None:
        self._to, self._given = os.path.abspath(to), to
        self._access = Access.common(like)
        if storage.exists(self._to):
            raise FileExistsError(errno.EEXIST, "the path exists already, and --output needs a new one", to)
        parent, name = os.path.split(self._to)
        if not storage.is_directory(parent):
            raise FileNotFoundError(errno.ENOENT, "the parent directory does not exist: create it first", parent)
        around = storage.list_directory(parent)
        if file_names.is_partition_directory(around):
            raise ValueError(f"cannot make {to}: it would be in a partition's directory; name one elsewhere")
        if not is_partition:
            check_outside(to)
        try:
            topic, partition, _ = file_names.parse_directory_name(name)
        except ValueError:
            if LogDirFiles.is_root(around):
                raise ValueError(
                    f"cannot make {to}: a broker does not start with that name in its log directory"
                ) from None
            topic, partition = name, 0
        self.path = f"{parent}/{file_names.leftover_directory_name(topic, partition, 'delete', uuid.uuid4().hex)}"

    def __enter__(self) -> Self:
        try:
            disk.make_directory(self.path, self._access)
        except OSError as error:
            # The user named the copy, not the hidden directory in which it is made.
            error.filename = self._given
            raise
        except BaseException:
            self.__exit__()
            raise
        return self

    @interrupts.deferred()
    def __exit__(self, *_: object) -> None:
        if storage.exists(self.path):
            disk.remove_tree(self.path)

    def add_partition(
        self,
        directory: str,
        to: str,
        progress: Callable[[int], None] = lambda _: None,
        *,
        is_fatal: Callable[[str], bool] = lambda _: False,
    ) -> list[str]:
        """Copy a partition directory to `to`, which is the path of the copy itself or of a new directory in it.

        Args:
            directory: the partition directory.
            to: its copy.
            progress: called with the bytes that were copied.
            is_fatal: returns True for a file name that keeps a broker from starting. Such a file is left out.

        Returns:
            The names left out because of `is_fatal`.
        """
        if to != self.path:
            disk.make_directory(to)
        fatal = []
        for name in sorted(storage.list_directory(directory)):
            is_leftover = name.endswith(_LEFTOVERS) or name.startswith(file_names.SET_ASIDE)
            if is_leftover or not storage.is_file(f"{directory}/{name}"):
                continue
            if is_fatal(name):
                fatal.append(name)
            else:
                copy_file(f"{directory}/{name}", f"{to}/{name}", progress)
        disk.sync_directory(to)
        return fatal

    def add_root(self, root: str, partitions: Collection[tuple[str, int]]) -> None:
        """Copy a log directory's own files and its metadata log. Checkpoints keep only these partitions' lines."""
        names = set(storage.list_directory(root))
        for name in _ROOT_FILES:
            if name in names:
                copy_file(f"{root}/{name}", f"{self.path}/{name}")
        for name in checkpoints.OFFSET_CHECKPOINTS:
            if name in names:
                with located(f"{root}/{name}"):
                    known = checkpoints.parse_offset_checkpoint(storage.read_all(f"{root}/{name}"))
                kept = {key: offset for key, offset in known.items() if key in partitions}
                disk.atomic_write(f"{self.path}/{name}", checkpoints.format_offset_checkpoint(kept))
        if _METADATA in names:
            self.add_partition(f"{root}/{_METADATA}", f"{self.path}/{_METADATA}")

    @contextlib.contextmanager
    def name_in_errors(self, source: str, part: str | None = None) -> Iterator[None]:
        """Replace the copy's path by `source` in errors: the copy no longer exists when they are read.

        Args:
            source: the path of the source.
            part: the directory of the copy that holds the copy of `source`; None: the whole copy.
        """
        copied = self.path if part is None else part
        try:
            yield
        except Exception as error:
            path = getattr(error, "path", None)
            if isinstance(path, str):
                error.path = path.replace(copied, source)  # type: ignore[attr-defined]
            error.args = tuple(arg.replace(copied, source) if isinstance(arg, str) else arg for arg in error.args)
            raise

    def publish(self) -> None:
        """Rename the copy to its target, durably.

        Raises:
            FileExistsError: the target was created meanwhile.
        """
        disk.sync_directory(self.path)
        if storage.exists(self._to):
            raise FileExistsError(errno.EEXIST, "exists meanwhile: the copy is not published", self._to)
        disk.rename(self.path, self._to)
        disk.sync_directory(os.path.dirname(self._to))


class FilesAtRest:
    """The files of log directories and their partitions at one time, to detect later changes.

    Args:
        paths: the log directories. A directory on an object store is always treated as unchanged.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._found = {path: _listed(path) for path in paths}

    def check(self) -> None:
        """Refuse to continue if a file was changed. Directories that cannot be listed, then or now, are not compared.

        Raises:
            LogInUseError: a file or a directory was added or removed, or a file has another size or modification time.
        """
        for path, before in self._found.items():
            now = _listed(path)
            for directory in {*before, *now} if None not in (before.get(path, {}), now.get(path, {})) else ():
                states = before.get(directory, {}), now.get(directory, {})
                if None not in states and states[0] != states[1]:
                    raise LogInUseError(f"changed meanwhile: {directory}; stop what writes there, and start again")


def _listed(path: str) -> dict[str, dict[str, tuple[int, int]] | None]:
    """Return the size and modification time of each file, by directory; None for a directory that cannot be listed."""
    found: dict[str, dict[str, tuple[int, int]] | None] = {}
    waiting = [] if is_remote(path) else [path]
    for directory in waiting:
        found[directory] = None
        with contextlib.suppress(OSError):
            names = [name for name in storage.list_directory(directory) if name != checkpoints.LOCK]
            files = [(name, f"{directory}/{name}") for name in names if storage.is_file(f"{directory}/{name}")]
            found[directory] = {name: (storage.size(file), storage.modified_ns(file)) for name, file in files}
            waiting += [f"{path}/{name}" for name in storage.list_subdirectories(path)] if directory == path else []
    return found


def check_at_rest(root: LogDirFiles) -> None:
    """Refuse a log directory that is in use.

    Raises:
        LogInUseError: a broker, or another writer, has the directory open.
    """
    if not is_remote(root.path):
        lock.check_free(f"{root.path}/{checkpoints.LOCK}")


def copy_file(path: str, to: str, progress: Callable[[int], None] = lambda _: None) -> None:
    """Copy a file durably, with its modification time, which is the largest timestamp of a segment without timestamps.

    Raises:
        FileExistsError: `to` exists.
        OSError: `path` is not a regular file.
    """
    with storage.File(path) as source, disk.create(to) as output:
        position, size = 0, source.size()
        while position < size:
            count = output.copy_from(source.fileno(), position, _BLOCK)
            if not count:
                content = source.read(position, _BLOCK)
                output.write_at(position, content)
                count = len(content)
            if not count:
                raise OSError(errno.EIO, "became shorter while it was copied", path)
            position += count
            progress(count)
        output.set_modified(source.modified_ns())
        output.sync()
