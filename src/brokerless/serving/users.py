"""Users and passwords for clients of a server."""

from __future__ import annotations

import os
from collections.abc import Mapping

from brokerless.io import storage


def read_users(users: str | os.PathLike[str] | Mapping[str, str]) -> list[tuple[str, str]]:
    """Return users with their passwords, from a mapping or a file of lines `user:password`.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line has another form, a user appears twice, or there is no user.

    >>> read_users({"ann": "secret"})
    [('ann', 'secret')]
    """
    if isinstance(users, Mapping):
        return _checked(list(users.items()), "users")
    path = os.fspath(users)
    found = []
    for number, line in enumerate(storage.read_all(path).decode().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, password = line.partition(":")
        if not (colon and user and password):
            raise ValueError(f"{path}: line {number} is not user:password")
        found.append((user, password))
    return _checked(found, path)


def _checked(found: list[tuple[str, str]], where: str) -> list[tuple[str, str]]:
    names = [user for user, _ in found]
    twice = {user for user in names if names.count(user) > 1}
    if twice:
        raise ValueError(f"{where}: {min(twice)!r} is listed twice")
    if not found or not all(user and password for user, password in found):
        raise ValueError(f"{where}: no user with a password")
    return found
