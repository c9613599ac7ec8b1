"""`LogDataset`: the rows of logs as a `pyarrow.dataset.Dataset`, for every engine that reads one."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, cast

from brokerless.io.cores import cores
from brokerless.io.scanning import Scannable
from brokerless.log.filter import Filter
from brokerless.log.log_reader import LogReader, schema_of
from brokerless.values.row_decoder import default_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    import pyarrow.compute as pc

    from brokerless.log.read_options import Plannable, ReadOptions
    from brokerless.values.decoding import Decoding

# An engine that counts rows asks for the first column: it costs nothing.
_COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers", "timestampType", "topic")
# Splits of one partition are read at the same time.
_TARGET_BYTES = 64 << 20


class LogDataset(Scannable):
    """The rows of logs, of which an engine reads the columns and the rows that it needs. Several threads read.

    A filter on topics, partitions, offsets and times leaves out logs, segments and parts of them. One on keys and
    values is applied to the bytes of batches first. If only columns are asked for that follow from the header of a
    batch, its records are not parsed.

    Args:
        logs: the logs.
        options: the options of the read. `decode` must have its schemas.

    >>> import brokerless as bl, pyarrow.compute as pc
    >>> rows = bl.LogDirs(SAMPLE_DIR).dataset(["headers"])
    >>> rows.count_rows(), rows.to_table(["offset"], filter=pc.field("key") == b"k1").num_rows
    (120, 2)
    """

    def __init__(self, logs: Sequence[Plannable], options: ReadOptions) -> None:
        self._logs, self._options = logs, options
        decode = cast("Decoding | None", options.get("decode"))
        usual = _COLUMNS if decode is None else default_columns(decode, _COLUMNS)
        named = options.get("columns")
        of_all = schema_of(decode, {log.topic for log in logs})
        super().__init__(_chosen(of_all, list(usual if named is None else named)))

    def __repr__(self) -> str:
        return f"<LogDataset of {len(self._logs)} logs: {', '.join(self.schema.names)}>"

    def parts(self, filter: pc.Expression | None) -> Iterator[LogDataset]:  # noqa: A002
        """Yield a dataset of each partition that may have rows which meet an expression.

        Rows that are decoded or limited are in one part: their types, and their number, depend on all topics.
        """
        if self._options.get("decode") is not None or self._options.get("limit") is not None:
            yield self
            return
        condition = None if filter is None else Filter(filter, self.schema)
        for log in self._logs:
            if condition is None or condition.may_match(log.topic, log.partition):
                yield LogDataset([log], self._options)

    def rows(self, columns: Sequence[str], filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:  # noqa: A002
        """Yield these columns of the rows that meet an expression; None: of all rows."""
        own = self._options.get("filter")
        both = filter if own is None else own if filter is None else own & filter
        options: ReadOptions = {**self._options, "columns": columns, "filter": both}
        reader = LogReader(
            self._logs, options, threads=cores(), target_bytes=_TARGET_BYTES, by_headers=options.get("check_crcs", True)
        )
        with closing(reader):
            yield from reader


def _chosen(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command

    from brokerless.arguments import unknown  # noqa: PLC0415

    for name in columns:
        if name not in schema.names:
            raise unknown("column", name, schema.names)
    return pa.schema([schema.field(name) for name in columns])
