"""Who may read and write what brokerless creates: those who may use the directory around it.

A broker runs as a user of its own. A file of another user would stop it, and one that others may read would give away
its records. So each new file and directory has at most the permissions of the directory that it is created in, and what
root creates belongs to the owner of that directory.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

from brokerless.io.remote import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

# The most that a new file or directory permits, and the least: its owner works with it.
_FILE, _DIRECTORY = 0o664, 0o775
_OWN_FILE, _OWN_DIRECTORY = 0o600, 0o700


class Access(NamedTuple):
    """The owner and the permissions of a directory.

    Attributes:
        user: the id of the user.
        group: the id of the group.
        mode: the permissions.
    """

    user: int
    group: int
    mode: int

    @classmethod
    def of(cls, directory: str) -> Self:
        """Return the access to a directory."""
        found = os.stat(directory)
        return cls(found.st_uid, found.st_gid, found.st_mode)

    @classmethod
    def around(cls, path: str) -> Self:
        """Return the access to the directory that a path is in."""
        return cls.of(os.path.dirname(path) or ".")

    @classmethod
    def common(cls, directories: Iterable[str]) -> Self | None:
        """Return what all of the local ones of these directories permit; None without a local one.

        The owner is that of the first one.
        """
        found = [cls.of(directory) for directory in directories if not is_remote(directory)]
        if not found:
            return None
        first, *others = found
        for other in others:
            first = first._replace(mode=first.mode & other.mode)
        return first

    @property
    def of_files(self) -> int:
        """The permissions of a new file."""
        return self.mode & _FILE | _OWN_FILE

    @property
    def of_directories(self) -> int:
        """The permissions of a new directory."""
        return self.mode & _DIRECTORY | _OWN_DIRECTORY

    def give(self, descriptor: int) -> None:
        """Give a new file or directory to the owner, if this process is root's."""
        if _me() == 0 and self.user != 0:
            # A file system without owners, or a container, may refuse.
            with contextlib.suppress(OSError):
                os.fchown(descriptor, self.user, self.group)

    def give_directory(self, path: str) -> None:
        """Do the same for a new directory. A link or a file that somebody put in its place is left alone."""
        if _me() == 0 and self.user != 0:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                self.give(descriptor)
            finally:
                os.close(descriptor)


def foreign_owner(path: str) -> int | None:
    """Return the owner of a directory if new files in it will belong to another user; None if they will not.

    Root may write all files, so the files in root's directories may be anybody's.
    """
    owner = os.stat(path).st_uid
    return None if _me() in (0, None, owner) or owner == 0 else owner


def user_name(user: int) -> str:
    """Return the name of a user; the number if it has none."""
    try:
        import pwd  # noqa: PLC0415 - missing on Windows

        return pwd.getpwuid(user).pw_name
    except (ImportError, KeyError):
        return str(user)


def _me() -> int | None:
    """Return the user of this process; None on Windows, where files have no such owners."""
    return os.geteuid() if hasattr(os, "geteuid") else None
