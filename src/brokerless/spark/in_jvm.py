"""The jar with which Spark reads and writes records in its own process, not in Python workers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_NAME = "brokerless.jar"
_SETTINGS = {
    # What Python still does comes over it up to 1.4 times as fast.
    "spark.python.unix.domain.socket.enabled": "true",
}


def jar() -> str:
    """Return the path of the jar that lets Spark's reads of records, and its writes, run in the JVM.

    With it on a session's class path (`spark.jars`), `format("brokerless")` is the same source, several times faster,
    and its executors need no Python.

    Raises:
        FileNotFoundError: this installation has no jar: it was built where there was no JDK.

    >>> os.path.basename(jar())
    'brokerless.jar'
    """
    path = Path(__file__).with_name(_NAME)
    if not path.is_file():
        raise FileNotFoundError(
            f"no {path.name} in {path.parent}: this brokerless was built without a JDK, and Spark reads and writes "
            "in Python; install a wheel, or run `make setup` with a JDK"
        )
    return os.fspath(path)


def session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return a Spark session that has the jar: the running one, or a new one with these settings.

    Where this installation has no jar, the session reads and writes in Python workers.

    Args:
        settings: settings of Spark, with which a new session starts.

        spark = session({"spark.master": "local[2]", "spark.app.name": "restore"})
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the path of the jar is known without it

    asked = _SETTINGS | dict(settings or {})
    try:
        ours = jar()
    except FileNotFoundError:
        ours = None
    else:
        asked["spark.jars"] = ",".join(filter(None, [asked.get("spark.jars"), ours]))
    builder = SparkSession.builder
    for name, value in asked.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if ours is not None:
        _add(ours, spark)
    return spark


def _add(jar: str, spark: SparkSession) -> None:
    """Add the jar to a session that started without one."""
    from pyspark.sql.utils import is_remote  # noqa: PLC0415 - as above

    if is_remote():
        spark.addArtifact(jar)
        return
    given = spark.sparkContext.getConf().get("spark.jars") or ""
    if _NAME not in map(os.path.basename, given.split(",")):
        quoted = jar.replace("\\", "\\\\").replace("'", "\\'")
        spark.sql(f"ADD JAR '{quoted}'")
