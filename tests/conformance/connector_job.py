"""A job that reads Kafka, as people have them: `connector_job.py FORMAT QUERIES`, and all rows as JSON lines.

QUERIES is a JSON list of the options of each query. Nothing here knows where the rows come from.
"""

import base64
import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

# Spark names the host it listens on; in a sandbox the machine's own name may lead nowhere.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["PYSPARK_PYTHON"] = sys.executable
JARS = Path(__file__).parents[2] / "build" / "conformance" / "connector" / "lib"


def session():
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, sorted(JARS.glob("*.jar")))))
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def as_json(value):
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [[header["key"], as_json(header["value"])] for header in value]
    return str(value) if hasattr(value, "isoformat") else value


def main():
    source, queries = sys.argv[1], json.loads(sys.argv[2])
    spark = session()
    for options in queries:
        rows = spark.read.format(source).options(**options).load()
        found = [[as_json(value) for value in row] for row in rows.orderBy("topic", "partition", "offset").collect()]
        sys.stdout.write(json.dumps({"schema": json.loads(rows.schema.json()), "rows": found}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
