"""A disk that cannot read some bytes of a file."""

import errno
import os

from brokerless.errors import read_error
from brokerless.io import storage
from support.tally import tally


def fail(monkeypatch, path, start=0, end=1 << 62):
    """Make every read of bytes [start, end) of a file fail, in this process."""
    tally("unreadable")
    read_into = storage._Local.read_into

    def failing(self, position, buffer):
        last = min(position + len(buffer), self.size())
        if self._path == str(path) and position < end and start < last:
            raise read_error(errno.EIO, self._path, position)
        return read_into(self, position, buffer)

    monkeypatch.setattr(storage._Local, "read_into", failing)
    # The core then reads through `read_into`, too.
    monkeypatch.setattr(storage.File, "local", None)


def denied():
    """Return the words of a command that may not read files of mode 0, even if root runs it."""
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
