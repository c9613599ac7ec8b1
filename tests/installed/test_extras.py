"""What the extras bring: Spark with the jar, the report, and a client that reads what `serve` serves."""

import contextlib
import subprocess
import sys
import textwrap

import pytest


def test_spark_reads_in_its_own_jvm(examples, environment):
    pytest.importorskip("pyspark")
    script = """
        import brokerless.spark

        spark = brokerless.spark.session({"spark.master": "local[1]", "spark.ui.enabled": "false"})
        rows = (spark.read.format("brokerless").option("path", "examples/data").option("subscribe", "multi-partition")
                .load())
        plan = rows._jdf.queryExecution().executedPlan().toString()
        print(rows.count(), "BatchScan" in plan and "ColumnarToRow" in plan)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=examples,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "600 True\n", done.stderr
    assert "no brokerless.jar" not in done.stderr


def test_the_report(examples, environment):
    pytest.importorskip("jinja2")
    command = ["brokerless", "report", "examples/incident", "--output", "report.html"]
    subprocess.run(command, cwd=examples, env=environment, check=False)
    assert "payments" in (examples / "report.html").read_text()


def test_a_client_reads_what_is_served(examples, environment):
    kafka = pytest.importorskip("kafka")
    command = ["brokerless", "serve", "examples/data", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=examples, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            address = server.stderr.readline().split()[-1]
            with contextlib.closing(
                kafka.KafkaConsumer(
                    "headers", bootstrap_servers=address, auto_offset_reset="earliest", consumer_timeout_ms=10_000
                )
            ) as consumer:
                assert next(consumer).key == b"k0"
        finally:
            server.terminate()
