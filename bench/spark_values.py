"""Decoded values in Spark: `format("brokerless")` with `decode`, against `from_avro` over Spark's own Kafka connector.

The same topic of framed Avro, with one schema, in `local[2]` and in alternation. `from_avro` gets that schema as text
and the bytes after the framing, as its users do without a registry. Both compute the same aggregate of several fields.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import connector
import fastavro
import pyarrow as pa
from connector import JARS, PARTITIONS, TUNED, kafka
from rivals import DATA
from spark_source import session
from values import AVRO, row

import brokerless as bl
import brokerless.spark
from brokerless.spark.data_source import BrokerlessSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

SPARK_AVRO = "org.apache.spark:spark-avro_2.13:4.2.0"
RECORDS, DIFFERENT = 4_000_000, 100_000
BAR, TUNED_BAR = 3.0, 2.0


def spark_avro() -> str:
    """Return the path of Spark's functions for Avro."""
    jar = DATA / f"{SPARK_AVRO.split(':', 1)[1].replace(':', '-')}.jar"
    if not jar.exists():
        copy = ["dependency:copy", f"-Dartifact={SPARK_AVRO}", f"-DoutputDirectory={DATA}"]
        subprocess.run(["mvn", "-q", "-B", *copy], check=True)
    return str(jar)


def log_dir() -> Path:
    """Return a log directory with the topics `orders` and `_schemas`."""
    path = DATA / "spark-values"
    if path.exists():
        return path
    partial = path.with_suffix(".part")
    shutil.rmtree(partial, ignore_errors=True)
    schema = fastavro.parse_schema(AVRO)
    values = []
    for number in range(DIFFERENT):
        out = io.BytesIO(b"\0\0\0\0\1")
        out.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(out, schema, row(number))
        values.append(out.getvalue())
    rows = pa.table({"value": pa.array(values, pa.binary())})
    key = {"keytype": "SCHEMA", "subject": "orders-value", "version": 1, "magic": 1}
    version = {"subject": "orders-value", "version": 1, "id": 1, "schema": json.dumps(AVRO), "deleted": False}
    with bl.Producer(partial, "_schemas", partitions=1) as producer:
        producer.send([{"key": json.dumps(key).encode(), "value": json.dumps(version).encode()}])
    with bl.Producer(partial, "orders", partitions=PARTITIONS) as producer:
        for _ in range(RECORDS // DIFFERENT):
            producer.send(rows)
    partial.rename(path)
    return path


def main() -> bool:
    """Measure an aggregate of all values."""
    path = log_dir()
    kafka.JAVA, kafka.HAS_ARCHIVES = ("java", "-Xmx1g"), False
    spark = session(jars=[*sorted(map(str, JARS.glob("*.jar"))), spark_avro(), brokerless.spark.jar()])
    from pyspark.sql.avro.functions import from_avro  # noqa: PLC0415 - it needs the session

    class InPython(BrokerlessSource):
        @classmethod
        def name(cls) -> str:
            return "brokerless_in_python"

    spark.dataSource.register(InPython)
    with tempfile.TemporaryDirectory(dir=DATA) as scratch:
        served = Path(scratch) / "served"
        shutil.copytree(path, served, copy_function=connector._link_or_copy)  # noqa: SLF001 - one home for a trap
        with kafka.Broker(served, log=Path(scratch) / "broker.log") as broker:
            servers = {"kafka.bootstrap.servers": broker.at}

            def theirs(options: dict[str, str | int]) -> Callable[[], object]:
                rows = spark.read.format("kafka").options(subscribe="orders", **options).load()
                body = rows.selectExpr("substring(value, 6, length(value) - 5) as body")
                return lambda: aggregate(body.select(from_avro("body", json.dumps(AVRO)).alias("value")))

            def ours(source: str) -> Callable[[], object]:
                options = {"subscribe": "orders", "decode": "value=registry", "endingOffsets": "latest"}
                rows = spark.read.format(source).options(path=str(served), **options).load()
                return lambda: aggregate(rows)

            rivals = {
                "from_avro": (theirs(servers), BAR),
                "from_avro, tuned": (theirs(servers | TUNED), TUNED_BAR),
                "in Python": (ours(InPython.name()), 1.0),
            }
            good = connector.against("decoded Avro", ours("brokerless"), rivals)
    spark.stop()
    return good


def aggregate(rows: DataFrame) -> None:
    """Look at several fields of all values."""
    rows = rows.selectExpr(
        "count(*)", "sum(value.amount)", "count(value.note)", "max(value.at)", "sum(length(value.customer))",
        "sum(size(value.tags))", "sum(value.address.zip)",
    )  # fmt: skip
    found = rows.first()
    assert found[0] == RECORDS, f"{found[0]} of {RECORDS} records"


if __name__ == "__main__":
    raise SystemExit(not main())
