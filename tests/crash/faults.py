"""A disk that dies: stands in for `os` inside `brokerless.io.disk`, and knows what would be left.

Every change (create, write, truncate, fsync, rename, link, remove, make or remove a directory) is a step. At step n the
process is killed: `Killed` is raised there and at every step after it, so nothing that cleans up can still write.
Half of a write that is killed reaches the file. What is left then depends on how hard the fall was:

- `kill`: the process died, the system did not. All finished steps count.
- `power`: what was not fsynced is gone: contents are as at the file's last fsync, names as at the directory's.
- `names`: contents as at the last fsync, but all names are there. Journals of real file systems do that: the file
  that was renamed without an fsync is there, and empty.
"""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from brokerless.io import disk

FALLS = ("kill", "power", "names")
# The attribute of a Directory that has the names which a fall leaves.
NAMES_LEFT = {"power": "synced", "names": "names"}


class Killed(BaseException):
    """The process ends here. No Exception: nothing that handles errors may catch it."""


@dataclass
class File:
    """A file, whatever its names."""

    synced: bytes = b""


@dataclass
class Directory:
    """A directory: its names now, and those that an fsync made durable."""

    names: dict = field(default_factory=dict)
    synced: dict = field(default_factory=dict)


class DyingDisk:
    """What `disk` takes for `os`. Every path is below `root`, whose content at the start is durable.

    Attributes:
        steps: the name of each step so far, with the path it was at.
    """

    O_RDONLY, O_RDWR, O_CREAT, O_EXCL, SEEK_SET = os.O_RDONLY, os.O_RDWR, os.O_CREAT, os.O_EXCL, os.SEEK_SET
    name = os.name
    path = os.path

    def __init__(self, root, kill_at=None):
        self.steps = []
        self._root = os.path.abspath(root)
        self._kill_at = kill_at
        self._tree = _loaded(self._root)
        self._open = {}
        self._states = {}

    def left(self, fall, to):
        """Build in `to`, which does not exist yet, what is left after this fall; return it."""
        if fall == "kill":
            shutil.copytree(self._root, to)
        else:
            _build(self._tree, Path(to), NAMES_LEFT[fall])
        return Path(to)

    def is_same_as_before(self, fall):
        """Return whether this fall leaves what it leaves when the process is killed one step earlier."""
        if fall == "kill":
            *_, done, killed = ["", *self.steps]
            return done.startswith("fsync ") and not killed.startswith("write ")
        return self._states.get(fall) == _state(self._tree, NAMES_LEFT[fall])

    def open(self, path, flags, mode=0o777):
        parent, name = self._place(path)
        node = self._tree if name == "." else parent.names.get(name)
        if node is None and flags & os.O_CREAT:
            self._step("create", path)
        descriptor = os.open(path, flags, mode)
        if node is None:
            node = parent.names[name] = File()
        self._open[descriptor] = (path, node)
        return descriptor

    def write(self, descriptor, content):
        if self._is_last():
            os.write(descriptor, content[: len(content) // 2])
        self._step("write", self._open[descriptor][0])
        return os.write(descriptor, content)

    def copy_file_range(self, source, descriptor, count, source_at, at):
        content = os.pread(source, count, source_at)
        if self._is_last():
            os.pwrite(descriptor, content[: len(content) // 2], at)
        self._step("write", self._open[descriptor][0])
        return os.pwrite(descriptor, content, at)

    def ftruncate(self, descriptor, length):
        self._step("truncate", self._open[descriptor][0])
        os.ftruncate(descriptor, length)

    def utime(self, descriptor, ns):
        self._step("utime", self._open[descriptor][0])
        os.utime(descriptor, ns=ns)

    def fsync(self, descriptor):
        path, node = self._open[descriptor]
        self._step("fsync", path)
        if isinstance(node, Directory):
            node.synced = dict(node.names)
        else:
            node.synced = os.pread(descriptor, os.fstat(descriptor).st_size, 0)

    def replace(self, path, to):
        (parent, name), (new_parent, new_name) = self._place(path), self._place(to)
        self._step("rename", path)
        os.replace(path, to)
        new_parent.names[new_name] = parent.names.pop(name)

    def link(self, path, to):
        (parent, name), (new_parent, new_name) = self._place(path), self._place(to)
        self._step("link", to)
        os.link(path, to)
        new_parent.names[new_name] = parent.names[name]

    def unlink(self, path):
        parent, name = self._place(path)
        if name in parent.names:
            self._step("remove", path)
        os.unlink(path)
        del parent.names[name]

    def mkdir(self, path):
        parent, name = self._place(path)
        self._step("make directory", path)
        os.mkdir(path)
        parent.names[name] = Directory()

    def rmdir(self, path):
        parent, name = self._place(path)
        self._step("remove directory", path)
        os.rmdir(path)
        del parent.names[name]

    def scandir(self, path):
        return os.scandir(path)

    def close(self, descriptor):
        self._open.pop(descriptor, None)
        os.close(descriptor)

    def fstat(self, descriptor):
        return os.fstat(descriptor)

    def lseek(self, descriptor, position, whence):
        return os.lseek(descriptor, position, whence)

    def _is_last(self):
        return self._kill_at is not None and len(self.steps) + 1 == self._kill_at

    def _step(self, name, path):
        if self._kill_at is not None and len(self.steps) + 1 >= self._kill_at:
            if self._is_last():
                self.steps.append(f"{name} {os.path.relpath(path, self._root)}")
            raise Killed(self.steps[-1])
        if self._kill_at is not None and len(self.steps) + 1 == self._kill_at - 1:
            self._states = {fall: _state(self._tree, names) for fall, names in NAMES_LEFT.items()}
        self.steps.append(f"{name} {os.path.relpath(path, self._root)}")

    def _place(self, path):
        """Return the directory that `path` is a name in, and the name; of the root itself the name is "."."""
        *way, name = os.path.relpath(os.path.abspath(path), self._root).split(os.sep)
        assert ".." not in (*way, name), f"{path} is outside of {self._root}"
        node = self._tree
        for part in way:
            node = node.names[part]
        return node, name


def _loaded(path):
    names = {}
    with os.scandir(path) as entries:
        for entry in entries:
            names[entry.name] = _loaded(entry.path) if entry.is_dir() else File(Path(entry.path).read_bytes())
    return Directory(names, dict(names))


def _state(node, names):
    """Return all that `_build` would build."""
    if isinstance(node, File):
        return node.synced
    return {name: _state(child, names) for name, child in getattr(node, names).items()}


def _build(directory, to, names):
    to.mkdir()
    for name, node in getattr(directory, names).items():
        if isinstance(node, Directory):
            _build(node, to / name, names)
        else:
            (to / name).write_bytes(node.synced)


@dataclass
class Crash:
    """One crash: `step` is the one that was killed, `directory` what it left after this `fall`."""

    step: str
    fall: str
    directory: Path


def each_crash(work, start, scratch, falls=FALLS):
    """Run `work(directory)` on a copy of `start` once a step, killed there, and yield what each fall leaves.

    A step may change nothing of what a fall leaves: an fsync nothing that a killed process leaves, a write nothing that
    is durable. The next step then skips that fall. The last run is not killed: its `step` is "" and nothing has fallen.
    `work` makes the same steps each time.
    """
    number = 0
    while True:
        number += 1
        directory = Path(scratch) / f"run-{number}"
        shutil.copytree(start, directory)
        dying = DyingDisk(directory, kill_at=number)
        step = ""
        with mock.patch.object(disk, "os", dying):
            try:
                work(str(directory))
            except Killed:
                step = dying.steps[-1]
        if not step:
            yield Crash("", "", directory)
            return
        for fall in falls:
            if not dying.is_same_as_before(fall):
                yield Crash(step, fall, dying.left(fall, Path(scratch) / f"run-{number}-{fall}"))
