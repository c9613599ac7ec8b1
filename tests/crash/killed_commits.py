"""Commits of one epoch that are killed for good: run as a program, with the log directory to start from and a scratch.

The n-th directory in the scratch is what a process leaves that was killed in place of its n-th change to the file
system; the last one that of a process that was not. An fsync is no change: killed there, it leaves what it leaves when
it is killed in place of the next change.
"""

import os
import shutil
import signal
import sys

import pyarrow as pa

from brokerless.io import disk
from brokerless.layout.streaming_epochs import Epoch
from brokerless.log_dir.topics import NewTopic
from brokerless.staging.atomic_write import AtomicWrite

CHANGES = {"write", "copy_file_range", "ftruncate", "utime", "replace", "link", "unlink", "mkdir", "rmdir"}
# Small indexes: a new log has them in the size that they may get.
NEW = NewTopic(config={"segment_index_bytes": 1200})


def commit(path):
    """Write a row each to a topic that is there and to a new one, as the first epoch of a query."""
    write = AtomicWrite(path=str(path), others=NEW, owner="query")
    task = write.begin().writer()
    task.send(pa.RecordBatch.from_pydict({"value": [b"a", b"b"], "topic": ["t", "new"]}))
    write.commit(task.finish(), epoch=Epoch("query", 0))


class Killing:
    """What `disk` takes for `os`."""

    def __init__(self, number):
        self._left = number

    def __getattr__(self, name):
        if name in CHANGES:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)
        # The system goes on: nothing needs to be durable.
        return getattr(os, name) if name != "fsync" else lambda _: None


def main(start, scratch):
    # At its first batch pyarrow imports pandas: here, and not again in each child.
    pa.RecordBatch.from_pydict({"value": [b""]})
    number = status = 1
    while status:
        path = f"{scratch}/{number:04}"
        shutil.copytree(start, path)
        child = os.fork()
        if not child:
            disk.os = Killing(number)
            commit(path)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert not status or os.WTERMSIG(status) == signal.SIGKILL
        number += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
