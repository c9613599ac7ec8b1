"""Object stores, through any URL that fsspec supports: `s3://`, `gs://`, `abfs://`, `memory://`.

Logs in a store are read-only. An export writes each file as one whole object. Nothing is deleted.

A store has no directories, only names with a common prefix. Lookups of single files use the last listing of their
prefix, so that an inspection of a partition costs few requests. Credentials and endpoints are configured through
fsspec: by its configuration files, or by environment variables such as `FSSPEC_S3_ENDPOINT_URL`.

fsspec is imported at the first URL. Reading local files does not need it.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# A request takes as long as the transfer of a few hundred KB. So sequential reads fetch this many bytes ahead.
_AHEAD = 8 << 20
# The minimum fetch, because a probe for a batch grows in small steps.
_LEAST = 1 << 14
_CODES = {
    FileNotFoundError: errno.ENOENT,
    PermissionError: errno.EACCES,
    FileExistsError: errno.EEXIST,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
    TimeoutError: errno.ETIMEDOUT,
}


def is_remote(path: str) -> bool:
    """Return whether a path is a URL.

    >>> is_remote("s3://bucket/data"), is_remote("/data")
    (True, False)
    """
    return "://" in path


def absolute(url: str) -> str:
    """Return a URL in normal form.

    >>> absolute("s3a://bucket/data//orders-0/")
    's3://bucket/data/orders-0'
    """
    scheme, _, path = url.partition("://")
    # s3a and s3n are Hadoop's names for the same store.
    scheme = "s3" if scheme.lower() in ("s3a", "s3n") else scheme.lower()
    root = "/" if path.startswith("/") else ""
    return f"{scheme}://{root}{'/'.join(part for part in path.split('/') if part)}"


def list_directory(url: str, *, is_fresh: bool = True) -> dict[str, bool]:
    """Return the names under a prefix, and for each name whether it is a prefix itself.

    Args:
        url: the prefix.
        is_fresh: ask the store, instead of using its last listing.
    """
    with _at(url) as (store, path):
        entries = store.ls(path, detail=True, refresh=is_fresh)
        own = path.rstrip("/")
    if [entry["name"] for entry in entries if entry["type"] == "file"] == [own]:
        raise NotADirectoryError(errno.ENOTDIR, "not a directory", url)
    found: dict[str, bool] = {}
    for entry in entries:
        path = entry["name"].rstrip("/")
        # Some tools create an empty object in place of a directory.
        if path != own:
            name = path.rpartition("/")[2]
            found[name] = found.get(name, False) or entry["type"] == "directory"
    return found


def is_directory(url: str) -> bool:
    """Return whether any object exists under a prefix."""
    with _at(url) as (store, path):
        if store.isdir(path):
            return True
        if not store.exists(path):
            return False
    # fsspec looks for an object first, but a prefix of the same name may exist, too.
    around, _, name = absolute(url).rpartition("/")
    try:
        return not around.endswith("/") and list_directory(around, is_fresh=False).get(name, False)
    except OSError:
        return False


def exists(url: str) -> bool:
    """Return whether an object exists, or any object under a prefix."""
    with _at(url) as (store, path):
        return bool(store.exists(path))


def size(url: str) -> int:
    """Return an object's length in bytes."""
    with _at(url) as (store, path):
        return int(store.info(path)["size"] or 0)


def modified_ns(url: str) -> int:
    """Return the time at which an object was stored, in ns since the epoch; 0 if the store does not report it."""
    with _at(url) as (store, path):
        try:
            stored = store.modified(path)
        except NotImplementedError:
            return 0
    return int(stored.timestamp() * 1_000_000) * 1000


def put(path: str, url: str) -> None:
    """Store a local file as an object, and replace an existing one. Readers see either the old or the new object."""
    with _at(url) as (store, name):
        store.put_file(path, name)


class Object:
    """An object read by ranges. Sequential reads fetch ahead."""

    __slots__ = ("_ahead", "_ahead_from", "_end", "_size", "path")

    def __init__(self, url: str) -> None:
        self.path = url
        with _at(url) as (store, path):
            found = store.info(path)
        if found["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, "not a file", url)
        self._size = int(found["size"] or 0)
        self._ahead = memoryview(b"")
        self._ahead_from = self._end = 0

    def fileno(self) -> int:
        """Raise an OSError: objects have no descriptor."""
        raise OSError(errno.EINVAL, "not a local file", self.path)

    def size(self) -> int:
        """Return the object's length in bytes."""
        return self._size

    def modified_ns(self) -> int:
        """Return the time at which the object was stored, in ns since the epoch."""
        return modified_ns(self.path)

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position` on and return the number of bytes read."""
        filled, goes_on = 0, position == self._end and position > 0
        length = max(0, min(len(buffer), self._size - position))
        while filled < length:
            at = position + filled
            skip = at - self._ahead_from
            if not 0 <= skip < len(self._ahead):
                self._fetch(at, max(length - filled, _AHEAD if goes_on else _LEAST))
                if not self._ahead:
                    break
                continue
            part = self._ahead[skip : skip + length - filled]
            buffer[filled : filled + len(part)] = part
            filled += len(part)
        self._end = position + filled
        return filled

    def close(self) -> None:
        """Release the fetched bytes."""
        self._ahead = memoryview(b"")

    def _fetch(self, position: int, length: int) -> None:
        with _at(self.path) as (store, path):
            content = store.cat_file(path, start=position, end=min(position + length, self._size))
        self._ahead, self._ahead_from = memoryview(content), position


@contextmanager
def _at(url: str) -> Iterator[tuple[Any, str]]:
    """Yield the store and the path in it. Convert the store's errors to OSErrors that name the URL."""
    url = absolute(url)
    store = _store(url.partition("://")[0])
    try:
        yield store, store._strip_protocol(url)  # noqa: SLF001 - how fsspec's own functions take a URL apart
    except OSError as error:
        if error.errno is not None:
            error.filename = error.filename or url
            raise
        # An OSError without a number would print as "[Errno None] None".
        code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), errno.EIO)
        message = str(error)
        raise OSError(code, os.strerror(code) if not message or message in url else message, url) from error
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error), url) from error
    except Exception as error:
        # Each store has its own classes for network errors.
        raise OSError(errno.EIO, f"{type(error).__name__}: {error}", url) from error


@lru_cache
def _store(scheme: str) -> Any:  # noqa: ANN401 - fsspec has no types
    extra = "s3" if scheme == "s3" else "remote"
    try:
        import fsspec  # noqa: PLC0415 - not needed for local files
    except ImportError as error:
        raise ValueError(f"cannot read {scheme}:// without fsspec: pip install 'brokerless[{extra}]'") from error
    try:
        return fsspec.filesystem(scheme)
    except (ImportError, ValueError) as error:
        install = ": pip install 'brokerless[s3]'" if isinstance(error, ImportError) and extra == "s3" else ""
        raise ValueError(f"cannot read {scheme}://: {error}{install}") from error
