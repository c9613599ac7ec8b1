"""An export to a table that Spark writes: `tables_job.py FORMAT LOG_DIR TO`. Prints its rows and the logs'.

Delta Lake and Iceberg have no package for the newest Spark: this runs on the oldest that is supported.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from brokerless import _native
from brokerless.spark import export

# Spark names the host it listens on; in a sandbox the machine's own name may lead nowhere.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["PYSPARK_PYTHON"] = sys.executable
JARS = Path(__file__).parents[2] / "build" / "conformance" / "tables" / "lib"


def session(form, to):
    """Return a session with what the format's documentation asks for."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, sorted(JARS.glob("*.jar")))))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    if form == "delta":
        builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    else:
        builder.config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        builder.config("spark.sql.catalog.lake.type", "hadoop")
        builder.config("spark.sql.catalog.lake.warehouse", to)
    return builder.getOrCreate()


def main():
    form, log_dir, to = sys.argv[1:]
    table = to if form == "delta" else "lake.db.records"
    spark = session(form, to)
    exported = export(spark, log_dir, table, format=form)
    there = spark.read.format("delta").load(to) if form == "delta" else spark.table(table)
    in_logs = spark.read.format("brokerless").option("columns", ",".join(_native.ROW_COLUMNS)).load(log_dir)
    found, expected = ([str(row) for row in rows.collect()] for rows in (there.select(in_logs.columns), in_logs))
    rows = sum(partition.rows for partition in exported.partitions)
    sys.stdout.write(json.dumps({"rows": rows, "found": sorted(found), "expected": sorted(expected)}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
