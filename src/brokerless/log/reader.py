"""Readers of splits: they read a file in chunks through one buffer and decode the chunks into Arrow."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from brokerless import _native
from brokerless.arguments import check_number, check_several, unknown
from brokerless.errors import CorruptRecordError, is_disk_error, located
from brokerless.io import storage
from brokerless.io.streams import in_order
from brokerless.layout import commit_journal, file_names
from brokerless.log.defect import Defect
from brokerless.log.segment import NO_END, Segment, open_log
from brokerless.log.survey import cut_short
from brokerless.notes import collected, note
from brokerless.values.decoding import Decoding
from brokerless.values.row_decoder import RowDecoder, default_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping

    import pyarrow as pa

    from brokerless.io.storage import File
    from brokerless.log.read_options import Condition
    from brokerless.log.split import Split

KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""The default columns of a read: those of Spark's Kafka source, with headers."""
_MAX_ROWS = 65536


class Reader:
    """An iterator over rows as `pyarrow.RecordBatch`. Also an Arrow stream, for `pyarrow.table(reader)`.

    Args:
        splits: splits from `Log.plan`, read in this order.
        columns: the columns, in this order: see `read_split`.
        check_crcs: verify checksums.
        limit: stop after this many rows.
        decode: decode keys and values: see `Decoding`; "registry" needs its schemas. Or a decoder that several readers
            share.
        topics: the topics of all splits, which determine the types of decoded values; None: those of `splits`, if it is
            a sequence.
        search: the records to return; None: all.
        threads: the number of threads that read splits in advance. The order of the rows does not depend on it.
        by_headers: make rows from the headers of batches, if these have all columns. The records are then not parsed.
        conditions: conditions that rows must all meet.
        shown: the columns that are returned; None: all that are read.

    Attributes:
        schema: the Arrow schema of the rows.
        lost: the ranges left out so far, with `on_corrupt="skip"`.
        notes: one sentence for each uncertainty about the rows so far, such as a skipped range.

    Raises:
        ValueError: a column is unknown, or `limit` is negative.
        TypeError: `columns` is a string.
        CorruptRecordError: raised at the damage, after all rows before it were returned.
        RecordDeserializationError: a key or value does not decode, and `decode` is to raise an error.

    >>> import pyarrow as pa
    >>> import brokerless as bl
    >>> reader = Reader(bl.Log(SAMPLE).plan(on_corrupt="skip"), ["offset", "key"])
    >>> pa.table(reader).shape, reader.lost
    ((120, 2), [])
    """

    _is_for_spark = False

    def __init__(
        self,
        splits: Iterable[Split],
        columns: Sequence[str] | None = None,
        *,
        check_crcs: bool = True,
        limit: int | None = None,
        decode: RowDecoder | Decoding | Mapping[str, object] | str | None = None,
        topics: Collection[str | None] | None = None,
        search: _native.Search | None = None,
        threads: int = 1,
        by_headers: bool = False,
        conditions: Sequence[Condition] = (),
        shown: Sequence[str] | None = None,
    ) -> None:
        check_several("columns", columns)
        if limit is not None:
            check_number("limit", limit, 0)
        if topics is None:
            topics = {split.topic for split in splits} if isinstance(splits, Sequence) else ()
        decoder = _decoder(decode, columns, topics)
        if decoder is None:
            self._columns = list(KAFKA_COLUMNS if columns is None else columns)
            for column in self._columns:
                if column not in _native.ROW_COLUMNS:
                    raise unknown("column", column, _native.ROW_COLUMNS)
            self.schema = _native.row_schema(self._columns, spark=self._is_for_spark)
        else:
            self._columns, self.schema = decoder.columns, decoder.schema
        self._found = _Found()
        self.lost, self.notes = self._found.lost, self._found.notes
        stored = self._columns if decoder is None else decoder.input_columns
        read = partial(
            _rows_of,
            columns=stored,
            check_crcs=check_crcs,
            for_spark=self._is_for_spark,
            search=search,
            by_headers=by_headers,
        )
        stop = (lambda: None) if search is None else search.stop
        rows = _rows(splits, self._found, read, threads, stop)
        is_cut_late = bool(conditions) or (decoder is not None and decoder.leaves_out)
        if limit is not None and not is_cut_late:
            rows = first_rows(limit, rows)
        if decoder is not None:
            # If several readers share a decoder, their caller asks it for the notes.
            rows = _decoded(rows, decoder, None if decode is decoder else self.notes)
        for condition in conditions:
            rows = _met(rows, condition)
        if shown is not None and list(shown) != self._columns:
            rows = _of_columns(rows, shown)
            self._columns, self.schema = list(shown), _schema_of(self.schema, shown)
        self._rows = first_rows(limit, rows) if limit is not None and is_cut_late else rows
        self._has_ended = False

    def __repr__(self) -> str:
        lost = f", {len(self.lost)} ranges lost" if self.lost else ""
        return f"<Reader of {', '.join(self._columns)}{lost}>"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._check_unread()
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._rows)
        except BaseException:
            self._has_ended = True
            raise

    def _check_unread(self) -> None:
        if self._has_ended:
            raise ValueError("this reader has returned its rows: call the function again that made it")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read_all(self) -> pa.Table:
        """Return all remaining rows as one table in memory. A warning names each range left out since the last call.

        >>> import brokerless as bl
        >>> bl.Log(SAMPLE).read(columns=["offset"], limit=2).read_all().to_pydict()
        {'offset': [0, 1]}
        """
        import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command

        self._check_unread()
        known = len(self.notes)
        table = pa.Table.from_batches(self, schema=self.schema)
        for text in self.notes[known:]:
            note(text)
        return table

    def close(self) -> None:
        """Stop reading and close the file. Not needed after the last row."""
        self._rows.close()

    def __array__(self, *_: object, **__: object) -> None:
        # pandas would make a table of the batches, as objects.
        raise TypeError("a Reader is no array: pandas.DataFrame.from_arrow(reader), or reader.read_all().to_pandas()")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command

        self._check_unread()
        reader = pa.RecordBatchReader.from_batches(self.schema, self)
        stream: object = reader.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]
        return stream


@dataclass
class _Found:
    """The losses and notes of a read, beside its rows.

    The reader and its generator share this object. If the generator held the reader itself, the two would form a cycle.
    After a caller stops early, the file would then stay open, and its buffers in memory, until Python collects cycles.
    """

    lost: list[Defect] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    null_timestamps: int = 0


def _decoder(
    decode: RowDecoder | Decoding | Mapping[str, object] | str | None,
    columns: Sequence[str] | None,
    topics: Collection[str | None],
) -> RowDecoder | None:
    if decode is None or isinstance(decode, RowDecoder):
        return decode
    decoding = Decoding.of(decode)
    return RowDecoder(decoding, default_columns(decoding, KAFKA_COLUMNS) if columns is None else columns, topics)


def _decoded(
    rows: Generator[pa.RecordBatch, None, None], decoder: RowDecoder, notes: list[str] | None
) -> Generator[pa.RecordBatch, None, None]:
    with contextlib.closing(rows):
        try:
            for stored in rows:
                yield from decoder.decode(stored)
        finally:
            if notes is not None:
                notes += decoder.notes()


def _rows(
    splits: Iterable[Split],
    found: _Found,
    read: Callable[[Split], Generator[pa.RecordBatch | Defect | int, None, None]],
    threads: int,
    stop: Callable[[], None],
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of all splits, and collect what else is found. More than one thread reads splits in advance."""
    planned = _planned(splits, found)
    if threads > 1:
        parts = in_order((partial(read, split) for split in planned), threads, stop)
    else:
        parts = (part for split in planned for part in read(split))
    with contextlib.closing(parts):
        for part in parts:
            if isinstance(part, int):
                found.null_timestamps += part
            elif isinstance(part, Defect):
                found.lost.append(part)
                found.notes.append(str(part))
            else:
                yield part


def _planned(splits: Iterable[Split], found: _Found) -> Iterator[Split]:
    remaining = iter(splits)
    while True:
        # An iterator may plan a split only now.
        with collected(forwards=True) as notes:
            split = next(remaining, None)
        found.notes += notes
        if split is None:
            return
        yield split


def _rows_of(
    split: Split,
    *,
    columns: Sequence[str],
    check_crcs: bool,
    for_spark: bool,
    search: _native.Search | None,
    by_headers: bool,
) -> Generator[pa.RecordBatch | Defect | int, None, None]:
    """Yield the rows of a split, its losses, and the numbers of timestamps that became null for Spark."""
    nulls = 0
    with contextlib.ExitStack() as closing:
        closing.enter_context(located(split.path))
        parts = _Parts(
            split,
            columns,
            closing,
            check_crcs=check_crcs,
            for_spark=for_spark,
            search=search,
            by_headers=by_headers,
        )
        for part in parts:
            if isinstance(part, tuple):
                path, *lost = part
                yield Defect(path or split.path, *lost)
                continue
            if new := parts.null_timestamps - nulls:
                nulls += new
                yield new
            # The decoder stops only between Kafka batches, and a batch may hold more records than the limit.
            for start in range(0, part.num_rows, _MAX_ROWS):
                yield part.slice(start, _MAX_ROWS)


class _Parts:
    """The rows of a split, and the ranges that it leaves out. The error of a disk follows all rows before it."""

    def __init__(
        self,
        split: Split,
        columns: Sequence[str],
        closing: contextlib.ExitStack,
        *,
        check_crcs: bool,
        for_spark: bool,
        search: _native.Search | None,
        by_headers: bool,
    ) -> None:
        self._split, self._columns, self._closing, self._for_spark = split, columns, closing, for_spark
        self._search, self._by_headers = search, by_headers
        self._skips = split.on_corrupt == "skip"
        opened = partial(self._opened, check_crcs=check_crcs)
        # A reader that skips damage reads the whole file at once. Without checksums, it does not know all damage.
        self._reader = storage.despite_disk_errors(opened) if self._skips and check_crcs else opened()

    @property
    def null_timestamps(self) -> int:
        """The number of timestamps so far that are null because they are outside Spark's range."""
        return self._reader.null_timestamps

    def __iter__(self) -> Iterator[pa.RecordBatch | tuple[Any, ...]]:
        done = 0
        try:
            for part in self._reader:
                done += 0 if isinstance(part, tuple) else part.num_rows
                yield part
            return
        except OSError as error:
            if self._skips or not is_disk_error(error):
                raise
            failed = error
        # The failed read was one of many batches.
        with storage.bridged():
            self._reader = self._opened(check_crcs=True)
        try:
            for part in self._reader:
                if isinstance(part, tuple):
                    yield part
                    continue
                known = min(done, part.num_rows)
                done -= known
                yield part.slice(known)
        except CorruptRecordError as error:
            raise failed from error

    def _opened(self, *, check_crcs: bool) -> _native.SplitReader:
        split = self._split
        file, is_planned = (None, True) if split.is_absent else _open(split)
        if file is not None:
            self._closing.enter_context(file)
        return _native.SplitReader(
            split,
            file,
            self._columns,
            is_planned=is_planned,
            cut_short=partial(_cut_short, split),
            check_crcs=check_crcs,
            max_rows=_MAX_ROWS,
            spark=self._for_spark,
            search=self._search,
            by_headers=self._by_headers,
        )


def _cut_short(split: Split, next_offset: int) -> Defect | None:
    """Return the range of records that are missing at the end of the file, according to the segment's index."""
    directory, name = os.path.split(split.path)
    if name != file_names.segment_file(split.base_offset, file_names.LOG):
        return None
    segment = Segment(directory, split.base_offset, split.following_offset, file_names.LOG | file_names.INDEX)
    return next(cut_short(segment, next_offset, split.end_position), None)


class SparkReader(Reader):
    """A `Reader` of rows in Spark's types: timestamps in µs, and null if a record has no headers."""

    _is_for_spark = True

    @property
    def null_timestamps(self) -> int:
        """The number of timestamps so far that are null because they are outside Spark's range."""
        return self._found.null_timestamps


def _met(rows: Generator[pa.RecordBatch, None, None], condition: Condition) -> Generator[pa.RecordBatch, None, None]:
    with contextlib.closing(rows):
        for batch in rows:
            kept = condition.apply(batch)
            if kept.num_rows:
                yield kept


def _of_columns(
    rows: Generator[pa.RecordBatch, None, None], columns: Sequence[str]
) -> Generator[pa.RecordBatch, None, None]:
    with contextlib.closing(rows):
        for batch in rows:
            yield batch.select(list(columns))


def _schema_of(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command

    return pa.schema([schema.field(name) for name in columns])


def first_rows(limit: int, rows: Generator[pa.RecordBatch, None, None]) -> Generator[pa.RecordBatch, None, None]:
    """Yield the first rows, and then close the generator of all."""
    with contextlib.closing(rows):
        while limit and (batch := next(rows, None)) is not None:
            # Arrow takes no length above 64 bits.
            taken = min(limit, batch.num_rows)
            yield batch.slice(0, taken)
            limit -= taken


def read_split(
    split: Split,
    columns: Sequence[str] | None = None,
    *,
    check_crcs: bool = True,
    decode: Decoding | Mapping[str, object] | str | None = None,
) -> Reader:
    """Read one split, in any process or on any machine that can open the file.

    Args:
        split: a split from `Log.plan`.
        columns: the columns, in this order. The default is `key`, `value`, `topic`, `partition`, `offset`, `timestamp`,
            `timestampType`, `headers`. Also available: `leaderEpoch`, `baseOffset`, `position`, `magic`, `compression`,
            `producerId`, `producerEpoch`, `sequence`, `isTransactional`.
        check_crcs: verify checksums (the consumer's `check.crcs`).
        decode: decode keys and values: see `Log.read`. "registry" needs its schemas: `schemas=bl.Schemas(path)`.

    Returns:
        An iterator of `pyarrow.RecordBatch`.

    Raises:
        ValueError: a column is unknown.
        TypeError: `columns` is a string.
        CorruptRecordError: raised at the damage, after all rows before it were returned.

    >>> import brokerless as bl
    >>> first = bl.Log(SAMPLE).plan()[0]
    >>> sum(rows.num_rows for rows in read_split(first, ["offset"]))
    120
    """
    return Reader([split], columns, check_crcs=check_crcs, decode=decode)


def _open(split: Split) -> tuple[File, bool]:
    """Open the planned file. If the split covers a whole segment, also accept a replacement file with the same offsets.

    Returns:
        The file, and whether it is the planned file.
    """
    try:
        return open_log(split.path, split.is_of), True
    except FileNotFoundError:
        with contextlib.suppress(FileNotFoundError):
            if split.is_whole and _is_in_one_piece(split):
                return open_log(split.path), False
        what = "a broker deleted, truncated or replaced the file after the read was planned: read again"
        raise FileNotFoundError(errno.ENOENT, what, split.path) from None


def _is_in_one_piece(split: Split) -> bool:
    """Return whether the file that now has the segment's name holds all of its offsets.

    The file lacks offsets if a conversion made the segment larger, and so divided it. It also lacks offsets if the
    segment was and still is the last one: the log was truncated.

    Raises:
        FileNotFoundError: the directory no longer exists.
    """
    if split.following_offset is None:
        return False
    names = commit_journal.in_force(os.path.dirname(split.path), storage.list_directory)
    found = (file_names.live_base_offset(name) for name in names if name.endswith(".log"))
    behind = [base for base in found if base is not None and base > split.base_offset]
    is_closed = split.file_size is not None or bool(behind)
    return is_closed and min(behind, default=NO_END) >= split.following_offset
