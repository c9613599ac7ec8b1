"""The Spark session of a command.

Spark runs locally, or where --master or the configuration in SPARK_HOME chooses: PySpark starts the driver's JVM with
that installation's spark-submit. If spark-submit started this process, it has chosen already.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import logging
import os
import re
import shutil
import signal
import sys
import threading
import warnings
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import DAMAGE, FAILURE
from brokerless.cli.options import Progress
from brokerless.notes import collected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    _Command = TypeVar("_Command", bound=Callable[..., Any])

# Set in the environment of processes that spark-submit starts.
_GATEWAY = "PYSPARK_GATEWAY_PORT"
_SETTINGS = {
    "spark.app.name": "brokerless",
    # The message of an error comes without Spark's stack traces.
    "spark.log.level": "FATAL",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL = {"spark.master": "local[*]", "spark.ui.enabled": "false"}
_SECONDS = 0.2
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# The line with the error's type and message, as Spark quotes it: of a Python traceback, or of a data source's error.
_QUOTED = r"(?:\[PYTHON_DATA_SOURCE_ERROR\] [^:\n]*: )?"
_CAUSE = re.compile(rf"^{_QUOTED}(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_DAMAGE = ("CorruptRecordError", "UnsupportedFormatError")


def session_options(function: _Command) -> _Command:
    """Add --master and --conf; the command receives the argument `session`, a context manager that starts a session."""

    @wraps(function)
    def command(master: str | None, conf: tuple[str, ...], **options: Any) -> Any:  # noqa: ANN401 - a command's
        is_local = master is None and "SPARK_HOME" not in os.environ and _GATEWAY not in os.environ
        settings = (_LOCAL if is_local else {}) | _SETTINGS | dict(_setting(text) for text in conf)
        if master is not None:
            settings["spark.master"] = master
        return function(session=_started(settings), **options)

    for decorate in (
        click.option("--conf", metavar="NAME=VALUE", multiple=True, help="A Spark setting. Repeatable."),
        click.option("--master", help="Spark's master: yarn, spark://HOST:PORT, k8s://..., local[N]."),
    ):
        command = decorate(command)
    return command  # type: ignore[return-value] # with other arguments, which click passes


def on_spark(function: _Command) -> _Command:
    """Add --master and --conf; the command receives a session as its argument `spark`."""

    @wraps(function)
    def command(session: contextlib.AbstractContextManager[SparkSession], **options: Any) -> Any:  # noqa: ANN401 - a command's
        with session as spark:
            return function(spark=spark, **options)

    return session_options(command)  # type: ignore[return-value] # with other arguments, which click passes


def shared(verb: click.Command, *left_out: str) -> list[click.Parameter]:
    """Return the arguments and options that a verb has on one machine and on Spark, except those in `left_out`."""
    return [parameter for parameter in verb.params if parameter.name not in left_out]


@contextlib.contextmanager
def task_progress(spark: SparkSession, what: str) -> Iterator[None]:
    """Show on stderr how many tasks of the running jobs are done."""
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
        raise click.BadParameter(f"{text!r} is not a setting: give NAME=VALUE", param_hint="--conf")
    return name, value


@contextlib.contextmanager
def _started(settings: dict[str, str]) -> Iterator[SparkSession]:
    _find_spark()
    with _in_short(), _session(settings) as spark:
        yield spark


@contextlib.contextmanager
def _session(settings: dict[str, str]) -> Iterator[SparkSession]:
    import brokerless.spark

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger().addFilter(_is_no_interrupt)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    # Most commands run in Python in any case, so they need no note of a missing jar.
    with _after_start(), collected():
        spark = brokerless.spark.session(settings)
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def _after_start() -> Iterator[None]:
    """Delay an interrupt until Spark has started: an abandoned JVM would stay forever. A second one acts at once.

    The old handlers are restored afterwards: PySpark's own SIGINT handler calls the JVM, even during another call.
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
    """Filter out the traceback that py4j logs for an interrupt: it raises the interrupt anyway."""
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


def _find_spark() -> None:
    """Ensure that PySpark can be imported; if it is not installed, use that of SPARK_HOME."""
    if importlib.util.find_spec("pyspark") is None:
        home = os.environ.get("SPARK_HOME")
        if home is None or not os.path.isdir(os.path.join(home, "python", "pyspark")):
            raise click.ClickException("Spark is not installed: pip install 'brokerless[spark]', or set SPARK_HOME")
        sys.path += [os.path.join(home, "python"), *glob.glob(os.path.join(home, "python", "lib", "py4j-*.zip"))]


@contextlib.contextmanager
def _in_short() -> Iterator[None]:
    """Reduce an error that Spark quotes from Python, with tracebacks, to that error's own message."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        if "JAVA_GATEWAY_EXITED" in str(error) and not _has_java():
            message = "Spark needs Java 17 or newer, and finds none: install it, or set JAVA_HOME"
            raise click.ClickException(message) from error
        causes = _CAUSE.findall(str(error))
        if not causes:
            # py4j may name the called method first. Java's own error follows, then its stack.
            _, _, of_java = str(error).partition("\n: ")
            what = (of_java or str(error)).partition("\n")[0]
            raise click.ClickException(f"{what} (--conf spark.log.level=ERROR shows Spark's own log)") from error
        kind, message = causes[-1]
        terminal.say(f"brokerless: {message}", err=True)
        raise SystemExit(DAMAGE if kind in _DAMAGE else FAILURE) from error


def _has_java() -> bool:
    """Return whether spark-submit finds a JVM: that of JAVA_HOME or, without it, the first `java` on PATH."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java" if home is None else os.path.join(home, "bin", "java")) is not None
