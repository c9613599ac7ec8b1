"""The formats of an export: rows to Parquet or JSON lines, and back.

Parquet holds rows as Spark's Kafka source returns them, with null for no headers. Spark's timestamps end in the year
294247: a later time is null in `timestamp`, and `timestampMillis` holds it. Topic and partition are in the directory
names, as in Spark's partitioned tables. JSON lines are the same as from `brokerless read`.

Decoded keys and values have the types of the Spark source in Parquet, and are nested in JSON.
"""

from __future__ import annotations

import gzip
import io
import zlib
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from brokerless import _native
from brokerless.io import storage
from brokerless.produce import parquet
from brokerless.spark.source.spark_types import spark_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import IO

    from typing_extensions import Buffer

    # Called with rows, and the path of the log file that they come from.
    Write = Callable[[pa.RecordBatch, str], None]

PATH = "path"
EXACT_TIME = "timestampMillis"
PARQUET_COLUMNS = (*(name for name in _native.ROW_COLUMNS if name not in ("topic", "partition")), EXACT_TIME, PATH)
JSON_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "leaderEpoch", "key", "value", "headers")
# The columns of a restored record.
RESTORED_COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers", "leaderEpoch")
COMPRESSIONS = {"parquet": ("zstd", "none", "snappy", "gzip", "lz4"), "json": ("none", "gzip")}

_MILLIS = pa.timestamp("ms", "UTC")
# JSON is read in blocks of this size; a longer line takes several.
_BLOCK = 8 << 20
# Arrow bytes of a row group.
_ROW_GROUP = 64 << 20
# Spark's timestamps are microseconds in 64 bits.
_LAST_MILLIS = (1 << 63) // 1000
# What Spark reads its own types from, such as intervals, which Parquet lacks.
_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
# The bytes of what does not decode: in JSON lines always an object.
_UNDECODED = ("keyBytes", "valueBytes")
# Columns of numbers that differ little from row to row, and columns whose values often repeat. Parquet gives up a
# dictionary that reaches this size: larger than usual, so that some thousand values of 1 KB fit. Keys get none: they
# rarely repeat, and a dictionary takes more space than a compressed column of rising keys.
_RISING = ("offset", "timestamp", "sequence")
_DICTIONARY = 4 << 20
_REPEATED = (
    "value",
    "timestampType",
    "leaderEpoch",
    "baseOffset",
    "position",
    "magic",
    "compression",
    "producerId",
    "producerEpoch",
    "isTransactional",
    PATH,
)


def suffix(form: str, compression: str) -> str:
    """Return the suffix of file names."""
    return ".parquet" if form == "parquet" else ".json.gz" if compression == "gzip" else ".json"


@contextmanager
def writing(
    file: IO[bytes], form: str, columns: Sequence[str], compression: str, decoded: pa.Schema | None = None
) -> Iterator[Write]:
    """Return a context manager whose value is a function that writes rows into a file.

    Args:
        file: the open file.
        form: "parquet" or "json".
        columns: the columns of the file.
        compression: one of `COMPRESSIONS`.
        decoded: the columns that decoding makes, in Spark's types; None: no row is decoded.
    """
    with _parquet(file, columns, compression, decoded) if form == "parquet" else _json(file, compression) as write:
        yield write


def reading(path: str, form: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file for an encoder that keeps offsets: times in ms, and no lineage columns.

    Args:
        path: the file, or its URL.
        form: "parquet" or "json".

    Raises:
        ValueError: the file is not one that an export writes.
    """
    with storage.File(path) as file:
        content = _Content(file)
        try:
            for rows in _parquet_rows(content) if form == "parquet" else _json_rows(content, path):
                yield _kept(rows)
        except (ValueError, pa.ArrowException, EOFError, OSError, zlib.error) as error:
            # An OSError with errno comes from the disk. Without one it is Arrow's, about the file's content.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise ValueError(f"{path}: {error}") from error


@contextmanager
def _json(file: IO[bytes], compression: str) -> Iterator[Write]:
    with ExitStack() as closing:
        to: Any = file
        if compression == "gzip":
            # Without a timestamp, so that a retry writes the same bytes.
            to = closing.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        yield lambda rows, _: to.write(
            _native.json_lines(rows, objects=[name for name in _UNDECODED if name in rows.schema.names])
        )


@contextmanager
def _parquet(file: IO[bytes], columns: Sequence[str], compression: str, decoded: pa.Schema | None) -> Iterator[Write]:
    schema = _parquet_schema(columns) if decoded is None else decoded_schema(columns, decoded)
    pending: list[tuple[pa.RecordBatch, str]] = []
    size = 0

    def write(rows: pa.RecordBatch, path: str) -> None:
        nonlocal size
        for field in decoded or ():
            if field.name in schema.names:
                column = spark_column(rows[field.name], field.type)
                rows = rows.set_column(rows.schema.get_field_index(field.name), field, column)
        pending.append((rows, path))
        size += rows.nbytes
        if size >= _ROW_GROUP:
            flush()

    def flush() -> None:
        nonlocal size
        if pending:
            rows = pa.Table.from_batches(list(_finished(pending, schema)), schema)
            writer.write_table(rows, row_group_size=rows.num_rows)
            pending.clear()
            size = 0

    made = set() if decoded is None else set(decoded.names)
    leaves = [(leaf.partition(".")[0], leaf) for leaf in leaf_paths(schema)]
    repeated = {*_REPEATED, *made} - {"key"}
    unordered = {"key", "value", "headers"} - made | {*_UNDECODED}
    rising = {name: "DELTA_BINARY_PACKED" for name in _RISING if name in columns}
    with pq.ParquetWriter(
        file,
        schema,
        compression=compression,  # type: ignore[arg-type] # checked
        use_dictionary=[leaf for name, leaf in leaves if name in repeated],  # type: ignore[arg-type] # names will do
        dictionary_pagesize_limit=_DICTIONARY,
        column_encoding=rising or None,
        write_statistics=[leaf for name, leaf in leaves if name not in unordered],
        store_schema=False,
        # Without it, a flipped bit would be restored as another record with a valid checksum.
        write_page_checksum=True,
    ) as writer:
        if decoded is not None:
            writer.add_key_value_metadata({_SPARK_SCHEMA: _spark_schema(schema)})
        yield write
        flush()


def _parquet_schema(columns: Sequence[str]) -> pa.Schema:
    rows = _native.row_schema([name for name in columns if name not in (PATH, EXACT_TIME)])
    own = {PATH: pa.field(PATH, pa.dictionary(pa.int32(), pa.string())), EXACT_TIME: pa.field(EXACT_TIME, pa.int64())}
    return pa.schema([own[name] if name in own else rows.field(name) for name in columns])


def decoded_schema(columns: Sequence[str], decoded: pa.Schema) -> pa.Schema:
    """Return the schema of a Parquet file with these columns, some of them decoded."""
    stored = _parquet_schema([name for name in columns if name not in decoded.names])
    return pa.schema([decoded.field(name) if name in decoded.names else stored.field(name) for name in columns])


def _spark_schema(schema: pa.Schema) -> str:
    plain = [pa.field(PATH, pa.string()) if field.name == PATH else field for field in schema]
    return from_arrow_schema(pa.schema(plain), prefer_timestamp_ntz=True).json()


def leaf_paths(schema: pa.Schema) -> list[str]:
    """Return the names of the columns that Parquet makes of these, such as `headers.list.element.key`.

    Raises:
        ValueError: Parquet cannot hold a type.
    """
    file = io.BytesIO()
    try:
        pq.ParquetWriter(file, schema).close()
    except pa.ArrowNotImplementedError as error:
        raise ValueError(
            f"Parquet cannot hold the decoded types: {error}. Choose the schema `writer`, whose values are JSON text, "
            "or the format `json`"
        ) from error
    made = pq.ParquetFile(file).schema
    return [made.column(place).path for place in range(len(made))]


def _finished(pending: Sequence[tuple[pa.RecordBatch, str]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows as Parquet holds them: null for no headers, as in Spark, and the columns that only files have."""
    # One dictionary for all batches, which Parquet then writes unchanged.
    paths = list(dict.fromkeys(path for _, path in pending))
    dictionary = pa.array(paths, pa.string())
    for rows, path in pending:
        columns: dict[str, Any] = dict(zip(rows.schema.names, rows.columns, strict=True))
        if EXACT_TIME in schema.names:
            columns["timestamp"], columns[EXACT_TIME] = _times(columns["timestamp"])
        if "headers" in columns:
            columns["headers"] = _null_if_none(columns["headers"])
        if PATH in schema.names:
            indices = pa.repeat(pa.scalar(paths.index(path), pa.int32()), rows.num_rows)
            columns[PATH] = pa.DictionaryArray.from_arrays(indices, dictionary)
        yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _times(times: pa.Array[Any]) -> tuple[pa.Array[Any], pa.Array[Any]]:
    """Return the times, null where Spark cannot hold them, and in a second column the ms of these nulls."""
    millis: Any = times.view(pa.int64())
    bounds: Any = pc.min_max(millis)
    least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
    if not millis or (least >= -_LAST_MILLIS and greatest <= _LAST_MILLIS):
        return times, pa.nulls(len(times), pa.int64())
    first, last = pa.scalar(-_LAST_MILLIS), pa.scalar(_LAST_MILLIS)
    is_far = pc.or_(pc.less(millis, first), pc.greater(millis, last))
    near: Any = pc.if_else(is_far, pa.scalar(None, times.type), times)
    exact: Any = pc.if_else(is_far, millis, pa.scalar(None, pa.int64()))
    return near, exact


def _null_if_none(headers: pa.Array[Any]) -> Any:  # noqa: ANN401 - an array
    """Replace empty lists by null."""
    has_some: Any = pc.greater(pc.list_value_length(headers), pa.scalar(0, pa.int32()))
    if not pc.any(has_some).as_py():
        return pa.nulls(len(headers), headers.type)
    return pc.if_else(has_some, headers, pa.scalar(None, headers.type))


def _parquet_rows(content: io.RawIOBase) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(content, page_checksum_verification=True) as file:  # type: ignore[arg-type] # what stands for a file, is one
        for column in _parquet_schema([*RESTORED_COLUMNS, EXACT_TIME]):
            at = file.schema_arrow.get_field_index(column.name)
            if at < 0:
                raise ValueError(f"there is no column {column.name}, or more than one")
            if file.schema_arrow.field(at).type != column.type:
                raise ValueError(f"column {column.name} is {file.schema_arrow.field(at).type}, not {column.type}")
        for rows in parquet.batches(file, [*RESTORED_COLUMNS, EXACT_TIME]):
            columns: dict[str, Any] = {name: rows[name] for name in RESTORED_COLUMNS}
            columns["timestamp"] = pc.coalesce(rows[EXACT_TIME], rows["timestamp"].cast(_MILLIS).view(pa.int64()))
            yield pa.RecordBatch.from_pydict(columns)


def _json_rows(content: io.RawIOBase, path: str) -> Iterator[pa.RecordBatch]:
    with ExitStack() as closing:
        lines: Any = closing.enter_context(gzip.GzipFile(fileobj=content)) if path.endswith(".gz") else content
        rest, first_line = b"", 1
        while block := lines.read(_BLOCK):
            whole, newline, rest = (rest + block).rpartition(b"\n")
            rows = _native.json_rows(whole + newline, first_line=first_line)
            first_line += whole.count(b"\n") + len(newline)
            yield rows.select(RESTORED_COLUMNS)
        if rest:
            raise ValueError(f"the file ends in the middle of line {first_line}")


def _kept(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as format 2 can hold them. Rows of format 0 have no time; as on a broker, they get CreateTime.

    Raises:
        ValueError: a column has a null that an export never writes.
    """
    for name in ("offset", "timestamp", "timestampType"):
        if rows[name].null_count:
            raise ValueError(f"column {name} has {rows[name].null_count} nulls")
    types: Any = rows["timestampType"]
    at = rows.schema.get_field_index("timestampType")
    is_without: Any = pc.less(types, pa.scalar(0, pa.int32()))
    return rows.set_column(at, "timestampType", pc.if_else(is_without, pa.scalar(0, pa.int32()), types))


class _Content(io.RawIOBase):
    """A Python file that reads a `storage.File`."""

    def __init__(self, file: storage.File) -> None:
        super().__init__()
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size()}[whence]
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Buffer) -> int:
        count = self._file.read_into(self._position, memoryview(buffer).cast("B"))
        self._position += count
        return count
