"""The Spark data source: `spark.read.format("brokerless")`, `readStream`, `df.write` and `writeStream`.

Spark creates the source in one Python process, plans in a second and reads in others, so the pickled options hold all
state. Filters are not pushed down: Spark disables pushdown by default, and then fails on a reader that offers it.
Options select rows, and `.schema()` selects columns. Spark checks only the first Arrow batch of a task against the
schema, so every batch is built with exactly that schema.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.pandas.types import from_arrow_schema

from brokerless.arguments import unknown
from brokerless.spark.sink import sink_options
from brokerless.spark.sink.batch_sink import Writer, written_columns
from brokerless.spark.sink.stream_sink import StreamWriter
from brokerless.spark.source import batches, findings, records, state, sums
from brokerless.spark.source.concise_errors import concise_errors
from brokerless.spark.source.decoded import Decoded
from brokerless.spark.source.options import Options
from brokerless.spark.source.tasks import chosen_topics, keep_modules
from brokerless.spark.stream.stream_reader import stream_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping, Sequence

    from pyspark.sql.datasource import (
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
        InputPartition,
    )
    from pyspark.sql.types import StructType


class _View(Protocol):
    """A view: the value of option `view` names it. Most views are modules."""

    @property
    def SCHEMA(self) -> pa.Schema:  # noqa: N802 - a constant there
        """All columns."""

    def default_columns(self, options: Options, /) -> Sequence[str]:
        """Return the columns of a read that selects no columns."""

    def plan(self, options: Options, /) -> Sequence[InputPartition]:
        """Plan the tasks."""

    def read(self, task: Any, options: Options, wanted: pa.Schema, /) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - its own
        """Yield the rows of a task with these columns."""


_VIEWS: dict[str, _View] = {
    "records": records,
    "batches": batches,
    "findings": findings,
    "sums": sums,
    **state.VIEWS,
}


class BrokerlessSource(DataSource):
    """The Spark data source for Kafka log directories, with the columns and options of Spark's Kafka source.

    Reading:

        spark.read.format("brokerless").option("subscribe", "orders").load("/backup/kafka-data")

    Writing:

        df.write.format("brokerless").option("topic", "orders").mode("append").save("/backup/kafka-data")
    """

    @concise_errors
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Parsed here, so that load() reports a mistyped option, and options without effect are reported once.
        self._given: Options | None = None if sink_options.is_of_sink(options) else _parsed(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "brokerless"

    @concise_errors
    def schema(self) -> StructType:
        """Return the view's default columns, or those that option `columns` names."""
        view = _VIEWS[self._options.view]
        columns = self._options.columns or view.default_columns(self._options)
        return _in_spark(_wanted(self._options, columns))

    @concise_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader for the columns of `schema`, which the user may have selected from the view's columns.

        Raises:
            ValueError: the view does not have a column, or has it with another type.
        """
        return _Reader(self._options.for_batch(), self._chosen(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a stream reader for the columns of `schema`.

        The methods of the stream reader raise the errors of `reader`, and errors about options that a stream cannot
        have.
        """
        return stream_reader(lambda: (self._options, self._chosen(schema)))

    @concise_errors
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows with these columns: see `brokerless.spark.sink.batch_sink`.

        Raises:
            LogInUseError: a broker, or another writer, has the log directory open.
            ValueError: a sink does not have an option or a column.
        """
        write = sink_options.parse(self.options, overwrite=overwrite)
        return Writer(write, written_columns(schema, write))

    @concise_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Return a writer of a stream's rows with these columns: see `brokerless.spark.sink.stream_sink`.

        Raises:
            ValueError: a sink does not have an option or a column.
        """
        write = sink_options.parse(self.options, overwrite=overwrite)
        if overwrite and any(new.topic_id for new in write.topics.values()):
            raise ValueError("option topicId: in output mode complete each epoch recreates the topic with another id")
        if write.only_new:
            raise ValueError("option ifExists cannot be error in a stream: each epoch appends to the earlier ones")
        return StreamWriter(write, written_columns(schema, write), sink_options.checkpoint(self.options))

    @property
    def _options(self) -> Options:
        """The options of a read."""
        return self._given or _parsed(self.options)

    def _chosen(self, schema: StructType) -> pa.Schema:
        wanted = _wanted(self._options, schema.fieldNames())
        for asked, field in zip(schema, _in_spark(wanted), strict=True):
            # Spark would trust NOT NULL without a check.
            if asked.dataType != field.dataType or not asked.nullable:
                raise ValueError(
                    f"column {field.name} is {field.dataType.simpleString()} and nullable, "
                    f"not {asked.dataType.simpleString()}{'' if asked.nullable else ' NOT NULL'}: cast it in the query"
                )
        return wanted


class _Reader(DataSourceReader):
    def __init__(self, options: Options, wanted: pa.Schema) -> None:
        self._options = options
        self._wanted = wanted

    @concise_errors
    def partitions(self) -> Sequence[InputPartition]:
        keep_modules()
        return _VIEWS[self._options.view].plan(self._options)

    @concise_errors
    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - a Task
        yield from _VIEWS[self._options.view].read(partition, self._options, self._wanted)


def _parsed(given: Mapping[str, str]) -> Options:
    """Return the options of a read, with the types of what it decodes: they go to other processes as they are here."""
    options = Options.parse(given)
    chosen = options.decode
    return options if chosen is None else replace(options, decoded=Decoded.of(chosen, lambda: chosen_topics(options)))


def _in_spark(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _wanted(options: Options, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of these columns of the view."""
    schema = _VIEWS[options.view].SCHEMA if options.decoded is None else options.decoded.schema
    for column in columns:
        if column not in schema.names:
            raise unknown("column", column, schema.names)
        if columns.count(column) > 1:
            raise ValueError(f"column {column} is named twice")
    return pa.schema([schema.field(column) for column in columns])
