"""The lock of a log directory: `.lock`, held as Kafka holds it, so that a broker and brokerless exclude each other.

Java's `FileChannel.tryLock` is a POSIX write lock on the whole file. Such a lock belongs to the process and ends when
the process closes *any* descriptor of the file. So this module records the files that this process holds, and never
opens them a second time: neither to lock them again, which the system would allow, nor to query the lock.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
import sys
import threading

from brokerless.errors import CorruptRecordError, LogInUseError
from brokerless.io import disk, storage
from brokerless.io.access import foreign_owner, user_name
from brokerless.notes import note

# The device and inode of each lock file that this process holds.
_held: set[tuple[int, int]] = set()
_guard = threading.Lock()


class Lock:
    """The lock of one directory. Creating the object acquires it.

    Args:
        path: the lock file; created if it is missing.

    Raises:
        LogInUseError: another process, or this one, holds the lock.
        CorruptRecordError: the path is a directory or a broken link.
        ValueError: the path is on an object store, which has no locks.

    >>> from brokerless.io import disk
    >>> disk.make_directory(NEW)
    >>> lock = Lock(f"{NEW}/.lock")
    >>> is_held(f"{NEW}/.lock")
    True
    >>> lock.release()
    """

    def __init__(self, path: str) -> None:
        self.path = path
        disk.check_local(path)
        with _guard:
            while True:
                if _identity(path) in _held:
                    raise _held_here(path)
                file = _opened(path)
                try:
                    self._take(file)
                except BaseException:
                    file.close()
                    raise
                # The last holder may have removed the file meanwhile. A lock on a removed file excludes no other
                # process.
                identity = _identity(path)
                if identity == _identity(file.fileno()):
                    break
                file.close()
            self._file = file
            self._identity: tuple[int, int] | None = identity
            _held.add(identity)
        owner = foreign_owner(os.path.dirname(path) or ".")
        if owner is not None:
            name = user_name(owner)
            note(
                f"{os.path.dirname(path)} belongs to the user {name}, but new files will belong to "
                f"{user_name(os.geteuid())}, and {name} may not be able to write to them: run this as {name}"
            )

    def release(self) -> None:
        """Remove the file and release the lock, as a broker does at shutdown. Idempotent."""
        with _guard:
            # Clear the identity, because a later file may get the same one.
            identity, self._identity = self._identity, None
            if identity in _held:
                try:
                    # The file may already be gone.
                    with contextlib.suppress(FileNotFoundError):
                        disk.remove(self.path)
                finally:
                    _held.discard(identity)
                    self._file.close()

    def _take(self, file: disk.Output) -> None:
        import fcntl  # noqa: PLC0415 - missing on Windows

        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", self.path)
        try:
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise _held_by(_holder(file.fileno()), self.path) from error


def is_held(path: str) -> bool:
    """Return whether a process holds a lock file now. The query takes no lock, so a broker can start meanwhile."""
    with _guard:
        if _identity(path) in _held:
            return True
        return _holder_of(path) is not None


def check_free(path: str) -> None:
    """Raise the error that acquiring the lock would raise, without acquiring it.

    Raises:
        LogInUseError: another process, or this one, holds the lock.
        ValueError: the path is on an object store, which has no locks.
    """
    disk.check_local(path)
    with _guard:
        if _identity(path) in _held:
            raise _held_here(path)
        holder = _holder_of(path)
        if holder is not None:
            raise _held_by(holder, path)


def _holder_of(path: str) -> int | None:
    """Return the process that holds a lock file, as `_holder` does. No process can hold a path that is not a file."""
    if storage.is_directory(path) or storage.is_broken_link(path):
        return None
    try:
        with storage.open_regular(path) as file:
            return _holder(file.fileno())
    except FileNotFoundError:
        return None


def _held_here(path: str) -> LogInUseError:
    return LogInUseError(f"in use: this process already writes to {os.path.dirname(path)}")


def _held_by(holder: int | None, path: str) -> LogInUseError:
    return LogInUseError(f"in use: {_name(holder)} holds {path}; stop it first, or work on a copy of the directory")


# The layout of struct flock with its padding, and the field numbers of l_type and l_pid.
_FLOCK = {"linux": ("hhqqi4x", 0, 4), "darwin": ("qqihh", 3, 2)}


def _holder(descriptor: int) -> int | None:
    """Return the process that holds the lock, 0 if that process is not known; None if the lock is free."""
    if sys.platform not in _FLOCK:
        return None
    import fcntl  # noqa: PLC0415 - missing on Windows

    layout, type_at, process_at = _FLOCK[sys.platform]
    question = [0, 0, 0, 0, 0]
    question[type_at] = fcntl.F_WRLCK
    answer = struct.unpack(layout, fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(layout, *question)))
    return max(0, answer[process_at]) if answer[type_at] != fcntl.F_UNLCK else None


def _name(process: int | None) -> str:
    if not process:
        return "another process"
    try:
        with storage.File(f"/proc/{process}/comm") as file:
            name = file.read(0, 64).decode(errors="replace").strip()
    except OSError:
        name = ""
    return f"process {process} ({name})" if name else f"process {process}"


def _identity(file: str | int) -> tuple[int, int]:
    try:
        found = os.stat(file)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        return (-1, -1)
    return (found.st_dev, found.st_ino)


def _opened(path: str) -> disk.Output:
    # A broken link can neither be opened nor created.
    if storage.is_directory(path) or storage.is_broken_link(path):
        raise CorruptRecordError("the directory cannot be locked: its lock is not a file. Remove the lock", path=path)
    while True:
        try:
            return disk.open_existing(path)
        except FileNotFoundError:
            pass
        try:
            return disk.create(path)
        except FileExistsError:
            continue
        except OSError as error:
            error.add_note("nothing was changed, because the directory could not be locked")
            raise
