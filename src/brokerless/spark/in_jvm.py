"""The jar with which Spark reads and writes records in its own process, not in Python workers."""

from __future__ import annotations

import os
from pathlib import Path


def jar() -> str:
    """Return the path of the jar that lets Spark's reads of records, and its writes, run in the JVM.

    With it on a session's class path (`spark.jars`), `format("brokerless")` is the same source, several times faster,
    and its executors need no Python.

    Raises:
        FileNotFoundError: this installation has no jar: it was built where there was no JDK.

    >>> os.path.basename(jar())
    'brokerless.jar'
    """
    path = Path(__file__).with_name("brokerless.jar")
    if not path.is_file():
        raise FileNotFoundError(
            f"no {path.name} in {path.parent}: this brokerless was built without a JDK, and Spark reads and writes "
            "in Python; install a wheel, or run `make setup` with a JDK"
        )
    return os.fspath(path)
