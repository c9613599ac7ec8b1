"""The output of `read`: JSON lines, an Arrow IPC file or a Parquet file. A file appears when it is finished."""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import stat
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar

import pyarrow as pa

from brokerless.errors import CorruptRecordError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedWriter

    Write = Callable[[pa.RecordBatch], None]
    Lines = Callable[[pa.RecordBatch], bytes]

_OPENED = re.compile(r"/dev/stdout|/dev/stderr|(?:/dev|/proc/self)/fd/(\d+)")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}
_DAMAGE = (CorruptRecordError, UnsupportedFormatError)
# Rows arrive in batches of some 2 MB, which are far too small for row groups.
_ROW_GROUP_BYTES = 64 << 20
_NAME_BYTES = 200


class _Closable(Protocol):
    def close(self) -> None: ...


_WriterT = TypeVar("_WriterT", bound=_Closable)


@contextmanager
def open_sink(form: str, output: str | None, lines: Lines, schema: pa.Schema) -> Iterator[Write]:
    """Return a context manager whose value is a function that writes rows.

    Args:
        form: "json", "arrow" or "parquet".
        output: the file; None or "-" for stdout.
        lines: makes JSON lines of rows.
        schema: the schema of the rows.
    """
    if output is None or (output, form) == ("-", "json"):
        yield _json_writer(sys.stdout.buffer, lines)
        return
    with whole_file("/dev/stdout" if output == "-" else output) as file:
        if form == "json":
            yield _json_writer(file, lines)
        elif form == "arrow":
            with _finished(pa.ipc.new_file(file, schema)) as writer:
                yield writer.write_batch
        else:
            with _parquet_writer(file, schema) as write:
                yield write


def _json_writer(file: BinaryIO, lines: Lines) -> Write:
    def write(rows: pa.RecordBatch) -> None:
        file.write(lines(rows))
        # A reader of a pipe waits for them.
        file.flush()

    return write


@contextmanager
def _parquet_writer(file: BufferedWriter, schema: pa.Schema) -> Iterator[Write]:
    import pyarrow.parquet as pq

    pending: list[pa.RecordBatch] = []

    def flush() -> None:
        if pending:
            writer.write_table(pa.Table.from_batches(pending, schema))
            pending.clear()

    def write(rows: pa.RecordBatch) -> None:
        pending.append(rows)
        if sum(batch.nbytes for batch in pending) >= _ROW_GROUP_BYTES:
            flush()

    with _finished(pq.ParquetWriter(file, schema, write_page_checksum=True)) as writer:
        try:
            yield write
        except _DAMAGE:
            flush()
            raise
        flush()


@contextmanager
def _finished(writer: _WriterT) -> Iterator[_WriterT]:
    """Close a writer at the end of a block, also after damage, so that its file is readable. Raise the first error."""
    try:
        yield writer
    except _DAMAGE:
        writer.close()
        raise
    except BaseException:
        # For example, the disk is full: closing fails again, with a less useful error.
        with suppress(Exception):
            writer.close()
        raise
    writer.close()


@contextmanager
def whole_file(path: str) -> Iterator[BufferedWriter]:
    """Open a file for writing that takes the name `path` at the end of the block.

    After damage it holds the rows before the damage, and takes the name only if no file exists there. A link stays, and
    its target is replaced. A path that is no regular file (/dev/null, a FIFO) is written to directly.
    """
    if path.endswith("/"):
        raise IsADirectoryError(errno.EISDIR, "the name is that of a directory: name a file", path)
    target = os.path.realpath(path)
    before = _mode(path)
    opened = _OPENED.fullmatch(path)
    if opened or (before is not None and not stat.S_ISREG(before)):
        # Duplicate a descriptor of the shell, which keeps its position: opening the file again would start at 0.
        source = os.dup(int(opened[1] or _STANDARD[path])) if opened else path
        with _open(source, path, "wb" if opened else "ab") as file:
            yield file
        return
    directory, name = os.path.split(target)
    # Only the beginning of a long name: a file name has at most 255 bytes.
    begun = os.fsdecode(os.fsencode(name)[:_NAME_BYTES])
    temporary = os.path.join(directory, f".{begun}.{secrets.token_hex(8)}.partial")
    try:
        # The name is unique, so it is ours to remove after any error.
        with _open(temporary, path, "xb") as file:
            if before is not None:
                os.chmod(temporary, stat.S_IMODE(before))
            try:
                yield file
            except _DAMAGE as error:
                file.close()
                if before is None:
                    os.replace(temporary, target)
                else:
                    error.add_note(f"{path} is unchanged; to get the rows before the damage, name a new file")
                raise
        os.replace(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _mode(path: str) -> int | None:
    """Return the mode of a path, following links; None if it does not exist."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _open(path: str | int, shown: str, mode: str) -> BufferedWriter:
    return io.BufferedWriter(_Named(path, shown, mode))


class _Named(io.FileIO):
    """A file whose errors name its path, unlike the system's error about a full disk."""

    def __init__(self, path: str | int, shown: str, mode: str) -> None:
        try:
            super().__init__(path, mode)
        except OSError as error:
            raise OSError(error.errno, error.strerror, shown) from error
        self._shown = shown

    def write(self, content: Any, /) -> int:  # noqa: ANN401 - any buffer
        try:
            return super().write(content)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._shown) from error
