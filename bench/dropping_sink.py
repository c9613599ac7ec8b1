"""`format("dropping")`: a sink that takes rows as ours does, as Arrow batches in Python, and drops them.

What its writes take is Spark's: no sink in Python is faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType


class Dropping(DataSource):
    """The sink."""

    @classmethod
    def name(cls) -> str:
        return "dropping"

    def writer(self, schema: StructType, overwrite: bool) -> DroppingWriter:  # noqa: ARG002
        return DroppingWriter()


class DroppingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
