"""The jar with which Spark reads and writes records in its own process, not in Python workers."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokerless.notes import note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

_NAME = "brokerless.jar"
# The build writes it in place of the jar.
_REASON = "no_jar.txt"
_CLASS = "brokerless.spark.BrokerlessSource"
_SETTINGS = {
    # Rows to and from Python workers pass through it up to 1.4 times as fast.
    "spark.python.unix.domain.socket.enabled": "true",
}
# SQL by path, such as brokerless.`/data`.orders: a class of the jar.
_CATALOG = ("spark.sql.catalog.brokerless", "brokerless.spark.PathCatalog")


def jar() -> str:
    """Return the path of the jar with which Spark reads and writes records in the JVM.

    If the jar is on a session's class path (`spark.jars`), `format("brokerless")` has the same options and rows. Reads
    are up to several times as fast, writes about 1.5 times as fast, and executors need no Python.

    Raises:
        FileNotFoundError: this installation has no jar, with the reason.

    >>> os.path.basename(jar())
    'brokerless.jar'
    """
    path = Path(__file__).with_name(_NAME)
    if not path.is_file():
        raise FileNotFoundError(
            f"no {path.name} in {path.parent}: {_why_not_built()}. Spark reads and writes in Python workers, which are "
            "slower. Install a wheel that has the jar, or build again with a JDK 17 or newer"
        )
    return os.fspath(path)


def _why_not_built() -> str:
    """Return why this installation has no jar."""
    try:
        reason = Path(__file__).with_name(_REASON).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return "it was not built in this checkout, or was deleted"
    return f"when this brokerless was built, {reason}"


def session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return a Spark session that has the jar: the running one, or a new one.

    With the jar, SQL reads a path as a table: brokerless.`/data`, or brokerless.`/data`.orders for one topic.

    If this installation has no jar, warn, and let the session read and write in Python workers.

    Args:
        settings: settings of Spark. In a running session, only settings that can change at runtime are applied.

    Example: `spark = session({"spark.master": "local[2]", "spark.app.name": "restore"})`
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the path of the jar is known without it

    builder = SparkSession.builder
    for name, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        _add(jar(), spark)
    except FileNotFoundError as error:
        note(str(error))
    return spark


def _add(jar: str, spark: SparkSession) -> None:
    """Add the jar to a session that does not have it.

    This does not use `spark.jars`: that setting would replace the jars of the configuration and of spark-submit, and a
    running JVM would not put the jar on the driver's class path.
    """
    from pyspark.sql.utils import is_remote  # noqa: PLC0415 - as above

    if is_remote():
        spark.addArtifact(jar)
        return
    from py4j.protocol import Py4JError  # noqa: PLC0415 - a client of Spark Connect has no py4j

    # No public names lead to the JVM.
    java: Any = spark.sparkContext._jvm  # noqa: SLF001
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()

    def is_found(load_class: Callable[[str], object]) -> bool:
        try:
            load_class(_CLASS)
        except Py4JError:
            return False
        return True

    # ADD JAR gives its classes to a loader of its own, and to the thread that ran it. They must not be in two loaders.
    was_added = is_found(spark._jsparkSession.sharedState().jarClassLoader().loadClass)  # noqa: SLF001
    if not was_added and not is_found(loader.loadClass):
        with contextlib.suppress(Py4JError):
            # As spark-submit does: listeners of queries, which belong to no session, then find the jar's classes, too.
            loader.addURL(java.java.io.File(jar).toURI().toURL())
    # A driver that has the classes from an earlier session has not sent them to the executors of this one. And this
    # thread may not have them yet.
    sent = spark.sparkContext._jsc.sc().listJars().mkString(",").split(",")  # noqa: SLF001
    if _NAME not in (url.rpartition("/")[2] for url in sent) or not is_found(loader.loadClass):
        quoted = jar.replace("\\", "\\\\").replace("'", "\\'")
        spark.sql(f"ADD JAR '{quoted}'")
    if spark.conf.get(_CATALOG[0], None) is None:
        spark.conf.set(*_CATALOG)
