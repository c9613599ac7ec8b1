"""The Spark data source: `spark.read.format("brokerless")`, `readStream`, `df.write` and `writeStream`.

Spark makes the source in one Python process, plans in a second and reads in others: all state is in the pickled
options. Filters are not pushed down (off by default in Spark, and a reader that offers it then fails): rows are pruned
by options, columns by `.schema()`. Spark checks only the first Arrow batch of a task against the schema, so every
batch is made with exactly that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.pandas.types import from_arrow_schema

from brokerless.errors import unknown
from brokerless.spark import batches, findings, records, sink_options, sums
from brokerless.spark.options import Options
from brokerless.spark.sink import Writer, written_columns
from brokerless.spark.stream import stream_reader
from brokerless.spark.stream_sink import StreamWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import (
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
        InputPartition,
    )
    from pyspark.sql.types import StructType

_VIEWS: dict[str, Any] = {"records": records, "batches": batches, "findings": findings, "sums": sums}


class BrokerlessSource(DataSource):
    """Kafka log directories as DataFrames, with the columns and options of Spark's Kafka source."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Here and not later: a mistyped option shows at load(), and options without effect are named once.
        self._given: Options | None = None if sink_options.is_of_sink(options) else Options.parse(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "brokerless"

    def schema(self) -> StructType:
        """Return the columns of the view, or those that option `columns` names."""
        view = _VIEWS[self._options.view]
        columns = self._options.columns or view.default_columns(self._options)
        _check_names(columns, view.COLUMNS)
        return from_arrow_schema(view.schema(columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader for the columns of `schema`, which may be the user's choice of ours.

        Raises:
            ValueError: a column that the view does not have, or of another type than it has.
        """
        return _Reader(self._options.for_batch(), self._chosen(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of a stream of these columns; its options are checked as those of a batch.

        Raises:
            ValueError: as of `reader`, or an option that a stream cannot have.
        """
        return stream_reader(self._options, self._chosen(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows with these columns: see `brokerless.spark.sink`.

        Raises:
            LogInUseError: a broker, or another writer, has the log directory.
            ValueError: an option or a column that a sink does not have.
        """
        write = sink_options.parse(self.options, overwrite=overwrite)
        return Writer(write, written_columns(schema, write))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Return a writer of a stream's rows with these columns: see `brokerless.spark.stream_sink`.

        Raises:
            ValueError: an option or a column that a sink does not have.
        """
        write = sink_options.parse(self.options, overwrite=overwrite)
        if overwrite and any(new.topic_id for new in write.topics.values()):
            raise ValueError("option topicId: in output mode complete each epoch makes the topic anew, with another id")
        return StreamWriter(write, written_columns(schema, write))

    @property
    def _options(self) -> Options:
        """The options of a read."""
        return self._given or Options.parse(self.options)

    def _chosen(self, schema: StructType) -> Sequence[str]:
        view = _VIEWS[self._options.view]
        columns: Sequence[str] = schema.fieldNames()
        _check_names(columns, view.COLUMNS)
        for asked, field in zip(schema, from_arrow_schema(view.schema(columns)), strict=True):
            # Spark would believe NOT NULL without looking.
            if asked.dataType != field.dataType or not asked.nullable:
                raise ValueError(
                    f"column {field.name} is {field.dataType.simpleString()} and nullable, "
                    f"not {asked.dataType.simpleString()}{'' if asked.nullable else ' NOT NULL'}: cast it in the query"
                )
        return columns


class _Reader(DataSourceReader):
    def __init__(self, options: Options, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        tasks: Sequence[InputPartition] = _VIEWS[self._options.view].plan(self._options)
        return tasks

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - a Task
        rows: Iterator[pa.RecordBatch] = _VIEWS[self._options.view].read(partition, self._options, self._columns)
        return rows


def _check_names(columns: Sequence[str], known: Sequence[str]) -> None:
    for column in columns:
        if column not in known:
            raise unknown("column", column, known)
