"""Directories for work that may be done more than once: each attempt writes into its own directory.

The owner of a log makes one directory for all attempts. The directory is beside the partition's directory, under a name
that brokers delete. If the partition's directory is a symbolic link, the attempts are beside the link's target, because
files cannot be moved between two disks.

Attempts run wherever that directory is visible. The owner keeps the files of one attempt, and removes the rest.
"""

from __future__ import annotations

import contextlib
import os
import socket
import uuid

from brokerless.io import disk, storage
from brokerless.layout import file_names


def make(directory: str, topic: str, partition: int) -> str:
    """Make the directory for attempts at the work on a partition, and return its path."""
    around = os.path.dirname(os.path.realpath(directory))
    path = f"{around}/{file_names.leftover_directory_name(topic, partition, 'delete', uuid.uuid4().hex)}"
    disk.make_directory(path)
    return path


def begin(path: str) -> str:
    """Make a directory for one attempt, on any machine that sees `path`, and return its path.

    Raises:
        ValueError: `path` is not visible here.
    """
    if not storage.exists(path):
        raise ValueError(
            f"{path} is not visible on {socket.gethostname()}: the driver and all executors must share the log "
            "directory"
        )
    attempt = f"{path}/{uuid.uuid4().hex}"
    disk.make_directory(attempt)
    return attempt


def remove(path: str) -> None:
    """Remove the directory for attempts, with all attempts in it."""
    # A cancelled attempt may still be writing. Then a broker deletes the rest.
    with contextlib.suppress(OSError):
        disk.remove_tree(path)
