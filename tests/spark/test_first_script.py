"""A newcomer's script, run by the environment's Python with nothing activated and nothing set, finds the format."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

import brokerless as bl
import brokerless.spark

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
OURS = """
    import brokerless.spark
    spark = brokerless.spark.session({"spark.master": "local[1]", "spark.ui.enabled": "false"})
"""
READ = """
    import sys
    print("rows:", spark.read.format("brokerless").option("path", sys.argv[1]).load().count())
"""
# The JVM goes on, without a session.
OURS_AFTER_ANOTHER = f"{IMPORTED_FIRST}{READ}\n    spark.stop()\n    spark = brokerless.spark.session()\n"
OURS_STARTED_FIRST = f"{STARTED_FIRST}{READ}\n    spark = brokerless.spark.session()\n"
PLAN = """
    spark.read.format("brokerless").option("path", sys.argv[1]).load().explain()
"""


def ran(code, path, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_", "VIRTUAL"))}
    kept |= {"PATH": os.pathsep.join(["/usr/bin", "/bin"]), "SPARK_LOCAL_IP": "127.0.0.1"}
    kept["SPARK_SUBMIT_OPTS"] = os.environ["SPARK_SUBMIT_OPTS"]
    # Java may be elsewhere than on the bare PATH.
    java = os.path.realpath(shutil.which("java"))
    kept["JAVA_HOME"] = os.environ.get("JAVA_HOME") or os.path.dirname(os.path.dirname(java))
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(path)],
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


def has_jar():
    """Return whether the package has its jar."""
    try:
        brokerless.spark.jar()
    except FileNotFoundError:
        return False
    return True


@pytest.mark.parametrize(
    ("start", "reads"),
    [(OURS, 1), (OURS_STARTED_FIRST, 2), (OURS_AFTER_ANOTHER, 2)],
    ids=["new", "after one that was started first", "after one that was started behind the import"],
)
def test_a_script_finds_the_format_and_a_session_of_ours_reads_in_the_jvm_if_there_is_a_jar(path, start, reads):
    done = ran(start + READ + PLAN, path)
    assert done.stdout.count("rows: 7") == reads, done.stderr
    assert ("ColumnarToRow" in done.stdout) == has_jar()
    # Spark's listeners find the jar's metrics.
    assert "ClassNotFoundException" not in done.stderr


def test_a_session_of_ours_reads_in_the_jvm_and_keeps_the_jars_that_it_is_given(path, tmp_path):
    other = tmp_path / "other's.jar"
    shutil.make_archive(str(other), "zip", path)
    other = other.with_name(f"{other.name}.zip").rename(other)
    start = f"""
    import brokerless.spark
    settings = {{"spark.master": "local[1]", "spark.ui.enabled": "false", "spark.jars": {str(other)!r}}}
    spark = brokerless.spark.session(settings)
    print("jars:", spark.sparkContext._jsc.sc().listJars())
"""
    done = ran(start + READ + PLAN, path)
    assert "other" in done.stdout, done.stderr
    assert "rows: 7" in done.stdout, done.stderr
    assert ("ColumnarToRow" in done.stdout) == has_jar()
    assert "ClassNotFoundException" not in done.stderr


def test_who_has_chosen_a_python_keeps_it(path):
    """It may be that of the cluster's machines."""
    done = ran(
        "import brokerless.spark, os; print(os.environ['PYSPARK_PYTHON'])", path, PYSPARK_PYTHON="/no/such/python"
    )
    assert done.stdout.split() == ["/no/such/python"]
