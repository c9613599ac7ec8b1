"""Exports to Delta Lake and Iceberg tables, written by Spark with the packages of these formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.functions import col

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

PACKAGES = {
    "delta": "io.delta:delta-spark_{spark}_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13",
}
"""The Maven coordinates of each format's package, without the version. Some Spark releases have no package yet."""


def write_table(
    spark: SparkSession, options: Mapping[str, str], columns: Sequence[str], form: str, to: str
) -> DataFrame:
    """Write records into a new table, partitioned by topic and partition.

    Args:
        spark: a session.
        options: options of `spark.read.format("brokerless")`.
        columns: the columns to write if the options name none.
        form: "delta" or "iceberg".
        to: a path for delta, a table's name for iceberg.

    Returns:
        The table.

    Raises:
        ValueError: Spark does not have the package.
    """
    rows = spark.read.format("brokerless").options(**{"columns": ",".join(columns), **options}).load()
    try:
        if form == "delta":
            rows.write.format("delta").partitionBy("topic", "partition").save(to)
            return spark.read.format("delta").load(to)
        rows.writeTo(to).using("iceberg").partitionedBy(col("topic"), col("partition")).create()
        return spark.table(to)
    except (PySparkException, Py4JJavaError) as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        package = PACKAGES[form].format(spark=".".join(spark.version.split(".")[:2]))
        raise ValueError(
            f"Spark has no format {form}: start it with spark.jars.packages={package}:<version>, and the catalog that "
            "its documentation names"
        ) from error
