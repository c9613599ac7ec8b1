"""The input of `produce`: JSON lines, an Arrow file or stream, or a Parquet file, each also from stdin."""

from __future__ import annotations

import sys
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import pyarrow as pa

from brokerless import _native
from brokerless.produce import parquet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_BLOCK = 1 << 22
_MANY_ROWS = 1 << 20


class InputRows(NamedTuple):
    """Rows of the input.

    Attributes:
        rows: the rows.
        place: returns the place of a row in the input, given its index: its line, or its row in the whole input.
    """

    rows: pa.RecordBatch
    place: Callable[[int], str]


def open_rows(source: str, form: str, bytes_as: str, encoded: Sequence[str] = ()) -> Iterator[InputRows]:
    """Yield the rows of `source` ("-": stdin), with their places in it.

    The columns in `encoded` have the JSON texts of lines; see `json_rows`.

    Raises:
        ValueError: a line does not have the form that `read` writes, or a batch of an Arrow or Parquet file is
            damaged. The message names the line or batch.
    """
    if form == "json":
        if source == "-":
            yield from _json(sys.stdin.buffer, bytes_as, encoded)
        else:
            with open(source, "rb") as file:
                yield from _json(file, bytes_as, encoded)
        return
    # Not mapped into memory: checked bytes must not change, and truncating a mapped file would end the process.
    content = pa.BufferReader(sys.stdin.buffer.read()) if source == "-" else pa.OSFile(source, "rb")
    with content:
        first = 0
        for rows in _checked(_parquet(content) if form == "parquet" else _arrow(content), form):
            yield InputRows(rows, partial(_row, first))
            first += rows.num_rows


def _checked(batches: Iterator[pa.RecordBatch], form: str) -> Iterator[pa.RecordBatch]:
    """Yield batches whose offsets and strings are valid: Arrow's readers do not check them."""
    for number in count():
        try:
            batch = next(batches, None)
            if batch is None:
                return
            batch.validate(full=True)
        except (pa.ArrowException, OSError, OverflowError) as error:
            raise ValueError(
                f"record batch {number} is damaged, or the format of the input is not {form} ({error}). No row of "
                "this record batch was produced"
            ) from error
        # Columns of nulls without a type take no bytes, however many rows they claim.
        if batch.num_rows > max(_MANY_ROWS, batch.nbytes):
            raise ValueError(f"record batch {number} has {batch.nbytes} bytes, too few for its {batch.num_rows} rows")
        yield batch


def _parquet(content: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    yield from parquet.batches(pq.ParquetFile(content, page_checksum_verification=True))


def _arrow(content: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    is_file = content.read(6) == b"ARROW1"
    content.seek(0)
    if is_file:
        reader = pa.ipc.open_file(content)
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)
    else:
        yield from pa.ipc.open_stream(content)


def _row(first: int, row: int) -> str:
    return f"row {first + row}"


def _line(lines: bytes, first: int, row: int) -> str:
    """Return the line of a row. Empty lines are no rows."""
    numbers = (first + at for at, line in enumerate(lines.split(b"\n")) if line.strip())
    return f"line {next(islice(numbers, row, None), first + row)}"


def _json(file: BinaryIO, bytes_as: str, encoded: Sequence[str]) -> Iterator[InputRows]:
    """Yield the rows of whole lines, some megabytes at a time."""
    # Blocks of an unfinished line. They are joined only once, since a line may be as long as a value.
    begun: list[bytes] = []
    line = 1
    block = file.read(_BLOCK)
    while block:
        following = file.read(_BLOCK)
        # The last line may have no end.
        whole, newline, rest = block.rpartition(b"\n") if following else (block, b"\n", b"")
        if newline:
            whole = b"".join([*begun, whole])
            yield InputRows(_timed(_native.json_rows(whole, bytes_as, line, encoded)), partial(_line, whole, line))
            line += whole.count(b"\n") + 1
            begun = []
        begun.append(rest)
        block = following


def _timed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Drop the timestamp column if no line has a timestamp."""
    return rows if rows["timestamp"].null_count < rows.num_rows else rows.drop_columns("timestamp")
