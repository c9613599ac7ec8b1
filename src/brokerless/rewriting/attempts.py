"""Places for work that may be done more than once: each attempt writes into a directory of its own.

The directory of a piece of work is made by who owns the log, beside the partition's, under a name that brokers delete.
Where a link stands for the partition's, it is made beside what the link leads to: files are moved from the one to the
other, which no two disks can.

Attempts are made in it wherever it is seen. The owner moves what one of them made, and removes the rest.
"""

from __future__ import annotations

import contextlib
import os
import socket
import uuid

from brokerless.io import disk, storage
from brokerless.layout import file_names


def make(directory: str, topic: str, partition: int) -> str:
    """Make the directory of a piece of work on a partition; return its path."""
    around = os.path.dirname(os.path.realpath(directory))
    path = f"{around}/{file_names.leftover_directory_name(topic, partition, 'delete', uuid.uuid4().hex)}"
    disk.make_directory(path)
    return path


def begin(path: str) -> str:
    """Make a directory for one attempt, on whatever machine sees the one of the work; return its path.

    Raises:
        ValueError: it is not to be seen here.
    """
    if not storage.exists(path):
        raise ValueError(
            f"{path} is not to be seen on {socket.gethostname()}: the log directory has to be one that the driver and "
            "all executors share"
        )
    attempt = f"{path}/{uuid.uuid4().hex}"
    disk.make_directory(attempt)
    return attempt


def remove(path: str) -> None:
    """Remove the directory of a piece of work, and all attempts in it."""
    # One that was given up may just be writing: then a broker deletes what is left.
    with contextlib.suppress(OSError):
        disk.remove_tree(path)
