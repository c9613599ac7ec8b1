"""The `.lost` directory beside a result, which holds the bytes that the result lacks, and a report."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import uuid
from itertools import chain, count
from typing import TYPE_CHECKING

from brokerless.io import disk, interrupts, storage
from brokerless.io.access import Access
from brokerless.layout.log_dir_files import check_outside
from brokerless.wording import option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

REPORT = "report.json"
"""The file name of the report in the directory."""


def lost_directory(of: str, given: str | os.PathLike[str] | None) -> str:
    """Return a path for the directory that does not exist.

    Args:
        of: the path of the result.
        given: the path that the caller wants; None: the path of the result with ".lost" added, and a number if needed.

    Raises:
        FileExistsError: the given path exists.
        FileNotFoundError: its parent directory does not exist.
        ValueError: the path is in a log directory, where it would keep a broker from starting.

    >>> lost_directory(NEW, None) == f"{NEW}.lost"
    True
    """
    if given is not None:
        path = os.path.abspath(os.fspath(given))
        if storage.exists(path):
            raise FileExistsError(
                errno.EEXIST,
                f"exists: name a new directory for the bytes that are left out and the report ({option('lost_path')})",
                path,
            )
    else:
        numbered = (f"{of}.lost-{number}" for number in count(2))
        path = next(name for name in chain([f"{of}.lost"], numbered) if not storage.exists(name))
    check_outside(path)
    parent = os.path.dirname(path)
    if not storage.is_directory(parent):
        raise FileNotFoundError(errno.ENOENT, "the parent directory does not exist: create it first", parent)
    return path


def write_report(path: str, report: Mapping[str, object]) -> None:
    """Write the report of the directory, durably; it replaces an earlier one."""
    disk.atomic_write(f"{path}/{REPORT}", json.dumps(report, indent=1).encode() + b"\n")


@contextlib.contextmanager
def lost_files(
    path: str,
    report: Mapping[str, object],
    staged: str,
    fill: Callable[[str], None] = lambda _: None,
    *,
    like: Iterable[str] = (),
) -> Iterator[None]:
    """Make the directory, durably and with one rename, then run the `with` block, which publishes the result.

    Args:
        path: the directory. Its parent must exist.
        report: the content of the report, for JSON.
        staged: the path of the result before it is published. If the block fails and this path still exists, the
            directory is removed again.
        fill: called with the path of the unfinished directory, to write files into it.
        like: the directories that the bytes are from: this one permits no more than each of them.
    """
    unfinished = f"{path}.unfinished-{uuid.uuid4().hex}"
    ours = [unfinished]
    try:
        disk.make_directory(unfinished, Access.common(like))
        fill(unfinished)
        write_report(unfinished, report)
        if storage.exists(path):
            raise FileExistsError(
                errno.EEXIST, "the directory was created by another process meanwhile: nothing is changed", path
            )
        with interrupts.deferred():
            disk.rename(unfinished, path)
            ours.append(path)
        disk.sync_directory(os.path.dirname(path))
        yield
    except BaseException:
        for left in ours if storage.exists(staged) else [unfinished]:
            if storage.exists(left):
                disk.remove_tree(left)
        raise
