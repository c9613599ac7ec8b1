"""Where the Spark session of a command comes from.

Spark runs here, or where --master, or the configuration below SPARK_HOME, says: PySpark lets that installation's
spark-submit start the driver's JVM. Where spark-submit has started this process itself, all of that is decided.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import logging
import os
import re
import signal
import sys
import threading
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from brokerless.cli.options import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    _Command = TypeVar("_Command", bound=Callable[..., Any])

# In the environment of what spark-submit starts.
_GATEWAY = "PYSPARK_GATEWAY_PORT"
_SETTINGS = {
    "spark.app.name": "brokerless",
    "spark.log.level": "ERROR",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL = {"spark.master": "local[*]", "spark.ui.enabled": "false"}
_SECONDS = 0.2
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# The line of a Python traceback that says what was wrong, as Spark quotes it.
_CAUSE = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_DAMAGE = ("CorruptRecordError", "UnsupportedFormatError")


def on_spark(function: _Command) -> _Command:
    """--master and --conf; the command gets a session as its argument `spark`."""

    @wraps(function)
    def command(master: str | None, conf: tuple[str, ...], **options: Any) -> Any:  # noqa: ANN401 - a command's
        is_local = master is None and "SPARK_HOME" not in os.environ and _GATEWAY not in os.environ
        settings = (_LOCAL if is_local else {}) | _SETTINGS | dict(_setting(text) for text in conf)
        if master is not None:
            settings["spark.master"] = master
        _find_spark()
        with _in_short(), _session(settings) as spark:
            return function(spark=spark, **options)

    for decorate in (
        click.option("--conf", metavar="NAME=VALUE", multiple=True, help="A setting of Spark. Repeatable."),
        click.option("--master", help="Where Spark runs: yarn, spark://HOST:PORT, k8s://..., local[N]."),
    ):
        command = decorate(command)
    return command  # type: ignore[return-value] # with other arguments, which click passes


@contextlib.contextmanager
def task_progress(spark: SparkSession, what: str) -> Iterator[None]:
    """Show on stderr how many tasks of the jobs that run meanwhile are done."""
    tracker, is_over = spark.sparkContext.statusTracker(), threading.Event()

    def watch(show: Progress) -> None:
        while not is_over.wait(_SECONDS):
            found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            stages = [stage for stage in found if stage is not None]
            if stages:
                done, total = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
                show(f"{what}: {done:,} of {total:,} tasks done")

    with Progress(prints=False) as show:
        thread = threading.Thread(target=watch, args=(show,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def _setting(text: str) -> tuple[str, str]:
    name, is_there, value = text.partition("=")
    if not is_there:
        raise click.BadParameter(f"{text!r} is no setting: give NAME=VALUE", param_hint="--conf")
    return name, value


@contextlib.contextmanager
def _session(settings: dict[str, str]) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger().addFilter(_is_no_interrupt)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _after_start():
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def _after_start() -> Iterator[None]:
    """Let what interrupts wait until Spark has started: a JVM that was left meanwhile stays for good. A second acts.

    Handlers are then as they were: PySpark's own for SIGINT calls the JVM, in the midst of whatever call is being made.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in _INTERRUPTS if is_main}
    met: list[int] = []

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def wait(number: int, _frame: object) -> None:
        met.append(number)
        restore()

    for number, handler in handlers.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, wait)
    try:
        yield
    finally:
        restore()
        for late in met:
            signal.raise_signal(late)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Leave out the traceback that py4j logs of an interrupt, which it passes on all the same."""
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


def _find_spark() -> None:
    """Make PySpark importable: where it is not installed, that of SPARK_HOME."""
    if importlib.util.find_spec("pyspark") is None:
        home = os.environ.get("SPARK_HOME")
        if home is None or not os.path.isdir(os.path.join(home, "python", "pyspark")):
            raise click.ClickException("Spark is not installed: pip install 'brokerless[spark]', or set SPARK_HOME")
        sys.path += [os.path.join(home, "python"), *glob.glob(os.path.join(home, "python", "lib", "py4j-*.zip"))]


@contextlib.contextmanager
def _in_short() -> Iterator[None]:
    """Turn what Spark quotes of an error in Python, tracebacks and all, into that error's own words."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        causes = _CAUSE.findall(str(error))
        if not causes:
            # Behind what was being called, if py4j says that, comes Java's own error, and below it its stack.
            _, _, of_java = str(error).partition("\n: ")
            raise click.ClickException((of_java or str(error)).partition("\n")[0]) from error
        kind, message = causes[-1]
        click.echo(f"brokerless: {message}", err=True)
        raise SystemExit(1 if kind in _DAMAGE else 2) from error
