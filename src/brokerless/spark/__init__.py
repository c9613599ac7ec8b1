"""Spark: `format("brokerless")`, with the columns and options of Spark's own Kafka source; and jobs over many logs.

The jobs are functions of a session: `check`, `profile`, `compact`, `convert`, `export` and `restore`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokerless.spark.jobs.check import check
    from brokerless.spark.jobs.export import export
    from brokerless.spark.jobs.profile import profile
    from brokerless.spark.jobs.restore import restore
    from brokerless.spark.jobs.rewrite import compact, convert

__all__ = ["check", "compact", "convert", "export", "profile", "restore"]

_SHARED = {"compact": "rewrite", "convert": "rewrite"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a job when it is asked for: the many processes that only read need none.

        Raises:
            ModuleNotFoundError: PySpark is not installed.
        """
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{__name__}.jobs.{_SHARED.get(name, name)}"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "pyspark":
                raise
            message = f"{__name__}.{name} needs PySpark: pip install 'brokerless[spark]'"
            raise ModuleNotFoundError(message, name=error.name) from error

    def __dir__() -> list[str]:
        """Name the jobs that have not been imported yet too: completion at a prompt goes by it."""
        return sorted({*globals(), *__all__})
