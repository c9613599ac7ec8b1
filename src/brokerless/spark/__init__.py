"""Spark support: `format("brokerless")`, with the columns and options of Spark's Kafka source, and jobs over many logs.

Import this module before the session starts: Spark's worker processes then run this Python, and find the format.

`session` starts a session that reads and writes records in the JVM; `jar` is the file that other sessions need for
this.

The jobs take a session as their first argument: `check`, `repair`, `profile`, `report`, `rewrite`, `export`
and `restore`.
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokerless.spark.in_jvm import jar, session
    from brokerless.spark.jobs.check import check
    from brokerless.spark.jobs.export import export
    from brokerless.spark.jobs.profile import profile
    from brokerless.spark.jobs.repair import repair
    from brokerless.spark.jobs.report import report
    from brokerless.spark.jobs.restore import restore
    from brokerless.spark.jobs.rewrite import rewrite

__all__ = ["check", "export", "jar", "profile", "repair", "report", "restore", "rewrite", "session"]

_MODULES = {"jar": "in_jvm", "session": "in_jvm"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a job on first use, because most of Spark's processes only read and need no job.

        Raises:
            ModuleNotFoundError: PySpark is not installed.
        """
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            if name == "session":
                # Its module has also `jar`, which needs no PySpark.
                import_module("pyspark.sql")
            return getattr(import_module(f"{__name__}.{_MODULES.get(name, f'jobs.{name}')}"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "pyspark":
                raise
            message = f"{__name__}.{name} needs PySpark: pip install 'brokerless[spark]'"
            raise ModuleNotFoundError(message, name=error.name) from error

    def __dir__() -> list[str]:
        """Return all names, including jobs not imported yet, for completion at a prompt."""
        return sorted({*globals(), *__all__})


def _run_this_python() -> None:
    """Configure Spark's processes to run this Python, unless the environment names another Python.

    By default Spark runs the first `python3` on PATH, which may not have brokerless installed. In a session that is
    active in this thread, set the Python of its later tasks, and register the source. Change nothing under spark-submit
    or Connect.
    """
    if {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"} & os.environ.keys():
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    session = getattr(sys.modules.get("pyspark.sql"), "SparkSession", None)
    if context is None or context._active_spark_context is None or session is None:  # noqa: SLF001 - no public name
        return
    running = session.getActiveSession()
    if running is not None:
        from brokerless.spark.data_source import BrokerlessSource  # noqa: PLC0415 - most have no session yet

        running.sparkContext.pythonExec = sys.executable
        running.dataSource.register(BrokerlessSource)


_run_this_python()
