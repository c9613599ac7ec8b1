"""The main job: a Kafka log directory becomes a DataFrame, a table and Parquet. `make demo` runs it on the sample logs.

Usage: demo.py [LOG_DIR [OUTPUT]]
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import functions as f

import brokerless.spark

REPOSITORY = Path(__file__).parent.parent


def main(log_dir: str, output: str) -> None:
    """Show what is in `log_dir` and write its records to `output`."""
    spark = brokerless.spark.session(
        {
            "spark.master": "local[2]",
            "spark.app.name": "brokerless demo",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.log.level": "ERROR",
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
    )

    source = spark.read.format("brokerless").option("includeHeaders", "true")
    records = source.load(log_dir)
    committed = source.option("kafka.isolation.level", "read_committed").load(log_dir)
    batches = spark.read.format("brokerless").option("view", "batches").load(log_dir)

    print(f"Some records of {log_dir}:")
    some = records.where("topic = 'headers' and headers is not null").orderBy("offset")
    some.withColumn("key", f.col("key").cast("string")).withColumn("value", f.col("value").cast("string")).show(5)

    print("Topics (aborted: records that read_committed leaves out):")
    kept = committed.groupBy("topic").agg(f.count("*").alias("committed"))
    topics = records.groupBy("topic").agg(
        f.countDistinct("partition").alias("partitions"),
        f.count("*").alias("records"),
        f.min("timestamp").alias("first"),
        f.max("timestamp").alias("last"),
    )
    topics.join(kept, "topic", "left").selectExpr(
        "topic", "partitions", "records", "records - coalesce(committed, 0) as aborted", "first", "last"
    ).orderBy("topic").show(truncate=False)

    print("How the batches are stored:")
    batches.groupBy("magic", "compression").agg(
        f.count("*").alias("batches"), f.sum("records_count").alias("records"), f.sum("size").alias("bytes")
    ).orderBy("magic", "compression").show()

    committed.write.mode("overwrite").partitionBy("topic").parquet(output)
    found, written = records.count(), spark.read.parquet(output).count()
    spark.stop()
    print(f"{found} records found, {written} committed ones written to {output}")


if __name__ == "__main__":
    arguments = dict(enumerate(sys.argv[1:]))
    main(arguments.get(0, str(REPOSITORY / "examples/data")), arguments.get(1, str(REPOSITORY / "build/demo.parquet")))
