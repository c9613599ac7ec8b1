"""The Spark session of a job that a test runs in a process of its own."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import brokerless.spark

# Spark names the host it listens on; in a sandbox the machine's own name may lead nowhere.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["PYSPARK_PYTHON"] = sys.executable
BUILD = Path(__file__).parents[2] / "build" / "conformance"


def session(packages, **settings):
    """Return a session with the packages that Maven has brought to this directory, and with more settings.

    If the environment has BROKERLESS_JAR, the session has our jar, too.
    """
    jars = [*map(str, sorted((BUILD / packages / "lib").glob("*.jar")))]
    if os.environ.get("BROKERLESS_JAR"):
        jars.append(brokerless.spark.jar())
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(jars))
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    for name, value in settings.items():
        builder.config(name, value)
    return builder.getOrCreate()


def check_place(rows, source="brokerless"):
    """Refuse to go on unless ours reads in the JVM just when the environment has BROKERLESS_JAR."""
    is_in_jvm = "ColumnarToRow" in rows._jdf.queryExecution().executedPlan().toString()
    assert source != "brokerless" or is_in_jvm == bool(os.environ.get("BROKERLESS_JAR"))
