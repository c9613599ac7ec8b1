"""The jar: the same source, whose batch reads of records run in the JVM."""

import os

import pytest
from own_spark import run

import brokerless.spark

try:
    JAR = brokerless.spark.jar()
except FileNotFoundError:
    pytest.skip("built without a JDK", allow_module_level=True)


def plan(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.skipif(not os.environ.get("BROKERLESS_JAR"), reason="the session has no jar")
def test_records_are_read_in_the_jvm_and_all_else_in_python(golden, load):
    path = golden / "logs/kafka-4.1"
    assert "ColumnarToRow" in plan(load(path, subscribe="codec-mixed"))
    for view in ("batches", "findings", "sums"):
        assert "ColumnarToRow" not in plan(load(path, view=view, subscribe="codec-mixed"))


@pytest.mark.skipif(not os.environ.get("BROKERLESS_JAR"), reason="the session has no jar")
def test_only_the_columns_of_a_query_are_decoded(golden, load):
    frame = load(golden / "logs/kafka-4.1", subscribe="codec-mixed").select("offset")
    assert "BatchScan brokerless[offset" in plan(frame)
    assert frame.count() == 605
    assert frame.distinct().count() == 605


def test_a_running_session_takes_the_jar(golden, tmp_path):
    """And the rows are those of the Python source."""
    done = run(
        f"""
        spark.sql("ADD JAR '{JAR}'")
        frame = spark.read.format("brokerless").option("includeHeaders", "true").load(PATH)
        assert "ColumnarToRow" in frame._jdf.queryExecution().executedPlan().toString()
        print("rows", frame.count())
        """,
        golden / "logs/kafka-4.1/codec-mixed-0",
    )
    assert "rows 605" in done.stdout, done.stderr
