"""Errors of Spark's Python workers as one message, without the worker's traceback."""

from __future__ import annotations

import inspect
import os
import sys
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from brokerless.errors import BrokerlessError, CorruptRecordError, UnsupportedFormatError
from brokerless.wording import spark, worded_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_END = object()
_Function = TypeVar("_Function", bound="Callable[..., Any]")


def concise_errors(function: _Function) -> _Function:
    """Decorate a method that Spark calls in a worker: report self-explanatory errors without a traceback.

    A worker ends with the error that it reports (`pyspark.util.handle_worker_exception`), so the environment variable
    set here affects no later task.
    """
    if inspect.isgeneratorfunction(function):

        @wraps(function)
        def generate(*args: Any, **options: Any) -> Iterator[Any]:  # noqa: ANN401 - the method's own
            try:
                items = function(*args, **options)
                while True:
                    # Only while it runs: a generator that waits would leave its wording to its caller.
                    with worded_for(spark):
                        item = next(items, _END)
                    if item is _END:
                        return
                    yield item
            except (BrokerlessError, ValueError, OSError) as error:
                _report_as_spark(error)
                raise

        return generate  # type: ignore[return-value] # of the same signature

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - the method's own
        try:
            with worded_for(spark):
                return function(*args, **options)
        except (BrokerlessError, ValueError, OSError) as error:
            _report_as_spark(error)
            raise

    return call  # type: ignore[return-value] # of the same signature


def _report_as_spark(error: Exception) -> None:
    if isinstance(error, CorruptRecordError | UnsupportedFormatError):
        error.face = spark
    hide_traceback(error)


def hide_traceback(error: Exception) -> None:
    """Configure PySpark to report the error without its traceback, except in a user's own process.

    Subclasses of ValueError (from Arrow or decoders) keep their traceback, because their messages do not help a user.
    It also stays if the user has set the environment variable.
    """
    if isinstance(error, ValueError) and type(error) is not ValueError:
        return
    main = getattr(sys.modules["__main__"], "__spec__", None)
    if main is not None and main.name.startswith("pyspark."):
        os.environ.setdefault("SPARK_HIDE_TRACEBACK", "1")
