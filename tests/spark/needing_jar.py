"""For tests of the jar: skips those of a module where the session has none."""

import os

import pytest

import brokerless.spark


def plan(frame):
    """Return the plan of a query, as Spark prints it."""
    return frame._jdf.queryExecution().executedPlan().toString()


def jar_or_skip():
    """Return the jar's path; skip the module that calls if the session does not have it."""
    try:
        path = brokerless.spark.jar()
    except FileNotFoundError:
        pytest.skip("built without a JDK", allow_module_level=True)
    if not os.environ.get("BROKERLESS_JAR"):
        pytest.skip("the session has no jar", allow_module_level=True)
    return path
