"""Calls made by Spark tasks, one each. Only what they return comes back to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_R = TypeVar("_R")


def run(spark: SparkSession, arguments: Sequence[_T], call: Callable[[_T], _R]) -> list[_R]:
    """Make a call for each argument, and return the results in their order.

    Args:
        spark: a session, not one of Spark Connect.
        arguments: picklable.
        call: likewise; it may be made again after a failure, or twice at a time.
    """
    if not arguments:
        return []
    context: Any = spark.sparkContext
    results: list[_R] = context.parallelize(arguments, len(arguments)).map(call).collect()
    return results
