"""An export to a table that Spark writes: `tables_job.py FORMAT LOG_DIR TO`. Prints its rows and the logs'.

Delta Lake and Iceberg have no package for the newest Spark: this runs on the oldest that is supported.
"""

import json
import sys

from job_session import session

from brokerless import _native
from brokerless.spark import export


def settings(form, to):
    """Return what the format's documentation asks for."""
    if form == "delta":
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    return {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": to,
    }


def main():
    form, log_dir, to = sys.argv[1:]
    table = to if form == "delta" else "lake.db.records"
    spark = session("tables", **settings(form, to))
    exported = export(spark, log_dir, table, format=form)
    there = spark.read.format("delta").load(to) if form == "delta" else spark.table(table)
    in_logs = spark.read.format("brokerless").option("columns", ",".join(_native.ROW_COLUMNS)).load(log_dir)
    found, expected = ([str(row) for row in rows.collect()] for rows in (there.select(in_logs.columns), in_logs))
    rows = sum(partition.rows for partition in exported.partitions)
    sys.stdout.write(json.dumps({"rows": rows, "found": sorted(found), "expected": sorted(expected)}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
