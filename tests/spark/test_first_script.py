"""A newcomer's script, run by the environment's Python with nothing activated and nothing set, finds the format."""

import os
import subprocess
import sys
import textwrap

import pytest

import brokerless as bl

IMPORTED_FIRST = """
    import brokerless.spark
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""
STARTED_FIRST = """
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    import brokerless.spark
"""


def ran(start, path, **environment):
    read = f"""
    print("rows:", spark.read.format("brokerless").option("path", {str(path)!r}).load().count())
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_", "VIRTUAL"))}
    kept |= {"PATH": os.pathsep.join(["/usr/bin", "/bin"]), "SPARK_LOCAL_IP": "127.0.0.1"}
    if "JAVA_HOME" in os.environ or (java := os.path.realpath(os.popen("command -v java").read().strip())):
        kept["JAVA_HOME"] = os.environ.get("JAVA_HOME") or os.path.dirname(os.path.dirname(java))
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(start) + textwrap.dedent(read)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=kept | environment,
    )


@pytest.fixture
def path(tmp_path):
    with bl.Producer(tmp_path / "data", "t") as producer:
        producer.send([{"value": b"%d" % number} for number in range(7)])
    return tmp_path / "data"


@pytest.mark.parametrize("start", [IMPORTED_FIRST, STARTED_FIRST], ids=["imported first", "started first"])
def test_a_script_finds_the_format(path, start):
    done = ran(start, path)
    assert "rows: 7" in done.stdout, done.stderr


def test_who_has_chosen_a_python_keeps_it(path):
    """A wrong one is not replaced in silence: it may be that of the cluster's machines."""
    done = ran(IMPORTED_FIRST, path, PYSPARK_PYTHON="/no/such/python")
    assert "rows" not in done.stdout
    assert "/no/such/python" in done.stderr
