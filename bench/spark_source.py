"""`format("brokerless")` in local[2], against what handing over and decoding allow on the same two cores.

H: rows/s of a source that only yields prebuilt Arrow batches of the same shape and size. D: two threads of our decoder
on the same bytes. If nothing but these two took time, 1 / (1/H + 1/D) rows/s would come out.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from rivals import CODECS, SHAPES, log_file

from brokerless._native import Decoder, row_schema
from brokerless.log.reader import KAFKA_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql.types import StructType

ROUNDS = 7
BAR = 0.85
COLUMNS = tuple(KAFKA_COLUMNS[:-1])
COPIES = 8
# What docs/guides/spark.md advises.
ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"


class Prebuilt(DataSource):
    """Yields the same batches again and again; reads and decodes nothing."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

        return from_arrow_schema(row_schema(COLUMNS, spark=True))

    def reader(self, schema: StructType) -> PrebuiltReader:  # noqa: ARG002
        return PrebuiltReader(self.options)


class PrebuiltReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.file, self.tasks = options["file"], int(options["tasks"])

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(i) for i in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        with pa.ipc.open_file(self.file) as batches:
            for i in range(batches.num_record_batches):
                yield batches.get_batch(i)


def _batches(file: Path) -> list[pa.RecordBatch]:
    data = pa.py_buffer(file.read_bytes())
    decoder = Decoder(COLUMNS, topic="t", partition=0, spark=True)
    position, batches = 0, []
    while position < data.size:
        rows, consumed = decoder.decode(data.slice(position), position)
        batches.append(rows)
        position += consumed
    return batches


def _decode_twice(file: Path) -> float:
    """Return rows/s of two threads."""
    with ThreadPoolExecutor(2) as pool:
        start = time.perf_counter()
        rows = sum(sum(b.num_rows for b in batches) for batches in pool.map(_batches, [file, file]))
        return rows / (time.perf_counter() - start)


def _aggregate(spark: SparkSession, name: str, options: dict[str, str]) -> float:
    """Return rows/s of a query that looks at every value."""
    rows = spark.read.format(name).options(**options).load()
    start = time.perf_counter()
    count, _ = rows.selectExpr("count(*)", "sum(length(value) + length(key) + offset)").first()
    return count / (time.perf_counter() - start)


def session(master: str = "local[2]", jars: Sequence[str] = (), memory: str = "4g") -> SparkSession:
    """Return the session that both sources run in; its workers import `Prebuilt` from here."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    return (
        SparkSession.builder.master(master)
        .config("spark.jars", ",".join(jars))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.execution.arrow.maxBytesPerBatch", (1 << 31) - 1)
        .config("spark.driver.extraJavaOptions", ARROW)
        .config("spark.driver.memory", memory)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def measure(spark: SparkSession, codec: str) -> bool:
    """Print one line; return whether the bar is reached."""
    shape = SHAPES[0]
    file = log_file(shape, codec)
    ipc = file.with_suffix(".arrow")
    batches = _batches(file)
    with pa.ipc.new_file(str(ipc), batches[0].schema) as sink:
        for batch in batches:
            sink.write_batch(batch)
    # Several copies of the file as partitions of one topic: a job long enough that its start does not count.
    root = file.parent.parent / f"spark-{codec}"
    for i in range(COPIES):
        link = root / f"t-{i}" / file.name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.hardlink_to(file)
    ours, handed, decoded = [], [], []
    for _ in range(ROUNDS + 1):
        handed.append(_aggregate(spark, "prebuilt", {"file": str(ipc), "tasks": str(COPIES)}))
        ours.append(_aggregate(spark, "brokerless", {"path": str(root)}))
        decoded.append(_decode_twice(file))
    h, d, s = (statistics.median(values[1:]) for values in (handed, decoded, ours))
    share = s * (1 / h + 1 / d)
    good = share >= BAR
    print(
        f"spark: {shape.name} {codec:7} {s / 1e6:.2f} M rows/s, H {h / 1e6:.2f}, D {d / 1e6:.2f}: "
        f"{share:.2f} of what the parts allow (bar {BAR}){'' if good else '   BELOW'}",
        flush=True,
    )
    return good


def main() -> bool:
    """Measure each codec in one session."""
    spark = session()
    spark.dataSource.register(Prebuilt)
    good = [measure(spark, codec) for codec in CODECS]
    spark.stop()
    return all(good)
