"""The directory beside a result: the bytes that the result lacks, and a report."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import uuid
from itertools import chain, count
from typing import TYPE_CHECKING

from brokerless.io import disk, storage
from brokerless.layout.log_dir_files import check_outside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REPORT = "report.json"
"""The report's name in the directory."""


def lost_directory(of: str, given: str | os.PathLike[str] | None) -> str:
    """Return a path for the directory that does not exist.

    Args:
        of: the path of the result.
        given: the path that the caller wants; None: that of the result with ".lost" behind it, and a number if need be.

    Raises:
        FileExistsError: the given path exists.
        ValueError: it is in a log directory, where a broker would stop at it.

    >>> lost_directory(NEW, None) == f"{NEW}.lost"
    True
    """
    if given is not None:
        path = os.path.abspath(os.fspath(given))
        if storage.exists(path):
            raise FileExistsError(errno.EEXIST, "exists: what the result lacks needs a new path (--lost)", path)
    else:
        numbered = (f"{of}.lost-{number}" for number in count(2))
        path = next(name for name in chain([f"{of}.lost"], numbered) if not storage.exists(name))
    check_outside(path)
    return path


@contextlib.contextmanager
def lost_files(path: str, report: Mapping[str, object]) -> Iterator[str]:
    """Make the directory in a block that fills it, durably, and with one rename at the end.

    Args:
        path: the directory. Its parent must exist.
        report: what the report says, for JSON.

    Yields:
        The path of the directory while it is filled.
    """
    unfinished = f"{path}.unfinished-{uuid.uuid4().hex}"
    disk.make_directory(unfinished)
    try:
        yield unfinished
        disk.atomic_write(f"{unfinished}/{REPORT}", json.dumps(report, indent=1).encode() + b"\n")
        disk.rename(unfinished, path)
        disk.sync_directory(os.path.dirname(path))
    except BaseException:
        if storage.exists(unfinished):
            disk.remove_tree(unfinished)
        raise
