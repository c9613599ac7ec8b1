"""A file that lists the finished partitions of a rewrite, so that the rewrite can resume after a failure.

Each finished partition has one line of JSON: the work, the directory, and a digest of the resulting segments. The line
is durable before the next partition begins. A partition whose segments have changed since is not finished.
"""

from __future__ import annotations

import hashlib
import json
import os

from brokerless.errors import CorruptRecordError
from brokerless.io import disk, storage


class ProgressFile:
    """The finished partitions of one rewrite. Lines of other rewrites are kept and ignored.

    Args:
        path: a local file; created if it does not exist.
        work: a description of the rewrite, the same in each run.

    Attributes:
        skipped: the number of partitions that were already finished.

    Raises:
        CorruptRecordError: the file has a line that is not of this format.

    >>> from brokerless.log_dir.writer import create_log_dir
    >>> with create_log_dir(NEW) as log_dir:
    ...     topic_id = log_dir.create_topic("orders")
    ...     log_dir.log("orders", 0).close()
    >>> progress_file = ProgressFile(f"{NEW}/done.jsonl", "convert to zstd")
    >>> progress_file.skips(f"{NEW}/orders-0")
    False
    >>> progress_file.add(f"{NEW}/orders-0")
    >>> ProgressFile(f"{NEW}/done.jsonl", "convert to zstd").skips(f"{NEW}/orders-0")
    True
    """

    def __init__(self, path: str, work: str) -> None:
        disk.check_local(path)
        self._path = path
        self._work = work
        self._done: dict[str, str] = {}
        self.skipped = 0
        if not storage.exists(path):
            disk.create(path).close()
            disk.sync_directory(os.path.dirname(os.path.abspath(path)))
        *lines, cut = storage.read_all(path).split(b"\n")
        for number, line in enumerate(lines, 1):
            self._read(line, number)
        if cut:
            # A crash interrupted the last line.
            with disk.open_existing(path) as file:
                file.truncate(file.size() - len(cut))
                file.sync()

    def _read(self, line: bytes, number: int) -> None:
        try:
            done = json.loads(line)
            if done["work"] == self._work:
                self._done[str(done["directory"])] = str(done["segments"])
        except (KeyError, TypeError, ValueError) as error:
            what = f"line {number} is no line of a resume file: give another file, or move this one away"
            raise CorruptRecordError(what, path=self._path) from error

    def skips(self, directory: str) -> bool:
        """Return whether a partition is finished, and count it in `skipped` if it is."""
        known = self._done.get(os.path.abspath(directory))
        is_done = known is not None and known == _digest(directory)
        self.skipped += is_done
        return is_done

    def add(self, directory: str) -> None:
        """Record that a partition is finished. Its files must be final."""
        done = {"work": self._work, "directory": os.path.abspath(directory), "segments": _digest(directory)}
        with disk.open_existing(self._path) as file:
            file.append(f"{json.dumps(done, separators=(',', ':'))}\n".encode())
            file.sync()
        self._done[done["directory"]] = done["segments"]


def _digest(directory: str) -> str:
    """Return a digest of a partition's segments: the SHA-256 of the names, sizes and times of their files."""
    names = sorted(name for name in storage.list_directory(directory) if name.endswith((".log", ".log.swap")))
    paths = {name: f"{directory}/{name}" for name in names}
    found = [(name, storage.size(path), storage.modified(path)) for name, path in paths.items()]
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()
