"""Reading splits: chunks of a file through one buffer, decoded into Arrow."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, NamedTuple, Self

import pyarrow as pa

from brokerless import _native, storage
from brokerless.errors import CorruptRecordError, UnsupportedFormatError, check_several, located, unknown
from brokerless.log import files, journal
from brokerless.log.segment import NO_END, Entry, cut_batch, open_log
from brokerless.log.window import MAX_BATCH, Window, batch_at, sweep

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from brokerless.log.split import Split
    from brokerless.storage import File

KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""The columns of Spark's Kafka source, with headers: what is read unless told otherwise."""
_MAX_ROWS = 65536


class Lost(NamedTuple):
    """What `on_corrupt="skip"` left out.

    Any offset in [start_offset, end_offset) may have been there (none if they are equal); `end_offset` is None where
    the end of the log is not known either. `position` is where the bad batch starts in the file `path`.
    """

    path: str
    position: int
    start_offset: int
    end_offset: int | None
    reason: str

    def __str__(self) -> str:
        return f"{lost_in_words(self.start_offset, self.end_offset)} at {self.path}:{self.position}: {self.reason}"


def lost_in_words(start_offset: int, end_offset: int | None) -> str:
    """Say which offsets may be lost; the arguments are those of `Lost`.

    >>> lost_in_words(3, 5)
    'lost: offsets 3 to 4'
    """
    if end_offset is None:
        return f"lost: all from offset {start_offset} on"
    return f"lost: offsets {start_offset} to {end_offset - 1}" if end_offset > start_offset else "lost: no offset"


class Reader:
    """Rows, one `pyarrow.RecordBatch` after the other; also an Arrow stream (`pyarrow.table(reader)`).

    Args:
        splits: from `Log.plan`, read in this order.
        columns: as of `read_split`, and so are the others.
        check_crcs: likewise.
        spark: likewise.

    Attributes:
        schema: of all of them.
        lost: what was left out so far, with `on_corrupt="skip"`.
        null_timestamps: with `spark=True`: timestamps beyond Spark's range, null in the rows, so far.

    Raises:
        ValueError: an unknown column.
        TypeError: a string in place of several columns.
        CorruptRecordError: while reading: damage. The rows before it were handed out.

    >>> import brokerless as bl
    >>> reader = Reader(bl.Log(SAMPLE).plan(on_corrupt="skip"), ["offset", "key"])
    >>> pa.table(reader).shape, reader.lost
    ((150, 2), [])
    """

    def __init__(
        self,
        splits: Sequence[Split],
        columns: Sequence[str] | None = None,
        *,
        check_crcs: bool = True,
        spark: bool = False,
    ) -> None:
        check_several("columns", columns)
        self._columns = list(KAFKA_COLUMNS if columns is None else columns)
        for column in self._columns:
            if column not in _native.ROW_COLUMNS:
                raise unknown("column", column, _native.ROW_COLUMNS)
        self._check_crcs = check_crcs
        self._spark = spark
        self.schema = _native.row_schema(self._columns, spark=spark)
        self.lost: list[Lost] = []
        self.null_timestamps = 0
        self._rows = self._read(splits)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading and close the file. Not needed once all rows were read."""
        self._rows.close()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self)
        stream: object = reader.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]
        return stream

    def _read(self, splits: Sequence[Split]) -> Generator[pa.RecordBatch, None, None]:
        for split in splits:
            before = self.null_timestamps
            file, is_planned = _open(split)
            with file, located(split.path):
                decoder = self._decoder(split, is_planned=is_planned)
                end = split.end_position if is_planned else file.size()
                for rows in self._decode(split, file, decoder, end):
                    self.null_timestamps = before + decoder.null_timestamps
                    # the decoder stops between Kafka batches, and one may hold many records
                    for start in range(0, rows.num_rows, _MAX_ROWS):
                        yield rows.slice(start, _MAX_ROWS)

    def _decoder(self, split: Split, *, is_planned: bool) -> _native.Decoder:
        # The cleaner may have put the segments behind into the file, whose rows are another split's.
        end_offset = split.end_offset if is_planned else min(split.end_offset, split.following_offset or NO_END)
        return _native.Decoder(
            self._columns,
            topic=split.topic,
            partition=split.partition,
            start_offset=split.start_offset,
            end_offset=end_offset,
            aborted=split.aborted,
            check_crcs=self._check_crcs,
            max_rows=_MAX_ROWS,
            spark=self._spark,
        )

    def _decode(self, split: Split, file: File, decoder: _native.Decoder, end: int) -> Iterator[pa.RecordBatch]:
        window = Window(file, _start(split, file), end)
        expected = max(split.start_offset, split.base_offset)
        while window.position < end:
            if split.is_bounded and decoder.next_offset >= split.end_offset and _is_behind(split, file, window):
                return
            try:
                rows, consumed = decoder.decode(window.data, window.position)
                if rows is None and not consumed and not window.fill(decoder.needed):
                    raise cut_batch(window.position, file.size())
            except (CorruptRecordError, UnsupportedFormatError) as error:
                if split.on_corrupt != "skip":
                    raise
                expected = self._skip(split, file, error, max(expected, decoder.next_offset))
                if error.next_position is None:
                    return
                window.seek(error.next_position)
                continue
            if rows is not None:
                yield rows
            window.advance(consumed)

    def _skip(self, split: Split, file: File, error: CorruptRecordError | UnsupportedFormatError, expected: int) -> int:
        """Note what a bad batch, or all from it on if the framing is lost, takes away; return the offset behind it."""
        end = split.end_offset if split.is_bounded else split.following_offset
        if error.next_position is not None and error.next_position < split.end_position:
            batch = batch_at(file, error.next_position)
            base_offset = None if batch is None else batch["base_offset"]
            # where the batch behind it is bad as well, its own loss goes on from here
            end = expected if base_offset is None else min(split.end_offset, base_offset)
        end = None if end is None else max(expected, end)
        self.lost.append(Lost(split.path, error.position or 0, expected, end, str(error.args[0])))
        return expected if end is None else end


def read_split(
    split: Split, columns: Sequence[str] | None = None, *, check_crcs: bool = True, spark: bool = False
) -> Reader:
    """Read one split, anywhere the file can be reached.

    Args:
        split: from `Log.plan`.
        columns: in the order wanted: of `key`, `value`, `topic`, `partition`, `offset`, `timestamp`, `timestampType`,
            `headers`, which are the default, `leaderEpoch`, `baseOffset`, `position`, `magic`, `compression`,
            `producerId`, `producerEpoch`, `sequence`, `isTransactional`.
        check_crcs: verify checksums (the consumer's `check.crcs`).
        spark: Spark's types: timestamps in us, headers null where there are none.

    Returns:
        An iterator of `pyarrow.RecordBatch`.

    Raises:
        ValueError: an unknown column.
        TypeError: a string in place of several columns.
        CorruptRecordError: while reading: damage. The rows before it were handed out.

    >>> import brokerless as bl
    >>> first = bl.Log(SAMPLE).plan()[0]
    >>> sum(rows.num_rows for rows in read_split(first, ["offset"]))
    102
    """
    return Reader([split], columns, check_crcs=check_crcs, spark=spark)


def _open(split: Split) -> tuple[File, bool]:
    """Open the file that was planned, or of one that is read whole the one in its place that has the same offsets.

    Returns:
        The file, and whether it is the planned one.
    """
    try:
        return open_log(split.path, split.is_of), True
    except FileNotFoundError:
        with contextlib.suppress(FileNotFoundError):
            if split.is_whole and _is_in_one_piece(split):
                return open_log(split.path), False
        what = "deleted, cut or replaced since the read was planned, as brokers do: read again"
        raise FileNotFoundError(errno.ENOENT, what, split.path) from None


def _is_in_one_piece(split: Split) -> bool:
    """Tell whether the segment's offsets are all in the file that bears its name now.

    Not where it was divided, as a conversion does that makes it larger; nor where it was the last one, and no other is
    behind it: then the log was truncated.

    Raises:
        FileNotFoundError: the directory is not there any more.
    """
    if split.following_offset is None:
        return False
    names = journal.in_force(os.path.dirname(split.path), storage.list_directory)
    found = (files.live_base_offset(name) for name in names if name.endswith(".log"))
    behind = [base for base in found if base is not None and base > split.base_offset]
    is_closed = split.file_size is not None or bool(behind)
    return is_closed and min(behind, default=NO_END) >= split.following_offset


def _is_behind(split: Split, file: File, window: Window) -> bool:
    """Tell whether all that follows is at or above the end offset: one batch that seems so may have a flipped bit."""
    batch = batch_at(file, window.position)
    return batch is None or batch["base_offset"] is None or int(batch["base_offset"]) >= split.end_offset


def _start(split: Split, file: File) -> int:
    """Return where the first batch of a split starts."""
    if split.entry is None or Entry(*split.entry, split.position).holds(file):
        return split.position
    boundary = split.fallback_position
    walk = _native.HeaderWalk()

    def step(data: memoryview, position: int, end: int) -> int:
        wanted = walk.feed(data, position, end)
        return end if walk.done else wanted

    sweep(file, 0, boundary, step)
    if walk.end_position >= boundary:
        return boundary
    # the batch here starts before the boundary and is the split's before; the one behind it is ours
    batch = batch_at(file, walk.end_position, max_bytes=MAX_BATCH)
    return walk.end_position if batch is None else int(batch["position"]) + int(batch["size"])
