"""The jar: where it is loaded from, and where it cannot be. Spark then reads in Python, or says what to do."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import both_ways
import pyspark
import pytest
from needing_jar import jar_or_skip
from own_spark import run

import brokerless as bl
import brokerless.spark

JAR = jar_or_skip()

FALLS_BACK = "brokerless reads and writes in Python: "
NO_DIRECTORY = "-Djava.io.tmpdir=/proc/nonexistent"


@pytest.fixture
def log(golden, tmp_path):
    """A log directory with a topic of 605 records."""
    shutil.copytree(golden / "logs/kafka-4.1/codec-mixed-0", tmp_path / "log/codec-mixed-0")
    return tmp_path / "log"


PATHS = [
    "with space",
    "ünïcödé 日本 😀",
    "quote'\"` back\\slash %41+&?#",
    "new\nline {a,b}*[c]",
]


@pytest.mark.parametrize("name", PATHS)
def test_a_path_of_any_name(spark, load, log, tmp_path, name):
    """Rust gets it as JSON. Neither half may take it for another one."""
    path = log.rename(tmp_path / name)
    for given in (str(path), json.dumps([str(path)])):
        frame = load(given)
        assert "ColumnarToRow" in frame._jdf.queryExecution().executedPlan().toString()
        assert (frame.count(), frame.where("offset < 5").count()) == (605, 5)
    frame = spark.range(10).selectExpr("cast(id as string) value")
    frame.write.format("brokerless").option("topic", "t").mode("append").save(str(path / "written"))
    assert load(path / "written").count() == 10


def test_a_path_that_is_not_utf_8_is_read_in_python(spark, load, log, tmp_path):
    """JSON has its bytes as halves of surrogate pairs, which are no text to the JVM's half."""
    both_ways.register(spark, str(tmp_path / "said"))
    path = log.rename(tmp_path / os.fsdecode(b"caf\xe9 \xff"))
    given = json.dumps([str(path)])
    frame = load(given)
    assert "ColumnarToRow" not in frame._jdf.queryExecution().executedPlan().toString()
    assert (frame.count(), frame.where("offset < 5").count()) == (605, 5)
    reader = spark.readStream.format("brokerless").option("startingOffsets", "earliest")
    query = reader.load(given).writeStream.format("memory").queryName("not_utf_8").trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    assert spark.table("not_utf_8").count() == 605


def with_library(to, change):
    """Copy the jar, with a change of the name and the bytes of its library."""
    with zipfile.ZipFile(JAR) as jar, zipfile.ZipFile(to, "w") as changed:
        for entry in jar.infolist():
            name, content = entry.filename, jar.read(entry)
            if name.startswith("native/") and not name.endswith("/"):
                name, content = change(name, content)
            changed.writestr(name, content)
    return to


READ_AND_WRITE = """
def read_and_written(session, written):
    frame = session.read.format("brokerless").load(PATH)
    frame.write.format("brokerless").mode("append").option("topic", "t").save(written)
    return frame.count(), session.read.format("brokerless").load(written).count()
"""


def test_a_temporary_directory_that_takes_no_library(log, tmp_path, monkeypatch):
    """It is said once, and Spark reads and writes in Python."""
    # Spark needs it to start, and has sockets there unless told otherwise.
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.python.unix.domain.socket.dir=/tmp pyspark-shell")
    (tmp_path / "temporary").mkdir()
    options = os.environ["SPARK_SUBMIT_OPTS"]
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"{options} -Djava.io.tmpdir={tmp_path}/temporary")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "spark"))
    code = """
        import shutil
        temporary = spark._jvm.java.lang.System.getProperty("java.io.tmpdir")
        shutil.rmtree(temporary)
        # A directory that is only missing would be made again. Spark's own jobs need one later.
        open(temporary, "w").close()
        frame = spark.read.format("brokerless").load(PATH)
        print("in the JVM:", "ColumnarToRow" in frame._jdf.queryExecution().executedPlan().toString())
        os.remove(temporary)
        os.mkdir(temporary)
        print(*(read_and_written(spark, PATH + str(i)) for i in range(2)))
        """
    done = run(READ_AND_WRITE + textwrap.dedent(code), log)
    assert "in the JVM: False" in done.stdout, done.stderr
    assert "(605, 605) (605, 605)" in done.stdout, done.stderr
    assert done.stderr.count(FALLS_BACK) == 1, done.stderr


def test_an_executor_that_cannot_load_the_library_says_what_to_do(log, tmp_path, monkeypatch):
    """It has been given work that needs the library: the driver could load it."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "spark"))
    code = f"""
        spark.stop()
        builder = SparkSession.builder.master("local-cluster[1,1,1024]")
        spark = builder.config("spark.executor.extraJavaOptions", "{NO_DIRECTORY}").getOrCreate()
        rows = spark.range(9).selectExpr("cast(id as string) value")
        frame = spark.read.format("brokerless").load(PATH)
        for action in (
            lambda: frame.count(),
            lambda: rows.write.format("brokerless").option("topic", "t").mode("append").save(PATH + "-written"),
        ):
            try:
                action()
            except Exception as error:
                print("said:", str(error).replace(chr(10), " "))
        """
    done = run(code, log)
    said = [line for line in done.stdout.splitlines() if line.startswith("said:")]
    assert len(said) == 2, done.stderr
    for line in said:
        assert "this executor cannot load brokerless's native library (" in line
        assert "set java.io.tmpdir to a directory that allows it, or leave out the jar" in line
    assert not list(Path(f"{log}-written").glob("*-delete"))


def script(code, tmp_path, command, *arguments):
    """Run a script in a process of its own, and return it finished."""
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(code))
    environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **os.environ}
    return subprocess.run(
        [*command, str(file), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**environment, "SPARK_HOME": os.path.dirname(pyspark.__file__)},
    )


def test_spark_submit_takes_the_jar(log, tmp_path):
    code = f"""
        import sys
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.getOrCreate()
        PATH = sys.argv[1]
        {textwrap.indent(READ_AND_WRITE, " " * 8)}
        print("rows", read_and_written(spark, PATH + "-written"))
        frame = spark.read.format("brokerless").load(PATH)
        print("in the JVM:", "ColumnarToRow" in frame._jdf.queryExecution().executedPlan().toString())
        """
    submit = Path(os.path.dirname(pyspark.__file__), "bin/spark-submit")
    done = script(code, tmp_path, [str(submit), "--master", "local[2]", "--jars", JAR], log)
    assert "rows (605, 605)" in done.stdout, done.stderr
    assert "in the JVM: True" in done.stdout
    assert bl.LogDirs(f"{log}-written").topics() == ["t"]


def test_a_session_that_another_thread_asks_for(log, tmp_path):
    """ADD JAR gives the classes to a loader of its own: not to a second one, where they would be other classes."""
    code = f"""
        import sys
        import threading
        import warnings
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession
        import brokerless.spark
        spark = SparkSession.builder.master("local[2]").getOrCreate()
        spark.sql("ADD JAR '{JAR}'")
        PATH = sys.argv[1]
        print("rows", spark.read.format("brokerless").load(PATH).count())
        {textwrap.indent(READ_AND_WRITE, " " * 8)}
        def ask():
            given = brokerless.spark.session()
            frame = given.read.format("brokerless").load(PATH)
            print("in the JVM:", "ColumnarToRow" in frame._jdf.queryExecution().executedPlan().toString())
            print("rows", read_and_written(given, PATH + "-asked"))
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        print("rows", read_and_written(spark, PATH + "-written"))
        print("headers", spark.read.format("brokerless").option("includeHeaders", "true").load(PATH).collect()[0][-1])
        """
    done = script(code, tmp_path, [sys.executable], log)
    assert "in the JVM: True" in done.stdout, done.stderr
    assert done.stdout.count("rows (605, 605)") == 2, done.stderr
    assert "headers" in done.stdout, done.stderr


def test_sessions_on_executors_of_their_own(log, tmp_path, monkeypatch):
    """One after the other in one driver, and beside a jar whose name only ends as ours does."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "spark"))
    monkeypatch.setenv("SPARK_HOME", os.path.dirname(pyspark.__file__))
    other = tmp_path / "my-brokerless.jar"
    with zipfile.ZipFile(other, "w") as jar:
        jar.writestr("nothing", b"")
    code = f"""
        import sys
        import brokerless.spark
        PATH = sys.argv[1]
        {textwrap.indent(READ_AND_WRITE, " " * 8)}
        for number in range(2):
            settings = {{"spark.master": "local-cluster[1,1,1024]", "spark.jars": "{other}"}}
            spark = brokerless.spark.session(settings)
            frame = spark.read.format("brokerless").load(PATH)
            print("in the JVM:", "ColumnarToRow" in frame._jdf.queryExecution().executedPlan().toString())
            print("rows", read_and_written(spark, PATH + str(number)))
            spark.stop()
        """
    done = script(code, tmp_path, [sys.executable], log)
    assert done.stdout.count("in the JVM: True") == 2, done.stderr
    assert done.stdout.count("rows (605, 605)") == 2, done.stderr


def test_sessions_of_spark_connect_have_jars_of_their_own(log, tmp_path):
    """Each loads the classes, and the library, again. Of two jars that have no good library, each is said once."""
    pytest.importorskip("grpc")
    garbage = with_library(tmp_path / "garbage.jar", lambda name, _: (name, b"garbage"))
    platform = with_library(
        tmp_path / "platform.jar", lambda name, content: (f"native/sparc/{Path(name).name}", content)
    )
    code = f"""
        import os
        import sys
        import warnings
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.remote("local[2]").getOrCreate()
        PATH = sys.argv[1]
        {textwrap.indent(READ_AND_WRITE, " " * 8)}
        jars = {[JAR, str(garbage), JAR, str(platform)]}
        sessions = [spark.newSession() for _ in jars]
        for session, jar in zip(sessions, jars, strict=True):
            session.addArtifact(jar)
        for number, again in [(0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (3, 1)]:
            session = sessions[number]
            frame = session.read.format("brokerless").load(PATH)
            rows = read_and_written(session, f"{{PATH}}-{{number}}-{{again}}")
            print("session", number, "in the JVM:", "ColumnarToRow" in frame._explain_string(), rows, flush=True)
        # Closing several sessions may wait for ever in gRPC.
        os._exit(0)
        """
    done = script(code, tmp_path, [sys.executable], log)
    found = [line for line in done.stdout.splitlines() if line.startswith("session")]
    assert found == [f"session {number} in the JVM: {number in (0, 2)} (605, 605)" for number in (0, 1, 2, 3, 1, 3)], (
        done.stderr
    )
    assert done.stderr.count(FALLS_BACK) == 2, done.stderr
    assert f"{FALLS_BACK}the jar has no library for this platform: /native/" in done.stderr
