"""A disk that remembers: stands in for `os` inside `brokerless.io.disk`, and knows what each crash would leave.

Every change (create, write, truncate, utime, fsync, rename, link, remove, make or remove a directory) is a step. The
work runs once. Before each step, what a crash there would leave is noted; of a write, half has reached the file. What
is left depends on how hard the fall is:

- `kill`: the process dies, the system does not. All finished steps count.
- `power`: what was not fsynced is gone: contents are as at the file's last fsync, names as at the directory's.
- `names`: contents as at the last fsync, but all names are there. Journals of real file systems do that: the file
  that was renamed without an fsync is there, and empty.
"""

import errno
import os
import shutil
import signal
import threading
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from brokerless.cli.exit_codes import Ended
from brokerless.io import disk
from brokerless.io.interrupts import interrupt
from support.tally import tally

FALLS = ("kill", "power", "names")


class Left(NamedTuple):
    """What is left of a file. `modified` is None unless it was set, and nothing was written since."""

    content: bytes = b""
    modified: int | None = None


EMPTY = Left()


@dataclass
class File:
    """A file, whatever its names: as it is now, and as an fsync made it durable."""

    now: Left = EMPTY
    synced: Left = EMPTY

    def left(self, fall):
        return self.now if fall == "kill" else self.synced


@dataclass
class Directory:
    """A directory: its names now, and those that an fsync made durable."""

    names: dict = field(default_factory=dict)
    synced: dict = field(default_factory=dict)

    def left(self, fall):
        names = self.synced if fall == "power" else self.names
        return tuple(sorted((name, node.left(fall)) for name, node in names.items()))


class RememberingDisk:
    """What `disk` takes for `os`. Every path is below `root`, whose content at the start is durable.

    Attributes:
        tree: the root, as it is now.
        steps: the name of each step so far, with the path it was at.
        progress: what `observe` returned before each step.
    """

    O_RDONLY, O_RDWR, O_CREAT, O_EXCL, SEEK_SET = os.O_RDONLY, os.O_RDWR, os.O_CREAT, os.O_EXCL, os.SEEK_SET
    name = os.name
    path = os.path

    def __init__(self, root, falls=FALLS, observe=lambda: None):
        self.steps = []
        self.progress = []
        self._root = os.path.abspath(root)
        self._falls = falls
        self._observe = observe
        self.tree = _loaded(self._root)
        self._open = {}
        self._left = []
        # Files are removed by several threads.
        self._lock = threading.Lock()

    def states(self):
        """Yield step, fall, state and progress where a state or the progress was not seen before."""
        seen = set()
        for step, left, progress in zip(self.steps, self._left, self.progress, strict=True):
            for fall, state in left.items():
                if (state, progress) not in seen:
                    seen.add((state, progress))
                    yield step, fall, state, progress

    def returned(self):
        """Note what a fall leaves once the work has returned: all that it promised is durable."""
        with self._lock:
            self._step("return", self._root)

    def left(self, fall, to, before=None):
        """Build in `to` what a fall leaves: before the step of this number, from 0 on, or now."""
        return _build(self.tree.left(fall) if before is None else self._left[before][fall], Path(to))

    def open(self, path, flags, mode=0o777):
        with self._lock:
            parent, name = self._place(path)
            node = self.tree if name == "." else parent.names.get(name)
            if node is None and flags & os.O_CREAT:
                self._step("create", path)
            descriptor = os.open(path, flags, mode)
            if node is None:
                node = parent.names[name] = File()
            self._open[descriptor] = (path, node)
            return descriptor

    def write(self, descriptor, content):
        return self._write(descriptor, content, os.lseek(descriptor, 0, os.SEEK_CUR), os.write)

    def copy_file_range(self, source, descriptor, count, source_at, at):
        content = os.pread(source, count, source_at)
        return self._write(descriptor, content, at, lambda descriptor, content: os.pwrite(descriptor, content, at))

    def ftruncate(self, descriptor, length):
        with self._lock:
            path, node = self._open[descriptor]
            self._step("truncate", path)
            os.ftruncate(descriptor, length)
            node.now = Left(_content(descriptor))

    def utime(self, descriptor, ns):
        with self._lock:
            path, node = self._open[descriptor]
            self._step("utime", path)
            os.utime(descriptor, ns=ns)
            node.now = node.now._replace(modified=ns[1])

    def fsync(self, descriptor):
        with self._lock:
            path, node = self._open[descriptor]
            self._step("fsync", path)
            node.synced = dict(node.names) if isinstance(node, Directory) else node.now

    def replace(self, path, to):
        with self._lock:
            (parent, name), (new_parent, new_name) = self._place(path), self._place(to)
            self._step("rename", path)
            os.replace(path, to)
            new_parent.names[new_name] = parent.names.pop(name)

    def link(self, path, to):
        with self._lock:
            (parent, name), (new_parent, new_name) = self._place(path), self._place(to)
            self._step("link", to)
            os.link(path, to)
            new_parent.names[new_name] = parent.names[name]

    def unlink(self, path):
        with self._lock:
            parent, name = self._place(path)
            if name in parent.names:
                self._step("remove", path)
            os.unlink(path)
            del parent.names[name]

    def mkdir(self, path, mode=0o777):
        with self._lock:
            parent, name = self._place(path)
            self._step("make directory", path)
            os.mkdir(path, mode)
            parent.names[name] = Directory()

    def rmdir(self, path):
        with self._lock:
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

    def _write(self, descriptor, content, at, write):
        with self._lock:
            path, node = self._open[descriptor]
            before, half = node.now.content, bytes(content[: len(content) // 2])
            if half:
                node.now = Left(before[:at].ljust(at, b"\0") + half + before[at + len(half) :])
            self._step("write", path)
            written = write(descriptor, content)
            node.now = Left(_content(descriptor))
            return written

    def _step(self, name, path):
        self.steps.append(f"{name} {os.path.relpath(path, self._root)}")
        self._left.append({fall: self.tree.left(fall) for fall in self._falls})
        self.progress.append(self._observe())

    def _place(self, path):
        """Return the directory that `path` is a name in, and the name; of the root itself the name is "."."""
        *way, name = os.path.relpath(os.path.abspath(path), self._root).split(os.sep)
        assert ".." not in (*way, name), f"{path} is outside of {self._root}"
        node = self.tree
        for part in way:
            node = node.names[part]
        return node, name


def _content(descriptor):
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _loaded(path):
    names = {}
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir():
                names[entry.name] = _loaded(entry.path)
            else:
                left = Left(Path(entry.path).read_bytes(), entry.stat().st_mtime_ns)
                names[entry.name] = File(left, left)
    return Directory(names, dict(names))


def _contents(node):
    if isinstance(node, File):
        return node.now.content
    return {name: _contents(child) for name, child in node.names.items()}


def _build(state, to):
    to.mkdir()
    for name, left in state:
        if isinstance(left, Left):
            (to / name).write_bytes(left.content)
            if left.modified is not None:
                os.utime(to / name, ns=(left.modified, left.modified))
        else:
            _build(left, to / name)
    return to


@dataclass
class Crash:
    """One crash: `step` is the one that it prevented, `directory` what it left after this `fall`.

    `progress` is what `observe` returned before the step.
    """

    step: str
    fall: str
    directory: Path
    progress: object = None


def each_crash(work, start, scratch, falls=FALLS, observe=lambda: None):
    """Run `work(directory)` on a copy of `start`, and yield what each fall before each step, and behind all, leaves.

    Each is in the directory in which the work was. It is removed when the next one is asked for.
    What one fall left, with the same progress, is not yielded again for another one: most steps change nothing of what
    some falls leave. The last crash is none: its `step` is "", and nothing has fallen.
    """
    directory, whole = Path(scratch) / "run", Path(scratch) / "done"
    shutil.copytree(start, directory)
    remembering = RememberingDisk(directory, falls, observe)
    with mock.patch.object(disk, "os", remembering):
        work(str(directory))
        remembering.returned()
    assert _contents(_loaded(directory)) == _contents(remembering.tree), "a change did not go through `disk`"
    directory.rename(whole)
    for step, fall, state, progress in remembering.states():
        tally("crash", fall)
        yield Crash(step, fall, _build(state, directory), progress)
        shutil.rmtree(directory, ignore_errors=True)
    yield Crash("", "", whole.rename(directory), observe())


_CHANGES = {"copy_file_range", "ftruncate", "link", "mkdir", "open", "replace", "rmdir", "unlink", "utime", "write"}


class InterruptingDisk:
    """What `disk` takes for `os`: as soon as a call of this number has returned, a hangup comes.

    Attributes:
        at: the call, or None as long as there were fewer.
    """

    def __init__(self, number):
        self.at = None
        self._left = number

    def __getattr__(self, name):
        if name == "fsync":
            # The system goes on: nothing needs to be durable.
            return lambda _: None
        function = getattr(os, name)
        # Only the main thread handles signals.
        if name not in _CHANGES or threading.current_thread() is not threading.main_thread():
            return function

        def call(*arguments, **options):
            returned = function(*arguments, **options)
            self._left -= name != "open" or bool(arguments[1] & os.O_CREAT)
            if not self._left and self.at is None:
                self.at = f"{name} {arguments[0]}"
                interrupt(Ended(signal.SIGHUP))
            return returned

        return call


def each_interrupt(work, start, scratch):
    """Run `work(directory)` on copies of `start`, and yield what a signal after each change to the disk leaves.

    The first is none: the work is done, and its directory stays. Each other one is removed when the next is asked for.
    What is as after an earlier signal is not yielded again.
    """

    def ends(directory, interrupting):
        try:
            work(directory)
        except Ended:
            return False
        assert interrupting.at is None, f"an interrupt was lost: {interrupting.at}"
        return True

    return _each("signal", InterruptingDisk, work, ends, start, scratch)


def _each(what, disturbing, work, ends, start, scratch):
    """Yield what the work leaves undisturbed, and then with each number of a disk that disturbs it.

    `ends` does the work on such a disk, and returns whether nothing was left to disturb.
    """
    seen = set()
    whole = Path(shutil.copytree(start, Path(scratch) / "done"))
    work(str(whole))
    yield Crash("", "", whole)
    for number in count(1):
        directory = Path(shutil.copytree(start, Path(scratch) / "run"))
        disturbed = disturbing(number)
        with mock.patch.object(disk, "os", disturbed):
            if ends(str(directory), disturbed):
                return
        state = repr(_contents(_loaded(directory)))
        if state not in seen:
            seen.add(state)
            tally(what)
            yield Crash(disturbed.at, what, directory)
        shutil.rmtree(directory)


_TAKES_SPACE = {"copy_file_range", "ftruncate", "link", "mkdir", "open", "write"}


class FullDisk:
    """What `disk` takes for `os`: from the change of this number on, nothing that takes space succeeds.

    Renames and removals still succeed. The first write that fails leaves half of its bytes in the file.

    Attributes:
        at: the change, or None as long as there were fewer.
    """

    def __init__(self, number):
        self.at = None
        self._left = number
        self._lock = threading.Lock()

    def __getattr__(self, name):
        if name == "fsync":
            return lambda _: None
        function = getattr(os, name)
        if name not in _TAKES_SPACE:
            return function

        def call(*arguments, **options):
            if name == "open" and not (arguments[1] & os.O_CREAT and not os.path.exists(arguments[0])):
                return function(*arguments, **options)
            if name == "ftruncate" and arguments[1] <= os.fstat(arguments[0]).st_size:
                return function(*arguments, **options)
            with self._lock:
                self._left -= 1
                full = self._left <= 0
                if full and self.at is None:
                    self.at = f"{name} {arguments[0]}"
                    if name == "write" and len(arguments[1]) > 1:
                        return function(arguments[0], arguments[1][: len(arguments[1]) // 2])
            if full:
                path = arguments[:1] if isinstance(arguments[0], str) else ()
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *path)
            return function(*arguments, **options)

        return call


def each_full_disk(work, start, scratch):
    """Run `work(directory)` on copies of `start`, and yield what it leaves if the disk is full from each change on.

    As `each_interrupt`.
    """

    def ends(directory, full):
        work(directory)
        return full.at is None

    return _each("full disk", FullDisk, work, ends, start, scratch)
