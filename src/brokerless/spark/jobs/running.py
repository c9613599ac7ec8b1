"""Calls run by Spark tasks, one per task. Only their results return to the driver."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from brokerless.spark.source.concise_errors import concise_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_R = TypeVar("_R")


def run(spark: SparkSession, arguments: Sequence[_T], call: Callable[[_T], _R]) -> list[_R]:
    """Call a function for each argument, and return the results in the same order.

    Args:
        spark: a session, not one of Spark Connect.
        arguments: picklable arguments.
        call: a picklable function. Spark may repeat a call after a failure, or run two attempts at the same time.
    """
    if not arguments:
        return []
    context: Any = spark.sparkContext
    results: list[_R] = context.parallelize(arguments, len(arguments)).map(partial(_called, call)).collect()
    return results


@concise_errors
def _called(call: Callable[[_T], _R], argument: _T) -> _R:
    return call(argument)
