"""The changes to a partition directory: planned on a view of the directory first, then applied.

A dry run does not apply the changes. If a log cannot be opened, no change is applied to it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from brokerless.io import disk, storage
from brokerless.layout import file_names
from brokerless.remarks import Remark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self


class Slice(NamedTuple):
    """Bytes `start` to `end` of a file that exists now."""

    path: str
    start: int
    end: int


class Step(NamedTuple):
    """One change, and the reason for it.

    Attributes:
        verb: "remove", "rename", "truncate" or "write".
        name: the file's name.
        to: "" (to remove the file), the new name, the new length, or the new content.
        why: the reason, as text.
    """

    verb: str
    name: str
    to: str | int | bytes | Slice
    why: str

    def __str__(self) -> str:
        return f"{self.verb} {self.name}{self._detail()}: {self.why}"

    def remark(self, directory: str) -> Remark:
        """Return the change as a remark on the file, whose code is the verb."""
        return Remark(self.verb, str(self), path=f"{directory}/{self.name}")

    def _detail(self) -> str:
        if isinstance(self.to, int):
            return f" to {self.to} bytes"
        if isinstance(self.to, str):
            return f" to {self.to}" if self.to else ""
        length = len(self.to) if isinstance(self.to, bytes) else self.to.end - self.to.start
        return f" ({length} bytes)"


class Changes:
    """A view of a directory after some planned steps, and these steps. Nothing is changed before `apply`.

    Raises:
        OSError: a file cannot be read.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = pathlib.Path(directory, "a").write_bytes(b"abc")
    ...     changes = Changes(directory)
    ...     changes.rename("a", "b", why="a test")
    ...     changes.truncate("b", 2, why="a test")
    ...     changes.names(), changes.read("b"), sorted(storage.list_directory(directory))
    (['b'], b'ab', ['a'])
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.steps: list[Step] = []
        self._content: dict[str, Slice | bytes] = {}
        for name in storage.list_directory(directory):
            path = f"{directory}/{name}"
            # A broker skips everything that is not a file, and fails on a file that it cannot read.
            if storage.is_file(path):
                with storage.File(path) as file:
                    self._content[name] = Slice(path, 0, file.size())

    def names(self) -> list[str]:
        """Return the names of the files, sorted."""
        return sorted(self._content)

    def __contains__(self, name: str) -> bool:
        return name in self._content

    def size(self, name: str) -> int:
        """Return a file's length."""
        content = self._content[name]
        return content.end - content.start if isinstance(content, Slice) else len(content)

    def read(self, name: str) -> bytes:
        """Return a small file's content.

        Raises:
            OSError: the file cannot be read, or is larger than 64 MiB.
        """
        content = self._content[name]
        if isinstance(content, bytes):
            return content
        if content.start == 0 and content.end == storage.size(content.path):
            return storage.read_all(content.path)
        with self.open(name) as view:
            return view.read(0, view.size())

    def open(self, name: str) -> View:
        """Open a file for reading."""
        return View(self._content[name])

    def remove(self, name: str, why: str) -> None:
        """Remove a file."""
        del self._content[name]
        self.steps.append(Step("remove", name, "", why))

    def rename(self, name: str, to: str, why: str) -> None:
        """Rename a file, and replace any file that has the new name."""
        self._content[to] = self._content.pop(name)
        self.steps.append(Step("rename", name, to, why))

    def delete_segment(self, base_offset: int, why: str) -> None:
        """Delete a segment's files as a broker does: rename all first, so that a crash leaves no partial segment.

        Therefore, an index with neither a `.log` nor a `.log.deleted` beside it is not the result of a crash: someone
        removed the `.log`.
        """
        found = [
            file_names.segment_file(base_offset, kind) for kind in (*file_names.SEGMENT_KINDS, file_names.SNAPSHOT)
        ]
        names = [name for name in found if name in self]
        for name in names:
            self.rename(name, name + file_names.DELETED, why)
        for name in reversed(names):
            self.remove(name + file_names.DELETED, why)

    def set_aside(self, name: str, position: int, why: str) -> None:
        """Cut a file at a position, and keep the bytes cut off under a name that brokers ignore.

        After a crash before the cut, both the whole file and the copy of its end exist. The next call uses this copy,
        and does not write another one.
        """
        stem = f"{file_names.SET_ASIDE}{name}-from-{position}"
        earlier = [other for other in self._content if other.startswith(stem) and not other.endswith(_TMP)]
        aside = f"{stem}-{len(earlier)}" if earlier else stem
        if any(self._is_end(other, name, position) for other in earlier):
            self.truncate(name, position, why)
        elif position:
            if aside + _TMP in self:
                self.remove(aside + _TMP, "left by an interrupted recovery")
            self.copy(aside + _TMP, name, position, self.size(name), why)
            self.rename(aside + _TMP, aside, why)
            self.truncate(name, position, why)
        else:
            self.rename(name, aside, why)

    def _is_end(self, other: str, name: str, position: int) -> bool:
        """Return whether a file has the same content as another file from a position on."""
        if self.size(other) != self.size(name) - position:
            return False
        with self.open(other) as found, self.open(name) as file:
            blocks = range(0, found.size(), _BLOCK)
            return all(found.read(at, _BLOCK) == file.read(position + at, _BLOCK) for at in blocks)

    def truncate(self, name: str, size: int, why: str) -> None:
        """Cut a file to a size; do nothing if it is not larger."""
        content = self._content[name]
        if size < self.size(name):
            cut = content._replace(end=content.start + size) if isinstance(content, Slice) else content[:size]
            self._content[name] = cut
            self.steps.append(Step("truncate", name, size, why))

    def write(self, name: str, content: bytes, why: str) -> None:
        """Create a file, or replace its content."""
        if name in self._content and self.size(name) == len(content) and self.read(name) == content:
            return
        self._content[name] = content
        self.steps.append(Step("write", name, content, why))

    def copy(self, name: str, source: str, start: int, end: int, why: str) -> None:
        """Create a file from a part of another file."""
        content = self._content[source]
        assert isinstance(content, Slice)
        self._content[name] = Slice(content.path, content.start + start, content.start + end)
        # When the step is applied, the source has the name that it has in this view now.
        self.steps.append(Step("write", name, Slice(f"{self.directory}/{source}", start, end), why))

    @contextmanager
    def insert_before(self, start: int) -> Iterator[None]:
        """Move the block's steps in front of the steps from index `start` on, except for files that both groups change.

        Only producer snapshots can be changed by both groups. Their later change may leave a superfluous snapshot,
        which does no harm.
        """
        end = len(self.steps)
        yield
        later, added = self.steps[start:end], self.steps[end:]
        touched = {step.name for step in later}
        ahead = [step for step in added if step.name.removesuffix(file_names.DELETED) not in touched]
        behind = [step for step in added if step.name.removesuffix(file_names.DELETED) in touched]
        self.steps[start:] = [*ahead, *later, *behind]

    def drop_noops(self) -> None:
        """Drop the steps that leave a file unchanged: removed and written again, or written and removed again."""
        touched: dict[str, list[int]] = {}
        for number, step in enumerate(self.steps):
            for name in (step.name, step.to) if isinstance(step.to, str) and step.to else (step.name,):
                touched.setdefault(name, []).append(number)
        noops: set[int] = set()
        for name, numbers in touched.items():
            verbs = [self.steps[number].verb for number in numbers]
            content = self.steps[numbers[-1]].to
            path = f"{self.directory}/{name}"
            if verbs == ["write", "remove"]:
                is_as_before = not storage.exists(path)
            else:
                is_as_before = (
                    verbs == ["remove", "write"]
                    and isinstance(content, bytes)
                    and storage.size(path) == len(content)
                    and storage.read_all(path) == content
                )
            if is_as_before:
                noops.update(numbers)
        self.steps = [step for number, step in enumerate(self.steps) if number not in noops]

    def apply(self) -> None:
        """Apply all steps in order. The result is durable when this returns."""
        for step in self.steps:
            path = f"{self.directory}/{step.name}"
            if isinstance(step.to, int):
                with disk.open_existing(path) as file:
                    file.truncate(step.to)
                    file.sync()
            elif isinstance(step.to, bytes):
                disk.atomic_write(path, step.to)
            elif isinstance(step.to, Slice):
                _copy(step.to, path)
            else:
                if step.to:
                    disk.rename(path, f"{self.directory}/{step.to}")
                else:
                    disk.remove(path)
                # Sync at once, because later steps rely on the names that earlier steps have changed.
                disk.sync_directory(self.directory)
        if self.steps:
            disk.sync_directory(self.directory)
        self.steps = []


_BLOCK = 1 << 20
_TMP = ".tmp"


def _copy(content: Slice, path: str) -> None:
    with View(content) as view, disk.create(path) as file:
        for position in range(0, view.size(), _BLOCK):
            file.append(view.read(position, _BLOCK))
        file.sync()


class View:
    """A `Slice`, or bytes in memory, that reads like a `storage.File`."""

    __slots__ = ("_end", "_file", "_memory", "_start")

    def __init__(self, content: Slice | bytes) -> None:
        self._memory = content if isinstance(content, bytes) else b""
        self._file = storage.File(content.path) if isinstance(content, Slice) else None
        self._start, self._end = content[1:] if isinstance(content, Slice) else (0, len(content))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def size(self) -> int:
        """Return the length in bytes."""
        return self._end - self._start

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position` on, and return the number of bytes read."""
        buffer = buffer[: max(0, self.size() - position)]
        if self._file is not None:
            return self._file.read_into(self._start + position, buffer)
        buffer[:] = self._memory[position : position + len(buffer)]
        return len(buffer)

    def read(self, position: int, length: int) -> bytes:
        """Return at most `length` bytes from `position` on."""
        buffer = bytearray(max(0, min(length, self.size() - position)))
        return bytes(memoryview(buffer)[: self.read_into(position, memoryview(buffer))])
