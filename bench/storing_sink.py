"""`format("storing")`: a sink that takes rows as ours does, as Arrow batches in Python, and stores their bytes.

Each task writes the bytes of its keys and values to a file of its own, and makes it durable: nothing is encoded,
divided or committed. What that takes is Spark's and the disk's.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType


class Storing(DataSource):
    """The sink. Option `path`: a directory for the files."""

    @classmethod
    def name(cls) -> str:
        return "storing"

    def writer(self, schema: StructType, overwrite: bool) -> StoringWriter:  # noqa: ARG002
        return StoringWriter(self.options["path"])


class StoringWriter(DataSourceArrowWriter):
    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with open(f"{self.path}/{uuid.uuid4().hex}", "xb", buffering=0) as file:
            for rows in iterator:
                file.writelines(column.buffers()[2] for column in rows.columns)
            os.fsync(file.fileno())
        return WriterCommitMessage()
